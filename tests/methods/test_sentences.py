from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from provenance.attribution import read_case, to_case
from provenance.errors import Unavailable
from provenance.generation.models import LanguageModel
from provenance.methods.base import Case
from provenance.methods.calibration import Calibration, Figures, file_name, write_calibration
from provenance.methods.sentences import NO_SUPPORT, answer_tokens, evidence_citations, marks, sentence_support
from provenance.methods.thread import build_thread
from provenance.methods.wording import split_sentences
from provenance.parts import Parts
from provenance.records import SentenceSupport
from provenance.retrieval.embedder import Embedder
from provenance.settings import Settings
from tests.methods.tiny_models import tiny_model

SHARED = Path(__file__).parents[2] / "../shared/data/attribution/quotesum_padded.jsonl"
PASSAGES = (
    "The old bridge over the Vell was opened in 1931. It is painted green and 210 metres long.",
    "The mill stands by the river. Its owner is Ines Brandt, who bought it in 1974 from her uncle.",
    "Lake Oram is 52 metres deep. It is frozen from December to March.",
)
ANSWER = "Ines Brandt bought the mill in 1974. The bridge was opened in 1931. Elephants sleep standing up."


class Remote:
    """A remote writer: no model to read, but an embedder."""

    settings = Settings(provenance_endpoint="http://localhost:1/v1")

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder

    def embedder(self) -> Embedder:
        if self._embedder is None:
            raise Unavailable("no embedder here")
        return self._embedder

    def language_model(self) -> LanguageModel:
        raise AssertionError("a remote writer has no model to load")


