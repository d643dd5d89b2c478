"""The outputs of an op that is being built: how many, of which data types, and what the caller is given."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from .._util.exact_types import has_type, text
from ..errors import ArgumentError, SpecError, shown
from ..inference.violations import Violations
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call
from ..opset.editions.registry import Edition, base_of
from ..opset.schema import AttrValue, Schema, TensorType


def count_outputs(schema: Schema, wanted: object) -> int:
    """How many outputs the op has in this call; ``wanted`` names optional ports, and no gap is possible."""
    names = [port.name for port in schema.outputs]
    if not has_type(wanted, (list, tuple, set, frozenset)):
        raise ArgumentError(f"{schema.kind}: outputs: {shown(wanted)}; expected a list of the names {names}")
    chosen: list[str] = []
    for name in wanted:
        word = text(name)
        if word is None or word not in names:
            raise ArgumentError(f"{schema.kind}: outputs: {shown(name)}; expected names of {names}")
        chosen.append(word)
    count = sum(not port.optional for port in schema.outputs)
    count = max([count, *(names.index(name) + 1 for name in chosen)])
    skipped = [p.name for p in schema.outputs[:count] if p.optional and p.name not in chosen]
    if skipped:
        expected = f"{skipped} too, which stand before the last of them"
        raise ArgumentError(f"{schema.kind}: outputs: {sorted(chosen)}; expected {expected}")
    return count


def implied_outputs(schema: Schema, attrs: Mapping[str, AttrValue], inputs: Sequence[TensorType | None]) -> int:
    """How many outputs the attributes imply; all where they say nothing."""
    base = base_of(schema)
    if base.implied_outputs is None:
        return len(schema.outputs)
    return base.implied_outputs(base_call(schema, base, attrs, inputs))


def output_dtypes(
    chosen: Edition, schema: Schema, choices: Sequence[Sequence[DataType]], wanted: DataType | None
) -> list[DataType]:
    """The data types of the outputs: what follows from the inputs, and ``wanted`` where the table leaves it open."""
    found: list[DataType] = []
    for port, options in zip(schema.outputs, choices, strict=False):
        if len(options) == 1:
            found.append(options[0])
        elif wanted is not None and wanted in options:
            found.append(wanted)
        else:
            raise _dtype_error(chosen, schema, port.name, options, wanted)
    # Where nothing is open, dtype= may still say what is so.
    if wanted is not None and choices and wanted not in found:
        raise _dtype_error(chosen, schema, schema.outputs[0].name, choices[0], wanted)
    return found


def _dtype_error(
    chosen: Edition, schema: Schema, port: str, options: Sequence[DataType], wanted: DataType | None
) -> SpecError:
    noted = Violations(chosen, schema.kind)
    noted.page = chosen.page(schema)
    given = "not given" if wanted is None else wanted
    choices = ", ".join(map(str, options))
    expected = f"one of {choices} for {port}" if len(options) > 1 else f"{choices} for {port}"
    variable = next(one.type for one in schema.outputs if one.name == port)
    same = [one.name for one in schema.inputs if one.type == variable]
    expected += f", the data type of {', '.join(same)}" if same and len(options) == 1 else ""
    noted.add("output_data_type", "dtype", given, expected)
    return SpecError(noted.violations)


@cache
def result_type(kind: str, names: tuple[str, ...]) -> Any:
    """The named tuple that a call with several outputs returns."""
    return picklable(namedtuple(f"{kind}Outputs", names))


def picklable(made: Any) -> Any:
    """A named tuple that no module has, made so that its values can be pickled."""
    made.__reduce__ = _reduced
    return made


def _reduced(values: Any) -> tuple[object, ...]:
    return _unpickled, (type(values).__name__, values._fields, tuple(values))


def _unpickled(name: str, fields: tuple[str, ...], values: tuple[object, ...]) -> Any:
    """Values in a named tuple like the one that was pickled."""
    return _like(name, fields)._make(values)


@cache
def _like(name: str, fields: tuple[str, ...]) -> Any:
    return picklable(namedtuple(name, fields, rename=True))
