"""An ONNX model of a Llama-like decoder that computes one step with a cache, with weights of several kinds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from onegraph.lowering.compression import coded

Array = NDArray[Any]
MICROSOFT = "com.microsoft"
OPSET, IR = 21, 10


@dataclass(frozen=True)
class Sizes:
    """The sizes of a decoder."""

    layers: int = 12
    width: int = 1024
    heads: int = 16
    kv_heads: int = 4
    inner: int = 2816
    words: int = 51200
    past: int = 256

    @property
    def head(self) -> int:
        """Numbers of a head."""
        return self.width // self.heads


SMALL = Sizes(layers=1, width=64, heads=4, kv_heads=2, inner=96, words=128, past=8)


@dataclass
class Decoder:
    """Builds the model.

    Attributes:
        sizes: of the decoder.
        kind: of the weights: f32, bf16, int8 or int4; the latter two in blocks of 32 numbers.
        tokens: of a step.
        bytes: of the weights that a step reads.
    """

    sizes: Sizes
    kind: str
    tokens: int = 1
    bytes: int = 0
    _nodes: list[onnx.NodeProto] = field(default_factory=list)
    _held: list[onnx.TensorProto] = field(default_factory=list)
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def inputs(self) -> dict[str, Array]:
        """Random inputs of a step."""
        rng, sizes = np.random.default_rng(1), self.sizes
        found = {"x": rng.standard_normal((1, self.tokens, sizes.width)).astype(np.float32)}
        shape = (1, sizes.kv_heads, sizes.past, sizes.head)
        for layer in range(sizes.layers):
            for name in ("key", "value"):
                found[f"{name}_{layer}"] = rng.standard_normal(shape).astype(np.float32)
        return found

    def model(self) -> onnx.ModelProto:
        """The model: hidden states of the new tokens and the cache, to scores of the words and the new cache."""
        given = self.inputs()
        state, results = "x", []
        for layer in range(self.sizes.layers):
            state, kept = self._layer(state, layer)
            results += kept
        scores = self._product(self._norm(state), self.sizes.width, self.sizes.words)
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in given.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in (scores, *results)]
        graph = helper.make_graph(self._nodes, "decoder", ends, outputs, self._held)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR)

    # Nodes -----------------------------------------------------------------------------------------------------------

    def _node(self, kind: str, *inputs: str, domain: str = "", **attrs: Any) -> str:
        name = f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], name=name, domain=domain, **attrs))
        return name

    def _constant(self, array: Array) -> str:
        name = f"constant_{len(self._held)}"
        self._held.append(numpy_helper.from_array(array, name))
        return name

    def _numbers(self, *values: int) -> str:
        return self._constant(np.array(values, np.int64))

    def _reshaped(self, source: str, *dims: int) -> str:
        return self._node("Reshape", source, self._numbers(*dims))

    def _product(self, source: str, depth: int, columns: int) -> str:
        weights = self._rng.standard_normal((columns, depth), np.float32) / np.float32(depth**0.5)
        if self.kind in ("int4", "int8"):
            bits = int(self.kind[-1])
            rows, scales, _ = coded(weights, "u4" if bits == 4 else "u8", 32)
            rows = rows[:, : depth * bits // 8].reshape(columns, depth // 32, -1)
            self.bytes += rows.nbytes + scales.nbytes
            ends = [source, self._constant(rows), self._constant(scales)]
            sizes = {"K": depth, "N": columns, "bits": bits, "block_size": 32}
            return self._node("MatMulNBits", *ends, domain=MICROSOFT, accuracy_level=4, **sizes)
        turned = np.ascontiguousarray(weights.T)
        if self.kind == "f32":
            self.bytes += turned.nbytes
            return self._node("MatMul", source, self._constant(turned))
        held = onnx.TensorProto(name=f"constant_{len(self._held)}", dims=turned.shape, data_type=TensorProto.BFLOAT16)
        held.raw_data = (turned.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        self._held.append(held)
        self.bytes += turned.nbytes // 2
        narrow = self._node("Cast", source, to=TensorProto.BFLOAT16)
        return self._node("Cast", self._node("MatMul", narrow, held.name), to=TensorProto.FLOAT)

    def _norm(self, source: str) -> str:
        gamma = self._constant(np.ones(self.sizes.width, np.float32))
        return self._node("SimplifiedLayerNormalization", source, gamma, axis=-1, epsilon=1e-5)

    def _rotated(self, source: str) -> str:
        """A rotary embedding of (1, heads, tokens, head), in the form that exporters write."""
        sizes, half = self.sizes, self.sizes.head // 2
        places = np.arange(sizes.past, sizes.past + self.tokens)[:, None]
        angles = places / 10000 ** (np.arange(half) / half)
        rows = [np.tile(function(angles), 2).astype(np.float32)[None, None] for function in (np.cos, np.sin)]
        first, second = (
            self._node("Slice", source, self._numbers(start), self._numbers(start + half), self._numbers(3))
            for start in (0, half)
        )
        turned = self._node("Concat", self._node("Neg", second), first, axis=3)
        pair = [self._node("Mul", one, self._constant(row)) for one, row in zip((source, turned), rows, strict=True)]
        return self._node("Add", *pair)

    def _heads(self, source: str, count: int) -> str:
        apart = self._reshaped(source, 1, self.tokens, count, self.sizes.head)
        return self._node("Transpose", apart, perm=[0, 2, 1, 3])

    def _layer(self, state: str, layer: int) -> tuple[str, list[str]]:
        sizes = self.sizes
        normal, narrow = self._norm(state), sizes.kv_heads * sizes.head
        query = self._rotated(self._heads(self._product(normal, sizes.width, sizes.width), sizes.heads))
        key = self._rotated(self._heads(self._product(normal, sizes.width, narrow), sizes.kv_heads))
        value = self._heads(self._product(normal, sizes.width, narrow), sizes.kv_heads)
        keys = self._node("Concat", f"key_{layer}", key, axis=2)
        values = self._node("Concat", f"value_{layer}", value, axis=2)
        mixed = self._product(self._attention(query, keys, values), sizes.width, sizes.width)
        state = self._node("Add", state, mixed)
        normal = self._norm(state)
        gate, up = (self._product(normal, sizes.width, sizes.inner) for _ in range(2))
        gated = self._node("Mul", self._node("Mul", gate, self._node("Sigmoid", gate)), up)
        return self._node("Add", state, self._product(gated, sizes.inner, sizes.width)), [keys, values]

    def _attention(self, query: str, keys: str, values: str) -> str:
        """Queries of a group meet the keys of their head as rows of one product."""
        sizes = self.sizes
        rows = self._reshaped(query, 1, sizes.kv_heads, sizes.heads // sizes.kv_heads * self.tokens, sizes.head)
        scaled = self._node("Mul", rows, self._constant(np.array(sizes.head**-0.5, np.float32)))
        scores = self._node("MatMul", scaled, self._node("Transpose", keys, perm=[0, 1, 3, 2]))
        if self.tokens > 1:
            total = sizes.past + self.tokens
            behind = np.arange(total) > np.arange(sizes.past, total)[:, None]
            mask = np.tile(np.where(behind, np.float32(-1e9), 0), (sizes.heads // sizes.kv_heads, 1))
            scores = self._node("Add", scores, self._constant(mask.astype(np.float32)))
        mixed = self._node("MatMul", self._node("Softmax", scores, axis=-1), values)
        apart = self._reshaped(mixed, 1, sizes.heads, self.tokens, sizes.head)
        return self._reshaped(self._node("Transpose", apart, perm=[0, 2, 1, 3]), 1, self.tokens, sizes.width)
