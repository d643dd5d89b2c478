"""Finds the program for the arrays of a call, or compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod, ref

import numpy as np

from .._util.fork_safety import cached_property
from .._util.late_imports import import_late
from ..builder.graph import DataGraph
from ..capi.caches import give_up_constants
from ..capi.thread_affinity import calling_thread
from ..compiler.shared_constants import SharedConstants
from ..compiler.steps import NumpyStep
from ..errors import ArgumentError, OutOfMemoryError, StatusError, UnsupportedError
from ..ir.op import Array
from ..native.gc_pause import without_collector
from ..opset.editions.registry import HOST
from ..opset.shapes import known
from ..opset.signature import Shape
from .arguments import value_inputs
from .compile_options import CompileOptions, refuse_unknown_partitions
from .growing import Growing
from .grown_outputs import grown_outputs
from .interface import Arrays, Interface
from .made_parts import make_body, make_part
from .op_by_op import OFTEN, SELDOM, OpByOp
from .plan import EXECUTE
from .program import Program
from .program_cache import CAPACITY, CacheInfo, Entry, ProgramCache, dispatch
from .quick_call import QuickCall, decline, quick_call, staged_call
from .staged import Runnable, Staged
from .subprograms import Bodies, Control, host_run

if TYPE_CHECKING:
    from .open_programs import OpenPrograms

# They take 60 ms to import, for which a kept program does not wait.
COMPILER = "onegraph.runtime.compiled_program", "onegraph.transform.specialise", "onegraph.transform.stages"
OPEN = "onegraph.runtime.open_programs"
SHAPES = "onegraph.lowering.for_shapes"
COMPUTED_SHAPE = "a shape or an axis depends on what the graph computes, so nothing can be compiled before it runs"


class ProgramFinder:
    """The programs of an executable, for several threads. It compiles a graph with known shapes at once.

    Args:
        graph: the graph of one call, in which variables are inputs and outputs; what reads it, if there is a program.
        interface: the inputs, outputs and variables of the executable.
        options: the options of the compilation.
        executable: makes the executables of stages, from a graph and options by name.
        program: the program of a graph with known shapes, if it is known already.
        shared: what is shared with the executables of graphs that differ in sizes alone.
        small: the number of runs in which few elements of the same shapes are computed op by op.

    Attributes:
        quick: runs a call with one call into C, or returns None and does nothing.
        value_inputs: names of the inputs whose contents set a shape.
        cache: the programs by shapes of inputs.
    """

    def __init__(
        self,
        graph: Callable[[], DataGraph],
        interface: Interface,
        options: CompileOptions,
        executable: Callable[..., Runnable],
        program: Program | None = None,
        shared: SharedConstants | None = None,
        small: int = 0,
    ) -> None:
        self._read, self.options, self._constants = graph, options, shared
        self._interface, self._executable = interface, executable
        self.cache = ProgramCache(CAPACITY)
        self.quick: QuickCall = decline
        self.op_by_op: OpByOp | None = None
        self._static: Entry | None = None
        if program is not None:
            self.value_inputs: Sequence[str] = ()
            self._is_static = True
            self.cache.find((), lambda: self._entry_of(program))
            self.find({})
            return
        inputs = self.graph.inputs
        self.value_inputs = value_inputs(self.graph)
        self._is_static = not self.value_inputs and all(known(tensor.shape) for tensor in inputs.values())
        if small and not (self._is_static and all(known(end.shape) for op in self.graph.ops for end in op.outputs)):
            make = partial(make_part, executable, options, SELDOM)  # does not refer to this object
            self.op_by_op = OpByOp.of(self.graph, lambda op: host_run(op, self._bodies), make, small)
        if self._is_static:
            self.find({})
        elif interface.state is None:
            names = [*inputs]
            places, new_entry = [*map(names.index, self.value_inputs)], WeakMethod(self._new_entry)  # no cycle
            self.quick = dispatch(self.cache, interface.growing, len(names), places, new_entry)
        if self.op_by_op is not None:
            self.op_by_op.is_open |= bool(self.value_inputs)
            self.quick = partial(_small_call, ref(self), self.quick)  # no cycle

    @cached_property
    def graph(self) -> DataGraph:
        """The graph of one call."""
        return self._read()

    @cached_property
    def _bodies(self) -> Bodies:
        """The bodies of control flow, which do not refer to this object."""
        return Bodies(partial(make_body, self._executable, self.options))

    @cached_property
    def _shared(self) -> SharedConstants:
        if self._constants is not None:
            return self._constants
        shared = SharedConstants.of(self.graph)
        shared.partitions.rounds = not self._is_static and not self.options.reproducible
        return shared

    def _small_call(self, compiled: QuickCall, arrays: tuple[Any, ...], out: object = None) -> Any:
        """A call of few elements; None for other calls, which are compiled."""
        assert self.op_by_op is not None
        result = compiled(arrays, out) if self._has_program(arrays) else None
        if result is None and out is None:
            results = self.op_by_op.run(arrays)
            if results is not None:
                return results[0] if self._interface.result is None else self._interface.result(*results)
        return compiled(arrays, out) if result is None else result

    def _has_program(self, arrays: tuple[Any, ...]) -> bool:
        """Whether a call of these arrays needs no new program, as far as their shapes tell; one may take longer."""
        if self.op_by_op is None or self.op_by_op.is_open:
            return False
        if self._is_static or self._interface.growing.growths:
            return True
        try:
            return tuple([array.shape for array in arrays]) in self.cache.entries
        except AttributeError:  # an argument is not an array
            return True

    def only_program(self) -> Program | None:
        """The program of a graph with known shapes; None for other graphs."""
        program = self.find({}).program if self._is_static else None
        return program if isinstance(program, Program) else None

    @property
    def takes_shapes(self) -> bool:
        """Whether the shapes of the inputs alone decide the program of a call."""
        return not self._is_static and not self.value_inputs

    def program_for(self, shapes: Sequence[tuple[int, ...]]) -> Program | None:
        """The program for these shapes of the inputs, if there is one already."""
        entry = self.cache.entries.get(tuple(shapes))
        if entry is None or not isinstance(entry.program, Program):
            return None
        entry.used = self.cache.tick()
        return entry.program

    def find(self, inputs: Arrays, room: int | None = None) -> Entry:
        """The entry for the shapes of these arrays.

        Args:
            inputs: the arrays by name of input.
            room: the capacity of caches that grow; 0 or None if they are dense.
        """
        if self._is_static:
            entry = self._static or self._entry((), lambda: self._compile(self.graph))
            if isinstance(entry.program, Staged) or entry.program.owner_thread is None:
                self._static = entry
            if self.op_by_op is None:
                self.quick = entry.quick
            return entry
        # One copy gives both the key and the contents, because other threads may write to the caller's arrays.
        values = {name: inputs[name].copy() for name in self.value_inputs}
        shapes = {name: array.shape for name, array in inputs.items()}
        key = (*shapes.values(), *(value.tobytes() for value in values.values()), *((room,) if room else ()))
        return self._entry(key, lambda: self._for_shapes(shapes, values, room or 0))

    def _new_entry(self, arrays: tuple[Any, ...], room: int) -> Entry | None:
        """The entry for arrays of new shapes if a program with open sizes takes them, ready for a quick call.

        Returns:
            None if there is no such program, or if an array is none of numpy or has not the data type of its input.
        """
        if "_open" not in vars(self):
            return None
        inputs = self.graph.inputs
        by_name = dict(zip(inputs, arrays, strict=False))
        are_plain = [
            type(array) is np.ndarray and array.dtype is inputs[name].dtype.numpy for name, array in by_name.items()
        ]
        if len(arrays) != len(inputs) or False in are_plain:
            return None
        if not self._open.takes({name: array.shape for name, array in by_name.items()}, room):
            return None
        entry = self.find(by_name, room)
        program = entry.program
        if not isinstance(program, Staged) and not program.free_frames and entry.quick is not decline:
            program.give_back(program.check_out())
        return entry

    def warm_up(self, sizes: Sequence[Mapping[str, tuple[int, ...]]]) -> None:
        """Make the programs for these shapes of inputs.

        Raises:
            ArgumentError: the contents of an input set a shape.
        """
        if self.value_inputs:
            names = ", ".join(map(repr, self.value_inputs))
            raise ArgumentError(f"warm_up: the contents of {names} set a shape; call it with arrays instead")
        present = {name: array.shape for name, array in self._interface.present.items()}
        for shapes in sizes:
            if not self._is_static:
                all_shapes = {**shapes, **present}
                self._entry(tuple(all_shapes.values()), partial(self._for_shapes, all_shapes, {}))

    def info(self) -> CacheInfo:
        """The counters of the cache, and of the programs with open sizes."""
        cache_info = self.cache.info()
        if "_open" in vars(self):
            cache_info.reused, cache_info.partitions = self._open.reused, self._open.partitions
            cache_info.reason = self._open.reason
        elif not self._is_static and cache_info.misses > 1:
            if self.value_inputs:
                cache_info.reason = f"the contents of {', '.join(map(repr, self.value_inputs))} set a shape"
            elif self._interface.state is not None:
                cache_info.reason = "the graph has variables"
        cache_info.grown, cache_info.moved = self._interface.growing.grown, self._interface.growing.moved
        return cache_info

    def _for_shapes(self, shapes: Mapping[str, tuple[int, ...]], values: Arrays, room: int = 0) -> Entry:
        """A new entry: of a program whose steps are known from other sizes, or one that is compiled from its graph."""
        if not self.value_inputs and self._interface.state is None:
            program = without_collector(lambda: self._open.program(shapes, room))
            if program is not None:
                return self._entry_of(program)
        return self._compile(_specialised(self.graph, self._interface.growing, shapes, values, room))

    @cached_property
    def _open(self) -> OpenPrograms:
        import_late(*COMPILER, OPEN)
        from .open_programs import OpenPrograms

        make = partial(_specialised, self.graph, self._interface.growing, values={})  # does not refer to this object
        return OpenPrograms(self.graph, make, self.options, self._shared)

    def _entry(self, key: tuple[object, ...], make: Callable[[], Entry]) -> Entry:
        """The entry of a key; if another thread owns its program, an entry for this thread alone."""
        entry = self.cache.find(key, make)
        if not isinstance(entry.program, Staged) and entry.program.owner_thread not in (None, calling_thread()):
            return self.cache.find((key, calling_thread()), make)
        return entry

    def recover(self, error: StatusError) -> StatusError:
        """Drop every program after a failed run, so that the next calls compile new ones; returns the error.

        A program that got no memory for its constants always fails again. While it exists, every new program of the
        process fails too, because the library's constant tensor cache waits for the missing constants.
        """
        if error.function != EXECUTE:
            return error
        if isinstance(error, OutOfMemoryError):
            give_up_constants()
        self.cache.clear()
        self._shared.partitions.forget()
        if not self._is_static:
            self._open.forget()
        if self._is_static:
            self._static, self.quick = None, decline
        return error.with_traceback(None)  # the traceback would keep the program alive

    def _compile(self, graph: DataGraph) -> Entry:
        import_late(*COMPILER)
        from ..transform.specialise import specialise
        from ..transform.stages import stages
        from .compiled_program import CompiledProgram

        options = self.options
        if self._is_static and any(op.edition == HOST for op in graph.ops):
            graph = specialise(graph, {})  # computes what follows from the shapes
        parts = stages(graph)
        if parts is not None:
            if not options.fallback:
                raise UnsupportedError("the library does not run all of the graph: " + COMPUTED_SHAPE)
            if self.op_by_op is not None:
                self.op_by_op.is_open = True
            make = partial(make_part, self._executable, options, OFTEN)
            return self._entry_of_stages(graph, Staged(graph, parts, make, self._bodies))
        updates = {} if self._interface.state is None else self._interface.state.updates
        program = without_collector(
            lambda: CompiledProgram(graph, **options._asdict(), updates=updates, shared=self._shared)
        )
        if isinstance(options.threads, Mapping):
            refuse_unknown_partitions(options.threads, program.reports)
        for part in program.parts:
            if isinstance(part, NumpyStep) and isinstance(part.run, Control):
                part.run.compile(self._bodies)
        return self._entry_of(program)

    def _entry_of_stages(self, graph: DataGraph, staged: Staged) -> Entry:
        interface, names = self._interface, [*graph.inputs]
        is_laid = any(tensor.strides is not None for tensor in interface.graph.outputs.values())
        if interface.state is not None or is_laid:
            return Entry(staged, decline)

        def run(arrays: Sequence[Array]) -> Any:
            results = staged.run(dict(zip(names, arrays, strict=True)))
            return interface.value({name: results[name] for name in interface.names})

        return Entry(staged, staged_call(graph, run) or decline)

    def _entry_of(self, program: Program) -> Entry:
        interface, growing = self._interface, self._interface.growing
        growing.learn(program.graph)
        grown = grown_outputs(program, growing.growths)
        quick = None if interface.state is not None else quick_call(program, interface.result, growing.overs(grown))
        return Entry(program, quick or decline, pieces=program.pieces(), grown=grown)


def _specialised(
    graph: DataGraph, growing: Growing, shapes: Mapping[str, Shape], values: Arrays, room: int = 0
) -> DataGraph:
    """The graph for these shapes and contents of its inputs."""
    import_late(SHAPES)
    from ..lowering.for_shapes import for_shapes

    specialised = for_shapes(graph, shapes, values, sparing=True)
    return growing.laid_out(specialised, room) if room else specialised


def _small_call(finder: ref[ProgramFinder], compiled: QuickCall, arrays: tuple[Any, ...], out: object = None) -> Any:
    """Call a ProgramFinder, which the caller holds."""
    held = finder()
    assert held is not None
    return held._small_call(compiled, arrays, out)
