"""Ops that the library refuses or computes wrong, rewritten to forms that it supports, against the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import draws

import onegraph as og
from onegraph import reference
from onegraph.capi import settings
from onegraph.capi.settings import is_native
from onegraph.compiler.ir.part import Part
from onegraph.compiler.rewrites import library_form
from onegraph.compiler.rewrites.form import FormBuilder, Rewrite, form_of
from onegraph.faults import cpus
from onegraph.native import library
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType
from onegraph.reference import run

Build = Callable[[og.Graph, str], "og.LogicalTensor | tuple[og.LogicalTensor, ...]"]
TOLERANCE = {"f32": 1e-5, "bf16": 2.0**-7, "f16": 2.0**-9}
DTYPES = ("f32", "bf16", "f16")


def layer_norm(shape: tuple[int, ...], begin: int, affine: bool, keep: bool) -> Build:
    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...]:
        ins = [g.input("x", dtype, shape)]
        if affine:
            ins += [g.input(name, "f32", shape[-1:]) for name in ("gamma", "beta")]
        attrs = {"begin_norm_axis": begin, "use_affine": affine, "keep_stats": keep, "epsilon": 0.25}
        # Statistics of bf16 may be bf16, those of f16 and f32 are f32.
        made = g.op("LayerNorm", ins, attrs, dtype="f32") if keep and dtype == "bf16" else g.op("LayerNorm", ins, attrs)
        return made if isinstance(made, tuple) else (made,)

    return build


def layer_norm_backward(shape: tuple[int, ...], begin: int, affine: bool) -> Build:
    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...]:
        outer = shape[:begin]
        ins = [g.input("x", dtype, shape), g.input("d", dtype, shape), g.input("m", "f32", outer)]
        ins.append(g.square(g.input("v", "f32", outer)))
        if affine:
            ins += [g.input(name, "f32", shape[-1:]) for name in ("gamma", "beta")]
        made = g.op("LayerNormBackward", ins, {"begin_norm_axis": begin, "use_affine": affine, "epsilon": 0.25})
        return made if isinstance(made, tuple) else (made,)

    return build


def group_norm(shape: tuple[int, ...], groups: int, fmt: str, affine: bool) -> Build:
    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...]:
        count = shape[-1] if fmt == "NXC" else shape[1]
        ins = [g.input("x", dtype, shape)]
        if affine:
            ins += [g.input(name, "f32", (count,)) for name in ("gamma", "beta")]
        attrs = {"groups": groups, "data_format": fmt, "use_affine": affine, "keep_stats": False, "epsilon": 0.25}
        made = g.op("GroupNorm", ins, attrs)
        return made if isinstance(made, tuple) else (made,)

    return build


def rms_norm(shape: tuple[int, ...], begin: int, gamma: bool) -> Build:
    def build(g: og.Graph, dtype: str) -> og.LogicalTensor:
        ins = [g.input("x", dtype, shape), *([g.input("gamma", "f32", shape[-1:])] if gamma else [])]
        return g.op("RMSNorm", ins, {"begin_norm_axis": begin, "epsilon": 0.25})

    return build


def unary(kind: str, shape: tuple[int, ...], **attrs: object) -> Build:
    return lambda g, dtype: g.op(kind, [g.input("x", dtype, shape)], attrs)


def positive(kind: str, shape: tuple[int, ...], **attrs: object) -> Build:
    return lambda g, dtype: g.op(kind, [g.exp(g.input("x", dtype, shape))], attrs)


def gelu_backward(shape: tuple[int, ...]) -> Build:
    attrs = {"mode": "gelu_tanh"}
    return lambda g, dtype: g.op("GELUBackward", [g.input(name, dtype, shape) for name in "xd"], attrs)


def softmax(kind: str, axis: int) -> Build:
    def build(g: og.Graph, dtype: str) -> og.LogicalTensor:
        shape = (6, 12, 9)
        ins = [g.input("x", dtype, shape), *([g.softmax(g.input("y", dtype, shape), dtype=dtype, outputs=["dst"])]
                                             if kind.endswith("Backward") else [])]  # fmt: skip
        result = g.op(kind, ins, {"axis": axis}, dtype=dtype, outputs=None if kind != "SoftMax" else ["dst"])
        assert isinstance(result, og.LogicalTensor)
        return result

    return build


def broadcast(kind: str, first: tuple[int, ...], second: tuple[int, ...]) -> Build:
    def build(g: og.Graph, dtype: str) -> og.LogicalTensor:
        return g.op(kind, [g.input("x", dtype, first), g.exp(g.clamp(g.input("y", dtype, second), min=-1.0, max=1.0))])

    return build


def spatial_mean(shape: tuple[int, ...], keep: bool) -> Build:
    return unary("ReduceMean", shape, axes=list(range(1, len(shape) - 1)), keep_dims=keep)


def batch_norm(fmt: str, *spatial: int) -> Build:
    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...]:
        shape = (6, *spatial, 5) if fmt == "NXC" else (6, 5, *spatial)
        ins = [g.input("x", dtype, shape), *(g.input(name, "f32", (5,)) for name in "mvgb")]
        return g.op("BatchNormForwardTraining", ins, {"epsilon": 0.25, "momentum": 0.25, "data_format": fmt})

    return build


def batch_norm_inference(*shape: int) -> Build:
    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...]:
        ins = [g.input("x", dtype, shape), *(g.input(name, "f32", shape[-1:]) for name in ("gamma", "beta", "mean"))]
        variance = g.square(g.input("v", "f32", shape[-1:]))
        return (g.op("BatchNormInference", [*ins, variance], {"epsilon": 0.25}),)  # type: ignore[return-value]

    return build


def batch_norm_backward(fmt: str, outputs: list[str], *spatial: int) -> Build:
    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...]:
        shape = (6, *spatial, 5) if fmt == "NXC" else (6, 5, *spatial)
        ins = [g.input("x", dtype, shape), g.input("d", dtype, shape), g.input("m", "f32", (5,))]
        ins += [g.square(g.input("v", "f32", (5,))), g.input("gamma", "f32", (5,))]
        attrs = {"epsilon": 0.25, "data_format": fmt}
        made = g.op("BatchNormTrainingBackward", ins, attrs, outputs=["diff_src", *outputs])
        return made if isinstance(made, tuple) else (made,)

    return build


def prelu(shape: tuple[int, ...], slope: tuple[int, ...], backward: bool = False) -> Build:
    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...] | og.LogicalTensor:
        ins = [g.input("x", dtype, shape), g.input("s", dtype, slope)]
        if backward:
            return g.op("PReLUBackward", [*ins, g.input("d", dtype, shape)])
        return g.op("PReLU", ins)

    return build


def concat(count: int, shape: tuple[int, ...], axis: int) -> Build:
    return lambda g, dtype: g.op("Concat", [g.input(f"x{n}", dtype, shape) for n in range(count)], {"axis": axis})


def mixed(kind: str, other: str) -> Build:
    def build(g: og.Graph, dtype: str) -> og.LogicalTensor:
        return g.op(kind, [g.input("x", dtype, (3, 4)), g.exp(g.input("y", other, (4,)))], dtype="f32")

    return build


def matmul_bias(g: og.Graph, dtype: str) -> og.LogicalTensor:
    ins = [g.input(name, dtype, shape) for name, shape in (("x", (3, 5)), ("w", (5, 4)), ("b", (4,)))]
    return g.matmul(*ins, dtype=dtype)


# Ops without a form in the library, with the number of parts that do arithmetic.
REWRITTEN: dict[str, Build] = {
    "layer norm of two axes": layer_norm((2, 3, 4), 1, True, True),
    "layer norm of all axes": layer_norm((2, 3, 4), 0, True, True),
    "layer norm of two of four": layer_norm((2, 5, 3, 4), -2, True, False),
    "layer norm without gamma": layer_norm((3, 2, 6), 1, False, True),
    "layer norm of a vector": layer_norm((7,), 0, True, True),
    "layer norm backward": layer_norm_backward((2, 3, 4), 1, True),
    "layer norm backward of all axes": layer_norm_backward((3, 4), 0, True),
    "layer norm backward without gamma": layer_norm_backward((2, 3, 2, 4), 2, False),
    "group norm NXC": group_norm((2, 5, 3, 8), 4, "NXC", True),
    "group norm NCX": group_norm((2, 8, 5, 3), 2, "NCX", True),
    "group norm, one group": group_norm((3, 6, 4), 1, "NCX", False),
    "group norm without spatial axes": group_norm((3, 8), 2, "NXC", True),
    "rms norm": rms_norm((4, 6), -1, True),
    "rms norm of two axes": rms_norm((2, 3, 4), 1, True),
    "rms norm without gamma": rms_norm((4, 6), -1, False),
    "rms norm of one element": rms_norm((4, 1), -1, True),
    "gelu by tanh": unary("GELU", (5, 7), mode="gelu_tanh"),
    "gelu by tanh of a scalar": unary("GELU", (), mode="gelu_tanh"),
    "gelu backward by tanh": gelu_backward((5, 7)),
    "gelu backward by tanh of a scalar": gelu_backward(()),
    **{f"pow {beta}": unary("Pow", (3, 5), beta=beta) for beta in (1.0, 2.0, 3.0, 4.0)},
    **{f"root {beta}": positive("Pow", (3, 5), beta=beta) for beta in (0.5, -0.5, -1.0, -2.0)},
    "pow of a scalar": unary("Pow", (), beta=3.0),
    "reciprocal": positive("Reciprocal", (3, 5)),
    "bias gradient": unary("BiasAddBackward", (2, 3, 4), data_format="NCX"),
    "bias gradient of one row": unary("BiasAddBackward", (1, 1, 4), data_format="NXC"),
    **{
        f"{kind} over {axes} of size 1": unary(kind, (1, 5, 1), axes=axes, keep_dims=keep)
        for kind in ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
        for axes in ([0, 2], [])
        for keep in (True, False)
    },
    **{
        f"{kind} over {axes}, keep_dims {keep}": unary(kind, (5, 4, 3, 8), axes=axes, keep_dims=keep)
        for kind in ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
        for axes in ([0], [1], [0, 1], [0, 2, 3], [0, 2], [1, 3])
        for keep in (True, False)
    },
    **{f"softmax along {axis}": softmax("SoftMax", axis) for axis in (0, 1, 2)},
    **{f"log softmax along {axis}": softmax("LogSoftmax", axis) for axis in (0, 1)},
    **{f"softmax backward along {axis}": softmax("SoftMaxBackward", axis) for axis in (0, 1)},
    **{f"log softmax backward along {axis}": softmax("LogSoftmaxBackward", axis) for axis in (0, 1)},
    **{
        f"{kind} of {first} and {second}": broadcast(kind, first, second)
        for kind in ("Add", "Divide", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract")
        for first, second in (
            ((1,), (6, 8, 9)),
            ((8, 1), (6, 8, 9)),
            ((6, 1, 9), (8, 1)),
            ((6, 8, 9), (6, 1, 1)),
            ((2, 3, 8, 9), (3, 1, 1)),
            ((2, 3, 8, 9), (2, 1, 8, 1)),
        )
    },
    # Large enough for copies of one of two operands that are both broadcast.
    **{
        f"{kind} of {first} and {second}": broadcast(kind, first, second)
        for kind in ("Add", "Divide", "Maximum", "Subtract")
        for first, second in (
            ((1, 130, 16), (40, 1, 16)),
            ((40, 1, 20), (1, 130, 20)),
            ((2, 2, 4, 4, 1, 5, 4), (2, 2, 4, 4, 70, 1, 1)),
            ((70000,), (1, 1)),
        )
    },
    "gradient of a mean over one image": lambda g, dtype: g.op(
        "AvgPoolBackward",
        [g.input("x", dtype, (1, 1, 1, 32))],
        {
            "src_shape": [1, 3, 5, 32],
            "kernel": [3, 5],
            "strides": [1, 1],
            "pads_begin": [0, 0],
            "pads_end": [0, 0],
            "exclude_pad": True,
            "data_format": "NXC",
        },
    ),
    "bias gradient NXC": unary("BiasAddBackward", (8, 5, 16), data_format="NXC"),
    "bias gradient NCX": unary("BiasAddBackward", (8, 5, 16), data_format="NCX"),
    "reduction to a scalar": unary("ReduceL1", (1, 1), axes=[0, 1], keep_dims=False),
    **{
        f"mean of {rank - 2} axes between, keep_dims {keep}": spatial_mean((2, *(3, 4, 5)[: rank - 2], 16), keep)
        for rank in (3, 4, 5)
        for keep in (True, False)
    },
    "mean of one channel": spatial_mean((3, 6, 5, 1), True),
    "mean of axes of size 1 between": spatial_mean((8, 1, 1, 16), False),
    "mean of a long axis": spatial_mean((2, 3, 1500, 2), False),
    "batch norm NXC": batch_norm("NXC"),
    "batch norm NCX": batch_norm("NCX"),
    "batch norm NXC of one axis": batch_norm("NXC", 3),
    "batch norm NCX of one axis": batch_norm("NCX", 3),
    "batch norm NXC of four axes": batch_norm("NXC", 3, 2, 1, 4),
    "batch norm NCX of five axes": batch_norm("NCX", 3, 2, 1, 4, 2),
    "batch norm backward NCX of four axes": batch_norm_backward("NCX", ["diff_gamma", "diff_beta"], 3, 2, 1, 4),
    "batch norm inference of four axes": batch_norm_inference(2, 3, 2, 1, 4, 5),
    "batch norm backward NXC of one axis": batch_norm_backward("NXC", ["diff_gamma", "diff_beta"], 3),
    "batch norm backward NCX of one axis": batch_norm_backward("NCX", [], 3),
    "batch norm backward": batch_norm_backward("NXC", ["diff_gamma", "diff_beta"]),
    "batch norm backward, one output": batch_norm_backward("NCX", []),
    "prelu of a vector": prelu((6,), (6,)),
    "prelu of a vector, one slope": prelu((6,), (1,)),
    "prelu backward of a vector": prelu((6,), (6,), backward=True),
    "prelu backward, one slope": prelu((6,), (1,), backward=True),
    "prelu of a batch, one slope": prelu((2, 6), (1,)),
    "prelu of a batch, slopes of a plane": prelu((2, 3, 4), (3, 1)),
    "prelu backward of a batch, slopes of a plane": prelu((2, 3, 4), (3, 1), backward=True),
    "concat of 70": concat(70, (2, 3), 1),
    "concat of 4,200": concat(4200, (1, 2), 0),
    "concat of 7 axes": concat(3, (1, 2, 1, 3, 1, 2, 2), 3),
    "concat of 70 of 7 axes": concat(70, (1, 2, 1, 1, 1, 2, 2), -1),
    "add f32": mixed("Add", "f32"),
    "divide by f32": mixed("Divide", "f32"),
    "round": unary("Round", (4, 6)),
    "matmul with bias": matmul_bias,
}


def compiled(build: Build, dtype: str, **options: object) -> tuple[og.Graph, og.runtime.executable.Executable]:
    graph = og.Graph()
    made = build(graph, dtype)
    for number, tensor in enumerate(made if isinstance(made, tuple) else (made,)):
        graph.output(f"y{number}", tensor)
    return graph, graph.compile(**options)


def arrays(graph: og.Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    found = {}
    for name, tensor in graph.inputs.items():
        shape = tuple(dim or 0 for dim in tensor.shape or ())
        whole = tensor.dtype.numpy.kind in "iu"
        low, high = (-20 if str(tensor.dtype) != "u8" else 0, 20) if whole else (-64, 64)
        found[name] = (rng.integers(low, high, shape) / (1 if whole else 32)).astype(tensor.dtype.numpy)
    return found


def assert_right(graph: og.Graph, *executables: og.runtime.executable.Executable) -> None:
    inputs = arrays(graph)
    expected = [*run(graph, inputs).values()]
    for executable in [one for one in executables for _ in range(2)]:
        got = executable(**inputs)
        results = got if isinstance(got, tuple) else (got,)
        for actual, wanted in zip(results, expected, strict=True):
            assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
            limit = TOLERANCE.get(str(og.DataType.of(wanted.dtype)), 0) * np.abs(wanted.astype(float)).max(initial=0)
            np.testing.assert_allclose(actual.astype(float), wanted.astype(float), rtol=0, atol=limit)


def executors(executable: og.runtime.executable.Executable) -> list[str]:
    return [partition.executor for partition in executable.report().partitions]


# Each op in f32, and every third one in turns in one of the 16-bit types, in which the rewrites are the same.
ONE_OR_BOTH = [
    (name, dtype)
    for place, name in enumerate(REWRITTEN)
    for dtype in draws(("f32", *DTYPES[1 + place % 2 :][: place % 3 == 0]), DTYPES)
]


@pytest.mark.parametrize(("name", "dtype"), ONE_OR_BOTH)
def test_rewritten_op_is_right_without_fallback(name: str, dtype: str) -> None:
    """By default, every second op runs alone too."""
    graph, executable = compiled(REWRITTEN[name], dtype)
    is_alone = draws(dtype == "f32" and [*REWRITTEN].index(name) % 2 == 0, True)
    moves = name.startswith("concat") and not is_native(og.DataType(dtype)) and library.VERSION >= (3, 5)
    alone = [graph.compile(policy="debug", fallback=False)] if is_alone and not moves else []
    assert_right(graph, executable, *alone)
    by_numpy = {p.reason for p in executable.report().partitions if p.executor == "reference"}
    if moves:
        # From 3.5 on, partitions have only data types that the CPU computes with, even to move elements.
        assert by_numpy
        assert all("does not support the partition of Concat" in reason for reason in by_numpy)
        return
    assert not by_numpy


BACK = {"strides": [2], "pads_begin": [0], "pads_end": [0], "data_format": "NCX"}
SAID = {
    "negative axis": lambda g, _: g.quantize(
        g.input("x", "f32", (2, 3, 4)), qtype="per_channel", axis=-2, scales=[1.0, 2.0, 4.0], zps=[0] * 3, dtype="u8"
    ),
    "axes as an input": lambda g, _: g.reduce_sum(g.input("x", "f32", (2, 3, 4)), g.constant(np.array([1], np.int32))),
    "auto_pad": lambda g, _: g.conv_transpose_backward_weights(
        g.input("x", "f32", (1, 3, 2)),
        g.input("d", "f32", (1, 6, 2)),
        weights_shape=[3, 2, 2],
        auto_pad="same_upper",
        dilations=[1],
        **{**BACK, "data_format": "NXC"},
    ),
    "dilations": lambda g, _: g.max_pool_backward(
        g.input("x", "f32", (1, 2, 6)), g.input("y", "f32", (1, 2, 3)), kernel=[2], **BACK
    ),
}


@pytest.mark.parametrize("text", SAID)
def test_report_explains_a_rewrite(text: str) -> None:
    graph, executable = compiled(SAID[text], "f32")
    assert_right(graph, executable)
    (partition,) = executable.report().partitions
    assert partition.executor == "oneDNN"
    assert library.VERSION >= (3, 3) or ("rewritten: " in partition.reason and text in partition.reason)


def test_low_precision_runs_in_f32_on_old_cpus() -> None:
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from onegraph.native.library import VERSION
from test_rewrites import REWRITTEN, assert_right, compiled, executors
for name, build in list(REWRITTEN.items())[:: -int(sys.argv[2])][::-1]:
    graph, executable = compiled(build, "bf16")
    assert_right(graph, executable)
    if "concat" not in name or VERSION < (3, 5):
        assert "reference" not in executors(executable), (name, executable.report())
print(sum(name == "copy" for name in executors(executable)))
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(draws(3, 1))]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "SSE41"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4"]  # three casts of inputs to f32, one cast of the result


# Quantization ---------------------------------------------------------------------------------------------------------

POINTS = {"qtype": "per_channel", "axis": 1, "scales": [0.5, 0.25, 2.0], "zps": [1, -2, 3]}


@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("target", ["s8", "u8"])
def test_differing_zero_points(target: str, axis: int) -> None:
    attrs = {**POINTS, "axis": axis}

    def quantized(g: og.Graph, dtype: str) -> og.LogicalTensor:
        return g.quantize(g.input("x", dtype, (2, 3, 4)), **attrs, dtype=target)

    def dequantized(g: og.Graph, dtype: str) -> og.LogicalTensor:
        return g.dequantize(g.input("x", target, (2, 3, 4)), **attrs)

    for build in (quantized, dequantized):
        graph, executable = compiled(build, "f32", fallback=False)
        assert_right(graph, executable)
        assert "zero points apart" in executable.report().partitions[0].reason


@pytest.mark.parametrize(
    ("shape", "attrs", "expected"),
    [
        ((4, 1), {"qtype": "per_channel", "scales": [0.5] * 4}, "4 scales; expected 1 scale,.* along axis 1"),
        ((2, 3), {"qtype": "per_channel", "scales": [0.5]}, "1 scale; expected 3 scales,.* along axis 1"),
        ((4, 2, 3), {"scales": [0.5] * 4}, "4 scales; expected 1 scale, as qtype is per_tensor"),
        ((4, 1, 3), {"scales": [0.5] * 4}, "4 scales; expected 1 scale, as qtype is per_tensor"),
    ],
)
def test_rejects_scales_without_a_channel(shape: tuple[int, ...], attrs: dict[str, object], expected: str) -> None:
    g = og.Graph(strict=False)
    g.output("y", g.dequantize(g.input("x", "s8", shape), **attrs))
    loaded = og.Graph.from_json(g.to_json())
    with pytest.raises(og.UnsupportedError, match=f"'dequantize_0': scales: {expected}"):
        loaded.compile()
    with pytest.raises(og.UnsupportedError, match=f"scales: {expected}"):
        run(loaded, {"x": np.ones(shape, np.int8)})


@pytest.mark.parametrize("policy", ["fusion", "debug"])
def test_depthwise_scales_along_the_other_axis(policy: str) -> None:
    """A file of oneDNN has such weights of ConvTranspose: (channels, 1, 1, 1), a scale for each channel, axis 1."""
    g = og.Graph()
    scales = [0.5, 2.0, 4.0, 0.25]
    ends = {"qtype": "per_tensor", "scales": [1.0], "zps": [0]}
    x = g.dequantize(g.input("x", "u8", (2, 4, 3, 3)), **ends)
    w = g.dequantize(g.input("w", "s8", (4, 1, 1, 1)), qtype="per_channel", axis=0, scales=scales, zps=[0] * 4)
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    formats = {"data_format": "NCX", "weights_format": "IOX", "groups": 4}
    g.output("y", g.quantize(g.conv_transpose(x, w, **window, **formats), **ends, dtype="s8"))
    form = json.loads(g.to_json())
    form["graph"][1]["attrs"]["axis"]["value"] = 1
    loaded = og.Graph.from_json(json.dumps(form))
    assert [one.rule for one in og.check_graph(loaded) if one.severity == "error"] == ["scale_count"]
    given = {"x": np.arange(72, dtype=np.uint8).reshape(2, 4, 3, 3), "w": np.array([1, -1, 2, 3], np.int8)}
    given["w"] = given["w"].reshape(4, 1, 1, 1)
    wanted = given["x"] * (given["w"].ravel() * scales).reshape(1, 4, 1, 1)
    wanted = np.clip(np.rint(wanted), -128, 127)
    assert (loaded.compile(policy=policy)(**given) == wanted).all()
    assert (run(loaded, given)["y"] == wanted).all()


def test_dynamic_zero_points_per_channel() -> None:
    attrs = {"qtype": "per_channel", "axis": 1}

    def build(g: og.Graph, dtype: str) -> tuple[og.LogicalTensor, ...]:
        scales, zps = g.exp(g.input("s", "f32", (3,))), g.input("z", dtype, (3,))
        down = g.dynamic_quantize(g.input("x", "f32", (2, 3, 4)), scales, zps, **attrs, dtype="u8")
        return down, g.dynamic_dequantize(g.input("q", "s8", (2, 3, 4)), scales, zps, **attrs)

    for dtype in ("s8", "u8"):
        graph, executable = compiled(build, dtype)
        assert_right(graph, executable)
        assert "reference" not in executors(executable)
    graph, executable = compiled(build, "s32")  # no op of the library accepts s32
    assert_right(graph, executable)
    assert executors(executable).count("reference") == 2


# Supported ops, and ops without an exact form -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        layer_norm((2, 3, 4), -1, True, True),
        layer_norm((2, 3, 4), 2, False, False),
        layer_norm_backward((2, 3, 4), 2, True),
        unary("GELU", (5, 7)),
        unary("ReduceSum", (1, 5, 2), axes=[0, 2]),
        unary("ReduceSum", (2, 16, 5, 5), axes=[2, 3]),
        unary("ReduceMean", (2, 16, 5, 5), axes=[2, 3], keep_dims=True),
        concat(64, (2, 3), 1),
        concat(2, (1, 2, 1, 2, 1, 2), 1),
        prelu((2, 6), (6,)),
        mixed("Multiply", "f32"),
        matmul_bias,
    ],
)
def test_supported_op_stays_one_op(build: Build) -> None:
    graph, executable = compiled(build, "f32", policy="debug", finite_math=True)
    assert_right(graph, executable)
    last = executable.report().partitions[-1]
    assert (last.executor, last.reason.partition(", as ")[0]) in (("oneDNN", ""), ("oneDNN", "on four axes"))
    assert last.kinds == (graph.ops[-1].kind,)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (positive("Pow", (3, 5), beta=2.5), "does not support the partition of Pow"),
        (unary("ReLU", (2, 0)), "a tensor is empty"),
    ],
)
def test_falls_back_without_an_exact_form(build: Build, reason: str) -> None:
    graph, executable = compiled(build, "f32")
    assert_right(graph, executable)
    (refused,) = [one for one in executable.report().partitions if one.executor == "reference"]
    assert reason in refused.reason
    with pytest.raises(og.UnsupportedError, match=reason):
        graph.compile(fallback=False)


# Data types -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def f16_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cpus, "ISA_OF_DTYPE", dict.fromkeys(cpus.ISA_OF_DTYPE, "sse41"))
    is_native.cache_clear()
    yield
    is_native.cache_clear()


def kinds(kind: str, dtype: str, *shapes: tuple[int, ...]) -> list[str]:
    one = og.DataType.of(dtype)
    call = Call(BASE[kind], {}, [TensorType(one, shape) for shape in shapes], 1, [one])
    form, _ = library_form(BASE[kind], call)
    return [] if form is None else [part.kind for part in form.parts]


# Reductions -----------------------------------------------------------------------------------------------------------


def mean_form(shape: tuple[int, ...], axes: list[int], *, keep: bool = True, dtype: str = "f32") -> list[Part]:
    one = og.DataType.of(dtype)
    attrs = {"axes": tuple(axes), "keep_dims": keep}
    form, _ = library_form(BASE["ReduceMean"], Call(BASE["ReduceMean"], attrs, [TensorType(one, shape)], 1, [one]))
    return [] if form is None else list(form.parts)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_mean_over_middle_axes_is_a_pool(dtype: str) -> None:
    cast = [] if is_native(og.DataType.of(dtype)) else ["TypeCast"]
    for shape, axes in (
        ((2, 9, 8), [1]),
        ((2, 3, 4, 8), [-2, 1]),
        ((2, 3, 4, 5, 8), [3, 1, 2]),
        ((9, 2, 2, 2), [1, 2]),
    ):
        parts = mean_form(shape, axes, dtype=dtype)
        assert [part.kind for part in parts] == [*cast, "AvgPool", *cast]
        assert parts[len(cast)].attrs["kernel"] == shape[1:-1]
        flat = mean_form(shape, axes, keep=False, dtype=dtype)
        assert [part.kind for part in flat] == [*cast, "AvgPool", *cast, "StaticReshape"]
        assert flat[-1].outputs[0].shape == (shape[0], shape[-1])


def test_long_pool_window_uses_the_other_axis() -> None:
    parts = mean_form((2, 3, 1200, 2), [1, 2])
    assert [part.kind for part in parts] == ["StaticReshape", "AvgPool"]
    assert parts[1].attrs["kernel"] == (3600, 1)
    assert [part.kind for part in mean_form((2, 1200, 3, 2), [1, 2])] == ["AvgPool"]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((2, 8, 5), [2]),
        ((2, 8, 3, 4), [2, 3]),
        ((2, 3, 4, 8), [1, 2, 3]),
        ((64, 16), [1]),
        ((8, 1, 16, 1), [2, 3]),  # too small to gain
        ((1, 64, 16), [0, 2]),
        ((2, 3, 4, 8), [1]),  # too small to gain
        ((1, 2, 2, 8), [1, 2]),
        ((1, 2, 2, 2**33), [1, 2]),  # longer than a pool can count, so a product
    ],
)
def test_small_means_and_trailing_means_are_reductions(shape: tuple[int, ...], axes: list[int]) -> None:
    for keep in (True, False):
        assert [part.kind for part in mean_form(shape, axes, keep=keep)] == ["ReduceMean"]


POOLED = ["AvgPool", "Multiply"]


@pytest.mark.parametrize(
    ("shape", "axes", "kinds"),
    [
        ((64, 16), [0], POOLED),
        ((16, 3, 4, 8), [2], POOLED),
        ((16, 3, 4, 8), [0, 1, 2], POOLED),
        ((16, 3, 4, 8), [0, 2, 3], ["ReduceSum", "MatMul"]),  # a pool of fewer elements would be no faster
        ((16, 3, 4, 8), [0, 2], [*POOLED, *POOLED]),
        ((4, 2, 3, 2, 3, 8), [1, 2, 3, 4], POOLED),
        ((8191, 40), [0], ["MatMul"]),  # a pool of more elements would add them one by one
        ((2**29, 2), [0], ["ReduceSum"]),  # the product would need gigabytes of ones
        ((2, 2**31, 3, 8), [1, 3], ["ReduceSum", "ReduceSum"]),
    ],
)
def test_means_over_other_axes_are_sums(shape: tuple[int, ...], axes: list[int], kinds: list[str]) -> None:
    for keep in (True, False):
        parts = mean_form(shape, axes, keep=keep)
        assert [part.kind for part in parts if part.kind != "StaticReshape"] == [*kinds, "Divide"]


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((64, 1, 16, 1), [2, 3]),
        ((4096, 1), [0]),
        ((4096, 1), [0, 1]),
        ((64, 1, 64, 1), [0, 2]),
        ((8, 2, 2, 2, 8, 8), [4, 5]),  # more axes than the kernel supports
    ],
)
def test_reductions_before_trailing_size_one_axes(kind: str, shape: tuple[int, ...], axes: list[int]) -> None:
    one = og.DataType.f32
    form, _ = library_form(BASE[kind], Call(BASE[kind], {"axes": tuple(axes)}, [TensorType(one, shape)], 1, [one]))
    assert form is not None
    assert [part.kind for part in form.parts if part.kind != "StaticReshape"] == [kind]
    assert all(part.attrs["axes"] == (1,) for part in form.parts if part.kind == kind)


@pytest.mark.parametrize(
    ("shape", "axes", "is_short"),
    [
        ((256, 16), [1], True),
        ((4, 8, 8, 32), [3], True),
        ((4, 64, 8, 16), [2, 3], True),
        ((256, 768), [1], True),
        ((256, 769), [1], False),
        ((255, 16), [1], False),
        ((2**26, 8), [1], False),  # products and pools count elements in 32 bits
    ],
)
def test_many_short_rows(shape: tuple[int, ...], axes: list[int], is_short: bool) -> None:
    """The kernel for the last axes takes 100 ns for each row."""
    kinds = {
        "ReduceSum": (["MatMul"], ["ReduceSum"]),
        "ReduceMean": (["MatMul", "Divide"], ["ReduceMean"]),
        "ReduceL1": (["Abs", "MatMul"], ["Abs", "ReduceSum"]),
        "ReduceL2": (["Square", "MatMul", "Sqrt"], ["Square", "ReduceSum", "Sqrt"]),
    }
    one = og.DataType.f32
    for kind, (rewritten, plain) in kinds.items():
        attrs = {"axes": tuple(axes), "keep_dims": True}
        form, _ = library_form(BASE[kind], Call(BASE[kind], attrs, [TensorType(one, shape)], 1, [one]))
        assert form is not None
        found = [part.kind for part in form.parts if part.kind != "StaticReshape"]
        assert found == (rewritten if is_short else plain)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-5), ("f16", 1e-3), ("bf16", 8e-3)])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("shape", [(300, 3), (4, 8, 9, 96), (257, 700)])
def test_reductions_of_many_short_rows_agree_with_numpy(
    kind: str, shape: tuple[int, ...], dtype: str, tolerance: float
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(og.DataType[dtype].numpy)
    g = og.Graph()
    g.output("y", g.op(kind, [g.input("x", dtype, shape)], {"axes": (-1,), "keep_dims": True}))
    wide = x.astype(np.float64)
    expected = {
        "ReduceSum": lambda: wide.sum(-1, keepdims=True),
        "ReduceMean": lambda: wide.mean(-1, keepdims=True),
        "ReduceL1": lambda: np.abs(wide).sum(-1, keepdims=True),
        "ReduceL2": lambda: np.sqrt((wide**2).sum(-1, keepdims=True)),
        "ReduceMax": lambda: wide.max(-1, keepdims=True),
        "ReduceMin": lambda: wide.min(-1, keepdims=True),
    }[kind]()
    result = g.compile()(x).astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=2 * tolerance)


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs"),
    [
        ("ConvTranspose", [(2, 5, 5, 4), (3, 3, 6, 4)], {"strides": [2, 2]}),
        ("ConvTranspose", [(2, 5, 5, 4), (3, 3, 1, 4)], {"groups": 4}),
        ("ConvTranspose", [(2, 5, 5, 4), (1, 3, 6, 4)], {"pads_begin": [1, 0], "pads_end": [0, 1]}),
        ("ConvolutionBackwardData", [(2, 4, 4, 6), (3, 3, 4, 6)], {"strides": [2, 2], "dst_shape": [2, 9, 9, 4]}),
        ("ConvolutionBackwardWeights", [(2, 6, 6, 4), (2, 4, 4, 6)], {"weights_shape": [3, 3, 4, 6]}),
        ("ConvTransposeBackwardWeights", [(2, 4, 4, 6), (2, 6, 6, 4)], {"weights_shape": [3, 3, 4, 6]}),
        ("InterpolateBackward", [(1, 3, 3, 4), (1, 6, 6, 4)], {"mode": "linear", "sizes": [6, 6]}),
    ],
)
def test_f16_is_computed_in_f32_where_its_kernel_is_slow(kind: str, shapes: list[Any], attrs: dict[str, Any]) -> None:
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    if kind == "InterpolateBackward":
        window = {}
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
    g = og.Graph()
    tensors = [g.input(f"x{place}", "f16", shape) for place, shape in enumerate(shapes)]
    g.output("y", g.op(kind, tensors, {**window, **attrs}))
    model = g.compile()
    assert "in f32: " in str(model.report())
    feeds = {f"x{place}": array for place, array in enumerate(arrays)}
    expected = og.reference.run(g, feeds)["y"].astype(np.float64)
    np.testing.assert_allclose(model(**feeds).astype(np.float64), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["Convolution", "ConvTranspose", "ConvTransposeBackwardData"])
def test_windows_of_one_element_have_no_gaps(kind: str) -> None:
    shapes = {"x": (2, 6, 7, 4), "w": (1, 3, 4, 4)}
    window = {"strides": [1, 1], "pads_begin": [0, 1], "pads_end": [0, 1]}

    def graph(dilations: list[int]) -> og.Graph:
        g = og.Graph()
        ends = [g.input(name, "f32", shape) for name, shape in shapes.items()]
        g.output("y", g.op(kind, ends, {**window, "dilations": dilations}))
        return g

    feeds = {name: np.random.default_rng(5).standard_normal(shape, np.float32) for name, shape in shapes.items()}
    given, plain = graph([3, 1]), graph([1, 1])
    assert str(given.compile().report()) == str(plain.compile().report())
    expected = reference.run(given, feeds)["y"]
    np.testing.assert_allclose(given.compile()(**feeds), expected, rtol=1e-5, atol=1e-5)


def test_f16_stays_where_its_kernel_is_fast() -> None:
    g = og.Graph()
    window = {"strides": [1, 1], "pads_begin": [1, 0], "pads_end": [2, 1], "dilations": [1, 1]}
    g.output("y", g.op("ConvTranspose", [g.input("x", "f16", (1, 5, 5, 4)), g.input("w", "f16", (3, 2, 6, 4))], window))
    assert "in f32: " not in str(g.compile().report()) or not is_native(og.f16)


SPREAD = (2, 4, 7, 14, 14)


def test_slopes_behind_codes_run_in_the_kernel_where_the_library_is_slow() -> None:
    g = og.Graph()
    codes = {"scales": [0.05], "zps": [128], "qtype": "per_tensor"}
    finite = g.op("Dequantize", [g.op("Quantize", [g.input("x", "f32", SPREAD)], codes, dtype="u8")], codes)
    slopes = np.linspace(-1, 1, 4, dtype=np.float32).reshape(4, 1, 1, 1)
    g.output("y", g.op("PReLU", [finite, g.constant(slopes)], {"per_channel_broadcast": False}))
    model = g.compile()
    assert [part.executor for part in model.report().partitions if "PReLU" in part.kinds] == ["kernel"]
    x = np.random.default_rng(3).standard_normal(SPREAD, np.float32)
    source = np.rint(x / np.float32(0.05)) * np.float32(0.05)
    np.testing.assert_allclose(model(x), np.where(source > 0, source, source * slopes), rtol=0, atol=0.051)


LONG = 2**20  # elements; adding 0.1 one by one in f32 is off by 1 %


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((LONG,), [0]),
        ((LONG, 1), [0]),
        ((1, LONG, 1), [1]),
        ((1, LONG, 3), [1]),
        ((2, 1024, 1024, 2), [1, 2]),
        ((1024, 1, 1024), [0, 2]),
        ((3, LONG), [1]),
        ((1, 5 * 7 * 11 * 13 * 17 * 3, 2), [1]),
    ],
)
@pytest.mark.parametrize(
    ("kind", "power"), [("ReduceMean", 0.0), ("ReduceSum", 1.0), ("ReduceL1", 1.0), ("ReduceL2", 0.5)]
)
def test_long_sums_are_accurate(kind: str, power: float, shape: tuple[int, ...], axes: list[int]) -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", shape)
    graph.output("y", graph.op(kind, [x], {"axes": axes, "keep_dims": False}))
    tenth = np.float32(0.1)
    wanted = float(tenth) * np.prod([shape[axis] for axis in axes]) ** power
    found = graph.compile()(np.full(shape, tenth))
    assert found.shape == tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
    np.testing.assert_allclose(found, np.full(found.shape, wanted), rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "kernels"),
    [
        ((2, 64, 64, 8), [(64, 64)]),
        ((2, 512, 512, 8), [(4096, 1), (64, 1)]),
        ((1, 6000, 8), [(3000, 1), (2, 1)]),
    ],
)
def test_long_mean_is_a_mean_of_means(shape: tuple[int, ...], kernels: list[tuple[int, ...]]) -> None:
    pools = [part for part in mean_form(shape, [*range(1, len(shape) - 1)]) if part.kind == "AvgPool"]
    assert [pool.attrs["kernel"] for pool in pools] == kernels
    (prime,) = [part.kind for part in mean_form((1, 8191, 8), [1]) if part.kind not in ("StaticReshape", "Divide")]
    assert prime == "MatMul"


def test_sum_by_matmul_is_exact() -> None:
    # 4,000 ones and twos: 6,000, which bf16 has not; the nearest that it has are 5,984 and 6,016, even mantissa 6,016.
    x = np.tile(np.array([[1.0], [2.0]], np.float32), (2000, 3))
    for dtype, wanted in (("f32", 6000), ("bf16", 6016)):
        graph = og.Graph()
        graph.output("y", graph.reduce_sum(graph.input("x", dtype, x.shape), axes=[0], keep_dims=False))
        model = graph.compile()
        assert "MatMul by ones" in model.report().partitions[0].reason
        assert model(x.astype(og.DataType.of(dtype).numpy)).astype(float).tolist() == [wanted] * 3
    x[7, 1] = np.inf
    graph = og.Graph()
    graph.output("y", graph.reduce_sum(graph.input("x", "f32", x.shape), axes=[0], keep_dims=False))
    assert graph.compile()(x).tolist() == [6000, np.inf, 6000]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("other", ["whole", "channels", "single", "source"])
def test_binary_ops_after_mean_over_middle_axes(other: str, policy: str, keep: bool) -> None:
    # The library computes an AvgPool fused with a binary op wrong for most operands.
    shape = (3, 4, 5, 16)
    reduced = (3, 1, 1, 16) if keep else (3, 16)
    operand = {"whole": reduced, "channels": (16,), "single": (1,), "source": (3, 4, 5, 16) if keep else (2, 3, 16)}

    def build(g: og.Graph, dtype: str) -> og.LogicalTensor:
        mean = g.reduce_mean(g.input("x", dtype, shape), axes=[1, 2], keep_dims=keep)
        return g.add(g.input("y", dtype, operand[other]), g.relu(g.multiply(mean, g.input("z", dtype, operand[other]))))

    assert_right(*compiled(build, "f32", policy=policy, fallback=False))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("zps", [(0, 0), (3, 5)])
def test_quantized_mean_over_middle_axes(zps: tuple[int, int], keep: bool) -> None:
    g = og.Graph()
    x = g.dequantize(g.input("x", "u8", (2, 3, 5, 16)), scales=[1.0], zps=[zps[0]], qtype="per_tensor")
    mean = g.reduce_mean(x, axes=[1, 2], keep_dims=keep)
    g.output("y", g.quantize(mean, scales=[0.25], zps=[zps[1]], qtype="per_tensor", dtype="u8"))
    data = np.random.default_rng(0).integers(0, 40, (2, 3, 5, 16)).astype(np.uint8)
    # Windows of 15 elements, so that no result is half way between two integers.
    wanted = np.rint((data.astype(float) - zps[0]).mean((1, 2), keepdims=keep) * 4) + zps[1]
    np.testing.assert_array_equal(g.compile(fallback=False)(data), wanted.clip(0, 255))


@pytest.mark.usefixtures("f16_everywhere")
def test_avoids_slow_kernels_of_native_types() -> None:
    cast = "TypeCast"
    assert kinds("MatMul", "f16", (3, 5), (5, 4), (4,)) == [cast, cast, cast, "MatMul", cast]
    assert kinds("MatMul", "f16", (3, 5), (5, 4)) == ["MatMul"]
    assert kinds("MatMul", "bf16", (3, 5), (5, 4), (4,)) == ["MatMul"]
    assert kinds("Round", "f16", (3,)) == [cast, "Round", cast]
    assert kinds("Reorder", "f16", (3,)) == ["Reorder"]


def f16_graph(build: Callable[..., og.LogicalTensor], *names: str) -> og.Graph:
    g = og.Graph()
    g.output("z", build(g, *(g.input(name, "f16", (64, 64)) for name in names)))
    return g


def test_f16_rounds_where_every_op_does() -> None:
    # A sum, product, quotient or root in f32 that is rounded to f16 is the exact one rounded to f16: f32 has more than
    # twice the digits. So the bits are those of the reference, which computes in f64 and rounds each op to f16.
    def chain(g: og.Graph, x: og.LogicalTensor, y: og.LogicalTensor) -> og.LogicalTensor:
        product = g.multiply(g.add(x, y), g.subtract(x, y))
        return g.divide(product, g.sqrt(g.add(g.square(x), g.square(y))))

    graph = f16_graph(chain, "x", "y")
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal((64, 64)).astype(np.float16) for name in "xy"}
    # Where the CPU computes in f16, the library's fusion of the chain rounds once.
    policy = "debug" if is_native(og.f16) else "fusion"
    got, wanted = graph.compile(policy=policy)(**inputs), run(graph, inputs)["z"]
    np.testing.assert_array_equal(got.view(np.uint16), wanted.view(np.uint16))
    in_f32 = (inputs["x"].astype(np.float32) ** 2 - inputs["y"].astype(np.float32) ** 2) / np.hypot(*inputs.values())
    assert (in_f32.astype(np.float16) != wanted).any()  # a missing rounding would show


def test_f16_overflows_silently() -> None:
    graph = f16_graph(lambda g, x: g.square(x), "x")
    x = np.full((64, 64), 300, np.float16)
    assert np.isposinf(graph.compile()(x=x)).all()


ZEROS = {-0.5: [np.inf, np.inf, 0.5], -1.0: [np.inf, -np.inf, 0.25], -2.0: [np.inf, np.inf, 0.0625]}


@pytest.mark.parametrize("beta", ZEROS)
def test_powers_of_zero_match_c(beta: float) -> None:
    g = og.Graph()
    g.output("y", g.pow(g.input("x", "f32", (3,)), beta=beta))
    executable = g.compile()
    assert "reference" not in executors(executable)
    assert executable(np.array([0.0, -0.0, 4.0], np.float32)).tolist() == ZEROS[beta]


@pytest.mark.parametrize(("dtype", "size", "share"), [("f16", 300, 1000 / 300**2), ("bf16", 17, 3.453125)])
def test_average_gradient_over_huge_windows(dtype: str, size: int, share: float) -> None:
    g = og.Graph()
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [size, size], "exclude_pad": True}
    x = g.input("x", dtype, (1, 1, 1, 1))
    g.output("y", g.op("AvgPoolBackward", [x], {**attrs, "src_shape": [1, size, size, 1]}))
    executable, kind = g.compile(), og.DataType.of(dtype).numpy
    assert "reference" not in executors(executable)
    assert np.unique(executable(np.full((1, 1, 1, 1), 1000, kind))).tolist() == [np.asarray(share, kind)]


@pytest.mark.skipif("f16" in og.capi.version_info()["cpu_dtypes"], reason="this CPU computes in f16 natively")
def test_shares_casts_and_folds_constant_casts() -> None:
    g = og.Graph()
    x = g.input("x", "f16", (2, 8))
    w = g.constant(np.eye(8, dtype=np.float16))
    g.output("y", g.add(g.matmul(x, w, dtype="f16"), g.matmul(g.relu(x), w, dtype="f16")))
    executable = g.compile(policy="debug")
    partitions = executable.report().partitions
    to_f32 = [one.inputs for one in partitions if one.executor == "copy" and one.results[0].dtype is og.f32]
    assert sum("x:" in text for (text,) in to_f32) == 1
    assert len(to_f32) == 4  # casts of x, of the ReLU result and of both products; no cast of the constant
    data = np.arange(-8, 8, dtype=np.float16).reshape(2, 8)
    np.testing.assert_array_equal(executable(x=data), data + np.maximum(data, 0))
    assert "f16" in partitions[0].reason
    g.compile(fallback=False)  # oneDNN does all the arithmetic


# Views ----------------------------------------------------------------------------------------------------------------


def reshaped(g: og.Graph, x: og.LogicalTensor) -> og.LogicalTensor:
    return g.static_reshape(x, shape=[4, 6], special_zero=False)


def transposed(g: og.Graph, x: og.LogicalTensor) -> og.LogicalTensor:
    return g.static_transpose(x, order=[1, 2, 0])


def view_graph(
    *views: Callable[..., og.LogicalTensor], source: str = "ReLU", keep: bool = False, rows: int = 2, turn: bool = False
) -> og.Graph:
    g = og.Graph()
    x = g.input("x", "f32", (3, 4, rows) if turn else (rows, 3, 4))
    x = g.static_transpose(x, order=[2, 0, 1]) if turn else x
    found = g.op(source, [x], {"axis": 2} if source == "LogSoftmax" else {})
    if keep:
        g.output("kept", found)
    for number, view in enumerate(views):
        g.output(f"y{number}", view(g, found))
    return g


@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize(
    ("graph", "wanted"),
    [
        (view_graph(reshaped), ["oneDNN", "view"]),
        (view_graph(transposed), ["oneDNN", "view"]),
        (view_graph(reshaped, transposed), ["oneDNN", "view", "oneDNN"]),
        (view_graph(transposed, reshaped), ["oneDNN", "view", "oneDNN"]),
        (view_graph(reshaped, keep=True), ["oneDNN", "oneDNN"]),
        (view_graph(transposed, source="LogSoftmax"), ["oneDNN", "oneDNN"]),  # this op does not honour strides
        (view_graph(reshaped, source="LogSoftmax"), ["oneDNN", "view"]),
        (view_graph(transposed, source="Round"), ["oneDNN", "view"]),
        (view_graph(transposed, rows=99), ["oneDNN", "oneDNN"]),  # faster than one step that changes the order
        (view_graph(transposed, rows=99, turn=True), ["view", "oneDNN", "view"]),
    ],
)
def test_view_output_is_written_in_place(graph: og.Graph, wanted: list[str], policy: str) -> None:
    executable = graph.compile(policy=policy)
    assert_right(graph, executable)
    assert [{"kernel": "oneDNN"}.get(name, name) for name in executors(executable)] == wanted


def test_view_of_a_fallback_result() -> None:
    g = og.Graph()
    product = g.pow(g.input("x", "f32", (2, 3, 4)), beta=5.0)
    g.output("y0", transposed(g, product))
    executable = g.compile()
    assert_right(g, executable)
    assert executors(executable)[0] == "reference"


def test_reshape_of_permuted_data_is_one_copy() -> None:
    g = og.Graph()
    x = g.input("x", "f32", (2, 3, 4))
    g.output("y0", reshaped(g, g.static_transpose(x, order=[2, 0, 1])))
    g.output("y1", g.relu(reshaped(g, g.static_transpose(x, order=[1, 0, 2]))))
    executable = g.compile()
    assert_right(g, executable)
    assert sorted(executors(executable)) == ["kernel"] + ["oneDNN"] * 2 + ["view"] * 3


def test_never_passes_views_alone_to_the_library() -> None:
    # The library takes both for a shuffle of channels; the first is one, and the second crashes.
    for shapes in (([4, 2, 2, 3], [0, 2, 1, 3], [4, 4, 3]), ([1, 2, 1, 1], [0, 2, 3, 1], [1, 1, 2])):
        first, order, last = shapes
        g = og.Graph()
        x = g.relu(g.input("x", "f32", last if first[0] == 4 else [1, 2, 1]))
        split = g.static_reshape(x, shape=first, special_zero=False)
        g.output("y0", g.tanh(g.static_reshape(g.static_transpose(split, order=order), shape=last, special_zero=False)))
        executable = g.compile()
        assert_right(g, executable)
        assert not any(one.fused for one in executable.report().partitions)
        assert executors(executable).count("view") == 3


def test_boolean_results_are_returned_and_read() -> None:
    g = og.Graph()
    mask = g.output("mask", g.op("GreaterEqual", [g.input("x", "f32", (3,)), g.input("y", "f32", (3,))]))
    g.output("z", g.select(mask, g.input("a", "f32", (3,)), g.input("b", "f32", (3,))))
    got = g.compile()(*(np.float32(values) for values in ([1, 2, 3], [2, 2, 2], [1, 1, 1], [0, 0, 0])))
    assert got.mask.tolist() == [False, True, True]
    assert got.z.tolist() == [0, 1, 1]


def test_report_has_names_and_layouts() -> None:
    g = og.Graph()
    g.output("y", g.abs(g.add(g.input("a", "f32", (2, 3)), g.input("b", "f32", (3,)), name="sum"), name="size"))
    (partition,) = g.compile().report().partitions
    assert (partition.kinds, partition.names) == (("Add", "Abs"), ("sum", "size"))
    assert partition.layouts == {"a": (3, 1), "b": (1,), "size.dst": (3, 1)} or "y" in partition.layouts
    plain = partition.to_dict()
    assert plain["ops"] == ("Add 'sum'", "Abs 'size'")
    assert plain["names"] == ("sum", "size")
    assert plain["fused"] is True
    assert plain["bytes"] == 4 * (6 + 3 + 6)


# Speed ----------------------------------------------------------------------------------------------------------------


def test_common_graphs_avoid_reference_kernels() -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", (4, 16, 8, 32))
    operands = {shape: graph.input(f"y{number}", "f32", shape) for number, shape in enumerate(OPERANDS)}
    found = [
        *(graph.op(kind, [graph.relu(x), operand]) for kind in ("Add", "Divide") for operand in operands.values()),
        *(graph.op(kind, [operands[1, 16, 1, 1], x]) for kind in ("Subtract", "Divide", "Maximum", "Multiply")),
        *(graph.softmax(x, axis=axis, dtype="f32", outputs=["dst"]) for axis in range(4)),
        *(graph.log_softmax_backward(x, graph.log_softmax(x, axis=axis), axis=axis) for axis in range(4)),
        *(graph.reduce_sum(x, axes=axes, keep_dims=False) for axes in ([0], [1], [0, 1], [0, 2, 3], [1, 3])),
        *(graph.op(kind, [x], {"axes": [0, 2]}) for kind in ("ReduceMax", "ReduceMin", "ReduceMean")),
        graph.bias_add_backward(x, data_format="NCX"),
        graph.reciprocal(graph.exp(x)),
    ]
    for number, tensor in enumerate(found):
        graph.output(f"out{number}", tensor)
    report = graph.compile().report(implementations=True)
    assert [p.ops for p in report.partitions if "ref:" in p.implementation or p.executor == "reference"] == []
    # Reference kernels do exist: the product along another axis than the last is one.
    graph = og.Graph()
    graph.output("y", graph.reduce_prod(graph.input("x", "f32", (4, 16, 8)), axes=[1]))
    assert "ref:" in graph.compile().report(implementations=True).partitions[0].implementation


@pytest.mark.parametrize("kind", ["SoftMax", "LogSoftmax"])
@pytest.mark.parametrize(("shape", "is_small"), [((4, 8, 128), False), ((3, 7, 513), False), ((4, 128), True)], ids=str)
def test_gradients_along_the_last_axis_are_other_ops_without_avx512(
    kind: str, shape: tuple[int, ...], is_small: bool
) -> None:
    graph, rng = og.Graph(), np.random.default_rng(0)
    names = ("diff_dst", "dst")
    graph.output("y", graph.op(f"{kind}Backward", [graph.input(name, "f32", shape) for name in names], {"axis": -1}))
    model, given = graph.compile(), {name: rng.random(shape, np.float32) for name in names}
    np.testing.assert_allclose(model(**given), run(graph, given)["y"], rtol=1e-5, atol=1e-4)
    is_whole = [part.kinds for part in model.report().partitions] == [(f"{kind}Backward",)]
    assert is_whole == (is_small or settings.has_avx512())


# Every way to broadcast to (4, 16, 8, 32) except the two that alternate three times.
OPERANDS = [
    (4, 1, 1, 1), (1, 16, 1, 1), (1, 1, 8, 1), (1, 1, 1, 32), (4, 16, 1, 1), (4, 1, 1, 32), (1, 16, 8, 1),
    (1, 1, 8, 32), (4, 16, 8, 1), (4, 1, 8, 32), (1, 16, 8, 32), (4, 16, 1, 32), (1, 1, 1, 1), (4, 16, 8, 32),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("src", "weights", "bias"),
    [
        ((2, 5, 3), (3, 4), (2, 1, 4)),
        ((2, 5, 3), (3, 4), (2, 5, 1)),
        ((6, 2, 5, 3), (3, 4), (2, 1, 1)),
        ((6, 2, 5, 3), (3, 4), (6, 2, 5, 4)),
        ((6, 2, 5, 3), (3,), (6, 1, 1)),
        ((2, 5, 3), (3,), (2, 5)),
        ((3,), (2, 3, 4), (2, 1)),
        ((3,), (6, 2, 3, 4), (6, 1, 4)),
    ],
)
def test_bias_broadcasts_to_the_result(
    src: tuple[int, ...], weights: tuple[int, ...], bias: tuple[int, ...], transposed: bool, dtype: str
) -> None:
    rng, number = np.random.default_rng(8), og.DataType.of(dtype).numpy
    a, b, c = (rng.integers(-4, 5, shape).astype(number) for shape in (src, weights, bias))
    expected = np.matmul(a.astype(float), b.astype(float)) + c.astype(float)
    if transposed:  # vectors are never transposed
        a, b = (array.swapaxes(-1, -2).copy() if array.ndim > 1 else array for array in (a, b))
    graph = og.Graph()
    inputs = [graph.input(name, dtype, array.shape) for name, array in zip("abc", (a, b, c), strict=True)]
    attrs = {"transpose_a": transposed, "transpose_b": transposed}
    graph.output("y", graph.op("MatMul", inputs, attrs, dtype=dtype))
    executable = graph.compile()
    assert "oneDNN" in executors(executable)
    assert np.array_equal(executable(a=a, b=b, c=c).astype(float), expected)


@pytest.mark.parametrize(("strides", "executor"), [([2, 2], "oneDNN"), ([1, 1], "reference")])
def test_negative_pads_crop(strides: list[int], executor: str) -> None:
    """The specification forbids negative pads; oneDNN 3.2 accepts pads smaller than a stride."""
    graph, attrs = og.Graph(strict=False), {"pads_begin": [0, 0], "pads_end": [-1, -1], "dilations": [1, 1]}
    tensors = [graph.input("x", "f32", (2, 8, 8, 3)), graph.input("w", "f32", (2, 2, 3, 4))]
    graph.output("y", graph.op("Convolution", tensors, {**attrs, "strides": strides}))
    executable = graph.compile()
    assert executors(executable) == ["reference" if library.VERSION >= (3, 3) else executor]
    assert executable.outputs[0].shape == ((2, 3, 3, 4) if executor == "oneDNN" else (2, 6, 6, 4))
    assert_right(graph, executable)


def test_rounds_when_dequantizing_to_integers() -> None:
    # The library accepts s32 for the result of a DynamicDequantize: (x - 1) * 0.3, rounded to the nearest integer.
    graph = og.Graph(strict=False)
    ends = graph.input("x", "u8", (2, 6)), graph.input("scales", "f32", (2,)), graph.input("zps", "s8", (2,))
    graph.output("y", graph.op("DynamicDequantize", ends, {"qtype": "per_channel", "axis": 0}, dtype="s32"))
    x = np.arange(12, dtype=np.uint8).reshape(2, 6)
    found = graph.compile()(x, np.full(2, 0.3, np.float32), np.ones(2, np.int8))
    assert found.tolist() == [[0, 0, 0, 1, 1, 1], [2, 2, 2, 2, 3, 3]]


@pytest.mark.parametrize(("dtype", "low", "high"), [("s8", -128, 127), ("u8", 0, 255)])
def test_saturates_when_dequantizing_to_bytes(dtype: str, low: int, high: int) -> None:
    graph = og.Graph(strict=False)
    ends = graph.input("x", "s8", (2, 4)), graph.input("scales", "f32", (2,)), graph.input("zps", "s8", (2,))
    graph.output("y", graph.op("DynamicDequantize", ends, {"qtype": "per_channel", "axis": 0}, dtype=dtype))
    x = np.array([[2, 3, 10, 16], [6, 7, -75, 105]], np.int8)
    found = graph.compile()(x, np.array([32, 1], np.float32), np.array([7, 5], np.int8))
    assert found.tolist() == np.clip([[-160, -128, 96, 288], [1, 2, -80, 100]], low, high).tolist()


def test_forms_by_hand() -> None:
    """A form makes each result by a part of its own, and is the op itself only where kind, attributes and types are."""
    row = TensorType(og.f32, (2,))
    adding = Call(BASE["Add"], {}, (row, row), 4, [og.f32] * 4)
    parts = FormBuilder(adding)
    total = parts.add("Add", 0, 1)
    form = parts.form(np.ones(2, np.float32), 0, total, total, note="")
    assert [part.kind for part in form.parts] == ["Add", "Reorder", "Reorder", "Reorder"]
    assert form.results == (3, 4, total, 5)
    relu = Call(BASE["ReLU"], {}, (row,), 1, [og.f32])
    elu = Call(BASE["Elu"], {"alpha": 1.0}, (row,), 1, [og.f32])
    wide = Call(BASE["ReLU"], {}, (TensorType(og.f32, (3,)),), 1, [og.f32])
    same = form_of(Rewrite("ReLU", {}, (0,)), relu)
    assert same.direct == (0,)
    assert same.is_op(relu)
    assert not form_of(Rewrite("Tanh", {}, (0,)), relu).is_op(relu)
    assert not form_of(Rewrite("Elu", {"alpha": 2.0}, (0,)), elu).is_op(elu)
    assert not same.is_op(wide)
    assert form_of(Rewrite("ReLU", {}, (0,), dropped=(row,)), relu).direct is None
    assert form_of(Rewrite("Add", {}, (0, np.ones(2, np.float32))), relu).direct is None


def test_parts_are_equal_if_they_compute_the_same() -> None:
    def joined(axis: list[int]) -> Part:
        row = TensorType(og.f32, (2,))
        return Part("Concat", {"axis": axis}, (0, 1), (row, row), (row,))  # type: ignore[dict-item]

    assert joined([0]) == joined([0])
    assert joined([0]) != joined([1])  # a list has no hash, so that both have that of the kind
    assert joined([0]) != 3
