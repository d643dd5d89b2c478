"""Runs whole compiled graphs on arrays."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from .._util.html_table import escaped
from .._util.init_once import Made, once
from .._util.paths import path_of
from .._util.validation import flag, integer
from ..arrays.ndarrays import Held
from ..builder.graph import DataGraph, expect_graph
from ..builder.op_outputs import picklable
from ..capi.caches import give_up_constants
from ..capi.settings import alignment_of, is_aligned
from ..capi.thread_affinity import calling_thread
from ..compiler.lower import refuse_wildcards
from ..compiler.report import PartitionReport, Report
from ..compiler.shared_constants import SharedConstants
from ..errors import ArgumentError, OutOfMemoryError, StateError, StatusError, UnsupportedError, shown
from ..ir.op import Array
from ..native.gc_pause import without_collector
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.editions.registry import HOST
from ..opset.schema import Shape
from ..opset.shapes import known
from ..transform.specialise import specialise
from ..transform.stages import stages
from .arguments import Arguments, OutputSpec, refuse_shared, value_inputs
from .bound_run import BoundRun, QuickCall, quick_call, refuse_elsewhere, signature
from .compile_options import Options, compile_options, refuse_unknown_partitions
from .plan import EXECUTE
from .program import Program, Threads
from .program_cache import CAPACITY, Cache, CacheInfo, Entry, dispatch
from .staged import Staged
from .state import State, Variables

if TYPE_CHECKING:
    from .profile import Profile

Arrays = Mapping[str, Array]
NO_ARRAYS: Arrays = {}
COMPUTED_SHAPE = "a shape or an axis depends on what the graph computes, so nothing can be compiled before it runs"


class TensorSpec(NamedTuple):
    """Name, data type and shape of a graph input or output; unknown dims are None."""

    name: str
    dtype: DataType
    shape: Shape


class Executable(Made):
    """A compiled graph. ``Graph.compile`` makes it; several threads may call it at once.

    Call it with the graph inputs, by position in the order of the ``input`` calls or by name. It returns an array if
    the graph has one output, otherwise a named tuple in the order of the ``output`` calls. ``out=`` takes the arrays to
    write into: one array, a sequence in that order, or a dict by name.

    If the graph has unknown dims, the first call with new shapes compiles a program for them; so does the first call
    with new contents of an input that sets a shape. ``cache_info`` counts the programs, ``cache_capacity`` limits them.

    An executable can be pickled: the pickle has the graph and the options, and unpickling compiles them again. It also
    works in a forked process; there, the forked thread uses one thread of the library.
    """

    @once("_graph")
    def __init__(
        self,
        graph: DataGraph,
        *,
        policy: str = "fusion",
        fallback: bool = True,
        fpmath_mode: str | None = "strict",
        threads: Threads = None,
    ) -> None:
        expect_graph(graph)
        self._state = State(graph) if graph.variables else None
        self._arguments, self._declared, graph = Arguments(graph), graph, graph._as_step()
        if not graph.outputs:
            raise ArgumentError("the graph has no output; declare one with g.output(name, tensor)")
        refuse_wildcards(graph)
        self._graph = graph
        self._options = compile_options(graph, policy, fallback, fpmath_mode, threads)
        self._cache = Cache(CAPACITY)
        self._shared = SharedConstants(graph)
        self._names = tuple(self._declared.inputs)
        self._value_inputs = value_inputs(graph)
        names = tuple(self._declared.outputs)
        self._result: Any = None if len(names) == 1 else picklable(namedtuple("Outputs", names, rename=True))
        self._static: Entry | None = None
        self._is_static = not self._value_inputs and all(known(tensor.shape) for tensor in graph.inputs.values())
        self._quick: QuickCall = _decline
        if self._is_static:
            self._find({})
        elif self._state is None:
            places = [*map(self._names.index, self._value_inputs)]
            self._quick = dispatch(self._cache, len(self._names), places)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The graph inputs, in the order of positional arguments."""
        return tuple(TensorSpec(name, tensor.dtype, tensor.shape) for name, tensor in self._declared.inputs.items())

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The graph outputs, in the order of the results."""
        return tuple(TensorSpec(name, tensor.dtype, tensor.shape) for name, tensor in self._declared.outputs.items())

    @property
    def variables(self) -> Variables:
        """The values of the variables, a mapping from names to arrays that can be read and written.

        Reading gives a copy. Writing sets the whole array, which must have the variable's data type and shape.
        """
        return Variables(self._state or State(self._declared))

    def save_variables(self, path: str | PathLike[str]) -> None:
        """Write the values of all variables to a file, from which ``load_variables`` reads them.

        The file is replaced when the new one is complete, so an interrupted call leaves the old one.

        Args:
            path: of the file, as numpy.savez writes it; of safetensors if it ends in ``.safetensors``.

        Raises:
            FormatError: the file cannot be written.
            ArgumentError: the path is no path, or the package safetensors is missing.
        """
        self.variables.save(path_of("path", path, "the path of a file"))

    def load_variables(self, path: str | PathLike[str]) -> None:
        """Set all variables to the values in a file that ``save_variables`` wrote.

        Raises:
            FormatError: the file cannot be read, or has not exactly these variables; none is changed then.
            ArgumentError: the path is no path, or the package safetensors is missing.
        """
        self.variables.load(path_of("path", path, "the path of a file"))

    def __call__(self, /, *arrays: object, out: object = None, **named: object) -> Any:
        """Run the graph.

        Args:
            arrays, named: the inputs, by position or name. Data in another layout than the declared one is copied;
                ``copies`` counts the copies.
            out: arrays to write into: writable, C-contiguous or with the declared strides of the output, sharing no
                memory with an input.

        Raises:
            ArgumentError: an array is missing, unknown, or does not fit; nothing was run.
            SpecError: an op cannot have inputs of these shapes.
            OutOfMemoryError: there is not enough memory for intermediates or outputs.
        """
        try:
            if not named:
                result = self._quick(arrays, out)
            elif arrays or len(named) != len(self._names):
                result = None
            else:  # an unknown name leaves a None among the arrays, which the quick call declines
                result = self._quick(tuple(map(named.get, self._names)), out)
            return self._call(arrays, named, out) if result is None else result
        except StatusError as error:
            raise self._recover(error) from None

    def _call(self, arrays: tuple[object, ...], named: Mapping[str, object], out: object) -> Any:
        given, state = self._arguments.arrays(arrays, named), self._state
        if state is None:
            return self._run(given, out)
        return state.step(lambda: self._run(given, out))

    def _run(self, given: Held, out: object) -> Any:
        """Run on the arrays of a call; the present values of the variables are read, and the next ones written."""
        state = self._state
        present, following = (NO_ARRAYS, NO_ARRAYS) if state is None else (state.present, state.following)
        whole = {**given, **present} if present else given
        entry = self._find(whole)
        program = entry.program
        written = self._arguments.written(out, given)
        if program is None:
            return self._run_in_stages(entry, whole, written, following)
        # Inputs that were copied or came from another library now fit the quick call.
        result = entry.quick(tuple(given.values()), self._arguments.ordered(out))
        if result is not None:
            return result
        outputs = self._declared_outputs(program)
        results = self._arguments.results(outputs, written)
        targets = {**{one.name: one.laid_out(results[one.name]) for one in outputs}, **following}
        frame = program.check_out()
        try:
            frame.bind(_external(program, given, targets, without=following))
            if state is not None:
                frame.bind_variables(state)
            refuse_elsewhere(program.owner_thread)  # a frame made after a fork does not know of the fork
            frame.run()
            frame.copy_outputs(targets)
        except StateError:
            if program.owner_thread in (None, calling_thread()):
                raise
            return self._run(given, out)  # a signal handler forked after the program was found
        finally:
            program.give_back(frame)
        for name, array in results.items():
            if targets[name] is not array:
                array[...] = targets[name]
        return self._named(results.given)

    def bind(self, /, *inputs: object, **arrays: object) -> BoundRun:
        """Bind arrays to inputs and outputs for runs without any work per tensor.

        Args:
            inputs: arrays for the first inputs, in the order of the ``input`` calls.
            arrays: by name, every other input and any of the outputs; the other outputs are allocated. Each array has
                exactly the declared layout. Change the contents of the arrays between runs, not the arrays themselves,
                and not the contents of an input that sets a shape.

        Raises:
            ArgumentError: an array is missing, unknown, or does not fit; or the shape of an output depends on data, so
                that it cannot be allocated before the run.
            SpecError: an op cannot have inputs of these shapes.
            OutOfMemoryError: there is not enough memory for intermediates or outputs.
        """
        names = [*self._declared.inputs, *self._declared.outputs]
        for name in arrays:
            if name not in names:
                raise ArgumentError(f"bind: unknown name {shown(name)}; the names are {', '.join(names)}")
        ins = {name: array for name, array in arrays.items() if name in self._declared.inputs}
        given, state = self._arguments.arrays(inputs, ins, copy=False), self._state
        present, following = (NO_ARRAYS, NO_ARRAYS) if state is None else (state.present, state.following)
        program = self._find({**given, **present}).program
        if program is None:
            raise ArgumentError("bind: a shape or an axis in this graph depends on data; call the executable instead")
        outs = {name: array for name, array in arrays.items() if name in self._declared.outputs}
        outputs = self._declared_outputs(program)
        results = self._arguments.results(outputs, self._arguments.written(outs, given))
        for one in outputs:
            array = results[one.name]
            if not is_aligned(array):
                where = f"output {one.name!r}: not aligned to {alignment_of(array)} bytes"
                raise ArgumentError(f"{where}; pass an array that numpy allocated")
            if one.laid_out(array) is not array:
                raise ArgumentError(f"output {one.name!r}: C-contiguous; expected strides of {one.strides} elements")
        frame = program.check_out()
        external = _external(program, given, results, without=following)
        frame.bind(external)
        shaping = {name: {**given, **present}[name] for name in self._value_inputs}
        bound = BoundRun._of(program, frame, external, results, self._named(results.given), self._recover, shaping)
        if state is not None:
            bound._keep_state(state)
        return bound

    # Reports ---------------------------------------------------------------------------------------------------------

    @property
    def copies(self) -> int:
        """Number of inputs that calls had to copy, because their layout differed from the declared one."""
        return self._arguments.copies

    @property
    def cache_capacity(self) -> int:
        """Maximum number of cached programs, one for each combination of input shapes; 16 by default."""
        return self._cache.capacity

    @cache_capacity.setter
    def cache_capacity(self, capacity: int) -> None:
        self._cache.resize(integer("cache_capacity", capacity, 1, 2**31 - 1))

    def cache_info(self) -> CacheInfo:
        """Counters of the program cache: hits, misses, evictions, size and capacity.

        A graph without unknown dims has one program, which calls use without a lookup.
        """
        return self._cache.info()

    def report(self, *, implementations: bool = False) -> Report:
        """The partitions of the program that was used last: the fused ops, the executors and the reasons.

        Args:
            implementations: True adds the names of oneDNN's implementations. A separate Python process finds them,
                which takes a second or two, and the memory of another program.

        Raises:
            UnsupportedError: the separate process failed.
        """
        entry = self._cache.latest()
        note = "" if entry else "not compiled yet: the next call compiles, for the shapes of its arrays"
        partitions = self._partitions(entry, implementations)
        options = self._options
        library = f"oneDNN {'.'.join(map(str, VERSION))}"
        cache = self._cache.info()._asdict()
        times = entry.times if entry else {}
        return Report(library, options.policy, options.fpmath_mode, partitions, note, self.copies, cache, times)

    def profile(self, /, *arrays: object, runs: int = 20, implementations: bool = False, **named: object) -> Profile:
        """Run the graph several times and measure the time of every partition.

        ``print`` shows the profile as a table, notebooks draw it, and
        ``onegraph.view.page(graph, model.report(), times=profile)`` colours the picture of the graph by time.

        Args:
            arrays, named: the inputs, as in a call.
            runs: number of measured runs, after one run that is not measured.
            implementations: True adds the names of oneDNN's implementations; see ``report``.

        Raises:
            ArgumentError: an array does not fit, or ``runs`` is not a positive integer.
            UnsupportedError: the process that finds the implementations failed.
        """
        from .profile import measure

        count = integer("runs", runs, 1, 10**6)
        given = {**self._arguments.arrays(arrays, named), **({} if self._state is None else self._state.present)}
        entry = self._find(given)
        partitions = self._partitions(entry, implementations)
        if entry.program is None:
            assert entry.staged is not None
            profile = entry.staged.profile(given, count)
        else:
            results = Arguments(self._graph).results(_outputs(entry.program), Held({}))
            external = _external(entry.program, given, results)
            try:
                profile = measure(entry.program, partitions, external, results, count)
            except StatusError as error:
                raise self._recover(error) from None
        entry.times = dict(profile)
        return profile

    def __repr__(self) -> str:
        return f"{signature('Executable', self.inputs, self.outputs)}\n{self.report()}"

    def _repr_html_(self) -> str:
        """The executable as HTML for a notebook: inputs, outputs, and the report."""
        return f"<p>{escaped(signature('Executable', self.inputs, self.outputs))}</p>{self.report()._repr_html_()}"

    def __reduce__(self) -> tuple[Any, ...]:
        graph = self._declared
        if self._state is not None:
            graph = graph.copy()
            graph._initial = {name: self._state.read(name) for name in graph._initial}
        return _unpickled, (graph, self._options, self.cache_capacity)

    # Programs --------------------------------------------------------------------------------------------------------

    def _find(self, given: Mapping[str, Array]) -> Entry:
        """The entry for the shapes of these arrays."""
        if self._is_static:
            entry = self._static or self._entry((), lambda: self._graph)
            if entry.program is None or entry.program.owner_thread is None:
                self._static, self._quick = entry, entry.quick
            return entry
        # One copy gives both the key and the contents, because other threads may write to the caller's arrays.
        values = {name: given[name].copy() for name in self._value_inputs}
        shapes = {name: array.shape for name, array in given.items()}
        key = (*shapes.values(), *(value.tobytes() for value in values.values()))
        return self._entry(key, lambda: specialise(self._graph, shapes, values))

    def _entry(self, key: tuple[object, ...], graph: Callable[[], DataGraph]) -> Entry:
        """The entry of a key; if another thread owns its program, an entry for this thread alone."""
        entry = self._cache.find(key, lambda: self._compile(graph()))
        if entry.program is not None and entry.program.owner_thread not in (None, calling_thread()):
            return self._cache.find((key, calling_thread()), lambda: self._compile(graph()))
        return entry

    def _recover(self, error: StatusError) -> StatusError:
        """Drop every program after a failed run, so that the next calls compile new ones; returns the error.

        A program that got no memory for its constants always fails again. While it exists, every new program of the
        process fails too, because the library's constant tensor cache waits for the missing constants.
        """
        if error.function != EXECUTE:
            return error
        if isinstance(error, OutOfMemoryError):
            give_up_constants()
        self._cache.clear()
        if self._is_static:
            self._static, self._quick = None, _decline
        return error.with_traceback(None)  # the traceback would keep the program alive

    def _compile(self, graph: DataGraph) -> Entry:
        options = self._options
        if self._is_static and any(op.edition == HOST for op in graph.ops):
            graph = specialise(graph, {})  # computes what follows from the shapes
        parts = stages(graph)
        if parts is not None:
            if not options.fallback:
                raise UnsupportedError("the library does not run all of the graph: " + COMPUTED_SHAPE)
            threads = None if isinstance(options.threads, Mapping) else options.threads
            compiled = partial(Executable, **options._replace(threads=threads)._asdict())
            return Entry(None, _decline, staged=Staged(graph, parts, compiled))
        program = without_collector(lambda: Program(graph, **options._asdict(), shared=self._shared))
        if isinstance(options.threads, Mapping):
            refuse_unknown_partitions(options.threads, program.reports)
        quick = None if self._state is not None else quick_call(program, self._result)
        return Entry(program, quick or _decline)

    def _partitions(self, entry: Entry | None, implementations: bool) -> tuple[PartitionReport, ...]:
        flag("implementations", implementations)
        if entry is None:
            return ()
        program, options = entry.program, self._options
        if program is None:
            assert entry.staged is not None
            return entry.staged.reports()
        if not implementations:
            return tuple(map(replace, program.reports))
        if entry.implementations is None:
            from .implementation_names import implementation_names

            entry.implementations = implementation_names(program, options.policy, options.fpmath_mode)
        found = entry.implementations
        return tuple(replace(report, implementation=found.get(report.index, "")) for report in program.reports)

    def _declared_outputs(self, program: Program) -> list[OutputSpec]:
        """The outputs of a program without the next values of variables."""
        return _outputs(program)[: len(self._declared.outputs)]

    def _run_by_name(self, given: Arrays) -> dict[str, Array]:
        """The results of a call with these arrays, by name."""
        return self._by_name(self(*map(given.__getitem__, self._names)))

    def _run_in_stages(self, entry: Entry, given: Arrays, written: Held, following: Arrays) -> Any:
        """Run one stage after another. Shapes in ``out`` are checked after the run, as they are unknown before."""
        refuse_shared(written, {})
        assert entry.staged is not None
        results = entry.staged.run(given)
        outputs = [
            OutputSpec(name, tensor.dtype, results[name].shape, tensor.strides)
            for name, tensor in self._declared.outputs.items()
            if name in written or tensor.strides is not None
        ]
        targets = self._arguments.results(outputs, written)
        for name, array in (*targets.items(), *following.items()):
            array[...] = results[name]
        found = {**results, **targets.given}
        return self._named({name: found[name] for name in self._declared.outputs})

    def _named(self, results: Mapping[str, Array]) -> Any:
        if self._result is None:
            return next(iter(results.values()))
        return self._result(*results.values())

    def _by_name(self, results: Any) -> dict[str, Array]:
        """The result of a call as a dictionary by name of output."""
        return dict(zip(self._declared.outputs, (results,) if self._result is None else results, strict=True))


# Constructors that record executables (see onegraph.capture); the last one is used.
RECORDERS: list[Callable[..., Executable]] = []


def compile_graph(graph: DataGraph, **options: Any) -> Executable:
    """The executable of a graph; see :meth:`onegraph.Graph.compile`."""
    make = RECORDERS[-1] if RECORDERS else Executable
    return make(graph, **options)


def _unpickled(graph: DataGraph, options: Options, capacity: int) -> Executable:
    executable = compile_graph(graph, **options._asdict())
    executable.cache_capacity = capacity
    return executable


def _decline(arrays: tuple[object, ...], out: object = None) -> None:
    """The quick call of a program that needs more than one call into C: it always declines."""


def _outputs(program: Program) -> list[OutputSpec]:
    values = program.values
    return [
        OutputSpec(name, tensor.dtype, values[tensor.id].shape, tensor.strides)
        for name, tensor in program.graph.outputs.items()
    ]


def _external(program: Program, given: Arrays, results: Arrays, without: Arrays = NO_ARRAYS) -> dict[int, Array]:
    """The arrays outside of a program by the values that they hold, without some of the results."""
    external = {program.graph.inputs[name].id: array for name, array in given.items()}
    direct = ((name, number) for name, number in program.direct if name in results and name not in without)
    external.update((number, results[name]) for name, number in direct)
    return external


__all__ = ["BoundRun", "Executable", "TensorSpec"]
