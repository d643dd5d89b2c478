"""The checker: ops, attributes and graphs against the specification and the loaded library."""

import dataclasses
import json
import pickle

import ml_dtypes
import numpy as np
import pytest
from conftest import draws
from helpers.grouped import grouped
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph._util.html_table import RED
from onegraph.checker.library_limits import Library, _tensors, library_named, library_violations
from onegraph.checker.structure import _cycles
from onegraph.errors import ERROR, LIBRARY, NOTE, UNSAFE
from onegraph.faults.cpus import EVERY_ISA, ISA_NAMES
from onegraph.inference.infer import infer_op
from onegraph.opset.editions.registry import BASE, EDITIONS, edition
from onegraph.testing.cases import CASES

WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


def told(violations):
    return [one.rule for one in violations]


def rules(violations, severity=ERROR):
    return [violation.rule for violation in violations if violation.severity == severity]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 1], []),
        ((1, np.int64(1)), []),
        (np.array([1, 1]), []),
        (range(1, 3), []),
        ([1, 0], ["attribute_range"]),
        ([1, 2**63], ["attribute_range"]),
        ([1.0, 1.0], ["attribute_kind"]),
        ([True, True], ["attribute_kind"]),
        (1, ["attribute_kind"]),
        ("11", ["attribute_kind"]),
        (np.ones((2, 2), int), ["attribute_kind"]),
        (None, ["attribute_kind"]),
        ({1, 2}, ["attribute_kind"]),
    ],
)
def test_lists_of_integers(value, expected):
    assert rules(og.check_attrs("Convolution", {**WINDOW, "strides": value})) == expected


@pytest.mark.parametrize(
    ("kind", "name", "value", "expected"),
    [
        ("Elu", "alpha", 1, []),
        ("Elu", "alpha", np.float64(0.5), []),
        ("Elu", "alpha", ml_dtypes.bfloat16(0.5), []),
        ("SoftMax", "axis", ml_dtypes.int4(-1), []),
        ("Elu", "alpha", float("inf"), []),
        ("Elu", "alpha", float("nan"), ["attribute_range"]),
        ("Elu", "alpha", 1e300, ["attribute_range"]),
        ("Elu", "alpha", 10**400, ["attribute_range"]),
        ("Elu", "alpha", -0.5, ["attribute_range"]),
        ("Elu", "alpha", 1e-50, []),  # rounds to 0, which is valid
        ("RMSNorm", "epsilon", 1e-50, ["attribute_range"]),
        ("RMSNorm", "epsilon", 2.0**-150, ["attribute_range"]),  # a tie, rounded to 0
        ("RMSNorm", "epsilon", 2.0**-149, []),
        ("Elu", "alpha", True, ["attribute_kind"]),
        ("Elu", "alpha", "1", ["attribute_kind"]),
        ("MatMul", "transpose_a", 1, []),
        ("MatMul", "transpose_a", np.True_, []),
        ("MatMul", "transpose_a", 2, ["attribute_kind"]),
        ("MatMul", "transpose_a", "yes", ["attribute_kind"]),
        ("BiasAdd", "data_format", b"NCX", []),
        ("BiasAdd", "data_format", np.str_("NCX"), []),
        ("BiasAdd", "data_format", "ncx", ["attribute_value"]),
        ("BiasAdd", "data_format", 1, ["attribute_kind"]),
        ("SoftMax", "axis", np.int8(-1), []),
        ("SoftMax", "axis", 1.5, ["attribute_kind"]),
    ],
)
def test_scalars(kind, name, value, expected):
    assert rules(og.check_attrs(kind, {name: value})) == expected


def test_violation_fields():
    (found,) = og.check_attrs("BiasAdd", {"data_format": "nxc"}, edition="oneapi-1.4")
    assert dataclasses.asdict(found) == {
        "rule": "attribute_value",
        "severity": "error",
        "op": "BiasAdd",
        "where": "data_format",
        "given": "'nxc'",
        "expected": "one of 'NCX', 'NXC'",
        "message": "BiasAdd: data_format: 'nxc'; expected one of 'NCX', 'NXC'; did you mean 'NXC'?",
        "edition": "oneapi-1.4",
        "page": "oneAPI specification 1.4, oneDNN graph, BiasAdd",
    }
    assert str(found) == f"error: [attribute_value] {found.message}"


def test_value_of_another_edition_is_said_with_its_meaning():
    (found,) = og.check_attrs("ConvTranspose", {**WINDOW, "weights_format": "OIX"}, edition="oneapi-1.2")
    assert found.message.endswith("; onednn-3.2 and later have it as IOX = (in, out / groups, X)")


@pytest.mark.parametrize("attrs", [3, "strides", [("strides", 1)], {3: 4}, {b"strides": 1}])
def test_rejects_attributes_without_string_names(attrs):
    assert rules(og.check_attrs("ReLU", attrs)) in (["attribute_kind"], ["unknown_attribute"])


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([("f32", (2,))], []),
        ([np.zeros(2, np.float32)], []),
        ([("f32", None)], []),
        ([], ["input_count"]),
        ([("f32", (2,))] * 2, ["input_count"]),
        ([None], ["missing_input"]),
        ([("f64", (2,))], ["tensor_kind"]),
        ([("f32", (-1,))], ["tensor_kind"]),
        ([("f32", 2)], ["tensor_kind"]),
        ([("f32", (1,) * 13)], ["tensor_kind"]),
        (["f32"], ["tensor_kind"]),
        (3, ["tensor_kind"]),
        ({("f32", (2,)): 0}, ["tensor_kind"]),
        ({("f32", (2,))}, ["tensor_kind"]),
        ("f", ["tensor_kind"]),
        (b"f", ["tensor_kind"]),
        ([("s32", (2,))], ["data_type"]),
    ],
)
def test_inputs(inputs, expected):
    assert rules(og.check_op("ReLU", {}, inputs)) == expected


WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "edition", "where", "given"),
    [
        ("ConvolutionBackwardData", WINDOW, [(2, 4, 4, 3), (3, 3, 3, 3)], None, "dst_shape", "1099511627776 elements"),
        ("Interpolate", {"mode": "nearest"}, [(2, 4, 4, 3)], None, "sizes", "1099511627776 elements"),
        ("DynamicTranspose", {}, [None], "legacy-1", "output", "rank 13"),
    ],
)
def test_shape_tensor_longer_than_any_rank(kind, attrs, inputs, edition, where, given):
    types = [*(("f32", shape) for shape in inputs), ("s32", (2**40,))]
    errors = [one for one in og.check_op(kind, attrs, types, edition=edition) if one.severity == "error"]
    assert [(one.where, one.given) for one in errors] == [(where, given)]


def test_compares_outputs_with_inferred_types_and_shapes():
    inputs = [("f32", (2, 3))]
    assert og.check_op("ReduceSum", {"axes": [1]}, inputs, [("f32", (2,))]) == []
    assert rules(og.check_op("ReduceSum", {"axes": [1]}, inputs, [("f32", (3,))])) == ["output_shape"]
    assert rules(og.check_op("ReduceSum", {"axes": [1]}, inputs, [("bf16", (2,))])) == ["data_type"]


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        ("ReLU", 0, ["output_count"]),
        ("ReLU", 1, []),
        ("ReLU", 2, ["output_count"]),
        ("Wildcard", 3, []),
        ("End", 0, []),
    ],
)
def test_number_of_outputs(kind, count, expected):
    assert rules(og.check_op(kind, {}, [("f32", (2,))], [("f32", (2,))] * count)) == expected


@pytest.mark.library
def test_reports_ops_newer_than_the_library():
    version = tuple(og.version_info()["version"].split("."))
    found = og.check_op("GroupNorm", {"groups": 2}, [("f32", (1, 4, 4)), ("f32", (4,)), ("f32", (4,))])
    assert rules(found) == []
    if tuple(map(int, version)) < (3, 6):
        (violation,) = found
        assert (violation.rule, violation.severity) == ("newer_than_library", LIBRARY)
        assert "oneDNN 3.6 or later" in violation.message


@pytest.mark.library
def test_newer_attribute_at_default_needs_no_version():
    inputs = [("f32", (2, 3)), ("f32", (3, 4))]
    assert og.check_op("MatMul", {"accumulation_mode": "strict"}, inputs) == []
    found = og.check_op("MatMul", {"accumulation_mode": "f32"}, inputs)
    is_new = tuple(map(int, og.version_info()["version"].split("."))) < (3, 10)
    assert [violation.rule for violation in found] == ["newer_than_library"] * is_new


@pytest.mark.library
def test_requested_newer_output_needs_its_version():
    is_new = tuple(map(int, og.version_info()["version"].split("."))) < (3, 9)
    one, two = [("f32", (2, 3))], [("f32", (2, 3)), ("f32", (2, 1))]
    assert og.check_op("SoftMax", {}, one, one) == []
    assert [(found.rule, found.where) for found in og.check_op("SoftMax", {}, one, two)] == [
        ("newer_than_library", "stats")
    ] * is_new
    g = og.Graph()
    found = g.softmax(g.input("x", "f32", (2, 3)), outputs=["stats"])
    g.output("y", found.dst)
    assert og.check_graph(g) == []
    g.output("z", found.stats)
    assert rules(og.check_graph(g)) == []
    assert [violation.where for violation in og.check_graph(g)] == ["stats"] * is_new


@pytest.mark.parametrize(
    ("kind", "attrs", "types", "where"),
    [
        ("Quantize", {"scales": [0.0]}, ("f32", "u8"), "scales"),
        ("Quantize", {"scales": [-1.0]}, ("f32", "s8"), "scales"),
        ("Dequantize", {"scales": [float("inf")]}, ("u8", "f32"), "scales"),
        ("Quantize", {"scales": [0.1], "zps": [1000]}, ("f32", "u8"), "zps"),
        ("Quantize", {"scales": [0.1], "zps": [128]}, ("f32", "s8"), "zps"),
        ("Dequantize", {"scales": [0.1], "zps": [-1]}, ("u8", "f32"), "zps"),
        ("Quantize", {"scales": [0.1], "zps": [255]}, ("f32", "u8"), None),
        ("Dequantize", {"scales": [0.1], "zps": [-128]}, ("s8", "f32"), None),
    ],
)
def test_notes_implausible_parameters(kind, attrs, types, where):
    found = og.check_op(kind, attrs, [(types[0], (4,))], [(types[1], (4,))])
    assert [(one.rule, one.where) for one in found] == ([("sensible_parameters", where)] if where else [])
    assert rules(found, NOTE) == rules(found, NOTE)[:1] == [one.rule for one in found]


