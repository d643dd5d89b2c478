"""Settings of the process: threads, caches, arithmetic, instruction sets; and what the library and the machine are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_int, c_size_t

from .. import native
from ..errors import ArgumentError, StateError, StatusError, UnsupportedError, shown
from ..native import call, enum_names, enum_value, lib, read
from ..spec.dtypes import DataType
from .engine import engine_kind_value, engines_exist
from .validate import choice, integer

ISA_NAMES = (
    "sse41",
    "avx",
    "avx2",
    "avx2_vnni",
    "avx2_vnni_2",
    "avx512_core",
    "avx512_core_vnni",
    "avx512_core_bf16",
    "avx512_core_fp16",
    "avx512_core_amx",
    "avx512_core_amx_fp16",
)
ISA_HINTS = ("no_hints", "prefer_ymm")
FPMATH_MODES = ("strict", "bf16", "f16", "any", "tf32")
# More threads than processors only get in each other's way, and OpenMP ends the process where it can start no more.
MAX_THREADS = max(64, os.cpu_count() or 1)
_ISAS = enum_names("cpu_isa_", ISA_NAMES)
_HINTS = enum_names("cpu_isa_", ISA_HINTS)
_MODES = enum_names("fpmath_mode_", FPMATH_MODES)


# Threads --------------------------------------------------------------------------------------------------------------

# Runtimes that hand the work to threads of their own and wait for them.
THREADED_ELSEWHERE = ("SYCL", "TBB", "thread pool")
_forked: set[int] = set()


def get_num_threads() -> int | None:
    """Number of threads that runs of the calling thread may use; None where the library is not built with OpenMP.

    It is OpenMP's setting of the calling thread: a new thread begins with that of the process, from ``OMP_NUM_THREADS``
    or the number of processors, whatever other threads have set.
    """
    function = native.omp_function("omp_get_max_threads")
    return None if function is None else int(function())


def check_threads(count: object) -> int:
    """``count`` as a number of threads.

    Raises:
        ArgumentError: it is not a positive integer, or far more than there are processors.
    """
    return integer("threads", count, 1, MAX_THREADS)


def is_forked() -> bool:
    """Whether the calling thread comes out of a fork after something was run, and so can use one thread only."""
    return threading.get_ident() in _forked


def set_num_threads(count: int) -> None:
    """Set the number of threads for runs that the calling thread starts, from the next one on.

    Other threads keep theirs; see ``get_num_threads``, and ``num_threads`` for a block. An executable that was compiled
    with a number of threads of its own uses that.

    Raises:
        ArgumentError: the count is not a positive integer, or far more than there are processors.
        UnsupportedError: the library is not built with OpenMP; or this thread comes out of a fork, where OpenMP would
            wait for ever for threads that the child does not have.
    """
    number = check_threads(count)
    function = native.omp_function("omp_set_num_threads")
    if function is None:
        raise UnsupportedError(f"the library runs its threads with {native.RUNTIME}; only OpenMP's can be set")
    if number > 1 and is_forked():
        raise UnsupportedError(
            f"threads: {number}; this process was forked after oneDNN ran, so that this thread can only use 1; "
            "start processes with the method spawn, or run in a new thread"
        )
    function(number)


@contextmanager
def num_threads(count: int) -> Iterator[None]:
    """A block in which runs of the calling thread use ``count`` threads: ``with onegraph.num_threads(2): ...``.

    Raises:
        ArgumentError, UnsupportedError: as for ``set_num_threads``.
    """
    before = get_num_threads() or 1
    try:
        set_num_threads(count)
        yield
    finally:
        restore_threads(before)


# Sets the number of threads of the calling thread. It is no Python function, so that in a ``finally`` it is done before
# an interrupt can come.
restore_threads: Callable[[int], object] = native.omp_function("omp_set_num_threads") or int


class ThreadCount:
    """The number of threads of the calling thread, for as long as it changes; where it cannot be set, nothing does.

    Whoever makes one calls ``restore_threads(count.before)`` in the end.
    """

    def __init__(self) -> None:
        self.before = self._now = get_num_threads() or 1
        self._is_fixed = is_forked()

    def use(self, count: int | None) -> None:
        """From now on use so many threads; None for as many as at first."""
        count = count or self.before
        if count != self._now and not self._is_fixed:
            restore_threads(count)
            self._now = count


def _after_fork() -> None:
    """A forked child has none of the library's threads; it would wait for them for ever."""
    if native.RUNTIME in THREADED_ELSEWHERE:
        if native.has_compiled():
            lib.onegraph_lose_threads()
    elif engines_exist():  # OpenMP can do with the one that there is
        lib.onegraph_forked()
        _forked.add(threading.get_ident())


