"""Exports a lowered graph, or some of its steps, to a graph of the C API."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import mul

from ..capi import Graph as LibraryGraph
from ..capi import Partition
from ..capi.logical_tensor import LogicalTensor as LibraryTensor
from ..capi.op_template import LazyOps, OpTemplate
from ..errors import OneGraphError, UnsupportedError
from ..faults.execution import unproduced_weights
from ..ir.op import Op
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.shapes import beyond_single_axes
from .ir.lowered import Lowered
from .ir.part import Part
from .ir.step import NO_ATTRS, Step
from .ir.value import Value

LARGE = 1 << 48  # elements
END_TYPES = (DataType.f32, DataType.bf16, DataType.f16)  # data types that an End op takes


def capi_tensor(number: int, value: Value, kind: str) -> LibraryTensor:
    """A value as a logical tensor with this id; ``kind`` is ``variable`` or ``constant``."""
    if value.dense:
        return LibraryTensor._checked(number, value.dtype, value.shape, None, "strided", kind)
    strides = beyond_single_axes(value.shape, value.strides)
    if min(strides) >= 0 and sum(map(mul, value.shape, strides)) < LARGE:  # what the checks below would find
        return LibraryTensor._checked(number, value.dtype, value.shape, strides, "strided", kind)
    return LibraryTensor(number, value.dtype, value.shape, strides=strides, property=kind)


def open_tensor(number: int, value: Value, kind: str) -> LibraryTensor:
    """A value as a logical tensor with this id whose dims above 1 are unknown."""
    dims = tuple([dim if dim < 2 else None for dim in value.shape])
    return LibraryTensor._checked(number, value.dtype, dims, None, "strided", kind)


def open_partition(
    values: Mapping[int, Value], steps: Sequence[Step], fpmath_mode: str, results: Sequence[int]
) -> Partition | None:
    """A partition of all steps that can be compiled for any sizes above 1; None if the library makes none.

    A dim of -1 in the shape of a StaticReshape is inferred when the partition is made, from dims that are unknown then.

    Args:
        values: the values of the steps, by the ids that the ports of the partition get.
        steps: the steps.
        fpmath_mode: name of the library's mode.
        results: the values that others read.
    """
    if any(step.kind == "StaticReshape" and -1 in step.attrs["shape"] for step in steps):  # type: ignore[operator]
        return None
    export = _Export(values, steps, fpmath_mode, len(steps), opened=True)
    export.add_ops()
    if export.refused:
        return None
    export.keep(results)
    partitions = export.finalize().partitions("fusion" if len(steps) > 1 else "debug")
    return next((partition for partition in partitions if len(partition.ops) == len(steps)), None)


def capi_graph(
    lowered: Lowered, fpmath_mode: str, steps: Sequence[Step] | None = None, needed: Iterable[int] = ()
) -> tuple[LibraryGraph, dict[int, str]]:
    """Steps as a finalized graph of the C API.

    Args:
        lowered: the graph.
        fpmath_mode: name of the library's mode.
        steps: some of its steps; all by default.
        needed: values that steps outside ``steps`` read.

    Returns:
        The graph, and the library's reason for each step that it refused. A refused step is a Wildcard in the graph.

    Raises:
        UnsupportedError: the library refuses a Wildcard or an End.
    """
    steps = lowered.steps if steps is None else steps
    export = _Export(lowered.values, steps, fpmath_mode, len(lowered.steps))
    export.add_ops()
    export.add_wildcards()
    export.keep([*[tensor.id for tensor in lowered.graph.outputs.values()], *needed])
    export.mark_weights()
    return export.finalize(), {number: reason for number, reason in export.refused.items() if reason}


class _Export:
    """A graph of the C API under construction.

    Attributes:
        refused: for each step that becomes a Wildcard, the library's reason; empty for a step that is no library step.
    """

    def __init__(
        self,
        values: Mapping[int, Value],
        steps: Sequence[Step],
        fpmath_mode: str,
        first_free: int,
        opened: bool = False,
    ) -> None:
        self.steps, self.values, self._opened = steps, values, opened
        self.refused: dict[int, str] = {}
        self._read = {*chain.from_iterable([step.inputs for step in steps])}
        self._produced = {*chain.from_iterable([step.outputs for step in steps])}
        self._graph, self._ops = LibraryGraph(fpmath_mode=fpmath_mode), LazyOps(*self._tensors())
        self._marks: list[int] = []  # ids of Wildcards and Ends that were added
        self._free_ids = itertools.count(first_free)

    def _tensors(self) -> tuple[list[LibraryTensor], dict[int, int]]:
        """Logical tensors, one for all values that differ in their ids only, and its index for each value.

        Values of data types that the library lacks have no logical tensor.
        """
        place_of: dict[object, int] = {}
        tensors: list[LibraryTensor] = []
        places: dict[int, int] = {}
        for number in self._read | self._produced:
            value = self.values[number]
            dtype, shape, strides, constant = value.dtype, value.shape, value.strides, value.constant
            if dtype.since > VERSION:
                continue
            alike = dtype, shape, strides, constant is None
            if alike not in place_of:
                place_of[alike] = len(tensors)
                make = open_tensor if self._opened else capi_tensor
                tensors.append(make(value.id, value, "variable" if constant is None else "constant"))
            places[number] = place_of[alike]
        self._places = places
        return tensors, places

    def add_ops(self) -> None:
        """Add the library steps."""
        added: list[int] = []
        templates: dict[Part, OpTemplate] = {}
        for step in self.steps:
            part = step.part
            if part is None or step.executor != "library":
                self.refused[step.id] = ""
                continue
            try:
                template = templates.get(part) or templates.setdefault(part, _template(part, step.op))
            except OneGraphError as error:
                self.refused[step.id] = str(error)
                continue
            self._ops.add(template, step.id, step.op.name, step.inputs, step.outputs)
            added.append(step.id)
        self.refused.update(self._graph._add_lazy_ops(self._ops, added))

    def add_wildcards(self) -> None:
        """Add a Wildcard for each step that the library does not run."""
        for step in self.steps if self.refused else ():
            if step.id in self.refused:
                ins, outs = ([n for n in ends if n in self._places] for ends in (step.inputs, step.outputs))
                self._mark("Wildcard", step.id, step.op.name, ins, outs)

    def keep(self, numbers: Iterable[int]) -> None:
        """Stop the library from hiding values inside a partition that are read here and elsewhere, too."""
        for number in dict.fromkeys(numbers):
            if number in self._read and number in self._produced and number in self._places:
                kind = "End" if self.values[number].dtype in END_TYPES else "Wildcard"
                self._mark(kind, next(self._free_ids), "output", [number], [])

    def mark_weights(self) -> None:
        """Add a Wildcard that produces weights without a producer, where the library would crash otherwise."""
        accepted = [(step.kind, step.inputs, step.outputs) for step in self.steps if step.id not in self.refused]
        for number in unproduced_weights(accepted, VERSION):
            self._mark("Wildcard", next(self._free_ids), "weights", [], [number])

    def _mark(self, kind: str, number: int, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self._ops.add(OpTemplate(kind, NO_ATTRS), number, name, inputs, outputs)
        self._marks.append(number)

    def finalize(self) -> LibraryGraph:
        """Finalize and return the graph."""
        for reason in self._graph._add_lazy_ops(self._ops, self._marks).values():
            raise UnsupportedError(reason)
        self._graph.finalize()
        return self._graph


def _template(part: Part, op: Op) -> OpTemplate:
    """The template of a part; ops of a graph that is not strict may be unchecked, and are checked here."""
    if op.signature is None:
        return OpTemplate.checked(part.kind, part.attrs, part.types, part.outputs, op.name)
    return OpTemplate(part.kind, part.attrs)
