"""Draws ops with spatial axes: convolutions, pools, Interpolate."""

from __future__ import annotations

from typing import NamedTuple

from ...opset.shapes import known_dims
from ...opset.window import activation, extent, spatial
from .draw import Dims, Draw, Inputs, divisors

LISTS = ("strides", "dilations", "pads_begin", "pads_end")
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


class _Window(NamedTuple):
    """The spatial dims of a convolution or pool: those of the kernel, and those of the tensor that was not given."""

    kernel: Dims
    other: Dims


def _window(draw: Draw, size: Dims, *, from_wide: bool, dilated: bool = True) -> _Window:
    """Set the attributes of a window that fits along each axis, and return the window."""
    if draw.wide:
        return _wide_window(draw, size, from_wide=from_wide, dilated=dilated)
    axes, result_dims = [], []
    for dim in size:
        kernel, step = draw.number(1, 3), draw.number(1, 2)
        spread = draw.number(1, 2) if dilated and draw.coin(0.3) else 1
        begin, end = draw.number(0, 1), draw.number(0, 1)
        if kernel == 1 or extent(kernel, spread) > dim + begin + end:
            kernel, spread, begin, end = 1, 1, 0, 0
        reach = extent(kernel, spread)
        if not from_wide and (dim - 1) * step + reach - begin - end < 1:
            begin = end = 0
        pads = begin + end
        result_dims.append((dim + pads - reach) // step + 1 if from_wide else (dim - 1) * step + reach - pads)
        axes.append((kernel, step, spread, begin, end))
    lists = list(zip(*axes, strict=True))
    for name, values in zip(("kernel", "strides", "dilations", "pads_begin", "pads_end"), lists, strict=True):
        if draw.schema.has_attribute(name):
            draw.fixed[name] = values
    draw.fixed["auto_pad"] = "none"
    return _Window(lists[0], tuple(result_dims))


def _wide_window(draw: Draw, size: Dims, *, from_wide: bool, dilated: bool) -> _Window:
    """Set the attributes of any window, and return the window; the specification may refuse some of them.

    Where the side with larger dims is the result, its last elements may be in no window.
    """
    auto_pad = draw.word("auto_pad")
    axes, result_dims = [], []
    for dim in size:
        kernel, step = draw.number(1, 4), draw.number(1, 3)
        spread = draw.number(1, 3) if dilated and draw.coin(0.3) else 1
        padded = draw.coin(0.6)
        begin, end = (draw.number(0, 3), draw.number(0, 3)) if padded else (0, 0)
        if from_wide and auto_pad in ("none", "valid"):
            while extent(kernel, spread) > dim + (begin + end if auto_pad == "none" else 0):
                kernel -= 1
        reach, left = extent(kernel, spread), draw.number(0, step - 1)
        pads = begin + end if auto_pad == "none" else 0
        if auto_pad.startswith("same_"):
            result_dims.append(-(-dim // step) if from_wide else dim * step - left)
        else:
            result_dims.append(
                (dim + pads - reach) // step + 1 if from_wide else (dim - 1) * step + reach - pads + left
            )
        axes.append((kernel, step, spread, begin, end))
    if any(dim < 1 for dim in result_dims):
        return _wide_window(draw, size, from_wide=from_wide, dilated=dilated)
    lists = list(zip(*axes, strict=True))
    for name, values in zip(("kernel", "strides", "dilations", "pads_begin", "pads_end"), lists, strict=True):
        if draw.schema.has_attribute(name):
            draw.fixed[name] = values
    if set(lists[2]) == {1} and draw.coin(0.3):
        draw.fixed.pop("dilations", None)
    return _Window(lists[0], tuple(result_dims))


def _padded_at_the_end(draw: Draw, size: Dims, window: _Window, *, from_wide: bool) -> _Window:
    """Set output_padding, which agrees with the sizes; of a ConvTranspose they follow from it."""
    kind, auto_pad = draw.schema.kind, str(draw.fixed["auto_pad"])
    if kind == "ConvTranspose":
        draw.fixed["output_padding"] = draw.spatial_padding()
        return window
    wide, narrow = (size, window.other) if from_wide else (window.other, size)
    added, sizes = [], list(wide)
    for axis, kernel in enumerate(window.kernel):
        stride, dilation, begin, end = (_of_axis(draw, name, axis) for name in LISTS)
        whole = stride * (narrow[axis] - 1) + extent(kernel, dilation)
        if kind == "ConvolutionBackwardData" and auto_pad.startswith("same_"):  # its padding follows from both sizes
            added.append(draw.number(0, 2))
            sizes[axis] = draw.number(max(1, whole - 4), whole)
            continue
        pads = {"none": begin + end, "valid": 0}.get(auto_pad, max(0, extent(kernel, dilation) - stride))
        added.append(wide[axis] - whole + pads)
    draw.fixed["output_padding"] = tuple(added)
    return window if from_wide else _Window(window.kernel, tuple(sizes))


def _of_axis(draw: Draw, name: str, axis: int) -> int:
    values = draw.fixed.get(name)
    return int(values[axis]) if isinstance(values, tuple) else 1  # dilations that are left out


def _activation(batch: int, channel: int, size: Dims, data_format: str) -> Dims:
    return known_dims(activation(batch, channel, size, data_format))


def _spatial(dims: Dims, data_format: str) -> Dims:
    return known_dims(spatial(dims, data_format))


def _weights(kernel: Dims, narrow: int, wide: int, layout: str) -> Dims:
    """The shape of weights; ``wide`` is the number of channels in one group of the side with larger spatial dims."""
    if layout in ("OIX", "IOX"):
        return (narrow, wide, *kernel)
    return (*kernel, wide, narrow)


def convolution(draw: Draw) -> Inputs:
    """Any of the six convolution ops, with a bias or the shape of its result."""
    kind = draw.schema.kind
    # ConvTranspose and its gradient by weights read the narrow side first, as the gradient of Convolution by data does.
    from_wide = kind in ("Convolution", "ConvolutionBackwardWeights", "ConvTransposeBackwardData")
    dims, first = draw.activation(3)
    data_format, layout = str(draw.fixed["data_format"]), draw.word("weights_format")
    window = _window(draw, _spatial(dims, data_format), from_wide=from_wide)
    groups = draw.rng.choice(divisors(first)) if draw.coin() else 1
    draw.fixed["groups"] = groups
    second = groups * draw.number(1, 3)
    wide, narrow = (first, second) if from_wide else (second, first)
    if draw.wide and draw.schema.has_attribute("output_padding") and draw.coin(0.25):
        window = _padded_at_the_end(draw, _spatial(dims, data_format), window, from_wide=from_wide)
    weights = _weights(window.kernel, narrow, wide // groups, layout)
    result = _activation(dims[0], second, window.other, data_format)
    if kind.endswith("Weights"):
        return _with_shape(draw, draw.tensors(dims, result), "weights_shape", weights)
    inputs = draw.tensors(dims, weights)
    if kind == "ConvolutionBackwardData" and draw.coin():
        return _with_shape(draw, inputs, "dst_shape", result)
    if kind in ("Convolution", "ConvTranspose"):
        if draw.coin(0.4):
            inputs.append(draw.tensor(len(inputs), (second,)))
        if draw.coin(0.3) and not draw.wide:
            draw.word("auto_pad")
    return inputs


def _with_shape(draw: Draw, inputs: Inputs, name: str, shape: Dims) -> Inputs:
    """Add the shape of the result as an attribute, or as an input of the same name."""
    if draw.coin(0.1 if draw.wide else 0.5):
        return [*inputs, draw.integers(len(inputs), shape)]
    draw.fixed[name] = shape
    return inputs


def pool(draw: Draw) -> Inputs:
    """A pool over a window, or its gradient."""
    kind = draw.schema.kind
    from_wide = kind != "AvgPoolBackward"
    dims, channel = draw.activation(3)
    data_format = str(draw.fixed["data_format"])
    window = _window(draw, _spatial(dims, data_format), from_wide=from_wide, dilated=kind.startswith("Max"))
    result = _activation(dims[0], channel, window.other, data_format)
    if kind == "MaxPoolBackward":
        return draw.tensors(dims, result)
    if kind == "AvgPoolBackward":
        return _with_shape(draw, draw.tensors(dims), "src_shape", result)
    if draw.coin(0.3) and not draw.wide:
        draw.word("auto_pad")
    return draw.tensors(dims)


def interpolation(draw: Draw) -> Inputs:
    """A resize, with sizes as an attribute or a tensor, or with scales; or its gradient."""
    dims, channel = draw.activation(3)
    data_format = str(draw.fixed["data_format"])
    size = _spatial(dims, data_format)
    draw.fixed["mode"] = draw.rng.choice(("nearest", LINEAR[len(size)]))
    scale = draw.rng.choice((0, 0, 1, 2, 0.5, 1.5) if draw.wide else (0, 0, 1, 2))  # 0: sizes
    to = tuple(int(dim * scale) for dim in size) if scale else draw.dims(len(size))
    inputs = draw.tensors(dims)
    if draw.schema.kind == "InterpolateBackward":
        inputs = draw.tensors(dims, _activation(dims[0], channel, to, data_format))
    if scale:
        draw.fixed["scales"] = (float(scale),) * len(size)
        return inputs
    return _with_shape(draw, inputs, "sizes", to)
