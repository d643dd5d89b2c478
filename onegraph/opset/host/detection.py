"""Defines host ops of models that detect objects."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, Finding, Schema
from ..shapes import show
from ..signature import Attribute, Shape, ports, rows
from ..traits import Trait
from .types import FLOAT_NAMES


def selected_shape(call: Call) -> tuple[Shape, ...]:
    """One row of three numbers for each box that stays; their number depends on the contents."""
    return ((None, 3),)


def boxes_fit(call: Call) -> Iterable[Finding]:
    """boxes is (batches, boxes, 4), and scores (batches, classes, boxes)."""
    boxes, scores = call.shape("boxes"), call.shape("scores")
    if boxes is not None and (len(boxes) != 3 or boxes[2] not in (4, None)):
        yield Finding("boxes", f"shape {show(boxes)}", "(batches, boxes, 4)")
    elif scores is not None and len(scores) != 3:
        yield Finding("scores", f"shape {show(scores)}", "(batches, classes, boxes)")


OPS = (
    Schema(
        "NonMaxSuppression",
        "host_non_max_suppression",
        "host",
        "dst = batch, class and box of the boxes that stay: the best of each class, without those that overlap a "
        "better one by more than overlap; limit is their largest number for each class",
        ports("boxes:T scores:T limit:s64 overlap:f32 threshold:f32"),
        ports("dst:s64"),
        rows("T", FLOAT_NAMES),
        selected_shape,
        (Attribute("center", "bool", "Whether a box is its center and size, else two corners.", default=False),),
        rules=(boxes_fit,),
        traits=Trait.NONE,
    ),
)
