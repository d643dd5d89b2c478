"""Reads and sets the library's caches: of primitives, compiled partitions and prepared constants."""

from __future__ import annotations

from .._util.validation import flag, integer
from ..errors import StateError, UnsupportedError
from ..native import library
from ..native.library import call, ffi, lib, read
from .engine import engine_kind_value


def get_primitive_cache_capacity() -> int:
    """Number of primitives that the library caches; a later compilation of an equal primitive takes it from there."""
    return int(read(lib.dnnl_get_primitive_cache_capacity, "int"))


def set_primitive_cache_capacity(capacity: int) -> None:
    """Set how many primitives the library caches; 0 caches none. Waits until no other thread is in the library.

    Raises:
        ArgumentError: the capacity is not an integer of 0 or more.
        UnsupportedError: the library is older than 3.6, where a small capacity makes it use evicted primitives and
            crash.
    """
    number = integer("capacity", capacity, 0, 2**31 - 1)
    if 0 < number < library.LEAST_PRIMITIVES:
        raise UnsupportedError(
            f"capacity: {number}; oneDNN before 3.6 crashes where it keeps a few primitives; expected 0, or "
            f"{library.LEAST_PRIMITIVES} and more"
        )
    call(lib.dnnl_set_primitive_cache_capacity, number)


def get_compiled_partition_cache_capacity() -> int:
    """Number of compiled partitions that the library caches; onegraph sets 0."""
    return int(read(lib.dnnl_graph_get_compiled_partition_cache_capacity, "int"))


def set_compiled_partition_cache_capacity(capacity: int) -> None:
    """Set how many compiled partitions the library caches; compiling the same partition object again takes them.

    Raises:
        ArgumentError: the capacity is not an integer of 0 or more.
    """
    number = integer("capacity", capacity, 0, 2**31 - 1)
    _capacity_changes[0] += 1
    call(lib.dnnl_graph_set_compiled_partition_cache_capacity, number)
    _capacity_changes[0] += 1


def compiled_partition_cache_changes() -> int:
    """A counter that changes whenever the capacity of the compiled-partition cache is set."""
    return _capacity_changes[0]


_capacity_changes = [0]


# Whether partitions that users compile keep constants where the library finds them by a hash.
_hashed = [False]


def get_constant_tensor_cache() -> bool:
    """Whether compiled partitions keep what the library computes from constants, such as reordered weights.

    True before 3.3, and False from 3.3 on, where a partition may get the constants of another. The partitions of
    ``Graph.compile`` keep theirs in every version, after a check.
    """
    return _hashed[0] if library.HASHES_CONSTANTS else bool(read(lib.dnnl_graph_get_constant_tensor_cache, "int"))


_broken = [False]  # a list, as above


def programs_keep_constants() -> bool:
    """Whether the partitions of ``Graph.compile`` keep what the library computes from constants."""
    return not _broken[0] and bool(read(lib.dnnl_graph_get_constant_tensor_cache, "int"))


def give_up_constants() -> None:
    """Keep no more constants and leave the library's cache alone, because a preparation got no memory.

    From 3.3 on the cache then has an entry without contents, at which every change of the cache would throw or wait
    for ever.
    """
    _broken[0] = library.HASHES_CONSTANTS


def set_constant_tensor_cache(enabled: bool) -> None:
    """Switch the constant tensor cache on or off, before anything is compiled.

    Raises:
        ArgumentError: ``enabled`` is neither True nor False.
        StateError: something was compiled; executing it after the change would crash.
    """
    flag("enabled", enabled)
    if enabled == get_constant_tensor_cache():
        return
    with library.before_compilation:
        if library.has_compiled():
            raise StateError("the constant tensor cache can be switched only before anything is compiled")
        if library.HASHES_CONSTANTS:
            _hashed[0] = enabled
        else:
            call(lib.dnnl_graph_set_constant_tensor_cache, int(enabled))


def get_constant_tensor_cache_capacity(engine_kind: str = "cpu") -> int:
    """Megabytes that the constant tensor cache may hold.

    Raises:
        UnsupportedError: the library is older than 3.4.
    """
    capacity = ffi.new("size_t *")
    call(_capacity_function("get"), engine_kind_value(engine_kind), capacity)
    return int(capacity[0])


def set_constant_tensor_cache_capacity(capacity: int, engine_kind: str = "cpu") -> None:
    """Set how many megabytes the constant tensor cache may hold, before anything is compiled.

    Raises:
        UnsupportedError: the library is older than 3.4.
        ArgumentError: the capacity is not an integer of 0 or more.
        StateError: something was compiled.
    """
    function = _capacity_function("set")
    number, kind = integer("capacity", capacity, 0, 2**31 - 1), engine_kind_value(engine_kind)
    with library.before_compilation:
        if library.has_compiled():
            raise StateError("the capacity of the constant tensor cache can be set only before anything is compiled")
        call(function, kind, number)


def _capacity_function(verb: str) -> library.Function:
    return library.newer_function(f"dnnl_graph_{verb}_constant_tensor_cache_capacity", "3.4")
