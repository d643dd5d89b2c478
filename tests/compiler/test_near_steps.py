"""What passes ask of a step and the steps around it: a form that each takes, and others that differ in one field."""

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.small_lowered import as_one, edit, kinds, label, lowered, step

import onegraph as og
from onegraph.compiler.passes import code_products, coded_attention, codes, constants, unsigned_codes
from onegraph.compiler.passes.late_casts import _joins
from onegraph.compiler.passes.moved_codes import _has_one_scale, _Moves
from onegraph.compiler.passes.rows_as_images import _Images
from onegraph.compiler.passes.weight_layouts import _are_weights, _is_cast, channels_inside
from onegraph.ir.op import LogicalTensor, Op
from onegraph.opset.editions.registry import DEFAULT, HOST

S = (1, 2, 3, 4)
U8, S8, BF16 = og.u8, og.s8, og.bf16
HOST_CAST = {"op_kind": "Cast", "edition": HOST}


# Attention of codes ---------------------------------------------------------------------------------------------------

CAST = step("Cast", "codes", "wide", "reference", **HOST_CAST)
LESS = step("Subtract", "wide zeros", "less")
TIMES = step("Multiply", "less scales", "keys")
NARROW = step("TypeCast", "keys", "narrow")
KEYS = {**dict.fromkeys(("codes", "wide", "less", "keys", "narrow"), S), "scales": (1, 2, 1, 1), "zeros": (3, 1)}
FOUND = "scales", "zeros", "Multiply Subtract Cast"


@grouped(
    "steps, shapes, dtypes, found",
    [
        ([CAST, LESS, TIMES], {}, {}, FOUND),
        ([CAST, LESS, TIMES], {}, {"codes": S8}, FOUND),
        ([CAST, LESS, step("Multiply", "scales less", "keys")], {}, {}, FOUND),
        ([CAST, step("Multiply", "wide scales", "keys")], {}, {}, ("scales", None, "Multiply Cast")),
        ([CAST, LESS, step("Divide", "less scales", "keys")], {}, {}, None),
        ([CAST, step("Add", "wide zeros", "less"), TIMES], {}, {}, None),
        ([step("Cast", "codes", "wide", "reference", op_kind="Cast"), LESS, TIMES], {}, {}, None),
        ([step("Cast", "codes", "wide", "reference", op_kind="Exp", edition=HOST), LESS, TIMES], {}, {}, None),
        ([LESS, TIMES], {}, {}, None),
        ([TIMES], {}, {}, None),
        ([], {}, {}, None),
        ([CAST, LESS, TIMES], {}, {"codes": og.f32}, None),
        ([CAST, LESS, TIMES], {"scales": (5,)}, {}, None),
        ([CAST, LESS, TIMES], {"scales": (4,)}, {}, FOUND),
        ([CAST, LESS, TIMES], {"scales": ()}, {}, FOUND),
        ([CAST, LESS, TIMES], {"scales": (1, 1, 1, 1, 1)}, {}, None),
        ([CAST, LESS, TIMES], {"zeros": (2, 1)}, {}, None),
        ([CAST, LESS, TIMES], {}, {"scales": BF16}, None),
        ([CAST, LESS, TIMES], {"keys": (6, 3, 4)}, {}, None),
        ([CAST, LESS, TIMES, NARROW], {}, {}, ("scales", "zeros", "TypeCast Multiply Subtract Cast")),
        (
            [CAST, LESS, TIMES, NARROW],
            {"narrow": (2, 3, 4)},
            {},
            ("scales", "zeros", "TypeCast Multiply Subtract Cast"),
        ),
        ([CAST, LESS, TIMES, step("Tanh", "keys", "narrow")], {}, {}, None),
        ([NARROW], {}, {}, None),
    ],
    key=as_one,
    label=label,
)
def test_keys_are_read_as_their_codes(steps, shapes, dtypes, found):
    change = edit(steps, {**KEYS, **shapes}, dtypes={"codes": U8, **dtypes})
    made = coded_attention._coded(change, steps[-1].outputs[0] if steps else "keys")
    if found is None:
        assert made is None
        return
    scales, zeros, chain = found
    assert (made.codes, made.scales, made.axis, kinds(made.makers)) == ("codes", scales, 3, chain)
    if zeros is None:
        points = change.values[made.zeros]
        assert (points.constant.tolist(), points.dtype, points.name) == ([0], og.s32, "zero points")
    else:
        assert made.zeros == zeros


