"""Finds the partitions that the library makes of a graph, for users who want to see them."""

from __future__ import annotations

from ..builder.graph import DataGraph
from ..capi import Partition
from .lower import lower
from .runnable import refuse_wildcards
from .special_values import keep_special_values
from .to_capi import capi_graph


def library_partitions(graph: DataGraph, policy: str) -> list[Partition]:
    """The partitions that the library makes of a graph compiled with ``finite_math=True``.

    Views, and ops that the library does not run, are unsupported partitions.
    """
    refuse_wildcards(graph)
    lowered = keep_special_values(lower(graph, finite_math=True), finite_math=True)
    return capi_graph(lowered, "strict")[0].partitions(policy)
