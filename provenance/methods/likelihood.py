"""What a model's answer gains from its passages: teacher-forced log-probabilities under ablation.

The prompt is `[P | D1 … DN | S]` and A is the answer. Two ways to take a passage away:

- **masked** (fast): the key-value cache of `[P | D1 … DN]` is kept, and `[S | A]` is run with
  a mask that hides the dropped blocks from it. Positions stay where they were. Later passages
  keep what they read from a dropped one, so this is the direct effect.
- **exact**: the tokens of the block are removed and the rest is run again; the part before the
  first removed block is taken from the cache.

Several masked tails are packed side by side into one sequence of batch size one, each seeing
only itself and the kept blocks: the cache is then never copied or expanded over a batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from provenance.errors import Unavailable
from provenance.generation.models import LanguageModel
from provenance.methods.base import Case, silent
from provenance.methods.readout import Readout, read_attention
from provenance.methods.thread import build_thread
from provenance.records import Prompt, Span

if TYPE_CHECKING:
    import torch

    Layers = tuple[tuple[torch.Tensor, torch.Tensor], ...]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Fraction = Callable[[float, str], None]

PACKED_ROWS = 384
"""Tail tokens per forward pass: enough to keep the cores busy, few enough that the packed tails,
which compute and discard their attention to each other, waste little."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The key-value cache of `[P | D1 … DN]`. Never written to, so it can be shared.

    `layers[l]` is a pair of tensors of shape (1, key-value heads, length, head size).
    """

    prompt: Prompt
    layers: Layers
    length: int


def build_prefix(lm: LanguageModel, prompt: Prompt) -> Prefix:
    """Run the part of the prompt up to the last passage once. Raises Unavailable for a hybrid model."""
    _refuse_hybrid(lm)
    length = _prefix_length(prompt)
    cache = _fresh_cache()
    if length:
        _run(lm, prompt.token_ids[:length], cache, keep=1)
    return Prefix(prompt, _layers(cache, length) or (), length)


def prefix_from_cache(prompt: Prompt, cache: Any) -> Prefix | None:
    """The prefix cut out of a cache that has read the whole prompt, e.g. the writer's.

    None where it cannot be: a layer has already forgotten the start (sliding window), or is no attention layer.
    """
    length = _prefix_length(prompt)
    layers = _layers(cache, length)
    return Prefix(prompt, layers, length) if layers else None


def answer_logprobs(lm: LanguageModel, prompt: Prompt, answer_ids: Sequence[int]) -> FloatArray:
    """`log p(a_t | prompt, a_<t)` for each answer token, in nats; shape (|A|,). One plain pass."""
    return _plain(lm, prompt.token_ids, answer_ids, None)


def without_documents(lm: LanguageModel, prompt: Prompt, answer_ids: Sequence[int]) -> FloatArray:
    """The answer's log-probabilities when every passage block is removed from the prompt; shape (|A|,).

    A short pass over `[P | S | A]`; needs no prefix and works for every model.
    """
    return exact_logprobs(lm, prompt, answer_ids, np.zeros(len(prompt.block_tokens), dtype=bool))


def exact_logprobs(
    lm: LanguageModel, prompt: Prompt, answer_ids: Sequence[int], kept: BoolArray, prefix: Prefix | None = None
) -> FloatArray:
    """The answer's log-probabilities with the blocks outside `kept` (shape (N,)) removed; shape (|A|,).

    With a `prefix` the part before the first removed block is not run again.
    """
    ids: list[int] = []
    position, shared = 0, None
    for keep, block in zip(kept, prompt.block_tokens, strict=True):
        if keep:
            continue
        ids.extend(prompt.token_ids[position : block.start])
        shared = len(ids) if shared is None else shared
        position = block.stop
    ids.extend(prompt.token_ids[position:])
    if prefix is None or lm.hybrid:
        return _plain(lm, ids, answer_ids, None)
    reuse = min(prefix.length if shared is None else shared, prefix.length)
    return _plain(lm, ids[reuse:], answer_ids, tuple((k[:, :, :reuse], v[:, :, :reuse]) for k, v in prefix.layers))


def masked_logprobs(
    lm: LanguageModel,
    prefix: Prefix,
    answer_ids: Sequence[int],
    masks: BoolArray,
    *,
    spans: Sequence[Span] | None = None,
    packed_rows: int = PACKED_ROWS,
    progress: Fraction = silent,
) -> FloatArray:
    """The answer's log-probabilities under each mask; shape (M, |A|).

    `masks` is boolean of shape (M, N): True keeps a block in sight of `[S | A]`.
    With `spans` its columns stand for these token spans of the prefix instead of the blocks. Raises
    Unavailable for hybrid models, whose other layers a mask cannot reach.
    """
    import torch

    _refuse_hybrid(lm)
    prompt = prefix.prompt
    answer = list(answer_ids)
    found = np.zeros((len(masks), len(answer)))
    if not answer or not len(masks):
        return found
    tail = [*prompt.token_ids[prefix.length :], *answer[:-1]]
    per_pass = max(1, packed_rows // len(tail))
    for start in range(0, len(masks), per_pass):
        chosen = masks[start : start + per_pass]
        count = len(chosen)
        visible = _packed_mask(lm, prefix, spans or prompt.block_tokens, chosen, len(tail))
        positions = torch.arange(prefix.length, prefix.length + len(tail)).repeat(count)
        rows = torch.tensor(
            [r for c in range(count) for r in range((c + 1) * len(tail) - len(answer), (c + 1) * len(tail))]
        )
        logits = _run(lm, tail * count, _frozen_cache(prefix.layers), keep=rows, mask=visible, positions=positions)
        found[start : start + count] = _gather(logits, answer * count).reshape(count, len(answer))
        progress((start + count) / len(masks), f"{start + count} of {len(masks)} combinations")
    return found


class Likelihood:
    """Every log-probability of one case, computed once: methods of one turn share it.

    `masked` and `exact` take masks of shape (M, N) and return (M, |A|).
    """

    def __init__(self, lm: LanguageModel, prompt: Prompt, answer_ids: Sequence[int], cache: Any | None = None) -> None:
        self.lm = lm
        self.prompt = prompt
        self.answer_ids = tuple(answer_ids)
        self._cache = cache
        self._prefix: Prefix | None = None
        self._known: dict[tuple[str, bytes], FloatArray] = {}

    @property
    def prefix(self) -> Prefix:
        """The cache up to the last passage; taken from the writer's where that is whole, else run now."""
        if self._prefix is None:
            given = prefix_from_cache(self.prompt, self._cache) if self._cache is not None else None
            self._prefix = given or build_prefix(self.lm, self.prompt)
            self._cache = None
        return self._prefix

    def read(self) -> Readout:
        """The attention of the thread, from one pass over what follows the last passage.

        The answer's likelihood with every passage in sight comes with it and is kept.
        """
        import torch

        prompt, answer = self.prompt, list(self.answer_ids)
        prefix = self.prefix
        with torch.inference_mode(), read_attention(self.lm, prompt, start=prefix.length) as reader:
            tail = [*prompt.token_ids[prefix.length :], *answer]
            logits = _run(self.lm, tail, _frozen_cache(prefix.layers), keep=len(answer) + 1)
        everything = np.ones(len(prompt.block_tokens), dtype=bool)
        self._known.setdefault(("masked", everything.tobytes()), _gather(logits[:-1], answer))
        return reader.readout(len(answer))

    def masked(self, masks: BoolArray, progress: Fraction = silent) -> FloatArray:
        """As `masked_logprobs`; a mask that was asked for before costs nothing."""
        wanted = {mask.tobytes(): mask for mask in masks if ("masked", mask.tobytes()) not in self._known}
        if wanted:
            rows = masked_logprobs(
                self.lm, self.prefix, self.answer_ids, np.stack(list(wanted.values())), progress=progress
            )
            self._known.update({("masked", key): row for key, row in zip(wanted, rows, strict=True)})
        return self._rows("masked", masks)

    def exact(self, masks: BoolArray, progress: Fraction = silent) -> FloatArray:
        """As `exact_logprobs`, one mask after the other."""
        for index, mask in enumerate(masks):
            if ("exact", mask.tobytes()) not in self._known:
                # With nothing kept the prompt is short; a prefix run for that alone would be a waste.
                prefix = self.prefix if mask.any() and not self.lm.hybrid else self._prefix
                row = exact_logprobs(self.lm, self.prompt, self.answer_ids, mask, prefix)
                self._known["exact", mask.tobytes()] = row
            progress((index + 1) / len(masks), f"{index + 1} of {len(masks)} runs")
        return self._rows("exact", masks)

    def _rows(self, kind: str, masks: BoolArray) -> FloatArray:
        if not len(masks):
            return np.zeros((0, len(self.answer_ids)))
        return np.stack([self._known[kind, mask.tobytes()] for mask in masks])


