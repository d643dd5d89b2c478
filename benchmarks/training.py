"""A training step of each model against PyTorch: forward, and all gradients from a given gradient of the result."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import onegraph as og
from onegraph import capi

from . import peers
from .inference import BATCHES, Model, models, random
from .kernels import notes
from .models.network import sizes
from .models.training import Training
from .timing import QUICK, Effort, Row, alternate, calls

# The largest allowed difference of a gradient from torch's in f32, relative to its norm. A bf16 gradient may also
# differ by twice the difference of torch's own bf16 gradient.
TOLERANCE = 0.05


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=7, turn=0.2)
    for model in models(quick):
        for dtype in (og.f32,) if quick else (og.f32, og.bf16):
            for batch in (2,) if quick else BATCHES:
                yield row(model, dtype, batch, effort)
                gc.collect()


def step(model: Model, dtype: og.DataType, shape: tuple[int, ...]) -> tuple[Training, og.LogicalTensor]:
    """The graph of a step, and its result tensor."""
    net = Training(model.parameters, dtype)
    result = model.forward(net, net.input("x", shape))
    net.gradients(result, net.graph.input("d_result", dtype, result.shape))
    net.graph.output("result", result)
    return net, result


def row(model: Model, dtype: og.DataType, batch: int, effort: Effort) -> Row:
    net, result = step(model, dtype, model.shape(batch))
    x, d_result = random(model.shape(batch), dtype), random(sizes(result), dtype)
    given = {name: model.parameters[name].astype(t.dtype.numpy) for name, t in net.taken.items()}
    executable = net.graph.compile()
    bound = executable.bind(x=x, d_result=d_result, **given)
    others: dict[str, Any] = {}
    bound.run()
    case = f"{model.name}, training step, {dtype}, batch {batch}"
    if peers.installed("torch"):
        module = peers.torch_model(model.parameters, model.forward, dtype)
        others = peers.torch_steps(module, x, d_result, capi.get_num_threads() or 1)
        compare(bound.outputs, gradients(model, dtype, x, d_result), gradients(model, og.f32, x, d_result), case)
    seconds, speed, load = alternate({"onegraph": calls(bound.run), **{k: calls(v) for k, v in others.items()}}, effort)
    report = executable.report()
    numbers = {"partitions": float(len(report.partitions))}
    return Row(case, seconds, speed, numbers, notes(report, bound.run), load)


def gradients(model: Model, dtype: og.DataType, x: np.ndarray, d_result: np.ndarray) -> dict[str, np.ndarray]:
    """torch's result and gradients, by the names of the outputs."""
    module = peers.torch_model(model.parameters, model.forward, dtype)
    given, d_given = (array.astype(dtype.numpy) for array in (x, d_result))
    result = peers.torch_steps(module, given, d_given, capi.get_num_threads() or 1)["torch eager"]()
    found = {f"d_{name}": part.grad.float().contiguous().numpy() for name, part in module.named_parameters()}
    return {"result": peers.as_nxc(result), **found}


def compare(
    ours: Mapping[str, np.ndarray], theirs: dict[str, np.ndarray], exact: dict[str, np.ndarray], case: str
) -> None:
    """Compare the result and every gradient with torch's."""
    # A gradient that is zero except for rounding, such as that of the keys' bias, cannot serve as a scale.
    least = 1e-4 * max(length(gradient) for gradient in exact.values())
    for name, wanted in exact.items():
        allowed = 2 * length(theirs[name] - wanted) + TOLERANCE * max(length(wanted), least)
        off = length(np.asarray(ours[name], np.float32) - wanted)
        if not off <= allowed:
            raise AssertionError(
                f"{case}: {name} is off by {off:.1e}; allowed are {allowed:.1e} of {length(wanted):.1e}"
            )


def length(array: np.ndarray) -> float:
    return float(np.linalg.norm(array))
