"""Says why two partitions, of which one reads what the other makes, are not one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from .._util.records import record
from ..builder.graph import DataGraph
from ..builder.uses import uses_of
from ..compiler.documented_patterns import INT8, STARTS, beside_attention, nearest_pattern
from ..compiler.report import NamedTensor, PartitionReport, nbytes
from ..compiler.unfused import ONE_BY_ONE, is_for_sizes, is_kept_apart, kept_apart
from ..ir.op import Op
from ..native.library import VERSION
from ..opset.editions.registry import DEFAULT, HOST, edition
from ..opset.fusion_patterns import missing_in_guide
from ..opset.kinds import PRODUCTS, QUANTIZATIONS
from .joining import SHORT, Joining, reason_of

if TYPE_CHECKING:
    from .compile_options import CompileOptions

ORDERED = ("Subtract", "Divide")  # the binary ops whose operands differ in meaning
BETWEEN = "with a Dequantize of its source and one of its weights"
# How a partition runs that is no partition of the library: the cause, and what is said of it.
OTHERS = {
    "host": ("host op", "numpy runs {ops}"),
    "reference": ("reference kernel", "numpy runs {ops}"),
    "view": ("view", "{ops} runs no kernel"),
    "copy": ("copy", "{ops} only moves elements"),
    "constant": ("constant", "{ops} was computed once, at compilation"),
}


@record(frozen=True)
class Edge:
    """A tensor between two partitions, and why they are not one.

    Attributes:
        producer, consumer: indices of the partitions in the report.
        tensor: its name.
        bytes: its size, which is written and read again.
        cause: ``second consumer``, ``no pattern``, ``data type``, ``fault``, ``own kernel``, ``host op``,
            ``reference kernel``, ``view``, ``copy``, ``constant``, ``policy``, ``rewritten`` or ``neighbours``.
        reason: the cause in a sentence, with the names of what it is about.
    """

    producer: int
    consumer: int
    tensor: str
    bytes: int
    cause: str
    reason: str

    def to_dict(self) -> dict[str, object]:
        """The edge as a plain dictionary."""
        return {name: getattr(self, name) for name in ("producer", "consumer", "tensor", "bytes", "cause", "reason")}


def edges_of(
    graph: DataGraph, reports: Sequence[PartitionReport], options: CompileOptions, make: Callable[..., Any]
) -> tuple[Edge, ...]:
    """The tensors between partitions.

    Args:
        graph: the graph of the program, with known dims.
        reports: its partitions.
        options: of its compilation.
        make: makes executables of graphs, which tell what other options would join.
    """
    return tuple(_Edges(graph, reports, options, make))


class _Edges:
    def __init__(
        self, graph: DataGraph, reports: Sequence[PartitionReport], options: CompileOptions, make: Callable[..., Any]
    ) -> None:
        self.graph, self.reports, self.options, self.make = graph, reports, options, make
        self.by_name = {op.name: op for op in graph.ops}
        self.ends: dict[str, str] = {}
        for name, tensor in graph.outputs.items():
            self.ends.setdefault(tensor.name, name)
        self.readers: dict[object, list[int]] = {}
        made = dict[object, object]()  # by the memory, what was written there last
        results = {_key(result) for report in reports for result in report.results}
        for report in reports:
            for source in report.sources:
                key = _key(source)
                key = key if key in results else made.get(getattr(source, "storage", None), key)
                self.readers.setdefault(key, []).append(report.index)
            made.update({getattr(result, "storage", None): _key(result) for result in report.results})
        self.joining = Joining(graph, options, make)

    def __iter__(self) -> Iterator[Edge]:
        place = {report.index: report for report in self.reports}
        for report in self.reports:
            for tensor in report.results:
                for number in dict.fromkeys(self.readers.get(_key(tensor), ())):
                    if number != report.index:
                        cause, reason = self._why(report, place[number], tensor)
                        yield Edge(report.index, number, tensor.name, nbytes(tensor), cause, reason)

    def _why(self, first: PartitionReport, second: PartitionReport, tensor: NamedTensor) -> tuple[str, str]:
        if self.options.policy == "debug":
            return "policy", ONE_BY_ONE
        if parts := self._parts_of_one(first, second):
            return "rewritten", parts
        for report in (first, second):
            if not any(name in self.by_name for name in report.names):
                why = reason_of(report) or "its consumer needs another layout"
                return "copy", f"{_ops(report)}: {why}"
            if report.executor in OTHERS:
                cause, text = OTHERS[report.executor]
                text = text.format(ops=_ops(report))
                why = "" if cause == "constant" else reason_of(report)
                return cause, text + (f": {why}" if why else "") + self._without_move(report, first, second, tensor)
        if together := kept_apart(first, second):
            return "fault", together
        ops = [self.by_name[name] for name in (*first.names, *second.names) if name in self.by_name]
        if split := self._split_codes(ops):
            return "fault", split
        for report in sorted((second, first), key=lambda one: not is_for_sizes(one.reason)):
            if report.executor == "kernel":
                reason = reason_of(report).removeprefix("by onegraph")
                reason = reason.removeprefix(", ").removeprefix(": ")
                text = f"a kernel of onegraph runs {_ops(report)}{': ' if reason else ''}{reason}"
                if lacking := [name for name in report.names if name in self.by_name if self._is_foreign(name)]:
                    kind = self.by_name[lacking[0]].kind
                    return "own kernel", f"oneDNN has no op {kind}; a kernel of onegraph runs {_ops(report)}"
                if not self.joining.joins(ops):
                    return "own kernel", f"{text}; {self._without_pattern(first, second, tensor)}"
                if readers := self._others(second, tensor):
                    text += f"; {tensor.name} has a second consumer too, {readers}"
                elif not is_for_sizes(report.reason) and (joined := self.joining.with_finite_math(ops)):
                    text += f"; {joined}"
                return "own kernel", text
        if self.joining.joins(ops):
            return self._beside(first, second, ops, tensor)
        if any(end.dtype in SHORT for op in ops for end in op.outputs) and self.joining.joins(ops, f32=True):
            types = ", ".join(sorted({str(end.dtype) for op in ops for end in op.outputs}))
            return "data type", f"the library joins {_ops(first)} and {_ops(second)} in f32, but not in {types}"
        for report in (second, first):
            if several := self._several(report, tensor):
                return "rewritten", several
        return "no pattern", self._without_pattern(first, second, tensor)

    def _parts_of_one(self, first: PartitionReport, second: PartitionReport) -> str:
        """Which op has parts in both partitions, and why it runs as other ops; empty if none has."""
        for kind, name in zip(first.kinds, first.names, strict=True):
            if ": " in kind and name in second.names:
                why = next((f": {reason_of(one)}" for one in (first, second) if reason_of(one)), "")
                return f"both compute a part of {kind.partition(': ')[0]} {name!r}, which runs as several ops{why}"
        return ""

    def _several(self, report: PartitionReport, tensor: NamedTensor) -> str:
        """Which op beside a tensor runs as several steps, of which a partition is one, and why; empty if none does."""
        ops = [self.by_name[name] for name in report.names if name in self.by_name]
        touching = {op.name for op in ops for end in op.inputs + op.outputs if end.name == tensor.name}
        for kind, name in zip(report.kinds, report.names, strict=True):
            parts = [one for one in self.reports if name in one.names and one.executor in ("oneDNN", "kernel")]
            if ": " in kind and len(parts) > 1 and name in (touching or report.names):
                why = f": {reason_of(report)}" if reason_of(report) else ""
                return f"{kind.partition(':')[0]} {name!r} runs as several ops{why}"
        return ""

    def _without_move(
        self, moving: PartitionReport, first: PartitionReport, second: PartitionReport, tensor: NamedTensor
    ) -> str:
        """What is between a maker and a reader if a view or copy does not stand there; empty if that is not known.

        Args:
            moving: what is not computed by the library or a kernel; it is one of the next two.
            first: the partition that makes a tensor.
            second: the one that reads it.
            tensor: the tensor.
        """
        names = [name for name in moving.names if name in self.by_name]
        if ": " in moving.kinds[0] or moving.executor == "constant":
            return ""
        if moving.executor not in ("view", "copy"):
            known = moving is second and not self._is_foreign(names[0])
            return f"; {self._without_pattern(first, second, tensor)}" if known else ""
        sources, results = {_key(one) for one in moving.sources}, {_key(one) for one in moving.results}
        makers = [one for one in self.reports if any(_key(made) in sources for made in one.results)]
        readers = [one for one in self.reports if any(_key(read) in results for read in one.sources)]
        makers, readers = makers if first is moving else [first], readers if second is moving else [second]
        for maker, reader in product(makers, readers):
            ops = [self.by_name[name] for name in (*maker.names, *names, *reader.names) if name in self.by_name]
            if self.joining.joins(ops, without=names[0]):
                return f"; the library joins {_ops(maker)} and {_ops(reader)} if it does not stand between them"
        chain, kind = [kind for maker in makers[:1] for kind in _lowered(maker)], self.by_name[names[0]].kind
        near = None if self._is_foreign(names[0]) or kind in STARTS else nearest_pattern(chain)
        if near is None or not (missing := missing_in_guide([*chain, kind], VERSION[:2])):
            return ""
        return f"; the nearest pattern is {near.name!r}, but {missing}"

    def _without_pattern(self, first: PartitionReport, second: PartitionReport, tensor: NamedTensor) -> str:
        """Why no pattern has the ops of two partitions: the nearest one, and what differs from it."""
        kinds, more = _lowered(first), _plain(second)
        names = (*first.names, *second.names)
        begins = next((kind for kind in more if kind in STARTS), None)
        start = next((kind for kind in kinds if kind in STARTS), None)
        if {begins, start} == {"MatMul", "SoftMax"}:
            return beside_attention(self.graph, names)
        if missing := self._without_codes(first, second, tensor):
            return missing
        if begins is not None and start is not None:
            pair = f"{self._named(start, first)} and {self._named(begins, second)}"
            return f"no pattern of oneDNN has both: {pair} each begin a pattern of their own"
        if begins is not None:
            return f"no pattern of oneDNN has {begins} behind {kinds[-1]}: {begins} begins a pattern"
        near = nearest_pattern([*kinds, *more])
        if near is None:
            return f"no pattern of oneDNN begins with {kinds[0]}"
        strange = next((kind for kind in more if kind not in near.after), None)
        if strange is not None:
            return (
                f"no pattern of oneDNN has {strange} behind {' + '.join(kinds)}; the nearest is {near.name!r}, which "
                f"goes on with {_some(near.after)}"
            )
        if missing := missing_in_guide([*kinds, *_chain(second)], VERSION[:2]):
            return f"the nearest pattern is {near.name!r}, but {missing}"
        if turned := self._turned(second, tensor):
            return f"the nearest pattern is {near.name!r}, {turned}"
        shapes = ", ".join(f"{source.name}: {source.dtype} {list(source.shape)}" for source in second.sources)
        return (
            f"the pattern {near.name!r} has these ops, but this version of oneDNN does not take this form of it: "
            f"{shapes}"
        )

    def _is_foreign(self, name: str) -> bool:
        """Whether an op of the graph is of a kind that no edition of the specification has."""
        op = self.by_name[name]
        return op.edition == HOST and edition(DEFAULT).schema(op.kind) is None

    def _named(self, kind: str, report: PartitionReport) -> str:
        """Kind and name of an op of a partition."""
        return next((op for op in report.ops if op.startswith(f"{kind} ")), kind)

    def _ends(self, first: PartitionReport, second: PartitionReport, tensor: NamedTensor) -> set[str]:
        """The kinds of the ops that make and read a tensor between partitions; of all ops for a tensor within an op."""
        ends = {
            op.kind
            for report, side in ((first, "outputs"), (second, "inputs"))
            for op in (self.by_name[name] for name in report.names if name in self.by_name)
            if tensor.name in [end.name for end in getattr(op, side)]
        }
        return ends or {*_plain(first), *_plain(second)}

    def _turned(self, second: PartitionReport, tensor: NamedTensor) -> str:
        """Which op reads a tensor as its second operand, where a pattern needs it as the first; empty if none does."""
        for op in (self.by_name[name] for name in second.names if name in self.by_name):
            places = [place for place, end in enumerate(op.inputs) if end.name == tensor.name]
            if op.kind in ORDERED and places == [1]:
                return f"which computes the first operand of {op.kind}; of {op.name!r} this is the second"
        return ""

    def _without_codes(self, first: PartitionReport, second: PartitionReport, tensor: NamedTensor) -> str:
        """What keeps ops beside a Dequantize or Quantize from an int8 kernel; empty if no such kernel is near."""
        producers, ends = uses_of(self.graph).producers, self._ends(first, second, tensor)
        for report in (second, first):
            for op in (self.by_name[name] for name in report.names if name in self.by_name):
                sides = [*zip(("source", "weights"), op.inputs, strict=False)] if op.kind in INT8 else []
                makers = [(side, end, producers.get(end.id)) for side, end in sides]
                bare = [(side, end) for side, end, maker in makers if maker is None or maker.kind not in QUANTIZATIONS]
                reads_codes = not bare and all(maker is not None and maker.name in report.names for *_, maker in makers)
                is_half = len(bare) == 1 and bare[0][1].name == tensor.name
                if not reads_codes and (is_half or not QUANTIZATIONS.isdisjoint(ends)):
                    missing = f"here no Dequantize makes its {' and its '.join(side for side, _ in bare)}"
                    missing = missing if bare else "the ops around it differ"
                    return f"an int8 kernel takes {op.kind} {BETWEEN}, and a Quantize behind it; {missing}"
        if QUANTIZATIONS.isdisjoint(ends):
            return ""
        return self.joining.coded([self.by_name[one] for one in (*first.names, *second.names) if one in self.by_name])

    def _split_codes(self, ops: Sequence[Op]) -> str:
        """Which Dequantize or Quantize around a product keeps it from an int8 kernel, as it runs as other ops, and why.

        Empty if none of ``ops`` is one, or none runs as other ops.
        """
        products = [op for op in ops if op.kind in PRODUCTS]
        if not products or all(op.kind not in QUANTIZATIONS for op in ops):
            return ""
        uses = uses_of(self.graph)
        before = [uses.producers.get(end.id) for op in products for end in op.inputs]
        around = {op.name: op for op in (*before, *ops) if op is not None and op.kind in QUANTIZATIONS}
        for report in self.reports:
            for kind, name in zip(report.kinds, report.names, strict=True):
                text = f"an int8 kernel takes {products[0].kind} {products[0].name!r} {BETWEEN}"
                if name in around and is_kept_apart(report.reason):
                    return f"{text}, but {report.reason}"
                if name in around and ": " in kind and report.reason:
                    return f"{text}, but {around[name].kind} {name!r} runs as other ops: {report.reason}"
        return ""

    def _others(self, second: PartitionReport, tensor: NamedTensor) -> str:
        """What reads a tensor beside the second partition; empty if nothing does."""
        readers = [number for number in self.readers[_key(tensor)] if number != second.index]
        causes = [_ops(report) for report in self.reports if report.index in readers]
        if tensor.name in self.ends:
            causes.append(f"output {self.ends[tensor.name]!r}")
        return ", ".join(dict.fromkeys(causes))

    def _beside(
        self, first: PartitionReport, second: PartitionReport, ops: Sequence[Op], tensor: NamedTensor
    ) -> tuple[str, str]:
        """Why two partitions are apart that the library joins if there is nothing else."""
        if readers := self._others(second, tensor):
            text = f"{tensor.name} has a second consumer, {readers}, and a fusion keeps its inner results"
            return "second consumer", f"{text}; the library joins the two if {_ops(second)} alone reads it"
        for report in (first, second):
            if is_kept_apart(report.reason):
                return "fault", report.reason
            if reason_of(report) and (joined := self.joining.with_finite_math(ops)):
                return "own kernel", f"{_ops(report)}: {reason_of(report)}; {joined}"
        return "neighbours", "the library joins the two if they are alone, but joins their neighbours first"


def _key(tensor: NamedTensor) -> object:
    """What is equal for the result of one partition and the input of another."""
    return getattr(tensor, "id", tensor.name)


def _ops(report: PartitionReport) -> str:
    return " + ".join(report.ops)


def _plain(report: PartitionReport) -> list[str]:
    """The kinds of the ops of a partition; of a part of an op, that of the op."""
    return [*dict.fromkeys(kind.partition(":")[0] for kind in report.kinds)]


def _chain(report: PartitionReport) -> list[str]:
    """The kind of each op of a partition."""
    return [kind.partition(":")[0] for kind, _ in dict.fromkeys(zip(report.kinds, report.names, strict=True))]


def _lowered(report: PartitionReport) -> list[str]:
    """The kind of each op of a partition as the library sees it: of a part of an op that of the part, but for casts."""
    parts = [kind.rpartition(": ")[2] for kind in report.kinds if not kind.endswith(": TypeCast")]
    return parts or _plain(report)


def _some(kinds: frozenset[str]) -> str:
    names = sorted(kinds)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} others" if len(names) > 6 else "")
