"""Translation between editions: round trips, permutations, and the names of lost parts."""

import itertools

import numpy as np
import pytest
from conftest import LONG
from helpers.grouped import grouped
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.inference.translate_op import Translation, translate
from onegraph.opset.editions.dialect import base_call
from onegraph.opset.editions.registry import EDITIONS, base_of, edition
from onegraph.opset.signature import Fill
from onegraph.reference import run
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.transform.translate_graph import translate_graph

BASE_EDITION = "onednn-3.13"
WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
# Values that differ from the defaults, valid in every edition that has the attribute.
VALUES = {"f32": 2.0, "f32[]": (0.5, 0.25), "s64": 3, "s64[]": (2, 3)}
SHAPES = ("weights_shape", "filter_shape", "dst_shape", "output_shape", "src_shape", "input_shape")


def unusual(attribute):
    """A valid value other than the default."""
    if attribute.values:
        return next(value for value in attribute.values if value != attribute.default)
    if attribute.kind == "bool":
        return not attribute.default
    return (6, 3, 4, 5) if attribute.name in SHAPES else VALUES[attribute.kind]


def calls(schema):
    """Attributes of some uses of an op: the required ones, all, and each listed value of each."""
    # Some editions require zero points; another test has calls without them.
    least = {one.name: unusual(one) for one in schema.attributes if one.required or one.name == "zps"}
    yield least
    # Beside sizes, scales are ignored or forbidden.
    ignored = {"scales"} if schema.has_attribute("sizes") else set()
    yield {one.name: unusual(one) for one in schema.attributes if one.name not in ignored}
    for one in schema.attributes:
        yield from ({**least, one.name: value} for value in one.values)


def meaning(kind, attrs, name):
    """The value of every attribute of the base op, given or default."""
    schema = edition(name).schema(kind)
    call = base_call(schema, base_of(schema), attrs, ())
    said = {one.name: call.attr(one.name) for one in call.schema.attributes}
    return call.schema.name, {name: value.value if isinstance(value, Fill) else value for name, value in said.items()}


# From every edition to itself, to its neighbours, and in turns to two of the others that differ most from it; make
# test-long takes every pair.
FAR = (EDITIONS[0], EDITIONS[-1], BASE_EDITION, "legacy-1")
PAIRS = [
    (source, target)
    for (place, source), (other, target) in itertools.product(enumerate(EDITIONS), enumerate(EDITIONS))
    if LONG or abs(place - other) < 2 or target in FAR[place % 2 :: 2]
]


@grouped("source, target", PAIRS, key=lambda case: case[0])
def test_round_trip_keeps_the_call(source, target):
    for kind, schema in edition(source).schemas.items():
        for attrs in calls(schema):
            there = translate(kind, attrs, source=source, target=target)
            if there.lost:
                assert set(there.reasons) == set(there.lost)
                assert there.kind is None or set(there.lost) <= attrs.keys()
                continue
            assert meaning(there.kind, there.attrs, target) == meaning(kind, attrs, source)
            back = translate(there.kind, there.attrs, source=target, target=source)
            assert (back.kind, back.lost) == (kind, ())
            kept = {name: value for name, value in attrs.items() if value != schema.attribute(name).default}
            assert kept.items() <= back.attrs.items() <= attrs.items()


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        (None, None, (None, None)),
        ((4, None, 3, 3), None, ((None, 4, 3, 3), None)),
        ((4, 2, 3, 3), None, ((2, 4, 3, 3), (9, 18, 3, 1))),
        ((4, 2, 3, 3), (1, 4, 8, 24), ((2, 4, 3, 3), (4, 1, 8, 24))),
    ],
)
def test_weights_of_less_known_shape_keep_their_memory(shape, strides, expected):
    attrs = {**WINDOW, "data_format": "NCX", "weights_format": "IOX"}
    ends = [og.LogicalTensor(0, og.f32, (1, 4, 5, 5)), og.LogicalTensor(1, og.f32, shape, strides, "w")]
    found = translate("ConvTranspose", attrs, ends, source=BASE_EDITION, target="legacy-1")
    assert (found.inputs[1].shape, found.inputs[1].strides) == expected
    assert found.inputs[0] is ends[0]
    assert [*found.permutations.values()] == [(1, 0, 2, 3)]


