from __future__ import annotations

import threading
from collections.abc import Generator

import numpy as np
import pytest

from provenance.errors import ProvenanceError
from provenance.generation.models import LanguageModel
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.generation.writer import LocalWriter, Written
from provenance.methods.attention import block_scores
from provenance.methods.calibration import find_calibration
from provenance.parts import Parts
from provenance.records import Prompt

PASSAGES = pasted_passages(
    [("Notice", "The last evening sailing leaves Port Ellary at 21:40."), ("Menu", "Tea is £2.")]
)


def finish(stream: Generator[str, None, Written]) -> tuple[list[str], Written]:
    pieces = []
    try:
        while True:
            pieces.append(next(stream))
    except StopIteration as end:
        return pieces, end.value


@pytest.fixture(scope="module")
def prompt(lm: LanguageModel) -> Prompt:
    return build_prompt(lm, "When does the last evening sailing leave Port Ellary?", PASSAGES)


@pytest.fixture(scope="module")
def written(lm: LanguageModel, prompt: Prompt) -> tuple[list[str], Written]:
    return finish(LocalWriter(lm).stream(prompt, max_new_tokens=40))


def test_the_pieces_are_the_answer(written: tuple[list[str], Written]) -> None:
    pieces, result = written
    assert len(pieces) > 1
    assert "".join(pieces) == result.answer.text
    assert "21:40" in result.answer.text


def test_the_ids_are_those_that_were_generated(
    lm: LanguageModel, prompt: Prompt, written: tuple[list[str], Written]
) -> None:
    import torch

    answer = written[1].answer
    assert lm.tokenizer.decode(answer.token_ids) == answer.text
    with torch.inference_mode():
        expected = lm.model.generate(
            torch.tensor([prompt.token_ids]), max_new_tokens=len(answer.token_ids), do_sample=False
        )
    assert expected[0, len(prompt.token_ids) :].tolist() == list(answer.token_ids)


def test_greedy_writing_gives_the_same_answer_twice(
    lm: LanguageModel, prompt: Prompt, written: tuple[list[str], Written]
) -> None:
    again = finish(LocalWriter(lm, read_attention=False).stream(prompt, max_new_tokens=40))[1]
    assert again.answer.token_ids == written[1].answer.token_ids


def test_attention_is_read_on_the_way_only_where_asked(
    lm: LanguageModel, prompt: Prompt, written: tuple[list[str], Written]
) -> None:
    assert written[1].readout is not None
    assert finish(LocalWriter(lm, read_attention=False).stream(prompt, max_new_tokens=3))[1].readout is None


def test_the_app_reads_the_layers_that_its_methods_need_and_they_score_as_if_all_were_read(
    parts: Parts, prompt: Prompt, written: tuple[list[str], Written]
) -> None:
    calibration = find_calibration(parts.language_model(), parts.settings.provenance_home)
    writer = parts.writer()
    assert calibration is not None
    assert isinstance(writer, LocalWriter)
    live, everything = finish(writer.stream(prompt, max_new_tokens=40))[1].readout, written[1].readout
    assert live is not None
    assert everything is not None
    assert set(live.layers) == calibration.layers | {everything.layers[-1]}
    np.testing.assert_allclose(calibration.scores(live), calibration.scores(everything), rtol=1e-5)
    assert block_scores(live, True) == pytest.approx(block_scores(everything, True), rel=1e-5)


def test_stopping_returns_what_was_written_so_far(lm: LanguageModel, prompt: Prompt) -> None:
    stop = threading.Event()
    stream = LocalWriter(lm).stream(prompt, max_new_tokens=40, stop=stop)
    first = next(stream)
    stop.set()
    pieces, result = finish(stream)
    assert result.answer.finish == "stopped"
    assert result.answer.text == first + "".join(pieces)


def test_a_limit_is_kept_and_said(lm: LanguageModel, prompt: Prompt) -> None:
    answer = finish(LocalWriter(lm).stream(prompt, max_new_tokens=2))[1].answer
    assert (answer.finish, len(answer.token_ids)) == ("length", 2)


def test_closing_the_stream_frees_the_writer_for_the_next_answer(lm: LanguageModel, prompt: Prompt) -> None:
    writer = LocalWriter(lm)
    abandoned = writer.stream(prompt, max_new_tokens=40)
    next(abandoned)
    abandoned.close()
    assert finish(writer.stream(prompt, max_new_tokens=2))[1].answer.token_ids


def test_a_prompt_that_fills_the_window_is_an_error_in_words(lm: LanguageModel) -> None:
    long = build_prompt(lm, "Why?", pasted_passages([("Long", "word " * (lm.context_window + 10))]))
    with pytest.raises(ProvenanceError, match="leave no room"):
        next(LocalWriter(lm).stream(long, max_new_tokens=5))
