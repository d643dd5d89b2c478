"""Models in onegraph against the same models in PyTorch, ONNX Runtime and OpenVINO."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import onegraph as og
from onegraph import capi

from . import peers
from .kernels import notes
from .models import attention, bert, dcgan, resnet50
from .models.int8 import Int8, calibrated
from .models.network import Network
from .models.parameters import Parameters
from .timing import QUICK, Effort, Row, alternate, calls

BATCHES = (1, 16)
# The largest allowed difference of two results, relative to their norm.
TOLERANCE = {og.f32: 1e-3, og.bf16: 0.1}
# The data types of a model whose layers the peers do not quantize.
WIDE = ("f32", "bf16")


class Model(NamedTuple):
    """A model and its sizes: the parameters, the input shape for a batch, the layers; and its data types."""

    name: str
    parameters: Parameters
    shape: Callable[[int], tuple[int, ...]]
    forward: Callable[[Any, Any], Any]
    kinds: tuple[str, ...] = ("f32", "bf16", "int8")


def models(quick: bool) -> list[Model]:
    if quick:
        blocks, width, tokens = (1, 1), 8, 8
        return [
            Model(
                "ResNet-50",
                resnet50.parameters(blocks, width, 10),
                partial(resnet50.shape, size=32),
                partial(resnet50.forward, blocks=blocks),
            ),
            Model(
                "BERT-base layer",
                bert.parameters(32),
                partial(bert.shape, tokens=tokens, width=32),
                partial(bert.forward, tokens=tokens, heads=4),
            ),
            Model("DCGAN generator", dcgan.parameters(width, 10), partial(dcgan.shape, noise=10), dcgan.forward, WIDE),
        ]
    return [
        Model("ResNet-50", resnet50.parameters(), resnet50.shape, resnet50.forward),
        Model("BERT-base layer", bert.parameters(), bert.shape, bert.forward),
        Model("DCGAN generator", dcgan.parameters(), dcgan.shape, dcgan.forward, WIDE),
    ]


def attentions(quick: bool) -> list[Model]:
    """Attention alone, for few and for many tokens."""
    return [
        Model(f"attention of {tokens} tokens", {}, partial(attention.shape, tokens=tokens), attention.forward)
        for tokens in ((8,) if quick else (128, 512, 2048))
    ]


def random(shape: tuple[int, ...], dtype: og.DataType) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32).astype(dtype.numpy)


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=9, turn=0.2)
    for model in models(quick):
        for batch in (2,) if quick else BATCHES:
            for kind in model.kinds:
                if quick and kind == "bf16":
                    continue
                yield int8_row(model, batch, effort) if kind == "int8" else row(model, og.DataType(kind), batch, effort)
                gc.collect()


def row(model: Model, dtype: og.DataType, batch: int, effort: Effort) -> Row:
    array, threads = random(model.shape(batch), dtype), capi.get_num_threads() or 1
    others = {}
    if peers.installed("torch"):
        others = peers.torch_runs(peers.torch_model(model.parameters, model.forward, dtype), array, threads)
        file = exported(model, array)
        others |= onnx_runs({"ONNX Runtime": file, "OpenVINO": file}, array, threads, dtype)
    case, graph = f"{model.name}, {dtype}, batch {batch}", graph_of(model, str(dtype), array)
    return compared(case, graph, array, others, TOLERANCE[dtype], effort)


def int8_row(model: Model, batch: int, effort: Effort) -> Row:
    """The quantized peers. They choose their own scales, so their results differ by more."""
    array, threads = random(model.shape(batch), og.f32), capi.get_num_threads() or 1
    wide = graph_of(model, "f32", array)
    others: dict[str, Callable[[], Any]] = {"onegraph f32": wide.compile().bind(x=array).run}
    if all(map(peers.installed, ("torch", "onnx", "onnxruntime"))):
        others |= onnx_runs(peers.quantized(exported(model, array), array), array, threads, og.f32)
    graph = graph_of(model, "int8", array)
    return compared(f"{model.name}, int8, batch {batch}", graph, array, others, 0.1, effort)


def graph_of(model: Model, kind: str, array: np.ndarray) -> og.Graph:
    """The model in ``f32``, ``bf16`` or ``int8``, for an input like the array; int8 is calibrated with the array."""
    net: Network
    if kind == "int8":
        net = Int8(model.parameters, calibrated(model.parameters, model.forward, array))
    else:
        net = Network(model.parameters, og.DataType(kind))
    net.graph.output("result", model.forward(net, net.input("x", array.shape)))
    return net.graph


def exported(model: Model, array: np.ndarray) -> bytes:
    """The model in f32 as ONNX; empty if the ONNX package is missing."""
    if not peers.installed("onnx"):
        return b""
    return peers.export(peers.torch_model(model.parameters, model.forward, og.f32), array.astype(np.float32))


def onnx_runs(
    files: Mapping[str, bytes], array: np.ndarray, threads: int, dtype: og.DataType
) -> dict[str, Callable[[], Any]]:
    """The peers that read ONNX, each with its file of the model."""
    runs = {}
    if (
        (file := files["ONNX Runtime"]) and peers.installed("onnxruntime") and dtype is og.f32
    ):  # it has few bf16 kernels
        runs["ONNX Runtime"] = peers.onnxruntime_run(file, array, threads)
    if (file := files["OpenVINO"]) and peers.installed("openvino"):
        runs["OpenVINO"] = peers.openvino_run(file, array, threads, dtype)
    return runs


def compared(
    case: str,
    graph: og.Graph,
    array: np.ndarray,
    others: dict[str, Callable[[], Any]],
    tolerance: float,
    effort: Effort,
) -> Row:
    """Compare the results, then time the contenders."""
    executable = graph.compile()
    bound = executable.bind(x=array)
    result = np.asarray(bound.run(), np.float32)
    for name, other in others.items():
        agree(result, peers.as_nxc(other()), tolerance, f"{case}, {name}")
    seconds, speed, load = alternate({"onegraph": calls(bound.run), **{k: calls(v) for k, v in others.items()}}, effort)
    report = executable.report()
    numbers = {"partitions": float(len(report.partitions))}
    return Row(case, seconds, speed, numbers, notes(report, bound.run), load)


def agree(one: np.ndarray, other: np.ndarray, tolerance: float, what: str) -> None:
    """Raise if the norm of the difference is more than a share of the norm of the second result."""
    off = float(np.linalg.norm(one - other) / np.linalg.norm(other))
    if not off <= tolerance:
        raise AssertionError(f"{what}: the results differ by {off:.1e} of their length")
