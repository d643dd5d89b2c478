"""Makes a graph that computes in bf16 what bears it, and the rest in f32."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ...arrays.mapped_files import give_back
from ...graph import Graph
from ...ir.op import LogicalTensor, Op, schema_of
from ...lowering.emitter import Array, Emitter, Value, dtype_of
from ...lowering.movement import cast
from ...lowering.patterns.table import TYPED
from ...opset import kinds
from ...opset.dtypes import DataType
from ...opset.traits import Trait
from .value_names import renamed

FLOATS = frozenset([DataType.f32, DataType.bf16, DataType.f16])
# Parameters of normalizations stay in f32: the first input alone is narrow.
FIRST_ALONE = kinds.NORMALIZATIONS - kinds.GRADIENTS - {"BatchNormForwardTraining"}
# Products, sums over windows, and what bounds or joins numbers. Their kernels add up in f32. In a difference, what the
# operands have lost to rounding is large.
NARROW = (
    kinds.PRODUCTS
    | (kinds.ARITHMETIC - {"Subtract", "SquaredDifference"})
    | kinds.base_kinds(Trait.KEEPS_ERRORS)
    | (kinds.base_kinds(Trait.BOUNDED) - kinds.CASTS)
    | FIRST_ALONE
    | {"SoftMax", "Attention"}
)
LARGEST_MASK = 1 << 22  # elements
# From places, angles and sizes, an error grows without bound: what they are computed of stays in f32.
QUANTIZES = kinds.base_kinds(Trait.QUANTIZES)
EXACT = (kinds.JUMPS - QUANTIZES) | kinds.host_kinds(Trait.PERIODIC) | kinds.HOST_OPAQUE | {"Range"}
# Their results are no floats either, but do not depend on how exact a number is.
COARSE = kinds.host_kinds(Trait.SHAPE_ONLY) | QUANTIZES | {"IsNaN", "IsInf"}
# An activation between keeps an error from growing.
ACTIVATIONS = kinds.base_kinds(Trait.KEEPS_ERRORS) - {"Abs", "Clamp"}
PASSES = (
    kinds.MOVES | (kinds.base_kinds(Trait.POINTWISE) - kinds.GRADIENTS - ACTIVATIONS) | kinds.REDUCTIONS | {"CumSum"}
)


def narrowed(graph: Graph) -> Graph:
    """The graph with the ops of ``NARROW`` in bf16; inputs and outputs keep their data types."""
    made = graph._empty()
    made._roundings = graph._roundings
    emit = Emitter(made)
    values: dict[int, Value] = {}
    casts: dict[tuple[int, DataType], Value] = {}

    def given(tensor: LogicalTensor, dtype: DataType) -> Value:
        """A tensor of the old graph, in this data type if it is a float."""
        value: Value = values[tensor.id] if tensor.id in values else np.asarray(tensor.value)
        if tensor.dtype is not DataType.f32:
            return value
        if (tensor.id, dtype) not in casts:
            if isinstance(value, np.ndarray) and tensor.id not in exact:
                casts[tensor.id, dtype] = _constant(value, dtype)
            else:
                casts[tensor.id, dtype] = cast(emit, value, dtype)
        return casts[tensor.id, dtype]

    exact = _exact(graph)
    for name, tensor in graph.inputs.items():
        values[tensor.id] = made.input(name, tensor.dtype, tensor.shape)
    for op in graph.ops:
        emit.named(op.name)
        own = _dtype(op, values, exact)
        inputs = [
            given(input_, DataType.f32 if index and op.kind in FIRST_ALONE else own)
            for index, input_ in enumerate(op.inputs)
        ]
        dtype = own if op.outputs[0].dtype is DataType.f32 else op.outputs[0].dtype
        typed = dtype if op.kind in TYPED else None
        if op.kind in kinds.HOST_OPAQUE:
            types = [output.dtype for output in op.outputs]
            returned = emit.foreign(inputs, op.attrs, types, repeatable=False, kind=op.kind)
        else:
            ports = schema_of(op).outputs[: len(op.outputs)]
            stated = [port.name for port in ports] if any(port.optional for port in ports) else None
            returned = emit.ends(op.kind, inputs, op.attrs, dtype=typed, outputs=stated, edition=op.edition)
        results = returned if isinstance(returned, tuple) else (returned,)
        values.update({old.id: new for old, new in zip(op.outputs, results, strict=False)})
    for name, tensor in graph.outputs.items():
        emit.named(name)
        made.output(name, emit.tensor(given(tensor, DataType.f32)))
    made._model_values = renamed(graph, values)
    return made


def _exact(graph: Graph) -> set[int]:
    """The ids of the tensors that places or angles are computed of, without a product in between."""
    exact: set[int] = set()
    for op in reversed(graph.ops):
        is_place = op.kind in EXACT or any(result.dtype not in FLOATS for result in op.outputs)
        if (is_place and op.kind not in COARSE) or (_passes(op) and op.outputs[0].id in exact):
            exact.update(input_.id for input_ in op.inputs)
    return exact


def _passes(op: Op) -> bool:
    """Whether an op takes over the error of its inputs as it is; a product without a sum, as of angles, does."""
    shape = op.inputs[0].shape if op.inputs else None
    depth = None if not shape else shape[-2 if op.attrs.get("transpose_a") and len(shape) > 1 else -1]
    return op.kind in PASSES or (op.kind == "MatMul" and depth == 1)


def _dtype(op: Op, values: Mapping[int, Value], exact: Collection[int]) -> DataType:
    """The data type in which an op reads its inputs."""
    if op.outputs[0].dtype is not DataType.f32 or op.outputs[0].id in exact:
        return DataType.f32
    # What moves numbers keeps the data type of its first input, and Concat takes the narrow one of several.
    if op.kind in kinds.MOVES:
        sources = op.inputs if op.kind == "Concat" else op.inputs[:1]
        known = {dtype_of(values[source.id]) for source in sources if source.id in values}
        return DataType.bf16 if DataType.bf16 in known else DataType.f32
    return DataType.bf16 if op.kind in NARROW or _pools_images(op) else DataType.f32


def _pools_images(op: Op) -> bool:
    """Whether an op is the AvgPool of whole images with channels last, written as a mean."""
    rank = len(op.inputs[0].shape or ()) if op.inputs else 0
    axes: Any = op.attrs.get("axes", ())
    return op.kind == "ReduceMean" and rank > 3 and sorted(int(axis) % rank for axis in axes) == [*range(1, rank - 1)]


def _constant(array: Array, dtype: DataType) -> Array:
    """A known f32 array in a data type. A finite number stays finite in bf16, where a later op may cast it.

    So a row of scores that a mask of the least f32 hides has a SoftMax.
    """
    limit: Any = ml_dtypes.finfo(DataType.bf16.numpy).max  # type: ignore[no-untyped-call]
    if dtype is DataType.f32 and array.size > LARGEST_MASK:
        return array
    if np.fmax.reduce(np.abs(array), axis=None, initial=0) > limit:
        array = np.where(np.isinf(array), array, np.clip(array, -limit, limit))
    if dtype is DataType.f32:
        return array
    narrow = array.astype(dtype.numpy)
    give_back([array])
    return narrow
