"""Equal layers of PyTorch and of ONNX become equal ops, so that what one front end learns the other one knows."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
from onnx import helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
import onegraph.torch  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
nn = torch.nn
IMAGE, ROWS = (2, 8, 6, 6), (4, 8)
WINDOW = {"kernel_shape": [3, 3], "pads": [1] * 4}


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


# name -> the layer of PyTorch, the shape of its input, the kind of the node and its attributes. The further inputs of
# the node are the parameters and statistics of the layer, in its order.
LAYERS = {
    "GroupNorm": (nn.GroupNorm(2, 8), IMAGE, "GroupNormalization", {"num_groups": 2}),
    "LayerNorm": (nn.LayerNorm(8), ROWS, "LayerNormalization", {}),
    "BatchNorm": (nn.BatchNorm2d(8), IMAGE, "BatchNormalization", {}),
    "GELU": (nn.GELU(), ROWS, "Gelu", {}),
    "GELU by tanh": (nn.GELU("tanh"), ROWS, "Gelu", {"approximate": "tanh"}),
    "Mish": (nn.Mish(), ROWS, "Mish", {}),
    "ReLU": (nn.ReLU(), ROWS, "Relu", {}),
    "LeakyReLU": (nn.LeakyReLU(0.1), ROWS, "LeakyRelu", {"alpha": 0.1}),
    "ELU": (nn.ELU(2.0), ROWS, "Elu", {"alpha": 2.0}),
    "SELU": (nn.SELU(), ROWS, "Selu", {}),
    "Hardswish": (nn.Hardswish(), ROWS, "HardSwish", {}),
    "Hardsigmoid": (nn.Hardsigmoid(), ROWS, "HardSigmoid", {"alpha": 1 / 6}),
    "Softplus": (nn.Softplus(), ROWS, "Softplus", {}),
    "Softsign": (nn.Softsign(), ROWS, "Softsign", {}),
    "Softmax": (nn.Softmax(-1), ROWS, "Softmax", {}),
    "LogSoftmax": (nn.LogSoftmax(-1), ROWS, "LogSoftmax", {}),
    "Conv": (nn.Conv2d(8, 4, 3, padding=1), IMAGE, "Conv", WINDOW),
    "depthwise Conv": (nn.Conv2d(8, 8, 3, padding=1, groups=8), IMAGE, "Conv", {**WINDOW, "group": 8}),
    "ConvTranspose": (nn.ConvTranspose2d(8, 4, 3, padding=1), IMAGE, "ConvTranspose", WINDOW),
    "MaxPool": (nn.MaxPool2d(2), IMAGE, "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "AveragePool": (nn.AvgPool2d(2), IMAGE, "AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "Linear": (nn.Linear(8, 3), ROWS, "Gemm", {"transB": 1}),
    "reciprocal": (Function(torch.reciprocal), ROWS, "Reciprocal", {}),
    "logarithm": (Function(torch.log), ROWS, "Log", {}),
    "error function": (Function(torch.erf), ROWS, "Erf", {}),
    "transpose": (Function(lambda x: x.transpose(0, 1)), ROWS, "Transpose", {"perm": [1, 0]}),
    "PixelShuffle": (nn.PixelShuffle(2), IMAGE, "DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
}


def ops_of_node(module, shape, kind, attrs):
    """The kinds of the ops of a model with one node, whose further inputs are the parameters of a layer."""
    state = [one.detach().numpy() for one in module.state_dict().values() if one.ndim]
    names = [f"p{index}" for index in range(len(state))]
    src = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    constants = [numpy_helper.from_array(array, name) for array, name in zip(state, names, strict=True)]
    node = helper.make_node(kind, ["x", *names], ["y"], **attrs)
    graph = helper.make_graph([node], "g", [src], [onnx.ValueInfoProto(name="y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return onegraph.onnx.load(model)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_becomes_the_same_ops(name):
    module, shape, kind, attrs = LAYERS[name]
    with torch.no_grad(), warnings.catch_warnings():
        exported = onegraph.torch.export(module.eval(), (torch.zeros(shape),))
    loaded = ops_of_node(module, shape, kind, attrs)
    assert [op.kind for op in exported.ops] == [op.kind for op in loaded.ops]


def test_a_group_norm_without_parameters_has_none():
    graph = onegraph.torch.export(nn.GroupNorm(2, 8, affine=False).eval(), (torch.zeros(IMAGE),))
    assert [(op.kind, op.attrs["use_affine"], len(op.inputs)) for op in graph.ops] == [("GroupNorm", False, 1)]


@pytest.mark.parametrize("shape", [IMAGE, ROWS, (2, 8, 5)])
def test_a_group_norm_has_the_numbers_of_pytorch(shape):
    module, x = nn.GroupNorm(4, 8).eval(), torch.randn(shape)
    nn.init.normal_(module.weight)
    compiled = onegraph.torch.export(module, (x,)).compile()
    np.testing.assert_allclose(compiled(x.numpy()), module(x).detach().numpy(), rtol=1e-5, atol=1e-5)