def decoded(kind, ends, made="keys", **attrs):
    """A step that dequantizes, with the tensors of its op."""
    shapes = {"codes": S, "scales": (1, 2, 1, 1), "zeros": (1, 2, 1, 1)}
    types = {"codes": U8, "scales": og.f32, "zeros": og.s32}
    ins = [LogicalTensor(name, types[name], shapes[name], None, name) for name in ends.split()]
    outs = [LogicalTensor(made, og.f32, S, None, made)]
    op = Op(0, kind, tuple(ins), tuple(outs), attrs, "decoded", DEFAULT)
    return step(kind, ends, "keys", **attrs)._replace(op=op)


BY_HEAD = {"qtype": "per_channel", "scales": (0.5, 0.25), "zps": (1, 2)}
GROUPED = {"qtype": "per_group", "axis": 3}


@grouped(
    "maker, dtypes, found",
    [
        (decoded("Dequantize", "codes", scales=(0.5,), zps=(3,)), {}, ([0.5], [3], 0)),
        (decoded("Dequantize", "codes", scales=(0.5,)), {}, ([0.5], [0], 0)),
        (decoded("Dequantize", "codes", **BY_HEAD, axis=1), {}, ([0.5, 0.25], [1, 2], 1)),
        (decoded("Dequantize", "codes", **BY_HEAD, axis=-3), {}, ([0.5, 0.25], [1, 2], 1)),
        (decoded("Dequantize", "codes", scales=(0.5,), axis=2), {}, ([0.5], [0], 0)),
        (decoded("DynamicDequantize", "codes scales zeros"), {}, ("scales", "zeros", 0)),
        (decoded("DynamicDequantize", "codes scales"), {}, ("scales", [0], 0)),
        (decoded("DynamicDequantize", "codes scales zeros", qtype="per_channel", axis=2), {}, ("scales", "zeros", 2)),
        (decoded("DynamicDequantize", "codes scales", **GROUPED, group_shape=(1, 1, 3, 4)), {}, ("scales", [0], 0)),
        (decoded("DynamicDequantize", "codes scales", **GROUPED, group_shape=(1, 2, 1, 4)), {}, ("scales", [0], 0)),
        (decoded("DynamicDequantize", "codes scales", **GROUPED, group_shape=(1, 1, 1, 2)), {}, None),
        (decoded("DynamicDequantize", "codes scales"), {"scales": BF16}, None),
        (decoded("Dequantize", "codes", scales=(0.5,)), {"codes": og.s32}, None),
        (decoded("Dequantize", "codes", made="other", scales=(0.5,)), {}, None),
        (decoded("Tanh", "codes"), {}, None),
    ],
    key=as_one,
)
def test_keys_that_are_dequantized_are_read_as_their_codes(maker, dtypes, found):
    change = edit([maker, step("Tanh", "keys", "wide")._replace(op=maker.op)], KEYS, dtypes={"codes": U8, **dtypes})
    made = coded_attention._coded(change, "keys")
    if found is None:
        assert made is None
        return
    scales, zeros, axis = found
    ends = [number if isinstance(number, str) else change.values[number].constant.tolist() for number in made[1:3]]
    assert (made.codes, ends, made.axis) == ("codes", [scales, zeros], axis)
    assert [one.id for one in made.makers] == [0, 1]


# Rows as images -------------------------------------------------------------------------------------------------------

FIRST, SECOND = step("Convolution", "x w", "c"), step("Add", "c z", "a")
THIRD, LAST = step("ReLU", "a", "r"), step("Tanh", "r", "t")
ROWS = {**dict.fromkeys("xcarztn", (1, 8, 4)), "w": (3, 1, 4), "vector": (4,)}


