"""Finds out how a graph fails, in a separate process that may crash or hang."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from types import TracebackType

from .._util.init_once import Made
from .._util.records import record
from .._util.worker_process import Worker
from ..errors import ArgumentError
from ..graph import Graph
from ..ir.op import Array

TIME_LIMIT = 60.0  # seconds for one graph
# Names, numbers and shapes in messages, which change while a graph shrinks.
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|\d+")


@record(frozen=True)
class Failure:
    """How a graph failed.

    Attributes:
        kind: ``crash`` (a signal), ``hang``, ``exception``, ``wrong`` (differs from the reference), or ``status`` (exit
            status of a command).
        detail: text of the signal, the exception, the difference or the status.
        key: the part of ``detail`` that stays the same if a smaller graph fails in the same way.
    """

    kind: str
    detail: str = field(compare=False)
    key: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class Prober(Made):
    """Runs graphs in a worker process and reports how they fail. As a context manager, it ends the process.

    Args:
        command: a program to run instead of the worker, with ``{}`` in the place of the path of the JSON file. A graph
            fails if the exit status is not 0.
        seed: seed of the random inputs.
        options: options of ``Graph.compile``.
        time_limit: seconds for one graph; a longer run counts as a hang.
        bare: run the library as it is, without the ways around its faults.

    Raises:
        ArgumentError: the command cannot be parsed, or has no ``{}``.
    """

    def __init__(
        self,
        *,
        command: str | None = None,
        seed: int = 0,
        options: Mapping[str, object] | None = None,
        time_limit: float = TIME_LIMIT,
        bare: bool = False,
    ) -> None:
        self.command = None if command is None else _words(command)
        self.task = {"seed": seed, "options": dict(options or {}), "bare": bare}
        self.time_limit = time_limit
        self._worker = Worker(__name__)
        self._folder = tempfile.TemporaryDirectory(prefix="onegraph-")

    def __enter__(self) -> Prober:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()
        self._folder.cleanup()

    def failure(self, graph: Graph) -> Failure | None:
        """How a graph fails; None if it does not.

        Raises:
            ArgumentError: random inputs for the graph cannot be made, or the command is not a program.
            UnsupportedError: no worker process can be started.
        """
        path = Path(self._folder.name) / "graph.json"
        graph.save(path)
        if self.command is not None:
            return self._command(self.command, path)
        outcome = self._worker.run({**self.task, "path": str(path)}, self.time_limit)
        if outcome.outcome == "right":
            return None
        if outcome.outcome == "no inputs":
            raise ArgumentError(outcome.detail)
        key = "" if outcome.outcome == "wrong" else _PARTICULARS.sub("_", outcome.detail)
        return Failure(outcome.outcome, outcome.detail, key)

    def _command(self, words: list[str], path: Path) -> Failure | None:
        arguments = [word.replace("{}", str(path)) for word in words]
        try:
            done = subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self.time_limit,
            )
        except subprocess.TimeoutExpired:
            return Failure("hang", f"no end within {self.time_limit:g} s", "")
        except OSError as error:
            raise ArgumentError(f"command: {words[0]!r}: {error.strerror}; expected a program") from None
        if done.returncode < 0:
            number = -done.returncode
            name = signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"
            return Failure("crash", name, name)
        return Failure("status", str(done.returncode), str(done.returncode)) if done.returncode else None


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArgumentError(f"command: {command!r}: {error}") from None
    if not words:
        raise ArgumentError("command: empty; expected a program, with {} for the path of the graph")
    if not any("{}" in word for word in words):
        raise ArgumentError(f"command: {command!r} has no {{}}; expected it where the path of the graph is to stand")
    return words


def main() -> None:
    """Answer requests of the parent process until it closes the pipe."""
    with os.fdopen(os.dup(1), "w") as answers:
        # Discard the output of the library.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        for line in sys.stdin:
            print(json.dumps({"stage": "run"}), file=answers, flush=True)
            outcome, detail = _answer(json.loads(line))
            facts = {"stage": "run", "done": True, "outcome": outcome, "detail": detail}
            print(json.dumps(facts), file=answers, flush=True)


def _answer(task: Mapping[str, object]) -> tuple[str, str]:
    from ..testing.random_inputs import random_inputs
    from .verify import verify

    options: dict[str, object] = task["options"]  # type: ignore[assignment]
    seed = int(str(task["seed"]))
    try:
        graph = Graph.load(str(task["path"]))
        try:
            inputs = random_inputs(graph, seed)
        except ArgumentError as error:  # not a failure of the graph
            return "no inputs", str(error)
        if task["bare"]:
            return _bare(graph, inputs, options, seed)
        verification = verify(graph, inputs, seed=seed, **options)  # type: ignore[arg-type]
    except Exception as error:  # any exception is a failure of the graph
        lines = str(error).splitlines()
        return "exception", f"{type(error).__name__}: {lines[0] if lines else ''}"
    if verification.agrees:
        return "right", ""
    where = "an output" if verification.first is None else verification.first.op
    return "wrong", f"{where} is not what the reference has"


def _bare(graph: Graph, inputs: Mapping[str, Array], options: Mapping[str, object], seed: int) -> tuple[str, str]:
    """The outcome in the library as it is."""
    from ..serialize import with_known
    from .bare import bare_step, compared, execute_bare

    graph, inputs = with_known(graph, inputs)
    mode = str(options.get("fpmath_mode") or "strict")
    by_name = {**inputs, **graph._initial}
    results, _ = execute_bare(bare_step(graph), by_name, str(options["policy"]), mode, lambda stage: None)
    wrong = [one.name for one in compared(graph, inputs, results, mode, seed) if not one.agrees]
    return ("wrong", f"output {wrong[0]!r} is not what the reference has") if wrong else ("right", "")


__all__ = ["Failure", "Prober"]
