"""Runs chosen tests with one mutated module, in a process that was forked before the package was imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from .operators import Mutant, mutated

PACKAGE = Path(__file__).resolve().parents[2] / "onegraph"
NOTICED, SURVIVED, TIMEOUT = "noticed", "survived", "timeout"
MEMORY = 8 * 2**30  # bytes of address space that a mutant may take beyond what the process has


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the package from other code."""

    def __init__(self, module: str, code: CodeType) -> None:
        self._path, self._code = PACKAGE / module, code
        parts = [*Path("onegraph", module).with_suffix("").parts]
        self._name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module to replace; None for all others."""
        if fullname != self._name:
            return None
        folders = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=self, submodule_search_locations=folders
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run the other code."""
        exec(self._code, vars(module))


class Trial:
    """A process that runs tests with a mutant; it begins at once."""

    def __init__(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> None:
        source = (PACKAGE / mutant.module).read_text()
        code = compile(mutated(source, mutant), str(PACKAGE / mutant.module), "exec")
        self.mutant = mutant
        self._end = time.monotonic() + seconds
        self._child = os.fork()
        if not self._child:
            os._exit(_run(Replaced(mutant.module, code), tests))
        with suppress(OSError):
            os.setpgid(self._child, self._child)  # the child does the same: whoever comes first

    def verdict(self) -> str | None:
        """Whether one of the tests failed: ``noticed``, ``survived`` or ``timeout``; None while they run."""
        done, status = os.waitpid(self._child, os.WNOHANG)
        if done:
            return SURVIVED if status == 0 else NOTICED
        if time.monotonic() < self._end:
            return None
        self.stop()
        return TIMEOUT

    def stop(self) -> None:
        """End the tests, with their children."""
        os.killpg(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def judge(mutant: Mutant, tests: Sequence[str], seconds: float) -> str:
    """The verdict of some tests on a mutant."""
    trial = Trial(mutant, tests, seconds)
    while (verdict := trial.verdict()) is None:
        time.sleep(0.02)
    return verdict


def _run(finder: Replaced, tests: Sequence[str]) -> int:
    """The exit status of the tests in this process."""
    os.setpgid(0, 0)  # with children of the tests, so that all of them end
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.meta_path.insert(0, finder)
    try:
        return int(pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
    except BaseException:  # a mutant may end in anything
        return 1
