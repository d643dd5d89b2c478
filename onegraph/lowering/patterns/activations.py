"""Recognizes activations: a chain of ops on one tensor and numbers, by what it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import OneGraphError
from ...ir.op import LogicalTensor, Op
from ...opset.dtypes import DataType
from ...opset.kinds import ARITHMETIC, UNARY
from ..emitter import Array, Emitter, Value
from ..movement import NATIVE
from .table import number, rewrites

MAX_OPS = 12  # of an activation
SAMPLES = np.concatenate([np.linspace(-8, 8, 61), [-30.0, 30.0]]).astype(np.float32)


Activation = tuple[str, Mapping[str, object]]
# By the op that tells an activation from others: the kind and the attributes.
ACTIVATIONS: dict[str, tuple[Activation, ...]] = {
    "Erf": (("GELU", {"mode": "gelu_erf"}),),
    "Tanh": (("GELU", {"mode": "gelu_tanh"}), ("Mish", {})),
    "Clamp": (("HardSwish", {}),),
    "HardSigmoid": (("HardSwish", {}),),
}
FUNCTIONS = UNARY | ARITHMETIC | {"Erf"}


@rewrites("Multiply", "Divide")
def activation(emit: Emitter, op: Op) -> Value | None:
    """A known function of one tensor."""
    result = op.outputs[0]
    if result.dtype not in NATIVE:
        return None
    cone = _cone(emit, op)
    telling = next((op_.kind for op_ in cone if op_.kind in ACTIVATIONS), None)
    if telling is None:
        return None
    inner = {tensor.id for op_ in cone for tensor in op_.outputs}
    candidates = {
        tensor.id: tensor
        for op_ in cone
        for tensor in op_.inputs
        if tensor is not None and tensor.value is None and tensor.shape == result.shape
    }
    ordered = sorted(candidates.values(), key=lambda tensor: tensor.id in inner)
    for src in ordered:
        samples = _sampled(emit, cone, src, op)
        if samples is None:
            continue
        tolerance = 1e-4 if result.dtype is DataType.f32 else 2e-2
        for kind, attrs in ACTIVATIONS[telling]:
            exact = np.asarray(emit.op(kind, [SAMPLES], attrs))  # computed at once
            if np.allclose(samples, exact, rtol=tolerance, atol=tolerance):
                return emit.op(kind, [src], attrs)
    return None


def _cone(emit: Emitter, op: Op) -> list[Op]:
    """The op and the elementwise ops before it, the first one first."""
    cone, waiting = {op.id: op}, [op]
    while waiting and len(cone) <= MAX_OPS:
        for tensor in waiting.pop(0).inputs:
            maker = emit.maker(tensor)
            if maker is not None and maker.kind in FUNCTIONS and maker.id not in cone:
                cone[maker.id] = maker
                waiting.append(maker)
    return sorted(cone.values(), key=lambda member: member.id)


def _sampled(emit: Emitter, cone: Sequence[Op], src: LogicalTensor, last: Op) -> Array | None:
    """What the ops compute from samples of src; None if the result depends on another tensor."""
    values: dict[int, Array] = {src.id: SAMPLES}
    for op in cone:
        if op.outputs[0].id in values:
            continue
        arrays = [_sample(tensor, values) for tensor in op.inputs]
        if all(array is not None for array in arrays):
            with np.errstate(all="ignore"):
                try:
                    # The op itself takes its own shapes only; an op of known arrays is computed at once.
                    computed = emit.op(op.kind, arrays, op.attrs, edition=op.edition)
                except (OneGraphError, ValueError, TypeError):
                    return None
            values[op.outputs[0].id] = np.asarray(computed).astype(np.float32)
    return values.get(last.outputs[0].id)


def _sample(tensor: LogicalTensor | None, values: Mapping[int, Array]) -> Array | None:
    if tensor is None:
        return None
    constant = number(tensor)
    return values.get(tensor.id) if constant is None else np.full(1, constant, np.float32)
