"""A model of PyTorch that runs in a child process, eager or compiled by one of the backends of torch.compile."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .models.torch_models import named, result_of
from .onnx_child import peak_memory
from .serve import serve

CHECKED = 1000  # elements of the result that are compared


class TorchSetup(NamedTuple):
    """What a child runs.

    Attributes:
        runner: one of ``RUNNERS``.
        model: the name of a model.
        dtype: ``f32`` or ``bf16``.
        batch: the number of images or sequences.
        training: whether a run is a training step.
    """

    runner: str
    model: str
    dtype: str
    batch: int
    training: bool


def eager(module: Any, dtype: str) -> Any:
    return module


def onegraph(module: Any, dtype: str) -> Any:
    import onegraph.torch

    return torch.compile(module, backend=onegraph.torch.backend)


def inductor(freezing: bool) -> Callable[[Any, str], Any]:
    return lambda module, dtype: torch.compile(module, options={"freezing": freezing})


def openvino(module: Any, dtype: str) -> Any:
    """OpenVINO by default runs models in f32 in bf16 where the processor has it."""
    import openvino.torch  # noqa: F401

    config = {"INFERENCE_PRECISION_HINT": dtype}
    return torch.compile(module, backend="openvino", options={"aot_autograd": True, "config": config})


RUNNERS: dict[str, Callable[[Any, str], Any]] = {
    "onegraph": onegraph,
    "torch eager": eager,
    "Inductor": inductor(freezing=False),
    "Inductor, freezing": inductor(freezing=True),
    "OpenVINO": openvino,
}


def prepared(setup: TorchSetup) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A run, and what its first one took and gave."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    dtype = torch.bfloat16 if setup.dtype == "bf16" else torch.float32
    module, given = named(setup.model, setup.batch)
    for one in module.parameters():
        if not one.any():  # a result of zeros would hide mistakes
            torch.nn.init.normal_(one, std=0.02)
    module = module.to(dtype).train(setup.training)
    args = [one.to(dtype) if one.is_floating_point() else one for one in given]
    model = RUNNERS[setup.runner](module, setup.dtype)
    run = training(model, module, args) if setup.training else inference(model, args)
    start = time.perf_counter()
    try:
        result = run()
    except Exception as error:
        return run, {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:100]}
    seconds = time.perf_counter() - start
    flat = result.detach().float().flatten()
    about = {"first": seconds, "peak": peak_memory(), "result": flat[:: 1 + flat.numel() // CHECKED].tolist()}
    if setup.runner == "onegraph":
        from onegraph.torch import stats

        about["stats"] = stats().to_dict()
    return run, about


def inference(model: Any, args: list[Any]) -> Callable[[], Any]:
    def run() -> Any:
        with torch.no_grad():
            return result_of(model(*args))

    return run


def training(model: Any, module: Any, args: list[Any]) -> Callable[[], Any]:
    """A step of stochastic gradient descent, which PyTorch runs; the mean square of the result is the loss."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-5)

    def step() -> Any:
        loss = result_of(model(*args)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


if __name__ == "__main__":
    serve(lambda: prepared(TorchSetup(*json.loads(sys.argv[1]))))
