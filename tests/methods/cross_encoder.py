"""A tiny cross-encoder in FlashRank's layout: its score grows with the words that both sides share."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

NAME = "ms-marco-TinyBERT-L-2-v2"
FILE = "flashrank-TinyBERT-L-2-v2.onnx"  # what FlashRank expects in a folder of that name
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def write_cross_encoder(cache: Path, words: tuple[str, ...]) -> Path:
    """Write the model's folder under `cache`. `words` are the words that count; every other one is unknown."""
    folder = cache / NAME
    folder.mkdir(parents=True)
    vocabulary = {word: i for i, word in enumerate((*_SPECIAL, *dict.fromkeys(words)))}
    _tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 512, "pad_token": "[PAD]"}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]", "sep_token": "[SEP]"}))
    onnx.save(_graph(len(vocabulary)), str(folder / FILE))
    return folder


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _graph(size: int) -> onnx.ModelProto:
    """logit = 2 · (words on both sides) − 3."""
    counts = np.ones((size, 1), dtype=np.float32) * 2
    counts[: len(_SPECIAL)] = 0
    constants = {
        "size": np.array(size, dtype=np.int64),
        "values": np.array([0, 1], dtype=np.float32),
        "one": np.array(1, dtype=np.float32),
        "last": np.array([2], dtype=np.int64),
        "weights": counts,
        "bias": np.array([-3], dtype=np.float32),
    }
    nodes = [
        helper.make_node("OneHot", ["input_ids", "size", "values"], ["hot"]),
        helper.make_node("Cast", ["token_type_ids"], ["right_row"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["right_row", "last"], ["right_mask"]),
        helper.make_node("Sub", ["one", "right_mask"], ["left_mask"]),
        helper.make_node("Mul", ["hot", "left_mask"], ["left_hot"]),
        helper.make_node("Mul", ["hot", "right_mask"], ["right_hot"]),
        helper.make_node("ReduceMax", ["left_hot"], ["left"], axes=[1], keepdims=0),
        helper.make_node("ReduceMax", ["right_hot"], ["right"], axes=[1], keepdims=0),
        helper.make_node("Mul", ["left", "right"], ["both"]),
        helper.make_node("MatMul", ["both", "weights"], ["shared"]),
        helper.make_node("Add", ["shared", "bias"], ["logits"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    graph = helper.make_graph(
        nodes,
        "overlap",
        inputs,
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model
