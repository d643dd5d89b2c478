"""Defines the executable, a compiled graph that is called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from .._util.html_table import escaped
from .._util.init_once import Made, once
from .._util.paths import path_of
from .._util.tracebacks import methods_end_tracebacks
from .._util.validation import flag
from .._version import __version__
from ..builder.graph import DataGraph, expect_graph
from ..compiler.runnable import refuse_wildcards
from ..errors import ArgumentError, StatusError
from ..ir.op import Array
from .bind_arrays import bind_arrays
from .bound_run import BoundRun, signature
from .cache import CacheRun
from .compile_options import CompileOptions, Threads, compile_options
from .interface import Arrays, Interface
from .program import Program
from .program_cache import CacheInfo, stated_capacity
from .program_finder import ProgramFinder
from .slow_call import slow_call
from .state import State, Variables
from .tensor_spec import TensorSpec, specs_of
from .writer_version import WriterVersion

if TYPE_CHECKING:
    from .._util.literals import FpmathMode, Policy
    from ..compiler.report import Report
    from ..compiler.shared_constants import SharedConstants
    from .call_types import Result
    from .explanation import Explanation
    from .profile import Profile


@methods_end_tracebacks
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

    @once("_interface")
    def __init__(
        self,
        graph: DataGraph,
        *,
        policy: Policy = "fusion",
        fallback: bool = True,
        fpmath_mode: FpmathMode | None = "strict",
        threads: Threads = None,
        reproducible: bool = False,
        finite_math: bool = False,
        shared: SharedConstants | None = None,
        small: int = 0,
    ) -> None:
        expect_graph(graph)
        interface = Interface(graph)
        graph = interface.graph._as_step()
        if not graph.outputs:
            raise ArgumentError("the graph has no output; declare one with g.output(name, tensor)")
        refuse_wildcards(graph)
        options = compile_options(graph, policy, fallback, fpmath_mode, threads, reproducible, finite_math)
        self._programs = ProgramFinder(lambda: graph, interface, options, Executable, shared=shared, small=small)
        self._graph: Callable[[], DataGraph] = lambda: interface.graph
        self._names = tuple(interface.graph.inputs)
        self._interface = interface

    @classmethod
    def _of_program(cls, program: Program, options: CompileOptions, read: Callable[[], DataGraph]) -> Executable:
        """The executable of a program; ``read`` reads its graph when it is needed."""
        made = cls.__new__(cls)
        interface = Interface(program.graph)
        made._programs = ProgramFinder(lambda: read()._as_step(), interface, options, Executable, program)
        made._graph, made._names = read, tuple(interface.graph.inputs)
        made._interface = interface
        return made

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The graph inputs, in the order of positional arguments."""
        return specs_of(self._interface.graph.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The graph outputs, in the order of the results."""
        return specs_of(self._interface.graph.outputs)

    @property
    def variables(self) -> Variables:
        """The values of the variables, a mapping from names to arrays that can be read and written.

        Reading gives a read-only copy; numpy refuses a write into it. Writing sets the whole array, which must have the
        variable's data type and shape: ``model.variables["w"] = array``.
        """
        return Variables(self._interface.state or State(self._interface.graph))

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

    def load_variables(self, path: str | PathLike[str], *, strict: bool = True) -> None:
        """Set variables to the values in a file that ``save_variables`` wrote.

        Args:
            path: of the file.
            strict: False takes the variables that the file has, and ignores other arrays in it. A model for inference
                then loads a checkpoint of training, which also has the state of an optimizer.

        Raises:
            FormatError: the file cannot be read, an array does not fit its variable, or the file has not exactly these
                variables; with ``strict=False``, none of them. No variable is changed then.
            ArgumentError: the path is no path, or the package safetensors is missing.
        """
        whole = flag("strict", strict)
        self.variables.load(path_of("path", path, "the path of a file"), strict=whole)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the graph, the compile options and the present values of the variables to a folder.

        ``onegraph.load`` compiles them again, for the library and the processors of the process that loads. The
        constants stay in the file, which all processes of a machine share. Files are replaced, and never changed in
        place, so that processes which use them go on. All are replaced as one: a reader finds the old model or the new
        one, also if this process is killed.

        Args:
            path: of the folder, which is made if it does not exist.

        Raises:
            FormatError: a file cannot be written.
            ArgumentError: the path is no path.
        """
        from ..serialize import save_model

        graph, settings = self._whole_graph(), self._programs.options._asdict()
        roundings = None if graph._roundings is None else sorted(graph._roundings)
        more = {"cache_capacity": self.cache_capacity, "as_read": graph._is_as_read(), "roundings": roundings}
        save_model(graph, path, {**settings, **more})

    def __call__(self, /, *arrays: object, out: object = None, **named: object) -> Result:
        """Run the graph.

        Args:
            arrays, named: the inputs, by position or name. Data in another layout than the declared one is copied;
                ``copies`` counts the copies.
            out: arrays to write into: writable, C-contiguous or with the declared strides of the output, sharing no
                memory with an input. An output that is an input with more behind it may begin where that does.

        Raises:
            ArgumentError: an array is missing, unknown, or does not fit; nothing was run.
            SpecError: an op cannot have inputs of these shapes.
            OutOfMemoryError: there is not enough memory for intermediates or outputs.
        """
        programs, result = self._programs, None
        try:
            if not named:
                result = programs.quick(arrays, out)
            elif not arrays and len(named) == len(self._names):
                # An unknown name leaves a None among the arrays, which the quick call declines.
                result = programs.quick(tuple(map(named.get, self._names)), out)
            answer: Result = slow_call(self._interface, programs, arrays, named, out) if result is None else result
            return answer
        except StatusError as error:
            raise programs.recover(error) from None

    def bind(self, /, *inputs: object, **arrays: object) -> BoundRun | CacheRun:
        """Bind arrays to inputs and outputs for runs without any work per tensor.

        Args:
            inputs: arrays for the first inputs, in the order of the ``input`` calls, or a :class:`Cache`, in which each
                run writes its tokens behind those of the run before. Other caches may grow as in a call.
            arrays: by name, every other input and any of the outputs; the other outputs are allocated. Each array has
                exactly the declared layout. Change contents between runs, but of no input that sets a shape.

        Raises:
            ArgumentError: an array is missing, unknown, or does not fit; or the shape of an output depends on data.
            SpecError: an op cannot have inputs of these shapes.
            OutOfMemoryError: there is not enough memory for intermediates or outputs.
        """
        return bind_arrays(self._interface, self._programs, inputs, arrays)

    def warm_up(self, sizes: Iterable[Mapping[str, object]] | Mapping[str, object]) -> None:
        """Make the programs for sizes that will come, so that no call waits for one.

        They are those that calls would make: they count as misses, and the least recently used ones may be dropped.
        For inputs that are bound as a :class:`Cache`, use ``warm_up`` of the run that ``bind`` returns.

        Args:
            sizes: for each program, the shapes of the inputs by name, as ``{"x": (1, 17, 64)}``; or those for a single
                one. Inputs of known shapes may be left out.

        Raises:
            ArgumentError: a shape is missing or does not fit, or the contents of an input set a shape.
            SpecError: an op cannot have inputs of these shapes.
        """
        self._programs.warm_up(self._interface.arguments.each_shapes(sizes))

    @property
    def copies(self) -> int:
        """Number of inputs that calls had to copy, as their layout differed from the declared one."""
        return self._interface.arguments.copies

    @property
    def cache_capacity(self) -> int:
        """Maximum number of cached programs, one for each combination of input shapes; 128 by default.

        Beyond 16 programs, those that were used least recently go while all take more than 1 GiB.
        """
        return self._programs.cache.capacity

    @cache_capacity.setter
    def cache_capacity(self, capacity: int) -> None:
        self._programs.cache.resize(stated_capacity(capacity))

    def cache_info(self) -> CacheInfo:
        """Counters of the program cache: hits, misses, evictions, size and capacity.

        A graph without unknown dims has one program, which calls use without a lookup. ``reused`` counts the programs
        that were made of the steps for another size, ``partitions`` what the library compiled for them.
        """
        return self._programs.info()

    def report(self, *, implementations: bool = False) -> Report:
        """The partitions of the program that was used last: the fused ops, the executors and the reasons.

        Args:
            implementations: True adds the names of oneDNN's implementations. A separate Python process finds them,
                which takes a second or two, and the memory of another program.

        Raises:
            UnsupportedError: the separate process failed.
        """
        from . import inspection

        return inspection.report(self._interface, self._programs, flag("implementations", implementations))

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
        from . import inspection

        count, finds_names = inspection.stated(runs, implementations)
        arrays_by_name = {**self._interface.arguments.arrays(arrays, named), **self._interface.present}
        return inspection.profile(self._programs, arrays_by_name, count, finds_names)

    def explain(
        self, /, *arrays: object, runs: int = 10, implementations: bool = False, **named: object
    ) -> Explanation:
        """Measure what each op and each partition costs, and say why partitions are not one.

        Times stand beside what the machine can do, which is measured once, in a second, and kept in the cache folder.
        For each tensor between two partitions there is a reason: a second consumer, no pattern and the nearest one, a
        data type, a fault of the library by its name, a kernel of the package or of numpy. To find it, the library
        partitions the two alone.

        Args:
            arrays, named: the inputs, as in a call; by default ones of the declared shapes.
            runs: number of measured runs, after one run that is not measured.
            implementations: True adds the names of oneDNN's implementations; see ``report``.

        Raises:
            ArgumentError: an array does not fit; or none is given, and the shape of an input is unknown.
            UnsupportedError: the process that finds the implementations failed.
        """
        from . import inspection

        count, finds_names = inspection.stated(runs, implementations)
        return inspection.explain(self._interface, self._programs, Executable, arrays, named, count, finds_names)

    def __repr__(self) -> str:
        return f"{signature('Executable', self.inputs, self.outputs)}\n{self.report()}"

    def _repr_html_(self) -> str:
        """The executable as HTML for a notebook: inputs, outputs, and the report."""
        return f"<p>{escaped(signature('Executable', self.inputs, self.outputs))}</p>{self.report()._repr_html_()}"

    def __reduce__(self) -> tuple[Any, ...]:
        # The version is first, so that it is checked before the graph is read.
        return _unpickled, (
            WriterVersion(__version__),
            self._whole_graph(),
            self._programs.options,
            self.cache_capacity,
        )

    def _whole_graph(self) -> DataGraph:
        """The graph, with the present values of the variables."""
        graph, state = self._graph(), self._interface.state
        if state is not None:
            graph = graph.copy()
            graph._initial = {name: state.read(name) for name in graph._initial}
        return graph

    def _run_by_name(self, inputs: Arrays) -> dict[str, Array]:
        """The results of a call with these arrays, by name."""
        return self._interface.by_name(self(*map(inputs.__getitem__, self._names)))


# Constructors that record executables (see onegraph.capture); the last one is used.
RECORDERS: list[Callable[..., Executable]] = []


def compile_graph(graph: DataGraph, *, shared: SharedConstants | None = None, **options: Any) -> Executable:
    """The executable of a graph, which may share something with those of graphs that differ in sizes alone."""
    return RECORDERS[-1](graph, **options) if RECORDERS else Executable(graph, shared=shared, **options)


def _unpickled(_version: str, graph: DataGraph, options: CompileOptions, capacity: int) -> Executable:
    executable = compile_graph(graph, **options._asdict())
    executable.cache_capacity = capacity
    return executable


__all__ = ["BoundRun", "Executable", "TensorSpec"]
