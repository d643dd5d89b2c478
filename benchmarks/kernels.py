"""Where the time of a run goes: the kernels that the library says it executes."""

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
    """What numpy runs in place of the library, with the reasons, and the kernels of the library."""
    return "; ".join(text for text in (on_numpy(report), kernels(run)) if text)


def on_numpy(report: Report) -> str:
    """The ops of an executable that numpy runs, with the reasons."""
    refused = [part for part in report.partitions if part.executor == "reference"]
    kinds = Counter(f"{part.ops[0].split()[0]} ({part.reason.splitlines()[0]})" for part in refused)
    return "on numpy: " + "; ".join(f"{count} x {kind}" for kind, count in kinds.items()) if kinds else ""


def kernels(run: Callable[[], object], shown: int = 5) -> str:
    """Shares of the slowest kernels in one run; ``ref:any`` is plain C++, often a hundred times slower."""
    taken: Counter[str] = Counter()
    for line in _printed(run).splitlines():
        fields = line.split(",")
        if "exec" in fields:
            primitive, implementation = fields[fields.index("exec") + 2 :][:2]
            taken[f"{primitive} {implementation}"] += round(float(fields[-1]) * 1e6)  # ms
    whole = sum(taken.values())
    if not whole:
        return ""
    return "kernels: " + ", ".join(f"{name} {part / whole:.0%}" for name, part in taken.most_common(shown))


def _printed(run: Callable[[], object]) -> str:
    """What the library prints on stdout, which goes to a file meanwhile."""
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
