"""Lowers layers of experts, with packed weights or others, which ONNX Runtime defines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...._util.counted import counted
from ....lowering import packed as packing
from ....lowering.elementwise import add, binary, filled, multiply, swish, unary
from ....lowering.emitter import Emitter, Value, numbers, shape_of
from ....lowering.experts import Experts, Layer, PackedLayer, chosen_experts, mixture
from ....lowering.movement import cast, part, reshape
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from .contrib import DOMAIN
from .layers import native
from .packed import BITS, CODES_LEVEL, LEAST_BLOCK

ACTIVATIONS: dict[str, tuple[str, dict[str, object]]] = {"relu": ("ReLU", {}), "gelu": ("GELU", {"mode": "gelu_tanh"})}
FUSED, INTERLEAVED = 2, 1
# Makes a layer of a node, from its name, the inputs, the number of experts and the depth; and its columns.
MakeLayer = Callable[[Node, str, tuple[int, ...], int, int], tuple[Any, int]]
OTHERS = (8, 9, 10, 13, 15, 16, 17, 18, 19)  # inputs of a third layer, and of other quantizations


@lowers("QMoE", domain=DOMAIN)
def packed_mixture(node: Node) -> Value:
    """Each token goes through the k experts with the largest logits, whose softmax are their shares of the sum."""
    for name, neutral in (("quant_type", "int"), ("weights_prepacked", 0)):
        if node.attr(name, neutral) != neutral:
            raise NotLowered(f"{name} = {node.attr(name)}")
    if any(node.optional(index) is not None for index in OTHERS):
        raise NotLowered("a third layer of experts, or weights of other kinds")
    return _mixture(node, _packed_layer, ((2, 3, 4, 11), (5, 6, 7, 12)), node.optional(14))


@lowers("MoE", domain=DOMAIN)
def float_mixture(node: Node) -> Value:
    """As QMoE, with weights that are numbers, and shares that are divided by the sum over all experts or the chosen."""
    if node.attr("use_sparse_mixer", 0):
        raise NotLowered("use_sparse_mixer = 1")
    shares = None
    if not node.attr("normalize_routing_weights", 0):
        shares = node.emit.op("SoftMax", [cast(node.emit, node.value(1), DataType.f32)], {"axis": 1})
    return _mixture(node, _layer, ((2, 3), (4, 5), (6, 7)), shares)


def _mixture(node: Node, layer: MakeLayer, places: tuple[tuple[int, ...], ...], weights: Value | None) -> Value:
    native(node)
    if node.attr("swiglu_limit_after_activation", 0):
        raise NotLowered("swiglu_limit_after_activation = 1")
    emit, src, logits = node.emit, node.value(0), node.value(1)
    size, count = node.dims()[-1], node.dims(1)[-1]
    if size is None or count is None:
        raise NotLowered("unknown numbers of experts or of features")
    k = node.attr("k", 1)
    if not 0 < k <= count:
        raise node.invalid(f"k {k}", f"1 to {count}, the experts")
    experts = _experts(node, layer, places, count, size)
    chosen, shares = chosen_experts(emit, logits, k, weights, bool(node.attr("normalize_routing_weights", 0)))
    result = mixture(emit, reshape(emit, src, numbers(-1, size)), chosen, shares, experts)
    shape = node.dims()
    if len(shape) == 2:
        return result
    return reshape(emit, result, numbers(*[-1 if dim is None else dim for dim in shape]))


def _experts(node: Node, layer: MakeLayer, places: tuple[tuple[int, ...], ...], count: int, size: int) -> Experts:
    kind, fusion = node.attr("activation_type", "relu"), node.attr("swiglu_fusion", 0)
    if kind not in ("swiglu", "silu", "identity", *ACTIVATIONS):
        raise NotLowered(f"activation_type = {kind}")
    if kind == "swiglu" and fusion not in (INTERLEAVED, FUSED):
        raise NotLowered("a swiglu of two products")
    first, columns = layer(node, "fc1", places[0], count, size)
    last, results = layer(node, "fc2", places[1], count, columns // (FUSED if kind == "swiglu" else 1))
    if results != size:
        raise node.invalid(f"fc2_experts_weights of {counted(results, 'row')}", f"{size}, the hidden size")
    third = None
    for own in places[2:]:
        if node.optional(own[0]) is not None:
            third, inner = layer(node, "fc3", own, count, size)
            if kind == "swiglu" or inner != columns:
                raise node.invalid(
                    f"fc3_experts_weights of {counted(inner, 'row')}", f"{columns}, those of fc1, and no swiglu"
                )
    if kind != "swiglu":
        return Experts(first, last, partial(_activated, kind=kind), third)
    numbers = {"limit": np.inf, "alpha": 1.0, "beta": 0.0}
    names = "swiglu_limit", "activation_alpha", "activation_beta"
    limits = {name: node.attr(attr, numbers[name]) for name, attr in zip(numbers, names, strict=True)}
    return Experts(first, last, partial(_gated, columns=columns, is_interleaved=fusion == INTERLEAVED, **limits))


def _gated(
    emit: Emitter, src: Value, *, columns: int, is_interleaved: bool, limit: float, alpha: float, beta: float
) -> Value:
    if is_interleaved:
        gate, linear = (part(emit, src, 2, place, columns, 2) for place in (0, 1))
    else:
        gate, linear = (part(emit, src, 2, *ends) for ends in ((0, columns // 2), (columns // 2, columns)))
    if np.isfinite(limit):
        gate = binary(emit, "Minimum", gate, filled(limit, gate))
        linear = binary(emit, "Maximum", binary(emit, "Minimum", linear, filled(limit, linear)), filled(-limit, linear))
    return multiply(emit, swish(emit, gate, alpha), add(emit, linear, filled(beta, linear)) if beta else linear)


def _activated(emit: Emitter, src: Value, *, kind: str) -> Value:
    if kind == "silu":
        return swish(emit, src)
    if kind == "identity":
        return src
    name, attrs = ACTIVATIONS[kind]
    return unary(emit, name, src, attrs)


def _layer(node: Node, name: str, at: tuple[int, ...], count: int, depth: int) -> tuple[Layer, int]:
    """The layer of all experts, whose weights and bias are the inputs ``at``, and its columns."""
    weights, bias = (node.optional(index) for index in at)
    if weights is None:
        raise node.invalid(f"no {name}_experts_weights", "a tensor")
    shape = shape_of(weights)
    if shape is None or None in shape:
        raise NotLowered(f"{name}_experts_weights of an unknown shape")
    if len(shape) != 3 or (shape[0], shape[2]) != (count, depth):
        raise node.invalid(f"{name}_experts_weights of shape {list(shape)}", f"{[count, 'columns', depth]}")
    columns = shape[1]
    assert columns is not None
    if bias is not None and shape_of(bias) not in (None, (count, columns)):
        raise node.invalid(f"{name}_experts_bias of shape {list(shape_of(bias) or ())}", f"{[count, columns]}")
    return Layer(weights, bias), columns


def _packed_layer(node: Node, name: str, at: tuple[int, ...], count: int, depth: int) -> tuple[PackedLayer, int]:
    """The layer of all experts, whose weights, scales, bias and zero points are the inputs ``at``, and its columns."""
    bits = node.attr(f"{name}_expert_weight_bits", node.attr("expert_weight_bits", 4))
    block = max(node.attr("block_size", 0), 0)
    if bits not in BITS or (block and (block < LEAST_BLOCK or block & (block - 1))):
        raise NotLowered(f"weights of {bits} bits in blocks of {block}")
    codes, scales, bias, zeros = (None if node.optional(index) is None else node.known(index) for index in at)
    if codes is None or scales is None:
        raise node.invalid(f"no {name}_experts_weights or {name}_scales", "both")
    blocks = -(-depth // block) if block else 1
    if codes.dtype != np.uint8 or codes.ndim != 3 or codes.shape[::2] != (count, -(-depth * bits // 8)):
        shape_text = f"{name}_experts_weights of {codes.dtype} {list(codes.shape)}"
        raise node.invalid(shape_text, f"uint8 of {[count, 'columns', -(-depth * bits // 8)]}")
    columns = codes.shape[1]
    wanted = {
        "scales": (scales, (count, columns, blocks) if block else (count, columns)),
        "experts_bias": (bias, (count, columns)),
        "zero_points": (
            zeros,
            (count, columns, -(-blocks * bits // 8)) if block else (count, -(-columns * bits // 8)),
        ),
    }
    for part_name, (array, shape) in wanted.items():
        if array is not None and array.shape != shape:
            raise node.invalid(f"{name}_{part_name} of shape {list(array.shape)}", f"{[*shape]}")
    shape = count, columns, blocks
    if bits == min(BITS):
        codes = packing.two_bits_as_four(codes.reshape(-1, codes.shape[-1])).reshape(count, columns, -1)
    if zeros is not None:
        packed = zeros.reshape(-1, zeros.shape[-1])
        zeros = packing.unpacked_points(packed, bits, blocks if block else columns).reshape(shape)
    layer = PackedLayer(
        codes,
        scales.reshape(shape),
        zeros,
        bias,
        "u8" if bits == max(BITS) else "u4",
        block if blocks > 1 else 0,
        1 << (bits - 1),
        node.attr("accuracy_level", 0) == CODES_LEVEL,
    )
    return layer, columns
