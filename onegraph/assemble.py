"""From a lowered graph to steps that run: partitions compiled by the library, and what numpy does in their place.

A partition that the library refuses, or would compute wrong, is tried op by op; what is still refused becomes a view
where it only names the axes anew, and a numpy step otherwise. The layout of a tensor between partitions is left to the
library where every reader honours strides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush

import numpy as np

from . import capi
from .capi import CompiledPartition, LogicalTensor, Partition
from .errors import OneGraphError, UnsupportedError
from .lower import Lowered, Step, Value, capi_graph, capi_tensor
from .op import Array
from .reference import run_op
from .report import PartitionReport
from .spec.editions import BASE
from .spec.fusions import BINARY, Use, wrong_fusion
from .spec.library import DENSE_ONLY
from .spec.movement import transposition
from .spec.schema import Call, TensorType
from .spec.shapes import dense_strides

Run = Callable[[Sequence[Array | None]], Sequence[Array]]


@dataclass(frozen=True)
class LibraryStep:
    """A compiled partition, and the values that it reads and writes in the order in which it was compiled.

    ``in_place``: from an output to the input whose memory it may take.
    """

    compiled: CompiledPartition
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    in_place: Mapping[int, int]
    report: int


@dataclass(frozen=True)
class NumpyStep:
    """One op that numpy runs; None stands for an optional input that is not there."""

    run: Run
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    report: int


class Assembly:
    """The steps of a graph in the order in which they run, with the values that they read and write.

    Args:
        lowered: the graph.
        policy: ``fusion`` or ``debug``.
        fpmath_mode: as the library takes it.
    """

    def __init__(self, lowered: Lowered, *, policy: str, fpmath_mode: str) -> None:
        self.lowered = lowered
        self.values: dict[int, Value] = dict(lowered.values)
        self.steps: list[LibraryStep | NumpyStep] = []
        self.reports: list[PartitionReport] = []
        self.sizes: dict[int, int] = {}  # bytes of values whose layout the library chose
        self._fpmath_mode = fpmath_mode
        self._by_id = {step.id: step for step in lowered.steps}
        self._readers: dict[int, list[Step]] = {}
        for step in lowered.steps:
            for number in step.inputs:
                self._readers.setdefault(number, []).append(step)
        self._returned = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._viewed = {
            n for value in self.values.values() if value.storage != value.id for n in (value.id, value.storage)
        }
        self._dense_copies: dict[int, int] = {}
        library_ops = sum(step.executor == "library" for step in lowered.steps)
        # Looking for fusions takes 3 ms, whatever the graph.
        self._add_partitions(lowered.steps, policy if library_ops > 1 else "debug")

    # Partitions ------------------------------------------------------------------------------------------------------

    def _add_partitions(self, steps: Sequence[Step], policy: str, note: str = "") -> None:
        if not steps:
            return
        graph, refused = capi_graph(self.lowered, self._fpmath_mode, steps)
        for partition, numbers in _in_order(graph.partitions(policy), steps):
            inside = [self._by_id[number] for number in numbers if number in self._by_id]
            self._add(partition, inside, refused, note)

    def _add(self, partition: Partition, steps: Sequence[Step], refused: Mapping[int, str], note: str) -> None:
        if all(step.executor == "view" for step in steps):
            return  # a mark in the library's graph, or a change of axis order that costs nothing
        reason = next((refused[step.id] for step in steps if step.id in refused), "")
        reason = reason or next((step.note for step in steps if step.executor == "reference"), "")
        if not reason and all(step.executor == "library" for step in steps):
            reason = wrong_fusion([self._use(step) for step in steps]) if len(steps) > 1 else ""
            try:
                if not reason:
                    self._add_library(partition, steps, note)
                    return
            except OneGraphError as error:
                reason = str(error)
            if len(steps) > 1:
                self._add_partitions(steps, "debug", reason)
                return
        for step in steps:
            if not self._add_view(step):
                self._add_numpy(step, reason)

    def _use(self, step: Step) -> Use:
        types = [TensorType(self.values[number].dtype, self.values[number].shape) for number in step.inputs]
        call = Call(BASE[step.kind], step.attrs, types, len(step.outputs))
        return Use(call, step.inputs, step.outputs, self.values[step.outputs[0]].dtype)

    def _add_numpy(self, step: Step, reason: str) -> None:
        inputs = tuple(None if tensor is None else tensor.id for tensor in step.op.inputs)
        outputs = tuple(tensor.id for tensor in step.op.outputs)
        index = self._report("reference", [step], reason)
        self.steps.append(NumpyStep(partial(run_op, step.op), inputs, outputs, index))

    # The library's partitions ----------------------------------------------------------------------------------------

    def _add_library(self, partition: Partition, steps: Sequence[Step], note: str) -> None:
        numbers: dict[int, int] = {}  # which value stands for a port
        inputs: list[Value] = []
        for port in _unique(partition.input_ports):
            value = self.values[port.id]
            if not value.dense and self._needs_dense(value, steps):
                value = self.values[self._dense_copy(value)]
            numbers[port.id] = value.id
            inputs.append(replace(value, id=port.id))
        wanted = [self.values[port.id] for port in partition.output_ports]
        if any(not value.dense and self._needs_dense(value, steps) for value in wanted):
            raise UnsupportedError(f"{steps[-1].kind} writes dense tensors only")
        if len(wanted) > 1 or all(value.constant is not None for value in inputs):
            # What follows from constants alone is computed in the first execution and not written in the next ones.
            inputs = [replace(value, constant=None) for value in inputs]
        compiled = self._compile(partition, [capi_tensor(value) for value in inputs], wanted)
        for value, tensor in zip(wanted, compiled.outputs, strict=True):
            shape, size = tensor.shape, tensor.mem_size
            if shape != value.shape and not (value.shape == () and shape == (1,)):
                raise UnsupportedError(f"the library infers {shape} for {value.name}, not {value.shape}")
            if tensor.strides is None or size is None:
                raise UnsupportedError(f"the library chose an opaque layout for {value.name}")
            if value.shape and tensor.strides != value.strides:
                self.values[value.id] = replace(value, strides=tensor.strides)
                self.sizes[value.id] = size
        notes = dict.fromkeys(text for text in (note, *(step.note for step in steps)) if text)
        index = self._report("oneDNN", steps, "; ".join(notes))
        self.steps.append(
            LibraryStep(
                compiled,
                tuple(numbers[tensor.id] for tensor in compiled.inputs),
                tuple(tensor.id for tensor in compiled.outputs),
                {target: numbers[source] for source, target in compiled.inplace_pairs},
                index,
            )
        )

    def _compile(
        self, partition: Partition, inputs: Sequence[LogicalTensor], wanted: Sequence[Value]
    ) -> CompiledPartition:
        """Compile with the layout of the outputs left to the library where that is allowed, else dense."""
        # The library is not told the shape of a dense output: it would take a wrong one for right.
        outputs = [LogicalTensor(v.id, v.dtype) if v.dense else capi_tensor(v) for v in wanted]
        free = [value.dense and self._is_free(value) for value in wanted]
        if any(free):
            anyhow = [
                LogicalTensor(value.id, value.dtype, layout="any") if leave else output
                for value, leave, output in zip(wanted, free, outputs, strict=True)
            ]
            try:
                compiled = partition.compile(inputs, anyhow)
                if all(tensor.layout == "strided" for tensor in compiled.outputs):
                    return compiled
            except OneGraphError:
                pass
        return partition.compile(inputs, outputs)

    def _is_free(self, value: Value) -> bool:
        """Whether the layout of a value may be any: it stays inside, and whoever reads it honours strides."""
        if value.id in self._returned or value.id in self._viewed or len(value.shape) < 2 or 0 in value.shape:
            return False
        readers = self._readers.get(value.id, ())
        return bool(readers) and all(
            step.executor == "library" and step.kind != "StaticReshape" and not self._needs_dense(value, [step])
            for step in readers
        )

    def _needs_dense(self, value: Value, steps: Sequence[Step]) -> bool:
        """Whether one of the ops would compute wrong with other strides."""
        if any(step.kind in DENSE_ONLY for step in steps):
            return True
        # Binary ops were seen to compute wrong with gaps or permuted axes together with an axis of size 1.
        return 1 in value.shape and any(step.kind in BINARY for step in steps)

    # Views and copies ------------------------------------------------------------------------------------------------

    def _add_view(self, step: Step) -> bool:
        """Take a reshape or a transpose as another way to look at the same memory, if it is one."""
        if step.executor != "library" or step.kind not in ("StaticReshape", "StaticTranspose"):
            return False
        source, target = self.values[step.inputs[0]], self.values[step.outputs[0]]
        if target.id in self._viewed or not target.dense or 0 in target.shape:
            return False
        constant = source.constant
        if step.kind == "StaticReshape":
            if not source.dense:
                return False
            strides = dense_strides(target.shape)
            constant = None if constant is None else constant.reshape(target.shape)
        else:
            order = transposition(self._use(step).call)
            assert order is not None
            strides = tuple(source.strides[axis] for axis in order)
            constant = None if constant is None else constant.transpose(order)
        view = replace(target, strides=strides, storage=source.storage, constant=constant)
        if target.id in self._returned:
            view = replace(view, id=self._fresh(), name=f"{target.name} (view)")
            self.values[view.id] = view
            self._add_copy(view, target, f"{step.op.kind} {step.op.name!r}", "the result is stored as a dense array")
        else:
            self.values[target.id] = view
            self._report("view", [step], "no copy: other strides on the same memory")
        return True

    def _dense_copy(self, value: Value) -> int:
        """A dense copy of a value, made once."""
        if value.id not in self._dense_copies:
            dense = replace(
                value,
                id=self._fresh(),
                strides=dense_strides(value.shape),
                name=f"{value.name} (dense)",
                constant=None if value.constant is None else np.ascontiguousarray(value.constant),
            )
            dense = replace(dense, storage=dense.id)
            self.values[dense.id] = dense
            self._dense_copies[value.id] = dense.id
            if dense.constant is None:
                self._add_copy(value, dense, f"copy of {value.name!r}", "the reader does not honour strides")
        return self._dense_copies[value.id]

    def _add_copy(self, source: Value, target: Value, what: str, reason: str) -> None:
        """A step that copies between layouts: the library's Reorder where it has the data type, else numpy."""
        ends = {"inputs": (_describe(source),), "outputs": (_describe(target),), "bytes": 2 * nbytes(target)}
        index = len(self.reports)
        report = PartitionReport(index, "oneDNN", (what,), reason, **ends)  # type: ignore[arg-type]
        try:
            compiled = _reorder(source, target)
        except OneGraphError:
            self.reports.append(replace(report, executor="reference"))
            self.steps.append(NumpyStep(_as_it_is, (source.id,), (target.id,), index))
            return
        self.reports.append(report)
        self.steps.append(LibraryStep(compiled, (source.id,), (target.id,), {}, index))

    def _fresh(self) -> int:
        return len(self.values)

    def _report(self, executor: str, steps: Sequence[Step], reason: str) -> int:
        inside = {number for step in steps for number in step.outputs}
        ins = dict.fromkeys(number for step in steps for number in step.inputs if number not in inside)
        ids = {step.id for step in steps}
        outs = [
            number
            for number in sorted(inside)
            if number in self._returned
            or not self._readers.get(number)
            or any(reader.id not in ids for reader in self._readers[number])
        ]
        self.reports.append(
            PartitionReport(
                index=len(self.reports),
                executor=executor,
                ops=tuple(f"{step.op.kind} {step.op.name!r}" for step in steps),
                reason=reason,
                inputs=tuple(_describe(self.values[number]) for number in ins),
                outputs=tuple(_describe(self.values[number]) for number in outs),
                bytes=sum(nbytes(self.values[number]) for number in (*ins, *outs)),
            )
        )
        return len(self.reports) - 1


