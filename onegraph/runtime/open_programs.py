"""The programs of an executable that hold sizes as parameters, and what they make for new sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..builder.graph import DataGraph
from ..compiler.library_steps import NoParametersError
from ..compiler.shared_constants import SharedConstants
from ..errors import OneGraphError, OutOfMemoryError
from .compile_options import CompileOptions
from .open_parameters import Parameters
from .open_program import OpenProgram, thread_state
from .plan import Arenas
from .sized_program import SizedProgram

Shapes = Mapping[str, tuple[int, ...]]
MOST = 16  # programs with open sizes, the least recently used of which go
MOST_STEPS = 40_000  # of all of them
MOST_FAILURES = 3  # in a row; then no more are made
MOST_UNUSED = 6  # programs since one was used for other sizes; then no more are made


class OpenPrograms:
    """The programs with open sizes of one executable.

    Args:
        graph: a graph with unknown dims.
        make: the graph for shapes of its inputs, and a capacity ``room`` of caches that grow.
        options: of the compilation.
        shared: what the programs of the executable share.

    Attributes:
        reused: number of programs that were made of one with open sizes.
        partitions: number of partitions that the library compiled for these.
        reason: why the last program that was compiled could not hold its sizes as parameters; empty if it could.
        error: a mistake in onegraph, for tests; None if there was none.
    """

    def __init__(
        self,
        graph: DataGraph,
        make: Callable[..., DataGraph],
        options: CompileOptions,
        shared: SharedConstants,
    ) -> None:
        self._graph, self._make, self._options, self._shared = graph, make, options, shared
        self._arenas = Arenas()
        self._forms: list[OpenProgram] = []  # the one that was used last at the end
        self._ranks: tuple[int, ...] = ()  # of the inputs of the newest one
        self._is_second, self._failures, self._unused = False, 0, 0
        self.reused = self.partitions = 0
        self.reason = ""
        self.error: Exception | None = None

    def program(self, shapes: Shapes, room: int = 0) -> SizedProgram | None:
        """The program for these shapes, and a capacity of caches; None if no program with open sizes fits.

        From the second combination of shapes on, a program with open sizes is made where none fits.
        """
        sized = self._of_known(shapes, room)
        if sized is not None:
            self.reused, self.partitions, self._unused = self.reused + 1, self.partitions + sized.compiled, 0
        elif self._learn(shapes, room):
            form = self._forms[-1]
            sized, form.like = self._of_known(shapes, room), None
        return sized

    def takes(self, shapes: Shapes, room: int = 0) -> bool:
        """Whether a program with open sizes that is known takes inputs of these shapes."""
        if tuple(map(len, shapes.values())) != self._ranks:
            return False
        dims = self._dims(shapes, room)
        for form in reversed(self._forms.copy()):
            sizes = form.parameters.sizes(dims)
            if sizes is not None and form.fits(sizes):
                return True
        return False

    def _of_known(self, shapes: Shapes, room: int) -> SizedProgram | None:
        """The program for these shapes of a program with open sizes that is known; None if none fits."""
        dims = self._dims(shapes, room)
        for form in reversed(self._forms.copy()):
            sizes = form.parameters.sizes(dims)
            if sizes is None or form.threads != thread_state() or not form.fits(sizes):
                continue
            try:
                program = SizedProgram(form, sizes, lambda: self._make(shapes, room=room))
            except OutOfMemoryError:
                raise
            except (OneGraphError, NoParametersError) as error:
                self.reason = str(error)
                return None
            except Exception as error:  # a mistake in onegraph, which must not fail a call
                self.reason, self.error = f"{type(error).__name__}: {error}", error
                self._forms, self._failures = [], MOST_FAILURES
                return None
            if form is not self._forms[-1]:
                self._forms = [*[other for other in self._forms if other is not form], form]
            return program
        return None

    def _learn(self, shapes: Shapes, room: int) -> bool:
        """Make a program with open sizes, from the second combination of shapes on; returns whether there is one."""
        options = self._options
        if not self._is_second:
            self._is_second = True
            return False
        unusual = {
            "the policy is not fusion": options.policy != "fusion",
            "the program is reproducible": options.reproducible,
            "numbers of threads are stated for partitions": isinstance(options.threads, Mapping),
            f"{MOST_UNUSED} programs in a row served one size each": self._unused >= MOST_UNUSED,
        }
        if unusual_reason := next((reason for reason, holds in unusual.items() if holds), ""):
            self.reason = unusual_reason
        if unusual_reason or self._failures >= MOST_FAILURES:
            return False
        try:
            dims, stated = self._dims(shapes, room), self._graph.inputs.items()
            is_open = [dim is None for name, one in stated for dim in one.shape or (None,) * len(shapes[name])]
            is_open += [True] * bool(room)
            parameters = Parameters.of(dims, is_open, int(room > 0))
            if not parameters.places:  # dims of 0 and 1, which say nothing about others
                return False
            opened = partial(self._opened, shapes)
            form = OpenProgram(parameters, dims, opened, options, self._shared, None, self._arenas)
        except OutOfMemoryError:
            raise
        except (OneGraphError, NoParametersError) as error:
            self._make(shapes, room=room)  # raises for shapes that the graph does not take
            self.reason, self._failures = str(error), self._failures + 1
            return False
        except Exception as error:  # the call has its program; a later one is compiled in the usual way
            self.reason, self._failures, self.error = f"{type(error).__name__}: {error}", MOST_FAILURES, error
            return False
        self.reason, self._failures, self._unused = "", 0, self._unused + 1
        self._forms = [*self._forms[-MOST + 1 :], form]
        self._ranks = tuple(map(len, shapes.values()))
        while len(self._forms) > 1 and sum(len(form.schedule.steps) for form in self._forms) > MOST_STEPS:
            self._forms = self._forms[1:]
        return True

    def _dims(self, shapes: Shapes, room: int) -> list[int]:
        return [dim for name in self._graph.inputs for dim in shapes[name]] + [room] * bool(room)

    def _opened(self, shapes: Shapes, dims: Sequence[int]) -> DataGraph:
        remaining = iter(dims)
        opened = {name: tuple([next(remaining) for _ in shapes[name]]) for name in self._graph.inputs}
        return self._make(opened, room=next(remaining, 0))

    def forget(self) -> None:
        """Forget all programs, as after a failed run."""
        self._forms = []
