"""What holds for every method alike: one result per passage, and an answer or a reason for odd input."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from provenance.generation.models import LanguageModel
from provenance.methods import METHODS
from provenance.methods.base import Case
from provenance.methods.calibration import Calibration, Figures, file_name, write_calibration
from provenance.methods.planted import planted_prompts
from provenance.methods.shapley import Shapley
from provenance.parts import Parts
from provenance.records import Attribution
from provenance.retrieval.embedder import Embedder
from provenance.retrieval.reranker import Reranker
from provenance.settings import DEFAULT_LLM_PROMPT, Settings
from tests.methods.cross_encoder import NAME, write_cross_encoder
from tests.methods.tiny_models import tiny_model

FACT = "Ada came in May."
KINDS = {"used", "supports", "self-report"}


class Small:
    """A tiny random writer that was calibrated, a tiny cross-encoder, and the packaged embedder."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.settings = Settings(provenance_home=folder)
        self._lm = replace(tiny_model("llama"), name="tiny", _cache={})
        self._embedder = embedder
        write_cross_encoder(folder, ("Ada", "came", "May"))
        self._reranker = Reranker(NAME, folder)
        figures = Figures(1, 1.0, 0.0, 0, None, None, 0.0, 1.0, 0.2)
        made = Calibration("tiny", self._lm.revision, ((1, 2),), (1.0,), 8, "fast", 1, 1, 2, figures)
        write_calibration(made, folder / "calibration" / file_name("tiny", self._lm.revision))

    def language_model(self) -> LanguageModel:
        return self._lm

    def embedder(self) -> Embedder:
        return self._embedder

    def reranker(self) -> Reranker:
        return self._reranker

    def llm_prompt(self) -> str:
        return DEFAULT_LLM_PROMPT


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, parts: Parts) -> Small:
    return Small(tmp_path_factory.mktemp("small"), parts.embedder())


def score(
    name: str, small: Small, passages: tuple[str, ...], answer: str = "Ada came.", query: bool = False
) -> Attribution:
    titles = tuple(f"T{i}" for i in range(len(passages)))
    return METHODS[name].score(Case("Who came?", answer, passages, titles, scratch={}), small, include_query=query)


def assert_whole(found: Attribution, name: str, count: int) -> None:
    assert found.method == name
    assert len(found.scores) == count
    for value in found.scores:
        assert (value is None and found.reason) or (value is not None and math.isfinite(value))
    assert all(math.isfinite(value) for value in found.extra.values())


def test_the_registry_lists_every_method_under_its_own_name() -> None:
    assert list(METHODS) == ["attention", "attention-heads", "leave-one-out", "shapley", "rerank", "similarity", "llm"]
    for name, method in METHODS.items():
        assert method.name == name
        assert method.kind in KINDS
        assert method.label
        assert method.meaning
        assert method.cost
        assert method.scale.unit
        assert method.scale.share == (method.kind == "used")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("query", [False, True])
def test_no_passages_give_no_scores(name: str, query: bool, small: Small) -> None:
    assert score(name, small, (), query=query).scores == ()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("query", [False, True])
def test_one_passage_gives_one_finite_score(name: str, query: bool, small: Small) -> None:
    found = score(name, small, (FACT,), query=query)
    assert_whole(found, name, 1)
    assert found.scores[0] is not None
    assert found.include_query is query


@pytest.mark.parametrize("name", METHODS)
def test_an_empty_answer_is_not_measured_and_says_why(name: str, small: Small) -> None:
    found = score(name, small, (FACT, "It rained."), "  \n")
    assert found.scores == (None, None)
    assert "empty" in str(found.reason).lower()


@pytest.mark.parametrize("name", METHODS)
def test_braces_source_markers_and_markup_in_a_passage_survive(name: str, small: Small) -> None:
    found = score(name, small, ("{query} {0} [1] <|im_start|> %s " + FACT, "{context}"))
    assert_whole(found, name, 2)
    assert None not in found.scores


@pytest.mark.parametrize("name", METHODS)
def test_a_long_passage_and_an_empty_one_are_scored(name: str, small: Small) -> None:
    found = score(name, small, ("It rained. " * 60 + FACT, "", "Nothing."))
    assert_whole(found, name, 3)


@pytest.mark.parametrize("name", METHODS)
def test_what_does_not_fit_the_model_is_a_reason_not_an_error(name: str, small: Small) -> None:
    found = score(name, small, ("It rained. " * 400 + FACT, "Nothing."))
    assert_whole(found, name, 2)


@pytest.mark.parametrize("name", [m for m in METHODS if METHODS[m].kind == "used"])
def test_a_remote_writer_disables_every_method_that_reads_the_model(name: str, tmp_path: Path) -> None:
    remote = Parts(Settings(provenance_home=tmp_path, provenance_endpoint="http://localhost:1/v1"))
    assert "remote endpoint" in str(METHODS[name].unavailable(remote))


def test_both_copies_of_a_duplicated_fact_are_shapleys_top_two(parts: Parts) -> None:
    prompts = [p for p in planted_prompts(40, 91, 4, 4) if p.shape == "sentence"][:2]
    assert prompts
    for planted in prompts:
        gold = planted.gold[0]
        copy = (gold + 2) % 4
        passages = tuple(planted.passages[gold] if i == copy else text for i, text in enumerate(planted.passages))
        titles = tuple(planted.titles[gold] if i == copy else title for i, title in enumerate(planted.titles))
        found = Shapley().score(Case(planted.question, planted.answer, passages, titles, scratch={}), parts)
        scores = np.asarray(found.scores, dtype=float)
        assert set(np.argsort(-scores)[:2]) == {gold, copy}
        assert found.notes[gold] is not None
        assert found.notes[copy] is not None