def test_shape_of_weights_is_a_vector_beside_permuted_weights():
    attrs = {**WINDOW, "data_format": "NCX", "weights_format": "IOX"}
    sizes = og.LogicalTensor(2, og.s32, (4,), None, "sizes")
    ends = [og.LogicalTensor(0, og.f32, (1, 4, 5, 5)), og.LogicalTensor(1, og.f32, (1, 2, 7, 7)), sizes]
    use = "ConvTransposeBackwardWeights", attrs, ends, [("f32", (4, 2, 3, 3))]
    found = translate(*use, source=BASE_EDITION, target="legacy-1")
    assert found.inputs[2] is sizes
    assert found.outputs == ((og.f32, (2, 4, 3, 3)),)
    assert {*found.permutations.values()} == {(1, 0, 2, 3)}
    assert len(found.permutations) == 2


UNRANKED = ("f32", None)
IN_XIO = {"data_format": "NCX", "weights_format": "IOX"}


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "order"),
    [
        ("ConvTransposeBackwardWeights", {"weights_shape": (4, 2, 3, 3)}, (), (1, 0, 2, 3)),
        ("ConvTransposeBackwardWeights", {}, (), None),
        ("ConvTranspose", WINDOW, [UNRANKED, UNRANKED, ("f32", (2,))], (1, 0, 2, 3)),
        ("ConvTranspose", {}, [UNRANKED, UNRANKED, ("f32", (2,))], None),
        ("ConvTranspose", {}, [UNRANKED, UNRANKED, None], None),
        ("ConvTranspose", {}, [("f32", (1, 4, 5)), UNRANKED], (1, 0, 2)),
    ],
)
def test_axes_are_permuted_where_something_says_their_number(kind, attrs, inputs, order):
    found = translate(kind, {**IN_XIO, **attrs}, inputs, source=BASE_EDITION, target="legacy-1")
    assert [*found.permutations.values()] == ([order] if order else [])
    assert bool(found.lost) is (order is None)


def test_inputs_that_the_base_op_lacks_stay_within_an_edition():
    ends = [("f32", (1, 4, 4, 2)), ("f32", (1, 2, 2, 2)), ("s32", (1, 2, 2, 2))]
    attrs = {**WINDOW, "strides": [2, 2], "kernel": [2, 2]}
    found = translate("MaxPoolBackprop", attrs, ends, source="legacy-1", target="legacy-1")
    assert [(str(dtype), shape) for dtype, shape in found.inputs] == ends
    lost = translate("MaxPoolBackprop", attrs, ends, source="legacy-1", target=BASE_EDITION)
    assert (len(lost.inputs), lost.lost) == (2, ("output_forward_indices",))


def test_zero_keeps_its_sign():
    found = translate("Clamp", {"min": -0.0, "max": 1.0}, source=BASE_EDITION, target="legacy-1")
    assert str(found.attrs) == "{'min': -0.0, 'max': 1.0}"


@pytest.mark.parametrize("name", EDITIONS)
def test_nothing_is_lost_in_the_same_edition(name):
    for kind, schema in edition(name).schemas.items():
        for attrs in calls(schema):
            assert translate(kind, attrs, source=name, target=name) == Translation(kind, attrs)


@pytest.mark.parametrize(
    ("kind", "source", "target", "expected"),
    [
        ("ConvolutionBackpropFilters", "legacy-1", "onednn-3.0", "ConvolutionBackwardWeights"),
        ("MatMul", "legacy-1", "oneapi-1.2", "MatMul"),
        ("SoftMaxBackward", BASE_EDITION, "legacy-1", "SoftMaxBackprop"),
        ("conv_transpose", BASE_EDITION, "legacy-1", "ConvTranspose"),
        ("Softmax", "onednn-3.0", BASE_EDITION, "SoftMax"),
        ("GreaterEqual", "legacy-1", "onednn-3.7", "GreaterEqual"),
    ],
)
def test_translates_the_kind(kind, source, target, expected):
    assert translate(kind, source=source, target=target).kind == expected


