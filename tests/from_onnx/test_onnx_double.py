"""Nodes of float64 keep all digits: convolutions by a kernel, normalizations as a product and a sum."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import onegraph.onnx  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(0)


def run(kind, arrays, constants, opset=20, **attrs):
    """The result of a node, and the kinds of its steps."""
    helper, names = onnx.helper, [*arrays, *constants]
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, array.shape) for name, array in arrays.items()
    ]
    kept = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    node = helper.make_node(kind, names, ["y"], **attrs)
    graph = helper.make_graph([node], "model", inputs, [onnx.ValueInfoProto(name="y")], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    program = onegraph.onnx.load(model).compile()
    return program(**arrays), [part.kinds for part in program.report().partitions]


def convolved(x, w, bias, groups):
    """A convolution of stride 2 and padding 1, one element of the window after another."""
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    n, outer = len(w) // groups, x.shape[1] // groups
    y = np.zeros((len(x), len(w), 4, 5)) + bias[:, None, None]
    for group in range(groups):
        image, filters = padded[:, group * outer :][:, :outer], w[group * n :][:n]
        for i, j in np.ndindex(3, 3):
            seen = image[:, :, i : i + 7 : 2, j : j + 9 : 2]
            y[:, group * n :][:, :n] += np.einsum("bchw,oc->bohw", seen, filters[:, :, i, j])
    return y


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_keep_all_digits(groups):
    x, w, bias = RNG.standard_normal((2, 6, 8, 9)), RNG.standard_normal((4, 6 // groups, 3, 3)), RNG.standard_normal(4)
    found, _ = run("Conv", {"x": x}, {"w": w, "b": bias}, strides=[2, 2], pads=[1] * 4, group=groups)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, convolved(x, w, bias, groups), rtol=1e-13, atol=1e-13)


def test_convolutions_by_no_images_are_empty():
    found, _ = run("Conv", {"x": np.zeros((0, 3, 5, 5))}, {"w": np.ones((2, 3, 3, 3))})
    assert (found.shape, found.dtype) == ((0, 2, 3, 3), np.float64)


@pytest.mark.parametrize("are_known", [True, False])
def test_normalizations_by_known_statistics_keep_all_digits(are_known):
    x = RNG.standard_normal((2, 3, 4, 5))
    gamma, beta, mean, variance = (RNG.uniform(0.5, 2, 3) for _ in range(4))
    parts = {"g": gamma, "b": beta, "m": mean, "v": variance}
    arrays, constants = ({"x": x}, parts) if are_known else ({"x": x, **parts}, {})
    found, kinds = run("BatchNormalization", arrays, constants, epsilon=1e-3)
    by_channel = [one[:, None, None] for one in (gamma, beta, mean, variance)]
    wanted = (x - by_channel[2]) / np.sqrt(by_channel[3] + 1e-3) * by_channel[0] + by_channel[1]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)  # ONNX keeps epsilon in f32
    assert (kinds == [("Multiply",), ("Add",)]) == are_known
    assert ("OnnxNode",) not in kinds


@pytest.mark.parametrize(
    ("kind", "opset", "axes", "attrs"),
    [
        ("LayerNormalization", 17, (2,), {}),
        ("RMSNormalization", 23, (2,), {}),
        ("GroupNormalization", 21, (1, 2), {"num_groups": 1}),
    ],
)
def test_statistics_keep_all_digits(kind, opset, axes, attrs):
    """Also those of numbers far from 0, of which squares in float32 leave no digit."""
    x = RNG.standard_normal((2, 3, 4)) + 5e3
    shape = (3,) if kind[0] == "G" else (4,)
    scale, bias = RNG.standard_normal(shape), RNG.standard_normal(shape)
    constants = {"scale": scale} if kind[0] == "R" else {"scale": scale, "bias": bias}
    y, _ = run(kind, {"x": x}, constants, opset, **attrs)
    mean = 0 if kind[0] == "R" else x.mean(axes, keepdims=True)
    expected = (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + 1e-5)
    along = (slice(None), None) if kind[0] == "G" else slice(None)
    wanted = expected * scale[along] + (0 if kind[0] == "R" else bias[along])
    assert np.abs(y - wanted).max() < 1e-6


@pytest.mark.parametrize(("ceil", "pads"), [(0, [0, 0, 0, 0]), (1, [0, 0, 0, 0]), (0, [1, 0, 1, 1])])
def test_pools_keep_all_digits(ceil, pads):
    x = RNG.standard_normal((2, 3, 7, 8))
    found, kinds = run("MaxPool", {"x": x}, {}, kernel_shape=[2, 3], strides=[2, 1], ceil_mode=ceil, pads=pads)
    (top, left, bottom, right), extra = pads, ceil  # a window that ends a row behind the image
    padded = np.pad(x, [(0, 0), (0, 0), (top, bottom + extra), (left, right)], constant_values=-np.inf)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))[:, :, ::2]
    np.testing.assert_array_equal(found, seen.max((4, 5)))
    assert ("OnnxNode",) not in kinds
