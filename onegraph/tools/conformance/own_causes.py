"""Lists causes of disagreements that no known fault has: uses that the library refuses, and why."""

from __future__ import annotations

from collections.abc import Callable

from ..._util.records import record
from ...opset.errata.correction import ATTRIBUTES, INPUTS, TYPES
from ...opset.kinds import NORMALIZATIONS
from ...opset.ops.pooling import pool_geometry
from .uses import ProbedUse


@record(frozen=True)
class Cause:
    """What the library refuses.

    Attributes:
        name: unique name.
        ops: the ops, in the base vocabulary.
        section, where: the place on the page.
        when: whether a use runs into it.
        printed: what the page prints about it.
        meant: the correction, as a sentence.
    """

    name: str
    ops: frozenset[str]
    section: str
    where: str
    when: Callable[[ProbedUse], bool]
    printed: str
    meant: str


def _rounds_up(use: ProbedUse) -> bool:
    """Whether diff_dst has more windows along an axis than a pool that rounds down has."""
    geometry = pool_geometry(use.call)
    if geometry is None:
        return False
    sizes = zip(geometry.windows, geometry.sizes, geometry.counts, strict=True)
    return any(w is not None and size is not None and count is not None and count > w.forward(size)
               for w, size, count in sizes)  # fmt: skip


def _bf16_parameters(use: ProbedUse) -> bool:
    """Whether the source is of bf16, and the vectors beside it, too."""
    return len(use.picks) > 1 and {*use.dtypes} == {"bf16"}


def _other_accumulation(use: ProbedUse) -> bool:
    return use.attrs.get("accumulation_mode") in ("f32", "s32", "f16")


OWN: tuple[Cause, ...] = (
    Cause(
        "gradient_of_rounding_up",
        frozenset(["AvgPoolBackward", "MaxPoolBackward"]),
        INPUTS,
        "diff_dst",
        _rounds_up,
        "no attribute rounding_type, and nothing about the shape of diff_dst",
        "Print that diff_dst has the shape of a pool that rounds down; pads_end must grow for one that rounds up.",
    ),
    Cause(
        "bf16_parameters",
        NORMALIZATIONS - {"RMSNorm"},
        TYPES,
        "data types",
        _bf16_parameters,
        "bf16 beside f32 for gamma, beta, mean and variance, with a source of bf16",
        "Print f32 alone for gamma, beta, mean and variance.",
    ),
    Cause(
        "accumulation_types",
        frozenset(["MatMul"]),
        ATTRIBUTES,
        "accumulation_mode",
        _other_accumulation,
        "accumulation_mode: strict (default), relaxed, any, f32, s32, f16",
        "Print which of f32, s32 and f16 the CPU kernels take for which data types.",
    ),
)
