"""Defines the graph of a model that an earlier process has compiled: it is read when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._util.fork_safety import new_rlock
from ..._util.init_once import refuse_unmade
from ...graph import Graph

if TYPE_CHECKING:
    from ..._util.mapped_file import SourceFiles
    from ...runtime.compile_options import GivenOptions
    from ...runtime.executable import Executable


class UnreadGraph(Graph):
    """A graph that is read at the first access to its ops, tensors, inputs or outputs.

    ``compile`` reads it only if there is no kept program.

    Args:
        key: of the model.
        files: of the model.
        read: reads the model from them.
    """

    def __init__(self, key: str, files: SourceFiles, read: Callable[[], Graph]) -> None:
        self._key, self._files, self._read, self._reading = key, files, read, new_rlock()

    def _compiled_before(self, options: GivenOptions) -> Executable | None:
        if "_ops" in vars(self):
            return None
        from ...runtime.compile_options import compile_options
        from ...runtime.warm_start import find

        return find(self._key, compile_options(None, *options), self._files, self._read)

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
