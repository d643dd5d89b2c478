"""Rewrites reductions that are slow in the library: those over other axes than the last ones, and those of short rows.

For the first, the library has a reference kernel, which takes 50 times as long. Its kernel for the last axes takes
100 ns for each row, as long as a MatMul takes for hundreds of elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from ...capi.settings import has_avx512
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ...opset.ops.binary import axes_but_channels
from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call, TensorType
from ...opset.shapes import known_dims
from ..ir.part import Source
from ..ir.value import Dims
from ..open_values import SizeRange
from .form import Form, FormBuilder, result_types, scalar

F32 = DataType.f32
# Pools are unrolled along the last axis of their kernel: for thousands of elements, compiling is slower than running.
MAX_UNROLLED = 1024
# For fewer elements, a mean fused with the next op is faster than a separate pool. For more, the library may refuse the
# pool, or end in a signal at compile: it counts elements, and some bytes, in 32 bits.
MAX_ELEMENTS = 2**29
POOLED = SizeRange(64, MAX_ELEMENTS)
# A sum of so few columns is slow, so that several rows are summed side by side first.
FEW_COLUMNS, MANY_COLUMNS = 32, 512
MIN_ELEMENTS = 256  # for fewer ones, the reference kernel is as fast as a MatMul
MAX_AXES = 5  # rank that the reduction kernel takes
# Elements of a row that a MatMul sums faster than the reduction.
SHORT_SUM, MANY_ROWS = SizeRange(2, 769), 256
SHORT_HALF = 256  # of elements of 16 bits, which the reduction reads twice as fast
# Kernels sum sequentially in f32, which loses precision with each element; beyond 2**24 elements, it loses them all.
MAX_POOLED = 2**12


OTHER_AXES = "the reduction has a reference kernel only, unless the reduced axes come last"
SLOW_ROWS = "{}: the reduction takes longer for many short rows"


def reduction(call: Call) -> Form | None:
    """A reduction over no axes, or over axes of size 1, as a reshape."""
    return _without_reduction(call, _axes(call))


def total(call: Call) -> Form | None:
    """ReduceSum, ReduceL1 and ReduceL2 as an AvgPool or a MatMul by ones, unless they have a fast kernel."""
    axes = _axes(call)
    return _sum(call, axes) or (_as_two_axes(call, axes) if call.schema.kind == "ReduceSum" else None)


def bias_add_backward(call: Call) -> Form | None:
    """BiasAddBackward as a sum over all axes except the channels."""
    return _sum(call, axes_but_channels(call))


def mean(call: Call) -> Form | None:
    """ReduceMean as an AvgPool, or as a sum, unless it has a fast kernel.

    An AvgPool reduces all axes but the first and the last.
    """
    axes = _axes(call)
    parts = FormBuilder(call)
    shape = parts.shape(0)
    inner = shape[1:-1]
    between = 3 <= len(shape) <= 5 and axes == tuple(range(1, len(shape) - 1)) and math.prod(inner) > 1
    kernels = _kernels(inner) if between and math.prod(shape) in POOLED else []
    if not kernels:
        return _sum(call, axes) or _as_two_axes(call, axes)
    dtype = call.output_type(0)
    assert dtype is not None
    result: Source = 0 if len(kernels) == 1 else parts.cast(0, F32)
    rows = shape[0] * math.prod(inner)
    for kernel in kernels:
        unit_steps, zeros = (1,) * len(kernel), (0,) * len(kernel)
        rows //= math.prod(kernel)
        result = parts.add(
            "AvgPool",
            parts.reshape(result, (rows, *kernel, shape[-1])),
            kernel=kernel,
            strides=unit_steps,
            pads_begin=zeros,
            pads_end=zeros,
            exclude_pad=True,  # no effect without padding; False is computed wrong in int8 fusions
        )
    return parts.form(
        parts.reshape(parts.cast(result, dtype), _result_shape(call)),
        note="AvgPool: the mean has a reference kernel only, unless the reduced axes come last",
    )


def mean_backward(call: Call) -> Form | None:
    """AvgPoolBackward of a channels-last pool over one whole image, as a division and a broadcast."""
    parts = FormBuilder(call)
    gradient_shape, shape = parts.shape(0), _result_shape(call)
    kernel, count = call.s64s("kernel", len(shape) - 2), math.prod(shape[1:-1])
    is_global = kernel == shape[1:-1] and math.prod(gradient_shape[:-1]) == 1
    if call.string("data_format") != "NXC" or not is_global or not MIN_ELEMENTS <= math.prod(shape) < MAX_ELEMENTS:
        return None
    if any(call.s64s(name, len(kernel)) != (0,) * len(kernel) for name in ("pads_begin", "pads_end")):
        return None
    dtype = parts.type(0).dtype
    assert dtype is not None
    # In f32, because most narrow types cannot represent the count.
    share = parts.cast(parts.add("Divide", parts.cast(0, F32), scalar(count, len(shape))), dtype)
    result = parts.add("Multiply", np.ones(shape, dtype.numpy), share)
    return parts.form(result, note="by other ops: the library has a reference kernel only, where there is one image")


def add_sum(parts: FormBuilder, source: Source, axes: Sequence[int], dtype: DataType = F32) -> Source:
    """Add parts that sum a value over some axes in f32; the result is of ``dtype`` and lacks these axes."""
    shape = parts.shape(source)
    kept_dims = tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
    steps = _three_axes(_runs(shape, axes))
    for index, step_dims in enumerate(steps, 1):
        source = _add_step(parts, source, step_dims, dtype if index == len(steps) else F32)
    return parts.reshape(source, kept_dims)


def _three_axes(runs: Sequence[tuple[bool, int]]) -> list[Dims]:
    """The shapes in three axes of successive reductions over the second axis; the last runs are reduced first."""
    left, steps = [*runs], list[Dims]()
    for place in reversed([index for index, (is_reduced, _) in enumerate(runs) if is_reduced]):
        count = left.pop(place)[1]
        before, after = (math.prod([dim for _, dim in part]) for part in (left[:place], left[place:]))
        steps.append((before, count, after))
    return steps


def _reduced_axes_last(runs: Sequence[tuple[bool, int]]) -> bool:
    """Whether no kept axis comes after a reduced axis."""
    return len(runs) < 2 or (len(runs) == 2 and runs[1][0])


def _has_short_rows(runs: Sequence[tuple[bool, int]], dtype: DataType | None, short: SizeRange) -> bool:
    """Whether the reduction takes longer than other ops, because there are many rows of few elements."""
    if len(runs) != 2 or not runs[1][0]:
        return False
    (_, rows), (_, count) = runs
    is_short = count in short and (dtype is F32 or count <= SHORT_HALF)
    return rows >= MANY_ROWS and is_short and rows * count < MAX_ELEMENTS


def _add_step(parts: FormBuilder, source: Source, shape: Dims, dtype: DataType) -> Source:
    """Add the sum of a value, reshaped to three axes, over the second axis."""
    before, count, after = shape
    sum_dtype = parts.type(source).dtype
    assert sum_dtype is not None
    is_pooled = after > 1 and sum_dtype is dtype is F32 and math.prod(shape) in POOLED
    if is_pooled and count <= MAX_POOLED:
        return _add_pooled(parts, source, shape)
    is_narrow = 1 < after <= FEW_COLUMNS and MAX_POOLED < count < MAX_ELEMENTS
    if is_narrow and (together := _divisor(count, MANY_COLUMNS // after)) > 1:
        sums = _add_step(parts, parts.cast(source, F32), (before, count // together, together * after), F32)
        return parts.cast(_add_step(parts, sums, (before, together, after), F32), dtype)
    most = MAX_POOLED if is_pooled else _most_summed() if after == 1 else _most_multiplied()
    if count > most and (after == 1 or count < MAX_ELEMENTS) and (width := _divisor(count, most)) >= MIN_ELEMENTS:
        sums = _add_step(parts, parts.cast(source, F32), (before * (count // width), width, after), F32)
        return parts.cast(_add_step(parts, sums, (before, count // width, after), F32), dtype)
    if (
        after == 1
        and sum_dtype is dtype
        and not _has_short_rows([(False, before), (True, count)], sum_dtype, SHORT_SUM)
    ):
        matrix = parts.reshape(source, (before, count))
        return parts.add("ReduceSum", matrix, axes=(1,), keep_dims=True)
    if count >= MAX_ELEMENTS:  # a MatMul would need gigabytes of ones
        matrix = parts.reshape(parts.cast(source, F32), shape)
        return parts.cast(parts.add("ReduceSum", matrix, axes=(1,), keep_dims=True), dtype)
    result = TensorType(dtype, (before, after) if 1 in (before, after) else (before, 1, after))
    if after == 1:
        unit_column = np.ones((count, 1), sum_dtype.numpy)
        return parts.add("MatMul", parts.reshape(source, (before, count)), unit_column, outputs=(result,))
    batch = () if before == 1 else (before,)
    unit_column = np.ones((*(1 for _ in batch), 1, count), sum_dtype.numpy)
    return parts.add("MatMul", unit_column, parts.reshape(source, (*batch, count, after)), outputs=(result,))


def _add_pooled(parts: FormBuilder, source: Source, shape: Dims) -> Source:
    """Add the sum as an AvgPool times the size of its window.

    The size is a power of two, so that both steps are exact unless the mean is below the normal numbers, 1.2e-38.
    """
    before, count, after = shape
    window = 1 << (count - 1).bit_length()
    image = parts.reshape(source, (before, count, 1, after))
    unit_steps, zeros, ends = (1, 1), (0, 0), (window - count, 0)
    shares = parts.add(
        "AvgPool", image, kernel=(window, 1), exclude_pad=False, strides=unit_steps, pads_begin=zeros, pads_end=ends
    )
    return parts.add("Multiply", shares, scalar(window, 4))


def _most_summed() -> int:
    """How many elements the reduction kernel sums with enough precision; with AVX-512 it has partial sums by vector."""
    return 2**16 if has_avx512() else MAX_POOLED


def _most_multiplied() -> int:
    """How many elements a MatMul by ones sums with enough precision.

    With AVX-512 it sums in blocks; 3.13 does not if there are few columns.
    """
    return MAX_ELEMENTS if has_avx512() and VERSION < (3, 7) else MAX_POOLED


def _axes(call: Call) -> Dims:
    axes = reduced_axes(call)
    assert axes is not None  # an op whose axes are not known before a run has no form
    return axes


def _sum(call: Call, axes: Dims) -> Form | None:
    parts, kind = FormBuilder(call), call.schema.kind
    shape = parts.shape(0)
    runs = _runs(shape, axes)
    counts = [count for is_reduced, count in runs if is_reduced]
    is_norm = kind in ("ReduceL1", "ReduceL2")  # for these the library has a reference kernel only
    is_slow = _has_short_rows(runs, parts.type(0).dtype, SHORT_SUM)
    has_kernel = _reduced_axes_last(runs) and not is_norm and not is_slow and math.prod(counts) <= _most_summed()
    if not counts or has_kernel or math.prod(shape) < MIN_ELEMENTS:
        return _without_reduction(call, axes)
    source: Source = 0
    if kind == "ReduceL1":
        source = parts.add("Abs", source)
    elif kind == "ReduceL2":
        source = parts.add("Square", parts.cast(0, F32))
    dtype = F32 if kind in ("ReduceL2", "ReduceMean") else call.output_type(0)  # a root or a quotient follows
    assert dtype is not None
    result = add_sum(parts, source, axes, dtype)
    if kind == "ReduceMean":
        result = parts.add(
            "Divide", result, scalar(math.prod([shape[axis] for axis in axes]), len(parts.shape(result)))
        )
    elif kind == "ReduceL2":
        result = parts.add("Sqrt", result)
    return parts.form(
        parts.reshape(result, _result_shape(call)),
        note=SLOW_ROWS.format("MatMul by ones") if is_slow else f"AvgPool or MatMul by ones: {OTHER_AXES}",
    )


def _as_two_axes(call: Call, axes: Dims) -> Form | None:
    """The same reduction of a src with two axes, if the library's kernel misses that the reduced axes come last."""
    parts = FormBuilder(call)
    shape = parts.shape(0)
    if math.prod(shape) < MIN_ELEMENTS or not _reduced_axes_last(runs := _runs(shape, axes)) or not runs:
        return None
    dims, reduced = [*shape], {*axes}
    while len(dims) - 1 in reduced and dims[-1] > 1:
        dims.pop()
    if len(dims) < len(shape) <= MAX_AXES and all(shape[axis] == 1 for axis in axes if axis < len(dims)):
        return None
    count = math.prod([shape[axis] for axis in axes])
    flat = parts.reshape(0, (math.prod(shape) // count, count))
    result = parts.add(call.schema.kind, flat, axes=(1,), keep_dims=True)
    return parts.form(
        parts.reshape(result, _result_shape(call)),
        note="over the last of two axes: the reduction has a reference kernel only, behind or with axes of size 1",
    )


def _kernels(inner: Dims) -> list[Dims]:
    """The kernels of successive pools that compute the mean over some axes; empty if a kernel would be too large."""
    left, kernels = math.prod(inner), list[Dims]()
    if left <= MAX_POOLED:
        return [inner if inner[-1] <= MAX_UNROLLED else (left, 1)]
    while left > 1:
        size = _divisor(left, MAX_POOLED)
        if size == 1:
            return []
        kernels.append((size, 1))
        left //= size
    return kernels


def _divisor(count: int, most: int) -> int:
    """The largest divisor of ``count`` up to ``most``."""
    return next(size for size in range(most, 0, -1) if count % size == 0)


def _without_reduction(call: Call, axes: Dims) -> Form | None:
    parts = FormBuilder(call)
    if any(parts.shape(0)[axis] != 1 for axis in axes):
        return None
    result: Source = 0
    if call.schema.kind in ("ReduceL1", "ReduceL2"):
        result = parts.add("Abs", result)
    return parts.form(
        parts.reshape(result, _result_shape(call)),
        note="no reduction: there are no axes, or they have size 1, which throws at compile",
    )


def _runs(shape: Dims, axes: Sequence[int]) -> list[tuple[bool, int]]:
    """The axes in runs of neighbours that are all reduced or all kept: whether reduced, and size; without size 1."""
    wide = [(axis in axes, dim) for axis, dim in enumerate(shape) if dim > 1]
    return [(key, math.prod([dim for _, dim in run])) for key, run in groupby(wide, key=lambda pair: pair[0])]


def _result_shape(call: Call) -> Dims:
    (result,) = result_types(call)
    return known_dims(result.shape)