@grouped(
    "steps, ready, returned, shapes, behind",
    [
        ([FIRST, SECOND, THIRD, LAST], "", "", {}, "Add ReLU Tanh"),
        ([FIRST, SECOND, THIRD, LAST], "", "r", {}, "Add ReLU"),
        ([FIRST, SECOND, THIRD, LAST], "", "c", {}, ""),
        ([FIRST, SECOND, THIRD, step("Tanh", "c", "t")], "", "", {}, ""),
        ([FIRST, step("Add", "c c", "a")], "", "", {}, ""),
        ([FIRST, step("Exp", "n", "z"), SECOND, THIRD], "", "", {}, ""),
        ([FIRST, step("Exp", "n", "z"), SECOND, THIRD], "z", "", {}, "Add ReLU"),
        ([FIRST, step("SoftMax", "c", "a"), THIRD], "", "", {}, ""),
        ([FIRST, SECOND, step("SoftMax", "a", "r"), LAST], "", "", {}, "Add"),
        ([FIRST, step("Add", "c z", "a", part=None), THIRD], "", "", {}, ""),
        ([FIRST, step("Add", "c z", "a", "copy"), THIRD], "", "", {}, ""),
        ([FIRST, SECOND, THIRD], "", "", {"a": (2, 8, 4), "r": (2, 8, 4)}, ""),
        ([FIRST, SECOND, THIRD], "", "", {"r": (2, 8, 4)}, "Add"),
        ([step("ConvTranspose", "x w", "c"), SECOND, THIRD], "", "", {}, ""),
        ([step("ConvolutionBackwardData", "x w", "c"), SECOND, THIRD], "", "", {}, ""),
    ],
    key=as_one,
    label=label,
)
def test_ops_behind_a_convolution_that_see_images_too(steps, ready, returned, shapes, behind):
    images = _Images(edit(steps, {**ROWS, **shapes}, returned=returned.split()))
    images._ready = {*ready.split()}
    assert kinds(images._behind(images._graph.steps[0])) == behind


# Casts behind convolutions --------------------------------------------------------------------------------------------

NORM = step("BatchNormInference", "n v v v v", "y")


@grouped("maker, norm, wide, narrow, constant, more, joins", [
    ("Convolution", NORM, og.f32, og.f16, 1.0, [], True), ("ConvTranspose", NORM, og.f32, og.f16, 1.0, [], True),
    ("Convolution", step("BiasAdd", "n v", "y"), og.f32, BF16, 1.0, [], True),
    ("Add", NORM, og.f32, og.f16, 1.0, [], False), ("", NORM, og.f32, og.f16, 1.0, [], False),
    ("Convolution copy", NORM, og.f32, og.f16, 1.0, [], False),
    ("Convolution", step("BiasAdd", "n v", "y", part=None), og.f32, og.f16, 1.0, [], False),
    ("Convolution", step("Add", "n v", "y"), og.f32, og.f16, 1.0, [], False),
    ("Convolution", NORM, BF16, og.f32, 1.0, [], False), ("Convolution", NORM, og.f32, og.f16, None, [], False),
    ("Convolution", NORM, og.f32, og.f16, 1.0, [step("Tanh", "c", "t")], False),
], key=as_one)  # fmt: skip
def test_casts_move_behind_what_a_convolution_takes_in(maker, norm, wide, narrow, constant, more, joins):
    kind, _, executor = maker.partition(" ")
    cast = step("TypeCast", "c", "n")
    made = [step(kind, "x w", "c", executor or "library")] if kind else []
    shapes = {**dict.fromkeys("xcnty", (1, 8, 8, 4)), "w": (3, 3, 4, 4), "v": (4,)}
    dtypes, fixed = {"c": wide, "n": narrow}, {} if constant is None else {"v": np.ones(4)}
    assert _joins(edit([*made, cast, norm, *more], shapes, dtypes=dtypes, constants=fixed), cast, norm) is joins


# Products of dequantized numbers --------------------------------------------------------------------------------------

LEFT, RIGHT = step("Dequantize", "a", "b"), step("DynamicDequantize", "c", "d")


