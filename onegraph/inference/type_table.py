"""Matches data types with the type table of an op, and finds the ports whose data type no row of the table allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from .._util.counted import counted
from ..opset.dtypes import DataType
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Schema
from ..opset.signature import Row

DTYPES = DataType.__members__
DTypes = tuple[DataType | None, ...]
MAX_FIX = 90  # characters of a suggestion


class TypedPort(NamedTuple):
    """A port of known data type: its name, ``inputs[2]`` if the op takes any number of inputs, and its Port.type."""

    name: str
    variable: str
    dtype: DataType


class Mismatch(NamedTuple):
    """A port whose data type no row of the table allows beside the others: what is expected, and a fix if known."""

    port: TypedPort
    expected: str
    fix: str


@lru_cache(maxsize=4096)
def typing_of(
    edition: str, kind: str, inputs: DTypes, outputs: DTypes
) -> tuple[tuple[Row, ...], tuple[tuple[DataType, ...], ...]]:
    """The rows of the type table that match the data types, and the allowed data types of each output."""
    schema = edition_named(edition).schemas[kind]
    typed = typed_ports(schema, inputs, outputs)
    rows = tuple(row for row in schema.types if row_holds(row, typed))
    return rows, tuple(_output_choices(schema, rows, inputs, index) for index in range(len(schema.outputs)))


def typed_ports(schema: Schema, inputs: DTypes, outputs: DTypes) -> list[TypedPort]:
    """Each port with its data type; ports of unknown data type are left out."""
    if schema.variadic:
        ports = [(f"inputs[{index}]", schema.input_port(index).type) for index in range(len(inputs))]
    else:
        ports = [(port.name, port.type) for port in schema.inputs]
    ends = [(port.name, port.type) for port in schema.outputs]
    pairs = [*zip(ports, inputs, strict=False), *zip(ends, outputs, strict=False)]
    return [TypedPort(*port, dtype) for port, dtype in pairs if dtype is not None]


def row_holds(row: Row, typed: Sequence[TypedPort]) -> bool:
    """Whether a row of the type table allows the data types of some ports."""
    bound: dict[str, DataType] = {}
    for _, variable, dtype in typed:
        allowed = row.types.get(variable)
        if allowed is not None and (dtype not in allowed or bound.setdefault(variable, dtype) is not dtype):
            return False
    return True


def _output_choices(schema: Schema, rows: Sequence[Row], inputs: DTypes, index: int) -> tuple[DataType, ...]:
    """The data types that output ``index`` may have, given the data types of the inputs."""
    variable = schema.outputs[index].type
    if variable in DTYPES:
        return (DTYPES[variable],)
    for position, dtype in enumerate(inputs):
        if dtype is not None and schema.input_port(position).type == variable:
            return (dtype,)
    dtypes = {dtype for row in rows for dtype in row.types[variable]}
    return tuple(dtype for dtype in DataType if dtype in dtypes)


# Ports that match no row ----------------------------------------------------------------------------------------------

Change = dict[int, frozenset[DataType]]  # index of a port -> the data types that it may have instead


def mismatches(schema: Schema, rows: Sequence[Row], typed: Sequence[TypedPort]) -> list[Mismatch]:
    """Ports that differ from a fixed type, and the fewest ports that must change so that a row matches; in port order.

    If several choices of ports are equally few, the last ports are reported, as outputs follow from inputs and a later
    input from the first; the other choices are the fix of the first mismatch.

    Args:
        schema: the op.
        rows: the rows that match already.
        typed: the ports of the op with their data types.
    """
    by_index = {
        index: Mismatch(port, port.variable, "")
        for index, port in enumerate(typed)
        if port.variable in DTYPES and port.dtype is not DTYPES[port.variable]
    }
    if not rows:
        by_index |= _of_no_row(schema, typed)
    return [by_index[index] for index in sorted(by_index)]


def _of_no_row(schema: Schema, typed: Sequence[TypedPort]) -> dict[int, Mismatch]:
    changes = _fewest_changes(schema, typed)
    chosen = max(changes, key=sorted)
    fix = ""
    for ports, change in changes.items():
        if ports != chosen:
            text = f"{fix}, or " if fix else "or change "
            text += _change_text(typed, change)
            fix = text if len(text) <= MAX_FIX else fix
    by_index: dict[int, Mismatch] = {}
    alike = Counter(typed[index].dtype for index in chosen if "[" in typed[index].name)
    for index in sorted(chosen):
        port, types = typed[index], changes[chosen][index]
        if "[" in port.name:  # one mismatch for all inputs of a variadic op that have this data type
            count = alike.pop(port.dtype, 0)
            if not count:
                continue
            fix = f"the same for {counted(count - 1, 'more input')}" if count > 1 else fix
        by_index[index] = Mismatch(port, types_text(types) + _reason(schema, typed, chosen, index, types), fix)
        fix = ""
    return by_index


def _fewest_changes(schema: Schema, typed: Sequence[TypedPort]) -> dict[frozenset[int], Change]:
    """Every choice of ports that makes a row match and changes the fewest ports, with their allowed data types."""
    changes: dict[frozenset[int], Change] = {}
    fewest = len(typed)
    for row in schema.types:
        for change in _row_changes(row, typed):
            ports = frozenset(change)
            if len(ports) < fewest:
                changes, fewest = {}, len(ports)
            if len(ports) == fewest:
                known = changes.setdefault(ports, {})
                known.update({index: known.get(index, frozenset()) | types for index, types in change.items()})
    return changes


def _row_changes(row: Row, typed: Sequence[TypedPort]) -> Iterator[Change]:
    """The changes of the fewest ports that make one row match."""
    ways: list[list[Change]] = []
    for variable, allowed in row.types.items():
        ports = {index: port.dtype for index, port in enumerate(typed) if port.variable == variable}
        counts = Counter(dtype for dtype in ports.values() if dtype in allowed)
        most = max(counts.values(), default=0)
        # The ports keep the data type that most of them have; without one, each may have any that the row allows.
        kept = [frozenset([dtype]) for dtype, count in counts.items() if count == most] or [allowed]
        ways.append([{index: types for index, dtype in ports.items() if dtype not in types} for types in kept])
    for parts in product(*ways):
        yield {index: types for part in parts for index, types in part.items()}


def _reason(
    schema: Schema, typed: Sequence[TypedPort], changed: frozenset[int], index: int, types: frozenset[DataType]
) -> str:
    """The unchanged port because of which port ``index`` may have these types only; empty if every row says so."""
    variable, dtype = typed[index].variable, typed[index].dtype
    if types == _allowed(schema, variable, {}):
        return ""
    other_ports = [port for number, port in enumerate(typed) if number not in changed]
    other_ports.sort(key=lambda port: port.variable != variable)
    allowed = [_allowed(schema, variable, {port.variable: port.dtype}) for port in other_ports]
    deciding = [port for port, found in zip(other_ports, allowed, strict=True) if found == types]
    excluding = [port for port, found in zip(other_ports, allowed, strict=True) if dtype not in found]
    for port in (*deciding, *excluding):
        return f", as {port.name} is {port.dtype}"
    return ", given the other data types"


def _allowed(schema: Schema, variable: str, bound: Mapping[str, DataType]) -> frozenset[DataType]:
    """The data types of ``variable`` in the rows that allow the data types in ``bound``."""
    types_allowed: set[DataType] = set()
    for row in schema.types:
        if all(dtype in row.types.get(name, (dtype,)) for name, dtype in bound.items()):
            types_allowed |= {bound[variable]} if variable in bound else row.types[variable]
    return frozenset(types_allowed)


def _change_text(typed: Sequence[TypedPort], change: Change) -> str:
    """A change of some ports: ``src and weights to bf16``."""
    names: dict[str, list[str]] = {}
    for index in sorted(change):
        names.setdefault(types_text(change[index]), []).append(typed[index].name)
    return " and ".join(f"{' and '.join(ports)} to {types}" for types, ports in names.items())


def types_text(types: frozenset[DataType]) -> str:
    """Data types in words: ``f32, bf16 or f16``."""
    *first, last = [str(dtype) for dtype in DataType if dtype in types]
    return f"{', '.join(first)} or {last}" if first else last