def _as_it_is(arrays: Sequence[Array | None]) -> list[Array]:
    return [array for array in arrays if array is not None]


def _reorder(source: Value, target: Value) -> CompiledPartition:
    graph = capi.Graph()
    ends = capi_tensor(replace(source, constant=None)), capi_tensor(target)
    graph.add_op(capi.Op(0, "Reorder", inputs=[ends[0]], outputs=[ends[1]]))
    graph.finalize()
    (partition,) = graph.partitions("debug")
    return partition.compile([ends[0]], [ends[1]])


def _unique(ports: Sequence[LogicalTensor]) -> list[LogicalTensor]:
    return list({port.id: port for port in ports}.values())


def nbytes(value: Value) -> int:
    """Bytes of the elements of a value."""
    size = value.dtype.numpy.itemsize
    for dim in value.shape:
        size *= dim
    return size


def _describe(value: Value) -> str:
    text = f"{value.name}: {value.dtype} {list(value.shape)}"
    return text if value.dense else f"{text} strides {list(value.strides)}"


def _in_order(partitions: Sequence[Partition], steps: Sequence[Step]) -> list[tuple[Partition, list[int]]]:
    """The partitions in an order in which they can run, with the ids of their ops, in such an order too.

    The steps of the graph stand in such an order already; among the partitions that are ready, the one with the lowest
    id goes first.
    """
    ops = [sorted(partition.ops) for partition in partitions]
    owner = {number: index for index, numbers in enumerate(ops) for number in numbers}
    producer = {number: owner[step.id] for step in steps for number in step.outputs}
    needs: list[set[int]] = [set() for _ in ops]
    users: list[set[int]] = [set() for _ in ops]
    for step in steps:
        index = owner[step.id]
        found = {producer[number] for number in step.inputs if number in producer} - {index}
        needs[index] |= found
        for other in found:
            users[other].add(index)
    ready = [(numbers[0], index) for index, numbers in enumerate(ops) if not needs[index]]
    heapify(ready)
    ordered = []
    while ready:
        _, index = heappop(ready)
        ordered.append((partitions[index], ops[index]))
        for user in users[index]:
            needs[user].discard(index)
            if not needs[user]:
                heappush(ready, (ops[user][0], user))
    return ordered
