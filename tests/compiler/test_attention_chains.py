"""What lies around the SoftMax of attention: one chain of steps of each form, and others that differ in one field."""

import numpy as np
from helpers.grouped import grouped
from helpers.small_lowered import as_one, kinds, label, lowered, step

import onegraph as og
from onegraph.compiler.passes.attention_scores import Scores, unscaled, with_sinks
from onegraph.compiler.passes.attention_views import _shared, before_joining, is_view, joined_shape
from onegraph.compiler.passes.changing_attention import _behind, _exact, _fit, _fits_scores, _has_few_queries

INF = float("inf")
S, LONGER = (1, 2, 3, 4), (1, 2, 3, 5)


# A column of scores of a key without a value --------------------------------------------------------------------------

JOINED = {
    "wide": step("Expand", "sink", "column"),
    "join": step("Concat", "scores column", "whole", axis=-1),
    "largest": step("ReduceMax", "whole", "most", axes=(-1,), keep_dims=True),
    "less": step("Subtract", "whole most", "logits"),
    "softmax": step("SoftMax", "logits", "shares", axis=-1),
}
SHAPES = {"sink": (1, 2, 1, 1), "column": (1, 2, 3, 1), "scores": S, "most": (1, 2, 3, 1)}
SHAPES |= dict.fromkeys(("whole", "logits", "shares", "other", "beside"), LONGER)
PLAIN = {"largest": None, "less": None, "softmax": step("SoftMax", "whole", "shares", axis=-1)}
FULL = "sink", "Concat ReduceMax Subtract"


@grouped(
    "changes, shapes, returned, found",
    [
        ({}, {}, "", FULL),
        (PLAIN, {}, "", ("sink", "Concat")),
        (PLAIN, {}, "whole", None),
        ({**PLAIN, "reader": step("Tanh", "whole", "other")}, {}, "", None),
        ({"less": step("Subtract", "whole most", "logits", part=None)}, {}, "", None),
        ({"less": step("Subtract", "most whole", "logits")}, {}, "", None),
        ({"less": step("Add", "whole most", "logits")}, {}, "", None),
        ({"largest": step("ReduceMean", "whole", "most", axes=(-1,), keep_dims=True)}, {}, "", None),
        ({"largest": step("ReduceMax", "whole", "most", axes=(-1,), keep_dims=True, part=None)}, {}, "", None),
        ({"largest": step("ReduceMax", "beside", "most", axes=(-1,), keep_dims=True)}, {}, "", None),
        (
            {
                "largest": step("ReduceMax", "beside", "most", axes=(-1,), keep_dims=True),
                "reader": step("Tanh", "whole", "other"),
            },
            {},
            "",
            None,
        ),
        ({"largest": None}, {}, "", None),
        ({"reader": step("Tanh", "most", "other")}, {}, "", None),
        ({}, {}, "most", None),
        ({}, {}, "whole", None),
        ({"reader": step("Tanh", "whole", "other")}, {}, "", None),
        ({"largest": step("ReduceMax", "whole", "most", axes=(3,), keep_dims=True)}, {}, "", FULL),
        ({"largest": step("ReduceMax", "whole", "most", axes=(2,), keep_dims=True)}, {}, "", None),
        ({"largest": step("ReduceMax", "whole", "most", axes=(2, 3), keep_dims=True)}, {}, "", None),
        ({"largest": step("ReduceMax", "whole", "most", axes=(-1,), keep_dims=False)}, {}, "", None),
        ({"largest": step("ReduceMax", "whole", "most", axes=(-1,))}, {}, "", None),
        ({"join": step("Add", "scores column", "whole", axis=-1)}, {}, "", None),
        ({"join": step("Concat", "scores column", "whole", axis=-1, part=None)}, {}, "", None),
        ({"join": step("Concat", "scores column column", "whole", axis=-1)}, {}, "", None),
        ({"join": step("Concat", "scores", "whole", axis=-1)}, {}, "", None),
        ({"join": None}, {}, "", None),
        ({"join": step("Concat", "scores column", "whole", axis=3)}, {}, "", FULL),
        ({"join": step("Concat", "scores column", "whole", axis=2)}, {}, "", None),
        (PLAIN, {"scores": (2, 3, 4)}, "", None),
        ({}, {"scores": (1, 1, 2, 3, 4), "whole": (1, 1, 2, 3, 5)}, "", None),
        ({}, {"column": (1, 2, 3, 2)}, "", None),
        ({}, {}, "scores", None),
        ({"reader": step("Tanh", "scores", "other")}, {}, "", None),
        ({"wide": step("Tile", "sink", "column")}, {}, "", ("column", FULL[1])),
        ({"wide": None}, {}, "", ("column", FULL[1])),
        ({}, {"sink": (2, 1, 1)}, "", ("column", FULL[1])),
    ],
    key=as_one,
)
def test_sinks_are_the_last_column_of_the_scores(changes, shapes, returned, found):
    steps = {**JOINED, **changes}
    graph = lowered(filter(None, steps.values()), {**SHAPES, **shapes}, returned=returned.split())
    softmax = next(one for one in graph.steps if one.kind == "SoftMax")
    sinks = with_sinks(graph, softmax)
    assert (None if sinks is None else (sinks.sink, kinds(sinks.members))) == found
    assert sinks is None or sinks.scores == "scores"


