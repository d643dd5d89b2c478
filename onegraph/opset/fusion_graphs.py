"""Defines the documented fusion patterns that are more than a chain as data: quantized ops, attention, gated MLP.

Source: oneDNN developer guide since 3.2, fusion patterns. Of the pages of attention, the patterns of inference with a
mask that the user gives, and of training forward without Dropout, are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from .._util.init_once import made_once
from .._util.records import record
from .dtypes import NEVER
from .fusion_patterns import ADDRESS, BINARY, FIRST, FLOATS, PAGES, TABLE_UNARY, UNARY
from .signature import Version

REAL, WIDE = "T", "f32"  # the data type of a case, and f32 in each case
CODES = ("u8", "s8")


class PatternTensor(NamedTuple):
    """An argument of a pattern: its data type, or ``T`` for that of a case, and its shape in cases."""

    dtype: str
    shape: tuple[int, ...]


class PatternOp(NamedTuple):
    """One op of a pattern.

    Attributes:
        name: of its result.
        kinds: the ops that may stand here.
        inputs: arguments of the pattern and results of other nodes.
        result: data type of the result; that of the first input by default.
        group: nodes of one group are there together or left out together; required if it has none. The first input that
            is no argument stands for the result of a node that is left out.
        attrs: attributes of the ops, by kind.
        other_inputs: the inputs of kinds that read others, by kind.
        outputs: number of results.
    """

    name: str
    kinds: tuple[str, ...]
    inputs: tuple[str, ...]
    result: str = ""
    group: str = ""
    attrs: Mapping[str, Mapping[str, Any]] = {}
    other_inputs: Mapping[str, tuple[str, ...]] = {}
    outputs: int = 1


@made_once
@record(frozen=True)
class FusionGraph:
    """A documented pattern of several ops.

    Attributes:
        name: the name of the pattern's page.
        title: the pattern of the page, in words.
        main: the op that the pattern is named after.
        arguments: what the ops read, by name.
        nodes: the ops, in an order in which they can run; the last one makes the result.
        dtypes: data types of the case.
        since: the first guide that has the pattern.
        half_since: the first guide that has it with 16 bits and f32 between the ops; NEVER if none has.
        of_pages: kinds that may stand in it since the guide has a page for each pattern.
        half: groups that are there with data types of 16 bits, and left out in f32.
    """

    name: str
    title: str
    main: str
    arguments: Mapping[str, PatternTensor]
    nodes: tuple[PatternOp, ...]
    dtypes: tuple[str, ...] = FLOATS
    since: Version = (3, 7)
    half_since: Version = NEVER
    of_pages: frozenset[str] = field(default_factory=frozenset)
    half: frozenset[str] = field(default_factory=frozenset)

    @property
    def page(self) -> str:
        """Address of the page."""
        return ADDRESS.format(self.name)

    def is_documented(self, kinds: Iterable[str], dtype: str, version: Version) -> bool:
        """Whether the guide of a version has the pattern with these ops, in a data type."""
        since = self.half_since if dtype in ("bf16", "f16") else self.since
        return version >= since and (version >= PAGES or self.of_pages.isdisjoint(kinds))

    def choices(self, dtype: str) -> Iterator[tuple[str, ...]]:
        """The kinds of the nodes in each case, empty for one that is left out.

        The cases have every optional group alone, every kind of each node, and all groups together.
        """
        kept = self.half if dtype in ("bf16", "f16") else frozenset[str]()
        groups = list(dict.fromkeys(n.group for n in self.nodes if n.group and n.group not in self.half))
        chosen = [self._chosen(kept), self._chosen(kept | {*groups})]
        chosen += [self._chosen(kept | {group}) for group in groups]
        for node in self.nodes:
            for kind in node.kinds[1:]:
                chosen.append(self._chosen(kept | {node.group}, {node.name: kind}))
        yield from dict.fromkeys(chosen)

    def _chosen(self, groups: frozenset[str], kinds: Mapping[str, str] = {}) -> tuple[str, ...]:
        return tuple(
            kinds.get(node.name, node.kinds[0]) if not node.group or node.group in groups else "" for node in self.nodes
        )


# Attention -----------------------------------------------------------------------------------------------------------

_SCORES = {"MatMul": {"transpose_b": True}}
_ROWS = {"SoftMax": {"axis": -1}}
_CHOICE = {"Select": ("allowed", "scaled", "lowest")}


def _attention(
    name: str,
    title: str,
    query: tuple[int, ...],
    key: tuple[int, ...],
    mask: tuple[int, ...],
    since: Version,
    half_since: Version = NEVER,
    *,
    stats: bool = False,
) -> FusionGraph:
    """Attention of tensors with these shapes; the scores are f32, also of operands of 16 bits."""
    rank = len(query)
    order = [0, *range(2, rank - 1), 1, rank - 1]
    moved = PatternOp(
        "moved", ("StaticTranspose",), ("out",), group="move", attrs={"StaticTranspose": {"order": order}}
    )
    joined = {"shape": [query[0], query[2], query[1] * query[3]], "special_zero": False}
    shaped = PatternOp("shaped", ("StaticReshape",), ("moved",), group="move", attrs={"StaticReshape": joined})
    last = (moved, shaped) if rank == 4 and not stats else ()
    return FusionGraph(
        name,
        title,
        "SoftMax",
        {
            "query": PatternTensor(REAL, query),
            "key": PatternTensor(REAL, key),
            "value": PatternTensor(REAL, key),
            "factor": PatternTensor(WIDE, (1,)),
            "bias": PatternTensor(WIDE, mask),
            "allowed": PatternTensor("boolean", mask),
            "lowest": PatternTensor(WIDE, (1,)),
        },
        (
            PatternOp("scores", ("MatMul",), ("query", "key"), WIDE, attrs=_SCORES),
            PatternOp("scaled", ("Divide", "Multiply"), ("scores", "factor"), group="scale"),
            PatternOp("masked", ("Add", "Select"), ("scaled", "bias"), group="mask", other_inputs=_CHOICE),
            PatternOp("weights", ("SoftMax",), ("masked",), REAL, attrs=_ROWS, outputs=1 + stats),
            PatternOp("out", ("MatMul",), ("weights", "value"), REAL),
            *last,
        ),
        since=since,
        half_since=half_since,
    )


_HEADS = (2, 3, 8, 4)
_GROUPED = (2, 2, 3, 8, 4)
ATTENTION = _attention("sdpa", "attention", _HEADS, _HEADS, (2, 1, 8, 8), (3, 6), (3, 8))
ATTENTIONS = (
    ATTENTION,
    _attention("sdpa", "attention with stats", _HEADS, _HEADS, (2, 1, 8, 8), (3, 9), (3, 9), stats=True),
    _attention("gqa", "grouped attention", _GROUPED, (2, 2, 1, 8, 4), (2, 1, 1, 8, 8), (3, 7)),
    _attention("gqa", "grouped attention with stats", _GROUPED, (2, 2, 1, 8, 4), (2, 1, 1, 8, 8), (3, 10), stats=True),
)

# Gated MLP -----------------------------------------------------------------------------------------------------------


def _gated_mlp(title: str, *active: PatternOp) -> FusionGraph:
    return FusionGraph(
        "gated_mlp",
        title,
        "MatMul",
        {
            "src": PatternTensor(REAL, (6, 8)),
            "up": PatternTensor(REAL, (8, 16)),
            "gate": PatternTensor(REAL, (8, 16)),
            "down": PatternTensor(REAL, (16, 8)),
        },
        (
            PatternOp("raised", ("MatMul",), ("src", "up"), WIDE),
            PatternOp("gated", ("MatMul",), ("src", "gate"), WIDE),
            *active,
            PatternOp("joined", ("Multiply",), (active[-1].name, "raised")),
            PatternOp("narrowed", ("TypeCast",), ("joined",), REAL, group="narrow"),
            PatternOp("out", ("MatMul",), ("narrowed", "down"), REAL),
        ),
        half_since=(3, 12),
        half=frozenset(["narrow"]),
    )


MLPS = (
    _gated_mlp(
        "gated MLP",
        PatternOp("active", ("ReLU", "GELU", "Sigmoid", "Tanh", "HardSwish"), ("gated",), group="activation"),
    ),
    _gated_mlp(
        "gated MLP with Swish",
        PatternOp("gates", ("Sigmoid",), ("gated",)),
        PatternOp("active", ("Multiply",), ("gates", "gated")),
    ),
)

# Quantized ops -------------------------------------------------------------------------------------------------------

_CODED = {"scales": [0.125], "zps": [0], "qtype": "per_tensor"}
_QUANTIZED = dict.fromkeys(("Quantize", "Dequantize"), _CODED)


def _quantized(
    kind: str, name: str, src: tuple[int, ...], weights: tuple[int, ...], attrs: Mapping[str, Any], *, casts: bool
) -> FusionGraph:
    """A quantized op: ``casts`` tells whether its operands may be converted to 16 bits."""
    convert = [
        PatternOp("narrow_src", ("TypeCast",), ("real_src",), "bf16", "half"),
        PatternOp("narrow_weights", ("TypeCast",), ("real_weights",), "bf16", "half"),
    ]
    wide = [PatternOp("widened", ("TypeCast",), ("changed",), WIDE, "half")]
    channels = weights[-1] if kind == "MatMul" else 8
    shape = (*src[:-1], channels) if kind == "MatMul" else (*src[:1], channels, *src[2:])
    bias = {"BiasAdd": {"data_format": "NXC" if kind == "MatMul" else "NCX"}}
    ends = ("narrow_src", "narrow_weights") if casts else ("real_src", "real_weights")
    return FusionGraph(
        name,
        f"quantized {kind}",
        kind,
        {
            "src": PatternTensor(REAL, src),
            "weights": PatternTensor("s8", weights),
            "bias": PatternTensor("same", (channels,)),
            "operand": PatternTensor("same", shape),
        },
        (
            PatternOp("real_src", ("Dequantize",), ("src",), WIDE, attrs=_QUANTIZED),
            PatternOp("coded_weights", ("Quantize",), ("weights",), "s8", "coded weights", _QUANTIZED),
            PatternOp("real_weights", ("Dequantize",), ("coded_weights",), WIDE, attrs=_QUANTIZED),
            *(convert if casts else []),
            PatternOp("product", (kind,), ends, attrs={kind: attrs}),
            PatternOp("biased", ("BiasAdd",), ("product", "bias"), group="bias", attrs=bias),
            PatternOp("changed", (*UNARY, *BINARY), ("biased", "operand"), group="epilogue"),
            *(wide if casts else []),
            PatternOp(
                "coded",
                ("Quantize",),
                ("widened" if casts else "changed",),
                REAL,
                "quantization",
                _QUANTIZED,
            ),
        ),
        CODES,
        FIRST,
        of_pages=frozenset(["TypeCast", *UNARY]).difference(TABLE_UNARY),
    )


_WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1], "data_format": "NCX"}
_IMAGE, _KERNEL = (2, 8, 6, 6), (8, 8, 3, 3)
QUANTIZED = (
    _quantized(
        "Convolution",
        "quantized_convolution_fusion_patterns",
        _IMAGE,
        _KERNEL,
        {**_WINDOW, "weights_format": "OIX"},
        casts=True,
    ),
    _quantized(
        "ConvTranspose",
        "quantized_convtranspose_fusion_patterns",
        _IMAGE,
        _KERNEL,
        {**_WINDOW, "weights_format": "IOX"},
        casts=False,
    ),
    _quantized("MatMul", "quantized_matmul_fusion_patterns", (2, 8, 6), (6, 10), {}, casts=True),
)
GRAPHS: tuple[FusionGraph, ...] = (*QUANTIZED, *ATTENTIONS, *MLPS)
