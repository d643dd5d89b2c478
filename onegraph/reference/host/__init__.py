"""Computes the host ops in numpy, in the data types of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...errors import ArgumentError, OutOfMemoryError
from ...ir.op import Array, Op
from ...opset.kinds import host_kinds
from ...opset.schema import Call, Schema
from ...opset.traits import Trait
from . import (
    arithmetic,
    attention,
    collective,
    control,
    detection,
    foreign,
    indexing,
    learned,
    movement,
    packed,
    quantization,
    recurrence,
)

# Reshapes, slices and the like return a view where numpy can.
VIEWS = host_kinds(Trait.VIEW)

# Ops that kernels of the package compute.
KERNELS = frozenset(
    [
        *("Attention", "AttentionBackward", "CachedAttention", "Classify", "ExtendCache", "LinearAttention"),
        *(
            "LookUp",
            "PackedExperts",
            "PackedGather",
            "PackedMatMul",
            "Recurrence",
            "Rotary",
            "TreeEnsemble",
            "WeightedGather",
            "CountTuples",
            "DynamicQuantizeLinear",
            "Erf",
            "FakeQuantize",
        ),
    ]
)

# Ops that change a few elements of a copy of their first input.
CHANGES = frozenset(["ScatterElements", "ScatterND"])

# Ops whose functions write into the array ``out``: those that change a copy, so that it is made once, and those that
# work on memory which other processes change.
INTO = CHANGES | {"AllReduceStart", "AllReduceDone"}


def host_function(schema: Schema) -> Callable[..., object]:
    """The numpy function of a host op; KeyError if there is none."""
    name = schema.name.removeprefix("host_")
    for module in (
        arithmetic,
        movement,
        indexing,
        detection,
        attention,
        recurrence,
        packed,
        quantization,
        learned,
        collective,
        foreign,
        control,
    ):
        function: Callable[..., object] | None = getattr(module, name, None) or getattr(module, f"{name}_", None)
        if function is not None:
            return function
    raise KeyError(schema.kind)


def computed_on_host(
    op: Op, function: Callable[..., object], call: Call, arrays: Sequence[Array | None]
) -> tuple[Array, ...]:
    """The results of a host op.

    Raises:
        OutOfMemoryError: there is not enough memory.
        ArgumentError: the contents of an input do not fit, such as an index out of range.
    """
    try:
        returned = function(call, *arrays)
    except MemoryError as error:
        raise OutOfMemoryError("numpy", "out_of_memory", f"{op.kind} {op.name!r}: {error}") from None
    except (IndexError, ValueError, TypeError) as error:
        raise ArgumentError(f"{op.kind} {op.name!r}: {error}") from None
    results = returned if isinstance(returned, tuple) else (returned,)
    return tuple([np.asarray(result) for result in results[: len(op.outputs)]])
