"""Layers as ops of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

import onegraph as og

from .parameters import Parameters

EPSILON = 1e-5
Tensor = og.LogicalTensor


class Network:
    """The layers of a model in inference: parameters are constants; normalization keeps f32 parameters."""

    def __init__(self, parameters: Parameters, dtype: og.DataType = og.f32) -> None:
        self.graph = og.Graph()
        self.parameters, self.dtype = parameters, dtype

    def input(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.graph.input(name, self.dtype, shape)

    def parameter(self, name: str, dtype: og.DataType | None = None) -> Tensor:
        return self.graph.constant(self.parameters[name].astype((dtype or self.dtype).numpy), name=name)

    def optional(self, name: str) -> Tensor | None:
        return self.parameter(name) if name in self.parameters else None

    def conv(self, x: Any, name: str, stride: int = 1, pad: int = 0) -> Any:
        weights = self.parameter(f"{name}_weight")
        y = self.graph.convolution(
            x, weights, self.optional(f"{name}_bias"), weights_format="OIX", name=name, **window(stride, pad)
        )
        return self.norm(y, name)

    def conv_transpose(self, x: Any, name: str, stride: int, pad: int) -> Any:
        weights = self.parameter(f"{name}_weight")
        return self.norm(
            self.graph.conv_transpose(x, weights, weights_format="IOX", name=name, **window(stride, pad)), name
        )

    def norm(self, x: Tensor, name: str) -> Tensor:
        if f"{name}_gamma" not in self.parameters:
            return x
        vectors = [self.parameter(f"{name}_{part}", og.f32) for part in ("gamma", "beta", "mean", "variance")]
        return self.graph.batch_norm_inference(x, *vectors, epsilon=EPSILON)

    def relu(self, x: Any) -> Any:
        return self.graph.relu(x)

    def tanh(self, x: Any) -> Any:
        return self.graph.tanh(x)

    def gelu(self, x: Any) -> Any:
        return self.graph.gelu(x)

    def add(self, x: Any, y: Any) -> Any:
        return self.graph.add(x, y)

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        return self.graph.max_pool(x, kernel=[kernel] * 2, **window(stride, pad))

    def mean(self, x: Any) -> Any:
        return self.graph.reduce_mean(x, axes=[1, 2])

    def linear(self, x: Any, name: str) -> Any:
        weights, bias = self.parameter(f"{name}_weight"), self.parameter(f"{name}_bias")
        return self.graph.matmul(x, weights, bias, transpose_b=True, dtype=self.dtype, name=name)

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

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        return self.matmul(self.probabilities(query, key), value)

    def probabilities(self, query: Any, key: Any) -> Any:
        scores = self.matmul(query, key, transpose_b=True)
        scores = self.graph.divide(scores, self.scale(query))
        return self.graph.softmax(scores, axis=-1)

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
