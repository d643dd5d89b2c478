"""Fused ops with a reference kernel are cut before the op that makes them slow, and their good neighbours stay fused.

The partitions are those of a library that all records of slow fusions concern; a newer one may fuse more.
"""

import math
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.capi.settings import has_avx512, has_vnni, is_native
from onegraph.faults.operands import steps_to_fast
from onegraph.faults.slow_strides import is_channels_last
from onegraph.native import library

# The fusions and kernels of the library are compared.
pytestmark = pytest.mark.usefixtures("finite_math")

Build = Callable[[og.Graph], og.LogicalTensor]
WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
RNG = np.random.default_rng(0)


def constant(g, *shape):
    return g.constant(np.asarray(RNG.standard_normal(shape), np.float32))


def convolution(g, channels=8, **attrs):
    channels_first = attrs.get("data_format") == "NCX"
    src = g.input("x", "f32", (2, channels, 5, 5) if channels_first else (2, 5, 5, channels))
    weights = constant(g, 8, channels // attrs.get("groups", 1), 1, 1)
    return g.convolution(src, weights, weights_format="OIX", **{**WINDOW, **attrs})


def int8_matmul(g, kind="s8", is_constant=False, **how):
    shape = (2, 6, 5) if how else (2, 5, 6)
    kept = g.constant(RNG.integers(-9, 9, shape, np.int8)) if is_constant else g.input("w", "s8", shape)
    ends = [g.dequantize(tensor, scales=[0.5], zps=[0]) for tensor in (g.input("x", kind, (2, 4, 5)), kept)]
    return g.matmul(*ends, **how)


def positive(g):
    return [g.constant(RNG.random(8).astype(np.float32) + 0.5) for _ in range(4)]


def weighted(g):
    ends = g.input("x", "f32", (2, 5, 5, 8)), g.input("w", "f32", (8, 8, 1, 1))
    return g.convolution(*ends, weights_format="OIX", **WINDOW)


def int8_convolution(g, data_format):
    shape = (2, 8, 5, 5) if data_format == "NCX" else (2, 5, 5, 8)
    src = g.dequantize(g.input("x", "s8", shape), scales=[0.5], zps=[0])
    weights = g.dequantize(g.constant(RNG.integers(-9, 9, (8, 8, 1, 1), np.int8)), scales=[0.5], zps=[0])
    return g.convolution(src, weights, weights_format="OIX", data_format=data_format, **WINDOW)


def transposed(g, *bias):
    ends = g.input("x", "f32", (2, 5, 5, 4)), constant(g, 4, 6, 3, 3)
    return g.conv_transpose(*ends, *bias, weights_format="IOX", **WINDOW)


def matmul(g, *batch):
    return g.matmul(g.input("x", "f32", (*batch, 4, 5)), g.input("w", "f32", (*batch, 5, 6)))


def batch_norm(g, *vectors):
    return g.relu(g.batch_norm_inference(convolution(g), *vectors, epsilon=1e-5))


QUANTIZED = {"dtype": "s8", "scales": [0.5], "zps": [0]}


def pool(g, data_format, scale):
    shape = (2, 16, 5, 5) if data_format == "NCX" else (2, 5, 5, 16)
    src = g.dequantize(g.input("x", "u8", shape), scales=[0.5], zps=[0])
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
    return g.quantize(g.max_pool(src, data_format=data_format, **window), dtype="u8", scales=[scale], zps=[0])


def other(g, *shape):
    return g.input("y", "f32", shape)


CUT: dict[str, tuple[Build, list[tuple[str, ...]]]] = {
    "the ops before a slow operand stay fused": (
        lambda g: g.relu(g.add(g.relu(matmul(g)), other(g, 4, 1))),
        [("MatMul", "ReLU"), ("Add",), ("ReLU",)],
    ),
    "the ops behind a slow operand stay fused": (
        lambda g: g.relu(g.maximum(g.add(matmul(g), other(g, 4, 1)), g.input("z", "f32", (4, 6)))),
        [("MatMul",), ("Add",), ("Maximum", "ReLU")],
    ),
    "residual of a quantized convolution": (
        lambda g: g.quantize(g.add(int8_convolution(g, "NCX"), other(g, 2, 8, 5, 5)), **QUANTIZED),
        [("Dequantize", "Dequantize", "Convolution", "Add"), ("Quantize",)],
    ),
    "product with channels first": (
        lambda g: g.multiply(convolution(g, data_format="NCX"), other(g, 2, 8, 5, 5)),
        [("Convolution",), ("Multiply",)],
    ),
    "residual of a few channels behind tanh": (
        lambda g: g.add(g.tanh(convolution(g, 3)), other(g, 2, 5, 5, 8)),
        [("Convolution", "Tanh"), ("Add",)],
    ),
    "residual of groups behind tanh": (
        lambda g: g.add(g.tanh(convolution(g, groups=2)), other(g, 2, 5, 5, 8)),
        [("Convolution", "Tanh"), ("Add",)],
    ),
    "second row behind a convolution": (
        lambda g: g.add(g.multiply(convolution(g), g.input("z", "f32", (1, 5, 1, 1))), other(g, 8)),
        [("Convolution", "Multiply"), ("Add",)],
    ),
    "conv transpose and its bias": (
        lambda g: transposed(g, g.input("b", "f32", (6,))),
        [("ConvTranspose",), ("ConvTranspose: BiasAdd",)],
    ),
    "conv transpose and two ops": (
        lambda g: g.relu(g.add(transposed(g), other(g, 2, 7, 7, 6))),
        [("ConvTranspose",), ("Add", "ReLU")],
    ),
    "difference from a number for each row": (
        lambda g: g.exp(g.subtract(g.input("x", "f32", (2, 3, 4, 6)), other(g, 2, 3, 4, 1))),
        [("Subtract",), ("Exp",)],
    ),
    "normalization by variables": (
        lambda g: batch_norm(g, *[g.square(g.input(f"v{index}", "f32", (8,))) for index in range(4)]),
        [*[("Square",)] * 4, ("Convolution",), ("BatchNormInference", "ReLU")],
    ),
    "normalization behind variable weights": (
        lambda g: g.relu(g.batch_norm_inference(weighted(g), *positive(g), epsilon=1e-5)),
        [("Convolution",), ("BatchNormInference", "ReLU")],
    ),
    "rows and transposed variables of int8": (
        lambda g: int8_matmul(g, transpose_b=True),
        [("Dequantize",), ("Dequantize",), ("MatMul",)],
    ),
    "pool of int8 with channels first": (
        lambda g: pool(g, "NCX", 0.5),
        [("Dequantize",), ("MaxPool",), ("Quantize",)],
    ),
    "pool of int8 between two scales": (lambda g: pool(g, "NXC", 2.0), [("Dequantize",), ("MaxPool",), ("Quantize",)]),
    "interpolation and gelu": (
        lambda g: g.gelu(g.interpolate(g.input("x", "f32", (2, 3, 3, 4)), mode="nearest", sizes=[6, 6])),
        [("Interpolate",), ("GELU",)],
    ),
    "gate of each channel": (
        lambda g: g.multiply(g.sigmoid(g.input("x", "f32", (2, 1, 1, 8))), other(g, 2, 5, 5, 8)),
        [("Sigmoid",), ("Multiply",)],
    ),
    "gate of fewer axes": (
        lambda g: g.multiply(g.tanh(g.input("x", "f32", (8,))), other(g, 2, 5, 8)),
        [("Tanh",), ("Multiply",)],
    ),
    "sum that a vector takes": (
        lambda g: g.add(
            g.op("ReduceSum", [g.input("x", "f32", (40,))], {"axes": [0], "keep_dims": True}), other(g, 50)
        ),
        [("ReduceSum",), ("Add",)],
    ),
    "first factor of fewer elements": (
        lambda g: g.multiply(other(g, 1, 5, 8), g.sigmoid(g.input("x", "f32", (2, 5, 8)))),
        [("Sigmoid",), ("Multiply",)],
    ),
    "difference from a number that a tensor takes": (
        lambda g: g.multiply(g.subtract(constant(g), g.input("x", "f32", (1, 1, 8))), other(g, 2, 5, 8)),
        [("Subtract",), ("Multiply",)],
    ),
    "row behind a number that a tensor takes": (
        lambda g: g.add(
            g.multiply(g.multiply(g.input("s", "f32", ()), constant(g)), other(g, 2, 5, 8)), constant(g, 8)
        ),
        [("Multiply", "Multiply"), ("Add",)],
    ),
    "row behind a product that more matrices take": (
        lambda g: g.add(
            g.multiply(g.matmul(g.input("x", "f32", (4, 5)), constant(g, 5, 6)), other(g, 2, 4, 6)), constant(g, 6)
        ),
        [("MatMul", "Multiply"), ("Add",)],
    ),
}
STAY: dict[str, Build] = {
    "bias and relu": lambda g: g.relu(g.bias_add(convolution(g), g.input("b", "f32", (8,)))),
    "residual": lambda g: g.relu(g.add(convolution(g), other(g, 2, 5, 5, 8))),
    "residual with channels first": lambda g: g.relu(g.add(convolution(g, data_format="NCX"), other(g, 2, 8, 5, 5))),
    "product with channels last": lambda g: g.multiply(convolution(g), other(g, 2, 5, 5, 8)),
    "factor of each channel": lambda g: g.multiply(convolution(g, data_format="NCX"), other(g, 1, 8, 1, 1)),
    "residual behind tanh": lambda g: g.add(g.tanh(convolution(g)), other(g, 2, 5, 5, 8)),
    "residual of a few channels": lambda g: g.tanh(g.add(convolution(g, 3), other(g, 2, 5, 5, 8))),
    "quantized residual with channels last": lambda g: g.quantize(
        g.add(int8_convolution(g, "NXC"), other(g, 2, 5, 5, 8)), **QUANTIZED
    ),
    "int8 residual with channels first": lambda g: g.quantize(
        g.add(int8_convolution(g, "NCX"), g.dequantize(g.input("y", "s8", (2, 8, 5, 5)), scales=[0.5], zps=[0])),
        **QUANTIZED,
    ),
    "normalization by constants": lambda g: batch_norm(g, *positive(g)),
    "bias, gelu": lambda g: g.gelu(g.add(matmul(g), other(g, 6))),
    "scores and a mask": lambda g: g.add(
        g.divide(matmul(g, 2, 3), g.constant(np.full((1,), 8, np.float32))), other(g, 2, 1, 1, 6)
    ),
    "heads side by side": lambda g: g.static_reshape(
        g.static_transpose(matmul(g, 2, 3), order=(0, 2, 1, 3)), shape=(8, 18), special_zero=False
    ),
    "sum of a channel vector, relu": lambda g: g.relu(g.add(g.input("x", "f32", (2, 8, 5, 5)), other(g, 1, 8, 1, 1))),
    "rows and variables of int8": int8_matmul,
    "rows without sums": lambda g: int8_matmul(g, "u8", transpose_b=True),
    "rows and transposed constants of int8": lambda g: int8_matmul(g, is_constant=True, transpose_b=True),
    "pool of int8 with channels last": lambda g: pool(g, "NXC", 0.5),
    "number that a tensor takes": lambda g: g.multiply(
        g.multiply(g.input("s", "f32", ()), constant(g)), other(g, 2, 5, 8)
    ),
    "difference from a number": lambda g: g.multiply(
        g.subtract(constant(g), g.input("x", "f32", (2, 5, 8))), other(g, 2, 5, 8)
    ),
    "number of all behind a number": lambda g: g.add(
        g.multiply(g.multiply(g.input("s", "f32", ()), constant(g)), other(g, 2, 5, 8)), constant(g)
    ),
}


def compiled(build):
    g = og.Graph()
    g.output("out", build(g))
    return g, g.compile()


def assert_right(graph, executable):
    rng, feeds = np.random.default_rng(1), {}
    for name, tensor in graph.inputs.items():
        dtype = tensor.dtype.numpy
        feeds[name] = (rng.integers(0, 9, tensor.shape) / (1 if dtype.kind in "iu" else 8) + 1).astype(dtype)
    got, wanted = executable(**feeds), reference.run(graph, feeds)["out"]
    if got.dtype.kind in "iu":  # the library multiplies by 1 / scale, so that a tie may round to the other side
        assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
    else:
        share = 1e-5 if got.dtype == np.float32 else 2e-2
        got, wanted = got.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(got, wanted, rtol=share, atol=share * np.abs(wanted).max())


@pytest.mark.skipif(library.VERSION >= (3, 6), reason="a newer library has kernels for some of them")
@pytest.mark.skipif(not has_vnni(), reason="without such instructions, the library computes some of them wrong")
@pytest.mark.parametrize("name", CUT)
def test_slow_fusions_are_cut_where_noted(name):
    build, wanted = CUT[name]
    graph, executable = compiled(build)
    partitions = [part for part in executable.report().partitions if part.kinds != ("copy of",)]
    assert [part.kinds for part in partitions] == wanted
    assert any("so that the ops run apart" in part.reason for part in partitions)
    assert_right(graph, executable)


@pytest.mark.skipif(not has_vnni(), reason="without such instructions, the library computes some of them wrong")
@pytest.mark.parametrize("name", STAY)
def test_fast_neighbours_stay_fused(name):
    graph, executable = compiled(STAY[name])
    partitions = [part for part in executable.report().partitions if part.executor == "oneDNN"]
    assert [part.fused for part in partitions] == [True]
    assert_right(graph, executable)


@pytest.mark.skipif(library.VERSION >= (3, 6), reason="a newer library has other kernels for them")
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("between", ["add", "multiply", "gelu"])
def test_late_residuals_are_apart_without_avx512(batch, between):
    def build(g):
        found = matmul(g, *batch)
        found = g.gelu(found) if between == "gelu" else getattr(g, between)(found, constant(g, 6))
        return g.add(found, other(g, *batch, 4, 6))

    graph, executable = compiled(build)
    first = "GELU" if between == "gelu" else between.capitalize()
    wanted = [("MatMul", first, "Add")] if has_avx512() else [("MatMul", first), ("Add",)]
    assert [part.kinds for part in executable.report().partitions] == wanted
    named = executable.report(implementations=True).partitions
    assert not any("ref:any" in part.implementation for part in named)
    assert_right(graph, executable)


@pytest.mark.parametrize("bias", [(4, 1), (1, 1), (1,), (4, 6)], ids=str)
def test_bias_that_is_no_row_is_added(bias):
    def build(g):
        return g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6)), g.input("b", "f32", bias))

    graph, executable = compiled(build)
    kinds = [kind for part in executable.report().partitions for kind in part.kinds]
    assert kinds == ["MatMul", "MatMul: Add"]
    assert_right(graph, executable)


