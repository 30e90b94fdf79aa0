"""Reading attention while the model runs, reduced to span sums on the fly.

The model's attention runs as usual (scaled-dot-product, no weights kept). Beside
it, for the few rows that are wanted, q·kᵀ and its softmax are computed and summed
over the spans of the passages, the question and the answer at once. So a pass over
T tokens keeps rows × layers × heads × spans numbers instead of layers × heads × T × T.

Rows are read in a teacher-forced pass, in a prefill, and while an answer is decoded
token by token with a key-value cache: there the queries are set aside and reduced
in batches, since the keys they need stay in the cache.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from provenance.errors import Unavailable
from provenance.records import Prompt, Span

if TYPE_CHECKING:
    import torch

    from provenance.generation.models import LanguageModel

Floats = npt.NDArray[np.float32]
Head = tuple[int, int]
"""(layer, head), both counted from 0 in the model's own numbering."""

_IMPLEMENTATION = "receipts_readout"
_BATCH = 64  # rows reduced at once: bounds the scratch memory at heads × 64 × T floats


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things stand in a thread, in tokens. The answer runs from `answer_start` to the end.

    `blocks[i]` is everything that belongs to passage i (number, title, text); it may equal `passages[i]`.
    """

    passages: tuple[Span, ...]
    blocks: tuple[Span, ...]
    question: Span
    answer_start: int

    @classmethod
    def of(cls, prompt: Prompt) -> Layout:
        """The layout of a prompt whose answer follows at once."""
        return cls(prompt.passage_tokens, prompt.block_tokens, prompt.question_tokens, len(prompt.token_ids))


@dataclass(frozen=True, slots=True, eq=False)
class Readout:
    """Attention of one thread, as the share of each row's attention that falls on each span.

    `masses` has shape (rows, layers, heads, 2N + 2), float32: the columns are the N
    passage texts, the N blocks, the question and the answer (up to the row itself).
    `positions[r]` is the token position of row r, ascending; `layers` names the attention layers.
    `tokens` has shape (rows, kept heads, answer_start): the attention on every token of the
    prompt, for the heads in `kept` only. A row at position p predicts the token at p + 1.
    """

    layout: Layout
    answer_tokens: int
    layers: tuple[int, ...]
    positions: npt.NDArray[np.int64]
    masses: Floats
    kept: tuple[Head, ...] = ()
    tokens: Floats | None = None

    @property
    def read_tokens(self) -> int:
        """Answer tokens whose own rows were read: all, or all but the last where that was never fed to the model."""
        return len(self._rows(self._own()))

    @property
    def own_rows(self) -> Span:
        """The positions of the answer tokens whose own rows were read."""
        return Span(self.layout.answer_start, self.layout.answer_start + self.read_tokens)

    @property
    def heads(self) -> Floats:
        """Mean mass on each passage over the rows that predict the answer: (layers, heads, N)."""
        return _mean(self.masses[self._rows(self._predicting())][..., : self._n])

    @property
    def block_heads(self) -> Floats:
        """As `heads`, for the blocks: passage text with its number and title."""
        return _mean(self.masses[self._rows(self._predicting())][..., self._n : 2 * self._n])

    @property
    def question_heads(self) -> Floats:
        """Mean mass on each passage over the question's own rows: (layers, heads, N)."""
        return _mean(self.masses[self._rows(self.layout.question)][..., : self._n])

    @property
    def question_block_heads(self) -> Floats:
        """As `question_heads`, for the blocks."""
        return _mean(self.masses[self._rows(self.layout.question)][..., self._n : 2 * self._n])

    @property
    def last_mass_on_passages(self) -> float:
        """Share of the answer's attention that falls on passage text in the last layer read, averaged over heads."""
        return float(self.heads[-1].sum(axis=-1).mean()) if self._n and self.answer_tokens else 0.0

    def covers(self, layers: Iterable[int]) -> bool:
        """Whether all of these layers were read."""
        return set(layers) <= set(self.layers)

    def per_token(self, heads: Sequence[Head], *, blocks: bool = False) -> Floats:
        """Mass on each passage in the rows that predict each answer token: (answer_tokens, len(heads), N)."""
        rows = self.masses[self._rows(self._predicting())]
        index = {layer: i for i, layer in enumerate(self.layers)}
        columns = slice(self._n, 2 * self._n) if blocks else slice(0, self._n)
        return np.stack([rows[:, index[layer], head, columns] for layer, head in heads], axis=1)

    def per_prompt_token(self) -> Floats | None:
        """Attention on each prompt token in the predicting rows: (answer_tokens, kept heads, answer_start), or None."""
        return None if self.tokens is None else self.tokens[self._rows(self._predicting())]

    def block_sums(self, rows: Span, layer: int = -1) -> npt.NDArray[np.float64]:
        """Head-mean attention of the rows in a span, summed over the span, per column: (2N + 2,)."""
        chosen = self.masses[self._rows(rows), layer].astype(np.float64)
        return np.asarray(chosen.mean(axis=1).sum(axis=0))

    @property
    def _n(self) -> int:
        return len(self.layout.passages)

    def _own(self) -> Span:
        return Span(self.layout.answer_start, self.layout.answer_start + self.answer_tokens)

    def _predicting(self) -> Span:
        start, stop = self._own()
        return Span(start - 1, stop - 1)

    def _rows(self, span: Span) -> npt.NDArray[np.int64]:
        return np.flatnonzero((self.positions >= span.start) & (self.positions < span.stop))