if native.omp_function("omp_set_num_threads") is not None or native.RUNTIME in THREADED_ELSEWHERE:
    os.register_at_fork(after_in_child=_after_fork)


# Caches ---------------------------------------------------------------------------------------------------------------


def get_primitive_cache_capacity() -> int:
    """Number of primitives that the library keeps for the next compilation of the same."""
    return int(read(lib.dnnl_get_primitive_cache_capacity, "int"))


def set_primitive_cache_capacity(capacity: int) -> None:
    """Set how many primitives the library keeps; 0 keeps none.

    Raises:
        ArgumentError: the capacity is not an integer of 0 or more.
    """
    call(lib.dnnl_set_primitive_cache_capacity, integer("capacity", capacity, 0, 2**31 - 1))


def get_compiled_partition_cache_capacity() -> int:
    """Number of compiled partitions that the library keeps; onegraph sets 0."""
    return int(read(lib.dnnl_graph_get_compiled_partition_cache_capacity, "int"))


def set_compiled_partition_cache_capacity(capacity: int) -> None:
    """Set how many compiled partitions the library keeps for the next compilation of the same partition object.

    Raises:
        ArgumentError: the capacity is not an integer of 0 or more.
    """
    number = integer("capacity", capacity, 0, 2**31 - 1)
    _capacity_changes[0] += 1
    call(lib.dnnl_graph_set_compiled_partition_cache_capacity, number)
    _capacity_changes[0] += 1


def compiled_partition_cache_changes() -> int:
    """A number that differs from an earlier one where the capacity was set in between."""
    return _capacity_changes[0]


_capacity_changes = [0]


def get_constant_tensor_cache() -> bool:
    """Whether the library keeps what it makes of constant tensors, such as reordered weights.

    onegraph sets True, and False from 3.3 on: there partitions may be given the constants of others.
    """
    return bool(read(lib.dnnl_graph_get_constant_tensor_cache, "int"))


def set_constant_tensor_cache(enabled: bool) -> None:
    """Switch the constant tensor cache on or off, before anything is compiled.

    Raises:
        ArgumentError: ``enabled`` is neither True nor False.
        StateError: something was compiled; the library would crash on it after a change.
    """
    if not isinstance(enabled, bool):
        raise ArgumentError(f"enabled: {shown(enabled)}; expected True or False")
    if enabled == get_constant_tensor_cache():
        return
    if native.has_compiled():
        raise StateError("the constant tensor cache can be switched only before anything is compiled")
    call(lib.dnnl_graph_set_constant_tensor_cache, int(enabled))


def get_constant_tensor_cache_capacity(engine_kind: str = "cpu") -> int:
    """Megabytes that the constant tensor cache may hold.

    Raises:
        UnsupportedError: the library is older than 3.4.
    """
    function = _capacity_function("get", POINTER(c_size_t))
    found = c_size_t()
    _checked("get", function(engine_kind_value(engine_kind), byref(found)))
    return found.value


def set_constant_tensor_cache_capacity(capacity: int, engine_kind: str = "cpu") -> None:
    """Set how many megabytes the constant tensor cache may hold, before anything is compiled.

    Raises:
        UnsupportedError: the library is older than 3.4.
        ArgumentError: the capacity is not an integer of 0 or more.
        StateError: something was compiled.
    """
    function = _capacity_function("set", c_size_t)
    number, kind = integer("capacity", capacity, 0, 2**31 - 1), engine_kind_value(engine_kind)
    if native.has_compiled():
        raise StateError("the capacity of the constant tensor cache can be set only before anything is compiled")
    _checked("set", function(kind, number))


def _capacity_function(verb: str, argument: object) -> native.Function:
    name = f"dnnl_graph_{verb}_constant_tensor_cache_capacity"
    function = native.library_function(name, [c_int, argument])
    if function is None:
        loaded = ".".join(map(str, native.VERSION))
        raise UnsupportedError(f"{name} needs oneDNN 3.4; the loaded library is {loaded}")
    return function


