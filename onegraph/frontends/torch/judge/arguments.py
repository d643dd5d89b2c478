"""Makes the arguments of calls: other numbers, and another batch, in the layouts of the given ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ....judging.contents import GIVEN, KINDS, floats
from .calls import mapped, tensors_of
from .oracle import Arguments

INTEGERS = ("least integers", "largest integers")  # of those that are given


def variants(arguments: Arguments, seed: int) -> Iterator[tuple[str, Arguments]]:
    """The arguments with each kind of contents, the given ones first."""
    tensors = [*tensors_of(arguments, "").values()]
    yield GIVEN, arguments
    if any(tensor.is_floating_point() and tensor.numel() for tensor in tensors):
        for kind in KINDS:
            yield kind, _filled(arguments, kind, seed)
    if any(_is_integer(tensor) and tensor.min() != tensor.max() for tensor in tensors):
        for kind in INTEGERS:
            yield kind, mapped(arguments, lambda one: _at_border(one, kind))  # noqa: B023


def _is_integer(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and not tensor.is_floating_point() and not tensor.is_complex()


def _filled(arguments: Arguments, kind: str, seed: int) -> Arguments:
    place = 0

    def filled(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal place
        place += 1
        if not tensor.is_floating_point():
            return tensor
        numbers = floats(kind, tuple(tensor.shape), seed + place, half=tensor.dtype is torch.float16)
        return torch.empty_like(tensor).copy_(torch.from_numpy(numbers))

    result: Arguments = mapped(arguments, filled)
    return result


def _at_border(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    if not _is_integer(tensor):
        return tensor
    whole = tensor.to(torch.int64)
    return torch.full_like(tensor, (whole.min() if kind == INTEGERS[0] else whole.max()).item())


def batch_of(arguments: Arguments) -> int | None:
    """The size of the first axis of the first tensor; None if it has no axis, or if that is empty."""
    first: Any = next(iter(tensors_of(arguments, "").values()), None)
    return None if first is None or not first.dim() or not first.shape[0] else int(first.shape[0])


def resized(arguments: Arguments, size: int) -> Arguments:
    """The arguments with another batch: rows are left out or repeated in each tensor whose first axis is as long."""
    batch = batch_of(arguments)
    assert batch is not None
    rows = torch.arange(size) % batch

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.index_select(0, rows) if tensor.dim() and tensor.shape[0] == batch else tensor

    result: Arguments = mapped(arguments, lambda tensor: cut(tensor.detach()))
    return result


__all__ = ["batch_of", "resized", "variants"]
