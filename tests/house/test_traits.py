"""Traits of ops: each trait of each record holds in the numpy reference, and ops without it break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.grouped import grouped
from numpy.typing import NDArray

import onegraph as og
from onegraph.opset import kinds
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import BASE, base_of, edition
from onegraph.opset.host import collective, control
from onegraph.opset.schema import Call, Schema, TensorType
from onegraph.opset.traits import Trait
from onegraph.opset.window import channel_axis
from onegraph.reference.run import reference_function, unrounded
from onegraph.testing.cases import CASES
from tests.helpers.host_cases import cases

Array = NDArray[Any]
HOST = edition("host").schemas
SCHEMAS = {**{("base", kind): schema for kind, schema in BASE.items()}, **{("host", k): s for k, s in HOST.items()}}
DECLARED = [(*key, trait) for key, schema in SCHEMAS.items() for trait in Trait if trait in schema.traits]
NO_USES = ("End", "Wildcard")
NO_FUNCTION = Trait.OPAQUE | Trait.PER_RUN  # what runs elsewhere, or draws random numbers
GRID = np.linspace(-4, 4, 402)  # without 0
STEEP = {"alpha": 3.0, "beta": 2.5, "min": 2.0, "max": 3.0}
FLAT = {"alpha": 1.0, "beta": 0.5, "min": -1.0, "max": 2.0}


class Use(NamedTuple):
    """A use of an op."""

    schema: Schema
    inputs: tuple[Array | None, ...]
    attrs: Mapping[str, Any]
    dtypes: tuple[Any, ...]  # of the results

    def run(self, inputs: Sequence[Array | None] | None = None, **attrs: Any) -> tuple[Array, ...]:
        """What the reference computes, in wide numbers."""
        arrays = [None if array is None else np.asarray(array) for array in inputs or self.inputs]
        types = [None if a is None else TensorType(OF_NUMPY[a.dtype], a.shape, a) for a in arrays]
        given = {name: tuple(v) if isinstance(v, list) else v for name, v in {**self.attrs, **attrs}.items()}
        call = Call(base_of(self.schema), given, types, len(self.dtypes), self.dtypes)
        if self.schema.category not in ("host", "quantization"):
            arrays = [
                a.astype(np.float64, copy=False) if a is not None and a.dtype.kind not in "biu" else a for a in arrays
            ]
        with np.errstate(all="ignore"):
            found = reference_function(base_of(self.schema))(call, *arrays)
        return tuple(unrounded(array) for array in (found if isinstance(found, tuple) else (found,)))

    def data(self) -> list[int]:
        """The inputs of the data type of dst."""
        dst = self.schema.outputs[0].type
        ports = [self.schema.input_port(index).type for index in range(len(self.inputs))]
        return [i for i, type_ in enumerate(ports) if type_ == dst and self.inputs[i] is not None]


@cache
def uses_of_ops() -> dict[tuple[str, str], list[Use]]:
    found: dict[tuple[str, str], list[Use]] = {}
    for case in CASES:
        g = og.Graph()
        types = ["s64" if array.dtype == np.int64 else array.dtype for array in case.inputs]
        ends = [g.input(f"x{i}", types[i], array.shape) for i, array in enumerate(case.inputs)]
        if case.kind in NO_USES:
            continue
        results = g.op(case.kind, ends, case.attrs, dtype=case.dtype, outputs=case.outputs)
        results = results if isinstance(results, tuple) else (results,)
        use = Use(BASE[case.kind], case.inputs, case.attrs, tuple(result.dtype for result in results))
        found.setdefault(("base", case.kind), []).append(use)
    for case in cases():
        dtypes = tuple(case.dtype or OF_NUMPY[array.dtype] for array in case.results)
        found.setdefault(("host", case.kind), []).append(Use(HOST[case.kind], tuple(case.inputs), case.attrs, dtypes))
    return found


def same(first: Array, second: Array, tolerance: float = 1e-9) -> bool:
    if first.shape != second.shape:
        return False
    if first.dtype.kind in "biu":
        return bool((first == second).all())
    first, second = first.astype(np.float64), second.astype(np.float64)
    scale = np.abs(first[np.isfinite(first)]).max(initial=1.0)
    return bool(np.isclose(first, second, rtol=0, atol=tolerance * scale, equal_nan=True).all())


def wide(use: Use) -> Use:
    """The use with f64 numbers, so that rounding hides nothing."""
    arrays = [None if a is None else a.astype(np.float64) if a.dtype.kind == "f" else a for a in use.inputs]
    return use._replace(inputs=tuple(arrays)) if use.schema.category == "host" else use


def is_pointwise(use: Use) -> bool:
    (whole,) = use.run()
    flat = [np.broadcast_to(array, whole.shape).reshape(-1) for array in use.inputs if array is not None]
    order = np.random.default_rng(0).permutation(whole.size)
    attrs = {"order": [0]} if use.schema.has_attribute("order") else {}
    return same(use.run([array[order] for array in flat], **attrs)[0], whole.reshape(-1)[order], 1e-6)


def is_commutative(use: Use) -> bool:
    first, second, *others = use.inputs
    return same(use.run([second, first, *others])[0], use.run()[0], 1e-6)


def adds(use: Use) -> bool:
    first, second, *others = use.inputs
    moved, turned = use.run([first + 1, second, *others])[0], use.run([first, -second, *others])[0]
    whole = use.run()[0]
    return same(moved, whole + 1, 1e-6) and same(whole + turned, 2 * use.run([first, 0 * second, *others])[0], 1e-6)


def is_bounded(use: Use) -> bool:
    given = [array for array in use.inputs if array is not None]
    given = [array for array in given if array.dtype.kind not in "biu"] or given
    limit = max([np.abs(array.astype(np.float64)).max(initial=0) for array in given])
    dst = use.run()[0].astype(np.float64)
    return bool((np.abs(dst[np.isfinite(dst)]) <= limit * (1 + 1e-6) + 1e-12).all())


def is_unit_bounded(use: Use) -> bool:
    dst = use.run()[0].astype(np.float64)
    return bool((np.abs(dst[np.isfinite(dst)]) <= 1 + 1e-9).all())


def moves(use: Use) -> bool:
    """Whether dst is a selection of the data by places: numbered elements tell which, for other contents too."""
    data, dst = use.data(), use.run()[0]
    if 0 not in data or dst.dtype.kind == "b":
        return False
    known = np.concatenate([np.zeros(1), *[np.asarray(use.inputs[i], np.float64).reshape(-1) for i in data]])
    for order in (1, -1):  # whichever of two elements is larger
        numbered, numbers = list(use.inputs), np.arange(known.size)[1:][::order].astype(np.float64)
        for index in data:
            array = use.inputs[index]
            assert array is not None
            numbered[index], numbers = numbers[: array.size].reshape(array.shape), numbers[array.size :]
        places = use.run(numbered)[0]
        if not np.isin(places, np.arange(known.size)).all():
            return False
        table = np.concatenate([known[:1], known[1:][::order]])
        if not same(table[places.astype(np.int64)], dst.astype(np.float64), 0):
            return False
    return True


def is_view(use: Use) -> bool:
    assert use.inputs[0] is not None
    src = use.inputs[0].astype(np.float64)
    return not src.size or np.shares_memory(use.run([src, *use.inputs[1:]])[0], src)


def reshapes(use: Use) -> bool:
    assert use.inputs[0] is not None
    dst, src = use.run()[0], use.inputs[0]
    return dst.size == src.size and same(dst.reshape(-1), src.reshape(-1).astype(dst.dtype))


def is_per_channel(use: Use) -> bool:
    """Whether channels in another order give the results of the channels in that order."""
    src = use.inputs[0]
    assert src is not None
    axis = channel_axis(src.ndim, use.attrs.get("data_format", "NXC"))
    order = np.random.default_rng(0).permutation(src.shape[axis])[::-1]
    if src.shape[axis] > 1 and (order == np.sort(order)).all():
        order = order[::-1]

    def ordered(array: Array) -> Array:
        if array.dtype.kind in "iu" or array.ndim not in (1, src.ndim):
            return array
        at = axis if array.ndim == src.ndim else 0
        return array.take(order, at) if array.shape[at] == len(order) else array

    moved = use.run([None if array is None else ordered(array) for array in use.inputs])
    return all(same(got, ordered(old), 1e-6) for got, old in zip(moved, use.run(), strict=True))


def is_by_row(use: Use) -> bool:
    src, *others = use.inputs
    assert src is not None
    order = np.roll(np.arange(len(src)), 1)
    changed = src.copy()
    changed[:1] = changed[:1] * 2 + 1
    dst, turned, other = use.run()[0], use.run([src[order], *others])[0], use.run([changed, *others])[0]
    return len(dst) == len(src) and same(turned, dst[order], 1e-6) and same(other[1:], dst[1:], 1e-6)


def is_product(use: Use) -> bool:
    names = [port.name for port in use.schema.inputs]
    if "src" not in names or "weights" not in names:
        return False
    src, weights = use.inputs[:2]
    assert src is not None
    assert weights is not None
    dst, more = use.run([src, weights])[0], use.run([src + src, weights])[0]
    return same(more, dst + dst, 1e-6) and same(use.run([src, weights * 4])[0], dst * 4, 1e-6)


def is_cast(use: Use) -> bool:
    (src,), (dst,) = use.inputs, use.run()
    assert src is not None
    target = np.dtype(use.dtypes[0].numpy)
    return target != src.dtype and same(dst.astype(target), src.astype(target))


def is_shape_only(use: Use) -> bool:
    src, *others = use.inputs
    assert src is not None
    changed = np.full_like(src, np.nan) if src.dtype.kind == "f" else src + np.ones((), src.dtype)
    return all(same(a, b) for a, b in zip(use.run([changed, *others]), use.run(), strict=True))


def on_grid(use: Use, grid: Array, attrs: Mapping[str, float]) -> Array:
    """A function of one number at the points of a grid, with these attributes."""
    chosen = {name: value for name, value in attrs.items() if use.schema.has_attribute(name)}
    return use.run([grid], **chosen)[0].astype(np.float64)


def is_polynomial(use: Use) -> bool:
    """Whether the fourth differences are 0 nearly everywhere."""
    fourth = np.diff(on_grid(use, GRID, FLAT), 4)
    return bool((np.abs(fourth) < 1e-11).mean() > 0.85) and not np.isnan(fourth).any()


def is_periodic(use: Use) -> bool:
    return same(on_grid(use, GRID, FLAT), on_grid(use, GRID + 2 * np.pi, FLAT), 1e-6)


def jumps(use: Use) -> bool:
    """Whether neighbours differ by a number that a finer grid does not change."""
    grids = np.linspace(-2.3, 2.2, 1000), np.linspace(-2.31, 2.17, 3333), np.linspace(-2.3, 2.2, 7777)
    if use.inputs[1:]:
        values = [use.run([points, np.ones_like(points)])[0] for points in grids]
    else:
        values = [on_grid(use, points, FLAT) for points in grids]
    largest = [np.nanmax(np.abs(np.diff(value)), initial=0) for value in values]
    return bool(min(largest) > 0.4 and max(largest) - min(largest) < 0.01 * min(largest))


def keeps_errors(use: Use) -> bool:
    slopes = np.diff(on_grid(use, GRID, FLAT)) / np.diff(GRID)
    return bool((np.abs(slopes) <= 1.5 + 1e-9).all())


def bounds_grid(use: Use) -> bool:
    return all((np.abs(on_grid(use, GRID, attrs)) <= np.abs(GRID) + 1e-12).all() for attrs in (FLAT, STEEP))


def bounds_grid_by_one(use: Use) -> bool:
    return all((np.abs(on_grid(use, GRID, attrs)) <= 1 + 1e-12).all() for attrs in (FLAT, STEEP))


# How the cases of an op show a trait.
CHECKS: dict[Trait, Callable[[Use], bool]] = {
    Trait.POINTWISE: is_pointwise,
    Trait.ARITHMETIC: lambda use: len(use.schema.inputs) == 2 and is_pointwise(use),
    Trait.COMMUTATIVE: is_commutative,
    Trait.ADDS: adds,
    Trait.BOUNDED: is_bounded,
    Trait.UNIT_BOUNDED: is_unit_bounded,
    Trait.MOVES: moves,
    Trait.VIEW: is_view,
    Trait.RESHAPES: reshapes,
    Trait.PRODUCT: is_product,
    Trait.PER_CHANNEL: is_per_channel,
    Trait.BY_ROW: is_by_row,
    Trait.CASTS: is_cast,
    Trait.SHAPE_ONLY: is_shape_only,
}
# How a function of one number shows a trait, in the first of its cases.
FUNCTIONS: dict[Trait, Callable[[Use], bool]] = {
    Trait.POLYNOMIAL: is_polynomial,
    Trait.PERIODIC: is_periodic,
    Trait.JUMPS: jumps,
    Trait.KEEPS_ERRORS: keeps_errors,
    Trait.BOUNDED: bounds_grid,
    Trait.UNIT_BOUNDED: bounds_grid_by_one,
}
# Tests of their own have these.
ELSEWHERE = Trait.SUMS | Trait.QUANTIZES | Trait.DEQUANTIZES | Trait.PER_RUN | Trait.OPAQUE
ONE_NUMBER = sorted(
    [("base", kind) for kind in kinds.UNARY] + [("host", k) for k in kinds.HOST_UNARY - {"Not", "BitwiseNot"}]
)
USED = {("base", case.kind) for case in CASES if case.kind not in NO_USES} | {("host", case.kind) for case in cases()}
# The ops that are tried for a trait that they do not have.
CANDIDATES: dict[Trait, set[tuple[str, str]]] = {
    Trait.POINTWISE: {key for key in USED if len(SCHEMAS[key].outputs) == 1 and Trait.MOVES not in SCHEMAS[key].traits},
    Trait.COMMUTATIVE: {
        key for key in USED if len(SCHEMAS[key].inputs) == 2 and Trait.POINTWISE in SCHEMAS[key].traits
    },
    Trait.ADDS: {("base", kind) for kind in BASE if ("base", kind) in USED and len(BASE[kind].inputs) == 2},
    Trait.MOVES: {key for key in USED if key[0] == "host" and Trait.POINTWISE not in SCHEMAS[key].traits},
    Trait.VIEW: {("host", kind) for kind in kinds.host_kinds(Trait.MOVES)},
    Trait.RESHAPES: {("host", kind) for kind in kinds.host_kinds(Trait.VIEW)},
    Trait.PRODUCT: {("base", kind) for kind in BASE if ("base", kind) in USED},
    Trait.PER_CHANNEL: {("base", kind) for kind in kinds.with_attribute("data_format")},
    Trait.SHAPE_ONLY: {key for key in USED if len(SCHEMAS[key].inputs) == 1},
}


def holds(trait: Trait, use: Use) -> bool:
    try:
        return CHECKS[trait](use)
    except (AssertionError, IndexError, TypeError, ValueError):  # inputs of such shapes or contents are wrong
        return False


def tried(key: tuple[str, str]) -> list[Use]:
    """The cases of an op in wide numbers; of several data types, the first alone."""
    uses = uses_of_ops()[key]
    floats = [use for use in uses if use.inputs[0] is not None and use.inputs[0].dtype in (np.float32, np.float64)]
    return [wide(use) for use in (floats or uses)]


@grouped("edition_name, kind", sorted(SCHEMAS), key=lambda case: case[0])
def test_every_record_decides_its_traits(edition_name, kind):
    assert SCHEMAS[edition_name, kind].traits is not None


@grouped("edition_name, kind, trait", [key for key in DECLARED if key[2] in CHECKS], key=lambda case: case[2].name)
def test_the_cases_of_an_op_show_its_trait(edition_name, kind, trait):
    for use in tried((edition_name, kind)):
        assert CHECKS[trait](use), use


@pytest.mark.parametrize("trait", CANDIDATES, ids=lambda trait: trait.name)
def test_ops_without_a_trait_break_it(trait):
    for key in sorted(CANDIDATES[trait]):
        if trait not in SCHEMAS[key].traits and not SCHEMAS[key].traits & NO_FUNCTION:
            assert not all(holds(trait, use) for use in tried(key)), key


@pytest.mark.parametrize("trait", FUNCTIONS, ids=lambda trait: trait.name)
def test_functions_of_one_number_have_what_they_declare(trait):
    for key in ONE_NUMBER:
        assert FUNCTIONS[trait](tried(key)[0]) == (trait in SCHEMAS[key].traits), key


def test_every_trait_has_a_check():
    assert set(CHECKS) | set(FUNCTIONS) == {trait for trait in Trait if trait not in ELSEWHERE}


@pytest.mark.parametrize(
    ("narrow", "wide_trait"),
    [
        (Trait.ARITHMETIC, Trait.POINTWISE),
        (Trait.POLYNOMIAL, Trait.POINTWISE),
        (Trait.PERIODIC, Trait.POINTWISE),
        (Trait.KEEPS_ERRORS, Trait.POINTWISE),
        (Trait.CASTS, Trait.POINTWISE),
        (Trait.VIEW, Trait.MOVES),
        (Trait.RESHAPES, Trait.VIEW),
    ],
)
def test_narrow_traits_imply_wide_ones(narrow, wide_trait):
    for schema in SCHEMAS.values():
        assert narrow not in schema.traits or wide_trait in schema.traits, schema.kind


def test_remainder_jumps():
    assert jumps(Use(HOST["Mod"], (GRID, GRID), {}, (OF_NUMPY[GRID.dtype],)))
    assert Trait.JUMPS in HOST["Mod"].traits


# A reduction of a vector, by op: the vector as its input, and its attributes.
VECTORS = {
    **{("base", kind): (lambda x: [x], {"axes": [0]}) for kind in kinds.REDUCTIONS},
    **{("host", kind): (lambda x: [x, None], {"axes": [0]}) for kind in HOST if kind.startswith("Reduce")},
    ("base", "BiasAddBackward"): (lambda x: [x[:, None]], {}),
    ("host", "SumTo"): (lambda x: [x, np.array([1])], {}),
}
VECTORS.pop(("host", "ReduceNaN"), None)


@pytest.mark.parametrize("key", sorted(key for key in VECTORS if key[1] != "ReplaceNaN"))
def test_sums_add_up_numbers_or_squares(key):
    form, attrs = VECTORS[key]
    use = Use(SCHEMAS[key], (), attrs, (OF_NUMPY[np.dtype(np.float64)],))
    x = np.random.default_rng(0).normal(size=12)
    whole, first, second = (use.run(form(part))[0].reshape(()) for part in (x, x[:5], x[5:]))
    adds = any(np.isclose(whole**p, first**p + second**p) for p in (1, 2))
    assert adds == (Trait.SUMS in SCHEMAS[key].traits)


def test_quantizations_have_codes_on_one_side():
    for key, uses in uses_of_ops().items():
        sides = {(use.inputs[0].dtype.kind in "iu", use.dtypes[0].numpy.kind in "iu") for use in uses}
        traits = SCHEMAS[key].traits
        if SCHEMAS[key].category == "quantization" and Trait.CASTS not in traits:
            codes_out = any(out and not into for into, out in sides)
            assert (Trait.QUANTIZES in traits, Trait.DEQUANTIZES in traits) == (codes_out, not codes_out), key
        else:
            assert not traits & (Trait.QUANTIZES | Trait.DEQUANTIZES)


def test_ops_per_run_draw_wait_or_have_bodies():
    drawing = {kind for kind, schema in BASE.items() if any(port.name == "seed" for port in schema.inputs)}
    assert drawing | {schema.kind for schema in collective.OPS} | control.BODIES.keys() == kinds.PER_RUN


def test_opaque_ops_have_any_types_or_no_result():
    found = {
        s.kind for s in SCHEMAS.values() if not s.outputs or any(port.type == "any" for port in (*s.inputs, *s.outputs))
    }
    assert found == kinds.OPAQUE


def test_sets_are_what_the_names_say():
    assert {"Add", "Divide", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract"} == kinds.ARITHMETIC
    assert {"LayerNorm", "GroupNorm", "RMSNorm", "BatchNormInference"} <= kinds.NORMALIZATIONS
    assert {"SoftMax", "LogSoftmax"} == kinds.SOFTMAXES
    assert kinds.with_type(og.DataType.s32) & kinds.in_category("binary") == {"Add", "GreaterEqual", "Subtract"}
    assert {"StaticReshape", "Reshape", "Squeeze", "Unsqueeze"} == kinds.RESHAPES