@pytest.mark.parametrize(
    ("kind", "source", "target", "word"),
    [
        ("Erf", "legacy-1", BASE_EDITION, "no op of this meaning"),
        ("Rsqrt", "legacy-1", BASE_EDITION, "Pow with beta -0.5"),
        ("Pow", "legacy-1", BASE_EDITION, "the attribute beta"),
        ("Pow", BASE_EDITION, "legacy-1", "the exponent is a tensor"),
        ("Abs", BASE_EDITION, "legacy-1", "no op"),
        ("GreaterEqual", "legacy-1", "onednn-3.6", "no op"),
        ("Dropout", BASE_EDITION, "onednn-3.11", "no op"),
        ("Shape", "host", "oneapi-1.4", "takes them as shapes="),
    ],
)
def test_op_without_a_counterpart(kind, source, target, word):
    found = translate(kind, source=source, target=target)
    assert found.kind is None
    assert found.lost == (kind,)
    assert word in found.reasons[kind]


@pytest.mark.parametrize(
    ("kind", "attrs", "target", "kept", "lost"),
    [
        ("GELU", {"mode": "gelu_tanh"}, "onednn-3.8", {}, ("mode",)),
        ("GELU", {"mode": "gelu_erf"}, "onednn-3.8", {}, ()),
        ("SoftPlus", {"beta": 2.5}, "legacy-1", {}, ("beta",)),
        ("SoftPlus", {"beta": 2.0}, "legacy-1", {"beta": 2}, ()),
        ("DynamicDequantize", {"qtype": "per_group", "group_shape": [2]}, "onednn-3.6", {}, ("qtype", "group_shape")),
        (
            "MatMul",
            {"transpose_b": True, "accumulation_mode": "f32"},
            "legacy-1",
            {"transpose_b": True},
            ("accumulation_mode",),
        ),
    ],
)
def test_attribute_without_a_counterpart(kind, attrs, target, kept, lost):
    found = translate(kind, attrs, source=BASE_EDITION, target=target)
    assert found.attrs == kept
    assert found.lost == lost


@pytest.mark.parametrize("kind", ["Interpolate", "InterpolateBackward"])
def test_leaves_ignored_scales_out_where_forbidden(kind):
    attrs = {"mode": "nearest", "sizes": (4, 6), "scales": (2.0, 2.0)}
    found = translate(kind, attrs, source=BASE_EDITION, target="legacy-1")
    assert (found.attrs, found.lost) == ({"mode": "nearest", "sizes": (4, 6)}, ())
    assert translate(kind, attrs, source=BASE_EDITION, target="onednn-3.2").attrs == attrs
    alone = {"mode": "nearest", "sizes": (), "scales": (2.0, 2.0)}
    assert translate(kind, alone, source=BASE_EDITION, target="legacy-1").attrs == alone


def test_adds_zero_points_where_required():
    found = translate("Quantize", {"scales": [1.0, 2.0]}, source=BASE_EDITION, target="onednn-3.3")
    assert found == Translation("Quantize", {"scales": (1.0, 2.0), "zps": (0, 0)})


def test_data_type_without_a_counterpart():
    tensors = [("s32", (2,)), ("s32", (2,))]
    assert translate("Add", {}, tensors, source=BASE_EDITION, target="onednn-3.9").lost == ()
    found = translate("Add", {}, tensors, source=BASE_EDITION, target="onednn-3.8")
    assert found.lost == ("src_0", "src_1")
    assert found.reasons["src_1"] == "src_1 is s32; there it must be f32, f16 or bf16"


