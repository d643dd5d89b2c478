"""Defines the documented fusion patterns as data: an op, and what may follow it in one partition.

Source: oneDNN developer guide since 3.9, fusion patterns. The patterns of quantized ops, of attention and of gated
MLPs, which are no chains, are in :mod:`onegraph.opset.fusion_graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from .._util.init_once import made_once
from .._util.records import record
from .signature import Version

BINARY = ("Add", "Subtract", "Maximum", "Minimum", "Multiply", "Divide")
UNARY = (
    "Abs",
    "Clamp",
    "Elu",
    "Exp",
    "GELU",
    "HardSigmoid",
    "HardSwish",
    "LeakyReLU",
    "Log",
    "Mish",
    "ReLU",
    "Round",
    "Sigmoid",
    "SoftPlus",
    "Sqrt",
    "Square",
    "Tanh",
)
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
FLOATS = ("f32", "bf16", "f16")
FIRST: Version = (3, 9)  # the first guide with these pages
ADDRESS = "https://github.com/uxlfoundation/oneDNN/blob/v3.13/doc/graph/fusion_patterns/{}.md"
Attrs = Mapping[str, Any]


class Stage(NamedTuple):
    """What may follow at one place of a chain: ops of these kinds, up to ``most`` of them."""

    name: str
    kinds: tuple[str, ...]
    most: int = 1

    def takes(self, kind: str, used: int) -> bool:
        """Whether an op may follow once ``used`` ops stand here."""
        return kind in self.kinds and used < self.most


class Limit(NamedTuple):
    """What a page rules out for an op of the pattern, and the test of its attributes and of the kinds behind it."""

    text: str
    holds: Callable[[str, Attrs, Sequence[str]], bool]


@made_once
@record(frozen=True)
class FusionPattern:
    """A documented pattern: an op and, in this order, what may follow it.

    Attributes:
        name: the name of the pattern's page.
        heads: the ops that the pattern may start with.
        stages: what may follow; every stage may be left out.
        dtypes: data types of the first op.
        behind: data types of its result with which anything may follow.
        conversions: what a TypeCast may convert, as (from, to); None for any pair of floats.
        limits: what the page rules out.
        since: the first guide that has the page.
    """

    name: str
    heads: tuple[str, ...]
    stages: tuple[Stage, ...]
    dtypes: tuple[str, ...] = FLOATS
    behind: tuple[str, ...] = FLOATS
    conversions: tuple[tuple[str, str], ...] | None = None
    limits: tuple[Limit, ...] = field(default_factory=tuple)
    since: Version = FIRST

    @property
    def page(self) -> str:
        """Address of the page."""
        return ADDRESS.format(self.name)


BIAS = Stage("bias", ("BiasAdd",))
EPILOGUE = Stage("epilogue", (*BINARY, *UNARY), 20)
FLOAT_RESULT = Stage("conversion to another float", ("TypeCast",))
QUANTIZED_RESULT = Stage("quantization", ("Quantize",))


def _no_ceil_with_pads(kind: str, attrs: Attrs, behind: Sequence[str]) -> bool:
    return kind == "AvgPool" and attrs.get("rounding_type") == "ceil" and attrs.get("exclude_pad") is False


def _other_coordinates(kind: str, attrs: Attrs, behind: Sequence[str]) -> bool:
    return bool(attrs.get("coordinate_transformation_mode", "half_pixel") != "half_pixel")


def _more_than_relu(kind: str, attrs: Attrs, behind: Sequence[str]) -> bool:
    return kind == "BatchNormInference" and tuple(behind) not in ((), ("ReLU",))


def _general(name: str, *heads: str, limits: tuple[Limit, ...] = ()) -> FusionPattern:
    return FusionPattern(name, heads, (EPILOGUE,), limits=limits)


PATTERNS: tuple[FusionPattern, ...] = (
    FusionPattern(
        "convolution_fusion_patterns",
        ("Convolution",),
        (BIAS, Stage("batch normalization", ("BatchNormInference",)), EPILOGUE, FLOAT_RESULT),
        conversions=(("bf16", "f32"),),
    ),
    FusionPattern("convtranspose_fusions_patterns", ("ConvTranspose",), (BIAS, EPILOGUE)),
    FusionPattern(
        "matmul_fusion_patterns",
        ("MatMul",),
        (BIAS, EPILOGUE, Stage("select", ("Select",)), FLOAT_RESULT),
        behind=("f32",),
    ),
    _general("binary_fusion_patterns", *BINARY),
    _general("unary_fusion_patterns", *UNARY),
    _general("reduction_fusion_patterns", *REDUCTIONS),
    _general(
        "pool_fusion_patterns",
        "AvgPool",
        "MaxPool",
        limits=(Limit("AvgPool with rounding_type ceil and exclude_pad False", _no_ceil_with_pads),),
    ),
    _general(
        "interpolate_fusion_patterns",
        "Interpolate",
        limits=(Limit("coordinate_transformation_mode other than half_pixel", _other_coordinates),),
    ),
    FusionPattern(
        "norm_fusion_patterns",
        ("GroupNorm", "LayerNorm", "BatchNormInference"),
        (FLOAT_RESULT, EPILOGUE, QUANTIZED_RESULT),
        limits=(Limit("after BatchNormInference anything but one ReLU", _more_than_relu),),
    ),
    FusionPattern(
        "softmax_fusion_patterns",
        ("SoftMax",),
        (EPILOGUE, FLOAT_RESULT, QUANTIZED_RESULT),
        behind=("f32",),
        conversions=(("f32", "bf16"), ("f32", "f16")),
    ),
)


class Match(NamedTuple):
    """How far a chain of ops follows a pattern.

    Attributes:
        pattern: the pattern.
        length: number of ops of the chain that it covers, the first one included.
        missing: why the next op is not covered; empty if the whole chain is.
    """

    pattern: FusionPattern
    length: int
    missing: str


def matches(kinds: Sequence[str], attrs: Attrs | None = None) -> list[Match]:
    """How far each documented pattern covers a chain of ops, the best first; none if no pattern starts with the op.

    Args:
        kinds: the op and the ops behind it, each reading the result of the one before.
        attrs: attributes of the first op; empty by default.
    """
    found = [_match(pattern, kinds, attrs or {}) for pattern in PATTERNS if kinds[0] in pattern.heads]
    return sorted(found, key=lambda match: -match.length)


def _match(pattern: FusionPattern, kinds: Sequence[str], attrs: Attrs) -> Match:
    for limit in pattern.limits:
        if limit.holds(kinds[0], attrs, kinds[1:]):
            return Match(pattern, 1, f"{pattern.name} rules out {limit.text}")
    stage = used = 0
    for place, kind in enumerate(kinds[1:], 1):
        now, before = stage, used
        while stage < len(pattern.stages) and not pattern.stages[stage].takes(kind, used):
            stage, used = stage + 1, 0
        if stage == len(pattern.stages):
            return Match(pattern, place, _reason(pattern, kinds[place - 1], kind, now, before))
        used += 1
    return Match(pattern, len(kinds), "")


def _reason(pattern: FusionPattern, last: str, kind: str, stage: int, used: int) -> str:
    """Why a kind may not follow once ``used`` ops of a stage have been read."""
    own = next((index for index, each in enumerate(pattern.stages) if kind in each.kinds), None)
    if own is None:
        return f"{pattern.name} has no {kind}"
    if own == stage and used == pattern.stages[own].most:
        return f"{pattern.name} has at most {used} of {pattern.stages[own].name}, and this is one more {kind}"
    return f"in {pattern.name}, {kind} ({pattern.stages[own].name}) stands before {last} ({pattern.stages[stage].name})"
