"""Exact products of 8-bit integers of ONNX models, against sums in int64."""

import itertools

import numpy as np
import pytest

import onegraph as og
import onegraph.onnx
from onegraph.capi.settings import has_vnni
from onegraph.compiler.kernels.code_product import FOR_CODES

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

pytestmark = pytest.mark.library
RNG = np.random.default_rng(0)
NUMPY = {"s8": np.int8, "u8": np.uint8}
SIDES = [*itertools.product(("s8", "u8"), repeat=2)]


def draw(dtype, *shape):
    limits = np.iinfo(NUMPY[dtype])
    return RNG.integers(limits.min, limits.max + 1, shape, endpoint=False).astype(NUMPY[dtype])


def model_of(kind, inputs, known, **attrs):
    """A model of one node; inputs in ``known`` are constants."""
    names = [f"x{place}" if one is not None else "" for place, one in enumerate(inputs)]
    given = {name: array for name, array in zip(names, inputs, strict=True) if name}
    free = [name for place, name in enumerate(names) if name and place not in known]
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(given[name].dtype), given[name].shape)
        for name in free
    ]
    fixed = [numpy_helper.from_array(array, name) for name, array in given.items() if name not in free]
    node = helper.make_node(kind, names, ["y"], **attrs)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)
    graph = helper.make_graph([node], "model", ends, [result], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {name: given[name] for name in free}


def run(kind, inputs, known, **attrs):
    model, feeds = model_of(kind, inputs, known, **attrs)
    compiled = og.onnx.load(model).compile()
    return compiled(**feeds), compiled.report()


def convolved(src, weights, src_zero, zero, stride=1, dilation=1, pads=(0, 0, 0, 0), groups=1):
    """Sums over windows in int64; what lies beyond the image is no term."""
    image = src.astype(np.int64) - np.int64(src_zero)
    kernel = weights.astype(np.int64) - np.asarray(zero, np.int64).reshape(-1, 1, 1, 1)
    image = np.pad(image, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    rows, columns = ((kernel.shape[at] - 1) * dilation + 1 for at in (2, 3))
    windows = np.lib.stride_tricks.sliding_window_view(image, (rows, columns), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    inside, outside = weights.shape[1], len(weights) // groups
    parts = [
        np.einsum(
            "ncyxhw,ochw->noyx",
            windows[:, at * inside : (at + 1) * inside],
            kernel[at * outside : (at + 1) * outside],
        )
        for at in range(groups)
    ]
    return np.concatenate(parts, 1)


WINDOWS = {
    "plain": {},
    "padded": {"pads": (1, 1, 1, 1)},
    "strided": {"pads": (0, 1, 1, 0), "stride": 2},
    "dilated": {"pads": (2, 1, 1, 2), "dilation": 2},
    "groups": {"pads": (1, 0, 0, 1), "groups": 2},
    "depthwise": {"pads": (1, 1, 1, 1), "groups": 4},
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("left", "right"), SIDES)
def test_convolutions_are_exact(left, right, window):
    geometry = WINDOWS[window]
    groups = geometry.get("groups", 1)
    src, weights = draw(left, 2, 4, 7, 6), draw(right, 8, 4 // groups, 3, 3)
    pads = geometry.get("pads", (0, 0, 0, 0))
    attrs = {
        "pads": pads,
        "strides": [geometry.get("stride", 1)] * 2,
        "dilations": [geometry.get("dilation", 1)] * 2,
        "group": groups,
    }
    for zeros, known in ((draw(right), (1, 2, 3)), (draw(right, 8), (1, 3))):
        point = draw(left)
        found, _ = run("ConvInteger", [src, weights, point, zeros], known, **attrs)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, convolved(src, weights, point, zeros, **geometry))


@pytest.mark.parametrize(("left", "right"), SIDES)
def test_products_are_exact(left, right):
    for rows, depth, columns in ((5, 37, 9), (1, 300, 3)):
        src, weights = draw(left, 2, rows, depth), draw(right, depth, columns)
        for point in (None, draw(left), draw(left, rows)):
            for zeros in (None, draw(right), draw(right, columns)):
                moved = np.zeros(1, np.int64) if point is None else point.astype(np.int64).reshape(-1, 1)
                others = np.zeros(1, np.int64) if zeros is None else zeros.astype(np.int64)
                wanted = (src.astype(np.int64) - moved) @ (weights.astype(np.int64) - others)
                known = () if rows == 1 else (1, 3)
                found, _ = run("MatMulInteger", [src, weights, point, zeros], known)
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("left", "right"), SIDES)
def test_sums_beyond_f32_are_exact(left, right):
    top = {"s8": (-128, 127), "u8": (0, 255)}
    depth = 1500
    src, weights = (
        RNG.choice(np.array(top[side], NUMPY[side]), shape)
        for side, shape in ((left, (2, depth, 3, 3)), (right, (3, depth, 1, 1)))
    )
    weights[0], weights[1] = top[right][0], top[right][1]
    src[0] = top[left][1]
    for point, zero in ((0, 0), (top[left][0], top[right][0]), (top[left][1], top[right][1])):
        ends = [src, weights, NUMPY[left](point), NUMPY[right](zero)]
        found, _ = run("ConvInteger", ends, (1, 3))
        np.testing.assert_array_equal(found, convolved(src, weights, point, zero))
        ends = [src.reshape(2, depth, 9).transpose(0, 2, 1).copy(), weights.reshape(3, depth).T.copy(), *ends[2:]]
        found, _ = run("MatMulInteger", ends, (1, 3))
        np.testing.assert_array_equal(found, (ends[0] - np.int64(point)) @ (ends[1] - np.int64(zero)))


@pytest.mark.parametrize("shapes", [((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,)), ((5,), (2, 5, 3))], ids=str)
def test_products_with_vectors_are_those_of_numpy(shapes):
    src, weights = draw("u8", *shapes[0]), draw("s8", *shapes[1])
    found, _ = run("MatMulInteger", [src, weights, np.uint8(9)], (1,))
    np.testing.assert_array_equal(found, (src.astype(np.int64) - 9) @ weights.astype(np.int64))


@pytest.mark.skipif(not has_vnni(), reason="the library multiplies 8 bits wrong without VNNI, so that f32 does")
@pytest.mark.parametrize("kind", ["ConvInteger", "MatMulInteger"])
def test_int8_kernels_multiply(kind):
    shapes = ((1, 8, 16, 16), (8, 8, 3, 3)) if kind == "ConvInteger" else ((64, 32), (32, 16))
    _, report = run(kind, [draw("u8", *shapes[0]), draw("s8", *shapes[1]), np.uint8(3)], (1,))
    products = [part.kinds for part in report.partitions if {"Convolution", "MatMul"} & {*part.kinds}]
    assert [kinds[:2] for kinds in products] == [("Dequantize", "Dequantize")]


@pytest.mark.skipif(not has_vnni(), reason="the library multiplies 8 bits wrong without VNNI, so that f32 does")
@pytest.mark.parametrize("lead", [(), (2,)])
def test_int8_kernels_multiply_weights_with_zero_points(lead):
    """Sums of rows are another part, and an operand of one column does not keep the product out of its kernel."""
    weights, point, zero = draw("u8", 64, 32), np.uint8(3), np.uint8(130)
    src = draw("u8", *lead, 48, 64)
    found, report = run("MatMulInteger", [src, weights, point, zero], (1, 3))
    np.testing.assert_array_equal(found, (src - np.int64(3)) @ (weights - np.int64(130)))
    (product,) = [part.kinds for part in report.partitions if "MatMul" in part.kinds]
    assert product[:3] == ("Dequantize", "Dequantize", "MatMul")


@pytest.mark.parametrize("known", [(1,), (1, 2)], ids=["zero of a run", "known zero"])
@pytest.mark.parametrize("right", ["s8", "u8"])
def test_images_of_open_size_are_convolved(right, known):
    src, weights = draw("u8", 1, 3, 9, 8), draw(right, 4, 3, 3, 3)
    model, feeds = model_of("ConvInteger", [src, weights, np.uint8(7)], known, pads=[1] * 4)
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = "size" + str(dim.dim_value)
    compiled = og.onnx.load(model).compile()
    for image in (src, *[draw("u8", 1, 3, *size) for size in ((5, 6), (7, 9), (11, 8))]):
        found = compiled(**{**feeds, "x0": image})
        np.testing.assert_array_equal(found, convolved(image, weights, 7, 0, pads=(1, 1, 1, 1)))
    assert compiled.cache_info().reused
    assert not has_vnni() or FOR_CODES in str(compiled.report())
