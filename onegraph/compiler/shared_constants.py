"""Shares what is computed from constants between the programs of an executable.

Each program is compiled from its own copy of the graph, so an array is known by what it is computed from: the ops, and
the constants of the executable's graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from weakref import WeakValueDictionary

from .._util.interpreter_tricks import blake2b
from ..builder.graph import DataGraph
from ..ir.op import Array
from ..native.library import address_of
from .partition_store import PartitionStore

Key = bytes
# A constant of at most this many bytes that is not in the graph is known by its contents.
SMALL_BYTES = 1 << 10
_numbers = count()


class SharedConstants:
    """The arrays that the programs of an executable have computed. An array lives as long as a program that uses it.

    Args:
        arrays: the constants of the graphs of these programs; of one graph, or of several that differ in sizes.

    Attributes:
        partitions: what they share of their compilation.
    """

    def __init__(self, arrays: Iterable[Array]) -> None:
        # The views hold the memory, so that no other array can have its address.
        self._held = {address_of(array): array for array in arrays}
        self._arrays = WeakValueDictionary[Key, Array]()
        self.partitions = PartitionStore()

    @classmethod
    def of(cls, graph: DataGraph) -> SharedConstants:
        """What the programs of one graph share."""
        return cls([tensor.value for tensor in graph._tensors if tensor.value is not None])

    def key(self, array: Array) -> Key:
        """The key of a constant that no step computes, which is equal for equal constants only."""
        looks = array.dtype.num, array.shape, array.strides
        if (address := address_of(array)) in self._held:
            return derived(("graph", address, *looks))
        if array.nbytes <= SMALL_BYTES:
            return derived(("contents", *looks, array.tobytes()))
        return derived(("unknown", next(_numbers)))

    def find(self, key: Key) -> Array | None:
        """The array with this key, if a program has it."""
        return self._arrays.get(key)

    def keep(self, key: Key, array: Array) -> Array:
        """The array with this key: that of a program, otherwise ``array``."""
        return self._arrays.setdefault(key, array)

    def once(self, key: Key, make: Callable[[], Array]) -> Array:
        """The array with this key: that of a program, otherwise a new one."""
        contents = self.find(key)
        return self.keep(key, make()) if contents is None else contents


def derived(recipe: object, *sources: Key) -> Key:
    """The key of recipe is computed from other arrays; ``what`` is plain data with an exact ``repr``."""
    return blake2b(repr(recipe).encode() + b"".join(sources), digest_size=16).digest()
