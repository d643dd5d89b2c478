"""Settings of the process: threads, and what the library and the machine are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import native
from .errors import ArgumentError, UnsupportedError
from .native import enum_names, lib, read
from .spec.dtypes import DataType

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
_ISAS = enum_names("cpu_isa_", ISA_NAMES)


def get_num_threads() -> int | None:
    """Number of threads that the calling thread's next run uses; None where the library is not built with OpenMP."""
    function = native.omp_function("omp_get_max_threads")
    return None if function is None else int(function())


def set_num_threads(count: int) -> None:
    """Set the number of threads for runs that the calling thread starts.

    Raises:
        ArgumentError: the count is not a positive integer.
        UnsupportedError: the library is not built with OpenMP.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 4096:
        raise ArgumentError(f"threads: {count!r:.100}; expected an integer, 1 to 4096")
    function = native.omp_function("omp_set_num_threads")
    if function is None:
        raise UnsupportedError(f"the library runs its threads with {native.RUNTIME}; only OpenMP's can be set")
    function(count)


@contextmanager
def thread_count(count: int | None) -> Iterator[None]:
    """Run the block with ``count`` threads, then restore the caller's setting; None changes nothing."""
    before = get_num_threads() if count is not None else None
    if count is None or before is None:
        yield
        return
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


def version_info() -> dict[str, object]:
    """Library, machine and settings, as plain values.

    Returns:
        version, hash and path of the library; its threading runtime and number of threads; the instruction set that it
        uses and the cap on it; the data types that it has and those that the CPU computes natively; cache settings.
    """
    isa = _ISAS.get(int(lib.dnnl_get_effective_cpu_isa()), "unknown")
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
        "dtypes": [d.value for d in DataType if native.DTYPE_SINCE.get(d, native.OLDEST) <= native.VERSION],
        "cpu_dtypes": native_types,
        "constant_tensor_cache": bool(read(lib.dnnl_graph_get_constant_tensor_cache, "int")),
        "compiled_partition_cache_capacity": int(read(lib.dnnl_graph_get_compiled_partition_cache_capacity, "int")),
        "primitive_cache_capacity": int(read(lib.dnnl_get_primitive_cache_capacity, "int")),
    }


# A child that is forked after a run with several threads would wait for ever for threads that it does not have.
if native.omp_function("omp_set_num_threads") is not None:
    os.register_at_fork(after_in_child=lambda: set_num_threads(1))