# From the product to the SoftMax --------------------------------------------------------------------------------------

OF_SCORES = {"p": S, "mask": (3, 4), "rows": (1, 2, 3, 1), "columns": (1, 1, 1, 4), "few": (1, 1, 6, 4), "vector": (1,)}
OF_SCORES |= {**dict.fromkeys("abcdqk", S), **dict.fromkeys(("given", "again"), ()), "five": (1, 1, 2, 3, 4)}
NUMBERS = {"half": 0.5, "two": 2.0, "zero": 0.0, "endless": INF, "hidden": -1e9, "least": -INF, "nan": np.nan}
NUMBERS |= {"vast": -INF}
FALSE, TRUE = "where_false", "where_true"


@grouped("steps, number, members, mask, numbers",
    [
        ([], "p", "", "", {}),
        ([step("Add", "p mask", "a")], "p", "Add", "mask", {}),
        ([step("Add", "mask p", "a")], "p", "Add", "mask", {}),
        ([step("Tanh", "p", "a"), step("Add", "a b", "c")], "p", "Add Tanh", "b", {"limit": 1.0}),
        ([step("Tanh", "p", "a"), step("Add", "b a", "c")], "p", "Add Tanh", "b", {"limit": 1.0}),
        ([step("Exp", "p", "a"), step("Exp", "p", "b"), step("Add", "a b", "c")], "a", "Add", "b", {}),
        ([step("Exp", "p", "a"), step("Exp", "columns", "rows"), step("Add", "rows a", "c")], "a", "Add", "rows", {}),
        ([step("Add", "rows columns", "a")], "a", "", "", {}),
        ([step("Add", "p mask", "a", part=None)], "a", "", "", {}),
        ([step("Subtract", "p mask", "a")], "a", "", "", {}),
        ([step("Where", "mask p hidden", "a")], "p", "Where", "mask", {"hidden": -1e9, "selects": FALSE}),
        ([step("Select", "mask p least", "a")], "p", "Select", "mask", {"hidden": -INF, "selects": FALSE}),
        ([step("Where", "mask zero p", "a")], "p", "Where", "mask", {"hidden": 0.0, "selects": TRUE}),
        ([step("Where", "mask endless p", "a")], "a", "", "", {}),
        ([step("Where", "mask p nan", "a")], "a", "", "", {}),
        ([step("Where", "mask p b", "a")], "a", "", "", {}),
        ([step("Where", "mask rows hidden", "a")], "a", "", "", {}),
        ([step("Where", "mask hidden rows", "a")], "a", "", "", {}),
        ([step("Where", "mask hidden zero", "a")], "a", "", "", {}),
        ([step("Exp", "mask p hidden", "a")], "a", "", "", {}),
        ([step("Multiply", "p half", "a")], "p", "Multiply", "", {"scale": 0.5}),
        ([step("Multiply", "half p", "a")], "p", "Multiply", "", {"scale": 0.5}),
        ([step("Divide", "p two", "a")], "p", "Divide", "", {"scale": 0.5}),
        ([step("Divide", "half p", "a")], "a", "", "", {}),
        ([step("Multiply", "p half", "a", part=None)], "a", "", "", {}),
        ([step("Multiply", "p zero", "a")], "a", "", "", {}),
        ([step("Multiply", "p endless", "a")], "a", "", "", {}),
        ([step("Multiply", "p vast", "a")], "a", "", "", {}),
        ([step("Multiply", "rows half", "a")], "a", "", "", {}),
        ([step("Maximum", "p half", "a")], "a", "", "", {}),
        ([step("Multiply", "p half", "a"), step("Divide", "a half", "b"), step("Multiply", "b two", "c")],
         "p", "Multiply Divide Multiply", "", {"scale": 2.0}),
        ([step("Multiply", "p given", "a")], "p", "Multiply", "", {"factor": "given"}),
        ([step("Multiply", "given p", "a")], "p", "Multiply", "", {"factor": "given"}),
        ([step("Divide", "p given", "a")], "a", "", "", {}),
        ([step("Multiply", "p given", "a", part=None)], "a", "", "", {}),
        ([step("Multiply", "p vector", "a")], "a", "", "", {}),
        ([step("Multiply", "p again", "a"), step("Multiply", "a given", "b")],
         "a", "Multiply", "", {"factor": "given"}),
        ([step("Multiply", "p half", "a"), step("Tanh", "a", "b"), step("Multiply", "b two", "c")],
         "p", "Multiply Tanh Multiply", "", {"scale": 0.5, "limit": 2.0}),
        ([step("Multiply", "p half", "a"), step("Tanh", "a", "b"), step("Add", "b mask", "c")],
         "p", "Add Tanh Multiply", "mask", {"scale": 0.5, "limit": 1.0}),
        ([step("Tanh", "p", "a"), step("Tanh", "a", "b")], "a", "Tanh", "", {"limit": 1.0}),
        ([step("Exp", "p", "a")], "a", "", "", {}),
        ([step("Tanh", "p", "a", part=None)], "a", "", "", {}),
        ([step("Tanh", "p", "a"), step("Multiply", "a given", "b")], "a", "Multiply", "", {"factor": "given"}),
        ([step("Multiply", "p given", "a"), step("Tanh", "a", "b")],
         "p", "Tanh Multiply", "", {"limit": 1.0, "factor": "given"}),
        ([step("StaticReshape", "few", "a")], "few", "StaticReshape", "", {"joint": S}),
        ([step("StaticReshape", "p", "few"), step("StaticReshape", "few", "a")],
         "few", "StaticReshape", "", {"joint": S}),
        ([step("StaticReshape", "five", "a")], "a", "", "", {}),
        ([step("Tanh", "p", "few"), step("StaticReshape", "few", "a")], "few", "StaticReshape", "", {"joint": S}),
        ([step("Multiply", "few half", "d"), step("StaticReshape", "d", "a"), step("Add", "mask a", "b")],
         "d", "Add StaticReshape", "mask", {"joint": S}),
    ],
    key=as_one,
    label=label,
)  # fmt: skip
def test_scores_are_followed_back_to_the_product(steps, number, members, mask, numbers):
    last = steps[-1].outputs[0] if steps else "p"
    product = step("MatMul", "q k", "p")
    shapes = OF_SCORES | dict.fromkeys(NUMBERS, ()) | {"shares": S}
    graph = lowered([product, *steps, step("SoftMax", last, "shares")], shapes, constants=NUMBERS)
    scores = Scores(graph, last)
    assert (scores.number, kinds(scores.members), " ".join(scores.mask)) == (number, members, mask)
    assert (scores.joint, scores.factor) == (numbers.get("joint", ()), numbers.get("factor"))
    scale, limit = numbers.get("scale", 1.0), numbers.get("limit", 0.0)
    wanted = {"scale": scale * (limit or 1.0), "masked": bool(mask), **({"softcap": limit} if limit else {})}
    wanted |= {name: numbers[name] for name in ("hidden", "selects") if name in numbers}
    assert scores.numbers(1.0) == wanted


