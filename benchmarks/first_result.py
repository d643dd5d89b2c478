"""``python -m benchmarks.first_result [names] [--rounds 5]``: the time from process start to the first result.

Every contender runs in new processes of its own, in turns: without anything kept, and with what an earlier process has
kept. That is the cache folder of onegraph, the optimized model of ONNX Runtime in its own format, and the cached model
of OpenVINO. The files of the models are in memory, as an earlier process has read them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from . import exported_models, peers
from .child import Child
from .onnx_child import OnnxSetup
from .onnx_models import MODULE, OTHERS, write_bytecode

NAMES = (
    "mobilenet_v3",
    "efficientnet_b0",
    "densenet121",
    "light_squeezenet",
    "resnet50_int8",
    "resnet50",
    "bert",
    "vit_b_16",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_result", description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, help=f"of {', '.join(exported_models.names())}")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    write_bytecode()
    runners = ("onegraph", *(one for one, package in OTHERS.items() if peers.installed(package)))
    print("ms, cold / with what is kept;", ", ".join(runners))
    for name in given.names:
        times = first_results(name, runners, given.rounds)
        shown = (f"{runner} {times[runner, False]:.0f} / {times[runner, True]:.0f}" for runner in runners)
        best = min(times[runner, True] for runner in runners[1:]) if len(runners) > 1 else float("nan")
        print(f"{name}:", ", ".join(shown) + f"; {times['onegraph', True] / best:.2f} of the best peer", flush=True)


def first_results(name: str, runners: tuple[str, ...], rounds: int) -> dict[tuple[str, bool], float]:
    """The median time in milliseconds of each contender, without and with what it keeps."""
    file = exported_models.file_of(name)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **exported_models.inputs_of(name))
        found: dict[tuple[str, bool], list[float]] = {}
        for _ in range(1 + rounds):  # the first round keeps what the others find, and reads the files
            for runner in runners:
                for keeps in (False, True):
                    kept = Path(folder) / runner
                    kept.mkdir(exist_ok=True)
                    setup = OnnxSetup(runner, str(file), str(inputs), "", "f32", kept=str(kept) if keeps else "")
                    with Child(setup, {}, MODULE) as child:
                        found.setdefault((runner, keeps), []).append(child.ready()["at"] - child.started)
    return {contender: 1e3 * median(times[1:]) for contender, times in found.items()}


if __name__ == "__main__":
    main()