@pytest.mark.parametrize("inputs", [[("f32", (2, 3))], ()])
def test_output_data_type_without_a_counterpart(inputs):
    outputs = [("bf16", (2, 3))]
    assert translate("SoftMax", {}, inputs, outputs, source=BASE_EDITION, target="onednn-3.8").lost == ()
    found = translate("SoftMax", {}, inputs, outputs, source=BASE_EDITION, target="onednn-3.2")
    if inputs:  # without them the source may be bf16 too
        assert found.lost == ("dst",)
        assert found.reasons == {"dst": "dst is bf16; there it must be f32, as src is f32"}
    assert found.outputs == ((og.bf16, (2, 3)),)
    eighth = translate(
        "Quantize", {"scales": [1.0]}, inputs, [("f8_e4m3", (2, 3))], source=BASE_EDITION, target="legacy-1"
    )
    assert eighth.lost == ("dst",)
    assert eighth.reasons == {"dst": "dst is f8_e4m3; there it must be s8 or u8"}


def test_output_without_a_counterpart():
    tensors = [("f32", (2, 3))]
    found = translate("SoftMax", {}, tensors, [*tensors, ("f32", (2, 1))], source=BASE_EDITION, target="onednn-3.8")
    assert found.lost == ("stats",)
    assert found.reasons == {"stats": "stats: SoftMax has no such output there"}
    assert found.outputs == ((og.f32, (2, 3)),)


def test_reasons_name_ports_as_the_source_does():
    tensors, outputs = [("f32", (2, 3))], [("bf16", (2, 3))]
    found = translate("SoftMax", {}, tensors, outputs, source=BASE_EDITION, target="legacy-1")
    assert found.reasons == {"dst": "dst is bf16; there it must be f32, as src is f32"}


def test_wrong_outputs_break_the_source_edition():
    for inputs in ([("f32", (2,))], ()):
        with pytest.raises(og.SpecError) as caught:
            translate("ReLU", {}, inputs, [("s8", (2,))], source=BASE_EDITION, target="legacy-1")
        (found,) = caught.value.violations
        assert (found.rule, found.where, found.given) == ("data_type", "dst", "s8")
    with pytest.raises(og.ArgumentError, match=r"outputs: 3; expected a list"):
        translate("ReLU", {}, [("f32", (2,))], 3, source=BASE_EDITION, target="legacy-1")


def test_output_of_an_op_without_a_counterpart():
    found = translate("Erf", {}, [("f32", (2,))], [("f32", (2,))], source="legacy-1", target=BASE_EDITION)
    assert (found.kind, found.outputs) == (None, ((og.f32, (2,)),))


def test_input_without_a_counterpart():
    attrs = {"strides": [2], "kernel": [2], "pads_begin": [0], "pads_end": [0]}
    tensors = [("f32", (1, 4, 1)), ("f32", (1, 2, 1))]
    found = translate("MaxPoolBackprop", attrs, tensors, source="legacy-1", target=BASE_EDITION)
    assert found.lost == ()
    found = translate("MaxPoolBackprop", attrs, [*tensors, ("s32", (1, 2, 1))], source="legacy-1", target=BASE_EDITION)
    assert found.lost == ("output_forward_indices",)
    assert found.inputs == ((og.f32, (1, 4, 1)), (og.f32, (1, 2, 1)))


# The axis order of the ConvTranspose ops -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "shape", "expected", "word", "order"),
    [
        ("OIX", (3, 4, 5, 6), (4, 3, 5, 6), "IOX", (1, 0, 2, 3)),
        ("XIO", (5, 6, 4, 3), (5, 6, 3, 4), "XOI", (0, 1, 3, 2)),
    ],
)
@pytest.mark.parametrize("target", [name for name in EDITIONS if name != "legacy-1"])
def test_transposed_weights(fmt, shape, expected, word, order, target):
    attrs = {**WINDOW, "groups": 2, "filter_format": fmt}
    tensors = [("f32", (1, 7, 7, 4)), ("f32", shape)]
    there = translate("ConvTranspose", attrs, tensors, source="legacy-1", target=target)
    assert there.attrs["weights_format"] == word
    assert there.inputs == ((og.f32, (1, 7, 7, 4)), (og.f32, expected))
    assert there.permutations == {"weights": order}
    assert og.check_op(there.kind, there.attrs, there.inputs, edition=target) == []
    back = translate("ConvTranspose", there.attrs, there.inputs, source=target, target="legacy-1")
    assert back.inputs[1] == (og.f32, shape)
    assert back.attrs["filter_format"] == fmt
    assert back.permutations == {"filter": order}


