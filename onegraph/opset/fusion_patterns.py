"""Defines the documented fusion patterns as data: an op, and what may follow it in one partition.

Source: oneDNN developer guide. Up to 3.8 it has a table of patterns, since 3.9 a page for each. The patterns of
quantized ops, of attention and of gated MLPs, which are no chains, are in :mod:`onegraph.opset.fusion_graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from .._util.init_once import made_once
from .._util.records import record
from .dtypes import NEVER
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
FIRST: Version = (3, 2)  # the first guide with a table of patterns
PAGES: Version = (3, 9)  # the first guide with a page for each pattern
MANY: Version = (3, 10)  # the first guide that allows 20 ops behind the first
ADDRESS = "https://github.com/uxlfoundation/oneDNN/blob/v3.13/doc/graph/fusion_patterns/{}.md"
TABLE_ADDRESS = "https://github.com/uxlfoundation/oneDNN/blob/v3.6/doc/graph/supported_patterns.md"
OF_TABLE = "the table of patterns of "  # how the names of patterns of the table begin
Attrs = Mapping[str, Any]


class Stage(NamedTuple):
    """What may follow at one place of a chain: ops of these kinds, up to ``most`` of them."""

    name: str
    kinds: tuple[str, ...]
    most: int = 1

    def takes(self, kind: str, used: int) -> bool:
        """Whether an op may follow once ``used`` ops stand here."""
        return kind in self.kinds and used < self.most


class PatternLimit(NamedTuple):
    """What a page rules out for an op of the pattern, and the test of its attributes and of the kinds behind it."""

    text: str
    holds: Callable[[str, Attrs, Sequence[str]], bool]


@made_once
@record(frozen=True)
class FusionPattern:
    """A documented pattern: an op and, in this order, what may follow it.

    Attributes:
        name: the name of the pattern's page; of a pattern of the table, what it is of.
        heads: the ops that the pattern may start with.
        stages: what may follow; every stage may be left out.
        dtypes: data types of the first op.
        following: data types of its result with which anything may follow.
        conversions: what a TypeCast may convert, as (from, to); None for any pair of floats.
        limits: what the page rules out.
        since, until: the first guide that has the pattern in this form, and the first that has it no more.
    """

    name: str
    heads: tuple[str, ...]
    stages: tuple[Stage, ...]
    dtypes: tuple[str, ...] = FLOATS
    following: tuple[str, ...] = FLOATS
    conversions: tuple[tuple[str, str], ...] | None = None
    limits: tuple[PatternLimit, ...] = field(default_factory=tuple)
    since: Version = MANY
    until: Version = NEVER

    @property
    def page(self) -> str:
        """Address of the page."""
        return TABLE_ADDRESS if self.name.startswith(OF_TABLE) else ADDRESS.format(self.name)


BIAS = Stage("bias", ("BiasAdd",))
EPILOGUE = Stage("epilogue", (*BINARY, *UNARY), 20)
FEW = EPILOGUE._replace(most=4)
SELECT = Stage("select", ("Select",))
FLOAT_RESULT = Stage("conversion to another float", ("TypeCast",))
QUANTIZED_RESULT = Stage("quantization", ("Quantize",))


def _no_ceil_with_pads(kind: str, attrs: Attrs, following: Sequence[str]) -> bool:
    return kind == "AvgPool" and attrs.get("rounding_type") == "ceil" and attrs.get("exclude_pad") is False


def _other_coordinates(kind: str, attrs: Attrs, following: Sequence[str]) -> bool:
    return bool(attrs.get("coordinate_transformation_mode", "half_pixel") != "half_pixel")


def _more_than_relu(kind: str, attrs: Attrs, following: Sequence[str]) -> bool:
    return kind == "BatchNormInference" and tuple(following) not in ((), ("ReLU",))


def _general(name: str, *heads: str, limits: tuple[PatternLimit, ...] = ()) -> FusionPattern:
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
        (BIAS, EPILOGUE, SELECT, FLOAT_RESULT),
        following=("f32",),
    ),
    _general("binary_fusion_patterns", *BINARY),
    _general("unary_fusion_patterns", *UNARY),
    _general("reduction_fusion_patterns", *REDUCTIONS),
    _general(
        "pool_fusion_patterns",
        "AvgPool",
        "MaxPool",
        limits=(PatternLimit("AvgPool with rounding_type ceil and exclude_pad False", _no_ceil_with_pads),),
    ),
    _general(
        "interpolate_fusion_patterns",
        "Interpolate",
        limits=(PatternLimit("coordinate_transformation_mode other than half_pixel", _other_coordinates),),
    ),
    FusionPattern(
        "norm_fusion_patterns",
        ("GroupNorm", "LayerNorm", "BatchNormInference"),
        (FLOAT_RESULT, EPILOGUE, QUANTIZED_RESULT),
        limits=(PatternLimit("after BatchNormInference anything but one ReLU", _more_than_relu),),
    ),
    FusionPattern(
        "softmax_fusion_patterns",
        ("SoftMax",),
        (EPILOGUE, FLOAT_RESULT, QUANTIZED_RESULT),
        following=("f32",),
        conversions=(("f32", "bf16"), ("f32", "f16")),
        since=(3, 11),
    ),
)


def _of_first_pages(pattern: FusionPattern) -> FusionPattern:
    """A pattern as the first guide with pages has it: with four ops behind the first."""
    stages = tuple(FEW if stage is EPILOGUE else stage for stage in pattern.stages)
    return replace(pattern, stages=stages, since=PAGES, until=MANY)


def _softmax(epilogue: Stage, since: Version, until: Version) -> FusionPattern:
    """SoftMax before 3.11: the conversion to another float stands in front, and no data type is ruled out."""
    stages = (FLOAT_RESULT, epilogue, QUANTIZED_RESULT)
    return FusionPattern("softmax_fusion_patterns", ("SoftMax",), stages, since=since, until=until)


_SAME = [pattern for pattern in PATTERNS if pattern.heads not in (("MatMul",), ("SoftMax",))]
FIRST_PAGES = (
    *map(_of_first_pages, _SAME),
    FusionPattern("matmul_fusion_patterns", ("MatMul",), (BIAS, FEW, SELECT), since=PAGES, until=MANY),
    _softmax(FEW, PAGES, MANY),
    _softmax(EPILOGUE, MANY, (3, 11)),
)

# The table ------------------------------------------------------------------------------------------------------------

TABLE_UNARY = (*(kind for kind in UNARY if kind not in ("HardSigmoid", "Mish")), "Pow")
_OPERANDS = Stage("binary ops", BINARY, 3)
_ANY = Stage("unary and binary ops", (*BINARY, *TABLE_UNARY), 3)


def _row(
    of: str, heads: Sequence[str], *stages: Stage, since: Version = FIRST, until: Version = PAGES
) -> FusionPattern:
    return FusionPattern(f"{OF_TABLE}{of}", tuple(heads), stages, since=since, until=until)


TABLE = (
    _row("Convolution", ["Convolution"], BIAS, Stage("batch normalization", ("BatchNormInference",)), _ANY),
    _row("ConvTranspose", ["ConvTranspose"], BIAS, _ANY),
    _row("Interpolate", ["Interpolate"], _ANY),
    _row("MatMul", ["MatMul"], BIAS, _ANY, until=(3, 5)),
    _row("MatMul with Select", ["MatMul"], BIAS, _ANY, SELECT, since=(3, 5)),
    _row("reductions", REDUCTIONS, _ANY),
    _row("unary ops", TABLE_UNARY, _OPERANDS),
    _row("binary ops", BINARY, _ANY),
    _row("pools", ["AvgPool", "MaxPool"], _OPERANDS),
    _row("BatchNormInference", ["BatchNormInference"], Stage("activation", ("ReLU",))),
    _row("Reciprocal", ["Reciprocal"], Stage("product", ("Multiply",))),
    _row("Reorder", ["Reorder"], Stage("sum", ("Add",))),
    _row("norms", ["SoftMax", "LayerNorm", "GroupNorm"], _ANY, QUANTIZED_RESULT, since=(3, 5)),
)
EVERY_PATTERN = (*TABLE, *FIRST_PAGES, *PATTERNS)


def patterns_of(version: Version) -> tuple[FusionPattern, ...]:
    """The patterns that the guide of a version has."""
    return tuple(pattern for pattern in EVERY_PATTERN if pattern.since <= version < pattern.until)


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


def matches(
    kinds: Sequence[str], attrs: Attrs | None = None, patterns: Sequence[FusionPattern] = PATTERNS
) -> list[Match]:
    """How far each documented pattern covers a chain of ops, the best first; none if no pattern starts with the op.

    Args:
        kinds: the op and the ops behind it, each reading the result of the one before.
        attrs: attributes of the first op; empty by default.
        patterns: those of the newest guide by default.
    """
    matching = [_match(pattern, kinds, attrs or {}) for pattern in patterns if kinds[0] in pattern.heads]
    return sorted(matching, key=lambda match: -match.length)


def first_guide(kinds: Sequence[str]) -> Version | None:
    """The first version whose guide has a pattern of the whole chain; None if no guide has one."""
    versions = sorted({pattern.since for pattern in EVERY_PATTERN})
    return next((one for one in versions if any(not m.missing for m in matches(kinds, None, patterns_of(one)))), None)


def missing_in_guide(kinds: Sequence[str], version: Version) -> str:
    """Why the guide of a version has no pattern of a chain of ops, and which later one has; empty if it has one."""
    best = next(iter(matches(kinds, None, patterns_of(version))), None)
    if best is not None and not best.missing:
        return ""
    since = first_guide(kinds)
    later = f"; the guide has it since {since[0]}.{since[1]}" if since is not None and since > version else ""
    missing = f"the guide of oneDNN {version[0]}.{version[1]} has no pattern that begins with {kinds[0]}"
    return (missing if best is None else best.missing) + later


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