def test_scores_that_others_read_are_the_product():
    shapes = {"p": S, "mask": (3, 4), **dict.fromkeys(("a", "shares", "other", "q", "k"), S)}
    steps = [step("MatMul", "q k", "p"), step("Add", "p mask", "a"), step("SoftMax", "a", "shares")]
    assert Scores(lowered(steps, shapes, returned=["a"]), "a").number == "a"
    assert Scores(lowered([*steps, step("Tanh", "a", "other")], shapes), "a").number == "a"
    assert Scores(lowered(steps, shapes), "a").number == "p"
    steps = [step("MatMul", "q k", "other"), step("Tanh", "other", "p"), *steps[1:]]
    assert Scores(lowered(steps, shapes), "a").number == "other"
    assert Scores(lowered(steps, shapes, returned=["p"]), "a").number == "a"


@grouped("kind, inputs, found", [
    ("Multiply", "p half", ("p", 0.5)), ("Multiply", "half p", ("p", 0.5)), ("Divide", "p half", ("p", 2.0)),
    ("Divide", "half p", ("a", 1.0)), ("Multiply", "half two", ("a", 1.0)), ("Add", "p half", ("a", 1.0)),
], key=as_one)  # fmt: skip
def test_factors_of_a_value_for_one_reader(kind, inputs, found):
    shapes = {"p": S, "a": S, "half": (), "two": (), "y": S}
    steps = [step(kind, inputs, "a"), step("MatMul", "a", "y")]
    graph = lowered(steps, shapes, constants={"half": 0.5, "two": 2.0})
    assert unscaled(graph, "a") == found
    assert unscaled(lowered(steps, shapes, constants={"half": 0.5}, returned=["a"]), "a") == ("a", 1.0)
    assert unscaled(graph, "p") == ("p", 1.0)


