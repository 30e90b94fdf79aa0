"""The packaged reranker as an ONNX graph, written node by node.

Both sides go through all-MiniLM-L6-v2 in one pass, each as if alone: attention is
block-diagonal and positions restart, both derived from `token_type_ids`. A line break in
the left side begins a new block too, so a question and an answer are matched one by one and
averaged. Four terms compare a left block with the passage; a linear head joins them.

Weights of the linear layers are int8 with a scale per output, activations uint8 with a scale per token,
so that a score does not depend on its batch. Weights use 7 of the 8 bits: a processor without
dot products of bytes adds pairs of products in 16 bits. Word embeddings are int8 with a scale per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

Array = npt.NDArray[np.float32]

CLS, SEP, BREAK = 101, 102, 30522
LAYERS, HEADS, WIDTH, HEAD_WIDTH = 6, 12, 384, 32
LEFT_BLOCKS = 4  # lines of the left side matched one by one; what follows joins the last
CHUNK, STRIDE, CHUNKS = 48, 24, 21  # passage tokens in one local mean, step, and how many fit in 512
WEIGHT_LEVELS, ZERO = 63, 128
TERMS = ("cosine", "local cosine", "late interaction", "same word, same sense")


@dataclass(frozen=True, slots=True)
class Head:
    """`logit = bias + weights · terms`, with the terms in the order of `TERMS`."""

    weights: tuple[float, ...]
    bias: float


class _Graph:
    """Collects nodes and constants; every method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._shared: dict[tuple[str, bytes], str] = {}
        self._rows: dict[str, tuple[str, str]] = {}

    def constant(self, value: npt.NDArray) -> str:
        key = (f"{value.dtype}{value.shape}", value.tobytes())
        if key not in self._shared:
            self._shared[key] = f"c{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), self._shared[key]))
        return self._shared[key]

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def rows(self, x: str) -> tuple[str, str]:
        """Activations as uint8 around `ZERO`, each row on a scale of its own, and those scales."""
        if x not in self._rows:
            largest = self("ReduceMax", self("Abs", x), self.ints(-1), keepdims=1)
            scale = self("Mul", self("Max", largest, self.number(1e-6)), self.number(1 / 127))
            levels = self("Round", self("Div", x, scale))
            self._rows[x] = self.cast(self("Add", levels, self.number(ZERO)), TensorProto.UINT8), scale
        return self._rows[x]

    def cast(self, x: str, kind: int = TensorProto.FLOAT) -> str:
        return self("Cast", x, to=kind)

    def sum(self, x: str, axis: int, keep: bool = False) -> str:
        return self("ReduceSum", x, self.ints(axis), keepdims=int(keep))

    def max(self, x: str, axis: int) -> str:
        return self("ReduceMax", x, self.ints(axis), keepdims=0)

    def unsqueeze(self, x: str, axis: int) -> str:
        return self("Unsqueeze", x, self.ints(axis))

    def unit(self, x: str) -> str:
        """Rows of length one; a row of zeros stays zero."""
        square = self("ReduceSum", self("Mul", x, x), self.ints(-1), keepdims=1)
        return self("Div", x, self("Sqrt", self("Add", square, self.number(1e-12))))

    def mean(self, values: str, weights: str) -> str:
        """Weighted mean over the last axis; zero where every weight is."""
        total = self.sum(self("Mul", values, weights), -1)
        return self("Div", total, self("Max", self.sum(weights, -1), self.number(1e-6)))