@pytest.mark.library
@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "rule", "severity"),
    [
        (
            "ConvTransposeBackwardData",
            {**WINDOW, "dilations": [2, 2]},
            [("f32", (1, 9, 9, 2)), ("f32", (3, 3, 2, 2))],
            "dilated_gradient",
            LIBRARY,
        ),
        (
            "ConvTransposeBackwardWeights",
            {**WINDOW, "strides": [2, 2], "auto_pad": "same_upper", "weights_shape": [3, 3, 2, 2]},
            [("f32", (1, 3, 3, 2)), ("f32", (1, 6, 6, 2))],
            "gradient_auto_pad",
            UNSAFE,
        ),
        ("LayerNorm", {"begin_norm_axis": 1, "use_affine": False}, [("f32", (2, 3, 4))], "norm_axis", UNSAFE),
        ("ReduceMax", {"axes": [1]}, [("f32", (2, 1, 4))], "size_one_reduction", LIBRARY),
        ("ReduceMin", {"axes": []}, [("f32", (2, 1, 4))], "empty_reduction", LIBRARY),
        ("MatMul", {}, [("f32", (2, 0)), ("f32", (0, 3))], "empty_tensor", UNSAFE),
    ],
)
def test_reports_library_faults(kind, attrs, inputs, rule, severity):
    found = og.check_op(kind, attrs, inputs)
    assert rules(found) == []
    assert rule in rules(found, severity)


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs"),
    [
        ("ConvolutionBackwardWeights", {"weights_shape": [3, 3, 4, 6]}, [(2, 7, 8, 4), (2, 4, 4, 6)]),
        ("ConvolutionBackwardData", {"dst_shape": [2, 7, 8, 4]}, [(2, 4, 4, 6), (3, 3, 4, 6)]),
        ("ConvTransposeBackwardData", {}, [(2, 8, 8, 4), (3, 3, 4, 6)]),
        ("ConvTransposeBackwardWeights", {"weights_shape": [3, 3, 4, 6]}, [(2, 4, 4, 6), (2, 8, 8, 4)]),
        ("AvgPoolBackward", {"kernel": [3, 3], "exclude_pad": True, "src_shape": [2, 7, 8, 4]}, [(2, 4, 4, 4)]),
        ("MaxPoolBackward", {"kernel": [3, 3]}, [(2, 7, 8, 4), (2, 4, 4, 4)]),
    ],
)
@pytest.mark.parametrize("library", ["3.2", "3.6.2", "3.13"])
def test_padding_that_is_computed_right_is_no_fault(kind, attrs, inputs, library):
    window = {**WINDOW, "strides": [2, 2], "auto_pad": "same_upper", **attrs}
    if kind == "AvgPoolBackward":
        del window["dilations"]
    assert og.check_op(kind, window, [("f32", shape) for shape in inputs], library=library) == []


@pytest.mark.parametrize("edition", EDITIONS)
@grouped("kind", ["L1", "L2", "Max", "Mean", "Min", "Prod", "Sum"], key=lambda _: "reductions")
def test_reductions_take_axes_from_exactly_one_source(edition, kind):
    inputs = [("f32", (2, 3)), ("s32", (1,))]
    (found,) = og.check_op(f"Reduce{kind}", {"axes": [1]}, inputs, edition=edition)
    says = "axes: both the attribute and the input; expected one of the two; leave the attribute out"
    assert (found.rule, found.severity, found.message) == ("axes_given", ERROR, f"Reduce{kind}: {says}")
    (found,) = og.check_op(f"Reduce{kind}", {}, inputs[:1], edition=edition)
    says = "axes: neither the attribute nor the input; expected one of the two; pass axes as an attribute"
    assert (found.rule, found.severity, found.message) == ("axes_given", ERROR, f"Reduce{kind}: {says}")
    for attrs, tensors in (({"axes": [1]}, inputs[:1]), ({}, inputs), ({"axes": []}, inputs)):
        assert rules(og.check_op(f"Reduce{kind}", attrs, tensors, edition=edition)) == []


def graph():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.output("y", g.add(g.relu(x, name="first"), x, name="second"))
    return g


def test_built_graph_has_no_violations():
    assert og.check_graph(graph()) == []
    assert og.check_graph(list(reversed(graph().ops))) == []


@pytest.mark.parametrize(
    ("change", "rule", "text"),
    [
        (lambda a, b: [a, dataclasses.replace(b, id=a.id)], "op_id", "it is that of 'first'"),
        (lambda a, b: [a, dataclasses.replace(b, outputs=a.outputs)], "two_producers", "only 'first' to produce it"),
        (lambda a, b: [dataclasses.replace(a, inputs=b.outputs), b], "cycle", "a cycle among first, second"),
        (
            lambda a, b: [
                a,
                dataclasses.replace(b, inputs=(dataclasses.replace(b.inputs[0], shape=(1, 3)), b.inputs[1])),
            ],
            "tensor_mismatch",
            "f32 [2, 3], as an earlier use",
        ),
        (lambda a, b: [a, dataclasses.replace(b, attrs={"axis": 1})], "unknown_attribute", "axis"),
    ],
)
def test_reports_broken_connections_between_ops(change, rule, text):
    found = [violation for violation in og.check_graph(change(*graph().ops)) if violation.rule == rule]
    assert found
    assert text in found[0].message


