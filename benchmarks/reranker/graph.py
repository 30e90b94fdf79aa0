"""The packaged reranker as an ONNX graph, written node by node.

Both sides go through all-MiniLM-L6-v2 in one pass, each as if alone: attention is
block-diagonal and positions restart, both derived from `token_type_ids`. A line break in
the left side begins a new block too, so a question and an answer are matched one by one and
averaged. Four terms compare a left block with the passage; a linear head joins them.

Linear layers multiply bytes: weights with a scale per output (see quantise.py), activations with a
scale per token, and the encoder takes one pair after another, so a score does not depend on its batch.
Word embeddings are int8 with a scale per row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from benchmarks.reranker.quantise import Array, LayerInput, quantise

LayerInputs = Mapping[str, LayerInput]

CLS, SEP, BREAK = 101, 102, 30522
LAYERS, HEADS, WIDTH, HEAD_WIDTH = 6, 12, 384, 32
APART = -70.0  # added to the attention between blocks: e⁻⁷⁰ is nothing, yet no subnormal number, which would be slow
LEFT_BLOCKS = 4  # lines of the left side matched one by one; what follows joins the last
CHUNK, STRIDE, CHUNKS = 48, 24, 21  # passage tokens in one local mean, step, and how many fit in 512
ZERO = 128
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
        self._names = count()

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
        return self.several(op, 1, *inputs, **attributes)[0]

    def several(self, op: str, outputs: int, *inputs: str, **attributes: object) -> list[str]:
        """As calling the graph, for an operator of several outputs."""
        names = [f"n{next(self._names)}" for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names

    def each(self, body: Callable[..., str], *inputs: tuple[str, int, list[str]]) -> str:
        """The floats of `body` for one pair after another, stacked. An input is its name, its kind and a pair's axes.

        What one pair takes fits into a processor's cache; what ten take does not, nor do fifty fit well into memory.
        """
        outer, self.nodes = self.nodes, []
        within = [helper.make_tensor_value_info(f"one_{name}", kind, axes) for name, kind, axes in inputs]
        found = body(*(value.name for value in within))
        result = helper.make_tensor_value_info(found, TensorProto.FLOAT, None)
        inner = helper.make_graph(self.nodes, "pair", within, [result])
        self.nodes = outer
        return self("Scan", *(name for name, _, _ in inputs), body=inner, num_scan_inputs=len(inputs))

    def rows(self, x: str) -> tuple[str, str]:
        """Activations (rows, channels) as uint8 around `ZERO`, each row on a scale of its own, and those scales."""
        above, below = (self(op, x, self.ints(-1), keepdims=0) for op in ("ReduceMax", "ReduceMin"))
        largest = self("Max", above, self("Neg", below))
        scale = self("Mul", self("Max", largest, self.number(1e-6)), self.number(1 / 127))
        zeros = self("Expand", self.constant(np.array([ZERO], np.uint8)), self("Shape", scale))
        return self("QuantizeLinear", x, scale, zeros, axis=0), self.unsqueeze(scale, 1)

    def fused(self, op: str, *inputs: str, **attributes: object) -> str:
        """An operator of onnxruntime's own."""
        return self(op, *inputs, domain="com.microsoft", **attributes)

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