def _mean(rows: Floats) -> Floats:
    """Mean over the rows. Raises ValueError where none was read: an unread share is not a share of 0."""
    if not len(rows):
        raise ValueError("No row of this part of the thread was read.")
    return np.asarray(rows.mean(axis=0), dtype=np.float32)


def read_attention(
    lm: LanguageModel,
    prompt: Prompt | Layout,
    *,
    layers: Iterable[int] | None = None,
    extra_rows: Iterable[Span] = (),
    keep: Sequence[Head] = (),
    start: int = 0,
) -> Reader:
    """A context manager; every forward pass of `lm.model` made inside it, in this thread, is read.

    Read are the rows of the question, the last row of the prompt and all rows after it, and
    `extra_rows`; in all attention layers, or only in `layers`. `keep` names heads whose attention
    on every single prompt token is kept too. `start` is how many tokens a reused cache already holds.
    """
    layout = prompt if isinstance(prompt, Layout) else Layout.of(prompt)
    return read_model(lm.model, layout, layers=layers, extra_rows=extra_rows, keep=keep, start=start)


def read_model(
    model: Any,
    layout: Layout,
    *,
    layers: Iterable[int] | None = None,
    extra_rows: Iterable[Span] = (),
    keep: Sequence[Head] = (),
    start: int = 0,
) -> Reader:
    """As `read_attention`, for a bare transformers model."""
    return Reader(model, layout, None if layers is None else frozenset(layers), tuple(extra_rows), tuple(keep), start)


def read_answer(lm: LanguageModel, prompt: Prompt, answer_ids: Sequence[int], *, keep: Sequence[Head] = ()) -> Readout:
    """One teacher-forced pass over prompt and answer."""
    import torch

    with torch.inference_mode(), read_attention(lm, prompt, keep=keep) as reader:
        forward(lm.model, [*prompt.token_ids, *answer_ids])
    return reader.readout(len(answer_ids))


def forward(model: Any, ids: Sequence[int]) -> None:
    """Run the layers over one thread without a cache and without the vocabulary projection."""
    import torch

    model.base_model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False)


@dataclass(slots=True, eq=False)
class _Layer:
    """What was read of one layer so far, and the queries that wait to be reduced."""

    number: int
    seen: int
    positions: list[int] = field(default_factory=list)
    masses: list[torch.Tensor] = field(default_factory=list)
    tokens: list[torch.Tensor] = field(default_factory=list)
    queries: list[torch.Tensor] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    key: torch.Tensor | None = None
    terms: _Terms | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """How a layer turns q·k into weights."""

    scaling: float
    softcap: float | None
    sinks: torch.Tensor | None