@pytest.mark.parametrize("order", [1, -1])
def test_visits_a_long_chain_once(order, monkeypatch):
    chain = og.Graph()
    tensor = chain.input("x", og.f32, (2,))
    for _ in range(40):
        tensor = chain.relu(tensor)
    looked = []
    monkeypatch.setattr(og.Op, "inputs", Counted(og.Op.inputs, looked))
    assert list(_cycles(chain.ops[::order], {op.outputs[0].id: op for op in chain.ops})) == []
    assert len(looked) <= 3 * 40


class Counted:
    """A slot that records each read."""

    def __init__(self, slot, looked):
        self.slot, self.looked = slot, looked

    def __get__(self, op, owner=None):
        self.looked.append(op)
        return self.slot.__get__(op, owner)


@pytest.mark.parametrize("wrong", [None, 3, "graph", [1], {}, [og.Op(0, "ReLU", 5, 5, {}, "x", "onednn-3.13")]])
def test_reports_values_that_are_not_graphs(wrong):
    (found,) = og.check_graph(wrong)
    assert found.rule in ("graph_kind", "op_kind")


@pytest.mark.parametrize(
    "tensor",
    [
        og.LogicalTensor(1, 2, 3),
        og.LogicalTensor(0, og.f32, (2.5, "a")),
        og.LogicalTensor(0, "f31", (2,)),
        og.LogicalTensor(0, og.f32, (), value=True),
    ],
)
def test_reports_malformed_tensor_records(tensor):
    assert rules(og.check_op("ReLU", {}, [tensor])) == ["tensor_kind"]


def record(number=0, name="x", source=1, result=2):
    ends = [(og.LogicalTensor(one, og.f32, (2,)),) for one in (source, result)]
    return og.Op(number, "ReLU", *ends, {}, name, "onednn-3.13")


@pytest.mark.parametrize(
    "ops",
    [
        [record([])],
        [record(source=np.zeros(2))],
        [record(result=[])],
        [record(name=None, source=1, result=2), record(1, None, 2, 1)],  # a cycle of ops without names
        [og.Op(0, "ReLU", (og.LogicalTensor(1, "f31", (2,)),), (), {}, "x", "onednn-3.13")],
        [og.Op(0, "ReLU", (), (og.LogicalTensor(1, og.f32, (2.5,)),), {}, "x", "onednn-3.13")],
        [og.Op(0, "ReLU", (og.LogicalTensor(1, og.f32, (), value="x"),), (), {}, "x", "onednn-3.13")],
        [og.Op(0, "ReLU", (None, 3), (), {}, "x", "onednn-3.13")],
        [og.Op(0, "ReLU", [], (), {}, "x", "onednn-3.13")],
        [og.Op(0, "ReLU", (), [], {}, "x", "onednn-3.13")],
        [og.Op(0, 5, (), (), {}, "x", "onednn-3.13")],
    ],
)
def test_reports_malformed_op_ids_and_names(ops):
    assert og.check_graph([record()]) == []
    assert set(rules(og.check_graph(ops))) == {"op_kind"}


def test_accepts_records_made_by_hand():
    for dims in ([2, 3], (2, 3)):
        assert og.check_op("ReLU", {}, [og.LogicalTensor(0, "f32", dims)]) == []


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.just(np.int32(3)),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=4), st.tuples(SCALARS, SCALARS))
TENSORS = st.one_of(
    st.tuples(
        st.sampled_from(["f32", "bf16", "s8", "u8", "s32", "f31"]),
        st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-1, 6)), max_size=6).map(tuple)),
    ),
    SCALARS,
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.data())
def test_any_arguments_give_a_list_of_violations(data):
    kind = data.draw(st.sampled_from(sorted(BASE)))
    names = [attribute.name for attribute in BASE[kind].attributes] + ["unknown"]
    attrs = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names)))
    inputs = data.draw(st.lists(TENSORS, max_size=5))
    name = data.draw(st.sampled_from(["onednn-3.13", "onednn-3.2", "oneapi-1.2"]))
    found = og.check_op(kind, attrs, inputs, edition=name)
    assert all(isinstance(violation, og.Violation) and violation.message for violation in found)
    if edition(name).schema(kind) is None:
        assert rules(found) == ["unknown_op"]


# Several violations --------------------------------------------------------------------------------------------------

OF_ONE_ATTRIBUTE = {"unknown_attribute", "missing_attribute", "attribute_kind", "attribute_value", "attribute_range"}


def test_reports_every_mistake_at_once():
    attrs = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1], "filter_fromat": "OIX"}
    inputs = [("f32", (2, 5, 5, 6)), ("f32", (2, 11, 11, 4))]
    found = og.check_op("ConvTransposeBackpropFilters", attrs, inputs, edition="legacy-1")
    assert [(violation.rule, violation.where) for violation in found] == [
        ("unknown_attribute", "filter_fromat"),
        ("spatial_list_length", "dilations"),
        ("shape_source", "filter_shape"),
    ]