def test_shape_attribute_is_permuted():
    attrs = {**WINDOW, "groups": 2, "filter_shape": [5, 6, 4, 3]}
    there = translate("ConvTransposeBackpropFilters", attrs, source="legacy-1", target=BASE_EDITION)
    assert there.attrs["weights_shape"] == (5, 6, 3, 4)
    assert "weights_format" not in there.attrs  # XIO means XOI there, which is the default
    assert there.permutations == {"diff_weights": (0, 1, 3, 2)}


def test_shape_tensor_is_permuted():
    tensors = [("f32", (1, 7, 7, 4)), ("f32", (1, 11, 12, 6)), np.array([5, 6, 4, 3], np.int32)]
    attrs = {**WINDOW, "groups": 2}
    there = translate("ConvTransposeBackpropFilters", attrs, tensors, source="legacy-1", target=BASE_EDITION)
    assert there.permutations == {"weights_shape": (0, 1, 3, 2), "diff_weights": (0, 1, 3, 2)}
    assert there.inputs[2] == (og.s32, (4,))


def test_output_shape_is_permuted():
    tensors = [("f32", (1, 7, 7, 4)), ("f32", (1, 11, 12, 6))]
    attrs = {**WINDOW, "groups": 2, "filter_shape": [5, 6, 4, 3]}
    output = og.LogicalTensor(7, og.f32, (5, 6, 4, 3))
    for wanted, expected in ((("f32", (5, 6, 4, 3)), (og.f32, (5, 6, 3, 4))), (output, (5, 6, 3, 4))):
        there = translate(
            "ConvTransposeBackpropFilters", attrs, tensors, [wanted], source="legacy-1", target=BASE_EDITION
        )
        (result,) = there.outputs
        assert (result if wanted is not output else result.shape) == expected
    assert result.strides == (6 * 4 * 3, 4 * 3, 1, 3)


def test_no_permutation_within_one_axis_order():
    attrs = {**WINDOW, "weights_format": "IOX"}
    assert translate("ConvTranspose", attrs, source="oneapi-1.2", target=BASE_EDITION).permutations == {}
    attrs = {**WINDOW, "filter_format": "OIX"}
    assert translate("Convolution", attrs, source="legacy-1", target=BASE_EDITION).permutations == {}


def test_axis_order_of_unknown_rank_is_lost():
    assert translate("ConvTranspose", source="legacy-1", target=BASE_EDITION).lost == ("filter",)


@pytest.mark.parametrize("kind", ["ConvTranspose", "ConvTransposeBackpropData", "ConvTransposeBackpropFilters"])
@pytest.mark.parametrize("fmt", ["OIX", "XIO"])
def test_permuted_arrays_give_the_same_result(kind, fmt):
    rng = np.random.default_rng(0)
    filter_shape = (3, 4, 2, 3) if fmt == "OIX" else (2, 3, 4, 3)
    x, weights, dy = (rng.normal(size=shape).astype(np.float32) for shape in ((1, 5, 5, 4), filter_shape, (1, 6, 7, 6)))
    attrs = {**WINDOW, "groups": 2, "filter_format": fmt}
    arrays = {"ConvTranspose": (x, weights), "ConvTransposeBackpropData": (dy, weights)}.get(kind, (x, dy))
    if kind == "ConvTransposeBackpropFilters":
        attrs["filter_shape"] = filter_shape
    there = translate(kind, attrs, arrays, source="legacy-1", target=BASE_EDITION)
    names = [port.name for port in edition(BASE_EDITION).schema(there.kind).inputs]
    moved = [permuted(array, there.permutations.get(name)) for array, name in zip(arrays, names, strict=False)]
    expected = one("legacy-1", kind, arrays, attrs)
    found = one(BASE_EDITION, there.kind, moved, there.attrs)
    (output,) = edition(BASE_EDITION).schema(there.kind).outputs
    np.testing.assert_array_equal(found, permuted(expected, there.permutations.get(output.name)))


