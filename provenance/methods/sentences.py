"""Sentence by sentence: what each part of the answer leans on, and whether any source says it.

Two questions are kept apart. *Shares* say where the writer looked while it wrote the sentence
(the calibrated heads; without them, how well each source matches). *Support* says whether a
source states it, from wording and meaning alone; so it can be had for a remote writer too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from provenance.errors import ProvenanceError
from provenance.generation.models import LanguageModel
from provenance.methods.base import Case, Resources
from provenance.methods.calibration import find_calibration
from provenance.methods.likelihood import likelihood_of, without_documents
from provenance.methods.support import Support, support
from provenance.methods.thread import build_thread, case_readout, state_folder, writer_reason
from provenance.methods.wording import split_sentences
from provenance.records import Citation, Mark, SentenceSupport, Span

NO_SUPPORT = "no source supports this"

_MARKED_SOURCES = 3  # of each sentence; below that nothing "mattered"
_MARKS_EACH = 3
_LEAST_MARK = 0.35


def sentence_support(case: Case, resources: Resources) -> tuple[SentenceSupport, ...]:
    """Every sentence of the answer, in order, with its shares and the sources that support it.

    `evidence` is what the passages add to the sentence's likelihood, in nats per token, against the same
    question without any; None where there is no local writer. Never raises for a case that cannot be measured.
    """
    spans = split_sentences(case.answer)
    if not spans:
        return ()
    if not case.passages:
        return tuple(SentenceSupport(s.start, s.stop, (), None, None, "no sources were sent") for s in spans)
    found = _support(case, spans, resources)
    shares, evidence = _read(case, spans, resources)
    result = []
    for row, span in enumerate(spans):
        probability = found.probability[row]
        supporting = _supporting(probability, found.least, None if shares is None else shares[row])
        portion = shares[row] if shares is not None else probability / max(float(probability.sum()), 1e-9)
        result.append(
            SentenceSupport(
                start=span.start,
                end=span.stop,
                shares=tuple(float(value) for value in portion),
                best=supporting[0] if supporting else None,
                evidence=None if evidence is None else evidence[row],
                reason=None if supporting else NO_SUPPORT,
                also=supporting[1:],
            )
        )
    return tuple(result)


def evidence_citations(sentences: Sequence[SentenceSupport]) -> tuple[Citation, ...]:
    """A citation for each source that supports a sentence, at the end of the sentence, the best one first."""
    return tuple(
        Citation(n, sentence.end, sentence.end, "evidence")
        for sentence in sentences
        if sentence.best is not None
        for n in (sentence.best, *sentence.also)
    )


def marks(case: Case, sentences: Sequence[SentenceSupport], resources: Resources) -> tuple[Mark, ...]:
    """The sentences inside the sources that the answer's sentences rest on, by source and place.

    Offsets are into the source's passage text. `weight` is how well the stretch matches, 0..1.
    """
    if not case.passages or not sentences:
        return ()
    found = _support(case, [Span(s.start, s.end) for s in sentences], resources)
    weights: dict[tuple[int, Span], float] = {}
    for row, sentence in enumerate(sentences):
        if sentence.best is None:
            continue
        for n in (sentence.best, *sentence.also)[:_MARKED_SOURCES]:
            closeness = found.closeness[n - 1][row]
            for place in np.argsort(-closeness, kind="stable")[:_MARKS_EACH]:
                weight = float(np.clip(closeness[place], 0.0, 1.0))
                # A second stretch must hold nearly as much as the first.
                if weight < _LEAST_MARK or weight < 0.75 * float(closeness.max()):
                    break
                key = (n, found.sentences[n - 1][place])
                weights[key] = max(weights.get(key, 0.0), weight)
    return tuple(Mark(n, span.start, span.stop, weight) for (n, span), weight in sorted(weights.items()))


def _supporting(probability: npt.NDArray[np.float64], least: float, shares: Any | None) -> tuple[int, ...]:
    """The numbers of the sources that support a sentence, best first.

    Among those that state it about as well, the one the writer looked at leads.
    """
    enough = np.flatnonzero(probability >= least)
    rank = probability.copy()
    if shares is not None:
        rank = rank + 0.2 * np.nan_to_num(np.asarray(shares, dtype=np.float64))
    return tuple(int(i) + 1 for i in sorted(enough, key=lambda i: (-rank[i], i)))


def _support(case: Case, spans: Sequence[Span], resources: Resources) -> Support:
    """The support of the sentences, computed once per case and kept in its scratch."""
    key = ("support", tuple(spans))
    kept = case.scratch.get("support") if case.scratch is not None else None
    if kept is not None and kept[0] == key:
        known: Support = kept[1]
        return known
    texts = [case.answer[s.start : s.stop] for s in spans]
    try:
        found = support(texts, case.passages, case.question, resources.embedder())
    except ProvenanceError:
        found = support(texts, case.passages, case.question, None)
    if case.scratch is not None:
        case.scratch["support"] = (key, found)
    return found


def _read(
    case: Case, spans: Sequence[Span], resources: Resources
) -> tuple[npt.NDArray[np.float64] | None, tuple[float | None, ...] | None]:
    """Shares (S, N) of the calibrated heads and evidence per sentence, each None where it cannot be had."""
    if writer_reason(resources) is not None:
        return None, None
    try:
        lm = resources.language_model()
        tokens = answer_tokens(case, spans, lm)
        return _head_shares(case, tokens, lm, resources), _gains(case, tokens, lm)
    except ProvenanceError:
        return None, None


def answer_tokens(case: Case, spans: Sequence[Span], lm: LanguageModel) -> tuple[Span, ...]:
    """The answer tokens of each sentence, as ranges of the answer's ids."""
    ids = build_thread(case, lm).answer_ids
    decoded = [str(lm.tokenizer.decode(ids[:k], skip_special_tokens=True)) for k in range(len(ids) + 1)]
    whole = decoded[-1]
    shift = max(0, case.answer.find(whole.strip())) - (len(whole) - len(whole.lstrip()))
    ends = np.array([len(text) + shift for text in decoded])  # ends[k] is where the first k tokens end
    found = []
    for span in spans:
        inside = [k for k in range(len(ids)) if ends[k] < span.stop and ends[k + 1] > span.start]
        found.append(Span(inside[0], inside[-1] + 1) if inside else Span(0, 0))
    return tuple(found)


def _head_shares(
    case: Case, tokens: Sequence[Span], lm: LanguageModel, resources: Resources
) -> npt.NDArray[np.float64] | None:
    """The share of each source in the calibrated heads' attention; None for a model not calibrated yet."""
    calibration = find_calibration(lm, state_folder(resources))
    if calibration is None:
        return None
    masses = calibration.token_masses(case_readout(case, lm, calibration.layers)).astype(np.float64)
    result = np.full((len(tokens), masses.shape[1]), 1.0 / masses.shape[1])
    for row, span in enumerate(tokens):
        total = masses[span.start : span.stop].sum(axis=0)
        if total.sum() > 0:
            result[row] = total / total.sum()
    return result


def _gains(case: Case, tokens: Sequence[Span], lm: LanguageModel) -> tuple[float | None, ...] | None:
    """What all passages together add to each sentence, in nats per token."""
    likelihood = likelihood_of(lm, case)
    if not likelihood.answer_ids:
        return None
    everything = np.ones((1, len(case.passages)), dtype=bool)
    run = likelihood.exact if lm.hybrid else likelihood.masked
    gain = run(everything)[0] - without_documents(lm, likelihood.prompt, likelihood.answer_ids)
    return tuple(float(gain[s.start : s.stop].mean()) if s.stop > s.start else None for s in tokens)
