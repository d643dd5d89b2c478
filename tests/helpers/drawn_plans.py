"""Graphs drawn by number for the record of plans: those of tests/helpers/drawn_steps.py, which are compiled here.

The numbers that are kept stand in tests/recorded/chosen_plans.txt: those that decide conditions of the compiler which
no other graph of a record decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import onegraph as og
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.report import PartitionReport, Report, VariableReport, partition_lines, partition_table
from onegraph.compiler.shared_constants import SharedConstants
from onegraph.errors import OneGraphError
from onegraph.ir.op import LogicalTensor
from onegraph.runtime.compiled_program import CompiledProgram

from .drawn_steps import Copy, drawn_graph, options_of
from .programs import lines_of

CHOSEN = Path(__file__).parents[1] / "recorded" / "chosen_plans.txt"
COPIES = "turned", "gaps", "last axis"


def chosen() -> dict[str, list[int]]:
    """The numbers that are kept, by name."""
    lines = (line.rpartition(": ") for line in CHOSEN.read_text().splitlines())
    return {name: [*map(int, numbers.split())] for name, _, numbers in lines}


class Laid(Copy):
    """A copy of a graph whose results have strides that are drawn."""

    def _output(self, name: str, tensor: LogicalTensor) -> None:
        shape, drawn, strides = tensor.shape or (), self._drawn, None
        if len(shape) > 1 and None not in shape and drawn.random() < 0.7:
            order = [*range(len(shape))]
            if drawn.random() < 0.7:
                drawn.shuffle(order)
            step, steps, gap = 1, [0] * len(shape), drawn.choice((0, 0, 1))
            for axis in reversed(order):
                steps[axis], step = step, step * (max(shape[axis], 1) + gap)
            strides = tuple(steps)
        self._new.output(name, tensor, strides=strides)


def graph_of(name: str, number: int, drawn: Random) -> og.Graph | None:
    """A drawn graph of known sizes; None where the draw makes none."""
    try:
        graph = drawn_graph(name, number, drawn)
        if drawn.random() < 0.25 and graph.ops:
            graph = Laid(graph, "", drawn).made()
    except (OneGraphError, ValueError):
        return None
    is_known = all(one.shape is not None and None not in one.shape for one in graph.inputs.values())
    return graph if is_known else None


def lines(
    updates_of: Callable[[og.Graph], dict[str, str]],
    program_of: Callable[[CompiledProgram], Iterable[object]],
    name: str,
    number: int,
) -> list[str]:
    """What a drawn graph is compiled to, and what is said of it."""
    drawn = Random(f"{name} {number}")
    graph = graph_of(name, number, drawn)
    if graph is None:
        return []
    options = {**options_of(drawn), "fallback": drawn.random() < 0.9}
    shared = SharedConstants.of(graph)
    shared.partitions.rounds, shared.partitions.repeats = bool(options["opens"]), bool(options.pop("repeats"))
    updates = updates_of(graph) if drawn.random() < (0.9 if name == "updated" else 0.3) else {}
    try:
        program = CompiledProgram(graph, **options, updates=updates, shared=shared)
    except OneGraphError as error:
        return [f"{type(error).__name__}: {error}"]
    reports = program.reports
    said = *(report.to_dict() for report in reports), *partition_lines(reports), partition_table("", reports, {0: 1.0})
    return [*map(str, (*lines_of(program), *program_of(program), *said))]


KINDS = ("MatMul",), ("Convolution",), ("ReLU",), ("Add", "ReLU"), ("SoftMax",), ("LayerNorm: Reorder", "Multiply")
REASONS = (
    (),
    ("",),
    ("it is slow", "it is slow"),
    ("of two lines\nthe second", "it has a fault, so that the ops run apart"),
    ("it has a fault, so that the ops run apart", "slow, so that the ops run one by one"),
)


def partition_of(drawn: Random, index: int) -> PartitionReport:
    """A report of a partition, which may read the result of the one before, with fields that are drawn."""
    pick, kinds = drawn.choice, drawn.choice(KINDS)
    ends = []
    for number in (pick((index, 0)), index + 20, index + 1):
        shape = pick(((), (3,), (2, 3)))
        strides = pick((dense_of(shape), dense_of(shape), (1,) * len(shape)))
        ends.append(Value(number, pick((og.f32, og.bf16, og.u8)), shape, strides, number, f"v{number}"))
    return PartitionReport(
        index,
        pick(("oneDNN", "oneDNN", "reference", "kernel")),
        kinds,
        ("first", "second")[: len(kinds)],
        pick(REASONS),
        tuple(ends[: pick((1, 2))]),
        tuple(ends[2:]),
        pick((None, 0, 1, 3)),
        pick(("", "f32", "u8 x s8")),
        pick(((), ("pool: it has no axis",), ("one", "two"))),
        pick(("", "relu ref:any", "relu jit:avx2")),
    )


def told(count: int) -> Iterator[object]:
    """What reports say whose fields are drawn."""
    for number in range(count):
        drawn = Random(number)
        pick = drawn.choice
        counters = {
            name: pick((0, 1, 2)) for name in ("hits", "misses", "evictions", "reused", "partitions", "grown", "moved")
        }
        cache = {**counters, "size": pick((1, 2)), "capacity": 8, "reason": pick(("", "a kernel differs"))}
        partitions = [partition_of(drawn, index) for index in range(drawn.randrange(5))]
        partitions += [replace(one, index=len(partitions)) for one in partitions[:1] if drawn.random() < 0.5]
        variables = (VariableReport("w", og.bf16, (3, 4), True), VariableReport("m", og.f32, (5,), False))
        report = Report(
            "oneDNN 3.2.0",
            pick(("fusion", "fusion", "debug")),
            "strict",
            tuple(partitions),
            pick(("", "a note")),
            pick((0, 2)),
            pick(({}, cache, cache)),
            variables[: drawn.randrange(3)],
            pick(({}, {0: 2e-6, 1: 1e-6})),
            pick(((4, ""), (1, "a cgroup"), (2, "a cgroup"))),
            pick(({}, {"own": 12})),
        )
        yield from (report, report.to_dict(), report._repr_html_(), [*map(str, report.unfused())], report.unfused())