@pytest.mark.parametrize("bias", [(6,), (1, 6)], ids=str)
def test_bias_that_is_a_row_stays(bias):
    def build(g):
        return g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6)), g.input("b", "f32", bias))

    assert [part.kinds for part in compiled(build)[1].report().partitions] == [("MatMul",)]


@pytest.mark.parametrize("kind", ["add", "subtract", "divide", "maximum"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_operand_along_every_other_axis_is_widened(kind, side, dtype):
    if not is_native(og.DataType(dtype)):
        pytest.skip("numpy casts data types that the CPU has not")

    def build(g):
        ends = [g.input("x", dtype, (4, 3, 5, 6)), g.input("y", dtype, (4, 1, 5, 1))]
        return getattr(g, kind)(*(reversed(ends) if side else ends))

    graph, executable = compiled(build)
    kinds = [kind for part in executable.report().partitions for kind in part.kinds]
    assert any(kind.endswith(": Multiply") for kind in kinds)
    assert_right(graph, executable)


def groups(shape):
    """The number of groups of neighbouring axes along all or none of which an operand of (3, 3, 3, 3, 3) varies."""
    return 1 + sum(one != other for one, other in pairwise(shape))


@pytest.mark.parametrize("mask", [*product((1, 3), repeat=5)], ids=str)
def test_an_operand_is_widened_in_fast_steps(mask):
    shapes = [mask, *steps_to_fast((3,) * 5, mask)]
    assert groups(shapes[-1]) <= 3
    assert len(shapes) == 1 or groups(shapes[-2]) > 3
    for shape, wider in pairwise(shapes):
        assert all(one in (1, other) for one, other in zip(shape, wider, strict=True))
        widened = [(one, other) for one, other in zip(shape, wider, strict=True) if other > 1]
        assert sum(one != other for one, other in pairwise(one for one, _ in widened)) <= 2


def test_channels_last_is_recognised():
    images = np.zeros((2, 5, 6, 3), np.float32).transpose(0, 3, 1, 2)
    strides = tuple(step // 4 for step in images.strides)
    assert is_channels_last(images.shape, strides)
    assert not is_channels_last((2, 3, 5, 6), (90, 30, 6, 1))
    assert not is_channels_last((5, 6), (1, 5))


def test_binary_ops_get_dense_copies_of_turned_tensors():
    graph, executable = compiled(
        lambda g: g.add(g.static_transpose(g.input("x", "f32", (5, 4)), order=(1, 0)), other(g, 4, 5))
    )
    (added,) = [part for part in executable.report().partitions if part.kinds == ("Add",)]
    assert all(strides == (5, 1) for strides in added.layouts.values())
    assert_right(graph, executable)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda g: g.max_pool(g.input("x", "f32", (1, 8, 8, 4)), kernel=[2, 2], **{**WINDOW, "dilations": [2, 2]}),
            "reference kernel: MaxPool with dilations",
        ),
        (
            lambda g: g.prelu_backward(
                *[g.input(name, "f32", (1, 8, 8, 4) if name != "s" else (1,)) for name in "xsd"]
            )[0],
            "reference kernel: PReLUBackward with one slope",
        ),
    ],
    ids=["pool", "prelu"],
)
def test_reports_mark_reference_kernels(build, said):
    _, executable = compiled(build)
    if executable.report().partitions[0].executor == "reference":  # as newer versions get the gradient wrong
        return
    assert any(said in part.reason for part in executable.report().partitions)
    named = executable.report(implementations=True)
    assert "ref:any" in " ".join(part.implementation for part in named.partitions if said in part.reason)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "slope", "attrs", "is_slow"),
    [
        ((2, 12, 12, 16), (1, 1, 1, 1), {}, True),
        ((2, 16, 12, 12), (1, 16, 1, 1), {"data_format": "NCX"}, True),
        ((2, 16, 144), (1, 16, 1), {"data_format": "NCX", "per_channel_broadcast": False}, True),
        ((2, 12, 12, 16), (16,), {}, False),
        ((2, 4, 4, 16), (1,), {}, False),
    ],
    ids=str,
)
def test_prelu_has_two_sides_where_it_is_slow(shape, slope, attrs, is_slow, dtype):
    graph, executable = compiled(lambda g: g.prelu(g.input("x", dtype, shape), g.input("s", dtype, slope), **attrs))
    assert any("PReLU: Add" in part.kinds for part in executable.report().partitions) == is_slow
    assert_right(graph, executable)


