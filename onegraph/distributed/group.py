"""Groups of processes that train one model together."""

from __future__ import annotations

import os
import re
import warnings
from contextlib import suppress
from datetime import timedelta
from itertools import count
from types import TracebackType
from typing import Any

import numpy as np

from .._util.validation import expect, integer, number, string
from ..errors import ArgumentError, StateError, UnsupportedError
from ..ir.op import Array
from ..native.library import address_of
from ..reference.host.collective import set_group
from ..runtime.executable import Executable

TIMEOUT = 60.0  # seconds
MOST = 2**20  # processes
TRIES = 3  # to connect all processes
GRACE = timedelta(seconds=5)  # in which a process tells that it waited in vain for another one
# The variables that torchrun and other launchers set.
RANK, SIZE = "RANK", "WORLD_SIZE"


class Group:
    """The processes that train one model together; :func:`join` makes it. This one has a single process.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    def start(self, memory: Array) -> None:
        """Start to add an array over all processes, in its memory."""

    def wait(self, memory: Array) -> None:
        """Wait until the sums are there."""

    def share_variables(self, executable: Executable) -> None:
        """Give the variables of rank 0 to all processes. Every process calls this with an executable of one graph.

        Raises:
            StateError: the group has lost a process.
        """
        expect("share_variables: executable", executable, Executable)
        values = {name: array.copy() for name, array in executable.variables.items()}  # to write to
        for array in values.values():
            self._send(array)
        executable.variables.update(values)

    def _send(self, array: Array) -> None:
        """Fill the array with that of rank 0."""

    def leave(self) -> None:
        """Leave the group. Later steps raise StateError."""
        set_group(None)

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class Gloo(Group):
    """A group of processes that are connected by TCP, with the library gloo of PyTorch.

    Args:
        rank, size: as for :class:`Group`.
        address: where rank 0 listens, as ``host:port``; None takes ``MASTER_ADDR`` and ``MASTER_PORT``.
        timeout: after how many seconds a process that is silent is lost.

    Raises:
        StateError: not all processes have joined in time.
    """

    def __init__(self, rank: int, size: int, address: str | None, timeout: float) -> None:
        super().__init__(rank, size)
        self._torch, self._timeout = _torch(), timedelta(seconds=timeout)
        self._works: dict[int, tuple[Any, Any]] = {}  # by address: the work, and the tensor that keeps the memory
        self._lost = ""
        method = "env://" if address is None else f"tcp://{address}"
        try:
            self._join(method)
        except (RuntimeError, ValueError) as error:
            raise StateError(f"join: rank {rank} of {size} at {method}: {_first_line(error)}") from None

    def _join(self, method: str) -> None:
        """Connect with all others. If a process cannot, all of them try again: gloo loses connections now and then."""
        distributed = self._torch.distributed
        store, *_ = next(distributed.rendezvous(method, self.rank, self.size, timeout=self._timeout))
        for attempt in count(1):
            why = self._connect(distributed.PrefixStore(f"onegraph/{attempt}", store))
            told = self._told(distributed.PrefixStore(f"onegraph/{attempt}/told", store), why)
            if not told:
                return
            if not distributed.is_initialized():  # its end makes PyTorch count groups anew, as in the other processes
                distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
            distributed.destroy_process_group()
            if attempt == TRIES:
                raise RuntimeError(f"{told}, in each of {TRIES} attempts")
            here, number = f"join: rank {self.rank} of {self.size}", f"attempt {attempt} of {TRIES}"
            warnings.warn(f"{here}: {told}, in {number}; all processes try again", RuntimeWarning, stacklevel=4)

    def _connect(self, store: Any) -> str:
        """Make the group of this process; returns why that failed."""
        store.set_timeout(self._timeout)
        try:
            self._torch.distributed.init_process_group(
                "gloo", store=store, rank=self.rank, world_size=self.size, timeout=self._timeout
            )
        except RuntimeError as error:
            return _first_line(error) or "gloo fails"
        return ""

    def _told(self, store: Any, why: str) -> str:
        """Tell all processes whether this one is connected; returns what one that is not has told.

        Raises:
            RuntimeError: a process tells nothing: it has ended.
        """
        ranks = range(self.size)
        store.set(f"{self.rank}", f"!{why}")
        try:
            store.wait([f"{rank}" for rank in ranks], self._timeout + min(self._timeout, GRACE))
        except RuntimeError:
            silent = next(rank for rank in ranks if not store.check([f"{rank}"]))
            raise RuntimeError(f"rank {silent} has ended, or is silent") from None
        every = [(rank, store.get(f"{rank}").decode()[1:]) for rank in ranks]
        store.set(f"{self.rank}/read", "")
        if self.rank == 0:  # which has the store: it is not to end before the others have read
            with suppress(RuntimeError):
                store.wait([f"{rank}/read" for rank in ranks], GRACE)
        lost = [(rank, text) for rank, text in every if text]
        cause = next((one for one in lost if "timeout" not in one[1]), next(iter(lost), None))  # a cause, no effect
        return f"rank {cause[0]} has lost the rendezvous: {cause[1]}" if cause else ""

    def start(self, memory: Array) -> None:
        """Start to add an array over all processes, in its memory; gloo's own threads do it."""
        self._refuse_lost()
        place = address_of(memory)
        if place in self._works:
            self._lose("an earlier step was interrupted")
        tensor = self._torch.from_numpy(memory)
        try:
            self._works[place] = self._torch.distributed.all_reduce(tensor, async_op=True), tensor
        except RuntimeError as error:
            self._lose(_first_line(error))

    def wait(self, memory: Array) -> None:
        """Wait until the sums are there.

        Raises:
            StateError: the group has lost a process, or nothing was started on this memory.
        """
        self._refuse_lost()
        work, _ = self._works.pop(address_of(memory), (None, None))
        if work is None:
            raise StateError("AllReduceDone: this memory is not that of an AllReduceStart")
        try:
            work.wait()
        except RuntimeError as error:
            self._lose(_first_line(error))

    def _send(self, array: Array) -> None:
        self._refuse_lost()
        try:
            self._torch.distributed.broadcast(self._torch.from_numpy(array.ravel().view(np.uint8)), 0)
        except RuntimeError as error:
            self._lose(_first_line(error))

    def leave(self) -> None:
        """Leave the group, and close its connections, which ends the waiting of the others."""
        super().leave()
        if self._torch.distributed.is_initialized():
            self._torch.distributed.destroy_process_group()

    def _lose(self, why: str) -> None:
        self._lost = (
            f"rank {self.rank} of {self.size} has lost its group: {why}; the variables are those of the last whole "
            "step; end all processes, and start them again from a checkpoint"
        )
        self.leave()
        set_group(self)  # whose error says more than that there is no group
        raise StateError(self._lost)

    def _refuse_lost(self) -> None:
        if self._lost:
            raise StateError(self._lost)


