"""What a version of oneDNN has: spellings, ops without a kernel, types that every CPU takes."""

from __future__ import annotations

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset import kinds
from ..opset.schema import Call
from .fault import LACKS, Faults, Release, always

# The texts and the C header spell these one way, the library takes only the other.
LIBRARY_VALUES = {
    "auto_pad": {"none": "None", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
}
# Ops that place elements and compute nothing: the library has them in every float type, on every CPU; from 3.5 on, not
# Concat, which numpy runs as fast as it would run the casts.
PLACING = kinds.PLACING | {"TypeCast"}

CAPABILITIES = Faults[Call]()

NO_KERNEL = CAPABILITIES.add(
    "no_kernel",
    ops="BiasAddBackward Pow Reciprocal",
    where="kind",
    severity=LACKS,
    when=always,
    seen={(3, 2): "unsupported"},
    reason="the op has no partition of its own: it is taken in a fusion alone",
    instead="other ops, or numpy",
)


@NO_KERNEL.example()
def pow_alone(g: DataGraph) -> LogicalTensor:
    return g.op("Pow", [g.input("x", "f32", (4,))], {"beta": 3.0})


@NO_KERNEL.example()
def bias_gradient_alone(g: DataGraph) -> LogicalTensor:
    return g.op("BiasAddBackward", [g.input("d", "f32", (2, 3, 4))])


@NO_KERNEL.example()
def reciprocal_alone(g: DataGraph) -> LogicalTensor:
    return g.op("Reciprocal", [g.exp(g.input("x", "f32", (4,)))])


NO_SELECT = CAPABILITIES.add(
    "no_select",
    ops="Select",
    where="kind",
    severity=LACKS,
    when=always,
    seen={(3, 2): "unsupported", (3, 4): "unsupported", (3, 5): "right"},
    reason="Select has no partition of its own before 3.5",
    instead="onegraph's own kernel",
)


@NO_SELECT.example()
def select_alone(g: DataGraph) -> LogicalTensor:
    return g.op("Select", [g.input("c", "boolean", (4,)), g.input("x", "f32", (4,)), g.input("y", "f32", (4,))])


def has_kernel(kind: str, version: Release) -> bool:
    """Whether a library of ``version`` has a partition for the op alone."""
    return not CAPABILITIES.affecting(frozenset([kind]), version)
