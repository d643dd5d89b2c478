"""Programs that hold sizes as parameters: for new sizes, only what depends on them is computed.

A graph is lowered, and passes run, with open sizes in the place of ints (``_util.open_sizes``). What was asked of them
are the guards: for all sizes that answer them alike, the steps are the same, and their dims, strides and offsets are
polynomials of the sizes. So a program for known sizes evaluates these, plans the memory, and compiles the partitions
that the library must have for these sizes and has not compiled yet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from .._util.interpreter_tricks import written_function
from .._util.open_numbers import has_open_numbers, numbers_at
from .._util.open_sizes import OpenSize, present
from .._util.size_symbols import OpenSizes, TooManyGuardsError
from ..builder.graph import DataGraph
from ..capi.settings import slow_types
from ..capi.threads import ThreadCount, restore_threads, thread_share, threads_now
from ..compiler.compile import compile_steps
from ..compiler.ir.value import Value
from ..compiler.kernels.native import CompiledKernel, KernelSource
from ..compiler.library_steps import NoParametersError, OtherStepsError, Partitioning
from ..compiler.lower import lower
from ..compiler.numpy_steps import numpy_step_at
from ..compiler.open_values import At, OpenValues, ValuesAt, value_at
from ..compiler.options import Options as PassOptions
from ..compiler.passes import run_passes
from ..compiler.recipes import PartitionRecipe
from ..compiler.shared_constants import SharedConstants
from ..compiler.steps import CompiledStep, NumpyStep
from ..opset.host.control import BODIES
from ..transform.present import at_present
from ..transform.widen import widened
from .compile_options import CompileOptions
from .compiled_program import CompiledProgram, prepared
from .open_kernels import OpenKernels
from .open_parameters import HowSizes
from .open_steps import OpenSteps
from .placing import piece_sizes, slots_of
from .plan import Arenas, PlanSource, rows_of

LARGEST = 1 << 31  # of a size
NEAR = 4  # times as large, or as small, as the size that numbers of threads were measured for


class Kind(NamedTuple):
    """Partitions that are one compiled partition for all sizes.

    Attributes:
        recipe: of one of them.
        sizes: the open sizes that they depend on.
        threads: their number of threads.
        alike: equal for kinds that differ in constants alone.
    """

    recipe: PartitionRecipe
    sizes: tuple[OpenSize, ...]
    threads: int
    alike: int


class OpenProgram:
    """The steps of a graph whose sizes are open.

    Args:
        parameters: how dims give the sizes.
        dims: those of ``like``.
        make: the graph for open sizes in the place of these dims.
        options: of the compilation.
        shared: what the programs of the executable share.
        like: the program for these shapes, if there is one. If it has other steps, because it computed what follows
            from sizes alone, or asked the library for products, the graph is compiled for them once more.
        arenas: memory for the intermediates of runs, which programs share.

    Attributes:
        graph: the graph, with open sizes.
        schedule: its steps.
        texts: the open sizes by the texts that stand for them in reasons.
        values: its values.
        slots, pieces: of its values, as ``placing`` has them.
        in_c: indices of the steps in C, and what runs each of them: its place among ``fixed``, and behind them
            ``sources`` and ``kinds``.
        fixed: the kernels and partitions for all sizes.
        sources: what the kernels that depend on sizes are made from.
        in_memory: the memory of the steps in C.
        kernels, fixed_rows: the kernels of ``sources``, and the steps in C of what is fixed.
        prepared: of the fixed partitions.
        recipes: by index of a step, the recipe of a partition that depends on sizes, and the number of its kind.
        kinds: the kinds of partitions that depend on sizes.
        on_host: indices of the steps that numpy runs on values of these sizes.
        counts: for each compiled step, its number of threads.
        is_in_c: whether one call into C executes the whole program.
        fits: whether the steps are right for these sizes.
        known: what was found about the steps, by what it is.
        arenas: memory for the intermediates of runs.
        partitions: by number of a kind and its sizes, what programs that exist have compiled.
        source: the source of the plans of the first program that was made of it; None before.
        like: the program that was compiled for the first sizes, as long as its partitions serve the program that is
            made of this one; None if it was given.

    Raises:
        NoParametersError: the steps cannot hold the sizes as parameters.
    """

    def __init__(
        self,
        parameters: HowSizes,
        dims: Sequence[int],
        make: Callable[[Sequence[int]], DataGraph],
        options: CompileOptions,
        shared: SharedConstants,
        like: CompiledProgram | None,
        arenas: Arenas | None = None,
    ) -> None:
        self.options, self.shared, self.threads = options, shared, thread_state()
        self.parameters, now = parameters, parameters.sizes(dims)
        if not now:
            raise NoParametersError("no dim is open")
        sizes = OpenSizes(now)
        for symbol, places in zip(sizes.symbols, parameters.places, strict=True):
            if places[0] < len(dims) - parameters.layouts:
                near = f"{symbol.value // NEAR}<={sizes.code(symbol)}<={symbol.value * NEAR}"
                sizes.guard(near, True)  # further away, other numbers of threads are fast
            sizes.guard(f"{sizes.code(symbol)}<{LARGEST}", symbol.value < LARGEST)
        try:
            self.like: CompiledProgram | None = None
            graph = make(parameters.opened(dims, sizes.symbols))
            if any(op.kind in BODIES for op in graph.ops):
                raise NoParametersError("a step runs graphs of its own")
            try:
                if like is None:
                    raise OtherStepsError("there is no program for these sizes")
                self._trace(graph, like)
            except OtherStepsError:  # what follows from sizes alone was computed for those of the program
                like = CompiledProgram(at_present(graph), **options._asdict(), shared=shared, opens=True)
                self._trace(graph, like)
                self.like = like
            self._collect(like.source.threads)
        except TooManyGuardsError:
            raise NoParametersError("too many decisions depend on the size") from None
        if sizes.are_pinned:
            raise NoParametersError(f"the compilation needs the number {min(sizes.pinned)}")
        self.fits: Callable[[Sequence[int]], bool] = written_function(["s"], " and ".join(sizes.conditions()))
        self.counts, self.is_in_c, self.runs_limit = like.source.threads, like.in_c, like.source.limit
        self.known, self.arenas = dict[Hashable, Any](), arenas or Arenas()
        self.partitions: WeakValueDictionary[tuple[int, ...], Any] = WeakValueDictionary()
        self.source: PlanSource | None = None

    def _trace(self, graph: DataGraph, like: CompiledProgram) -> None:
        """Lower the graph, run the passes, and make the steps, which are those of the program ``like``."""
        options, threads = self.options, ThreadCount()
        self.graph = graph = widened(graph, slow_types()) if options.policy == "fusion" else graph
        fallback, finite_math = options.fallback, options.finite_math
        lowered = lower(graph, fallback=fallback, shared=self.shared, finite_math=finite_math, opens=True)
        chosen = PassOptions(options.policy, options.fpmath_mode, finite_math=options.finite_math, opens=True)
        self.lowered = lowered = run_passes(lowered, chosen)
        try:
            threads.use(self.threads_of_steps())
            share, mode = not isinstance(options.threads, int), options.fpmath_mode
            schedule = compile_steps(lowered, policy=options.policy, fpmath_mode=mode, share=share, at=present)
        finally:
            restore_threads(threads.before)
        self.schedule, self.slots = schedule, slots_of(graph, schedule)
        self.pieces = piece_sizes(self.slots, schedule)
        self._refuse_unlike(like)
        if any(has_open_numbers(constant) for constant in self.slots.constants.values()):
            raise NoParametersError("a kernel reads numbers that sizes decide")

    def threads_of_steps(self) -> int:
        """The number of threads that partitions are compiled for."""
        threads, (now, most) = self.options.threads, self.threads
        return threads if isinstance(threads, int) else min(most, now)

    def _refuse_unlike(self, like: CompiledProgram) -> None:
        """Raise NoParametersError unless the steps for the present sizes are those of the program."""
        steps, values = self.schedule.steps, self.schedule.values
        in_c = [step for step in steps if isinstance(step, CompiledStep)]
        if like.ending.n_steps or any(step.alone or step.again for step in like.steps):
            raise NoParametersError("a step runs at the end, in one thread alone, or with constants of its own")
        like_values = like.placement.values
        is_equal = (
            len(in_c) == len(like.steps) and len(values) == len(like_values) and all(map(_is_like, in_c, like.steps))
        )
        if not is_equal or not all(_is_same(value, like_values[number]) for number, value in values.items()):
            raise OtherStepsError("the program for these sizes has other steps")

    def _collect(self, counts: Sequence[int]) -> None:
        """Collect the open sizes, and the steps that depend on them; ``counts`` are the numbers of threads."""
        in_c = [index for index, step in enumerate(self.schedule.steps) if isinstance(step, CompiledStep)]
        sizes: dict[OpenSize, None] = {}

        def look(size: Any) -> int:
            if type(size) is OpenSize:
                sizes[size] = None
            return present(size)

        for value in self.schedule.values.values():
            value_at(value, look)
        for note in self.schedule.notes:  # a value may have had other strides when the note was made
            for value in (*note.inputs, *note.outputs):
                value_at(value, look)
        for size in self.pieces.values():
            look(size)
        self._sort(dict(zip(in_c, counts, strict=True)), sizes, look)
        self.schedule.patterns, self.values = (), OpenValues(self.schedule.values)
        texts = {repr(size): size for size in sizes}  # as reasons name sizes
        self.texts = {text: texts[text] for text in sorted(texts, key=len, reverse=True)}  # parts behind the whole
        self.notes = [step.note for step in self.schedule.steps]
        place = {id(size): number for number, size in enumerate(sizes)}
        steps: list[Any] = [self.schedule.steps[index] for index in in_c]
        self.in_memory = OpenSteps(steps, in_c, self.recipes, self.slots, self.pieces, place)
        self.kernels, self.fixed_rows, self.prepared = (
            OpenKernels(self.sources, place),
            rows_of(self.fixed),
            prepared(self.fixed),
        )
        self._sizes = [*sizes]
        self._numbers = [*map(id, sizes)]
        self._evaluate = written_function(["s"], f"[{', '.join(map(repr, sizes))}]")

    def _sort(self, count_of: Mapping[int, int], sizes: dict[OpenSize, None], look: At) -> None:
        """Sort the steps by what runs them.

        Args:
            count_of: the numbers of threads, by the index of a step in C.
            sizes: gets the open sizes.
            look: enters one.

        Raises:
            NoParametersError: a partition cannot be made for other sizes.
        """
        sources, fixed = dict[Hashable, tuple[int, KernelSource]](), dict[int, tuple[int, Any]]()
        runs: list[tuple[int, int]] = []  # for each step in C, whether it is fixed, a kernel or of a kind; and which
        self.on_host = list[int]()
        self.recipes: dict[int, tuple[PartitionRecipe, int]] = {}
        self.kinds: list[Kind] = []
        kinds: dict[Hashable, int] = {}
        kinds_alike: dict[Hashable, int] = {}
        for index, step in enumerate(self.schedule.steps):
            if isinstance(step, NumpyStep):
                numpy_step_at(step, ValuesAt(self.schedule.values, look), look)
                self.on_host.append(index)
                continue
            for shift in step.shifts:
                look(shift)
            kernel_source = step.compiled.source if isinstance(step.compiled, CompiledKernel) else None
            if kernel_source is not None:
                kernel_source.at(look)
                runs.append((1, sources.setdefault(kernel_source.key(), (len(sources), kernel_source))[0]))
            elif isinstance(step.compiled, CompiledKernel):
                runs.append((0, fixed.setdefault(id(step.compiled), (len(fixed), step.compiled))[0]))
            elif step.recipe is None:
                raise NoParametersError("a partition is compiled for these sizes alone")
            elif not isinstance(step.recipe, PartitionRecipe):
                raise NoParametersError("a partition has no recipe")
            elif own := step.recipe.sizes():
                kind = step.recipe.kind(self.schedule.key), count_of[index]
                number = kinds.setdefault(kind, len(kinds))
                if number == len(self.kinds):
                    recipe, threads = step.recipe, count_of[index]
                    if isinstance(recipe, Partitioning) and threads != 1:
                        recipe = recipe._replace(is_small=False)  # a kernel keeps the number of its compilation
                    alike = kinds_alike.setdefault((recipe.kind(None), threads), len(kinds_alike))
                    self.kinds.append(Kind(recipe, own, threads, alike))
                self.recipes[index] = step.recipe, number
                runs.append((2, number))
                sizes.update(dict.fromkeys(own))
                # The partition goes with the last program for the present sizes.
                self.schedule.steps[index] = step._replace(compiled=None, like=None, recipe=None)  # type: ignore[arg-type]
            else:
                runs.append((0, fixed.setdefault(id(step.compiled), (len(fixed), step.compiled))[0]))
        self.fixed, self.sources = [one for _, one in fixed.values()], [source for _, source in sources.values()]
        starts = 0, len(fixed), len(fixed) + len(sources)
        self.in_c, self.of_step = [*count_of], np.array([starts[sort] + number for sort, number in runs], np.intp)

    def evaluated(self, sizes: Sequence[int]) -> list[int]:
        """The values of the open sizes for these values of the symbols."""
        return self._evaluate(sizes)  # type: ignore[no-any-return]

    def at(self, sizes: Sequence[int], evaluated: Sequence[int] | None = None) -> At:
        """What open sizes are for these values of the symbols; ``evaluated`` as the method of this name returns it."""
        known = self.evaluated(sizes) if evaluated is None else evaluated
        size_by_number = dict(zip(self._numbers, known, strict=True))

        def at(size: Any) -> int:
            if type(size) is not OpenSize:
                return size  # type: ignore[no-any-return]
            number = size_by_number.get(id(size))
            # A size of a value that no step reads, but whose graph a partition is searched in, is evaluated here.
            return int(written_function(["s"], repr(size))(sizes)) if number is None else number

        return at


def thread_state() -> tuple[int, int]:
    """What the number of threads of a program depends on: the setting of the calling thread, and its share."""
    return threads_now(), thread_share().threads


def _is_like(step: CompiledStep, like: CompiledStep) -> bool:
    """Whether a step with open sizes is, for the present ones, a step of a program."""
    shifts = [present(shift) for shift in step.shifts]
    if step.pieces != like.pieces or step.n_inputs != like.n_inputs or shifts != [*like.shifts]:
        return False
    kernel, like_kernel = step.compiled, like.compiled
    if isinstance(kernel, CompiledKernel) and isinstance(like_kernel, CompiledKernel):
        return kernel.name == like_kernel.name and [*kernel.code] == [*like_kernel.code]
    return not isinstance(kernel, CompiledKernel) and not isinstance(like_kernel, CompiledKernel)


def _is_same(value: Value, like: Value) -> bool:
    """Whether a value with open sizes is, for the present ones, a value of a program."""
    mine, theirs = value.constant, like.constant
    if mine is not None and theirs is not None and has_open_numbers(mine):
        mine, theirs = (numbers_at(array, present, value.dtype.numpy) for array in (mine, theirs))
    if mine is not theirs and (mine is None or theirs is None or not _has_bytes_of(mine, theirs)):
        return False
    # A graph with open sizes has other ops that compute shapes, so that a counter in a name may differ.
    return value_at(value, present)._replace(constant=None, name="") == like._replace(constant=None, name="")


def _has_bytes_of(mine: Any, theirs: Any) -> bool:
    """Whether two arrays are one, or have equal bytes."""
    return _place(mine) == _place(theirs) or bool(mine.tobytes() == theirs.tobytes())


def _place(array: Any) -> Hashable:
    return array.ctypes.data, array.dtype, array.shape, array.strides
