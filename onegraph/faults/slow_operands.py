"""Operands of binary ops for which fused ops have a reference kernel of oneDNN: 10 to 2,000 times slower than apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.signature import Version
from .fault import SLOW, Fault, Faults
from .operands import is_fast, varying
from .ops.windows import IMAGE
from .post_ops import IMAGES, PostOp, post_ops
from .use import BINARY, ELEMENTWISE, NORMS, Fused, Use

FAULTS = Faults[Fused]()
Slow = Callable[[PostOp, Sequence[bool]], bool]
APART = "the ops before and behind in kernels of their own"


def _slow_operand(
    name: str, seen: Mapping[Version, str], reason: str, is_slow: Slow, any_rank: bool = False
) -> Fault[Fused]:
    """A fault of binary ops for whose operands ``is_slow`` holds; it gets the axes along which the operand varies.

    With ``any_rank`` an op between may have given the result more axes than the main op has.
    """

    def when(fused: Fused) -> str:
        for post in post_ops(fused):
            if post.operand is None or not (any_rank or _rank(post.use) == _rank(post.main)):
                continue
            if not post.adds and is_slow(post, varying(post.use.result, post.shape)):
                kinds, shape = f"{post.main.kind} + {post.use.kind}", list(post.use.shape(post.operand))
                return f"oneDNN has a reference kernel only for {kinds} with an operand of shape {shape}"
        return ""

    return FAULTS.add(name, ops=BINARY, where="", severity=SLOW, when=when, seen=seen, reason=reason, instead=APART)


def _rank(use: Use) -> int:
    return len(use.result)


def _is_swish(post: PostOp) -> bool:
    """Whether a Sigmoid and its source are multiplied."""
    assert post.operand is not None
    is_named = (post.main.kind, post.use.kind) == ("Sigmoid", "Multiply")
    return is_named and post.use.inputs[post.operand] in post.main.inputs


ELEMENTWISE_OPERAND = _slow_operand(
    "slow_operand_behind_elementwise",
    {(3, 2): "slow"},
    "The kernel of an elementwise op computes no binary op; a swish it knows as one op",
    lambda post, varies: post.is_joined and post.main.kind in ELEMENTWISE and not _is_swish(post),
)


@ELEMENTWISE_OPERAND.example({(3, 2): "right"})
def relu_and_a_sum(g: DataGraph) -> LogicalTensor:
    return g.add(g.relu(g.input("x", "f32", (4, 6))), g.input("y", "f32", (4, 6)))


SOFTMAX_OPERAND = _slow_operand(
    "slow_operand_behind_softmax",
    {(3, 2): "slow", (3, 6): "right"},
    "The kernel of SoftMax computes binary ops of a single number only",
    lambda post, varies: post.main.kind == "SoftMax" and any(varies),
)


@SOFTMAX_OPERAND.example({(3, 2): "right"})
def softmax_and_a_sum(g: DataGraph) -> LogicalTensor:
    shares = g.op("SoftMax", [g.input("x", "f32", (2, 4, 6))], {"axis": -1}, outputs=["dst"], dtype="f32")
    return g.add(shares, g.input("y", "f32", (2, 4, 6)))


NORM_OPERAND = _slow_operand(
    "slow_operand_behind_norm",
    {(3, 2): "absent", (3, 6): "slow"},
    "The kernel of LayerNorm computes binary ops of a number or of a vector along the last axis only, that of GroupNorm"
    " of a number only",
    lambda post, varies: (
        post.is_joined and post.main.kind in NORMS and any(varies[:-1] if post.main.kind == "LayerNorm" else varies)
    ),
)


@NORM_OPERAND.example({(3, 2): "right"})
def layer_norm_and_a_number_for_each_row(g: DataGraph) -> LogicalTensor:
    vectors = [g.input(name, "f32", (8,)) for name in ("gamma", "beta")]
    normed = g.op("LayerNorm", [g.input("x", "f32", (2, 4, 8)), *vectors], {"keep_stats": False})
    return g.multiply(normed, g.input("y", "f32", (4, 1)))


MATMUL_COLUMN = _slow_operand(
    "slow_column_behind_matmul",
    {(3, 2): "slow"},
    "The kernel of MatMul computes binary ops of some broadcast operands only",
    lambda post, varies: post.main.kind == "MatMul" and len(varies) < 5 and not is_fast(varies),
)


@MATMUL_COLUMN.example({(3, 2): "right"})
def product_and_a_column(g: DataGraph) -> LogicalTensor:
    return g.add(g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6))), g.input("y", "f32", (4, 1)))


def _takes_turns(varies: Sequence[bool]) -> bool:
    """Whether an operand of MatMul in one or two batches is one number for each, or matrices for all first batches."""
    batch, matrix = varies[:-2], varies[-2:]
    if not any(matrix):
        return all(batch)
    return all(matrix) and len(batch) > 1 and not batch[0]


MATMUL_BATCH = _slow_operand(
    "slow_operand_behind_batches",
    {(3, 2): "slow", (3, 6): "slow", (3, 13): "right"},
    "The kernel of MatMul computes no binary op of one matrix for all batches, or of one number for each",
    lambda post, varies: (
        post.main.kind == "MatMul" and len(varies) < 5 and len(post.main.shape(1)) > 2 and _takes_turns(varies)
    ),
)


@MATMUL_BATCH.example({(3, 2): "right"})
def batch_of_products_and_a_number_for_each(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 4, 5)), g.input("w", "f32", (2, 5, 6)))
    return g.add(product, g.input("y", "f32", (2, 1, 1)))


MATMUL_RANK = _slow_operand(
    "slow_operand_behind_matmul_of_rank_5",
    {(3, 2): "slow", (3, 6): "right"},
    "The kernel of MatMul with five axes computes no binary op of a vector",
    lambda post, varies: (
        post.main.kind == "MatMul" and post.is_joined and len(varies) > 4 and any(varies) and not all(varies)
    ),
)


@MATMUL_RANK.example({(3, 2): "right"})
def product_of_five_axes_and_a_vector(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 2, 3, 4, 5)), g.input("w", "f32", (2, 2, 3, 5, 6)))
    return g.add(product, g.input("y", "f32", (6,)))


BINARY_OPERAND = _slow_operand(
    "slow_vector_behind_binary",
    {(3, 2): "slow", (3, 6): "slow", (3, 13): "right"},
    "The kernel of a binary op or a reduction computes further binary ops of vectors along the second axis only",
    lambda post, varies: (
        post.main.kind not in IMAGES | ELEMENTWISE | {"SoftMax"}
        and (post.main.kind != "MatMul" or _rank(post.use) != _rank(post.main))
        and sum(varies) == 1
        and not varies[min(1, len(varies) - 1)]
    ),
    any_rank=True,
)


@BINARY_OPERAND.example({(3, 2): "right"})
def sum_and_a_vector(g: DataGraph) -> LogicalTensor:
    total = g.add(g.input("x", "f32", (2, 4, 6)), g.input("w", "f32", ()))
    return g.multiply(total, g.input("y", "f32", (6,)))


SEPARATE_OPERAND = _slow_operand(
    "slow_separate_operand",
    {(3, 2): "slow"},
    "A binary op that stays out of the kernel before is fast for some operands only",
    lambda post, varies: not post.is_joined and not is_fast(varies),
)


@SEPARATE_OPERAND.example({(3, 2): "right"})
def convolution_and_a_number_for_each_pixel_and_channel_pair(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (2, 6, 6, 4)), g.input("w", "f32", (3, 3, 4, 8))
    return g.add(g.op("Convolution", ends, IMAGE), g.input("y", "f32", (2, 4, 4, 1)))


CHANNELS_FIRST = _slow_operand(
    "slow_operand_with_channels_first",
    {(3, 2): "slow", (3, 6): "right"},
    "A Convolution or Interpolate with channels first writes them last, and joins no operand that has them first",
    lambda post, varies: post.channels_last and all(varies[1:]),
)


@CHANNELS_FIRST.example({(3, 2): "right"})
def convolution_and_a_product_with_channels_first(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 4, 6, 6)), g.input("w", "f32", (8, 4, 3, 3))
    image = g.op("Convolution", ends, {**IMAGE, "data_format": "NCX", "weights_format": "OIX"})
    return g.multiply(image, g.input("y", "f32", (1, 8, 4, 4)))
