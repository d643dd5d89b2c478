"""Measures the time of every partition of a program; shows the times as text, as an HTML table and as a trace."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import perf_counter
from typing import NamedTuple

from .._util.html_table import RED, Cell, html_table
from ..builder.graph import DataGraph
from ..capi.threads import get_num_threads
from ..compiler.report import PartitionReport, names_reference_kernel
from ..ir.op import Array, Op, schema_of
from ..opset.editions.dialect import base_call
from ..opset.editions.registry import base_of
from ..opset.shapes import counted, known_dims
from .program import Frame, Program

WIDTH = 24  # characters of the longest bar
BARS = " ▏▎▍▌▋▊▉█"

# Names of two tensors of each op: each element of the first is multiplied with, and added to, all weights (the second)
# of its channel. This holds for convolutions and their gradients; padding counts as data.
CONVOLUTIONS = {
    "Convolution": ("dst", "weights"),
    "ConvolutionBackwardData": ("diff_dst", "weights"),
    "ConvolutionBackwardWeights": ("diff_dst", "diff_weights"),
    "ConvTranspose": ("src", "weights"),
    "ConvTransposeBackwardData": ("diff_src", "weights"),
    "ConvTransposeBackwardWeights": ("src", "diff_weights"),
}


def flops(op: Op) -> int | None:
    """Number of floating-point operations of a convolution or MatMul; a multiply-add counts as two.

    None for other ops, which spend their time moving data, and if a shape is unknown.
    """
    schema = schema_of(op)
    base = base_of(schema)
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    call = base_call(schema, base, op.attrs, types, len(op.outputs))
    shapes: dict[str, tuple[int, ...]] = {}
    ports = (*zip(base.inputs, op.inputs, strict=False), *zip(base.outputs, op.outputs, strict=False))
    for port, tensor in ports if not base.variadic else ():
        if tensor is not None:
            if tensor.shape is None or None in tensor.shape:
                return None
            shapes[port.name] = known_dims(tensor.shape)
    if base.kind == "MatMul":
        src = shapes["src"]
        axis = -2 if call.attr("transpose_a") and len(src) > 1 else -1
        return 2 * math.prod(shapes["dst"]) * src[axis]
    if base.kind not in CONVOLUTIONS:
        return None
    data, weights = (shapes[name] for name in CONVOLUTIONS[base.kind])
    channels = data[1 if call.attr("data_format") == "NCX" else -1]
    return 2 * math.prod(data) * math.prod(weights) // max(channels, 1)


@dataclass(frozen=True)
class ProfileRow:
    """The times of one partition.

    Attributes:
        index: its index in the report.
        ops: kind and name of its ops.
        executor: ``oneDNN``, ``reference`` for numpy, or ``copy``; see ``PartitionReport``.
        threads: number of threads; 0 for the limit of the calling thread; None for numpy.
        seconds, shortest: median and shortest time of one run, in seconds.
        share: fraction of the sum of the medians.
        gflops: floating-point operations of its convolutions and MatMuls, in 1e9 per second; None if it has neither.
        bandwidth: size of its inputs and outputs, in bytes per second.
        implementation: oneDNN's name of the implementation; empty unless requested.
        bytes: size of its inputs and outputs.
    """

    index: int
    ops: tuple[str, ...]
    executor: str
    threads: int | None
    seconds: float
    shortest: float
    share: float
    gflops: float | None
    bandwidth: float
    implementation: str = ""
    bytes: int = 0


class Spans(NamedTuple):
    """When each partition ran: a row for each run, and in it start and duration in seconds for each partition.

    ``limit`` is the number of threads of partitions that have no number of their own.
    """

    runs: Sequence[Sequence[tuple[float, float]]] = ()
    limit: int = 1


class Profile(Mapping[int, float]):
    """Times of the partitions of one program: a mapping from the index of a partition to its median time in seconds.

    Attributes:
        rows: details of each partition that runs, in the order of execution.
        seconds: the sum of the medians.
        runs: number of measured runs.
    """

    def __init__(self, rows: Sequence[ProfileRow], runs: int, spans: Spans | None = None) -> None:
        self.rows = tuple(rows)
        self.runs = runs
        self._spans = Spans() if spans is None else spans
        self.seconds = sum(row.seconds for row in rows)
        self._seconds = {row.index: row.seconds for row in rows}

    def __getitem__(self, index: int) -> float:
        return self._seconds[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._seconds)

    def __len__(self) -> int:
        return len(self._seconds)

    def to_dict(self) -> dict[str, object]:
        """The profile as plain dictionaries, lists, strings and numbers."""
        return {"runs": self.runs, "seconds": self.seconds, "rows": [asdict(row) for row in self.rows]}

    def to_chrome_trace(self) -> str:
        """Every measured run as JSON in Chrome's trace event format, which https://ui.perfetto.dev opens.

        Each thread has a track, and each partition an event in the tracks of its threads.
        """
        return chrome_trace({"onegraph": self})

    def _table(self) -> list[list[str]]:
        return [
            [
                str(row.index),
                f"{row.seconds * 1e6:,.1f}",
                f"{row.shortest * 1e6:,.1f}",
                f"{row.share:.1%}",
                "" if row.gflops is None else f"{row.gflops:,.1f}",
                f"{row.bandwidth * 1e-9:,.2f}",
                row.executor if row.threads is None else f"{row.executor}, {row.threads or 'all'}",
                " + ".join(row.ops),
                row.implementation,
            ]
            for row in self.rows
        ]

    def __str__(self) -> str:
        lines = [COLUMNS, *self._table()]
        if not any(row.implementation for row in self.rows):
            lines = [line[:-1] for line in lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        longest = max((row.share for row in self.rows), default=0) or 1
        bars = ["", *(_bar(row.share / longest) for row in self.rows)]
        text = [f"{counted(len(self.rows), 'partition')}, {self.seconds * 1e6:,.1f} us (medians of {self.runs} runs)"]
        for line, bar in zip(lines, bars, strict=True):
            cells = [
                cell.rjust(width) if place < NUMBERS else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            text.append("  ".join([*cells[:4], bar.ljust(WIDTH), *cells[4:]]).rstrip())
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table as HTML for a notebook, with bars."""
        rows: list[list[str | Cell]] = []
        for row, line in zip(self.rows, self._table(), strict=True):
            cells: list[str | Cell] = [*line]
            cells[BAR] = Cell(line[BAR], part=row.share)
            cells[EXECUTOR] = Cell(line[EXECUTOR], RED if row.executor == "reference" else "")
            cells[-1] = Cell(line[-1], RED if names_reference_kernel(row.implementation) else "")
            rows.append(cells)
        caption = f"{self.seconds * 1e6:,.1f} us, medians of {self.runs} runs"
        return html_table(caption, COLUMNS, rows, numbers=range(NUMBERS))


