"""Lists what the newest vocabulary has and an earlier version of oneDNN lacks, from the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .dtypes import SPECIFIED, DataType
from .editions.registry import BASE, FORMER
from .schema import Schema
from .signature import Row, Version

Part = tuple[Version, str, str]


class Newer(NamedTuple):
    """An addition to the vocabulary.

    Attributes:
        since: the first version that has it.
        kinds: the ops that it concerns; empty for a data type.
        part: ``op``, ``attribute``, ``input``, ``output``, ``types`` (rows of the type table) or ``data type``.
        names: the names of the attributes, ports or data types, or the rows; empty for a whole op.
    """

    since: Version
    kinds: tuple[str, ...]
    part: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        subject = f"{self.part} {'; '.join(self.names)}" if self.names else ""
        return ": ".join(filter(None, (", ".join(self.kinds), subject)))


def newer_than(version: Version) -> list[Newer]:
    """What is newer than ``version``: ops, then additions to older ops, then data types.

    Ops with the same new rows of their type tables are one entry.
    """
    newer = [Newer(schema.since, (schema.kind,), "op") for schema in BASE.values() if schema.since > version]
    kinds: dict[tuple[Version, str, tuple[str, ...], str], list[str]] = {}
    for schema in BASE.values():
        added: dict[tuple[Version, str], list[str]] = {}
        for since, part, name in _parts(schema):
            if since > version >= schema.since:
                added.setdefault((since, part), []).append(name)
        for (since, part), names in added.items():
            alone = "" if part == "types" else schema.kind
            kinds.setdefault((since, part, tuple(names), alone), []).append(schema.kind)
    newer += [Newer(since, tuple(ops), part, names) for (since, part, names, _), ops in kinds.items()]
    dtypes: dict[Version, list[str]] = {}
    for dtype in map(DataType, SPECIFIED):
        dtypes.setdefault(dtype.since, []).append(dtype.value)
    return newer + [Newer(since, (), "data type", tuple(ones)) for since, ones in dtypes.items() if since > version]


def _parts(schema: Schema) -> Iterator[Part]:
    for attribute in schema.attributes:
        yield attribute.since, "attribute", attribute.name
        since, former = FORMER.get((schema.kind, attribute.name), (attribute.since, attribute))
        if former.required and not attribute.required:
            yield since, "attribute", f"{attribute.name} left out"
        for value in attribute.values:
            if value not in former.values:
                yield since, "attribute", f"{attribute.name}={value}"
    for side, ports in (("input", schema.inputs), ("output", schema.outputs)):
        for port in ports:
            yield port.since, side, port.name
    for row in schema.types:
        yield row.since, "types", cells(row)


def cells(row: Row) -> str:
    """A row as the specification prints it, such as ``f32 bf16 f32``."""
    return " ".join("|".join(dtype.value for dtype in DataType if dtype in types) for types in row.types.values())
