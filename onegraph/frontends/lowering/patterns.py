"""Recognizes decomposed forms of ops while they are emitted, and emits the op instead.

Each pattern looks at an op that was just added and at the makers of its inputs. Ops that nobody reads then are removed
at the end by ``without_unread``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import OneGraphError
from ...ir.op import LogicalTensor, Op
from ...opset.dtypes import DataType
from .elementwise import binary
from .emitter import Array, Emitter, Rewrite, Value, numbers
from .movement import NATIVE, reshape, transpose
from .norms import group_norm, rms_norm

REWRITES: dict[str, list[Rewrite]] = {}
Operands = Sequence[LogicalTensor | None]
MAX_OPS = 12  # of an activation
SAMPLES = np.concatenate([np.linspace(-8, 8, 61), [-30.0, 30.0]]).astype(np.float32)


def rewrites(*kinds: str) -> Callable[[Rewrite], Rewrite]:
    """Enter a pattern into the table, by the kinds of its last op."""

    def enter(function: Rewrite) -> Rewrite:
        for kind in kinds:
            REWRITES.setdefault(kind, []).append(function)
        return function

    return enter


def number(value: Value | None) -> float | None:
    """The number that a known value of one element has; else None."""
    known = _contents(value)
    return None if known is None or known.size != 1 else float(known.reshape(-1)[0])


def _contents(value: Value | None) -> Array | None:
    if isinstance(value, LogicalTensor):
        return value.value
    return value


def _either(op: Op) -> Iterator[tuple[LogicalTensor, LogicalTensor]]:
    """The two inputs of an op in both orders."""
    first, second = op.inputs[0], op.inputs[1]
    if first is not None and second is not None:
        yield first, second
        yield second, first


def _made(emit: Emitter, value: Value | None, *kinds: str) -> Op | None:
    """The op that makes a value, if it is of one of these kinds."""
    op = emit.maker(value)
    return op if op is not None and op.kind in kinds else None


def _operand(op: Op, index: int = 0) -> LogicalTensor:
    found = op.inputs[index]
    assert found is not None
    return found


# Activations: a chain of ops on one tensor and numbers is recognized by what it computes ---------------------------


def _erf(src: Array) -> Array:
    return np.array([math.erf(one) for one in src.tolist()])


def _gelu_tanh(src: Array) -> Array:
    found: Array = 0.5 * src * (1 + np.tanh(math.sqrt(2 / math.pi) * (src + 0.044715 * src**3)))
    return found


Activation = tuple[str, Mapping[str, object], Callable[[Array], Array]]
# By the op that tells an activation from others: the kind, the attributes, and the function.
ACTIVATIONS: dict[str, tuple[Activation, ...]] = {
    "Erf": (("GELU", {"mode": "gelu_erf"}, lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))),),
    "Tanh": (
        ("GELU", {"mode": "gelu_tanh"}, _gelu_tanh),
        ("Mish", {}, lambda x: x * np.tanh(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0))),
    ),
    "Clamp": (("HardSwish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),),
    "HardSigmoid": (("HardSwish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),),
}
ELEMENTWISE = frozenset(
    [
        "Add",
        "Subtract",
        "Multiply",
        "Divide",
        "Pow",
        "Square",
        "Erf",
        "Tanh",
        "Exp",
        "Log",
        "SoftPlus",
        "Clamp",
        "HardSigmoid",
        "Sigmoid",
        "ReLU",
        "Minimum",
        "Maximum",
        "Sqrt",
        "Reciprocal",
    ]
)


@rewrites("Multiply", "Divide")
def activation(emit: Emitter, op: Op) -> Value | None:
    """A known function of one tensor."""
    result = op.outputs[0]
    if result.dtype not in NATIVE:
        return None
    cone = _cone(emit, op)
    telling = next((one.kind for one in cone if one.kind in ACTIVATIONS), None)
    if telling is None:
        return None
    inner = {tensor.id for one in cone for tensor in one.outputs}
    candidates = {
        tensor.id: tensor
        for one in cone
        for tensor in one.inputs
        if tensor is not None and tensor.value is None and tensor.shape == result.shape
    }
    ordered = sorted(candidates.values(), key=lambda tensor: tensor.id in inner)
    for src in ordered:
        found = _sampled(emit, cone, src, op)
        if found is None:
            continue
        tolerance = 1e-4 if result.dtype is DataType.f32 else 2e-2
        for kind, attrs, function in ACTIVATIONS[telling]:
            if np.allclose(found, function(SAMPLES.astype(np.float64)), rtol=tolerance, atol=tolerance):
                replaced: Value = emit.op(kind, [src], attrs)
                return replaced
    return None


def _cone(emit: Emitter, op: Op) -> list[Op]:
    """The op and the elementwise ops before it, the first one first."""
    found, waiting = {op.id: op}, [op]
    while waiting and len(found) <= MAX_OPS:
        for tensor in waiting.pop(0).inputs:
            maker = emit.maker(tensor)
            if maker is not None and maker.kind in ELEMENTWISE and maker.id not in found:
                found[maker.id] = maker
                waiting.append(maker)
    return sorted(found.values(), key=lambda one: one.id)


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
    known = number(tensor)
    return values.get(tensor.id) if known is None else np.full(1, known, np.float32)


# Normalizations ----------------------------------------------------------------------------------------------------


def _last_axes(op: Op) -> int | None:
    """The first axis, counted from the end, of a ReduceMean over the last axes that keeps them; else None."""
    shape, axes = _operand(op).shape, op.attrs.get("axes")
    if shape is None or not isinstance(axes, tuple) or not op.attrs.get("keep_dims") or len(op.inputs) > 1:
        return None
    wanted, count = sorted(int(str(axis)) % len(shape) for axis in axes), len(axes)
    return -count if wanted == [*range(len(shape) - count, len(shape))] else None


def _squared(emit: Emitter, value: Value) -> LogicalTensor | None:
    """The tensor whose square a value is."""
    op = _made(emit, value, "Square", "Multiply", "Pow")
    if op is None:
        return None
    if op.kind == "Multiply":
        return op.inputs[0] if op.inputs[0] is op.inputs[1] else None
    return op.inputs[0] if op.kind == "Square" or op.attrs.get("beta") == 2 else None


def _over_root(emit: Emitter, op: Op) -> Iterator[tuple[LogicalTensor, LogicalTensor]]:
    """x and r of x / sqrt(r), in each way of writing it."""
    if op.kind == "Divide":
        root = _made(emit, op.inputs[1], "Sqrt")
        if root is not None:
            yield _operand(op), _operand(root)
        return
    for source, factor in _either(op):
        inverse = _made(emit, factor, "Reciprocal", "Pow", "Divide")
        if inverse is None:
            continue
        if inverse.kind == "Pow":
            if inverse.attrs.get("beta") == -0.5:
                yield source, _operand(inverse)
            continue
        is_one = inverse.kind == "Reciprocal" or number(inverse.inputs[0]) == 1
        root = _made(emit, inverse.inputs[-1], "Sqrt")
        if is_one and root is not None:
            yield source, _operand(root)


def _mean_square(emit: Emitter, op: Op) -> tuple[LogicalTensor, LogicalTensor, int, float] | None:
    """For x / sqrt(mean(y ** 2) + epsilon): x, y, the first axis from the end, epsilon."""
    for source, radicand in _over_root(emit, op):
        total = _made(emit, radicand, "Add")
        for inner, constant in () if total is None else _either(total):
            mean, epsilon = _made(emit, inner, "ReduceMean"), number(constant)
            if mean is not None and epsilon is not None and epsilon > 0:
                squared, begin = _squared(emit, _operand(mean)), _last_axes(mean)
                if squared is not None and begin is not None:
                    return source, squared, begin, epsilon
    return None


@rewrites("Divide", "Multiply")
def plain_norm(emit: Emitter, op: Op) -> Value | None:
    """LayerNorm without gamma and beta of x - mean(x), RMSNorm of another tensor."""
    found = _mean_square(emit, op)
    if found is None or found[0] is not found[1] or found[0].dtype not in NATIVE:
        return None
    source, _, begin, epsilon = found
    apart = _made(emit, source, "Subtract")
    mean = None if apart is None else _made(emit, apart.inputs[1], "ReduceMean")
    if apart is not None and mean is not None and mean.inputs[0] is apart.inputs[0] and _last_axes(mean) == begin:
        if begin != -1:
            return None
        attrs = {"epsilon": epsilon, "use_affine": False, "keep_stats": False}
        result: Value = emit.op("LayerNorm", [_operand(apart)], attrs)
        return result
    return rms_norm(emit, source, None, begin, epsilon)


@rewrites("Add")
def layer_norm(emit: Emitter, op: Op) -> Value | None:
    """LayerNorm(x) * gamma + beta."""
    for product, beta in _either(op):
        scaled = _made(emit, product, "Multiply")
        for normal, gamma in () if scaled is None else _either(scaled):
            norm = _made(emit, normal, "LayerNorm")
            if norm is None or len(norm.inputs) > 1:
                continue
            width = (norm.outputs[0].shape or (None,))[-1]
            if gamma.shape == beta.shape == (width,):
                attrs = {"epsilon": norm.attrs["epsilon"], "keep_stats": False}
                found: Value = emit.op("LayerNorm", [_operand(norm), gamma, beta], attrs)
                return found
    return None


@rewrites("Multiply")
def rms_norm_scaled(emit: Emitter, op: Op) -> Value | None:
    """RMSNorm(x) * gamma."""
    for normal, gamma in _either(op):
        norm = _made(emit, normal, "RMSNorm")
        if norm is None or len(norm.inputs) > 1 or norm.attrs["begin_norm_axis"] != -1:
            continue
        if gamma.shape == (norm.outputs[0].shape or (None,))[-1:]:
            return rms_norm(emit, _operand(norm), gamma, -1, float(str(norm.attrs["epsilon"])))
    return None


def _turned(emit: Emitter, value: Value | None) -> Value | None:
    """The tensor before a transpose, which keeps the channels of images last; else the value itself."""
    op = _made(emit, value, "StaticTranspose")
    return value if op is None else op.inputs[0]


@rewrites("StaticReshape")
def grouped_norm(emit: Emitter, op: Op) -> Value | None:
    """GroupNorm of (N, groups, size) seen as (N, C, X): a GroupNorm with these groups."""
    norm = _made(emit, _turned(emit, op.inputs[0]), "GroupNorm")
    inner = None if norm is None else _made(emit, _turned(emit, norm.inputs[0]), "StaticReshape")
    if norm is None or inner is None or op.outputs[0].shape != _operand(inner).shape:
        return None
    shape, rows = _operand(inner).shape, inner.outputs[0].shape
    if shape is None or rows is None or len(rows) != 3 or shape[0] != rows[0] or rows[1] != norm.attrs["groups"]:
        return None
    gamma, beta = (_contents(one) for one in norm.inputs[1:3])
    channels = shape[1]
    if gamma is None or beta is None or channels is None or rows[1] is None or channels % rows[1]:
        return None
    each = channels // rows[1]
    spread = [np.repeat(np.asarray(one), each) for one in (gamma, beta)]
    return group_norm(emit, _operand(inner), spread[0], spread[1], rows[1], float(str(norm.attrs["epsilon"])))


@rewrites("Add")
def affine_group_norm(emit: Emitter, op: Op) -> Value | None:
    """GroupNorm(x) * gamma + beta for each channel, where the norm itself has ones and zeros."""
    for product, beta in _either(op):
        scaled = _made(emit, product, "Multiply")
        for normal, gamma in () if scaled is None else _either(scaled):
            norm = _made(emit, normal, "GroupNorm")
            if norm is None or not (_holds(norm.inputs[1], 1) and _holds(norm.inputs[2], 0)):
                continue
            rank = len(norm.outputs[0].shape or ())
            axis = 1 if norm.attrs["data_format"] == "NCX" else rank - 1
            if all(_is_channels(one, norm.outputs[0], axis) for one in (gamma, beta)):
                vectors = [reshape(emit, _known(one), numbers(-1)) for one in (gamma, beta)]
                found: Value = emit.op("GroupNorm", [_operand(norm), *vectors], norm.attrs)
                return found
    return None


def _is_channels(vector: LogicalTensor, image: LogicalTensor, axis: int) -> bool:
    """Whether a tensor broadcasts to an image with one element for each channel."""
    shape, given = image.shape or (), vector.shape
    if given is None or len(given) > len(shape):
        return False
    wanted = tuple(dim if place == axis else 1 for place, dim in enumerate(shape))
    return (1,) * (len(shape) - len(given)) + given == wanted


def _holds(value: Value | None, wanted: float) -> bool:
    """Whether a known value has one number everywhere."""
    known = _contents(value)
    return known is not None and bool((np.asarray(known) == wanted).all())


def _known(tensor: LogicalTensor) -> Value:
    return tensor if tensor.value is None else np.asarray(tensor.value)


@rewrites("Multiply", "Add")
def affine_batch_norm(emit: Emitter, op: Op) -> Value | None:
    """BatchNormInference(x) * scale + shift for each channel, with known numbers: a norm with these in it."""
    for normal, factor in _either(op):
        norm = _made(emit, normal, "BatchNormInference")
        known = [] if norm is None else [_contents(one) for one in (*norm.inputs[1:3], factor)]
        if norm is None or any(one is None for one in known):
            continue
        rank, inner = len(normal.shape or ()), norm.attrs.get("data_format", "NXC") == "NCX"
        gamma, beta, vector = (np.asarray(one) for one in known)
        wanted = [(gamma.size, *(1,) * (rank - 2)), (1, gamma.size, *(1,) * (rank - 2))]
        if not inner:
            wanted = [(1,) * count + (gamma.size,) for count in range(rank)]
        if vector.shape not in wanted:
            continue
        vector = vector.reshape(-1).astype(gamma.dtype)
        pair = (gamma * vector, beta * vector) if op.kind == "Multiply" else (gamma, beta + vector)
        found: Value = emit.op("BatchNormInference", [norm.inputs[0], *pair, *norm.inputs[3:]], norm.attrs)
        return found
    return None


# Products and broadcasts -------------------------------------------------------------------------------------------


@rewrites("MatMul")
def scaled_product(emit: Emitter, op: Op) -> Value | None:
    """(a * c) @ (b * d) as a @ b / (1 / (c * d)), as the library fuses the scale of attention."""
    if len(op.inputs) > 2 or (op.outputs[0].shape is not None and len(op.outputs[0].shape) < 3):
        return None
    plain: list[LogicalTensor] = []
    factor = 1.0
    for operand in op.inputs:
        turned = _made(emit, operand, "StaticTranspose")
        scaled = _made(emit, operand if turned is None else turned.inputs[0], "Multiply")
        pairs = () if scaled is None else _either(scaled)
        inner = next(((one, share) for one, other in pairs if (share := number(other))), None)
        if inner is None:
            plain.append(operand)  # type: ignore[arg-type]
            continue
        order = () if turned is None else [int(str(axis)) for axis in _list(turned.attrs["order"])]
        plain.append(inner[0] if turned is None else emit.tensor(transpose(emit, inner[0], order)))
        factor *= inner[1]
    if factor == 1 or not math.isfinite(1 / factor) or plain[1].value is not None:
        return None
    product = emit.op("MatMul", plain, op.attrs)
    return binary(emit, "Divide", product, np.full(1, 1 / factor, op.outputs[0].dtype.numpy))


@rewrites("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum")
def broadcast(emit: Emitter, op: Op) -> Value | None:
    """An op that broadcasts needs no Expand before it."""
    for index, operand in enumerate(op.inputs):
        wide, other, shape = _made(emit, operand, "Expand"), op.inputs[1 - index], op.outputs[0].shape
        if wide is not None and other is not None and shape is not None and other.shape == shape and None not in shape:
            inputs = [_operand(wide), other] if index == 0 else [other, _operand(wide)]
            return binary(emit, op.kind, inputs[0], inputs[1])
    return None


@rewrites("Equal")
def masked_row(emit: Emitter, op: Op) -> Value | None:
    """ReduceMax(x) == -inf: the library's ReduceMax of minus infinities is the least finite number."""
    for largest, other in _either(op):
        if _made(emit, largest, "ReduceMax") is not None and largest.dtype in NATIVE and number(other) == -math.inf:
            limits: Any = ml_dtypes.finfo(largest.dtype.numpy)  # type: ignore[no-untyped-call]
            return binary(emit, "LessEqual", largest, np.full((), limits.min, largest.dtype.numpy))
    return None