@grouped("case", CASES[:: draws(2, 1)])
def test_wrong_attribute_causes_no_other_violation(case):
    inputs = [("s64" if array.dtype == np.int64 else og.DataType.of(array.dtype), array.shape) for array in case.inputs]
    if rules(og.check_op(case.kind, case.attrs, inputs)):
        inputs = list(case.inputs)
    assert not rules(og.check_op(case.kind, case.attrs, inputs))
    for name in BASE[case.kind].attributes:
        others = {other: value for other, value in case.attrs.items() if other != name.name}
        for attrs in (others, {**others, name.name: object()}, {**others, name.name + "_": case.attrs.get(name.name)}):
            found = og.check_op(case.kind, attrs, inputs)
            if OF_ONE_ATTRIBUTE.intersection(rules(found)):
                assert {*rules(found)} <= OF_ONE_ATTRIBUTE, (attrs, [violation.message for violation in found])


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "rule"),
    [
        ("Convolution", {**WINDOW, "groups": 3}, [("f32", (1, 8, 8, 4)), ("f32", (3, 3, 1, 4))], "channels_match"),
        (
            "Convolution",
            {**WINDOW, "strides": [1]},
            [("f32", (1, 8, 8, 4)), ("f32", (3, 3, 4, 4))],
            "spatial_list_length",
        ),
        ("Add", {}, [("f32", (2, 3)), ("f32", (4, 3))], "broadcastable"),
        ("SoftMax", {"axis": 2}, [("f32", (2, 3))], "axis_in_range"),
        ("MatMul", {}, [("f32", (2, 3)), ("f32", (4, 5))], "matmul_fits"),
    ],
)
@pytest.mark.parametrize("mistake", ["an attribute", "a data type"])
def test_reports_a_broken_rule_beside_another_mistake(kind, attrs, inputs, rule, mistake):
    assert rule in rules(og.check_op(kind, attrs, inputs))
    if mistake == "an attribute":
        attrs, other = {**attrs, "nothing": 1}, "unknown_attribute"
    else:
        inputs, other = [("boolean", inputs[0][1]), *inputs[1:]], "data_type"
    assert {rule, other} <= {*rules(og.check_op(kind, attrs, inputs))}


# Suggested fixes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "value", "mend"),
    [
        ("AvgPoolBackward", "pads_begin", 1, "write [1, 1], one for each spatial axis"),
        ("AvgPoolBackward", "pads_begin", np.int64(1), "write [1, 1], one for each spatial axis"),
        ("AvgPoolBackward", "pads_begin", -1, ""),
        ("AvgPoolBackward", "pads_begin", 1.0, ""),
        ("AvgPoolBackward", "src_shape", 4, ""),
        ("StaticTranspose", "order", 0, "write [0]"),
        ("StaticTranspose", "order", float("nan"), ""),
        ("StaticReshape", "shape", -2, ""),
        ("Quantize", "scales", 0.5, "write [0.5]"),
        ("Quantize", "scales", float("nan"), ""),
        ("Interpolate", "scales", -1.0, ""),
    ],
)
def test_suggested_list_is_valid(kind, name, value, mend):
    found = og.check_op(kind, {name: value}, [("f32", (1, 2, 8, 8))])
    (message,) = [one.message for one in found if one.where == name]
    assert message.partition("; expected ")[2].partition("; ")[2] == mend


F = ("f32", (2, 3, 4))


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "mends"),
    [
        ("LayerNorm", {}, [F], ["pass gamma, or use_affine=False", "pass beta, or use_affine=False"]),
        ("LayerNorm", {}, [F, ("f32", (4,))], ["pass beta"]),
        ("LayerNorm", {"use_affine": False}, [F, ("f32", (4,))], ["leave gamma out"]),
        ("LayerNorm", {"use_affine": False}, [F, *[("f32", (4,))] * 2], ["set use_affine to True"] * 2),
        ("Quantize", {"scales": [1.0] * 3, "zps": [0] * 3}, [F], ["set qtype to per_channel"]),
        ("Quantize", {"scales": [1.0] * 4, "zps": [0] * 4}, [F], [""]),
        ("Quantize", {"scales": [1.0] * 4, "zps": [0] * 4, "axis": 3}, [F], [""]),
        ("Quantize", {"scales": [1.0] * 4, "zps": [0] * 4, "axis": 3}, [("f32", None)], ["set qtype to per_channel"]),
    ],
)
def test_suggested_fix_causes_no_violation(kind, attrs, inputs, mends):
    found = [one for one in og.check_op(kind, attrs, inputs) if one.severity == ERROR]
    assert [one.message.partition("; expected ")[2].partition("; ")[2] for one in found] == mends