def _checked(verb: str, status: int) -> None:
    if status:
        raise native.status_error(f"dnnl_graph_{verb}_constant_tensor_cache_capacity", status)


# Arithmetic and instruction sets --------------------------------------------------------------------------------------


def get_default_fpmath_mode() -> str:
    """How far f32 arithmetic of new primitives may be lowered where a graph does not say."""
    return _MODES[read(lib.dnnl_get_default_fpmath_mode, "dnnl_fpmath_mode_t")]


def set_default_fpmath_mode(mode: str) -> None:
    """Set how far f32 arithmetic may be lowered: strict, bf16, f16, any, tf32.

    Raises:
        ArgumentError: the mode is none of these.
    """
    call(lib.dnnl_set_default_fpmath_mode, enum_value("fpmath_mode_", choice("mode", mode, FPMATH_MODES)))


def get_cpu_isa() -> str:
    """The instruction set that the library uses at most. It is fixed from the first call on."""
    return _ISAS.get(int(lib.dnnl_get_effective_cpu_isa()), "unknown")


def has_vnni() -> bool:
    """Whether the library may use instructions that add products of int8 in 32 bits; without them 16 bits overflow."""
    return get_cpu_isa() not in ("sse41", "avx", "avx2", "avx512_core")


def set_max_cpu_isa(isa: str) -> None:
    """Keep the library from using newer instruction sets than ``isa``; ``default`` takes the cap away.

    Raises:
        ArgumentError: there is no such instruction set.
        StateError: the library has made its choice already.
    """
    number = enum_value("cpu_isa_", choice("isa", isa, ("default", *ISA_NAMES)))
    _early("the instruction set", lib.dnnl_set_max_cpu_isa, number)


def get_cpu_isa_hints() -> str:
    """``no_hints`` or ``prefer_ymm``."""
    return _HINTS[int(lib.dnnl_get_cpu_isa_hints())]


def set_cpu_isa_hints(hints: str) -> None:
    """Let the library prefer registers of 256 bits (``prefer_ymm``), or not (``no_hints``).

    Raises:
        ArgumentError: there is no such hint.
        StateError: the library has made its choice already.
    """
    number = enum_value("cpu_isa_", choice("hints", hints, ISA_HINTS))
    _early("the hint", lib.dnnl_set_cpu_isa_hints, number)


def _early(what: str, function: native.Function, value: int) -> None:
    try:
        call(function, value)
    except StatusError as error:
        raise StateError(f"{what} can be set only before the library is first used ({error})") from None


def set_verbose(level: int) -> None:
    """Let the library print what it does on stdout: 0 nothing, 1 executions, 2 compilations too.

    Raises:
        ArgumentError: the level is none of these.
    """
    call(lib.dnnl_set_verbose, integer("level", level, 0, 2))


# What there is --------------------------------------------------------------------------------------------------------


def version_info() -> dict[str, object]:
    """Library, machine and settings, as plain values.

    Returns:
        version, hash and path of the library; its threading runtime and number of threads; the instruction set that it
        uses and the cap on it; the data types that it has and those that the CPU computes natively; cache settings.
    """
    isa = get_cpu_isa()
    rank = ISA_NAMES.index(isa) if isa in ISA_NAMES else -1
    native_types = ["f32", "s8", "u8", "s32"]
    if rank >= ISA_NAMES.index("avx512_core"):
        native_types.insert(1, "bf16")
    if rank >= ISA_NAMES.index("avx512_core_fp16"):
        native_types.insert(2, "f16")
    return {
        "version": ".".join(map(str, native.VERSION)),
        "hash": native.HASH,
        "path": native.PATH,
        "threading_runtime": native.RUNTIME,
        "threads": get_num_threads(),
        "cpu_isa": isa,
        "max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "no cap",
        "dtypes": [d.value for d in DataType if d.since <= native.VERSION],
        "cpu_dtypes": native_types,
        "constant_tensor_cache": get_constant_tensor_cache(),
        "compiled_partition_cache_capacity": get_compiled_partition_cache_capacity(),
        "primitive_cache_capacity": get_primitive_cache_capacity(),
    }
