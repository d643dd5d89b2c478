"""Finds the ops for which the library loses NaN or an infinity, and how the package keeps them.

Kernels of the package compute elementwise ops of this kind (``csrc/kernels/elementwise.cpp``) and MaxPool
(``csrc/kernels/max_pool.cpp``). The library computes the others, and a kernel computes them again if an element of the
source is NaN or infinite (``csrc/kernels/guarded.cpp``).

Between Dequantize and Quantize all numbers are known to be finite, so that the library may fuse these ops, unless it is
too old for one of them or computes it wrong.
"""

from __future__ import annotations

from ...native.library import lib
from ...opset.dtypes import DataType
from ...opset.ops.pooling import pool_geometry
from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..options import Options
from ..rewrites import takes
from ..rewrites.own import FLOATS, own_kernel
from .magnitudes import finite_values
from .slope_gradients import slope_steps

KEPT = "by onegraph: the library's kernel loses NaN or an infinity"
GUARD = "computed again by onegraph if an element is NaN or infinite, which the library's kernel loses"
NORMALIZED = "behind a normalization"  # the mark of a ReLU that the library may fuse with one, in training
NORM_GUARD = "channels whose statistics are not finite are computed again by onegraph, as the library's ReLU loses NaN"
FINITE_MATH = "finite_math=True: NaN and infinities may be lost"


# The ops that are computed again where the source has NaN or an infinity.
GUARDED = {
    "LogSoftmax": lib.onegraph_guarded_log_softmax,
    "MaxPoolBackward": lib.onegraph_guarded_max_pool_backward,
    "ReduceMax": lib.onegraph_guarded_max,
    "ReduceMin": lib.onegraph_guarded_min,
    "SoftMax": lib.onegraph_guarded_softmax,
}
# The ops whose result is NaN where an input is: that input.
PATCHED = {"LogSoftmaxBackward": 1}


def keep_special_values(edit: Edit, options: Options) -> None:
    """Put a step of the package in the place of each op for which the library loses NaN or an infinity.

    ``finite_math`` leaves to the library all ops that it takes.
    """
    chosen = [(step, executor) for step in edit.graph.steps if (executor := _executor(step))]
    finite = finite_values(edit.graph) if chosen and not options.finite_math else frozenset[int]()
    for step, executor in chosen:
        is_finite = options.finite_math or finite.issuperset(step.inputs)
        if is_finite and _is_taken(step, executor):
            continue
        if step.kind == "ReLU" and _is_normalized(step, edit.graph):
            edit.replace(step, step._replace(attrs={**step.attrs, NORMALIZED: True}))
        elif executor == "slopes":
            edit.replace(step, *slope_steps(edit, step))
        else:
            edit.replace(step, step._replace(executor=executor))


def _is_normalized(step: Step, lowered: Lowered) -> bool:
    """Whether a ReLU alone reads what a BatchNormForwardTraining has normalized, whose statistics tell of NaN."""
    number = step.inputs[0]
    norm = lowered.maker(number)
    if norm is None or norm.kind != "BatchNormForwardTraining" or norm.executor != "library" or norm.part is None:
        return False
    vectors = [lowered.values[vector] for vector in (*norm.inputs[1:], *norm.outputs[1:])]
    is_known = number == norm.outputs[0] and all(value.dtype is DataType.f32 and value.dense for value in vectors)
    return is_known and lowered.only_consumer(number) is not None


def _is_taken(step: Step, executor: str) -> bool:
    """Whether the library takes a step; the lowering has not asked for an op that has a kernel of the package."""
    return executor != "exact" or (step.part is not None and takes(step.part.call))


def _executor(step: Step) -> str:
    """The executor of a step that the library computes wrong for some numbers; empty for others."""
    if step.executor != "library" or step.part is None or step.part.types[0].dtype not in FLOATS:
        return ""
    if step.kind in GUARDED:
        return "guarded"
    if step.kind in PATCHED:
        return "patched"
    if step.kind == "MaxPool":
        return "pool"
    if step.kind == "PReLUBackward":
        return "slopes"
    return "exact" if own_kernel(step.part.call) is not None else ""


def guard_code(call: Call) -> list[int]:
    """The numbers of the kernel that computes an op again: see ``onegraph_guarded_number`` in ``onegraph.h``."""
    kind, rank = call.schema.kind, len(known_dims(call.shape("src")))
    of = GUARDED[kind]
    if kind in ("SoftMax", "LogSoftmax"):
        is_zero = call.schema.has_attribute("mode") and call.string("mode") == "inf_as_zero"
        return [of, call.s64("axis") % rank, int(is_zero)]
    if kind in ("ReduceMax", "ReduceMin"):
        axes = reduced_axes(call) or ()
        return [of, int(call.flag("keep_dims")), 0, *[int(axis in axes) for axis in range(rank)]]
    channels, *windows = pool_code(call)
    return [of, channels, 0, *windows]


def pool_code(call: Call) -> list[int]:
    """The axis of the channels of a pool; kernel, stride, dilation and padding before of each spatial axis."""
    found = pool_geometry(call)
    assert found is not None
    code = [len(found.windows) + 1 if found.data_format == "NXC" else 1]
    for window in found.windows:
        assert window is not None
        code += [window.kernel, window.stride, window.dilation, window.begin]
    return code
