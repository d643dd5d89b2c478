"""Defines the op that another package computes on the host."""

from __future__ import annotations

from itertools import islice

from ..schema import Call
from ..signature import Attribute, Shape, rows
from ..traits import Trait
from .types import ALL_NAMES, host

MAX_OUTPUTS = 16
VARIABLES = [f"T{number}" for number in range(MAX_OUTPUTS)]


def stated_shapes(call: Call) -> tuple[Shape, ...]:
    """The shapes in the attribute, with None for what is unknown before the op runs."""
    shapes: list[Shape] = []
    numbers = iter(call.s64s("shapes"))
    for rank in numbers:
        shapes.append(None if rank < 0 else tuple(None if dim < 0 else dim for dim in islice(numbers, rank)))
    return (*shapes, *[None] * (MAX_OUTPUTS - len(shapes)))


OPS = (
    host(
        "OnnxNode",
        "Runs ONNX nodes whose ops depend on what a run alone knows: the reader of models lowers and computes them.",
        "src:any*?",
        "dst:T0 " + " ".join(f"dst_{number}:T{number}?" for number in range(1, MAX_OUTPUTS)),
        rows(" ".join(VARIABLES), " ".join([ALL_NAMES] * MAX_OUTPUTS)),
        stated_shapes,
        (
            Attribute("model", "str", "The nodes as a serialized ONNX model, in base64.", required=True),
            Attribute("nodes", "str", "The kinds of the nodes, for reports.", required=True),
            Attribute(
                "shapes",
                "s64[]",
                "Shapes of the outputs: for each the rank and the dims; -1 is an unknown rank or dim.",
                default=(),
            ),
            Attribute(
                "shape_inputs",
                "s64[]",
                "Indices of the inputs whose contents decide the shapes, and by which ops the nodes run.",
                default=(),
            ),
            Attribute("draws", "bool", "Whether the nodes draw random numbers, anew in each run.", default=False),
        ),
        traits=Trait.OPAQUE,
    ),
)
