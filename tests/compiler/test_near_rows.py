"""What the compiler asks of steps behind others, of their rows, memory and numbers: each answer with its neighbours."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.small_lowered import as_one, edit, kinds, label, lowered, step

import onegraph as og
from onegraph.compiler import code_tails, growing_concats, independent_rows, row_leaks, structure, view_places
from onegraph.compiler.codings import PLAIN, Coding
from onegraph.compiler.epilogues import epilogue_of, slope_of
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.code_product import MOST_STEPS
from onegraph.compiler.kernels.norm_relu import NORMALIZED
from onegraph.compiler.passes import magnitudes, pointwise
from onegraph.compiler.passes.row_leaks import LEAKS, SPREADS
from onegraph.compiler.passes.special_values import BOUNDED
from onegraph.compiler.rounded_rows import BY_KIND, RoundedRows

BF16, F32, U8, S8 = og.bf16, og.f32, og.u8, og.s8
ROWS = (2, 3, 4)


def with_gaps(graph, names):
    for name in names.split():
        value = graph.values[name]
        graph.values[name] = value._replace(strides=tuple([2 * stride for stride in value.strides]))
    return graph


# Behind convolutions --------------------------------------------------------------------------------------------------

CONV = step("Convolution", "x w", "y")
BIASED = step("BiasAdd", "y b", "z", data_format="NXC")
RELU, BEHIND = step("ReLU", "y", "r"), step("ReLU", "z", "r")
LEAKY = step("LeakyReLU", "z", "r", op_attrs={"alpha": 0.25})


@grouped(
    "steps, fixed, returned, members, bias, slope",
    [
        ([CONV], "b", "", "", None, 1.0),
        ([CONV, BIASED], "b", "", "BiasAdd", "b", 1.0),
        ([CONV, RELU], "b", "", "ReLU", None, 0.0),
        ([CONV, BIASED, BEHIND], "b", "", "BiasAdd ReLU", "b", 0.0),
        ([CONV, BIASED, LEAKY], "b", "", "BiasAdd LeakyReLU", "b", 0.25),
        ([CONV, BIASED, BEHIND], "b", "z", "BiasAdd", "b", 1.0),
        ([CONV, BIASED, BEHIND], "b", "y", "", None, 1.0),
        ([CONV, BIASED, BEHIND], "", "", "", None, 1.0),
        ([CONV, BIASED, step("Tanh", "z", "r")], "b", "", "BiasAdd", "b", 1.0),
        ([CONV, step("BiasAdd", "y b", "z", data_format="NCX"), BEHIND], "b", "", "", None, 1.0),
        ([CONV, step("BiasAdd", "y b", "z", part=None, data_format="NXC")], "b", "", "", None, 1.0),
        ([CONV, step("BiasAdd", "y b", "z", "reference", data_format="NXC")], "b", "", "", None, 1.0),
        ([CONV, step("ReLU", "y", "r", "exact")], "b", "", "", None, 1.0),
        ([step("Convolution", "x w b", "y"), BIASED, BEHIND], "b", "", "", "b", 1.0),
        ([step("Convolution", "x w b", "y"), RELU], "b", "", "ReLU", "b", 0.0),
        ([step("Convolution", "x w b", "y"), RELU], "", "", "ReLU", "b", 0.0),
        ([CONV, RELU, step("BiasAdd", "r b", "z", data_format="NXC")], "b", "", "ReLU", None, 0.0),
    ],
    key=as_one,
    label=label,
)
def test_ops_that_a_kernel_computes_behind_a_convolution(steps, fixed, returned, members, bias, slope):
    shapes = {**dict.fromkeys("xyzr", (1, 6, 6, 4)), "w": (3, 3, 4, 4), "b": (4,)}
    fixed = {name: np.ones(4) for name in fixed}
    change = edit(steps, shapes, constants=fixed, returned=returned)
    found = epilogue_of(change, change.graph.steps[0])
    assert (kinds(found.steps[1:]), found.bias, found.slope) == (members, bias, slope)
    assert found.result == found.steps[-1].outputs[0]


def test_slopes_of_activations():
    assert [slope_of(one) for one in (RELU, LEAKY, CONV)] == [0.0, 0.25, 1.0]


# Behind products of codes ---------------------------------------------------------------------------------------------

PRODUCT, CODED = step("MatMul", "a w", "y"), step("Quantize", "z", "q", scales=(0.5,), zps=(3,))
SHAPES = {**dict.fromkeys("ayzrqm", (2, 4)), "w": (4, 4), "row": (4,), "one": (1,), "column": (2, 1), "wide": (3, 2, 4)}
ADD = step("Add", "y row", "z")


@grouped(
    "steps, given, names, operands, slope, result",
    [
        ([PRODUCT], {}, "", "", 1.0, "y"),
        ([step("MatMul", "a w row", "y")], {}, "add", "row", 1.0, "y"),
        ([PRODUCT, ADD], {}, "add", "row", 1.0, "z"),
        ([PRODUCT, step("Add", "row y", "z")], {}, "add", "row", 1.0, "z"),
        ([PRODUCT, step("Subtract", "y row", "z")], {}, "subtract", "row", 1.0, "z"),
        ([PRODUCT, step("Subtract", "row y", "z")], {}, "", "", 1.0, "y"),
        ([PRODUCT, step("Divide", "y one", "z")], {}, "divide", "one", 1.0, "z"),
        ([PRODUCT, step("Divide", "one y", "z")], {}, "", "", 1.0, "y"),
        ([PRODUCT, step("Multiply", "m y", "z")], {}, "multiply", "m", 1.0, "z"),
        ([PRODUCT, step("Maximum", "y m", "z")], {}, "", "", 1.0, "y"),
        ([PRODUCT, step("Add", "y column", "z")], {}, "", "", 1.0, "y"),
        ([PRODUCT, ADD], {"has_rows": False}, "", "", 1.0, "y"),
        ([PRODUCT, step("Add", "y one", "z")], {"has_rows": False}, "add", "one", 1.0, "z"),
        ([PRODUCT, step("BiasAdd", "y row", "z", data_format="NXC")], {}, "add", "row", 1.0, "z"),
        ([PRODUCT, step("BiasAdd", "y row", "z", data_format="NCX")], {}, "", "", 1.0, "y"),
        ([PRODUCT, ADD], {"dtypes": {"z": BF16}}, "", "", 1.0, "y"),
        ([PRODUCT, ADD], {"gaps": "z"}, "", "", 1.0, "y"),
        ([PRODUCT, step("Add", "y m", "z")], {"gaps": "m"}, "", "", 1.0, "y"),
        ([PRODUCT, step("Add", "y wide", "z")], {"shapes": {"z": (3, 2, 4)}}, "", "", 1.0, "y"),
        ([PRODUCT, step("Add", "y row", "z", "reference")], {}, "", "", 1.0, "y"),
        ([PRODUCT, ADD], {"taken": [1]}, "", "", 1.0, "y"),
        ([PRODUCT, ADD], {"taken": [0]}, "add", "row", 1.0, "z"),
        ([PRODUCT, ADD], {"returned": "y"}, "", "", 1.0, "y"),
        ([PRODUCT, RELU], {}, "activate", "", 0.0, "r"),
        ([PRODUCT, RELU, step("ReLU", "r", "z")], {}, "activate", "", 0.0, "r"),
        ([PRODUCT, ADD, LEAKY], {}, "add activate", "row", 0.25, "r"),
        ([PRODUCT, ADD, CODED], {"dtypes": {"q": U8}}, "add", "row", 1.0, "q"),
        ([PRODUCT, ADD, CODED], {"dtypes": {"q": og.s32}}, "add", "row", 1.0, "z"),
        (
            [PRODUCT, ADD, step("Quantize", "z", "q", scales=(0.5, 1.0), zps=(3, 3))],
            {"dtypes": {"q": U8}},
            "add",
            "row",
            1.0,
            "z",
        ),
        (
            [PRODUCT, ADD, CODED, step("Dequantize", "q", "m", scales=(1.0,))],
            {"dtypes": {"q": U8}},
            "add",
            "row",
            1.0,
            "q",
        ),
    ],
    key=as_one,
    label=label,
)
def test_steps_that_a_kernel_computes_behind_a_product_of_codes(steps, given, names, operands, slope, result):
    shapes = {**SHAPES, **given.get("shapes", {})}
    change = edit(steps, shapes, dtypes=given.get("dtypes"), returned=given.get("returned", ""))
    for name in given.get("gaps", ""):
        change.change(name, strides=(8, 2))
    taken = {*given.get("taken", ())}
    before = set(taken)
    tail = code_tails.tail_of(change, change.graph.steps[0], taken, has_rows=given.get("has_rows", True))
    assert (" ".join(tail.names), " ".join(tail.operands), tail.slope, tail.result) == (names, operands, slope, result)
    assert tail.rounded == (Coding(0.5, 3) if result == "q" else PLAIN)
    assert taken == before | {one.id for one in tail.steps}
    factor, zero = (2.0, 3.0) if result == "q" else (1.0, 0.0)
    wanted = {"slope": slope, "factor": factor, "dst_zero": zero, "steps": (7, *names.split())}
    assert tail.attrs((7,)) == wanted


def test_a_kernel_computes_few_steps_behind_a_product():
    places = [f"s{place}" for place in range(MOST_STEPS + 2)]
    steps = [PRODUCT._replace(outputs=(places[0],))]
    steps += [step("Add", f"{first} one", second) for first, second in pairwise(places)]
    change = edit(steps, {**SHAPES, **dict.fromkeys(places, (2, 4))})
    assert len(code_tails.tail_of(change, change.graph.steps[0], set()).names) == MOST_STEPS
    assert code_tails.tail_of(edit([PRODUCT, ADD], SHAPES), PRODUCT, set()).names == ("add",)


# Steps that compute each row from the same row ------------------------------------------------------------------------


@grouped(
    "kind, attrs, shapes, fixed, is_by_row",
    [
        ("MatMul", {}, [(3, 4), (4, 5)], "b", True),
        ("MatMul", {}, [(3, 4), (4, 5)], "", False),
        ("MatMul", {}, [(3, 4), (1, 4, 5)], "b", False),
        ("MatMul", {"transpose_a": True}, [(4, 4), (4, 5)], "b", False),
        ("MatMul", {}, [(3, 4), (4, 5), (5,)], "bc", True),
        ("MatMul", {}, [(3, 4), (4, 5), (5,)], "b", False),
        ("BiasAdd", {}, [(3, 4), (4,)], "b", True),
        ("BiasAdd", {}, [(3, 4), (4,)], "", False),
        ("BiasAdd", {"data_format": "NCX"}, [(3, 4), (4,)], "b", False),
        ("BiasAdd", {"data_format": "NXC"}, [(3, 4), (4,)], "b", True),
        ("LayerNorm", {"begin_norm_axis": -1}, [(3, 4), (4,), (4,)], "bc", True),
        ("LayerNorm", {"begin_norm_axis": 1}, [(3, 4), (4,), (4,)], "bc", True),
        ("LayerNorm", {"begin_norm_axis": 0}, [(3, 4), (4,), (4,)], "bc", False),
        ("LayerNorm", {}, [(3, 4), (4,), (4,)], "bc", True),
        ("LayerNorm", {}, [(3, 4), (4,), (4,)], "b", False),
        ("LayerNorm", {"outputs": "y m v"}, [(3, 4)], "", False),
        ("LayerNorm", {}, [(3, 4)], "", True),
        ("SoftMax", {"axis": -1}, [(3, 4)], "", True),
        ("SoftMax", {"axis": 0}, [(3, 4)], "", False),
        ("SoftMax", {}, [(3, 4)], "", True),
        ("SoftMax", {}, [(3, 4, 5)], "", False),
        ("LogSoftmax", {}, [(3, 4, 5)], "", True),
        ("SoftMax", {"axis": -1, "outputs": "y m"}, [(3, 4)], "", False),
        ("LogSoftmax", {"axis": 1}, [(3, 4)], "", True),
        ("Quantize", {}, [(3, 4)], "", True),
        ("Quantize", {"qtype": "per_tensor"}, [(3, 4)], "", True),
        ("Dequantize", {"qtype": "per_channel"}, [(3, 4)], "", False),
        ("Quantize", {}, [(3, 4), (1,)], "", False),
        ("Add", {}, [(3, 4), (3, 4)], "", True),
        ("Add", {}, [(3, 4), (4,)], "b", True),
        ("Add", {}, [(3, 4), (3, 4)], "b", False),
        ("Add", {}, [(3, 4), (1, 4)], "b", True),
        ("Multiply", {}, [(3, 4), (3, 1)], "b", False),
        ("Add", {}, [(3, 4), ()], "b", True),
        ("ReLU", {}, [(3, 4)], "", True),
        ("TypeCast", {}, [(3, 4)], "", True),
        ("PReLU", {}, [(3, 4), (4,)], "b", None),
        ("ReLU", {"inputs": "a b"}, [(3, 4), (3, 4)], "", False),
        ("ReduceSum", {"axes": (1,)}, [(3, 4)], "", None),
    ],
    key=as_one,
)
def test_rows_of_a_result_depend_on_the_same_rows(kind, attrs, shapes, fixed, is_by_row):
    attrs, names = dict(attrs), "abc"[: len(shapes)]
    one = step(kind, attrs.pop("inputs", " ".join(names)), attrs.pop("outputs", "y"), **attrs)
    given = {**dict.fromkeys("ymv", (3, 4)), **dict(zip(names, shapes, strict=True))}
    graph = lowered([one], given, constants={name: np.ones(given[name]) for name in fixed})
    rule = BY_KIND.get(kind)
    values = [graph.values[number] for number in one.inputs]
    assert (None if rule is None else rule(graph.steps[0], values)) is is_by_row


def rows_of(steps, shapes, *, fixed=(), gaps="", offsets="", read=(), **more):
    """What rounds the rows of a partition of these steps."""
    graph = with_gaps(lowered(steps, shapes, constants={name: np.ones(shapes[name]) for name in fixed}, **more), gaps)
    for name in offsets.split():
        graph.values[name] = graph.values[name]._replace(offset=1)
    schedule = SimpleNamespace(values=graph.values, is_read=lambda number: number in read, returned=(), sizes={})
    return RoundedRows(schedule, frozenset(), SimpleNamespace(sound={})), graph


WEIGHTED, TANH = step("MatMul", "x w", "y"), step("Tanh", "y", "z")


@grouped(
    "steps, given, rows",
    [
        ([WEIGHTED, TANH], {}, 7),
        ([TANH], {}, 7),
        ([WEIGHTED, step("Tanh", "y", "z", "exact")], {}, None),
        ([WEIGHTED, step("ReduceSum", "y", "z", axes=(1,))], {}, None),
        ([WEIGHTED, TANH], {"fixed": ()}, None),
        ([step("MatMul", "x w", "y", part=None), TANH], {}, None),
        ([WEIGHTED, step("Tanh", "y", "z", **{LEAKS: True})], {}, None),
        ([TANH], {"gaps": "y"}, None),
        ([TANH], {"gaps": "z"}, None),
        ([TANH], {"offsets": "y"}, None),
        ([TANH], {"shapes": {"y": (7,), "z": (7,)}}, None),
        ([TANH], {"shapes": {"y": (7, 0), "z": (7, 0)}}, None),
        ([WEIGHTED, TANH, step("Tanh", "u", "v")], {}, None),
        ([TANH, step("Tanh", "u", "v")], {"shapes": {"u": (7, 2), "v": (7, 2)}}, 7),
        ([TANH], {"shapes": {"y": (2, 3, 4), "z": (2, 3, 4)}}, 6),
        ([step("Dequantize", "codes", "w", scales=(1.0,)), WEIGHTED], {"fixed": ["codes"]}, 7),
        ([step("Dequantize", "codes", "w", "exact", scales=(1.0,)), WEIGHTED], {"fixed": ["codes"]}, None),
    ],
    key=as_one,
    label=label,
)
def test_partitions_have_one_number_of_rows(steps, given, rows):
    shapes = {
        **dict.fromkeys("xyz", (7, 4)),
        "w": (4, 4),
        "codes": (4, 4),
        "u": (3, 2),
        "v": (3, 2),
        **given.get("shapes", {}),
    }
    given = {"fixed": ["w"], **given}
    rounding, graph = rows_of(steps, shapes, **{key: one for key, one in given.items() if key != "shapes"})
    fixed = rounding._fixed(graph.steps)
    assert fixed == ({"w"} if "codes" in given["fixed"] else set())
    assert rounding._rows(graph.steps, fixed) == rows


@grouped(
    "outputs, kind, part, read, kept",
    [
        ("y m v", "LayerNorm", True, "", "y"),
        ("y m v", "LayerNorm", True, "m", "y m v"),
        ("y m v", "LayerNorm", True, "v", "y m v"),
        ("y m v", "LayerNorm", True, "y", "y"),
        ("y m v", "LayerNorm", None, "", "y m v"),
        ("y", "LayerNorm", True, "", "y"),
        ("y m v", "BatchNormForwardTraining", True, "", "y m v"),
    ],
    key=as_one,
)
def test_statistics_that_nobody_reads_are_left_out(outputs, kind, part, read, kept):
    one = step(kind, "x", outputs, **({} if part else {"part": None}), begin_norm_axis=-1)
    rounding, graph = rows_of([one], {**dict.fromkeys("xy", (7, 4)), "m": (7,), "v": (7,)}, read=read)
    lean = rounding._without_stats(graph.steps[0])
    assert " ".join(lean.outputs) == kept
    is_lean = kept != outputs
    assert (lean == graph.steps[0]) is not is_lean
    assert not is_lean or (lean.attrs["keep_stats"], len(lean.part.outputs), lean.whole) == (False, 1, False)


# Independent rows -----------------------------------------------------------------------------------------------------


@grouped(
    "kind, attrs, shapes, ports",
    [
        ("ReLU", {}, [(6, 4)], (0,)),
        ("Add", {}, [(6, 4), (6, 4)], (0, 1)),
        ("Add", {}, [(6, 4), (4,)], (0,)),
        ("Add", {}, [(6, 4), (1, 4)], (0,)),
        ("Add", {}, [(4,), (6, 4)], (1,)),
        ("SoftMax", {"axis": 1}, [(6, 4)], (0,)),
        ("SoftMax", {}, [(6, 4)], (0,)),
        ("SoftMax", {"axis": 0}, [(6, 4)], None),
        ("SoftMax", {"axis": -2}, [(6, 4)], None),
        ("LogSoftmax", {"axis": -1}, [(6, 4)], (0,)),
        ("LayerNorm", {}, [(6, 4)], (0,)),
        ("LayerNorm", {"begin_norm_axis": 0}, [(6, 4)], None),
        ("LayerNorm", {"begin_norm_axis": 1}, [(6, 4)], (0,)),
        ("ReduceSum", {"axes": (1,)}, [(6, 4)], (0,)),
        ("ReduceSum", {"axes": (1, 0)}, [(6, 4)], None),
        ("ReduceSum", {"axes": (-2,)}, [(6, 4)], None),
        ("ReduceSum", {}, [(6, 4)], None),
        ("ReduceSum", {"axes": [1]}, [(6, 4)], None),
        ("MatMul", {}, [(6, 4), (4, 4)], (0,)),
        ("MatMul", {"transpose_a": True}, [(6, 6), (6, 4)], None),
        ("MatMul", {}, [(4,), (4, 4)], None),
        ("MatMul", {"out": (6, 3, 4)}, [(6, 3, 4), (6, 4, 4)], [0, 1]),
        ("MatMul", {"out": (6, 3, 4)}, [(6, 3, 4), (4, 4)], [0]),
        ("MatMul", {"out": (6, 3, 4)}, [(1, 3, 4), (6, 4, 4)], [1]),
        ("MatMul", {"out": (6, 3, 4)}, [(3, 4), (6, 4, 4)], [1]),
        ("Quantize", {}, [(6, 4)], (0,)),
        ("Quantize", {"qtype": "per_channel"}, [(6, 4)], (0,)),
        ("Quantize", {"qtype": "per_channel", "axis": 0}, [(6, 4)], None),
        ("Quantize", {"axis": 0}, [(6, 4)], (0,)),
        ("StaticTranspose", {"order": (0, 2, 1)}, [(6, 4, 5)], (0,)),
        ("StaticTranspose", {"order": (1, 0, 2)}, [(6, 4, 5)], None),
        ("StaticTranspose", {"order": (-3, 1, 2)}, [(6, 4, 5)], (0,)),
        ("StaticReshape", {}, [(6, 4)], (0,)),
    ],
    key=as_one,
)
def test_ports_whose_rows_are_independent(kind, attrs, shapes, ports):
    attrs, names = dict(attrs), "ab"[: len(shapes)]
    given = {"y": attrs.pop("out", (6, 4)), **dict(zip(names, shapes, strict=True))}
    one = step(kind, " ".join(names), "y", **attrs)
    found = independent_rows.BY_KIND[kind](one, lowered([], given).values)
    assert (found if found is None else [*found]) == (ports if ports is None else [*ports])


@grouped(
    "steps, fixed, parts",
    [
        ([step("ReLU", "x", "y")], "", ("x y", 6)),
        ([step("MatMul", "x w", "y")], "", ("x y", 6)),
        ([step("MatMul", "x w", "y"), step("Add", "y b", "z")], "wb", ("x y z", 6)),
        ([step("ReLU", "w", "v"), step("MatMul", "x v", "y")], "", None),
        ([step("ReLU", "w", "v"), step("MatMul", "x v", "y")], "w", ("x y", 6)),
        ([step("TopK", "x", "y")], "", None),
        ([step("MatMul", "x w", "y"), step("MatMul", "y x", "z")], "", None),
        ([step("MatMul", "x w", "y"), step("ReLU", "w", "v")], "", ("x y", 6)),
        ([step("ReLU", "x", "y")], "x", None),
        ([step("ReLU", "x", "y"), step("StaticReshape", "y", "f")], "", ("f x y", 3)),
        ([step("Add", "x y", "z")], "y", None),
        ([step("Add", "x y", "z")], "", ("x y z", 6)),
        ([step("MatMul", "x w", "y"), step("Add", "y w", "z")], "", ("x y z", 6)),
        ([step("MatMul", "x s", "y"), step("Add", "y s", "z")], "", None),
        ([step("MatMul", "x w", "y"), step("Add", "y x", "z")], "", ("x y z", 6)),
    ],
    key=as_one,
    label=label,
)
def test_partitions_are_divided_along_their_rows(steps, fixed, parts):
    shapes = {**dict.fromkeys("xyz", (6, 4)), "w": (4, 4), "v": (4, 4), "b": (4,), "f": (3, 8), "s": (6, 4)}
    graph = lowered(steps, shapes, constants={name: np.ones(shapes[name]) for name in fixed})
    found = independent_rows.independent_parts(graph.steps, graph.values)
    if fixed == "x":  # nothing but constants
        assert found == independent_rows.RowParts(set(), 1)
    else:
        assert (None if found is None else (" ".join(sorted(found.values)), found.number)) == parts


# Concats that share memory --------------------------------------------------------------------------------------------

JOIN, MORE = step("Concat", "a b", "ab", axis=-1), step("Concat", "a b c", "abc", axis=2)
NORM = step("BatchNormInference", "ab v v v v", "n")


@grouped(
    "steps, fixed, returned, gaps, grown",
    [
        ([JOIN, NORM, MORE], "", "", "", {2: 0}),
        ([JOIN, MORE], "", "", "", {1: 0}),
        ([JOIN], "", "", "", {}),
        ([JOIN, step("Tanh", "ab", "n"), MORE], "", "", "", {}),
        ([JOIN, NORM, MORE], "ab", "", "", {}),
        ([JOIN, NORM, MORE], "abc", "", "", {}),
        ([JOIN, NORM, MORE], "", "", "abc", {}),
        ([JOIN, step("BatchNormInference", "ab v v v v", "n", data_format="NCX"), MORE], "", "", "", {}),
        ([JOIN, step("BatchNormInference", "ab v v v v", "n", data_format="NXC"), MORE], "", "", "", {2: 0}),
        ([JOIN, step("BatchNormInference", "ab v v v v", "n", "reference"), MORE], "", "", "", {}),
        ([JOIN, step("Concat", "a b c", "abc", axis=1)], "", "", "", {}),
        ([step("Concat", "a b", "ab", axis=1), MORE], "", "", "", {}),
        ([JOIN, step("Concat", "b a c", "abc", axis=2)], "", "", "", {}),
        ([JOIN, step("Concat", "a b", "abc", axis=2)], "", "", "", {}),
        ([JOIN, step("Concat", "a b c", "abc", "reference", axis=2)], "", "", "", {}),
        ([JOIN, MORE, step("Concat", "a b d", "abd", axis=-1)], "", "", "", {1: 0}),
        ([JOIN, MORE, step("Concat", "a b c d", "abcd", axis=-1)], "", "", "", {1: 0, 2: 1}),
    ],
    key=as_one,
    label=label,
)
def test_concats_grow_in_one_memory(steps, fixed, returned, gaps, grown):
    shapes = {**dict.fromkeys("abcdn", (2, 3, 4)), "v": (8,), "ab": (2, 3, 8), "abc": (2, 3, 12), "abd": (2, 3, 12)}
    graph = with_gaps(lowered(steps, {**shapes, "abcd": (2, 3, 16)}), gaps)
    found = growing_concats.growing(graph, graph.values, {*fixed.split()})
    assert {number: first.id for number, first in found.items()} == grown
    placed = growing_concats.placed_in(found, graph, graph.values)
    last = graph.steps[max(grown)].outputs[0] if grown else None
    assert {one.storage for one in placed.values()} == ({last} if grown else set())
    assert all(one.strides == graph.values[last].strides for one in placed.values())
    assert [*placed] == [graph.steps[grown[number]].outputs[0] for number in sorted(grown, reverse=True)]


# Numbers that are finite ----------------------------------------------------------------------------------------------

DECODE = step("Dequantize", "codes", "x", scales=(2.0,), zps=(-4,))
LIMIT = 2.0 * (256 + 4)


@grouped(
    "steps, given, bounds",
    [
        ([DECODE], {}, {"x": LIMIT}),
        ([step("Dequantize", "codes", "x", scales=(-1.0, 0.5), zps=(1, -9))], {}, {"x": 265.0}),
        ([step("Dequantize", "codes", "x", scales=(2.0,))], {}, {"x": 512.0}),
        ([DECODE, step("MatMul", "x w", "y")], {"fixed": {"w": -3.0}}, {"y": LIMIT * 3 * 16}),
        ([DECODE, step("MatMul", "x w b", "y")], {"fixed": {"w": 3.0, "b": -5.0}}, {"y": LIMIT * 3 * 16 + 5}),
        ([DECODE, step("MatMul", "x w", "y")], {}, {"y": None}),
        ([DECODE, step("MatMul", "x w", "y")], {"fixed": {"w": np.nan}}, {"y": None}),
        ([DECODE, step("Add", "x x", "y")], {}, {"y": 2 * LIMIT}),
        ([DECODE, step("Subtract", "x x", "y")], {}, {"y": 2 * LIMIT}),
        ([DECODE, step("BiasAdd", "x b", "y")], {"fixed": {"b": 7.0}}, {"y": LIMIT + 7}),
        ([DECODE, step("SquaredDifference", "x x", "y")], {}, {"y": 4 * LIMIT**2}),
        ([DECODE, step("Multiply", "x x", "y")], {}, {"y": LIMIT**2}),
        ([DECODE, step("Clamp", "x", "y", min=-7.0, max=6.0)], {}, {"y": 7.0}),
        ([DECODE, step("ReLU", "x", "y")], {}, {"y": LIMIT}),
        ([DECODE, step("SoftMax", "x", "y")], {}, {"y": 1.0}),
        ([DECODE, step("Exp", "x", "y")], {}, {"y": None}),
        ([DECODE, step("ReLU", "x", "y", "exact")], {}, {"y": None}),
        ([DECODE, step("ReLU", "x", "y", "copy")], {}, {"y": LIMIT}),
        ([DECODE, step("ReLU", "x", "y", "view")], {}, {"y": LIMIT}),
        ([DECODE, step("ReLU", "x", "y")], {"dtypes": {"y": og.f16}}, {"y": None}),
        ([DECODE, step("ReLU", "x", "y")], {"dtypes": {"y": BF16}}, {"y": LIMIT}),
        ([DECODE, step("ReLU", "x", "y b")], {}, {"y": None}),
        ([DECODE, step("Multiply", "x b", "y")], {"fixed": {"b": 1e37 / LIMIT}}, {"y": None}),
        ([DECODE, step("Multiply", "x b", "y")], {"fixed": {"b": 1e36 / LIMIT}}, {"y": 1e36}),
        ([step("ReLU", "y", "x")], {}, {"x": None}),
        ([step("ReLU", "y", "x")], {"known": {"y": 3.0}}, {"x": 3.0, "y": 3.0}),
    ],
    key=as_one,
    label=label,
)
def test_bounds_of_numbers_that_codes_stand_for(steps, given, bounds):
    shapes = {**dict.fromkeys(("codes", "x", "y"), (4, 4)), "w": (4, 4), "b": (4,)}
    fixed = {name: np.full(shapes[name], number, np.float32) for name, number in given.get("fixed", {}).items()}
    dtypes = {"codes": U8, **given.get("dtypes", {})}
    graph = lowered(steps, shapes, dtypes=dtypes, constants=fixed)
    known, found = given.get("known", {}), {}
    finite = magnitudes.finite_values(graph, known)
    for name, bound in bounds.items():
        assert (name in finite) is (bound is not None)
    # A further step squares the bound, which tells how large it is.
    for name, bound in bounds.items():
        if bound is not None and name not in known:
            rule = next(one for one in graph.steps if name in one.outputs)
            ends = [graph.values[number] for number in rule.inputs]
            found[name] = magnitudes.RULES[rule.kind](
                rule, [_bound_of(graph, number, known) for number in rule.inputs], ends
            )
            assert found[name] == pytest.approx(bound)


def _bound_of(graph, number, known):
    return magnitudes._bound(graph.values[number], {"x": LIMIT, **known})


@grouped(
    "dtype, constant, known, bound",
    [
        (U8, None, {}, 256.0),
        (S8, None, {}, 256.0),
        (F32, None, {}, np.inf),
        (F32, None, {"v": 3.0}, 3.0),
        (F32, [-4.0, 2.0], {}, 4.0),
        (BF16, [-4.0, 2.0], {}, 4.0),
        (og.f16, [-4.0, 2.0], {}, np.inf),
        (F32, [], {}, 0.0),
        (F32, [9.0], {"v": 3.0}, 3.0),
        (og.s32, [9], {}, np.inf),
    ],
    key=as_one,
)
def test_bounds_of_values(dtype, constant, known, bound):
    array = None if constant is None else np.array(constant, dtype.numpy)
    value = Value("v", dtype, (2,), (1,), "v", "v", array)
    assert magnitudes._bound(value, known) == bound


@pytest.mark.parametrize(
    ("size", "number", "is_small"), [(1 << 16, 1, True), ((1 << 16) + 1, 1, False), (2, np.inf, False)]
)
def test_small_constants_are_finite(size, number, is_small):
    value = Value("v", F32, (size,), (1,), "v", "v", np.full(size, number, np.float32))
    assert magnitudes._is_small(value) is is_small
    assert magnitudes._is_small(value._replace(constant=None)) is False


# Elementwise ops that one kernel computes -----------------------------------------------------------------------------


@grouped(
    "one, given, eligible",
    [
        (step("Add", "a b", "y"), {}, True),
        (step("Add", "a b", "y", "copy"), {}, True),
        (step("Add", "a b", "y", "exact"), {}, False),
        (step("MatMul", "a b", "y"), {}, False),
        (step("ReLU", "a", "y", **{NORMALIZED: True}), {}, False),
        (step(pointwise.SLOPE, "a b", "y"), {}, True),
        (step(pointwise.SLOPE, "a b", "y", mode="gelu_erf"), {}, True),
        (step(pointwise.SLOPE, "a b", "y", mode="gelu_tanh"), {}, False),
        (step("SigmoidBackward", "a b", "y"), {}, True),
        (step("SigmoidBackward", "a b", "y", use_dst=False), {}, False),
        (step("Add", "a b", "y"), {"shapes": dict.fromkeys("aby", (1, 1))}, False),
        (step("Add", "a b", "y"), {"gaps": "y"}, False),
        (step("Add", "a b", "y"), {"gaps": "a"}, False),
        (step("Add", "a b", "y"), {"dtypes": dict.fromkeys("aby", og.s32)}, False),
        (step("Add", "a b", "y"), {"dtypes": {"b": BF16}}, False),
        (step("TypeCast", "a", "y"), {"dtypes": {"a": BF16}}, True),
        (step("TypeCast", "a", "y"), {"dtypes": {"y": BF16}}, True),
        (step("TypeCast", "a", "y"), {"dtypes": {"a": og.s32}}, False),
        (step("Add", "a b", "y"), {"dtypes": dict.fromkeys("aby", BF16)}, False),
        (step("Add", "a row", "y"), {}, True),
        (step("Add", "a column", "y"), {}, False),
        (step("Add", "a column", "y"), {"opens": True}, True),
        (step("Add", "a one", "y"), {}, True),
    ],
    key=as_one,
)
def test_ops_that_join_a_pointwise_step(one, given, eligible):
    shapes = {**dict.fromkeys("aby", (3, 4)), "row": (4,), "column": (3, 1), "one": (1,), **given.get("shapes", {})}
    graph = with_gaps(lowered([one], shapes, dtypes=given.get("dtypes")), given.get("gaps", ""))
    groups = pointwise._Groups(graph, frozenset(), given.get("opens", False))
    assert groups._is_eligible(graph.steps[0]) is eligible


@grouped(
    "shape, whole, is_row",
    [
        ((4,), (3, 4), True),
        ((1, 4), (3, 4), True),
        ((), (3, 4), False),
        ((1,), (3, 1), False),
        ((3, 4), (3, 4), False),
        ((3,), (3, 4), False),
        ((4,), (4,), False),
        ((4,), (1, 4), False),
        ((2, 4), (2, 2, 4), False),
    ],
    key=as_one,
)
def test_rows_of_operands(shape, whole, is_row):
    assert pointwise._is_row(shape, whole) is is_row


@grouped(
    "steps, found",
    [
        ([step("MatMul", "a b", "y", part=None)], True),
        ([step("MatMul", "a b", "y")], False),
        ([], False),
        ([step("Add", "a b", "y")], False),
        ([step("Add", "a b", "y"), step("MatMul", "a b", "y", "vectors")], True),
        ([step("MatMul", "a b", "y"), step("MatMul", "a b", "y", "vectors")], False),
    ],
    key=as_one,
    label=label,
)
def test_steps_between_kernels(steps, found):
    assert pointwise._are_kernels(steps) is found


@grouped(
    "one, shapes, more, scales",
    [
        (step("Multiply", "x f", "y"), {}, 1, True),
        (step("Add", "x f", "y"), {}, 1, False),
        (step("Multiply", "x f", "y"), {}, 0, False),
        (step("Multiply", "x g", "y"), {}, 1, False),
        (step("Multiply", "x x", "y"), {}, 1, False),
        (step("Multiply", "x f", "y"), {"f": (3, 1)}, 1, False),
        (step("Multiply", "f f", "y"), {}, 1, False),
    ],
    key=as_one,
)
def test_channels_that_a_computed_factor_scales(one, shapes, more, scales):
    shapes = {**dict.fromkeys("xyz", (3, 4)), "f": (4,), "g": (4,), "e": (4,), **shapes}
    steps = [step("Tanh", "e", "f"), one, *[step("Tanh", "x", "z")] * more]
    graph = lowered(steps, shapes)
    assert pointwise._Groups(graph, frozenset(), False)._scales_channels(graph.steps[1]) is scales


# NaN in other rows ----------------------------------------------------------------------------------------------------

LEAKY_PRODUCT = step("MatMul", "x w", "y", **{LEAKS: True})


@grouped(
    "steps, sources",
    [
        ([LEAKY_PRODUCT], ["x"]),
        ([WEIGHTED], []),
        ([step("StaticTranspose", "u", "x"), LEAKY_PRODUCT], ["u"]),
        ([step("Tanh", "u", "x"), LEAKY_PRODUCT], None),
        ([step("Concat", "u v", "x"), LEAKY_PRODUCT], None),
        ([step("StaticTranspose", "v", "u"), step("StaticReshape", "u", "x"), LEAKY_PRODUCT], ["v"]),
        ([LEAKY_PRODUCT, step("MatMul", "y w", "z", **{LEAKS: True})], None),
        ([LEAKY_PRODUCT, step("MatMul", "y w", "z")], ["x"]),
    ],
    key=as_one,
    label=label,
)
def test_sources_of_products_that_leak(steps, sources):
    leaks = object.__new__(row_leaks.RowLeaks)
    assert leaks._sources(steps) == (
        None if sources is None else [*sources, *(["w"] if len(row_leaks.SOURCES["MatMul"]) > 1 and sources else [])]
    )


@grouped(
    "steps, results, dtype, gaps, direct",
    [
        ([CONV], "y", F32, False, True),
        ([CONV], "y", BF16, False, True),
        ([WEIGHTED], "y", F32, False, False),
        ([CONV, step("Clamp", "y", "z", **{BOUNDED: True})], "z", F32, False, True),
        ([CONV, step("Clamp", "y", "z", **{BOUNDED: True})], "z", BF16, False, False),
        ([CONV, step("Clamp", "y", "z")], "z", F32, False, False),
        ([CONV, step("Clamp", "y", "z", **{BOUNDED: True})], "yz", F32, False, False),
        ([CONV], "y", F32, True, False),
    ],
    key=as_one,
    label=label,
)
def test_results_that_kernels_write_where_they_lie(steps, results, dtype, gaps, direct):
    graph = lowered(steps, dict.fromkeys("xwyz", (2, 3, 3, 4)), dtypes=dict.fromkeys("yz", dtype))
    if gaps:
        graph.values["y"] = graph.values["y"]._replace(strides=(0, 0, 0, 0))
    leaks = object.__new__(row_leaks.RowLeaks)
    leaks._values = graph.values
    assert leaks._is_direct(graph.steps, results) is direct


def test_inputs_that_kernels_multiply_by_zeros():
    joined = CONV._replace(members=(CONV,))
    gradient = step("ConvolutionBackwardWeights", "x d", "g")
    data = step("ConvolutionBackwardData", "d w", "x")
    assert [row_leaks._multiplied(one) for one in (CONV, joined, gradient, data)] == [
        ("w",),
        ("x",),
        ("x", "d"),
        ("w",),
    ]
    marked = [one._replace(attrs={SPREADS: True}) for one in (CONV, WEIGHTED)]
    assert row_leaks._spreading([*marked, gradient]) == marked[:1]


# Structures and places ------------------------------------------------------------------------------------------------


def test_structures_are_equal_for_other_sizes_above_1():
    def of(shape, kind="Tanh", executor="library", dtype=F32, gaps="", returned="", attrs=None, part=True):
        own = {"shape": shape} if attrs is None else attrs
        one = step(kind, "x", "y", executor, **own, **({} if part else {"part": None}))
        return structure.structure_of(
            with_gaps(lowered([one], {"x": shape, "y": shape}, dtypes={"y": dtype}, returned=returned), gaps)
        )

    plain = of((2, 3))
    assert plain == of((5, 7)) == of((2, 3), attrs={"shape": (9, 9)})
    others = [
        of((1, 3)),
        of((0, 3)),
        of((2, 3, 4)),
        of((2, 3), "Exp"),
        of((2, 3), executor="exact"),
        of((2, 3), dtype=BF16),
    ]
    others += [
        of((2, 3), gaps="y"),
        of((2, 3), returned="y"),
        of((2, 3), attrs={"axis": (2, 3)}),
        of((2, 3), attrs={"shape": (1, 3)}),
    ]
    others += [of((2, 3), part=False), of((2, 3), attrs={"axis": (4, 3)}), of((2, 3), attrs={"shape": 2})]
    assert len({repr(one) for one in (plain, *others)}) == len(others) + 1
    # The attributes of other executors are not read.
    assert of((2, 3), executor="exact") == of((2, 3), executor="exact", attrs={"axis": 9})


@grouped(
    "shape, strides, new, found",
    [
        ((2, 3, 4), None, (6, 4), (4, 1)),
        ((2, 3, 4), (24, 8, 2), (6, 4), (8, 2)),
        ((2, 3, 4), (32, 8, 2), (6, 4), None),
        ((2, 3, 4), (32, 8, 2), (2, 12), (32, 2)),
        ((2, 3, 4), (1, 8, 2), (2, 3, 4), (1, 8, 2)),
        ((2, 3, 4), (1, 8, 2), (6, 4), None),
        ((2, 3, 4), (1, 8, 2), (2, 3, 2, 2), (1, 8, 4, 2)),
        ((6, 4), (8, 2), (2, 3, 4), (24, 8, 2)),
        ((6, 4), (8, 2), (4, 6), (12, 2)),
        ((6, 4), (9, 2), (4, 6), None),
        ((2, 1, 4), (8, 99, 2), (8,), (2,)),
        ((2, 4), (9, 2), (2, 1, 4, 1), (9, 8, 2, 1)),
        ((2, 0), (7, 3), (0, 5), (5, 1)),
        ((2, 3), (6, 2), (3, 2), (4, 2)),
        ((4, 3), (1, 4), (2, 2, 3), (2, 1, 4)),
    ],
    key=as_one,
)
def test_places_of_values_in_another_shape(shape, strides, new, found):
    value = Value("v", F32, shape, dense_of(shape) if strides is None else strides, "v", "v")
    place = view_places._reshaped(value, new)
    assert place == (None if found is None else (found, 0))