NARROW = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "says"),
    [
        (
            "Convolution",
            WINDOW,
            [("f32", (1, 5, 5, 1)), ("f32", (3, 3, 2, 4))],
            "weights: shape [3, 3, 2, 4] read as XIO has 2 input channels; expected 1",
        ),
        (
            "Convolution",
            WINDOW,
            [("f32", (1, 5, 5, 2)), ("f32", (3, 3, 1, 4))],
            "weights: shape [3, 3, 1, 4] read as XIO has 1 input channel; expected 2",
        ),
        (
            "Convolution",
            WINDOW,
            [("f32", (1, 5, 5, 2)), ("f32", (3, 3, 2, 4)), ("f32", (3,))],
            "bias: shape [3]; expected shape [4], one element for each output channel",
        ),
        (
            "Convolution",
            {**NARROW, "strides": [1, 1]},
            [("f32", (1, 5, 2)), ("f32", (3, 2, 4))],
            "strides: [1, 1]; expected 1 element, one for each spatial axis of a rank 3 tensor",
        ),
        ("MatMul", {}, [("f32", (2, 3)), ("f32", (1, 4))], "weights: 1 row (shape [1, 4]); expected 3, the columns"),
        (
            "GroupNorm",
            {"groups": 2, "use_affine": False},
            [("f32", (2, 4, 1))],
            "groups: 2; expected a divisor of the 1 channel",
        ),
        (
            "StaticReshape",
            {"shape": "x", "special_zero": False},
            [F],
            "shape: 'x'; expected a list of integers of -1 or more",
        ),
        (
            "Interpolate",
            {"mode": "trilinear", "sizes": [2, 2]},
            [("f32", (1, 4, 4, 3))],
            "mode: trilinear; expected bilinear, linear or nearest, as src has rank 4; set mode to linear",
        ),
        (
            "Interpolate",
            {"mode": "bilinear", "sizes": [2]},
            [("f32", (1, 4, 3))],
            "mode: bilinear; expected linear or nearest, as src has rank 3; set mode to linear",
        ),
        (
            "Convolution",
            WINDOW,
            [("f32", (1, 5, 5, 2)), ("f32", (3, 2, 4))],
            "weights: rank 3; expected rank 4, as src has",
        ),
        (
            "Convolution",
            WINDOW,
            [("f32", (1, 2)), ("f32", (3, 3, 2, 4))],
            "src: rank 2; expected rank 3, 4 or 5: batch, channels and 1 to 3 spatial axes",
        ),
        ("ReduceSum", {"axes": [1, -2]}, [F], "axes: [1, -2]; expected no axis twice"),
        ("Elu", {"alpha": float("nan")}, [F], "alpha: nan; expected a non-negative number that a 32-bit float holds"),
        (
            "Dequantize",
            {"scales": [1.0], "zps": [0]},
            [("boolean", (2,))],
            "src is boolean; expected s8, u8, f8_e4m3 or f8_e5m2",
        ),
        # A gradient of two axes does not determine the rank of src.
        (
            "AvgPoolBackward",
            {**NARROW, "kernel": [1], "exclude_pad": True, "src_shape": [2, 5, 3]},
            [("f32", (2, 5))],
            "diff_dst: rank 2; expected rank 3, 4 or 5: batch, channels and 1 to 3 spatial axes",
        ),
    ],
)
def test_messages_are_correct(kind, attrs, inputs, says):
    attrs = {name: value for name, value in attrs.items() if edition("onednn-3.13").schema(kind).has_attribute(name)}
    (found,) = [one for one in og.check_op(kind, attrs, inputs) if one.severity == ERROR]
    assert found.message.startswith(f"{kind}: {says}")


@pytest.mark.parametrize("shape", [[3, 3, 5, 7, 2], [3, 4, 5], [3, 3, 0, 7]])
@pytest.mark.parametrize("weights_format", ["XIO", "OIX"])
def test_shows_legacy_shapes_as_given(shape, weights_format):
    g = og.Graph("legacy-1")
    x, y = g.input("x", "f32", (1, 4, 4, 5)), g.input("y", "f32", (1, 6, 6, 7))
    attrs = {**WINDOW, "filter_format": weights_format}
    with pytest.raises(og.SpecError) as caught:
        g.op("ConvTransposeBackpropFilters", [x, y, g.constant(np.array(shape, np.int32))], attrs)
    (found,) = caught.value.violations
    assert (found.where, found.given) == ("filter_shape", str(shape))


# Forms of the list ----------------------------------------------------------------------------------------------------


def test_violations_are_a_list_with_a_text():
    found = og.check_op("ReLU", {"alpha": 1}, [("f32", (2,)), ("f32", (3,))])
    assert isinstance(found, list)
    assert found == list(found)
    assert json.loads(json.dumps([dataclasses.asdict(one) for one in found]))[0]["rule"] == found[0].rule
    assert pickle.loads(pickle.dumps(found)) == found
    assert str(found).splitlines() == [f"error: [{one.rule}] {one.message}  ({one.page})" for one in found]
    for empty in (og.check_op("ReLU", {}, [("f32", (2,))]), og.check_attrs("ReLU"), og.check_graph([])):
        assert (empty, str(empty), empty._repr_html_()) == ([], "no violations", "<p>no violations</p>")


@pytest.mark.library
def test_violations_in_a_notebook():
    g = og.Graph("legacy-1")
    g.op("Negative", [g.input("x", og.f32, (2,))], name="<b>")
    html = og.check_graph(g)._repr_html_()
    assert "1 violation: 1 is a limit of this library" in html
    assert "Negative &#x27;&lt;b&gt;&#x27;" in html
    assert RED not in html
    html = og.check_attrs("ReLU", {"<script>": 1, "beta": 2})._repr_html_()
    assert "2 violations: 2 break the specification" in html
    assert html.count(RED) > 0
    assert "<script" not in html
    assert "2 violations: 2 break" in og.check_graph([1, 2])._repr_html_()


