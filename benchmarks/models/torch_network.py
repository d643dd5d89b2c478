"""Layers in PyTorch: the peer of every model, and the source of the ONNX export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from .network import EPSILON, SLOPE
from .parameters import Parameters


class TorchNetwork(torch.nn.Module):
    """A model of the same layers; images come and go as NCHW in the memory format channels_last.

    Args:
        parameters: as for :class:`~benchmarks.models.network.Network`.
        forward: the model.
        dtype: of weights and activations; normalization keeps f32 parameters.
    """

    def __init__(
        self, parameters: Parameters, forward: Callable[[Any, Any], Any], dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        for name, array in parameters.items():
            tensor = torch.from_numpy(array.copy())
            if not name.endswith(("_gamma", "_beta", "_mean", "_variance")) and not name.startswith("norm"):
                tensor = tensor.to(dtype)
            if tensor.ndim == 4:
                tensor = tensor.to(memory_format=torch.channels_last)
            if name.endswith(("_mean", "_variance")):
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, torch.nn.Parameter(tensor))
        self._model = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._model(self, x)

    def conv(self, x: Any, name: str, stride: int = 1, pad: int = 0) -> Any:
        weight = getattr(self, f"{name}_weight")
        return self.norm(F.conv2d(x, weight, getattr(self, f"{name}_bias", None), stride, pad), name)

    def conv_transpose(self, x: Any, name: str, stride: int, pad: int) -> Any:
        weight, bias = getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias", None)
        return self.norm(F.conv_transpose2d(x, weight, bias, stride, pad), name)

    def norm(self, x: Any, name: str) -> Any:
        gamma = getattr(self, f"{name}_gamma", None)
        if gamma is None:
            return x
        mean, variance = getattr(self, f"{name}_mean"), getattr(self, f"{name}_variance")
        return F.batch_norm(x, mean, variance, gamma, getattr(self, f"{name}_beta"), self.training, 0.1, EPSILON)

    def relu(self, x: Any) -> Any:
        return F.relu(x)

    def leaky_relu(self, x: Any) -> Any:
        return F.leaky_relu(x, SLOPE)

    def tanh(self, x: Any) -> Any:
        return torch.tanh(x)

    def gelu(self, x: Any) -> Any:
        return F.gelu(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def concat(self, parts: list[Any]) -> Any:
        return torch.cat(parts, 1)

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        return F.max_pool2d(x, kernel, stride, pad)

    def mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def linear(self, x: Any, name: str) -> Any:
        return F.linear(x, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias", None))

    def embedded(self, words: Any, table: str, positions: str, batch: int) -> Any:
        places = getattr(self, f"{positions}_weight")
        rows = F.embedding(words, getattr(self, f"{table}_weight")).view(batch, *places.shape)
        return (rows + places).view(-1, places.shape[-1])

    def first_tokens(self, x: Any, batch: int) -> Any:
        return x.view(batch, -1, x.shape[-1])[:, 0]

    def layer_norm(self, x: Any, name: str) -> Any:
        gamma, beta = getattr(self, f"{name}_gamma"), getattr(self, f"{name}_bias")
        return F.layer_norm(x, x.shape[-1:], gamma, beta, EPSILON)

    def split_heads(self, x: Any, tokens: int, heads: int) -> Any:
        return x.view(-1, tokens, heads, x.shape[-1] // heads).transpose(1, 2)

    def merge_heads(self, x: Any) -> Any:
        batch, heads, tokens, width = x.shape
        return x.transpose(1, 2).reshape(batch * tokens, heads * width)

    def attention(self, query: Any, key: Any, value: Any, causal: bool = False) -> Any:
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)
