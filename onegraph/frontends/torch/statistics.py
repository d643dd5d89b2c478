"""Counts what the backend of torch.compile runs here, and what it leaves to PyTorch."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..._util.counted import counted
from ..._util.records import record
from ...runtime.kept_constants import prepared_bytes
from .sizes import Work

log = logging.getLogger("onegraph.torch")


@record(frozen=True)
class Left:
    """A kind of calls that PyTorch runs.

    Attributes:
        op: the name of the op.
        reason: why it does not run here.
        count: number of such calls.
        products: their multiply-adds, as far as the op is known; of a loop those of one turn.
    """

    op: str
    reason: str
    count: int
    products: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dictionary for JSON."""
        return {"op": self.op, "reason": self.reason, "count": self.count, "products": self.products}

    def __str__(self) -> str:
        products = f" ({self.products:,} multiply-adds)" if self.products else ""
        return f"  {self.count:4} {self.op}: {self.reason}{products}"


def joined(calls: Iterable[Left]) -> list[Left]:
    """The calls, with those of one op and reason as one record, the most frequent first."""
    by_reason: dict[tuple[str, str], Left] = {}
    for left in calls:
        before = by_reason.get((left.op, left.reason), Left(left.op, left.reason, 0))
        total = before.count + left.count, before.products + left.products
        by_reason[left.op, left.reason] = Left(left.op, left.reason, *total)
    return sorted(by_reason.values(), key=lambda one: -one.count)


@dataclass
class RegionStatistics:
    """One program of a graph that PyTorch captured.

    Attributes:
        kind: ``inference``, ``forward`` or ``backward``.
        partitions: number of graphs that run here.
        taken: number of calls that run here.
        left: the calls that PyTorch runs.
        products: multiply-adds of all calls, and of those that run in oneDNN.
        work: what was compiled so far.
        captured: the same object for all programs of one captured graph.
        weights: what the program does with the weights that its graph has; empty if it has none.
    """

    kind: str
    partitions: int = 0
    taken: int = 0
    left: Sequence[Left] = ()
    products: tuple[int, int] = (0, 0)
    work: Work = field(default_factory=Work, repr=False)
    captured: object = field(default=None, repr=False)
    weights: str = ""


