"""What a library newer than 3.2 brings, and what it breaks: both follow the version of the loaded library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from conftest import draws
from helpers.grouped import grouped

import onegraph as og
from onegraph import capi
from onegraph.native import library
from onegraph.reference import run
from onegraph.testing.cases import CASES, Case

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
    g.output("stats", (found := g.softmax(g.input("x", "f32", (3, 16)), axis=1, outputs=["stats"])).stats)
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
    "Select": (select, (3, 13)),
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
def test_library_runs_the_ops_that_it_has(name: str) -> None:
    build, since = GATED[name]
    graph = og.Graph()
    graph.output("out", build(graph))
    executable, inputs = graph.compile(finite_math=True), arrays(graph)
    got, wanted = executable(**inputs), run(graph, inputs)
    for found, expected in zip(got if isinstance(got, tuple) else (got,), wanted.values(), strict=True):
        np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-4, atol=1e-5)
    by = [
        (partition.executor, "" if partition.reason.startswith("on four axes") else partition.reason)
        for partition in executable.report().partitions
    ]
    if library.VERSION[:2] in TRIED:
        assert (by == [("oneDNN", "")]) == (since <= library.VERSION), by
    elif since > library.VERSION:
        assert any(reason for _, reason in by)


KINDS = {"Dequantize", "Dropout", "GenIndex", "GreaterEqual", "GroupNorm", "MatMul", "Quantize", "RMSNorm", "Select"}


def is_later(case: Case) -> bool:
    if case.kind == "DynamicDequantize":
        return "group_shape" in case.attrs and case.inputs[0].dtype in (np.int8, np.uint8)
    if case.kind == "GreaterEqual" and case.inputs[0].dtype == np.int32:
        return False  # f32 does not hold them
    return case.kind in {*KINDS, "SoftMax"}


@pytest.mark.skipif(library.VERSION[:2] != (3, 13), reason="what the library runs of every use was seen in 3.13")
@grouped("case", filter(is_later, CASES))
def test_library_runs_every_use_of_later_ops(case: Case) -> None:
    graph = og.Graph()
    dtypes = ["s64" if array.dtype == np.int64 else array.dtype for array in case.inputs]
    inputs = [graph.input(f"x{n}", dtype, case.inputs[n].shape) for n, dtype in enumerate(dtypes)]
    found = graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    for number, tensor in enumerate((found,) if isinstance(found, og.LogicalTensor) else found):
        graph.output(f"y{number}", tensor)
    graph.compile(fallback=False)(*case.inputs)


def test_dropout_with_a_mask_fuses_with_views() -> None:
    graph = og.Graph()
    scalars = [graph.input(name, dtype, (1,)) for name, dtype in (("seed", "s64"), ("offset", "s64"), ("p", "f32"))]
    relu = graph.relu(graph.input("x", "f32", (16, 33)))
    found = graph.dropout(relu, *scalars, outputs=["mask"])
    graph.output("dst", found.dst)
    graph.output("mask", found.mask)
    x = np.random.default_rng(1).normal(size=(16, 33)).astype(np.float32)
    inputs = {"seed": np.array([7]), "offset": np.array([3]), "p": np.array([0.3], np.float32), "x": x}
    executable = graph.compile()
    for got, wanted in zip(executable(**inputs), run(graph, inputs).values(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    by_numpy = [part.executor for part in executable.report().partitions].count("reference")
    assert by_numpy == (library.VERSION < (3, 12))


def test_capi_refuses_a_dropout_mask_in_a_fusion() -> None:
    if library.VERSION < (3, 12):
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


@pytest.mark.parametrize("name", ["s4", "u4", "f4_e2m1"])
def test_two_elements_are_in_a_byte(name: str) -> None:
    dtype = og.DataType(name)
    if dtype.since > library.VERSION:
        pytest.skip(f"{name} needs oneDNN {dtype.since}")
    tensor = capi.LogicalTensor(0, dtype, (3, 3))
    assert capi.Tensor(tensor, np.zeros(5, np.uint8).view(dtype.numpy)).nbytes == 5
    for wrong in (np.zeros((3, 3), dtype.numpy), np.zeros(4, dtype.numpy)):
        with pytest.raises(og.ArgumentError, match=f"expected 5, with two {name} in each"):
            capi.Tensor(tensor, wrong)


@pytest.mark.parametrize("dtype", [og.DataType(name) for name in ("f8_e5m2", "f8_e4m3", "s4", "u4")], ids=str)
def test_logical_tensors_of_later_types(dtype: og.DataType) -> None:
    if dtype.since > library.VERSION:
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


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_spreading_one_column_ignores_earlier_compilations(mode: str) -> None:
    """From 3.3 on, the strides of a tensor may be those of another one: of the same, but for axes of size 1."""
    pixels = np.arange(117, dtype=np.float32)
    sources, gradient = {"NCX": (1, 9, 13, 1), "NXC": (1, 13, 1, 9)}, {"NCX": (1, 9, 1, 8), "NXC": (1, 1, 8, 9)}
    for data_format in ("NCX", "NXC", "NCX"):
        attrs = {"mode": mode, "data_format": data_format}
        graph = og.Graph()
        x, dy = graph.input("x", "f32", sources[data_format]), graph.input("dy", "f32", gradient[data_format])
        graph.output("dx", graph.interpolate_backward(x, dy, sizes=[1, 8], **attrs))
        graph.output("y", graph.interpolate(x, sizes=[13, 16], **attrs))
        feeds = {"x": pixels.reshape(x.shape), "dy": pixels[:72].reshape(dy.shape)}  # type: ignore[arg-type]
        got, wanted = graph.compile()(**feeds), run(graph, feeds)
        np.testing.assert_allclose(got.dx, wanted["dx"], rtol=1e-5)
        np.testing.assert_allclose(got.y, wanted["y"], rtol=1e-5)
        by_column = feeds["x"].reshape(9, 13, 1) if data_format == "NCX" else feeds["x"].reshape(13, 1, 9)
        axis = -1 if data_format == "NCX" else -2
        np.testing.assert_allclose(got.y[0], np.repeat(by_column, 16, axis), rtol=1e-5)


def test_capi_refuses_to_spread_one_pixel() -> None:
    attrs = {"mode": "nearest", "sizes": [8, 8], "data_format": "NCX"}
    for given in ((2, 4, 1, 1), None):  # with an unknown shape, compile finds out
        src, dst = capi.LogicalTensor(0, "f32", given), capi.LogicalTensor(1, "f32")

        def compiled(src: capi.LogicalTensor = src, dst: capi.LogicalTensor = dst) -> capi.CompiledPartition:
            op = capi.Op(1, "Interpolate", inputs=[src], outputs=[dst], attrs=attrs)
            return capi.Partition.from_op(op).compile([capi.LogicalTensor(0, "f32", (2, 4, 1, 1))])

        if library.VERSION < (3, 3):
            assert compiled().outputs[0].shape == (2, 4, 8, 8)
        else:
            with pytest.raises(og.UnsupportedError, match="one_column"):
                compiled()


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("turned", ["src", "dst"])
def test_spreads_single_axes_over_other_strides(
    turned: str, order: tuple[int, ...], data_format: str, mode: str
) -> None:
    graph = og.Graph()
    shapes = {"src": (1, 3, 2, 1), "dst": (1, 3, 4, 2)}
    if data_format == "NXC":
        shapes = {name: (shape[0], *shape[2:], shape[1]) for name, shape in shapes.items()}
    strides = {turned: [int(np.prod([shapes[turned][a] for a in order[order.index(n) + 1 :]])) for n in range(4)]}
    x = graph.input("x", "f32", shapes["src"], strides=strides.get("src"))
    y = graph.interpolate(x, mode=mode, sizes=[4, 2], data_format=data_format)
    graph.output("out", y, strides=strides.get("dst"))
    inputs = arrays(graph)
    np.testing.assert_allclose(graph.compile()(**inputs), run(graph, inputs)["out"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strides", [(48, 1, 8), (48, 6, 1), (144, 1, 18, 3), (144, 48, 1, 8)], ids=str)
def test_batch_norm_behind_a_convolution_by_strided_weights(strides: tuple[int, ...]) -> None:
    axes = len(strides) - 2
    graph = og.Graph()
    x, w = graph.input("x", "f32", (2, *[5] * axes, 8)), graph.input("w", "f32", (*[3] * axes, 8, 6), strides=strides)
    window = {name: numbers[:axes] for name, numbers in CONV.items()}
    vectors = [graph.constant(np.arange(1, 7, dtype=np.float32)) for _ in range(4)]
    graph.output("out", graph.batch_norm_inference(graph.convolution(x, w, **window), *vectors, epsilon=0.1))
    inputs = arrays(graph)
    np.testing.assert_allclose(graph.compile()(**inputs), run(graph, inputs)["out"], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("low_precision", [False, True], ids=["f32", "s8"])
@pytest.mark.parametrize(
    ("operand", "strides"),
    [
        ((14,), (14, 28, 84, 1)),
        ((1, 1, 1, 14), (210, 14, 42, 1)),
        ((1, 3, 1, 1), (42, 14, 84, 1)),
        ((2, 1, 5, 14), (14, 140, 28, 1)),
        ((1, 1, 5, 1), (70, 140, 14, 1)),
    ],
    ids=str,
)
def test_operand_behind_a_product_with_strided_result(
    operand: tuple[int, ...], strides: tuple[int, ...], low_precision: bool
) -> None:
    graph = og.Graph()
    shapes = {"a": (2, 3, 5, 4), "b": (2, 3, 4, 14)}
    sides = [graph.input(name, "s8" if low_precision else "f32", shape) for name, shape in shapes.items()]
    if low_precision:
        sides = [graph.dequantize(side, scales=[0.5], zps=[0]) for side in sides]
    product = graph.add(graph.matmul(*sides), graph.input("operand", "f32", operand))
    graph.output("out", graph.relu(product), strides=strides)
    inputs = arrays(graph)
    np.testing.assert_allclose(graph.compile()(**inputs), run(graph, inputs)["out"], rtol=1e-5, atol=1e-5)


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


# What s32 holds of these, and no f32 does.
WIDE = ([2**24 + 1, 2**24, -(2**24) - 1, 2**29], [2**24, 2**24 + 1, -(2**24), 2**29 + 1])
OF_WIDE: dict[str, tuple[list[int], Version]] = {
    "GreaterEqual": ([True, False, False, False], (3, 7)),
    "Add": ([2**25 + 1, 2**25 + 1, -(2**25) - 1, 2**30 + 1], (3, 9)),
    "Subtract": ([1, -1, -1, -1], (3, 9)),
}


@pytest.mark.parametrize("kind", OF_WIDE)
def test_integers_that_f32_does_not_hold(kind: str) -> None:
    wanted, since = OF_WIDE[kind]
    graph = og.Graph()
    graph.output("z", graph.op(kind, [graph.input(name, "s32", (4,)) for name in "xy"]))
    assert graph.compile()(*np.array(WIDE, np.int32)).tolist() == wanted
    if since <= library.VERSION:
        ends = [capi.LogicalTensor(number, "s32", (4,)) for number in range(2)]
        result = capi.LogicalTensor(2, "boolean" if kind == "GreaterEqual" else "s32", (4,))
        with pytest.raises(og.UnsupportedError, match="wide_integers"):
            capi.Graph().add_op(capi.Op(0, kind, inputs=ends, outputs=[result]))


@pytest.mark.parametrize(("shift", "is_exact"), [(3, True), (2**24 - 8, True), (2**24 - 7, False)])
def test_library_adds_integers_known_to_be_small(shift: int, is_exact: bool) -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", (3, 4))
    rows = graph.add(graph.gen_index(x, axis=0), graph.constant(np.array([[-shift]], np.int32)))
    mask = graph.greater_equal(rows, graph.subtract(graph.gen_index(x, axis=-1), graph.constant(np.int32([1]))))
    graph.output("y", graph.select(mask, x, graph.constant(np.zeros((1, 1), np.float32))))
    executable, inputs = graph.compile(), arrays(graph)
    np.testing.assert_array_equal(executable(**inputs), run(graph, inputs)["y"])
    if library.VERSION >= (3, 13):
        outside = [part.kinds for part in executable.report().partitions if part.executor != "oneDNN"]
        assert (outside == [("Select",)]) == is_exact  # its scalar takes a reference kernel of the library


def refused(kind: str, attrs: dict[str, object], *inputs: tuple[str, tuple[int, ...]], dtype: str, name: str) -> None:
    """The one-to-one objects refuse the op for this fault."""
    ends = [capi.LogicalTensor(number, *one) for number, one in enumerate(inputs)]
    op = capi.Op(0, kind, inputs=ends, outputs=[capi.LogicalTensor(len(ends), dtype)], attrs=attrs)
    with pytest.raises(og.UnsupportedError, match=name):
        capi.Graph().add_op(op)


@pytest.mark.parametrize("gamma", [(4,), (1, 1, 4), (1,), (3, 1), (3, 4), (2, 1, 1), (2, 3, 4)], ids=str)
def test_gammas_of_any_shape(gamma: tuple[int, ...]) -> None:
    graph = og.Graph()
    graph.output("y", graph.rms_norm(graph.input("x", "f32", (2, 3, 4)), graph.input("gamma", "f32", gamma)))
    # The mean of the squares is 1 everywhere: what is left is gamma, with the signs of x.
    x = np.where(np.arange(24) % 3, 1, -1).astype(np.float32).reshape(2, 3, 4)
    factors = np.arange(1, 1 + np.prod(gamma), dtype=np.float32).reshape(gamma)
    np.testing.assert_allclose(graph.compile()(x, factors), x * factors, rtol=1e-4)
    if library.VERSION >= (3, 11) and gamma not in ((4,), (1, 1, 4)):
        refused("RMSNorm", {}, ("f32", (2, 3, 4)), ("f32", gamma), dtype="f32", name="rms_norm_gamma")


@pytest.mark.skipif(library.VERSION < (3, 9), reason="SoftMax has no stats before 3.9")
@pytest.mark.parametrize("layouts", [("any", "any"), ("any", "strided"), ("strided", "any")], ids="-".join)
def test_layout_any_beside_stats_can_be_executed(layouts: tuple[str, str]) -> None:
    source = capi.LogicalTensor(0, "f32", (2, 2))
    ends = [capi.LogicalTensor(number, "f32", layout=layout) for number, layout in enumerate(layouts, 1)]
    graph = capi.Graph()
    graph.add_op(capi.Op(0, "SoftMax", inputs=[source], outputs=ends))
    graph.finalize()
    compiled = graph.partitions("debug")[0].compile([source], ends)
    assert [tensor.strides for tensor in compiled.outputs] == [(2, 1), (1, 1)]
    results = [capi.Tensor(tensor, np.empty(tensor.shape, np.float32)) for tensor in compiled.outputs]
    given = np.log(np.float32([[1, 3], [4, 4]]))
    compiled.execute(capi.Stream(), [capi.Tensor(source, given)], results)
    np.testing.assert_allclose(results[0].data, [[0.25, 0.75], [0.5, 0.5]], rtol=1e-5)
    np.testing.assert_allclose(np.exp(results[1].data), [[4], [8]], rtol=1e-5)


@pytest.mark.parametrize("gamma", [(4,), (1, 1, 4)], ids=str)
def test_a_gamma_with_gaps(gamma: tuple[int, ...]) -> None:
    strides = (8, 8, 2)[-len(gamma) :]
    graph = og.Graph()
    ends = graph.input("x", "f32", (2, 3, 4)), graph.input("gamma", "f32", gamma, strides=strides)
    graph.output("y", graph.rms_norm(*ends))
    x = np.where(np.arange(24) % 3, 1, -1).astype(np.float32).reshape(2, 3, 4)  # of mean square 1
    factors = np.arange(8, dtype=np.float32).reshape(*gamma[:-1], 8)[..., ::2]
    np.testing.assert_allclose(graph.compile()(x, factors), x * [0, 2, 4, 6], rtol=1e-4)


@pytest.mark.parametrize("shape", [(3, 4), (12, 1)], ids=str)
@pytest.mark.parametrize("scale", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_one_scale_of_any_type(dtype: str, scale: str, shape: tuple[int, int]) -> None:
    """For all, or for each of one channel."""
    attrs = {"qtype": "per_channel" if 1 in shape else "per_tensor", "axis": 1}
    graph = og.Graph()
    x, factor = graph.input("x", dtype, shape), graph.input("scale", scale, (1,))
    graph.output("y", graph.op("DynamicDequantize", [x, factor], attrs))
    values = np.arange(12).reshape(shape)
    arrays = values.astype(og.DataType.of(dtype).numpy), np.array([0.25], og.DataType.of(scale).numpy)
    np.testing.assert_array_equal(graph.compile()(*arrays).astype(float), values / 4)
    if library.VERSION >= (3, 7) and scale != "f32":
        refused("DynamicDequantize", attrs, (dtype, shape), (scale, (1,)), dtype=scale, name="narrow_scale")


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
def test_binary_op_behind_a_result_of_one_column(main: str, shape: tuple[int, ...], operand: tuple[int, ...]) -> None:
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
def test_vector_behind_a_channels_last_binary_op(main: str) -> None:
    graph = og.Graph()
    x = graph.input("x", "f32", (3, 5, 4, 8), strides=(160, 1, 40, 5))
    tensor = graph.op(main, [x, graph.input("y", "f32", (3, 5, 4, 8))])
    assert isinstance(tensor, og.LogicalTensor)
    graph.output("out", graph.multiply(graph.relu(tensor), graph.input("z", "f32", (8,))))
    inputs = arrays(graph)
    np.testing.assert_allclose(graph.compile()(**inputs), run(graph, inputs)["out"], rtol=1e-5)


def test_softmax_stats_survive_an_overwritten_source() -> None:
    graph = og.Graph()
    found = graph.softmax(graph.relu(graph.input("x", "f32", (2, 5))), axis=1, outputs=["stats"])
    graph.output("out", found.dst)
    graph.output("stats", graph.relu(found.stats))
    inputs = arrays(graph)
    wanted = run(graph, inputs)
    for policy in ("fusion", "debug"):
        for got, name in zip(graph.compile(policy=policy)(**inputs), graph.outputs, strict=True):
            np.testing.assert_allclose(got, wanted[name], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_stats_of_a_softmax_that_is_quantized(dtype: str) -> None:
    graph = og.Graph()
    found = graph.softmax(graph.input("x", dtype, (2, 5)), axis=1, dtype="f32", outputs=["stats"])
    graph.output("out", graph.quantize(found.dst, scales=[1 / 128], dtype="u8"))
    graph.output("stats", found.stats)
    zeros = np.zeros((2, 5), graph.inputs["x"].dtype.numpy)
    out, stats = graph.compile()(zeros)
    np.testing.assert_array_equal(out, np.full((2, 5), 26, np.uint8))  # 128 / 5 = 25.6
    np.testing.assert_allclose(stats, np.full((2, 1), np.log(5)), rtol=1e-5)


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
    assert ("reference" in by) == (library.VERSION >= (3, 3))


@pytest.mark.parametrize(("groups", "window"), [(1, (3, 3, 3)), (7, (3, 1, 2)), (7, (2, 2, 2))], ids=str)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_one_channel_of_a_source_one_deep(groups: int, window: tuple[int, ...], data_format: str) -> None:
    shape = (2, groups, 1, 6, 6) if data_format == "NCX" else (2, 1, 6, 6, groups)
    attrs = {"strides": [1] * 3, "pads_begin": [1, 0, 0], "pads_end": [1, 0, 0], "dilations": [1] * 3}
    graph = og.Graph()
    x, w = graph.input("x", "bf16", shape), graph.input("w", "bf16", (3 * groups, 1, *window))
    formats = {"data_format": data_format, "weights_format": "OIX", "groups": groups}
    graph.output("y", graph.op("Convolution", [x, w], {**attrs, **formats}))
    inputs = arrays(graph)
    got, wanted = (one.astype(float) for one in (graph.compile()(**inputs), run(graph, inputs)["y"]))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2)


def test_constant_cache_is_on_unless_keys_collide() -> None:
    assert capi.get_constant_tensor_cache() == (library.VERSION < (3, 3))


# What some versions get wrong ----------------------------------------------------------------------------------------

HEADS = (2, 2, 4, 8)


def attention(g: og.Graph, masked: Callable[[og.LogicalTensor], og.LogicalTensor], axis: int = -1) -> og.LogicalTensor:
    q, k, v = (g.input(name, "f32", HEADS) for name in "qkv")
    scores = masked(g.matmul(q, k, transpose_b=True))
    return g.matmul(g.softmax(scores, axis=axis, outputs=["dst"], dtype="f32"), v)


def masked_attention(g: og.Graph) -> og.LogicalTensor:
    mask, other = g.input("mask", "boolean", (2, 2, 4, 4)), g.input("other", "f32", (1,))
    return attention(g, lambda scores: g.select(mask, other, scores))


def attention_masked_by_one(g: og.Graph) -> og.LogicalTensor:
    mask, other = g.input("mask", "boolean", (1, 1, 1, 1)), g.input("other", "f32", ())
    return attention(g, lambda scores: g.select(mask, other, scores))


def attention_along_another_axis(g: og.Graph) -> og.LogicalTensor:
    return attention(g, lambda scores: scores, axis=2)


def attention_with(
    g: og.Graph,
    mask: tuple[int, ...],
    first: bool = False,
    keys: tuple[int, int] = (2, 4),
    values: int = 8,
    order: list[int] | None = None,
) -> og.LogicalTensor:
    """Of two batches with four heads: a mask, first or second in its Add; the batch of the keys; the size of values."""
    q, k = g.input("q", "f32", (2, 4, 5, 8)), g.input("k", "f32", (*keys, 7, 8))
    scores = g.matmul(q, k, transpose_b=True)
    pair = [scores, g.input("mask", "f32", mask)]
    shares = g.softmax(g.op("Add", pair[::-1] if first else pair), axis=-1, outputs=["dst"], dtype="f32")
    mixed = g.matmul(shares, g.input("v", "f32", (*keys, 7, values)))
    return mixed if order is None else g.reorder(g.static_transpose(mixed, order=order))


ATTENTION: dict[str, Build] = {
    "one mask for each batch": partial(attention_with, mask=(2, 1, 5, 7)),
    "one mask for all batches": partial(attention_with, mask=(1, 1, 1, 7)),
    "a vector": partial(attention_with, mask=(7,)),
    "a mask for each head": partial(attention_with, mask=(1, 4, 5, 7)),
    "a mask of its own": partial(attention_with, mask=(2, 4, 5, 7)),
    "the mask comes first": partial(attention_with, mask=(2, 1, 1, 7), first=True),
    "one number comes first": partial(attention_with, mask=(), first=True),
    "keys for all batches": partial(attention_with, mask=(2, 1, 1, 7), keys=(1, 4)),
    "keys for all heads": partial(attention_with, mask=(2, 1, 1, 7), keys=(2, 1)),
    "keys for all": partial(attention_with, mask=(2, 1, 1, 7), keys=(1, 1)),
    "long values": partial(attention_with, mask=(2, 1, 1, 7), values=12),
    "short values": partial(attention_with, mask=(2, 1, 1, 7), values=3),
    "transposed": partial(attention_with, mask=(2, 1, 1, 7), order=[0, 2, 1, 3]),
    "transposed along the last axis": partial(attention_with, mask=(2, 1, 1, 7), order=[0, 3, 1, 2]),
}


def inf_as_zero_along_columns(g: og.Graph) -> og.LogicalTensor:
    x = g.select(g.constant(np.eye(3, dtype=bool)), g.constant(np.float32([-np.inf])), g.input("x", "f32", (3, 3)))
    return g.softmax(x, axis=0, mode="inf_as_zero", outputs=["dst"], dtype="f32")


def stats_of_nothing(g: og.Graph) -> og.LogicalTensor:
    seen = g.constant(np.tri(3, k=-1, dtype=bool))
    x = g.select(seen, g.input("x", "f32", (3, 3)), g.constant(np.float32([-np.inf])))
    return g.softmax(x, axis=1, mode="inf_as_zero", outputs=["stats"]).stats


def norm_with_scales(g: og.Graph) -> og.LogicalTensor:
    norm = g.layer_norm(g.input("x", "f32", (3, 4)), use_affine=False, keep_stats=False)
    return g.quantize(norm, qtype="per_channel", axis=0, scales=[1.0, 0.1, 0.01], zps=[0] * 3, dtype="s8")


def group_norm_with_scales(g: og.Graph) -> og.LogicalTensor:
    norm = g.group_norm(g.input("x", "f32", (2, 2, 4, 4)), groups=4, use_affine=False, keep_stats=False)
    return g.quantize(norm, qtype="per_channel", axis=1, scales=[0.02, 0.04], zps=[0, 0], dtype="s8")


def gradient_of_attention(g: og.Graph) -> og.LogicalTensor:
    """With a cast between the product of the result and its gradient and their sum, where oneDNN's pattern has none."""
    q, k, v, result, grad = (g.input(name, "f16", HEADS) for name in ("q", "k", "v", "result", "grad"))
    shares = g.exp(g.subtract(g.matmul(q, k, transpose_b=True, dtype="f32"), g.input("sums", "f32", (2, 2, 4, 1))))
    total = g.reduce_sum(g.type_cast(g.multiply(result, grad), dtype="f32"), axes=[-1], keep_dims=True)
    centred = g.subtract(g.matmul(grad, v, transpose_b=True, dtype="f32"), total)
    scores = g.multiply(g.multiply(shares, centred), g.constant(np.float32([0.5])))
    scores = g.type_cast(scores, dtype="f16")
    return g.add(g.matmul(scores, k, dtype="f16"), g.matmul(scores, q, transpose_a=True, dtype="f16"))