def test_reports_mark_no_other_kernel():
    _, executable = compiled(lambda g: g.max_pool(g.input("x", "f32", (1, 8, 8, 4)), kernel=[2, 2], **WINDOW))
    assert "reference kernel" not in executable.report().partitions[0].reason


def test_kernel_runs_long_products():
    graph, executable = compiled(lambda g: g.reduce_prod(g.clamp(other(g, 4, 8192), min=0.5, max=2.0), axes=[0]))
    assert [part.executor for part in executable.report().partitions] == ["oneDNN", "kernel"]
    assert_right(graph, executable)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_kernel_runs_long_products_of_16_bits(dtype):
    """In f32, between casts."""
    graph, executable = compiled(lambda g: g.reduce_prod(g.input("x", dtype, (4, 8192)), axes=[0]))
    last = executable.report().partitions[-1]
    assert {part.executor for part in executable.report().partitions} == {"copy", "kernel"}, last
    assert_right(graph, executable)


@pytest.mark.parametrize(("rows", "executors"), [(2, {"oneDNN"}), (8, {"copy", "kernel"})])
def test_library_joins_few_rows_of_f16_alone(rows, executors):
    graph, executable = compiled(lambda g: g.concat(*[g.input(name, "f16", (rows, 32)) for name in "xy"], axis=1))
    assert {part.executor for part in executable.report().partitions} <= executors
    assert_right(graph, executable)


