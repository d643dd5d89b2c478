"""A stand-in for the part of PyTorch that connects processes: it keeps the calls, and what others told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import onegraph as og


class GlooStandIn:
    """What ``torch`` and ``torch.distributed`` are for one process of a group.

    Args:
        told: what other processes have written into the store, by key.
        errors: by the name of a call, the messages of the errors that its first calls raise; empty for none.

    Attributes:
        calls: in words, in their order.
    """

    def __init__(self, told: Mapping[str, str], errors: Mapping[str, Sequence[str | None]]) -> None:
        self.calls, self.known, self.is_initialized = list[str](), dict(told), False
        self._errors = {name: [*messages] for name, messages in errors.items()}
        self.torch, self.distributed = ModuleType("torch"), ModuleType("torch.distributed")
        vars(self.torch).update(distributed=self.distributed, from_numpy=np.asarray)
        names = "rendezvous", "init_process_group", "destroy_process_group", "all_reduce", "broadcast"
        vars(self.distributed).update({name: getattr(self, name) for name in names})
        vars(self.distributed).update(PrefixStore=lambda prefix, _: PrefixStandIn(self, prefix), HashStore=lambda: None)
        vars(self.distributed).update(is_initialized=lambda: self.is_initialized)

    def called(self, name: str, words: str) -> None:
        """Keep a call; it raises the next of its errors."""
        self.calls.append(f"{name} {words}".strip())
        message = next(iter(self._errors.get(name, [])), None)
        del self._errors.get(name, [])[:1]
        if message is not None:
            raise RuntimeError(message)

    def rendezvous(self, method: str, rank: int, size: int, timeout: timedelta) -> Iterator[tuple[object, int, int]]:
        """The store that all processes share."""
        self.called("rendezvous", f"{method} {rank} of {size} {timeout.total_seconds():g} s")
        yield None, rank, size

    def init_process_group(self, backend: str, *, store: Any, rank: int, world_size: int, **options: timedelta) -> None:
        """Connect the processes."""
        limit = "".join(f" {value.total_seconds():g} s" for value in options.values())
        self.called("init_process_group", f"{backend} {rank} of {world_size} {store and store.prefix}{limit}")
        self.is_initialized = True

    def destroy_process_group(self) -> None:
        """Disconnect them."""
        assert self.is_initialized
        self.called("destroy_process_group", "")
        self.is_initialized = False

    def all_reduce(self, tensor: Any, async_op: bool) -> SimpleNamespace:
        """Start to add arrays: the others have the same numbers."""
        self.called("all_reduce", f"{tensor.tolist()} {async_op}")

        def wait() -> None:
            self.called("wait", "")
            tensor[...] *= 2

        return SimpleNamespace(wait=wait)

    def broadcast(self, tensor: Any, source: int) -> None:
        """Send an array: that of the first process has twos in all its bytes."""
        self.called("broadcast", f"{tensor.dtype} {tensor.shape} from {source}")
        tensor[...] = 2


class PrefixStandIn:
    """A store whose keys begin with a prefix."""

    def __init__(self, own: GlooStandIn, prefix: str) -> None:
        self._own, self.prefix = own, prefix

    def set_timeout(self, timeout: timedelta) -> None:
        """How long it waits where no time is given."""
        self._own.calls.append(f"{self.prefix} waits {timeout.total_seconds():g} s")

    def set(self, key: str, value: str) -> None:
        """Write a text."""
        self._own.calls.append(f"{self.prefix}/{key} is {value!r}")
        self._own.known[f"{self.prefix}/{key}"] = value

    def get(self, key: str) -> bytes:
        """A text that is there."""
        return self._own.known[f"{self.prefix}/{key}"].encode()

    def check(self, keys: Sequence[str]) -> bool:
        """Whether texts are there."""
        return all(f"{self.prefix}/{key}" in self._own.known for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        """Wait for texts: those that are not there never come."""
        self._own.calls.append(f"wait {' '.join(keys)} for {timeout.total_seconds():g} s")
        if not self.check(keys):
            raise RuntimeError("wait timeout")


def join(*arguments: Any, **options: Any) -> og.distributed.Group:
    """Join a group: warnings name this file."""
    return og.distributed.join(*arguments, **options)