# From the SoftMax to the product --------------------------------------------------------------------------------------

SOFTMAX = step("SoftMax", "logits", "shares", axis=-1)
VALUES = dict.fromkeys(("logits", "shares", "whole", "narrow", "b", "c", "y", "other"), S) | {"few": (1, 1, 6, 4)}
VALUES |= {"v": (1, 2, 4, 8), "zero": (), "one": (), "start": (1,), "end": (1,), "axis": (1,), "cut": (1, 2, 3, 3)}
PRODUCT = step("MatMul", "shares v", "y")
REPLACED = [step("ReplaceNaN", "shares zero", "b"), step("MatMul", "b v", "y")]
ROUNDED = [step("TypeCast", "shares", "narrow"), step("TypeCast", "narrow", "b"), step("MatMul", "b v", "y")]
CUT = [step("Slice", "shares start end axis", "cut"), step("MatMul", "cut v", "y")]
SHAPED = [step("StaticReshape", "shares", "few"), step("MatMul", "few v", "y")]
KEEPS, LOSES = "SoftMax", "SoftMax ReplaceNaN"


@grouped(
    "steps, options, found",
    [
        ([SOFTMAX, PRODUCT], {}, (KEEPS, True)),
        ([step("SoftMax", "logits", "shares", axis=3), PRODUCT], {}, (KEEPS, True)),
        ([step("SoftMax", "logits", "shares", axis=2), PRODUCT], {}, None),
        ([step("SoftMax", "logits", "shares"), PRODUCT], {}, None),
        ([step("SoftMax", "logits", "shares"), PRODUCT], {"shapes": {"shares": (6, 4)}}, (KEEPS, True)),
        ([SOFTMAX, *REPLACED], {}, (LOSES, False)),
        ([SOFTMAX, step("ReplaceNaN", "shares one", "b"), REPLACED[1]], {}, None),
        ([SOFTMAX, step("Maximum", "shares zero", "b"), REPLACED[1]], {}, None),
        ([SOFTMAX, *ROUNDED], {"roundings": frozenset()}, ("SoftMax TypeCast TypeCast", True)),
        ([SOFTMAX, *ROUNDED], {}, None),
        ([SOFTMAX, ROUNDED[0], step("MatMul", "narrow v", "y")], {"roundings": frozenset()}, None),
        ([SOFTMAX, ROUNDED[0], step("Tanh", "narrow", "b"), ROUNDED[2]], {"roundings": frozenset()}, None),
        ([SOFTMAX, step("Tanh", "shares", "narrow"), *ROUNDED[1:]], {"roundings": frozenset()}, None),
        ([SOFTMAX, *ROUNDED], {"roundings": frozenset(), "returned": ["narrow"]}, None),
        ([SOFTMAX, *CUT], {"has_sinks": True}, ("SoftMax Slice", True)),
        ([SOFTMAX, *CUT], {}, None),
        ([SOFTMAX, PRODUCT], {"has_sinks": True}, None),
        ([SOFTMAX], {"has_sinks": True}, None),
        ([SOFTMAX, *SHAPED], {"joins": True}, ("SoftMax StaticReshape", True)),
        ([SOFTMAX, *SHAPED], {}, None),
        ([SOFTMAX, PRODUCT], {"joins": True}, (KEEPS, True)),
        ([SOFTMAX], {"joins": True}, None),
        ([SOFTMAX], {}, None),
        ([SOFTMAX, step("MatMul", "v shares", "y")], {}, None),
        ([SOFTMAX, step("MatMul", "shares v", "y", part=None)], {}, None),
        ([SOFTMAX, step("MatMul", "shares v", "y", transpose_a=True)], {}, None),
        ([SOFTMAX, step("MatMul", "shares v", "y", transpose_b=True)], {}, None),
        ([SOFTMAX, step("Add", "shares v", "y")], {}, None),
        ([SOFTMAX, step("MatMul", "shares shares", "y")], {}, None),
        ([SOFTMAX, PRODUCT], {"returned": ["shares"]}, None),
        ([SOFTMAX, PRODUCT, step("Tanh", "shares", "other")], {}, None),
    ],
    key=as_one,
    label=label,
)
def test_shares_are_followed_to_the_product_with_the_values(steps, options, found):
    options = {"has_sinks": False, "joins": False, "shapes": {}, "roundings": None, "returned": (), **options}
    constants = {"zero": 0.0, "one": 1.0, "start": [0], "end": [3], "axis": [3]}
    own = {"returned": options.pop("returned"), "roundings": options.pop("roundings")}
    graph = lowered(steps, VALUES | options.pop("shapes"), constants=constants, **own)
    behind = _behind(graph, graph.steps[0], **options)
    assert (None if behind is None else (kinds(behind.members), behind.is_plain)) == found
    assert behind is None or behind.product == graph.steps[-1]


