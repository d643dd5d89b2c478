"""Examines the functions of a model, and puts the attributes of a call into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ...errors import FormatError
from .order import graphs_of
from .protos import AttributeProto, FunctionProto, NodeProto

DOMAINS = {"ai.onnx": ""}  # other names of domains
MAX_NODES = 200_000  # after all functions are expanded and loops unrolled


def domain_of(name: str) -> str:
    """The name of a domain, of which the default has two."""
    return DOMAINS.get(name, name)


def refuse_recursion(functions: Mapping[tuple[str, str], FunctionProto], nodes: Sequence[NodeProto]) -> None:
    """Raise FormatError if a function of the model calls itself, or stands for too many nodes.

    The package onnx expands functions without a limit.
    """
    calls = {name: [*_calls(function.node)] for name, function in functions.items()}
    order = TopologicalSorter({name: set(found) & calls.keys() for name, found in calls.items()})
    sizes: dict[tuple[str, str], int] = {}
    try:
        for name in order.static_order():
            sizes[name] = sum(1 + sizes.get(one, 0) for one in calls[name])
    except CycleError as error:
        domain, name = error.args[1][0]
        raise FormatError(f"function {name!r} of {domain!r}", "a call of itself", "no recursion") from None
    if sum(1 + sizes.get(one, 0) for one in _calls(nodes)) > MAX_NODES:
        raise FormatError("functions", f"more than {MAX_NODES} nodes in all", "fewer nodes")


def _calls(nodes: Sequence[NodeProto]) -> Iterator[tuple[str, str]]:
    """Domain and kind of each node, with those in subgraphs."""
    for node in nodes:
        yield domain_of(node.domain), node.op_type
        for graph in graphs_of(node):
            yield from _calls(graph.node)


def with_attributes(proto: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """A node of a function with the attributes of the call in the place of references, also in its subgraphs."""
    made = NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for attribute_ in proto.attribute:
        if attribute_.ref_attr_name and attribute_.ref_attr_name not in attributes:
            continue
        attribute = made.attribute.add()
        attribute.CopyFrom(attributes[attribute_.ref_attr_name] if attribute_.ref_attr_name else attribute_)
        attribute.name = attribute_.name
        for graph in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
            inner = [with_attributes(node, attributes) for node in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return made
