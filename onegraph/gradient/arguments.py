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


def tensors_of(graph: DataGraph, what: str, given: object) -> list[LogicalTensor]:
    """Tensors of the graph from one tensor or name, or a sequence of them.

    Raises:
        ArgumentError: one of them is no tensor of the graph, or no name of one.
    """
    single = has_type(given, LogicalTensor) or text(given) is not None
    several = [given] if single else elements(given)
    if several is None:
        raise ArgumentError(f"gradient: {what}: {shown(given)}; expected a tensor of this graph, or a list of tensors")
    return [_tensor(graph, what if single else f"{what}[{place}]", one) for place, one in enumerate(several)]


def _tensor(graph: DataGraph, where: str, given: object) -> LogicalTensor:
    name = text(given)
    if name is None:
        return graph._own(given, f"gradient: {where}")
    return graph._tensor_named(name, f"gradient: {where}")


def differentiable(graph: DataGraph, what: str, given: object) -> list[LogicalTensor]:
    """Like :func:`tensors_of`, for tensors of floating-point numbers.

    Raises:
        ArgumentError: a tensor has another data type.
    """
    found = tensors_of(graph, what, given)
    for tensor in found:
        if tensor.dtype not in FLOATS:
            names = "f32, bf16, f16 or float64"
            raise ArgumentError(f"gradient: {what}: {tensor.name!r} is {tensor.dtype}; expected a tensor of {names}")
    return found


def seeds_of(graph: DataGraph, outputs: Sequence[LogicalTensor], given: object) -> list[Value | None]:
    """The gradient that each output starts with; None for ones, and an array without axes for its number everywhere.

    Raises:
        ArgumentError: a gradient has another shape or data type than its output, or their numbers differ.
    """
    if given is None:
        return [None] * len(outputs)
    several = elements(given) if has_type(given, (list, tuple)) else [given]
    if several is None or len(several) != len(outputs):
        count = "one" if several is None else len(several)
        raise ArgumentError(f"gradient: grad_outputs: {count}; expected {len(outputs)}, one for each of outputs")
    return [_seed(graph, f"gradient: grad_outputs[{place}]", one, outputs[place]) for place, one in enumerate(several)]


def _seed(graph: DataGraph, where: str, given: object, output: LogicalTensor) -> Value | None:
    if given is None:
        return None
    seed: Value | None = None if has_type(given, LogicalTensor) else contents_like(where, given, output)
    if seed is None:
        seed = graph._own(given, where)
        if seed.dtype is not output.dtype:
            raise ArgumentError(f"{where}: {seed.dtype}; expected {output.dtype}, as {output.name!r} has")
    if real(given) is None and not compatible(seed.shape, output.shape):
        raise ArgumentError(f"{where}: shape {show(seed.shape)}; expected {show(output.shape)}, as {output.name!r} has")
    return seed
