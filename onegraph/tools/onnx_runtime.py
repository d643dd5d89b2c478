"""Runs models in ONNX Runtime, in a process of its own, because a model may crash it or never end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._util.records import record
from .._util.worker_process import Worker
from ..ir.op import Array

TIME_LIMIT = 120.0  # seconds for one call
INSTALL = "pip install onnxruntime"


def is_installed() -> bool:
    """Whether ONNX Runtime is there."""
    return find_spec("onnxruntime") is not None


@record(frozen=True)
class Ran:
    """The results of a call in order, or the error."""

    results: tuple[Array, ...]
    error: str = ""


class Runtime:
    """ONNX Runtime in a worker process."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._worker = folder, Worker(__name__)

    def run(self, model: Path, inputs: Mapping[str, Array]) -> Ran:
        """Run a model, whose file is read at the first call."""
        inputs_path, made = self._folder / "given.npz", self._folder / "made.npz"
        stored: dict[str, Any] = {f"_{name}": array for name, array in inputs.items()}
        np.savez(inputs_path, **stored)
        done = self._worker.run({"model": str(model), "given": str(inputs_path), "made": str(made)}, TIME_LIMIT)
        if done.outcome != "done":
            return Ran((), f"{done.outcome}: {done.detail}" if done.outcome != "error" else done.detail)
        with np.load(made) as results:
            return Ran(tuple([results[f"_{place}"] for place in range(len(results.files))]))

    def close(self) -> None:
        """End the process."""
        self._worker.close()


@contextmanager
def runtime() -> Iterator[tuple[Runtime, Path]]:
    """ONNX Runtime, and a folder for models that is removed at the end."""
    with TemporaryDirectory(prefix="onegraph-") as folder:
        made = Runtime(Path(folder))
        try:
            yield made, Path(folder)
        finally:
            made.close()


def main() -> None:
    """Run the tasks on standard input."""
    import onnxruntime  # type: ignore[import-untyped]

    onnxruntime.set_default_logger_severity(4)
    sessions: dict[str, Any] = {}
    for line in sys.stdin:
        task = json.loads(line)
        outcome, detail = "done", ""
        try:
            if task["model"] not in sessions:
                sessions[task["model"]] = _session(onnxruntime, task["model"])
            with np.load(task["given"]) as archive:
                inputs = {name[1:]: archive[name] for name in archive.files}
            results = sessions[task["model"]].run(None, inputs)
            stored: dict[str, Any] = {f"_{place}": np.asarray(result) for place, result in enumerate(results)}
            np.savez(task["made"], **stored)
        except Exception as error:  # the errors of ONNX Runtime have no common class
            outcome, detail = "error", str(error).strip().splitlines()[0][:300]
        print(json.dumps({"stage": "run", "done": True, "outcome": outcome, "detail": detail}), flush=True)


def _session(onnxruntime: Any, path: str) -> Any:
    """A session without rewrites of the model; with them if it cannot be made otherwise."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.x64quantprecision", "1")  # see onnx_unsigned; for what rewrites make
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # this process uses the processors too
    providers = ["CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(path, options, providers=providers)
    except Exception:  # some nodes have no kernel before they are rewritten
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        return onnxruntime.InferenceSession(path, options, providers=providers)


__all__ = ["INSTALL", "Ran", "Runtime", "is_installed", "main", "runtime"]