def test_moved_axes_of_size_1_keep_tensors_dense():
    def build(g):
        ends = [g.static_transpose(g.input(name, "f32", (2, 5, 1, 4)), order=(0, 2, 1, 3)) for name in "xy"]
        return g.add(g.matmul(*ends, transpose_b=True), g.input("m", "f32", (2, 1, 5, 5)))

    graph, executable = compiled(build)
    partitions = executable.report().partitions
    assert [part.kinds for part in partitions] == [("StaticTranspose",), ("StaticTranspose",), ("MatMul", "Add")]
    assert set(partitions[-1].layouts.values()) == {(20, 20, 4, 1), (25, 25, 5, 1)}
    assert_right(graph, executable)


@pytest.mark.skipif(library.VERSION >= (3, 6), reason="a newer library has kernels for some of them")
def test_layers_with_constants_and_variables_are_apart():
    def build(g):
        x = g.input("x", "f32", (2, 5, 5, 8))
        for layer in range(2):
            names = [f"{name}{layer}" for name in "abcd"]
            vectors = [
                g.input(name, "f32", (8,)) if layer else g.constant(np.full(8, 1.5, np.float32)) for name in names
            ]
            x = g.convolution(x, constant(g, 8, 8, 1, 1), weights_format="OIX", **WINDOW)
            x = g.batch_norm_inference(x, *vectors, epsilon=1e-5)
        return x

    graph, executable = compiled(build)
    wanted = [("Convolution", "BatchNormInference"), ("Convolution",), ("BatchNormInference",)]
    assert [part.kinds for part in executable.report().partitions] == wanted
    assert_right(graph, executable)


