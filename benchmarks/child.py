"""A model that runs in a child process, with its own libraries and thread pools, when the parent asks for it.

The child compiles the model, replies with the version of the library, the partitions and a part of the result, and then
waits. ``go`` starts runs in a loop; the child replies after the first one. ``stop`` ends the loop; the child replies
with the times at which runs ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, NamedTuple

from .serve import serve
from .timing import Effort

ROOT = Path(__file__).resolve().parents[1]
# The children get the defaults of a user who has tuned nothing.
TUNING = ("GOMP_SPINCOUNT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
# Seconds to wait before a turn, in which the threads of the last turn go to sleep.
SETTLE = 0.1


class Setup(NamedTuple):
    """What a child runs.

    Attributes:
        runner: ``onegraph``, or a peer.
        model: the name of one of :func:`benchmarks.inference.models` or ``attentions``.
        kind: ``f32``, ``bf16`` or ``int8``.
        batch: the number of images or sequences.
        quick: small sizes.
        first: a module, or a library with ``.so`` in its name, to load before everything else.
        onnx: the file of the model, for the peers that read one.
    """

    runner: str
    model: str
    kind: str
    batch: int
    quick: bool
    first: str = ""
    onnx: str = ""


class Child:
    """A child process. Its constructor starts it; :meth:`ready` waits until its model is compiled.

    Args:
        setup: what it runs.
        environment: variables of its environment.
        module: what the process executes: this module, or another one that calls ``serve``.
    """

    def __init__(self, setup: tuple[object, ...], environment: Mapping[str, str], module: str = __name__) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in TUNING}
        command = [sys.executable, "-m", module, json.dumps(setup)]
        pipe = subprocess.PIPE
        self._setup = setup
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, bufsize=1, cwd=ROOT, env={**kept, **environment}
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")

    def reply(self) -> Any:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"the child process of {self._setup} has ended")
        return json.loads(line)

    ready = reply


def together(children: Sequence[Child], seconds: float) -> list[list[float]]:
    """Run all children for some seconds; returns the times of the runs of each while all of them ran."""
    time.sleep(SETTLE)
    for child in children:
        child.send("go")
    for child in children:
        child.reply()
    time.sleep(seconds)
    for child in children:
        child.send("stop")
    ends: list[list[float]] = [child.reply() for child in children]
    first, last = max(times[0] for times in ends), min(times[-1] for times in ends)
    found = []
    for times in ends:
        inside = [end for end in times if first <= end <= last]
        if len(inside) < 2:
            inside = times
        found.append([after - before for before, after in pairwise(inside)])
    return found


def in_turns(children: Mapping[str, Child], effort: Effort) -> dict[str, list[float]]:
    """Run the children one after the other in each round; returns the median time of a run of each, by round."""
    found: dict[str, list[float]] = {name: [] for name in children}
    for _ in effort.each_round():
        for name, child in children.items():
            found[name].append(median(together([child], effort.turn)[0]))
    return found


def ratios(times: Mapping[str, Sequence[float]], first: str) -> dict[str, float]:
    """How many times as long each one took as the first, the median over the rounds."""
    return {
        name: median(own / base for own, base in zip(taken, times[first], strict=True))
        for name, taken in times.items()
        if name != first
    }


# In the child process ----------------------------------------------------------------------------------------------


def prepared(setup: Setup) -> tuple[Callable[[], Any], dict[str, Any]]:
    """The model, ready to run, and what to tell about it."""
    if ".so" in setup.first:
        import_module("ctypes").CDLL(setup.first)
    elif setup.first:
        import_module(setup.first)
    import numpy as np

    import onegraph as og
    from onegraph.native import library

    from . import inference, peers

    models = *inference.models(setup.quick), *inference.attentions(setup.quick)
    model = next(model for model in models if model.name == setup.model)
    array = inference.random(model.shape(setup.batch), og.bf16 if setup.kind == "bf16" else og.f32)
    about: dict[str, Any] = {"version": ".".join(map(str, library.VERSION))}
    if setup.runner == "onegraph":
        executable = inference.graph_of(model, setup.kind, array).compile()
        run: Callable[[], Any] = executable.bind(x=array).run
        about["partitions"] = len(executable.report().partitions)
        result = np.asarray(run(), np.float32)
    else:
        if setup.runner == "torch eager":
            import torch

            module = peers.torch_model(model.parameters, model.forward, og.f32)
            run = peers.torch_runs(module, array, torch.get_num_threads())["torch eager"]
        elif setup.runner == "ONNX Runtime":
            run = peers.onnxruntime_run(Path(setup.onnx).read_bytes(), array, 0)
        else:
            run = peers.openvino_run(Path(setup.onnx).read_bytes(), array, 0, og.f32)
        result = peers.as_nxc(run())
    return run, about | {"result": result.ravel()[:: 1 + result.size // 1000].tolist()}


if __name__ == "__main__":
    serve(lambda: prepared(Setup(*json.loads(sys.argv[1]))))
