"""The mistakes of the specification's texts: the records, and what onegraph does instead of what is printed."""

import itertools
import json
import re

import numpy as np
import pytest
from helpers.command_line import onegraph
from helpers.grouped import grouped

from onegraph import check_attrs, check_op
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.dialect import base_call
from onegraph.opset.editions.registry import EDITIONS, base_of, edition
from onegraph.opset.errata.catalogue import CORRECTIONS, corrections
from onegraph.opset.errata.correction import ATTRIBUTES, OUTPUTS, SECTIONS, TYPES
from onegraph.opset.schema import TensorType
from onegraph.reference.run import narrow, reference_function

NAMES = {one.name for one in CORRECTIONS}


def ids(one):
    return one.name


def cells(one):
    """Every edition and op of a correction."""
    return itertools.product(one.editions, one.ops)


# The records ---------------------------------------------------------------------------------------------------------


def test_names_are_unique():
    assert len(NAMES) == len(CORRECTIONS)
    assert all(re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name) for name in NAMES)


def test_no_two_records_are_equal():
    seen = [
        (place, kind, one.section, one.where, one.printed, one.meant)
        for one in CORRECTIONS
        for place, kind in cells(one)
    ]
    assert len(set(seen)) == len(seen)


@grouped("one", CORRECTIONS, key=lambda one: one.section, label=ids)
def test_editions_and_ops_exist(one):
    assert one.editions
    assert one.ops
    assert list(one.editions) == sorted(set(one.editions), key=EDITIONS.index)
    assert len(set(one.ops)) == len(one.ops)
    for name, kind in cells(one):
        assert kind in edition(name).schemas, name


@grouped("one", CORRECTIONS, key=lambda one: one.section, label=ids)
def test_place_exists(one):
    assert one.section in SECTIONS
    if not one.where:
        return
    for name, kind in cells(one):
        schema = edition(name).schemas[kind]
        attributes = {attribute.name for attribute in schema.attributes}
        inputs, outputs = ({port.name for port in side} for side in (schema.inputs, schema.outputs))
        here = {ATTRIBUTES: attributes, OUTPUTS: outputs, TYPES: inputs | outputs}
        # A description and a note below the inputs may be about any part of the op.
        assert one.where in here.get(one.section, attributes | inputs | outputs), (name, kind)


@grouped("one", CORRECTIONS, key=lambda one: one.section, label=ids)
def test_texts_are_complete(one):
    for text in (one.printed, one.meant, one.reason, one.action):
        assert text
        assert text == " ".join(text.split())
    assert len(one.printed) <= 100  # a few words or one formula
    assert one.printed != one.meant
    assert one.reason[-1] not in ".,;"
    assert one.meant[-1] not in ",;"
    assert re.search(r"[^.]\.$", one.action)
    assert str(one).startswith(one.section)
    assert str(one).endswith(one.action)


@grouped("one", CORRECTIONS, key=lambda one: one.section, label=ids)
def test_is_found_by_edition_and_op(one):
    for name, kind in cells(one):
        assert one in corrections(name, kind)
        chosen = edition(name)
        assert one in chosen.corrections(chosen.schemas[kind])
        assert one.concerns(name, kind)


def test_other_pages_have_no_such_correction():
    assert not any(one.name == "gelu_tanh" for one in corrections("onednn-3.8", "GELU"))
    assert not corrections("onednn-3.13", "Tanh")
    assert not corrections("no such edition", "GELU")


def test_links_are_addresses():
    for name in EDITIONS:
        chosen = edition(name)
        for schema in chosen.schemas.values():
            assert re.fullmatch(r"https://[\w./-]+/\w+\.(md|rst)", chosen.link(schema))


# Numbers -------------------------------------------------------------------------------------------------------------


def run(name, kind, attrs, arrays):
    schema = edition(name).schemas[kind]
    arrays = [None if array is None else np.asarray(array) for array in arrays]
    types = [None if array is None else TensorType(None, array.shape, array) for array in arrays]
    base = base_of(schema)
    attrs = {key: tuple(value) if isinstance(value, list) else value for key, value in attrs.items()}
    with np.errstate(divide="ignore"):
        result = reference_function(base)(base_call(schema, base, attrs, types), *arrays)
    result = result[0] if isinstance(result, tuple) else result
    return narrow(result, DataType.f32)


