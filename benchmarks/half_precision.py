"""``python -m benchmarks.half_precision [names]``: models in f16 and bf16, against float64 and their time in f32.

Each model has random weights and a few layers of the real width. It is exported to ONNX in the wanted op sets, and
compiled by torch.compile. A row has the error as a share of the results, beside that of eager PyTorch in the same data
type, for inputs at three scales, and the time as a share of the time in f32 by the same door.
"""

from __future__ import annotations

import argparse
import copy
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch

import onegraph.onnx
import onegraph.torch

from .models.diffusion import DiffusionUNet
from .models.torch_models import named, result_of
from .timing import Effort, alternate, calls

TRANSFORMERS = {
    "GPT-2": "transformers/GPT2LMHeadModel?n_layer=2",
    "BERT": "transformers/BertModel?num_hidden_layers=2",
    "ViT": "transformers/ViTModel?num_hidden_layers=2",
}
NAMES = (*TRANSFORMERS, "diffusion UNet")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
SCALES = (0.01, 1.0, 30.0)
EMBEDDINGS = ("wte", "wpe", "embeddings")  # tokens have no scale, their embeddings have


class First(torch.nn.Module):
    """The first result of a model."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any) -> Any:
        return result_of(self.module(*args))


def made(name: str, scale: float = 1.0) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A model, and its arguments, at a scale."""
    torch.manual_seed(0)
    if name in TRANSFORMERS:
        module, args = named(TRANSFORMERS[name], 1)
    else:
        module, args = DiffusionUNet(), (torch.randn(1, 4, 32, 32), torch.tensor([17]))
    with torch.no_grad():
        for label, parameter in module.named_parameters():
            if not args[0].is_floating_point() and any(word in label for word in EMBEDDINGS):
                parameter.mul_(scale)
    return First(module).eval(), tuple(one * scale if one.is_floating_point() else one for one in args)


def cast(args: tuple[Any, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    return tuple(one.to(dtype) if one.is_floating_point() else one for one in args)


def array(tensor: Any) -> Any:
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def error(found: Any, exact: Any) -> float:
    """The mean error, as a share of the mean result."""
    wide = torch.as_tensor(np.asarray(found, np.float64)) if isinstance(found, np.ndarray) else found.double()
    return float((wide - exact).norm() / exact.norm())


def by_onnx(op_set: int, module: torch.nn.Module, args: tuple[Any, ...]) -> Callable[[], Any]:
    """The module as an ONNX model of an op set; the exporter that traces graphs needs the package onnxscript."""
    file, options = io.BytesIO(), {"input_names": [f"x{place}" for place in range(len(args))]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if op_set < 18:
            torch.onnx.export(module, args, file, opset_version=op_set, dynamo=False, **options)
        else:
            torch.onnx.export(module, args, opset_version=op_set, dynamo=True, verbose=False, **options).save(file)
    run = onegraph.onnx.load(onnx.load_from_string(file.getvalue())).compile()
    return partial(run, *map(array, args))


def by_torch(context: AbstractContextManager[Any], module: torch.nn.Module, args: tuple[Any, ...]) -> Callable[[], Any]:
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=onegraph.torch.backend)

    def run() -> Any:
        with torch.no_grad(), context:
            return compiled(*args)

    return run


def doors(op_sets: list[int]) -> Iterator[tuple[str, str, bool, Callable[..., Callable[[], Any]]]]:
    """The name of each door, the data type, whether autocast casts, and what compiles a module with arguments."""
    for dtype in DTYPES:
        for op_set in op_sets:
            yield f"ONNX {op_set}", dtype, False, partial(by_onnx, op_set)
        yield "torch.compile", dtype, False, partial(by_torch, nullcontext())
        yield "autocast", dtype, True, partial(by_torch, torch.autocast("cpu", DTYPES[dtype]))


def row(name: str, door: str, dtype: str, casts: bool, build: Callable[..., Callable[[], Any]]) -> str:
    """The errors at each scale, and the time."""
    parts = []
    for scale in SCALES:
        module, args = made(name, scale)
        if not casts:
            module, args = module.to(DTYPES[dtype]), cast(args, DTYPES[dtype])
        run = build(module, args)
        with torch.no_grad():
            exact = copy.deepcopy(module).double()(*cast(args, torch.float64))
            with torch.autocast("cpu", DTYPES[dtype], enabled=casts):
                eager = error(module(*args), exact)
        parts.append(f"x{scale:g}: {error(run(), exact):.1e} (eager {eager:.1e})")
        if scale == 1:
            plain = build if door.startswith("ONNX") else partial(by_torch, nullcontext())
            taken = alternate({"f32": calls(plain(*made(name))), dtype: calls(run)}, Effort(rounds=9, turn=0.1))
    return f"{name:14} {door:13} {dtype:4} {', '.join(parts)}, time {1 / taken.speed[dtype]:.2f} of f32"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.half_precision", description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--op-sets", nargs="*", type=int, default=[18, 20, 21, 23, 24])
    given = parser.parse_args()
    for name in given.names:
        for door in doors(given.op_sets):
            print(row(name, *door), flush=True)


if __name__ == "__main__":
    main()