@grouped("steps, read", [
    ([LEFT, RIGHT, step("MatMul", "b d", "y")], "b d"), ([LEFT, step("MatMul", "b d", "y")], ""),
    ([RIGHT, step("MatMul", "b d", "y")], ""), ([LEFT, RIGHT, step("Add", "b d", "y")], ""),
    ([LEFT, RIGHT, step("MatMul", "b d e", "y")], "b d"), ([LEFT, step("MatMul", "b b", "y")], "b"),
    ([LEFT, RIGHT, step("TypeCast", "b", "e"), step("MatMul", "e d", "y")], "b d e"),
    ([LEFT, RIGHT, step("StaticReshape", "d", "e"), step("TypeCast", "e", "f"), step("MatMul", "b f", "y")], "b d e f"),
    ([LEFT, RIGHT, step("Tanh", "b", "e"), step("MatMul", "e d", "y")], ""),
    ([LEFT, step("TypeCast", "a", "e"), step("MatMul", "b e", "y")], ""),
    ([LEFT, RIGHT, step("TypeCast", "b", "e"), step("MatMul", "b d", "y")], "b d"),
], key=as_one, label=label)  # fmt: skip
@pytest.mark.parametrize("vnni", [True, False])
def test_products_of_two_dequantized_values(steps, read, vnni, monkeypatch):
    monkeypatch.setattr(constants, "has_vnni", lambda: vnni)
    fused, apart = constants._multiplied(lowered(steps, dict.fromkeys("abcdefy", S)))
    assert (fused, apart) == (({*read.split()}, set()) if vnni else (set(), {*read.split()}))


# Moves of codes -------------------------------------------------------------------------------------------------------

MATMUL, TURN = step("MatMul", "n w", "y"), step("StaticTranspose", "n", "t", order=(1, 0))


@grouped(
    "steps, returned, dtype, feeds",
    [
        ([MATMUL], "", og.f32, True),
        ([MATMUL, step("Convolution", "n w", "z")], "", og.f32, True),
        ([], "", og.f32, False),
        ([MATMUL], "n", og.f32, False),
        ([MATMUL], "", BF16, False),
        ([MATMUL, step("Tanh", "n", "z")], "", og.f32, False),
        ([step("MatMul", "n w", "y", "vectors")], "", og.f32, False),
        ([TURN, step("MatMul", "t w", "y")], "", og.f32, True),
        ([TURN, step("Tanh", "t", "y")], "", og.f32, False),
        ([TURN], "", og.f32, False),
        ([step("Add", "n w", "y")], "", og.f32, False),
    ],
    key=as_one,
    label=label,
)
def test_values_that_products_alone_read(steps, returned, dtype, feeds):
    change = edit(steps, dict.fromkeys("nwytz", (3, 3)), dtypes={"n": dtype}, returned=returned.split())
    assert _Moves(change)._feeds_products("n") is feeds


ONE = {"scales": (0.5,), "zps": (3,)}


@grouped("one, found", [
    (step("Dequantize", "a", "b", **ONE), True), (step("DynamicDequantize", "a s", "b"), True),
    (step("DynamicDequantize", "a s", "b", qtype="per_tensor"), True),
    (step("DynamicDequantize", "a s", "b", qtype="per_channel"), False), (step("TypeCast", "a", "b", **ONE), False),
    (step("Dequantize", "a", "b", **ONE, qtype="per_channel"), False), (step("Quantize", "a", "b", **ONE), False),
    (step("TypeCast", "a", "b", qtype="per_tensor"), False),
], key=as_one)  # fmt: skip
def test_steps_that_dequantize_all_codes_alike(one, found):
    assert _has_one_scale(one) is found


@grouped("kind, executor, qtype, found", [
    ("Quantize", "library", None, True), ("Quantize", "library", "per_tensor", True),
    ("Quantize", "library", "per_channel", False), ("Quantize", "reference", None, False),
    ("Dequantize", "library", None, False),
], key=as_one)  # fmt: skip
def test_codes_of_one_scale_become_unsigned(kind, executor, qtype, found):
    one = step(kind, "a", "b", executor, **({} if qtype is None else {"qtype": qtype}))
    assert unsigned_codes._has_one_scale([one]) is found
    assert unsigned_codes._has_one_scale([one], kind) is (found or kind == "Dequantize")


