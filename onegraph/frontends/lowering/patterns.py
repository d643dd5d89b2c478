"""Rules that find the ops of the specification in the formulas that models spell out."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt

import numpy as np

from ...ir.op import LogicalTensor
from .emitter import Emitter, Value, numbers, shape_of
from .movement import NATIVE, reshape, slice_
from .rules import Attrs, before, known, made_by, near, number


@before("Multiply")
def gelu(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """x / 2 * (1 + erf(x / sqrt(2))), and the form with tanh, in any order of the factors."""
    scale, factors = _factors(emit, inputs)
    if not near(scale, 0.5) or len(factors) != 2:
        return None
    for src, gate in (factors, factors[::-1]):
        mode = _gate(emit, src, gate)
        if mode is not None and src.dtype in NATIVE:
            found: Value = emit.op("GELU", [src], {"mode": mode} if mode != "gelu_erf" else {})
            return found
    return None


def _gate(emit: Emitter, src: LogicalTensor, gate: LogicalTensor) -> str | None:
    """The mode of the GELU of src with this factor, 1 + erf or 1 + tanh; None if it is another factor."""
    inner = _other(emit, gate, "Add", 1)
    if inner is None:
        return None
    if (erf := made_by(emit, inner, "Erf")) is not None:
        scale, factors = _factors(emit, erf.inputs)
        return "gelu_erf" if near(scale, sqrt(0.5)) and _same(factors, [src]) else None
    if (tanh := made_by(emit, inner, "Tanh")) is not None:
        scale, factors = _factors(emit, tanh.inputs)
        total = made_by(emit, factors[0], "Add") if len(factors) == 1 else None
        if total is None or not near(scale, sqrt(2 / pi)):
            return None
        for one, other in (total.inputs, total.inputs[::-1]):
            scale, factors = _factors(emit, [other])
            if one is src and near(scale, 0.044715) and _same(factors, [src] * 3):
                return "gelu_tanh"
    return None


def _same(found: Sequence[LogicalTensor], expected: Sequence[LogicalTensor]) -> bool:
    return len(found) == len(expected) and all(one is other for one, other in zip(found, expected, strict=True))


def _other(emit: Emitter, value: Value, kind: str, constant: float) -> Value | None:
    """The input of an op besides a constant; None if the value is no such op."""
    op = made_by(emit, value, kind)
    for one, other in () if op is None else (op.inputs, op.inputs[::-1]):
        if number(one) == constant:
            return other
    return None


def _factors(emit: Emitter, inputs: Sequence[Value | None]) -> tuple[float, list[LogicalTensor]]:
    """A product as a number and tensors."""
    scale, found, rest = 1.0, [], [*inputs]
    while rest:
        one = rest.pop()
        if (constant := number(one)) is not None:
            scale *= constant
        elif (op := made_by(emit, one, "Multiply")) is not None:
            rest += op.inputs
        elif (op := made_by(emit, one, "Divide")) is not None and (below := number(op.inputs[1])):
            scale /= below
            rest.append(op.inputs[0])
        elif (op := made_by(emit, one, "Square")) is not None:
            rest += [op.inputs[0]] * 2
        elif (op := made_by(emit, one, "Pow")) is not None and op.attrs.get("beta") == 3:
            rest += [op.inputs[0]] * 3
        elif isinstance(one, LogicalTensor):
            found.append(one)
    return scale, found


@before("MatMul")
def scaled_scores(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """Divide the product of two scaled tensors instead, which the library fuses with the SoftMax of attention."""
    if len(inputs) > 2 and inputs[2] is not None:
        return None
    ops = [made_by(emit, one, "Multiply") for one in inputs[:2]]
    found = []
    for op in ops:
        for one, other in () if op is None else (op.inputs, op.inputs[::-1]):
            if (scale := number(one)) and other is not None and known(other) is None:
                found.append((scale, other))
                break
    if len(found) != 2 or found[0][1].dtype not in NATIVE:
        return None
    product = emit.op("MatMul", [other for _, other in found], attrs)
    below = np.array(1 / (found[0][0] * found[1][0]), found[0][1].dtype.numpy)
    result: Value = emit.op("Divide", [product, below])
    return result


@before("Gather")
def one_slice(emit: Emitter, kind: str, inputs: Sequence[Value | None], attrs: Attrs) -> Value | None:
    """A Gather with one known index as a Slice, which is a view."""
    src, indices = inputs[0], known(inputs[1])
    shape = None if src is None else shape_of(src)
    if src is None or shape is None or None in shape or indices is None or indices.size != 1 or known(src) is not None:
        return None
    axis, index = int(attrs.get("axis", 0)) % len(shape), int(indices.reshape(-1)[0])  # type: ignore[call-overload]
    size = shape[axis] or 0
    if not -size <= index < size:
        return None
    part = slice_(emit, src, [index % size], [index % size + 1], [axis], [1])
    return reshape(emit, part, numbers(*[dim or 0 for dim in (*shape[:axis], *indices.shape, *shape[axis + 1 :])]))
