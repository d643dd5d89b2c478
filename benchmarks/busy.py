"""Models on a busy machine: beside a busy thread, and two processes of the same model side by side.

Each contender runs in child processes with its defaults. Two children are compiled while the machine is idle, and two
at once while a thread is busy.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import numpy as np

import onegraph as og

from . import peers
from .child import Child, Setup, ratios, together
from .inference import TOLERANCE, Model, agree, exported, models, random
from .machine import undisturbed
from .timing import QUICK, Effort, Row


class Contender(NamedTuple):
    """What runs, the environment of its process, what is loaded first there, and the packages that it needs."""

    name: str
    runner: str
    environment: dict[str, str]
    first: str
    needs: tuple[str, ...]


CONTENDERS = (
    Contender("onegraph", "onegraph", {}, "", ()),
    Contender("onegraph, after another package loaded libgomp", "onegraph", {}, "libgomp.so.1", ()),
    Contender("onegraph, GOMP_SPINCOUNT=1000", "onegraph", {"GOMP_SPINCOUNT": "1000"}, "", ()),
    Contender("onegraph, GOMP_SPINCOUNT=10000", "onegraph", {"GOMP_SPINCOUNT": "10000"}, "", ()),
    # torch is loaded first, because onegraph may change settings of its own copy of libgomp
    Contender("torch eager", "torch eager", {}, "torch", ("torch",)),
    Contender("ONNX Runtime", "ONNX Runtime", {}, "", ("torch", "onnx", "onnxruntime")),
    Contender("OpenVINO", "OpenVINO", {}, "", ("torch", "onnx", "openvino")),
)
# The quick form takes one that has something to set up.
QUICK_CONTENDERS = CONTENDERS[1:2]
ALONE = "alone"


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=5, turn=0.25)
    for model in models(quick)[: 1 if quick else None]:
        yield from rows_of(model, effort, quick)


def rows_of(model: Model, effort: Effort, quick: bool) -> Iterator[Row]:
    """The rows of a model, one for each contender. The results are compared with those of the first."""
    file, wanted = b"", None
    if all(map(peers.installed, ("torch", "onnx"))):
        file = exported(model, random(model.shape(1), og.f32))
    with tempfile.TemporaryDirectory() as folder:
        onnx = Path(folder) / "model.onnx"
        onnx.write_bytes(file)
        for contender in QUICK_CONTENDERS if quick else CONTENDERS:
            if all(map(peers.installed, contender.needs)):
                setup = Setup(contender.runner, model.name, "f32", 1, quick, contender.first, str(onnx))
                case = f"{model.name}, f32, batch 1: {contender.name}"
                found, result = row(case, setup, contender.environment, effort)
                wanted = result if wanted is None else wanted
                agree(result, wanted, TOLERANCE[og.f32], case)
                yield found


def row(case: str, setup: Setup, environment: dict[str, str], effort: Effort) -> tuple[Row, np.ndarray]:
    """Time a contender in all situations, in turns; returns the row, and a part of the result."""
    with ExitStack() as stack:

        def started() -> Child:
            return stack.enter_context(Child(setup, environment))

        idle, results = [], []
        for _ in range(2):
            idle.append(started())
            results.append(idle[-1].ready()["result"])
        with busy_thread():
            loaded = [started() for _ in range(2)]
            results += [child.ready()["result"] for child in loaded]
        for result in results:
            agree(np.array(result), np.array(results[0]), TOLERANCE[og.f32], case)

        def rounds() -> dict[str, list[float]]:
            times: dict[str, list[float]] = {}

            def turn(name: str, children: list[Child]) -> None:
                together(children, 2 * effort.turn)  # untimed: the children notice that the situation has changed
                slowest = max(map(mean, together(children, effort.turn)))
                times.setdefault(name, []).append(slowest)

            for _ in range(effort.rounds):
                turn(ALONE, idle[:1])
                with busy_thread():
                    turn("busy thread", idle[:1])
                    turn("busy thread, compiled busy", loaded[:1])
                turn("two processes", idle)
                turn("two processes, compiled busy", loaded)
            return times

        times, load = undisturbed(rounds)
    numbers = {f"{name} / {ALONE}": ratio for name, ratio in ratios(times, ALONE).items()}
    seconds = {name: median(taken) for name, taken in times.items()}
    return Row(case, seconds, {}, numbers, load=load), np.array(results[0])


@contextmanager
def busy_thread() -> Iterator[None]:
    """A process with one thread that never waits."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