NEWEST = "onednn-3.13"
POOL = {"strides": [1], "pads_begin": [0], "pads_end": [0], "kernel": [2], "data_format": "NCX"}
WINDOW = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX"}
TWO_GROUPS = np.array([[[1.0], [10.0]]])  # one sample with two channels of one element


@pytest.mark.parametrize(
    ("correction", "name", "kind", "attrs", "arrays", "expected"),
    [
        # 0.5 * (1 + erf(1) / sqrt(2)) would be 0.7979.
        ("gelu_erf", NEWEST, "GELU", {}, [[1.0]], [0.8413447460685429]),
        ("gelu_brackets", "legacy-1", "GELU", {}, [[1.0]], [0.8413447460685429]),
        ("gelu_tanh", NEWEST, "GELU", {"mode": "gelu_tanh"}, [[2.0]], [1.954597694087775]),
        ("erf_factor", "legacy-1", "Erf", {}, [[0.5, 9.0]], [0.5204998778130465, 1.0]),
        ("mish_gradient_left_side", NEWEST, "MishBackward", {}, [[0.0], [5.0]], [3.0]),
        ("abs_gradient_left_side", NEWEST, "AbsBackward", {}, [[-2.0, 0.0, 2.0], [5.0, 5.0, 5.0]], [-5.0, 0.0, 5.0]),
        ("reciprocal_of_zero", NEWEST, "Reciprocal", {}, [[0.0, -0.0]], [np.inf, -np.inf]),
        ("maximum_brackets", NEWEST, "Maximum", {}, [[1.0, 5.0], [2.0, 3.0]], [2.0, 5.0]),
        ("exclusive_or_sign", "legacy-1", "LogicalXor", {}, [[True, True], [True, False]], [False, True]),
        ("squared_difference_formula", "onednn-3.1", "SquaredDifference", {}, [[1.0], [4.0]], [9.0]),
        ("log_left_side", "legacy-1", "Log", {}, [[1.0]], [0.0]),
        # (7 - 3) / 0.25 would be 16.
        ("dequantize_division", "legacy-1", "Dequantize", {"scales": [0.25], "zps": [3]}, [[7]], [1.0]),
        ("dequantize_division", "legacy-1", "DynamicDequantize", {}, [[7], [0.25], [3]], [1.0]),
        (
            "dequantize_channel_scale",
            "legacy-1",
            "Dequantize",
            {"scales": [0.5, 2.0], "zps": [1, 0], "qtype": "per_channel"},
            [[[3, 3]]],
            [[1.0, 6.0]],
        ),
        ("dequantize_round", NEWEST, "Dequantize", {"scales": [0.25]}, [[1, 3]], [0.25, 0.75]),
        ("rounding_mode_nearest", "legacy-1", "Dequantize", {"scales": [0.25], "zps": [0]}, [[3]], [0.75]),
        ("rounding_mode_dynamic", "onednn-3.6", "DynamicDequantize", {}, [[3], [0.25]], [0.75]),
        # 12.5 is the mean square; two roots would divide by sqrt(sqrt(12.5) + 3.5).
        ("rms_norm_two_roots", NEWEST, "RMSNorm", {"epsilon": 3.5}, [[3.0, 4.0]], [0.75, 1.0]),
        (
            "batch_norm_inference_statistics",
            "legacy-1",
            "BatchNormInference",
            {"epsilon": 1.0},
            [[[5.0]], [2.0], [1.0], [3.0], [3.0]],
            [[3.0]],
        ),
        *(
            # One row, 1 and 3, with mean 2 and variance 1 + epsilon = 4, whatever beta is.
            (
                "layer_norm_gradient_of_beta",
                NEWEST,
                "LayerNormBackward",
                {"epsilon": 3.0},
                [[[1.0, 3.0]], [[4.0, 8.0]], [2.0], [1.0], [1.0, 1.0], [beta, beta]],
                [[-0.75, 0.75]],
            )
            for beta in (0.0, 100.0)
        ),
        ("softmax_stats_command", "onednn-3.9", "SoftMax", {}, [[[0.0, 0.0]]], [[0.5, 0.5]]),
        # Axis 0 of dst is axis 1 of src.
        ("transpose_indices", NEWEST, "StaticTranspose", {"order": [1, 2, 0]}, [[[[1, 2, 3]]]], [[[1], [2], [3]]]),
        ("norm_over_no_axes", NEWEST, "ReduceL1", {"axes": []}, [[-2.0, 3.0]], [2.0, 3.0]),
        ("norm_over_no_axes", NEWEST, "ReduceL2", {"axes": []}, [[-2.0, 3.0]], [2.0, 3.0]),
        ("axes_exactly_one_inputs", NEWEST, "ReduceSum", {"axes": []}, [[[1.0, 2.0]], [1]], [3.0]),
        ("dropout_everything", NEWEST, "Dropout", {}, [[1.0, 2.0], [1], [0], [1.0]], [0.0, 0.0]),
        # Groups have their own output channels: 1 * 2 and 10 * 3.
        (
            "transposed_groups",
            NEWEST,
            "ConvTranspose",
            {**WINDOW, "groups": 2, "weights_format": "IOX"},
            [TWO_GROUPS, [[[2.0], [1.0]]] * 2],
            [[[2.0], [1.0], [20.0], [10.0]]],
        ),
        (
            "grouped_weights",
            NEWEST,
            "Convolution",
            {**WINDOW, "groups": 2, "weights_format": "OIX"},
            [TWO_GROUPS, [[[2.0]], [[3.0]]]],
            [[[2.0], [30.0]]],
        ),
        (
            "bias_of_input",
            "legacy-1",
            "Convolution",
            {**WINDOW, "filter_format": "OIX"},
            [TWO_GROUPS, [[[2.0], [3.0]]], [100.0]],
            [[[132.0]]],
        ),
        # The elements 1 and 3; with a distance of 2 + 1 they would be 1 and 4.
        ("max_pool_dilation", NEWEST, "MaxPool", {**POOL, "dilations": [2]}, [[[[1, 2, 3]]]], [[[3]]]),
        ("max_pool_dilation", NEWEST, "MaxPool", {**POOL, "dilations": [1]}, [[[[1, 2, 3]]]], [[[2, 3]]]),
        ("avg_pool_dilation", NEWEST, "AvgPool", {**POOL, "exclude_pad": True}, [[[[1.0, 2.0, 3.0]]]], [[[1.5, 2.5]]]),
        (
            "positions_undefined",
            "oneapi-1.4",
            "Convolution",
            {**WINDOW, "dilations": [2], "weights_format": "OIX"},
            [[[[1.0, 2.0, 3.0]]], [[[1.0, 10.0]]]],
            [[[31.0]]],
        ),
        (
            "kept_outputs",
            "legacy-1",
            "Convolution",
            {**WINDOW, "strides": [2], "filter_format": "OIX"},
            [[[[1.0, 2.0, 3.0]]], [[[10.0]]]],
            [[[10.0, 30.0]]],
        ),
        ("max_pool_pads_begin", NEWEST, "MaxPool", {**POOL, "pads_begin": [1]}, [[[[-1, -2]]]], [[[-1, -1]]]),
        ("max_pool_pads_end", NEWEST, "MaxPool", {**POOL, "pads_end": [1]}, [[[[-1, -2]]]], [[[-1, -2]]]),
        # Size 2, stride 2, kernel 3: one element of padding, at the end. d * (X_K - 1) would be 2.
        (
            "same_padding_total",
            "legacy-1",
            "Convolution",
            {**WINDOW, "strides": [2], "auto_pad": "same_upper", "filter_format": "OIX"},
            [[[[1.0, 10.0]]], [[[1.0, 2.0, 3.0]]]],
            [[[21.0]]],
        ),
        (
            "same_padding_exchanged",
            NEWEST,
            "ConvolutionBackwardData",
            {**WINDOW, "auto_pad": "same_upper", "weights_format": "OIX", "dst_shape": [1, 1, 5]},
            [[[[1.0, 0.0, 0.0, 0.0, 0.0]]], [[[1.0, 2.0, 3.0, 4.0]]]],
            [[[2.0, 3.0, 4.0, 0.0, 0.0]]],
        ),
        (
            "same_padding_exchanged_legacy",
            "legacy-1",
            "ConvolutionBackpropData",
            {**WINDOW, "auto_pad": "same_lower", "filter_format": "OIX", "output_shape": [1, 1, 5]},
            [[[[1.0, 0.0, 0.0, 0.0, 0.0]]], [[[1.0, 2.0, 3.0, 4.0]]]],
            [[[3.0, 4.0, 0.0, 0.0, 0.0]]],
        ),
        # Only the last axis has padding.
        (
            "padding_of_every_axis",
            NEWEST,
            "ConvolutionBackwardData",
            {
                "strides": [1, 1],
                "pads_begin": [0, 0],
                "pads_end": [0, 0],
                "dilations": [1, 1],
                "data_format": "NCX",
                "auto_pad": "same_upper",
                "weights_format": "OIX",
                "dst_shape": [1, 1, 2, 2],
            },
            [[[[[1.0, 0.0], [0.0, 0.0]]]], [[[[1.0, 2.0, 3.0]]]]],
            [[[[2.0, 3.0], [0.0, 0.0]]]],
        ),
        (
            "padding_of_the_gradient",
            NEWEST,
            "ConvolutionBackwardData",
            {**WINDOW, "strides": [2], "output_padding": [1], "weights_format": "OIX", "dst_shape": [1, 1, 4]},
            [[[[1.0, 2.0]]], [[[10.0]]]],
            [[[10.0, 0.0, 20.0, 0.0]]],
        ),
        (
            "sizes_of_the_forward_op",
            NEWEST,
            "InterpolateBackward",
            {"mode": "nearest", "sizes": [4], "data_format": "NCX"},
            [[[[0.0, 0.0]]], [[[1.0, 2.0, 4.0, 8.0]]]],
            [[[3.0, 12.0]]],
        ),
        # Result 1 and gradient 2 with use_dst: the slope of Elu is dst + alpha below 0, and 1 above.
        ("elu_result", "onednn-3.1", "EluBackward", {"alpha": 1.0}, [[-0.5, 1.0], [2.0, 2.0]], [1.0, 2.0]),
        (
            "gradient_of_slope",
            NEWEST,
            "PReLUBackward",
            {"data_format": "NCX"},
            [[[[-1.0]], [[-1.0]]], [[[0.5]]], [[[2.0]], [[4.0]]]],
            [[[1.0]], [[2.0]]],
        ),
    ],
)
def test_numbers(correction, name, kind, attrs, arrays, expected):
    assert correction in {one.name for one in corrections(name, kind)}
    np.testing.assert_allclose(run(name, kind, attrs, arrays), expected, rtol=1e-6)