def join(
    rank: int | None = None, size: int | None = None, address: str | None = None, *, timeout: float = TIMEOUT
) -> Group:
    """Join the group of processes that train one model together. Every process calls this once, before the first step.

    Without arguments it takes the environment variables ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``,
    which ``torchrun`` sets; without these variables the process trains alone. A group of several processes needs the
    extra ``torch``, and uses its library gloo. If that loses a connection, all processes warn and try again.

    Args:
        rank: the number of this process, from 0.
        size: the number of processes.
        address: where the process of rank 0 listens, such as ``"10.0.0.1:29500"``.
        timeout: after how many seconds a process that is silent is lost. A process that ends is lost at once.

    Returns:
        the group. It is a context manager, which leaves the group at the end.

    Raises:
        StateError: not all processes have joined in time.
        UnsupportedError: PyTorch is not installed.
        ArgumentError: an argument is out of range.
    """
    members = integer("join: size", _stated(SIZE, 1) if size is None else size, 1, MOST)
    number_of_this = integer("join: rank", _stated(RANK, 0) if rank is None else rank, 0, members - 1)
    seconds = number("join: timeout", timeout, 1e-3, 86400.0)
    place = None if address is None else string("join: address", address, "host:port")
    group = Group() if members == 1 else Gloo(number_of_this, members, place, seconds)
    set_group(group)
    return group


def _stated(variable: str, default: int) -> int:
    """The number in an environment variable."""
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit()):
        raise ArgumentError(f"join: the environment variable {variable} is {text!r}; expected a number")
    return int(text)


def _torch() -> Any:
    try:
        import torch
        import torch.distributed
    except ImportError:
        raise UnsupportedError("a group of several processes needs PyTorch: pip install 'onegraph[torch]'") from None
    return torch


def _first_line(error: BaseException) -> str:
    """The message of an error of PyTorch, without the file of PyTorch that raised it."""
    return re.sub(r"^\[\S+\] ", "", str(error).strip().partition("\n")[0])
