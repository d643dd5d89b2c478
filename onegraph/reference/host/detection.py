"""Computes the host ops of models that detect objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.schema import Call

Array = NDArray[Any]


def non_max_suppression(
    call: Call, boxes: Array, scores: Array, limit: Array, overlap: Array, threshold: Array
) -> Array:
    """Batch, class and box of the boxes that stay."""
    most, share, least = (one.reshape(-1)[0] for one in (limit, overlap, threshold))
    found: list[Array] = [np.empty((0, 3), np.int64)]
    for batch, (places, table) in enumerate(zip(boxes, scores, strict=True)):
        corners = _corners(places.astype(np.float32), call.flag("center"))
        for label, row in enumerate(table):
            order = np.argsort(-row.astype(np.float64), kind="stable")
            kept = _kept(corners, order[row[order] > least], int(most), float(share))
            found.append(np.array([(batch, label, box) for box in kept], np.int64).reshape(-1, 3))
    return np.concatenate(found)


def _corners(boxes: Array, center: bool) -> Array:
    """The lower and the upper corner of each box, as rows."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if center:
        first, second = first - second / 2, first + second / 2
    found: Array = np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)
    return found


def _kept(corners: Array, order: Array, most: int, share: float) -> list[int]:
    """The boxes in their order, without those that overlap an earlier one."""
    kept: list[int] = []
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    while order.size and len(kept) < most:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        lower = np.maximum(corners[order, :2], corners[best, :2])
        upper = np.minimum(corners[order, 2:], corners[best, 2:])
        common = np.maximum(upper - lower, 0).prod(axis=1)
        union = areas[order] + areas[best] - common
        order = order[~((common > share * union) & (union > 0) & (common > 0))]
    return kept