def test_default_momentum_is_one_half():
    schema = edition("legacy-1").schemas["BatchNormForwardTraining"]
    arrays = [np.array([[2.0], [4.0]]), np.array([1.0]), np.array([5.0])]
    types = [TensorType(None, array.shape, array) for array in arrays]
    base = base_of(schema)
    _, mean, variance, *_ = reference_function(base)(base_call(schema, base, {"epsilon": 1.0}, types), *arrays)
    assert (mean.tolist(), variance.tolist()) == ([2.0], [3.0])  # means of 1 and 3, and of 5 and 1


# Checks --------------------------------------------------------------------------------------------------------------

ROW = ("f32", (1, 1, 4))


@pytest.mark.parametrize(
    ("correction", "name", "kind", "attrs", "inputs", "rules"),
    [
        ("zero_strides", "legacy-1", "MaxPool", {**POOL, "strides": [0]}, [ROW], ["attribute_range"]),
        ("zero_dilations", "legacy-1", "MaxPool", {**POOL, "dilations": [0]}, [ROW], ["attribute_range"]),
        (
            "omitted_pads_begin",
            "legacy-1",
            "ConvolutionBackpropData",
            {
                "strides": [1],
                "dilations": [1],
                "auto_pad": "valid",
                "data_format": "NCX",
                "filter_format": "OIX",
                "output_shape": [1, 1, 5],
            },
            [ROW, ("f32", (1, 1, 2))],
            ["missing_attribute", "missing_attribute"],
        ),
        (
            "sizes_and_scales",
            NEWEST,
            "Interpolate",
            {"mode": "nearest", "sizes": [8], "scales": [2.0], "data_format": "NCX"},
            [ROW],
            [],
        ),
        ("axes_exactly_one_attributes", NEWEST, "ReduceSum", {}, [ROW], ["axes_given"]),
        ("axes_exactly_one_attributes", NEWEST, "ReduceSum", {"axes": [0]}, [ROW, ("s32", (1,))], ["axes_given"]),
        ("axes_exactly_one_inputs", NEWEST, "ReduceSum", {"axes": []}, [ROW, ("s32", (1,))], []),
        ("hyphens", NEWEST, "DynamicQuantize", {"qtype": "per-tensor"}, [ROW, ("f32", (1,))], ["attribute_value"]),
        ("any_axis", NEWEST, "SoftMax", {"axis": 3}, [ROW], ["axis_in_range"]),
        ("groups_divisible", NEWEST, "GroupNorm", {"groups": 3, "use_affine": False}, [ROW], ["groups_divide"]),
        ("groups_divisible", NEWEST, "GroupNorm", {"groups": 2, "use_affine": False}, [ROW], []),
        ("positive_shape", NEWEST, "StaticReshape", {"shape": [-1, 0], "special_zero": True}, [ROW], []),
        ("cast_not_executed", "legacy-1", "TypeCast", {}, [("bf16", (2,)), ("f16", (2,))], ["data_type"]),
        ("capital_padding_values", "legacy-1", "ConvTranspose", {"auto_pad": "SAME_UPPER"}, None, []),
        ("capital_padding_values", "legacy-1", "ConvTranspose", {"auto_pad": "same_upper"}, None, []),
        ("softmax_name", "onednn-3.1", "Softmax", {}, [ROW], []),
        (
            "boolean_attribute",
            "legacy-1",
            "StaticReshape",
            {"shape": [4], "special_zero": 1.5},
            [ROW],
            ["attribute_kind"],
        ),
    ],
)
def test_checks(correction, name, kind, attrs, inputs, rules):
    assert correction in NAMES
    if kind == "ConvTranspose":
        attrs, inputs = {**WINDOW, "filter_format": "OIX", **attrs}, [ROW, ("f32", (1, 1, 2))]
    outputs = [inputs.pop()] if kind == "TypeCast" else None
    found = check_op(kind, attrs, inputs, outputs, edition=name)
    assert [one.rule for one in found if one.severity == "error"] == rules


