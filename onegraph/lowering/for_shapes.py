"""Makes a copy of a graph for inputs of known shapes."""

from __future__ import annotations

from collections.abc import Mapping

from .._util.late_imports import import_late
from ..builder.graph import AnyGraph, DataGraph
from ..ir.op import Array
from ..opset.kinds import HOST_OPAQUE
from ..opset.signature import Shape
from ..transform.specialise import specialise

PATTERNS = "onegraph.lowering.again"  # takes 30 ms to import, for models alone


def for_shapes(
    graph: AnyGraph, shapes: Mapping[str, Shape], values: Mapping[str, Array] | None = None, *, sparing: bool = False
) -> AnyGraph:
    """The graph for inputs of known shapes; see :meth:`onegraph.Graph.specialise`, and ``specialise``."""
    before = DataGraph.copy(graph)
    specialised = specialise(before, shapes, values, sparing=sparing)
    is_model = before._is_as_read()
    if not is_model and HOST_OPAQUE.isdisjoint([op.kind for op in before._ops]):
        return specialised
    import_late(PATTERNS)
    from .again import lowered_again

    return lowered_again(specialised, is_model)
