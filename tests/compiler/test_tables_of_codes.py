"""Functions of 8-bit codes that become tables, and products of codes that a kernel takes where sizes are open."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.small_lowered import as_one, edit, label, step

import onegraph as og
from onegraph.compiler.options import Options
from onegraph.compiler.passes import code_products, codes
from onegraph.opset.editions.registry import HOST

BF16, F32, U8, S8 = og.bf16, og.f32, og.u8, og.s8
DECODE = step("Dequantize", "c", "x", scales=(0.5,), zps=(100,))
NUMBERS = (np.arange(256) - 100) / 2  # what the codes stand for


def coded(source):
    return step("Quantize", source, "q", scales=(2.0,), zps=(10,))


@grouped(
    "steps, given, numbers",
    [
        ([DECODE, coded("x")], {}, NUMBERS),
        ([DECODE, step("ReLU", "x", "y"), coded("y")], {}, np.maximum(NUMBERS, 0)),
        ([DECODE, step("ReLU", "x", "y"), step("Abs", "y", "z"), coded("z")], {}, np.maximum(NUMBERS, 0)),
        ([DECODE, step("Add", "x k", "y"), coded("y")], {}, NUMBERS + 3),
        ([DECODE, step("Subtract", "k x", "y"), coded("y")], {}, 3 - NUMBERS),
        ([DECODE, step("Add", "x x", "y"), coded("y")], {}, 2 * NUMBERS),
        ([DECODE, step("Abs", "x", "y"), step("Add", "x y", "z"), coded("z")], {}, NUMBERS + abs(NUMBERS)),
        ([DECODE, step("Add", "x row", "y"), coded("y")], {}, None),
        ([DECODE, step("Add", "x v", "y"), coded("y")], {}, None),
        ([DECODE, step("Add", "x k", "y"), coded("y")], {"shapes": {"y": (2, 3, 4)}}, None),
        ([DECODE, step("ReLU", "x", "y"), coded("y")], {"dtypes": {"y": BF16}}, None),
        ([DECODE, step("ReLU", "x", "y", "exact"), coded("y")], {}, None),
        ([DECODE, step("SoftMax", "x", "y"), coded("y")], {}, None),
        (
            [DECODE, step("Floor", "x", "y", "reference", op_kind="Floor", edition=HOST), coded("y")],
            {},
            np.floor(NUMBERS),
        ),
        ([DECODE, step("Floor", "x", "y", "reference", op_kind="Floor"), coded("y")], {}, None),
        ([DECODE, step("Quantize", "x", "q", scales=(2.0, 1.0), zps=(10, 1), qtype="per_channel")], {}, None),
        ([step("Dequantize", "c", "x", scales=(0.5, 1.0), zps=(1, 2)), coded("x")], {}, None),
        ([coded("x")], {}, None),
        ([DECODE, coded("x")], {"fixed": True}, None),
        ([DECODE, coded("x")], {"dtypes": {"c": og.s32}}, None),
        ([DECODE, coded("x")], {"dtypes": {"q": S8}}, NUMBERS),
        (
            [step("Dequantize", "c", "x", scales=(0.5,), zps=(-28,)), coded("x")],
            {"dtypes": {"c": S8}},
            np.roll(NUMBERS, 128),
        ),
        ([DECODE, step("Dequantize", "d", "w", scales=(1.0,)), step("Maximum", "x w", "y"), coded("y")], {}, None),
    ],
    key=as_one,
    label=label,
)
def test_functions_of_codes_are_tables(steps, given, numbers):
    shapes = {**dict.fromkeys("cdxyzvwq", (3, 4)), "k": (), "row": (4,), **given.get("shapes", {})}
    dtypes = {"c": U8, "d": U8, "q": U8, **given.get("dtypes", {})}
    fixed = {"k": 3.0, "row": np.ones(4), **({"c": np.ones((3, 4))} if given.get("fixed") else {})}
    change = edit(steps, shapes, dtypes=dtypes, constants=fixed, returned=["q"])
    codes._Codes(change).run()
    made = [one for each in change._instead.values() for one in each if one.attrs["kernel"] == "look_up"]
    assert len(made) == (numbers is not None)
    if numbers is None:
        return
    (look_up,) = made
    assert (look_up.inputs[0], look_up.outputs, look_up.note) == ("c", ("q",), "8-bit codes are looked up in a table")
    low, high = (-128, 127) if dtypes["q"] is S8 else (0, 255)
    table = change.values[look_up.inputs[1]].constant
    np.testing.assert_array_equal(table, np.clip(np.rint(numbers / 2 + 10), low, high))
    assert table.dtype == dtypes["q"].numpy
    assert change._spare == {one.id for one in change.graph.steps}
    assert [op.kind for op in look_up.folded] == [one.op.kind for one in steps[:-1]]


def test_tables_stay_for_what_reads_them_later():
    """Two functions of the same codes, and their sum, are tables of these codes."""
    steps = [DECODE, step("ReLU", "x", "y"), coded("y"), step("Dequantize", "q", "z", scales=(2.0,), zps=(10,))]
    steps += [step("Multiply", "z x", "w"), step("Quantize", "w", "v", scales=(4.0,), zps=(0,))]
    change = edit(steps, dict.fromkeys("cxyqzwv", (3, 4)), dtypes=dict.fromkeys("cqv", U8), returned=["v"])
    codes._Codes(change).run()
    (first,), (last,) = change._instead.values()
    rounded = (np.clip(np.rint(np.maximum(NUMBERS, 0) / 2 + 10), 0, 255) - 10) * 2
    np.testing.assert_array_equal(
        change.values[last.inputs[1]].constant, np.clip(np.rint(rounded * NUMBERS / 4), 0, 255)
    )
    assert (first.outputs, last.outputs) == (("q",), ("v",))
    assert len(last.folded) == 5


# Products in panels ---------------------------------------------------------------------------------------------------

SOURCE = step("Dequantize", "a", "x", scales=(0.5,), zps=(3,))
SECOND = step("Dequantize", "b", "w", scales=(0.25,), zps=(0,))
PRODUCT = step("MatMul", "x w", "y")
WINDOW = {"strides": (1, 2), "pads_begin": (1, 0), "pads_end": (1, 0), "dilations": (1, 1), "data_format": "NXC"}
IMAGES = {"a": (1, 6, 7, 8), "x": (1, 6, 7, 8), "b": (3, 3, 8, 4), "w": (3, 3, 8, 4), "y": (1, 6, 3, 4), "bias": (4,)}


def made_of(steps, given, monkeypatch):
    """The step in the place of a product, and the changes."""
    shapes = {
        **dict.fromkeys("ax", (5, 8)),
        "b": (8, 4),
        "w": (8, 4),
        "y": (5, 4),
        "bias": (4,),
        **given.get("shapes", {}),
    }
    dtypes = {"a": U8, "b": S8, **given.get("dtypes", {})}
    fixed = {name: np.resize(given.get("codes", np.arange(-7, 8)), shapes[name]) for name in given.get("fixed", "b")}
    change = edit(steps, shapes, dtypes=dtypes, constants=fixed)
    for name in given.get("gaps", ""):
        change.change(name, strides=tuple([2 * stride for stride in change.values[name].strides]))
    monkeypatch.setattr(change.graph.__class__, "key", lambda _, value: b"%d" % len(value.name))
    vars(change.graph)["shared"] = SimpleNamespace(once=lambda key, make: make())
    product = next(one for one in change.graph.steps if one.outputs == ("y",))
    code_products._replace(change, product, set())
    last = [one for each in change._instead.values() for one in each]
    return (last[0] if last else None), change


@grouped(
    "steps, given, attrs",
    [
        (
            [SOURCE, SECOND, PRODUCT],
            {},
            {"groups": 1, "axes": 0, "zero": 3, "zeros": False, "dynamic": False, "steps": ()},
        ),
        ([SOURCE, SECOND, step("MatMul", "x w bias", "y")], {}, {"steps": ("add",)}),
        ([SOURCE, SECOND, step("MatMul", "x w bias", "y")], {"shapes": {"bias": (1,)}}, None),
        ([SOURCE, SECOND, PRODUCT], {"gaps": "a"}, None),
        ([SOURCE, SECOND, step("MatMul", "x w", "y", transpose_a=True)], {"shapes": dict.fromkeys("ax", (8, 5))}, None),
        (
            [SOURCE, SECOND, step("MatMul", "x w", "y", transpose_b=True)],
            {"shapes": dict.fromkeys("bw", (4, 8))},
            {"axes": 0},
        ),
        (
            [SOURCE, SECOND, PRODUCT],
            {"shapes": {**dict.fromkeys("bw", (2, 8, 4)), "y": (2, 5, 4), **dict.fromkeys("ax", (2, 5, 8))}},
            None,
        ),
        (
            [SOURCE, SECOND, PRODUCT],
            {"shapes": {**dict.fromkeys("bw", (1, 8, 4)), "y": (2, 5, 4), **dict.fromkeys("ax", (2, 5, 8))}},
            {"axes": 0},
        ),
        ([SOURCE, SECOND, PRODUCT], {"shapes": {"a": (8,), "x": (8,), "y": (4,)}}, None),
        ([SOURCE, SECOND, PRODUCT], {"shapes": {"y": (1, 5, 4)}}, None),
        ([SECOND, PRODUCT], {}, None),
        ([SOURCE, PRODUCT], {}, None),
        ([SOURCE, step("Dequantize", "b", "w", scales=(0.25,), zps=(2,)), PRODUCT], {}, {"zeros": True}),
        ([SOURCE, SECOND, PRODUCT], {"dtypes": {"b": U8}, "codes": 5}, {"zeros": True}),
        (
            [SOURCE, step("Dequantize", "b", "w", scales=(0.25,), zps=(128,)), PRODUCT],
            {"dtypes": {"b": U8}, "codes": 5},
            {"zeros": False},
        ),
        (
            [SOURCE, SECOND, step("Convolution", "x w", "y", weights_format="XIO", **WINDOW)],
            {"shapes": IMAGES},
            {"groups": 1, "axes": 2, "zero": 3, "zeros": False, "steps": (3, 1, 1, 1, 3, 2, 1, 0)},
        ),
        (
            [SOURCE, SECOND, step("Convolution", "x w", "y", weights_format="XIO", **{**WINDOW, "data_format": "NCX"})],
            {"shapes": IMAGES},
            None,
        ),
        (
            [SOURCE, SECOND, step("Convolution", "x w", "y", weights_format="XIO", groups=2, **WINDOW)],
            {"shapes": {**IMAGES, **dict.fromkeys("bw", (3, 3, 4, 8)), "y": (1, 6, 3, 8)}},
            {"groups": 2},
        ),
        (
            [SOURCE, SECOND, step("Convolution", "x w", "y", weights_format="XIO", groups=2, **WINDOW)],
            {"shapes": {**IMAGES, **dict.fromkeys("bw", (3, 3, 4, 6)), "y": (1, 6, 3, 6)}},
            "fewer than 4 channels",
        ),
        (
            [SOURCE, SECOND, step("Convolution", "x w", "y", weights_format="XIO", groups=8, **WINDOW)],
            {"shapes": {**IMAGES, **dict.fromkeys("bw", (3, 3, 1, 8)), "y": (1, 6, 3, 8)}},
            {"groups": 8},
        ),
        # Codes that a run computes on both sides.
        (
            [SOURCE, SECOND, PRODUCT],
            {"fixed": ""},
            {"turned": False, "zero": 3, "weights_zero": 0, "scale": 0.125, "steps": ()},
        ),
        (
            [SOURCE, SECOND, step("MatMul", "x w", "y", transpose_b=True)],
            {"fixed": "", "shapes": dict.fromkeys("bw", (4, 8))},
            {"turned": True},
        ),
        ([SOURCE, SECOND, step("MatMul", "x w bias", "y")], {"fixed": ""}, None),
        (
            [SOURCE, SECOND, step("MatMul", "x w", "y", transpose_a=True)],
            {"fixed": "", "shapes": dict.fromkeys("ax", (8, 5))},
            None,
        ),
        ([SOURCE, SECOND, PRODUCT], {"fixed": "", "dtypes": {"y": BF16}}, None),
        ([SOURCE, SECOND, PRODUCT], {"fixed": "", "shapes": {**dict.fromkeys("ax", (2, 5, 8)), "y": (2, 5, 4)}}, None),
        (
            [SOURCE, SECOND, PRODUCT],
            {
                "fixed": "",
                "shapes": {**dict.fromkeys("ax", (2, 5, 8)), **dict.fromkeys("bw", (1, 8, 4)), "y": (2, 5, 4)},
            },
            None,
        ),
        (
            [SOURCE, SECOND, PRODUCT],
            {
                "fixed": "",
                "shapes": {**dict.fromkeys("ax", (2, 5, 8)), **dict.fromkeys("bw", (2, 8, 4)), "y": (2, 5, 4)},
            },
            {"zero": 3},
        ),
        ([SOURCE, SECOND, PRODUCT], {"fixed": "", "shapes": {"a": (5, code_products.MOST_DEPTH)}}, {"zero": 3}),
        ([SOURCE, SECOND, PRODUCT], {"fixed": "", "shapes": {"a": (5, code_products.MOST_DEPTH + 1)}}, None),
        (
            [SOURCE, SECOND, step("Convolution", "x w", "y", weights_format="XIO", **WINDOW)],
            {"shapes": IMAGES, "fixed": ""},
            None,
        ),
    ],
    key=as_one,
    label=label,
)
def test_products_of_codes_of_open_sizes(steps, given, attrs, monkeypatch):
    made, change = made_of(steps, given, monkeypatch)
    reasons = [reason for each in change._refused.values() for reason in each]
    assert (made is not None, len(reasons)) == (isinstance(attrs, dict), isinstance(attrs, str))
    assert all(attrs in reason for reason in reasons)
    if made is None:
        return
    assert {name: made.attrs[name] for name in attrs} == attrs
    assert (made.inputs[0], made.outputs, made.note) == ("a", ("y",), code_products.FOR_CODES)
    assert change._spare == {0, 1}
    assert [op.kind for op in made.folded] == ["Dequantize", "Dequantize"]


@grouped(
    "codes_of, points, dtype",
    [(7, (0,), S8), (7, (2,), S8), (-5, (0, 1, 2, 3), S8), (200, (0,), U8), (200, (128,), U8), (9, (200,), U8)],
    key=as_one,
)
def test_constants_of_products_of_codes(codes_of, points, dtype, monkeypatch):
    """The panels have the codes, less 128 if they are u8; sums are those of a column less its zero points."""
    own = (
        {"qtype": "per_channel", "axis": 1, "scales": (0.25, 0.5, 1.0, 2.0)} if len(points) > 1 else {"scales": (0.25,)}
    )
    made, change = made_of(
        [SOURCE, step("Dequantize", "b", "w", zps=points, **own), PRODUCT],
        {"dtypes": {"b": dtype}, "codes": codes_of},
        monkeypatch,
    )
    panels, scales, sums, *zeros = (change.values[number].constant for number in made.inputs[1:])
    shift = 128 if dtype is U8 else 0
    assert {*panels[:, :2, :4].reshape(-1).tolist()} == {codes_of - shift}
    assert not panels[:, 2:].any()
    assert not panels[:, :, 4:].any()
    factors = np.broadcast_to(own["scales"], 4)
    np.testing.assert_array_equal(scales[:4], factors / 2)
    np.testing.assert_array_equal(sums[:4], [8 * (codes_of - point) for point in np.broadcast_to(points, 4)])
    assert (scales.dtype, sums.dtype) == (np.float32, np.int32)
    assert not scales[4:].any()
    left = np.broadcast_to(points, 4) - shift
    assert len(zeros) == bool(left.any()) == made.attrs["zeros"]
    assert all((each[:4] == left).all() and not each[4:].any() for each in zeros)


@pytest.mark.parametrize(("opens", "vnni", "kind", "part", "count"), [
    (True, True, "MatMul", True, 1), (False, True, "MatMul", True, 0), (True, False, "MatMul", True, 0),
    (True, True, "Add", True, 0), (True, True, "MatMul", False, 0),
])  # fmt: skip
def test_products_of_codes_need_open_sizes(opens, vnni, kind, part, count, monkeypatch):
    monkeypatch.setattr(code_products, "has_vnni", lambda: vnni)
    asked = []
    monkeypatch.setattr(code_products, "_replace", lambda *given: asked.append(given))
    one = step(kind, "x w", "y", **({} if part else {"part": None}))
    code_products.multiply_codes(edit([one], {"x": (2, 2), "w": (2, 2), "y": (2, 2)}), Options(opens=opens))
    assert len(asked) == count