def likelihood_of(lm: LanguageModel, case: Case) -> Likelihood:
    """The shared Likelihood of a case, kept in `case.scratch["likelihood"]`.

    `case.scratch["cache"]` may hold the writer's key-value cache of prompt and answer.
    Raises as `build_thread` does where a pasted answer has no thread this model can read.
    """
    scratch = case.scratch if case.scratch is not None else {}
    known = scratch.get("likelihood")
    if isinstance(known, Likelihood) and known.lm is lm:
        return known
    thread = build_thread(case, lm)
    cache = scratch.get("cache") if thread.prompt is case.prompt else None
    made = Likelihood(lm, thread.prompt, thread.answer_ids, cache)
    scratch["likelihood"] = made
    return made


def all_but_one(n: int) -> BoolArray:
    """The N masks that each drop one block; shape (N, N)."""
    return ~np.eye(n, dtype=bool)


def _refuse_hybrid(lm: LanguageModel) -> None:
    if lm.hybrid:
        raise Unavailable(
            f"{lm.name} has recurrent or convolutional layers, which a mask cannot take a passage out of; "
            "only exact removal works for it."
        )


def _prefix_length(prompt: Prompt) -> int:
    return prompt.block_tokens[-1].stop if prompt.block_tokens else 0


def _packed_mask(lm: LanguageModel, prefix: Prefix, spans: Sequence[Span], masks: BoolArray, tail: int) -> Any:
    """Who sees whom when `len(masks)` tails are packed after the prefix: True is visible."""
    import torch

    count, length = len(masks), prefix.length
    seen = torch.ones(count, length, dtype=torch.bool)
    for i, block in enumerate(spans):
        seen[~torch.from_numpy(masks[:, i].copy()), block.start : block.stop] = False
    causal = torch.ones(tail, tail).tril()
    own = torch.kron(torch.eye(count), causal).bool()
    visible = torch.cat([seen.repeat_interleave(tail, dim=0), own], dim=1)[None, None]
    queries = torch.arange(length, length + tail).repeat(count)
    keys = torch.cat([torch.arange(length), queries])
    config = lm.model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - {"full_attention", "sliding_attention"}:
        raise Unavailable(f"{lm.name} has layers of another kind than full or sliding attention.")
    near = visible & (queries[:, None] - keys[None, :] < window) if window else visible
    if "sliding_attention" in kinds and _takes_mask_per_kind(lm):
        return {"full_attention": _for_kernel(lm, visible), "sliding_attention": _for_kernel(lm, near)}
    return _for_kernel(lm, near if "full_attention" not in kinds else visible)