@pytest.mark.parametrize("edition", ["onednn-3.2", "onednn-3.13", "oneapi-1.4"])
@pytest.mark.parametrize(("shape", "fits"), [((2, 5), True), ((5,), False), ((1, 5), False), ((None, 5), True)])
def test_select_without_broadcasting_needs_one_shape(edition, shape, fits):
    inputs = [("boolean", shape), ("f32", (2, 5)), ("f32", (2, 5))]
    found = og.check_op("Select", {"auto_broadcast": "none"}, inputs, edition=edition)
    assert rules(found) == ([] if fits else ["condition_fits"])
    assert rules(og.check_op("Select", {}, inputs, edition=edition)) == []


@pytest.mark.parametrize(
    ("kind", "edition", "name"),
    [
        ("ConvTransposeBackpropFilters", "legacy-1", "filter_shape"),
        ("ConvolutionBackpropFilters", "legacy-1", "filter_shape"),
        ("ConvTransposeBackwardWeights", "oneapi-1.4", "weights_shape"),
        ("ConvolutionBackpropData", "legacy-1", "output_shape"),
    ],
)
@pytest.mark.parametrize("shape", [[2, 2, 3, 3], [2, 3, 3], [2, 1, 4, 4, 1]])
def test_an_ignored_shape_attribute_decides_nothing(kind, edition, name, shape):
    inputs = [("f32", None), ("f32", None), ("s32", (None,))]
    assert rules(og.check_op(kind, {**WINDOW, name: shape}, inputs, edition=edition)) == []


@pytest.mark.parametrize(
    ("contents", "expected"),
    [([3, 3, 6, 4], []), ([0, 0, 0, 0], ["shape_length"]), ([3, 3, 5, 4], ["channels_match"])],
)
def test_contents_of_a_shape_array_are_checked(contents, expected):
    inputs = [("f32", (2, 5, 5, 6)), ("f32", (2, 11, 11, 4)), np.array(contents, np.int32)]
    attrs = {**WINDOW, "strides": [2, 2]}
    assert rules(og.check_op("ConvTransposeBackpropFilters", attrs, inputs, edition="legacy-1")) == expected


def test_contents_of_an_axes_array_are_checked():
    for axes, expected in (([1], []), ([7], ["axes_valid"])):
        assert rules(og.check_op("ReduceSum", {}, [("f32", (2, 3)), np.array(axes, np.int32)])) == expected


@pytest.mark.parametrize(
    ("dtype", "cpu", "is_lacking"),
    [
        ("bf16", "", False),
        ("bf16", "@avx512_core", False),
        ("bf16", "@avx2", True),
        ("f16", "", False),
        ("f16", "@avx512_core_fp16", False),
        ("f16", "@avx512_core_bf16", True),
        ("f16", "@avx10_2", False),
        ("f16", "@avx2_vnni_2", False),  # nobody has tried one
        ("f32", "@sse41", False),
    ],
)
@pytest.mark.parametrize("version", ["3.2", "3.13"])
def test_data_types_without_instructions_are_told(version, dtype, cpu, is_lacking):
    for kind, inputs in (("Exp", [(4,)]), ("MatMul", [(2, 3), (3, 4)]), ("SoftMax", [(2, 3)])):
        given = [(dtype, shape) for shape in inputs]
        found = og.check_op(kind, {"axis": 1} if kind == "SoftMax" else {}, given, library=f"{version}{cpu}")
        limits = [(one.rule, one.severity) for one in found if one.severity != NOTE]
        assert limits == [("no_arithmetic_of_the_type", LIBRARY)] * is_lacking
    for kind in ("TypeCast", "Reorder"):  # on any CPU
        moved = og.check_op(kind, {}, [(dtype, (4,))], library=f"{version}{cpu}")
        assert "no_arithmetic_of_the_type" not in told(moved)


@pytest.mark.parametrize(
    ("dtype", "cpu", "has_tiles"),
    [
        ("bf16", "", True),
        ("bf16", "@avx512_core_amx", True),
        ("bf16", "@avx512_core_fp16", False),
        ("bf16", "@avx10_2", False),
        ("bf16", "@AVX2", False),
        ("f16", "", True),
        ("f16", "@avx512_core_amx_fp16", True),
        ("f16", "@avx512_core_amx", False),
        ("f32", "", False),
    ],
)
def test_leaks_of_tiles_are_told_for_cpus_with_tiles(dtype, cpu, has_tiles):
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    given = [(dtype, (1, 5, 5, 8)), (dtype, (3, 3, 8, 4))]
    found = og.check_op("Convolution", attrs, given, library=f"3.6{cpu}")
    assert ("window_leaks" in told(found)) is has_tiles


def test_result_that_a_reference_kernel_casts_needs_no_instructions():
    softmax = {"axis": 1}, [("f32", (2, 3))]
    assert told(og.check_op("SoftMax", *softmax, [("f16", (2, 3))], library="3.13@avx2")) == [
        "no_arithmetic_of_the_type"
    ]
    assert told(og.check_op("SoftMax", *softmax, [("f16", (2, 3)), ("f32", (2, 1))], library="3.13@avx2")) == []


@pytest.mark.library
def test_loaded_library_is_checked_for_this_cpu():
    from onegraph.capi.settings import is_native

    found = og.check_op("Exp", {}, [("f16", (4,))])
    assert told(found) == ([] if is_native(og.f16) else ["no_arithmetic_of_the_type"])


