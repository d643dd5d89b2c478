"""The values of benchdnn's options, from text or from Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._util.exact_types import isinstance, listed, text
from ..errors import ArgumentError, shown
from ..opset.schema import Attribute
from ..opset.shapes import overlaps, show

Values = str | Mapping[Any, Any]
LETTERS = "abcdefghijkl"
_REAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,2})?")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_CUT = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,40})?")
_STRAY = re.compile(r"^([0-9]+)\*[a-l]+$")  # an order of axes behind an id
_BOOLS = {"1": 1, "true": 1, "0": 0, "false": 0}


def keyed(option: str, values: Values) -> dict[str | int, Any]:
    """``ID:VALUE+ID:VALUE`` as a dictionary.

    Raises:
        ArgumentError: it is neither that nor a dictionary, or has a key twice.
    """
    if isinstance(values, Mapping):
        return {_characters(key): _characters(value) for key, value in listed(values.items())}
    found: dict[str | int, Any] = {}
    words = text(values)
    if words is None or "," in words:
        raise ArgumentError(f"{option}: {shown(values)}; expected ID:VALUE+ID:VALUE, or a dictionary")
    for part in words.split("+"):
        key, _, value = part.partition(":")
        while value.startswith(f"{key}:"):  # as a line of oneDNN 3.2's own files has it
            value = value[len(key) + 1 :]
        key = _STRAY.sub(r"\1", key)  # benchdnn reads no further, and a line of oneDNN 3.13's own files has some
        if not key or not value:
            raise ArgumentError(f"{option}: {shown(part)}; expected ID:VALUE")
        number = int(key) if key.isascii() and key.isdigit() and len(key) < 21 else key
        if number in found:
            raise ArgumentError(f"{option}: {shown(part)}; expected each id once")
        found[number] = value
    return found


def _characters(value: Any) -> Any:
    word = text(value)
    return value if word is None else word


def dims_of(option: str, text: str) -> list[int]:
    """Dims, or strides, with an ``x`` between them."""
    if not re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18})*", text):
        raise ArgumentError(f"{option}: {shown(text)}; expected dims such as 2x64x56x56, or - for rank 0")
    return [int(dim) for dim in text.split("x")]


def strides_of(dims: Sequence[int], text: str) -> list[int]:
    """Strides as numbers, or as the letters of the axes from the outermost to the innermost."""
    if text.isalpha():
        if sorted(text) != list(LETTERS[: len(dims)]):
            letters = LETTERS[: len(dims)]
            raise ArgumentError(f"in_shapes: {shown('*' + text)}; expected the letters {letters!r} in some order")
        return along(dims, [LETTERS.index(letter) for letter in text])
    steps = dims_of("in_shapes", text)
    if len(steps) != len(dims):
        raise ArgumentError(f"in_shapes: {shown('*' + text)}; expected {len(dims)} strides, one for each dim")
    if min(dims, default=0) >= 0 and overlaps(dims, steps):
        raise ArgumentError(
            f"in_shapes: {shown('*' + text)} for {show(tuple(dims))}; expected memory of its own for each element"
        )
    return steps


def along(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """Strides of a dense tensor whose axes follow each other in this order in memory."""
    steps, step = [0] * len(dims), 1
    for axis in reversed(order):
        steps[axis] = step
        step *= max(dims[axis], 1)
    return steps


def read_value(attribute: Attribute, text: str) -> object:
    """The value of an attribute from benchdnn's text, as the form has it."""
    scalar = attribute.kind.removesuffix("[]")
    if scalar == "str":
        return text
    parts = text.split("x") if attribute.kind.endswith("[]") else [text]
    if scalar == "bool" and text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    if scalar == "bool":
        raise ArgumentError(f"op_attrs: {attribute.name}: {shown(text)}; expected 0 or 1")
    # benchdnn cuts fractions off, and its own files have sizes of 1.666667x1; anywhere else they are a mistake.
    form = _REAL if scalar == "f32" else _CUT if attribute.name == "sizes" else _INTEGER
    if not all(form.fullmatch(part) for part in parts):
        one, several = ("a number", "numbers") if scalar == "f32" else ("an integer", "integers")
        what = f"{several} such as 1x2" if attribute.kind.endswith("[]") else one
        raise ArgumentError(f"op_attrs: {attribute.name}: {shown(text)}; expected {what}")
    values = [float(part) if scalar == "f32" else int(part.partition(".")[0]) for part in parts]
    return values if attribute.kind.endswith("[]") else values[0]


def plain_value(value: object) -> object:
    """A value from Python as the form has it."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple, range)):
        return [plain_value(element) for element in listed(value)]
    return int(value) if isinstance(value, bool) else value