def quantized_attention(g: og.Graph, zero_point: int, dtype: str) -> og.LogicalTensor:
    q, k, v = (g.dequantize(g.input(name, "s8", HEADS), scales=[0.02], zps=[0]) for name in "qkv")
    shares = g.softmax(g.matmul(q, k, transpose_b=True), axis=-1, outputs=["dst"], dtype="f32")
    shares = g.quantize(shares, scales=[0.01], zps=[zero_point], dtype="u8")
    mixed = g.matmul(g.dequantize(shares, scales=[0.01], zps=[zero_point]), v)
    joined = g.static_reshape(g.static_transpose(mixed, order=[0, 2, 1, 3]), shape=[2, 4, 16], special_zero=False)
    return g.quantize(joined, scales=[0.01], zps=[0], dtype=dtype)


def _as_bf16(g: og.Graph) -> og.LogicalTensor:
    """With a zero point, too, and a TypeCast between it and the convolution."""
    x = g.dequantize(g.input("x", "u8", (1, 7, 1, 16)), scales=[0.5], zps=[3])
    w = g.dequantize(g.input("w", "s8", (1, 2, 16, 1)), scales=[1.0], zps=[0])
    x, w = g.type_cast(x, dtype="bf16"), g.type_cast(w, dtype="bf16")
    window = {"strides": [1, 1], "dilations": [1, 2], "pads_begin": [1, 1], "pads_end": [1, 1]}
    product = g.type_cast(g.convolution(x, w, **window), dtype="f32")
    return g.quantize(product, scales=[2.0], zps=[0], dtype="s8")