class Local:
    """A tiny random writer that was calibrated, and no embedder."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(provenance_home=home)
        self.lm = replace(tiny_model("llama"), name="tiny", _cache={})
        figures = Figures(1, 1.0, 0.0, 0, None, None, 0.0, 1.0, 0.2)
        made = Calibration("tiny", self.lm.revision, ((1, 2), (2, 0)), (0.5, 0.5), 8, "fast", 1, 1, 2, figures)
        write_calibration(made, home / "calibration" / file_name("tiny", self.lm.revision))

    def language_model(self) -> LanguageModel:
        return self.lm

    def embedder(self) -> Embedder:
        raise Unavailable("no embedder here")


def case_of(answer: str = ANSWER, passages: tuple[str, ...] = PASSAGES, question: str = "What is known?") -> Case:
    return Case(question, answer, passages, tuple(f"T{i}" for i in range(len(passages))), scratch={})


@pytest.fixture(params=["meaning", "wording alone"])
def remote(request: pytest.FixtureRequest, parts: Parts) -> Any:
    return Remote(parts.embedder() if request.param == "meaning" else None)


def test_each_sentence_names_the_source_that_says_it_and_one_without_a_source_says_so(remote: Any) -> None:
    found = sentence_support(case_of(), remote)
    assert [ANSWER[s.start : s.end] for s in found] == [ANSWER[s.start : s.stop] for s in split_sentences(ANSWER)]
    assert [(s.best, s.also, s.reason) for s in found] == [(2, (), None), (1, (), None), (None, (), NO_SUPPORT)]
    assert [s.evidence for s in found] == [None, None, None]


def test_shares_of_a_sentence_sum_to_one(remote: Any) -> None:
    for sentence in sentence_support(case_of(), remote):
        assert sum(s for s in sentence.shares if s is not None) == pytest.approx(1.0)


def test_a_sentence_that_two_sources_say_is_cited_to_both(remote: Any) -> None:
    answer = "The bridge was opened in 1931 and Lake Oram is 52 metres deep."
    (sentence,) = sentence_support(case_of(answer), remote)
    assert {sentence.best, *sentence.also} == {1, 3}
    cited = evidence_citations([sentence])
    assert [(c.start, c.end, c.by) for c in cited] == [(len(answer), len(answer), "evidence")] * 2
    assert sorted(c.n for c in cited) == [1, 3]


def test_another_number_in_the_same_words_is_not_support(remote: Any) -> None:
    right, wrong = (sentence_support(case_of(f"It is {n} metres deep."), remote)[0] for n in (52, 77))
    assert right.best == 3
    assert wrong.best is None or wrong.shares[2] < right.shares[2]  # type: ignore[operator]


def test_a_short_answer_is_read_together_with_its_question(remote: Any) -> None:
    (sentence,) = sentence_support(case_of("1974", question="When did Ines Brandt buy the mill?"), remote)
    assert sentence.best == 2


def test_citations_follow_the_best_source_first_and_skip_unsupported_sentences() -> None:
    sentences = [
        SentenceSupport(0, 9, (0.2, 0.8), 2, also=(1,)),
        SentenceSupport(10, 20, (0.5, 0.5), None, reason=NO_SUPPORT),
    ]
    assert [(c.n, c.start, c.end) for c in evidence_citations(sentences)] == [(2, 9, 9), (1, 9, 9)]


def test_marks_are_the_sentences_of_the_sources_that_matter(remote: Any) -> None:
    case = case_of()
    found = marks(case, sentence_support(case, remote), remote)
    assert [(m.n, PASSAGES[m.n - 1][m.start : m.end]) for m in found] == [
        (1, "The old bridge over the Vell was opened in 1931."),
        (2, "Its owner is Ines Brandt, who bought it in 1974 from her uncle."),
    ]
    assert all(0 < m.weight <= 1 for m in found)


def test_a_line_broken_by_layout_does_not_end_a_mark(remote: Any) -> None:
    broken = (PASSAGES[0], PASSAGES[1].replace("who bought", "who\nbought"), PASSAGES[2])
    case = case_of("Ines Brandt bought the mill in 1974 from her uncle.", broken)
    (mark,) = marks(case, sentence_support(case, remote), remote)
    assert broken[1][mark.start : mark.end] == "Its owner is Ines Brandt, who\nbought it in 1974 from her uncle."


def test_a_fact_at_the_end_of_a_long_passage_is_found(remote: Any) -> None:
    long = "Visitors are advised to check the notice board before they travel to the area. " * 45 + PASSAGES[1]
    case = case_of("Ines Brandt bought it in 1974.", (PASSAGES[0], long))
    (sentence,) = sentence_support(case, remote)
    assert sentence.best == 2
    (mark,) = marks(case, [sentence], remote)
    assert long[mark.start : mark.end].startswith("Its owner is Ines Brandt")


def test_no_passages_and_an_empty_answer_are_answered(remote: Any) -> None:
    assert sentence_support(case_of("  "), remote) == ()
    (sentence,) = sentence_support(case_of("It rained.", ()), remote)
    assert (sentence.shares, sentence.best, sentence.reason) == ((), None, "no sources were sent")
    assert marks(case_of("It rained.", ()), [sentence], remote) == ()
    blank = sentence_support(case_of("It rained.", ("", "{braces} [1]")), remote)
    assert blank[0].best is None


def test_a_calibrated_writer_gives_the_shares_of_its_heads_and_the_evidence(tmp_path: Path) -> None:
    local = Local(tmp_path)
    case = case_of()
    found = sentence_support(case, local)  # type: ignore[arg-type]
    assert [s.best for s in found] == [2, 1, None]
    for sentence in found:
        assert sum(s for s in sentence.shares if s is not None) == pytest.approx(1.0)
        assert sentence.evidence is not None
        assert np.isfinite(sentence.evidence)
    by_wording = sentence_support(case_of(), Remote(None))  # type: ignore[arg-type]
    assert found[0].shares != by_wording[0].shares


def test_the_tokens_of_the_sentences_cover_the_answer_in_order(tmp_path: Path) -> None:
    lm = Local(tmp_path).lm
    case = case_of("  " + ANSWER)  # a pasted answer may begin with white space
    spans = split_sentences(case.answer)
    tokens = answer_tokens(case, spans, lm)
    ids = build_thread(case, lm).answer_ids
    assert tokens[0].start == 0
    assert tokens[-1].stop == len(ids)
    for span, own in zip(spans, tokens, strict=True):
        text = lm.tokenizer.decode(ids[own.start : own.stop])
        assert case.answer[span.start : span.stop] in text


def test_evidence_citations_of_human_answers_reach_the_promised_precision_and_recall(parts: Parts) -> None:
    if not SHARED.is_file():
        pytest.skip("the shared attribution data is not beside the repository")
    right = given = wanted = 0
    for line in SHARED.read_text("utf-8").splitlines():
        item = json.loads(line)
        case = to_case(read_case(item))
        cited = {c.n - 1 for c in evidence_citations(sentence_support(case, Remote(None)))}  # type: ignore[arg-type]
        right += len(cited & set(item["supporting"]))
        given += len(cited)
        wanted += len(item["supporting"])
    assert right / given >= 0.8
    assert right / wanted >= 0.6
