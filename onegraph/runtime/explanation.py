"""Explains a program: what each op and each partition costs beside what the machine can do, and why ops are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from .._util.counted import alike, counted, first_of
from .._util.html_table import html_table
from .._util.records import record
from ..builder.graph import DataGraph
from ..compiler.arithmetic import flops
from ..compiler.report import PartitionReport
from ..faults.use import PRODUCTS
from ..ir.op import LogicalTensor, Op, label_of
from ..opset.shapes import known, known_dims
from .apart import Edge
from .peaks import Peaks

Shares = tuple[float | None, float | None]


@record(frozen=True)
class ExplainedStep:
    """One partition: its arithmetic, its time and its shares of the peaks.

    Attributes:
        index: its index in the report.
        executor: who runs it; see ``PartitionReport``.
        ops: kind and name of its ops.
        arithmetic: the data types that are computed in.
        multiply_adds: of its convolutions and MatMuls; 0 for other ops.
        bytes: size of its inputs and outputs.
        seconds: median time of a run; None if it was not measured, or runs no code.
        compute: its multiply-adds per second, as a share of those of the fastest product on this machine; None without.
            A convolution by Winograd's transformations multiplies less than is counted, and may exceed 1.
        memory: its bytes per second, as a share of the bandwidth of the memory. Tensors in caches may exceed 1.
        implementation: oneDNN's names of the kernels; empty unless requested.
    """

    index: int
    executor: str
    ops: tuple[str, ...]
    arithmetic: str
    multiply_adds: int
    bytes: int
    seconds: float | None
    compute: float | None
    memory: float | None
    implementation: str = ""

    def to_dict(self) -> dict[str, object]:
        """The step as a plain dictionary."""
        return _as_dict(self, STEP)


@record(frozen=True)
class ExplainedOp:
    """One op of the graph, with the sum of the partitions that it became.

    Attributes:
        name, kind: of the op.
        steps: indices of the partitions that have the op or a part of it.
        beside: names of the other ops in these partitions.
        multiply_adds: of a convolution or MatMul; 0 for other ops.
        bytes: size of the inputs and outputs of the op.
        seconds: the sum of the times of its partitions. The time of a partition of several ops is that of the ones
            with multiply-adds, in equal parts; without any, of all. None if nothing was measured.
        compute, memory: shares of the peaks, as of a step.
        implementation: oneDNN's names of the kernels; empty unless requested.
    """

    name: str
    kind: str
    steps: tuple[int, ...]
    beside: tuple[str, ...]
    multiply_adds: int
    bytes: int
    seconds: float | None
    compute: float | None
    memory: float | None
    implementation: str = ""

    def to_dict(self) -> dict[str, object]:
        """The op as a plain dictionary."""
        return _as_dict(self, OP)


OP = "name kind steps beside multiply_adds bytes seconds compute memory implementation"
STEP = "index executor ops arithmetic multiply_adds bytes seconds compute memory implementation"


@record(frozen=True)
class Explanation:
    """What ``explain`` returns. ``print`` shows it as text.

    Attributes:
        library: name and version.
        peaks: what the machine does at most; None if nothing was measured.
        ops: the ops of the graph, in their order.
        steps: the partitions that run, in their order.
        edges: the tensors between partitions, each with the reason why the two are not one.
    """

    library: str
    peaks: Peaks | None
    ops: tuple[ExplainedOp, ...]
    steps: tuple[ExplainedStep, ...]
    edges: tuple[Edge, ...]

    def to_dict(self) -> dict[str, object]:
        """The explanation as plain dictionaries, lists, strings and numbers."""
        return {
            "library": self.library,
            "peaks": None if self.peaks is None else self.peaks.to_dict(),
            "ops": [op.to_dict() for op in self.ops],
            "steps": [step.to_dict() for step in self.steps],
            "edges": [edge.to_dict() for edge in self.edges],
        }

    def _heading(self) -> str:
        if self.peaks is None:
            return self.library
        rates = "".join(f", {kind} {rate * 1e-9:,.0f} GFLOP/s" for kind, rate in self.peaks.rates.items())
        machine = f"this machine: {self.peaks.bandwidth * 1e-9:,.1f} GB/s{rates}"
        lessened = ", measured beside other work, so that shares are too high" if self.peaks.disturbed else ""
        return f"{self.library}; {machine} on {counted(self.peaks.threads, 'thread')}{lessened}"

    def _tables(self) -> Iterator[list[list[str]]]:
        """The ops and the steps, each with its heads; steps that compute the same parts of the same ops are one row."""
        ops = [[f"{op.kind} {op.name!r}", _ranges(op.steps) or "-", *_figures(op)] for op in self.ops]
        yield [["op", "steps", *FIGURES], *ops]
        steps = []
        for rows in alike(self.steps, lambda step: (step.executor, step.ops, step.arithmetic, step.implementation)):
            step = _sum(rows)
            named = " + ".join(step.ops) + (f"  {step.implementation}" if step.implementation else "")
            steps.append([first_of(one.index for one in rows), step.executor, *_figures(step), named])
        yield [["step", "executor", *FIGURES, "ops"], *steps]

    def _reasons(self) -> Iterator[list[str]]:
        """The steps, tensors, bytes, cause and reason of the edges; those of one reason are one row."""
        for rows in alike(self.edges, lambda edge: (edge.cause, edge.reason)):
            edge = rows[0]
            pairs = first_of(f"{one.producer} -> {one.consumer}" for one in rows)
            size = sum({one.tensor: one.bytes for one in rows}.values())
            yield [pairs, first_of(one.tensor for one in rows), f"{size:,}", edge.cause, edge.reason]

    def _repr_html_(self) -> str:
        """The ops, the steps and the reasons as tables for a notebook."""
        pages = []
        for caption, (heads, *rows) in zip((f"{self._heading()}\nops", "steps"), self._tables(), strict=True):
            numbers = [place for place, head in enumerate(heads) if head in NUMBERS]
            pages.append(html_table(caption, heads, rows, numbers))
        if self.edges:
            heads = ["steps", "tensor", "bytes", "cause", "reason"]
            pages.append(html_table("why partitions are apart", heads, [*self._reasons()], [2]))
        return "".join(pages)

    def __str__(self) -> str:
        lines = [self._heading()]
        for table in self._tables():
            lines += ["", *_table(table)]
        if self.edges:
            lines += ["", "why partitions are apart"]
        for steps, tensors, size, cause, reason in self._reasons():
            lines += [f"{steps}  {tensors}, {size} bytes: {cause}", f"    {reason}"]
        return "\n".join(lines)

    __repr__ = __str__


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as text, such as ``0-3 5``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(str(first) if not more else f"{first}-{more[-1]}" for first, *more in runs)


def _sum(steps: Sequence[ExplainedStep]) -> ExplainedStep:
    """Steps as one: figures are added, and shares are means by time."""
    timed = [step for step in steps if step.seconds]
    times = [step.seconds for step in steps if step.seconds]
    seconds = sum(times)

    def mean(shares: Sequence[float | None]) -> float | None:
        parts = [share * time for share, time in zip(shares, times, strict=True) if share is not None]
        return sum(parts) / seconds if timed and len(parts) == len(timed) else None

    return replace(
        steps[0],
        multiply_adds=sum(step.multiply_adds for step in steps),
        bytes=sum(step.bytes for step in steps),
        seconds=seconds if timed else None,
        compute=mean([step.compute for step in timed]),
        memory=mean([step.memory for step in timed]),
    )


def explained(
    library: str,
    graph: DataGraph,
    reports: Sequence[PartitionReport],
    times: Mapping[int, float],
    peaks: Peaks | None,
    edges: tuple[Edge, ...],
) -> Explanation:
    """The explanation of a program.

    Args:
        library: name and version.
        graph: the graph of the program, with known dims.
        reports: its partitions.
        times: seconds, by index of the partition; empty if nothing was measured.
        peaks: of the machine.
        edges: the tensors between partitions.
    """
    ops = {op.name: op for op in graph.ops}
    work = {name: (flops(op) or 0) // 2 for name, op in ops.items()}
    carriers: dict[str, list[int]] = {}  # the steps that do the multiply-adds of an op
    for report in reports:
        for kind, name in zip(report.kinds, report.names, strict=True):
            if work.get(name) and (kind == label_of(ops[name]) or kind.rpartition(": ")[2] in PRODUCTS):
                carriers.setdefault(name, []).append(report.index)
    counts = {}
    for report in reports:
        inside = [name for name in report.names if report.index in carriers.get(name, ())]
        counts[report.index] = sum(work[name] // len(carriers[name]) for name in dict.fromkeys(inside))
    peaks = peaks and _raised(peaks, reports, counts, times)
    steps = []
    for report in reports:
        count = counts[report.index]
        seconds = times.get(report.index)
        shares = _shares(count, report.bytes, seconds, report.arithmetic, peaks)
        steps.append(
            ExplainedStep(
                report.index,
                report.executor,
                report.ops,
                report.arithmetic,
                count,
                report.bytes,
                seconds,
                *shares,
                report.implementation,
            )
        )
    explained_ops = tuple(_of_op(op, work, reports, times, peaks) for op in graph.ops)
    return Explanation(library, peaks, explained_ops, tuple(steps), edges)


def _raised(
    peaks: Peaks, reports: Sequence[PartitionReport], counts: Mapping[int, int], times: Mapping[int, float]
) -> Peaks:
    """The peaks, and of them at least what partitions reach that multiply as often as is counted."""
    rates = dict(peaks.rates)
    for report in reports:
        is_whole = all(": " not in kind for kind in report.kinds)
        if is_whole and report.arithmetic in rates and (seconds := times.get(report.index)):
            rates[report.arithmetic] = max(rates[report.arithmetic], 2 * counts[report.index] / seconds)
    return replace(peaks, rates=rates)


def _of_op(
    op: Op,
    work: Mapping[str, int],
    reports: Sequence[PartitionReport],
    times: Mapping[int, float],
    peaks: Peaks | None,
) -> ExplainedOp:
    own = [report for report in reports if op.name in report.names]
    beside = tuple(dict.fromkeys(name for report in own for name in report.names if name != op.name))
    taken = [times[report.index] * _part(op.name, report, work) for report in own if report.index in times]
    seconds = sum(taken) if taken else None
    size = sum(map(_size, dict.fromkeys((*op.inputs, *op.outputs))))
    arithmetic = next((report.arithmetic for report in own if report.arithmetic), "")
    names = ", ".join(dict.fromkeys(report.implementation for report in own if report.implementation))
    numbers = tuple(report.index for report in own)
    shares = _shares(work[op.name], size, seconds, arithmetic, peaks)
    return ExplainedOp(op.name, op.kind, numbers, beside, work[op.name], size, seconds, *shares, names)


def _part(name: str, report: PartitionReport, work: Mapping[str, int]) -> float:
    """The part of the time of a partition that is that of an op."""
    names = [*dict.fromkeys(report.names)]
    heavy = [name for name in names if work.get(name)]
    return (name in (heavy or names)) / len(heavy or names)


def _shares(count: int, size: int, seconds: float | None, arithmetic: str, peaks: Peaks | None) -> Shares:
    """The shares of the peaks of arithmetic and of memory."""
    if not seconds or peaks is None:
        return None, None
    rate = peaks.rates.get(arithmetic)
    return (2 * count / seconds / rate if count and rate else None), size / seconds / peaks.bandwidth


def _size(tensor: LogicalTensor) -> int:
    if not known(tensor.shape):
        return 0
    size = tensor.dtype.numpy.itemsize
    for dim in known_dims(tensor.shape):
        size *= dim
    return size


def _figures(row: ExplainedOp | ExplainedStep) -> list[str]:
    return [
        f"{row.multiply_adds:,}" if row.multiply_adds else "",
        f"{row.bytes:,}",
        "" if row.seconds is None else f"{row.seconds * 1e6:,.1f}",
        "" if row.compute is None else f"{row.compute:.1%}",
        "" if row.memory is None else f"{row.memory:.1%}" if row.memory <= 1 else "cache",
    ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines of text; figures are right-aligned, and empty columns are left out."""
    columns = [place for place in range(len(rows[0])) if any(row[place] for row in rows[1:])]
    widths = {place: max(len(row[place]) for row in rows) for place in columns}
    lines = []
    for row in rows:
        cells = [
            row[place].rjust(widths[place]) if rows[0][place] in NUMBERS else row[place].ljust(widths[place])
            for place in columns
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


FIGURES = ("multiply-adds", "bytes", "us", "compute", "memory")
NUMBERS = (*FIGURES, "step")


def _as_dict(row: object, names: str) -> dict[str, object]:
    return {name: getattr(row, name) for name in names.split()}