def bias_behind_source(g: og.Graph, join: str) -> og.LogicalTensor:
    """Of five windows in a row, two lie behind the source: with two threads, one has nothing else."""
    x, w, bias = g.input("x", "f32", (1, 3, 3, 2)), g.input("w", "f32", (3, 1, 2, 4)), g.input("b", "f32", (4,))
    window = {**CONV, "pads_end": [0, 2]}
    if join == "port":
        return g.convolution(x, w, bias, **window)
    product = g.convolution(x, w, **window)
    if join == "BiasAdd":
        return g.bias_add(product, bias)
    vectors = [g.constant(np.full(4, value, np.float32)) for value in (1, 2, 3, 4)]
    return g.batch_norm_inference(product, *vectors, epsilon=0.1)


def depthwise(g: og.Graph, biases: str, relu: bool = False) -> og.LogicalTensor:
    """A block of a MobileNet: a convolution of one pixel and one of single channels, either with a bias or not."""
    x, w = g.input("x", "f32", (1, 6, 6, 4)), g.input("w", "f32", (1, 1, 4, 8))
    first, second = ([g.input(name, "f32", (8,))] if name in biases else [] for name in "ab")
    wide = g.convolution(x, w, *first, **CONV)
    wide = g.relu(wide) if relu else wide
    window = {**CONV, "pads_begin": [1, 1], "pads_end": [1, 1], "groups": 8}
    return g.convolution(wide, g.input("v", "f32", (3, 3, 1, 8)), *second, **window)


