"""What the packaged reranker costs for each pair, in batches of ten, on one core.

FlashRank lets onnxruntime use every core, so the session here is made anew with one thread
over the same file.
"""

from __future__ import annotations

import time

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from benchmarks.table import Goal, Row
from provenance.retrieval.reranker import PACKAGED_FOLDER, PACKAGED_NAME

PAIRS, TOKENS, RUNS = 10, 180, 5


def run(quick: bool) -> list[Row]:
    """The milliseconds of one pair of 180 tokens, the best of a few runs."""
    folder = PACKAGED_FOLDER / PACKAGED_NAME
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(folder / "model.onnx"), options)
    inputs = _pairs(Tokenizer.from_file(str(folder / "tokenizer.json")))
    session.run(None, inputs)
    taken = []
    for _ in range(2 if quick else RUNS):
        began = time.perf_counter()
        session.run(None, inputs)
        taken.append((time.perf_counter() - began) / PAIRS * 1000)
    return [Row(f"rerank, a pair of {TOKENS} tokens", min(taken), "ms", goal=Goal(25, of="value"))]


def _pairs(tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    tokenizer.enable_truncation(TOKENS)
    left = "When was the dam on the river finished, and who paid for it?"
    encodings = tokenizer.encode_batch([(left, f"Dam {n} was finished in 1936. " * 40) for n in range(PAIRS)])
    fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(e, field) for e in encodings]) for name, field in fields.items()}
