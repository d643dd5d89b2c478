"""``python -m benchmarks.memory [names] [--kind f32] [--batch 1]``: the peak memory up to the first results.

Nothing is timed, so the machine may be busy. Each contender has a child process with its defaults. A name is that of a
file in the ONNX format, which runs in the runtimes, or of a task, which is trained.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import exported_models, peers
from .child import Child
from .models.tasks import tasks
from .onnx_child import OnnxSetup
from .onnx_models import MODULE, OTHERS
from .training import MODULE as TRAINING
from .training_child import TrainingSetup


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    trained = [task.name for task in tasks(quick=False)]
    parser.add_argument("names", nargs="*", help=f"of {', '.join((*exported_models.names(), *trained))}")
    parser.add_argument("--kind", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--batch", type=int, default=1, help="of the tasks")
    given = parser.parse_args()
    for name in given.names or (*exported_models.names(), *trained):
        peaks = training(name, given.kind, given.batch) if name in trained else inference(name, given.kind)
        print(
            f"{name}, {given.kind}:", ", ".join(f"{runner} {peak / 1e6:.0f} MB" for runner, peak in peaks), flush=True
        )


def inference(name: str, kind: str) -> Iterator[tuple[str, int]]:
    """The peak of each runtime: it loads the model and runs it once."""
    file = exported_models.file_of(name)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **exported_models.inputs_of(name))
        for runner in ("onegraph", *(one for one, package in OTHERS.items() if peers.installed(package))):
            setup = OnnxSetup(runner, str(file), str(inputs), "", kind)
            yield runner, peak(setup, MODULE)


def training(name: str, kind: str, batch: int) -> Iterator[tuple[str, int]]:
    """The peak of each contender, which trains three steps."""
    for runner in ("onegraph", *(["torch eager"] if peers.installed("torch") else [])):
        yield runner, peak(TrainingSetup(runner, name, kind, batch, quick=False), TRAINING)


def peak(setup: tuple[object, ...], module: str) -> int:
    with Child(setup, {}, module) as child:
        return int(child.ready()["peak"])


if __name__ == "__main__":
    main()
