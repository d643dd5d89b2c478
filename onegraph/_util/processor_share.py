"""Finds how many processors this process may use, which a container or a cluster engine limits.

A container limits the time of the processors (the quota of a control group) and not their number, so that a process
which starts a thread for each processor of the machine is stopped for a part of every period.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
VARIABLE = "OMP_NUM_THREADS"


class Share(NamedTuple):
    """The processors of this process.

    Attributes:
        threads: how many threads one call of this process should use.
        reason: what limits them; empty if nothing does.
    """

    threads: int
    reason: str


def processor_share() -> Share:
    """The smallest of the limits: processor affinity, the quota of control groups, the tasks of a Dask worker.

    ``OMP_NUM_THREADS``, which Ray and Dask set for their workers, takes the place of all of them.
    """
    if (stated := _stated()) is not None:
        return Share(stated, f"{VARIABLE}={stated}")
    total, count = os.cpu_count() or 1, openmp_threads()
    share = Share(count, f"processor affinity: {count} of {total} processors" if count < total else "")
    quota = _recent_quota(cgroup_quota, int(time.monotonic()))
    if quota is not None and ceil(quota) < share.threads:
        share = Share(ceil(quota), f"cgroup quota: {quota:g} of {total} processors")
    tasks = dask_tasks()
    if tasks > 1:
        reason = f"Dask runs {tasks} tasks at once on {share.threads} processors"
        share = Share(max(1, share.threads // tasks), reason)
    return share


@lru_cache(maxsize=1)
def _recent_quota(read: Callable[[Path, Path], float | None], second: int) -> float | None:
    """The quota of this process, read once in a second, because every compilation asks for it."""
    return read(ROOT, OWN_GROUPS)


def openmp_threads() -> int:
    """The threads that OpenMP uses by default: the stated number, or the processors that this process may run on."""
    stated = _stated()
    if stated is not None:
        return stated
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _stated() -> int | None:
    """The number in ``OMP_NUM_THREADS``, or the first of its list."""
    text = os.environ.get(VARIABLE, "").split(",")[0].strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def cgroup_quota(root: Path, groups: Path) -> float | None:
    """The processors that the control groups of this process may use together, version 1 or 2; None without a limit.

    Args:
        root: where the groups are mounted.
        groups: the file that lists the groups of this process.
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            quotas.extend(_quotas(root, path, _version_2))
        elif "cpu" in controllers.split(","):
            for mount in ("cpu", "cpu,cpuacct"):
                quotas.extend(_quotas(root / mount, path, _version_1))
    return min(quotas, default=None)


def _quotas(mount: Path, path: str, read: Callable[[Path], float | None]) -> Iterator[float]:
    """The quota of a group and of each group around it; inside a container the path may not exist."""
    place = mount / path.lstrip("/")
    for folder in (place, *place.parents):
        quota = read(folder)
        if quota is not None:
            yield quota
        if folder == mount:
            return


def _version_1(folder: Path) -> float | None:
    try:
        quota, period = (int((folder / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None


def _version_2(folder: Path) -> float | None:
    try:
        quota, _, period = (folder / "cpu.max").read_text().strip().partition(" ")
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max", or no such file
        return None


def dask_tasks() -> int:
    """How many tasks the Dask workers in this process run at once; 0 without a worker."""
    module = sys.modules.get("distributed.worker")
    workers = getattr(getattr(module, "Worker", None), "_instances", ())
    running = [worker for worker in list(workers) if getattr(getattr(worker, "status", None), "name", "") == "running"]
    return sum(int(one.state.nthreads) for one in running)
