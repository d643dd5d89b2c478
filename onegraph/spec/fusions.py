"""Fusions that the library computes wrong, although each of their ops alone is right.

All were seen in oneDNN 3.2.0. A condition may hold where the library would be right, never the other way round; what it
costs then is that the ops run one by one. The executor lets them do so, and the one-to-one objects refuse.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from .dtypes import DataType
from .movement import transposition
from .operands import is_fast, varying
from .schema import Call

Dims = tuple[int, ...]

BINARY = frozenset(
    ["Add", "BiasAdd", "Divide", "Maximum", "Minimum", "Multiply", "PReLU", "Select", "SquaredDifference", "Subtract"]
)
VIEWS = frozenset(["StaticReshape", "StaticTranspose"])
POOLS = frozenset(["AvgPool", "MaxPool"])
CONVOLUTIONS = frozenset(["Convolution", "ConvTranspose"])
PRODUCTS = CONVOLUTIONS | {"MatMul"}
FOLDED = frozenset(["BiasAdd", "BatchNormInference"])  # into the weights and the bias of the op before
DEQUANTIZATIONS = frozenset(["Dequantize", "DynamicDequantize"])
MOVES = VIEWS | {"Reorder", "TypeCast"}
MAINS = POOLS | CONVOLUTIONS | BINARY | {"Interpolate", "LayerNorm", "MatMul", "SoftMax"}
# From here on, a vector along the last axis behind a binary op of tensors that lie channels last is read out of bounds.
WILD_VECTORS = (3, 7)  # right in 3.6.2, a signal in 3.13.2
# From here on, so is an operand behind a MatMul whose result lies with its axes in another order.
STRIDED_PRODUCTS = (3, 7)  # right in 3.6.2, a signal in 3.13.2
# LayerNorm and what follows it are fused since 3.3 or later; an operand of the same shape is right in 3.13.
LAYER_NORM_MENDED = (3, 13)
# From here on, a Quantize of several scales behind a MatMul takes the first for all: right in 3.6.2, wrong in 3.13.2.
WRONG_SCALES = (3, 7)
# From here on, a residual of the int8 that its product reads is added wrong: right in 3.2.0, wrong in 3.6.2.
WRONG_RESIDUAL = (3, 3)
# Attention is fused since 3.3 or later; what follows it is right in 3.13.
ATTENTION_MENDED = (3, 13)
# From this rank on, the kernel of an elementwise op counts on dense tensors, and with a binary op behind it writes past
# its memory.
WILD_RANK = 6


@dataclass(frozen=True)
class Use:
    """One op of a partition: what it computes, and the values that it reads and writes, by number."""

    call: Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: DataType  # of the first output

    @property
    def kind(self) -> str:
        """Name of the op."""
        return self.call.schema.kind

    @property
    def result(self) -> Dims:
        """Shape of the first output."""
        return tuple([dim or 0 for dim in self.call.schema.shape(self.call)[0] or ()])

    def shape(self, index: int) -> Dims:
        """Shape of input ``index``."""
        tensor = self.call.inputs[index]
        assert tensor is not None
        return tuple(dim or 0 for dim in tensor.shape or ())


@dataclass(frozen=True)
class Operand:
    """What a binary op joins to the result of the main op of a partition: both shapes, and where a vector goes."""

    binary: Use
    result: Dims
    shape: Dims

    @property
    def single(self) -> bool:
        """Whether it is one element."""
        return prod(self.shape) == 1

    @property
    def bias_axis(self) -> int:
        """The axis that the bias of a BiasAdd goes along."""
        return len(self.result) - 1 if self.binary.call.string("data_format") == "NXC" else 1

    @property
    def along_last(self) -> bool:
        """Whether it varies along the last axis only; the bias of a BiasAdd goes along the channels."""
        if self.binary.kind == "BiasAdd":
            return self.bias_axis == len(self.result) - 1
        return self.single or prod(self.shape) == self.shape[-1] == self.result[-1]

    @property
    def in_columns(self) -> bool:
        """Whether the last axis has size 1, and it varies along some of the other axes."""
        return self.result[-1:] == (1,) and not self.single and prod(self.shape) != prod(self.result)

    @property
    def along_bare_channels(self) -> bool:
        """Whether it varies along the channels, the second axis, of a batch without anything behind them."""
        whole = self.result
        if len(whole) < 3 or whole[0] == 1 or whole[1] == 1 or prod(whole[2:]) != 1:
            return False
        if self.binary.kind == "BiasAdd":
            return self.bias_axis == 1
        return (1,) * (len(whole) - len(self.shape)) + self.shape == (1, *whole[1:])


def wrong_fusion(uses: Sequence[Use], version: tuple[int, int, int], vnni: bool = True) -> str:
    """Why a library of ``version`` must not run these ops, in an order in which they can run, as one kernel.

    Empty where it may. ``vnni``: whether the library may use instructions for sums of products of int8.
    """
    if all(use.kind in VIEWS for use in uses) and not _shuffles(uses):
        return "oneDNN takes every reshape, transpose, reshape for a shuffle of channels, and crashes where it is none"
    for number, main in enumerate(uses):
        for operand in _operands(main, uses[number + 1 :]):
            reason = _wrong_operand(main, operand, version)
            if reason:
                return reason
    for use in uses:
        if use.kind in FOLDED and sum(use.inputs[0] in other.inputs for other in uses) > 1:
            return f"oneDNN takes all the memory to compile a {use.kind} whose source is read twice"
    if any(use.kind == "Dropout" and len(use.outputs) > 1 for use in uses):
        return "oneDNN leaves the mask of a Dropout unwritten"
    kinds = {use.kind for use in uses}
    if "Quantize" in kinds and any(use.kind == "SoftMax" and len(use.outputs) > 1 for use in uses):
        return "oneDNN computes a SoftMax that is quantized, or its stats, wrong where the stats are there"
    if any(use.kind == "AvgPool" and not use.call.flag("exclude_pad") for use in uses) and _shifted(uses):
        return "oneDNN takes the padding of an int8 AvgPool for the zero point"
    if "AvgPool" in kinds and _overflows(uses):
        return "oneDNN lets an int8 AvgPool overflow where its scales are far apart"
    if {"Dequantize", "Reorder", "Quantize"} <= kinds and _shifted(uses):
        return "oneDNN fails to execute Dequantize + Reorder + Quantize with zero points"
    if kinds & PRODUCTS and _foreign_scales(uses):
        return "oneDNN takes scales along another axis than that of the output channels for theirs"
    if any(use.kind == "Quantize" and _n_scales(use) > 1 for use in uses) and (
        kinds & {"SoftMax", "LayerNorm"} or (version >= WRONG_SCALES and "MatMul" in kinds)
    ):
        return "oneDNN quantizes all with the first of several scales"
    if any(use.kind == "ConvTranspose" and _spreads_signed(use, uses) for use in uses):
        return "oneDNN computes a ConvTranspose of s8 wrong where its strides leave gaps"
    if {"SoftMax", "MatMul"} <= kinds:
        if any(use.kind == "SoftMax" and use.call.s64("axis") not in (-1, len(use.result) - 1) for use in uses):
            return "oneDNN computes attention wrong with a SoftMax along another axis than the last"
        if version < ATTENTION_MENDED and "Quantize" in kinds and (kinds & VIEWS or _shifted(uses)):
            return "oneDNN computes or executes int8 attention wrong with zero points, or with a transpose behind it"
    if kinds & PRODUCTS and _foreign_residual(uses):
        return "oneDNN takes a residual for s8 where the result is, and for u8 where the result is u8"
    if kinds & PRODUCTS and _shared_residual(uses, same_op=version < WRONG_RESIDUAL):
        return "oneDNN crashes on a residual that is the source or the weights of its product, or adds it wrong"
    if {"SoftMax", "Quantize"} <= kinds and any(use.kind in BINARY and len({*use.inputs}) == 1 for use in uses):
        return "oneDNN computes SoftMax + Quantize wrong with a binary op of one tensor and itself between them"
    if "MatMul" in kinds and any(_normalizes_last(use) for use in uses):
        return "oneDNN takes the second axis for the channels of a BatchNormInference behind a MatMul"
    if "StaticTranspose" in kinds and any(use.kind == "MatMul" and use.result[-2:-1] == (1,) for use in uses):
        return "oneDNN fails to execute a MatMul of one row whose result is transposed"
    formats = {use.call.string("data_format") for use in uses if use.kind in CONVOLUTIONS | {"BatchNormInference"}}
    if kinds & CONVOLUTIONS and "BatchNormInference" in kinds and len(formats) > 1:
        return "oneDNN takes the channels of a BatchNormInference for those of the convolution before it"
    if not vnni and kinds & PRODUCTS and sum(use.kind in DEQUANTIZATIONS for use in uses) > 1:
        return "oneDNN adds products of int8 in 16 bits on a CPU without VNNI, where they overflow"
    return ""


def _normalizes_last(use: Use) -> bool:
    """Whether it is a BatchNormInference whose channels are the last of three or more axes."""
    return use.kind == "BatchNormInference" and use.call.string("data_format") == "NXC" and len(use.shape(0)) > 2


def _shuffles(uses: Sequence[Use]) -> bool:
    """Whether a reshape splits an axis in two, a transpose swaps the two, and a reshape makes them one again."""
    if [use.kind for use in uses] != ["StaticReshape", "StaticTranspose", "StaticReshape"]:
        return False
    whole, split, order = uses[0].shape(0), uses[1].shape(0), transposition(uses[1].call)
    if len(whole) < 2 or len(split) != len(whole) + 1 or uses[2].result != whole:
        return False
    return any(
        order == (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
        and split == (*whole[:axis], split[axis], split[axis + 1], *whole[axis + 1 :])
        for axis in range(len(whole))
    )


def wrong_strides(uses: Sequence[Use], strided: Container[int], version: tuple[int, int, int]) -> str:
    """Why a library must not run these ops as one kernel on values that are not dense; empty where it may.

    Args:
        uses: in an order in which they can run.
        strided: the values that are not dense.
        version: of the library.
    """
    if version >= STRIDED_PRODUCTS and any(number in strided for use in uses for number in use.outputs):
        for number, main in enumerate(uses):
            for operand in _operands(main, uses[number + 1 :]) if main.kind == "MatMul" else ():
                if not operand.single and operand.shape != operand.result:
                    where = "behind a MatMul whose result is not dense"
                    return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    main = uses[0]
    if main.kind not in BINARY or not any(number in strided for number in main.inputs):
        return ""
    for operand in _operands(main, uses[1:]):
        if not operand.single and operand.shape != operand.result:
            where = f"behind {main.kind} of permuted axes"
            return f"oneDNN reads an operand of shape {list(operand.shape)} out of bounds {where}"
    return ""


def slow_fusion(uses: Sequence[Use]) -> str:
    """Why the ops are faster one by one, empty where they are not: as one, some take a reference kernel.

    Measured on tensors of 8,000 to 500,000 elements, these take 20 to 2,000 times as long as their ops one by one.
    """
    main = uses[0]
    derived = set(main.outputs)
    producers = {number: use for use in uses for number in use.outputs}
    for use in uses[1:]:
        joined = derived.intersection(use.inputs) if use.kind in BINARY - {"BiasAdd"} else set()
        for index, number in enumerate(use.inputs if joined else ()):
            if number not in derived and _is_slow(main, use.kind, number, use.shape(index)):
                shape = list(use.shape(index))
                return (
                    f"oneDNN has a reference kernel only for {main.kind} + {use.kind} with an operand of shape {shape}"
                )
        if len(joined) > 1:
            for other in (producers[number] for number in joined):
                swish = (other.kind, use.kind) == ("Sigmoid", "Multiply")
                if other.call.schema.category == "elementwise" and not swish:
                    return f"oneDNN has a reference kernel only for {other.kind} + {use.kind} of one tensor"
        derived.update(use.outputs)
    return ""


def _is_slow(main: Use, binary: str, number: int, operand: Dims) -> bool:
    """Whether ``main`` and a binary op with an operand behind it are slow as one."""
    result = main.result
    if len(operand) > len(result):
        return False
    if main.call.schema.category == "elementwise":
        is_swish = main.kind == "Sigmoid" and binary == "Multiply" and number in main.inputs
        return not is_swish
    if main.kind == "SoftMax":
        return True
    varies = varying(result, operand)
    is_vector, is_whole = any(varies) and not any(varies[:-1]), operand == result
    if is_vector and ((main.kind in BINARY and len(result) > 2) or (main.kind == "MatMul" and len(result) > 4)):
        return True
    if main.kind == "MatMul" and len(main.shape(1)) > 2 and _takes_turns(varies):
        return True
    if main.kind == "Convolution" and main.call.string("data_format") == "NCX" and all(varies[1:]):
        return not (is_whole and binary == "Add")
    return not is_whole and not is_fast(varies)


def _takes_turns(varies: Sequence[bool]) -> bool:
    """Whether an operand of a batched MatMul is one matrix for all, one number for each, or anew in each first part."""
    batch, matrix = varies[:-2], varies[-2:]
    if not any(matrix):
        return len(batch) > 0 and all(batch)
    return len(batch) > 1 and all(matrix) and not batch[0] and len(set(batch[1:])) == 1


def _operands(main: Use, later: Sequence[Use]) -> Iterator[Operand]:
    """What the binary ops after ``main`` join to its result."""
    elementwise = main.call.schema.category == "elementwise"
    if main.kind not in MAINS and not elementwise:
        return
    result = main.result
    if elementwise and len(result) < WILD_RANK:
        return
    derived = set(main.outputs)
    for use in later:
        if not derived.intersection(use.inputs):
            continue
        derived.update(use.outputs)
        if use.kind in BINARY:
            others = [index for index, number in enumerate(use.inputs) if number not in derived]
            for index in others or range(len(use.inputs)):
                yield Operand(use, result, use.shape(index))


def _wrong_operand(main: Use, operand: Operand, version: tuple[int, int, int]) -> str:
    what = f"oneDNN computes {main.kind} + {operand.binary.kind} wrong for an operand of shape {list(operand.shape)}"
    if main.call.schema.category == "elementwise":
        return f"oneDNN computes {main.kind} + {operand.binary.kind} of rank {len(operand.result)} wrong"
    if main.kind in CONVOLUTIONS:
        nxc = main.call.string("data_format") == "NXC"
        right = operand.binary.kind != "BiasAdd" or operand.bias_axis == (len(operand.result) - 1 if nxc else 1)
    elif main.kind in BINARY:
        whole = len(operand.result) >= 3 and all(prod(main.shape(index)) == prod(operand.result) for index in (0, 1))
        wild = version >= WILD_VECTORS and whole and operand.along_last and not operand.single
        right = not operand.along_bare_channels and not wild
    elif main.kind == "Interpolate":
        right = main.call.string("data_format") == "NCX" or operand.single or operand.along_last
    elif main.kind in POOLS:
        channels = len(operand.shape) == len(operand.result) and prod(operand.shape) == operand.shape[1]
        right = operand.single or (channels and main.call.string("data_format") == "NCX")
    elif main.kind == "LayerNorm":
        right = version >= LAYER_NORM_MENDED or prod(operand.shape) != prod(operand.result)
    elif main.kind == "SoftMax":
        same_rank = len(operand.shape) == len(operand.result) and operand.binary.kind != "BiasAdd"
        right = same_rank and (operand.shape == operand.result or operand.along_last)
    elif 1 in (len(main.shape(0)), len(main.shape(1))):  # a vector has an axis more in the kernel than in the result
        right = operand.single or (len(main.shape(1)) > 1 and operand.along_last)
    else:
        flat = len(main.shape(0)) >= 3 and len(main.shape(1)) == 2
        right = operand.along_last or (not flat and operand.binary.kind != "BiasAdd" and not operand.in_columns)
        right = right or operand.shape == operand.result
    return "" if right else what


def _shifted(uses: Sequence[Use]) -> bool:
    """Whether one of the ops has a zero point other than 0."""
    return any(any(_zero_points(use)) for use in uses)


def _overflows(uses: Sequence[Use]) -> bool:
    """Whether 8 bits may become 2**31 or more by the scales."""
    given, wanted = (
        [scale for use in uses if use.kind == kind for scale in use.call.f32s("scales")]
        for kind in ("Dequantize", "Quantize")
    )
    return bool(given and wanted) and 2**8 * max(given) >= 2**31 * min(wanted)


def _zero_points(use: Use) -> tuple[int, ...]:
    quantizes = use.kind in ("Quantize", "Dequantize")
    return use.call.s64s("zps") if quantizes and use.call.has("zps") else ()


def _n_scales(use: Use) -> int:
    """How many scales an op has that goes along one axis with them; 1 of every other op."""
    if (
        use.call.schema.category != "quantization"
        or use.kind == "TypeCast"
        or use.call.string("qtype") != "per_channel"
    ):
        return 1
    return len(use.call.f32s("scales")) if use.call.has("scales") else prod(use.shape(1))


def _foreign_scales(uses: Sequence[Use]) -> bool:
    """Whether a tensor has several scales, but for weights that have one for each output channel."""
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
    return any(use.kind in DEQUANTIZATIONS and _n_scales(use) > 1 and use.outputs[0] not in right for use in uses)


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


def _spreads_signed(use: Use, uses: Sequence[Use]) -> bool:
    """Whether a ConvTranspose of dequantized s8 moves its window further than it is wide, or by more than two."""
    source = next((other.call.inputs[0] for other in uses if use.inputs[0] in other.outputs), None)
    if source is None or source.dtype is not DataType.s8:
        return False
    weights, strides = use.shape(1), use.call.s64s("strides")
    sizes = weights[2:] if use.call.string("weights_format") == "IOX" else weights[:-2]
    extents = [1 + (size - 1) * step for size, step in zip(sizes, use.call.s64s("dilations"), strict=True)]
    return any(step > min(2, extent) for step, extent in zip(strides, extents, strict=True))


def _shared_residual(uses: Sequence[Use], *, same_op: bool) -> bool:
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


def _foreign_residual(uses: Sequence[Use]) -> bool:
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