def quantized_norm(g: og.Graph, kind: str, operand: tuple[int, ...], *, second: bool = False) -> og.LogicalTensor:
    channels = 3 if kind == "GroupNorm NCX" else 6
    x, vectors = g.input("x", "f32", (4, 3, 2, 6)), [g.input(name, "f32", (channels,)) for name in ("gamma", "beta")]
    if kind == "LayerNorm":
        normal = g.layer_norm(x, *vectors, keep_stats=False)
    else:
        normal = g.group_norm(x, *vectors, groups=3, keep_stats=False, data_format=kind[-3:])
    if second:
        normal = g.relu(g.multiply(normal, g.input("factor", "f32", (4, 3, 2, 6))))
    return g.quantize(g.add(normal, g.input("operand", "f32", operand)), scales=[0.08], zps=[0], dtype="s8")


def batches_of_one_matrix(g: og.Graph, src: tuple[int, ...], **of: object) -> og.LogicalTensor:
    x = g.input("x", "f32", src)
    flags = {name: value for name, value in of.items() if name.startswith("transpose")}
    bias = [g.input("b", "f32", of["bias"])] if "bias" in of else []
    y = g.matmul(x, g.input("w", "f32", of.get("weights", (1, 1, 16, 7))), *bias, **flags)
    return g.add(g.relu(y), g.input("r", "f32", of["residual"])) if "residual" in of else y


