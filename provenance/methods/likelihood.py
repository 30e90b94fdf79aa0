"""What a model's answer gains from its passages: teacher-forced log-probabilities under ablation.

The prompt is `[P | D1 … DN | S]` and A is the answer. Two ways to take a passage away:

- **masked** (fast): the key-value cache of `[P | D1 … DN]` is kept, and `[S | A]` is run with
  a mask that hides the dropped blocks from it. What stood before a dropped block moves up to close the
  gap, as it would if its text were removed: with rotary positions that is a rotation of the cached keys
  (Su et al., 2021). Later passages keep what they read from a dropped one, so this is the direct effect;
  where no passage follows the dropped ones it is what exact removal gives.
- **exact**: the tokens of the block are removed and the rest is run again; the part before the
  first removed block is taken from the cache.

Several masked tails are run as one batch over the shared cache, whose keys each tail sees rotated
its own way; that copy lives for one layer at a time.
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
from provenance.methods.readout import Readout, grouped_queries, read_attention, takes_boolean_masks
from provenance.methods.thread import build_thread
from provenance.records import Prompt

if TYPE_CHECKING:
    import torch

    Layers = tuple[tuple[torch.Tensor, torch.Tensor], ...]
    Rotations = tuple["Rotation | None", ...] | None
    Mover = Callable[[torch.Tensor, torch.Tensor], None]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Fraction = Callable[[float, str], None]

_ROTATIONS = "rotations"
_PROBE = 61  # positions; enough to turn the quick pairs around and the slow ones measurably
BATCH_ROWS = 512
"""Tail tokens per forward pass: enough to keep the cores busy, few enough to bound the copies of the keys."""


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
        _run(lm, [prompt.token_ids[:length]], cache, keep=1)
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
    batch_rows: int = BATCH_ROWS,
    progress: Fraction = silent,
) -> FloatArray:
    """The answer's log-probabilities under each mask; shape (M, |A|).

    `masks` is boolean of shape (M, N): True keeps a block in sight of `[S | A]`. In a model whose positions
    are not rotary the gap of a dropped block stays. Raises Unavailable for hybrid models, whose other
    layers a mask cannot reach.
    """
    import torch

    _refuse_hybrid(lm)
    prompt = prefix.prompt
    answer = list(answer_ids)
    found = np.zeros((len(masks), len(answer)))
    if not answer or not len(masks):
        return found
    tail = [*prompt.token_ids[prefix.length :], *answer[:-1]]
    rotations = rotations_of(lm)
    per_pass = max(1, batch_rows // len(tail))
    with grouped_queries(lm.model):
        for start in range(0, len(masks), per_pass):
            chosen = masks[start : start + per_pass]
            count = len(chosen)
            moved = _moved(prefix, chosen) if rotations else torch.zeros(count, prefix.length)
            visible = _visible(lm, prefix, chosen, moved, len(tail))
            positions = torch.arange(prefix.length, prefix.length + len(tail)).repeat(count, 1)
            cache = _frozen_cache(prefix.layers, rotations, moved.to(lm.device))
            logits = _run(lm, [tail] * count, cache, keep=len(answer), mask=visible, positions=positions)
            found[start : start + count] = [_gather(row, answer) for row in logits]
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
            logits = _run(self.lm, [tail], _frozen_cache(prefix.layers), keep=len(answer) + 1)[0]
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


def _moved(prefix: Prefix, masks: BoolArray) -> torch.Tensor:
    """By how many positions each key of the prefix moves up: the dropped tokens after it; shape (M, length)."""
    import torch

    moved = torch.zeros(len(masks), prefix.length)
    for i, block in enumerate(prefix.prompt.block_tokens):
        moved[torch.from_numpy(~masks[:, i]), : block.start] += block.stop - block.start
    return moved


def _visible(lm: LanguageModel, prefix: Prefix, masks: BoolArray, moved: torch.Tensor, tail: int) -> Any:
    """Which keys each row of each tail sees, as the model's attention takes it."""
    import torch

    count, length = len(masks), prefix.length
    seen = torch.ones(count, length, dtype=torch.bool)
    for i, block in enumerate(prefix.prompt.block_tokens):
        seen[torch.from_numpy(~masks[:, i]), block.start : block.stop] = False
    causal = torch.ones(tail, tail, dtype=torch.bool).tril()
    visible = torch.cat([seen[:, None].expand(-1, tail, -1), causal.expand(count, -1, -1)], dim=2)[:, None]
    queries = torch.arange(length, length + tail)
    keys = torch.cat([torch.arange(length) + moved, queries.expand(count, -1)], dim=1)
    config = lm.model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - {"full_attention", "sliding_attention"}:
        raise Unavailable(f"{lm.name} has layers of another kind than full or sliding attention.")
    near = visible & (queries[:, None] - keys[:, None, None] < window) if window else visible
    if "sliding_attention" in kinds and _takes_mask_per_kind(lm):
        return {"full_attention": _for_kernel(lm, visible), "sliding_attention": _for_kernel(lm, near)}
    return _for_kernel(lm, near if "full_attention" not in kinds else visible)


def _takes_mask_per_kind(lm: LanguageModel) -> bool:
    """Whether the model picks each layer's mask from a dictionary by the layer's kind."""
    base = getattr(lm.model, lm.model.base_model_prefix, lm.model)
    return "causal_mask_mapping" in inspect.getsource(inspect.unwrap(type(base).forward))


