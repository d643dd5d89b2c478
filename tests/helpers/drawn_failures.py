"""How graphs run and fail in other processes, with stand-ins for these: names of :mod:`drawn_by_library`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import onegraph as og
from onegraph import reference
from onegraph._util.worker_process import Outcome
from onegraph.opset.editions.registry import HOST
from onegraph.tools import bare, failure_probe

from .drawn_tools import exact_graph, tool
from .recorded import numbers_of


class Worker:
    """Stands for a worker process of a tool."""

    answer: Callable[[Any], Outcome]

    def __init__(self, module: str) -> None:
        self.module = module

    def run(self, task: Any, limit: float) -> Outcome:
        """The outcome of a task."""
        return type(self).answer(task)

    def close(self) -> None:
        """Nothing to end."""


@tool
def bare_runs(drawn: Random) -> object:
    """Runs of a graph in the library as it is."""
    graph, given = exact_graph(drawn)
    if drawn.random() < 0.1:
        graph.output("s", graph.op("Sin", [graph.input("more", "f32", (2,))], edition=HOST))
    ending, stages = drawn.choice(("", "", "", "", "unsupported", "refused", "crash")), list[object]()
    wrong = drawn.choice((0, 0, 0, 1))

    def execute(step: og.Graph, inputs: Any, policy: str, mode: str, tell: Any) -> Any:
        tell("add_op")
        if ending == "unsupported":
            raise og.UnsupportedError("no kernel")
        if ending == "refused":
            raise og.StateError("no")
        stages.append((policy, mode))
        results = reference.run(step, inputs)
        return {name: one + one.dtype.type(wrong) for name, one in results.items()}, [[op.kind for op in step.ops]]

    def answered(task: Any) -> Outcome:
        if ending == "crash":
            return Outcome("crash", "compile", "SIGSEGV")
        outcome, detail = bare._answer(task, stages.append)
        return Outcome(outcome, "execute", detail)

    made = type("Made", (Worker,), {"answer": staticmethod(answered)})
    mode = drawn.choice((None, "bf16"))
    with patch.object(bare, "Worker", made), patch.object(bare, "execute_bare", execute):
        found = bare.run_bare(graph, given, policy=drawn.choice(("fusion", "debug")), fpmath_mode=mode)
    lines = [f"{name} {numbers_of(array)}" for name, array in found.results.items()]
    compared = bare.compared(graph, given, found.results, mode or "strict", 3) if found.results else ()
    lines += [f"{one.name} {one.agrees} {one.max_error:.1e} {one.limit:.1e}" for one in compared]
    return "\n".join([*lines, found.text(), str(found.to_dict()), str(stages)])


COMMANDS = ("prog {}", "prog", "", "a 'b", "prog --x={} {}", "nothing-here {}")


@tool
def failures(drawn: Random) -> object:
    """How a graph fails."""
    graph, _ = exact_graph(drawn)
    told: list[object] = []
    outcome = drawn.choice(("right", "wrong", "exception", "no inputs", "crash"))
    detail = drawn.choice(("an 'op' of [2, 3] (x) 12", "SIGSEGV", ""))

    def answered(task: Any) -> Outcome:
        told.append({name: one for name, one in task.items() if name != "path"})
        return Outcome(outcome, "run", detail)

    def run(words: list[str], **options: Any) -> Any:
        told.append([*(word.replace(place, "F") for word in words), options["timeout"]])
        if ended == "late":
            raise subprocess.TimeoutExpired("x", 1)
        if ended == "none":
            raise FileNotFoundError(2, "No such file")
        return SimpleNamespace(returncode=ended)

    ended = drawn.choice(("late", "none", 0, 0, 1, 3, -11, -6, -99))
    command = drawn.choice((None, None, *COMMANDS))
    options = drawn.choice((None, {"policy": "debug"}))
    made = type("Made", (Worker,), {"answer": staticmethod(answered)})
    limit, seed = drawn.choice((2.0, 60.0)), drawn.randrange(9)
    given: dict[str, Any] = {"command": command, "seed": seed, "options": options, "time_limit": limit}
    with (
        patch.object(failure_probe, "Worker", made),
        patch.object(subprocess, "run", run),
        failure_probe.Prober(**given) as prober,
    ):
        place = str(Path(prober._folder.name))
        found = prober.failure(graph)
    return [str(found), found and found.key, told]


@tool
def probed(drawn: Random) -> object:
    """What the process says that finds out how a graph fails."""
    graph, given = exact_graph(drawn)
    ending = drawn.choice(("right", "right", "wrong", "error", "empty error", "no inputs", "first"))
    is_bare = drawn.random() < 0.4
    told: list[object] = []

    def verified(one: og.Graph, inputs: Mapping[str, Any], **options: object) -> Any:
        told.append((len(one.ops), [*inputs], options))
        if ending in ("error", "empty error"):
            raise ValueError("a\nb" if ending == "error" else "")
        first = SimpleNamespace(op="MatMul 'a'") if ending == "first" else None
        return SimpleNamespace(agrees=ending == "right", first=first)

    def execute(step: og.Graph, inputs: Any, policy: str, mode: str, tell: Any) -> Any:
        told.append((policy, mode, tell("x")))
        moved = ending in ("wrong", "first")
        results = reference.run(step, inputs)
        return {name: one + one.dtype.type(9) if moved else one for name, one in results.items()}, []

    def inputs_of(*_: object) -> Any:
        if ending == "no inputs":
            raise og.ArgumentError("no inputs")
        return given

    options = {"policy": "fusion", **drawn.choice(({}, {"fpmath_mode": "bf16"}, {"fpmath_mode": None}))}
    with (
        TemporaryDirectory() as folder,
        patch("onegraph.tools.verify.verify", verified),
        patch.object(bare, "execute_bare", execute),
        patch("onegraph.testing.random_inputs.random_inputs", inputs_of),
    ):
        graph.save(Path(folder, "g.json"))
        task = {"path": str(Path(folder, "g.json")), "seed": 3, "bare": is_bare, "options": options}
        return [failure_probe._answer(task), told]
