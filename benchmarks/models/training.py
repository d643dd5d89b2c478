"""Layers with their gradients: a training step as one graph, the backward ops written by hand for each layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onegraph as og

from .network import EPSILON, Network, Tensor, sizes, window

Backward = Callable[[Tensor], None]


class Training(Network):
    """Forward in training mode; parameters are graph inputs. ``gradients`` then adds the way back.

    The statistics of batch normalization are inputs too; ``f32`` names the parameters that stay f32.
    """

    def __init__(self, parameters: Any, dtype: og.DataType = og.f32) -> None:
        super().__init__(parameters, dtype)
        self.taken: dict[str, Tensor] = {}
        self._tape: list[tuple[Tensor, Backward]] = []
        self._gradients: dict[int, Tensor] = {}
        self._data: set[int] = set()

    def input(self, name: str, shape: tuple[int, ...]) -> Any:
        tensor = super().input(name, shape)
        self._data.add(tensor.id)  # its gradient is not needed
        return tensor

    def parameter(self, name: str, dtype: og.DataType | None = None) -> Tensor:
        if name not in self.taken:
            self.taken[name] = self.graph.input(name, dtype or self.dtype, self.parameters[name].shape)
        return self.taken[name]

    def gradients(self, result: Tensor, gradient: Tensor) -> None:
        """Add an output ``d_<parameter>`` for every parameter: its gradient, from the gradient of the result."""
        self._gradients[result.id] = gradient
        for tensor, backward in reversed(self._tape):
            backward(self._gradients.pop(tensor.id))
        for name, tensor in self.taken.items():
            if tensor.id in self._gradients:
                self.graph.output(f"d_{name}", self._gradients[tensor.id])

    def _give(self, tensor: Tensor, gradient: Tensor) -> None:
        before = self._gradients.get(tensor.id)
        self._gradients[tensor.id] = gradient if before is None else self.graph.add(before, gradient)

    def _on_tape(self, result: Tensor, backward: Backward) -> Tensor:
        self._tape.append((result, backward))
        return result

    # Layers ----------------------------------------------------------------------------------------------------------

    def conv(self, x: Tensor, name: str, stride: int = 1, pad: int = 0) -> Any:
        g, weights = self.graph, self.parameter(f"{name}_weight")
        attrs = {**window(stride, pad), "weights_format": "OIX"}

        def backward(dy: Tensor) -> None:
            self._give(weights, g.convolution_backward_weights(x, dy, weights_shape=sizes(weights), **attrs))
            if x.id not in self._data:
                self._give(x, g.convolution_backward_data(dy, weights, dst_shape=sizes(x), **attrs))

        return self.norm(self._on_tape(g.convolution(x, weights, **attrs), backward), name)

    def conv_transpose(self, x: Tensor, name: str, stride: int, pad: int) -> Any:
        g, weights = self.graph, self.parameter(f"{name}_weight")
        attrs = {**window(stride, pad), "weights_format": "IOX"}

        def backward(dy: Tensor) -> None:
            self._give(weights, g.conv_transpose_backward_weights(x, dy, weights_shape=sizes(weights), **attrs))
            if x.id not in self._data:
                self._give(x, g.conv_transpose_backward_data(dy, weights, **attrs))

        return self.norm(self._on_tape(g.conv_transpose(x, weights, **attrs), backward), name)

    def norm(self, x: Tensor, name: str) -> Any:
        if f"{name}_gamma" not in self.parameters:
            return x
        mean, variance, gamma, beta = (
            self.parameter(f"{name}_{part}", og.f32) for part in ("mean", "variance", "gamma", "beta")
        )
        done = self.graph.batch_norm_forward_training(x, mean, variance, gamma, beta, epsilon=EPSILON, momentum=0.9)

        def backward(dy: Tensor) -> None:
            found = self.graph.batch_norm_backward(x, dy, done.batch_mean, done.batch_variance, gamma, epsilon=EPSILON)
            for tensor, gradient in zip((x, gamma, beta), found, strict=True):
                self._give(tensor, gradient)

        return self._on_tape(done.dst, backward)

    def relu(self, x: Tensor) -> Any:
        y = self.graph.relu(x)
        return self._on_tape(y, lambda dy: self._give(x, self.graph.relu_backward(y, dy)))

    def tanh(self, x: Tensor) -> Any:
        y = self.graph.tanh(x)
        return self._on_tape(y, lambda dy: self._give(x, self.graph.tanh_backward(y, dy)))

    def gelu(self, x: Tensor) -> Any:
        return self._on_tape(self.graph.gelu(x), lambda dy: self._give(x, self.graph.gelu_backward(x, dy)))

    def add(self, x: Tensor, y: Tensor) -> Any:
        def backward(dz: Tensor) -> None:
            for tensor in (x, y):
                if tensor.id not in self._data:
                    self._give(tensor, dz)

        return self._on_tape(self.graph.add(x, y), backward)

    def max_pool(self, x: Tensor, kernel: int, stride: int, pad: int) -> Any:
        attrs = {**window(stride, pad), "kernel": [kernel] * 2}
        y = self.graph.max_pool(x, **attrs)
        return self._on_tape(y, lambda dy: self._give(x, self.graph.max_pool_backward(x, dy, **attrs)))

    def mean(self, x: Tensor) -> Any:
        g, (batch, *size, channels) = self.graph, sizes(x)
        attrs = {**window(1, 0, dilations=False), "kernel": size, "exclude_pad": True}

        def backward(dy: Tensor) -> None:
            whole = self.reshape(dy, (batch, 1, 1, channels))
            self._give(x, g.avg_pool_backward(whole, src_shape=sizes(x), **attrs))

        return self._on_tape(g.reduce_mean(x, axes=[1, 2]), backward)

    def linear(self, x: Tensor, name: str) -> Any:
        weights, bias = self.parameter(f"{name}_weight"), self.parameter(f"{name}_bias")

        def backward(dy: Tensor) -> None:
            self._give(weights, self.matmul(dy, x, transpose_a=True))
            self._give(bias, self.graph.reduce_sum(dy, axes=[0]))
            if x.id not in self._data:
                self._give(x, self.matmul(dy, weights))

        return self._on_tape(self.matmul(x, weights, bias, transpose_b=True), backward)

    def layer_norm(self, x: Tensor, name: str) -> Any:
        gamma, beta = (self.parameter(f"{name}_{part}", og.f32) for part in ("gamma", "bias"))
        done = self.graph.layer_norm(x, gamma, beta, epsilon=EPSILON)

        def backward(dy: Tensor) -> None:
            found = self.graph.layer_norm_backward(x, dy, done.mean, done.variance, gamma, beta, epsilon=EPSILON)
            for tensor, gradient in zip((x, gamma, beta), found, strict=True):
                self._give(tensor, gradient)

        return self._on_tape(done.dst, backward)

    def split_heads(self, x: Tensor, tokens: int, heads: int) -> Any:
        return self._on_tape(
            super().split_heads(x, tokens, heads), lambda dy: self._give(x, super(Training, self).merge_heads(dy))
        )

    def merge_heads(self, x: Tensor) -> Any:
        _, heads, tokens, _ = sizes(x)
        return self._on_tape(
            super().merge_heads(x), lambda dy: self._give(x, super(Training, self).split_heads(dy, tokens, heads))
        )

    def attention(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        shares = self.probabilities(query, key)

        def backward(dy: Tensor) -> None:
            self._give(value, self.matmul(shares, dy, transpose_a=True))
            d_shares = self.matmul(dy, value, transpose_b=True)
            d_scores = self.graph.softmax_backward(d_shares, shares, axis=-1, dtype=self.dtype)
            d_scores = self.graph.divide(d_scores, self.scale(query))
            self._give(query, self.matmul(d_scores, key))
            self._give(key, self.matmul(d_scores, query, transpose_a=True))

        return self._on_tape(self.matmul(shares, value), backward)
