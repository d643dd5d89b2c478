"""A model in the ONNX format that runs in a child process, which imports the package of its contender alone."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .serve import serve

CALLS = 4  # of each caller in one run
Run = Callable[[], Any]


class OnnxSetup(NamedTuple):
    """What a child runs.

    Attributes:
        runner: ``onegraph``, ``ONNX Runtime`` or ``OpenVINO``.
        file: the model.
        inputs: an ``.npz`` file with the inputs by name.
        results: the ``.npz`` file to write the results to; empty for none.
        precision: ``f32``, or ``bf16`` for matrix products and convolutions in bf16.
        callers: threads that call at once.
        threads: threads that each call runs on; 0 for the default of the contender.
        kept: the folder of what the contender keeps for later processes; empty for none.
    """

    runner: str
    file: str
    inputs: str
    results: str
    precision: str
    callers: int = 1
    threads: int = 0
    kept: str = ""


def prepared(setup: OnnxSetup) -> tuple[Run, dict[str, Any]]:
    """The model, ready to run, and when its first result was there."""
    with np.load(setup.inputs) as file:
        given = dict(file)
    make = RUNNERS[setup.runner](setup)
    run, describe = make(given)
    results = run()
    at, peak = time.monotonic(), peak_memory()  # the same clock in all processes
    about = {**describe(), "at": at, "peak": peak}
    if setup.results:
        np.savez(setup.results, *results)
    if setup.callers > 1:
        from concurrent.futures import ThreadPoolExecutor

        # Each caller makes its own run, because some runs belong to the thread that made them.
        callers = [ThreadPoolExecutor(1) for _ in range(setup.callers)]
        runs = [caller.submit(make, given).result()[0] for caller in callers]

        def several(one: Run) -> None:
            for _ in range(CALLS):
                one()

        def together() -> None:
            started = [caller.submit(several, one) for caller, one in zip(callers, runs, strict=True)]
            for future in started:
                future.result()

        return together, about
    return run, about


def peak_memory() -> int:
    """The most bytes of memory that this process had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


# Makes a run, and a function that describes it, which is called after the first result.
Make = Callable[[dict[str, np.ndarray]], tuple[Run, Callable[[], dict[str, Any]]]]


def onegraph(setup: OnnxSetup) -> Make:
    import onegraph
    from onegraph import onnx

    onegraph.set_cache_folder(setup.kept or None)
    graph = onnx.load(setup.file, dtype=setup.precision)
    model = graph.compile(threads=setup.threads or None)

    def describe() -> dict[str, Any]:
        executors = [part.executor for part in model.report().partitions]
        counts = {name: executors.count(name) for name in sorted({*executors})}
        return {"version": onegraph.__version__, "partitions": counts}

    def make(given: dict[str, np.ndarray]) -> tuple[Run, Callable[[], dict[str, Any]]]:
        try:
            run: Run = model.bind(**given).run
        except onegraph.ArgumentError:  # a shape depends on data
            run = partial(model, **given)

        def results() -> Any:
            found = run()
            return found if isinstance(found, tuple) else (found,)

        return results, describe

    return make


def onnxruntime(setup: OnnxSetup) -> Make:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if setup.threads:
        options.intra_op_num_threads = setup.threads
    file = setup.file
    if setup.kept:
        optimized = Path(setup.kept) / "optimized.ort"
        if optimized.exists():
            file = str(optimized)
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        else:
            options.add_session_config_entry("session.save_model_format", "ORT")
            options.optimized_model_filepath = str(optimized)
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def make(given: dict[str, np.ndarray]) -> tuple[Run, Callable[[], dict[str, Any]]]:
        return lambda: session.run(None, given), lambda: {"version": onnxruntime.__version__}

    return make


def openvino(setup: OnnxSetup) -> Make:
    import openvino

    hints: dict[str, object] = {"INFERENCE_PRECISION_HINT": setup.precision, "PERFORMANCE_HINT": "LATENCY"}
    if setup.callers > 1:
        hints |= {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": setup.callers}
    core = openvino.Core()
    if setup.kept:
        core.set_property({"CACHE_DIR": setup.kept})
    # With a path, a cached model is found before the file is read.
    compiled = core.compile_model(setup.file, "CPU", hints)

    def make(given: dict[str, np.ndarray]) -> tuple[Run, Callable[[], dict[str, Any]]]:
        request, arrays = compiled.create_infer_request(), [given[port.any_name] for port in compiled.inputs]

        def run() -> Any:
            return request.infer(arrays, share_inputs=True, share_outputs=True).to_tuple()

        return run, lambda: {"version": openvino.__version__}

    return make


RUNNERS: dict[str, Callable[[OnnxSetup], Make]] = {
    "onegraph": onegraph,
    "ONNX Runtime": onnxruntime,
    "OpenVINO": openvino,
}


if __name__ == "__main__":
    serve(lambda: prepared(OnnxSetup(*json.loads(sys.argv[1]))))
