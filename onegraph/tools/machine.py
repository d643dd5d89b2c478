"""What else runs on the machine while something is measured.

A load maps names of processes to the share of one processor that they use, in percent; ``all`` is the sum. It is what
all processors do, including the time that a hypervisor gives to other machines, except for this process and its
descendants.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean
from typing import NamedTuple

Load = dict[str, float]
# In percent of one processor. A smaller load leaves the median of a measurement as it is; and fixed work loses up to
# this on an idle machine, to neighbours on the chip and frequency changes.
BUSY = 25.0
# More threads with fixed work than this would wait for the GIL.
MOST_THREADS = 8
SHOWN = 3
TICK = 1 / os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process in /proc: its name, its parent, and its CPU seconds with and without those of children that ended."""

    name: str
    parent: int
    seconds: float
    with_children: float


class Snapshot(NamedTuple):
    """The wall clock, the CPU seconds of all processors since the start of the machine, and all processes."""

    clock: float
    seconds: float
    processes: dict[int, Process]


def snapshot() -> Snapshot:
    """The snapshot of this moment; without processes where there is no /proc/stat."""
    try:
        counters = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return Snapshot(time.perf_counter(), 0.0, {})
    user, nice, system, _, _, interrupts, soft_interrupts, stolen, *_ = map(int, counters)
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return Snapshot(time.perf_counter(), busy * TICK, dict(_processes()))


def _processes() -> Iterator[tuple[int, Process]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                text = (folder / "stat").read_text()
            except OSError:
                continue  # it has ended
            name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            own, of_children = (sum(map(int, fields[first : first + 2])) * TICK for first in (11, 13))
            yield int(folder.name), Process(name, int(fields[1]), own, own + of_children)


def load(before: Snapshot, after: Snapshot, root: int) -> Load:
    """What ran between two snapshots besides the process ``root`` and its descendants."""
    wall = after.clock - before.clock
    own_seconds = [
        sum(found.processes[pid].with_children for pid in tree(found.processes, root)) for found in (before, after)
    ]
    # The machine counts in ticks. One tick of each snapshot is no sign of load.
    foreign = after.seconds - before.seconds - (own_seconds[1] - own_seconds[0]) - 2 * TICK
    ours, taken = tree(after.processes, root), defaultdict[str, float](float)
    for pid, process in after.processes.items():
        earlier = before.processes.get(pid)
        if pid not in ours:
            taken[process.name] += process.seconds - (earlier.seconds if earlier else 0.0)
    most = sorted(taken.items(), key=lambda item: -item[1])[:SHOWN]
    shares = {name: round(100 * seconds / wall, 1) for name, seconds in most}
    return {"all": round(max(0.0, 100 * foreign / wall), 1)} | {name: share for name, share in shares.items() if share}


def tree(processes: Mapping[int, Process], root: int) -> set[int]:
    """A process and its descendants."""
    pids, new = set(), {root} & processes.keys()
    while new:
        pids |= new
        new = {pid for pid, process in processes.items() if process.parent in new} - pids
    return pids


def described(shares_by_name: Mapping[str, float]) -> str:
    """A load as text: ``48 % of one processor (python3 40 %, cc1plus 8 %)``, or ``1.9 processors (...)``."""
    shares = ", ".join(f"{name} {share:g} %" for name, share in shares_by_name.items() if name != "all")
    total = shares_by_name.get("all", 0.0)
    amount = f"{total:g} % of one processor" if total <= 100 else f"{total / 100:.1f} processors"
    return amount + (f" ({shares})" if shares else "")


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def lack_processors(shares: Mapping[str, float], threads: int) -> bool:
    """Whether so many threads had to share processors with each other or with a load."""
    return threads > processors() - (shares.get("all", 0.0) - BUSY) / 100


class LoadWatch:
    """Notices what else runs on the machine from now on."""

    def __init__(self) -> None:
        self._before = snapshot()
        self._hidden = load_by_work()

    def load(self) -> Load:
        """What has run since the creation of the object."""
        load_now = load(self._before, snapshot(), os.getpid())
        return self._hidden if self._hidden and load_now["all"] < BUSY else load_now


def load_by_work() -> Load:
    """The load that slows down fixed work; empty on an idle machine. /proc of a container may hide such a load."""
    lost = lost_by_work()
    return {"all": lost, "not in /proc": lost} if lost >= BUSY else {}


def lost_by_work(pieces: int = 150) -> float:
    """The largest share of its processor that a thread with fixed work loses to something else, in percent.

    The shortest time of a piece of the work is its time on an idle processor.
    """
    piece = bytes(1 << 20)

    def work(count: int) -> list[float]:
        taken = []
        for _ in range(count):
            begin = time.perf_counter()
            hashlib.sha256(piece).digest()  # without the GIL
            taken.append(time.perf_counter() - begin)
        return taken

    threads = min(processors(), MOST_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        return round(100 * max(1 - min(taken) / mean(taken) for taken in pool.map(work, [pieces] * threads)), 1)