@record(frozen=True)
class Statistics:
    """What :func:`onegraph.torch.stats` returns; ``print`` shows it.

    Attributes:
        regions: the programs of the graphs that PyTorch captured, in the order in which they were compiled.
        breaks: why PyTorch ended a graph, or left a whole function to eager execution, with counts.
    """

    regions: Sequence[RegionStatistics] = ()
    breaks: dict[str, int] = field(default_factory=dict)

    @property
    def graphs(self) -> int:
        """Number of graphs that PyTorch captured."""
        return len({id(region if region.captured is None else region.captured) for region in self.regions})

    @property
    def programs(self) -> dict[str, int]:
        """How many programs there are of all captured graphs, by what they do with the weights."""
        return dict(Counter(region.weights for region in self.regions))

    @property
    def partitions(self) -> int:
        """Number of graphs that run here."""
        return sum(region.partitions for region in self.regions)

    @property
    def taken(self) -> int:
        """Number of calls of ops that run here."""
        return sum(region.taken for region in self.regions)

    @property
    def left(self) -> tuple[Left, ...]:
        """The calls that PyTorch runs, the most frequent first."""
        return tuple(joined(one for region in self.regions for one in region.left))

    @property
    def share(self) -> float:
        """The share of multiply-adds that oneDNN does; without any, 1 if an op runs here, and 0 if none does."""
        whole = sum(region.products[0] for region in self.regions)
        return sum(region.products[1] for region in self.regions) / whole if whole else float(self.taken > 0)

    @property
    def compilations(self) -> int:
        """Number of compiled graphs: one for each partition and combination of sizes."""
        return sum(region.work.compilations for region in self.regions)

    @property
    def dropped(self) -> int:
        """Number of compiled graphs that were dropped, because there were more sizes than ``cache_capacity``."""
        return sum(region.work.dropped for region in self.regions)

    @property
    def prepared_bytes(self) -> int:
        """The bytes of weights that the library keeps in layouts of its own, for all programs of this process."""
        return prepared_bytes()

    @property
    def reused(self) -> int:
        """Number of combinations of marked sizes that have the steps for another one, so that nothing was traced."""
        return sum(region.work.reused for region in self.regions)

    @property
    def answered(self) -> int:
        """Number of calls of partitions that PyTorch answered because their sizes were new."""
        return sum(region.work.answered for region in self.regions)

    @property
    def sizes(self) -> dict[str, int]:
        """How often graphs were made for marked sizes, by the shapes of their inputs: the most frequent first."""
        counts = Counter[str]()
        for region in self.regions:
            counts.update(region.work.counts)
        return dict(counts.most_common())

    def to_dict(self) -> dict[str, Any]:
        """The numbers as a dictionary for JSON."""
        return {
            "graphs": self.graphs,
            "programs": self.programs,
            "breaks": dict(self.breaks),
            "partitions": self.partitions,
            "taken": self.taken,
            "left": [one.to_dict() for one in self.left],
            "share": self.share,
            "compilations": self.compilations,
            "dropped": self.dropped,
            "sizes": self.sizes,
            "reused": self.reused,
            "answered": self.answered,
            "prepared_bytes": self.prepared_bytes,
        }

    def __str__(self) -> str:
        count, products = sum(one.count for one in self.left), sum(region.products[0] for region in self.regions)
        lines = [
            f"graphs captured: {self.graphs}, graph breaks: {sum(self.breaks.values())}",
            f"ops in oneDNN: {self.taken}, in {counted(self.partitions, 'partition')}; ops in PyTorch: {count}",
            f"{self.share:.1%} of multiply-adds in oneDNN" if products else "no multiply-adds",
        ]
        if len(self.regions) > self.graphs:
            counts = ", ".join(f"{count} {text or 'without weights'}" for text, count in self.programs.items())
            lines.append(f"{counted(len(self.regions), 'program')} of these graphs: {counts}")
        if made := self.sizes:
            reused = self.reused
            text = f"{counted(len(made), 'combination')} of sizes, compiled "
            text += counted(sum(made.values()) - reused, "time")
            lines.append(f"{text}, and {reused} made of the steps for another one" if reused else text)
        if self.answered:
            lines.append(f"PyTorch answered {counted(self.answered, 'call')} while sizes were new")
        for reason in sorted({region.work.reason for region in self.regions if region.work.reason}):
            lines.append(f"each size is compiled as a whole: {reason}")
        if self.dropped:
            lines.append(f"{self.compilations} compilations, of which {self.dropped} were dropped for newer sizes")
        lines += [str(one) for one in self.left]
        lines += [f"  graph break, {times} times: {reason}" for reason, times in self.breaks.items()]
        return "\n".join(lines)


_regions: list[RegionStatistics] = []
_breaks_before = Counter[str]()  # PyTorch's counts at the last reset
_lock = threading.Lock()


def add(region: RegionStatistics) -> None:
    """Count a region, and log what PyTorch runs of it."""
    with _lock:
        _regions.append(region)
    for left in region.left:
        log.info("%s graph: PyTorch runs %d %s: %s", region.kind, left.count, left.op, left.reason)


def statistics() -> Statistics:
    """What was counted since the start, or since the last reset."""
    with _lock:
        now = _breaks()
        return Statistics(tuple(_regions), dict(now - _breaks_before if now >= _breaks_before else now))


def reset() -> None:
    """Count from zero."""
    global _breaks_before
    with _lock:
        _regions.clear()
        _breaks_before = _breaks()


def _breaks() -> Counter[str]:
    """PyTorch's counts of graph breaks since its start, or since somebody cleared them.

    It counts a break apart behind which it does not go on with the function, such as one in the middle of a call.
    """
    counts = torch._dynamo.utils.counters
    return Counter(counts["graph_break"]) + Counter(counts["unimplemented"])
