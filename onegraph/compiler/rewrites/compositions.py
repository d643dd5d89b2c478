"""Rewrites an op as several ops that compute exactly the same, where the library cannot compute the op itself.

Several arithmetic ops in a row compute in f32, and the result is rounded once to its type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...capi.settings import is_native
from ...faults.ops.matmul import batches_of_one_matrix
from ...native.library import VERSION
from ...opset import kinds
from ...opset.dtypes import DataType
from ...opset.ops.binary import slope_target
from ...opset.schema import Call, TensorType
from ...opset.shapes import known_dims, normalize_axis
from ...opset.signature import AttrValue
from ...opset.traits import Trait
from ..ir.part import Source
from .bodies import by_body
from .broadcasts import binary, divide, matmul_bias, two_sided
from .convolutions import biased_conv_transpose, far_padded, gradient_of_strided_pixels
from .form import MAX_CONCAT_INPUTS, MAX_CONCAT_RANK, Form, FormBuilder, filled, result_types, scalar
from .norms import (
    channels_first_group_norm,
    group_norm,
    layer_norm,
    layer_norm_backward,
    rms_norm,
)
from .reductions import bias_add_backward, mean, mean_backward, reduction, total
from .single import SINGLE, as_it_is
from .softmax import log_softmax, softmax_backward

F32 = DataType.f32


# Elementwise ----------------------------------------------------------------------------------------------------------


def gelu(call: Call) -> Form | None:
    """GELU by tanh, or its gradient, by Sigmoid."""
    kind = call.schema.kind
    return by_body(call, f"by Sigmoid: no {kind} by tanh") if call.string("mode") == "gelu_tanh" else None


_POWERS: dict[float, tuple[str, ...]] = {
    0.5: ("Sqrt",),
    -0.5: ("Sqrt", "inverse", "Abs"),  # Abs because the square root of -0 is -0
    2.0: ("Square",),
    -1.0: ("inverse",),
    -2.0: ("Square", "inverse"),
    3.0: ("Square", "times"),
    4.0: ("Square", "Square"),
}


def power(call: Call) -> Form | None:
    """Pow as roots and products, for exponents where that is exact; the identity for exponent 1."""
    parts, beta = FormBuilder(call), call.f32("beta")
    if beta == 1:
        return parts.form(0, note="a copy: Pow is unsupported")
    steps = _POWERS.get(beta)
    if steps is None:
        return None
    (src,) = parts.wide() if len(steps) > 1 else [0]
    dtype = parts.type(src).dtype
    assert dtype is not None
    result: Source = src
    for step in steps:
        if step == "inverse":
            result = divide(parts, scalar(1, len(parts.shape(src))).astype(dtype.numpy), result)
        elif step == "times":
            result = parts.add("Multiply", result, src)
        else:
            result = parts.add(step, result)
    names = ", ".join("Divide" if step == "inverse" else "Multiply" if step == "times" else step for step in steps)
    return parts.form(result, note=f"{names}: Pow is unsupported")


def reciprocal(call: Call) -> Form:
    """Reciprocal as 1 / x."""
    parts = FormBuilder(call)
    dtype = parts.type(0).dtype
    assert dtype is not None
    unit = scalar(1, len(parts.shape(0))).astype(dtype.numpy)
    return parts.form(divide(parts, unit, 0), note="Divide: Reciprocal is unsupported")


def dropout(call: Call) -> Form | None:
    """Dropout after a LeakyReLU with alpha 1, which changes nothing.

    Alone, a Dropout has no partition; after a MatMul it has only a reference kernel. The mask is computed as a Dropout
    of ones, because the library does not write the mask in a fusion.
    """
    if call.schema.since > VERSION:
        return None
    parts = FormBuilder(call)
    shape = parts.shape(0)
    padded_shape = (1,) * (2 - len(shape)) + shape

    def dropped(src: Source) -> int:
        return parts.add("Dropout", parts.add("LeakyReLU", src, alpha=1.0), 1, 2, 3)

    dtype = parts.type(0).dtype
    assert dtype is not None
    src = parts.cast(0, dtype if is_native(dtype) else F32)
    results = [parts.reshape(dropped(parts.reshape(src, padded_shape)), shape)]
    if len(call.output_types) > 1:
        scaled = dropped(filled(call, padded_shape, 1))
        mask_ = parts.add("Clamp", scaled, min=0.0, max=1.0)
        results.append(parts.reshape(_per_tensor(parts, mask_, DataType.u8, "Quantize"), shape))
    return parts.form(*results, note="behind a LeakyReLU that changes nothing: Dropout has no partition of its own")


# Views ----------------------------------------------------------------------------------------------------------------


def _with_shapes(call: Call, inputs: dict[int, Sequence[int]], first: Sequence[int], **attrs: AttrValue) -> Form | None:
    """The same op with some inputs reshaped, by index; ``first`` is the shape of its first output before reshaping."""
    parts = FormBuilder(call)
    seen: list[TensorType | None] = [
        tensor if tensor is None or index not in inputs else TensorType(tensor.dtype, tuple(inputs[index]))
        for index, tensor in enumerate(call.inputs)
    ]
    inner = Call(call.schema, {**call.given, **attrs}, seen, call.n_outputs, call.output_types)
    rewrite = SINGLE.get(call.schema.kind, as_it_is)(inner)
    if rewrite is None:
        return None
    sources = [
        source if isinstance(source, np.ndarray) or source not in inputs else parts.reshape(source, inputs[source])
        for source in rewrite.inputs
    ]
    types = result_types(inner)
    number = parts.add(rewrite.kind, *sources, outputs=(*types, *rewrite.dropped), **rewrite.attrs)
    wanted = result_types(call)
    results = [parts.reshape(number + index, known_dims(tensor.shape)) for index, tensor in enumerate(wanted)]
    notes = [f"src seen as {list(first)}", rewrite.note]
    return parts.form(*results, note="; ".join(note for note in notes if note))


def batch_norm(call: Call) -> Form | None:
    """BatchNorm with fewer than two or more than three spatial axes, reshaped to two."""
    dims = known_dims(call.shape("src"))
    if len(dims) in (4, 5):
        return None
    last = call.string("data_format") == "NXC"
    batch, channels, places = dims[0], dims[-1 if last else 1], math.prod(dims[1:-1] if last else dims[2:])
    if places == 1:  # the kernel for many images of one place is slow, so they are the places of one image
        last, seen = True, (1, 1, batch, channels)
    else:
        seen = (batch, places, 1, channels) if last else (batch, channels, places, 1)
    gradient = call.schema.kind == "BatchNormTrainingBackward"
    data_format = "NXC" if last else "NCX"
    return _with_shapes(call, {0: seen, 1: seen} if gradient else {0: seen}, seen, data_format=data_format)


def prelu(call: Call) -> Form | None:
    """PReLU without a channel axis, or with a slope for the reference kernel, reshaped to five axes.

    The added axes come first and have size 1.
    """
    dims = known_dims(call.shape("src"))
    if len(dims) >= 5:
        return None
    dims_of_five = (1,) * (5 - len(dims)) + dims
    target = known_dims(slope_target(call, call.shape("slope"), dims))
    slope = (1,) * (5 - len(target)) + target
    shapes: dict[int, Sequence[int]] = {0: dims_of_five, 1: slope}
    if call.schema.kind == "PReLU":
        return _with_shapes(call, shapes, dims_of_five, per_channel_broadcast=False)
    return _with_shapes(call, {**shapes, 2: dims_of_five}, dims_of_five)


def concat(call: Call) -> Form | None:
    """Concat with more inputs than the library takes, in rounds; with more axes, reshaped to at most three."""
    parts = FormBuilder(call)
    shape = parts.shape(0)
    axis = normalize_axis(call.s64("axis"), len(shape))
    assert axis is not None
    has_many_inputs, has_many_axes = len(call.inputs) > MAX_CONCAT_INPUTS, len(shape) > MAX_CONCAT_RANK
    if not has_many_inputs and not has_many_axes:
        return None
    sources: list[Source] = list(range(len(call.inputs)))
    joined = axis
    if has_many_axes:
        outer, inner, joined = math.prod(shape[:axis]), math.prod(shape[axis + 1 :]), 1
        sources = [parts.reshape(source, (outer, parts.shape(source)[axis], inner)) for source in sources]
    while len(sources) > 1:
        blocks = [sources[at : at + MAX_CONCAT_INPUTS] for at in range(0, len(sources), MAX_CONCAT_INPUTS)]
        sources = [block[0] if len(block) == 1 else parts.add("Concat", *block, axis=joined) for block in blocks]
    (result,) = result_types(call)
    note = f"at most {MAX_CONCAT_INPUTS} inputs of at most {MAX_CONCAT_RANK} axes at once"
    return parts.form(parts.reshape(sources[0], known_dims(result.shape)), note=note)


# Quantization ---------------------------------------------------------------------------------------------------------


def _per_tensor(parts: FormBuilder, source: Source, dtype: DataType | None, kind: str) -> int:
    """Add a Quantize or Dequantize with scale 1 and zero point 0, which only converts, rounds and saturates."""
    attrs: dict[str, AttrValue] = {"scales": (1.0,), "zps": (0,), "qtype": "per_tensor"}
    return parts.add(kind, source, outputs=(TensorType(dtype, parts.shape(source)),), **attrs)


def static_quantization(call: Call) -> Form | None:
    """Add or subtract per-channel zero points in f32, because the library uses only the first one or none."""
    if not call.has("zps") or call.string("qtype") != "per_channel":
        return None
    parts = FormBuilder(call)
    rank = len(parts.shape(0))
    axis = normalize_axis(call.s64("axis"), rank)
    assert axis is not None
    scales = parts.along(np.array(call.f32s("scales"), np.float32), rank, axis)
    zps = parts.along(np.array(call.s64s("zps"), np.float32), rank, axis)
    note = "zero points apart: the library takes one for all channels at most"
    if call.schema.kind == "Dequantize":
        shifted = parts.add("Subtract", _per_tensor(parts, 0, F32, "Dequantize"), zps)
        return parts.form(parts.add("Multiply", shifted, scales), note=note)
    shifted = parts.add("Add", parts.add("Divide", 0, scales), zps)
    return parts.form(_per_tensor(parts, shifted, call.output_type(0), "Quantize"), note=note)


def dynamic_quantization(call: Call) -> Form | None:
    """Add or subtract per-channel zero points in f32, because the library throws for them."""
    zps = call.input("zps")
    if call.string("qtype") != "per_channel" or zps is None or zps.dtype not in (DataType.s8, DataType.u8):
        return None
    parts = FormBuilder(call)
    src = parts.type(0)
    rank = len(parts.shape(0))
    axis = normalize_axis(call.s64("axis"), rank)
    assert axis is not None
    scales = parts.along(parts.cast(1, F32), rank, axis)
    points = parts.along(_per_tensor(parts, 2, F32, "Dequantize"), rank, axis)
    note = "zero points apart: for each channel they throw at execute"
    if call.schema.kind == "DynamicQuantize":
        shifted = parts.add("Add", parts.add("Divide", 0, scales), points)
        return parts.form(_per_tensor(parts, shifted, call.output_type(0), "Quantize"), note=note)
    if src.dtype not in (DataType.s8, DataType.u8) or call.output_type(0) not in (F32, DataType.bf16, DataType.f16):
        return None  # only the library allows integer results here, and a cast does not saturate
    shifted = parts.add("Subtract", _per_tensor(parts, 0, F32, "Dequantize"), points)
    return parts.form(parts.add("Multiply", shifted, scales), note=note)


def matmul(call: Call) -> Form | None:
    """MatMul with a bias, reshaped to operands of one rank; batches of a single matrix, moved to the second axis."""
    has_bias, moved = call.input("bias") is not None, batches_of_one_matrix(call)
    if not (has_bias or moved):
        return None
    rewrite = SINGLE["MatMul"](call)
    assert rewrite is not None
    parts, (dst,) = FormBuilder(call), result_types(call)
    src, weights = parts.shape(0), parts.shape(1)
    rank = max(len(src), len(weights), 2)
    columns = (*weights, 1) if len(weights) == 1 else weights
    flags = {"transpose_a": call.flag("transpose_a") and len(src) > 1}
    flags["transpose_b"] = call.flag("transpose_b") and len(weights) > 1

    def seen(shape: Sequence[int]) -> list[int]:
        """The shape with the axes of size 1 that a product of vectors lacks."""
        dims = [*shape, *[1] * (len(weights) == 1)]
        return placed([*dims[:-1], *[1] * (len(src) == 1), *dims[-1:]])

    def placed(dims: list[int]) -> list[int]:
        """The shape with the first two axes exchanged if the batches move; one of them has size 1."""
        return [dims[1], dims[0], *dims[2:]] if moved and len(dims) == 4 else dims

    product = parts.add(
        "MatMul",
        parts.reshape(0, placed([*[1] * (rank - len(src)), *src])),
        parts.reshape(1, (*(1,) * (rank - len(columns)), *columns)),
        *([parts.reshape(2, seen(parts.shape(2)))] if has_bias else []),
        outputs=(TensorType(dst.dtype, tuple(seen(known_dims(dst.shape)))),),
        **{**rewrite.attrs, **flags},
    )
    note = "MatMul of operands of one rank: with such a bias the library hangs, or adds it along other axes"
    if moved:
        note = "MatMul of batches along the second axis: of those along the first, the library misplaces the rows"
    return parts.form(parts.reshape(product, known_dims(dst.shape)), note=note)


Composition = Callable[[Call], Form | None]
# Rewrites to try before the op itself, because the op has no partition or no fast kernel.
PREFERRED: dict[str, Composition] = {
    **dict.fromkeys(kinds.ARITHMETIC, binary),
    "Convolution": far_padded,
    "ConvTranspose": biased_conv_transpose,
    "Dropout": dropout,
    "GroupNorm": channels_first_group_norm,
    "MatMul": matmul_bias,
    "Pow": power,
    "PReLU": two_sided,
    "Reciprocal": reciprocal,
    "AvgPoolBackward": mean_backward,
    "BiasAddBackward": bias_add_backward,
    "ReduceMean": mean,
    **dict.fromkeys(("ReduceMax", "ReduceMin"), reduction),
    **dict.fromkeys(kinds.REDUCTIONS & kinds.base_kinds(Trait.SUMS), total),
    "LogSoftmax": log_softmax,
    **dict.fromkeys(("SoftMaxBackward", "LogSoftmaxBackward"), softmax_backward),
}
# Which forms of an op the rewrites of PREFERRED are for, where the library has no partition of it for the others.
REPLACED_FORMS = {"Pow": f"the exponents {', '.join(f'{beta:g}' for beta in sorted([1.0, *_POWERS]))}"}
# Rewrites to try if the library would compute the op itself wrong.
COMPOSITIONS: dict[str, Composition] = {
    "ConvolutionBackwardWeights": gradient_of_strided_pixels,
    "LayerNorm": layer_norm,
    "LayerNormBackward": layer_norm_backward,
    "GroupNorm": group_norm,
    "RMSNorm": rms_norm,
    **dict.fromkeys(kinds.BATCH_NORMS, batch_norm),
    "ReduceProd": reduction,
    **dict.fromkeys(("GELU", "GELUBackward"), gelu),
    "MatMul": matmul,
    **dict.fromkeys(("PReLU", "PReLUBackward"), prelu),
    "Concat": concat,
    **dict.fromkeys(("Quantize", "Dequantize"), static_quantization),
    **dict.fromkeys(("DynamicQuantize", "DynamicDequantize"), dynamic_quantization),
}
