"""Reads and changes process-wide settings of arithmetic and instruction sets, and describes library and machine."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from .._util.cache_folder import get_cache_folder
from .._util.validation import choice, integer
from ..errors import StateError, StatusError
from ..faults.cpus import EVERY_ISA, ISA_NAMES, computes
from ..faults.execution import ALIGNMENT, UNALIGNED
from ..ir.op import Array
from ..native import library
from ..native.library import address_of, call, enum_names, enum_value, lib, read
from ..opset.dtypes import DataType
from .caches import get_compiled_partition_cache_capacity, get_constant_tensor_cache, get_primitive_cache_capacity
from .threads import get_num_threads

ISA_HINTS = ("no_hints", "prefer_ymm")
FPMATH_MODES = ("strict", "bf16", "f16", "any", "tf32")
_HINTS = enum_names("cpu_isa_", ISA_HINTS)
_MODES = enum_names("fpmath_mode_", FPMATH_MODES)


# Arithmetic and instruction sets --------------------------------------------------------------------------------------


def get_default_fpmath_mode() -> str:
    """The lowest precision that f32 arithmetic of new primitives may use: strict, bf16, f16, any or tf32.

    It applies where a graph has no mode of its own.
    """
    return _MODES[read(lib.dnnl_get_default_fpmath_mode, "dnnl_fpmath_mode_t")]


def set_default_fpmath_mode(mode: str) -> None:
    """Set the lowest precision that f32 arithmetic may use: strict, bf16, f16, any or tf32.

    Raises:
        ArgumentError: the mode is none of these.
    """
    call(lib.dnnl_set_default_fpmath_mode, enum_value("fpmath_mode_", choice("mode", mode, FPMATH_MODES)))


def get_cpu_isa() -> str:
    """The newest instruction set that the library may use. The first call fixes it."""
    return library.newest_isa(EVERY_ISA)


def has_vnni() -> bool:
    """Whether the library may use VNNI, which sums int8 products in 32 bits; older instructions overflow 16 bits."""
    return get_cpu_isa() not in ("sse41", "avx", "avx2", "avx512_core")


def has_avx512() -> bool:
    """Whether the library may use AVX-512; kernels for older CPUs have longer sequential sums."""
    return get_cpu_isa().startswith(("avx512", "avx10"))


def has_amx() -> bool:
    """Whether the library may use AMX, whose kernels copy the source of a convolution."""
    return "amx" in get_cpu_isa()


def has_avx2() -> bool:
    """Whether the library may use AVX2; kernels for older CPUs read some memory as if it were aligned."""
    return get_cpu_isa() not in ("sse41", "avx")


@cache
def core_cache() -> int:
    """Bytes of the last-level cache for each core; 1 MiB if the system does not tell."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache/index3")
    try:
        size, shared = ((folder / name).read_text().strip() for name in ("size", "shared_cpu_map"))
        cores = sum(int(word, 16).bit_count() for word in shared.split(","))
        return (int(size.removesuffix("K")) << 10) // cores
    except (OSError, ValueError, ZeroDivisionError):
        return 1 << 20


def least_alignment() -> int:
    """Bytes that every address which the library is handed is a multiple of: ``unaligned_without_avx2``."""
    return ALIGNMENT if UNALIGNED.when(has_avx2()) else 1


def alignment_of(array: Array) -> int:
    """Alignment in bytes that the library needs to read and write an array."""
    return max(least_alignment(), array.itemsize)


def is_aligned(array: Array) -> bool:
    """Whether the library can read and write an array without a copy."""
    return array.flags.aligned and address_of(array) % least_alignment() == 0


@cache
def is_native(dtype: DataType) -> bool:
    """Whether the CPU computes in a data type with the instructions that the library may use."""
    return computes(dtype, get_cpu_isa())


