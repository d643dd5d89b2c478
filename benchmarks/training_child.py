"""A training step that runs in a child process, which imports the package of its contender alone."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from .models.tasks import Task, tasks
from .onnx_child import peak_memory
from .serve import serve

CHECKED = 3  # steps whose losses are compared


class TrainingSetup(NamedTuple):
    """What a child runs.

    Attributes:
        runner: ``onegraph``, ``torch eager`` or ``torch compiled``.
        task: the name of a task.
        kind: ``f32`` or ``bf16``.
        batch: the number of images or sequences.
        quick: small sizes.
    """

    runner: str
    task: str
    kind: str
    batch: int
    quick: bool


# Runs a step and returns its losses.
Step = Callable[[], list[float]]


def prepared(setup: TrainingSetup) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A step, ready to run, and what to tell about it."""
    task = next(task for task in tasks(setup.quick) if task.name == setup.task)
    begin = time.perf_counter()
    step, more = RUNNERS[setup.runner](task, setup)
    losses = [step() for _ in range(CHECKED)]
    ready = time.perf_counter() - begin
    return step, {"losses": losses, "ready": ready, "peak": peak_memory(), **more()}


def onegraph(task: Task, setup: TrainingSetup) -> tuple[Step, Callable[[], dict[str, Any]]]:
    import numpy as np

    import onegraph as og

    from .kernels import taken_by
    from .models.training import Training

    net = Training(task.parameters(), og.DataType(setup.kind), task.optimizer)
    arrays = task.inputs(setup.batch)
    losses = task.step(net, {name: net.given(name, array) for name, array in arrays.items()}, setup.batch)
    net.finish(losses)
    executable = net.graph.compile()
    del net  # with the first contents of the variables, as a program that trains has no use for them
    bound = executable.bind(**arrays)

    def step() -> list[float]:
        bound.run()
        return [float(np.asarray(bound.outputs[f"loss{number}"]).ravel()[0]) for number in range(len(losses))]

    def more() -> dict[str, Any]:
        report, kernels = executable.report(), min((taken_by(bound.run) for _ in range(3)), key=Counter.total)
        counts = [part.executor for part in report.partitions]
        hosts = sorted({part.ops[0].split()[0] for part in report.partitions if part.executor in ("host", "reference")})
        reorders = sum(taken for name, taken in kernels.items() if name.startswith("reorder"))
        return {
            "partitions": {name: counts.count(name) for name in sorted({*counts})},
            "hosts": hosts,
            "reorders": reorders,
            "kernels": kernels,
        }

    return step, more


def torch(task: Task, setup: TrainingSetup) -> tuple[Step, Callable[[], dict[str, Any]]]:
    from .models.torch_training import TorchTraining, tensors

    net = TorchTraining(task.parameters(), task.optimizer, setup.kind == "bf16", setup.runner == "torch compiled")
    given = tensors(task.inputs(setup.batch))
    return lambda: [loss.item() for loss in task.step(net, given, setup.batch)], dict


RUNNERS: dict[str, Callable[[Task, TrainingSetup], tuple[Step, Callable[[], dict[str, Any]]]]] = {
    "onegraph": onegraph,
    "torch eager": torch,
    "torch compiled": torch,
}


if __name__ == "__main__":
    serve(lambda: prepared(TrainingSetup(*json.loads(sys.argv[1]))))
