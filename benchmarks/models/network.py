"""Layers as ops of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

import onegraph as og

from .parameters import Parameters

EPSILON = 1e-5
SLOPE = 0.2  # of leaky ReLUs
MASKED = -1e9  # the score of a later token
Tensor = og.LogicalTensor


class Network:
    """The layers of a model in inference: parameters are constants; normalization keeps f32 parameters."""

    def __init__(self, parameters: Parameters, dtype: og.DataType = og.f32) -> None:
        self.graph = og.Graph()
        self.parameters, self.dtype = parameters, dtype

    def input(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.graph.input(name, self.dtype, shape)

    def parameter(self, name: str, dtype: og.DataType | None = None) -> Tensor:
        return self.graph.constant(self.parameters[name].astype((dtype or self.dtype).numpy))

    def optional(self, name: str) -> Tensor | None:
        return self.parameter(name) if name in self.parameters else None

    def conv(self, x: Any, name: str, stride: int = 1, pad: int = 0) -> Any:
        weights = self.parameter(f"{name}_weight")
        y = self.graph.convolution(
            x, weights, self.optional(f"{name}_bias"), weights_format="OIX", **window(stride, pad)
        )
        return self.norm(y, name)

    def conv_transpose(self, x: Any, name: str, stride: int, pad: int) -> Any:
        weights = self.parameter(f"{name}_weight")
        y = self.graph.conv_transpose(
            x, weights, self.optional(f"{name}_bias"), weights_format="IOX", **window(stride, pad)
        )
        return self.norm(y, name)

    def norm(self, x: Tensor, name: str) -> Tensor:
        if f"{name}_gamma" not in self.parameters:
            return x
        vectors = [self.parameter(f"{name}_{part}", og.f32) for part in ("gamma", "beta", "mean", "variance")]
        return self.graph.batch_norm_inference(x, *vectors, epsilon=EPSILON)

    def relu(self, x: Any) -> Any:
        return self.graph.relu(x)

    def leaky_relu(self, x: Any) -> Any:
        return self.graph.leaky_relu(x, alpha=SLOPE)

    def tanh(self, x: Any) -> Any:
        return self.graph.tanh(x)

    def gelu(self, x: Any) -> Any:
        return self.graph.gelu(x)

    def add(self, x: Any, y: Any) -> Any:
        return self.graph.add(x, y)

    def concat(self, parts: list[Any]) -> Any:
        """Join the channels."""
        return self.graph.concat(*parts, axis=-1)

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        return self.graph.max_pool(x, kernel=[kernel] * 2, **window(stride, pad))

    def mean(self, x: Any) -> Any:
        return self.graph.reduce_mean(x, axes=[1, 2])

    def linear(self, x: Any, name: str) -> Any:
        weights, bias = self.parameter(f"{name}_weight"), self.optional(f"{name}_bias")
        return self.graph.matmul(x, weights, bias, transpose_b=True, dtype=self.dtype)

    def embedded(self, words: Any, table: str, positions: str, batch: int) -> Any:
        """The rows of a table for the words of all sequences, with the table of positions added to each sequence."""
        table_rows, places = self.parameter(f"{table}_weight"), self.parameter(f"{positions}_weight")
        rows = self.graph.op("Gather", [table_rows, words], {"axis": 0}, edition="host")
        tokens, width = sizes(places)
        sequences = self.graph.add(self.reshape(rows, (batch, tokens, width)), self.reshape(places, (1, tokens, width)))
        return self.reshape(sequences, (batch * tokens, width))

    def first_tokens(self, x: Any, batch: int) -> Any:
        """The first row of each sequence."""
        rows, width = sizes(x)
        sequences = self.reshape(x, (batch, rows // batch, width))
        bounds = [self.graph.constant(np.array([bound]), dtype=og.s64) for bound in (0, 1, 1)]  # of axis 1
        return self.reshape(self.graph.op("Slice", [sequences, *bounds], edition="host"), (batch, width))

    def layer_norm(self, x: Any, name: str) -> Any:
        gamma, beta = (self.parameter(f"{name}_{part}", og.f32) for part in ("gamma", "bias"))
        return self.graph.layer_norm(x, gamma, beta, keep_stats=False, epsilon=EPSILON)

    def split_heads(self, x: Any, tokens: int, heads: int) -> Any:
        """From (batch * tokens, width) to (batch, heads, tokens, width / heads)."""
        rows, width = x.shape
        parts = self.reshape(x, (rows // tokens, tokens, heads, width // heads))
        return self.transpose(parts, (0, 2, 1, 3))

    def merge_heads(self, x: Any) -> Any:
        batch, heads, tokens, width = x.shape
        return self.reshape(self.transpose(x, (0, 2, 1, 3)), (batch * tokens, heads * width))

    def attention(self, query: Any, key: Any, value: Any, causal: bool = False) -> Any:
        scores = self.matmul(query, key, transpose_b=True)
        scores = self.graph.divide(scores, self.scale(query))
        if causal:
            scores = self.graph.add(scores, self.later(sizes(query)[-2]))
        return self.matmul(self.graph.softmax(scores, axis=-1), value)

    def later(self, tokens: int) -> Any:
        """What hides later tokens, added to the scores."""
        mask = np.triu(np.full((1, 1, tokens, tokens), MASKED, np.float32), 1)
        return self.graph.constant(mask.astype(self.dtype.numpy))

    def scale(self, query: Any) -> Any:
        return self.graph.constant(np.full((1,), np.sqrt(query.shape[-1]), self.dtype.numpy))

    def matmul(self, *inputs: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        return self.graph.matmul(*inputs, transpose_a=transpose_a, transpose_b=transpose_b, dtype=self.dtype)

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self.graph.static_reshape(x, shape=shape, special_zero=False)

    def transpose(self, x: Any, order: tuple[int, ...]) -> Any:
        return self.graph.static_transpose(x, order=order)


def window(stride: int, pad: int, dilations: bool = True) -> dict[str, Any]:
    """Attributes of a window over two spatial axes."""
    found = {"strides": [stride] * 2, "pads_begin": [pad] * 2, "pads_end": [pad] * 2}
    return {**found, "dilations": [1, 1]} if dilations else found


def sizes(tensor: og.LogicalTensor | og.capi.LogicalTensor) -> tuple[int, ...]:
    """The shape of a tensor whose dims are all known."""
    return tuple(dim or 0 for dim in tensor.shape or ())
