"""What tells the fusions of int8 that the library computes wrong; :mod:`.fusions` says which they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..opset.dtypes import DataType
from .operands import varying
from .use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, MOVES, PRODUCTS, Use


def shifted(uses: Sequence[Use]) -> bool:
    """Whether one of the ops has a zero point other than 0."""
    return any(any(_zero_points(use)) for use in uses)


def scaled(uses: Sequence[Use]) -> bool:
    """Whether a Quantize has a scale other than 1."""
    return any(scale != 1 for use in uses if use.kind == "Quantize" for scale in use.call.f32s("scales"))


def overflows(uses: Sequence[Use]) -> bool:
    """Whether 8 bits may become 2**31 or more by the scales."""
    given, wanted = (
        [scale for use in uses if use.kind == kind for scale in use.call.f32s("scales")]
        for kind in ("Dequantize", "Quantize")
    )
    return bool(given and wanted) and 2**8 * max(given) >= 2**31 * min(wanted)


def forgets_zero_point(uses: Sequence[Use]) -> bool:
    """Whether a zero point without a scale is that of channels that lie first, behind a convolution and a binary op.

    A binary op that goes along the places of an image is a kernel by itself, and so is the Quantize behind it, which
    brings channels from the end to the front: a transposition that by 8 times 8 elements looks at scales alone.
    """
    return (
        any(use.kind == "Quantize" and any(_zero_points(use)) and not scaled([use]) for use in uses)
        and any(_has_channels_first(use) for use in uses if use.kind in CONVOLUTIONS)
        and any(_goes_along_places(use) for use in uses if use.kind in BINARY - {"BiasAdd"})
    )


def _has_channels_first(use: Use) -> bool:
    """Whether the channels of a convolution lie first, and they and the places may be taken by eights."""
    shape = use.result
    return use.call.string("data_format") == "NCX" and shape[1] % 8 == 0 and prod(shape[2:]) % 8 == 0


def _goes_along_places(use: Use) -> bool:
    """Whether an operand is smaller than the result, and varies along a spatial axis."""
    shapes = [use.shape(index) for index in range(len(use.inputs))]
    return any(shape != use.result and any(varying(use.result, shape)[2:]) for shape in shapes)


def _zero_points(use: Use) -> tuple[int, ...]:
    quantizes = use.kind in ("Quantize", "Dequantize")
    return use.call.s64s("zps") if quantizes and use.call.has("zps") else ()


def n_scales(use: Use) -> int:
    """How many scales an op has that goes along one axis with them; 1 of every other op."""
    if (
        use.call.schema.category != "quantization"
        or use.kind == "TypeCast"
        or use.call.string("qtype") != "per_channel"
    ):
        return 1
    return len(use.call.f32s("scales")) if use.call.has("scales") else prod(use.shape(1))


def foreign_scales(uses: Sequence[Use]) -> bool:
    """Whether a tensor has scales along an axis, be it of one element, but for weights along that of the channels."""
    producers = {number: use for use in uses for number in use.outputs}
    right: set[int] = set()
    for use in uses:
        if use.kind in PRODUCTS:
            number = use.inputs[1]
            while (producer := producers.get(number)) is not None and producer.kind == "TypeCast":
                number = producer.inputs[0]
            if producer is not None and producer.kind in DEQUANTIZATIONS:
                axis, rank = producer.call.s64("axis"), len(producer.result)
                if (axis + rank if axis < 0 else axis) in _channel_axes(use):
                    right.add(number)
    return any(
        use.kind in DEQUANTIZATIONS and use.call.string("qtype") == "per_channel" and use.outputs[0] not in right
        for use in uses
    )


def _channel_axes(use: Use) -> tuple[int, ...]:
    """The axes of the weights that go over all output channels of a product, and over nothing else."""
    weights = use.shape(1)
    rank = len(weights)
    if use.kind == "MatMul":
        return () if rank < 2 else (rank - 2,) if use.call.flag("transpose_b") else (rank - 1,)
    fmt = use.call.string("weights_format")
    if use.kind == "Convolution":
        return (0,) if fmt == "OIX" else (rank - 1,)
    outer, inner = (1, 0) if fmt == "IOX" else (rank - 2, rank - 1)
    groups = use.call.s64("groups")
    if groups == 1:
        return (outer,)
    return (inner,) if weights[inner] == groups and weights[outer] == 1 else ()


def has_gaps(use: Use, uses: Sequence[Use]) -> bool:
    """Whether a dequantized ConvTranspose moves its window further than it is wide; of s8, or by more than two."""
    source = next((other.call.inputs[0] for other in uses if use.inputs[0] in other.outputs), None)
    if source is None:
        return False
    most = 2 if source.dtype is DataType.s8 else max(use.call.s64s("strides"))
    weights, strides = use.shape(1), use.call.s64s("strides")
    sizes = weights[2:] if use.call.string("weights_format") == "IOX" else weights[:-2]
    extents = [1 + (size - 1) * step for size, step in zip(sizes, use.call.s64s("dilations"), strict=True)]
    return any(step > min(most, extent) for step, extent in zip(strides, extents, strict=True))


def shifted_source(use: Use, uses: Sequence[Use]) -> bool:
    """Whether what a product reads first was dequantized with a zero point."""
    return _is_shifted(use.inputs[0], uses)


def shifted_weights(use: Use, uses: Sequence[Use]) -> bool:
    """Whether the weights of a product were dequantized with a zero point."""
    return _is_shifted(use.inputs[1], uses)


def _is_shifted(number: int, uses: Sequence[Use]) -> bool:
    producers = {number: other for other in uses for number in other.outputs}
    producer = producers.get(number)
    while producer is not None and producer.kind in MOVES:
        producer = producers.get(producer.inputs[0])
    return producer is not None and any(_zero_points(producer))


def shared_residual(uses: Sequence[Use], *, same_op: bool) -> bool:
    """Whether a product and a binary op read one tensor dequantized; with ``same_op``, by the same Dequantize."""
    origins: dict[int, int] = {}
    for use in uses:
        if use.kind in DEQUANTIZATIONS:
            origins[use.outputs[0]] = use.outputs[0] if same_op else use.inputs[0]
        elif use.kind in MOVES and use.inputs[0] in origins:
            origins[use.outputs[0]] = origins[use.inputs[0]]
    multiplied, added = (
        {origins[number] for use in uses if use.kind in kinds for number in use.inputs if number in origins}
        for kinds in (PRODUCTS, BINARY)
    )
    return not multiplied.isdisjoint(added)


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
        elif (use.kind == "Dequantize" and any(_zero_points(use))) or (use.kind in MOVES and read & shifted):
            shifted.update(use.outputs)
    return False


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
        found = set().union(*(added.get(number, ()) for number in use.inputs))
        if use.kind == "Quantize":
            if use.dtype is DataType.s8 and False in found:
                return True
            if use.dtype is DataType.u8 and True in found and not convolved:
                return True
            continue
        if use.kind in BINARY:
            found |= {signs[number] for number in use.inputs if number in signs and number not in weights}
        added.update(dict.fromkeys(use.outputs, found))
    return False