def permuted(array, order):
    return array if order is None else array.transpose(order)


def one(name, kind, arrays, attrs):
    graph = og.Graph(edition=name)
    inputs = [graph.input(f"in_{i}", array.dtype, array.shape) for i, array in enumerate(arrays)]
    graph.output("out", graph.op(kind, inputs, attrs))
    return run(graph, {f"in_{i}": array for i, array in enumerate(arrays)})["out"]


# Rejected calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"), [("legacy", BASE_EDITION), (BASE_EDITION, "onednn-4.0"), (None, "legacy-1")]
)
def test_unknown_edition(source, target):
    with pytest.raises(og.ArgumentError, match="unknown edition"):
        translate("ReLU", source=source, target=target)


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "rule"),
    [
        ("ReLu", {}, (), "unknown_op"),
        (3, {}, (), "unknown_op"),
        ("Elu", {"beta": 1.0}, (), "unknown_attribute"),
        ("Elu", {"alpha": "1"}, (), "attribute_kind"),
        ("Elu", 1, (), "attribute_kind"),
        ("ReLU", {}, [("f32", (1,)), ("f32", (1,))], "input_count"),
        ("ReLU", {}, [("f33", (1,))], "tensor_kind"),
        ("Add", {}, [("f32", (2,)), ("f32", (3,))], "broadcastable"),
    ],
)
def test_rejects_calls_invalid_in_the_source(kind, attrs, inputs, rule):
    with pytest.raises(og.SpecError) as caught:
        translate(kind, attrs, inputs, source=BASE_EDITION, target="legacy-1")
    assert [violation.rule for violation in caught.value.violations] == [rule]


def test_one_logical_tensor():
    graph = og.Graph()
    x = graph.input("x", og.f32, (2, None))
    found = translate("ReLU", None, x, source=BASE_EDITION, target="legacy-1")
    assert found == Translation("ReLU", {}, (x,))


def test_permuted_logical_tensor_describes_the_same_memory():
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "filter_format": "OIX"}
    g = og.Graph(edition="legacy-1")
    src, weights = g.input("src", og.f32, (1, 5, 5, 4)), g.input("weights", og.f32, (8, 4, 3, 3))
    found = og.translate("ConvTranspose", window, [src, weights], source="legacy-1", target="oneapi-1.4")
    assert found.inputs[0] is src
    assert (found.inputs[1].shape, found.inputs[1].strides) == ((4, 8, 3, 3), (9, 36, 3, 1))
    assert (found.inputs[1].id, found.inputs[1].name) == (weights.id, "weights")


@pytest.mark.parametrize(
    ("given", "name", "meant"),
    [
        ("ConvTransposeBackpropFilters", "onednn-3.13", "ConvTransposeBackwardWeights"),
        ("ConvolutionBackpropFilters", "oneapi-1.4", "ConvolutionBackwardWeights"),
        ("ConvolutionBackwardWeights", "legacy-1", "ConvolutionBackpropFilters"),
    ],
)
def test_suggests_the_name_in_this_edition(given, name, meant):
    (found,) = og.check_op(given, edition=name)
    assert f"did you mean {meant!r}?" in found.message


@pytest.mark.parametrize(
    "inputs", [0, np.ones(3, np.float32), "f32", {"src": ("f32", (2,))}], ids=lambda v: type(v).__name__
)
def test_rejects_inputs_that_are_not_a_list(inputs):
    with pytest.raises(og.ArgumentError, match=r"inputs: .*expected a list"):
        og.translate("ReLU", {}, inputs, source="onednn-3.2", target="legacy-1")


