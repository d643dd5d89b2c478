"""Lowers casts and copies, and tensors that are made of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....lowering.emitter import Value
from ....lowering.movement import cast, expand
from ..node import AtenNode, NotLowered, lowers


@lowers("_to_copy.default", "prims.convert_element_type.default")
def to_copy(node: AtenNode) -> Value:
    """A cast; decompositions leave the one of prims."""
    return cast(node.emit, node.value("self" if "aten" in node.name else "a"), node.result_dtype)


@lowers("copy.default")
def copy(node: AtenNode) -> Value:
    """src in the data type and shape of self."""
    made = cast(node.emit, node.value("src"), node.result_dtype)
    return expand(node.emit, made, node.result_shape)


@lowers(
    "full.default", "full_like.default", "scalar_tensor.default", "zeros.default", "ones.default", "zeros_like.default",
    "ones_like.default", "new_full.default", "new_zeros.default", "new_ones.default", "fill.Scalar",
)  # fmt: skip
def full(node: AtenNode) -> Value:
    """A tensor with one number."""
    number: Any = 1 if "ones" in node.name else 0 if "zeros" in node.name else node["fill_value"]
    if "fill.Scalar" in node.name:
        number = node["value"]
    if "scalar_tensor" in node.name:
        number = node["s"]
    if hasattr(number, "shape"):
        raise NotLowered("a number that is a tensor")
    return node.filled(node.result_shape, number, node.result_dtype)


@lowers("arange.start_step", "arange.start", "arange.default")
def arange(node: AtenNode) -> Value:
    """Numbers that count up."""
    start, step = node["start"] or 0, 1 if node["step"] is None else node["step"]
    count = node.result_shape[0]
    if isinstance(start, int) and isinstance(step, int):
        return node.counted(count, start, step, node.result_dtype)
    return (np.arange(count).astype(np.float64) * step + start).astype(node.result_dtype.numpy)


@lowers(
    "empty.memory_format",
    "empty_strided.default",
    "new_empty.default",
    "empty_like.default",
    "new_empty_strided.default",
)
def empty(node: AtenNode) -> Value:
    """A tensor of any contents, which are 0 here: a program that reads them would differ from run to run."""
    return node.filled(node.result_shape, 0, node.result_dtype)
