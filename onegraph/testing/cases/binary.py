"""Lists valid uses of the binary ops: broadcasts, mixed types, Select, and the ops on channels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import FLOATS, Attrs, Case, Dims, Make, SeededData, Use, normals, typed

_KINDS = ("Add", "Divide", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract", "GreaterEqual")
_SHAPES: dict[str, tuple[Dims, Dims]] = {
    "same": ((2, 3, 4), (2, 3, 4)),
    "channels": ((2, 3, 4), (3, 1)),
    "both ways": ((2, 1, 4), (3, 1)),
    "vector": ((2, 3, 4), (4,)),
    "scalar": ((2, 3), ()),
    "two scalars": ((), ()),
    "first smaller": ((4,), (2, 3, 4)),
}
_SLOPES: dict[str, tuple[str, Dims, Dims]] = {
    "NXC channels": ("NXC", (2, 4, 5, 3), (3,)),
    "NCX channels": ("NCX", (2, 3, 4, 5), (3,)),
    "one": ("NXC", (2, 4, 5, 3), (1,)),
    "one-2d": ("NXC", (4, 3), (1,)),
    "one NCX": ("NCX", (2, 3, 4, 5), (1,)),
    "same": ("NXC", (2, 4, 5, 3), (2, 4, 5, 3)),
    "full rank": ("NCX", (2, 3, 4, 5), (1, 3, 1, 1)),
    "no channels": ("NXC", (3,), (3,)),
}


def _divide(first: Dims, second: Dims) -> Make:
    def make(data: SeededData, dtype: str) -> Use:
        return (data.normal(dtype, *first), data.positive(dtype, *second)), {}

    return make


def _select(cond: Dims) -> Make:
    def make(data: SeededData, dtype: str) -> Use:
        chosen = np.asarray(data.rng.random(cond) < 0.5)
        return (chosen, data.normal(dtype, 2, 3, 4), data.normal(dtype, 2, 3, 4)), {}

    return make


def cases() -> Iterator[Case]:
    """Every binary op of the base vocabulary."""
    for kind in _KINDS:
        for label, (first, second) in _SHAPES.items():
            make = _divide(first, second) if kind == "Divide" else normals((first, second))
            yield from typed(kind, label, make, FLOATS if label in ("same", "channels") else ("f32",))
        data = SeededData(kind)
        same = (data.normal("f32", 3, 4), data.normal("f32", 3, 4))
        yield Case(kind, "none", same, {"auto_broadcast": "none"})
    for kind in ("Add", "Divide", "Multiply", "Subtract"):
        data = SeededData(f"mixed {kind}")
        for first_type, two in (("f32", "bf16"), ("f32", "f16"), ("bf16", "f32"), ("f16", "f32")):
            yield Case(kind, f"{first_type} {two}", (data.normal(first_type, 3, 4), data.positive(two, 3, 4)))
    for kind in ("Add", "Subtract", "GreaterEqual"):
        data = SeededData(f"integers {kind}")
        yield Case(kind, "s32", tuple(data.rng.integers(-9, 9, (3, 4)).astype(np.int32) for _ in range(2)))
    conds: dict[str, Dims] = {"same": (2, 3, 4), "smaller": (3, 1), "scalar": ()}
    for label, cond in conds.items():
        yield from typed("Select", label, _select(cond))
    yield from _bias()
    yield from _prelu()


def _bias() -> Iterator[Case]:
    uses: list[tuple[str, Dims]] = [("NXC", (2, 4, 5, 3)), ("NCX", (2, 3, 4, 5)), ("NXC", (4, 3)), ("NCX", (4, 3))]
    for fmt, shape in uses:
        attrs: Attrs = {"data_format": fmt}
        label = f"{fmt}-{len(shape)}d"
        yield from typed("BiasAdd", label, normals((shape, (3,)), attrs))
        yield from typed("BiasAddBackward", label, normals((shape,), attrs))
    yield from typed("BiasAddBackward", "flat", normals(((1, 3),)), ("f32",))


def _prelu() -> Iterator[Case]:
    for label, (fmt, shape, slope) in _SLOPES.items():
        attrs: Attrs = {"data_format": fmt}
        yield from typed("PReLU", label, normals((shape, slope), attrs))
        yield from typed("PReLUBackward", label, normals((shape, slope, shape), attrs))
    data = SeededData("prelu numpy")
    yield Case(
        "PReLU",
        "numpy vector",
        (data.normal("f32", 2, 3, 4, 5), data.normal("f32", 5)),
        {"data_format": "NCX", "per_channel_broadcast": False},
    )
