"""Defines the profile of a program, the times of its partitions: as text, as an HTML table and as a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

from .._util.counted import alike, counted, first_of
from .._util.html_table import RED, Cell, html_table
from .._util.records import record
from ..compiler.report import names_reference_kernel

WIDTH = 24  # characters of the longest bar
BARS = " ▏▎▍▌▋▊▉█"


@record(frozen=True)
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

    def _folded(self) -> list[tuple[str, ProfileRow]]:
        """The rows and their numbers; rows of the same parts of the same ops are one."""
        groups = alike(self.rows, lambda row: (row.ops, row.executor, row.threads, row.implementation))
        return [(first_of(row.index for row in rows), _sum(rows)) for rows in groups]

    def _table(self) -> list[list[str]]:
        return [
            [
                number,
                f"{row.seconds * 1e6:,.1f}",
                f"{row.shortest * 1e6:,.1f}",
                f"{row.share:.1%}",
                "" if row.gflops is None else f"{row.gflops:,.1f}",
                f"{row.bandwidth * 1e-9:,.2f}",
                row.executor if row.threads is None else f"{row.executor}, {row.threads or 'all'}",
                " + ".join(row.ops),
                row.implementation,
            ]
            for number, row in self._folded()
        ]

    def __str__(self) -> str:
        lines = [COLUMNS, *self._table()]
        if not any(row.implementation for row in self.rows):
            lines = [line[:-1] for line in lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shares = [row.share for _, row in self._folded()]
        longest = max(shares, default=0) or 1
        bars = ["", *(_bar(share / longest) for share in shares)]
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
        for (_, row), line in zip(self._folded(), self._table(), strict=True):
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


def _sum(rows: Sequence[ProfileRow]) -> ProfileRow:
    """Rows as one: times, shares and bytes are added, and the others are means by time."""
    seconds = sum(row.seconds for row in rows)
    if not seconds:
        return rows[0]
    rates = [row.gflops * row.seconds for row in rows if row.gflops is not None]
    return replace(
        rows[0],
        seconds=seconds,
        shortest=sum(row.shortest for row in rows),
        share=sum(row.share for row in rows),
        gflops=sum(rates) / seconds if len(rates) == len(rows) else None,
        bandwidth=sum(row.bandwidth * row.seconds for row in rows) / seconds,
        bytes=sum(row.bytes for row in rows),
    )


def _bar(part: float) -> str:
    eighths = round(part * WIDTH * 8)
    return BARS[-1] * (eighths // 8) + BARS[eighths % 8].strip()


def chrome_trace(profiles: Mapping[str, Profile]) -> str:
    """Profiles as JSON in Chrome's trace event format; each is a process with the name by which it is given."""
    events = [
        event for number, (name, profile) in enumerate(profiles.items()) for event in _events(number, name, profile)
    ]
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
