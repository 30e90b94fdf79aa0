"""Judging retrieval over a small folder, with the real embedder and reranker."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from provenance.errors import ProvenanceError
from provenance.evaluation.retrieval import STAGES, evaluate_retrieval, read_judged, scores, summary
from provenance.settings import Settings

CORPUS = {
    "d1": ("Norris Dam", "The dam was finished in 1936 by the Tennessee Valley Authority."),
    "d2": ("Banana", "The fruit is yellow when it is ripe."),
    "d3": ("Night train", "It leaves the main station at eleven."),
}
QUERIES = {"q1": "When was Norris Dam finished?", "q2": "When does the night train leave?"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"_id": id, "title": title, "text": text} for id, (title, text) in CORPUS.items()]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": q, "text": t}) + "\n" for q, t in QUERIES.items())
    )
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t1\nq2\td2\t0\n")
    return tmp_path


@pytest.mark.parametrize("contextual", [True, False])
def test_every_stage_is_judged_with_intervals(folder: Path, settings: Settings, contextual: bool) -> None:
    result = evaluate_retrieval(folder, settings, contextual=contextual)
    assert (result["queries"], result["passages"], result["contextual"]) == (2, 3, contextual)
    assert tuple(result["stages"]) == STAGES
    assert "reason" not in result
    for stage in result["stages"].values():
        assert stage["recall@5"] <= stage["recall@20"] <= 1
        assert stage["ndcg@10_interval"][0] <= stage["ndcg@10"] <= stage["ndcg@10_interval"][1]
    assert result["stages"]["reranked"]["ndcg@10"] == 1


def test_without_a_reranker_its_stage_is_none_with_the_reason(folder: Path) -> None:
    result = evaluate_retrieval(folder, Settings(rerank=False))
    assert result["stages"]["reranked"] is None
    assert result["reason"] == "rerank is off"


def test_the_figures_are_those_of_their_definitions() -> None:
    found = scores(["x", "a", "y", "z", "w", "v", "b"], {"a": 1.0, "b": 1.0})
    assert found["recall@5"] == 0.5
    assert found["recall@20"] == 1
    ideal = 1 + 1 / math.log2(3)
    assert found["ndcg@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(8)) / ideal)
    assert summary([{"m": 0.0}, {"m": 1.0}])["m"] == 0.5


def test_a_folder_that_is_no_retrieval_set_is_named(folder: Path) -> None:
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nnobody\td1\t1\n")
    with pytest.raises(ProvenanceError, match="judges no passage"):
        read_judged(folder)
    (folder / "corpus.jsonl").write_text('{"text": "no id"}\n')
    with pytest.raises(ProvenanceError, match="not a retrieval set"):
        read_judged(folder)
    (folder / "queries.jsonl").unlink()
    with pytest.raises(ProvenanceError, match=r"queries\.jsonl"):
        read_judged(folder)


def test_a_judgement_of_zero_is_no_judgement(folder: Path) -> None:
    assert read_judged(folder).qrels["q2"] == {"d3": 1.0}
