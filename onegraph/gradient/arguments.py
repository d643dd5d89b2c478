"""Makes tensors of the arguments of ``gradient``, and refuses arguments that have no gradient."""

from __future__ import annotations

from collections.abc import Sequence

from .._util.exact_types import elements, has_type, real, text
from ..builder.graph import DataGraph
from ..builder.operators import contents_like
from ..errors import ArgumentError, shown
from ..ir.op import LogicalTensor
from ..lowering.emitter import Value
from ..opset.shapes import compatible, show
from .use import FLOATS


def tensors_of(graph: DataGraph, argument_name: str, argument: object) -> list[LogicalTensor]:
    """Tensors of the graph from one tensor or name, or a sequence of them.

    Raises:
        ArgumentError: one of them is no tensor of the graph, or no name of one.
    """
    single = has_type(argument, LogicalTensor) or text(argument) is not None
    several = [argument] if single else elements(argument)
    if several is None:
        raise ArgumentError(
            f"gradient: {argument_name}: {shown(argument)}; expected a tensor of this graph, or a list of tensors"
        )
    return [
        _tensor(graph, argument_name if single else f"{argument_name}[{place}]", one)
        for place, one in enumerate(several)
    ]


def _tensor(graph: DataGraph, where: str, argument: object) -> LogicalTensor:
    name = text(argument)
    if name is None:
        return graph._own(argument, f"gradient: {where}")
    return graph._tensor_named(name, f"gradient: {where}")


def differentiable(graph: DataGraph, argument_name: str, argument: object) -> list[LogicalTensor]:
    """Like :func:`tensors_of`, for tensors of floating-point numbers.

    Raises:
        ArgumentError: a tensor has another data type.
    """
    tensors = tensors_of(graph, argument_name, argument)
    for tensor in tensors:
        if tensor.dtype not in FLOATS:
            names = "f32, bf16, f16 or float64"
            raise ArgumentError(
                f"gradient: {argument_name}: {tensor.name!r} is {tensor.dtype}; expected a tensor of {names}"
            )
    return tensors


def seeds_of(graph: DataGraph, outputs: Sequence[LogicalTensor], argument: object) -> list[Value | None]:
    """The gradient that each output starts with; None for ones, and an array without axes for its number everywhere.

    Raises:
        ArgumentError: a gradient has another shape or data type than its output, or their numbers differ.
    """
    if argument is None:
        return [None] * len(outputs)
    several = elements(argument) if has_type(argument, (list, tuple)) else [argument]
    if several is None or len(several) != len(outputs):
        count = "one" if several is None else len(several)
        raise ArgumentError(f"gradient: grad_outputs: {count}; expected {len(outputs)}, one for each of outputs")
    return [_seed(graph, f"gradient: grad_outputs[{place}]", one, outputs[place]) for place, one in enumerate(several)]


def _seed(graph: DataGraph, where: str, argument: object, output: LogicalTensor) -> Value | None:
    if argument is None:
        return None
    seed: Value | None = None if has_type(argument, LogicalTensor) else contents_like(where, argument, output)
    if seed is None:
        seed = graph._own(argument, where)
        if seed.dtype is not output.dtype:
            raise ArgumentError(f"{where}: {seed.dtype}; expected {output.dtype}, as {output.name!r} has")
    if real(argument) is None and not compatible(seed.shape, output.shape):
        raise ArgumentError(f"{where}: shape {show(seed.shape)}; expected {show(output.shape)}, as {output.name!r} has")
    return seed
