"""Products and rows of tables that read packed weights: what the kernel gets stands for the numbers of the model."""

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph import reference
from onegraph.arrays.packed_codes import packed
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import run_passes

S4 = og.DataType("s4")
DEPTH, COLUMNS = 64, 6
FULL, TURNED = (DEPTH, COLUMNS), (COLUMNS, DEPTH)


def as_one(_):
    return "all"


def label(case):
    return " | ".join(map(str, case))


def codes(shape, dtype=og.s8):
    """Codes that differ from each other, in s8 or u8 or of four bits."""
    numbers = np.resize(np.arange(-7, 8), shape)
    return (numbers + 7 if dtype is og.u8 else numbers).astype(dtype.numpy)


def ramp(*shape):
    return (np.arange(1, np.prod(shape) + 1) / 8).astype(np.float32).reshape(shape)


def steps(graph, executors=("packed", "packed rows", "packed experts"), **options):
    made = run_passes(lower(graph), Options(**options), ["packed_products"])
    return [one for one in made.steps if one.executor.startswith("packed")], made


def numbers_of(step, made, rows, depth, before=1):
    """What the packed constants of a step stand for, in float64, as (rows, depth)."""
    table, *scales_and_zeros = [
        made.values[number].constant for number in step.inputs if made.values[number].constant is not None
    ]
    coding, attrs = step.attrs["coding"], step.attrs
    if coding in ("f16", "bf16"):
        return table.astype(np.float64)[:rows, :depth]
    scales, *zeros = scales_and_zeros
    raw = table.view(np.uint8)
    if coding.endswith("4"):
        raw = np.stack([raw & 15, raw >> 4], -1).reshape(len(raw), -1)
        raw = raw.astype(np.int64)
        raw = np.where(raw > 7, raw - 16, raw) if coding == "s4" else raw
    else:
        raw = raw.view(np.int8 if coding == "s8" else np.uint8)
    found = raw[:, :depth].astype(np.float64)
    group = attrs["group"] or depth

    def spread(array):
        return np.repeat(array.astype(np.float64), group, 1)[:, :depth]

    points = spread(zeros[0]) if attrs["zeros"] else attrs["zero"]
    assert len(found) == rows
    return (found - points) * spread(scales)


class Weights:
    """Weights of a product in a graph."""

    def __init__(self, shape=FULL, dtype=og.s8, **how):
        self.shape, self.dtype, self.how = shape, dtype, how

    def build(self, g):
        how = dict(self.how)
        given = how.pop("given", "")
        kept = (
            g.input("codes", self.dtype, self.shape)
            if "codes" in given
            else g.constant(codes(self.shape, self.dtype), dtype=self.dtype)
        )
        if "dims" in how:
            dims, zeros = how.pop("dims"), how.pop("zeros", None)
            factors = how.pop("factors", None)
            scales = (
                g.input("scales", og.f32, dims)
                if "scales" in given
                else g.constant(ramp(*dims) if factors is None else factors)
            )
            points = (
                [] if zeros is None else [g.constant(np.resize(np.array(zeros), dims).astype(np.int8), dtype=og.s8)]
            )
            points = [g.input("zps", og.s8, dims)] if "zps" in given else points
            return g.dynamic_dequantize(kept, scales, *points, **how)
        return g.dequantize(kept, **how)


BY = {"qtype": "per_channel", "scales": ramp(COLUMNS).tolist(), "zps": [0] * COLUMNS}
DEEP = {"qtype": "per_channel", "scales": ramp(DEPTH).tolist(), "zps": [0] * DEPTH}
ONE = {"scales": [0.25], "zps": [3]}
GROUPS = {"qtype": "per_group", "axis": 0, "group_shape": [32, 1], "dims": (2, COLUMNS)}
LAST = {"qtype": "per_group", "axis": 1, "group_shape": [1, 32], "dims": (COLUMNS, 2)}


