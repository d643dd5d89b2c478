"""Has the lowerings that users give to nodes of their own domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..._util.validation import function as callable_of
from ..._util.validation import string
from ...errors import ArgumentError, shown
from ...graph import Graph
from ...ir.op import LogicalTensor

# By domain and kind.
OWN: dict[tuple[str, str], Callable[[CustomNode], Any]] = {}
ONNX = ("", "ai.onnx", "ai.onnx.ml", "onegraph")


class CustomNode(NamedTuple):
    """A node of a domain of the user, as a registered function sees it.

    Attributes:
        kind: its kind.
        name: its name, which may be empty.
        graph: the graph that the function adds ops to.
        inputs: a tensor of the graph for each input, None for an absent one; a constant has its contents in ``value``.
        attrs: the attributes by name: numbers, texts, lists of them, and protos.
        n_outputs: the number of outputs.
    """

    kind: str
    name: str
    graph: Graph
    inputs: Sequence[LogicalTensor | None]
    attrs: Mapping[str, Any]
    n_outputs: int


def register(kind: str, function: Callable[[CustomNode], Any] | None, *, domain: str) -> None:
    """Give nodes of a domain of your own a lowering, which :func:`load` uses for all models from then on.

    Programs of models are not kept in files for later processes once a function is registered, because the file of a
    model does not say what the function adds.

    Args:
        kind: the ``op_type`` of the nodes.
        function: takes a :class:`CustomNode`, adds ops to its graph, and returns a tensor, or a list of one for each
            output. In a branch or loop that is decided in a run it gets a graph of its own, which numpy computes. None
            removes the lowering.
        domain: the domain of the nodes, which is none of ONNX's own.

    Raises:
        ArgumentError: an argument has another type, or the domain is one of ONNX's or of onegraph.
    """
    key = string("domain", domain), string("kind", kind)
    if key[0] in ONNX:
        raise ArgumentError(f"domain: {shown(domain)}; expected a domain of your own")
    if function is None:
        OWN.pop(key, None)
        return
    callable_of("function", function)
    OWN[key] = function
