"""Last-layer attention, relative to the average block, as RAG Me Up defines it.

From the last attention layer, averaged over heads and over the positions of each block
(rows of one part of the thread towards another), only positive block means count:

- the pool always holds question→question, question→answer, answer→answer, answer→question;
- passage d brings answer→d and d→answer, and with `include_query` also question→d and d→question;
- score(d) = mean of d's positive blocks ÷ mean of the pool, which all of them join.

1.4 drew more than average, 0.2 was largely ignored. It is not a probability.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from provenance.errors import ProvenanceError, SpanNotFound, Unavailable
from provenance.methods.base import Case, Method, Progress, Resources, Scale, silent
from provenance.methods.readout import Layout, Readout, forward, read_model
from provenance.methods.thread import case_readout, unmeasured, writer_reason
from provenance.records import Attribution, MethodKind, Span


def compute_attention(
    model: Any,
    tokenizer: Any,
    thread: str,
    query: str,
    context: Sequence[str],
    answer: str,
    include_query: bool = False,
) -> list[float] | None:
    """One score per passage of `context`, in order, from one teacher-forced pass.

    `thread` is the templated text including the answer, `context` the passages exactly as
    injected. Passages are located in order, so identical ones keep their own places; the answer
    is its last occurrence outside the passages, the query its last one before the answer.
    A passage without a positive block scores 0.0; no passages give []; an empty pool gives None.
    Raises SpanNotFound where a part is not in the thread, Unavailable where the model's attention
    or the tokenizer's offsets cannot be read.
    """
    import torch

    if not getattr(tokenizer, "is_fast", False):
        raise Unavailable("This model's tokenizer gives no character offsets, so spans cannot be located.")
    passages, question, said = locate(thread, query, context, answer)
    if not context:
        return []
    encoded = tokenizer(thread, add_special_tokens=False, return_offsets_mapping=True)
    offsets = encoded["offset_mapping"]
    spans = tuple(token_span(offsets, span) for span in passages)
    layout = Layout(spans, spans, token_span(offsets, question), token_span(offsets, said).start)
    stop = token_span(offsets, said).stop  # in a causal model nothing after the answer reaches it
    last = last_attention_layer(model.config.get_text_config())
    # Only a passage that comes after the question can look at it.
    later = [span for span in spans if span.stop > layout.question.start]
    with (
        torch.inference_mode(),
        read_model(model, layout, layers=None if last is None else (last,), extra_rows=later) as reader,
    ):
        forward(model, encoded["input_ids"][:stop])
    return block_scores(reader.readout(stop - layout.answer_start), include_query)


def locate(thread: str, query: str, context: Sequence[str], answer: str) -> tuple[list[Span], Span, Span]:
    """The character spans of the passages, the query and the answer in the thread. Raises SpanNotFound."""
    passages: list[Span] = []
    after = 0
    for number, text in enumerate(context, start=1):
        found = _first(thread, text, after, passages)
        if found is None:
            raise SpanNotFound(f"Passage {number} is not in the thread as it was given.")
        passages.append(found)
        after = max(after, found.stop)
    said = _last(thread, answer, len(thread), passages)
    if said is None:
        raise SpanNotFound("The answer is empty or not in the thread outside the passages.")
    asked = _last(thread, query, said.start, passages)
    if asked is None:
        raise SpanNotFound("The question is empty or not in the thread outside the passages.")
    return passages, asked, said


def _first(thread: str, text: str, after: int, taken: Sequence[Span]) -> Span | None:
    """The first place at or after `after`; failing that, the first one that overlaps none taken. Trimmed if need be."""
    for form in dict.fromkeys((text, text.strip())):
        if not form:
            return Span(after, after)
        place = thread.find(form, after)
        if place >= 0:
            return Span(place, place + len(form))
    for form in dict.fromkeys((text, text.strip())):
        place = thread.find(form)
        while place >= 0:
            if _free(place, place + len(form), taken):
                return Span(place, place + len(form))
            place = thread.find(form, place + 1)
    return None


def _last(thread: str, text: str, before: int, taken: Sequence[Span]) -> Span | None:
    """The last place that ends at or before `before` and overlaps none taken."""
    for form in dict.fromkeys((text, text.strip())):
        place = thread.rfind(form, 0, before) if form.strip() else -1
        while place >= 0:
            if _free(place, place + len(form), taken):
                return Span(place, place + len(form))
            place = thread.rfind(form, 0, place + len(form) - 1)
    return None


def _free(start: int, stop: int, taken: Sequence[Span]) -> bool:
    return all(stop <= span.start or start >= span.stop for span in taken)


def token_span(offsets: Sequence[tuple[int, int]], span: Span) -> Span:
    """The tokens that overlap a character span; a token across its border belongs to it."""
    inside = [i for i, (start, stop) in enumerate(offsets) if start < stop and start < span.stop and stop > span.start]
    return Span(inside[0], inside[-1] + 1) if inside else Span(0, 0)


def last_attention_layer(config: Any) -> int | None:
    """The number of the last layer that is attention, where the configuration tells; else None."""
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return max((i for i, kind in enumerate(kinds) if "attention" in kind and "linear" not in kind), default=None)
    if getattr(config, "layers_block_type", None) or getattr(config, "attn_layer_period", None):
        return None
    return int(config.num_hidden_layers) - 1


def block_scores(readout: Readout, include_query: bool) -> list[float] | None:
    """The scores from the block means of the last attention layer read; None where no block is positive.

    Where the last answer token was never fed to the model, the answer is taken without it.
    """
    layout = readout.layout
    n = len(layout.passages)
    own = readout.own_rows
    sums = {"answer": readout.block_sums(own), "question": readout.block_sums(layout.question)}
    sizes = {"answer": own.stop - own.start, "question": layout.question.stop - layout.question.start}
    columns = {"question": 2 * n, "answer": 2 * n + 1}

    def block(row: str, column: str) -> float:
        return _share(float(sums[row][columns[column]]), sizes[row] * sizes[column])

    parts = ("question", "answer")
    pool = [value for row in parts for column in parts if (value := block(row, column)) > 0]
    raw: list[float] = []
    for d, span in enumerate(layout.passages):
        length = span.stop - span.start
        back = readout.block_sums(span)
        means = []
        for part in parts if include_query else ("answer",):
            means.append(_share(float(sums[part][d]), sizes[part] * length))
            means.append(_share(float(back[columns[part]]), sizes[part] * length))
        positive = [value for value in means if value > 0]
        pool.extend(positive)
        raw.append(sum(positive) / len(positive) if positive else 0.0)
    if not pool:
        return None
    average = sum(pool) / len(pool)
    return [value / average for value in raw]


def _share(total: float, cells: int) -> float:
    return total / cells if cells else 0.0


class Attention(Method):
    """Relative attention of the last layer."""

    name: ClassVar[str] = "attention"
    label: ClassVar[str] = "Attention (last layer)"
    kind: ClassVar[MethodKind] = "used"
    meaning: ClassVar[str] = "what the last layer looked at while writing"
    cost: ClassVar[str] = "no extra pass"
    scale: ClassVar[Scale] = Scale("× the average block", share=True, low=0.0)

    def unavailable(self, resources: Resources) -> str | None:
        """Why the writer's attention cannot be read here, or None."""
        return writer_reason(resources)

    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Score every passage; 1 is the average block."""
        began = time.perf_counter()
        if not case.passages:
            return Attribution(self.name, (), include_query, 0.0)
        try:
            lm = resources.language_model()
            last = last_attention_layer(lm.model.config.get_text_config())
            readout = case_readout(case, lm, () if last is None else (last,))
            scores = block_scores(readout, include_query)
        except ProvenanceError as error:
            return unmeasured(self.name, case, include_query, began, str(error))
        if scores is None:
            return unmeasured(self.name, case, include_query, began, "The last layer looked at no part of the thread.")
        return Attribution(
            self.name,
            tuple(scores),
            include_query,
            time.perf_counter() - began,
            extra={"mass_on_passages": readout.last_mass_on_passages},
        )
