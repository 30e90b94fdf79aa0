"""Writing the answer with the local model: greedy, streamed, stoppable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from provenance.errors import ProvenanceError
from provenance.generation.models import LanguageModel
from provenance.records import Answer, Prompt

if TYPE_CHECKING:
    from provenance.methods.readout import Readout

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_REPEAT_WINDOW = 12  # tokens; a longer verbatim run that follows itself is a loop


@dataclass(frozen=True, slots=True)
class Written:
    """A finished answer, with what was read or kept on the way.

    `readout` is the attention seen while decoding, None where it was not asked for
    or could not be read; `cache` is the key-value cache of prompt and answer.
    """

    answer: Answer
    readout: Readout | None = None
    cache: Any | None = None


class LocalWriter:
    """Writes with a loaded model. One answer at a time per model."""

    def __init__(
        self, lm: LanguageModel, read_attention: bool = True, layers: Callable[[], Iterable[int] | None] | None = None
    ) -> None:
        """`layers` says, at each answer, whose attention is read: the numbers of layers, None for all of them."""
        self.lm = lm
        self.read_attention = read_attention
        self._layers = layers
        self._lock = threading.Lock()

    def stream(
        self, prompt: Prompt, *, max_new_tokens: int, stop: threading.Event | None = None
    ) -> Generator[str, None, Written]:
        """Yield the answer's text as it grows and return it with its token ids.

        Greedy. Ends at an end marker, at `max_new_tokens`, when the model starts to
        repeat itself word for word, or when `stop` is set; then what was written so far is returned
        with `finish == "stopped"`. Raises ProvenanceError where the prompt leaves no room.
        """
        import torch

        room = self.lm.context_window - len(prompt.token_ids)
        if room < 1:
            raise ProvenanceError("The passages leave no room for an answer in this model's context window.")
        limit = min(max_new_tokens, room)
        ends = _end_ids(self.lm)
        model, device = self.lm.model, self.lm.device
        ids: list[int] = []
        shown = 0
        finish: Literal["end", "length", "stopped"] = "length"
        with self._lock, torch.inference_mode(), self._reading(prompt) as reader:
            output = model(torch.tensor([prompt.token_ids], device=device), use_cache=True, logits_to_keep=1)
            began = time.perf_counter()
            while True:
                if stop is not None and stop.is_set():
                    finish = "stopped"
                    break
                token = int(output.logits[0, -1].argmax())
                if token in ends:
                    finish = "end"
                    break
                ids.append(token)
                loop = _loop_length(ids)
                if loop:
                    del ids[-loop:]
                    finish = "end"
                    break
                text = self._decode(ids)
                if len(text) > shown and not text.endswith(_REPLACEMENT):
                    yield text[shown:]
                    shown = len(text)
                if len(ids) >= limit:
                    break
                output = model(
                    torch.tensor([[token]], device=device), cache=output.cache, use_cache=True, logits_to_keep=1
                )
            seconds = time.perf_counter() - began
            readout = reader.readout(len(ids)) if reader is not None and ids else None
        answer = Answer(
            text=self._decode(ids),
            token_ids=tuple(ids),
            model=self.lm.name,
            revision=self.lm.revision,
            finish=finish,
            tokens_per_second=len(ids) / seconds if ids and seconds > 0 else None,
        )
        return Written(answer, readout, output.cache)

    @contextmanager
    def _reading(self, prompt: Prompt) -> Iterator[Any]:
        if not self.read_attention or not prompt.sources:
            yield None
            return
        from provenance.methods.readout import read_attention

        with read_attention(self.lm, prompt, layers=self._layers() if self._layers else None) as reader:
            yield reader

    def _decode(self, ids: list[int]) -> str:
        return str(self.lm.tokenizer.decode(ids, skip_special_tokens=True))


def _end_ids(lm: LanguageModel) -> frozenset[int]:
    """Every id that ends an answer: the tokenizer's and the generation settings' end tokens."""
    found = {lm.tokenizer.eos_token_id}
    config = getattr(lm.model, "generation_config", None)
    configured = getattr(config, "eos_token_id", None)
    found.update(configured if isinstance(configured, list) else [configured])
    return frozenset(i for i in found if i is not None)


def _loop_length(ids: list[int]) -> int:
    """How many tokens at the end repeat the ones right before them, where that is a loop; else 0."""
    for size in range(_REPEAT_WINDOW, len(ids) // 2 + 1):
        if ids[-size:] == ids[-2 * size : -size]:
            return size
    if len(ids) >= 24 and len(set(ids[-24:])) <= 2:
        return 23
    return 0