def kinds_of(executable):
    return [kind for part in executable.report().partitions for kind in part.kinds]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("is_constant", [False, True])
def test_short_vectors_are_added_to_longer_rows(dtype, is_constant):
    if not is_native(og.DataType(dtype)):
        pytest.skip("numpy casts data types that the CPU has not")

    def build(g):
        numbers = np.array([0.5, 1, 2], og.DataType(dtype).numpy)
        vector = g.constant(numbers) if is_constant else g.input("y", dtype, (3,))
        return g.relu(g.subtract(g.input("x", dtype, (1, 96, 96, 3)), vector))

    graph, executable = compiled(build)
    (part,) = [part for part in executable.report().partitions if part.kinds == ("Subtract",)]
    assert "on longer rows" in part.reason
    assert_right(graph, executable)


def test_bias_of_few_channels_is_added_to_longer_rows():
    graph, executable = compiled(lambda g: g.bias_add(g.input("x", "f32", (1, 96, 96, 3)), other(g, 3)))
    assert "on longer rows" in executable.report().partitions[-1].reason
    assert_right(graph, executable)


@pytest.mark.parametrize("shape", [(1, 127, 129, 3), (2, 89, 97, 5), (2, 64, 64, 32), (2, 64, 64, 64)], ids=str)
def test_columns_are_summed_in_two_steps(shape):
    graph, executable = compiled(lambda g: g.bias_add_backward(g.input("x", "f32", shape)))
    assert kinds_of(executable).count("BiasAddBackward: AvgPool") == 2
    assert_right(graph, executable)