# Heads ----------------------------------------------------------------------------------------------------------------

APART = step("Unsqueeze", "own", "apart")
WIDE, HEADS = step("Expand", "apart", "wide"), step("StaticReshape", "wide", "heads")
SHARED = {"own": (1, 2, 9, 8), "apart": (1, 2, 1, 9, 8), "wide": (1, 2, 3, 9, 8), "heads": (1, 6, 9, 8)}


@grouped(
    "steps, shapes, is_shared",
    [
        ([APART, WIDE, HEADS], {}, True),
        ([step("StaticReshape", "own", "apart"), step("Tile", "apart", "wide"), HEADS], {}, True),
        ([step("Tanh", "own", "apart"), WIDE, HEADS], {}, False),
        ([WIDE, HEADS], {}, False),
        ([APART, step("Add", "apart", "wide"), HEADS], {}, False),
        ([APART, HEADS], {}, False),
        ([APART, WIDE, step("Tanh", "wide", "heads")], {}, False),
        ([APART, WIDE], {}, False),
        ([APART, WIDE, HEADS], {"apart": (1, 1, 2, 9, 8)}, False),
        ([APART, WIDE, HEADS], {"wide": (1, 2, 3, 72), "heads": (1, 6, 72)}, False),
        ([APART, WIDE, HEADS], {"wide": (1, 1, 1, 2, 3, 9, 8)}, False),
        (
            [APART, WIDE, HEADS],
            {"own": (1, 2, 8), "apart": (1, 2, 1, 8), "wide": (1, 2, 3, 8), "heads": (1, 6, 8)},
            False,
        ),
        ([APART, WIDE, HEADS], {"wide": (1, 2, 3, 9, 16)}, False),
        ([APART, WIDE, HEADS], {"wide": (2, 2, 3, 9, 8)}, False),
        ([APART, WIDE, HEADS], {"heads": (1, 2, 27, 8)}, False),
        ([APART, WIDE, HEADS], {"heads": (6, 1, 9, 8)}, False),
        ([APART, WIDE, HEADS], {"heads": (1, 6, 8, 9)}, False),
    ],
    key=as_one,
    label=label,
)
def test_heads_are_read_before_they_are_repeated(steps, shapes, is_shared):
    assert _shared(lowered(steps, SHARED | shapes), "heads") == (("own", 3) if is_shared else ("heads", 1))


