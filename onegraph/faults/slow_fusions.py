"""Fused ops that oneDNN computes right with a reference kernel: 1.5 to 2,000 times as long as in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.ops.movement import transposition
from .fault import SLOW, Faults, Release
from .operands import is_fast, varying
from .use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, ELEMENTWISE, MOVES, POOLS, Dims, Fused, Use

FAULTS = Faults[Fused]()
WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
INT8 = (DataType.s8, DataType.u8)
# Ops that compute nothing: they belong to the kernel before or behind them.
CARRIED = DEQUANTIZATIONS | MOVES | {"Quantize", "BiasAdd", "BatchNormInference"}
POST_OPS = ELEMENTWISE | (BINARY - {"BiasAdd"})
# Kernels that never add a whole operand to what the memory of the result holds.
WITHOUT_SUM = ELEMENTWISE | POOLS | {"SoftMax", "LogSoftmax"}


@dataclass(frozen=True)
class PostOp:
    """An elementwise or binary op that the kernel of another op computes too.

    Attributes:
        main: the other op.
        use: the op.
        joined: its inputs that ``main`` computes, by number.
        operand: the index of its input that ``main`` does not compute; None without such an input.
        anew: whether another main op computes one of these inputs.
        kept: data type in which memory keeps the operand.
        dst: data type in which the kernel writes its result.
        adds: whether it adds a whole operand to the memory of the result, as one op behind each main op may.
    """

    main: Use
    use: Use
    joined: frozenset[int]
    anew: bool
    operand: int | None
    kept: DataType
    dst: DataType
    adds: bool

    @property
    def shape(self) -> Dims:
        """Shape of the operand, with as many axes as the result; () without one."""
        if self.operand is None:
            return ()
        found = self.use.shape(self.operand)
        return (1,) * (len(self.main.result) - len(found)) + found


def post_ops(fused: Fused) -> Iterator[PostOp]:
    """The ops behind the main ops of a partition. What another convolution computes is no operand."""
    heads: dict[int, Use] = {}  # the main op that computes a value
    kept: dict[int, DataType] = {}  # for a value that is no result of a main op, the data type in memory
    found: list[tuple[Use, Use, list[int]]] = []
    written: dict[int, DataType] = {}  # by id of a main op, the data type of a Quantize behind it
    for use in fused.uses:
        ends = [number for number in use.inputs if number in heads]
        head = heads[ends[-1]] if ends else None
        if use.kind in CARRIED and (head is not None or use.inputs[0] not in heads):
            if head is None:
                kept[use.outputs[0]] = kept.get(use.inputs[0], _dtype(use, 0))
                continue
            if use.kind == "Quantize":
                written[id(head)] = use.dtype
        elif head is None or use.kind not in POST_OPS:
            head = use
        else:
            found.append((head, use, ends))
        heads.update((number, head) for number in use.outputs)
    added: set[int] = set()
    for main, use, ends in found:
        dst = written.get(id(main), main.dtype)
        others = [index for index, number in enumerate(use.inputs) if number not in ends]
        operand = others[0] if others else None
        dtype = dst if operand is None else kept.get(use.inputs[operand], _dtype(use, operand))
        whole = operand is not None and use.shape(operand) == main.result
        adds = use.kind == "Add" and whole and id(main) not in added and main.kind not in WITHOUT_SUM
        adds = adds and (dtype is dst or dtype in INT8)
        if adds:
            added.add(id(main))
        anew = any(heads[number] is not main for number in ends)
        yield PostOp(main, use, frozenset(ends), anew, operand, dtype, dst, adds)


def _dtype(use: Use, index: int) -> DataType:
    tensor = use.call.inputs[index]
    assert tensor is not None
    assert tensor.dtype is not None
    return tensor.dtype


# Operands of binary ops ----------------------------------------------------------------------------------------------


def _joins_slow_operand(fused: Fused) -> str:
    for post in post_ops(fused):
        if post.operand is not None and _is_slow(post):
            both, shape = f"{post.main.kind} + {post.use.kind}", list(post.use.shape(post.operand))
            return f"oneDNN has a reference kernel only for {both} with an operand of shape {shape}"
    return ""


def _is_slow(post: PostOp) -> bool:
    """Whether the main op and a binary op with an operand behind it are slow as one."""
    main, result, shape = post.main, post.main.result, post.shape
    if post.adds or len(shape) > len(result):
        return False
    if main.call.schema.category == "elementwise":
        is_swish = main.kind == "Sigmoid" and post.use.kind == "Multiply"
        return not (is_swish and post.operand is not None and post.use.inputs[post.operand] in main.inputs)
    if main.kind == "SoftMax":
        return True
    varies = varying(result, shape)
    is_vector, is_whole = any(varies) and not any(varies[:-1]), shape == result
    if is_vector and ((main.kind in BINARY and len(result) > 2) or (main.kind == "MatMul" and len(result) > 4)):
        return True
    if main.kind == "MatMul" and len(main.shape(1)) > 2 and _takes_turns(varies):
        return True
    if is_whole:
        return main.kind in CONVOLUTIONS | {"Interpolate"} and main.call.string("data_format") == "NCX"
    return not is_fast(varies)


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
    for main in {id(post.main): post.main for post in post_ops(fused)}.values():
        if main.kind in BINARY - {"BiasAdd", "PReLU", "Select"}:
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


SLOW_CONV_TRANSPOSE = FAULTS.add(
    "slow_conv_transpose",
    "ConvTranspose",
    "",
    SLOW,
    lambda fused: any(post.main.kind == "ConvTranspose" and not _is_int8(post.main, fused) for post in post_ops(fused)),
    {(3, 2): "slow"},
    "oneDNN runs the ops behind a ConvTranspose element by element",
    "the ConvTranspose with its bias, and the ops behind it in kernels of their own",
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
    return g.relu(g.op("ConvTranspose", ends, WINDOW))


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
