"""What oneDNN gets wrong of reductions."""

from __future__ import annotations

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset import kinds
from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call
from ..fault import LIBRARY, Build, Faults

FAULTS = Faults[Call](where="axes", severity=LIBRARY)
REDUCTIONS = " ".join(sorted(kinds.REDUCTIONS))
_THROWS = {
    (3, 2): "throws could not create a primitive descriptor for a reduction",
    (3, 13): "throws could not create a primitive",
}

AXES_TENSOR = FAULTS.add(
    "axes_tensor",
    ops=REDUCTIONS,
    when=lambda call: call.input("axes") is not None,
    seen={(3, 2): "refuses add_op: invalid_graph_op"},
    reason="axes as an input are always rejected, because the default of the attribute counts as given; use the "
    "attribute",
    instead="the attribute, where the contents of the tensor are known",
)


@AXES_TENSOR.example()
def axes_as_a_tensor(g: DataGraph) -> LogicalTensor:
    return g.op("ReduceSum", [g.input("x", "f32", (3, 4)), g.constant(np.array([0], np.int32))])


def known_reduction(call: Call) -> tuple[int | None, ...]:
    """The sizes of the axes that a reduction goes over; none where they are not known."""
    axes, shape = reduced_axes(call), call.shape("src")
    return () if axes is None or shape is None else tuple(shape[axis] for axis in axes)


SIZE_ONE_REDUCTION = FAULTS.add(
    "size_one_reduction",
    ops=REDUCTIONS,
    when=lambda call: set(known_reduction(call)) == {1},
    seen=_THROWS,
    reason="a reduction over axes that all have size 1 throws at compile",
    instead="other ops, such as Abs or a reshape",
)


def _over_an_axis_of_size_1(kind: str) -> Build:
    def build(g: DataGraph) -> LogicalTensor:
        return g.op(kind, [g.input("x", "f32", (3, 1, 4))], {"axes": [1]})

    build.__name__ = f"{kind.removeprefix('Reduce').lower()}_over_an_axis_of_size_1"
    return build


for _kind in sorted(kinds.REDUCTIONS):
    SIZE_ONE_REDUCTION.example()(_over_an_axis_of_size_1(_kind))


EMPTY_REDUCTION = FAULTS.add(
    "empty_reduction",
    ops=REDUCTIONS,
    when=lambda call: reduced_axes(call) == (),
    seen={(3, 2): "unsupported"},
    reason="a reduction over no axes has no kernel",
    instead="other ops, such as Abs or a copy",
)


@EMPTY_REDUCTION.example()
def sum_over_no_axes(g: DataGraph) -> LogicalTensor:
    return g.op("ReduceSum", [g.input("x", "f32", (1, 3))], {"axes": []})