def build(weights: Path, word_weights: Array, head: Head | None, target: Path, layers: LayerInputs | None) -> None:
    """Write the graph: int64 `input_ids`, `attention_mask`, `token_type_ids` (pairs, tokens) → `logits` (pairs, 1).

    `weights` is the encoder's model.safetensors; `word_weights` is one weight per token id (30,523, the last
    for a line break). Without a head the `logits` are the terms themselves, (pairs, terms), for fitting one.
    `layers` is what enters each linear layer, by its name; without it the weights stay float32, for comparison.
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
    row = ["tokens"]
    hidden = g.each(
        lambda *one: _encode(g, tensors, *one, layers),
        (ids, TensorProto.INT64, row),
        (position, TensorProto.INT64, row),
        (same, TensorProto.BOOL, row * 2),
    )
    logits = _head(g, ids, hidden, block, right, position, word_weights, head)
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["pairs", "tokens"]) for n in (ids, mask, types)]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["pairs", 1 if head else len(TERMS)])
    g.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
    graph = helper.make_graph(g.nodes, "receipts-minilm", inputs, [output], g.constants)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
        producer_name="receipts",
    )
    onnx.checker.check_model(model)
    onnx.save(model, str(target))


def _encode(g: _Graph, t: dict[str, Array], ids: str, position: str, same: str, layers: LayerInputs | None) -> str:
    words = t["embeddings.word_embeddings.weight"]
    words = np.concatenate([words, words[CLS : CLS + 1]])  # a line break opens a block as [CLS] does
    if layers:
        scale = np.abs(words).max(1, keepdims=True) / 127
        stored = np.rint(words / scale).astype(np.int8)
        x = g("Mul", g.cast(g("Gather", g.constant(stored), ids)), g("Gather", g.constant(scale), ids))
    else:
        x = g("Gather", g.constant(words), ids)
    places = t["embeddings.position_embeddings.weight"] + t["embeddings.token_type_embeddings.weight"][0]
    x = g("Add", x, g("Gather", g.constant(places), position))
    x = _norm(g, x, t, "embeddings.LayerNorm")
    bias = g("Where", same, g.number(0.0), g.number(APART))
    enters = (layers or {}).get
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        into = _attention_inputs(t, f"{name}attention.self.")
        qkv = _linear(g, x, *into, enters(f"{name}attention.self.query"), normed=True)
        by_head = g("Transpose", g("Reshape", qkv, g.ints(0, 3 * HEADS, HEAD_WIDTH)), perm=(1, 0, 2))
        q, k, v = g.several("Split", 3, by_head, axis=0, num_outputs=3)
        scores = g("Add", g("MatMul", q, g("Transpose", k, perm=(0, 2, 1))), bias)
        mixed = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), v), perm=(1, 0, 2))
        mixed = g("Reshape", mixed, g.ints(0, WIDTH))
        mixed = _linear(g, mixed, *_layer(t, f"{name}attention.output.dense"), enters(f"{name}attention.output.dense"))
        x = _norm(g, g("Add", x, mixed), t, f"{name}attention.output.LayerNorm")
        into = _layer(t, f"{name}intermediate.dense")
        inner = g("Gelu", _linear(g, x, *into, enters(f"{name}intermediate.dense"), normed=True))
        inner = _linear(g, inner, *_layer(t, f"{name}output.dense"), enters(f"{name}output.dense"))
        x = _norm(g, g("Add", x, inner), t, f"{name}output.LayerNorm")
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
    """LayerNorm by operators that onnxruntime vectorises; its own kernel goes one value at a time."""
    centred = g("Sub", x, g("ReduceMean", x, g.ints(-1), keepdims=1))
    square = g("ReduceSum", g("Mul", centred, centred), g.ints(-1), keepdims=1)
    deviation = g("Sqrt", g("Add", g("Mul", square, g.number(1 / WIDTH)), g.number(1e-12)))
    scaled = g("Mul", g("Div", centred, deviation), g.constant(t[f"{name}.weight"]))
    return g("Add", scaled, g.constant(t[f"{name}.bias"]))


def _layer(t: dict[str, Array], name: str) -> tuple[Array, Array]:
    return t[f"{name}.weight"], t[f"{name}.bias"]


def _attention_inputs(t: dict[str, Array], name: str) -> tuple[Array, Array]:
    """Query, key and value as one layer; attention's 1/√width is in the query already."""
    query, key, value = (_layer(t, name + part) for part in ("query", "key", "value"))
    query = query[0] * HEAD_WIDTH**-0.5, query[1] * HEAD_WIDTH**-0.5
    weight, bias = (np.concatenate(parts) for parts in zip(query, key, value, strict=True))
    return weight, bias


def _linear(g: _Graph, x: str, weight: Array, bias: Array, enters: LayerInput | None, *, normed: bool = False) -> str:
    """`weight` (outputs, channels) and `bias` on `x` (rows, channels); in bytes where it is known what enters.

    `normed` says that `x` comes from a LayerNorm.
    """
    if enters is None:
        return g("Add", g("MatMul", x, g.constant(np.ascontiguousarray(weight.T))), g.constant(bias))
    stored = quantise(weight, enters, smooth=normed)
    levels, row = g.rows(x if stored.factor is None else g("Mul", x, g.constant(1 / stored.factor)))
    weights, scale = g.constant(np.ascontiguousarray(stored.levels.T)), g.constant(stored.scale[:, 0])
    zero = g.constant(np.array(ZERO, np.uint8))
    y = g.fused("MatMulIntegerToFloat", levels, weights, g.number(1.0), scale, zero)
    return g("Add", g("Mul", y, row), g.constant(bias))
