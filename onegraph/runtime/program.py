"""Defines programs: the compiled steps of a graph for inputs of known shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from .._util.fork_safety import cached_property
from .._util.processor_share import Share
from ..builder.graph import DataGraph
from ..capi.thread_affinity import OwnerThread
from ..compiler.steps import CompiledStep, Ending, NumpyStep
from ..ir.op import Array
from ..native.library import lib
from .frame import Frame
from .placement import Placement
from .plan import PlanSource

if TYPE_CHECKING:
    from ..compiler.report import PartitionReport

# Before a program that needs more bytes than this gets memory, freed memory is given back to the system.
LARGE = 2**26


class Program(ABC):
    """Compiled steps of a graph with known shapes. It is immutable; a :class:`Frame` holds the memory of one run.

    Args:
        graph: has the inputs and outputs, and maybe no ops.
        share: the processors that the program is compiled for.

    Attributes:
        placement: where the values lie.
        steps: those that C runs, if an earlier process has not made them.
        parts: the steps before the ending, divided between C and numpy.
        ending: the steps at the end.
        source: the source of the plans.
        in_c: whether one call into C executes the whole program.
        owner_thread: the only thread that can run the program; None if every thread can. Of several, one that a fork
            left behind.
        step_notes: for each step the index of its report.
        free_frames: frames of finished runs, for reuse.
        known: what was found about the steps, also those of programs for other sizes, by what it is.
    """

    placement: Placement
    steps: Sequence[CompiledStep] = ()
    parts: Sequence[range | NumpyStep]
    ending: Ending
    source: PlanSource
    in_c: bool
    owner_thread: OwnerThread | None
    step_notes: Sequence[int]

    def __init__(self, graph: DataGraph, share: Share) -> None:
        self.graph, self.share = graph, share
        self.known: dict[Hashable, Any] = {}
        self.free_frames: list[Frame] = []
        self._spare_arenas: list[Array] = []  # of trials; the next frame takes over the memory

    @abstractmethod
    def whole_graph(self) -> DataGraph:
        """The graph with its ops, for the shapes of the program."""

    @abstractmethod
    def _reports(self) -> tuple[PartitionReport, ...]:
        """The reports of the partitions, which are made when they are first read."""

    def pieces(self) -> dict[Hashable, int]:
        """Bytes of the pieces of memory that the program keeps, by what tells them apart: its arena, at least."""
        return {id(self): self.placement.arena_size}

    @cached_property
    def reports(self) -> tuple[PartitionReport, ...]:
        """The reports of the partitions."""
        return self._reports()

    def check_out(self) -> Frame:
        """A frame for one run; ``give_back`` returns it afterwards."""
        try:
            return self.free_frames.pop()
        except IndexError:
            if self._takes() > LARGE:
                lib.onegraph_trim()  # what compiling, and building the graph, has freed
            return self._frame(self.source)

    def _takes(self) -> int:
        """Bytes that a run takes besides the memory of earlier programs."""
        return self.placement.arena_size + self.placement.external_size()

    def give_back(self, frame: Frame) -> None:
        """Keep a frame for the next run."""
        frame.release()
        self.free_frames.append(frame)

    def _frame(self, source: PlanSource) -> Frame:
        try:
            arena = self._spare_arenas.pop()
        except IndexError:
            arena = None
        return Frame(self.placement, self.parts, self.ending, source, arena)
