"""What the form has no place for, as it stands under the key ``onegraph``: names, editions, and where constants are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import FormatError, shown
from ..ir.file_origin import Json
from ..opset.editions.registry import DEFAULT, EDITIONS
from ..opset.schema import Shape
from .document import (
    TensorForm,
    json_array,
    json_identifier,
    json_integer,
    json_object,
    json_real,
    json_strides,
    json_string,
    tensor_form,
)
from .json_text import said

KEY = "onegraph"
VERSION = 1
# Numbers that C++ cannot read back; the form itself holds the nearest that it can.
NOT_FINITE = {"inf": float("inf"), "-inf": float("-inf")}


@dataclass(frozen=True)
class OpNames:
    """Of one op: its name, its edition, and attributes that are not finite; empty where the form says it already."""

    name: str = ""
    edition: str = ""
    attrs: Mapping[str, float | list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Names:
    """Of a graph.

    Attributes:
        edition: the graph's.
        inputs, outputs: ids and names, in order; outputs is None where only the form says them.
        strides: those of outputs that lie otherwise than the ops say of their tensors, by name.
        constants: names of constants by id.
        vectors: ids of tensors of one axis whose size is unknown, which the form cannot tell from an unknown rank.
        tensors: tensors that no op mentions.
        ops: what is said of ops, by id.
        data: name of the file beside this one that holds the constants.
    """

    edition: str = DEFAULT
    inputs: tuple[tuple[int, str], ...] = ()
    outputs: tuple[tuple[int, str], ...] | None = None
    strides: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    constants: Mapping[int, str] = field(default_factory=dict)
    vectors: frozenset[int] = frozenset()
    tensors: tuple[TensorForm, ...] = ()
    ops: Mapping[int, OpNames] = field(default_factory=dict)
    data: str | None = None

    def op(self, number: int) -> OpNames:
        """What is said of one op."""
        return self.ops.get(number) or OpNames()

    def shape(self, number: int, shape: Shape) -> Shape:
        """The shape of a tensor, of which the form says ``shape``."""
        return (None,) if shape is None and number in self.vectors else shape


def read_names(whole: Json) -> Names:
    """What a file says under ``onegraph``; nothing in a file that others wrote.

    Raises:
        FormatError: a value is of a wrong type.
    """
    if KEY not in whole:
        return Names()
    raw = json_object(whole[KEY], KEY)
    json_integer(raw.get("form", VERSION), f"{KEY}.form", 1, VERSION, f"at most {VERSION}; a newer onegraph wrote this")
    data = raw.get("data")
    if data is not None:
        json_string(data, f"{KEY}.data")
        if "/" in str(data) or "\\" in str(data) or str(data) in ("", ".", ".."):
            raise FormatError(f"{KEY}.data", said(data), "the name of a file beside this one")
    return Names(
        json_string(raw.get("edition", DEFAULT), f"{KEY}.edition", EDITIONS),
        _pairs(raw, "inputs"),
        _pairs(raw, "outputs") if "outputs" in raw else None,
        _output_strides(raw),
        dict(_pairs(raw, "constants")),
        frozenset(
            json_identifier(number, f"{KEY}.vectors[{index}]")
            for index, number in enumerate(json_array(raw.get("vectors", []), f"{KEY}.vectors"))
        ),
        tuple(
            tensor_form(value, f"{KEY}.tensors[{index}]")
            for index, value in enumerate(json_array(raw.get("tensors", []), f"{KEY}.tensors"))
        ),
        {
            _key(number): _op(value, f"{KEY}.ops.{number}")
            for number, value in json_object(raw.get("ops", {}), f"{KEY}.ops").items()
        },
        None if data is None else str(data),
    )


def _pairs(raw: Json, key: str) -> tuple[tuple[int, str], ...]:
    found = []
    for index, value in enumerate(json_array(raw.get(key, []), f"{KEY}.{key}")):
        where = f"{KEY}.{key}[{index}]"
        one = json_object(value, where)
        name = json_string(one.get("name"), f"{where}.name")
        if not name or (key == "inputs" and name == "out"):
            raise FormatError(f"{where}.name", shown(name), "a name, and not the keyword 'out'")
        found.append((json_identifier(one.get("id"), f"{where}.id"), name))
    return tuple(found)


def _output_strides(raw: Json) -> dict[str, tuple[int, ...] | None]:
    found = {}
    for index, value in enumerate(json_array(raw.get("outputs", []), f"{KEY}.outputs")):
        where = f"{KEY}.outputs[{index}]"
        one = json_object(value, where)
        if "stride" in one:
            found[json_string(one.get("name"), f"{where}.name")] = json_strides(one["stride"], f"{where}.stride")
    return found


def _key(number: str) -> int:
    if not number.isascii() or not number.isdigit() or len(number) > 20:
        raise FormatError(f"{KEY}.ops", shown(number), "ids of ops")
    return int(number)


def _op(value: object, where: str) -> OpNames:
    raw = json_object(value, where)
    attrs = {
        name: _endless(value, f"{where}.attrs.{name}")
        for name, value in json_object(raw.get("attrs", {}), f"{where}.attrs").items()
    }
    edition = json_string(raw["edition"], f"{where}.edition", EDITIONS) if "edition" in raw else ""
    return OpNames(json_string(raw.get("name", ""), f"{where}.name"), edition, attrs)


def _endless(value: object, where: str) -> float | list[float]:
    """A number that is not finite, or a list of numbers with such among them."""
    if isinstance(value, list):
        return [_number(element, f"{where}[{index}]") for index, element in enumerate(value)]
    return NOT_FINITE[json_string(value, where, tuple(NOT_FINITE))]


def _number(value: object, where: str) -> float:
    return (
        NOT_FINITE[json_string(value, where, tuple(NOT_FINITE))] if isinstance(value, str) else json_real(value, where)
    )
