"""Runs chosen tests with one mutated module, in a process that was forked before the package was imported."""

from __future__ import annotations

import ast
import os
import resource
import runpy
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from .operators import Mutant, mutated

PACKAGE = Path(__file__).resolve().parents[2] / "onegraph"
INHERITED = Path(__file__).with_name("inherited")
NOTICED, SURVIVED, TIMEOUT = "noticed", "survived", "timeout"
NOTHING = (pytest.ExitCode.OK, pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)


def replace(module: str, source: str) -> None:
    """Let this process, and those that it starts, import a module of the package from other source.

    The children find it in memory of this process, which outlives them.
    """
    name = [*Path("onegraph", module).with_suffix("").parts]
    memory = os.memfd_create("mutant")
    with open(memory, "w", closefd=False) as file:
        file.write(source)
    os.environ["MUTANT_NAME"] = ".".join(name[:-1] if name[-1] == "__init__" else name)
    os.environ["MUTANT_PATH"] = str(PACKAGE / module)
    os.environ["MUTANT_SOURCE"] = f"/proc/{os.getpid()}/fd/{memory}"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(INHERITED), os.environ.get("PYTHONPATH")]))
    runpy.run_path(str(INHERITED / "sitecustomize.py"))


class Trial:
    """A process that runs tests with a mutant; it begins at once.

    Args:
        mutant: the mutant.
        tests: names of tests, or of files of them.
        seconds: that they may take on a machine that does nothing else.
    """

    def __init__(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> None:
        source = ast.unparse(mutated((PACKAGE / mutant.module).read_text(), mutant))
        self.mutant = mutant
        self._end = time.monotonic() + seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        self._child = os.fork()
        if not self._child:
            os._exit(_run(mutant.module, source, tests))
        with suppress(OSError):
            os.setpgid(self._child, self._child)  # the child does the same: whoever comes first

    def verdict(self) -> str | None:
        """Whether one of the tests failed: ``noticed``, ``survived`` or ``timeout``; None while they run."""
        done, status = os.waitpid(self._child, os.WNOHANG)
        if done:  # the mutant may have given a test another name, which says nothing
            return SURVIVED if os.waitstatus_to_exitcode(status) in NOTHING else NOTICED
        if time.monotonic() < self._end:
            return None
        self.stop()
        return TIMEOUT

    def stop(self) -> None:
        """End the tests, with their children."""
        os.killpg(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _run(module: str, source: str, tests: Sequence[str]) -> int:
    """The exit status of the tests in this process, with other source of a module."""
    os.setpgid(0, 0)  # with children of the tests, so that all of them end
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        replace(module, source)
        return int(pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
    except BaseException:  # a mutant may end in anything
        return 1