@rewrites("Select", "Where")
def replaced_nan(emit: Emitter, op: Op) -> Value | None:
    """Where(IsNaN(x), value, x), which exporters write behind each masked SoftMax."""
    test = _made(emit, op.inputs[0], "IsNaN")
    value, src = op.inputs[1], op.inputs[2]
    if test is None or value is None or test.inputs[0] is not src or number(value) is None:
        return None
    found: Value = emit.op("ReplaceNaN", [src, value])
    return found


# Quantized models: movement between Dequantize and Quantize of the same numbers moves the 8 bits ---------------------


def _same_numbers(first: Op, second: Op) -> bool:
    """Whether a Dequantize and a Quantize have the same single scale and zero point, and 8 bits of one kind."""
    names = ("scales", "zps", "qtype")
    same = all(first.attrs.get(name) == second.attrs.get(name) for name in names)
    return same and first.attrs.get("qtype", "per_tensor") == "per_tensor" and _operand(first).dtype is _result(second)


def _result(op: Op) -> DataType:
    return op.outputs[0].dtype


@rewrites("Quantize")
def moved_bytes(emit: Emitter, op: Op) -> Value | None:
    """Quantize(Reshape(Dequantize(x))) as a Reshape of x, and likewise for Transpose, Concat and nothing between."""
    plain = _made(emit, op.inputs[0], "Dequantize")
    if plain is not None and _same_numbers(plain, op) and _contents(plain.inputs[0]) is None:
        return plain.inputs[0]
    move = _made(emit, op.inputs[0], "StaticReshape", "StaticTranspose", "Concat")
    makers = [] if move is None else [_made(emit, one, "Dequantize") for one in move.inputs]
    if move is None or not all(one is not None and _same_numbers(one, op) for one in makers):
        return None
    sources = [_operand(one) for one in makers if one is not None]
    if move.kind == "Concat":
        found: Value = emit.op("Concat", sources, {"axis": move.attrs["axis"]}, edition="host")
        return found
    if move.kind == "StaticTranspose":
        return transpose(emit, sources[0], [int(str(axis)) for axis in _list(move.attrs["order"])])
    shape = move.outputs[0].shape
    if shape is None or sum(dim is None for dim in shape) > 1:
        return None
    return reshape(emit, sources[0], numbers(*[-1 if dim is None else dim for dim in shape]))


def _list(value: object) -> Sequence[object]:
    assert isinstance(value, tuple)
    return value


@rewrites("StaticTranspose")
def transposed_weights(emit: Emitter, op: Op) -> Value | None:
    """Transpose(Dequantize(weights)) as Dequantize of transposed weights."""
    scaled = _made(emit, op.inputs[0], "Dequantize")
    weights = None if scaled is None else _contents(scaled.inputs[0])
    if scaled is None or weights is None:
        return None
    order = [int(str(axis)) for axis in _list(op.attrs["order"])]
    attrs = dict(scaled.attrs)
    if attrs.get("qtype") == "per_channel":
        attrs["axis"] = order.index(int(str(attrs.get("axis", 1))) % len(order))
    found: Value = emit.op("Dequantize", [np.ascontiguousarray(np.transpose(weights, order))], attrs)
    return found
