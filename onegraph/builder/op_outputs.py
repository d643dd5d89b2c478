"""Determines the outputs of a new op: their number, their data types, and the named tuple that the caller gets."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from .._util.exact_types import has_type, text
from ..errors import ArgumentError, SpecError, shown
from ..inference.type_table import row_holds, typed_ports
from ..inference.violations import Violations
from ..opset.dtypes import DataType
from ..opset.editions.dialect import base_call
from ..opset.editions.registry import Edition, base_of
from ..opset.schema import Schema, TensorType
from ..opset.signature import AttrValue, Port
from .operators import EXACT


def count_outputs(schema: Schema, wanted: object) -> int:
    """The number of outputs in this call, from the names of wanted outputs.

    Raises:
        ArgumentError: ``wanted`` is not a list of output names, or omits an optional output before a wanted one.
    """
    names = [port.name for port in schema.outputs]
    if not has_type(wanted, (list, tuple, set, frozenset)):
        raise ArgumentError(f"{schema.kind}: outputs: {shown(wanted)}; expected a list of the names {names}")
    chosen: list[str] = []
    for name in wanted:
        word = text(name)
        if word not in names:
            raise ArgumentError(f"{schema.kind}: outputs: {shown(name)}; expected names of {names}")
        assert word is not None
        chosen.append(word)
    count = sum(not port.optional for port in schema.outputs)
    count = max([count, *(names.index(name) + 1 for name in chosen)])
    skipped = [p.name for p in schema.outputs[:count] if p.optional and p.name not in chosen]
    if skipped:
        expected = f"{skipped} too, which stand before the last of them"
        raise ArgumentError(f"{schema.kind}: outputs: {sorted(chosen)}; expected {expected}")
    return count


def operand_type(
    schema: Schema, known: Sequence[DataType | None], index: int, own: DataType | None = None
) -> DataType | None:
    """The data type that an array becomes as input ``index``, beside inputs of these types; None leaves its own.

    It is the only one that the type table allows, else that of the first other input, else ``own``, the data type of
    the array, if the type table allows it. A table of numbers or of integers beside indices keeps its type.
    """
    variable = schema.input_port(index).type
    if (fixed := DataType.__members__.get(variable)) is not None:
        return fixed
    typed = typed_ports(schema, tuple(known), ())
    allowed = {dtype for row in schema.types if row_holds(row, typed) for dtype in row.types.get(variable, ())}
    kinds = allowed - EXACT if own is not None and own not in EXACT else allowed
    if own is DataType.boolean or own in allowed & EXACT:
        kinds = allowed & {own}
    alike = [dtype for dtype in known if dtype in kinds]
    bound = [port.dtype for port in typed if port.variable == variable]
    return next(iter([*bound, *(allowed if len(allowed) == 1 else ()), *alike, *(allowed & {own})]), None)


def implied_outputs(schema: Schema, attrs: Mapping[str, AttrValue], inputs: Sequence[TensorType | None]) -> int:
    """The number of outputs of a call that does not name them; see :attr:`Schema.implied_outputs`."""
    base = base_of(schema)
    if base.implied_outputs is None:
        return len(schema.outputs)
    return base.implied_outputs(base_call(schema, base, attrs, inputs))


def output_dtypes(
    chosen: Edition,
    schema: Schema,
    choices: Sequence[Sequence[DataType]],
    wanted: DataType | None,
    first: DataType | None,
) -> list[DataType]:
    """The data types of the outputs: the only choice, else ``wanted``, else that of the first input.

    Raises:
        SpecError: several data types are possible, and neither ``wanted`` nor ``first`` is one of them; or ``wanted``
            fits no output.
    """
    dtypes: list[DataType] = []
    for port, options in zip(schema.outputs, choices, strict=False):
        dtype = options[0] if len(options) == 1 else first if wanted is None else wanted
        if dtype not in options:
            raise _dtype_error(chosen, schema, port, options, wanted)
        assert dtype is not None
        dtypes.append(dtype)
    # If every output has only one choice, dtype= is still accepted when it names that choice.
    if wanted is not None and choices and wanted not in dtypes:
        raise _dtype_error(chosen, schema, schema.outputs[0], choices[0], wanted)
    return dtypes


def _dtype_error(
    chosen: Edition, schema: Schema, port: Port, options: Sequence[DataType], wanted: DataType | None
) -> SpecError:
    noted = Violations(chosen, schema.kind)
    noted.page = chosen.page(schema)
    wanted_text = "not given" if wanted is None else wanted
    choices = ", ".join(map(str, options))
    expected = f"one of {choices} for {port.name}" if len(options) > 1 else f"{choices} for {port.name}"
    same = [source.name for source in schema.inputs if source.type == port.type]
    expected += f", the data type of {', '.join(same)}" if same and len(options) == 1 else ""
    noted.add("output_data_type", "dtype", wanted_text, expected)
    return SpecError(noted.violations)


@cache
def result_type(kind: str, names: tuple[str, ...]) -> Any:
    """The named tuple class that a call with several outputs returns."""
    return picklable(namedtuple(f"{kind}Outputs", names))


def picklable(made: Any) -> Any:
    """Make the values of a named tuple class picklable although no module defines the class."""
    made.__reduce__ = _reduced
    return made


def _reduced(values: Any) -> tuple[object, ...]:
    return _unpickled, (type(values).__name__, values._fields, tuple(values))


def _unpickled(name: str, fields: tuple[str, ...], values: tuple[object, ...]) -> Any:
    """Unpickle values into a named tuple with the same name and fields."""
    return _like(name, fields)._make(values)


@cache
def _like(name: str, fields: tuple[str, ...]) -> Any:
    return picklable(namedtuple(name, fields, rename=True))
