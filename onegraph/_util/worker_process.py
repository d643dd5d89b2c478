"""Runs tasks that may crash or hang in a separate Python process, which imports from the same paths as this one."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType

from ..errors import UnsupportedError
from .records import record

START_LIMIT = 60.0  # seconds to start a process and to import, also on a busy machine


def command(module: str) -> list[str]:
    """The command line that runs ``main`` of ``module`` in a new Python process with this process's ``sys.path``.

    ``python -m`` is not used, because it would search the working directory first.
    """
    path = [str(place) for place in sys.path]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; from {module} import main; main()"]


@record(frozen=True)
class Outcome:
    """The result of a task.

    Attributes:
        outcome: the worker's own answer, or ``crash`` (the process died), or ``hang`` (no answer in time).
        stage: the last step that the worker began.
        detail: the worker's own detail; after a crash the signal or exit status; after a hang the time limit.
    """

    outcome: str
    stage: str
    detail: str


class Worker:
    """A process that runs ``main`` of a module and executes tasks; after it dies, the next task starts a new process.

    A task is one line of JSON on standard input. The process answers with lines of JSON: one with ``stage`` before each
    step that may kill the process, and a last one with ``stage``, ``done``, ``outcome`` and ``detail``. The stage of a
    last line without one is that of the step before.

    Args:
        module: full name of the module.
        settings: environment variables to add or change in the process.
    """

    def __init__(self, module: str, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._module, self._settings = module, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._is_stopped = False

    def run(self, task: Mapping[str, object], limit: float, *, repeat: bool = True) -> Outcome:
        """Run a task; the process has ``limit`` seconds for each line of its answer, and more for the first.

        A task that crashes or hangs in a process that ran other tasks before is repeated in a new process, unless
        ``repeat`` is false.

        Raises:
            UnsupportedError: no process can be started.
        """
        fresh = self._process is None
        outcome = self._run(task, limit)
        if outcome.outcome in ("crash", "hang") and repeat and not fresh and not self._is_stopped:
            # An earlier task may have corrupted the memory of the process; a new process shows which task is at fault.
            outcome = self._run(task, limit)
        return outcome

    def _run(self, task: Mapping[str, object], limit: float) -> Outcome:
        process = self._process or self._start()
        if self._is_stopped:  # while it started
            process.kill()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        stage = "start"
        while True:
            allowed = max(limit, START_LIMIT) if stage == "start" else limit
            line = self._line(process, allowed)
            if line is None:
                self.close()
                return Outcome("hang", stage, f"no answer within {allowed:g} s")
            if not line:
                code = process.wait()
                self.close()
                name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                return Outcome("crash", stage, name)
            facts = json.loads(line)
            stage = facts.get("stage", stage)
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
        """The next line without its line break; empty if the process has died, None after ``limit`` seconds."""
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

    def stop(self) -> None:
        """Kill the process from another thread: the task that it runs ends as a crash, and no further task is run."""
        self._is_stopped = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None