# Products of codes in panels ------------------------------------------------------------------------------------------

DECODE, DYNAMIC = step("Dequantize", "codes", "x", **ONE), step("DynamicDequantize", "codes scale zero", "x")
SOURCES = {"codes": (4, 8), "x": (4, 8), "scale": (1,), "zero": (1,)}
NUMBERS = {"scale": [0.25]}


@grouped(
    "maker, shapes, dtypes, fixed, found",
    [
        (DECODE, {}, {}, {}, (0.5, 3, None)),
        (DECODE, {}, {"codes": S8}, {}, (0.5, 3, None)),
        (step("Dequantize", "codes", "x", scales=(0.5,)), {}, {}, {}, (0.5, 0, None)),
        (step("Dequantize", "codes", "x", scales=(0.5,), zps=(-1,)), {}, {}, {}, None),
        (step("Dequantize", "codes", "x", scales=(0.5,), zps=(-1,)), {}, {"codes": S8}, {}, (0.5, -1, None)),
        (step("Dequantize", "codes", "x", scales=(0.5,), zps=(255,)), {}, {}, {}, (0.5, 255, None)),
        (step("Dequantize", "codes", "x", scales=(0.5,), zps=(256,)), {}, {}, {}, None),
        (step("Dequantize", "codes", "x", scales=(0.5, 1.0), zps=(0, 0)), {}, {}, {}, None),
        (step("Dequantize", "codes", "x", part=None, **ONE), {}, {}, {}, None),
        (None, {}, {}, {}, None),
        (DECODE, {}, {"codes": og.f32}, {}, None),
        (DECODE, {}, {}, {"codes": np.ones((4, 8))}, None),
        (DYNAMIC, {}, {}, {}, (0.25, 0, "zero")),
        (step("DynamicDequantize", "codes scale zero", "x", "reference", part=None), {}, {}, {}, (0.25, 0, "zero")),
        (step("Exp", "codes scale zero", "x", "reference", part=None), {}, {}, {}, None),
        (step("DynamicDequantize", "codes scale", "x"), {}, {}, {}, (0.25, 0, None)),
        (step("DynamicDequantize", "codes scale zero", "x", qtype="per_tensor"), {}, {}, {}, (0.25, 0, "zero")),
        (step("DynamicDequantize", "codes scale zero", "x", qtype="per_channel"), {}, {}, {}, None),
        (DYNAMIC, {}, {}, {"scale": None}, None),
        (DYNAMIC, {"scale": (2,)}, {}, {"scale": [1, 2]}, None),
        (DYNAMIC, {}, {}, {"scale": [np.inf]}, None),
        (DYNAMIC, {"scale": (1, 1)}, {}, {"scale": [[2]]}, (2.0, 0, "zero")),
        (DYNAMIC, {}, {"zero": S8}, {}, None),
        (DYNAMIC, {"zero": (2,)}, {}, {}, None),
        (DYNAMIC, {"zero": ()}, {}, {}, (0.25, 0, "zero")),
    ],
    key=as_one,
)
def test_codes_of_one_scale_that_a_product_reads(maker, shapes, dtypes, fixed, found):
    fixed = {name: one for name, one in {**NUMBERS, **fixed}.items() if one is not None}
    dtypes = {"codes": U8, "zero": U8, **dtypes}
    change = edit([one for one in [maker] if one], {**SOURCES, **shapes}, dtypes=dtypes, constants=fixed)
    source = code_products._source(change, "x")
    assert (None if source is None else (source.scale, source.zero, source.dynamic)) == found
    assert source is None or (source.codes, source.maker.kind) == ("codes", maker.kind)


def test_zero_points_of_panels_lie_side_by_side():
    change = edit([DYNAMIC], SOURCES, dtypes={"codes": U8, "zero": U8}, constants=NUMBERS)
    change.change("zero", strides=(2,))
    assert code_products._source(change, "x") is None


