"""Axes that are resized, of known, unknown and open sizes: a material of :mod:`draws`.

What is recorded are the ops that are added, and what was asked of open sizes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import onegraph as og
from onegraph._util.size_symbols import OpenSizes
from onegraph.lowering.emitter import Emitter, NotLowered, known_rank
from onegraph.lowering.open_resize import resized_open, resized_open_backward
from onegraph.lowering.resize import enlarged, resize, resize_backward
from onegraph.lowering.resize_axes import Axis, Sampling, scaled, settled_sizes
from onegraph.opset.dtypes import DataType

from .draws import material, recorded

VALUES = (1, 2, 3, 4, 6)
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
COORDINATES = (*COORDINATES, "tf_crop_and_resize", "pytorch_nearest", "pytorch_nearest_exact")
ROUNDINGS = ("floor", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
DTYPES = ("f32", "f32", "f32", "f16", "bf16", "u8", "s8", "s64", "s32", "float64")
FACTORS = (1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 0.5, 0.5, 1.5, 2.6, 1 / 3, 1 / 64, 1 / 128)
RARE = (0.0, 1.01, 129 / 128, 0.75, 0.7)


def sampling_of(mode: str, drawn: Random) -> Sampling:
    """How elements are found, in most draws with the defaults."""
    given = {
        "cubic": lambda: drawn.choice((-0.5, -0.75, 0.25)),
        "antialias": lambda: True,
        "exclude_outside": lambda: True,
        "outside": lambda: 7.0,
    }
    coordinates, rounding = drawn.choice(COORDINATES), drawn.choice(ROUNDINGS)
    return Sampling(
        mode,
        coordinates,
        "floor" if "nearest" in coordinates and drawn.random() < 0.7 else rounding,
        **{name: make() for name, make in given.items() if drawn.random() < 0.2},
    )


def axis_of(size: Any, drawn: Random) -> Axis:
    """How an axis of a size is resized: by a factor, or to a size."""
    begin, end = drawn.choice(((0.0, 1.0), (0.25, 0.75), (-0.5, 1.5), (0.0, 0.0)))
    factor = drawn.choice(RARE if drawn.random() < 0.08 else FACTORS)
    if drawn.random() < 0.4:
        count, is_ratio = scaled(size, factor)
        return Axis(size, count, factor, begin, end, is_ratio)
    count = size if drawn.random() < 0.2 else size * int(factor) if factor >= 1 else drawn.choice((1, 2, 5, size + 1))
    policy = drawn.choice(("stretch", "stretch", "stretch", "not_larger", "not_smaller"))
    (count,), (scale,) = settled_sizes([size], [count], policy)
    return Axis(size, count, scale, begin, end, policy == "stretch")


@material(lambda: ("nearest", "linear", "cubic"))
def resized(name: str, number: int) -> list[str]:
    """The ops of an axis or two that are resized, or of their gradient."""
    drawn = Random(f"{name} {number}")
    sizes = OpenSizes(VALUES)
    rank = drawn.choice((1, 2, 3, 4, 4, 4, 5, 6))
    is_open, is_unknown = drawn.random() < 0.6, drawn.random() < 0.15
    dims: list[Any] = [drawn.choice(VALUES) for _ in range(rank)]
    if is_open:
        symbols = dict(zip(VALUES, sizes.symbols, strict=True))
        dims = [symbols[dim] * drawn.choice((1, 1, 1, 2)) if drawn.random() < 0.7 else dim for dim in dims]
    chosen = drawn.sample(range(rank), drawn.choice((1, 1, 1, 2)) if rank > 1 else 1)
    if rank > 2 and drawn.random() < 0.8:
        chosen = [max(place, 2) for place in chosen]
    sampling = sampling_of(name, drawn)
    graph = og.Graph()
    emit = Emitter(graph)

    def made() -> list[str]:
        if is_unknown:
            src = graph.input("x", drawn.choice(DTYPES), [dims[0], *[None] * (rank - 1)])
            factors = {place: drawn.choice((*FACTORS[1:8], 1.0, 1.5, 1.01, 0.0)) for place in chosen}
            result = enlarged(emit, src, factors, sampling)
        else:
            axes = {place: axis_of(dims[place], drawn) for place in chosen}
            way = drawn.choice((resize, resize, resize, resized_open, resize_backward, resized_open_backward))
            is_back = way in (resize_backward, resized_open_backward)
            unknown = drawn.randrange(rank) if drawn.random() < 0.15 else rank
            shape = [
                axes[place].count if is_back and place in axes else None if place == unknown != chosen[0] else dim
                for place, dim in enumerate(dims)
            ]
            dtype = DataType(drawn.choice(DTYPES))
            src: Any = graph.input("x", DataType.f32 if dtype is DataType.float64 else dtype, shape)
            src = src if src.dtype is dtype else emit.op("Cast", [src], {"saturate": True}, dtype=dtype)
            result = way(emit, src, axes, sampling)
        if result is None:
            return ["no op of open sizes", *sizes.conditions()]
        graph.output("y", emit.tensor(result))
        return [*recorded.lines_of(graph), f"{known_rank(result)}", *sizes.conditions()]

    try:
        return recorded.outcome(made, also=[NotLowered])
    except (ArithmeticError, LookupError, ValueError) as error:
        return [type(error).__name__]
