"""Models in the ONNX format: latency, callers, the time to the first result, and memory, against its other runtimes.

Every contender has child processes of its own with its defaults. A first result counts from the start of the process;
onegraph has two, one without and one with the files that an earlier process has kept.
Two callers run on one thread each, in a child that is compiled for that; onegraph also has a child with one caller on
one thread. The models have random weights.
"""

from __future__ import annotations

import compileall
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from . import exported_models, peers
from .child import Child, ratios, together
from .machine import undisturbed
from .onnx_child import CALLS, OnnxSetup
from .timing import QUICK, Chosen, Effort, Row, every

MODULE = f"{__package__}.onnx_child"
# The contenders besides onegraph, and their packages.
OTHERS = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}
CALLERS = 2
# The largest allowed difference from ONNX Runtime, relative to its largest number. Random weights amplify rounding.
TOLERANCE = {"f32": 1e-3, "bf16": 0.3, "int8": 0.3}
LEAST = ("light_squeezenet",)


def rows(quick: bool = False, chosen: Chosen = every) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=5, turn=0.25, limit=6)
    for name in LEAST if quick else exported_models.names():
        precisions = ("f32",) if quick or name.endswith(("_int8", "_dynamic")) else ("f32", "bf16")
        cases = {f"{name}, {'int8' if name.endswith('_int8') else one}": one for one in precisions}
        if not (cases := {case: one for case, one in cases.items() if chosen(case)}):
            continue
        write_bytecode()
        try:
            file = exported_models.file_of(name)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        for case, precision in cases.items():
            yield row(case, name, file, precision, effort)


@cache
def write_bytecode() -> None:
    """Compile the modules of all contenders.

    Packages have their bytecode where Python may write it when they are installed or first used.
    """
    for package in ("onegraph", "numpy", "onnx", "google.protobuf", "ml_dtypes", *OTHERS.values()):
        found = find_spec(package) if peers.installed(package.partition(".")[0]) else None
        for folder in (found and found.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=1)


def row(case: str, name: str, file: Path, precision: str, effort: Effort) -> Row:
    """Measure the contenders in turns."""
    runners = ["onegraph", *(one for one, package in OTHERS.items() if peers.installed(package))]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **exported_models.inputs_of(name))

        def setup(runner: str, callers: int = 1, threads: int = 0, results: str = "", kept: str = "") -> OnnxSetup:
            # ONNX Runtime has few bf16 kernels for CPUs, so it runs in f32.
            precise = "f32" if runner == "ONNX Runtime" else precision
            return OnnxSetup(runner, str(file), str(inputs), results, precise, callers, threads, kept)

        def ready(one: OnnxSetup) -> Child:
            child = stack.enter_context(Child(one, {}, MODULE))
            child.ready()
            return child

        firsts: dict[str, list[Any]] = {runner: [] for runner in runners}
        for _ in range(1 if effort is QUICK else 2):
            for runner in runners:
                results = str(Path(folder) / f"{runner}.npz")
                with Child(setup(runner, results=results), {}, MODULE) as child:
                    about = child.ready()
                    firsts[runner].append((about["at"] - child.started, about["peak"], about))
        kept: list[float] = []
        for _ in range(1 + len(firsts["onegraph"])):
            with Child(setup("onegraph", kept=str(Path(folder) / "cache")), {}, MODULE) as child:
                kept.append(child.ready()["at"] - child.started)
        difference = compared(folder, runners, case, TOLERANCE[case.rsplit(", ")[-1]])
        alone = {runner: ready(setup(runner)) for runner in runners}
        shared = {runner: ready(setup(runner, CALLERS, 1)) for runner in runners}
        single = ready(setup("onegraph", threads=1))

        def rounds() -> tuple[dict[str, list[float]], dict[str, list[float]], list[float]]:
            latency: dict[str, list[float]] = {runner: [] for runner in runners}
            both: dict[str, list[float]] = {runner: [] for runner in runners}
            one: list[float] = []
            for _ in effort.each_round():
                for runner in runners:
                    latency[runner].append(median(together([alone[runner]], effort.turn)[0]))
                    both[runner].append(median(together([shared[runner]], effort.turn)[0]))
                one.append(median(together([single], effort.turn)[0]))
            return latency, both, one

        (latency, both, one), load = undisturbed(rounds)
    numbers = {
        "onegraph, first result with kept files, ms": 1e3 * median(kept[1:]),
        "onegraph, 1 caller on 1 thread, runs/s": 1 / median(one),
    }
    for runner in runners:
        numbers[f"{runner}, {CALLERS} callers, runs/s"] = CALLERS * CALLS / median(both[runner])
        numbers[f"{runner}, first result, ms"] = 1e3 * median(first for first, _, _ in firsts[runner])
        numbers[f"{runner}, peak memory, MB"] = median(peak for _, peak, _ in firsts[runner]) / 1e6
    speed = {runner: 1 / ratio for runner, ratio in ratios(latency, "onegraph").items()}
    seconds = {runner: median(taken) for runner, taken in latency.items()}
    counts = ", ".join(f"{count} {kind}" for kind, count in firsts["onegraph"][0][2]["partitions"].items())
    notes = [f"steps: {counts}", *([f"differs by {difference:.1e}"] if difference is not None else [])]
    if behind := _behind(seconds, numbers):
        notes.append(f"behind in {behind}")
    return Row(case, seconds, speed, numbers, "; ".join(notes), load)


def compared(folder: str, runners: Sequence[str], case: str, tolerance: float) -> float | None:
    """The largest difference of onegraph from ONNX Runtime, relative to its largest number; None without it."""
    if "ONNX Runtime" not in runners:
        return None
    differences = []
    with np.load(Path(folder) / "onegraph.npz") as ours, np.load(Path(folder) / "ONNX Runtime.npz") as theirs:
        for name in theirs.files:
            one, other = ours[name].astype(np.float64), theirs[name].astype(np.float64)
            differences.append(float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)))
    if not max(differences) <= tolerance:
        raise AssertionError(f"{case}: the results differ from those of ONNX Runtime by {max(differences):.1e}")
    return max(differences)


def _behind(seconds: dict[str, float], numbers: dict[str, float]) -> str:
    """The figures in which onegraph is behind another contender, with its name."""
    found = [f"latency ({runner})" for runner, taken in seconds.items() if taken < seconds["onegraph"]]
    for key, value in numbers.items():
        runner, figure = key.split(", ", 1)
        own = numbers[f"onegraph, {figure}"]
        if value > own if figure.endswith("runs/s") else value < own:
            found.append(f"{figure.rsplit(', ', 1)[0]} ({runner})")
    return ", ".join(found)
