"""Finds the partitions that the library makes of a graph, for users who want to see them."""

from __future__ import annotations

from ..builder.graph import DataGraph
from ..capi import Partition
from .lower import lower
from .options import Options
from .passes import run_passes
from .runnable import refuse_wildcards
from .to_capi import capi_graph


def library_partitions(graph: DataGraph, policy: str) -> list[Partition]:
    """The partitions that the library makes of a graph compiled with ``finite_math=True``.

    Views, and ops that the library does not run, are unsupported partitions.
    """
    refuse_wildcards(graph)
    options = Options("debug", finite_math=True)
    lowered = run_passes(lower(graph, finite_math=True), options, names=["special_values"])
    return capi_graph(lowered, "strict")[0].partitions(policy)
