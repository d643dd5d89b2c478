"""Parses the values of benchdnn's options, given as benchdnn's text or as Python objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._util.counted import counted
from .._util.exact_types import entries, has_type, listed, text, whole
from ..errors import ArgumentError, shown
from ..opset.shapes import overlaps, show
from ..opset.signature import Attribute
from ..serialize.document import UNKNOWN

Values = str | Mapping[Any, Any]
LETTERS = "abcdefghijkl"
_REAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,2})?")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_CUT = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,40})?")
_STRAY = re.compile(r"^([0-9]+)\*[a-l]+$")  # an id followed by an order of axes
_BOOLS = {"1": 1, "true": 1, "0": 0, "false": 0}


def single_or_keyed(option: str, values: Values) -> str | dict[str | int, Any]:
    """Parse ``VALUE`` to a plain string, or ``ID:VALUE+ID:VALUE`` to a dictionary as :func:`keyed` does.

    Raises:
        ArgumentError: :func:`keyed` refuses the value.
    """
    word = text(values)
    return keyed(option, values) if word is None or ":" in word else word


def keyed(option: str, values: Values, *, may_be_empty: bool = False) -> dict[str | int, Any]:
    """Parse ``ID:VALUE+ID:VALUE`` or a mapping to a dictionary; values that are strings become plain ``str``.

    With ``may_be_empty``, an empty text gives an empty dictionary.

    Raises:
        ArgumentError: ``values`` is neither such text nor a mapping, has a key twice, or a key that is neither an
            integer nor a string.
    """
    if (by_key := entries(values)) is not None:
        return {_key(option, key): _characters(value) for key, value in by_key.items()}
    by_text: dict[str | int, Any] = {}
    words = text(values)
    if words == "" and may_be_empty:
        return by_text
    if words is None or "," in words:
        raise ArgumentError(f"{option}: {shown(values)}; expected ID:VALUE+ID:VALUE, or a dictionary")
    for part in words.split("+"):
        key, _, value = part.partition(":")
        while value.startswith(f"{key}:"):  # a line of oneDNN 3.2's own files repeats the id
            value = value[len(key) + 1 :]
        key = _STRAY.sub(r"\1", key)  # benchdnn ignores text after the id; a line of oneDNN 3.13's own files has some
        if not key or not value:
            raise ArgumentError(f"{option}: {shown(part)}; expected ID:VALUE")
        number = int(key) if key.isascii() and key.isdigit() and len(key) < 21 else key
        if number in by_text:
            raise ArgumentError(f"{option}: {shown(part)}; expected each id once")
        by_text[number] = value
    return by_text


def _key(option: str, key: object) -> str | int:
    word, number = text(key), whole(key)
    if word is not None:
        return word
    if number is None:
        raise ArgumentError(f"{option}: {shown(key)}; expected an id or a name")
    return number


def _characters(value: object) -> object:
    word = text(value)
    return value if word is None else word


def attrs_of(words_or_dict: object) -> dict[str, object]:
    """Parse ``NAME:VALUE*NAME:VALUE`` or a mapping to a dictionary of attributes.

    Raises:
        ArgumentError: ``words_or_dict`` is neither.
    """
    words = text(words_or_dict)
    if words is not None:
        pairs = [part.partition(":") for part in words.split("*")]
        return {name: value for name, _, value in pairs}
    attrs = entries(words_or_dict)
    if attrs is None or not all(has_type(name, str) for name in attrs):
        raise ArgumentError(f"op_attrs: {shown(words_or_dict)}; expected NAME:VALUE*NAME:VALUE, or a dictionary")
    return attrs


def dims_of(option: str, text: str) -> list[int]:
    """Parse dims or strides such as ``2x64x56x56``; ArgumentError if ``text`` has another form."""
    if not re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18})*", text):
        raise ArgumentError(f"{option}: {shown(text)}; expected dims such as 2x64x56x56, or - for rank 0")
    return [int(dim) for dim in text.split("x")]


def strides_of(dims: Sequence[int], text: str) -> list[int]:
    """Parse strides, given as numbers or as the letters of the axes from outermost to innermost.

    Raises:
        ArgumentError: ``text`` does not fit the dims, or elements would share memory.
    """
    if text.isalpha():
        if sorted(text) != list(LETTERS[: len(dims)]):
            letters = LETTERS[: len(dims)]
            raise ArgumentError(f"in_shapes: {shown('*' + text)}; expected the letters {letters!r} in some order")
        return along(dims, [LETTERS.index(letter) for letter in text])
    strides = dims_of("in_shapes", text)
    if len(strides) != len(dims):
        raise ArgumentError(
            f"in_shapes: {shown('*' + text)}; expected {counted(len(dims), 'stride')}, one for each dim"
        )
    if UNKNOWN not in dims and overlaps(dims, strides):
        raise ArgumentError(
            f"in_shapes: {shown('*' + text)} for {show(tuple(dims))}; expected memory of its own for each element"
        )
    return strides


def along(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """Strides of a dense tensor whose axes are in this order in memory, outermost first."""
    strides, stride = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = stride
        stride *= max(dims[axis], 1)
    return strides


def value_of(attribute: Attribute, value: object) -> object:
    """Convert the value of an attribute, given as benchdnn's text or as a Python object, to its JSON form.

    Raises:
        ArgumentError: a text has the wrong form.
    """
    word = text(value)
    return _from_python(value) if word is None else _from_text(attribute, word)


def _from_text(attribute: Attribute, text: str) -> object:
    scalar = attribute.kind.removesuffix("[]")
    if scalar == "str":
        return text
    parts = text.split("x") if attribute.kind.endswith("[]") else [text]
    if scalar == "bool" and text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    if scalar == "bool":
        raise ArgumentError(f"op_attrs: {attribute.name}: {shown(text)}; expected 0 or 1")
    # benchdnn truncates fractions, and its own files have sizes such as 1.666667x1. Elsewhere a fraction is an error.
    form = _REAL if scalar == "f32" else _CUT if attribute.name == "sizes" else _INTEGER
    if not all(form.fullmatch(part) for part in parts):
        noun, several = ("a number", "numbers") if scalar == "f32" else ("an integer", "integers")
        expected = f"{several} such as 1x2" if attribute.kind.endswith("[]") else noun
        raise ArgumentError(f"op_attrs: {attribute.name}: {shown(text)}; expected {expected}")
    values = [float(part) if scalar == "f32" else int(part.partition(".")[0]) for part in parts]
    return values if attribute.kind.endswith("[]") else values[0]


def _from_python(value: object) -> object:
    if has_type(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if has_type(value, (list, tuple, range)):
        return [_from_python(element) for element in listed(value)]
    return int(value) if has_type(value, bool) else value
