"""Runs drawn uses in the bare library, in worker processes, under conditions that show what depends on memory."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ...._util.records import record
from ...._util.worker_process import Outcome, Worker
from ....opset.editions.registry import BASE
from .. import worker
from ..causes import GOOD
from ..runner import run_all
from ..uses import SINGLE, ProbedUse

ENTRY = __name__  # the module whose ``main`` workers run
LIMIT, SHORT_LIMIT = 10.0, 3.0  # seconds for a use, and for one that a fault says never ends
MOST_MEMORY = 4 << 30  # bytes of a worker; some uses ask for all that there is


@record(frozen=True)
class Condition:
    """What the library meets in memory.

    Attributes:
        name: for reports.
        edges: whether inputs and outputs end at a page that nobody may touch.
        settings: environment variables of the worker.
    """

    name: str
    edges: bool
    settings: Mapping[str, str]


# The allocator fills new memory with large numbers, and freed memory with others; a block of any size is taken from
# memory that was used before.
_FILLED = "glibc.malloc.perturb=128:glibc.malloc.tcache_count=0:glibc.malloc.mmap_threshold=1073741824"
HARSH = Condition(
    "filled memory",
    True,
    MappingProxyType({"GLIBC_TUNABLES": _FILLED, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}),
)
CALM = Condition("zeroed memory", False, MappingProxyType({"OMP_NUM_THREADS": "1"}))


def new_worker(condition: Condition) -> Worker:
    """A worker that runs uses under a condition."""
    return Worker(ENTRY, condition.settings)


def main() -> None:
    """Run uses in bounded memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    worker.main()


def request(use: ProbedUse, condition: Condition, claims: Iterable[str] = ()) -> dict[str, Any]:
    """What a worker gets, to run a use."""
    names = list(claims)
    endless = any("hang" in seen for name in names for seen in SINGLE[name].seen.values())
    return {
        "name": BASE[use.kind].name,
        "use": use.to_dict(),
        "call": use.arguments(),
        "allowed": True,
        "edges": condition.edges,
        "limit": SHORT_LIMIT if endless else LIMIT,
        "repeat": not names,
    }


def run_uses(
    uses: Sequence[ProbedUse],
    claims: Sequence[Iterable[str]],
    condition: Condition,
    workers: int,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Outcome]:
    """The outcome of each use; ``claims`` are the faults that it is said to run into.

    Raises:
        UnsupportedError: no worker process can be started.
    """
    requests = [request(use, condition, names) for use, names in zip(uses, claims, strict=True)]
    return run_all(requests, workers, progress, lambda: new_worker(condition))


def run_alone(use: ProbedUse, condition: Condition, *, call: Mapping[str, Sequence[Any]] | None = None) -> Outcome:
    """The outcome of a use in a process of its own; ``call``: its attributes, where they are not those of the use."""
    alone = new_worker(condition)
    try:
        task = request(use, condition)
        task["call"] = task["call"] if call is None else call
        return alone.run(task, float(task["limit"]))
    finally:
        alone.close()


def is_bad(outcome: Outcome) -> bool:
    """Whether the library refused the use, has no kernel for it, got it wrong, crashed or hung."""
    return outcome.outcome not in GOOD
