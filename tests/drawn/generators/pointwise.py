"""Several elementwise ops at once, each rounded to f32."""

from __future__ import annotations

import math

import numpy as np

import onegraph as og
from tests.helpers.drawn import TYPES, Array, fill, sized

from ..draw import Draw
from ..entry import draws

f32 = np.float32
EXACT = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "squared_difference": lambda a, b: (a - b) * (a - b),
    "square": np.square,
    "sqrt": np.sqrt,
    "copy": lambda a: a,
}
UNARY = {"square", "sqrt", "copy", "sigmoid", "gelu_slope"}
_erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    """Also of numbers far below 0, whose tanh is -1; below -87 a power of the kernel is no normal number, and 0."""
    power = np.exp(-np.abs(x))
    return np.where(x < -87, 0, np.where(x >= 0, 1, power) / (1 + power))


def gelu_slope(x: Array) -> Array:
    finite = np.where(np.isfinite(x), x, 0)
    inner = 0.5 * (1 + _erf(finite / math.sqrt(2))) + finite * np.exp(-finite * finite / 2) / math.sqrt(2 * math.pi)
    return np.where(np.isfinite(x), inner, np.nan)  # an infinite number times 0


# Functions in float64, and how large an error of 1 would be.
ROUNDED = {
    "sigmoid": (sigmoid, lambda x: np.ones(x.shape)),
    "gate": (lambda a, x: a * sigmoid(x), lambda a, x: sized(a)),
    "gelu_slope": (gelu_slope, lambda x: np.ones(x.shape)),
    "sigmoid_backward": (lambda y, g: g * y * (1 - y), lambda y, g: sized(g) * (sized(y) + sized(y) ** 2)),
    "tanh_backward": (lambda y, g: g * (1 - y * y), lambda y, g: sized(g) * (1 + sized(y) ** 2)),
}
ERROR = 1e-6


@draws("pointwise")
def pointwise(draw: Draw) -> None:
    shape = tuple(draw.between(1, 4) for _ in range(draw.between(0, 2)))
    shape = (*shape, draw.size(700) + 1) if draw.flag(0.9) else (*shape, draw.of([513, 1024, 4097, 33000]))
    n_inputs, n_results = draw.between(1, 5), draw.between(1, 3)
    inputs = []
    for place in range(n_inputs):
        way = draw.of(["whole", "whole", "one", "row", "spread"]) if place else "whole"
        own = {"whole": shape, "one": (1,), "row": shape[-1:], "spread": tuple(1 if draw.flag() else n for n in shape)}
        array = np.zeros(own[way], TYPES[draw.dtype()])
        if draw.flag(0.3):
            fill(draw.rng, array)
        else:
            array[...] = draw.rng.standard_normal(array.shape)
        inputs.append(array)
    kinds = [draw.dtype() for _ in range(n_results)]
    results = [np.full(shape, np.nan, TYPES[kind]) for kind in kinds]
    values = {place: np.broadcast_to(array.astype(f32), shape) for place, array in enumerate(inputs)}
    singles = {place for place, array in enumerate(inputs) if array.size == 1}
    errors: dict[int, Array] = {}
    code: list[int | str] = []
    count = draw.between(0, 8)
    free = n_inputs + n_results
    for number in range(count + n_results):
        at = free + number if number < count else n_inputs + number - count
        exact = [place for place in values if place not in errors]
        word = draw.of([*EXACT]) if number < count or draw.flag(0.7) else draw.of([*ROUNDED])
        first, second = draw.of(exact[-4:] if draw.flag() else exact), draw.of(exact)
        if word in ("sigmoid", "gate") and (first if word == "sigmoid" else second) in singles:
            word = "copy"
        first_of = (values[first],) if word in UNARY else (values[first], values[second])
        if word in EXACT:
            values[at] = EXACT[word](*first_of).astype(f32)
        else:
            function, size = ROUNDED[word]
            wide = [array.astype(np.float64) for array in first_of]
            values[at], errors[at] = function(*wide), ERROR * size(*wide)
        code += [word, at, first, first if word in UNARY else second]
    draw.said = f"{[array.shape for array in inputs]}, {[str(array.dtype) for array in inputs]} to {kinds}, {code}"
    draw.path = " ".join(sorted({"rounded"} if errors else {"exact"}))
    draw.run(*inputs, *results, results=n_results, ops=code)
    for place, (found, kind) in enumerate(zip(results, kinds, strict=True), n_inputs):
        wanted, error = values[place], errors.get(place)
        if error is None:
            wide, exact_found = wanted.astype(found.dtype), found
            same = (wide == exact_found) | (np.isnan(wide.astype(f32)) & np.isnan(found.astype(f32)))
        else:
            relative, least = {"f32": (2.0**-22, 2.0**-125), "bf16": (2.0**-7, 2.0**-125), "f16": (2.0**-10, 2.0**-24)}[
                kind
            ]
            wide, got = wanted, found.astype(np.float64)
            rounded = wanted.astype(found.dtype).astype(np.float64)
            same = (
                (rounded == got)
                | (np.isnan(wanted) & np.isnan(got))
                | (np.abs(got - wanted) <= error + relative * np.abs(wanted) + least)
            )
            same |= error > 1e30  # which may be infinite on the way
        assert same.all(), f"{draw}, result {place - n_inputs}: {found[~same][:4]}, not {wide[~same][:4]}"


@draws("pointwise", graph=True)
def pointwise_in_a_graph(draw: Draw) -> None:
    shape, g = (draw.size(65), draw.size(65, 2)), og.Graph()
    x, y, z = (g.input(name, "f32", shape) for name in "xyz")
    total = g.add(g.multiply(x, y), z)
    g.output("total", total)
    g.output("more", g.subtract(g.square(total), y))
    given = {name: draw.dense(shape) for name in "xyz"}
    draw.said = f"{shape}"
    founds = draw.run_graph(g, given)
    wanted = given["x"] * given["y"] + given["z"]
    for found, right in zip(founds, (wanted, wanted * wanted - given["y"]), strict=True):
        np.testing.assert_array_equal(found, right, err_msg=str(draw))
