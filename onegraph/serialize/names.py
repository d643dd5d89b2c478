"""Parses the key ``onegraph`` of a file, which holds what the JSON form lacks: names, editions, and constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from .._util.records import record
from ..errors import FormatError, shown
from ..ir.file_origin import Json
from ..opset.editions.registry import DEFAULT, EDITIONS, HOST
from ..opset.signature import Shape
from .document import (
    TensorForm,
    json_array,
    json_identifier,
    json_identifiers,
    json_integer,
    json_object,
    json_real,
    json_strides,
    json_string,
    tensor_form,
)
from .json_text import json_word

KEY = "onegraph"
VERSION = 1
# Numbers that C++ cannot read; the JSON form holds the nearest finite number instead.
NOT_FINITE = {"inf": float("inf"), "-inf": float("-inf")}


@record(frozen=True)
class OpNames:
    """Name, edition and infinite attributes of one op; each is empty if the JSON form already holds it."""

    name: str = ""
    edition: str = ""
    attrs: Mapping[str, float | list[float]] = field(default_factory=dict)


@record(frozen=True)
class Names:
    """The contents of the key ``onegraph``, for one graph.

    Attributes:
        edition: edition of the graph.
        inputs, outputs: pairs of id and name, in order; outputs is None if the key does not list them.
        strides: strides of graph outputs, by name, where they differ from those in the uses of the tensor.
        constants: names of constants, by id.
        variables: by the id of each variable, the name of the output that is its next value; empty if it has none.
        vectors: ids of tensors of rank 1 with unknown size, which the JSON form cannot distinguish from unknown rank.
        tensors: tensors that no op uses.
        ops: names, editions and attributes of ops, by id.
        data: name of the ``.npz`` file in the same folder that holds the constants.
        digest: of that file; None in files of older versions.
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
    variables: Mapping[int, str] = field(default_factory=dict)
    digest: str | None = None

    def op(self, number: int) -> OpNames:
        """The record of one op; empty if there is none."""
        return self.ops.get(number) or OpNames()

    def shape(self, number: int, shape: Shape) -> Shape:
        """The shape of a tensor that the JSON form gives as ``shape``."""
        return (None,) if shape is None and number in self.vectors else shape


def read_names(whole: Json) -> Names:
    """Parse the key ``onegraph`` of a file; a file without the key gives empty names.

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
            raise FormatError(f"{KEY}.data", json_word(data), "the name of a file beside this one")
    return Names(
        json_string(raw.get("edition", DEFAULT), f"{KEY}.edition", EDITIONS),
        _pairs(raw, "inputs"),
        _pairs(raw, "outputs") if "outputs" in raw else None,
        _output_strides(raw),
        dict(_pairs(raw, "constants")),
        frozenset(json_identifiers(raw.get("vectors", []), f"{KEY}.vectors")),
        tuple(
            tensor_form(value, f"{KEY}.tensors[{index}]")
            for index, value in enumerate(json_array(raw.get("tensors", []), f"{KEY}.tensors"))
        ),
        {
            _key(number): _op(value, f"{KEY}.ops.{number}")
            for number, value in json_object(raw.get("ops", {}), f"{KEY}.ops").items()
        },
        None if data is None else str(data),
        _variables(raw),
        json_string(raw["digest"], f"{KEY}.digest") if "digest" in raw else None,
    )


def _pairs(raw: Json, key: str) -> tuple[tuple[int, str], ...]:
    pairs = []
    for index, value in enumerate(json_array(raw.get(key, []), f"{KEY}.{key}")):
        where = f"{KEY}.{key}[{index}]"
        entry = json_object(value, where)
        name = json_string(entry.get("name"), f"{where}.name")
        if not name or (key == "inputs" and name == "out"):
            raise FormatError(f"{where}.name", shown(name), "a name, and not the keyword 'out'")
        pairs.append((json_identifier(entry.get("id"), f"{where}.id"), name))
    return tuple(pairs)


def _variables(raw: Json) -> dict[int, str]:
    variables: dict[int, str] = {}
    taken: set[str] = set()
    outputs = {name for _, name in _pairs(raw, "outputs")}
    inputs = {number for number, _ in _pairs(raw, "inputs")}
    for index, value in enumerate(json_array(raw.get("variables", []), f"{KEY}.variables")):
        where = f"{KEY}.variables[{index}]"
        entry = json_object(value, where)
        number = json_identifier(entry.get("id"), f"{where}.id")
        if number not in inputs or number in variables:
            raise FormatError(f"{where}.id", json_word(number), "the id of an input, each once")
        next_value = json_string(entry["next"], f"{where}.next") if "next" in entry else ""
        if next_value and (next_value not in outputs or next_value in taken):
            raise FormatError(f"{where}.next", shown(next_value), "the name of an output, each once")
        variables[number] = next_value
        taken.add(next_value)
    return variables


def _output_strides(raw: Json) -> dict[str, tuple[int, ...] | None]:
    strides = {}
    for index, value in enumerate(json_array(raw.get("outputs", []), f"{KEY}.outputs")):
        where = f"{KEY}.outputs[{index}]"
        entry = json_object(value, where)
        if "stride" in entry:
            strides[json_string(entry.get("name"), f"{where}.name")] = json_strides(entry["stride"], f"{where}.stride")
    return strides


def _key(number: str) -> int:
    if not number.isascii() or not number.isdigit() or len(number) > 20:
        raise FormatError(f"{KEY}.ops", shown(number), "ids of ops")
    return int(number)


def _op(value: object, where: str) -> OpNames:
    raw = json_object(value, where)
    attrs = {
        name: _infinite(value, f"{where}.attrs.{name}")
        for name, value in json_object(raw.get("attrs", {}), f"{where}.attrs").items()
    }
    edition = json_string(raw["edition"], f"{where}.edition", (*EDITIONS, HOST)) if "edition" in raw else ""
    return OpNames(json_string(raw.get("name", ""), f"{where}.name"), edition, attrs)


def _infinite(value: object, where: str) -> float | list[float]:
    """An infinite number, or a list of numbers that contains one."""
    if isinstance(value, list):
        return [_number(element, f"{where}[{index}]") for index, element in enumerate(value)]
    return NOT_FINITE[json_string(value, where, tuple(NOT_FINITE))]


def _number(value: object, where: str) -> float:
    return (
        NOT_FINITE[json_string(value, where, tuple(NOT_FINITE))] if isinstance(value, str) else json_real(value, where)
    )
