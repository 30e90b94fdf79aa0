"""Builds the packaged reranker, as `python -m benchmarks.reranker.build` or `make reranker`.

Needs the packaged encoder and the training text in ../shared/data/train/. Takes a few minutes of one core;
the terms of each group are kept in .receipts/reranker as they are measured, so a stopped build goes on.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from benchmarks.reranker import graph, training
from benchmarks.reranker.fit import Array, fit
from benchmarks.reranker.quantise import layer_inputs
from benchmarks.reranker.tokens import write_tokenizer
from provenance.retrieval.embedder import load_embedder
from provenance.retrieval.reranker import PACKAGED_FOLDER, PACKAGED_NAME
from provenance.settings import Settings

TRAINING = Path("../shared/data/train")
SCRATCH = Path(".receipts/reranker")
TARGET = PACKAGED_FOLDER / PACKAGED_NAME
MODEL = "model.onnx"
FITTED = "head.json"


def main() -> None:
    """Write the graph, the tokenizer's files and the head's record into the package."""
    embedder = load_embedder(Settings())
    embedder.encode(["checks the hash of the weights"])
    weights = embedder.folder / "model.safetensors"
    text = training.read(TRAINING)
    TARGET.mkdir(parents=True, exist_ok=True)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    write_tokenizer(embedder.folder, TARGET)
    tokenizer = Tokenizer.from_file(str(TARGET / "tokenizer.json"))
    word_weights = training.word_weights(text, tokenizer)
    layers = layer_inputs(embedder.folder, training.calibration(text))
    unjoined = SCRATCH / "terms.onnx"
    graph.build(weights, word_weights, None, unjoined, layers)
    groups = training.groups(text, embedder)
    head, figures = fit(_terms(unjoined, tokenizer, groups))
    record = {
        "made by": "python -m benchmarks.reranker.build",
        "terms": list(graph.TERMS),
        "weights": [round(w, 4) for w in head.weights],
        "bias": round(head.bias, 4),
        **figures,
    }
    (TARGET / FITTED).write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    graph.build(weights, word_weights, head, TARGET / MODEL, layers)
    print(json.dumps(record | {"megabytes": round((TARGET / MODEL).stat().st_size / 1e6, 1)}, indent=1))


def _terms(model: Path, tokenizer: Tokenizer, groups: list[training.Group]) -> list[Array]:
    """The terms of every group, (passages, terms); those measured before are read back."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model), options)
    key = hashlib.sha256(model.read_bytes()).hexdigest()
    found = []
    for number, group in enumerate(groups):
        name = hashlib.sha256(json.dumps([key, group.left, group.passages]).encode()).hexdigest()[:24]
        kept = SCRATCH / f"{name}.npy"
        if not kept.exists():
            part = kept.with_suffix(".part.npy")
            np.save(part, session.run(None, pair_inputs(tokenizer, group.left, group.passages))[0])
            part.replace(kept)
        found.append(np.load(kept).astype(np.float64))
        if sys.stderr.isatty() or number % 100 == 0:
            print(f"{number + 1} of {len(groups)} groups", file=sys.stderr, flush=True)
    return found


def pair_inputs(tokenizer: Tokenizer, left: str, passages: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The three inputs of the graph for one left side and its passages, as FlashRank makes them."""
    tokenizer.enable_truncation(512)
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch([(left, passage) for passage in passages])
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(e, field) for e in encodings]) for name, field in columns.items()}


if __name__ == "__main__":
    main()
