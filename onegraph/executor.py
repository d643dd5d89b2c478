"""Executables: whole graphs on arrays."""

from __future__ import annotations

import threading
from collections import OrderedDict, namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import native
from .arrays import aligned_empty, array_of, as_array, cast_to, check_output, strided_empty
from .capi.graph import POLICIES
from .capi.settings import FPMATH_MODES, check_threads
from .capi.validate import choice
from .errors import ArgumentError, UnsupportedError, shown
from .graph import Graph
from .op import Array, LogicalTensor
from .program import Program, Threads
from .reference import run as run_reference
from .report import PartitionReport, Report
from .runs import BoundRun, QuickCall, quick_call
from .spec.dtypes import DataType
from .spec.editions import base_of, edition
from .spec.schema import Shape
from .spec.shapes import compatible, show

MAX_PROGRAMS = 16
COMPUTED_SHAPE = "a shape depends on what the graph computes, so nothing can be compiled before it runs"


class Port(NamedTuple):
    """A graph input or output: its name, data type and shape, None for an unknown dim."""

    name: str
    dtype: DataType
    shape: Shape


class Executable:
    """A compiled graph. ``Graph.compile`` makes it; it may be called from several threads at once.

    Call it with the graph inputs, by position in the order of the ``input`` calls or by name. It returns an array where
    the graph has one output, else a named tuple in the order of the ``output`` calls. ``out=`` takes the arrays to
    write into: one, a sequence in that order, or a dict by name.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        policy: str = "fusion",
        fallback: bool = True,
        fpmath_mode: str = "strict",
        threads: Threads = None,
    ) -> None:
        if not graph.outputs:
            raise ArgumentError("the graph has no output; declare one with g.output(name, tensor)")
        self._graph = graph
        self._policy = choice("policy", policy, POLICIES)
        self._fpmath_mode = choice("fpmath_mode", fpmath_mode, FPMATH_MODES)
        if not isinstance(fallback, bool):
            raise ArgumentError(f"fallback: {shown(fallback)}; expected True or False")
        self._fallback = fallback
        self._threads = check_thread_option(threads)
        self._limit = threads if isinstance(threads, int) else 0
        self._lock = threading.Lock()
        self._programs: OrderedDict[tuple[object, ...], Program] = OrderedDict()
        self._computed_shape = False
        self._names = tuple(graph.inputs)
        self._value_inputs = _value_inputs(graph)
        self.copies = 0
        names = tuple(graph.outputs)
        self._result: Any = None if len(names) == 1 else namedtuple("Outputs", names, rename=True)
        self._static = not self._value_inputs and all(_known(tensor) for tensor in graph.inputs.values())
        self._quick: QuickCall | None = None
        if self._static:
            program = self._program({})
            if program is not None:
                self._quick = quick_call(program, self._limit, self._result)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The graph inputs, in the order of positional arguments."""
        return tuple(Port(name, tensor.dtype, tensor.shape) for name, tensor in self._graph.inputs.items())

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The graph outputs, in the order of the results."""
        return tuple(Port(name, tensor.dtype, tensor.shape) for name, tensor in self._graph.outputs.items())

    def __call__(self, /, *arrays: object, out: object = None, **named: object) -> Any:
        """Run the graph.

        Args:
            arrays, named: the inputs, by position or name. Data that is not laid out as the input declares is copied
                once; ``copies`` counts that.
            out: arrays to write into, C-contiguous and writable, sharing no memory with an input.

        Raises:
            ArgumentError: an array is missing or unknown, or does not fit; nothing was run.
            SpecError: an op cannot have inputs of these shapes.
        """
        if self._quick is not None and out is None:
            if not named:
                result = self._quick(arrays)
            elif arrays or len(named) != len(self._names):
                result = None
            else:  # an unknown name leaves a None in the place of an array, which the quick call does not take
                result = self._quick(tuple(map(named.get, self._names)))
            if result is not None:
                return result
        given = self._arrays(arrays, named)
        program = self._program(given)
        if program is None:
            return self._run_on_reference(given, out)
        results = self._allocate(program, out, given)
        frame = program.check_out()
        try:
            frame.bind(self._external(program, given, results))
            frame.run(self._limit)
            frame.copy_outputs(results)
        finally:
            frame.release()
            program.free_frames.append(frame)
        return self._named(results)

    def bind(self, /, **arrays: object) -> BoundRun:
        """Fix the arrays of inputs and outputs, by name, for runs that do no work per tensor.

        Args:
            arrays: every input, in the very layout that it declares, and any of the outputs; the other outputs are
                allocated. Change the contents of the arrays between runs, not the arrays.

        Raises:
            ArgumentError: an array is missing or unknown, or does not fit; or the shape of an output depends on what
                the graph computes, so that it cannot be allocated beforehand.
        """
        names = [*self._graph.inputs, *self._graph.outputs]
        for name in arrays:
            if name not in names:
                raise ArgumentError(f"bind: unknown name {name!r}; the names are {', '.join(names)}")
        inputs = {name: array for name, array in arrays.items() if name in self._graph.inputs}
        bound = {name: as_array(name, array) for name, array in inputs.items()}
        given = self._arrays((), bound)
        for name, array in bound.items():
            if array is not given[name]:
                raise ArgumentError(f"input {name!r}: strides {array.strides} bytes; expected the declared layout")
        program = self._program(given)
        if program is None:
            raise ArgumentError("bind: a shape in this graph depends on data; call the executable instead")
        outs = {name: array for name, array in arrays.items() if name in self._graph.outputs}
        results = self._allocate(program, outs, given)
        frame = program.check_out()
        external = self._external(program, given, results)
        frame.bind(external)
        return BoundRun(frame, external, results, self._named(results), self._limit)

    def report(self) -> Report:
        """The partitions, what was fused, who runs what and why."""
        version = ".".join(map(str, native.VERSION))
        with self._lock:
            program = next(reversed(self._programs.values()), None)
        partitions: tuple[PartitionReport, ...] = () if program is None else tuple(program.reports)
        note = "not compiled yet: shapes are known at the first call" if program is None else ""
        if self._computed_shape and program is None:
            ops = tuple(f"{op.kind} {op.name!r}" for op in self._graph.ops)
            partitions, note = (PartitionReport(0, "reference", ops, COMPUTED_SHAPE, (), (), 0),), ""
        return Report(f"oneDNN {version}", self._policy, self._fpmath_mode, partitions, note, self.copies)

    def __repr__(self) -> str:
        ins = ", ".join(f"{port.name}: {port.dtype} {show(port.shape)}" for port in self.inputs)
        outs = ", ".join(f"{port.name}: {port.dtype} {show(port.shape)}" for port in self.outputs)
        return f"Executable({ins} -> {outs})\n{self.report()}"

    def __getstate__(self) -> dict[str, object]:
        return {
            "graph": self._graph,
            "policy": self._policy,
            "fallback": self._fallback,
            "fpmath_mode": self._fpmath_mode,
            "threads": self._threads,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    # Inputs ------------------------------------------------------------------------------------------------------

    def _arrays(self, arrays: Sequence[object], named: Mapping[str, object]) -> dict[str, Array]:
        names = list(self._graph.inputs)
        if len(arrays) > len(names):
            raise ArgumentError(f"{len(arrays)} inputs given; expected {len(names)}: {', '.join(names)}")
        given = dict(zip(names, arrays, strict=False))
        for name, array in named.items():
            if name not in self._graph.inputs:
                raise ArgumentError(f"unknown input {name!r}; the inputs are {', '.join(names) or 'none'}")
            if name in given:
                raise ArgumentError(f"input {name!r} is given twice")
            given[name] = array
        missing = [name for name in names if name not in given]
        if missing:
            raise ArgumentError(f"missing inputs: {', '.join(missing)}")
        return {name: self._array(name, self._graph.inputs[name], given[name]) for name in names}

    def _array(self, name: str, tensor: LogicalTensor, value: object) -> Array:
        array = as_array(name, value)
        if array.dtype != tensor.dtype.numpy:
            fix = cast_to(tensor.dtype, value)
            raise ArgumentError(f"input {name!r}: data type {array.dtype}; expected {tensor.dtype}; {fix}")
        if not compatible(array.shape, tensor.shape):
            raise ArgumentError(f"input {name!r}: shape {show(array.shape)}; expected {show(tensor.shape)}")
        if self._laid_out(tensor, array):
            return array
        with self._lock:
            self.copies += 1
        if tensor.strides is None:
            laid: Array = aligned_empty(array.shape, array.dtype)
        else:
            laid = strided_empty(array.shape, tensor.strides, array.dtype)
        laid[...] = array
        return laid

    @staticmethod
    def _laid_out(tensor: LogicalTensor, array: Array) -> bool:
        """Whether the array is laid out as the input declares; axes of size 1 do not count."""
        if not array.flags.aligned:
            return False
        if tensor.strides is None:
            return bool(array.flags.c_contiguous)
        return all(
            dim == 1 or step == declared * array.itemsize
            for dim, step, declared in zip(array.shape, array.strides, tensor.strides, strict=True)
        )

    # Programs and frames -----------------------------------------------------------------------------------------

    def _program(self, given: Mapping[str, Array]) -> Program | None:
        """The program for these shapes; None where a shape depends on what the graph computes."""
        key: tuple[object, ...] = ()
        if not self._static:
            key = tuple(
                (array.shape, array.tobytes() if name in self._value_inputs else b"") for name, array in given.items()
            )
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
                return program
        graph = self._graph
        if not self._static:
            values = {name: given[name].copy() for name in self._value_inputs}
            graph = graph.specialise({name: array.shape for name, array in given.items()}, values)
        if not all(_known(tensor) for op in graph.ops for tensor in op.outputs if op.kind != "Wildcard"):
            if not self._fallback:
                raise UnsupportedError("the library does not run all of the graph: " + COMPUTED_SHAPE)
            self._computed_shape = True
            return None
        options = {"policy": self._policy, "fpmath_mode": self._fpmath_mode}
        program = Program(graph, **options, fallback=self._fallback, threads=self._threads)
        with self._lock:
            # Another thread may have been as quick; everybody uses the one that came first.
            program = self._programs.setdefault(key, program)
            while len(self._programs) > MAX_PROGRAMS:
                self._programs.popitem(last=False)
        return program

    def _external(self, program: Program, given: Mapping[str, Array], results: Mapping[str, Array]) -> dict[int, Array]:
        """Which values live in the caller's arrays."""
        external = {program.graph.inputs[name].id: array for name, array in given.items()}
        external.update((number, results[name]) for name, number in program.direct)
        return external

    # Outputs -----------------------------------------------------------------------------------------------------

    def _allocate(self, program: Program, out: object, given: Mapping[str, Array]) -> dict[str, Array]:
        chosen = self._chosen(out)
        results: dict[str, Array] = {}
        for name, tensor in program.graph.outputs.items():
            value = program.values[tensor.id]
            if name in chosen:
                results[name] = check_output(name, value.dtype, value.shape, chosen[name])
            else:
                results[name] = aligned_empty(value.shape, value.dtype.numpy)
        _refuse_shared({name: results[name] for name in chosen}, given)
        return results

    def _chosen(self, out: object) -> dict[str, object]:
        names = list(self._graph.outputs)
        if out is None:
            return {}
        if isinstance(out, Mapping):
            for name in out:
                if name not in names:
                    raise ArgumentError(f"out: unknown output {name!r}; the outputs are {', '.join(names)}")
            return {name: array for name, array in out.items() if array is not None}
        if not isinstance(out, (list, tuple)):
            out = (out,)
        if len(out) != len(names):
            arrays = f"{len(names)} arrays in the order" if len(names) > 1 else "one array,"
            raise ArgumentError(f"out: {shown(out)}; expected {arrays} {', '.join(names)}")
        return {name: array for name, array in zip(names, out, strict=True) if array is not None}

    def _run_on_reference(self, given: Mapping[str, Array], out: object) -> Any:
        """Run on numpy; what can be said of ``out`` is said before, the shapes are known only after."""
        chosen = {name: array_of(f"output {name!r}", array) for name, array in self._chosen(out).items()}
        _refuse_shared(chosen, given)
        results = run_reference(self._graph, given)
        for name, array in chosen.items():
            checked = check_output(name, DataType.of(results[name].dtype), results[name].shape, array)
            checked[...] = results[name]
            results[name] = checked
        return self._named(results)

    def _named(self, results: Mapping[str, Array]) -> Any:
        if self._result is None:
            return next(iter(results.values()))
        return self._result(*results.values())