def test_groups_of_transposed_weights():
    attrs = {**WINDOW, "groups": 2, "weights_format": "IOX"}
    rules = [
        {one.rule for one in check_op("ConvTranspose", attrs, [("f32", (1, 4, 3)), ("f32", shape)])}
        for shape in ((4, 3, 2), (2, 6, 2))
    ]
    assert rules == [set(), {"channels_match"}]


# Shown to users ------------------------------------------------------------------------------------------------------


def test_value_that_follows_a_mistake_gives_a_note():
    (found,) = check_attrs("SoftPlus", {"beta": 2}, edition="oneapi-1.4")
    assert (found.rule, found.severity) == ("disputed_value", "note")
    assert found.message == (
        "SoftPlus: beta: 2; expected type f32; the page prints type s64: every guide has f32, and the library "
        "refuses s64"
    )
    assert check_attrs("SoftPlus", {"beta": 2.5}, edition="oneapi-1.4") == []
    assert check_attrs("SoftPlus", {"beta": 2}, edition="onednn-3.13") == []


def test_error_names_the_mistake_that_it_follows():
    (found,) = check_attrs("StaticReshape", {"shape": "numpy", "special_zero": False}, edition="oneapi-1.2")
    assert found.severity == "error"
    assert found.message.endswith(
        "; the page prints type string, values none and numpy: the row repeats that of auto_broadcast; the guide has "
        "s64 since v3.4, and the library refuses a string"
    )
    pool = {**POOL, "exclude_pad": False}
    (found,) = check_op("AvgPoolBackward", pool, [ROW, ("s64", (3,))], edition="onednn-3.3")
    assert found.message.startswith("AvgPoolBackward: src_shape is s64; expected s32; the page prints s64: ")
    (found,) = check_op("AvgPoolBackward", pool, [ROW, ("s64", (3,))], edition="onednn-3.4")
    assert found.message == "AvgPoolBackward: src_shape is s64; expected s32"


