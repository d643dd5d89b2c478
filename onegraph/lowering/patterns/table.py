"""Has the table of patterns, what they ask about the ops that were added, and the same op with other inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..._util.open_numbers import has_open_numbers
from ...ir.op import LogicalTensor, Op
from ...opset.kinds import CASTS, SOFTMAXES
from ..emitter import Array, Emitter, Rewrite, Rewrites, Value

TYPED = SOFTMAXES | CASTS | {"Quantize"}  # ops whose result has a data type of its own
REWRITES = Rewrites({}, {})
OF_KNOWN_DIMS = Rewrites({}, {})


def rewrites(*kinds: str, early: bool = False, of_known_dims: bool = False) -> Callable[[Rewrite], Rewrite]:
    """Enter a pattern into the table, by the kinds of its last op.

    Args:
        kinds: the kinds, each with one result and a data type that follows from the inputs if ``early``.
        early: whether the pattern gets the op before it is examined and added, without results; its attributes are
            as the caller gave them and may be wrong.
        of_known_dims: whether the pattern is tried again once dims are known that were not when a model was read. It
            must make no weights, of which each size would have its own.
    """
    tables = [
        rewrite_table.early if early else rewrite_table.late
        for rewrite_table in (REWRITES, *([OF_KNOWN_DIMS] if of_known_dims else []))
    ]

    def enter(function: Rewrite) -> Rewrite:
        for kind in dict.fromkeys(kinds):  # a kind may be one of the specification and a host op
            for table in tables:
                table.setdefault(kind, []).append(function)
        return function

    return enter


def number(value: Value | None) -> float | None:
    """The number that a known value of one element has; else None, as for a number that open sizes decide."""
    constant = contents(value)
    if constant is None or constant.size != 1 or has_open_numbers(constant):
        return None
    return float(constant.ravel()[0])


def contents(value: Value | None) -> Array | None:
    """The known array of a value; None for other tensors."""
    if isinstance(value, LogicalTensor):
        return value.value
    return value


def known_inputs(op: Op) -> list[Array] | None:
    """All inputs of an op but the first, if they are known."""
    arrays = [contents(input_) for input_ in op.inputs[1:]]
    constants = [array for array in arrays if array is not None]
    return constants if len(constants) == len(arrays) else None


def ends_of(op: Op) -> tuple[LogicalTensor, LogicalTensor]:
    """The two inputs of an op."""
    return operand_of(op), operand_of(op, 1)


def either(op: Op) -> Iterator[tuple[LogicalTensor, LogicalTensor]]:
    """The two inputs of an op in both orders."""
    first, second = ends_of(op)
    yield first, second
    yield second, first


def made(emit: Emitter, value: Value | None, *kinds: str) -> Op | None:
    """The op that makes a value, if it is of one of these kinds."""
    op = emit.maker(value)
    return op if op is not None and op.kind in kinds else None


def operand_of(op: Op, index: int = 0) -> LogicalTensor:
    """Input ``index``, which is required."""
    input_ = op.inputs[index]
    assert input_ is not None
    return input_


def listed(value: object) -> Sequence[object]:
    """An attribute that is a list."""
    assert isinstance(value, tuple)
    return value


def again(emit: Emitter, op: Op, inputs: Sequence[Value | None], **attrs: object) -> Value:
    """The op with other inputs and attributes."""
    dtype = op.outputs[0].dtype if op.kind in TYPED else None
    return emit.op(op.kind, inputs, {**op.attrs, **attrs}, dtype=dtype, edition=op.edition)
