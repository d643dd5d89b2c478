"""Puts the nodes of a graph in order, and refuses names that two values have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from ...errors import FormatError
from .protos import GraphProto, NodeProto


def in_order(nodes: Sequence[NodeProto], available: Collection[str], where: str) -> Sequence[NodeProto]:
    """The nodes, each behind those whose results it reads; nodes that are in order stay as they are.

    Args:
        nodes: the nodes of a graph or of a function.
        available: the names of its inputs and initializers.
        where: the place of the graph, for errors.

    Raises:
        FormatError: two values have one name, or nodes read the results of each other.
    """
    makers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers:
                maker_place = place_of(nodes[makers[name]], makers[name], where)
                raise FormatError(
                    place_of(node, number, where), f"output {name!r}, as of {maker_place}", "a name for each value"
                )
            if name in available:
                raise FormatError(
                    place_of(node, number, where), f"output {name!r}, as of an input", "a name for each value"
                )
            makers[name] = number
    reads = [{makers[name] for name in read_by(node) if name in makers} for node in nodes]
    if all(max(before, default=-1) < number for number, before in enumerate(reads)):
        return nodes
    try:
        return [nodes[number] for number in _sorted(reads)]
    except CycleError as error:
        circle = [place_of(nodes[number], number, where) for number in error.args[1][1:]]
        text = f"a result of {circle[0]}" if len(circle) == 1 else f"results of each other: {', '.join(circle)}"
        raise FormatError(circle[0], f"reads {text}", "nodes without a cycle") from None


def _sorted(reads: Sequence[set[int]]) -> Iterator[int]:
    """The numbers of the nodes in an order that stays near to the old one."""
    sorter = TopologicalSorter(dict(enumerate(reads)))
    sorter.prepare()
    while sorter.is_active():
        for number in sorted(sorter.get_ready()):
            yield number
            sorter.done(number)


def place_of(node: NodeProto, number: int, where: str) -> str:
    """The place of a node in errors."""
    return f"{where}node {node.name or number!r} ({node.op_type})"


def read_by(node: NodeProto) -> list[str]:
    """The names of the values that a node reads, also inside of its graphs."""
    return [name for name in (*node.input, *captured(node)) if name]


def graphs_of(node: NodeProto) -> list[GraphProto]:
    """The graphs in the attributes of a node."""
    return [
        graph
        for attribute in node.attribute
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)
    ]


def captured(node: NodeProto) -> list[str]:
    """Names of outer values that the graphs of a node read."""
    names: list[str] = []
    for graph in graphs_of(node):
        inner = {one.name for one in (*graph.input, *graph.initializer)}
        inner.update(name for one in graph.node for name in one.output)
        names += [name for one in graph.node for name in read_by(one) if name not in inner]
        names += [one.name for one in graph.output if one.name not in inner]
    return names
