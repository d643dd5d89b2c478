"""Parses oneDNN Graph's JSON form into records and checks types and limits of all values, without interpreting them.

The library dumps this form, and benchdnn reads it. Unknown keys of an object stay in ``raw``, so that they can be
written back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from .._util.counted import counted
from .._util.records import record
from ..errors import FormatError, shown
from ..ir.file_origin import Json
from ..ir.tensor_type import MAX_SIZE
from ..opset.dtypes import DataType
from ..opset.shapes import MAX_RANK
from ..opset.signature import Shape
from ..opset.values import S64_MAX, S64_MIN
from .json_text import Twice, decode, json_word

UNKNOWN = S64_MIN  # an unknown dim; a shape with this single dim has unknown rank
MAX_ID = 2**64 - 1
ID = "an id: an integer from 0 to 2**64 - 1"
S64 = "an integer of 64 bits"
MAX_KEY = 256
F32_LIMIT = 3.4028235677973366e38  # numbers from this limit on round to infinity in 32 bits
# Attribute kind in the specification -> attribute type in the JSON form.
ATTR_TYPES = MappingProxyType(
    {"f32": "f32", "f32[]": "f32[]", "s64": "s64", "s64[]": "s64[]", "bool": "bool", "str": "string"}
)
DTYPES = tuple(DataType.__members__)
ENGINES = ("cpu", "gpu", "any")
FPMATH_MODES = ("strict", "bf16", "f16", "tf32", "any")
LAYOUTS = ("undef", "any", "strided", "opaque")
PROPERTIES = ("undef", "variable", "constant", "host_scalar")

AttrForm = tuple[str, object]


@record(frozen=True)
class TensorForm:
    """One use of a logical tensor by an op. ``where`` is its JSON path; ``dtype`` is None for ``undef``."""

    where: str
    id: int
    dtype: DataType | None
    shape: Shape
    strides: tuple[int, ...] | None
    layout: str
    property: str
    raw: Json


@record(frozen=True)
class OpForm:
    """One op. ``attrs`` maps each attribute to its type in the JSON form and its value."""

    where: str
    id: int
    name: str
    kind: str
    attrs: Mapping[str, AttrForm]
    inputs: tuple[TensorForm, ...]
    outputs: tuple[TensorForm, ...]
    raw: Json


@record(frozen=True)
class Document:
    """A whole file. ``input_ports`` and ``output_ports`` are None if the file does not have them."""

    ops: tuple[OpForm, ...]
    input_ports: tuple[int, ...] | None
    output_ports: tuple[int, ...] | None
    raw: Json


# From values to records -----------------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Json:
    """Parse ``text`` as a JSON object.

    Raises:
        FormatError: ``text`` is not a JSON object, too large, nested too deep, or has a key twice.
    """
    return json_object(decode(text), "text")


def json_object(value: object, where: str) -> Json:
    """``value`` as a JSON object; FormatError if it is not one, has a key twice, or a key that is too long."""
    if not isinstance(value, dict):
        raise FormatError(where, json_word(value), "an object")
    if isinstance(value, Twice):
        raise FormatError(where, f"the key {shown(value.key)} twice", "each key once")
    for key in value:
        if len(key) > MAX_KEY:
            raise FormatError(where, f"the key {shown(key)}", f"keys of at most {MAX_KEY} characters")
    return value


def json_array(value: object, where: str) -> Sequence[object]:
    """``value`` as a JSON array; FormatError if it is not one."""
    if not isinstance(value, list):
        raise FormatError(where, json_word(value), "an array")
    return value


def json_string(value: object, where: str, choices: Sequence[str] = ()) -> str:
    """``value`` as a string; FormatError if it is not one, or not in ``choices`` if there are any."""
    if not isinstance(value, str) or (choices and value not in choices):
        raise FormatError(where, json_word(value), f"one of {', '.join(choices)}" if choices else "a string")
    return value


def json_integer(value: object, where: str, least: int, most: int, noun: str) -> int:
    """``value`` as an integer from ``least`` to ``most``; FormatError if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise FormatError(where, json_word(value), noun)
    return value


def json_identifier(value: object, where: str) -> int:
    """``value`` as an id of an op or a tensor; FormatError if it is not one."""
    return json_integer(value, where, 0, MAX_ID, ID)


def json_integers(value: object, where: str, least: int, most: int, noun: str) -> list[int]:
    """``value`` as an array of integers from ``least`` to ``most``; FormatError names the first that is none."""
    values = json_array(value, where)
    if not all(type(element) is int and least <= element <= most for element in values):
        for index, element in enumerate(values):
            json_integer(element, f"{where}[{index}]", least, most, noun)
    return cast("list[int]", values)


def json_identifiers(value: object, where: str) -> list[int]:
    """``value`` as an array of ids of ops or tensors; FormatError names the first that is none."""
    return json_integers(value, where, 0, MAX_ID, ID)


def document(raw: Json) -> Document:
    """Convert the JSON object of a file to records.

    Raises:
        FormatError: a value is missing or of a wrong type.
    """
    for key, choices in (("version", ()), ("engine_kind", ENGINES), ("fpmath_mode", FPMATH_MODES)):
        if key in raw:
            json_string(raw[key], key, choices)
    if "fpmath_mode_apply_to_int" in raw and raw["fpmath_mode_apply_to_int"] not in ("true", "false", 0, 1):
        raise FormatError("fpmath_mode_apply_to_int", json_word(raw["fpmath_mode_apply_to_int"]), "'true' or 'false'")
    if "graph" not in raw:
        raise FormatError("graph", "missing", "the array of ops")
    ops = tuple(_op(value, f"graph[{index}]") for index, value in enumerate(json_array(raw["graph"], "graph")))
    return Document(ops, _ports(raw, "input_ports"), _ports(raw, "output_ports"), raw)


