"""Examines the arguments of ``load`` beside the inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import ArgumentError
from .protos import ValueInfoProto


def refuse_unknown(inputs: Sequence[ValueInfoProto], shapes: Mapping[str, object], known: Mapping[str, object]) -> None:
    """Raise ArgumentError if a shape or a value is of no input."""
    names = {input_.name for input_ in inputs}
    dims = {dim.dim_param for input_ in inputs for dim in input_.type.tensor_type.shape.dim if dim.dim_param}
    sizes = {name for name, given in shapes.items() if isinstance(given, int)}
    for argument_name, unknown_or_known, expected in (
        ("shapes", shapes.keys() - sizes, names),
        ("shapes", sizes, dims),
        ("values", known.keys(), names),
    ):
        if unknown_or_known - expected:
            kind = "named dims" if expected is dims else "inputs"
            raise ArgumentError(
                f"{argument_name}: {sorted(unknown_or_known - expected)}; expected names of {kind}: {sorted(expected)}"
            )