BY = {"qtype": "per_channel", "scales": (0.5,) * 4, "zps": (0, 1, 2, 3)}


@grouped(
    "product, attrs, shape, dtype, found",
    [
        ("MatMul", {}, (8, 4), S8, [0]),
        ("MatMul", {"zps": (-2,)}, (8, 4), S8, [-2]),
        ("MatMul", {"zps": (-2,)}, (8, 4), U8, None),
        ("MatMul", {"scales": (np.inf,)}, (8, 4), S8, None),
        ("MatMul", {**BY, "axis": 1}, (8, 4), S8, [0, 1, 2, 3]),
        ("MatMul", {**BY, "axis": -1}, (8, 4), S8, [0, 1, 2, 3]),
        ("MatMul", BY, (8, 4), S8, [0, 1, 2, 3]),
        ("MatMul", {**BY, "axis": 0}, (8, 4), S8, None),
        ("MatMul", {**BY, "qtype": "per_tensor", "axis": 0}, (8, 4), S8, [0, 1, 2, 3]),
        ("MatMul turned", {**BY, "axis": 0}, (4, 8), S8, [0, 1, 2, 3]),
        ("MatMul turned", {**BY, "axis": 1}, (4, 8), S8, None),
        ("MatMul turned", BY, (4, 8), S8, None),
        ("MatMul", BY, (1, 8, 4), S8, None),
        ("Convolution XIO", {**BY, "axis": 3}, (3, 3, 8, 4), S8, [0, 1, 2, 3]),
        ("Convolution XIO", {**BY, "axis": 0}, (4, 3, 8, 4), S8, None),
        ("Convolution OIX", {**BY, "axis": 0}, (4, 8, 3, 3), S8, [0, 1, 2, 3]),
        ("Convolution OIX", {**BY, "axis": 3}, (4, 8, 3, 4), S8, None),
        ("MatMul", {}, (8, 4), og.f32, None),
        ("MatMul", {"open": True}, (8, 4), S8, None),
        ("MatMul", {"kind": "DynamicDequantize"}, (8, 4), S8, None),
        ("MatMul", {"part": None}, (8, 4), S8, None),
        ("MatMul", {"maker": False}, (8, 4), S8, None),
    ],
    key=as_one,
)
def test_weights_of_codes_have_scales_of_columns(product, attrs, shape, dtype, found):
    attrs = {"scales": (0.5,), "kind": "Dequantize", **attrs}
    kind, _, form = product.partition(" ")
    is_open, has_maker = attrs.pop("open", False), attrs.pop("maker", True)
    maker = step(attrs.pop("kind"), "codes", "w", **attrs)
    own = {"weights_format": form} if kind == "Convolution" else {"transpose_b": form == "turned"}
    reader = step(kind, "x w", "y", **own)
    fixed = {} if is_open else {"codes": np.ones(shape)}
    shapes = {"codes": shape, "w": shape, "x": (4, 8), "y": (4, 4)}
    change = edit([maker, reader] if has_maker else [reader], shapes, dtypes={"codes": dtype}, constants=fixed)
    weights = code_products._weights(change, reader)
    assert (None if weights is None else weights.zeros.tolist()) == found
    assert weights is None or (weights.scales.tolist(), weights.codes) == ([0.5] * len(found), "codes")


# Functions of codes ---------------------------------------------------------------------------------------------------


@grouped("kind, dtype, constant, known, found", [
    ("Dequantize", S8, None, "", "codes"), ("Dequantize", U8, None, "", "codes"), ("Dequantize", og.s32, None, "", ""),
    ("Dequantize", S8, 1, "", ""), ("Quantize", S8, None, "", ""), ("Dequantize", S8, None, "codes", "root"),
    ("Add", og.f32, None, "codes", "root"), ("Add", og.f32, None, "", ""),
], key=as_one)  # fmt: skip
def test_tables_begin_with_the_codes_of_a_dequantize(kind, dtype, constant, known, found):
    one, fixed = step(kind, "codes", "x", **ONE), {} if constant is None else {"codes": np.ones(4)}
    tables = codes._Codes(edit([one], {"codes": (4,), "x": (4,)}, dtypes={"codes": dtype}, constants=fixed))
    tables._tables = {name: codes.CodeTable("root", np.arange(2), ()) for name in known.split()}
    made = tables._tables_of(one)
    assert {name: table.root for name, table in made.items()} == ({"codes": found} if found else {})
    if found == "codes":
        assert made["codes"].contents.view(np.uint8).tolist() == [*range(256)]
        assert made["codes"].contents.dtype == dtype.numpy
        assert made["codes"].steps == ()