# Whole graphs ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from(["legacy-1", "oneapi-1.2", "onednn-3.2"]))
@settings(max_examples=40, deadline=None)
def test_translated_graph_gives_the_same_results(seed, source):
    graph = random_graph(seed, 5, edition=source, dtypes=["f32", "s8", "u8"])
    theirs = edition("onednn-3.13")
    if any(theirs.meaning(base_of(edition(source).schema(op.kind))) is None for op in graph.ops):
        with pytest.raises(og.UnsupportedError, match="in onednn-3"):
            translate_graph(graph, "onednn-3.13")
        return
    other = translate_graph(graph, "onednn-3.13")
    assert other.edition == "onednn-3.13"
    assert {op.edition for op in other.ops} == {"onednn-3.13"}
    assert [one for one in og.check_graph(other) if one.severity == "error"] == []
    inputs = random_inputs(graph, seed)
    expected, got = og.reference.run(graph, inputs), og.reference.run(other, inputs)
    for name in graph.outputs:
        np.testing.assert_array_equal(got[name], expected[name])


def test_permutes_weights_to_the_edition_order():
    values = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)  # legacy XIO: spatial, in, out
    window = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    for constant in (True, False):
        g = og.Graph("legacy-1")
        x = g.input("x", og.f32, (1, 4, 3))
        w = g.constant(values) if constant else g.input("w", og.f32, (2, 3, 2))
        g.output("y", g.op("ConvTranspose", [x, w], window))
        other = translate_graph(g)
        assert [op.kind for op in other.ops] == ["ConvTranspose"] if constant else ["StaticTranspose", "ConvTranspose"]
        assert other.ops[-1].inputs[1].shape == (2, 2, 3)
        inputs = {"x": np.arange(12, dtype=np.float32).reshape(1, 4, 3), **({} if constant else {"w": values})}
        # by hand: the first output is the first input row times the first kernel element
        first = inputs["x"][0, 0] @ values[0]
        assert og.reference.run(other, inputs)["y"][0, 0].tolist() == first.tolist()
        assert sum(tensor.constant for tensor in other._tensors) == constant


def test_names_an_op_without_a_counterpart():
    g = og.Graph("legacy-1")
    x = g.input("x", og.f32, (2,))
    g.output("y", g.op("Erf", [x], name="gauss"))
    with pytest.raises(og.UnsupportedError, match=r"Erf 'gauss' in onednn-3\.13"):
        translate_graph(g)


def test_rejects_data_types_the_edition_lacks():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    g.output("y", g.softmax(x, axis=1, dtype=og.bf16, outputs=["dst"], name="probabilities"))
    assert translate_graph(g, "onednn-3.13").outputs["y"].dtype is og.bf16
    for name in ("onednn-3.2", "legacy-1"):
        with pytest.raises(
            og.UnsupportedError, match=f"^SoftMax 'probabilities' in {name}: .* is bf16; there it must be f32, as "
        ):
            translate_graph(g, name)


def test_drops_unread_outputs_the_edition_lacks():
    g = og.Graph()
    found = g.softmax(g.input("x", og.f32, (2, 3)), axis=1, outputs=["stats"])
    g.output("y", found.dst)
    other = translate_graph(g, "onednn-3.2")
    assert [len(op.outputs) for op in other.ops] == [1]
    assert og.check_graph(other) == []
    g.output("stats", found.stats)
    with pytest.raises(
        og.UnsupportedError, match=r"SoftMax 'softmax_0' in onednn-3\.2: stats: SoftMax has no such output"
    ):
        translate_graph(g, "onednn-3.2")


def test_names_ops_invalid_in_their_edition():
    g = og.Graph(strict=False)
    x = g.input("x", og.f32, (1, 4, 4, 1))
    window = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0]}
    g.output("y", g.max_pool(x, pads_end=[-1, -1], **window, name="pool"))
    with pytest.raises(og.SpecError, match=r"^MaxPool 'pool': pads_end: \(-1, -1\); expected"):
        translate_graph(g, "onednn-3.2")
