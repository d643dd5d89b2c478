"""torch.compile with onegraph against PyTorch eager, Inductor and OpenVINO's backend: whole models.

Every contender has a child process of its own with its defaults; for inference, Inductor freezes weights. It starts
without kept kernels in each row, unless the environment names their folder (TORCHINDUCTOR_CACHE_DIR): its first call is
then left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

import numpy as np

from . import peers
from .child import Child, in_turns, ratios
from .machine import undisturbed
from .timing import QUICK, Chosen, Effort, Row, every
from .torch_child import RUNNERS, TorchSetup

MODULE = f"{__package__}.torch_child"
KEPT = "TORCHINDUCTOR_CACHE_DIR"
FOR_INFERENCE, FOR_TRAINING = ("Inductor, freezing", "OpenVINO"), ("Inductor",)
INFERENCE = (
    *("ResNet-18", "ResNet-50", "MobileNetV3", "EfficientNet-b0", "DenseNet-121", "ConvNeXt-tiny", "ViT-B/16"),
    *("Swin-T", "DeepLabV3", "BERT-base", "GPT-2", "T5 encoder", "Llama", "Whisper encoder"),
)
TRAINING = {"ResNet-18": 8, "ResNet-50": 4, "MobileNetV3": 8, "ViT-B/16": 2, "BERT-base": 4, "GPT-2": 4}  # batches
# The largest allowed difference from the result of eager, relative to its largest number.
TOLERANCE = {"f32": 1e-3, "bf16": 0.1}


def rows(quick: bool = False, chosen: Chosen = every) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=5, turn=0.2, limit=6)
    for setup in setups(quick):
        if chosen(case_of(setup)):
            yield row(setup, effort, contenders(setup))


def setups(quick: bool = False) -> Iterator[TorchSetup]:
    """What is measured: models for inference, and training steps."""
    for dtype in ("f32",) if quick else ("f32", "bf16"):
        for name in ("tiny",) if quick else INFERENCE:
            yield TorchSetup("", name, dtype, 1, training=False)
        for name, batch in ({"tiny": 2} if quick else TRAINING).items():
            yield TorchSetup("", name, dtype, batch, training=True)


def case_of(setup: TorchSetup) -> str:
    kind = ", training step" if setup.training else ""
    return f"{setup.model}{kind}, {setup.dtype}, batch {setup.batch}"


def contenders(setup: TorchSetup) -> list[str]:
    """The names of those that take part, onegraph first."""
    if not peers.installed("torch"):
        return ["onegraph"]
    absent = {*(FOR_INFERENCE if setup.training else FOR_TRAINING)}
    if not peers.installed("openvino"):
        absent.add("OpenVINO")
    return [runner for runner in RUNNERS if runner not in absent]


def row(setup: TorchSetup, effort: Effort, runners: Sequence[str]) -> Row:
    """Measure the contenders in turns."""
    case = case_of(setup)
    with ExitStack() as stack:
        children, about, failed = {}, {}, {}
        for runner in runners:
            kept = os.environ.get(KEPT) or stack.enter_context(tempfile.TemporaryDirectory())
            child = stack.enter_context(Child(setup._replace(runner=runner), {KEPT: kept}, MODULE))
            told = child.ready()
            if "failed" in told:  # a peer that cannot run the model is left out
                if runner == "onegraph":
                    raise RuntimeError(f"{case}: {told['failed']}")
                failed[runner] = told["failed"]
            else:
                children[runner], about[runner] = child, told
        difference = compared(about, case, TOLERANCE[setup.dtype])

        taken, load = undisturbed(lambda: in_turns(children, effort))
    stats = about["onegraph"]["stats"]
    numbers = {"multiply-adds in oneDNN, %": 100 * stats["share"]}
    for runner, told in about.items():
        numbers[f"{runner}, peak memory, MB"] = told["peak"] / 1e6
        if KEPT not in os.environ or not runner.startswith("Inductor"):
            numbers[f"{runner}, first call, s"] = told["first"]
    speed = {runner: 1 / ratio for runner, ratio in ratios(taken, "onegraph").items()}
    seconds = {runner: median(found) for runner, found in taken.items()}
    left = ", ".join(f"{one['count']} {one['op']}" for one in stats["left"])
    notes = [f"graphs: {stats['graphs']}, partitions: {stats['partitions']}"]
    notes += [f"ops in PyTorch: {left}"] if left else []
    notes += [f"differs by {difference:.1e}"] if difference is not None else []
    notes += [f"{runner} failed: {reason}" for runner, reason in failed.items()]
    return Row(case, seconds, speed, numbers, "; ".join(notes), load)


def compared(about: Mapping[str, Any], case: str, tolerance: float) -> float | None:
    """The largest difference of onegraph from eager, relative to eager's largest number; None without eager."""
    if "torch eager" not in about:
        return None
    ours, theirs = (np.array(about[runner]["result"]) for runner in ("onegraph", "torch eager"))
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not difference <= tolerance:
        raise AssertionError(f"{case}: the result differs from that of eager by {difference:.1e}")
    return difference