def _ports(raw: Json, key: str) -> tuple[int, ...] | None:
    if key not in raw:
        return None
    return tuple(json_identifiers(raw[key], key))


def _required(raw: Json, key: str, where: str) -> object:
    if key not in raw:
        raise FormatError(f"{where}.{key}", "missing", "a value")
    return raw[key]


def _op(value: object, where: str) -> OpForm:
    raw = json_object(value, where)
    attrs = json_object(raw.get("attrs", {}), f"{where}.attrs")
    return OpForm(
        where,
        json_identifier(_required(raw, "id", where), f"{where}.id"),
        json_string(raw.get("name", ""), f"{where}.name"),
        json_string(_required(raw, "kind", where), f"{where}.kind"),
        {name: _attr(attr, f"{where}.attrs.{name}") for name, attr in attrs.items()},
        _tensors(raw, "inputs", where),
        _tensors(raw, "outputs", where),
        raw,
    )


def _attr(value: object, where: str) -> AttrForm:
    raw = json_object(value, where)
    kind = json_string(_required(raw, "type", where), f"{where}.type", tuple(ATTR_TYPES.values()))
    content, place = _required(raw, "value", where), f"{where}.value"
    if not kind.endswith("[]"):
        return kind, _scalar(kind, content, place)
    if kind == "s64[]":
        return kind, json_integers(content, place, S64_MIN, S64_MAX, S64)
    elements = json_array(content, place)
    return kind, [_scalar(kind[:-2], element, f"{place}[{index}]") for index, element in enumerate(elements)]


def _scalar(kind: str, value: object, where: str) -> object:
    if kind == "string":
        return json_string(value, where)
    if kind == "s64":
        return json_integer(value, where, S64_MIN, S64_MAX, S64)
    if kind == "bool":
        if value not in (0, 1) or isinstance(value, float):
            raise FormatError(where, json_word(value), "0 or 1")
        return bool(value)
    return json_real(value, where)


def json_real(value: object, where: str) -> float:
    """``value`` as a float; FormatError if it is not a number, or finite but too large for a 32-bit float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FormatError(where, json_word(value), "a number")
    if math.isfinite(value) and not -F32_LIMIT < value < F32_LIMIT:
        raise FormatError(where, json_word(value), "a number that a 32-bit float holds")
    return float(value)


def _tensors(raw: Json, key: str, where: str) -> tuple[TensorForm, ...]:
    values = json_array(raw.get(key, []), f"{where}.{key}")
    return tuple(tensor_form(value, f"{where}.{key}[{index}]") for index, value in enumerate(values))


def tensor_form(value: object, where: str) -> TensorForm:
    """Convert the JSON object of one logical tensor to a record.

    Raises:
        FormatError: a value is missing or of a wrong type.
    """
    raw = json_object(value, where)
    dtype = _required(raw, "dtype", where)
    if dtype != "undef":  # accepted, but not offered in messages
        dtype = json_string(dtype, f"{where}.dtype", DTYPES)
    shape = _shape(raw.get("shape", [UNKNOWN]), f"{where}.shape")
    declared = json_strides(raw.get("stride", [UNKNOWN]), f"{where}.stride")
    return TensorForm(
        where,
        json_identifier(_required(raw, "id", where), f"{where}.id"),
        None if dtype == "undef" else DataType[str(dtype)],
        shape,
        of_shape(declared, f"{where}.stride", shape),
        json_string(raw.get("layout_type", "undef"), f"{where}.layout_type", LAYOUTS),
        json_string(raw.get("property_type", "undef"), f"{where}.property_type", PROPERTIES),
        raw,
    )


def _shape(value: object, where: str) -> Shape:
    values = json_array(value, where)
    if len(values) > MAX_RANK:
        raise FormatError(where, counted(len(values), "dim"), f"at most {MAX_RANK}")
    if values == [UNKNOWN]:
        return None
    dims: list[int | None] = []
    for index, dim in enumerate(values):
        expected = f"a dim, or {UNKNOWN} where it is unknown"
        is_unknown = type(dim) is int and dim == UNKNOWN
        dims.append(None if is_unknown else json_integer(dim, f"{where}[{index}]", 0, S64_MAX, expected))
    if math.prod(dim for dim in dims if dim) >= MAX_SIZE:
        raise FormatError(where, shown(values), "fewer than 2**60 elements")
    return tuple(dims)


def json_strides(value: object, where: str) -> tuple[int, ...] | None:
    """``value`` as strides in elements; None if one is unknown; FormatError if it is not an array of strides."""
    values = json_array(value, where)
    if len(values) > MAX_RANK:
        raise FormatError(where, counted(len(values), "stride"), f"at most {MAX_RANK}")
    expected = f"a number of elements, or {UNKNOWN} where it is unknown"
    declared = json_integers(values, where, UNKNOWN, S64_MAX, expected)
    if UNKNOWN in declared:
        return None
    for index, stride in enumerate(declared):
        if stride < 0:
            raise FormatError(f"{where}[{index}]", stride, expected)
    return tuple(declared)


def of_shape(declared: tuple[int, ...] | None, where: str, shape: Shape) -> tuple[int, ...] | None:
    """``declared`` unchanged; FormatError if it does not have one stride for each dim of ``shape``."""
    rank = 0 if shape is None else len(shape)
    if declared is not None and len(declared) != rank:
        raise FormatError(where, shown([*declared]), f"{rank} strides, one for each dim")
    return declared