def test_command_prints_every_correction():
    done = onegraph("errata", "--json")
    found = json.loads(done.stdout)
    assert [one["name"] for one in found] == [one.name for one in CORRECTIONS]
    assert all(page["link"].startswith("https://github.com/uxlfoundation/") for one in found for page in one["pages"])
    assert {"printed", "meant", "reason", "action", "section", "where"} <= found[0].keys()


def test_command_selects_ops_and_editions():
    text = onegraph("errata", "softplus", "--edition", "oneapi-1.4").stdout
    assert "soft_plus_beta: SoftPlus, SoftPlusBackward (attributes, beta; oneapi-1.2 to oneapi-1.4)" in text
    assert "StaticReshape" not in text
    assert "### soft_plus_beta" in onegraph("errata", "SoftPlus", "--markdown").stdout
    done = onegraph("errata", "SoftPlsu")
    assert (done.returncode, done.stderr.startswith("onegraph: no edition has an op 'SoftPlsu'")) == (2, True)
    assert onegraph("errata", "--json", "--markdown").returncode == 2


def test_page_of_an_op_shows_its_mistakes():
    page = onegraph("ops", "StaticReshape", "--edition", "oneapi-1.2").stdout
    assert "mistakes on its page\n    attributes, shape. Printed: type string, values none and numpy. Meant: " in page
    record = json.loads(onegraph("ops", "StaticReshape", "--edition", "oneapi-1.2", "--json").stdout)
    assert "reshape_shape" in [one["name"] for one in record["corrections"]]
    assert record["link"].endswith("/oneAPI-v1.2-rev-1/source/elements/oneDNN/source/graph/ops/StaticReshape.rst")


