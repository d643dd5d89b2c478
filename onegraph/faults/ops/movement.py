"""What oneDNN gets wrong of ops that move elements."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.schema import Call
from ..fault import LIBRARY, Faults

FAULTS = Faults[Call]()

CONCAT_LIMITS = FAULTS.add(
    "concat_limits",
    ops="Concat",
    where="inputs",
    severity=LIBRARY,
    when=lambda call: len(call.inputs) > 64 or any(t is not None and (t.rank or 0) > 6 for t in call.inputs),
    seen={(3, 2): "refuses | throws"},
    reason="at most 64 inputs of at most 6 axes are taken",
    instead="several Concats, the same op on fewer axes, or numpy",
)


@CONCAT_LIMITS.example()
def concat_of_seven_axes(g: DataGraph) -> LogicalTensor:
    shape = (1, 2, 1, 2, 1, 2, 3)
    return g.op("Concat", [g.input("x", "f32", shape), g.input("y", "f32", shape)], {"axis": 1})


@CONCAT_LIMITS.example()
def concat_of_sixty_five_inputs(g: DataGraph) -> LogicalTensor:
    return g.op("Concat", [g.input(f"x{number}", "f32", (2,)) for number in range(65)], {"axis": 0})