class Reader:
    """Collects the wanted rows of the forward passes made while it is entered."""

    def __init__(
        self,
        model: Any,
        layout: Layout,
        layers: frozenset[int] | None,
        extra_rows: tuple[Span, ...],
        keep: tuple[Head, ...],
        start: int,
    ) -> None:
        self.config = model.config.get_text_config()
        self._layout = layout
        self._only = layers
        self._spans = (layout.question, *extra_rows)
        self._keep = keep
        self._start = start
        self._layers: dict[int, _Layer] = {}
        self._columns: torch.Tensor | None = None
        self._stack: list[Reader] | None = None

    def __enter__(self) -> Reader:
        _install(self.config)
        self._stack = _stack()
        self._stack.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A generator may be closed in another thread than the one that entered.
        if self._stack is not None:
            self._stack.remove(self)
            self._stack = None
            _uninstall(self.config)
        if kind is not None:
            self._layers.clear()

    def readout(self, answer_tokens: int | None = None) -> Readout:
        """What was read. `answer_tokens` defaults to the number of tokens fed after the prompt.

        Raises Unavailable where the model has no attention layer that can be read.
        """
        for layer in self._layers.values():
            self._flush(layer)
        numbers = sorted(number for number, layer in self._layers.items() if layer.masses)
        if not numbers:
            raise Unavailable("The attention of this model cannot be read: it has no layer of a known kind.")
        import torch

        first = self._layers[numbers[0]]
        fed = max(0, first.seen - self._layout.answer_start)
        masses = torch.stack([torch.cat(self._layers[n].masses) for n in numbers], dim=1)
        tokens = None
        if self._keep:
            # Each layer keeps its own heads; put them back in the order they were asked for.
            kept = {n: torch.cat(self._layers[n].tokens) for n in {layer for layer, _ in self._keep}}
            places = [(n, [h for m, h in self._keep if m == n].index(h)) for n, h in self._keep]
            tokens = torch.stack([kept[n][:, place] for n, place in places], dim=1).cpu().numpy()
        return Readout(
            layout=self._layout,
            answer_tokens=fed if answer_tokens is None else answer_tokens,
            layers=tuple(numbers),
            positions=np.asarray(first.positions, dtype=np.int64),
            masses=masses.cpu().numpy(),
            kept=self._keep,
            tokens=tokens,
        )

    def observe(
        self, number: int, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, terms: _Terms, bias: Any
    ) -> None:
        """Read the wanted rows of one call. `query` is (1, heads, rows, dim), `key` (1, key heads, keys, dim)."""
        if self._only is not None and number not in self._only:
            return
        if query.shape[0] != 1:
            raise ValueError("Attention is read one thread at a time, not from a batch.")
        layer = self._layers.get(number)
        if layer is None:
            layer = self._layers[number] = _Layer(number, self._start)
        start, rows, keys = layer.seen, query.shape[2], key.shape[2]
        layer.seen = start + rows
        # A sliding-window cache has dropped its oldest keys, a static one holds room for keys to come.
        base = max(0, start + rows - keys)
        if rows == 1 and mask is None and bias is None and base == 0:
            layer.queries.append(query[0, :, 0])
            layer.waiting.append(start)
            layer.key, layer.terms = key, terms
            if len(layer.queries) == _BATCH:
                self._flush(layer)
            return
        self._flush(layer)
        wanted = self._wanted(start, start + rows)
        for at in range(0, len(wanted), _BATCH):
            chunk = wanted[at : at + _BATCH]
            places = [p - start for p in chunk]
            allowed = None if mask is None else mask[0, :, places, :keys]
            added = None if bias is None else bias[0, :, places, :keys]
            self._reduce(layer, query[0, :, places], key, chunk, base, allowed, added, terms)

    def _wanted(self, start: int, stop: int) -> list[int]:
        """The positions in [start, stop) that are read."""
        rows = set(range(max(start, self._layout.answer_start - 1), stop))
        for span in self._spans:
            rows.update(range(max(start, span.start), min(stop, span.stop)))
        return sorted(rows)

    def _flush(self, layer: _Layer) -> None:
        """Reduce the queries set aside while decoding; the newest keys contain all the older ones."""
        if not layer.queries:
            return
        import torch

        queries, waiting = torch.stack(layer.queries, dim=1), layer.waiting
        key, terms = layer.key, layer.terms
        layer.queries, layer.waiting, layer.key = [], [], None
        if key is None or terms is None:  # set together with the queries
            return
        self._reduce(layer, queries, key, waiting, 0, None, None, terms)

    def _reduce(
        self,
        layer: _Layer,
        query: torch.Tensor,
        key: torch.Tensor,
        positions: list[int],
        base: int,
        allowed: torch.Tensor | None,
        bias: torch.Tensor | None,
        terms: _Terms,
    ) -> None:
        """Softmax rows of (heads, rows, dim) queries against the keys, summed over the columns."""
        import torch

        with torch.no_grad():  # a layer's own sink tokens are parameters
            weights = row_weights(query, key[0], positions, base, allowed, bias, terms)
            columns = self._indicator(base, base + weights.shape[-1], weights)
            layer.masses.append((weights @ columns).transpose(0, 1))
        layer.positions.extend(positions)
        heads = [h for n, h in self._keep if n == layer.number]
        if heads:
            prompt = self._layout.answer_start
            kept = weights.new_zeros((len(positions), len(heads), prompt))
            stop = min(prompt, base + weights.shape[-1])
            if stop > base:
                kept[:, :, base:stop] = weights[heads][:, :, : stop - base].transpose(0, 1)
            layer.tokens.append(kept)

    def _indicator(self, base: int, stop: int, like: torch.Tensor) -> torch.Tensor:
        """(keys, 2N + 2): 1 where the key at a position belongs to the column."""
        if self._columns is None or self._columns.shape[0] < stop:
            layout = self._layout
            spans = (*layout.passages, *layout.blocks, layout.question, Span(layout.answer_start, 2 * stop))
            columns = like.new_zeros((max(2 * stop, layout.answer_start), len(spans)))
            for i, span in enumerate(spans):
                columns[span.start : span.stop, i] = 1.0
            self._columns = columns
        return self._columns[base:stop]


