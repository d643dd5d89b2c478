"""What ONNX Runtime gives for a model: in float64 or f32, in the model's own types, and for disturbed inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from .._util.records import record
from ..ir.op import Array
from ..judging.comparison import ROUNDINGS, Answer
from .onnx_runtime import Ran, Runtime
from .onnx_types import DOUBLE, SINGLE, is_half, retyped, rounds
from .onnx_unsigned import with_unsigned_operands

DISTURBED = 2  # runs
LOOSE = 4.0  # factor on the errors that are allowed without proof, if the oracle is not wider than the model
STEPS = 2.0**-10  # disturbance of the inputs of models that round to integers, so that some results move by a step


@record(frozen=True)
class Answers:
    """What the oracle gives for each output in order; or why it gives nothing."""

    results: tuple[Answer, ...]
    error: str = ""


class ModelOracle:
    """ONNX Runtime for one model.

    Attributes:
        name: of the oracle, for the judgement.
        loose: factor on the errors that are allowed without proof.
        notes: what the oracle cannot do.
    """

    def __init__(self, path: Path, folder: Path, runner: Runtime) -> None:
        self.path, self.runner, self.folder = path, runner, folder
        self.name, self.loose = "ONNX Runtime", 1.0
        self.notes: list[str] = []
        model = with_unsigned_operands(onnx.load(path))  # with its external data
        self.half, self.rounds = is_half(model), rounds(model)
        self.plain = self._kept(model, "plain.onnx")
        wide = [(DOUBLE, "in float64"), (SINGLE, "in f32")] if self.half else [(DOUBLE, "in float64")]
        self._candidates = [(types, text) for types, text in wide if not self.rounds or self.half]
        self._model = model
        self._wide: tuple[Path, str] | None = None
        self._chosen = False

    def _kept(self, model: onnx.ModelProto, name: str) -> Path:
        path = self.folder / name
        onnx.save(model, path, save_as_external_data=model.ByteSize() > 2**30, location=f"{name}.data")
        return path

    def answer(self, inputs: Mapping[str, Array]) -> Answers:
        """What the oracle gives for inputs of the model's own types."""
        if not self._chosen:
            self._choose(inputs)
        exact = self._exact(inputs)
        if exact.error:
            return Answers((), exact.error)
        peer = self._peer(inputs)
        noise = [self._exact(self._disturbed(inputs, place)) for place in range(DISTURBED)]
        answers = []
        for place, result in enumerate(exact.results):
            noisy_results = [run.results[place] for run in noise if not run.error]
            answers.append(Answer(result, None if peer is None or peer.error else peer.results[place], noisy_results))
        return Answers(tuple(answers))

    def _choose(self, inputs: Mapping[str, Array]) -> None:
        """Choose the widest form of the model that ONNX Runtime can run."""
        self._chosen = True
        for types, text in self._candidates:
            name = f"wide_{text.split()[-1]}.onnx"
            try:
                path = self._kept(retyped(self._model, types), name)
            except (ValueError, TypeError, KeyError):
                continue
            if not self.runner.run(path, _wider(inputs, types)).error:
                self._wide, self.name = (path, text), f"ONNX Runtime {text}"
                break
        if self._wide is None or not self._has_peer(inputs):
            self.loose = LOOSE

    def _has_peer(self, inputs: Mapping[str, Array]) -> bool:
        peer = self._peer(inputs)
        if peer is not None and peer.error and self.half:
            self.notes.append(f"ONNX Runtime does not run the model in its own data types: {peer.error}")
        return peer is not None and not peer.error

    def _exact(self, inputs: Mapping[str, Array]) -> Ran:
        if self._wide is None:
            return self.runner.run(self.plain, inputs)
        types = DOUBLE if self._wide[1].endswith("float64") else SINGLE
        return self.runner.run(self._wide[0], _wider(inputs, types))

    def _peer(self, inputs: Mapping[str, Array]) -> Ran | None:
        """The model in its own data types; None if that is the oracle, or if numpy files do not hold the types."""
        if self._wide is None or any(array.dtype.name == "bfloat16" for array in inputs.values()):
            return None
        return self.runner.run(self.plain, inputs)

    def _disturbed(self, inputs: Mapping[str, Array], place: int) -> dict[str, Array]:
        """The inputs, wide if the oracle is, with errors of one rounding."""
        rng = np.random.default_rng(place)
        disturbed = {}
        for name, array in inputs.items():
            rounding = ROUNDINGS.get(array.dtype.name)
            if rounding is None:
                disturbed[name] = array
                continue
            unit = max(rounding.unit, STEPS if self.rounds else 0.0, 2.0**-23)
            moved = array.astype(np.float64) * (1 + unit * rng.uniform(-1, 1, array.shape))
            disturbed[name] = moved if self._wide is not None else moved.astype(array.dtype)
        return disturbed


def _wider(inputs: Mapping[str, Array], types: Mapping[int, int]) -> dict[str, Array]:
    """The inputs in the types of a wider model."""
    target = np.float64 if types is DOUBLE else np.float32
    narrow = ROUNDINGS if types is DOUBLE else [name for name in ROUNDINGS if name != "float32"]
    return {name: array.astype(target) if array.dtype.name in narrow else array for name, array in inputs.items()}


__all__ = ["LOOSE", "Answers", "ModelOracle"]
