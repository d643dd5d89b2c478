"""Nodes of 16-bit floats: within one unit of float64, for small and large numbers and in every op set."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import draws

import onegraph.capi  # noqa: F401 - its graphs run in the library

parser = pytest.importorskip("onnx.parser", reason="onnx is not installed")

from onnx import numpy_helper  # noqa: E402

from onegraph import onnx as front  # noqa: E402

DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
WIDE, IMAGE = (3, 4096), (2, 4, 9, 8)
SMALL = 1e-7  # the least number that f16 has is 6e-8


def normal(x, axes, epsilon=1e-5):
    x = x - x.mean(axes, keepdims=True)
    return x / np.sqrt((x**2).mean(axes, keepdims=True) + epsilon)


def root_mean(x, epsilon=0.0):
    return np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)


def cubes(x):
    return np.abs(x) ** 3


def celu(x):
    return np.maximum(x, 0) + 2 * np.expm1(np.minimum(x, 0) / 2)


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def windows(x, size, step=1, gap=1):
    """(N, C, H, W) as (N, C, windows, windows, elements); every window is inside."""
    reach = (size - 1) * gap + 1
    starts = [range(0, dim - reach + 1, step) for dim in x.shape[2:]]
    rows = [
        [x[:, :, a : a + reach : gap, b : b + reach : gap].reshape(*x.shape[:2], -1) for b in starts[1]]
        for a in starts[0]
    ]
    return np.stack([np.stack(row, 2) for row in rows], 2)


def log_sum(x):
    most = x.max(-1, keepdims=True)
    return most + np.log(np.exp(x - most).sum(-1, keepdims=True))


def cross_channels(x, size=3, alpha=0.5):
    """The sums of LRN over the neighbouring channels."""
    padded = np.pad(x**2, [(0, 0), (size // 2, size // 2), (0, 0), (0, 0)])
    total = sum(padded[:, place : place + x.shape[1]] for place in range(size))
    return x / np.sqrt(1 + alpha / size * total)


def grouped(x):
    return normal(x.reshape(2, 2, -1), -1).reshape(x.shape)


def attended(x):
    scores = x @ x.swapaxes(-1, -2) / np.sqrt(x.shape[-1])
    return softmax(scores) @ x


# First op set, shape of x, node, and the function in float64.
CASES = {
    "LayerNormalization": (17, WIDE, "y=LayerNormalization(x,g)", lambda x: normal(x, -1) * (np.arange(4096) % 3)),
    "LayerNormalization of all": (17, IMAGE, "y=LayerNormalization<axis=1>(x,h)", lambda x: normal(x, (1, 2, 3))),
    "InstanceNormalization": (7, IMAGE, "y=InstanceNormalization(x,c,c)", lambda x: normal(x, (2, 3)) + 1),
    "GroupNormalization": (21, IMAGE, "y=GroupNormalization<num_groups=2>(x,c,c)", lambda x: grouped(x) + 1),
    "RMSNormalization": (
        23,
        WIDE,
        "y=RMSNormalization(x,o)",
        lambda x: x / root_mean(x, 1e-5),
    ),
    "BatchNormalization": (9, IMAGE, "y=BatchNormalization(x,c,c,c,c)", lambda x: (x - 1) / np.sqrt(1 + 1e-5) + 1),
    "LpNormalization": (7, WIDE, "y=LpNormalization(x)", lambda x: x / root_mean(x) / 64),
    "MeanVarianceNormalization": (9, IMAGE, "y=MeanVarianceNormalization(x)", lambda x: normal(x, (0, 2, 3), 0)),
    "LRN": (7, IMAGE, "y=LRN<size=3,alpha=0.5,beta=0.5>(x)", cross_channels),
    "Softmax": (13, WIDE, "y=Softmax(x)", softmax),
    "LogSoftmax": (13, WIDE, "y=LogSoftmax(x)", lambda x: np.log(softmax(x))),
    "ReduceMean": (18, WIDE, "y=ReduceMean(x,a)", lambda x: x.mean(-1, keepdims=True)),
    "ReduceSum": (13, WIDE, "y=ReduceSum(x,a)", lambda x: x.sum(-1, keepdims=True)),
    "ReduceL1": (18, WIDE, "y=ReduceL1(x,a)", lambda x: np.abs(x).sum(-1, keepdims=True)),
    "ReduceL2": (18, WIDE, "y=ReduceL2(x,a)", lambda x: np.sqrt((x**2).sum(-1, keepdims=True))),
    "ReduceSumSquare": (18, WIDE, "y=ReduceSumSquare(x,a)", lambda x: (x**2).sum(-1, keepdims=True)),
    "ReduceLogSumExp": (18, WIDE, "y=ReduceLogSumExp(x,a)", log_sum),
    "GlobalAveragePool": (7, IMAGE, "y=GlobalAveragePool(x)", lambda x: x.mean((2, 3), keepdims=True)),
    "GlobalLpPool": (
        7,
        IMAGE,
        "y=GlobalLpPool<p=3>(x)",
        lambda x: cubes(x).sum((2, 3), keepdims=True) ** (1 / 3),
    ),
    "AveragePool": (7, IMAGE, "y=AveragePool<kernel_shape=[3,3]>(x)", lambda x: windows(x, 3).mean(-1)),
    "AveragePool with gaps": (
        19,
        IMAGE,
        "y=AveragePool<kernel_shape=[3,3],dilations=[2,2]>(x)",
        lambda x: windows(x, 3, gap=2).mean(-1),
    ),
    "LpPool": (
        18,
        IMAGE,
        "y=LpPool<kernel_shape=[2,2],strides=[2,2]>(x)",
        lambda x: np.sqrt((windows(x, 2, 2) ** 2).sum(-1)),
    ),
    "MatMul": (9, WIDE, "y=MatMul(x,w)", lambda x: x @ PARAMETERS["w"]),
    "Gemm with factors": (9, WIDE, "y=Gemm<alpha=0.001,beta=0.5>(x,w,b)", lambda x: 1e-3 * (x @ PARAMETERS["w"]) + 0.5),
    "Sum": (8, WIDE, "n=Neg(x) y=Sum(x,x,n)", lambda x: x),
    "Mean": (8, WIDE, "y=Mean(x,x,x)", lambda x: x),
    "Attention": (23, (2, 3, 16, 64), "y=Attention(x,x,x)", attended),
    "Celu": (
        12,
        WIDE,
        "y=Celu<alpha=2.0>(x)",
        celu,
    ),
    "Softsign": (7, WIDE, "y=Softsign(x)", lambda x: x / (1 + np.abs(x))),
    "CumSum": (14, (2, 512), "y=CumSum(x,a)", lambda x: x.cumsum(-1)),
    "Einsum": (12, WIDE, 'y=Einsum<equation="ij,ij->i">(x,x)', lambda x: (x**2).sum(-1)),
}
NEWEST = 24
# Parameters of the nodes, by name.
PARAMETERS = {
    "a": np.array([-1]),
    "b": np.ones(4),
    "c": np.ones(4),
    "g": np.arange(4096) % 3,
    "h": np.ones(IMAGE[1:]),
    "o": np.ones(4096),
    "w": np.where(np.arange(4096 * 4).reshape(4096, 4) % 5 == 0, 0.25, -0.03125),
}


def loaded(case, op_set, name):
    """The executable of a case in a data type, and the case with all dims open."""
    _, shape, body, _ = case
    text = f'<ir_version: 10, opset_import: ["" : {op_set}]> m ({name}[D0] x) => ({name} y) {{ {body} }}'
    model = parser.parse_model(text)
    used = {one for node in model.graph.node for one in node.input} & PARAMETERS.keys()
    for one in sorted(used):
        array = PARAMETERS[one] if one == "a" else PARAMETERS[one].astype(DTYPES[name])
        model.graph.initializer.append(numpy_helper.from_array(array, one))
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return [front.load(model, shapes=shapes).compile() for shapes in ({"x": shape}, {"x": (None,) * len(shape)})]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kind", CASES)
def test_half_node_is_within_one_unit_of_float64(kind, name):
    first, shape, _, function = CASES[kind]
    dtype, epsilon = DTYPES[name], float(ml_dtypes.finfo(DTYPES[name]).eps)
    older = draws([(first, max(first, 20))[name == min(DTYPES)]], [first, max(first, 20)])
    for op_set in sorted({*older, NEWEST}):
        known, opened = loaded(CASES[kind], op_set, name)
        for scale in (1e-3, 1, 100):
            x = (np.random.default_rng(0).standard_normal(shape) * scale).astype(dtype)
            with np.errstate(all="ignore"):
                wanted = function(x.astype(np.float64))
                wanted = np.where(np.isinf(wanted.astype(dtype).astype(np.float64)), np.inf * np.sign(wanted), wanted)
            finite = np.abs(wanted)[np.isfinite(wanted)].max(initial=0)
            limits = {"rtol": epsilon, "atol": 0.01 * epsilon * finite + SMALL, "err_msg": f"{op_set} x{scale}"}
            found = known(x=x)
            assert found.dtype == dtype
            np.testing.assert_allclose(found.astype(np.float64), wanted, **limits)
            np.testing.assert_allclose(opened(x=x).astype(np.float64), wanted, **limits)
