"""Values of attributes: their stored forms, in lists and alone, what is said of wrong ones, and what may be meant."""

from dataclasses import replace

import numpy as np
import pytest

from onegraph.opset import values
from onegraph.opset.editions.registry import BASE, EDITIONS, edition
from onegraph.opset.signature import UNIT, Attribute
from onegraph.opset.values import F32_MAX, F32_TINY, MAX_ELEMENTS, MAX_WORD, S64_MAX, S64_MIN, convert

ATTRIBUTES = {attribute.name: attribute for attribute in BASE["Quantize"].attributes}
SCALES, ZERO_POINTS = ATTRIBUTES["scales"], ATTRIBUTES["zps"]
POSITIVE = next(attribute.range for attribute in BASE["LayerNorm"].attributes if attribute.name == "epsilon")
FLOATS = [0.0, -0.0, 1.5, F32_TINY, -F32_TINY, F32_TINY / 2, F32_TINY * 0.75, F32_MAX, -F32_MAX, F32_MAX * 1.0000001]
FLOATS += [float("inf"), float("nan"), 1e-40, 3, True, "1"]
INTEGERS = [0, 7, -7, S64_MAX, S64_MAX + 1, S64_MIN, S64_MIN + 1, S64_MIN - 1, True, 2.0, 2.5, "1"]


def outcome(attribute, value):
    """The stored form, or the fault."""
    try:
        return repr(convert(attribute, value))
    except values.BadValueError as error:
        return f"{error.rule}"


@pytest.mark.parametrize(("attribute", "numbers"), [(SCALES, FLOATS), (ZERO_POINTS, INTEGERS)], ids=["f32", "s64"])
@pytest.mark.parametrize("has_range", [True, False])
def test_lists_are_stored_as_their_numbers_are(attribute, numbers, has_range):
    allowed, kind = POSITIVE if has_range else None, attribute.kind.removesuffix("[]")
    one, many = (replace(attribute, kind=kind + end, range=allowed) for end in ("", "[]"))
    usual = numbers[1 if attribute is ZERO_POINTS else 2]
    for number in numbers:
        single = outcome(one, number)
        for listed in ([number], [number, usual], [usual, number]):
            parts = [single if each is number else outcome(one, each) for each in listed]
            faults = [part for part in parts if part.startswith("attribute_")]
            wanted = faults[0] if faults else f"({', '.join(parts)}{',' * (len(parts) == 1)})"
            assert outcome(many, listed) == wanted, listed


def attribute_of(kind, name):
    return BASE[kind].attribute(name)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (attribute_of("BiasAdd", "data_format"), "one of 'NCX', 'NXC'"),
        (attribute_of("MatMul", "transpose_a"), "True or False"),
        (Attribute("x", "str", ""), "a string"),
        (attribute_of("SoftMax", "axis"), "an integer"),
        (attribute_of("Convolution", "strides"), "a list of positive integers"),
        (attribute_of("Elu", "alpha"), "a non-negative number"),
        (attribute_of("StaticReshape", "shape"), "a list of integers of -1 or more"),
        (attribute_of("Interpolate", "scales"), "a list of positive and finite numbers"),
        (Attribute("x", "f32", "", range=UNIT), "a number between 0 and 1"),
        (Attribute("x", "f32[]", "", range=UNIT), "a list of numbers between 0 and 1"),
        (Attribute("x", "f32", ""), "a number"),
        (Attribute("x", "s64[]", ""), "a list of integers"),
    ],
)
def test_values_are_described_in_words(attribute, text):
    assert values.describe(attribute) == text


@pytest.mark.parametrize(
    ("attribute", "value", "is_none"),
    [
        (Attribute("x", "s64", "", none_is_default=True), None, True),
        (Attribute("x", "s64", "", none_is_default=True), "none", True),
        (Attribute("x", "s64", "", none_is_default=True), "None", True),
        (Attribute("x", "s64", "", none_is_default=True), "NONE", False),
        (Attribute("x", "s64", "", none_is_default=True), 0, False),
        (Attribute("x", "str", "", default="none"), None, True),
        (Attribute("x", "str", "", default="none"), "none", False),
        (Attribute("x", "str", "", default="any"), None, False),
        (Attribute("x", "str", ""), "none", False),
        (Attribute("x", "str", ""), None, False),
    ],
)
def test_none_leaves_an_attribute_out_where_a_page_prints_it(attribute, value, is_none):
    assert values.is_none(attribute, value) is is_none


