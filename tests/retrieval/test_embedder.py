"""The packaged embedder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from provenance.errors import Unavailable
from provenance.parts import Parts
from provenance.retrieval.embedder import PACKAGED_NAME, Embedder, load_embedder
from provenance.settings import Settings


@pytest.fixture(scope="module")
def embedder(parts: Parts) -> Embedder:
    return parts.embedder()


def test_vectors_are_unit_rows_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = ["The dam was finished in 1936.", "Bananas are yellow.", "The dam was finished in 1936."]
    vectors = embedder.encode(texts)
    assert vectors.shape == (3, embedder.dimension) == (3, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[0], vectors[2], atol=1e-5)


def test_like_texts_are_nearer_than_unlike_ones(embedder: Embedder) -> None:
    question, near, far = embedder.encode(
        ["When was the dam built?", "The dam was finished in 1936.", "A ripe banana."]
    )
    assert question @ near > question @ far + 0.3


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    assert embedder.encode([]).shape == (0, 384)


def test_the_name_and_revision_say_which_weights_made_a_vector(embedder: Embedder) -> None:
    assert embedder.name == PACKAGED_NAME
    assert len(embedder.revision) == 12


def test_weights_with_another_hash_are_refused(embedder: Embedder) -> None:
    with pytest.raises(Unavailable):
        Embedder(embedder.folder, "other", sha256="0" * 64).encode(["text"])


def test_a_folder_that_is_no_model_is_named(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"has no config\.json"):
        load_embedder(replace(settings, provenance_similarity_llm=str(tmp_path)))


def test_a_text_whose_tokens_were_just_read_is_not_read_again(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["The weir was raised by two feet in 1911.", "Eels pass it at night.", "Nobody counts them."]
    before = embedder.encode(texts)
    tokens = embedder.token_vectors(texts)
    assert all(len(item.offsets) == len(item.vectors) for item in tokens)

    def read_again(*_: object, **__: object) -> None:
        raise AssertionError("the model read a text that it had just read")

    monkeypatch.setattr(embedder._load(), "encode", read_again)
    np.testing.assert_allclose(embedder.encode(texts), before, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(embedder.encode(texts[:1]), axis=1), 1, atol=1e-5)
