"""Builds decoders as the model builder of onnxruntime-genai writes them, of random weights."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
MOST_TOKENS = 64  # rows of the tables of cosines and sines


@dataclass
class GenaiDecoder:
    """A decoder with grouped attention, from token ids and a cache to scores of the words and a new cache.

    Attributes:
        bits: of the weights, 4 or 8 in blocks of 32; 32 for f32.
        packs: whether one product gives query, key and value.
        norms_heads: whether queries and keys are normalized.
        packed_words: whether the table of the words has codes too.
        window, softcap, level: of the attentions, and the accuracy level of the products.
        total_by_contents: whether the number of all tokens is counted in the mask, and not its last dim.
    """

    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head: int = 32
    inner: int = 96
    words: int = 160
    bits: int = 4
    packs: bool = False
    norms_heads: bool = False
    packed_words: bool = False
    window: int = -1
    softcap: float = 0.0
    level: int = 0
    total_by_contents: bool = False
    _nodes: list[onnx.NodeProto] = field(default_factory=list)
    _held: list[onnx.TensorProto] = field(default_factory=list)
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def feeds(self, ids, cache, seen):
        """The inputs of a step: token ids (batch, tokens), the cache, and a mask (batch, all tokens)."""
        given = {"input_ids": np.asarray(ids, np.int64), "attention_mask": np.asarray(seen, np.int64)}
        return given | {f"past_key_values.{name}": array for name, array in cache.items()}

    def cache(self, batch=1, tokens=0):
        """A cache of zeros."""
        shape = batch, self.kv_heads, tokens, self.head
        names = [f"{layer}.{end}" for layer in range(self.layers) for end in ("key", "value")]
        return {name: np.zeros(shape, np.float32) for name in names}

    def model(self):
        """The model, whose batch and numbers of tokens are open."""
        self._mask()
        table = self._weights(self.words, self.width)
        if self.packed_words:
            codes, scales = self._codes(table, flat=True)
            attrs = {"bits": self.bits, "block_size": 32, "gather_axis": 0, "quantize_axis": 1}
            state = self._node("GatherBlockQuantized", codes, "input_ids", scales, domain=MICROSOFT, **attrs)
        else:
            state = self._node("Gather", self._constant(table), "input_ids")
        skip = None
        for layer in range(self.layers):
            normal, state = self._norm(state, skip)
            mixed = self._attention(normal, layer)
            normal, state = self._norm(state, mixed)
            skip = self._gated(normal)
        normal, _ = self._norm(state, skip, is_last=True)
        self._nodes.append(helper.make_node("Identity", [self._product(normal, self.width, self.words)], ["logits"]))
        cache = ("batch", self.kv_heads, "past", self.head)
        wide = TensorProto.INT64
        ends = [("input_ids", ("batch", "tokens"), wide), ("attention_mask", ("batch", "total"), wide)]
        ends += [(f"past_key_values.{name}", cache, TensorProto.FLOAT) for name in self.cache()]
        results = [("logits", ("batch", "tokens", self.words))]
        results += [(f"present.{name}", (*cache[:2], "whole", cache[3])) for name in self.cache()]
        graph = helper.make_graph(
            self._nodes,
            "decoder",
            [helper.make_tensor_value_info(name, kind, shape) for name, shape, kind in ends],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in results],
            self._held,
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _node(self, kind: str, *inputs: str, outputs: Any = 1, domain: str = "", **attrs: Any) -> Any:
        place = len(self._nodes)
        names = [f"{kind}_{place}_{at}" for at in range(outputs)] if isinstance(outputs, int) else outputs
        self._nodes.append(helper.make_node(kind, inputs, names, name=f"{kind}_{place}", domain=domain, **attrs))
        return names[0] if len(names) == 1 else names

    def _constant(self, array):
        self._held.append(numpy_helper.from_array(np.asarray(array), f"constant_{len(self._held)}"))
        return self._held[-1].name

    def _weights(self, columns, depth):
        return self._rng.standard_normal((columns, depth), np.float32) / np.float32(depth**0.5)

    def _mask(self):
        """The last places of the rows and the number of all tokens, from the mask."""
        if self.total_by_contents:
            narrow = self._node("Cast", "attention_mask", to=TensorProto.INT32)
            seen = self._node("ReduceSum", narrow, self._constant(np.array([1])), keepdims=0)
            self.total = self._node("ReduceMax", seen, keepdims=0)
            self.lengths = self._node("Sub", seen, self._constant(np.array([1], np.int32)))
            return
        seen = self._node("ReduceSum", "attention_mask", self._constant(np.array([1])), keepdims=0)
        last = self._node("Sub", seen, self._constant(np.array([1])))
        self.lengths = self._node("Cast", last, to=TensorProto.INT32)
        count = self._node("Gather", self._node("Shape", "attention_mask"), self._constant(np.array(1)), axis=0)
        self.total = self._node("Cast", count, to=TensorProto.INT32)

    def _codes(self, weights, flat=False):
        """Codes and scales of weights (columns, depth)."""
        columns = len(weights)
        blocks, half = weights.reshape(columns, -1, 32), 1 << (self.bits - 1)
        scales = np.abs(blocks).max(-1) / (half - 1)
        codes = (np.clip(np.rint(blocks / scales[..., None]), -half, half - 1) + half).astype(np.uint8)
        rows = codes if self.bits == 8 else codes[..., ::2] | codes[..., 1::2] << 4
        if flat:
            rows = rows.reshape(columns, -1)
        return self._constant(rows), self._constant(scales)

    def _product(self, source, depth, columns):
        weights = self._weights(columns, depth)
        if self.bits == 32:
            return self._node("MatMul", source, self._constant(np.ascontiguousarray(weights.T)))
        sizes = {"bits": self.bits, "block_size": 32, "K": depth, "N": columns, "accuracy_level": self.level}
        return self._node("MatMulNBits", source, *self._codes(weights), domain=MICROSOFT, **sizes)

    def _norm(self, source, skip, is_last=False):
        """The normalized sum of two tensors, and the sum."""
        gamma = self._constant(self._rng.uniform(0.5, 1.5, self.width).astype(np.float32))
        if skip is None:
            attrs = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
            return self._node("SimplifiedLayerNormalization", source, gamma, **attrs), source
        names = [f"normal_{len(self._nodes)}", *(() if is_last else ("", "", f"sum_{len(self._nodes)}"))]
        self._node(
            "SkipSimplifiedLayerNormalization", source, skip, gamma, domain=MICROSOFT, outputs=names, epsilon=1e-5
        )
        return names[0], names[-1]

    def _normed_heads(self, source, count):
        gamma = self._constant(self._rng.uniform(0.5, 1.5, self.head).astype(np.float32))
        apart = self._node("Reshape", source, self._constant(np.array([0, -1, count, self.head])))
        normal = self._node("SimplifiedLayerNormalization", apart, gamma, axis=-1, epsilon=1e-6, stash_type=1)
        return self._node("Reshape", normal, self._constant(np.array([0, -1, count * self.head])))

    def _attention(self, source, layer):
        wide, narrow = self.heads * self.head, self.kv_heads * self.head
        if self.packs:
            ends = [self._product(source, self.width, wide + 2 * narrow), "", ""]
        else:
            ends = [self._product(source, self.width, size) for size in (wide, narrow, narrow)]
            if self.norms_heads:
                counts = self.heads, self.kv_heads
                ends[:2] = [self._normed_heads(end, count) for end, count in zip(ends, counts, strict=False)]
        angles = np.arange(MOST_TOKENS)[:, None] / 10000 ** (np.arange(self.head // 2) / (self.head // 2))
        if not layer:
            self.tables = [self._constant(function(angles).astype(np.float32)) for function in (np.cos, np.sin)]
        names = [f"mixed_{layer}", f"present.{layer}.key", f"present.{layer}.value"]
        past = [f"past_key_values.{layer}.{end}" for end in ("key", "value")]
        attrs = {"num_heads": self.heads, "kv_num_heads": self.kv_heads, "do_rotary": 1, "rotary_interleaved": 0}
        attrs |= {"local_window_size": self.window, "softcap": self.softcap, "scale": self.head**-0.5}
        self._node(
            "GroupQueryAttention",
            *[*ends, *past, self.lengths, self.total, *self.tables],
            domain=MICROSOFT,
            outputs=names,
            **attrs,
        )
        return self._product(names[0], wide, self.width)

    def _gated(self, source):
        gate, up = (self._product(source, self.width, self.inner) for _ in range(2))
        act = self._node("Mul", gate, self._node("Sigmoid", gate))
        return self._product(self._node("Mul", act, up), self.inner, self.width)
