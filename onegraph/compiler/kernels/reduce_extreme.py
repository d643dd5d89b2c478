"""ReduceMax and ReduceMin of f32, f16 or bf16 over any axes, which keep NaN."""

from __future__ import annotations

from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ..ir.step import Step
from .kernel import KEEPS, Kernel
from .native import Numbers
from .registry import EXTREME

KINDS = ("ReduceMax", "ReduceMin")


def _numbers(step: Step) -> Numbers:
    assert step.part is not None
    call = step.part.call
    axes = reduced_axes(call)
    assert axes is not None
    reduced = [int(axis in axes) for axis in range(len(known_dims(call.shape("src"))))]
    return {"minimum": step.kind == "ReduceMin", "reduced": reduced}


def _reduces(call: Call) -> bool:
    """Whether there are elements, and a reduced axis has more than one; otherwise the op is a reshape."""
    shape, axes = call.shape("src"), reduced_axes(call)
    assert shape is not None
    assert axes is not None
    return 0 not in shape and any(shape[axis] != 1 for axis in axes)


KERNELS = (Kernel("reduce_extreme", KEEPS, EXTREME, KINDS, _reduces, is_dense=False, numbers=_numbers, is_faster=True),)
