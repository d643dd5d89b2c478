"""LogSoftmax along any axis, and SoftMax along another one than the last, of f32, f16 or bf16; both keep NaN.

The library's LogSoftmax has results near 0 without a right digit, and its SoftMax has a reference kernel for other axes
than the last, and for an axis of one element.
"""

from __future__ import annotations

import math

from ...errors import OutOfMemoryError
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ..ir.step import Step
from .kernel import COMPILED_ANEW, DIGITS, Kernel
from .native import Numbers
from .registry import LOG_SOFTMAX, SOFTMAX

MANY = 2048  # elements; the library may fuse fewer of them with their neighbours
IN_LESS_TIME = "by onegraph: the library takes longer, and loses NaN"
OTHER_AXES = "by onegraph: the library has a reference kernel only, unless the axis is the last one"


def _numbers(step: Step) -> Numbers:
    assert step.part is not None
    return {"axis": step.part.call.s64("axis") % len(known_dims(step.part.types[0].shape))}


def has_plain_result(call: Call) -> bool:
    """Whether a SoftMax of known sizes has one result, which is NaN for a row of -inf."""
    return None not in (call.shape("src") or (None,)) and len(call.output_types) == 1 and not call.has("mode")


def _is_for_other_axes(call: Call) -> bool:
    """Whether the library has no kernel for a SoftMax of one result."""
    if not has_plain_result(call):
        return False
    dims = known_dims(call.shape("src"))
    axis = call.s64("axis") % len(dims)
    return math.prod(dims[axis + 1 :]) > 1 or (dims[axis] == 1 and math.prod(dims) >= MANY)


# In the place of the library, where sizes are open.
OPEN_SOFTMAX = Kernel("softmax", COMPILED_ANEW, "open softmax", numbers=_numbers, fails=OutOfMemoryError)
LAST_SOFTMAX = Kernel("softmax", IN_LESS_TIME, "last softmax", numbers=_numbers, fails=OutOfMemoryError)
KERNELS = (
    OPEN_SOFTMAX,
    LAST_SOFTMAX,
    Kernel("log_softmax", DIGITS, LOG_SOFTMAX, ("LogSoftmax",), numbers=_numbers, fails=OutOfMemoryError),
    Kernel(
        "softmax",
        OTHER_AXES,
        SOFTMAX,
        ("SoftMax",),
        _is_for_other_axes,
        numbers=_numbers,
        fails=OutOfMemoryError,
        is_faster=True,
    ),
)