A, B = step("Dequantize", "a", "da", **ONE), step("Dequantize", "b", "db", **ONE)
SUM, CODED = step("Add", "da db", "s"), step("Quantize", "s", "q", scales=(2.0,), zps=(1,))
RELU, OF_RELU = step("ReLU", "s", "r"), step("Quantize", "r", "q", scales=(2.0,), zps=(1,))
FUSED = "the library fuses it with the product before it"
BOTH, ONE_PLAIN = [3, 0.5, 3, 0.5, 0.5, 1, 0, 255], [3, 0.5, 0, 1, 0.5, 1, 0, 255]


@grouped(
    "steps, shapes, dtypes, returned, found",
    [
        ([A, B, SUM, CODED], {}, {}, "", ("add", "a b", BOTH)),
        ([A, B, SUM, RELU, OF_RELU], {}, {}, "", ("add", "a b", [*BOTH[:6], 1, 255])),
        ([A, B, step("Subtract", "da db", "s"), CODED], {}, {}, "", ("add", "a b", [3, 0.5, 3, -0.5, *BOTH[4:]])),
        ([A, B, step("Multiply", "da db", "s"), CODED], {}, {}, "", ("multiply", "a b", BOTH)),
        ([A, B, step("Divide", "da db", "s"), CODED], {}, {}, "", None),
        ([A, B, step("Add", "da db", "s", "pointwise"), CODED], {}, {}, "", None),
        ([A, B, SUM, CODED], {}, {}, "s", None),
        ([A, B, SUM, CODED, step("Tanh", "s", "r")], {}, {}, "", None),
        ([A, B, SUM, RELU, OF_RELU], {}, {}, "s", None),
        ([A, B, SUM, RELU, OF_RELU], {}, {}, "r", None),
        ([A, B, SUM, step("Tanh", "s", "r"), OF_RELU], {}, {}, "", None),
        ([A, B, SUM, step("Quantize", "s", "q", scales=(2.0, 1.0), zps=(1, 1), qtype="per_channel")], {}, {}, "", None),
        ([A, B, SUM, step("Dequantize", "s", "q", scales=(2.0,), zps=(1,))], {}, {}, "", None),
        ([A, B, SUM, CODED], {}, {"q": og.s32}, "", None),
        ([A, B, SUM, CODED], {}, {"q": S8}, "", ("add", "a b", [*BOTH[:6], -128, 127])),
        ([A, step("Add", "da f", "s"), CODED], {}, {}, "", ("add", "a f", ONE_PLAIN)),
        ([step("Add", "f f", "s"), CODED], {}, {}, "", None),
        ([A, step("Add", "da f", "s"), CODED], {}, {"f": BF16}, "", "an operand is neither of 8-bit codes nor of f32"),
        ([A, B, SUM, CODED], {"da": (1, 4), "db": (4, 1)}, {}, "", "both operands are broadcast"),
        ([A, B, SUM, CODED], {"db": (4,)}, {}, "", ("add", "a b", BOTH)),
        ([A, step("MatMul", "f f", "m"), step("Add", "da m", "s"), CODED], {}, {}, "", FUSED),
        ([A, step("BiasAdd", "f f", "m"), step("Add", "da m", "s"), CODED], {}, {}, "", FUSED),
        ([A, step("Tanh", "f", "m"), step("Add", "da m", "s"), CODED], {}, {}, "", ("add", "a m", ONE_PLAIN)),
        ([A, B, SUM, CODED], {}, {"b": og.s32}, "", ("add", "a db", ONE_PLAIN)),
    ],
    key=as_one,
    label=label,
)  # fmt: skip
def test_sums_and_products_of_codes(steps, shapes, dtypes, returned, found):
    shapes = {**dict.fromkeys(("a", "b", "da", "db", "s", "r", "q", "f", "m"), (4, 4)), **shapes}
    dtypes = {"a": U8, "b": U8, "q": U8, **dtypes}
    change = edit(steps, shapes, dtypes=dtypes, returned=["q", *returned.split()])
    last = next(one for one in change.graph.steps if one.outputs == ("q",))
    made = codes._Codes(change)._combined(last)
    if isinstance(found, str) or found is None:
        assert made is None
        assert [*change._refused.values()] == ([] if found is None else [(f"add: {found}",)])
        return
    *sources, numbers = made.inputs
    assert (made.attrs, " ".join(map(str, sources)), made.executor) == ({"kernel": found[0]}, found[1], codes.EXECUTOR)
    assert change.values[numbers].constant.tolist() == found[2]
    assert (change.values[numbers].name, made.note) == (
        f"Quantize ({found[0]})",
        "8-bit codes are computed in one pass",
    )
    # What read other codes stays, if others read its result.
    chain = {one.kind for one in change.graph.steps if one.id in change._spare}
    assert {"Quantize", steps[-2].kind} <= chain


