"""Draws elementwise and binary ops."""

from __future__ import annotations

from ...opset.window import channel_axis
from .draw import Dims, Draw, Inputs


def alike(draw: Draw) -> Inputs:
    """Every input has the shape of the first."""
    dims = draw.source(0, 5)
    return draw.tensors(*[dims] * max(1, draw.schema.required_inputs))


def clamp(draw: Draw) -> Inputs:
    """The minimum is not above the maximum."""
    draw.fixed["min"], draw.fixed["max"] = draw.rng.choice((-1.0, -0.5, 0.0)), draw.rng.choice((0.0, 0.5, 6.0))
    return alike(draw)


def broadcast(draw: Draw) -> Inputs:
    """The further inputs broadcast to the first."""
    dims = draw.source(0, 5)
    shapes: list[Dims] = [dims]
    plain = draw.word("auto_broadcast") == "none"
    for _ in range(len(draw.schema.inputs) - 1):
        shapes.append(dims if plain or draw.coin() else _smaller(draw, dims))
    if draw.wide and not plain and draw.coin(0.3):
        shapes[0] = _smaller(draw, dims)
    return draw.tensors(*shapes)


def _smaller(draw: Draw, dims: Dims) -> Dims:
    """Dims that broadcast to others."""
    smaller = tuple(1 if draw.coin(0.3) else dim for dim in dims)
    return smaller[draw.number(0, len(dims)) if draw.coin() else 0 :]


def bias_add(draw: Draw) -> Inputs:
    """A bias for each channel, or its gradient."""
    dims, channel = draw.activation()
    return draw.tensors(dims, (channel,))[: len(draw.schema.inputs)]


def prelu(draw: Draw) -> Inputs:
    """One slope, one for each channel, or one for each element."""
    dims, channel = draw.activation()
    ones = [1] * len(dims)
    at = channel_axis(len(dims), str(draw.fixed["data_format"]))
    per_channel = tuple(channel if axis == at else 1 for axis in range(len(dims)))
    slopes: list[Dims] = [(1,), (channel,), dims, per_channel, tuple(ones)]
    slope = draw.rng.choice([*slopes, _smaller(draw, dims)] if draw.wide else slopes)
    return draw.tensors(dims, slope, dims)[: len(draw.schema.inputs)]