def _takes_mask_per_kind(lm: LanguageModel) -> bool:
    """Whether the model picks each layer's mask from a dictionary by the layer's kind."""
    base = getattr(lm.model, lm.model.base_model_prefix, lm.model)
    return "causal_mask_mapping" in inspect.getsource(inspect.unwrap(type(base).forward))


def _for_kernel(lm: LanguageModel, visible: torch.Tensor) -> torch.Tensor:
    """A boolean mask for sdpa, an additive one in the model's float type for every other attention."""
    import torch

    visible = visible.to(lm.device)
    if lm.model.config.get_text_config()._attn_implementation == "sdpa":
        return visible
    dtype = next(lm.model.parameters()).dtype
    return torch.zeros(visible.shape, dtype=dtype, device=lm.device).masked_fill(~visible, torch.finfo(dtype).min)


def _plain(
    lm: LanguageModel, prompt_ids: Sequence[int], answer_ids: Sequence[int], layers: Layers | None
) -> FloatArray:
    """Log-probabilities of the answer after `prompt_ids`, which continue the cache `layers` where given."""
    answer = list(answer_ids)
    if not answer:
        return np.zeros(0)
    cache = _frozen_cache(layers) if layers else None
    return _gather(_run(lm, [*prompt_ids, *answer[:-1]], cache, keep=len(answer)), answer)


