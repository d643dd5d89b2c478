"""Makes a copy of a graph for inputs of known shapes."""

from __future__ import annotations

from collections.abc import Mapping

from .._util.late_imports import import_late
from ..builder.graph import AnyGraph, DataGraph
from ..ir.op import Array
from ..opset.signature import Shape
from ..transform.specialise import specialise

PATTERNS = "onegraph.lowering.again"  # takes 30 ms to import, for models alone


def for_shapes(graph: AnyGraph, shapes: Mapping[str, Shape], values: Mapping[str, Array] | None = None) -> AnyGraph:
    """The graph for inputs of known shapes; see :meth:`onegraph.Graph.specialise`."""
    before = DataGraph.copy(graph)
    found = specialise(before, shapes, values)
    if not before._is_as_read():
        return found
    import_late(PATTERNS)
    from .again import lowered_again

    return lowered_again(found)
