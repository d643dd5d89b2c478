"""Layers in int8: Quantize after each activation, Dequantize before each use, s8 weights per channel.

The attention of BERT stays f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import onegraph as og

from .network import EPSILON, Network, Tensor
from .parameters import Parameters, folded


class Quantized(NamedTuple):
    """A tensor of u8 or s8, and its scale."""

    codes: Tensor
    scale: float


class Calibration(Network):
    """The model in f32. Every tensor to be quantized but the input is an output of the graph, in their order."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._seen: set[int] = set()

    def input(self, name: str, shape: tuple[int, ...]) -> Any:
        tensor = super().input(name, shape)
        self._seen.add(tensor.id)
        return tensor

    def seen(self, x: Tensor) -> Tensor:
        if x.id not in self._seen:
            self._seen.add(x.id)
            self.graph.output(f"seen{len(self.graph.outputs)}", x)
        return x

    def relu(self, x: Tensor) -> Any:
        return self.seen(super().relu(x))

    def add(self, x: Tensor, y: Tensor) -> Any:
        return super().add(x, self.seen(y))

    def linear(self, x: Tensor, name: str) -> Any:
        return super().linear(self.seen(x), name)


def calibrated(parameters: Parameters, forward: Callable[[Any, Any], Any], array: np.ndarray) -> list[float]:
    """The largest magnitude of the input, and of every tensor to be quantized."""
    net = Calibration(parameters)
    forward(net, net.input("x", array.shape))
    found = net.graph.compile()(array)
    return [float(np.abs(values).max()) for values in (array, *found)]


class Int8(Network):
    """The layers of a model in int8.

    Args:
        parameters: in f32; batch normalization is folded into the weights.
        ranges: what :func:`calibrated` found.
    """

    def __init__(self, parameters: Parameters, ranges: list[float]) -> None:
        super().__init__(folded(parameters, EPSILON))
        self._ranges = iter(ranges)
        self._quantized: dict[int, Quantized] = {}

    def quantize(self, x: Any, dtype: og.DataType = og.s8) -> Quantized:
        """The quantized tensor; each tensor is quantized once."""
        if isinstance(x, Quantized):
            return x
        if x.id not in self._quantized:
            scale = next(self._ranges) / (255 if dtype is og.u8 else 127)
            self._quantized[x.id] = Quantized(self.graph.quantize(x, dtype=dtype, scales=[scale], zps=[0]), scale)
        return self._quantized[x.id]

    def real(self, x: Any) -> Tensor:
        """A new Dequantize for each use, so that it can fuse with the op that reads it."""
        return self.graph.dequantize(x.codes, scales=[x.scale], zps=[0]) if isinstance(x, Quantized) else x

    def input(self, name: str, shape: tuple[int, ...]) -> Quantized:
        return self.quantize(super().input(name, shape))

    def parameter(self, name: str, dtype: og.DataType | None = None) -> Tensor:
        array = self.parameters[name]
        if array.ndim == 1:
            return super().parameter(name, dtype)
        scales = np.abs(array).reshape(len(array), -1).max(1) / 127
        codes = np.rint(array / scales.reshape(-1, *[1] * (array.ndim - 1))).astype(np.int8)
        kept = self.graph.constant(codes, name=name)
        return self.graph.dequantize(kept, qtype="per_channel", axis=0, scales=scales.tolist(), zps=[0] * len(scales))

    def conv(self, x: Any, name: str, stride: int = 1, pad: int = 0) -> Any:
        return super().conv(self.real(x), name, stride, pad)

    def relu(self, x: Tensor) -> Quantized:
        return self.quantize(super().relu(x), og.u8)

    def add(self, x: Tensor, y: Any) -> Any:
        return super().add(x, self.real(self.quantize(y)))

    def max_pool(self, x: Quantized, kernel: int, stride: int, pad: int) -> Quantized:
        pooled = super().max_pool(self.real(x), kernel, stride, pad)
        return Quantized(self.graph.quantize(pooled, dtype=og.u8, scales=[x.scale], zps=[0]), x.scale)

    def mean(self, x: Any) -> Any:
        return super().mean(self.real(x))

    def linear(self, x: Any, name: str) -> Any:
        return super().linear(self.real(self.quantize(x)), name)
