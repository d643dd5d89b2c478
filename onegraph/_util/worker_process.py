"""Processes in which a graph or an op may crash or hang: Python with the modules that this process has."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import UnsupportedError


def command(module: str) -> list[str]:
    """How Python is told to run ``main`` of a module.

    It finds modules where this process does: not in its working directory, which ``-m`` would search first.
    """
    path = [str(place) for place in sys.path]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; from {module} import main; main()"]


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes:
        outcome: what the process answered, or ``crash`` (a signal) or ``hang``.
        stage: the last step that was begun.
        detail: of the answer, or the signal.
    """

    outcome: str
    stage: str
    detail: str


class Worker:
    """A process that runs ``main`` of a module; a new one is started where the last has died.

    For each line that it is given, JSON, it answers with lines: what it begins (``stage``), each written before the
    step that may kill it, and at last ``done``, ``outcome`` and ``detail``.

    Args:
        module: its whole name.
        settings: environment variables that are other than here.
    """

    def __init__(self, module: str, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._module, self._settings = module, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def run(self, task: Mapping[str, object], limit: float) -> Outcome:
        """Have a task done, in at most ``limit`` seconds.

        Raises:
            UnsupportedError: no process can be started.
        """
        fresh = self._process is None
        outcome = self._run(task, limit)
        if outcome.outcome in ("crash", "hang") and not fresh:
            # A task before this one may have corrupted the memory of the process; a new one tells whose fault it is.
            outcome = self._run(task, limit)
        return outcome

    def _run(self, task: Mapping[str, object], limit: float) -> Outcome:
        process = self._process or self._start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        stage = "start"
        while True:
            line = self._line(process, limit)
            if line is None:
                process.kill()
                self.close()
                return Outcome("hang", stage, f"no answer within {limit:g} s")
            if not line:
                code = process.wait()
                self.close()
                name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                return Outcome("crash", stage, name)
            facts = json.loads(line)
            stage = facts["stage"]
            if facts.get("done"):
                return Outcome(facts["outcome"], stage, facts["detail"])

    def _start(self) -> subprocess.Popen[bytes]:
        self._buffer = b""
        try:
            self._process = subprocess.Popen(
                command(self._module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **self._settings},
            )
        except OSError as error:
            raise UnsupportedError(f"no worker process can be started: {error}") from None
        return self._process

    def _line(self, process: subprocess.Popen[bytes], limit: float) -> bytes | None:
        """The next line; empty where the process has died, None where the time is up."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(limit):
                    return None
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    return b""
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None
