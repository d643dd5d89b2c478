"""Convolutions and pools of drawn windows that fit their sources: which faults they run into.

What one change makes of an example seldom fits: the sizes of both sides follow from each other.
"""

from __future__ import annotations

from random import Random
from typing import Any

from onegraph.errors import OneGraphError
from onegraph.faults.cpus import CPU_SUPPORT, EVERY_ISA, OnCpu
from onegraph.faults.depthwise import FAR_PADS, Padding
from onegraph.faults.ops.pooling import SLOW_CHANNELS_FIRST, ChannelsFirst
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType

from .around import less_known
from .draws import material
from .fault_subjects import OF_SINGLE_OPS

TYPES = (DataType.f32, DataType.f32, DataType.bf16, DataType.bf16, DataType.f16)
CHANNELS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 33, 64)
SIZES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 16, 17, 20, 33)
CONVOLUTIONS = ("Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights")
TRANSPOSED = ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
POOLS = ("MaxPool", "AvgPool", "MaxPoolBackward", "AvgPoolBackward")


def laid(batch: Any, channels: Any, sizes: Any, form: str) -> tuple[Any, ...]:
    """A shape in a data format."""
    return (batch, channels, *sizes) if form == "NCX" else (batch, *sizes, channels)


def window_attributes(axes: int, drawn: Random) -> dict[str, Any]:
    """Strides, padding and dilations."""
    few = {
        "strides": (1, 1, 2, 2, 3),
        "pads_begin": (0, 0, 1, 2, 3),
        "pads_end": (0, 0, 1, 2),
        "dilations": (1, 1, 2, 5),
    }
    attrs: dict[str, Any] = {}
    for name, choices in few.items():
        same = drawn.choice(choices)
        attrs[name] = tuple(same if drawn.random() < 0.5 else drawn.choice(choices) for _ in range(axes))
    attrs["auto_pad"] = drawn.choice(("none", "none", "none", "same_upper", "same_lower", "valid"))
    attrs["data_format"] = drawn.choice(("NXC", "NCX"))
    return attrs


