"""Scores (left side, passage) pairs with a FlashRank model: the packaged one, or one of FlashRank's own.

The left side is a question (search), an answer, or a question and an answer (provenance).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from provenance.errors import Unavailable
from provenance.records import Span
from provenance.retrieval.windows import window_spans
from provenance.settings import Settings

if TYPE_CHECKING:
    from flashrank import Ranker
    from tokenizers import Tokenizer

PACKAGED_NAME = "receipts-minilm"
PACKAGED_FOLDER = Path(__file__).parent / "reranker_model"

PACKAGED_SEARCH_WEIGHT = 0.2
"""How much the packaged reranker counts beside the fused score in a search, chosen on the training questions.

It is made of the same encoder as the dense search, so alone it would throw away what the words tell.
"""

_MODEL_FILE = "model.onnx"
_MAX_TOKENS = 512  # what FlashRank's models read of one pair
_LEFT_TOKENS = 192  # of one window of the left side
_PASSAGE_TOKENS = 240  # of one window of a passage
_OVERLAP = 48
_BATCH = 10


class Reranker:
    """A FlashRank cross-encoder. The model loads, and FlashRank's own is fetched, at the first `score`.

    `search_weight` is how much its score counts when a search is reranked; the fused score counts the rest.
    """

    def __init__(self, name: str, cache: Path) -> None:
        self.name = name
        self.cache = cache
        self.search_weight = PACKAGED_SEARCH_WEIGHT if name == PACKAGED_NAME else 1.0
        self._ranker: Ranker | None = None
        self._tokenizer: Tokenizer | None = None
        self._lock = threading.Lock()

    def score(self, left: str, passages: Sequence[str]) -> list[float]:
        """One score in 0..1 per passage, in the order given: does the passage say what `left` says or asks?

        A passage longer than a window counts as its best window; a left side longer than
        one is the mean over its windows. Raises Unavailable where the model cannot be had.
        """
        if not passages:
            return []
        with self._lock:
            ranker = self._load()
            lefts = self._windows(left, _LEFT_TOKENS)
            windows = [self._windows(passage, _PASSAGE_TOKENS) for passage in passages]
            totals = [0.0] * len(passages)
            for part in lefts:
                for i, score in enumerate(_best_windows(ranker, part, windows)):
                    totals[i] += score / len(lefts)
        return totals

    def _windows(self, text: str, size: int) -> list[str]:
        assert self._tokenizer is not None
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        spans: list[Span] = window_spans(text, offsets, size, _OVERLAP)
        return [text[start:stop] for start, stop in spans]

    def _load(self) -> Ranker:
        if self._ranker is None:
            from flashrank import Ranker
            from flashrank.Config import model_file_map
            from tokenizers import Tokenizer

            if self.name == PACKAGED_NAME:
                model_file_map[PACKAGED_NAME] = _MODEL_FILE
            elif not (self.cache / self.name).is_dir():
                _fetch(self.name, self.cache)
            try:
                ranker = Ranker(self.name, cache_dir=str(self.cache), max_length=_MAX_TOKENS, log_level="WARNING")
            except Exception as error:  # onnxruntime, tokenizers and json each raise their own
                raise Unavailable(
                    f"The reranker {self.name} in {self.cache / self.name} could not be loaded ({error}). "
                    "Delete that folder to fetch it again."
                ) from error
            tokenizer = Tokenizer.from_file(str(self.cache / self.name / "tokenizer.json"))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            self._tokenizer, self._ranker = tokenizer, ranker
        return self._ranker


def load_reranker(settings: Settings) -> Reranker:
    """The reranker of `settings.rerank_model`, or the packaged one where that is None. Loads no weights.

    FlashRank's own models are kept under `settings.provenance_home`. Raises Unavailable
    for a name FlashRank does not know, and where the files are missing and cannot be fetched.
    """
    name = settings.rerank_model
    if name is None or name == PACKAGED_NAME:
        if not (PACKAGED_FOLDER / PACKAGED_NAME / _MODEL_FILE).is_file():
            raise Unavailable(
                f"The packaged reranker is missing from {PACKAGED_FOLDER}; "
                "build it with `python -m benchmarks.reranker.build`, or set rerank_model."
            )
        return Reranker(PACKAGED_NAME, PACKAGED_FOLDER)
    from flashrank.Config import listwise_rankers, model_file_map

    known = sorted(set(model_file_map) - set(listwise_rankers) - {PACKAGED_NAME})
    if name not in known:
        raise Unavailable(
            f"rerank_model {name!r} is not a model of FlashRank that can score a passage alone; "
            f"choose one of {', '.join(known)}, or leave it empty for the packaged one."
        )
    cache = settings.provenance_home / "flashrank"
    if not (cache / name).is_dir() and os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        raise Unavailable(
            f"The reranker {name} has not been fetched yet and HF_HUB_OFFLINE forbids it. "
            "Unset it, or leave rerank_model empty for the packaged one."
        )
    return Reranker(name, cache)


def _best_windows(ranker: Ranker, left: str, windows: Sequence[Sequence[str]]) -> list[float]:
    """The best window's score of each passage. Batches hold pairs of like length, so little is padded."""
    from flashrank import RerankRequest

    pairs = [{"id": i, "text": text} for i, texts in enumerate(windows) for text in texts]
    pairs.sort(key=lambda pair: len(str(pair["text"])))
    best = [0.0] * len(windows)
    for start in range(0, len(pairs), _BATCH):
        # FlashRank sorts and changes the list it is given: hand it copies and join by id.
        batch = [dict(pair) for pair in pairs[start : start + _BATCH]]
        for result in ranker.rerank(RerankRequest(query=left, passages=batch)):
            i = int(result["id"])
            best[i] = max(best[i], float(result["score"]))
    return best


def _fetch(name: str, cache: Path) -> None:
    """Let FlashRank download a model, and move it into place only when it is whole."""
    import requests
    from flashrank import Ranker
    from flashrank.Config import model_url

    cache.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".fetch-", dir=cache))
    try:
        # FlashRank's own request has no time limit; ask first whether anyone answers.
        requests.head(model_url.format(name), timeout=10, allow_redirects=True).raise_for_status()
        Ranker(name, cache_dir=str(staging), log_level="WARNING")
        os.replace(staging / name, cache / name)
    except Exception as error:  # network, zip and model errors alike: the model is not to be had now
        raise Unavailable(
            f"The reranker {name} could not be fetched from FlashRank's hub ({type(error).__name__}). "
            "Check the network, or leave rerank_model empty for the packaged one."
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