@pytest.mark.skipif(library.VERSION < (3, 6), reason="it fuses no op behind a norm")
@pytest.mark.parametrize("shape", [(1, 64, 1, 1), (2, 64, 5, 45)], ids=str)
def test_slow_operands_stay_out_of_norms(shape):
    def build(g):
        normed = g.layer_norm(g.input("x", "f32", (2, 64, 5, 45)), use_affine=False, keep_stats=False)
        return g.maximum(normed, other(g, *shape))

    graph, executable = compiled(build)
    assert [part.kinds for part in executable.report().partitions] == [("LayerNorm",), ("Maximum",)]
    assert_right(graph, executable)


@pytest.mark.skipif(library.VERSION < (3, 13), reason="it has a kernel")
def test_products_of_f32_are_narrowed_apart():
    graph, executable = compiled(lambda g: g.type_cast(matmul(g), dtype="bf16"))
    assert [part.kinds for part in executable.report().partitions] == [("MatMul",), ("TypeCast",)]
    assert_right(graph, executable)


@pytest.mark.skipif(library.VERSION < (3, 3), reason="it fuses no attention")
@pytest.mark.parametrize("tokens", [2047, 2048])
def test_large_attention_keeps_scores_between_runs(tokens):
    g = og.Graph()
    q, k, v = (g.input(name, "f32", (1, 16, tokens, 64)) for name in "qkv")
    shares = g.op("SoftMax", [g.matmul(q, k, transpose_b=True)], {"axis": -1}, outputs=["dst"], dtype="f32")
    g.output("y", g.matmul(shares, v))
    is_apart = tokens == 2048 and library.RUNTIME != "OpenMP"
    last = ("MatMul",) if is_apart else ("MatMul", "SoftMax", "MatMul")
    assert g.compile().report().partitions[-1].kinds == last