GRADIENTS_OF_TRANSPOSED = [
    ("onednn-3.13", "ConvTransposeBackwardData", {"weights_format": "IOX"}, [(1, 2, None), (3, 2, 1)]),
    (
        "onednn-3.13",
        "ConvTransposeBackwardWeights",
        {"weights_format": "IOX", "weights_shape": [3, 2, 1]},
        [(1, 3, 6), (1, 2, None)],
    ),
    ("legacy-1", "ConvTransposeBackpropData", {"filter_format": "OIX"}, [(1, 2, None), (2, 3, 1)]),
    (
        "legacy-1",
        "ConvTransposeBackpropFilters",
        {"filter_format": "OIX", "filter_shape": [2, 3, 1]},
        [(1, 3, 6), (1, 2, None)],
    ),
]


@pytest.mark.parametrize(("name", "kind", "attrs", "shapes"), GRADIENTS_OF_TRANSPOSED, ids=lambda part: str(part)[:30])
@pytest.mark.parametrize(
    ("padding", "sizes"), [(None, (11, 12)), ([0], (11,)), ([1], (12,))], ids=["none", "zeros", "ones"]
)
def test_gradient_without_output_padding_takes_every_size(name, kind, attrs, shapes, padding, sizes):
    """The printed default, all zeros, refuses a size that no value allows; a correction of the page says so."""
    given = {} if padding is None else {"output_padding": padding}
    window = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX"}
    for size in (11, 12):
        inputs = [("f32", tuple(size if dim is None else dim for dim in shape)) for shape in shapes]
        found = check_op(kind, {**window, **attrs, **given}, inputs, edition=name)
        errors = [violation.message for violation in found if violation.severity == "error"]
        assert (not errors) == (size in sizes), errors
    assert any(one.printed == "all zeros by default" for one in corrections(name, kind))