COLUMNS = ["", "us", "least", "share", "GFLOP/s", "GB/s", "by, threads", "ops", "implementation"]
NUMBERS = 6  # right-aligned columns
BAR, EXECUTOR = 3, 6  # indices of the columns with the bar and the executor


def _bar(part: float) -> str:
    eighths = round(part * WIDTH * 8)
    return BARS[-1] * (eighths // 8) + BARS[eighths % 8].strip()


# Traces ---------------------------------------------------------------------------------------------------------------


def chrome_trace(profiles: Mapping[str, Profile]) -> str:
    """Profiles as JSON in Chrome's trace event format; each is a process with the name by which it is given."""
    events = [event for number, (name, one) in enumerate(profiles.items()) for event in _events(number, name, one)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})


def _events(process: int, name: str, profile: Profile) -> Iterator[dict[str, object]]:
    """The events of one process: names of the process and its threads, then each partition of each run."""
    counts = [_threads(row, profile._spans.limit) for row in profile.rows]
    tracks = ["calling thread", *(f"OpenMP thread {number}" for number in range(1, max(counts, default=1)))]
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    for thread, track in enumerate(tracks):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": track}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}
    begin = next((start for spans in profile._spans.runs for start, _ in spans), 0.0)
    for number, spans in enumerate(profile._spans.runs):
        for row, count, (start, seconds) in zip(profile.rows, counts, spans, strict=True):
            facts = {"partition": row.index, "run": number, "ops": list(row.ops), "bytes": row.bytes, "threads": count}
            extra = {"implementation": row.implementation or None, "GFLOP/s": row.gflops}
            args = facts | {key: value for key, value in extra.items() if value is not None}
            event = {"name": " + ".join(row.ops), "cat": row.executor, "pid": process}
            # Two events with times, because a sum of start and duration may be rounded into the next partition.
            first, last = (round((moment - begin) * 1e6, 3) for moment in (start, start + seconds))
            for thread in range(count):
                yield {**event, "ph": "B", "ts": first, "tid": thread, "args": args}
                yield {**event, "ph": "E", "ts": last, "tid": thread}


def _threads(row: ProfileRow, limit: int) -> int:
    """The number of threads that run a partition; numpy runs in the calling thread."""
    return 1 if row.threads is None else row.threads or limit


# Measuring ------------------------------------------------------------------------------------------------------------


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
        frame.run()
        spans = [_joined(program.step_notes, _time(frame)) for _ in range(runs)]
        frame.copy_outputs(results)
    finally:
        program.give_back(frame)
    executed = [partitions[note] for note in dict.fromkeys(program.step_notes)]
    return _profile(program.graph, executed, spans, runs)


def _joined(notes: Sequence[int], spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The start and the duration of each partition; a Concat has a step for each source."""
    found: dict[int, tuple[float, float]] = {}
    for note, (start, seconds) in zip(notes, spans, strict=True):
        begin, before = found.get(note, (start, 0.0))
        found[note] = begin, before + seconds
    return [*found.values()]


def _time(frame: Frame) -> Iterator[tuple[float, float]]:
    """Run every step once; yields the start and the duration of each in seconds."""
    for part in frame.program.parts:
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


def joined(first: Profile, rest: Profile, count: int) -> Profile:
    """The profile of two stages; ``count`` is the number of partitions of the first."""
    total = first.seconds + rest.seconds or 1.0
    rows = (*first.rows, *[replace(row, index=row.index + count) for row in rest.rows])
    spans = [[*one, *other] for one, other in zip(first._spans.runs, rest._spans.runs, strict=True)]
    shared = [replace(row, share=row.seconds / total) for row in rows]
    return Profile(shared, first.runs, Spans(spans, max(first._spans.limit, rest._spans.limit)))


def _span(run: Callable[[], object]) -> tuple[float, float]:
    """The start and the duration of a call in seconds."""
    start = perf_counter()
    run()
    return start, perf_counter() - start


def _profile(
    graph: DataGraph, partitions: Sequence[PartitionReport], spans: Sequence[Sequence[tuple[float, float]]], runs: int
) -> Profile:
    ops = {(op.kind, op.name): op for op in graph.ops}
    times = [[seconds for _, seconds in taken] for taken in zip(*spans, strict=True)]
    medians = [median(taken) for taken in times]
    total = sum(medians) or 1.0
    rows = []
    for report, taken, seconds in zip(partitions, times, medians, strict=True):
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
                min(taken),
                seconds / total,
                sum(counts) * rate * 1e-9 if counts else None,
                report.bytes * rate,
                report.implementation,
                report.bytes,
            )
        )
    return Profile(rows, runs, Spans(spans, get_num_threads() or 1))