@grouped("shape, joined", [
    ((2, 3, 5, 7, 8), (2, 15, 7, 8)), ((3, 5, 7, 8), (1, 15, 7, 8)), ((5, 7, 8), (1, 5, 7, 8)),
], key=as_one)  # fmt: skip
def test_heads_of_groups_become_one_axis(shape, joined):
    assert joined_shape(shape) == joined


@grouped("kind, before, after, found", [
    ("Unsqueeze", (1, 6, 4, 5), (1, 2, 3, 4, 5), "before"), ("StaticReshape", (1, 6, 4, 5), (1, 2, 3, 4, 5), "before"),
    ("Tanh", (1, 6, 4, 5), (1, 2, 3, 4, 5), None), ("Unsqueeze", (1, 2, 12, 5), (1, 2, 3, 4, 5), None),
], key=as_one)  # fmt: skip
def test_values_before_their_heads_are_two_axes(kind, before, after, found):
    graph = lowered([step(kind, "before", "after")], {"before": before, "after": after})
    assert (before_joining(graph, "after"), before_joining(graph, "before")) == (found, None)


@grouped("one, found", [
    (step("StaticTranspose", "a", "b"), True), (step("StaticTranspose", "a", "b", part=None), False),
    (step("StaticReshape", "a", "b"), False), (None, False),
], key=as_one)  # fmt: skip
def test_views_are_transposes_of_the_library(one, found):
    assert is_view(one) is found


# Shapes that the kernel takes -----------------------------------------------------------------------------------------

FOUR, FIVE = (2, 4, 3, 5), (2, 2, 3, 4, 5)
B = og.boolean