def build(weights: Path, word_weights: Array, head: Head | None, target: Path, *, quantise: bool = True) -> None:
    """Write the graph: int64 `input_ids`, `attention_mask`, `token_type_ids` (pairs, tokens) → `logits` (pairs, 1).

    `weights` is the encoder's model.safetensors; `word_weights` is one weight per token id (30,523, the last
    for a line break). Without a head the `logits` are the terms themselves, (pairs, terms), for fitting one.
    With `quantise` False the weights stay float32, for comparison.
    """
    g = _Graph()
    tensors = load_file(str(weights))
    ids, mask, types = "input_ids", "attention_mask", "token_type_ids"
    is_break = g("Equal", ids, g.ints(BREAK))
    kept = g("Equal", mask, g.ints(1))
    right = g("And", g("Equal", types, g.ints(1)), kept)
    left = g("And", g("Not", right), kept)
    right = g("And", right, g("Not", is_break))  # a line break says nothing inside a passage
    lines = g("CumSum", g.cast(g("And", is_break, left), TensorProto.INT64), g.constant(np.array(1, np.int64)))
    lines = g("Min", lines, g.ints(LEFT_BLOCKS - 1))
    block = g("Where", right, g.ints(LEFT_BLOCKS), lines)
    block = g("Where", g("Or", left, right), block, g.ints(LEFT_BLOCKS + 1))
    same = g("Equal", g.unsqueeze(block, 2), g.unsqueeze(block, 1))
    before = g.cast(g("Trilu", g.cast(same), g.constant(np.array(-1, np.int64)), upper=0), TensorProto.INT64)
    position = g("Min", g.sum(before, 2), g.ints(511))
    hidden = _encode(g, tensors, ids, position, same, quantise)
    logits = _head(g, ids, hidden, block, right, position, word_weights, head)
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["pairs", "tokens"]) for n in (ids, mask, types)]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["pairs", 1 if head else len(TERMS)])
    g.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
    graph = helper.make_graph(g.nodes, "receipts-minilm", inputs, [output], g.constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9, producer_name="receipts"
    )
    onnx.checker.check_model(model)
    onnx.save(model, str(target))


def _encode(g: _Graph, t: dict[str, Array], ids: str, position: str, same: str, quantise: bool) -> str:
    words = t["embeddings.word_embeddings.weight"]
    words = np.concatenate([words, words[CLS : CLS + 1]])  # a line break opens a block as [CLS] does
    if quantise:
        scale = np.abs(words).max(1, keepdims=True) / 127
        stored = np.rint(words / scale).astype(np.int8)
        x = g("Mul", g.cast(g("Gather", g.constant(stored), ids)), g("Gather", g.constant(scale), ids))
    else:
        x = g("Gather", g.constant(words), ids)
    places = t["embeddings.position_embeddings.weight"] + t["embeddings.token_type_embeddings.weight"][0]
    x = g("Add", x, g("Gather", g.constant(places), position))
    x = _norm(g, x, t, "embeddings.LayerNorm")
    bias = g.unsqueeze(g("Where", same, g.number(0.0), g.number(-1e4)), 1)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        q, k, v = (
            g("Transpose", g("Reshape", y, g.ints(0, 0, HEADS, HEAD_WIDTH)), perm=perm)
            for part, perm in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3)))
            for y in [_linear(g, x, t, f"{name}attention.self.{part}", quantise)]
        )
        scores = g("Add", g("Mul", g("MatMul", q, k), g.number(HEAD_WIDTH**-0.5)), bias)
        mixed = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), v), perm=(0, 2, 1, 3))
        mixed = _linear(g, g("Reshape", mixed, g.ints(0, 0, WIDTH)), t, f"{name}attention.output.dense", quantise)
        x = _norm(g, g("Add", x, mixed), t, f"{name}attention.output.LayerNorm")
        inner = g("Gelu", _linear(g, x, t, f"{name}intermediate.dense", quantise))
        x = _norm(g, g("Add", x, _linear(g, inner, t, f"{name}output.dense", quantise)), t, f"{name}output.LayerNorm")
    return x