def _for_kernel(lm: LanguageModel, visible: torch.Tensor) -> torch.Tensor:
    """A boolean mask where that is taken, an additive one in the model's float type for every other attention."""
    import torch

    visible = visible.to(lm.device)
    if takes_boolean_masks(lm.model.config.get_text_config()):
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
    return _gather(_run(lm, [[*prompt_ids, *answer[:-1]]], cache, keep=len(answer))[0], answer)


def _run(
    lm: LanguageModel, ids: Sequence[Sequence[int]], cache: Any, *, keep: int, mask: Any = None, positions: Any = None
) -> torch.Tensor:
    """One pass over a batch of threads of one length; returns their last logits, (threads, keep, vocabulary)."""
    import torch

    model, device = lm.model, lm.device
    names = inspect.signature(model.forward).parameters
    arguments: dict[str, Any] = {"use_cache": cache is not None}
    if cache is not None:
        arguments["cache" if "cache" in names else "past_key_values"] = cache
    if mask is not None:
        arguments["attention_mask"] = mask
    if positions is not None:
        arguments["position_ids"] = positions.to(device)
    if "logits_to_keep" in names:
        arguments["logits_to_keep"] = keep
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([list(thread) for thread in ids], device=device), **arguments).logits
    return logits[:, -keep:]


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


def _frozen_cache(layers: Layers, rotations: Rotations = None, moved: torch.Tensor | None = None) -> Any:
    """A cache that shows `layers` before the new tokens and keeps nothing of them.

    With `moved` (threads, length) every thread sees the keys moved up by so many positions.
    """
    from transformers.cache_utils import Cache

    moves: list[Mover | None] = [None] * len(layers)
    if rotations and moved is not None:
        # The layers of a model share one or two sets of frequencies: the angles are worked out once for each.
        known = {id(r): r.mover(moved) for r in rotations if r is not None}
        moves = [None if r is None else known[id(r)] for r in rotations]
    return Cache(layers=[_frozen_layer(k, v, move) for (k, v), move in zip(layers, moves, strict=True)])


def _frozen_layer(keys: torch.Tensor, values: torch.Tensor, move: Mover | None) -> Any:
    from transformers.cache_utils import DynamicLayer

    length = keys.shape[2]

    def seen(before: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        threads, heads, rows, size = new.shape
        whole = new.new_empty((threads, heads, length + rows, size))
        whole[:, :, length:] = new
        if move and before is keys:
            move(keys, whole[:, :, :length])
        else:
            whole[:, :, :length] = before
        return whole

    class Frozen(DynamicLayer):  # type: ignore[misc]
        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            return seen(keys, key_states), seen(values, value_states)

    layer = Frozen()
    layer.lazy_initialization(keys, values)
    layer.keys, layer.values = keys, values
    return layer


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """How a layer turns its keys with their position: by `frequencies` (radians per position), pair by pair.

    A pair is two neighbours where `neighbours`, else a dimension of the first half and its like in the second.
    """

    frequencies: torch.Tensor
    neighbours: bool

    def move(self, keys: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        """Keys (1, heads, length, size) as they were at positions higher by `by` (threads, length)."""
        moved = keys.new_empty((len(by), *keys.shape[1:]))
        self.mover(by)(keys, moved)
        return moved

    def mover(self, by: torch.Tensor) -> Mover:
        """`move` for the keys of many layers, written into a tensor given: the angles are worked out once."""
        import torch

        angles = by[:, None, :, None] * self.frequencies
        cosines, sines = angles.cos(), angles.sin()
        half = len(self.frequencies)
        places = (
            (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if self.neighbours else (slice(half), slice(half, 2 * half))
        )

        def move(keys: torch.Tensor, into: torch.Tensor) -> None:
            one, other = (keys[..., place].float() for place in places)
            into[..., 2 * half :] = keys[..., 2 * half :]
            target = into if into.dtype == torch.float32 else into.float()
            for place, own, turned, sign in ((places[0], one, other, -1), (places[1], other, one, 1)):
                torch.mul(own, cosines, out=target[..., place]).addcmul_(turned, sines, value=sign)
            if target is not into:
                into.copy_(target)

        return move


def rotations_of(lm: LanguageModel) -> Rotations:
    """Each layer's rotation, None for a layer that knows no positions; None for a model of other positions.

    Found by trying: a single token attends only to itself, so at two positions its keys differ by
    the rotation alone, in every layer. Kept with the model.
    """
    if _ROTATIONS not in lm._cache:
        lm._cache[_ROTATIONS] = _find_rotations(lm)
    return lm._cache[_ROTATIONS]  # type: ignore[no-any-return]


def _find_rotations(lm: LanguageModel) -> Rotations:
    import torch

    there = []
    for place in (0, _PROBE):
        cache = _fresh_cache()
        _run(lm, [[lm.tokenizer.eos_token_id or 0]], cache, keep=1, positions=torch.tensor([[place]]))
        layers = _layers(cache, 1)
        if layers is None:
            return None
        there.append([keys for keys, _ in layers])
    frequencies = [b.float() for name, b in lm.model.named_buffers() if name.endswith("inv_freq")]
    candidates = [Rotation(f, neighbours) for f in frequencies for neighbours in (False, True)]
    by = torch.full((1, 1), float(_PROBE), device=lm.device)
    found: list[Rotation | None] = []
    for start, stop in zip(*there, strict=True):
        if _alike(start, stop):
            found.append(None)
            continue
        fits = [c for c in candidates if 2 * len(c.frequencies) <= start.shape[-1] and _alike(c.move(start, by), stop)]
        if not fits:
            return None
        found.append(fits[0])
    return tuple(found) if any(found) else None


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    import torch

    tolerance = 1e-3 if a.dtype == torch.float32 else 3e-2
    return bool((a - b).abs().max() <= tolerance * b.abs().max())
