"""The ops behind other ops in a partition: which of them become part of one kernel of oneDNN, and how."""

from __future__ import annotations

from functools import lru_cache

from .._util.records import record
from ..opset.dtypes import DataType
from ..opset.window import channel_axis
from .use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, ELEMENTWISE, FOLDED, MOVES, NORMS, POOLS, Dims, Fused, Use

INT8 = (DataType.s8, DataType.u8)
# Ops that compute nothing: they belong to the kernel before or behind them.
CARRIED = DEQUANTIZATIONS | MOVES | FOLDED | {"Quantize"}
# Ops on images, with the channels on one of two axes.
IMAGES = CONVOLUTIONS | POOLS | {"Interpolate"}
POST_OPS = ELEMENTWISE | (BINARY - {"BiasAdd"})
# Kernels that never add a whole operand to what the memory of the result holds.
WITHOUT_SUM = ELEMENTWISE | NORMS | POOLS | {"SoftMax", "LogSoftmax"}


@record(frozen=True)
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
    return _post_ops(tuple(fused.uses))


@lru_cache(maxsize=1)  # each rule asks for those of the same ops
def _post_ops(uses: tuple[Use, ...]) -> list[PostOp]:
    written = written_types(uses)
    heads: dict[int, Use] = {}  # the main op that computes a value
    kept: dict[int, DataType] = {}  # for a value that is no result of a main op, the data type in memory
    places: dict[int, int] = {}  # by id of a main op, the number of ops in its kernel so far
    roots: dict[int, Use] = {}  # by id of a main op, the one that begins its chain of kernels
    turned: set[int] = set()  # ids of main ops that write channels last
    added: set[int] = set()  # ids of main ops that add an operand to the memory of the result
    posts: list[PostOp] = []
    for use in uses:
        ends = [number for number in use.inputs if number in heads]
        head = heads[ends[-1]] if ends else None
        if use.kind in CARRIED:
            if head is None:
                kept[use.outputs[0]] = kept.get(use.inputs[0], dtype_of(use, 0))
                continue
        elif head is None or use.kind not in POST_OPS:
            head = use
            if use.kind in IMAGES and use.call.string("data_format") == "NCX":
                turned.add(id(use))
        else:
            operands = [index for index, number in enumerate(use.inputs) if number not in ends]
            operand = operands[0] if operands else None
            shape = () if operand is None else _padded(use.shape(operand), len(use.result))
            is_joined = operand is None or _joins(head, shape)
            place, turns = places.get(id(head), 0), id(head) in turned
            adds = is_joined and use.kind == "Add" and shape == use.result and id(head) not in added
            if adds and operand is not None:
                dtype, dst = (
                    kept.get(use.inputs[operand], dtype_of(use, operand)),
                    written.get(use.outputs[0], use.dtype),
                )
                adds = head.kind not in WITHOUT_SUM and (dtype is dst or dtype in INT8)
            anew = len({id(roots.get(id(heads[number]), heads[number])) for number in ends}) > 1
            posts.append(PostOp(head, use, frozenset(ends), anew, operand, adds, place, turns, is_joined))
            if not is_joined:
                roots[id(use)] = roots.get(id(head), head)
                head = use
                turned.update([id(use)] if turns else [])
            elif adds:
                added.add(id(head))
            places[id(head)] = places.get(id(head), 0) + is_joined
        heads.update((number, head) for number in use.outputs)
    return posts


def written_types(uses: tuple[Use, ...]) -> dict[int, DataType]:
    """The data type in which the kernel of a value writes its last result, where a cast behind it changes that."""
    dtypes: dict[int, DataType] = {}
    for use in reversed(uses):
        dtype = dtypes.get(use.outputs[0], use.dtype if use.kind in ("Quantize", "TypeCast") else None)
        if dtype is not None:
            dtypes.update((number, dtype) for number in use.inputs)
    return dtypes


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


def dtype_of(use: Use, index: int) -> DataType:
    """Data type of input ``index``."""
    tensor = use.call.inputs[index]
    assert tensor is not None
    assert tensor.dtype is not None
    return tensor.dtype


def is_int8(main: Use, fused: Fused) -> bool:
    """Whether a main op computes in int8: a Dequantize makes its weights, perhaps in front of a TypeCast."""
    makers = {number: use for use in fused.uses for number in use.outputs}
    maker = makers.get(main.inputs[1])
    while maker is not None and maker.kind in MOVES:
        maker = makers.get(maker.inputs[0])
    return maker is not None and maker.kind in DEQUANTIZATIONS
