"""One step of a decoder, which reads all weights once, with weights of 32, 16, 8 and 4 bits, against other engines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import onegraph.onnx

from .decoder import SMALL, Array, Decoder, Sizes
from .timing import QUICK, Effort, Row, alternate, calls, every

KINDS = ("f32", "bf16", "int8", "int4")
TOKENS = (1, 4, 16, 128)
# The largest differences, as shares of the largest score; the engines round activations in different ways.
LIMITS = {"f32": 1e-4, "bf16": 0.1, "int8": 0.1, "int4": 0.1}
MEMORY = 1 << 28  # bytes that the bandwidth is measured with
Run = Callable[[], Any]


def onegraph_run(file: Path, given: dict[str, Array], kind: str) -> Run:
    """The model by onegraph."""
    del kind
    return onegraph.onnx.load(file).compile().bind(**given).run


def runtime_run(file: Path, given: dict[str, Array], kind: str) -> Run | None:
    """The model by ONNX Runtime, which has no products of bf16 on CPUs."""
    if kind == "bf16" or not find_spec("onnxruntime"):
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, given)


def openvino_run(file: Path, given: dict[str, Array], kind: str) -> Run | None:
    """The model by OpenVINO, in f32 or in bf16; None if it does not read the model."""
    if not find_spec("openvino"):
        return None
    import openvino

    core = openvino.Core()
    try:
        model = core.read_model(file)
        hint = openvino.Type.bf16 if kind == "bf16" else openvino.Type.f32
        compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY"})
    except RuntimeError:
        return None
    request = compiled.create_infer_request()

    def run() -> list[Array]:
        found = request.infer(given, share_inputs=True, share_outputs=True)
        return [found[port] for port in compiled.outputs]

    return run


def torch_run(file: Path, given: dict[str, Array], kind: str) -> Run | None:
    """The model by PyTorch; None for codes, of which it has no products on CPUs in the form of the model."""
    if kind in ("int8", "int4") or not find_spec("torch"):
        return None
    from .torch_nodes import runner

    return runner(onnx.load(file), given)


RUNS: dict[str, Callable[[Path, dict[str, Array], str], Run | None]] = {
    "onegraph": onegraph_run,
    "ONNX Runtime": runtime_run,
    "OpenVINO": openvino_run,
    "PyTorch": torch_run,
}


def bandwidth(nbytes: int = MEMORY) -> float:
    """The GB that all processors read in a second, the best of several rounds."""
    count = cpu_count() or 1
    parts = [np.ones(nbytes // 4 // count, np.float32) for _ in range(count)]
    best = 0.0
    with ThreadPoolExecutor(count) as pool:
        for _ in range(5):
            begin = time.perf_counter()
            list(pool.map(np.sum, parts))
            best = max(best, nbytes / (time.perf_counter() - begin) / 1e9)
    return best


def rows(quick: bool = False, chosen: Callable[[str], bool] = every) -> Iterator[Row]:
    sizes = SMALL if quick else Sizes()
    for kind in KINDS:
        for tokens in TOKENS[: 2 if quick else None]:
            case = f"{tokens} {'token' if tokens == 1 else 'tokens'}, {kind}"
            if chosen(case):
                yield measured(case, Decoder(sizes, kind, tokens), quick)


def measured(case: str, decoder: Decoder, quick: bool) -> Row:
    """The times of one step, and the bytes of weights that it reads in a second."""
    given, runs, results = decoder.inputs(), dict[str, Run](), dict[str, Array]()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "decoder.onnx"
        onnx.save(decoder.model(), file)
        for name, make in RUNS.items():
            run = make(file, given, decoder.kind)
            if run is not None:
                runs[name], results[name] = run, np.array(run()[0])
        first = results["onegraph"]
        for name, found in results.items():
            error = float(np.abs(found - first).max() / np.abs(first).max())
            assert error <= LIMITS[decoder.kind], (case, name, error)
        effort = QUICK if quick else Effort(9, 0.1)
        seconds, speed, load = alternate({name: calls(run) for name, run in runs.items()}, effort)
    numbers = {"MB of weights": decoder.bytes / 1e6, "GB/s of memory": bandwidth(1 << 22 if quick else MEMORY)}
    numbers |= {f"GB/s of {name}": decoder.bytes / taken / 1e9 for name, taken in seconds.items()}
    return Row(case, seconds, speed, numbers, load=load)
