"""What passes ask of products and convolutions: a form that each takes, and others that differ in one field."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.small_lowered import as_one, edit, kinds, label, lowered, step

import onegraph as og
from onegraph.compiler import packed_weights
from onegraph.compiler.ir.value import dense_of
from onegraph.compiler.kernels.softmax import MANY
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import (
    channel_scales,
    lazy_constants,
    narrow_groups,
    normalized_weights,
    panel_convolutions,
    product_weights,
    run_passes,
    vector_products,
    winograd,
)
from onegraph.compiler.passes.chosen_products import _chosen, _exchanges, _fits
from onegraph.compiler.passes.label_gradients import LEAST, _scatter_of_labels
from onegraph.compiler.passes.last_softmax import LONG, _is_taken
from onegraph.compiler.passes.open_steps import TAKEN, _follows_product
from onegraph.compiler.passes.special_values import _is_behind_product, _is_normalized
from onegraph.compiler.passes.window_products import _is_fused, _Product, _sides, _suited
from onegraph.compiler.passes.winograd import _Transforms

BF16, F32 = og.bf16, og.f32
WINDOW = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}


# Transforms -----------------------------------------------------------------------------------------------------------

IMAGE = {"x": (4, 56, 56, 64), "w": (3, 3, 64, 64), "y": (4, 56, 56, 64), "codes": (3, 3, 64, 64)}
OIX = {"x": (4, 56, 56, 64), "w": (64, 64, 3, 3), "y": (4, 56, 56, 64)}


@grouped(
    "kind, attrs, given, found",
    [
        ("Convolution", {}, {}, (4, 28, 28, 64, 64, 1, 1)),
        ("Convolution", {"pads_begin": (0, 1)}, {}, (4, 28, 28, 64, 64, 0, 1)),
        ("Convolution", {}, {"reproducible": True}, (1, 28, 28, 64, 64, 1, 1)),
        ("Convolution", {}, {"shapes": {"y": (4, 55, 53, 64)}}, (4, 28, 27, 64, 64, 1, 1)),
        ("Convolution", {"weights_format": "OIX"}, {"shapes": OIX}, (4, 28, 28, 64, 64, 1, 1)),
        ("Convolution", {"weights_format": "OIX"}, {}, None),
        ("Convolution", {}, {"shapes": OIX}, None),
        ("ConvolutionBackwardData", {}, {}, (4, 28, 28, 64, 64, 1, 1)),
        ("ConvolutionBackwardData", {"pads_begin": (0, 2)}, {}, (4, 28, 28, 64, 64, 2, 0)),
        ("ConvTranspose", {}, {}, None),
        ("Convolution", {"part": None}, {}, None),
        ("Convolution", {}, {"dtypes": {"x": BF16}}, None),
        ("Convolution", {}, {"dtypes": {"w": BF16}}, None),
        ("Convolution", {}, {"dtypes": {"y": BF16}}, None),
        ("Convolution", {}, {"shapes": {"x": (56, 56, 64)}}, None),
        ("Convolution", {"data_format": "NCX"}, {}, None),
        ("Convolution", {"groups": 2}, {}, None),
        ("Convolution", {"strides": (1, 2)}, {}, None),
        ("Convolution", {"dilations": (2, 1)}, {}, None),
        ("Convolution", {}, {"shapes": {"w": (3, 4, 64, 64)}}, None),
        ("Convolution", {}, {"shapes": {"x": (4, 56, 56, 60)}}, None),
        ("Convolution", {}, {"shapes": {"y": (4, 56, 56, 60)}}, None),
        ("Convolution", {}, {"decodes": "x w"}, None),
        ("Convolution", {}, {"decodes": "w"}, (4, 28, 28, 64, 64, 1, 1)),
        ("Convolution", {}, {"decodes": "x w", "by": "Tanh"}, (4, 28, 28, 64, 64, 1, 1)),
        ("Convolution", {}, {"decodes": "x w", "by": "TypeCast"}, (4, 28, 28, 64, 64, 1, 1)),
        ("Convolution", {}, {"decodes": "x w", "moved": True}, None),
        ("Convolution", {}, {"fixed": "x"}, None),
        ("Convolution", {}, {"fixed": "w"}, (4, 28, 28, 64, 64, 1, 1)),
    ],
    key=as_one,
    label=label,
)
def test_convolutions_that_transforms_compute(kind, attrs, given, found):
    attrs = {**WINDOW, "groups": 1, "data_format": "NXC", "weights_format": "XIO", **attrs}
    shapes = {**IMAGE, "x0": IMAGE["x"], "w0": IMAGE["w"], **given.get("shapes", {})}
    decoded = [*given.get("decodes", "").split()]
    makers = [
        step(given.get("by", "Dequantize"), "codes", f"{name}0" if "moved" in given else name) for name in decoded
    ]
    makers += [step("TypeCast", f"{name}0", name) for name in decoded if "moved" in given]
    fixed = {name: np.broadcast_to(np.float32(0), shapes[name]) for name in given.get("fixed", "").split()}
    change = edit([*makers, step(kind, "x w", "y", **attrs)], shapes, dtypes=given.get("dtypes"), constants=fixed)
    options = Options(reproducible=given.get("reproducible", False))
    geometry = _Transforms(change, options)._geometry(change.graph.steps[-1])
    assert (None if geometry is None else tuple(geometry)) == found


# Scales of channels ---------------------------------------------------------------------------------------------------

SCALES = (0.5, 0.25)
OF_CHANNELS = {"qtype": "per_channel", "scales": SCALES, "zps": (3, 3), "axis": 3}
DECODED = step("Dequantize", "codes", "w", scales=(0.5,), zps=(0,))
CONV = step("Convolution", "x w", "y", data_format="NXC", weights_format="XIO", **WINDOW)
CODED = step("Quantize", "y", "q", **OF_CHANNELS)
BEHIND = step("Quantize", "z", "q", **OF_CHANNELS)


@grouped(
    "steps, given, found",
    [
        ([DECODED, CONV, CODED], {}, "Convolution"),
        ([DECODED, CONV, step("ReLU", "y", "z"), BEHIND], {}, ""),
        ([DECODED, CONV, step("ReLU", "y", "z"), BEHIND], {"zps": (0, 0)}, "Convolution ReLU"),
        ([DECODED, CONV, step("Clamp", "y", "z", min=-1.5, max=126.0), BEHIND], {}, "Convolution Clamp"),
        ([DECODED, CONV, step("Clamp", "y", "z", min=-1.25, max=126.0), BEHIND], {}, ""),
        ([DECODED, CONV, step("Clamp", "y", "z", min=-1.5, max=125.75), BEHIND], {}, ""),
        ([DECODED, CONV, step("Clamp", "y", "z", min=0.0, max=127.5), BEHIND], {"zps": (0, 0)}, "Convolution Clamp"),
        ([DECODED, CONV, step("Clamp", "y", "z", min=0.0, max=127.0), BEHIND], {"zps": (0, 0)}, ""),
        ([DECODED, CONV, step("Clamp", "y", "z", min=-9e9, max=9e9), BEHIND], {"returned": ["z"]}, ""),
        ([DECODED, CONV, step("Clamp", "y", "z", min=-9e9, max=9e9), BEHIND], {"returned": ["y"]}, ""),
        ([DECODED, CONV, step("Tanh", "y", "z"), BEHIND], {}, ""),
        ([DECODED, CONV, CODED], {"returned": ["y"]}, ""),
        ([DECODED, CONV, CODED], {"zps": (3, 4)}, ""),
        ([DECODED, CONV, CODED], {"scales": (0.5, 0.0)}, ""),
        ([DECODED, CONV, CODED], {"scales": (0.5, -1.0)}, ""),
        ([DECODED, CONV, CODED], {"dtypes": {"q": og.s32}}, ""),
        ([DECODED, CONV, CODED], {"dtypes": {"q": og.s8}}, "Convolution"),
        ([CODED], {}, ""),
        ([DECODED, CONV, step("Quantize", "y", "q", **{**OF_CHANNELS, "axis": 1})], {}, ""),
        ([DECODED, CONV, step("Quantize", "y", "q", **{**OF_CHANNELS, "axis": -1})], {}, "Convolution"),
        ([DECODED, step("ConvTranspose", "x w", "y", data_format="NXC", **WINDOW), CODED], {}, ""),
        ([DECODED, step("Convolution", "x w", "y", data_format="NCX", weights_format="XIO", **WINDOW), CODED], {}, ""),
        (
            [
                DECODED,
                step("Convolution", "x w", "y", data_format="NCX", weights_format="XIO", **WINDOW),
                step("Quantize", "y", "q", qtype="per_channel", scales=SCALES, zps=(3, 3)),
            ],
            {},
            "Convolution",
        ),
        ([DECODED, step("Convolution", "x w", "y", part=None, data_format="NXC", **WINDOW), CODED], {}, ""),
        ([step("Dequantize", "codes", "w", "reference", scales=(0.5,)), CONV, CODED], {}, ""),
        ([step("TypeCast", "codes", "w"), CONV, CODED], {}, ""),
        ([CONV, CODED], {}, ""),
        ([DECODED, CONV, CODED], {"fixed": ""}, ""),
        ([DECODED, CONV, CODED], {"returned": ["w"]}, ""),
        ([DECODED, CONV, CODED, step("Tanh", "w", "z")], {}, ""),
        ([step("Dequantize", "codes", "w", qtype="per_channel", axis=3), CONV, CODED], {}, "Convolution"),
        ([step("Dequantize", "codes", "w", qtype="per_channel", axis=-1), CONV, CODED], {}, "Convolution"),
        ([step("Dequantize", "codes", "w", qtype="per_channel", axis=0), CONV, CODED], {}, ""),
        ([step("Dequantize", "codes", "w", qtype="per_channel"), CONV, CODED], {}, ""),
        (
            [
                step("Dequantize", "codes", "w", qtype="per_channel", axis=0),
                step("Convolution", "x w", "y", data_format="NXC", weights_format="OIX", **WINDOW),
                CODED,
            ],
            {},
            "Convolution",
        ),
        ([DECODED, step("Convolution", "x w b", "y", data_format="NXC", **WINDOW), CODED], {}, ""),
        (
            [DECODED, step("Convolution", "x w b", "y", data_format="NXC", **WINDOW), CODED],
            {"fixed": "codes b"},
            "Convolution",
        ),
        ([DECODED, CONV, CODED], {"dtypes": {"x": BF16}}, ""),
        ([DECODED, CONV, CODED], {"dtypes": {"y": BF16}}, ""),
    ],
    key=as_one,
    label=label,
)
def test_scales_of_channels_go_to_the_weights(steps, given, found):
    shapes = {**dict.fromkeys("xyzq", (1, 6, 6, 2)), **dict.fromkeys(("codes", "w"), (3, 3, 2, 2)), "b": (2,)}
    fixed = {name: np.ones(shapes[name]) for name in given.get("fixed", "codes").split()}
    dtypes = {"codes": og.s8, "q": og.u8, **given.get("dtypes", {})}
    change = edit(steps, shapes, dtypes=dtypes, constants=fixed, returned=given.get("returned", ()))
    quantize = next(one for one in change.graph.steps if one.kind == "Quantize")
    scales, zeros = np.array(given.get("scales", SCALES)), {*map(float, given.get("zps", (3, 3)))}
    assert kinds(channel_scales._chain(change, quantize, scales, zeros)) == found


# Products of windows --------------------------------------------------------------------------------------------------

ONES = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}
SINGLE = {"x": (2, 16, 16, 128), "w": (1, 1, 128, 128), "y": (2, 16, 16, 128), "b": (128,)}
GRADIENT = {"x": (1, 9, 9, 64), "w": (1, 8, 4, 64), "y": (3, 3, 64, 64), "z": (3, 3, 64, 64)}


@grouped(
    "one, shapes, given, is_suited",
    [
        (step("Convolution", "x w", "y", **ONES), {}, {}, True),
        (
            step("Convolution", "x w", "y", **ONES),
            {"x": (2, 16, 16, 128), "w": (1, 1, 128, 127), "y": (2, 16, 16, 127)},
            {},
            False,
        ),
        (step("Convolution", "x w", "y", **ONES), {"x": (3, 9, 19, 128), "y": (3, 9, 19, 128)}, {}, False),
        (step("Convolution", "x w b", "y", **ONES), {}, {}, False),
        (step("Convolution", "x w", "y", **ONES), {}, {"fixed": "w"}, False),
        (step("Convolution", "x w", "y", **ONES), {}, {"gaps": "w"}, False),
        (step("Convolution", "x w", "y", **ONES, groups=2), {"w": (1, 1, 64, 256), "y": (2, 16, 16, 256)}, {}, False),
        (
            step("Convolution", "x w", "y", **ONES, data_format="NCX"),
            {"x": (2, 128, 16, 16), "y": (2, 128, 16, 16)},
            {},
            False,
        ),
        (step("Convolution", "x w", "y", **{**ONES, "strides": (1, 2)}), {"y": (2, 16, 8, 128)}, {}, False),
        (step("Convolution", "x w", "y", **{**ONES, "pads_begin": (1, 0)}), {"y": (2, 17, 16, 128)}, {}, False),
        (step("Convolution", "x w", "y", **{**ONES, "pads_end": (1, 0)}), {"y": (2, 17, 16, 128)}, {}, False),
        (step("Convolution", "x w", "y", **{**ONES, "pads_begin": (-1, 0)}), {"y": (2, 15, 16, 128)}, {}, False),
        (step("Convolution", "x w", "y", **ONES), {"w": (1, 2, 128, 128), "y": (2, 16, 15, 128)}, {}, False),
        (step("Convolution", "x w", "y", part=None, **ONES), {}, {}, False),
        (step("Convolution", "x w", "y", **ONES), {}, {"reader": "Add"}, False),
        (step("Convolution", "x w", "y", **ONES), {}, {"reader": "ReLU"}, False),
        (step("Convolution", "x w", "y", **ONES), {}, {"reader": "BatchNormInference"}, False),
        (step("Convolution", "x w", "y", **ONES), {}, {"reader": "MatMul"}, True),
        (step("ConvTranspose", "x w", "y", **ONES), {}, {}, False),
        (step("ConvolutionBackwardData", "x w", "y", **ONES), {}, {}, True),
        (step("ConvolutionBackwardData", "x w", "y", **ONES), {}, {"reader": "Add"}, True),
        (step("ConvolutionBackwardWeights", "x w", "y", **ONES), GRADIENT, {}, True),
        (step("ConvolutionBackwardWeights", "x w", "y", **ONES), {**GRADIENT, "w": (1, 8, 5, 64)}, {}, False),
        (
            step("ConvolutionBackwardWeights", "x w", "y", **ONES),
            {**GRADIENT, "w": (1, 1, 1, 48), "x": (1, 3, 3, 37), "y": (3, 3, 37, 48)},
            {},
            False,
        ),
        (
            step("ConvolutionBackwardWeights", "x w", "y", **ONES),
            {**GRADIENT, "w": (1, 1, 1, 64), "x": (1, 2, 2, 64), "y": (2, 2, 64, 64)},
            {},
            True,
        ),
        (step("ConvTransposeBackwardWeights", "w x", "y", **ONES), GRADIENT, {}, True),
        (step("MatMul", "x w", "y"), {"x": (256, 256), "w": (256, 256), "y": (256, 256)}, {}, False),
    ],
    key=as_one,
)
def test_convolutions_of_few_windows_are_products(one, shapes, given, is_suited):
    shapes = {**SINGLE, "out": (1,), **shapes}
    fixed = {name: np.ones(shapes[name], np.float32) for name in given.get("fixed", "").split()}
    readers = [step(given["reader"], "y y", "out")] if "reader" in given else []
    graph = lowered([one, *readers], shapes, constants=fixed)
    for name in given.get("gaps", ""):
        graph.values[name] = graph.values[name]._replace(strides=tuple([2 * n for n in graph.values[name].strides]))
    assert (_suited(graph, graph.steps[0]) is not None) is is_suited


def test_sides_of_gradients_by_weights():
    assert _sides(step("ConvolutionBackwardWeights", "x d", "w")) == ("x", "d")
    assert _sides(step("ConvTransposeBackwardWeights", "d x", "w")) == ("x", "d")
    assert _is_fused(lowered([], {"y": (1,)}), step("Convolution", "x w", "y")) is False


@grouped(
    "first, second, last, returned, dtypes, narrow",
    [
        ("TypeCast", "TypeCast", "TypeCast", "", {}, True),
        ("TypeCast", "Tanh", "TypeCast", "", {}, False),
        ("Tanh", "TypeCast", "TypeCast", "", {}, False),
        ("TypeCast", "TypeCast", "Tanh", "", {}, False),
        ("TypeCast", "TypeCast", "TypeCast", "g", {}, False),
        ("TypeCast", "TypeCast", "TypeCast", "", {"a": og.f16}, False),
        ("TypeCast", "TypeCast", "TypeCast", "", {"r": og.f16}, False),
        ("TypeCast", "TypeCast", "TypeCast", "", {"a": og.f16, "b": og.f16, "r": og.f16}, False),
    ],
    key=as_one,
)
def test_gradients_between_casts_are_computed_in_16_bits(first, second, last, returned, dtypes, narrow, monkeypatch):
    monkeypatch.setattr("onegraph.compiler.passes.window_products.is_native", lambda dtype: dtype is BF16)
    one = step("ConvolutionBackwardWeights", "x d", "g", **ONES)
    steps = [step(first, "a", "x"), step(second, "b", "d"), one, step(last, "g", "r")]
    shapes = dict.fromkeys("abxdgr", (1, 4, 4, 8))
    change = edit(steps, shapes, dtypes={"a": BF16, "b": BF16, "r": BF16, **dtypes}, returned=[*returned, "r"])
    product = object.__new__(_Product)
    product._edit, product._values, product._step = change, change.values, one
    assert product._in_own_type() == ((("a", "b"), "r") if narrow else (("x", "d"), "g"))
    assert {change.graph.steps[number].kind for number in change._spare} == ({"TypeCast"} if narrow else set())
    assert change._instead == ({3: ()} if narrow else {})


# Convolutions in panels -----------------------------------------------------------------------------------------------


@grouped("attrs, given, is_made", [
    ({}, {}, True), ({"data_format": "NCX"}, {}, False), ({"part": None}, {}, False), ({"kind": "MatMul"}, {}, False),
    ({}, {"dtypes": {"x": BF16}}, False), ({}, {"dtypes": {"y": BF16}}, False), ({}, {"fixed": ""}, False),
    ({}, {"fixed": "w x"}, False), ({"auto_pad": "none"}, {}, True), ({"auto_pad": "same_upper"}, {}, False),
    ({"groups": 2}, {"shapes": {"w": (3, 3, 4, 8)}}, True), ({"groups": 4}, {"shapes": {"w": (3, 3, 2, 8)}}, "few"),
    ({}, {"number": np.nan}, "finite"), ({}, {"number": np.inf}, "finite"),
    ({"kind": "ConvTranspose", "weights_format": "XOI"}, {}, True),
], key=as_one)  # fmt: skip
def test_convolutions_of_constant_weights_in_panels(attrs, given, is_made, monkeypatch):
    attrs = {**WINDOW, "data_format": "NXC", "weights_format": "XIO", **attrs}
    kind = attrs.pop("kind", "Convolution")
    attrs = {"transpose_b": False} if kind == "MatMul" else attrs
    shapes = {"x": (1, 6, 6, 8), "w": (3, 3, 8, 8), "y": (1, 6, 6, 8), **given.get("shapes", {})}
    fixed = {
        name: np.full(shapes[name], given.get("number", 1), np.float32) for name in given.get("fixed", "w").split()
    }
    change = edit([step(kind, "x w", "y", **attrs)], shapes, dtypes=given.get("dtypes"), constants=fixed)
    monkeypatch.setattr(change.graph.__class__, "key", lambda *_: b"key")
    vars(change.graph)["shared"] = type("Shared", (), {"once": lambda _, key, make: make()})()
    made = panel_convolutions._made(change, change.graph.steps[0])
    assert (made is not None) is (is_made is True)
    reasons = [reason for each in change._refused.values() for reason in each]
    assert (len(reasons), isinstance(is_made, str)) in ((1, True), (0, False))
    assert all(is_made in reason for reason in reasons)
    if made is not None:
        groups = attrs.get("groups", 1)
        wanted = {"transposed": kind == "ConvTranspose", "groups": groups, "bias": False, "slope": 1.0}
        assert made.attrs == {**wanted, "windows": (3, 1, 1, 1) * 2}
        assert (made.inputs[0], made.outputs, made.executor) == ("x", ("y",), "panel convolution")
        said = panel_convolutions._made(change, change.graph.steps[0]._replace(note="said"))
        assert (made.note, said.note) == (panel_convolutions.FOR_WINDOWS, f"said; {panel_convolutions.FOR_WINDOWS}")


# Products of vectors --------------------------------------------------------------------------------------------------


@grouped("attrs, shapes, given, is_suited", [
    ({}, {}, {}, True), ({"kind": "Add"}, {}, {}, False), ({"part": None}, {}, {}, False),
    ({}, {}, {"dtypes": {"x": BF16}}, False), ({}, {}, {"dtypes": {"w": BF16}}, False),
    ({}, {}, {"dtypes": {"y": BF16}}, False), ({"inputs": "x w b"}, {}, {"dtypes": {"b": BF16}}, False),
    ({"inputs": "x w b"}, {}, {}, True), ({"inputs": "x w b"}, {"b": (1, 1, 16)}, {}, True),
    ({"inputs": "x w b"}, {"b": (1,)}, {}, False),
    ({}, {"w": (1, 64, 16)}, {}, False), ({}, {"y": (16,)}, {}, False), ({}, {}, {"gaps": "w"}, False),
    ({"transpose_a": True}, {}, {}, False), ({"transpose_b": True}, {}, {}, True),
    ({}, {}, {"maker": "Dequantize"}, False), ({}, {}, {"maker": "DynamicDequantize"}, False),
    ({}, {}, {"maker": "Tanh"}, True), ({}, {}, {"slow": False}, False), ({}, {}, {"slow": None}, False),
    ({}, {}, {"slow": False, "repeats": True}, True),
    ({}, {"x": (6, 64)}, {"slow": False, "repeats": True}, "rows"),
    ({}, {"w": (64, 512)}, {"slow": False, "repeats": True}, True),
    ({}, {"w": (64, 513)}, {"slow": False, "repeats": True}, False),
], key=as_one)  # fmt: skip
def test_products_of_few_rows_and_a_matrix(attrs, shapes, given, is_suited, monkeypatch):
    attrs, asked = dict(attrs), []
    rule = type("Rule", (), {"when": lambda _, one: asked.append(one) or given.get("slow", True)})
    monkeypatch.setattr(vector_products, "SLOW_VECTORS", rule())
    one = step(attrs.pop("kind", "MatMul"), attrs.pop("inputs", "x w"), "y", **attrs)
    shapes = {"x": (2, 64), "w": (64, 16), "y": (2, 16), "b": (16,), "m": (64, 16), **shapes}
    makers = [step(given["maker"], "m", "w")] if "maker" in given else []
    graph = lowered([*makers, one], shapes, dtypes=given.get("dtypes"))
    for name in given.get("gaps", ""):
        graph.values[name] = graph.values[name]._replace(strides=tuple([2 * n for n in graph.values[name].strides]))
    found = vector_products._is_suited(graph, graph.steps[-1], given.get("repeats", False))
    if is_suited == "rows":
        is_suited = vector_products.MOST_ROWS >= 6
    assert found is is_suited
    assert [tuple(each) for each in asked] in ([], [(shapes["x"][0], 4 * np.prod(shapes["w"]))])


@grouped("kind, executor, addend, result, dtypes, adds", [
    ("Add", "library", (16,), (2, 16), {}, True), ("Add", "library", (1, 16), (2, 16), {}, True),
    ("Add", "library", (2, 16), (2, 16), {}, True), ("Subtract", "library", (16,), (2, 16), {}, False),
    ("Add", "reference", (16,), (2, 16), {}, False), ("Add", "library", (), (2, 16), {}, False),
    ("Add", "library", (1,), (2, 16), {}, False), ("Add", "library", (2, 1), (2, 16), {}, False),
    ("Add", "library", (3, 2, 16), (3, 2, 16), {}, False), ("Add", "library", (16,), (2, 16), {"z": BF16}, False),
    ("Add", "library", (16,), (2, 16), {"r": BF16}, False),
    ("Add", "library", (16,), (2, 16), {"z": BF16, "r": BF16}, False),
], key=as_one)  # fmt: skip
def test_rows_that_are_added_to_products(kind, executor, addend, result, dtypes, adds):
    for inputs in ("y z", "z y"):
        one = step(kind, inputs, "r", executor)
        graph = lowered([one], {"y": (2, 16), "z": addend, "r": result}, dtypes=dtypes)
        assert vector_products._adds(graph, one, "y") is adds


# Matrices that indices name -------------------------------------------------------------------------------------------

GATHER = step("Gather", "m at", "own", "reference", axis=0)
TURN = step("StaticTranspose", "own", "turned", order=(0, 2, 1))
GATHERED = {"m": (5, 8, 6), "n": (5, 6, 8), "at": (2,), "own": (2, 8, 6), "turned": (2, 6, 8), "x": (2, 1, 8)}
GATHERED |= {"again": (2, 8, 6)}


@grouped(
    "steps, shapes, last, found",
    [
        ([GATHER], {}, "own", ("m", False, "Gather")),
        ([GATHER, TURN], {}, "turned", ("m", True, "StaticTranspose Gather")),
        (
            [step("StaticTranspose", "n", "m", order=(0, 2, 1)), GATHER],
            {},
            "own",
            ("n", True, "Gather StaticTranspose"),
        ),
        ([GATHER, step("StaticTranspose", "own", "turned", order=(1, 0, 2))], {}, "turned", None),
        (
            [GATHER, step("StaticTranspose", "own", "turned", order=(-3, -1, -2))],
            {},
            "turned",
            ("m", True, "StaticTranspose Gather"),
        ),
        ([step("Tanh", "n", "m"), GATHER], {}, "own", ("m", False, "Gather")),
        ([], {}, "own", None),
        ([step("Tanh", "m", "own")], {}, "own", None),
        ([TURN], {}, "turned", None),
        ([GATHER], {"m": (8, 6)}, "own", None),
        ([GATHER], {"m": (5, 0, 6)}, "own", None),
        ([GATHER, step("Gather", "own at", "again", "reference", axis=0)], {}, "again", ("own", False, "Gather")),
    ],
    key=as_one,
    label=label,
)
def test_matrices_that_are_gathered(steps, shapes, last, found, monkeypatch):
    monkeypatch.setattr("onegraph.compiler.passes.chosen_products.call_of", lambda one: Axis(one))
    chosen = _chosen(edit(steps, {**GATHERED, **shapes}), last, False)
    assert (None if chosen is None else (chosen.matrices, chosen.is_turned, kinds(chosen.makers))) == found
    assert chosen is None or chosen.indices == "at"


class Axis:
    def __init__(self, one):
        self._attrs = one.attrs

    def s64(self, name):
        return self._attrs[name]


@pytest.mark.parametrize(("axis", "is_first"), [(0, True), (1, False), (-3, True), (-1, False)])
def test_matrices_lie_along_the_first_axis(axis, is_first, monkeypatch):
    monkeypatch.setattr("onegraph.compiler.passes.chosen_products.call_of", lambda one: Axis(one))
    change = edit([step("Gather", "m at", "own", "reference", axis=axis)], GATHERED)
    assert (_chosen(change, "own", False) is not None) is is_first


def test_transposes_of_gathered_matrices():
    change = edit([], GATHERED)
    for order, exchanges in (((0, 2, 1), True), ((0, 1, 2), False), ([0, 2, 1], False), ((-3, -1, -2), True)):
        assert _exchanges(change, step("StaticTranspose", "m", "n", order=order)) is exchanges
    assert not _exchanges(change, step("StaticTranspose", "m", "n"))


@grouped("src, places, place, turns, gaps, found", [
    ((2, 1, 8), (2,), 1, (False, False), "", True), ((2, 32, 8), (2,), 1, (False, False), "", True),
    ((2, 33, 8), (2,), 1, (False, False), "", "more than 32"), ((2, 1, 8), (2,), 1, (True, False), "", False),
    ((2, 1, 8), (2,), 1, (False, True), "", True), ((2, 1, 8), (2,), 1, (False, False), "m", False),
    ((8,), (2,), 1, (False, False), "", False), ((1, 8), (), 1, (False, False), "", True),
    ((1, 8), (2,), 1, (False, False), "", True), ((1, 1, 8), (2,), 1, (False, False), "", True),
    ((3, 1, 8), (2,), 1, (False, False), "", False), ((2, 1, 1, 8), (2, 3), 1, (False, False), "", True),
    ((2, 3, 1, 8), (2, 3), 1, (False, False), "", True), ((1, 3, 1, 8), (2, 3), 1, (False, False), "", False),
    ((4, 2, 1, 8), (2,), 1, (False, False), "", False), ((2, 8, 1), (2,), 0, (False, False), "", True),
    ((2, 8, 2), (2,), 0, (False, False), "", False), ((2, 1, 8), (2,), 0, (False, True), "", True),
    ((2, 8, 1), (2,), 0, (False, True), "", False), ((2, 1, 8), (2,), 0, (False, False), "", False),
    ((2, 8, 1), (2,), 0, (True, False), "", True),
], key=as_one)  # fmt: skip
def test_rows_of_gathered_matrices(src, places, place, turns, gaps, found):
    change = edit([GATHER, step("MatMul", "x own", "y")], {**GATHERED, "x": src, "at": places, "y": (1,)})
    if gaps:
        change.change("m", strides=(96, 12, 2))
    one = step("MatMul", "x own" if place else "own x", "y")
    chosen = _chosen_of(change)
    assert _fits(change, one, chosen, place, turns) is (found is True)
    reasons = [reason for each in change._refused.values() for reason in each]
    assert len(reasons) == isinstance(found, str)
    assert all(found in reason for reason in reasons)


def _chosen_of(change):
    from onegraph.compiler.passes.chosen_products import _Chosen

    return _Chosen("at", "m", False, [change.graph.steps[0]])


# Gradients of labels --------------------------------------------------------------------------------------------------

ROWS = LEAST // 4 // 1024
LABELS = {"zeros": (ROWS, 1024), "at": (ROWS, 1), "updates": (ROWS, 1), "d": (ROWS, 1024), "y": (ROWS, 1024)}
LABELS |= {"out": (ROWS, 1024)}
ADDED = {"axis": 1, "reduction": "add"}


@grouped(
    "one, how, given, found",
    [
        ({}, {}, {}, True),
        ({"kind": "LogSoftmax"}, {}, {}, False),
        ({"executor": "reference"}, {}, {}, False),
        ({"axis": 1}, {}, {}, True),
        ({"axis": 0}, {}, {}, False),
        ({}, {"axis": -1}, {}, True),
        ({}, {"axis": 0}, {}, False),
        ({}, {"reduction": "none"}, {}, False),
        ({}, {"kind": "Tanh"}, {}, False),
        ({}, {}, {"returned": ["d"]}, False),
        ({}, {}, {"shapes": {"d": (ROWS, 1023)}}, False),
        ({}, {}, {"dtypes": {"d": BF16}}, False),
        ({}, {}, {"dtypes": {"d": BF16}, "shapes": {name: (2 * ROWS, one[1]) for name, one in LABELS.items()}}, False),
        ({}, {}, {"shapes": {"updates": (ROWS, 2)}}, False),
        ({}, {}, {"shapes": {"updates": (1, 1)}}, False),
        ({}, {}, {"number": 1}, False),
        ({}, {}, {"number": None}, False),
        ({}, {}, {"gaps": "updates"}, False),
        ({}, {}, {"gaps": "y"}, False),
        ({}, {}, {"gaps": "at"}, True),
        ({}, {}, {"maker": False}, False),
    ],
    key=as_one,
)
def test_gradients_that_are_read_for_labels(one, how, given, found):
    one, how = dict(one), {**ADDED, **how}
    scatter = step(
        "Scatter", "zeros at updates", "d", "reference", op_kind=how.pop("kind", "ScatterElements"), op_attrs=how
    )
    last = step(one.pop("kind", "LogSoftmaxBackward"), "d y", "out", one.pop("executor", "library"), **one)
    number, shapes = given.get("number", 0), {**LABELS, **given.get("shapes", {})}
    fixed = {} if number is None else {"zeros": np.broadcast_to(np.float32(number), LABELS["zeros"])}
    steps, dtypes = [scatter, last][not given.get("maker", True) :], given.get("dtypes")
    graph = lowered(steps, shapes, dtypes=dtypes, constants=fixed, returned=given.get("returned", ()))
    if gaps := given.get("gaps"):
        graph.values[gaps] = graph.values[gaps]._replace(strides=(4096, 2))
    assert (_scatter_of_labels(graph, graph.steps[-1]) is not None) is found


# SoftMax, steps of open sizes, special values -------------------------------------------------------------------------


@grouped("shape, attrs, given, taken", [
    ((-(-MANY // LONG), LONG), {}, {}, True), ((-(-MANY // LONG), LONG), {"axis": 1}, {}, True),
    ((-(-MANY // LONG), LONG), {"axis": 0}, {}, False), ((-(-MANY // LONG), LONG), {"part": None}, {}, False),
    ((-(-MANY // LONG) - 1, LONG), {}, {}, False), ((MANY, LONG - 1), {}, {}, False),
    ((1, MANY), {}, {}, True), ((1, MANY - 1), {}, {}, False), ((MANY, LONG), {"mode": "inf_as_zero"}, {}, False),
    ((MANY, LONG), {}, {"dtypes": {"x": BF16}}, False), ((MANY, LONG), {}, {"dtypes": {"y": BF16}}, False),
    ((MANY, LONG), {}, {"gaps": "x"}, False), ((MANY, LONG), {}, {"gaps": "y"}, False),
    ((MANY, LONG), {}, {"reader": ("Tanh", "library")}, False), ((MANY, LONG), {}, {"reader": ("Tanh", "copy")}, True),
], key=as_one)  # fmt: skip
def test_last_softmax_of_long_rows(shape, attrs, given, taken):
    one = step("SoftMax", "x", "y", **{"axis": -1, **attrs})
    readers = [step(given["reader"][0], "y", "z", given["reader"][1])] if "reader" in given else []
    change = edit([one, *readers], dict.fromkeys("xyz", shape), dtypes=given.get("dtypes"))
    if gaps := given.get("gaps"):
        change.change(gaps, strides=tuple([2 * stride for stride in dense_of(shape)]))
    assert _is_taken(change.graph.steps[0], change) is taken


@grouped("kind, executor, follows", [
    ("MatMul", "library", True), ("Convolution", "library", True), ("Add", "library", False), ("", "library", False),
    ("MatMul", "vectors", False),
], key=as_one)  # fmt: skip
def test_steps_behind_products_of_the_library(kind, executor, follows):
    steps = [step(kind, "a b", "x", executor)] if kind else []
    change = edit([*steps, step("Tanh", "x", "y")], dict.fromkeys("abxy", (4, 4)))
    assert _follows_product(step("Tanh", "x", "y"), change.graph) is follows
    (made,) = TAKEN["Tanh"](step("Tanh", "x", "y"), change) or [None]
    assert (made is None) is follows
    assert made is None or (made.executor, [*made.attrs.values()]) == ("exact", ["tanh"])


@grouped("shapes, fixed, avx2, attrs, taken", [
    ({}, "", True, {}, (False, False)), ({}, "", False, {}, None), ({}, "a", True, {}, None), ({}, "b", True, {}, None),
    ({"a": (4,), "c": (4,)}, "", True, {}, None), ({}, "", True, {"transpose_a": True}, (True, False)),
    ({}, "", True, {"transpose_b": True}, (False, True)), ({}, "", True, {"inputs": "a b d"}, None),
    ({"c": (4,)}, "", True, {}, None),
], key=as_one)  # fmt: skip
def test_matrices_of_open_sizes(shapes, fixed, avx2, attrs, taken, monkeypatch):
    monkeypatch.setattr("onegraph.compiler.passes.open_steps.has_avx2", lambda: avx2)
    attrs = dict(attrs)
    one = step("MatMul", attrs.pop("inputs", "a b"), "c", **attrs)
    shapes = {**dict.fromkeys("abcd", (4, 4)), **shapes}
    change = edit([one], shapes, constants={name: np.ones((4, 4)) for name in fixed})
    made = TAKEN["MatMul"](change.graph.steps[0], change)
    assert [(each.attrs["turned_src"], each.attrs["turned"]) for each in made] == ([] if taken is None else [taken])


@grouped("maker, fixed, returned, behind", [
    (step("MatMul", "a w b", "x"), "wb", "", True), (step("MatMul", "a w b", "x"), "w", "", False),
    (step("MatMul", "a w b", "x"), "b", "", False), (step("MatMul", "a w", "x"), "w", "x", False),
    (step("MatMul", "a w", "x"), "w", "", True), (step("Add", "a w", "x"), "w", "", False),
    (step("MatMul", "a w", "x", "vectors"), "w", "", False), (None, "", "", False),
], key=as_one)  # fmt: skip
def test_clamps_of_products_with_constants(maker, fixed, returned, behind):
    clamp = step("Clamp", "x", "y", min=0.0, max=1.0)
    fixed = {name: np.ones((4, 4)) for name in fixed}
    steps = [one for one in (maker, clamp) if one]
    graph = lowered(steps, dict.fromkeys("awbxy", (4, 4)), constants=fixed, returned=returned)
    assert _is_behind_product(graph, clamp) is behind


NORM = "BatchNormForwardTraining"


@grouped("kind, executor, reads, dtypes, gaps, returned, found", [
    (NORM, "library", "n", {}, "", "", True), ("BatchNormInference", "library", "n", {}, "", "", False),
    (NORM, "reference", "n", {}, "", "", False), (NORM, "library", "v", {}, "", "", False),
    (NORM, "library", "n", {"m": BF16}, "", "", False), (NORM, "library", "n", {"v": BF16}, "", "", False),
    (NORM, "library", "n", {"x": BF16}, "", "", True), (NORM, "library", "n", {}, "m", "", False),
    (NORM, "library", "n", {}, "v", "", False), (NORM, "library", "n", {}, "", "n", False),
    (NORM, "library", "other", {}, "", "", False),
], key=as_one)  # fmt: skip
def test_relus_of_normalized_numbers(kind, executor, reads, dtypes, gaps, returned, found):
    relu = step("ReLU", reads, "y")
    steps, shapes = [step(kind, "x m", "n v", executor), relu], {**dict.fromkeys("xny", (2, 3)), "m": (3,), "v": (3,)}
    graph = lowered(steps, {**shapes, "other": (2, 3)}, dtypes=dtypes, returned=returned)
    for name in gaps:
        graph.values[name] = graph.values[name]._replace(strides=(2,))
    assert _is_normalized(relu, graph) is found


# Files ----------------------------------------------------------------------------------------------------------------


def panels(change, one):
    return panel_convolutions._made(change, one)


def tiles(change, one):
    return winograd._Transforms(change, Options())._constant_weights(one)


def panels_of_tiles(change, one):
    return winograd._Transforms(change, Options())._panels(one)


def skewed(change, one):
    return product_weights._skewed(change, "w", "rows")


def joined(change, one):
    return narrow_groups._joined(change, one)


def repeated(change, one):
    groups = packed_weights.Groups(32, 16, 2)
    return packed_weights._repeated(lambda: change.values["w"].constant, groups)


@pytest.mark.parametrize(
    "made", [panels, tiles, panels_of_tiles, skewed, joined, repeated], ids=lambda one: one.__name__
)
def test_memory_of_weights_is_given_back_where_others_stand_for_them(made, monkeypatch):
    given = []
    for module in (packed_weights, narrow_groups, panel_convolutions, product_weights, winograd):
        monkeypatch.setattr(module, "give_back", given.extend)
    monkeypatch.setattr(product_weights, "weights_in", lambda layout, array: array.copy())
    monkeypatch.setattr(narrow_groups, "GROUPS", SimpleNamespace(of=lambda *_: True))
    is_grouped = made is joined
    shapes = {"x": (1, 6, 6, 16), "w": (3, 3, 4 if is_grouped else 16, 16), "y": (1, 4, 4, 16)}
    shapes |= {"w": (2, 1)} if made is repeated else {}
    one = step(
        "Convolution", "x w", "y", groups=4 if is_grouped else 1, data_format="NXC", weights_format="XIO", **ONES
    )
    change = edit([one], shapes, constants={"w": np.ones(shapes["w"])})
    assert made(change, change.graph.steps[0]) is not None
    assert [array is change.values["w"].constant for array in given] == [True]


def test_memory_of_constants_is_given_back_where_others_are_computed(monkeypatch):
    given = []
    for module in (lazy_constants, normalized_weights):
        monkeypatch.setattr(module, "give_back", lambda arrays: given.extend(map(np.shape, arrays)))
    monkeypatch.setattr(normalized_weights, "faults_of", lambda *_: ())
    g = og.Graph()
    weights = g.static_transpose(g.constant(np.ones((8, 4, 3, 3), np.float32)), order=(2, 3, 1, 0))
    y = g.convolution(g.input("x", F32, (1, 6, 6, 4)), weights, **{name: [*each] for name, each in ONES.items()})
    rows = [g.constant(np.full(8, number, np.float32)) for number in (1, 2, 3, 4)]
    g.output("y", g.batch_norm_inference(y, *rows, epsilon=1e-3))
    folded = run_passes(lower(g), Options(), ["constants"])
    assert [one.kind for one in folded.steps] == ["Convolution"]
    assert given == [(8, 4, 3, 3), (3, 3, 4, 8), *[(8,)] * 4]
