"""Names all that decides how the library compiles and how fast it runs: versions, processor, threads, settings."""

from __future__ import annotations

import os
from contextlib import suppress

from .._version import __version__
from ..faults.user_faults import USER
from ..native.library import HASH, PATH, VERSION
from .settings import get_cpu_isa, get_default_fpmath_mode

PREFIXES = ("ONEDNN_", "DNNL_", "OMP_", "GOMP_")  # of variables that the library or its runtime reads
_cpu: list[str] = []


def machine() -> tuple[object, ...]:
    """Plain data that is equal in processes for which the library compiles the same."""
    variables = sorted(
        (name, value) for name, value in os.environ.items() if name.startswith(PREFIXES) and "VERBOSE" not in name
    )
    settings = get_cpu_isa(), get_default_fpmath_mode(), variables
    return __version__, USER.digest, VERSION, HASH, *settings, _cpu_model(), sorted(os.sched_getaffinity(0))


def library_and_machine() -> dict[str, str]:
    """The loaded library and the processor, as texts."""
    version = ".".join(map(str, VERSION))
    return {"path": PATH, "version": version, "hash": HASH, "cpu": _cpu_model(), "isa": str(get_cpu_isa())}


def _cpu_model() -> str:
    """The name of the first processor, as Linux gives it; empty if it gives none."""
    if not _cpu:
        text = b""
        with suppress(OSError), open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(2048)  # of machines with many processors, the whole file takes long
        names = [line for line in text.decode(errors="replace").splitlines() if line.startswith("model name")]
        _cpu.append(names[0].partition(":")[2].strip() if names else "")
    return _cpu[0]
