"""Names the method of each op."""

from __future__ import annotations

from collections.abc import Iterator
from keyword import iskeyword

from ..opset.editions.registry import BASE, DEFAULT, HOST, edition
from ..opset.schema import Schema


def methods() -> Iterator[tuple[str, Schema, str]]:
    """The name of each op's method, the op, and the edition that has the op.

    A host op has no method if the base vocabulary has its static form (StaticReshape is what most callers mean by
    reshape). A name that is a keyword of Python ends in an underscore: ``g.not_(src)``.
    """
    for schema in BASE.values():
        yield schema.name, schema, DEFAULT
    static = {schema.name for schema in BASE.values()}
    for schema in edition(HOST).schemas.values():
        name = schema.name.removeprefix(f"{HOST}_")
        if schema.kind not in BASE and f"static_{name}" not in static:
            yield f"{name}_" if iskeyword(name) else name, schema, HOST
