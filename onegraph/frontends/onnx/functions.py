"""Puts the attributes of a call into the nodes of a function."""

from __future__ import annotations

from collections.abc import Mapping

from .protos import AttributeProto, NodeProto


def with_attributes(proto: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """A node of a function with the attributes of the call in the place of references, also in its subgraphs."""
    made = NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for one in proto.attribute:
        if one.ref_attr_name and one.ref_attr_name not in given:
            continue
        attribute = made.attribute.add()
        attribute.CopyFrom(given[one.ref_attr_name] if one.ref_attr_name else one)
        attribute.name = one.name
        for graph in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
            inner = [with_attributes(node, given) for node in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return made
