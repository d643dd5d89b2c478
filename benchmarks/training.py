"""A training step of each model against PyTorch: forward, gradients and the optimizer.

Every contender has a child process of its own with its defaults. The losses of the first steps are compared before
anything is timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any

from . import peers
from .child import Child, in_turns, ratios
from .machine import undisturbed
from .models.tasks import Task, tasks
from .timing import QUICK, Chosen, Effort, Row, every
from .training_child import TrainingSetup

MODULE = f"{__package__}.training_child"
BATCHES = (1, 16)
OTHERS = ("torch eager", "torch compiled")
# The largest allowed difference of a loss of the first steps, relative to that of PyTorch.
TOLERANCE = {"f32": 2e-3, "bf16": 5e-2}
# Of the largest loss: one near 0 is what is left of sums of larger numbers, and oneDNN's logarithm is off by 1.5e-6.
ROUNDING = 3e-6


def rows(quick: bool = False, chosen: Chosen = every) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=5, turn=0.4, limit=10)
    for place, task in enumerate(tasks(quick)[: 2 if quick else None]):
        for kind in ("f32",) if quick and place else ("f32", "bf16"):
            for batch in (2,) if quick else BATCHES:
                case = f"{task.name}, training step, {kind}, batch {batch}"
                if chosen(case):
                    yield row(case, task, kind, batch, effort)


def row(case: str, task: Task, kind: str, batch: int, effort: Effort) -> Row:
    """Measure the contenders in turns."""
    runners = ["onegraph", *(OTHERS if peers.installed("torch") else ())]
    with ExitStack() as stack:
        children, about = {}, {}
        for runner in runners:
            setup = TrainingSetup(runner, task.name, kind, batch, effort is QUICK)
            children[runner] = stack.enter_context(Child(setup, {}, MODULE))
            about[runner] = children[runner].ready()
        compare({runner: told["losses"] for runner, told in about.items()}, TOLERANCE[kind], case)

        taken, load = undisturbed(lambda: in_turns(children, effort))
    numbers: dict[str, float] = {}
    for runner in runners:
        numbers[f"{runner}, peak memory, MB"] = about[runner]["peak"] / 1e6
        numbers[f"{runner}, until step 3 is done, s"] = about[runner]["ready"]
    own = about["onegraph"]
    speed = {runner: 1 / ratio for runner, ratio in ratios(taken, "onegraph").items()}
    seconds = {runner: median(found) for runner, found in taken.items()}
    numbers["reorders and casts, % of the step"] = 1e-7 * own["reorders"] / seconds["onegraph"]
    return Row(case, seconds, speed, numbers, note(own), load)


def note(own: Mapping[str, Any]) -> str:
    """The number of steps of each executor, the ops that numpy runs, and the slowest kernels."""
    counts = ", ".join(f"{count} {executor}" for executor, count in own["partitions"].items())
    whole = sum(own["kernels"].values())
    slowest = sorted(own["kernels"].items(), key=lambda one: -one[1])[:5]
    texts = [f"steps: {counts}", *([f"on numpy: {', '.join(own['hosts'])}"] if own["hosts"] else [])]
    if whole:
        texts.append("kernels: " + ", ".join(f"{name} {taken / whole:.0%}" for name, taken in slowest))
    return "; ".join(texts)


def compare(losses: Mapping[str, list[list[float]]], tolerance: float, case: str) -> None:
    """Compare the losses of the first steps with those of PyTorch, eager or compiled.

    The first step of Adam moves every weight by the same amount, also where the sign of a gradient is a matter of
    rounding. So the losses of eager and of compiled PyTorch differ too.
    """
    largest = max(abs(loss) for found in losses.values() for step in found for loss in step)

    def differences(theirs: list[list[float]]) -> list[str]:
        return [
            f"in step {number}: {one:g}, not {other:g}"
            for number, steps in enumerate(zip(losses["onegraph"], theirs, strict=True), 1)
            for one, other in zip(*steps, strict=True)
            if not abs(one - other) <= tolerance * abs(other) + ROUNDING * largest
        ]

    found = [differences(losses[peer]) for peer in OTHERS if peer in losses]
    if found and all(found):
        raise AssertionError(f"{case}: losses differ from PyTorch's {', '.join(found[0])}")
