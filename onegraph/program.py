"""A graph compiled for inputs of known shapes: steps in order, and the memory that a run of them needs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from .arrays import aligned_empty
from .capi import CompiledPartition, LogicalTensor, Partition, Stream
from .errors import OneGraphError, UnsupportedError
from .graph import Graph
from .lower import Lowered, Step, Value, capi_graph, capi_tensor, lower
from .native import Handle, call, create, ffi, lib
from .op import Array, Op
from .reference import run_op
from .report import PartitionReport
from .spec.editions import BASE
from .spec.fusions import BINARY, Use, wrong_fusion
from .spec.schema import Call, TensorType


@dataclass(frozen=True)
class LibraryStep:
    """A compiled partition, and the ids of the values it reads and writes in the order in which it was compiled."""

    compiled: CompiledPartition
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class ReferenceStep:
    """One op that numpy runs."""

    op: Op
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]


class Program:
    """Compiled steps of a graph with known shapes. It is immutable; a :class:`Frame` holds the memory of one run.

    Raises:
        UnsupportedError: with ``fallback=False``: what the library does not support, with the reasons.
    """

    def __init__(self, graph: Graph, *, policy: str, fallback: bool, fpmath_mode: str) -> None:
        self.graph = graph
        self.lowered = lower(graph)
        self.values = self.lowered.values
        self.steps: list[LibraryStep | ReferenceStep] = []
        self.reports: list[PartitionReport] = []
        self._fpmath_mode = fpmath_mode
        self._readers = _readers(self.lowered)
        self._steps = {step.id: step for step in self.lowered.steps}
        self._returned = {tensor.id for tensor in graph.outputs.values()}
        self.free_frames: list[Frame] = []  # of finished calls, for the next ones
        self.residents: dict[int, list[int]] = {}
        for number, value in self.values.items():
            self.residents.setdefault(value.storage, []).append(number)
        library_ops = sum(step.executor == "library" for step in self.lowered.steps)
        # Looking for fusions takes 3 ms, whatever the graph.
        self._add_partitions(self.lowered.steps, policy if library_ops > 1 else "debug")
        stored = {self.values[number].storage for step in self.steps for number in step.outputs}
        inputs = {tensor.id for tensor in graph.inputs.values()}
        # The graph outputs that steps write into directly; of two names for one value, the last has it.
        direct = {t.id: name for name, t in graph.outputs.items() if t.id in stored and t.id not in inputs}
        self.direct = tuple((name, number) for number, name in direct.items())
        if not fallback:
            refusals = [report for report in self.reports if report.executor == "reference"]
            if refusals:
                lines = [f"{', '.join(report.ops)}: {report.reason}" for report in refusals]
                raise UnsupportedError("the library does not run all of the graph:\n  " + "\n  ".join(lines))

    def _add_partitions(self, steps: Sequence[Step], policy: str, note: str = "") -> None:
        if not steps:
            return
        graph, refused = capi_graph(self.lowered, self._fpmath_mode, steps)
        for partition, numbers in _in_order(graph.partitions(policy), steps):
            inside = [self._steps[number] for number in numbers if number in self._steps]
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
            inputs = tuple(None if tensor is None else tensor.id for tensor in step.op.inputs)
            self.steps.append(ReferenceStep(step.op, inputs, tuple(tensor.id for tensor in step.op.outputs)))
        self._report("reference", steps, reason)

    def _use(self, step: Step) -> Use:
        types = [TensorType(self.values[number].dtype, self.values[number].shape) for number in step.inputs]
        call_ = Call(BASE[step.kind], step.attrs, types, len(step.outputs))
        return Use(call_, step.inputs, step.outputs, self.values[step.outputs[0]].dtype)

    def _add_library(self, partition: Partition, steps: Sequence[Step], note: str) -> None:
        self._refuse_strided_broadcast(partition, steps)
        wanted = [self.values[port.id] for port in partition.output_ports]
        outputs = [
            # The library is not told the shape of a dense output: it would take a wrong one for right.
            LogicalTensor(value.id, value.dtype) if value.dense else capi_tensor(value)
            for value in wanted
        ]
        inputs = [capi_tensor(self.values[port.id]) for port in _unique(partition.input_ports)]
        compiled = partition.compile(inputs, outputs)
        for value, tensor in zip(wanted, compiled.outputs, strict=True):
            same = tensor.shape == value.shape or (value.shape == () and tensor.shape == (1,))
            if not same or (value.dense and tensor.mem_size != _nbytes(value)):
                raise UnsupportedError(f"the library infers {tensor.shape} for {value.name}, not {value.shape}")
        self.steps.append(
            LibraryStep(compiled, tuple(t.id for t in compiled.inputs), tuple(t.id for t in compiled.outputs))
        )
        notes = dict.fromkeys(text for text in (note, *(step.note for step in steps)) if text)
        self._report("oneDNN", steps, "; ".join(notes))

    def _refuse_strided_broadcast(self, partition: Partition, steps: Sequence[Step]) -> None:
        """Binary ops were seen to compute wrong with gaps or permuted axes together with an axis of size 1."""
        if not any(step.kind in BINARY for step in steps):
            return
        for port in (*partition.input_ports, *partition.output_ports):
            value = self.values[port.id]
            if not value.dense and 1 in value.shape:
                raise UnsupportedError(f"{_describe(value)}: binary ops do not honour strides beside an axis of size 1")

    def _report(self, executor: str, steps: Sequence[Step], reason: str) -> None:
        inside = {number for step in steps for number in step.outputs}
        ins = dict.fromkeys(number for step in steps for number in step.inputs if number not in inside)
        ids = {step.id for step in steps}
        outs = [n for n in sorted(inside) if n in self._returned or not self._readers.get(n, ids) <= ids]
        self.reports.append(
            PartitionReport(
                index=len(self.reports),
                executor=executor,
                ops=tuple(f"{step.op.kind} {step.op.name!r}" for step in steps),
                reason=reason,
                inputs=tuple(_describe(self.values[number]) for number in ins),
                outputs=tuple(_describe(self.values[number]) for number in outs),
                bytes=sum(_nbytes(self.values[number]) for number in (*ins, *outs)),
            )
        )


def _unique(ports: Sequence[LogicalTensor]) -> list[LogicalTensor]:
    return list({port.id: port for port in ports}.values())


def _nbytes(value: Value) -> int:
    return int(np.prod(value.shape, dtype=np.int64)) * value.dtype.numpy.itemsize


def _describe(value: Value) -> str:
    text = f"{value.name}: {value.dtype} {list(value.shape)}"
    return text if value.dense else f"{text} strides {list(value.strides)}"


def _readers(lowered: Lowered) -> dict[int, set[int]]:
    """For each value the ids of the steps that read it."""
    readers: dict[int, set[int]] = {}
    for step in lowered.steps:
        for number in step.inputs:
            readers.setdefault(number, set()).add(step.id)
    return readers


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


class Frame:
    """The memory of one run: an array for every value, the tensors of every step, and the calls in order.

    Inputs and outputs of the graph are given by the caller for each run, or once and for all; everything else is
    allocated here, aligned to 64 bytes.
    """

    def __init__(self, program: Program, external: Mapping[int, Array]) -> None:
        self.stream = Stream()
        self.program = program
        self.storage: dict[int, Array] = {}
        self.arrays: dict[int, Array] = {}
        self.handles: dict[int, list[Handle]] = {}
        # numpy refuses to resize an array that has a weak reference, whatever refcheck says: its address must hold.
        self._watched = [weakref.ref(array) for array in external.values()]
        for number, value in program.values.items():
            if value.storage == number and number not in external:
                self.storage[number] = self._allocate(value)
        for number, array in external.items():
            self.storage[number] = array
        for number, value in program.values.items():
            self.arrays[number] = self._array(value)
        self._calls: list[Callable[[], None]] = [self._call(step) for step in program.steps]

    @staticmethod
    def _allocate(value: Value) -> Array:
        if value.constant is not None and value.dense:
            return value.constant
        return aligned_empty(value.shape, value.dtype.numpy)

    def _array(self, value: Value) -> Array:
        """The numpy view of a value: its storage, with the axes of the view exchanged."""
        whole = self.storage[value.storage]
        if value.storage == value.id:
            return whole
        source = self.program.values[value.storage]
        order = [source.strides.index(step) for step in value.strides]
        if sorted(order) != list(range(len(order))):  # axes of equal stride are of size 1: any order does
            return np.lib.stride_tricks.as_strided(
                whole, value.shape, [step * whole.itemsize for step in value.strides]
            )
        return whole.transpose(order)

    def rebind(self, external: Mapping[int, Array]) -> None:
        """Let the external values live in other arrays of the same shape and strides."""
        values = self.program.values
        self._watched = [weakref.ref(array) for array in external.values()]
        for number, array in external.items():
            self.storage[number] = array
            for resident in self.program.residents[number]:
                self.arrays[resident] = self._array(values[resident])
                handles = self.handles.get(resident)
                if handles:
                    address = ffi.cast("void *", array_address(self.arrays[resident]))
                    for handle in handles:
                        call(lib.dnnl_graph_tensor_set_data_handle, handle._ptr, address)

    def release(self, external: Mapping[int, Array]) -> None:
        """Forget the caller's arrays, so that a frame that waits for its next run keeps nobody's memory."""
        self._watched.clear()
        for number in external:
            del self.storage[number]
            for resident in self.program.residents[number]:
                del self.arrays[resident]

    def _call(self, step: LibraryStep | ReferenceStep) -> Callable[[], None]:
        if isinstance(step, ReferenceStep):
            return lambda: self._run_reference(step)
        compiled = step.compiled
        ins = [self._handle(tensor) for tensor in compiled.inputs]
        outs = [self._handle(tensor) for tensor in compiled.outputs]
        in_array = ffi.new("const_dnnl_graph_tensor_t[]", [handle._ptr for handle in ins])
        out_array = ffi.new("const_dnnl_graph_tensor_t[]", [handle._ptr for handle in outs])
        execute, pointer, stream = lib.dnnl_graph_compiled_partition_execute, compiled._ptr, self.stream._ptr
        n_in, n_out = len(ins), len(outs)
        return lambda: call(execute, pointer, stream, n_in, in_array, n_out, out_array)

    def _handle(self, tensor: LogicalTensor) -> Handle:
        """The C tensor of a value. The frame, not the handle, keeps the array: it may be another at the next run."""
        engine = self.stream.engine
        address = ffi.cast("void *", array_address(self.arrays[tensor.id]))
        pointer = create(lib.dnnl_graph_tensor_create, "dnnl_graph_tensor_t", tensor._struct, engine._ptr, address)
        handle = Handle(pointer, lib.dnnl_graph_tensor_destroy, engine)
        self.handles.setdefault(tensor.id, []).append(handle)
        return handle

    def _run_reference(self, step: ReferenceStep) -> None:
        inputs = [None if number is None else self.arrays[number] for number in step.inputs]
        for number, result in zip(step.outputs, run_op(step.op, inputs), strict=True):
            self.arrays[number][...] = result

    def run(self) -> None:
        """Execute every step, and wait for the end."""
        for make in self._calls:
            make()
        self.stream.wait()


def array_address(array: Array) -> int:
    """Address of the first element."""
    return int(array.__array_interface__["data"][0])
