"""Tensors of int8 that are added to products, fused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ..fault import UNSAFE, Faults
from ..ops.windows import IMAGE, ROW
from ..use import BINARY, DEQUANTIZATIONS, MOVES, PRODUCTS, Fused, Use
from .int8 import SUMS_IN_16_BITS
from .quantized_uses import dequantized, zero_points

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")
OF_ITS_OWN = "oneDNN crashes on a residual that is the source or the weights of its product, or adds it wrong"


def foreign_residual(uses: Sequence[Use]) -> bool:
    """Whether a binary op adds a dequantized tensor that has a sign where the result has none, or the other way round.

    Behind a Convolution an s8 residual of an u8 result is right.
    """
    signs: dict[int, bool] = {}
    for use in uses:
        if use.kind == "Dequantize" and (source := use.call.inputs[0]) is not None:
            signs[use.outputs[0]] = source.dtype is DataType.s8
        elif use.kind in MOVES and use.inputs[0] in signs:
            signs[use.outputs[0]] = signs[use.inputs[0]]
    weights = {number for use in uses if use.kind in PRODUCTS for number in use.inputs}
    convolved = not any(use.kind in ("MatMul", "ConvTranspose") for use in uses)
    added: dict[int, set[bool]] = {}  # the signs of what was added, by value, up to the next Quantize
    for use in uses:
        signs_read = set().union(*(added.get(number, ()) for number in use.inputs))
        if use.kind == "Quantize":
            if use.dtype is DataType.s8 and False in signs_read:
                return True
            if use.dtype is DataType.u8 and True in signs_read and not convolved:
                return True
            continue
        if use.kind in BINARY:
            signs_read |= {signs[number] for number in use.inputs if number in signs and number not in weights}
        added.update(dict.fromkeys(use.outputs, signs_read))
    return False


FOREIGN_RESIDUAL = FAULTS.add(
    "foreign_residual",
    ops=PRODUCTS,
    when=lambda fused: foreign_residual(fused.uses),
    seen={(3, 2): "wrong"},
    reason="oneDNN takes a residual for s8 where the result is, and for u8 where the result is u8",
)


@FOREIGN_RESIDUAL.example()
def signed_residual_of_an_unsigned_result(g: DataGraph) -> LogicalTensor:
    product = g.matmul(
        dequantized(g, "x", "u8", (5, 16), scales=[0.02]), dequantized(g, "w", "s8", (16, 7), scales=[0.02])
    )
    total = g.add(product, dequantized(g, "y", "s8", (5, 7), scales=[0.02]))
    return g.quantize(total, scales=[0.05], zps=[0], dtype="u8")


@FOREIGN_RESIDUAL.example(on={"no AVX-512": "wrong | throws could not create a primitive | unsupported"})
def signed_residual_behind_a_cast(g: DataGraph) -> LogicalTensor:
    weights = g.dequantize(g.constant(np.ones((8, 3), np.int8)), scales=[1.0], zps=[0])
    ends = dequantized(g, "x", "u8", (4, 8)), weights, dequantized(g, "y", "s8", (4, 3))
    x, w, y = (g.type_cast(end, dtype="bf16") for end in ends)
    total = g.type_cast(g.add(g.op("MatMul", [x, w], dtype="bf16"), y), dtype="f32")
    return g.quantize(total, scales=[8.0], zps=[0], dtype="u8")


def overflowing_residual(uses: Sequence[Use]) -> bool:
    """Whether a binary op behind a ConvTranspose is not the first op there, or reads what has a zero point."""
    first, later, shifted = set[int](), set[int](), set[int]()
    for use in uses:
        read = set(use.inputs)
        if use.kind in BINARY and not (read.isdisjoint(later) and read.isdisjoint(shifted)):
            return True
        if use.kind == "ConvTranspose" or (use.kind in MOVES | {"BiasAdd"} and read & first):
            first.update(use.outputs)
        elif read & (first | later):
            later.update(use.outputs)
        elif (use.kind == "Dequantize" and any(zero_points(use))) or (use.kind in MOVES and read & shifted):
            shifted.update(use.outputs)
    return False


OVERFLOWING_RESIDUAL = FAULTS.add(
    "overflowing_residual",
    ops="ConvTranspose",
    when=lambda fused: fused.some(DEQUANTIZATIONS) and overflowing_residual(fused.uses),
    seen={(3, 2): "wrong | right"},  # right with AVX-VNNI
    reason=f"{SUMS_IN_16_BITS} for a ConvTranspose with such a residual, where they overflow",
)


@OVERFLOWING_RESIDUAL.example()
def residual_with_a_zero_point(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "u8", (1, 1, 13, 16)), dequantized(g, "w", "s8", (7, 3, 2, 16))
    product = g.op("ConvTranspose", [x, w], {**IMAGE, "strides": [7, 1], "dilations": [1, 3]})
    total = g.add(product, dequantized(g, "y", "s8", (1, 7, 19, 2), scales=[512.0], zps=[-7]))
    return g.quantize(total, scales=[512.0], zps=[0], dtype="s8")


@OVERFLOWING_RESIDUAL.example()
def residual_behind_a_relu(g: DataGraph) -> LogicalTensor:
    x = dequantized(g, "x", "u8", (2, 10, 16), scales=[0.5], zps=[7])
    w = dequantized(g, "w", "s8", (2, 16, 16), scales=[0.5])
    product = g.op("ConvTranspose", [x, w], {**ROW, "strides": [2], "pads_end": [1]})
    return g.add(g.relu(product), g.input("y", "f32", (2, 19, 16)))


def shared_residual(uses: Sequence[Use], *, same_op: bool) -> bool:
    """Whether a product and a binary op of its kernel read one tensor dequantized.

    With ``same_op``, by the same Dequantize. A Quantize ends the kernel of a product.
    """
    origins: dict[int, int] = {}
    read: dict[int, set[int]] = {}  # what the product before reads, by value of its kernel
    for use in uses:
        if use.kind in DEQUANTIZATIONS:
            origins[use.outputs[0]] = use.outputs[0] if same_op else use.inputs[0]
        elif use.kind in MOVES and use.inputs[0] in origins:
            origins[use.outputs[0]] = origins[use.inputs[0]]
        elif use.kind != "Quantize":
            ends_read = set().union(*(read.get(number, ()) for number in use.inputs))
            ends = {origins[number] for number in use.inputs if number in origins}
            if use.kind in BINARY and not ends.isdisjoint(ends_read):
                return True
            read.update(dict.fromkeys(use.outputs, ends_read | ends if use.kind in PRODUCTS else ends_read))
    return False


OWN_RESIDUAL = FAULTS.add(
    "own_residual",
    ops=PRODUCTS,
    when=lambda fused: shared_residual(fused.uses, same_op=True),
    seen={(3, 2): "SIGSEGV"},
    reason=OF_ITS_OWN,
)


@OWN_RESIDUAL.example({(3, 2): "SIGSEGV | refuses"})
def source_and_residual_in_one(g: DataGraph) -> LogicalTensor:
    x, w = (dequantized(g, name, "s8", (8, 8)) for name in "xw")
    return g.quantize(g.add(g.matmul(x, w), x), scales=[64.0], zps=[0], dtype="s8")


@OWN_RESIDUAL.example({(3, 2): "SIGSEGV | refuses"})
def source_and_residual_of_a_convolution_in_one(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "u8", (1, 4, 4, 8)), dequantized(g, "w", "s8", (3, 3, 8, 8))
    window = {**IMAGE, "pads_begin": [1, 1], "pads_end": [1, 1]}
    return g.relu(g.add(x, g.op("Convolution", [x, w, g.input("b", "f32", (8,))], window)))


RESIDUAL_OF_THE_SOURCE = FAULTS.add(
    "residual_of_the_source",
    ops=PRODUCTS,
    when=lambda fused: shared_residual(fused.uses, same_op=False),
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    reason=OF_ITS_OWN,
)


@RESIDUAL_OF_THE_SOURCE.example(on={"no VNNI": "wrong | right"})
def source_dequantized_twice(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "s8", (8, 8)), g.input("w", "s8", (8, 8))
    product = g.matmul(g.dequantize(x, scales=[0.5], zps=[0]), g.dequantize(w, scales=[0.25], zps=[0]))
    return g.quantize(g.add(product, g.dequantize(x, scales=[0.5], zps=[0])), scales=[0.125], zps=[0], dtype="s8")
