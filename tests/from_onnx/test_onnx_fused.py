"""Nodes that ONNX Runtime's optimizer makes, defaults of inputs, and files that ONNX Runtime has optimized."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from helpers.onnx_compare import by_runtime, outcome  # noqa: E402
from helpers.onnx_session import session_of  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.frontends.onnx import tables  # noqa: E402
from onegraph.frontends.onnx.node import LOWERINGS  # noqa: E402
from onegraph.frontends.onnx.tables import blocked  # noqa: E402

MS, BLOCKED = "com.microsoft", "com.microsoft.nchwc"
F32, CODES = np.float32, (np.uint8, np.int8)


def numbers(rng, *shape, dtype=F32):
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(max(limits.min, -128), min(limits.max, 255) + 1, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def model(kind, inputs, outputs, known=(), **attrs):
    """A model of one node; ``inputs`` by name, None for an absent one, and the names of constants in ``known``."""
    names = [name if array is not None else "" for name, array in inputs.items()]
    given = {name: np.asarray(array) for name, array in inputs.items() if array is not None}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
        if name not in known
    ]
    constants = [numpy_helper.from_array(given[name], name) for name in known]
    node = helper.make_node(kind, names, outputs, domain=MS, **attrs)
    ends = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    graph = helper.make_graph([node], "g", infos, ends, constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MS, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return proto, {name: array for name, array in given.items() if name not in known}


def choice(rng, *among):
    return among[int(rng.integers(len(among)))]


ACTIVATIONS = (("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.75]))


def fused_conv(rng):
    groups = choice(rng, 1, 2)
    name, params = choice(rng, *ACTIVATIONS, ("HardSigmoid", [0.3, 0.4]), ("HardSwish", None))
    inputs = {"x": numbers(rng, 2, 4, 7, 6), "w": numbers(rng, 6, 4 // groups, 3, 3), "b": numbers(rng, 6)}
    if rng.random() < 0.5:
        inputs["z"] = numbers(rng, 2, 6, 7, 6)
    attrs = {"activation": name, "kernel_shape": [3, 3], "pads": [1] * 4, "group": groups}
    return model("FusedConv", inputs, ["y"], ["w", "b"], **attrs, **({"activation_params": params} if params else {}))


def fused_gemm(rng):
    turned, name = [int(rng.integers(2)) for _ in range(2)], choice(rng, "Relu", "Sigmoid", "Tanh", "LeakyRelu")
    shapes = [(3, 5) if not turned[0] else (5, 3), (5, 4) if not turned[1] else (4, 5)]
    inputs = {"a": numbers(rng, *shapes[0]), "b": numbers(rng, *shapes[1]), "c": numbers(rng, 4)}
    more = {"activation_alpha": 0.3} if name == "LeakyRelu" else {}
    return model("FusedGemm", inputs, ["y"], transA=turned[0], transB=turned[1], alpha=0.5, activation=name, **more)


def fused_matmul(rng):
    turned, moved = [int(rng.integers(2)) for _ in range(2)], [int(rng.integers(2)) for _ in range(2)]
    inputs = {}
    for name, sizes, turn, move in zip("ab", ((3, 5), (5, 4)), turned, moved, strict=True):
        rows, columns = sizes[::-1] if turn else sizes
        inputs[name] = numbers(rng, rows, 2, columns) if move else numbers(rng, 2, rows, columns)
    attrs = {"transA": turned[0], "transB": turned[1], "transBatchA": moved[0], "transBatchB": moved[1]}
    return model("FusedMatMul", inputs, ["y"], alpha=0.5, **attrs)


def integers_to_floats(rng):
    first, second = np.uint8, choice(rng, *CODES)
    inputs = {"a": numbers(rng, 3, 8, dtype=first), "b": numbers(rng, 8, 4, dtype=second)}
    inputs |= {"as": F32(0.1), "bs": F32(0.2), "az": np.array(100, first), "bz": np.array(3, second)}
    inputs["bias"] = numbers(rng, 4) if rng.random() < 0.5 else None
    return model("MatMulIntegerToFloat", inputs, ["y"], ["b", "bs", "bz"])


def embedding(rng):
    ids = rng.integers(0, 7, (2, 3)).astype(np.int32)
    has_segments, has_mask = rng.random(2) < 0.5
    inputs = {"i": ids, "s": rng.integers(0, 2, (2, 3)).astype(np.int32) if has_segments else None}
    inputs |= {"w": numbers(rng, 7, 8), "p": numbers(rng, 5, 8), "t": numbers(rng, 2, 8) if has_segments else None}
    inputs |= {"g": numbers(rng, 8), "b": numbers(rng, 8)}
    if has_mask:
        inputs["m"] = rng.integers(0, 2, (2, 3)).astype(np.int32)
    return model("EmbedLayerNormalization", inputs, choice(rng, ["y", "n"], ["y", "n", "e"]), epsilon=1e-5)


def skip_norm(rng):
    inputs = {"x": numbers(rng, 2, 3, 8), "s": numbers(rng, 2, 3, 8), "g": numbers(rng, 8), "b": numbers(rng, 8)}
    if rng.random() < 0.5:
        inputs["c"] = numbers(rng, 8)
    return model("SkipLayerNormalization", inputs, choice(rng, ["y"], ["y", "", "", "sum"]), epsilon=1e-5)


def quantized_softmax(rng):
    dtype = choice(rng, *CODES)
    inputs = {"x": numbers(rng, 3, 10, dtype=dtype), "xs": F32(0.05), "xz": np.array(3, dtype)}
    inputs |= {"ys": F32(1 / 256), "yz": np.array(0 if dtype is np.uint8 else -128, dtype)}
    return model("QLinearSoftmax", inputs, ["y"], ["xs", "xz", "ys", "yz"], axis=-1, opset=13)


def quantized_pool(rng):
    last = int(rng.integers(2))
    shape = (2, 4, 5, 3) if last else (2, 3, 4, 5)
    inputs = {"x": numbers(rng, *shape, dtype=np.uint8), "xs": F32(0.05), "xz": np.uint8(3)}
    inputs |= {"ys": F32(0.04), "yz": np.uint8(7)}
    return model("QLinearGlobalAveragePool", inputs, ["y"], ["xs", "xz", "ys", "yz"], channels_last=last)


def attention(rng, quantized=False):
    batch, tokens, width, heads = 2, 4, 8, 2
    past = int(choice(rng, 0, 3))
    keys = tokens + past
    masks = [None, rng.integers(0, 2, (batch, keys)).astype(np.int32)]
    mask = choice(rng, *masks, np.array([keys, keys - 1], np.int32)) if not past else choice(rng, *masks)
    if mask is not None and mask.ndim == 2:
        mask[:, 0] = 1
    cache = numbers(rng, 2, batch, heads, past, width // heads) if past else None
    one_way = {"unidirectional": 1} if rng.random() < 0.5 else {}
    outputs = ["y", "present"] if past else ["y"]
    if not quantized:
        inputs = {"x": numbers(rng, batch, tokens, width), "w": numbers(rng, width, 3 * width)}
        inputs |= {"b": numbers(rng, 3 * width), "m": mask, "p": cache}
        return model("Attention", inputs, outputs, ["w", "b"], num_heads=heads, **one_way)
    inputs = {
        "x": numbers(rng, batch, tokens, width, dtype=np.uint8),
        "w": numbers(rng, width, 3 * width, dtype=np.int8),
    }
    inputs |= {"b": numbers(rng, 3 * width), "xs": F32(0.02), "ws": F32(0.01), "m": mask}
    inputs |= {"xz": np.uint8(120), "wz": np.int8(0), "p": cache}
    return model("QAttention", inputs, outputs, ["w", "b", "xs", "ws", "xz", "wz"], num_heads=heads, **one_way)


CASES = {
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "MatMulIntegerToFloat": integers_to_floats,
    "EmbedLayerNormalization": embedding,
    "SkipLayerNormalization": skip_norm,
    "QLinearSoftmax": quantized_softmax,
    "QLinearGlobalAveragePool": quantized_pool,
    "Attention": attention,
    "QAttention": lambda rng: attention(rng, quantized=True),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_node_agrees_with_onnx_runtime(kind):
    compared = 0
    for seed in range(4):
        proto, feeds = CASES[kind](np.random.default_rng(seed))
        wanted = by_runtime(proto, feeds)
        if wanted is not None:
            assert outcome(proto, feeds, wanted, loose=1, scale=4) == ""
            assert "OnnxNode" not in [op.kind for op in onegraph.onnx.load(proto).ops]
            compared += 1
    assert compared > 2


def test_every_node_of_the_module_has_a_case():
    entered = {name for name, one in LOWERINGS.items() if one.__module__ == tables.fused.__name__}
    others = {
        "TransposeMatMul",
        "SkipSimplifiedLayerNormalization",
    }  # an old name; test_onnx_decoders.py
    assert {name.partition("::")[2] for name in entered} == CASES.keys() - {"QLinearGlobalAveragePool"} | others


def test_a_skip_normalization_gives_its_statistics():
    rng = np.random.default_rng(0)
    inputs = {"x": numbers(rng, 2, 3, 8), "s": numbers(rng, 2, 3, 8), "g": numbers(rng, 8), "b": numbers(rng, 8)}
    proto, feeds = model("SkipLayerNormalization", inputs, ["y", "m", "v", "t"], epsilon=0.25)
    found, total = onegraph.onnx.load(proto).compile()(**feeds), (inputs["x"] + inputs["s"]).astype(np.float64)
    np.testing.assert_allclose(found.m[..., 0], total.mean(-1), atol=1e-6)
    np.testing.assert_allclose(found.v[..., 0], 1 / np.sqrt(total.var(-1) + 0.25), rtol=1e-5)
    np.testing.assert_allclose(found.t, total, rtol=1e-6)


def test_a_simplified_skip_normalization_has_no_mean():
    rng = np.random.default_rng(0)
    inputs = {"x": numbers(rng, 2, 3, 8), "s": numbers(rng, 2, 3, 8), "g": numbers(rng, 8)}
    proto, feeds = model("SkipSimplifiedLayerNormalization", inputs, ["y", "m", "v", "t"], epsilon=0.25)
    wanted = by_runtime(proto, feeds)
    for found, exact in zip(onegraph.onnx.load(proto).compile()(**feeds), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)
    assert not wanted[1].any()


# Optimized files -----------------------------------------------------------------------------------------------------


def network(rng):
    """Convolutions, pools, a sum, Upsamples and images whose channels come last, with channels beside blocks."""

    def weights(name, *shape):
        return numpy_helper.from_array(numbers(rng, *shape) / np.sqrt(np.prod(shape[1:])).astype(F32), name)

    known = [weights("w0", 32, 3, 3, 3), weights("w1", 32, 1, 3, 3), weights("w2", 48, 32, 1, 1)]
    known += [weights("w3", 48, 48, 3, 3), weights("w4", 40, 48, 1, 1), numpy_helper.from_array(numbers(rng, 48), "b2")]
    known += [weights("w5", 64, 16, 3, 3), weights("w6", 32, 24, 1, 1)]
    known.append(numpy_helper.from_array(np.float32([1, 1, 2, 3]), "s"))
    plain = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    three = {"kernel_shape": [3, 3], "pads": [1] * 4}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], **three, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["a1"]),
        helper.make_node("Conv", ["a1", "w1"], ["c"], **three, group=32),
        helper.make_node("LeakyRelu", ["c"], ["c1"], alpha=0.1),
        helper.make_node("MaxPool", ["c1"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["d", "w2", "b2"], ["e"], kernel_shape=[1, 1]),
        helper.make_node("Conv", ["e", "w3"], ["f"], **three),
        helper.make_node("Add", ["e", "f"], ["g"]),
        helper.make_node("Relu", ["g"], ["h"]),
        helper.make_node("AveragePool", ["h"], ["i"], **three),
        helper.make_node("Resize", ["i", "", "s"], ["j"], **plain),
        helper.make_node("Resize", ["i", "", "s"], ["m"], mode="linear", coordinate_transformation_mode="half_pixel"),
        helper.make_node(
            "Resize", ["i", "", "s"], ["n"], mode="linear", coordinate_transformation_mode="align_corners"
        ),
        helper.make_node("GlobalMaxPool", ["i"], ["o"]),
        helper.make_node("Transpose", ["i"], ["p"], perm=[0, 2, 3, 1]),
        helper.make_node("Conv", ["c1", "w5"], ["q"], **three, group=2),
        helper.make_node("Sigmoid", ["q"], ["q1"]),
        helper.make_node("Transpose", ["z"], ["z1"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["z1", "w6"], ["r"], kernel_shape=[1, 1]),
        helper.make_node("Conv", ["i", "w4"], ["l"], kernel_shape=[1, 1]),
        helper.make_node("GlobalAveragePool", ["i"], ["k"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "jklmnopr"]
    ends.append(helper.make_tensor_value_info("q1", TensorProto.FLOAT, None))
    shapes = {"x": (2, 3, 16, 16), "z": (2, 5, 5, 24)}
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "g", given, ends, known)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return proto, {name: numbers(rng, *shape) for name, shape in shapes.items()}


def test_a_file_that_onnx_runtime_optimized_is_read(tmp_path):
    proto, feeds = network(np.random.default_rng(0))
    wanted = session_of(proto, optimized=tmp_path / "fast.onnx").run(None, feeds)
    fast = onnx.load(tmp_path / "fast.onnx")
    kinds = {node.op_type for node in fast.graph.node if node.domain == BLOCKED}
    if not kinds:
        pytest.skip("ONNX Runtime has no layouts in blocks for this CPU")
    assert kinds == {name.rpartition("::")[2] for name in LOWERINGS if name.startswith(BLOCKED)}
    assert outcome(fast, feeds, wanted, scale=4) == ""
    assert "OnnxNode" not in [op.kind for op in onegraph.onnx.load(fast).ops]


@pytest.mark.parametrize(
    ("flags", "channels"), [("flags : fpu avx2 avx512f", 16), ("flags : fpu avx2", 8), (OSError(), 8)]
)
def test_blocks_have_the_channels_that_onnx_runtime_chooses_for_the_cpu(flags, channels):
    with patch.object(Path, "read_text", side_effect=[flags]):
        assert blocked._block.__wrapped__() == channels


def test_weights_for_blocks_of_another_size_are_refused():
    known = [numpy_helper.from_array(np.zeros((4, 3, 3, 3), F32), "w")]
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="n", domain=BLOCKED, kernel_shape=[3, 3])
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    graph = helper.make_graph([node], "g", [info], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], known)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(BLOCKED, 1)]
    with pytest.raises(og.FormatError, match=r"Conv of com.microsoft.nchwc.*blocks of"):
        onegraph.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))


# Defaults of inputs, and stated types --------------------------------------------------------------------------------


def with_default():
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xw"]
    known = [numpy_helper.from_array(np.float32([2, 3]), "w")]
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_the_default_of_an_input_is_replaced_by_name():
    proto, src = with_default(), np.float32([1, 10])
    assert [*onegraph.onnx.load(proto).inputs] == ["x"]
    np.testing.assert_array_equal(onegraph.onnx.load(proto).compile()(src), [2, 30])
    np.testing.assert_array_equal(onegraph.onnx.load(proto, values={"w": np.float32([5, 7])}).compile()(src), [5, 70])
    graph = onegraph.onnx.load(proto, shapes={"w": (2,)})
    assert [*graph.inputs] == ["x", "w"]
    np.testing.assert_array_equal(graph.compile()(src, np.float32([4, 4])), [4, 40])
    with pytest.raises(og.ArgumentError, match="expected float32 of shape"):
        onegraph.onnx.load(proto, values={"w": np.float32([5])})


def test_an_error_names_the_cause_and_the_domain():
    node = helper.make_node("FusedGemm", ["x", "x"], ["y"], domain=MS, name="n", activation="Mystery")
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MS, 1)]
    with pytest.raises(og.FormatError, match=r"node 'n'.*FusedGemm of com.microsoft.*activation Mystery"):
        onegraph.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))