def _head(
    g: _Graph, ids: str, hidden: str, block: str, right: str, position: str, word_weights: Array, head: Head | None
) -> str:
    special = g(
        "Or", g("Equal", ids, g.ints(CLS)), g("Or", g("Equal", ids, g.ints(SEP)), g("Equal", ids, g.ints(BREAK)))
    )
    word = g.cast(g("Not", special))
    in_right = g.cast(right)
    # Left blocks as rows: (pairs, LEFT_BLOCKS, tokens).
    rows = g.cast(g("Equal", g.unsqueeze(block, 1), g.constant(np.arange(LEFT_BLOCKS).reshape(1, -1, 1))))
    weight = g("Mul", g("Gather", g.constant(word_weights.astype(np.float32)), ids), word)
    row_weight = g("Mul", rows, g.unsqueeze(weight, 1))
    left_mean = g.unit(g("MatMul", rows, hidden))
    right_mean = g.unit(g("MatMul", g.unsqueeze(in_right, 1), hidden))
    cosine = g.sum(g("Mul", left_mean, right_mean), 2)
    # The passage's own words, in overlapping chunks: a place inside a long passage may say it.
    start = g.constant((np.arange(CHUNKS) * STRIDE + 1).reshape(1, -1, 1))  # position 0 is [CLS]
    place = g.unsqueeze(position, 1)
    right_word = g("Mul", in_right, word)
    inside = g("And", g("GreaterOrEqual", place, start), g("Less", place, g("Add", start, g.ints(CHUNK))))
    chunks = g("Mul", g.cast(inside), g.unsqueeze(right_word, 1))
    last = g("Max", g("Sub", g.sum(right_word, 1), g.number(STRIDE)), g.number(1.0))  # a chunk starts before it
    used = g(
        "Less",
        g.constant((np.arange(CHUNKS) * STRIDE).astype(np.float32).reshape(1, 1, -1)),
        g.unsqueeze(g.unsqueeze(last, 1), 2),
    )
    near = g("MatMul", left_mean, g("Transpose", g.unit(g("MatMul", chunks, hidden)), perm=(0, 2, 1)))
    local = g.max(g("Where", used, near, g.number(-1.0)), 2)
    # Late interaction: for each left token its best passage token.
    units = g.unit(hidden)
    between = g("MatMul", units, g("Transpose", units, perm=(0, 2, 1)))
    other = g("Equal", g.unsqueeze(right_word, 1), g.number(1.0))
    late = g.mean(g.unsqueeze(g.max(g("Where", other, between, g.number(-1.0)), 2), 1), row_weight)
    equal = g("And", g("Equal", g.unsqueeze(ids, 2), g.unsqueeze(ids, 1)), other)
    sense = g.mean(g.unsqueeze(g.max(g("Where", equal, between, g.number(0.0)), 2), 1), row_weight)
    # Average over the lines that hold a word.
    present = g.cast(g("Greater", g.sum(g("Mul", rows, g.unsqueeze(word, 1)), 2), g.number(0.0)))
    terms = g("Concat", *(g.unsqueeze(g.mean(t, present), 1) for t in (cosine, local, late, sense)), axis=1)
    if head is None:
        return terms
    weights = g.constant(np.array(head.weights, np.float32).reshape(-1, 1))
    return g("Add", g("MatMul", terms, weights), g.number(head.bias))


def _norm(g: _Graph, x: str, t: dict[str, Array], name: str) -> str:
    scale, shift = g.constant(t[f"{name}.weight"]), g.constant(t[f"{name}.bias"])
    return g("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)


def _linear(g: _Graph, x: str, t: dict[str, Array], name: str, quantise: bool) -> str:
    weight, bias = t[f"{name}.weight"], g.constant(t[f"{name}.bias"])
    if not quantise:
        return g("Add", g("MatMul", x, g.constant(np.ascontiguousarray(weight.T))), bias)
    scale = np.maximum(np.abs(weight).max(1) / WEIGHT_LEVELS, 1e-12)
    stored = np.rint(weight / scale[:, None]).astype(np.int8).T
    levels, row = g.rows(x)
    y = g.cast(g("MatMulInteger", levels, g.constant(stored), g.constant(np.array(ZERO, np.uint8))))
    return g("Add", g("Mul", g("Mul", y, row), g.constant(scale.astype(np.float32))), bias)
