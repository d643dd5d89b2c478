"""Finds the partitions that the library makes of a graph, for users who want to see them."""

from __future__ import annotations

from ..builder.graph import DataGraph
from ..capi import Partition
from .lower import lower
from .runnable import refuse_wildcards
from .to_capi import capi_graph


def library_partitions(graph: DataGraph, policy: str) -> list[Partition]:
    """The partitions that the library makes of a graph; views and reference ops are unsupported partitions."""
    refuse_wildcards(graph)
    return capi_graph(lower(graph), "strict")[0].partitions(policy)