@grouped(
    "weights, how, found",
    [
        (Weights(**ONE), {}, (DEPTH, 3, False)),
        (Weights(dtype=og.u8, **ONE), {}, (DEPTH, 3, False)),
        (Weights(scales=[0.25], zps=[0]), {}, (DEPTH, 0, False)),
        (Weights(TURNED, **ONE), {"transpose_b": True}, (DEPTH, 3, False)),
        (Weights(**BY, axis=1), {}, (DEPTH, 0, False)),
        (Weights(**BY, axis=-1), {}, (DEPTH, 0, False)),
        (Weights(**DEEP, axis=0), {}, None),
        (Weights(**{**BY, "zps": [5] * COLUMNS}, axis=1), {}, (DEPTH, 5, False)),
        (Weights(**{**BY, "zps": [0, 1, 2, 3, 4, 5]}, axis=1), {}, (DEPTH, 0, True)),
        (Weights(TURNED, **BY, axis=0), {"transpose_b": True}, (DEPTH, 0, False)),
        (Weights(TURNED, **{**BY, "zps": [0, 1, 2, 3, 4, 5]}, axis=0), {"transpose_b": True}, (DEPTH, 0, True)),
        (Weights(TURNED, **DEEP, axis=1), {"transpose_b": True}, None),
        (Weights(TURNED, **DEEP, axis=-1), {"transpose_b": True}, None),
        (Weights((1, *FULL), **ONE), {}, (DEPTH, 3, False)),
        (Weights((2, *FULL), **ONE), {}, None),
        (Weights((1, *FULL), **BY, axis=2), {}, (DEPTH, 0, False)),
        (Weights((1, *FULL), **DEEP, axis=1), {}, None),
        (Weights(given="codes", **ONE), {}, None),
        (Weights(**GROUPS), {}, (32, 0, False)),
        (Weights(**GROUPS, given="scales"), {}, None),
        (Weights(**GROUPS, given="codes"), {}, None),
        (Weights(**GROUPS, given="zps"), {}, None),
        (Weights(**GROUPS, zeros=[2]), {}, (32, 2, False)),
        (Weights(**GROUPS, zeros=[2, 1]), {}, (32, 0, True)),
        (Weights(**{**GROUPS, "group_shape": [32, 2], "dims": (2, COLUMNS // 2)}), {}, (32, 0, False)),
        (Weights(**{**GROUPS, "group_shape": [32, 2], "dims": (2, COLUMNS // 2)}, zeros=[3, 1, 2]), {}, (32, 0, True)),
        (Weights(**{**GROUPS, "group_shape": [8, 1], "dims": (8, COLUMNS)}), {}, None),
        (Weights(**{**GROUPS, "group_shape": [DEPTH, 1], "dims": (1, COLUMNS)}), {}, (DEPTH, 0, False)),
        (Weights(TURNED, **LAST), {"transpose_b": True}, (32, 0, False)),
        (Weights(TURNED, **LAST, zeros=[1, 4]), {"transpose_b": True}, (32, 0, True)),
        (Weights(TURNED, **LAST), {"turns": [1, 0]}, (32, 0, False)),
        (Weights(**GROUPS), {"turns": [1, 0], "transpose_b": True}, (32, 0, False)),
        (Weights((1, *TURNED), **ONE), {"turns": [0, 2, 1]}, (DEPTH, 3, False)),
        (Weights(qtype="per_channel", axis=1, dims=(COLUMNS,)), {}, (DEPTH, 0, False)),
        (Weights(qtype="per_channel", axis=1, dims=(COLUMNS,), zeros=[1, 2]), {}, (DEPTH, 0, True)),
        (Weights(qtype="per_channel", axis=0, dims=(DEPTH,)), {}, None),
        (Weights(dims=(1,), zeros=[2]), {}, (DEPTH, 2, False)),
        (Weights(dtype=S4, dims=(1,)), {}, (2 * DEPTH, 0, False)),
        (Weights(dtype=S4, **GROUPS), {}, (32, 0, False)),
        (Weights(dims=(1,), factors=np.array([np.inf], np.float32)), {}, (DEPTH, 0, False)),
        (Weights(**ONE), {"transpose_a": True}, None),
        (Weights(**ONE), {"bias": (COLUMNS,)}, (DEPTH, 3, False)),
        (Weights(**ONE), {"added": (COLUMNS,)}, (DEPTH, 3, False)),
        (Weights(**ONE), {"added": (1,)}, (DEPTH, 3, False)),
        (Weights(**ONE), {"reproducible": True}, (DEPTH, 3, False)),
        (Weights(**ONE), {"also": True}, (DEPTH, 3, False)),
    ],
    key=as_one,
    label=lambda case: f"{case[0].shape} {case[0].how} {case[1]}",
)
def test_weights_of_a_product_are_packed(weights, how, found):
    how, g = dict(how), og.Graph()
    w = weights.build(g)
    numbers = w
    if turns := how.pop("turns", None):
        w = g.static_transpose(w, order=turns)
    flips = how.pop("transpose_b", False)
    x = g.input("x", og.f32, (DEPTH, 3) if how.get("transpose_a") else (3, DEPTH))
    bias = [g.constant(ramp(*how.pop("bias")))] if "bias" in how else []
    y = g.matmul(x, w, *bias, transpose_b=flips, transpose_a=how.pop("transpose_a", False))
    row = how.pop("added", None)
    if row:
        y = g.add(y, g.constant(ramp(*row)))
    g.output("y", y)
    if how.pop("also", False):
        g.output("w", numbers)
    given, made = steps(g, **how)
    assert len(given) == (found is not None)
    if found is None:
        return
    (step,) = given
    attrs = step.attrs
    assert (attrs["group"], attrs["zero"], attrs["zeros"], attrs["coding"]) == (*found, weights.dtype.value)
    assert attrs["bias"] is (bool(bias) or row == (COLUMNS,))
    assert attrs["unpacks"] is ("factors" in weights.how or how.get("reproducible", False))
    assert (step.kind, attrs["coded"]) == ("Add" if row == (COLUMNS,) else "MatMul", False)
    is_kept = any(one.kind in ("Dequantize", "DynamicDequantize") for one in made.steps)
    assert is_kept is (any(name == "w" for name in g.outputs))
    if attrs["unpacks"] and "factors" in weights.how:
        return
    # What the constants of the step stand for is what the graph would have dequantized.
    alone = og.Graph()
    alone.output("w", weights.build(alone))
    matrix = reference.run(alone, {})["w"].astype(np.float64).reshape(weights.shape[-2:])
    matrix = matrix if matrix.shape == TURNED else matrix.T
    np.testing.assert_array_equal(
        numbers_of(step._replace(inputs=step.inputs[: 4 if attrs["zeros"] else 3]), made, COLUMNS, DEPTH), matrix
    )


# Rows of tables -------------------------------------------------------------------------------------------------------


@grouped(
    "table, places, how, found",
    [
        (Weights(TURNED, **ONE), (5,), {}, True),
        (Weights(TURNED, **ONE), (5,), {"axis": -2}, True),
        (Weights(TURNED, **ONE), (5,), {"axis": 1}, False),
        (Weights(TURNED, **ONE), (2, 3), {}, True),
        (Weights(TURNED, **ONE), (0,), {}, False),
        (Weights((1, *TURNED), **ONE), (5,), {}, False),
        (Weights(TURNED, **ONE), (5,), {"fixed": True}, False),
        (Weights(TURNED, **BY, axis=0), (5,), {}, True),
        (Weights(TURNED, **DEEP, axis=1), (5,), {}, False),
        (Weights(TURNED, **LAST), (5,), {}, True),
        (Weights(TURNED, **LAST, given="scales"), (5,), {}, False),
        (Weights(TURNED, **LAST, zeros=[1, 2]), (5,), {}, True),
        (Weights(TURNED, dtype=S4, **LAST), (5,), {}, True),
        (ml_dtypes.bfloat16, (5,), {}, True),
        (np.float16, (5,), {}, True),
        (np.float16, (5,), {"cast": False}, False),
        (np.float32, (5,), {}, False),
        (np.float16, (5,), {"open": True}, False),
        (Weights(FULL, **ONE), (5,), {"turns": True}, True),
        (ml_dtypes.bfloat16, (5,), {"turns": True}, False),
    ],
    key=as_one,
    label=lambda case: f"{getattr(case[0], 'how', case[0])} {case[1:]}",
)
def test_rows_of_packed_tables_are_gathered(table, places, how, found):
    def built(g):
        if isinstance(table, Weights):
            w = table.build(g)
        else:
            dtype = og.DataType.of(np.dtype(table))
            numbers = ramp(*FULL if how.get("turns") else TURNED).astype(table)
            w = g.input("w", dtype, TURNED) if how.get("open") else g.constant(numbers, dtype=dtype)
            w = g.type_cast(w, dtype=og.f32) if how.get("cast", table is not np.float32) else w
        return g.static_transpose(w, order=[1, 0]) if how.get("turns") else w

    g = og.Graph()
    w = built(g)
    at = np.resize(np.arange(4), places)
    indices = g.constant(at.astype(np.int64), dtype=og.s64) if how.get("fixed") else g.input("at", og.s64, places)
    g.output("y", g.op("Gather", [w, indices], {"axis": how.get("axis", 0)}, edition="host"))
    given, made = steps(g)
    assert len(given) == found
    if found:
        (step,) = given
        alone = og.Graph()
        alone.output("w", built(alone))
        wanted = reference.run(alone, {})["w"].astype(np.float64).reshape(TURNED)
        np.testing.assert_array_equal(numbers_of(step, made, COLUMNS, DEPTH), wanted)
        assert step.inputs[1] == g.inputs["at"].id
        assert {"bias", "coded", "unpacks"}.isdisjoint(step.attrs)
        assert all(one.kind in ("Gather", "PackedGather") for one in made.steps)


# Host ops of packed weights -------------------------------------------------------------------------------------------


@grouped(
    "kind, how, found",
    [
        ("PackedMatMul", {}, (DEPTH, 0, False)),
        ("PackedMatMul", {"group": 32}, (32, 0, False)),
        ("PackedMatMul", {"group": 8}, None),
        ("PackedMatMul", {"group": 32, "coding": "u4"}, (32, 0, False)),
        ("PackedMatMul", {"zero": 7}, (DEPTH, 7, False)),
        ("PackedMatMul", {"zps": [1, 2, 3]}, (DEPTH, 0, True)),
        ("PackedMatMul", {"zps": [4]}, (DEPTH, 4, False)),
        ("PackedMatMul", {"zps": [4], "zero": 9}, (DEPTH, 4, False)),
        ("PackedMatMul", {"given": "weights"}, None),
        ("PackedMatMul", {"given": "scales"}, None),
        ("PackedMatMul", {"given": "zps", "zps": [1]}, None),
        ("PackedMatMul", {"arithmetic": "codes"}, (DEPTH, 0, False)),
        ("PackedMatMul", {"added": True}, (DEPTH, 0, False)),
        ("PackedMatMul", {"added": True, "arithmetic": "codes"}, (DEPTH, 0, False)),
        ("PackedMatMul", {"src": (0, DEPTH)}, None),
        ("PackedMatMul", {"src": (2, 3, DEPTH)}, (DEPTH, 0, False)),
        ("PackedMatMul", {"columns": 0}, None),
        ("PackedGather", {}, (DEPTH, 0, False)),
        ("PackedGather", {"group": 32}, (32, 0, False)),
        ("PackedGather", {"group": 8}, None),
        ("PackedGather", {"zps": [1, 2]}, (DEPTH, 0, True)),
        ("PackedGather", {"given": "scales"}, None),
        ("PackedGather", {"given": "weights"}, None),
        ("PackedGather", {"places": (0,)}, None),
        ("PackedGather", {"fixed": True}, None),
        ("PackedExperts", {}, (DEPTH, 0, False)),
        ("PackedExperts", {"group": 32}, (32, 0, False)),
        ("PackedExperts", {"zps": [1, 2]}, (DEPTH, 0, True)),
        ("PackedExperts", {"arithmetic": "codes"}, (DEPTH, 0, False)),
        ("PackedExperts", {"given": "scales"}, None),
        ("PackedExperts", {"src": (0, DEPTH)}, None),
        ("PackedExperts", {"src": (3, 2, DEPTH)}, (DEPTH, 0, False)),
        ("PackedExperts", {"places": (3, 0)}, None),
        ("PackedExperts", {"added": True}, (DEPTH, 0, False)),
    ],
    key=as_one,
    label=label,
)
def test_host_ops_of_packed_weights(kind, how, found):
    how, g = dict(how), og.Graph()
    coding, columns, given = how.pop("coding", "s8"), how.pop("columns", COLUMNS), how.pop("given", "")
    front = (2,) if kind == "PackedExperts" else ()
    numbers = codes((*front, columns, DEPTH), og.u8 if coding[0] == "u" else og.s8).reshape(-1, DEPTH)
    raw = packed(numbers, int(coding[1]))
    raw = raw.reshape(*front, columns, raw.shape[-1]).view(np.uint8)
    groups = DEPTH // how.get("group", DEPTH)
    shape = (*front, columns, groups)
    zeros = how.pop("zps", None)

    def end(name, array):
        dtype = og.DataType.of(array.dtype)
        return g.input(name, dtype, array.shape) if name == given else g.constant(array, dtype=dtype)

    ends = [end("weights", raw), end("scales", ramp(*shape))]
    ends += [] if zeros is None else [end("zps", np.resize(zeros, shape).astype(np.int8))]
    attrs, added = (
        {"coding": coding, **{name: one for name, one in how.items() if name in ("group", "zero", "arithmetic")}},
        how.get("added"),
    )
    if kind == "PackedGather":
        places = how.get("places", (3,))
        at = g.constant(np.zeros(places, np.int64), dtype=og.s64) if how.get("fixed") else g.input("at", og.s64, places)
        ends[1:1], attrs["depth"] = [at], DEPTH
    else:
        src = how.get("src", (3, DEPTH))
        places = [g.input("at", og.s64, how.get("places", (src[0], 2)))] if front else []
        ends[:0] = [g.input("x", og.f32, src), *places]
    y = g.op(kind, ends, attrs, edition="host")
    if added:
        y = g.add(y, g.constant(ramp(columns)))
    g.output("y", y)
    options = {"reproducible": True} if zeros else {}
    made_steps, made = steps(g, **options)
    assert len(made_steps) == (found is not None)
    if found is None:
        return
    (step,) = made_steps
    attrs = step.attrs
    assert (attrs["group"], attrs["zero"], attrs["zeros"], attrs["coding"]) == (*found, coding)
    size = found[0]
    factors = np.repeat(ramp(*shape).reshape(-1, groups), size, 1)
    points = how.get("zero", 0) if zeros is None else np.repeat(np.resize(zeros, shape).reshape(-1, groups), size, 1)
    np.testing.assert_array_equal(numbers_of(step, made, len(numbers), DEPTH), (numbers - points) * factors)
    if kind == "PackedGather":
        return
    assert (attrs["coded"], attrs["unpacks"]) == (how.get("arithmetic") == "codes", bool(zeros))
    is_joined = bool(added) and kind == "PackedMatMul"
    if front:
        assert (attrs["experts"], attrs["turned"], attrs["strict"], step.inputs[1]) == (
            2,
            True,
            False,
            g.inputs["at"].id,
        )
    else:
        assert attrs["bias"] is is_joined
        assert [one.kind for one in step.members] == (["PackedMatMul", "Add"] if is_joined else [])
    assert ("8-bit codes" in step.note) is attrs["coded"]


@pytest.mark.parametrize("vnni", [True, False])
@pytest.mark.parametrize(
    ("rows", "coded", "moved", "stays"),
    [(1, False, False, False), (1, True, False, None), (64, True, False, True), (64, True, True, True)],
)
def test_products_of_codes_stay_with_the_library(vnni, rows, coded, moved, stays, monkeypatch):
    from onegraph.compiler.passes import products_of_codes

    monkeypatch.setattr(products_of_codes, "has_vnni", lambda: vnni)
    g = og.Graph()
    x = g.input("x", og.u8 if coded else og.f32, (rows, 1024))
    x = g.dequantize(x, scales=[0.5], zps=[3]) if coded else x
    if moved:
        x = g.static_reshape(x, shape=[rows, 1024], special_zero=False)
    w = g.dequantize(g.constant(codes((1024, 512))), scales=[0.25], zps=[0])
    g.output("y", g.matmul(x, w))
    assert (not steps(g)[0]) is (vnni if stays is None else stays)