def row_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    positions: Sequence[int],
    base: int,
    allowed: torch.Tensor | None,
    bias: torch.Tensor | None,
    terms: _Terms,
) -> torch.Tensor:
    """Attention weights (heads, rows, keys) in float32; a row sums to 1, less what its sink token takes.

    `query` is (heads, rows, dim) and `key` (key heads, keys, dim): grouped queries share a key head.
    `allowed` is the model's mask for these rows (boolean, or added to the scores); None is causal.
    """
    import torch

    heads, rows, dim = query.shape
    shared, keys, _ = key.shape
    grouped = query.float().reshape(shared, heads // shared * rows, dim)
    scores = torch.matmul(grouped, key.float().transpose(1, 2)).view(heads, rows, keys).mul_(terms.scaling)
    if terms.softcap is not None:
        scores.div_(terms.softcap).tanh_().mul_(terms.softcap)
    if bias is not None:
        scores.add_(bias)
    if allowed is None:
        # Only the keys after the first of these rows can lie ahead of one of them.
        ahead = max(0, min(positions) + 1 - base)
        at = torch.as_tensor(positions, device=scores.device)
        later = torch.arange(base + ahead, base + keys, device=scores.device) > at[:, None]
        scores[..., ahead:].masked_fill_(later, float("-inf"))
    elif allowed.dtype == torch.bool:
        scores.masked_fill_(~allowed, float("-inf"))
    else:
        scores.add_(allowed)
    if terms.sinks is None:
        return torch.softmax(scores, dim=-1)
    sinks = terms.sinks.float().view(heads, 1, 1).expand(heads, rows, 1)
    return torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]


