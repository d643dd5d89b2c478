"""Forms of ops for which a version of oneDNN has no kernel, beside the ops that ``capabilities`` names."""

from __future__ import annotations

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.schema import Call
from .fault import LACKS, LIBRARY, Faults, always

SUPPORT = Faults[Call](severity=LACKS)

NO_VIEWS = SUPPORT.add(
    "no_kernel_of_views",
    ops="StaticReshape StaticTranspose",
    where="kind",
    when=always,
    seen={(3, 2): "unsupported", (3, 6): "right"},
    reason="the op has no partition of its own before 3.6: it is taken in a fusion alone",
    instead="a view of the same memory, or a copy by onegraph's own kernel",
)


@NO_VIEWS.example()
def reshape_alone(g: DataGraph) -> LogicalTensor:
    return g.op("StaticReshape", [g.input("x", "f32", (4, 6))], {"shape": [6, 4], "special_zero": False})


@NO_VIEWS.example()
def transpose_alone(g: DataGraph) -> LogicalTensor:
    return g.op("StaticTranspose", [g.input("x", "f32", (4, 6))], {"order": [1, 0]})


NO_MARKERS = SUPPORT.add(
    "no_kernel_of_markers",
    ops="End Wildcard",
    where="kind",
    when=always,
    seen={(3, 2): "unsupported"},
    reason="the op marks a place in a graph and computes nothing: its partition is unsupported",
    instead="nothing, where no result of it is read",
)


@NO_MARKERS.example()
def end_alone(g: DataGraph) -> LogicalTensor:
    relu = g.relu(g.input("x", "f32", (4,)))
    g.op("End", [relu])
    return relu


NO_DROPOUT = SUPPORT.add(
    "no_dropout",
    ops="Dropout",
    where="kind",
    when=always,
    seen={(3, 2): "absent", (3, 13): "unsupported"},
    reason="Dropout has no kernel on a CPU",
    instead="numpy",
)


@NO_DROPOUT.example()
def dropout_alone(g: DataGraph) -> LogicalTensor:
    seed, offset = g.input("seed", "s64", ()), g.input("offset", "s64", ())
    return g.op("Dropout", [g.input("x", "f32", (4,)), seed, offset, g.input("p", "f32", ())], outputs=["dst"])


def bf16_parameters(call: Call) -> bool:
    """Whether a normalization of bf16 has parameters or statistics of bf16."""
    src, *parameters = call.inputs
    return src is not None and src.dtype is DataType.bf16 and any(t and t.dtype is DataType.bf16 for t in parameters)


BF16_PARAMETERS = SUPPORT.add(
    "norm_parameters_of_bf16",
    ops="BatchNormForwardTraining BatchNormInference GroupNorm LayerNorm",
    where="gamma",
    when=bf16_parameters,
    seen={(3, 2): "unsupported"},
    reason="a normalization of bf16 has a kernel for parameters of f32 alone",
    instead="the same op with parameters of f32",
)


@BF16_PARAMETERS.example()
def norm_with_bf16_parameters(g: DataGraph) -> LogicalTensor:
    parameters = [g.input(name, "bf16", (4,)) for name in ("gamma", "beta")]
    return g.op("LayerNorm", [g.input("x", "bf16", (2, 4)), *parameters], {"keep_stats": False})


def bf16_gradient_parameters(call: Call) -> bool:
    """Whether the gradient of a normalization has parameters or statistics of bf16."""
    return any(tensor is not None and tensor.dtype is DataType.bf16 for tensor in call.inputs[2:])


BF16_GRADIENT_PARAMETERS = SUPPORT.add(
    "norm_gradient_parameters_of_bf16",
    ops="BatchNormTrainingBackward LayerNormBackward",
    where="mean",
    when=bf16_gradient_parameters,
    seen={(3, 2): "unsupported"},
    reason="the gradient of a normalization has a kernel for parameters and statistics of f32 alone",
    instead="the same op with parameters and statistics of f32",
)


@BF16_GRADIENT_PARAMETERS.example()
def norm_gradient_with_bf16_statistics(g: DataGraph) -> LogicalTensor:
    ends = [g.input(name, "bf16", (2, 4)) for name in ("x", "d")]
    statistics = [g.input(name, "bf16", (2,)) for name in ("mean", "variance")]
    return g.op("LayerNormBackward", [*ends, *statistics], {"use_affine": False})


__all__ = ["SUPPORT"]


UNTOLD_SHAPE = SUPPORT.add(
    "untold_softmax_shape",
    ops="SoftMax",
    where="stats",
    severity=LIBRARY,
    when=lambda call: (call.n_outputs or 0) > 1 and call.output_types[:1] == (DataType.f32,),
    seen={(3, 2): "absent", (3, 9): "refuses", (3, 11): "refuses", (3, 13): "right"},
    reason="with stats, a compiled partition never tells the shape of a dst of f32, which the caller cannot allocate",
    instead="numpy",
    since=(3, 9),
)


@UNTOLD_SHAPE.example({(3, 2): "absent", (3, 13): "right"})
def softmax_and_its_stats(g: DataGraph) -> tuple[LogicalTensor, ...]:
    return tuple(g.op("SoftMax", [g.input("x", "f32", (2, 3))], {"axis": 1}, dtype="f32", outputs=["dst", "stats"]))
