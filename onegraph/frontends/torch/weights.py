"""Tells whether weights are still those that a program was prepared for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...native.watch import Watch

ADDRESS = torch.Tensor.data_ptr


class ModuleWeights:
    """The weights of a module at one time.

    Their memory stays alive with this object, so that no other tensor takes its place. The tensors themselves do not.

    Args:
        tensors: the weights, dense or with strides, on the CPU.
        threads: number of threads that compare contents.
        is_frozen: whether only those writes count that PyTorch counts.
    """

    def __init__(self, tensors: Sequence[Any], threads: int, is_frozen: bool) -> None:
        self.tensors = [tensor.detach() for tensor in tensors]
        self.addresses = [*map(ADDRESS, tensors)]
        self.is_counted = is_frozen and not any(tensor.is_inference() for tensor in tensors)  # those have no count
        self.writes = self._writes(tensors)
        self.watch = None if is_frozen else Watch([*map(_span, tensors)], threads)

    def fit(self, tensors: Sequence[Any]) -> bool:
        """Whether these weights have the memory and the contents of the weights at that time."""
        if [*map(ADDRESS, tensors)] != self.addresses:
            return False
        if self.watch is not None:
            return not self.watch.is_changed()
        return self._writes(tensors) == self.writes

    def _writes(self, tensors: Sequence[Any]) -> list[int]:
        return [tensor._version for tensor in tensors] if self.is_counted else []


def can_be_watched(tensor: Any) -> bool:
    """Whether the memory of a tensor is its contents."""
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    if not is_plain or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return False
    return not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or _is_pinned(tensor))


def _is_pinned(tensor: Any) -> bool:
    """Whether another device may write to the memory."""
    return torch.accelerator.is_available() and bool(tensor.is_pinned())


def _span(tensor: Any) -> tuple[int, int]:
    """The address and the size in bytes of the memory from the first to the last element."""
    if not tensor.numel():
        return ADDRESS(tensor), 0
    last = sum([(dim - 1) * step for dim, step in zip(tensor.shape, tensor.stride(), strict=True)])
    return ADDRESS(tensor), (last + 1) * tensor.element_size()


__all__ = ["ModuleWeights", "can_be_watched"]
