"""Converts a graph, with its report, violations and times, to plain data that the page, SVG and dot are drawn from."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from .._util.validation import string
from ..builder.graph import DataGraph, snapshot
from ..builder.op_pages import to_dict as op_page
from ..errors import Violation
from ..ir.op import Array, LogicalTensor, Op
from ..opset.editions.registry import edition
from .given import facts_of, seconds_of, violations_of

Times = Sequence[float] | Mapping[int, float]
Record = dict[str, object]
# The form of an op in reports and violations: its kind and the repr of its name.
_NAMED = re.compile(r"\S+ ('.*'|\".*\")", re.DOTALL)
PREVIEW = 12
KNOWN = {"index", "ops", "names", "executor", "reason", "inputs", "outputs", "bytes", "fused", "reference_kernel"}
NUMPY = ("reference", "host", "copy")  # executors of partitions that numpy runs


class ReportLike(Protocol):
    """The report of an executable: ``Executable.report()``."""

    def to_dict(self) -> dict[str, object]:
        """The report as plain dictionaries, lists, strings and numbers."""


def model(
    graph: DataGraph,
    report: ReportLike | Mapping[str, object] | None = None,
    violations: Iterable[Violation] | None = None,
    times: Times | None = None,
    *,
    title: str = "graph",
    specification: bool = False,
) -> Record:
    """The graph as dictionaries, lists, strings and numbers that can be written as JSON.

    Args:
        graph: the graph.
        report: the report of its executable, or the dictionary of that report.
        violations: result of ``check_graph``.
        times: seconds of one run of each partition, in the order of the report or by index.
        title: text for the heading.
        specification: True includes the tables of the specification, one for each kind of op and edition.

    Raises:
        ArgumentError: an argument has the wrong type.
    """
    graph = snapshot(graph)._as_step()
    title = string("title", title)
    numbers = {op.name: number for number, op in enumerate(graph.ops)}
    facts = facts_of(report)
    partitions = _partitions(facts, numbers, seconds_of(times))
    records_of_op: list[list[Record]] = [[] for _ in graph.ops]
    loose: list[Record] = []
    for violation in violations_of(violations):
        record: Record = {key: getattr(violation, key) for key in ("rule", "severity", "op", "where", "given")}
        record["expected"] = violation.message.rpartition("; expected ")[2]
        number = numbers.get(_name(violation.op))
        (loose if number is None else records_of_op[number]).append(record)
    kinds = dict.fromkeys((op.kind, op.edition) for op in graph.ops)
    place = {key: index for index, key in enumerate(kinds)}
    owners: list[list[int]] = [[] for _ in graph.ops]
    for index, members in enumerate(_members(partitions)):
        for number in members:
            owners[number].append(index)
    shared = {index for index, members in enumerate(_members(partitions)) if len(members) > 1}
    tensors: dict[int, LogicalTensor] = {tensor.id: tensor for tensor in _tensors(graph)}
    return {
        "title": title,
        "edition": graph.edition,
        "library": facts.get("library", ""),
        "note": facts.get("note", ""),
        "ops": [
            _op(op, place[op.kind, op.edition], owners[number], partitions, shared, records_of_op[number])
            for number, op in enumerate(graph.ops)
        ],
        "tensors": {str(number): _tensor(tensor) for number, tensor in tensors.items()},
        "inputs": [[name, str(tensor.id)] for name, tensor in graph.inputs.items()],
        "outputs": [[name, str(tensor.id)] for name, tensor in graph.outputs.items()],
        "constants": [str(graph.inputs[name].id) for name in graph.constant_inputs],
        "partitions": partitions,
        "violations": loose,
        "specs": [_specification(*key, full=specification) for key in kinds],
    }


def _tensors(graph: DataGraph) -> Iterator[LogicalTensor]:
    yield from graph.inputs.values()
    for op in graph.ops:
        yield from (*op.inputs, *op.outputs)
    yield from graph.outputs.values()


def _op(
    op: Op,
    spec: int,
    owners: list[int],
    partitions: Sequence[Record],
    shared: Collection[int],
    violations: list[Record],
) -> Record:
    """The record of one op.

    An op is in several partitions if it runs in parts, or is computed again where its result is read. ``shared`` are
    the partitions that have several ops.
    """
    times = {place: seconds for place in owners if isinstance(seconds := partitions[place]["seconds"], float)}
    main = max(owners, key=lambda place: (place in shared, times.get(place, 0.0)), default=None)
    own = [seconds for place, seconds in times.items() if place == main or place not in shared]
    return {
        "kind": op.kind,
        "name": op.name,
        "spec": spec,
        "attrs": {name: _value(value) for name, value in op.attrs.items()},
        "inputs": [str(tensor.id) for tensor in op.inputs],
        "outputs": [str(tensor.id) for tensor in op.outputs],
        "partition": main,
        "partitions": owners,
        "seconds": sum(own) if own else None,  # of the op's own partitions, or of the partition it is fused into
        "numpy": any(partitions[place]["executor"] in NUMPY for place in owners),
        "violations": violations,
    }


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def _tensor(tensor: LogicalTensor) -> Record:
    shape = tensor.shape
    known = shape is not None and None not in shape
    size = 1
    for dim in shape or ():
        size *= dim or 0
    return {
        "name": tensor.name,
        "dtype": tensor.dtype.value,
        "shape": None if shape is None else list(shape),
        "strides": None if tensor.strides is None else list(tensor.strides),
        "bytes": size * tensor.dtype.numpy.itemsize if known else None,
        "value": None if tensor.value is None else _preview(tensor.value),
    }


def _preview(array: Array) -> str:
    """The first elements of a constant, as text."""
    first = [str(value) for value in array.ravel()[:PREVIEW]]
    return ", ".join([*first, "…"] if array.size > PREVIEW else first)


def _specification(kind: str, name: str, full: bool) -> Record:
    """The specification of an op in its edition; without ``full``, only the entries that the drawing needs."""
    chosen = edition(name)
    schema = chosen.schema(kind)
    if schema is None:
        return {"kind": kind, "edition": name, "category": "unknown"}
    page = op_page(chosen, schema)
    return page if full else {key: page[key] for key in ("kind", "edition", "category")}


# Partitions -----------------------------------------------------------------------------------------------------------


def _partitions(facts: Mapping[str, object], numbers: Mapping[str, int], times: Mapping[int, float]) -> list[Record]:
    entries = facts.get("partitions", ())
    assert isinstance(entries, (list, tuple))
    made: list[Record] = []
    for place, entry in enumerate(entries):
        index = entry.get("index", place)
        names = entry.get("names") or [_name(text) for text in entry.get("ops", ())]
        # What replaces an op once its dims are known has the name of the op and a number.
        stems = (name if name in numbers else name.rpartition("/")[0] for name in names)
        ops = [numbers[name] for name in dict.fromkeys(stems) if name in numbers]
        more = {key: value for key, value in entry.items() if key not in KNOWN}
        if more.get("threads") == 0:
            more["threads"] = "all"
        made.append(
            {
                "index": index,
                "ops": ops,
                "executor": entry.get("executor", ""),
                "fused": entry.get("executor") == "oneDNN" and len(ops) > 1,
                "numpy": entry.get("executor") in NUMPY,
                "reference": bool(entry.get("reference_kernel")),
                "reason": entry.get("reason", ""),
                "inputs": [_value(name) for name in entry.get("inputs", ())],
                "outputs": [_value(name) for name in entry.get("outputs", ())],
                "bytes": entry.get("bytes"),
                "seconds": times.get(index),
                # further entries of the report, such as threads and layouts
                "more": {key: _value(value) for key, value in more.items() if value is not None},
            }
        )
    return made


def _members(partitions: Sequence[Record]) -> list[list[int]]:
    return [ops for entry in partitions if isinstance(ops := entry["ops"], list)]


def _name(text: object) -> str:
    """The name of an op in a text such as ``Convolution 'conv_1'``."""
    match = _NAMED.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return ""
    try:
        name = ast.literal_eval(match[1])
    except (SyntaxError, ValueError):
        return ""
    return name if isinstance(name, str) else ""
