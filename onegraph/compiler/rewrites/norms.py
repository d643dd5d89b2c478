"""Rewrites normalization over several axes or groups, which the library lacks, as reshapes and other ops."""

from __future__ import annotations

import math
from dataclasses import replace

from ...native.library import VERSION
from ...opset.dtypes import DataType
from ...opset.ops.normalization_shapes import begin_axis
from ...opset.schema import Call, TensorType
from ...opset.shapes import known_dims
from ...opset.signature import AttrValue
from ..ir.part import Source
from ..ir.value import Dims
from .bodies import by_body
from .form import Form, FormBuilder, scalar
from .reductions import add_sum

F32 = DataType.f32
WIDEST_ROW = 2**20  # elements, of the kernel for RMSNorm; the others are divided among threads by the library


def _rows(shape: Dims, begin: int) -> Dims:
    return (*(shape[:begin] or (1,)), math.prod(shape[begin:]))


def _plain_norm(parts: FormBuilder, src: Source, shape: Dims, epsilon: float) -> list[int]:
    """Normalize src, reshaped to ``shape``, along its last axis; returns the numbers of dst, mean and variance."""
    stats = TensorType(F32, shape[:-1])
    attrs: dict[str, AttrValue] = {"keep_stats": True, "use_affine": False, "epsilon": epsilon}
    first = parts.add("LayerNorm", parts.reshape(src, shape), outputs=(TensorType(F32, shape), stats, stats), **attrs)
    return [first, first + 1, first + 2]


def layer_norm(call: Call) -> Form | None:
    """LayerNorm over several axes, which are reshaped to one."""
    parts = FormBuilder(call)
    inputs = parts.wide()
    shape, begin = parts.shape(0), begin_axis(call)
    assert begin is not None
    outer = shape[:begin]
    dst: Source
    dst, mean, variance = _plain_norm(parts, inputs[0], _rows(shape, begin), call.f32("epsilon"))
    dst = parts.reshape(dst, shape)
    if call.flag("use_affine"):
        dst = parts.add("Add", parts.add("Multiply", dst, inputs[1]), inputs[2])
    stats = [parts.reshape(number, outer) for number in (mean, variance)] if len(call.output_types) > 1 else []
    return parts.form(dst, *stats, note="LayerNorm over one axis, as which the normalized ones are seen")


def layer_norm_backward(call: Call) -> Form | None:
    """LayerNormBackward over several axes, reshaped to one; sums give the gradients of gamma and beta."""
    parts = FormBuilder(call)
    inputs = parts.wide()
    shape, begin = parts.shape(0), begin_axis(call)
    assert begin is not None
    src, diff_dst, mean, variance = inputs[:4]
    rows, affine = _rows(shape, begin), call.flag("use_affine")
    gradient = parts.add("Multiply", diff_dst, inputs[4]) if affine else diff_dst
    attrs: dict[str, AttrValue] = {"use_affine": False, "epsilon": call.f32("epsilon")}
    flat = [parts.reshape(tensor, rows) for tensor in (src, gradient)]
    flat += [parts.reshape(tensor, rows[:-1]) for tensor in (mean, variance)]
    row_gradient = parts.add("LayerNormBackward", *flat, outputs=(TensorType(F32, rows),), **attrs)
    results = [parts.reshape(row_gradient, shape)]
    if affine:
        stats = (*shape[:begin], *(1,) * (len(shape) - begin))
        root = parts.add("Sqrt", parts.add("Add", parts.reshape(variance, stats), scalar(call.f32("epsilon"), 1)))
        normalized = parts.add("Divide", parts.add("Subtract", src, parts.reshape(mean, stats)), root)
        leading_axes = tuple(range(len(shape) - 1))
        results.append(add_sum(parts, parts.add("Multiply", diff_dst, normalized), leading_axes))
        results.append(add_sum(parts, diff_dst, leading_axes))
    return parts.form(*results, note="LayerNormBackward over one axis, as which the normalized ones are seen")


def group_norm(call: Call) -> Form:
    """GroupNorm as a LayerNorm of a tensor whose last axis has the elements of a group."""
    parts = FormBuilder(call)
    inputs = parts.wide()
    source, groups = inputs[0], call.s64("groups")
    shape = parts.shape(source)
    nxc = call.string("data_format") == "NXC" and groups > 1  # one group has all elements of an image, in any order
    last = len(shape) - 1
    if nxc and last > 1:
        source = parts.add("StaticTranspose", source, order=(0, last, *range(1, last)))
    first = parts.shape(source)
    dst: Source
    rows = (first[0], groups, math.prod(first[1:]) // groups)
    dst, mean, variance = _plain_norm(parts, source, rows, call.f32("epsilon"))
    dst = parts.reshape(dst, first)
    if nxc and last > 1:
        dst = parts.add("StaticTranspose", dst, order=(0, *range(2, last + 1), 1))
    if call.flag("use_affine"):
        channels = last if call.string("data_format") == "NXC" else 1
        gamma, beta = (parts.along(vector, last + 1, channels) for vector in inputs[1:3])
        dst = parts.add("Add", parts.add("Multiply", dst, gamma), beta)
    missing = "no GroupNorm" if call.schema.since > VERSION else "a slow GroupNorm of channels first"
    return parts.form(dst, mean, variance, note=f"LayerNorm of the groups: the library has {missing}")


def channels_first_group_norm(call: Call) -> Form | None:
    """GroupNorm of channels first as a LayerNorm.

    The kernels of oneDNN 3.6 to 3.13 take 14 to 96 times as long in bf16; in f32, 1.6 to 4.6 times with 3.6, and 0.6 to
    1.2 times with 3.13.
    """
    return group_norm(call) if call.string("data_format") == "NCX" else None


def rms_norm(call: Call) -> Form:
    """RMSNorm: src divided by the root of the mean of its squares; a kernel of the package takes a vector gamma."""
    form = by_body(call, "from other ops: the library has no such RMSNorm")
    slow = "in one pass by onegraph: the library has no RMSNorm"
    return form if rms_norm_width(call) is None else replace(form, slow=slow)


def rms_norm_width(call: Call) -> int | None:
    """The elements of a row of an RMSNorm that the kernel of the package takes; None for others."""
    shape, gamma = known_dims(call.shape("src")), call.input("gamma")
    row = shape[begin_axis(call) :]
    is_row = gamma is None or known_dims(gamma.shape) == row
    return math.prod(row) if is_row and 0 not in shape and math.prod(row) <= WIDEST_ROW else None


def layer_norm_width(call: Call) -> int | None:
    """The elements of a row of a LayerNorm that the kernel of the package takes; None for others."""
    shape, vectors = known_dims(call.shape("src")), [call.input(name) for name in ("gamma", "beta")]
    row = shape[begin_axis(call) :]
    are_rows = all(vector is None or known_dims(vector.shape) == row for vector in vectors)
    is_taken = are_rows and (vectors[0] is None) == (vectors[1] is None) and 0 not in shape
    return math.prod(row) if is_taken and math.prod(row) <= WIDEST_ROW else None
