"""Rewrites an op as one op: itself with attributes that the library computes right, or another op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..._util.open_sizes import is_open
from ...faults.ops.elementwise import slope_of_few_axes
from ...native.library import VERSION
from ...opset import kinds
from ...opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ...opset.dtypes import DataType
from ...opset.ops import interpolation, pooling
from ...opset.ops.binary import axes_but_channels
from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call, TensorType
from ...opset.shapes import known_dims, normalize_axis
from ...opset.signature import AttrValue
from ...opset.window import SHAPE_SOURCE, given_shape, spatial
from ..ir.part import Source
from .form import Rewrite, filled


def _given(call: Call, *left_out: str) -> dict[str, AttrValue]:
    """The given attributes, without those that are newer than the library or in ``left_out``."""
    return {
        name: value
        for name, value in call.given.items()
        if name not in left_out and call.schema.attribute(name).since <= VERSION
    }


def _all_inputs(call: Call) -> list[Source]:
    return [index for index, tensor in enumerate(call.inputs) if tensor is not None]


def as_it_is(call: Call) -> Rewrite:
    """The op unchanged, without attributes that are newer than the library."""
    return Rewrite(call.schema.kind, _given(call), _all_inputs(call))


# Convolutions --------------------------------------------------------------------------------------------------------


def _explicit_pads(call: Call) -> tuple[ConvolutionGeometry, dict[str, AttrValue]]:
    """The attributes of a convolution with explicit padding, because auto_pad is wrong in some gradients.

    A window of one element has no gaps: the library would take slower kernels for its dilation.
    """
    geometry = convolution_geometry(call)
    assert geometry is not None
    assert geometry.pads_begin is not None
    assert geometry.pads_end is not None
    assert geometry.kernel is not None
    ends = _covering(geometry, geometry.pads_end)
    attrs = _given(call, "auto_pad", "output_padding", *SHAPE_SOURCE.values())
    attrs |= {"pads_begin": geometry.pads_begin, "pads_end": ends}
    if 1 in geometry.kernel:
        gaps = zip(geometry.kernel, geometry.dilations, strict=True)
        geometry = replace(geometry, dilations=tuple(1 if size == 1 else dilation for size, dilation in gaps))
        attrs["dilations"] = geometry.dilations
    return replace(geometry, pads_end=ends), attrs


def _covering(geometry: ConvolutionGeometry, ends: Sequence[int]) -> tuple[int, ...]:
    """The padding at the ends with which exactly the existing windows fit in the larger side.

    It is the given padding, unless that is negative, as in some files, or output_padding makes room for another window.
    """
    if geometry.wide is None:
        return tuple(ends)
    covering, counts = list(ends), geometry.narrow or geometry.forward()
    for axis, (end, count, wide) in enumerate(zip(ends, counts, geometry.wide, strict=True)):
        window = geometry.window(axis)
        assert window is not None
        assert count is not None
        assert wide is not None
        least = window.transposed(count) + window.end - wide
        covering[axis] = min(max(end, least, 0), least + window.stride - 1)
    return tuple(covering)


def _convolution(call: Call) -> Rewrite:
    _, attrs = _explicit_pads(call)
    return Rewrite("Convolution", attrs, _all_inputs(call))


def _conv_transpose(call: Call) -> Rewrite:
    geometry, attrs = _explicit_pads(call)
    return Rewrite("ConvTranspose", {**attrs, "output_padding": geometry.output_padding}, _all_inputs(call))


_AS_TRANSPOSED = {"OIX": "IOX", "XIO": "XOI"}
_AS_CONVOLUTION = {"IOX": "OIX", "XOI": "XIO"}


def _convolution_backward_data(call: Call) -> Rewrite | None:
    geometry, attrs = _explicit_pads(call)
    shape = given_shape(call)
    assert shape is not None
    if geometry.groups == 1:
        return Rewrite(call.schema.kind, {**attrs, "dst_shape": known_dims(shape)}, (0, 1))
    # Groups never compile; the ConvTranspose with the same weights, in the other weights_format, computes the same.
    wide = spatial(shape, geometry.data_format)
    least = replace(geometry, output_padding=(0,) * len(wide)).backward()
    added = tuple(size - base for size, base in zip(wide, least, strict=True))  # type: ignore[operator]
    if any(extra < 0 for extra in added):
        return None
    attrs["weights_format"] = _AS_TRANSPOSED[geometry.weights_format]
    attrs["output_padding"] = added
    return Rewrite("ConvTranspose", attrs, (0, 1), "ConvTranspose: groups do not compile otherwise")


def _weights_gradient(call: Call) -> Rewrite:
    _, attrs = _explicit_pads(call)
    shape = given_shape(call)
    assert shape is not None
    return Rewrite(call.schema.kind, {**attrs, "weights_shape": known_dims(shape)}, (0, 1))


def _conv_transpose_backward_data(call: Call) -> Rewrite:
    geometry, attrs = _explicit_pads(call)
    if all(dilation == 1 for dilation in geometry.dilations):
        return Rewrite(call.schema.kind, attrs, (0, 1))
    attrs["weights_format"] = _AS_CONVOLUTION[geometry.weights_format]
    return Rewrite("Convolution", attrs, (0, 1), "Convolution: dilations do not compile otherwise")


# Pooling -------------------------------------------------------------------------------------------------------------


def _pool(call: Call) -> Rewrite | None:
    """A pool with explicit padding and rounding down, because the library derives padding wrong in some cases."""
    geometry = pooling.pool_geometry(call)
    assert geometry is not None
    begins, ends = [], []
    for axis, window in enumerate(geometry.windows):
        covering = geometry.covering(axis)
        assert window is not None
        assert covering is not None
        # With rounding down, every end padding from here up to one stride more gives the same window positions. The
        # given one is among them for all open sizes, whatever remainder they leave.
        end, end_padding = covering.end, window.end
        is_common = is_open([end]) and end_padding >= 0 and end <= end_padding and end_padding < end + window.stride
        end = end_padding if is_common else max(end, 0)
        if end - covering.end >= window.stride:
            return None
        begins.append(window.begin)
        ends.append(end)
    attrs = _given(call, "auto_pad", "rounding_type", "src_shape")
    attrs |= {"pads_begin": tuple(begins), "pads_end": tuple(ends)}
    if call.schema.has_attribute("dilations"):
        attrs["dilations"] = call.s64s("dilations", len(begins))
    if call.schema.kind != "AvgPoolBackward":
        return Rewrite(call.schema.kind, attrs, _all_inputs(call))
    source_shape = pooling.source_shape(call)[0]
    return Rewrite(call.schema.kind, {**attrs, "src_shape": known_dims(source_shape)}, (0,))


# Normalization -------------------------------------------------------------------------------------------------------


def _input(call: Call, name: str) -> tuple[DataType, tuple[int, ...]]:
    """Data type and shape of an input that is present."""
    tensor = call.input(name)
    assert tensor is not None
    assert tensor.dtype is not None
    return tensor.dtype, known_dims(tensor.shape)


def _batch_norm_backward(call: Call) -> Rewrite:
    """The op with all inputs and outputs: with one output, the library treats the statistics as constants."""
    dtype, shape = _input(call, "mean")
    inputs, notes = _all_inputs(call), []
    dropped: tuple[TensorType, ...] = ()
    if call.n_outputs == 1 or call.input("gamma") is None:
        # Without diff_gamma the specification ignores gamma.
        inputs = [*inputs[:4], filled(call, shape, 1, dtype)]
        notes.append("gamma of ones added")
    if call.n_outputs == 1:
        dropped = (TensorType(dtype, shape),) * 2
        notes.append("diff_gamma and diff_beta computed and dropped")
    return Rewrite(call.schema.kind, _given(call), inputs, ", ".join(notes), dropped)


def _layer_norm(call: Call) -> Rewrite:
    affine, keep = call.flag("use_affine"), call.flag("keep_stats")
    attrs = {**_given(call), "keep_stats": keep, "use_affine": affine}
    dtype, shape = _input(call, "src")
    if affine or not keep or dtype is not DataType.bf16:
        return Rewrite(call.schema.kind, attrs, _all_inputs(call))
    # The library writes f32 statistics whatever their type is; with a gamma, add_op requires the type of gamma.
    vectors = filled(call, shape[-1:], 1), filled(call, shape[-1:], 0)
    return Rewrite(
        call.schema.kind, {**attrs, "use_affine": True}, (0, *vectors), "gamma of ones and beta of zeros added"
    )


def _layer_norm_backward(call: Call) -> Rewrite:
    return Rewrite(call.schema.kind, {**_given(call), "use_affine": call.flag("use_affine")}, _all_inputs(call))


# Quantization --------------------------------------------------------------------------------------------------------


def _quantization(call: Call) -> Rewrite:
    """The op with a non-negative axis and with zero points."""
    attrs = _given(call, "axis")
    if call.string("qtype") == "per_channel":
        axis = normalize_axis(call.s64("axis"), len(known_dims(call.shape("src"))))
        assert axis is not None
        attrs["axis"] = axis
    if call.schema.has_attribute("zps") and not call.has("zps") and not _of_eight_bit_floats(call):
        attrs["zps"] = (0,) * len(call.f32s("scales"))
    return Rewrite(call.schema.kind, attrs, _all_inputs(call))


def _of_eight_bit_floats(call: Call) -> bool:
    """Whether src or dst has an 8-bit float type, which has no zero points."""
    dtypes = _input(call, "src")[0], call.output_type(0)
    return any(dtype in (DataType.f8_e4m3, DataType.f8_e5m2) for dtype in dtypes)


# Others --------------------------------------------------------------------------------------------------------------


def _interpolation(call: Call) -> Rewrite:
    """The op with its sizes as an attribute."""
    sizes = interpolation.resized(call)
    assert sizes is not None
    attrs = {**_given(call, "scales"), "sizes": tuple(size or 0 for size in sizes)}
    return Rewrite(call.schema.kind, attrs, (0, 1) if call.schema.kind == "InterpolateBackward" else (0,))


def _reduction(call: Call) -> Rewrite:
    axes = reduced_axes(call)
    assert axes is not None
    return Rewrite(call.schema.kind, {**_given(call, "axes"), "axes": axes}, (0,))


def _bias_add_backward(call: Call) -> Rewrite:
    attrs: dict[str, AttrValue] = {"axes": axes_but_channels(call), "keep_dims": False}
    return Rewrite("ReduceSum", attrs, (0,), "ReduceSum: BiasAddBackward is unsupported")


def _matmul(call: Call) -> Rewrite:
    """MatMul without an accumulation_mode that the CPU does not use; it may sum in f32 in every mode."""
    attrs = _given(call)
    if attrs.get("accumulation_mode") not in ("f32", "s32", "f16"):
        return Rewrite(call.schema.kind, attrs, _all_inputs(call))
    mode = attrs.pop("accumulation_mode")
    return Rewrite(call.schema.kind, attrs, _all_inputs(call), f"without accumulation_mode: {mode!r} does not compile")


def _prelu(call: Call) -> Rewrite:
    """PReLU; a single slope, and slopes of few axes, need numpy's broadcast rules in the library."""
    attrs = _given(call)
    if call.shape("slope") == (1,) or slope_of_few_axes(call):
        attrs["per_channel_broadcast"] = False
    return Rewrite(call.schema.kind, attrs, _all_inputs(call))


SINGLE: dict[str, Callable[[Call], Rewrite | None]] = {
    "Convolution": _convolution,
    "ConvolutionBackwardData": _convolution_backward_data,
    "ConvolutionBackwardWeights": _weights_gradient,
    "ConvTranspose": _conv_transpose,
    "ConvTransposeBackwardData": _conv_transpose_backward_data,
    "ConvTransposeBackwardWeights": _weights_gradient,
    "BatchNormTrainingBackward": _batch_norm_backward,
    "LayerNorm": _layer_norm,
    "LayerNormBackward": _layer_norm_backward,
    "BiasAddBackward": _bias_add_backward,
    "PReLU": _prelu,
    "MatMul": _matmul,
    **dict.fromkeys(kinds.in_category("pooling"), _pool),
    **dict.fromkeys(kinds.QUANTIZATIONS, _quantization),
    **dict.fromkeys(("Interpolate", "InterpolateBackward"), _interpolation),
    **dict.fromkeys(kinds.REDUCTIONS, _reduction),
}
