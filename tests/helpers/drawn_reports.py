"""Reports of partitions drawn at random, and what explain says of them: a material of :mod:`draws`.

The reports are of no compilation, and drawn answers stand for those of the library: so each cause of two partitions
comes with each other, without a call of the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from random import Random
from unittest.mock import patch
from zlib import crc32

import onegraph as og
from onegraph.compiler.report import FOR_ALL, FOR_THESE, PartitionReport
from onegraph.compiler.unfused import unfused
from onegraph.errors import OneGraphError
from onegraph.ir.op import LogicalTensor, Op
from onegraph.opset.editions.registry import HOST
from tests.lowering import test_recorded_graphs as recorded

from .draws import material

SIDE = 4
KINDS = ("MatMul", "MatMul", "ReLU", "Add", "Subtract", "Divide", "SoftMax", "Tanh", "Multiply", "Sin", "StaticReshape")
CODED = ("MatMul", "MatMul", "Add", "Quantize", "Dequantize", "Dequantize", "StaticTranspose", "ReLU", "AvgPool")
SETS = {"floats": KINDS, "codes": CODED, "narrow": (*KINDS, "TypeCast"), "mixed": (*KINDS, *CODED)}
EXECUTORS = ("oneDNN", "oneDNN", "kernel", "kernel", "host", "reference", "view", "copy", "constant")
REASONS = (
    *("", "", "", "by onegraph: a wide row", "by onegraph, a row", FOR_ALL, FOR_THESE, "as oneDNN loses NaN in it"),
    *("oneDNN is slow, so that the ops run apart", "a product for any number of rows"),
)
VERSIONS = ((3, 2, 0), (3, 2, 0), (3, 5, 0), (3, 9, 1))
SHORT = (og.bf16, og.f16)


class Answers:
    """Stands for what asks the library: each answer follows from the question."""

    def __init__(self, drawn: Random) -> None:
        self._seed = drawn.randrange(2**16)

    def _of(self, *question: object) -> int:
        return crc32(f"{self._seed} {question}".encode())

    def joins(self, ops: Sequence[Op], *, f32: bool = False, without: str = "") -> bool:
        """Whether the library makes one partition of some ops."""
        is_narrow = any(end.dtype in SHORT for op in ops for end in op.outputs)
        return self._of([op.name for op in ops], f32 and is_narrow, without) % 3 == 0

    def with_finite_math(self, ops: Sequence[Op]) -> str:
        """What another option makes of some ops."""
        return "" if self._of("finite", [op.name for op in ops]) % 2 else "compile(finite_math=True) joins the two"

    def coded(self, ops: Sequence[Op]) -> str:
        """Says that the library takes some ops between codes."""
        return "" if self._of("coded", [op.name for op in ops]) % 3 else f"the library takes {ops[0].name} as codes"


def step(drawn: Random, graph: og.Graph, kind: str, values: list[LogicalTensor]) -> LogicalTensor:
    """The result of an op on tensors of one shape."""
    first, second = drawn.choice(values[-2:]), drawn.choice(values)
    if kind in ("MatMul", "Add", "Subtract", "Divide", "Multiply"):
        return graph.op(kind, [first, second])
    if kind == "StaticReshape":
        return graph.op(kind, [first], {"shape": [1, SIDE, SIDE, SIDE], "special_zero": False})
    if kind == "StaticTranspose":
        return graph.op(kind, [first], {"order": [0, 2, 1, 3]})
    if kind == "TypeCast":
        return graph.op(kind, [first], dtype=drawn.choice(("bf16", "f16")))
    if kind == "Quantize":
        return graph.op(kind, [first], {"scales": [0.5]}, dtype="s8")
    if kind == "Dequantize":
        return graph.op(kind, [first], {"scales": [0.5]})
    if kind == "AvgPool":
        sides = {name: [1, 1] for name in ("strides", "kernel")} | {"pads_begin": [0, 0], "pads_end": [0, 0]}
        return graph.op(kind, [first], {**sides, "exclude_pad": False})
    return graph.op(kind, [first], {}, edition=HOST) if kind == "Sin" else graph.op(kind, [first])


def chain(name: str, drawn: Random) -> og.Graph:
    graph = og.Graph()
    shape = (1, SIDE, SIDE, SIDE)
    values: list[LogicalTensor] = [graph.input("x", drawn.choice(("f32", "f32", "bf16")), shape)]
    values.append(graph.input("codes", "s8", shape) if name in ("codes", "mixed") else values[0])
    for _ in range(drawn.choice((2, 3, 5, 8))):
        with suppress(OneGraphError):
            values.append(step(drawn, graph, drawn.choice(SETS[name]), values))
    ends = [one for one in values[2:] if drawn.random() < 0.2] + values[-1:]
    for place, one in enumerate(dict.fromkeys(ends)):
        graph.output(f"y{place}", one)
    return graph


def divided(drawn: Random, graph: og.Graph) -> Iterator[list[Op]]:
    """The ops of each partition: one after the other, some together, and some in two partitions."""
    waiting: list[Op] = []
    for op in graph.ops:
        waiting.append(op)
        if drawn.random() < 0.75:
            yield waiting
            waiting = [op] if drawn.random() < 0.15 else []
    if waiting:
        yield waiting


def reports(drawn: Random, graph: og.Graph) -> list[PartitionReport]:
    """A report of each partition."""
    found = []
    for ops in divided(drawn, graph):
        whole = drawn.random() < 0.75
        parts = [drawn.choice(("MatMul", "ReLU", "TypeCast", "StaticReshape")) for _ in ops]
        kinds = tuple(op.kind if whole else f"{op.kind}: {part}" for op, part in zip(ops, parts, strict=True))
        names = tuple(op.name for op in ops)
        executor = drawn.choice(EXECUTORS)
        if executor == "copy" and drawn.random() < 0.5:
            kinds, names = ("Reorder",), ("reorder",)
        made = {end.id for op in ops for end in op.outputs}
        sources = {end.id: end for op in ops for end in op.inputs if end.id not in made}
        reason = drawn.choice(REASONS)
        found.append(
            PartitionReport(
                len(found),
                executor,
                kinds,
                names,
                (reason,),
                tuple(sources.values()),
                tuple(end for op in ops for end in op.outputs),
                drawn.choice((None, 0, 2)),
                drawn.choice(("f32", "", "bf16", "u8 x s8")),
                (),
                drawn.choice(("", "convolution jit:avx2", "matmul ref:any")),
            )
        )
    return found


@material(lambda: SETS, needs="cffi")
def told_apart(name: str, number: int) -> list[str]:
    """Why drawn partitions are apart, and what they cost."""
    return recorded.outcome(said, name, Random(f"{name} {number}"))


def said(name: str, drawn: Random) -> str:
    from onegraph.compiler import documented_patterns
    from onegraph.native import library
    from onegraph.runtime import apart
    from onegraph.runtime.compile_options import CompileOptions
    from onegraph.runtime.explanation import explained
    from onegraph.runtime.peaks import Peaks

    graph = chain(name, drawn)
    partitions, answers = reports(drawn, graph), Answers(drawn)
    options = CompileOptions(drawn.choice((*("fusion",) * 5, "debug")), True, "strict", 0)
    version = drawn.choice(VERSIONS)
    with ExitStack() as stack:
        for module in (apart, documented_patterns, library):
            stack.enter_context(patch.object(module, "VERSION", version))
        stack.enter_context(patch.object(apart, "Joining", lambda *_: answers))
        edges = apart.edges_of(graph, partitions, options, Answers)
        fused = [str(one) for one in unfused(partitions)]
    times = {one.index: drawn.choice((1e-7, 1e-6, 3e-5, 2e-3)) for one in partitions if drawn.random() < 0.8}
    peaks = Peaks(2, 1e9, {"f32": 1e9, "bf16": 2e9}) if drawn.random() < 0.7 else None
    whole = explained("oneDNN", graph, partitions, times, peaks, edges)
    texts = [str(one.to_dict()) for one in edges]
    return "\n".join([*texts, str(whole), str(whole.to_dict()), whole._repr_html_(), *fused])
