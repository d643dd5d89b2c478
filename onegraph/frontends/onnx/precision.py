"""Makes a graph that computes in bf16 what bears it, and the rest in f32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays.mapped_files import give_back
from ...graph import Graph
from ...ir.op import LogicalTensor, Op
from ...lowering.emitter import Array, Emitter, Value
from ...lowering.movement import cast
from ...opset.dtypes import DataType

# Products, sums over windows, and what moves or bounds numbers. Their kernels add up in f32.
NARROW = frozenset(
    [
        *("Convolution", "ConvTranspose", "MatMul", "MaxPool", "AvgPool", "SoftMax", "LayerNorm", "GroupNorm"),
        *("BatchNormInference", "Add", "Multiply", "Maximum", "Minimum", "Concat", "StaticReshape", "StaticTranspose"),
        *("Clamp", "GELU", "HardSigmoid", "HardSwish", "LeakyReLU", "ReLU", "Sigmoid", "Tanh", "Elu", "Divide"),
        *("Slice", "Interpolate", "Select"),
    ]
)
# Parameters stay in f32: the first input alone is narrow.
FIRST_ALONE = frozenset(["LayerNorm", "GroupNorm", "BatchNormInference"])
TYPED = frozenset(["SoftMax", "LogSoftmax"])


def narrowed(graph: Graph) -> Graph:
    """The graph with the ops of ``NARROW`` in bf16; inputs and outputs keep their data types."""
    made = Graph()
    emit = Emitter(made)
    values: dict[int, Value] = {}
    casts: dict[tuple[int, DataType], Value] = {}

    def given(tensor: LogicalTensor | None, dtype: DataType) -> Value | None:
        """A tensor of the old graph, in this data type if it is a float."""
        if tensor is None:
            return None
        value: Value = values[tensor.id] if tensor.id in values else np.asarray(tensor.value)
        if tensor.dtype is not DataType.f32:
            return value
        if (tensor.id, dtype) not in casts:
            casts[tensor.id, dtype] = (
                _constant(value, dtype) if isinstance(value, np.ndarray) else cast(emit, value, dtype)
            )
        return casts[tensor.id, dtype]

    for name, tensor in graph.inputs.items():
        values[tensor.id] = made.input(name, tensor.dtype, tensor.shape)
    for op in graph.ops:
        emit.named(op.name)
        inputs = [given(one, _dtype(op, index)) for index, one in enumerate(op.inputs)]
        dtype = op.outputs[0].dtype
        if dtype is DataType.f32:
            dtype = _dtype(op, 0)
        typed = dtype if op.kind in TYPED or (op.kind in ("TypeCast", "Cast", "Quantize")) else None
        if op.kind == "OnnxNode":
            present = [one for one in inputs if one is not None]
            found = emit.foreign(present, op.attrs, [one.dtype for one in op.outputs], repeatable=False)
        else:
            found = emit.op(op.kind, inputs, op.attrs, dtype=typed, edition=op.edition)
        results = found if isinstance(found, tuple) else (found,)
        values.update({old.id: new for old, new in zip(op.outputs, results, strict=False)})
    for name, tensor in graph.outputs.items():
        emit.named(name)
        value = given(tensor, DataType.f32)
        assert value is not None
        made.output(name, emit.tensor(value))
    return made


def _dtype(op: Op, index: int) -> DataType:
    """The data type in which an op reads an input."""
    is_narrow = (op.kind in NARROW or _pools_images(op)) and not (op.kind in FIRST_ALONE and index)
    return DataType.bf16 if is_narrow and op.outputs[0].dtype is DataType.f32 else DataType.f32


def _pools_images(op: Op) -> bool:
    """Whether an op is the AvgPool of whole images with channels last, written as a mean."""
    rank = len(op.inputs[0].shape or ()) if op.inputs and op.inputs[0] is not None else 0
    axes: Any = op.attrs.get("axes", ())
    return op.kind == "ReduceMean" and rank > 3 and sorted(int(axis) % rank for axis in axes) == [*range(1, rank - 1)]


def _constant(array: Array, dtype: DataType) -> Array:
    narrow = array.astype(dtype.numpy)
    give_back([array])
    return narrow