# Weights of convolutions ----------------------------------------------------------------------------------------------


@grouped("inputs, attrs, executor, kind, found", [
    ("x w", {"weights_format": "OIX"}, "library", "Convolution", True),
    ("x w", {"weights_format": "IOX", "groups": 1}, "library", "ConvTranspose", True),
    ("x w", {"weights_format": "XIO"}, "library", "Convolution", False), ("x w", {}, "library", "Convolution", False),
    ("x w", {"weights_format": "OIX", "groups": 2}, "library", "Convolution", False),
    ("w x", {"weights_format": "OIX"}, "library", "Convolution", False),
    ("w w", {"weights_format": "OIX"}, "library", "Convolution", False),
    ("x w w", {"weights_format": "OIX"}, "library", "Convolution", False),
    ("x w", {"weights_format": "OIX"}, "reference", "Convolution", False),
    ("x w", {"weights_format": "OIX"}, "library", "MatMul", False),
], key=as_one)  # fmt: skip
def test_weights_whose_channels_may_lie_last(inputs, attrs, executor, kind, found):
    assert _are_weights("w", [step(kind, inputs, "y", executor, **attrs)]) is found


@grouped(
    "kind, executor, shape, source, target, constant, found",
    [
        ("TypeCast", "library", (8, 4, 3, 3), og.f32, BF16, None, True),
        ("TypeCast", "copy", (8, 4, 3, 3), og.f32, BF16, None, False),
        ("Reorder", "library", (8, 4, 3, 3), og.f32, BF16, None, False),
        ("TypeCast", "library", (8, 4, 1, 1), og.f32, BF16, None, False),
        ("TypeCast", "library", (8, 4, 1, 2), og.f32, BF16, None, True),
        ("TypeCast", "library", (8, 4), og.f32, BF16, None, False),
        ("TypeCast", "library", (8, 4, 3), og.f32, og.f16, None, False),
        ("TypeCast", "library", (8, 4, 3), og.f16, BF16, None, False),
        ("TypeCast", "library", (8, 4, 3), og.f32, BF16, 1.0, False),
    ],
    key=as_one,
)
def test_casts_of_weights_with_several_places(kind, executor, shape, source, target, constant, found):
    fixed = {} if constant is None else {"x": np.ones(shape)}
    one = step(kind, "x", "y", executor)
    graph = lowered([one], {"x": shape, "y": shape}, dtypes={"x": source, "y": target}, constants=fixed)
    assert _is_cast(graph, one) is found
    graph.values["x"] = graph.values["x"]._replace(strides=tuple([2 * each for each in graph.values["x"].strides]))
    assert _is_cast(graph, one) is False


def test_channels_lie_inside_the_window():
    assert channels_inside((8, 4, 3, 5)) == (4, 1, 5 * 32, 32)
    assert channels_inside((8, 4, 3)) == (4, 1, 32)
