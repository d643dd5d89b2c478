"""Lowered graphs of a few steps with named values, which are made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import onegraph as og
from onegraph.compiler.ir.edit import Edit
from onegraph.compiler.ir.lowered import Lowered
from onegraph.compiler.ir.part import Part
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.opset.editions.registry import BASE, DEFAULT
from onegraph.opset.schema import Call


class SmallOp(SimpleNamespace):
    """The fields of an op that passes read."""

    __hash__ = object.__hash__


def step(kind: str, inputs: str, outputs: str, executor: str = "library", **attrs: Any) -> Step:
    """A step of values whose names are words; ``part`` and fields of its op may be among the attributes."""
    own = {name: attrs.pop(name) for name in ("edition", "op_kind", "op_attrs") if name in attrs}
    call = Call(BASE[kind], attrs, (), len(outputs.split())) if kind in BASE else None
    part = attrs.pop("part", SimpleNamespace(kind=kind, attrs=attrs, call=call))
    op: Any = SmallOp(
        kind=own.get("op_kind", kind),
        name=kind,
        inputs=(),
        outputs=(),
        edition=own.get("edition", DEFAULT),
        attrs=own.get("op_attrs", {}),
    )
    ins: Any = tuple(inputs.split())
    outs: Any = tuple(outputs.split())
    return Step(0, executor, kind, ins, outs, op, attrs, part=part, whole=False)


def _numbered(one: Step, place: int, values: Mapping[Any, Value]) -> Step:
    """A step with its number, and a part with the types of its values."""
    part = one.part
    if part is not None and one.kind in BASE and {*one.inputs, *one.outputs} <= values.keys():
        ins, outs = (tuple([values[number].type for number in ends]) for ends in (one.inputs, one.outputs))
        part = Part(one.kind, part.attrs, (), ins, outs)
    return one._replace(id=place, part=part)


def lowered(
    steps: Iterable[Step],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    dtypes: Mapping[str, og.DataType] | None = None,
    constants: Mapping[str, Any] | None = None,
    returned: Iterable[str] = (),
    roundings: Any = None,
) -> Lowered:
    """A graph of these steps; values are of f32 unless ``dtypes`` names another type."""
    values: dict[Any, Value] = {}
    for name, shape in shapes.items():
        dtype, constant = (dtypes or {}).get(name, og.f32), (constants or {}).get(name)
        array = None if constant is None else np.asarray(constant, dtype.numpy)
        number: Any = name
        values[name] = Value(number, dtype, shape, dense_of(shape), number, name, array)
    graph: Any = SimpleNamespace(outputs={}, _roundings=roundings)
    numbered = tuple([_numbered(one, place, values) for place, one in enumerate(steps)])
    shared: Any = SimpleNamespace(
        partitions=SimpleNamespace(rounds=False), key=lambda array: b"key", once=lambda key, make: make()
    )
    made = Lowered(graph, Values(values), numbered, shared)
    vars(made)["returned"] = frozenset(returned)
    return made


def edit(*given: Any, **named: Any) -> Edit:
    """A change of such a graph."""
    return Edit(lowered(*given, **named))


def as_one(_: object) -> str:
    """The name of a case that has all of a table."""
    return "all"


def label(case: Iterable[Any]) -> str:
    """The name of a case of lists of steps and of plain values."""
    return " | ".join(kinds(one) if isinstance(one, list) else str(one) for one in case)


def kinds(steps: Iterable[Any]) -> str:
    """The kinds of steps."""
    return " ".join(one.kind for one in steps)
