"""Makes tensors of the arguments of ``onegraph.training``, and refuses tensors that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .._util.exact_types import elements, has_type, real, text
from .._util.validation import number
from ..builder.graph import DataGraph, expect_graph
from ..errors import ArgumentError, shown
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.shapes import compatible, show
from ..opset.signature import Shape

FLOATS = (DataType.f32, DataType.bf16, DataType.f16)
INTEGERS = (DataType.s32, DataType.s64, DataType.s8, DataType.u8)

MOST = 3e38  # of f32


def tensor_of(graph: DataGraph, where: str, argument: object, dtypes: Collection[DataType] = FLOATS) -> LogicalTensor:
    """A tensor of the graph of one of some data types, given as it is or by its name.

    Raises:
        ArgumentError: the value is no tensor of the graph, or has another data type.
    """
    expect_graph(graph)
    name = text(argument)
    tensor = graph._own(argument, where) if name is None else graph._tensor_named(name, where)
    if tensor.dtype not in dtypes:
        names = ", ".join(dtype.name for dtype in dtypes)
        raise ArgumentError(f"{where}: {tensor.name!r} is {tensor.dtype}; expected {names}")
    return tensor


def tensors_of(
    graph: DataGraph, where: str, argument: object, dtypes: Collection[DataType] = FLOATS
) -> list[LogicalTensor]:
    """Tensors of the graph from a list or tuple of them, which is not empty.

    Raises:
        ArgumentError: it is no list of tensors of the graph of these data types.
    """
    several = elements(argument)
    if not several:
        raise ArgumentError(f"{where}: {shown(argument)}; expected a list of tensors of this graph")
    return [tensor_of(graph, f"{where}[{place}]", one, dtypes) for place, one in enumerate(several)]


def expect_free(graph: DataGraph, where: str, targets: Sequence[LogicalTensor]) -> None:
    """Raise ArgumentError unless each tensor is another variable of the graph, and has no next value."""
    assigned = {*graph.assignments}
    for place, tensor in enumerate(targets):
        name, label = tensor.name, f"{where}[{place}]" if len(targets) > 1 else where
        if graph.variables.get(name) is not tensor:
            names = ", ".join(graph.variables) or "none"
            raise ArgumentError(f"{label}: {name!r} is not a variable; the variables are {names}")
        if name in assigned:
            raise ArgumentError(f"{label}: {name!r} is assigned already; it becomes one tensor after a call")
        assigned.add(name)


def expect_shape(where: str, tensor: LogicalTensor, shape: Shape, why: str) -> None:
    """Raise ArgumentError unless a tensor can have a shape."""
    if not compatible(tensor.shape, shape):
        raise ArgumentError(f"{where}: shape {show(tensor.shape)}; expected {show(shape)}, {why}")


def expect_rank(where: str, tensor: LogicalTensor) -> None:
    """Raise ArgumentError unless the number of axes of a tensor is known, as a sum over all of them needs it."""
    if tensor.shape is None:
        raise ArgumentError(f"{where}: {tensor.name!r} has an unknown rank; expected a known number of axes")


def rate_of(name: str, rate: object) -> float | LogicalTensor:
    """A learning rate: a number from 0, or a tensor, which is checked when the graph is known.

    Raises:
        ArgumentError: it is neither.
    """
    if has_type(rate, LogicalTensor):
        return rate
    if real(rate) is None:
        raise ArgumentError(f"{name}: {shown(rate)}; expected a number, or a tensor of the graph")
    return number(name, rate, 0, MOST)


def two_numbers(name: str, argument: object, low: float, high: float) -> tuple[float, float]:
    """Two numbers in a range.

    Raises:
        ArgumentError: it is no pair of such numbers.
    """
    pair = elements(argument)
    if pair is None or len(pair) != 2:
        raise ArgumentError(f"{name}: {shown(argument)}; expected two numbers")
    return number(f"{name}[0]", pair[0], low, high), number(f"{name}[1]", pair[1], low, high)
