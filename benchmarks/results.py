"""The environment of a measurement: machine, library, settings. Rows as text tables."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from importlib import metadata, util
from pathlib import Path

import numpy as np

import onegraph
from onegraph import capi
from onegraph.native import library

from .machine import Load, described, is_idle
from .timing import Row

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("torch", "onnxruntime", "openvino")
SETTINGS = ("GOMP_SPINCOUNT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "ONEDNN_MAX_CPU_ISA")


def cpu_flags() -> frozenset[str]:
    """The instruction sets of the first processor, as Linux lists them."""
    return frozenset(_cpu_field("flags").split())


def _cpu_field(name: str) -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def environment(load: Load) -> dict[str, str | int | None]:
    """The version of onegraph, the CPU model, ISA, threads, what else runs, GOMP_SPINCOUNT and versions."""
    found: dict[str, str | int | None] = {
        "onegraph": version(),
        "date": date.today().isoformat(),
        "cpu": _cpu_field("model name"),
        "isa": capi.get_cpu_isa(),
        "processors": os.cpu_count(),
        "threads": capi.get_num_threads(),
        "other load": described(load),
        "library": ".".join(map(str, library.VERSION)),
        "library hash": library.HASH,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    found |= {name: os.environ.get(name, "unset") for name in SETTINGS}
    found |= {name: metadata.version(name) for name in PEERS if util.find_spec(name)}
    return found


def version() -> str:
    """The version of onegraph, and the last commit that changed the package or its build."""
    sources = ["--", "onegraph", "include", "build_ffi.py"]

    def git(*command: str) -> str:
        try:
            return subprocess.run(["git", *command, *sources], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        except FileNotFoundError:  # git is not installed
            return ""

    if not (commit := git("log", "-1", "--format=%h")):
        return onegraph.__version__
    return f"{onegraph.__version__} (commit {commit}{' and changes' * bool(git('status', '--porcelain'))})"


def table(row: Row, version: str = "") -> str:
    """A row as text: one line for each contender, with its speed relative to the first contender.

    The version of onegraph is named where it is another than ``version``.
    """
    lines = [row.case]
    for contender, seconds in row.seconds.items():
        speed = f"{row.speed[contender]:.2f} x" if contender in row.speed else ""
        lines.append(f"  {contender:36}{duration(seconds):>12}{speed:>12}")
    lines += [f"  {name:36}{value:12,.2f}" for name, value in row.numbers.items()]
    if row.note:
        lines.append(f"  {row.note}")
    if row.version not in ("", version):
        lines.append(f"  measured with onegraph {row.version}")
    if not is_idle(row.load):
        lines.append(f"  DISTURBED: something else used {described(row.load)}")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """A time in seconds, milliseconds or microseconds, with two digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-6:.2f} us"
