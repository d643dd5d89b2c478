"""Finds the names of oneDNN's implementations, which the library only prints to stdout.

A separate Python process compiles the graph again, runs its partitions one at a time and prints a mark around each.
This process reads the output; it captures no output of its own and changes no setting.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from .._util.worker_process import command
from ..capi.settings import get_cpu_isa, set_max_cpu_isa
from ..capi.threads import threads_now
from ..errors import ArgumentError, StateError, UnsupportedError, shown
from .compiled_program import CompiledProgram
from .program import Program

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

TIME_LIMIT = 600.0  # seconds
MARK = "onegraph_partition,"
DONE = f"{MARK}done"
END = f"{MARK}end"


def implementation_names(program: Program, policy: str, fpmath_mode: str, finite_math: bool) -> dict[int, str]:
    """The primitives and kernels of each partition, by index, such as ``matmul brg:avx512_core``.

    Args:
        program: the program.
        policy, fpmath_mode, finite_math: the options of its compilation.

    Raises:
        UnsupportedError: the process failed, or took more than ten minutes.
    """
    limit = threads_now()
    threads = {report.index: report.threads or limit for report in program.reports if report.threads is not None}
    task = pickle.dumps((program.whole_graph(), policy, fpmath_mode, finite_math, threads, get_cpu_isa()))
    settings = {name: value for name, value in os.environ.items() if "DNNL_VERBOSE" not in name}
    settings.update(ONEDNN_VERBOSE="profile_exec", OMP_NUM_THREADS=str(max([limit, *threads.values()])))
    try:
        done = subprocess.run(command(__name__), input=task, capture_output=True, env=settings, timeout=TIME_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"implementation names: the process that finds them failed: {error}") from None
    lines = done.stdout.decode(errors="replace").splitlines()
    if END not in lines:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        last = words[-1] if words else f"exit status {done.returncode}"
        raise UnsupportedError(f"implementation names: the process that finds them failed: {shown(last)}")
    return parse(lines)


def parse(lines: list[str]) -> dict[int, str]:
    """The implementation names of each partition, which may have several steps, from the output of the process."""
    index, names_of_index, names_by_index = None, dict[str, None](), dict[int, dict[str, None]]()
    for line in lines:
        if line.startswith(MARK):
            number = line.removeprefix(MARK)
            index = int(number) if number.isdigit() else None
            names_of_index = {} if index is None else names_by_index.setdefault(index, {})
        elif index is not None and line.startswith("onednn_verbose,"):
            # onednn_verbose[,v1[,primitive]],exec,cpu,<primitive>,<implementation>,...
            before, _, after = line.partition(",exec,")
            fields = after.split(",")
            if len(fields) > 3 and "graph" not in before.split(","):
                names_of_index[f"{fields[1]} {fields[2]}"] = None
    return {number: ", ".join(names) for number, names in names_by_index.items()}


def main() -> None:
    """Main function of the separate process: read a task from stdin and run it."""
    graph, policy, fpmath_mode, finite_math, threads, isa = pickle.load(sys.stdin.buffer)
    with suppress(ArgumentError, StateError):  # fails harmlessly if it names the library's own choice
        set_max_cpu_isa(isa)
    run(graph, policy, fpmath_mode, finite_math, threads)


def run(graph: DataGraph, policy: str, fpmath_mode: str, finite_math: bool, threads: Mapping[int, int]) -> None:
    """Compile the graph, run its partitions on zeroed arrays, and print marks around each second execution."""
    options = {"policy": policy, "fpmath_mode": fpmath_mode, "finite_math": finite_math, "threads": threads}
    program = CompiledProgram(graph, fallback=True, **options)  # type: ignore[arg-type]
    with program.check_out().blank() as plan:
        for step, compiled in enumerate(program.steps):
            plan.run_steps(step, step + 1)  # prepares constants
            say(f"{MARK}{compiled.note}")
            plan.run_steps(step, step + 1)
            say(DONE)
    say(END)


def say(line: str) -> None:
    """Print a line in the right order with the library's output."""
    ctypes.CDLL(None).fflush(None)
    os.write(1, f"{line}\n".encode())
