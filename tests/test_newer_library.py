"""What a library newer than 3.2 brings, and what it breaks: both follow the version of the loaded library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import onegraph as og
from onegraph import capi, native
from onegraph.cases import CASES, Case
from onegraph.reference import run

Build = Callable[[og.Graph], og.LogicalTensor]
Version = tuple[int, int]
CONV = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


def group_norm(g: og.Graph) -> og.LogicalTensor:
    vectors = [g.input(name, "f32", (6,)) for name in ("gamma", "beta")]
    return g.group_norm(g.input("x", "f32", (2, 5, 5, 6)), *vectors, groups=2, epsilon=0.1, keep_stats=False)


def gen_index(g: og.Graph) -> og.LogicalTensor:
    return g.gen_index(g.input("x", "f32", (3, 4)), axis=1)


def greater_equal(g: og.Graph) -> og.LogicalTensor:
    return g.greater_equal(g.input("x", "f32", (3, 4)), g.input("y", "f32", (3, 1)))


def rms_norm(g: og.Graph) -> og.LogicalTensor:
    return g.rms_norm(g.input("x", "f32", (3, 16)), g.input("gamma", "f32", (16,)), epsilon=0.1)


def select(g: og.Graph) -> og.LogicalTensor:
    chosen = [g.input(name, "f32", (3, 4)) for name in ("x", "y")]
    return g.select(g.input("c", "boolean", (3, 4)), *chosen)


def softmax_stats(g: og.Graph) -> og.LogicalTensor:
    g.output("stats", (found := g.softmax(g.input("x", "f32", (3, 16)), axis=1, dtype="f32")).stats)
    return found.dst


def softmax_inf_as_zero(g: og.Graph) -> og.LogicalTensor:
    return g.softmax(g.input("x", "f32", (3, 16)), axis=1, mode="inf_as_zero", outputs=["dst"], dtype="f32")


def gelu_tanh(g: og.Graph) -> og.LogicalTensor:
    return g.gelu(g.input("x", "f32", (3, 4)), mode="gelu_tanh")


def accumulation_mode(g: og.Graph) -> og.LogicalTensor:
    x, w = g.input("x", "f32", (3, 4)), g.input("w", "f32", (4, 5))
    return g.matmul(x, w, accumulation_mode="strict", dtype="f32")


def mixed_types(g: og.Graph) -> og.LogicalTensor:
    return g.add(g.input("x", "f32", (3, 4)), g.input("y", "bf16", (3, 4)))


# What is one op of the library's since a version; before, other ops or numpy do it, and the report says so.
GATED: dict[str, tuple[Build, Version]] = {
    "GroupNorm": (group_norm, (3, 6)),
    "Select": (select, (3, 6)),
    "GenIndex": (gen_index, (3, 7)),
    "GreaterEqual": (greater_equal, (3, 7)),
    "RMSNorm": (rms_norm, (3, 11)),
    "SoftMax, stats": (softmax_stats, (3, 9)),
    "SoftMax, inf_as_zero": (softmax_inf_as_zero, (3, 8)),
    "GELU by tanh": (gelu_tanh, (3, 9)),
    "MatMul, accumulation_mode": (accumulation_mode, (3, 2)),  # a permission; before 3.10 it is left out
    "Add of f32 and bf16": (mixed_types, (3, 8)),
}
# What was tried of 3.2 and above: in between, an op may be there without the kernel.
TRIED = [(3, 2), (3, 6), (3, 13)]


def arrays(graph: og.Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        name: (rng.integers(-20, 20, tensor.shape) / 8).astype(tensor.dtype.numpy)
        for name, tensor in graph.inputs.items()
    }


@pytest.mark.parametrize("name", GATED)
def test_ops_of_later_versions_are_run_by_the_libraries_that_have_them(name: str) -> None:
    build, since = GATED[name]
    graph = og.Graph()
    graph.output("out", build(graph))
    executable, inputs = graph.compile(), arrays(graph)
    got, wanted = executable(**inputs), run(graph, inputs)
    for found, expected in zip(got if isinstance(got, tuple) else (got,), wanted.values(), strict=True):
        np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-4, atol=1e-5)
    by = [(partition.executor, partition.reason) for partition in executable.report().partitions]
    if native.VERSION[:2] in TRIED:
        assert (by == [("oneDNN", "")]) == (since <= native.VERSION), by
    elif since > native.VERSION:
        assert any(reason for _, reason in by)


KINDS = {"Dequantize", "Dropout", "GenIndex", "GreaterEqual", "GroupNorm", "MatMul", "Quantize", "RMSNorm", "Select"}


def is_later(case: Case) -> bool:
    if case.kind == "DynamicDequantize":
        return "group_shape" in case.attrs and case.inputs[0].dtype in (np.int8, np.uint8)
    return case.kind in {*KINDS, "SoftMax"}


@pytest.mark.skipif(native.VERSION[:2] != (3, 13), reason="what the library runs of every use was seen in 3.13")
@pytest.mark.parametrize("case", [*filter(is_later, CASES)], ids=str)
def test_no_use_of_a_later_op_is_left_to_numpy(case: Case) -> None:
    graph = og.Graph()
    dtypes = ["s64" if array.dtype == np.int64 else array.dtype for array in case.inputs]
    inputs = [graph.input(f"x{n}", dtype, case.inputs[n].shape) for n, dtype in enumerate(dtypes)]
    found = graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    for number, tensor in enumerate((found,) if isinstance(found, og.LogicalTensor) else found):
        graph.output(f"y{number}", tensor)
    graph.compile(fallback=False)(*case.inputs)


def test_a_dropout_and_its_mask_are_fused_with_what_changes_nothing() -> None:
    graph = og.Graph()
    scalars = [graph.input(name, dtype, (1,)) for name, dtype in (("seed", "s64"), ("offset", "s64"), ("p", "f32"))]
    relu = graph.relu(graph.input("x", "f32", (16, 33)))
    found = graph.dropout(relu, *scalars)
    graph.output("dst", found.dst)
    graph.output("mask", found.mask)
    x = np.random.default_rng(1).normal(size=(16, 33)).astype(np.float32)
    inputs = {"seed": np.array([7]), "offset": np.array([3]), "p": np.array([0.3], np.float32), "x": x}
    executable = graph.compile()
    for got, wanted in zip(executable(**inputs), run(graph, inputs).values(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    by_numpy = [part.executor for part in executable.report().partitions].count("reference")
    assert by_numpy == (native.VERSION < (3, 12))


def test_the_one_to_one_objects_refuse_a_mask_in_a_fusion() -> None:
    if native.VERSION < (3, 12):
        with pytest.raises(og.UnsupportedError, match="needs oneDNN"):
            capi.LogicalTensor(1, "s64", (1,))
        return
    x, kept, dst = (capi.LogicalTensor(number, "f32", (4, 8)) for number in (0, 4, 5))
    scalars = [capi.LogicalTensor(number, dtype, (1,)) for number, dtype in ((1, "s64"), (2, "s64"), (3, "f32"))]
    graph = capi.Graph()
    graph.add_op(capi.Op(0, "ReLU", inputs=[x], outputs=[kept]))
    mask = capi.LogicalTensor(6, "u8", (4, 8))
    graph.add_op(capi.Op(1, "Dropout", inputs=[kept, *scalars], outputs=[dst, mask]))
    graph.finalize()
    (partition,) = graph.partitions("fusion")
    with pytest.raises(og.UnsupportedError, match="leaves the mask of a Dropout unwritten"):
        partition.compile()


@pytest.mark.parametrize("dtype", [og.DataType(name) for name in ("f8_e5m2", "f8_e4m3", "s4", "u4")], ids=str)
def test_logical_tensors_of_later_types(dtype: og.DataType) -> None:
    if dtype.since > native.VERSION:
        with pytest.raises(og.UnsupportedError, match=f"{dtype} needs oneDNN"):
            capi.LogicalTensor(0, dtype, (4, 8))
    else:
        tensor = capi.LogicalTensor(0, dtype, (4, 8))
        assert (tensor.dtype, tensor.shape) == (dtype, (4, 8))


# What newer libraries compute wrong, in a process of their own where memory may be written to ----------------------


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize(
    ("size", "to"), [([1], [8]), ([1, 1], [8, 8]), ([1, 1], [1, 2]), ([1, 1, 1], [2, 3, 4])], ids=str
)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_one_pixel_is_spread(mode: str, size: list[int], to: list[int], data_format: str) -> None:
    shape = (2, 4, *size) if data_format == "NCX" else (2, *size, 4)
    graph = og.Graph()
    x = graph.input("x", "f32", shape)
    y = graph.output("y", graph.interpolate(x, mode=mode, sizes=to, data_format=data_format))
    pixel = np.arange(8, dtype=np.float32).reshape(shape)
    # The weights of the linear mode add up to 1, rounded: without AVX2 in another order.
    np.testing.assert_allclose(graph.compile()(pixel), np.broadcast_to(pixel, y.shape), rtol=2**-22)  # type: ignore[arg-type]


def test_one_pixel_is_refused_by_the_one_to_one_objects() -> None:
    attrs = {"mode": "nearest", "sizes": [8, 8], "data_format": "NCX"}
    for given in ((2, 4, 1, 1), None):  # with an unknown shape, compile finds out
        src, dst = capi.LogicalTensor(0, "f32", given), capi.LogicalTensor(1, "f32")

        def compiled(src: capi.LogicalTensor = src, dst: capi.LogicalTensor = dst) -> capi.CompiledPartition:
            op = capi.Op(1, "Interpolate", inputs=[src], outputs=[dst], attrs=attrs)
            return capi.Partition.from_op(op).compile([capi.LogicalTensor(0, "f32", (2, 4, 1, 1))])

        if native.VERSION < (3, 3):
            assert compiled().outputs[0].shape == (2, 4, 8, 8)
        else:
            with pytest.raises(og.UnsupportedError, match="one_pixel"):
                compiled()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("batch", [(2, 2), (3, 2), (1, 3), (3,), ()], ids=str)
def test_a_product_over_one_element(batch: tuple[int, ...], turned: bool) -> None:
    graph = og.Graph()
    x, w = (
        graph.input("x", "f32", (*batch, 5, 1)),
        graph.input("w", "f32", (*batch, 3, 1) if turned else (*batch, 1, 3)),
    )
    graph.output("y", graph.matmul(x, w, transpose_b=turned))
    left = np.arange(1, 1 + np.prod((*batch, 5)), dtype=np.float32).reshape(*batch, 5, 1)
    right = np.arange(1, 1 + np.prod((*batch, 3)), dtype=np.float32).reshape(*batch, 1, 3)
    given = right.swapaxes(-1, -2) if turned else right
    for capacity in (0, 1024):  # what was made for other strides of the same tensors must not matter
        before = capi.get_primitive_cache_capacity()
        capi.set_primitive_cache_capacity(capacity)
        try:
            np.testing.assert_array_equal(graph.compile()(left, np.ascontiguousarray(given)), left * right)
        finally:
            capi.set_primitive_cache_capacity(before)


@pytest.mark.parametrize("operand", [(2, 4, 6), (1, 4, 6), (6,), ()], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_layer_norm_and_a_residual(dtype: str, operand: tuple[int, ...]) -> None:
    graph = og.Graph()
    normed = graph.layer_norm(graph.input("x", dtype, (2, 4, 6)), use_affine=False, epsilon=0.1, keep_stats=False)
    graph.output("out", graph.add(normed, graph.input("y", dtype, operand)))
    inputs = arrays(graph)
    tolerance = 2.0**-6 if dtype == "bf16" else 1e-5
    wanted = run(graph, inputs)["out"].astype(float)
    np.testing.assert_allclose(graph.compile()(**inputs).astype(float), wanted, atol=tolerance * np.abs(wanted).max())


COLUMNS = [((3, 2, 1), (2, 1)), ((3, 2, 1), (3, 1, 1)), ((3, 3, 1, 1), (1, 3, 1, 1)), ((3, 3, 1), (3, 1))]


@pytest.mark.parametrize(("shape", "operand"), COLUMNS, ids=str)
@pytest.mark.parametrize("main", ["Add", "MatMul"])
def test_a_binary_op_behind_a_result_of_one_column(main: str, shape: tuple[int, ...], operand: tuple[int, ...]) -> None:
    graph = og.Graph()
    if main == "Add":
        tensor = graph.add(graph.input("x", "f32", shape), graph.input("w", "f32", shape))
    else:
        ends = graph.input("x", "f32", (*shape[:-2], 5, shape[-2])), graph.input("w", "f32", (*shape[:-2], 1, 5))
        tensor = graph.matmul(*ends, transpose_a=True, transpose_b=True)
    graph.output("out", graph.multiply(tensor, graph.input("y", "f32", operand)))
    inputs = arrays(graph)
    np.testing.assert_allclose(graph.compile()(**inputs), run(graph, inputs)["out"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("main", ["Maximum", "Add"])
def test_a_vector_behind_a_binary_op_of_channels_last(main: str) -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", (3, 5, 4, 8), strides=(160, 1, 40, 5))
    tensor = graph.op(main, [x, graph.input("y", "f32", (3, 5, 4, 8))])
    assert isinstance(tensor, og.LogicalTensor)
    graph.output("out", graph.multiply(graph.relu(tensor), graph.input("z", "f32", (8,))))
    inputs = arrays(graph)
    np.testing.assert_allclose(graph.compile()(**inputs), run(graph, inputs)["out"], rtol=1e-5)


def test_the_stats_of_a_softmax_that_could_write_over_its_source() -> None:
    graph = og.Graph()
    found = graph.softmax(graph.relu(graph.input("x", "f32", (2, 5))), axis=1, dtype="f32")
    graph.output("out", found.dst)
    graph.output("stats", graph.relu(found.stats))
    inputs = arrays(graph)
    wanted = run(graph, inputs)
    for policy in ("fusion", "debug"):
        for got, name in zip(graph.compile(policy=policy)(**inputs), graph.outputs, strict=True):
            np.testing.assert_allclose(got, wanted[name], rtol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("size", "kernel", "strides"),
    [
        ((4, 3), (3, 3), (1, 2)),
        ((5, 5), (1, 5), (1, 3)),
        ((4, 4, 3), (2, 2, 3), (1, 1, 2)),
        ((1, 4, 4), (1, 2, 2), (1, 1, 2)),
    ],
    ids=str,
)
def test_one_channel_and_strides(
    size: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], groups: int
) -> None:
    zeros = [0] * len(size)
    attrs = {"strides": strides, "pads_begin": zeros, "pads_end": zeros, "dilations": [1] * len(size)}
    graph = og.Graph()
    x, w = graph.input("x", "f32", (2, groups, *size)), graph.input("w", "f32", (8 * groups, 1, *kernel))
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    graph.output("y", graph.op("Convolution", [x, w], {**attrs, **formats, "groups": groups}))
    inputs, executable = arrays(graph), graph.compile()
    np.testing.assert_allclose(executable(**inputs), run(graph, inputs)["y"], rtol=1e-5, atol=1e-5)
    by = [partition.executor for partition in executable.report().partitions]
    assert ("reference" in by) == (native.VERSION >= (3, 3))


def test_the_constant_cache_is_used_where_its_keys_differ() -> None:
    assert capi.get_constant_tensor_cache() == (native.VERSION < (3, 3))
