"""Lists of numbers as attributes have the stored form, and the faults, of each number by itself."""

from dataclasses import replace

import pytest

from onegraph.opset import values
from onegraph.opset.editions.registry import BASE
from onegraph.opset.values import F32_MAX, F32_TINY, S64_MAX, S64_MIN, convert

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