@pytest.mark.parametrize("axes", [(2, 3), (0,), (1, 2, 3)], ids=str)
def test_strided_reductions_get_a_dense_copy(axes):
    shape, strides = (2, 32, 24, 24), (18432, 1, 768, 32)  # channels last
    graph, executable = compiled(lambda g: g.reduce_sum(g.input("x", "f32", shape, strides=strides), axes=axes))
    assert kinds_of(executable)[0] == "copy of"
    assert_right(graph, executable)


def columns(shape):
    """The strides of a tensor that is the first half of the columns of another one."""
    return (*(2 * math.prod(shape[axis + 1 :]) for axis in range(len(shape) - 1)), 1)


POOLED = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "kernel": [3, 3]}
RESIZED = {"mode": "bilinear", "sizes": [8, 8]}
COPIED = {
    "AvgPool": ((1, 16, 16, 8), lambda g, x: g.op("AvgPool", x, {**POOLED, "exclude_pad": False})),
    "MaxPool": ((1, 16, 16, 8), lambda g, x: g.op("MaxPool", x, POOLED)),
    "Interpolate": ((1, 16, 16, 8), lambda g, x: g.op("Interpolate", x, RESIZED)),
    "SoftMax": ((32, 64), lambda g, x: g.op("SoftMax", x, {"axis": -1}, outputs=["dst"], dtype="f32")),
    "ReduceMean": ((32, 64), lambda g, x: g.reduce_mean(x, axes=(1,))),
}


@pytest.mark.parametrize("kind", COPIED)
@pytest.mark.parametrize("is_strided", [True, False], ids=["columns", "dense"])
def test_ops_read_a_dense_copy_of_some_columns(kind, is_strided):
    shape, add = COPIED[kind]
    strides = columns(shape) if is_strided else None
    graph, executable = compiled(lambda g: add(g, g.input("x", "f32", shape, strides=strides)))
    assert (kinds_of(executable)[0] == "copy of") == is_strided
    assert_right(graph, executable)


def test_softmax_into_columns_is_copied():
    g = og.Graph()
    shares = g.op("SoftMax", g.input("x", "f32", (32, 64)), {"axis": -1}, outputs=["dst"], dtype="f32")
    g.output("out", shares, strides=columns((32, 64)))
    executable = g.compile()
    assert [part.kinds for part in executable.report().partitions] == [("SoftMax",)] * 2
    assert_right(g, executable)


def test_small_strided_reductions_are_not_copied():
    strides = (64, 1, 16, 4)
    _, executable = compiled(lambda g: g.reduce_max(g.input("x", "f32", (2, 4, 4, 4), strides=strides), axes=(2, 3)))
    assert kinds_of(executable) == ["ReduceMax"]


@pytest.mark.parametrize(
    ("strides", "copied"),
    [((480, 60, 1), True), ((1, 60, 2), True), ((160, 20, 1), False), ((1, 40, 2), False)],
    ids=str,
)
def test_elementwise_ops_get_a_dense_copy_of_a_tensor_with_gaps(strides, copied):
    graph, executable = compiled(lambda g: g.square(g.input("x", "f32", (2, 8, 20), strides=strides)))
    assert kinds_of(executable) == [*["copy of"] * copied, "Square"]
    assert_right(graph, executable)
