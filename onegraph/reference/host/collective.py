"""Averages tensors over the processes of the group that this process has joined."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import StateError
from ...opset.schema import Call

Array = NDArray[Any]


class Collective(Protocol):
    """What the ops need of a group of processes; :mod:`onegraph.distributed` has the groups."""

    size: int

    def start(self, memory: Array) -> None:
        """Start to replace the elements by their sums over all processes."""

    def wait(self, memory: Array) -> None:
        """Wait until the sums are there.

        Raises:
            StateError: the group has lost a process, or nothing was started on this memory.
        """


_joined: list[Collective] = []


def set_group(group: Collective | None) -> None:
    """Let the ops of this process use a group; None leaves it."""
    _joined[:] = [] if group is None else [group]


def _group() -> Collective:
    if not _joined:
        raise StateError("this process is in no group; call onegraph.distributed.join() before the first step")
    return _joined[-1]


def all_reduce_start(call: Call, *sources: Array, out: Array | None = None) -> Array:
    """The elements of the sources, which the group changes from now on."""
    group = _group()
    sources = sources[1:] if call.flag("after") else sources
    size = sum(source.size for source in sources)
    memory = np.empty(size, np.float32) if out is None else out
    at = 0
    for source in sources:
        memory[at : at + source.size].reshape(source.shape)[...] = source
        at += source.size
    group.start(memory)
    return memory


def all_reduce_done(call: Call, src: Array, _after: Array | None = None, out: Array | None = None) -> Array:
    """The average."""
    group = _group()
    group.wait(src)
    averaged: Array = np.multiply(src, np.float32(1 / group.size), out=out)
    return averaged
