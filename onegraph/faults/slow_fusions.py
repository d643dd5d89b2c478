"""Fused ops that oneDNN computes right with a reference kernel: 1.5 to 2,000 times as long as in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.ops.movement import transposition
from ..opset.window import channel_axis
from .fault import SLOW, Faults, Release
from .operands import is_fast, varying
from .ops.windows import IMAGE, POOL, VOLUME
from .use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, ELEMENTWISE, MOVES, POOLS, Dims, Fused, Use

FAULTS = Faults[Fused]()
INT8 = (DataType.s8, DataType.u8)
# Ops that compute nothing: they belong to the kernel before or behind them.
CARRIED = DEQUANTIZATIONS | MOVES | {"Quantize", "BiasAdd", "BatchNormInference"}
# Ops on images, with the channels on one of two axes.
IMAGES = CONVOLUTIONS | POOLS | {"Interpolate"}
POST_OPS = ELEMENTWISE | (BINARY - {"BiasAdd"})
# Kernels that never add a whole operand to what the memory of the result holds.
WITHOUT_SUM = ELEMENTWISE | POOLS | {"SoftMax", "LogSoftmax"}


@dataclass(frozen=True)
class PostOp:
    """An elementwise or binary op behind another op in a partition.

    Attributes:
        main: the op whose kernel computes it too, if ``is_joined``; otherwise the op before, which has its own kernel.
        use: the op.
        joined: its inputs that ``main`` computes, by number.
        anew: whether another main op computes one of these inputs.
        operand: the index of its input that ``main`` does not compute; None without such an input.
        adds: whether it adds a whole operand to the memory of the result, as one op behind each main op may.
        place: how many ops the kernel of ``main`` computes before.
        channels_last: whether the library writes the result with channels last, unlike the operands.
        is_joined: whether it is part of the kernel of ``main``.
    """

    main: Use
    use: Use
    joined: frozenset[int]
    anew: bool
    operand: int | None
    adds: bool
    place: int
    channels_last: bool
    is_joined: bool

    @property
    def shape(self) -> Dims:
        """Shape of the operand, with as many axes as the result; () without one."""
        return () if self.operand is None else _padded(self.use.shape(self.operand), len(self.use.result))


def _padded(shape: Dims, rank: int) -> Dims:
    return (1,) * (rank - len(shape)) + shape


def post_ops(fused: Fused) -> list[PostOp]:
    """The ops behind the main ops of a partition. What another convolution computes is no operand."""
    written = _written(fused)
    heads: dict[int, Use] = {}  # the main op that computes a value
    kept: dict[int, DataType] = {}  # for a value that is no result of a main op, the data type in memory
    places: dict[int, int] = {}  # by id of a main op, the number of ops in its kernel so far
    turned: set[int] = set()  # ids of main ops that write channels last
    added: set[int] = set()  # ids of main ops that add an operand to the memory of the result
    found: list[PostOp] = []
    for use in fused.uses:
        ends = [number for number in use.inputs if number in heads]
        head = heads[ends[-1]] if ends else None
        if use.kind in CARRIED and (head is not None or use.inputs[0] not in heads):
            if head is None:
                kept[use.outputs[0]] = kept.get(use.inputs[0], _dtype(use, 0))
                continue
        elif head is None or use.kind not in POST_OPS:
            head = use
            if use.kind in IMAGES and use.call.string("data_format") == "NCX":
                turned.add(id(use))
        else:
            others = [index for index, number in enumerate(use.inputs) if number not in ends]
            operand = others[0] if others else None
            shape = () if operand is None else _padded(use.shape(operand), len(use.result))
            is_joined = operand is None or _joins(head, shape)
            place, turns = places.get(id(head), 0), id(head) in turned
            adds = is_joined and use.kind == "Add" and shape == use.result and id(head) not in added
            if adds and operand is not None:
                dtype, dst = kept.get(use.inputs[operand], _dtype(use, operand)), written.get(use.outputs[0], use.dtype)
                adds = head.kind not in WITHOUT_SUM and (dtype is dst or dtype in INT8)
            anew = any(heads[number] is not head for number in ends)
            found.append(PostOp(head, use, frozenset(ends), anew, operand, adds, place, turns, is_joined))
            if not is_joined:
                head = use
                turned.update([id(use)] if turns else [])
            elif adds:
                added.add(id(head))
            places[id(head)] = places.get(id(head), 0) + is_joined
        heads.update((number, head) for number in use.outputs)
    return found


def _written(fused: Fused) -> dict[int, DataType]:
    """The data type in which the kernel of a value writes its last result, where a Quantize behind it changes that."""
    found: dict[int, DataType] = {}
    for use in reversed(fused.uses):
        dtype = use.dtype if use.kind == "Quantize" else found.get(use.outputs[0])
        if dtype is not None:
            found.update((number, dtype) for number in use.inputs)
    return found


def _joins(main: Use, shape: Dims) -> bool:
    """Whether the library makes a binary op with an operand a part of the kernel before (dnnl/passes/utils.cpp)."""
    result = main.result
    axes = [axis for axis, dim in enumerate(shape) if dim > 1]
    if len(shape) != len(result) or shape == result or not axes:
        return True
    if main.kind == "MatMul" and len(result) == 4:
        return True
    if main.kind in IMAGES:
        return axes == [channel_axis(len(result), main.call.string("data_format"))]
    return len(axes) == 1


def _dtype(use: Use, index: int) -> DataType:
    tensor = use.call.inputs[index]
    assert tensor is not None
    assert tensor.dtype is not None
    return tensor.dtype


# Operands of binary ops ----------------------------------------------------------------------------------------------


def _joins_slow_operand(fused: Fused) -> str:
    for post in post_ops(fused):
        if post.operand is not None and len(post.use.result) == len(post.main.result) and _is_slow(post):
            both, shape = f"{post.main.kind} + {post.use.kind}", list(post.use.shape(post.operand))
            return f"oneDNN has a reference kernel only for {both} with an operand of shape {shape}"
    return ""


def _is_slow(post: PostOp) -> bool:
    """Whether a binary op with an operand is slow behind its main op."""
    main, shape = post.main, post.shape
    result, varies = post.use.result, varying(post.use.result, post.shape)
    if not post.is_joined:
        return not is_fast(varies) or (post.channels_last and all(varies[1:]))
    if post.adds or not any(varies):
        return post.main.kind in ELEMENTWISE
    if main.kind in ELEMENTWISE:
        is_swish = main.kind == "Sigmoid" and post.use.kind == "Multiply"
        return not (is_swish and post.operand is not None and post.use.inputs[post.operand] in main.inputs)
    if main.kind == "SoftMax":
        return True
    if shape == result or main.kind in IMAGES:
        return post.channels_last and all(varies[1:])  # the operand has channels first
    if main.kind == "MatMul" and len(result) < 5:
        return (len(main.shape(1)) > 2 and _takes_turns(varies)) or not is_fast(varies)
    return varies.index(True) != 1


def _takes_turns(varies: Sequence[bool]) -> bool:
    """Whether an operand of a batched MatMul is one matrix for all, one number for each, or anew in each first part."""
    batch, matrix = varies[:-2], varies[-2:]
    if not any(matrix):
        return len(batch) > 0 and all(batch)
    return len(batch) > 1 and all(matrix) and not batch[0] and len(set(batch[1:])) == 1


SLOW_OPERAND = FAULTS.add(
    "slow_operand",
    BINARY,
    "",
    SLOW,
    _joins_slow_operand,
    {(3, 2): "slow"},
    "Some operands behind another op take a reference kernel, most of all behind elementwise ops and SoftMax",
    "the ops before and behind in kernels of their own",
)


@SLOW_OPERAND.example({(3, 2): "right"})
def relu_and_a_sum(g: DataGraph) -> LogicalTensor:
    return g.add(g.relu(g.input("x", "f32", (4, 6))), g.input("y", "f32", (4, 6)))


@SLOW_OPERAND.example({(3, 2): "right"})
def sum_and_a_vector(g: DataGraph) -> LogicalTensor:
    total = g.add(g.input("x", "f32", (2, 4, 6)), g.input("w", "f32", ()))
    return g.multiply(total, g.input("y", "f32", (6,)))


@SLOW_OPERAND.example({(3, 2): "right"})
def softmax_and_a_sum(g: DataGraph) -> LogicalTensor:
    shares = g.op("SoftMax", [g.input("x", "f32", (2, 4, 6))], {"axis": -1}, outputs=["dst"], dtype="f32")
    return g.add(shares, g.input("y", "f32", (2, 4, 6)))


@SLOW_OPERAND.example({(3, 2): "right"})
def batch_of_products_and_a_number_for_each(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 4, 5)), g.input("w", "f32", (2, 5, 6)))
    return g.add(product, g.input("y", "f32", (2, 1, 1)))


def _joins_itself(fused: Fused) -> str:
    producers = {number: use for use in fused.uses for number in use.outputs}
    for post in post_ops(fused):
        kinds = [producers[number].kind for number in sorted(post.joined)]
        swish = post.use.kind == "Multiply" and "Sigmoid" in kinds
        if len(kinds) > 1 and not post.anew and not swish:
            return f"oneDNN has a reference kernel only for {kinds[-1]} + {post.use.kind} of one tensor"
    return ""


SLOW_PAIR = FAULTS.add(
    "slow_pair",
    BINARY,
    "",
    SLOW,
    _joins_itself,
    {(3, 2): "slow"},
    "A binary op of which both inputs come from one tensor takes a reference kernel, unless it is a swish",
    "the ops before and behind in kernels of their own",
)


@SLOW_PAIR.example({(3, 2): "right"})
def product_of_a_tensor_and_its_tanh(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6)))
    return g.multiply(product, g.tanh(product))


def _starts_slow(fused: Fused) -> str:
    """The first op of a partition that joins an operand for which it is fast on fewer axes only, if it is alone."""
    made = {number for use in fused.uses for number in use.outputs}
    for main in fused.uses if len(fused.uses) > 1 else ():
        if main.kind in BINARY - {"BiasAdd", "PReLU", "Select"} and made.isdisjoint(main.inputs):
            for shape in (main.shape(0), main.shape(1)):
                if shape != main.result and not is_fast(varying(main.result, shape)):
                    return f"oneDNN has a reference kernel only for {main.kind} with an operand of shape {list(shape)}"
    return ""


SLOW_START = FAULTS.add(
    "slow_start",
    BINARY,
    "",
    SLOW,
    _starts_slow,
    {(3, 2): "slow"},
    "A binary op with a slow operand and an op behind it take a reference kernel",
    "the binary op alone, on fewer axes",
)


@SLOW_START.example({(3, 2): "right"})
def exponential_of_a_difference_from_a_number_for_each_row(g: DataGraph) -> LogicalTensor:
    return g.exp(g.subtract(g.input("x", "f32", (2, 4, 6)), g.input("y", "f32", (2, 4, 1))))


# Other ops ------------------------------------------------------------------------------------------------------------


def _follows_conv_transpose(fused: Fused) -> bool:
    behind = [post.main for post in post_ops(fused)]
    behind += [
        main for main in fused.of("ConvTranspose") for use in fused.of("BiasAdd") if use.inputs[0] in main.outputs
    ]
    return any(main.kind == "ConvTranspose" and not _is_int8(main, fused) for main in behind)


SLOW_CONV_TRANSPOSE = FAULTS.add(
    "slow_conv_transpose",
    "ConvTranspose",
    "",
    SLOW,
    _follows_conv_transpose,
    {(3, 2): "slow"},
    "oneDNN runs the ops behind a ConvTranspose, and its bias, element by element",
    "the ConvTranspose, and the ops behind it in kernels of their own",
)


def _is_int8(main: Use, fused: Fused) -> bool:
    """Whether a main op computes in int8: a Dequantize makes its weights, perhaps in front of a TypeCast."""
    makers = {number: use for use in fused.uses for number in use.outputs}
    maker = makers.get(main.inputs[1])
    while maker is not None and maker.kind in MOVES:
        maker = makers.get(maker.inputs[0])
    return maker is not None and maker.kind in DEQUANTIZATIONS


@SLOW_CONV_TRANSPOSE.example({(3, 2): "right"})
def conv_transpose_and_relu(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 5, 5, 4)), g.input("w", "f32", (3, 3, 6, 4))
    return g.relu(g.op("ConvTranspose", ends, IMAGE))


def _turns_columns(fused: Fused) -> bool:
    return fused.has("MatMul") and any(
        (order := transposition(use.call)) is not None and order[-1] != len(order) - 1
        for use in fused.of("StaticTranspose")
        if use.inputs[0] in {number for main in fused.of("MatMul") for number in main.outputs}
    )


SLOW_TRANSPOSE = FAULTS.add(
    "slow_transpose",
    "MatMul",
    "",
    SLOW,
    _turns_columns,
    {(3, 2): "slow"},
    "A MatMul that writes its columns along another axis than the last takes a reference kernel",
    "the MatMul, then a view or copy",
)


@SLOW_TRANSPOSE.example({(3, 2): "right"})
def product_with_columns_first(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 4, 5, 6)), g.input("w", "f32", (2, 4, 6, 7)))
    turned = g.static_transpose(product, order=(0, 3, 1, 2))
    return g.static_reshape(turned, shape=(2, 140), special_zero=False)


def _pools_int8(fused: Fused) -> str:
    """A pool between Dequantize and Quantize, of channels first, or with two scales."""
    for pool in fused.of("AvgPool", "MaxPool"):
        source = next((use for use in fused.of("Dequantize") if use.outputs == pool.inputs[:1]), None)
        target = next((use for use in fused.of("Quantize") if use.inputs == pool.outputs), None)
        if source is None or target is None:
            continue
        if pool.call.string("data_format") == "NCX":
            return f"oneDNN has a reference kernel only for {pool.kind} of int8 with channels first"
        if pool.kind == "MaxPool" and _scaling(source) != _scaling(target):
            return "oneDNN has a reference kernel only for MaxPool of int8 between two scales"
    return ""


def _scaling(use: Use) -> tuple[object, ...]:
    return tuple(use.call.f32s("scales")), tuple(use.call.s64s("zps") or ())


SLOW_POOL = FAULTS.add(
    "slow_pool",
    "AvgPool MaxPool",
    "",
    SLOW,
    _pools_int8,
    {(3, 2): "slow"},
    "A pool of int8 with channels first takes a reference kernel, as does a MaxPool between two scales",
    "the pool in f32",
)


@SLOW_POOL.example({(3, 2): "right"})
def pool_of_int8_with_channels_first(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (1, 4, 6, 6)), scales=[0.5], zps=[0])
    pooled = g.op("MaxPool", src, {**POOL, "data_format": "NCX"})
    return g.quantize(pooled, dtype="u8", scales=[0.5], zps=[0])


def _adds_late(fused: Fused) -> str:
    """A Convolution of few channels in each group that adds a residual behind another op."""
    for post in post_ops(fused):
        main = post.main
        if post.adds and post.place > 0 and main.kind == "Convolution" and not _is_int8(main, fused):
            source = main.shape(0)[channel_axis(len(main.result), main.call.string("data_format"))]
            if main.call.s64("groups") > 1 or source < FEW_CHANNELS:
                return "oneDNN has a reference kernel only for a Convolution of few channels with a residual so late"
    return ""


FEW_CHANNELS = 16
SLOW_RESIDUAL = FAULTS.add(
    "slow_late_residual",
    "Convolution",
    "",
    SLOW,
    _adds_late,
    {(3, 2): "slow"},
    "A Convolution of few channels, or of groups, adds a residual fast only before all other ops",
    "the ops before and behind in kernels of their own",
)


@SLOW_RESIDUAL.example({(3, 2): "right"})
def convolution_of_colours_and_a_residual_behind_tanh(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 6, 6, 3)), g.input("w", "f32", (3, 3, 3, 16))
    return g.add(g.tanh(g.op("Convolution", ends, IMAGE)), g.input("y", "f32", (1, 4, 4, 16)))


# Elementwise ops that plain C++ computes as fast as memory gives the elements.
CHEAP = frozenset(["Abs", "Clamp", "LeakyReLU", "ReLU", "Round", "Square"])

SLOW_INTERPOLATE = FAULTS.add(
    "slow_interpolate",
    "Interpolate",
    "",
    SLOW,
    lambda fused: any(post.main.kind == "Interpolate" and post.use.kind not in CHEAP for post in post_ops(fused)),
    {(3, 2): "slow"},
    "oneDNN runs the ops behind an Interpolate element by element",
    "the Interpolate, and the ops behind it in kernels of their own, except the cheapest",
)


@SLOW_INTERPOLATE.example({(3, 2): "right"})
def image_of_twice_the_size_and_gelu(g: DataGraph) -> LogicalTensor:
    attrs = {"mode": "nearest", "sizes": [8, 8], "data_format": "NCX"}
    return g.gelu(g.op("Interpolate", g.input("x", "f32", (1, 4, 4, 4)), attrs))


SLOW_ROW = FAULTS.add(
    "slow_pool_of_rows",
    "AvgPool MaxPool",
    "",
    SLOW,
    lambda fused: any(
        post.main.kind in POOLS and len(post.main.result) == 3 and post.main.call.string("data_format") == "NCX"
        for post in post_ops(fused)
    ),
    {(3, 2): "slow"},
    "A pool along one axis with channels first is slower with an op behind it",
    "the pool, and the ops behind it in kernels of their own",
)


@SLOW_ROW.example({(3, 2): "right"})
def pool_of_rows_and_a_number(g: DataGraph) -> LogicalTensor:
    attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "kernel": [2], "data_format": "NCX"}
    return g.add(g.op("MaxPool", g.input("x", "f32", (1, 4, 9)), attrs), g.input("y", "f32", (1,)))


def _is_deep(fused: Fused) -> bool:
    """Whether a Convolution in int8 has one channel in each group, and three spatial axes."""
    return any(
        main.call.s64("groups") == main.result[channel_axis(5, main.call.string("data_format"))]
        for main in fused.of("Convolution")
        if len(main.result) == 5 and _is_int8(main, fused)
    )


SLOW_DEPTHWISE = FAULTS.add(
    "slow_depthwise_volume",
    "Convolution",
    "",
    SLOW,
    lambda fused: fused.has("Dequantize", "Convolution") and _is_deep(fused),
    {(3, 2): "slow"},
    "A Convolution of volumes in int8 with a channel in each group takes a reference kernel, or one for any groups",
    "the Convolution in floats",
)


@SLOW_DEPTHWISE.example({(3, 2): "right"})
def volumes_of_int8_channel_by_channel(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (1, 4, 4, 4, 8)), scales=[0.5], zps=[0])
    weights = g.dequantize(g.input("w", "s8", (2, 2, 2, 1, 8)), scales=[0.5], zps=[0])
    return g.op("Convolution", [src, weights], {**VOLUME, "groups": 8})


class Cut(NamedTuple):
    """Why a partition is slow, and how many of its first ops are to be one without the others."""

    reason: str
    place: int


def slow_fusion(fused: Fused, version: Release) -> Cut | None:
    """Where a library of ``version`` computes ops faster in two parts; None where it does not."""
    if not FAULTS.reason(fused.kinds, fused, version):
        return None
    for place in range(1, len(fused.uses)):
        first = replace(fused, uses=fused.uses[: place + 1])
        if reason := FAULTS.reason(first.kinds, first, version):
            return Cut(reason, place)
    return None