def check_thread_option(threads: object) -> Threads:
    """``threads`` of compile: None, a number, or a dictionary from partitions to numbers.

    Raises:
        ArgumentError: it is none of these, or a number makes no sense.
    """
    if threads is None:
        return None
    if isinstance(threads, Mapping):
        for index in threads:
            if isinstance(index, bool) or not isinstance(index, int) or index < 0:
                raise ArgumentError(f"threads: partition {shown(index)}; expected its index in report()")
        return {index: check_threads(count) for index, count in threads.items()}
    return check_threads(threads)


def _refuse_shared(outputs: Mapping[str, Array], inputs: Mapping[str, Array]) -> None:
    """Raise where an output would be written over an input or over another output."""
    seen = dict(inputs)
    for name, array in outputs.items():
        for other, memory in seen.items():
            if np.may_share_memory(array, memory):
                raise ArgumentError(f"output {name!r} shares memory with {other!r}")
        seen[name] = array


def _known(tensor: LogicalTensor) -> bool:
    return tensor.shape is not None and None not in tensor.shape


def _value_inputs(graph: Graph) -> frozenset[str]:
    """The graph inputs whose contents give a shape or axes, so that they must be known before anything is compiled."""
    found = set()
    names = {tensor.id: name for name, tensor in graph.inputs.items()}
    for op in graph.ops:
        schema = edition(op.edition).schema(op.kind)
        assert schema is not None
        base = base_of(schema)
        for index, tensor in enumerate(op.inputs):
            port = base.input_port(index) if base.inputs else None
            if tensor is not None and port is not None and port.gives_shape and tensor.id in names:
                found.add(names[tensor.id])
    return frozenset(found)


__all__ = ["BoundRun", "Executable", "Port"]
