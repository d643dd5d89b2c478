"""Where sliding windows meet their source, along one axis: no padding is made, so that windows may be of any length."""

from __future__ import annotations

from collections.abc import Iterator


def meetings(
    count: int, step: int, others: int, stride: int, begin: int, size: int
) -> Iterator[tuple[int, slice, slice]]:
    """For each kernel element that meets the source: its number, in which windows it does, and where.

    The other way round it is each window that meets the source, with which kernel elements it does, and where.

    Args:
        count: how many elements the kernel has, ``step`` (the dilation) apart.
        others: how many windows there are, ``stride`` apart.
        begin: the padding in front of the source.
        size: the elements of the source.
    """
    first = max(0, (begin - stride * (others - 1)) // step)
    for number in range(first, min(count, (begin + size - 1) // step + 1)):
        offset = number * step - begin
        low, high = max(0, -(offset // stride)), min(others - 1, (size - 1 - offset) // stride)
        if low <= high:
            yield number, slice(low, high + 1), slice(offset + low * stride, offset + high * stride + 1, stride)