# ---- the attention function handed to transformers -------------------------------------------------------------------

_local = threading.local()  # readers, grouped
_lock = threading.Lock()
_installed: dict[int, tuple[int, str | None]] = {}  # id(config) → (readers, implementation to restore)


def _stack() -> list[Reader]:
    if not hasattr(_local, "readers"):
        _local.readers = []
    return _local.readers  # type: ignore[no-any-return]


@contextmanager
def grouped_queries(model: Any) -> Iterator[None]:
    """Inside it, in this thread, query heads that share a key head are one head with more rows.

    The usual way copies the keys for each query head, which costs more than the attention where a batch
    of short threads looks at a long cache. Every pass made inside must have a mask.
    """
    config = model.config.get_text_config()
    if config._attn_implementation not in ("sdpa", _IMPLEMENTATION):
        yield
        return
    _install(config)
    _local.grouped = True
    try:
        yield
    finally:
        _local.grouped = False
        _uninstall(config)


def takes_boolean_masks(config: Any) -> bool:
    """Whether the attention in force reads True as visible; else a mask is added to the scores."""
    return config._attn_implementation in ("sdpa", _IMPLEMENTATION)


def _install(config: Any) -> None:
    """Route the model's attention through `_attend`; without an active reader that is plain attention."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    with _lock:
        count, before = _installed.get(id(config), (0, config._attn_implementation))
        if count == 0:
            AttentionInterface.register(_IMPLEMENTATION, _attend)
            AttentionMaskInterface.register(_IMPLEMENTATION, sdpa_mask)
            config._attn_implementation = _IMPLEMENTATION
        _installed[id(config)] = (count + 1, before)


def _uninstall(config: Any) -> None:
    with _lock:
        count, before = _installed.pop(id(config))
        if count > 1:
            _installed[id(config)] = (count - 1, before)
        else:
            config._attn_implementation = before


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    terms = _Terms(query.shape[-1] ** -0.5 if scaling is None else float(scaling), softcap, s_aux)
    if getattr(_local, "grouped", False) and softcap is None and s_aux is None and attention_mask is not None:
        output = _grouped(query, key, value, attention_mask, terms.scaling)
    elif softcap is None and s_aux is None:
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    else:
        output = _chunked(query, key, value, attention_mask, terms)
    for reader in reversed(_stack()):
        if getattr(module, "config", None) is reader.config:
            reader.observe(module.layer_idx, query, key, attention_mask, terms, kwargs.get("position_bias"))
            break
    return output, None


def _grouped(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Attention output (batch, rows, heads, dim) without a copy of the keys for each query head."""
    import torch

    batch, heads, rows, dim = query.shape
    shared = key.shape[1]
    many = query.reshape(batch, shared, heads // shared * rows, dim)
    mixed = torch.nn.functional.scaled_dot_product_attention(
        many, key, value, attn_mask=mask.repeat(1, 1, heads // shared, 1), scale=scaling
    )
    return mixed.reshape(batch, heads, rows, -1).transpose(1, 2).contiguous()


def _chunked(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, terms: _Terms
) -> torch.Tensor:
    """Attention output where soft-caps or sink tokens rule out the library's kernels: (batch, rows, heads, dim)."""
    import torch

    batch, heads, rows, _ = query.shape
    shared, keys = key.shape[1], key.shape[2]
    output = value.new_empty((batch, rows, heads, value.shape[-1]))
    for b in range(batch):
        for at in range(0, rows, _BATCH):
            stop = min(at + _BATCH, rows)
            allowed = None if mask is None else mask[b, :, at:stop, :keys]
            positions = range(keys - rows + at, keys - rows + stop)
            weights = row_weights(query[b, :, at:stop], key[b], positions, 0, allowed, None, terms)
            grouped = weights.reshape(shared, -1, keys)
            mixed = torch.matmul(grouped, value[b].float()).view(heads, stop - at, -1)
            output[b, at:stop] = mixed.transpose(0, 1).to(output.dtype)
    return output