def quantized_batches_of_one_matrix(g: og.Graph) -> og.LogicalTensor:
    x = g.dequantize(g.input("x", "u8", (4, 1, 5, 16)), scales=[0.5], zps=[0])
    w = g.dequantize(g.input("w", "s8", (1, 16, 7)), scales=[0.5], zps=[0])
    return g.quantize(g.matmul(x, w), scales=[4.0], zps=[3], dtype="s8")


def quantized_pool(g: og.Graph, kind: str, dtype: str) -> og.LogicalTensor:
    window = {"strides": [1, 1], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    x = g.dequantize(g.input("x", dtype, (2, 5, 5, 8)), scales=[0.03125], zps=[0])
    y = g.avg_pool(x, **window, exclude_pad=True) if kind == "AvgPool" else g.max_pool(x, **window)
    return g.quantize(g.relu(y), scales=[0.03125], zps=[0], dtype=dtype)


def sequence_first(g: og.Graph) -> og.LogicalTensor:
    v = g.input("v", "f32", (33, 1, 2, 16))
    return g.matmul(g.input("p", "f32", (1, 2, 5, 33)), g.static_transpose(v, order=[1, 2, 0, 3]))


TROUBLE: dict[str, Build] = {
    function.__name__: function
    for function in (
        *(
            masked_attention,
            attention_masked_by_one,
            attention_along_another_axis,
        ),
        *(
            inf_as_zero_along_columns,
            norm_with_scales,
        ),
        *([group_norm_with_scales] if library.VERSION >= (3, 6) else ()),
        *(sequence_first, stats_of_nothing),
        *(gradient_of_attention, quantized_batches_of_one_matrix),
        _as_bf16,
    )
}
TROUBLE |= {
    f"bias behind the source, {join}": partial(bias_behind_source, join=join)
    for join in ("port", "BiasAdd", "BatchNormInference")
}
TROUBLE |= {
    f"quantized {kind}, {operand}{', second' * second}": partial(
        quantized_norm, kind=kind, operand=operand, second=second
    )
    for kind in ("LayerNorm", *(["GroupNorm NXC", "GroupNorm NCX"] if library.VERSION >= (3, 6) else []))
    for operand in ((4, 3, 1, 1), (1, 3, 2, 6), (4, 1, 1, 6), (1, 3, 1, 1), (6,), (4, 3, 2, 6))
    for second in (False, True)
}
TROUBLE |= {
    f"{kind} of {dtype} and a ReLU": partial(quantized_pool, kind=kind, dtype=dtype)
    for kind in ("AvgPool", "MaxPool")
    for dtype in ("u8", "s8")
}
BATCHES: dict[str, dict[str, object]] = {
    "matrix": {"src": (4, 1, 5, 16)},
    "rows of 2": {"src": (16, 1, 2, 16)},
    "bias": {"src": (4, 1, 5, 16), "bias": (7,)},
    "bias of each batch": {"src": (4, 1, 5, 16), "bias": (4, 1, 1, 7)},
    "fewer axes": {"src": (4, 1, 5, 16), "weights": (1, 16, 7)},
    "vector": {"src": (4, 1, 5, 16), "weights": (16,)},
    "vector and bias": {"src": (4, 1, 5, 16), "weights": (16,), "bias": (4, 1, 1)},
    "transposed": {"src": (4, 1, 16, 5), "weights": (16, 7), "transpose_a": True},
    "both transposed": {"src": (4, 1, 16, 5), "weights": (1, 7, 16), "transpose_a": True, "transpose_b": True},
    "residual": {"src": (4, 1, 5, 16), "residual": (4, 1, 5, 7)},
}
TROUBLE |= {f"batches, {name}": partial(batches_of_one_matrix, **of) for name, of in BATCHES.items()}
TROUBLE |= {f"depthwise, {biases}": partial(depthwise, biases=biases) for biases in ("a", "b", "ab")}
TROUBLE["depthwise, relu"] = partial(depthwise, biases="ab", relu=True)
TROUBLE |= {f"attention, {name}": build for name, build in ATTENTION.items()}
TROUBLE |= {
    f"quantized_attention, {dtype}, {zero_point}": partial(quantized_attention, zero_point=zero_point, dtype=dtype)
    for dtype in ("u8", "s8")
    for zero_point in (0, 1)
}


# By themselves, small ops have one thread. Libraries from 3.3 on get them wrong; for older ones, two ways do.
WAYS = [("fusion", 2), ("debug", None), ("fusion", None), ("debug", 2)]


@pytest.mark.parametrize(("policy", "threads"), draws(WAYS[: 2 if library.VERSION < (3, 3) else 4], WAYS))
@pytest.mark.parametrize("name", TROUBLE)
def test_what_some_versions_get_wrong(name: str, policy: str, threads: int | None) -> None:
    graph = og.Graph()
    graph.output("out", TROUBLE[name](graph))
    executable, inputs = graph.compile(policy=policy, threads=threads), arrays(graph)
    wanted = run(graph, inputs)["out"].astype(float)
    dtype = str(graph.outputs["out"].dtype)
    slack = 1 if dtype in ("u8", "s8") else 1e-4
    rounding = (
        2.0**-10 if dtype == "f16" else 1e-4
    )  # a sum within a kernel, where there are any of f16, is rounded once
    for _ in range(3):
        np.testing.assert_allclose(executable(**inputs).astype(float), wanted, rtol=rounding, atol=slack)


@pytest.mark.parametrize("place", ["q", "k", "v", "out"])
@pytest.mark.parametrize("strides", [(512, 128, 8, 1), (512, 8, 16, 1)], ids=str)
def test_attention_of_batches_that_lie_apart(strides: tuple[int, ...], place: str) -> None:
    graph = og.Graph()
    q, k, v = (graph.input(n, "f32", (2, 2, 16, 8), strides=strides if n == place else None) for n in "qkv")
    scores = graph.divide(graph.matmul(q, k, transpose_b=True), graph.constant(np.float32([2])))
    shares = graph.softmax(scores, axis=-1, dtype="f32")
    graph.output("out", graph.matmul(shares, v), strides=strides if place == "out" else None)
    inputs = arrays(graph)
    np.testing.assert_allclose(graph.compile()(**inputs), run(graph, inputs)["out"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["one mask for each batch", "keys for all heads", "transposed"])
def test_attention_that_is_right_stays_one_partition(name: str) -> None:
    graph = og.Graph()
    graph.output("out", ATTENTION[name](graph))
    executable = graph.compile(finite_math=True)  # else a softmax by itself, whose NaN the package keeps
    sizes = [len(partition.kinds) for partition in executable.report().partitions]
    assert library.VERSION < (3, 3) or sizes in ([4], [6])


def test_strides_of_single_axes_across_graphs() -> None:
    a, b = np.ones((1, 2, 5, 33), np.float32), np.arange(33 * 32, dtype=np.float32).reshape(1, 33, 2, 16)
    for batch in (1, 33 * 32):
        g = og.Graph()
        right = g.input("b", "f32", (1, 2, 33, 16), strides=(batch, 16, 32, 1))
        g.output("c", g.matmul(g.input("a", "f32", (1, 2, 5, 33)), right))
        turned = np.moveaxis(b, 2, 1)
        assert (g.compile()(a=a, b=turned) == np.matmul(a, turned)).all()


@pytest.mark.parametrize("is_constant", [False, True])
def test_fuses_ops_with_unproduced_weights(is_constant: bool) -> None:
    """From 3.6 on, the search crashes on them behind a Dequantize."""
    rng = np.random.default_rng(0)
    arrays = {"x": rng.integers(0, 9, (2, 5, 5, 4), np.uint8), "w": rng.integers(-4, 5, (1, 1, 4, 3)).astype("f4")}
    g = og.Graph()
    src = g.dequantize(g.input("x", "u8", (2, 5, 5, 4)), scales=[0.5], zps=[3])
    weights = g.constant(arrays.pop("w")) if is_constant else g.input("w", "f32", (1, 1, 4, 3))
    g.output("y", g.relu(g.convolution(src, weights, **CONV)))
    model = g.compile(finite_math=True)
    assert [len(partition.ops) for partition in model.report().partitions] == [1, 2]
    np.testing.assert_array_equal(model(**arrays), run(g, arrays)["y"])
    assert [len(partition.ops) for partition in g.partitions() if partition.supported] == [1, 2]


def of_dequantized_source(*, wildcard: bool) -> capi.Graph:
    dims = (1, 5, 5, 4)
    x, w = capi.LogicalTensor(0, "s8", dims), capi.LogicalTensor(1, "f32", (1, 1, 4, 4))
    src, dst, y = (capi.LogicalTensor(number, "f32", dims) for number in (2, 3, 4))
    graph = capi.Graph()
    if wildcard:
        graph.add_op(capi.Op(0, "Wildcard", outputs=[w]))
    graph.add_op(capi.Op(1, "Dequantize", inputs=[x], outputs=[src], attrs={"scales": [0.5], "zps": [0]}))
    graph.add_op(capi.Op(2, "Convolution", inputs=[src, w], outputs=[dst], attrs=CONV))
    graph.add_op(capi.Op(3, "ReLU", inputs=[dst], outputs=[y]))
    graph.finalize()
    return graph


def test_capi_refuses_unproduced_weights() -> None:
    graph = of_dequantized_source(wildcard=False)
    assert sorted(partition.ops for partition in graph.partitions("debug")) == [(1,), (2,), (3,)]
    if library.VERSION < (3, 6):
        assert sorted(partition.ops for partition in graph.partitions()) == [(1,), (2, 3)]
    else:
        with pytest.raises(og.UnsupportedError, match=r"tensor 1: .*; expected policy='debug', or a Wildcard"):
            graph.partitions()
    produced = of_dequantized_source(wildcard=True).partitions()
    assert sorted(partition.ops for partition in produced if partition.supported) == [(1,), (2, 3)]
