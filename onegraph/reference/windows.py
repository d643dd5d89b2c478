"""Finds the elements that sliding windows overlap along one axis, without padding the array."""

from __future__ import annotations

from collections.abc import Iterator


def meetings(
    count: int, step: int, extent: int, stride: int, begin: int, size: int
) -> Iterator[tuple[int, slice, slice]]:
    """For each kernel element that overlaps the source: its number, the windows, and the source elements.

    With the roles of kernel and windows exchanged, it yields each window with its kernel elements and the source
    elements.

    Args:
        count, step: number of kernel elements, and their distance (the dilation).
        extent, stride: number of windows, and their distance.
        begin: padding before the source.
        size: number of source elements.
    """
    for number in range(count):
        offset = number * step - begin
        low, high = max(0, -(offset // stride)), min(extent - 1, (size - 1 - offset) // stride)
        if low <= high:
            yield number, slice(low, high + 1), slice(offset + low * stride, offset + high * stride + 1, stride)