@pytest.mark.parametrize(
    ("choice", "version", "isa"),
    [
        ("3.2", (3, 2, 0), "avx10_2"),
        ("v3.6.2", (3, 6, 2), "avx10_2"),
        ("3.13@AVX2", (3, 13, 0), "avx2"),
        ("4.0.1@sse41", (4, 0, 1), "sse41"),
    ],
)
def test_a_library_is_a_version_and_a_cpu(choice, version, isa):
    library = library_named(choice)
    assert library == (version, EVERY_ISA[-1] if isa == "avx10_2" else isa)
    assert str(library).startswith(f"oneDNN {'.'.join(map(str, version))}")
    assert (" on " in str(library)) is (library.isa in ISA_NAMES)


@pytest.mark.parametrize(
    "choice", ["3.1", "3.1.9", "2.9", "3", "", "None", "3.2.1.0", "3.2@", "3.12345", 3.2, b"3.2", ()]
)
def test_other_names_of_libraries_are_refused(choice):
    with pytest.raises(og.ArgumentError, match=r"expected 'none', or a version from '3\.2' on"):
        library_named(choice)
    assert library_named("none") is None


WRONG = ("LayerNorm", {}, [("bf16", (2, 4)), ("bf16", (4,)), ("bf16", (4,))])  # for every version
GROUPED = ("GroupNorm", {"groups": 2, "keep_stats": False, "use_affine": False}, [("f32", (2, 4, 4))])


@pytest.mark.parametrize(
    ("call", "library", "rules_told"),
    [
        pytest.param(WRONG, Library((3, 6, 0)), ["norm_parameters_of_bf16"], marks=pytest.mark.library),
        (WRONG, None, []),
        (("LayerNorm", {"begin_norm_axis": "x"}, WRONG[2]), Library((3, 6, 0)), []),
        (("LayerNorm", 5, WRONG[2]), Library((3, 6, 0)), []),
        (("LayerNrm", {}, WRONG[2]), Library((3, 6, 0)), []),
        (GROUPED, Library((3, 5, 9)), ["newer_than_library"]),
        (GROUPED, Library((3, 6, 0)), []),
    ],
)
def test_limits_of_a_library_are_told_of_calls_without_mistakes(call, library, rules_told):
    kind, attrs, inputs = call
    checked = infer_op(kind, attrs, inputs, edition=edition("onednn-3.13"))
    found = library_violations(checked, "onednn-3.13", kind, 1, library)
    assert told(found) == rules_told


def test_types_of_four_inputs_are_shown():
    for count in (3, 4, 5):
        checked = infer_op("Concat", {"axis": 0}, [("f32", (2,))] * count, edition=edition("onednn-3.13"))
        shown = _tensors(checked)
        assert shown == f"{count} inputs: " + ", ".join(["f32 [2]"] * min(count, 4)) + ", ..." * (count > 4)


def test_unknown_cpu_is_refused():
    with pytest.raises(og.ArgumentError, match="expected behind @ one of sse41, avx, avx2"):
        og.check_op("Exp", {}, [("f16", (4,))], library="3.6@pentium")


def test_strides_that_are_not_always_honoured_are_noted():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 4), strides=(6, 1))
    g.output("y", g.layer_norm(x, use_affine=False, keep_stats=False))
    (found,) = og.check_graph(g, library="3.2")
    assert (found.rule, found.severity, found.where) == ("dense_only", "note", "strides")
    assert og.check_graph(g, library="none") == []
    assert told(og.check_op("LayerNorm", g.ops[0].attrs, [x], library="3.2")) == ["dense_only"]
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (2, 4), strides=(6, 1))))
    assert og.check_graph(g, library="3.2") == []


@pytest.mark.parametrize("library", ["3.2", "3.6.2", "3.13"])
def test_forms_without_a_kernel_are_told_by_version(library):
    x = ("f32", (4, 6))
    view = og.check_op("StaticTranspose", {"order": [1, 0]}, [x], library=library)
    assert [one.severity for one in view] == ([LIBRARY] if library == "3.2" else [])
    norm = og.check_op("LayerNorm", {}, [("bf16", (2, 4)), ("bf16", (4,)), ("bf16", (4,))], library=library)
    assert [one.rule for one in norm] == ["norm_parameters_of_bf16"]
    assert og.check_op("LayerNorm", {}, [("bf16", (2, 4)), ("f32", (4,)), ("f32", (4,))], library=library) == []
    assert og.check_op("StaticTranspose", {"order": [1, 0]}, [x], library="none") == []


@pytest.mark.parametrize(("padding", "is_accepted"), [([1, 1], True), ([1], False), ([1, 1, 1], False)])
def test_graphs_of_the_library_may_pad_outputs_of_a_stated_shape(padding, is_accepted):
    graph = og.Graph(strict=False)
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "data_format": "NCX"}
    diff, weights = graph.input("diff", og.f32, (1, 4, 4, 4)), graph.input("weights", og.f32, (4, 2, 3, 3))
    attrs = {**window, "weights_format": "OIX", "output_padding": padding, "dst_shape": [1, 2, 6, 6]}
    if is_accepted:
        assert graph.op("ConvolutionBackwardData", [diff, weights], attrs).shape == (1, 2, 6, 6)
    else:
        with pytest.raises(og.SpecError, match="output_padding"):
            graph.op("ConvolutionBackwardData", [diff, weights], attrs)
