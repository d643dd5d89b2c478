"""Has the lowerings that users give to custom ops of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..._util.counted import counted
from ..._util.validation import function as callable_of
from ...errors import ArgumentError, UnsupportedError, shown
from ...graph import Graph
from ...ir.op import LogicalTensor
from .node import LOWERINGS, AtenNode, is_op

OF_PYTORCH = ("aten", "prims", "onegraph")


class CustomCall(NamedTuple):
    """A call of a custom op, as a registered function sees it.

    Attributes:
        name: of the op, such as ``mine.scale.default``.
        graph: the graph that the function adds ops to.
        args: the arguments by the names in the op's schema: a tensor of the graph for each tensor, lists of them, and
            numbers, texts and None as they are.
        like: what the call returns, as fake tensors of PyTorch with shapes and data types.
    """

    name: str
    graph: Graph
    args: Mapping[str, Any]
    like: Any


def register(op: object, function: Callable[[CustomCall], Any] | None) -> None:
    """Give a custom op of PyTorch a lowering, for modules that are compiled or exported from then on.

    The op is one that ``torch.library`` made, with a fake implementation, so that PyTorch knows what a call returns.

    Args:
        op: the overload, such as ``torch.ops.mine.scale.default``.
        function: takes a :class:`CustomCall`, adds ops to its graph, and returns a tensor, or a list of one for each
            result. None removes the lowering; PyTorch then runs the op.

    Raises:
        ArgumentError: ``op`` is no overload, or one of PyTorch's own.
    """
    if not is_op(op):
        raise ArgumentError(f"op: {shown(op)}; expected an overload, such as torch.ops.mine.scale.default")
    name = str(op)
    if name.partition(".")[0] in OF_PYTORCH:
        raise ArgumentError(f"op: {name}; expected an op of a namespace of your own")
    if function is None:
        LOWERINGS.pop(name, None)
        return
    callable_of("function", function)
    registered = function
    LOWERINGS[name] = lambda node: _results(node, registered)


def _results(node: AtenNode, function: Callable[[CustomCall], Any]) -> Any:
    graph: Any = node.emit.graph
    args = {name: _argument(node, node[name]) for name in node.fakes}
    returned = function(CustomCall(node.name, graph, args, node.like))
    results = [*returned] if isinstance(returned, (tuple, list)) else [returned]
    wanted = len(node.like) if type(node.like) in (tuple, list) else 1
    if len(results) != wanted or not all(isinstance(result, LogicalTensor) for result in results):
        text = f"{node.name}: its registered function returns {counted(len(results), 'result')}"
        raise UnsupportedError(f"{text}; expected a tensor of the graph for each of {wanted}")
    return results if type(node.like) in (tuple, list) else results[0]


def _argument(node: AtenNode, value: Any) -> Any:
    """An argument of a registered function: tensors of the graph in the place of arrays, also in lists."""
    if type(value) in (list, tuple):
        return [_argument(node, one) for one in value]
    return node.emit.tensor(value) if hasattr(value, "shape") else value
