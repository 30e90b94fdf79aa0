"""The packaged reranker, in the real flashrank.Ranker."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from provenance.errors import Unavailable
from provenance.parts import Parts
from provenance.retrieval.reranker import PACKAGED_FOLDER, PACKAGED_NAME, Reranker, load_reranker
from provenance.settings import Settings

PASSAGES = [
    "Bananas are yellow when they are ripe.",
    "The Norris Dam was finished in 1936 by the Tennessee Valley Authority.",
    "The city has a museum of modern art and two theatres.",
]
FILLER = "The council met on Tuesday to talk about parking, drains and the colour of the benches. "


@pytest.fixture(scope="module")
def reranker(parts: Parts) -> Reranker:
    return parts.reranker()


def test_scores_are_in_candidate_order_and_between_0_and_1(reranker: Reranker) -> None:
    scores = reranker.score("When was Norris Dam finished?", PASSAGES)
    assert len(scores) == 3
    assert all(0 < score < 1 for score in scores)
    assert int(np.argmax(scores)) == 1
    assert reranker.score("When was Norris Dam finished?", PASSAGES[::-1]) == pytest.approx(scores[::-1], abs=1e-6)


@pytest.mark.parametrize("left", ["1936", "It was finished in 1936.", "When was Norris Dam finished?\nIn 1936."])
def test_a_short_answer_a_sentence_and_a_question_with_its_answer_find_the_passage(
    reranker: Reranker, left: str
) -> None:
    assert int(np.argmax(reranker.score(left, PASSAGES))) == 1


def test_the_passages_are_not_changed(reranker: Reranker) -> None:
    given = list(PASSAGES)
    reranker.score("dam", given)
    assert given == PASSAGES


def test_a_score_does_not_depend_on_its_batch(reranker: Reranker) -> None:
    question = "Who built the Norris Dam?"
    together = reranker.score(question, [*PASSAGES, FILLER * 6, *PASSAGES * 4])
    alone = [reranker.score(question, [passage])[0] for passage in PASSAGES]
    assert together[:3] == pytest.approx(alone, abs=1e-5)
    assert together[4:7] == pytest.approx(alone, abs=1e-5)


def test_a_fact_at_the_end_of_a_long_passage_counts(reranker: Reranker) -> None:
    long = FILLER * 40
    without, at_end, at_start = reranker.score(
        "The Norris Dam was finished in 1936.", [long, long + PASSAGES[1], PASSAGES[1] + " " + long]
    )
    assert at_end > without + 0.05
    assert at_end == pytest.approx(at_start, abs=0.15)


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "…", "\n\nThe dam\n\n", "{braces}", "[SEP] [CLS]", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \ud800"[:-1]]
)
def test_odd_texts_score_on_either_side(reranker: Reranker, text: str) -> None:
    scores = [*reranker.score(text, PASSAGES), *reranker.score("dam", [text])]
    assert all(np.isfinite(scores))


def test_no_passages_give_no_scores(reranker: Reranker) -> None:
    assert reranker.score("anything", []) == []


def test_flashrank_itself_loads_the_folder_without_a_network() -> None:
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise OSError('no network')\n"
        "socket.socket.connect = refuse\n"
        "from flashrank import Ranker, RerankRequest\n"
        "from flashrank.Config import model_file_map\n"
        f"model_file_map[{PACKAGED_NAME!r}] = 'model.onnx'\n"
        f"ranker = Ranker({PACKAGED_NAME!r}, cache_dir={str(PACKAGED_FOLDER)!r})\n"
        f"passages = [{{'id': i, 'text': t}} for i, t in enumerate({PASSAGES!r})]\n"
        "found = ranker.rerank(RerankRequest(query='When was Norris Dam finished?', passages=passages))\n"
        "print(found[0]['id'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout.strip() == "1", done.stderr


def test_the_packaged_model_is_at_most_30_megabytes() -> None:
    assert sum(path.stat().st_size for path in (PACKAGED_FOLDER / PACKAGED_NAME).iterdir()) <= 30e6


def test_a_name_flashrank_does_not_know_is_refused_with_the_known_ones(settings: Settings) -> None:
    with pytest.raises(Unavailable, match="ms-marco-MiniLM-L-12-v2"):
        load_reranker(replace(settings, rerank_model="nothing-like-it"))


def test_a_flashrank_model_that_is_not_here_says_so_when_the_hub_is_off(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(Unavailable, match="has not been fetched"):
        load_reranker(replace(settings, rerank_model="ms-marco-TinyBERT-L-2-v2"))
