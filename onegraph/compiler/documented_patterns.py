"""Finds the documented fusion pattern that ops are nearest to, by the op that begins it and the ops that may follow.

The patterns are those of :mod:`onegraph.opset.fusion_patterns`, attention and gated MLP of
:mod:`onegraph.opset.fusion_graphs`, and one that no page has. The pages begin with 3.7, so an older library takes fewer
of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._util.records import record
from ..builder.graph import DataGraph
from ..builder.uses import uses_of
from ..ir.op import LogicalTensor
from ..native.library import VERSION
from ..opset import fusion_graphs, fusion_patterns
from ..opset.kinds import ELEMENTWISE


@record(frozen=True)
class DocumentedPattern:
    """One pattern.

    Attributes:
        name: what it is called in texts.
        first: the kinds of ops that begin it.
        after: the kinds of ops that may follow.
    """

    name: str
    first: frozenset[str]
    after: frozenset[str]


def _of_page(pattern: fusion_patterns.FusionPattern) -> DocumentedPattern:
    after = frozenset(kind for stage in pattern.stages for kind in stage.kinds)
    return DocumentedPattern(pattern.name.replace("_", " "), frozenset(pattern.heads), after)


def _of_graph(pattern: fusion_graphs.FusionGraph, name: str) -> DocumentedPattern:
    first, *further = (frozenset(node.kinds) for node in pattern.nodes)
    return DocumentedPattern(name, first, frozenset().union(*further))


ATTENTION = _of_graph(fusion_graphs.ATTENTION, "attention: MatMul, scale, mask, SoftMax, MatMul")
GATED_MLP = _of_graph(fusion_graphs.MLPS[0], "gated MLP: two MatMuls, activation, Multiply, MatMul")
TRAINING = DocumentedPattern(
    "batch normalization of training with ReLU", frozenset(["BatchNormForwardTraining"]), frozenset(["ReLU"])
)
GRAPHS = (ATTENTION, GATED_MLP)
PATTERNS = (ATTENTION, *map(_of_page, fusion_patterns.PATTERNS), GATED_MLP, TRAINING)
# The ops that carry a partition: a fusion has one of them at most.
STARTS = frozenset(kind for pattern in PATTERNS for kind in pattern.first) - ELEMENTWISE - {*fusion_patterns.BINARY}

INT8 = frozenset(pattern.main for pattern in fusion_graphs.QUANTIZED)  # products that have a pattern of 8-bit codes


def nearest_pattern(kinds: Iterable[str]) -> DocumentedPattern | None:
    """The pattern that begins with the op that carries a partition, and takes the most of the ops behind it."""
    listed = [*kinds]
    start = next((kind for kind in listed if kind in STARTS), listed[0] if listed else "")
    rest = listed[listed.index(start) + 1 :] if listed else []
    fitting = [pattern for pattern in PATTERNS if start in pattern.first]
    # Of patterns that take as many, a chain is nearer than attention and gated MLPs, which begin with a MatMul too.
    return max(fitting, key=lambda pattern: (_taken(pattern, rest), pattern not in GRAPHS), default=None)


def _taken(pattern: DocumentedPattern, kinds: list[str]) -> int:
    """How many of the ops, one behind the other, a pattern takes."""
    return next((place for place, kind in enumerate(kinds) if kind not in pattern.after), len(kinds))


def beside_attention(graph: DataGraph, names: Sequence[str]) -> str:
    """How a MatMul and a SoftMax, which are among the ops of these names, differ from attention."""
    text = f"the nearest pattern of oneDNN is {ATTENTION.name!r}"
    by_name, uses = {op.name: op for op in graph.ops}, uses_of(graph)
    softmax = next(by_name[name] for name in names if name in by_name and by_name[name].kind == "SoftMax")
    if all(op.kind != "MatMul" for op in uses.consumers.get(softmax.outputs[0].id, ())):
        return f"{text}; here no MatMul reads the SoftMax"
    scores: LogicalTensor | None = softmax.inputs[0]
    while scores is not None and (maker := uses.producers.get(scores.id)) is not None and maker.kind != "MatMul":
        place = 1 if maker.kind == "Select" else 0
        scores = maker.inputs[place] if maker.kind in ATTENTION.after - {"SoftMax"} else None
    if scores is None or scores.id not in uses.producers:
        return f"{text}; here no MatMul makes what the SoftMax reads"
    if VERSION[:2] < (since := fusion_graphs.ATTENTION.since):
        library = ".".join(map(str, VERSION))
        return f"{text}, documented since {'.'.join(map(str, since))}; the library is oneDNN {library}"
    return f"{text}; the ops around them differ"
