"""Defines the graph of a model that an earlier process has compiled: it is read when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..._util.fork_safety import new_rlock
from ..._util.init_once import refuse_unmade
from ...graph import Graph

if TYPE_CHECKING:
    from ...runtime.executable import Executable


class UnreadGraph(Graph):
    """A graph that is read at the first access to its ops, tensors, inputs or outputs.

    ``compile`` reads it only if there is no kept program.

    Args:
        key: of the model.
        read: reads the model.
    """

    def __init__(self, key: str, read: Callable[[], Graph]) -> None:
        self._key, self._read, self._reading = key, read, new_rlock()

    def compile(
        self,
        *,
        policy: str = "fusion",
        fallback: bool = True,
        fpmath_mode: str | None = "strict",
        threads: int | Mapping[int, int] | None = None,
        reproducible: bool = False,
    ) -> Executable:
        """Compile for the CPU engine; see :meth:`onegraph.Graph.compile`."""
        if "_ops" not in vars(self):
            from ...runtime.compile_options import compile_options
            from ...runtime.warm_start import find

            options = compile_options(None, policy, fallback, fpmath_mode, threads, reproducible)
            if (found := find(self._key, options, self._read)) is not None:
                return found
        return super().compile(
            policy=policy, fallback=fallback, fpmath_mode=fpmath_mode, threads=threads, reproducible=reproducible
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a missing attribute, such as those of a graph that was not read."""
            if name.startswith("__") or "_reading" not in vars(self):
                refuse_unmade(self, name)
                raise AttributeError(name)
            with self._reading:
                if "_ops" not in vars(self):
                    self.__setstate__(vars(self._read()))
            return object.__getattribute__(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).copy, (self.copy(),)
