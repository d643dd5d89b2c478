"""Makes graphs of the documented fusion patterns: chains of ops that a pattern covers, and chains just beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....graph import Graph
from ....ir.op import Array, LogicalTensor
from ....opset.editions.registry import BASE
from ....opset.fusion_graphs import CODES
from ....opset.fusion_patterns import BINARY, PATTERNS, FusionPattern, matches, patterns_of
from ....opset.shapes import known_dims
from ....opset.signature import Version
from .graphs import BY_TITLE, graph_choices, graph_of

SHAPE = (2, 8, 6, 6)  # batch, channels, height and width of the source
WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
POOL = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2], "data_format": "NCX"}
# Attributes of the ops of a chain, beside the defaults.
ATTRS: dict[str, dict[str, Any]] = {
    "Convolution": {**WINDOW, "data_format": "NCX", "weights_format": "OIX"},
    "ConvTranspose": {**WINDOW, "data_format": "NCX", "weights_format": "IOX"},
    "MaxPool": POOL,
    "AvgPool": {**POOL, "exclude_pad": True},
    "Interpolate": {"mode": "nearest", "sizes": [12, 12], "data_format": "NCX"},
    "GroupNorm": {"groups": 2, "keep_stats": False, "use_affine": True, "data_format": "NCX"},
    "LayerNorm": {"keep_stats": False, "use_affine": True},
    "BatchNormInference": {"epsilon": 1e-5, "data_format": "NCX"},
    "BiasAdd": {"data_format": "NCX"},
    "SoftMax": {"axis": 1},
    "Clamp": {"min": 0.25, "max": 1.0},
    "Elu": {"alpha": 0.5},
    "LeakyReLU": {"alpha": 0.125},
    "Pow": {"beta": 2.0},
    "HardSigmoid": {"alpha": 0.25, "beta": 0.5},
    "Quantize": {"scales": [0.125], "zps": [0], "qtype": "per_tensor"},
    **{kind: {"axes": [3], "keep_dims": True} for kind in BASE if kind.startswith("Reduce")},
}
_CONVERTED = {"f32": "bf16", "bf16": "f32", "f16": "f32"}  # what a TypeCast makes of each data type
BEYOND = ("SoftMax", "Square", "StaticTranspose", "BiasAdd", "TypeCast", "Quantize")
FORBIDDEN = {"StaticTranspose": {"order": [0, 1, 2, 3]}}


class PatternCase(NamedTuple):
    """Ops of a pattern, in one data type: a chain, or those of a graph, where the kind of one left out is empty.

    ``promised`` tells whether the pattern covers all ops.
    """

    pattern: str
    kinds: tuple[str, ...]
    dtype: str
    promised: bool

    def __str__(self) -> str:
        return f"{self.chain} in {self.dtype}"

    @property
    def chain(self) -> str:
        """The ops of the chain, in short if they are many."""
        return " + ".join(_counted([kind for kind in self.kinds if kind]))

    def graph(self) -> Graph:
        """The graph of the ops; the second operands are inputs of it."""
        if self.pattern in BY_TITLE:
            return graph_of(BY_TITLE[self.pattern], self.kinds, self.dtype)
        graph = Graph()
        value = graph.input("src", self.dtype, SHAPE)
        for place, kind in enumerate(self.kinds):
            value = _step(graph, kind, value, place, self.dtype, self.kinds[0])
        graph.output("dst", value)
        return graph

    def inputs(self) -> dict[str, Array]:
        """Arrays for the inputs of the graph: numbers from a half to one and a half, so that roots exist; and codes."""
        rng = np.random.default_rng(len(self.kinds))
        arrays = {}
        for name, tensor in self.graph().inputs.items():
            if tensor.dtype.value in CODES:
                arrays[name] = rng.integers(1, 9, known_dims(tensor.shape)).astype(tensor.dtype.numpy)
                continue
            numbers = rng.uniform(0.5, 1.5, known_dims(tensor.shape))
            # Weights whose products sum to about one, so that no exponential overflows.
            arrays[name] = (numbers / (64 if "weights" in name else 1)).astype(tensor.dtype.numpy)
        return arrays


def _counted(kinds: Sequence[str]) -> list[str]:
    """The kinds of a long chain in short."""
    return [*kinds] if len(kinds) < 8 else [*kinds[:3], f"... {len(kinds) - 4} more", kinds[-1]]


def _step(graph: Graph, kind: str, value: LogicalTensor, place: int, dtype: str, head: str) -> LogicalTensor:
    def other(name: str, *shape: int | None, of: str = dtype) -> LogicalTensor:
        return graph.input(f"{name}_{place}", of, shape)

    shape = value.shape or SHAPE
    own = value.dtype.value
    channels = shape[1]
    vector = "f32" if kind.endswith("Norm") or kind.startswith("BatchNorm") else own
    second: dict[str, tuple[LogicalTensor, ...]] = {}
    if kind in BINARY:
        second[kind] = (other("operand", *shape, of=own),)
    elif kind.startswith("Conv"):
        second[kind] = (other("weights", channels, channels, 3, 3),)
    elif kind == "MatMul":
        second[kind] = (other("weights", shape[-1], 6),)
    elif kind == "BiasAdd":
        second[kind] = (other("bias", shape[-1] if head == "MatMul" else channels, of=own),)
    elif kind == "BatchNormInference":
        second[kind] = tuple(other(name, channels, of=vector) for name in ("gamma", "beta", "mean", "variance"))
    elif kind in ("GroupNorm", "LayerNorm"):
        length = channels if kind == "GroupNorm" else shape[-1]
        second[kind] = tuple(other(name, length, of=vector) for name in ("gamma", "beta"))
    elif kind == "Select":
        condition = graph.input(f"cond_{place}", "boolean", shape)
        blended: LogicalTensor = graph.op(kind, [condition, value, other("otherwise", *shape, of=own)])
        return blended
    attrs = {**ATTRS.get(kind, {}), **FORBIDDEN.get(kind, {})}
    if kind == "BiasAdd" and head == "MatMul":
        attrs = {"data_format": "NXC"}
    result = {"TypeCast": _CONVERTED[own], "Quantize": "u8"}.get(kind)
    options = {} if result is None else {"dtype": result}
    made: LogicalTensor = graph.op(kind, [value, *second.get(kind, ())], attrs, **options)
    return made


def pattern_cases(version: Version, names: Sequence[str] = ()) -> Iterator[PatternCase]:
    """The cases of every pattern, of the ops that a library of ``version`` has.

    Args:
        version: that of the library.
        names: first ops of chains, and ops that graphs are named after; all by default.
    """
    documented = patterns_of(version)
    tried: set[tuple[tuple[str, ...], str]] = set()
    for pattern in (*documented, *PATTERNS):  # the ops of newer pages show what is fused beyond an older text
        for head in pattern.heads:
            if BASE[head].since <= version and (not names or head in names):
                chains = [
                    kinds for kinds in _chains(pattern, head) if all(BASE[kind].since <= version for kind in kinds)
                ]
                for kinds, dtype in ((kinds, dtype) for dtype in pattern.dtypes for kinds in chains):
                    if (kinds, dtype) not in tried and _types_fit(kinds, dtype):
                        tried.add((kinds, dtype))
                        yield PatternCase(pattern.name, kinds, dtype, is_promised(documented, kinds, dtype))
    for title, kinds, dtype, promised in graph_choices(version, names):
        yield PatternCase(title, kinds, dtype, promised)


def _chains(pattern: FusionPattern, head: str) -> Iterator[tuple[str, ...]]:
    """Chains that begin with an op of a pattern, and some just beyond the pattern."""
    chains = [[kind] for stage in pattern.stages for kind in stage.kinds]
    chains += [[stage.kinds[0] for stage in pattern.stages], [stage.kinds[-1] for stage in pattern.stages]]
    for stage in pattern.stages:
        chains.append([kind for _, kind in zip(range(stage.most), ("Add", "ReLU") * stage.most, strict=False)])
        chains.append([*chains[-1], "Add"])
    chains += [[stage.kinds[0], "ReLU"] for stage in pattern.stages]
    chains += [["ReLU", kind] for kind in BEYOND]
    yield from ((head, *chain) for chain in dict.fromkeys(map(tuple, chains)))


def is_promised(documented: Sequence[FusionPattern], kinds: tuple[str, ...], dtype: str) -> bool:
    """Whether a guide has the chain in a data type."""
    whole = (match for match in matches(kinds, ATTRS.get(kinds[0]), documented) if not match.missing)
    return any(_types_allowed(match.pattern, kinds, dtype) for match in whole)


def _types_allowed(pattern: FusionPattern, kinds: Sequence[str], dtype: str) -> bool:
    """Whether the pattern's page allows the data types of a chain."""
    converted = (dtype, _CONVERTED[dtype])
    is_known = pattern.conversions is None or "TypeCast" not in kinds or converted in pattern.conversions
    return dtype in pattern.following and is_known


def _types_fit(kinds: Sequence[str], dtype: str) -> bool:
    """Whether the data types of a chain fit: Quantize reads f32, and a page converts to f32 or from it."""
    now = dtype
    for place, kind in enumerate(kinds):
        if kind == "Quantize":
            return now == "f32" and place == len(kinds) - 1
        if kind == "TypeCast":
            now = _CONVERTED[now]
    return True