def convolution(kind: str, drawn: Random) -> Call:
    """A use of an op on convolutions."""
    axes = drawn.choice((1, 2, 2, 3))
    attrs, is_turned = window_attributes(axes, drawn), kind in TRANSPOSED
    groups, batch = drawn.choice((1, 1, 1, 2, 4, 16)), drawn.choice((1, 1, 2, 5))
    source, result = (drawn.choice(CHANNELS) for _ in range(2))
    if groups > 1:
        source, result = groups * drawn.choice((1, 1, 2, 4)), groups * drawn.choice((1, 1, 2, 8))
    form = attrs["weights_format"] = drawn.choice(("XOI", "IOX") if is_turned else ("XIO", "OIX"))
    attrs["groups"] = groups
    kernel = tuple(drawn.choice((1, 1, 2, 3, 5)) for _ in range(axes))
    ends = (source, result // groups) if is_turned else (source // groups, result)
    weights = (
        (*kernel, *(ends[::-1] if is_turned else ends))
        if form[0] == "X"
        else (*(ends if is_turned else ends[::-1]), *kernel)
    )
    dtype, sizes = drawn.choice(TYPES), tuple(drawn.choice(SIZES) for _ in range(axes))
    src, filters = (TensorType(dtype, shape) for shape in (laid(batch, source, sizes, attrs["data_format"]), weights))
    if is_turned and drawn.random() < 0.4:
        attrs["output_padding"] = tuple(drawn.choice((0, 0, 1, 2)) for _ in range(axes))
    forward = Call(BASE["ConvTranspose" if is_turned else "Convolution"], attrs, [src, filters], 1, [dtype])
    (shape,) = forward.shapes
    if kind in ("Convolution", "ConvTranspose"):
        bias = [TensorType(dtype, (result,))] if drawn.random() < 0.3 else []
        return Call(forward.schema, attrs, [src, filters, *bias], 1, [dtype])
    result_end = TensorType(dtype, shape)
    if kind.endswith("Weights"):
        return Call(BASE[kind], {**attrs, "weights_shape": weights}, [src, result_end], 1, [dtype])
    more = {} if is_turned else {"dst_shape": src.shape}
    if not is_turned and drawn.random() < 0.3:
        more["output_padding"] = tuple(drawn.choice((0, 1)) for _ in range(axes))
    return Call(BASE[kind], {**attrs, **more}, [result_end, filters], 1, [dtype])  # type: ignore[dict-item]


def pool(kind: str, drawn: Random) -> Call:
    """A use of an op on pools."""
    axes = drawn.choice((1, 2, 2, 3))
    attrs = window_attributes(axes, drawn)
    attrs["kernel"] = tuple(drawn.choice((1, 2, 2, 3, 5)) for _ in range(axes))
    attrs["rounding_type"] = drawn.choice(("floor", "floor", "ceil"))
    if kind.startswith("Avg"):
        attrs["exclude_pad"] = drawn.random() < 0.5
    attrs = {name: value for name, value in attrs.items() if BASE[kind].has_attribute(name)}
    dtype, sizes = drawn.choice((*TYPES, DataType.s8)), tuple(drawn.choice((*SIZES, 64)) for _ in range(axes))
    src = TensorType(dtype, laid(drawn.choice((1, 2)), drawn.choice(CHANNELS), sizes, attrs["data_format"]))
    kept = {name: value for name, value in attrs.items() if BASE[kind.removesuffix("Backward")].has_attribute(name)}
    forward = Call(BASE[kind.removesuffix("Backward")], kept, [src], 1, [dtype])
    if not kind.endswith("Backward"):
        return forward
    result = TensorType(dtype, forward.shapes[0])
    if kind.startswith("Avg"):
        return Call(BASE[kind], {**attrs, "src_shape": src.shape}, [result], 1, [dtype])
    return Call(BASE[kind], attrs, [src, result], 1, [dtype])


@material(lambda: (*CONVOLUTIONS, *TRANSPOSED, *POOLS))
def faults_of_windows(name: str, number: int) -> list[str]:
    """The faults of a convolution or a pool."""
    from tests.faults.test_fault_conditions import verdict

    drawn = Random(f"{name} {number}")
    try:
        call = (pool if name in POOLS else convolution)(name, drawn)
        if drawn.random() < 0.12:
            call = less_known(call, drawn)
        shapes = f"{call.shapes}"
    except (OneGraphError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        return [type(error).__name__]
    lines = [shapes]
    for fault in OF_SINGLE_OPS:
        if name in fault.ops:
            lines.append(
                fault.name + "".join(verdict(one, call) for one in (fault.when, fault.certain) if one is not None)
            )
    if name in POOLS:
        lines += [verdict(SLOW_CHANNELS_FIRST.when, ChannelsFirst(call, size)) for size in (0, 2**10, 2**14, 2**20)]
    lines += [verdict(FAR_PADS.when, Padding(call, most)) for most in (4, 6)] if name == "Convolution" else []
    isa = drawn.choice(EVERY_ISA)
    return [*lines, *(verdict(fault.when, OnCpu(call, isa)) for fault in CPU_SUPPORT if name in fault.ops)]


@material(lambda: ("pixels",))
def faults_of_pixels(name: str, number: int) -> list[str]:
    """The faults of a gradient of windows of one element, which strides divide the source into, or nearly so."""
    from tests.faults.test_fault_conditions import verdict

    drawn = Random(f"{name} {number}")
    axes, groups = drawn.choice((1, 2, 2, 3)), drawn.choice((1, 1, 1, 2))
    attrs = dict.fromkeys(("pads_begin", "pads_end"), (0,) * axes) | {"dilations": (1,) * axes, "groups": groups}
    attrs["strides"] = strides = tuple(drawn.choice((1, 2, 2, 3)) for _ in range(axes))
    if drawn.random() < 0.15:
        attrs[drawn.choice(("pads_begin", "pads_end"))] = tuple(drawn.choice((0, 1)) for _ in range(axes))
    form = attrs["data_format"] = drawn.choice(("NXC", "NCX"))
    few, many = (groups * drawn.choice((1, 2, 4, 7, 8, 9, 15, 16, 17)) for _ in range(2))
    sizes = tuple(drawn.choice((1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32)) for _ in range(axes))
    wide = [size * step + drawn.choice((0,) * 9 + (1, -1)) for size, step in zip(sizes, strides, strict=True)]
    kernel = (1,) * axes if drawn.random() < 0.9 else (1,) * (axes - 1) + (2,)
    attrs |= {"weights_shape": (*kernel, few // groups, many), "weights_format": "XIO"}
    dtype = drawn.choice(TYPES)
    ends = [TensorType(dtype, laid(2, few, wide, form)), TensorType(dtype, laid(2, many, sizes, form))]
    call = Call(BASE["ConvolutionBackwardWeights"], attrs, ends, 1, [dtype])
    if drawn.random() < 0.1:
        call = less_known(call, drawn)
    concerned = [fault for fault in OF_SINGLE_OPS if call.schema.kind in fault.ops]
    return [verdict(one, call) for fault in concerned for one in (fault.when, fault.certain) if one is not None]
