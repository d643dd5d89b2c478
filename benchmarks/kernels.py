"""The kernels that the library reports for a run, with their times."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable

from onegraph import capi
from onegraph.compiler.report import Report


def notes(report: Report, run: Callable[[], object]) -> str:
    """A note: the ops that numpy runs instead of the library, with the reasons, and the library's kernels."""
    return "; ".join(text for text in (on_numpy(report), kernels(run)) if text)


def on_numpy(report: Report) -> str:
    """The ops that numpy runs, with the reasons."""
    refused = [part for part in report.partitions if part.executor == "reference"]
    kinds = Counter(f"{part.ops[0].split()[0]} ({part.reason.splitlines()[0]})" for part in refused)
    return "on numpy: " + "; ".join(f"{count} x {kind}" for kind, count in kinds.items()) if kinds else ""


def kernels(run: Callable[[], object], shown: int = 5) -> str:
    """The shares of the slowest kernels in one run. ``ref:any`` is plain C++, often a hundred times slower."""
    taken = taken_by(run)
    whole = sum(taken.values())
    if not whole:
        return ""
    return "kernels: " + ", ".join(f"{name} {part / whole:.0%}" for name, part in taken.most_common(shown))


def taken_by(run: Callable[[], object]) -> Counter[str]:
    """The nanoseconds of each kernel of the library in one run."""
    taken: Counter[str] = Counter()
    for line in _printed(run).splitlines():
        fields = line.split(",")
        if "exec" in fields:
            primitive, implementation = fields[fields.index("exec") + 2 :][:2]
            taken[f"{primitive} {implementation}"] += round(float(fields[-1]) * 1e6)  # ms
    return taken


def _printed(run: Callable[[], object]) -> str:
    """The text that the library prints to stdout, which is redirected to a file."""
    libc = ctypes.CDLL(None)
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        libc.fflush(None)
        terminal = os.dup(1)
        os.dup2(file.fileno(), 1)
        capi.set_verbose(1)
        try:
            run()
        finally:
            capi.set_verbose(0)
            libc.fflush(None)
            os.dup2(terminal, 1)
            os.close(terminal)
        file.seek(0)
        return file.read().decode(errors="replace")
