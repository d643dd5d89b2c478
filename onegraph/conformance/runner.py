"""Runs probes in worker processes that survive nothing: a crash or a hang ends the worker, not the run."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..errors import UnsupportedError

TIME_LIMIT = 20.0  # seconds for one probe; a healthy one takes milliseconds


@dataclass(frozen=True)
class Outcome:
    """What became of a probe.

    Attributes:
        outcome: ``right`` and ``wrong`` (against the reference), ``ran`` (nothing to compare with), ``unsupported``,
            ``refused`` (a status), ``crash`` (a signal) or ``hang``.
        stage: the last step that was begun.
        detail: the status, the exception's text, the signal, or the difference.
    """

    outcome: str
    stage: str
    detail: str


class Worker:
    """One worker process; a new one is started where the last has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def run(self, probe: Mapping[str, Any], limit: float = TIME_LIMIT) -> Outcome:
        """Run one probe."""
        outcome = self._run(probe, limit)
        if outcome.outcome == "crash" and outcome.stage == "start":
            # It died before it began with this one: the last one had corrupted its memory.
            outcome = self._run(probe, limit)
        return outcome

    def _run(self, probe: Mapping[str, Any], limit: float) -> Outcome:
        process = self._process or self._start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(probe).encode() + b"\n")
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
                [sys.executable, "-m", "onegraph.conformance.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        except OSError as error:
            raise UnsupportedError(f"conformance: no worker process can be started: {error}") from None
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


def run_all(
    probes: Sequence[Mapping[str, Any]], workers: int, progress: Callable[[int], None] = lambda done: None
) -> list[Outcome]:
    """Run every probe; ``progress`` is told how many are done.

    Raises:
        UnsupportedError: no worker process can be started.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(probes)):
        waiting.put(index)
    outcomes: dict[int, Outcome] = {}
    lock = threading.Lock()

    def serve() -> None:
        worker = Worker()
        try:
            while True:
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    return
                outcome = worker.run(probes[index])
                with lock:
                    outcomes[index] = outcome
                    progress(len(outcomes))
        finally:
            worker.close()

    count = max(1, workers)
    with ThreadPoolExecutor(count) as pool:
        served = [pool.submit(serve) for _ in range(count)]
    for one in served:
        one.result()
    return [outcomes[index] for index in range(len(probes))]
