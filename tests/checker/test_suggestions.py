"""Texts of suggestions: names, editions, ports, lists and numbers, by hand."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.inference import suggestions as said
from onegraph.inference.type_table import MAX_FIX, Mismatch, TypedPort, mismatches, types_text
from onegraph.inference.violations import shortened
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, EDITIONS, edition
from onegraph.opset.signature import Port


def port(name, *, optional=False, variadic=False):
    return Port(name, "T", optional=optional, variadic=variadic)


@pytest.mark.parametrize(
    ("ports", "text"),
    [
        ([], "none"),
        ([port("src")], "1: src"),
        ([port("src"), port("bias", optional=True)], "1 or 2: src, bias? (? is optional)"),
        ([port("a"), port("b", optional=True), port("c", optional=True)], "1 to 3: a, b?, c? (? is optional)"),
        ([port("src", variadic=True)], "at least 1: src"),
    ],
)
def test_ports_are_counted_and_named(ports, text):
    assert said.port_names(ports) == text


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (0, None, "onednn-3.0 and later have it"),
        (0, 1, "onednn-3.0 has it"),
        (1, 3, "onednn-3.1 to onednn-3.2 have it"),
        (0, 0, ""),
    ],
)
def test_editions_in_a_row_are_a_span(first, last, text):
    guides = [name for name in EDITIONS if name.startswith("onednn-")]
    names = guides[first:last]
    if text:
        text = text.replace("onednn-3.0", names[0]).replace("onednn-3.1", names[0]).replace("onednn-3.2", names[-1])
    assert said.editions_with(lambda one: one.name in names) == text


def test_other_editions_are_named_one_by_one():
    assert said.editions_with(lambda one: one.name == "legacy-1") == "legacy-1 has it"
    others = [name for name in EDITIONS if not name.startswith("onednn-")]
    assert said.editions_with(lambda one: one.name in others) == f"{', '.join(others)} have it"
    everything = said.editions_with(lambda _: True)
    assert everything.startswith(", ".join(others))
    assert everything.endswith(" and later have it")


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ({DataType.f32}, "f32"),
        ({DataType.f32, DataType.bf16}, "f32 or bf16"),
        ({DataType.f16, DataType.f32, DataType.bf16}, "f32, bf16 or f16"),
    ],
)
def test_data_types_are_listed_in_their_order(types, text):
    order = [str(one) for one in DataType if one in types]
    *first, last = order
    assert types_text(frozenset(types)) == (f"{', '.join(first)} or {last}" if first else last)
    assert sorted(text.replace(" or ", ", ").split(", ")) == sorted(order)


@pytest.mark.parametrize(
    ("kind", "name", "value", "shape", "text"),
    [
        ("Convolution", "strides", 2, (1, 5, 5, 3), "write [2, 2], one for each spatial axis"),
        ("Convolution", "strides", 2, (1, 5, 3), "write [2], one for each spatial axis"),
        ("Convolution", "strides", 2, (5, 3), "write one for each spatial axis: [2, 2] for two"),
        ("Convolution", "strides", 2, None, "write one for each spatial axis: [2, 2] for two"),
        ("Convolution", "strides", "x", (1, 5, 5, 3), ""),
        ("Convolution", "groups", 2, (1, 5, 5, 3), ""),
        ("MaxPool", "kernel", 3, (1, 5, 5, 3), "write [3, 3], one for each spatial axis"),
        ("StaticTranspose", "order", 1, (2, 3), ""),
        ("ConvolutionBackwardData", "dst_shape", 3, (1, 5, 5, 3), ""),
    ],
)
def test_a_number_becomes_one_for_each_axis(kind, name, value, shape, text):
    schema = BASE[kind]
    given = [] if shape is None else [(og.f32, shape)]
    assert said.one_for_each(schema, schema.attribute(name), value, given) == text


@pytest.mark.parametrize(
    ("dtype", "value", "holds"),
    [
        (og.u8, 255, True),
        (og.u8, 256, False),
        (og.u8, -1, False),
        (og.s8, -128, True),
        (og.s8, 1.5, False),
        (og.s32, 2**31, False),
        (og.s32, np.int64(2**31 - 1), True),
        (og.f16, 1e9, True),
        (og.bf16, 0.1, True),
        (og.s32, float("nan"), False),
    ],
)
def test_integers_hold_whole_numbers_of_their_range(dtype, value, holds):
    assert said._holds(dtype, value) is holds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "np.nan"),
        (float("inf"), "np.inf"),
        (-float("inf"), "-np.inf"),
        (np.float32("inf"), "np.inf"),
        (np.float64(1.5), "1.5"),
        (3, "3"),
        (ml_dtypes.bfloat16(2), "2.0"),
    ],
)
def test_numbers_are_python_code(value, text):
    assert said._literal(value) == text


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (np.ones(3), "an array; expected a tensor of this graph: wrap it in g.constant(array)"),
        ("x", "'x'; expected a tensor of this graph: g.tensor('x') finds it by name"),
        ((), "what an op without outputs returns"),
        (2, "2; expected a tensor of this graph, as g.input, g.constant and ops return it: g.constant(np.float32(2))"),
        (True, "True; expected a tensor of this graph, as g.input, g.constant and ops return it"),
        (None, "None; expected a tensor of this graph, as g.input"),
        ([og.Graph().input("x", og.f32, ())], "a list of tensors; expected a tensor of this graph: one of them"),
    ],
    ids=str,
)
def test_what_is_no_tensor_has_a_suggestion(value, part):
    text = said.no_tensor(value, "src")
    assert text.startswith("src: ")
    assert part in text
    assert ("g.constant(np" in text) is (value == 2 if type(value) is int else False)


def test_lists_for_ops_of_any_number_are_spread():
    graph = og.Graph()
    ends = [graph.input(name, og.f32, ()) for name in "abcd"]
    expected = "src: a list; expected its tensors one by one: g.concat"
    assert said.no_tensor(ends[:3], "src", method="concat") == f"{expected}(a, b, c)"
    assert said.no_tensor(ends, "src", method="concat") == f"{expected}(a, b, c, ...)"
    assert "np.array(3, og.bf16.numpy)" in said.no_tensor(3, "src", og.bf16)
    assert "g.constant" not in said.no_tensor(300, "src", og.u8).partition("ops return it")[2]


def test_unknown_names_lead_to_other_editions_and_words():
    newest = edition(EDITIONS[-1])
    assert said.unknown_op(newest, "Covolution") == "did you mean 'Convolution'?"
    assert said.unknown_op(newest, "NonZero") == "edition host has it"
    assert said.unknown_op(edition("legacy-1"), "GroupNorm").endswith("and later have it")
    assert said.other_attribute(BASE["SoftMax"], "dim") == ("axis", "did you mean 'axis'?")
    assert said.other_attribute(BASE["LeakyReLU"], "negative_slope") == ("alpha", "did you mean 'alpha'?")
    assert said.other_attribute(BASE["ReLU"], "negative_slope") == ("", "")
    assert said.nearest_of("weigths", ["src", "weights"]) == "did you mean 'weights'?"
    assert said.nearest_of("zzz", ["src", "weights"]) == ""


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("Concat", 2.0, "inputs[0]: 2.0; expected a tensor of this graph, as g.input"),
        ("ReLU", [1, 2], "or an array, as np.array(..., np.float32)"),
        ("ReLU", {1, 2}, "as g.input, g.constant and ops return it"),
    ],
)
def test_first_operands_that_are_no_tensors(kind, value, told):
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 3))
    with pytest.raises(og.OneGraphError) as raised:
        graph.op(kind, [value, x] if kind == "Concat" else [value], {"axis": 0} if kind == "Concat" else {})
    assert told in str(raised.value)


@pytest.mark.parametrize(("size", "rules"), [(2**30, ["size_limit"]), (2**30 - 1, [])])
def test_results_have_fewer_elements_than_a_power_of_two(size, rules):
    found = og.check_op("Add", {}, [("f32", (2**30, 1)), ("f32", (1, size))], edition="onednn-3.13", library="none")
    assert [one.rule for one in found.errors] == rules


@pytest.mark.parametrize(
    ("value", "limit", "expected"),
    [
        ("a" * 120, 120, "a" * 120),
        ("a" * 121, 120, "a" * 117 + "..."),
        ("abcdefghijk", 10, "abcdefg..."),
        ("abcdefghij", 10, "abcdefghij"),
        (3, 10, "3"),
    ],
)
def test_values_are_shown_up_to_a_length(value, limit, expected):
    assert shortened(value, limit) == expected
    if limit == 120:
        assert shortened(value) == expected


@pytest.mark.parametrize(("length", "is_told"), [(MAX_FIX - 16, True), (MAX_FIX - 15, False)])
def test_other_changes_of_types_are_told_up_to_a_length(length, is_told):
    schema = SimpleNamespace(types=[SimpleNamespace(types={"T": frozenset([og.f32, og.s8])})])
    first, second = TypedPort("p" * length, "T", og.f32), TypedPort("src", "T", og.s8)
    fix = f"or change {first.name} to s8"
    assert len(fix) == MAX_FIX + (not is_told)
    expected = Mismatch(second, f"f32, as {first.name} is f32", fix if is_told else "")
    assert mismatches(schema, [], [first, second]) == [expected]
    assert mismatches(schema, schema.types, [first, second]) == []
