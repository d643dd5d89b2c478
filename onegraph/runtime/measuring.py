"""Measures the time of every partition of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter

from ..builder.graph import DataGraph
from ..capi.threads import threads_now
from ..compiler.arithmetic import flops
from ..compiler.report import PartitionReport
from ..ir.op import Array, label_of
from .frame import Frame
from .profile import Profile, ProfileRow, Spans
from .program import Program


def measure(
    program: Program,
    partitions: Sequence[PartitionReport],
    external: Mapping[int, Array],
    results: Mapping[str, Array],
    runs: int,
) -> Profile:
    """Run a program once without timing, then ``runs`` times with the time of each step.

    Args:
        program: the program.
        partitions: its reports.
        external: arrays for the values in the caller's memory, by value id.
        results: the outputs by name.
        runs: number of runs.
    """
    frame = program.check_out()
    try:
        frame.bind(external)
        frame.run(results)
        spans = [_joined(program.step_notes, _time(frame)) for _ in range(runs)]
    finally:
        program.give_back(frame)
    executed = [partitions[note] for note in dict.fromkeys(program.step_notes)]
    return _profile(program.whole_graph(), executed, spans, runs)


def _joined(notes: Sequence[int], spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The start and the duration of each partition; a Concat has a step for each source."""
    times_by_part: dict[int, tuple[float, float]] = {}
    for note, (start, seconds) in zip(notes, spans, strict=True):
        begin, before = times_by_part.get(note, (start, 0.0))
        times_by_part[note] = begin, before + seconds
    return [*times_by_part.values()]


def _time(frame: Frame) -> Iterator[tuple[float, float]]:
    """Run every step once; yields the start and the duration of each in seconds."""
    last = frame.plan.n_steps
    for part in (*frame.parts, range(last - frame.ending.n_steps, last)):
        if isinstance(part, range):
            start = perf_counter()
            for seconds in frame.plan.time(part.start, part.stop):
                yield start, seconds
                start += seconds
        else:
            yield _span(lambda part=part: frame.run_numpy(part))  # type: ignore[misc]


def measure_heads(graph: DataGraph, report: PartitionReport, run: Callable[[], object], runs: int) -> Profile:
    """The profile of ops that numpy runs as a whole; ``run`` runs them."""
    return _profile(graph, [report], [[_span(run)] for _ in range(runs)], runs)


def joined(first: Profile, second: Profile, count: int) -> Profile:
    """The profile of two stages; ``count`` is the number of partitions of the first."""
    total = first.seconds + second.seconds or 1.0
    rows = (*first.rows, *[replace(row, index=row.index + count) for row in second.rows])
    spans = [[*run, *run_after] for run, run_after in zip(first._spans.runs, second._spans.runs, strict=True)]
    shared = [replace(row, share=row.seconds / total) for row in rows]
    return Profile(shared, first.runs, Spans(spans, max(first._spans.limit, second._spans.limit)))


def _span(run: Callable[[], object]) -> tuple[float, float]:
    """The start and the duration of a call in seconds."""
    start = perf_counter()
    run()
    return start, perf_counter() - start


def _profile(
    graph: DataGraph, partitions: Sequence[PartitionReport], spans: Sequence[Sequence[tuple[float, float]]], runs: int
) -> Profile:
    ops = {(label_of(op), op.name): op for op in graph.ops}
    times = [[seconds for _, seconds in spans_of_part] for spans_of_part in zip(*spans, strict=True)]
    medians = [median(spans_of_part) for spans_of_part in times]
    total = sum(medians) or 1.0
    rows = []
    for report, spans_of_part, seconds in zip(partitions, times, medians, strict=True):
        inside = (ops.get(key) for key in zip(report.kinds, report.names, strict=True))
        counts = [count for op in inside if op is not None and (count := flops(op)) is not None]
        rate = 1 / max(seconds, 1e-9)
        rows.append(
            ProfileRow(
                report.index,
                report.ops,
                report.executor,
                report.threads,
                seconds,
                min(spans_of_part),
                seconds / total,
                sum(counts) * rate * 1e-9 if counts else None,
                report.bytes * rate,
                report.implementation,
                report.bytes,
            )
        )
    return Profile(rows, runs, Spans(spans, threads_now()))
