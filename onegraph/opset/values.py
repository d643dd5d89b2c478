"""Converts attribute values from users into the form that graphs store."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import cast

import numpy as np

from .._util.open_sizes import is_whole
from ..errors import shown
from .signature import Attribute, AttrValue

S64_MIN, S64_MAX = -(2**63), 2**63 - 1
MAX_ELEMENTS = 2**20  # of a list
MAX_WORD = 100  # no suggestion is searched for a longer word
F32_MAX = float(np.finfo(np.float32).max)
F32_TINY = float(np.finfo(np.float32).smallest_subnormal)
SCALARS = {"bool": "True or False", "str": "a string"}


class BadValueError(Exception):
    """A value that an attribute cannot take; ``rule`` is the id of the broken rule."""

    def __init__(self, rule: str, expected: str, fix: str = "") -> None:
        super().__init__(expected)
        self.rule, self.expected, self.fix = rule, expected, fix


def describe(attribute: Attribute) -> str:
    """The values that an attribute takes, in words: ``a list of positive integers``."""
    if attribute.values:
        return "one of " + ", ".join(repr(value) for value in attribute.values)
    scalar = attribute.kind.removesuffix("[]")
    if scalar not in ("s64", "f32"):
        return SCALARS[scalar]
    many = attribute.kind.endswith("[]")
    noun = ("integer" if scalar == "s64" else "number") + ("s" if many else "")
    allowed = attribute.range.name if attribute.range else ""
    if allowed.startswith("between"):
        noun, allowed = f"{noun} {allowed}", ""
    elif allowed.endswith("or more"):
        noun, allowed = f"{noun} of {allowed}", ""
    words = f"{allowed} {noun}".strip()
    return f"a list of {words}" if many else f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def convert(attribute: Attribute, value: object) -> AttrValue:
    """Convert a value to its stored form.

    Args:
        attribute: the attribute.
        value: a user's value, after conversion by :func:`onegraph._util.exact_types.plain`.

    Raises:
        BadValueError: the attribute cannot take ``value``; the rule is ``attribute_kind``, ``attribute_value`` or
            ``attribute_range``.
    """
    scalar = attribute.kind.removesuffix("[]")
    if attribute.kind.endswith("[]"):
        listed = _elements(value, attribute)
        if _are_stored(scalar, listed):
            elements = tuple(listed)
        else:
            elements = tuple(_scalar(scalar, element, attribute) for element in listed)
        if attribute.range is not None:
            _check_range(attribute, elements)  # type: ignore[arg-type]
        return elements  # type: ignore[return-value]
    converted = _scalar(scalar, value, attribute)
    if type(converted) is str:
        return _choice(attribute, converted)
    _check_range(attribute, [converted])  # type: ignore[list-item]
    return converted


def is_none(attribute: Attribute, value: object) -> bool:
    """Whether ``value`` is the none that the page prints as the default; the attribute then counts as left out."""
    if value is None:
        return attribute.none_is_default or attribute.default == "none"
    return attribute.none_is_default and type(value) is str and value in ("none", "None")


def takes(attribute: Attribute, value: object) -> bool:
    """Whether the attribute can take ``value``."""
    try:
        convert(attribute, value)
    except BadValueError:
        return False
    return True


def _elements(value: object, attribute: Attribute) -> list[object]:
    if isinstance(value, (list, tuple)):
        if len(value) > MAX_ELEMENTS:
            raise BadValueError("attribute_kind", f"{describe(attribute)}, at most {MAX_ELEMENTS} of them")
        return [*value]
    if isinstance(value, np.ndarray):
        raise BadValueError("attribute_kind", describe(attribute), "pass a flat list")
    # A list of one number is never right for a shape, because it needs a batch, channel and spatial axis.
    is_element = takes(attribute, [value]) and not attribute.name.endswith("_shape")
    raise BadValueError("attribute_kind", describe(attribute), f"write [{shown(value)}]" if is_element else "")


def _are_stored(scalar: str, elements: list[object]) -> bool:
    """Whether all elements have their stored form, asked of the whole list: a quantized model has thousands of scales.

    False for numbers that are rare, such as infinity.
    """
    kinds = {*map(type, elements)}
    if scalar == "f32" and kinds == {float}:
        sizes = np.abs(np.array(elements))
        return bool(sizes.min() >= F32_TINY and sizes.max() <= F32_MAX)  # NaN is neither
    if scalar != "s64" or kinds != {int}:
        return False
    numbers = [element for element in elements if isinstance(element, int)]  # all of them, for the type checker
    return min(numbers) > S64_MIN and max(numbers) <= S64_MAX


def _scalar(scalar: str, value: object, attribute: Attribute) -> float | int | bool | str:
    kind = type(value)
    if scalar == "str" and isinstance(value, str):
        return value
    if scalar == "bool" and (kind is bool or (kind is int and value in (0, 1))):
        return bool(value)
    if scalar == "s64" and is_whole(value):
        if not S64_MIN < value <= S64_MAX:
            raise BadValueError("attribute_range", f"{describe(attribute)}, within 64 bits")
        return value
    if scalar == "f32" and (kind in (int, float) or isinstance(value, np.floating)):
        return _f32(cast("float", value), attribute)
    raise BadValueError("attribute_kind", describe(attribute))


def _f32(value: float, attribute: Attribute) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    is_infinite = type(value) is not int and math.isinf(value)
    too_large = abs(number) > F32_MAX and not is_infinite
    # A number that rounds to 0 in 32 bits is an error if the attribute excludes 0.
    too_small = abs(number) <= F32_TINY / 2 and attribute.range is not None and not attribute.range.holds(0)
    if math.isnan(number) or too_large or (too_small and number):
        raise BadValueError("attribute_range", f"{describe(attribute)} that a 32-bit float holds")
    return number


def _check_range(attribute: Attribute, numbers: Iterable[float]) -> None:
    if attribute.range is not None and not all(attribute.range.holds(number) for number in numbers):
        raise BadValueError("attribute_range", describe(attribute))


def _choice(attribute: Attribute, value: str) -> str:
    value = attribute.aliases.get(value, value)
    if attribute.values and value not in attribute.values:
        raise BadValueError("attribute_value", describe(attribute), _meant(attribute, value))
    return value


def _meant(attribute: Attribute, value: str) -> str:
    """A suggestion for a string that the attribute does not take; an axis order is never changed by it."""
    if not attribute.name.endswith("_format"):
        close = nearest(value, attribute.values)
        return f"did you mean {close!r}?" if close else ""
    letters = format_letters(value)
    if letters in attribute.aliases:
        return f"did you mean {letters!r}? It is taken as {axes_of(attribute, attribute.aliases[letters])}"
    if letters in attribute.values:
        return f"did you mean {letters!r}?"
    return ", ".join(text for name in attribute.values if (text := axes_of(attribute, name)) != name)


def format_letters(value: str) -> str:
    """An axis order in the letters of the specification: NXC for nhwc, OIX for oihw."""
    return re.sub("[DHW]+", "X", value.upper()) if len(value) <= MAX_WORD else value


def axes_of(attribute: Attribute, value: str) -> str:
    """A format with its axes, as documented: ``OIX = (out, in / groups, X)``; the format alone if it is not."""
    match = re.search(rf"\b{re.escape(value)} = \([^)]*\)", attribute.doc)
    return match[0] if match else value


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that is most similar to ``word``, ignoring case; None if no choice is similar enough."""
    if len(word) > MAX_WORD:
        return None
    import difflib  # for messages alone

    folded = {choice.casefold(): choice for choice in choices}
    matches = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None