@cache
def slow_types() -> frozenset[DataType]:
    """The 16-bit types in which the library is no faster than in f32.

    avx512_core_fp16 multiplies f16 as f32, in as many instructions; AMX has instructions of its own for f16 and bf16.
    Cores that are made for AMX multiply bf16 in vectors at the speed of f32, to which the library adds copies.
    """
    isa = get_cpu_isa()
    is_fast = isa in EVERY_ISA and EVERY_ISA.index(isa) >= EVERY_ISA.index("avx512_core_amx_fp16")
    slow = [] if is_fast else [DataType.f16]
    is_native_and_fast = is_native(DataType.bf16) and (has_amx() or not _is_made_for_amx())
    return frozenset(slow if is_native_and_fast else [*slow, DataType.bf16])


def _is_made_for_amx() -> bool:
    """Whether the CPU is one of Intel's that have AMX, even if the library, the system or the machine hides it."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(4096)  # of the first processors
    except OSError:
        return False
    return b"GenuineIntel" in text and b"avx512_fp16" in text


def set_max_cpu_isa(isa: str) -> None:
    """Forbid instruction sets newer than ``isa``; ``default`` removes the limit.

    Raises:
        ArgumentError: there is no such instruction set.
        StateError: the library has already chosen its instruction set.
    """
    number = enum_value("cpu_isa_", choice("isa", isa, ("default", *ISA_NAMES)))
    _set_before_first_use("the instruction set", lib.dnnl_set_max_cpu_isa, number)


def get_cpu_isa_hints() -> str:
    """The hint for the instruction set: ``no_hints`` or ``prefer_ymm``."""
    return _HINTS[int(lib.dnnl_get_cpu_isa_hints())]


def set_cpu_isa_hints(hints: str) -> None:
    """Let the library prefer registers of 256 bits (``prefer_ymm``), or not (``no_hints``).

    Raises:
        ArgumentError: there is no such hint.
        StateError: the library has already read the hint.
    """
    number = enum_value("cpu_isa_", choice("hints", hints, ISA_HINTS))
    _set_before_first_use("the hint", lib.dnnl_set_cpu_isa_hints, number)


def _set_before_first_use(setting: str, function: library.Function, value: int) -> None:
    try:
        call(function, value)
    except StatusError as error:
        raise StateError(f"{setting} can be set only before the library is first used ({error})") from None


def set_verbose(level: int) -> None:
    """Set how much the library prints to stdout: 0 for nothing, 1 for executions, 2 for compilations too.

    Raises:
        ArgumentError: the level is not 0, 1 or 2.
    """
    call(lib.dnnl_set_verbose, integer("level", level, 0, 2))


DUMP_MODES = ("none", "subgraph", "graph")


def set_dump_mode(*modes: str) -> None:
    """Set which graphs the library writes to files in the current folder: ``graph``, ``subgraph``, both, or ``none``.

    Raises:
        ArgumentError: a mode is none of these.
        UnsupportedError: the library is older than 3.11.
        StatusError: the library was built without graph dumps.
    """
    chosen = [choice("modes", mode, DUMP_MODES) for mode in modes]
    bits = 0
    for mode in chosen:
        bits |= enum_value("graph_dump_mode_", mode)
    call(library.newer_function("dnnl_graph_set_dump_mode", "3.11"), bits)


# Library and machine --------------------------------------------------------------------------------------------------


def version_info() -> dict[str, object]:
    """Library, machine and settings, as plain values.

    Returns:
        version, hash and path of the library; its threading runtime and number of threads; the instruction set in use
        and its limit; the data types of the library and those that the CPU computes natively; cache settings; the
        folder of the files that are kept for later processes.
    """
    computed = DataType.f32, DataType.bf16, DataType.f16, DataType.s8, DataType.u8, DataType.s32
    return {
        "version": ".".join(map(str, library.VERSION)),
        "hash": library.HASH,
        "path": library.PATH,
        "threading_runtime": library.RUNTIME,
        "threads": get_num_threads(),
        "cpu_isa": get_cpu_isa(),
        "max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "no cap",
        "dtypes": [d.value for d in DataType if d.since <= library.VERSION],
        "cpu_dtypes": [d.value for d in computed if is_native(d)],
        "constant_tensor_cache": get_constant_tensor_cache(),
        "compiled_partition_cache_capacity": get_compiled_partition_cache_capacity(),
        "primitive_cache_capacity": get_primitive_cache_capacity(),
        "cache_folder": None if (folder := get_cache_folder()) is None else str(folder),
    }
