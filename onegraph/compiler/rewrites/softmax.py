"""Rewrites LogSoftmax along another axis than the last, and the gradients of it and SoftMax on CPUs without AVX-512.

The library has reference kernels for them, which take 8 to 1,000 times as long.
"""

from __future__ import annotations

import math

from ...capi.settings import has_avx512
from ...opset.schema import Call
from ...opset.shapes import normalize_axis
from ..ir.part import Source
from ..ir.value import Dims
from .form import Form, FormBuilder
from .reductions import MAX_ELEMENTS, MIN_ELEMENTS, add_sum

NOTE = "from other ops: the library has a reference kernel only, unless the axis is the last one"
LEAST = 2048  # elements; for fewer, one reference kernel takes less time than four others
LAST_AXIS_NOTE = "from other ops: without AVX-512, the library has a reference kernel only"


def log_softmax(call: Call) -> Form | None:
    """LogSoftmax as x - max - log(sum(exp(x - max)))."""
    parts = FormBuilder(call)
    dims = _three_axes(parts)
    if dims is None:
        return None
    before, count, after = dims
    (src,) = parts.wide()
    wide = parts.reshape(src, (before, count, 1, after))
    greatest = parts.add(
        "MaxPool", wide, kernel=(count, 1), strides=(1, 1), pads_begin=(0, 0), pads_end=(0, 0), data_format="NXC"
    )
    less = parts.add("Subtract", parts.reshape(wide, dims), parts.reshape(greatest, (before, 1, after)))
    exp = parts.add("Exp", less)
    total = _sum(parts, exp, dims)
    result = parts.add("Subtract", less, parts.add("Log", total))
    return parts.form(parts.reshape(result, parts.shape(0)), note=NOTE)


def softmax_backward(call: Call) -> Form | None:
    """SoftMaxBackward as (d - sum(d * y)) * y; LogSoftmaxBackward as d - exp(y) * sum(d)."""
    parts = FormBuilder(call)
    dims = _three_axes(parts)
    note = NOTE
    if dims is None and not has_avx512():
        dims, note = _two_axes(parts), LAST_AXIS_NOTE
    if dims is None:
        return None
    diff_dst, dst = (parts.reshape(source, dims) for source in parts.wide())
    if call.schema.kind == "SoftMaxBackward":
        total = _sum(parts, parts.add("Multiply", diff_dst, dst), dims)
        result = parts.add("Multiply", parts.add("Subtract", diff_dst, total), dst)
    else:
        scaled = parts.add("Multiply", parts.add("Exp", dst), _sum(parts, diff_dst, dims))
        result = parts.add("Subtract", diff_dst, scaled)
    return parts.form(parts.reshape(result, parts.shape(0)), note=note)


def _three_axes(parts: FormBuilder) -> Dims | None:
    """The shape in three axes, the second of which is the SoftMax axis; None if the op itself is best."""
    before, count, after = _around_axis(parts)
    if after == 1 or count == 1 or not MIN_ELEMENTS <= before * count * after < MAX_ELEMENTS:
        return None
    return before, count, after


def _two_axes(parts: FormBuilder) -> Dims | None:
    """The shape in two axes, the last of which is the SoftMax axis; None if it is another one, or the op is small."""
    before, count, after = _around_axis(parts)
    return (before, count) if after == 1 < count and before * count >= LEAST else None


def _around_axis(parts: FormBuilder) -> tuple[int, int, int]:
    """The numbers of elements before, along and behind the SoftMax axis."""
    shape = parts.shape(0)
    axis = normalize_axis(parts.call.s64("axis"), len(shape))
    assert axis is not None
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _sum(parts: FormBuilder, source: Source, dims: Dims) -> Source:
    return parts.reshape(add_sum(parts, source, (1,)), (dims[0], 1, *dims[2:]))
