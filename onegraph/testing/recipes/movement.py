"""Draws ops that move elements, quantization ops, and ops of no other category."""

from __future__ import annotations

from ...opset.schema import TensorType
from .draw import NUMBERS, Dims, Draw, Inputs, divisors


def concat(draw: Draw) -> Inputs:
    """Tensors whose shapes differ along one axis only."""
    dims = draw.source(1, 5)
    place = draw.number(0, len(dims) - 1)
    draw.fixed["axis"] = place if draw.coin() else place - len(dims)
    shapes = [dims]
    for _ in range(draw.number(0, 2)):
        shapes.append((*dims[:place], draw.number(1, 3) if draw.coin() else dims[place], *dims[place + 1 :]))
    return draw.tensors(*shapes)


def _reshaped(draw: Draw, dims: Dims) -> Dims:
    """Dims with the same number of elements: some neighbouring axes are joined, axes of size 1 are inserted."""
    dims_read: list[int] = []
    for dim in dims:
        if dims_read and draw.coin():
            dims_read[-1] *= dim
        else:
            dims_read.append(dim)
    if len(dims_read) < 5 and draw.coin(0.3):
        dims_read.insert(draw.number(0, len(dims_read)), 1)
    if draw.coin(0.3):
        dims_read[draw.number(0, len(dims_read) - 1)] = -1
    return tuple(dims_read)


def static_reshape(draw: Draw) -> Inputs:
    """Another shape with the same number of elements."""
    dims = draw.source(1, 5)
    draw.fixed["shape"] = _reshaped(draw, dims)
    return draw.tensors(dims)


def static_transpose(draw: Draw) -> Inputs:
    """Another order of the axes."""
    dims = draw.source(1, 5)
    draw.fixed["order"] = tuple(draw.rng.sample(range(len(dims)), len(dims)))
    return draw.tensors(dims)


def dynamic_reshape(draw: Draw) -> Inputs:
    """Another shape, as a constant."""
    dims = draw.source(1, 5)
    return [*draw.tensors(dims), draw.integers(1, _reshaped(draw, dims))]


def dynamic_transpose(draw: Draw) -> Inputs:
    """Another order of the axes, as a constant."""
    dims = draw.source(1, 5)
    return [*draw.tensors(dims), draw.integers(1, draw.rng.sample(range(len(dims)), len(dims)))]


def index(draw: Draw) -> Inputs:
    """Some slices along the first axis."""
    dims = draw.source(1, 4)
    return [*draw.tensors(dims), draw.integers(1, [draw.number(-dims[0], dims[0] - 1) for _ in range(3)])]


# Quantization ---------------------------------------------------------------------------------------------------------


def _channels(draw: Draw, dims: Dims) -> int:
    """Set qtype and axis; returns the number of scales."""
    if not dims or draw.coin():
        draw.fixed["qtype"] = "per_tensor"
        return 1
    place = draw.number(0, len(dims) - 1)
    draw.fixed["qtype"], draw.fixed["axis"] = "per_channel", place if draw.coin() else place - len(dims)
    return dims[place]


def quantize(draw: Draw) -> Inputs:
    """Scales and zero points as attributes; 8-bit floats have no zero points."""
    dims = draw.source(0, 5)
    count = _channels(draw, dims)
    draw.fixed["scales"] = tuple(draw.rng.choice(NUMBERS) / 8 for _ in range(count))
    if not draw.types["T"].value.startswith("f8") and not (draw.wide and draw.coin(0.2)):
        draw.fixed["zps"] = _zero_points(draw, count, 9)
    return draw.tensors(dims)


def _zero_points(draw: Draw, count: int, highest: int) -> tuple[int, ...]:
    """Integers from zero; of everything that is allowed, equal ones and zeros too."""
    if draw.wide and draw.coin():
        return (draw.number(0, highest) if draw.coin() else 0,) * count
    return tuple(draw.number(0, highest) for _ in range(count))


def dynamic_quantize(draw: Draw) -> Inputs:
    """Scales and zero points as tensors."""
    dims = draw.source(0, 5)
    source = draw.tensor(0, dims)
    if draw.dtype(0).value in ("s4", "u4"):
        return _grouped(draw, source, dims)
    count = _channels(draw, dims)
    scales = draw.positive(1, (count,))
    if draw.coin(0.3):
        return [source, scales]
    return [source, scales, draw.integers(2, _zero_points(draw, count, 7))]


def _grouped(draw: Draw, source: TensorType, dims: Dims) -> Inputs:
    """A scale for each block."""
    blocks = [draw.rng.choice(divisors(dim)) for dim in dims]
    draw.fixed["qtype"] = "per_group"
    draw.fixed["group_shape"] = tuple(dim // block for dim, block in zip(dims, blocks, strict=True))
    return [source, draw.positive(1, blocks)]


# Misc -----------------------------------------------------------------------------------------------------------------


def dropout(draw: Draw) -> Inputs:
    """Seed and offset are graph inputs, the probability is a constant."""
    dims = draw.source(0, 5)
    return [*draw.tensors(dims, (1,), (1,)), draw.positive(3, (1,))]
