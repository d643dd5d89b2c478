"""Defines the host ops: ops that whole models need and the specification lacks, with records like its own.

They are the edition ``host``. No other edition contains them, so checking a graph against an edition names them. Their
numpy functions are in :mod:`onegraph.reference.host`.
"""

from . import (
    arithmetic,
    attention,
    collective,
    control,
    detection,
    foreign,
    indexing,
    learned,
    linear_attention,
    logic,
    movement,
    packed,
    quantization,
    recurrence,
    reduction,
)

CATEGORIES = (
    arithmetic.OPS,
    logic.OPS,
    movement.OPS,
    indexing.OPS,
    detection.OPS,
    attention.OPS,
    linear_attention.OPS,
    recurrence.OPS,
    packed.OPS,
    quantization.OPS,
    learned.OPS,
    reduction.OPS,
    collective.OPS,
    foreign.OPS,
    control.OPS,
)
