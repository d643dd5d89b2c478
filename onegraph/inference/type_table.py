"""Matches data types with the type table of an op, and describes the table in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..opset.dtypes import DataType
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Port, Row, Schema

DTYPES = DataType.__members__
DTypes = tuple[DataType | None, ...]


@lru_cache(maxsize=4096)
def typing_of(
    edition: str, kind: str, inputs: DTypes, outputs: DTypes
) -> tuple[tuple[Row, ...], tuple[tuple[DataType, ...], ...]]:
    """The rows of the type table that match the data types, and the allowed data types of each output."""
    schema = edition_named(edition).schemas[kind]
    typed = typed_ports(schema, inputs, outputs)
    rows = tuple(row for row in schema.types if _row_holds(row, typed))
    return rows, tuple(_output_choices(schema, rows, inputs, index) for index in range(len(schema.outputs)))


def typed_ports(schema: Schema, inputs: DTypes, outputs: DTypes) -> list[tuple[Port, DataType]]:
    """Each port with its data type; ports of unknown data type are left out."""
    ports = schema.inputs
    if len(inputs) > len(ports):
        ports = (*ports, *[ports[-1]] * (len(inputs) - len(ports)))
    pairs = [*zip(ports, inputs, strict=False), *zip(schema.outputs, outputs, strict=False)]
    return [(port, dtype) for port, dtype in pairs if dtype is not None]


def _row_holds(row: Row, typed: Sequence[tuple[Port, DataType]]) -> bool:
    bound: dict[str, DataType] = {}
    for port, dtype in typed:
        allowed = row.types.get(port.type)
        if allowed is not None and (dtype not in allowed or bound.setdefault(port.type, dtype) is not dtype):
            return False
    return True


def table_text(schema: Schema) -> str:
    """The type table in words; short if there is only one type variable."""
    variables = {name for row in schema.types for name in row.types}
    if len(variables) == 1:
        ports = [port.name for port in (*schema.inputs, *schema.outputs) if port.type in variables]
        types = dict.fromkeys(
            dtype for row in schema.types for dtype in DataType if dtype in set().union(*row.types.values())
        )
        whose = ", ".join(ports) if len(ports) == 1 else f"all of {', '.join(ports)}"
        return f"one of {', '.join(map(str, types))} for {whose}"
    return "one of: " + "; ".join(dict.fromkeys(_row_text(schema, row) for row in schema.types))


def _row_text(schema: Schema, row: Row) -> str:
    cells = []
    for port in (*schema.inputs, *schema.outputs):
        types = row.types.get(port.type)
        cells.append(f"{port.name}={'|'.join(sorted(map(str, types))) if types else port.type}")
    return ", ".join(cells)


def _output_choices(schema: Schema, rows: Sequence[Row], inputs: DTypes, index: int) -> tuple[DataType, ...]:
    """The data types that output ``index`` may have, given the data types of the inputs."""
    variable = schema.outputs[index].type
    if variable in DTYPES:
        return (DTYPES[variable],)
    for position, dtype in enumerate(inputs):
        if dtype is not None and schema.input_port(position).type == variable:
            return (dtype,)
    found = {dtype for row in rows for dtype in row.types[variable]}
    return tuple(dtype for dtype in DataType if dtype in found)


def unequal(typed: Sequence[tuple[Port, DataType]]) -> str:
    """The ports that must have the same data type but differ, in words; empty if there are none."""
    for variable in dict.fromkeys(port.type for port, _ in typed):
        ports = {port.name: dtype for port, dtype in typed if port.type == variable}
        if len(ports) > 1 and len({*ports.values()}) > 1:
            *first, last = ports
            return f"{', '.join(first)} and {last} must have the same data type"
    return ""