def _run(
    lm: LanguageModel, ids: Sequence[int], cache: Any, *, keep: Any, mask: Any = None, positions: Any = None
) -> torch.Tensor:
    """One pass; returns the logits of the kept rows, shape (rows, vocabulary). `keep` is a count or row indices."""
    import torch

    model, device = lm.model, lm.device
    names = inspect.signature(model.forward).parameters
    arguments: dict[str, Any] = {"use_cache": cache is not None}
    if cache is not None:
        arguments["cache" if "cache" in names else "past_key_values"] = cache
    if mask is not None:
        arguments["attention_mask"] = mask
    if positions is not None:
        arguments["position_ids"] = positions[None].to(device)
    selects = "logits_to_keep" in names
    if selects:
        arguments["logits_to_keep"] = keep if isinstance(keep, int) else keep.to(device)
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([list(ids)], device=device), **arguments).logits[0]
    if selects:
        return logits
    return logits[-keep:] if isinstance(keep, int) else logits[keep.to(device)]


def _gather(logits: torch.Tensor, targets: Sequence[int]) -> FloatArray:
    import torch

    wanted = torch.tensor(list(targets), device=logits.device)[:, None]
    logits = logits.float()
    chosen = logits.gather(1, wanted)[:, 0] - logits.logsumexp(dim=1)
    return chosen.double().cpu().numpy()


def _fresh_cache() -> Any:
    from transformers import DynamicCache

    # Without a configuration every layer keeps its whole past; a sliding window is the mask's business.
    return DynamicCache()


def _layers(cache: Any, length: int) -> Layers | None:
    """The first `length` positions of every layer, or None where a layer no longer has them."""
    found = []
    for layer in getattr(cache, "layers", None) or ():
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None or values is None or keys.ndim != 4 or keys.shape[0] != 1:
            return None
        if getattr(layer, "is_sliding", False) and keys.shape[2] < layer.get_seq_length():
            return None
        if keys.shape[2] < length:
            return None
        found.append((keys[:, :, :length], values[:, :, :length]))
    return tuple(found)


def _frozen_cache(layers: Layers) -> Any:
    """A cache that shows `layers` before the new tokens and keeps nothing of them."""
    from transformers.cache_utils import Cache

    return Cache(layers=[_frozen_layer(keys, values) for keys, values in layers])


def _frozen_layer(keys: torch.Tensor, values: torch.Tensor) -> Any:
    import torch
    from transformers.cache_utils import DynamicLayer

    class Frozen(DynamicLayer):  # type: ignore[misc]
        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            return torch.cat([self.keys, key_states], dim=-2), torch.cat([self.values, value_states], dim=-2)

    layer = Frozen()
    layer.lazy_initialization(keys, values)
    layer.keys, layer.values = keys, values
    return layer
