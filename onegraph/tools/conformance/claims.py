"""Lists where pages and the rules of onegraph differ: what pages allow beyond the rules, and what they do not speak of.

Each claim makes, from a right use, the use that the page allows.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._util.records import record
from ...opset.errata.correction import ATTRIBUTES, INPUTS, OUTPUTS
from ...opset.schema import Schema
from .uses import ProbedUse

FORWARD_NORMS = frozenset(["LayerNorm", "GroupNorm"])
NORMS = FORWARD_NORMS | {"LayerNormBackward"}


@record(frozen=True)
class Claim:
    """What a page allows.

    Attributes:
        name: unique name.
        ops: the ops, in the base vocabulary.
        section, where, printed: the place, and what it prints.
        value: what is tried.
        meant: the correction, as a sentence.
        change: makes the use from a right one; None if it does not fit.
    """

    name: str
    ops: frozenset[str]
    section: str
    where: str
    printed: str
    value: str
    meant: str
    change: Callable[[ProbedUse], ProbedUse | None]


def _gamma_alone(use: ProbedUse) -> ProbedUse | None:
    affine = use.attrs.get("use_affine", True) and len(use.picks) in (3, 6)
    return use.having(use_affine=False).taking(len(use.picks) - 1) if affine else None


def _one_statistic(use: ProbedUse) -> ProbedUse | None:
    return use.giving(2) if not use.attrs.get("keep_stats", True) else None


def _one_gradient(use: ProbedUse) -> ProbedUse | None:
    return use.giving(2) if use.attrs.get("use_affine", True) else None


def _no_gradients(use: ProbedUse) -> ProbedUse | None:
    return use.giving(1) if use.attrs.get("use_affine", True) else None


def _one_zero_point(use: ProbedUse) -> ProbedUse | None:
    several = use.attrs.get("qtype") == "per_channel" and "zps" in use.attrs
    return use.having(zps=list(use.attrs["zps"])[:1]) if several else None


CLAIMS = (
    Claim(
        "one_zero_point",
        frozenset(["Quantize", "Dequantize"]),
        ATTRIBUTES,
        "zps",
        "A s64 list (only contain one element if qtype is per_tensor)",
        "one zero point beside several scales",
        "Print that zps has as many elements as scales.",
        _one_zero_point,
    ),
    Claim(
        "gamma_alone",
        NORMS,
        INPUTS,
        "number of inputs",
        "gamma and beta each optional; both required if use_affine is true",
        "gamma without beta, with use_affine false",
        "Print that gamma and beta are given both or neither.",
        _gamma_alone,
    ),
    Claim(
        "one_statistic",
        FORWARD_NORMS,
        OUTPUTS,
        "number of outputs",
        "mean and variance each optional; both required if keep_stats is true",
        "mean without variance, with keep_stats false",
        "Print that mean and variance are given both or neither.",
        _one_statistic,
    ),
    Claim(
        "one_gradient",
        frozenset(["LayerNormBackward"]),
        OUTPUTS,
        "number of outputs",
        "diff_gamma and diff_beta each optional",
        "diff_gamma without diff_beta",
        "Print that diff_gamma and diff_beta are given both or neither.",
        _one_gradient,
    ),
    Claim(
        "no_gradients",
        frozenset(["LayerNormBackward"]),
        OUTPUTS,
        "number of outputs",
        "diff_gamma and diff_beta optional, whatever use_affine is",
        "diff_src alone, with use_affine true",
        "Print that diff_gamma and diff_beta are required if use_affine is true.",
        _no_gradients,
    ),
)


def _other_ranks(schema: Schema, use: ProbedUse) -> bool:
    """Whether scales or zero points are no vectors, on a page without groups, which says that they are vectors."""
    return not schema.has_attribute("group_shape") and any(array.ndim != 1 for array in use.arrays[1:])


# Uses that onegraph takes, and the pages of an edition without a dialect forbid or do not speak of, by op.
UNSPOKEN: dict[str, Callable[[Schema, ProbedUse], bool]] = {
    # The legacy edition reverses the axes for an empty order.
    "StaticTranspose": lambda _, use: not len(use.attrs["order"]),
    # No page says which of the two counts.
    "Interpolate": lambda _, use: len(use.picks) > 1 and "sizes" in use.attrs,
    "DynamicQuantize": _other_ranks,
    "DynamicDequantize": _other_ranks,
}
