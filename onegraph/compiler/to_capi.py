"""A lowered graph, or some steps of it, as a graph of the C API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from .. import capi
from ..builder.graph import DataGraph
from ..capi.graph import unproduced_weights
from ..capi.logical_tensor import LogicalTensor as LibraryTensor
from ..capi.op_template import LazyOps, OpTemplate
from ..errors import OneGraphError, UnsupportedError
from ..ir.op import Op
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.shapes import beyond_single_axes
from .lower import NO_ATTRS, Lowered, Step, Value, lower, refuse_wildcards
from .rewrites import Part

FLOATS = (DataType.f32, DataType.bf16, DataType.f16)  # what an End takes


def capi_tensor(number: int, value: Value, kind: str) -> LibraryTensor:
    """A value as the library is told of it: by its number, as ``variable`` or ``constant``."""
    if value.dense:
        return LibraryTensor._checked(number, value.dtype, value.shape, None, "strided", kind)
    strides = beyond_single_axes(value.shape, value.strides)
    return LibraryTensor(number, value.dtype, value.shape, strides=strides, property=kind)


def capi_graph(
    lowered: Lowered, fpmath_mode: str, steps: Sequence[Step] | None = None, needed: Iterable[int] = ()
) -> tuple[capi.Graph, dict[int, str]]:
    """The finalized graph, and for each step that the library refused the reason; that step is a Wildcard there.

    ``steps``: only these ones; all by default. ``needed``: values that are read elsewhere, too.
    """
    steps = lowered.steps if steps is None else steps
    values = lowered.values
    read = {*chain.from_iterable([step.inputs for step in steps])}
    produced = {*chain.from_iterable([step.outputs for step in steps])}
    place_of: dict[object, int] = {}
    tensors: list[LibraryTensor] = []
    places: dict[int, int] = {}  # of what the library can be told of
    for number in read | produced:
        _, dtype, shape, strides, _, _, constant = value = values[number]
        what = dtype, shape, strides, constant is None
        place = place_of.get(what)
        if place is None:
            if not _expressible(dtype):
                continue
            place = place_of[what] = len(tensors)
            tensors.append(capi_tensor(value.id, value, "variable" if constant is None else "constant"))
        places[number] = place
    graph, ops = capi.Graph(fpmath_mode=fpmath_mode), LazyOps(tensors, places)
    refused: dict[int, str] = {}
    taken: list[int] = []
    of_part: dict[int, OpTemplate] = {}
    for step in steps:
        part = step.part
        if part is None or step.executor != "library":
            refused[step.id] = ""
            continue
        template = of_part.get(id(part))
        if template is None:
            try:
                template = of_part[id(part)] = _template(part, step.op)
            except OneGraphError as error:
                refused[step.id] = str(error)
                continue
        ops.add(template, step.id, step.op.name, step.inputs, step.outputs)
        taken.append(step.id)
    refused.update(graph._add_lazy_ops(ops, taken))
    marks: list[int] = []

    def mark(kind: str, number: int, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """A Wildcard or an End."""
        ops.add(OpTemplate(kind, NO_ATTRS), number, name, inputs, outputs)
        marks.append(number)

    for step in steps if refused else ():
        if step.id in refused:
            known = ([number for number in ends if number in places] for ends in (step.inputs, step.outputs))
            mark("Wildcard", step.id, step.op.name, *known)
    # What is read here and elsewhere, a graph output for one, must not vanish inside a partition.
    returned = [tensor.id for tensor in lowered.graph.outputs.values()]
    first_free = len(lowered.steps)  # the first of the ids that no step has
    kept = dict.fromkeys((*returned, *needed))
    for free, number in enumerate(kept, first_free):
        if number in read and number in produced and number in places:
            mark("End" if values[number].dtype in FLOATS else "Wildcard", free, "output", [number], [])
    accepted = [(step.kind, step.inputs, step.outputs) for step in steps if step.id not in refused]
    for free, number in enumerate(unproduced_weights(accepted), first_free + len(kept)):
        mark("Wildcard", free, "weights", [], [number])
    for reason in graph._add_lazy_ops(ops, marks).values():
        raise UnsupportedError(reason)
    graph.finalize()
    return graph, {number: reason for number, reason in refused.items() if reason}


def _template(part: Part, op: Op) -> OpTemplate:
    """What the library is told of a part; a graph that is not strict may have ops that nobody has examined."""
    if op.signature is None:
        return OpTemplate.checked(part.kind, part.attrs, part.types, part.outputs, op.name)
    return OpTemplate(part.kind, part.attrs)


def _expressible(dtype: DataType) -> bool:
    return dtype.since <= VERSION


def library_partitions(graph: DataGraph, policy: str) -> list[capi.Partition]:
    """The partitions that the library makes of a graph, views and reference ops among them as unsupported ones."""
    refuse_wildcards(graph)
    return capi_graph(lower(graph), "strict")[0].partitions(policy)
