"""Computes the host ops in numpy, in the data types of their tensors."""

from __future__ import annotations

from collections.abc import Callable

from ...opset.schema import Schema
from . import arithmetic, foreign, indexing, movement

# Reshapes, slices and the like return a view where numpy can.
VIEWS = frozenset(["Reshape", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Expand"])


def host_function(schema: Schema) -> Callable[..., object]:
    """The numpy function of a host op; KeyError if there is none."""
    name = schema.name.removeprefix("host_")
    for module in (arithmetic, movement, indexing, foreign):
        function: Callable[..., object] | None = getattr(module, name, None) or getattr(module, f"{name}_", None)
        if function is not None:
            return function
    raise KeyError(schema.kind)