@pytest.mark.parametrize(
    ("kind", "name", "value", "rule", "expected", "fix"),
    [
        ("Convolution", "strides", 2, "attribute_kind", "a list of positive integers", "write [2]"),
        ("Convolution", "strides", 0, "attribute_kind", "a list of positive integers", ""),
        (
            "Convolution",
            "strides",
            np.ones(2, int),
            "attribute_kind",
            "a list of positive integers",
            "pass a flat list",
        ),
        ("ConvolutionBackwardData", "dst_shape", 2, "attribute_kind", "a list of positive integers", ""),
        ("SoftMax", "axis", S64_MAX + 1, "attribute_range", "an integer, within 64 bits", ""),
        ("SoftMax", "axis", S64_MIN, "attribute_range", "an integer, within 64 bits", ""),
        ("Elu", "alpha", -1.0, "attribute_range", "a non-negative number", ""),
        ("Elu", "alpha", 10**400, "attribute_range", "a non-negative number that a 32-bit float holds", ""),
        ("MaxPool", "rounding_type", "Ceil", "attribute_value", "one of 'floor', 'ceil'", "did you mean 'ceil'?"),
        ("MaxPool", "rounding_type", "up", "attribute_value", "one of 'floor', 'ceil'", ""),
        ("MaxPool", "rounding_type", 1, "attribute_kind", "one of 'floor', 'ceil'", ""),
        ("MaxPool", "data_format", "nchw", "attribute_value", "one of 'NCX', 'NXC'", "did you mean 'NCX'?"),
        ("MaxPool", "data_format", "ndhwc", "attribute_value", "one of 'NCX', 'NXC'", "did you mean 'NXC'?"),
        ("MaxPool", "data_format", "abc", "attribute_value", "one of 'NCX', 'NXC'", ""),
        (
            "ConvTranspose",
            "weights_format",
            "oihw",
            "attribute_value",
            "one of 'IOX', 'XOI'",
            "did you mean 'OIX'? It is taken as IOX = (in, out / groups, X)",
        ),
        (
            "ConvTranspose",
            "weights_format",
            "abc",
            "attribute_value",
            "one of 'IOX', 'XOI'",
            "IOX = (in, out / groups, X), XOI = (X, out / groups, in)",
        ),
    ],
)
def test_wrong_values_are_told_with_what_may_be_meant(kind, name, value, rule, expected, fix):
    with pytest.raises(values.BadValueError) as caught:
        convert(attribute_of(kind, name), value)
    assert (caught.value.rule, caught.value.expected, caught.value.fix) == (rule, expected, fix)


def test_lists_have_an_end():
    ones = [1] * MAX_ELEMENTS
    assert convert(ZERO_POINTS, ones) == tuple(ones)
    with pytest.raises(values.BadValueError, match=f"at most {MAX_ELEMENTS} of them"):
        convert(ZERO_POINTS, [*ones, 1])


@pytest.mark.parametrize(
    ("word", "nearest"),
    [("Strides", "strides"), ("stride", "strides"), ("xyz", None), ("AXES", "axes"), ("a" * (MAX_WORD + 1), None)],
)
def test_words_are_near_that_differ_little(word, nearest):
    assert values.nearest(word, ["axes", "strides", "kernel"]) == nearest
    assert values.nearest("a" * MAX_WORD, ["a" * (MAX_WORD - 1)]) == "a" * (MAX_WORD - 1)


@pytest.mark.parametrize(
    ("given", "letters"),
    [("nchw", "NCX"), ("oidhw", "OIX"), ("ncx", "NCX"), ("h" * MAX_WORD, "X"), ("h" * (MAX_WORD + 1),) * 2],
)
def test_axis_orders_are_written_in_letters(given, letters):
    assert values.format_letters(given) == letters


BOUNDS = {
    "positive": ([1e-30, np.inf], [0.0, -1e-30]),
    "positive and finite": ([1e-30, 1e30], [0.0, -1e-30, np.inf, np.nan]),
    "non-negative": ([0.0, 1], [-1e-30]),
    "between 0 and 1": ([0.0, 0.5, 1.0], [-1e-30, 1.0000001, np.nan]),
    "-1 or more": ([-1, 0, 3], [-2]),
}


def test_each_range_holds_its_bounds():
    schemas = [schema for name in EDITIONS for schema in edition(name).schemas.values()]
    ranges = {one.range for schema in schemas for one in schema.attributes if one.range is not None} | {UNIT}
    assert {one.name for one in ranges} == BOUNDS.keys()
    for one in ranges:
        inside, outside = BOUNDS[one.name]
        assert (all(map(one.holds, inside)), any(map(one.holds, outside))) == (True, False), one.name