@grouped("mask, dtype, scores, kind, fits", [
    ((3, 5), og.f32, FOUR, "", True), ((1, 1, 1, 5), og.f32, FOUR, "", True), (FOUR, B, FOUR, "", True),
    ((3, 1), B, FOUR, "", True), ((4, 5), og.f32, FOUR, "", False), ((2, 3, 5), og.f32, FOUR, "", False),
    ((4, 5), og.f32, FIVE, "", True), (FIVE, og.f32, FIVE, "", True), ((2, 1, 1, 4, 5), og.f32, FIVE, "", True),
    ((2, 2, 1, 4, 5), og.f32, FIVE, "", False), ((1, 3, 4, 5), og.f32, FIVE, "", False),
    ((2, 3, 4, 5), og.f32, FIVE, "", True), ((3, 4, 5), og.f32, FIVE, "", False),
    ((4, 5), B, FIVE, "", True), ((1, 4, 5), B, FIVE, "", True), ((1, 1, 4, 5), B, FIVE, "", True),
    ((2, 3, 4, 5), B, FIVE, "", False), ((1, 1, 1, 4, 5), B, FIVE, "", False),
    ((1, 1, 1, 4, 5), B, FIVE, "Unsqueeze", True), ((1, 1, 1, 4, 5), B, FIVE, "Tanh", False),
], key=as_one)  # fmt: skip
def test_masks_are_broadcast_to_scores(mask, dtype, scores, kind, fits):
    steps = [step(kind, "before", "mask")] if kind else []
    graph = lowered(steps, {"before": (1, 1, 4, 5), "mask": mask}, dtypes={"mask": dtype, "before": dtype})
    assert _fits_scores(graph, "mask", scores) is fits


@grouped("q, k, v, s, mask, turned, fits", [
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), FOUR, (), True, True),
    ((2, 4, 3, 8), (2, 4, 8, 5), (2, 4, 5, 9), FOUR, (), False, True),
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), FOUR, (), False, False),
    ((2, 4, 3, 8), (2, 4, 8, 5), (2, 4, 5, 9), FOUR, (), True, False),
    ((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 9), FOUR, (), True, True),
    ((2, 4, 3, 8), (2, 3, 5, 8), (2, 3, 5, 9), FOUR, (), True, False),
    ((2, 4, 3, 8), (2, 2, 5, 8), (2, 4, 5, 9), FOUR, (), True, False),
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 6, 9), FOUR, (), True, False),
    ((2, 4, 3, 8), (1, 4, 5, 8), (1, 4, 5, 9), FOUR, (), True, False),
    ((4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), FOUR, (), True, False),
    ((2, 4, 3, 8), (2, 2, 8), (2, 2, 9), (2, 4, 3, 2), (), True, False),
    ((2, 4, 3, 8), (4, 5, 8), (4, 5, 9), FOUR, (), True, False),
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), (2, 4, 3, 6), (), True, False),
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), (2, 1, 3, 5), (), True, False),
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), FOUR, (3, 5), True, True),
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 9), FOUR, (4, 5), True, False),
    ((2, 2, 3, 4, 8), (2, 2, 1, 5, 8), (2, 2, 1, 5, 9), FIVE, (), True, True),
    ((2, 2, 3, 4, 8), (2, 1, 1, 5, 8), (2, 1, 1, 5, 9), FIVE, (), True, False),
    ((2, 2, 3, 4, 8), (2, 2, 3, 5, 8), (2, 2, 3, 5, 9), FIVE, (), True, False),
], key=as_one)  # fmt: skip
def test_queries_keys_and_values_that_fit(q, k, v, s, mask, turned, fits):
    graph = lowered([], {"k": k, "v": v, "mask": mask})
    assert _fit(graph, q, "k", "v", s, ("mask",) if mask else (), turned) is fits


@grouped("queries, keys, few", [(16, 64, True), (17, 64, False), (16, 63, False)], key=as_one)
def test_few_queries_read_many_keys(queries, keys, few):
    graph = lowered([], {"q": (2, 64, queries, 99), "k": (2, 64, 99, keys), "v": (2, 1, keys, 1)})
    assert _has_few_queries(graph, step("attention", "q k v", "y")) is few


def test_keys_are_read_before_a_cast():
    graph = lowered([step("TypeCast", "k", "wide"), step("Tanh", "wide", "y")], {"k": S, "wide": S, "y": S})
    assert [_exact(graph, name) for name in ("wide", "y", "k")] == ["k", "y", "k"]
