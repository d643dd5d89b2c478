"""What oneDNN computes right with a reference kernel: 20 to 2,000 times as long as the way around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from .fault import SLOW, Faults, Release
from .operands import is_fast, varying
from .use import BINARY, CONVOLUTIONS, ELEMENTWISE, Dims, Fused, Use

# Broadcast operands of single binary ops -----------------------------------------------------------------------------

BROADCASTS = Faults[tuple[Dims, Dims]]()
SLOW_BROADCAST = BROADCASTS.add(
    "slow_broadcast",
    BINARY,
    "src_1",
    SLOW,
    lambda shapes: not is_fast(varying(*shapes)),
    {(3, 2): "slow"},
    "A binary op has a reference kernel only for an operand that is broadcast along some axes between others",
    "the same op on fewer axes, where neighbours are one axis",
)


@SLOW_BROADCAST.example({(3, 2): "right"})
def operand_along_every_other_axis(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (2, 3, 4, 5)), g.input("y", "f32", (2, 1, 4, 1)))


# Fused ops -----------------------------------------------------------------------------------------------------------

SLOW_FUSIONS = Faults[Fused]()


def _binaries(uses: Sequence[Use]) -> Iterator[tuple[Use, set[int], set[int], set[int]]]:
    """The ops behind the first, and which of their inputs come from it.

    Beside each op and these inputs, all values that come from the first op, and those of them that come from another
    convolution, which is a kernel anew. A BiasAdd joins nothing.
    """
    derived, anew = set(uses[0].outputs), set[int]()
    for use in uses[1:]:
        joined = derived.intersection(use.inputs) if use.kind in BINARY - {"BiasAdd"} else set()
        yield use, joined, derived, anew
        if use.kind in CONVOLUTIONS or anew.intersection(use.inputs):
            anew.update(use.outputs)
        derived.update(use.outputs)


def _joins_slow_operand(fused: Fused) -> str:
    main = fused.uses[0]
    for use, joined, derived, _ in _binaries(fused.uses):
        for index, number in enumerate(use.inputs if joined else ()):
            if number not in derived and _is_slow(main, use.kind, number, use.shape(index)):
                both, shape = f"{main.kind} + {use.kind}", list(use.shape(index))
                return f"oneDNN has a reference kernel only for {both} with an operand of shape {shape}"
    return ""


def _joins_itself(fused: Fused) -> str:
    producers = {number: use for use in fused.uses for number in use.outputs}
    for use, joined, _, anew in _binaries(fused.uses):
        if len(joined) > 1 and not joined & anew:
            for other in (producers[number] for number in joined):
                swish = (other.kind, use.kind) == ("Sigmoid", "Multiply")
                if other.kind in ELEMENTWISE and not swish:
                    return f"oneDNN has a reference kernel only for {other.kind} + {use.kind} of one tensor"
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


SLOW_OPERAND = SLOW_FUSIONS.add(
    "slow_operand",
    BINARY,
    "",
    SLOW,
    _joins_slow_operand,
    {(3, 2): "slow"},
    "Some operands behind another op take a reference kernel, most of all behind elementwise ops and SoftMax",
    "the ops one by one",
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


SLOW_PAIR = SLOW_FUSIONS.add(
    "slow_pair",
    BINARY,
    "",
    SLOW,
    _joins_itself,
    {(3, 2): "slow"},
    "A binary op of which both inputs come from one tensor takes a reference kernel behind an elementwise op",
    "the ops one by one",
)


@SLOW_PAIR.example({(3, 2): "right"})
def product_of_a_tensor_and_its_tanh(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6)))
    return g.multiply(product, g.tanh(product))


def slow_fusion(fused: Fused, version: Release) -> str:
    """Why the ops are faster one by one with a library of ``version``, empty where they are not."""
    return SLOW_FUSIONS.reason(fused.kinds, fused, version)
