"""Implements ``onegraph show``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import starmap
from typing import TYPE_CHECKING

import click

from ..errors import LibraryError, UnsupportedError
from ..ir.op import schema_of
from ..opset.signature import Fill
from ..serialize.writer import op_ids, tensor_ids
from . import note
from .graph_source import GraphSource
from .once import OnceCommand
from .options import Compiling, compiling, graph_file, json_option
from .terminal import dims, emit, print_rich, table

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..compiler.report import PartitionReport
    from ..graph import Graph
    from ..ir.op import LogicalTensor, Op

COLOURS = (
    "cyan",
    "green",
    "yellow",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_green",
    "bright_yellow",
    "bright_magenta",
)


@click.command(cls=OnceCommand)
@graph_file
@compiling
@click.option("--no-compile", is_flag=True, help="Show only the file, without partitions; needs no library.")
@click.option("--passes", is_flag=True, help="Show what each pass of the compiler changes, instead of the graph.")
@json_option
def command(source: GraphSource, compiling: Compiling, no_compile: bool, passes: bool, as_json: bool) -> None:
    """Show the graph in FILE: inputs, ops with shapes and attributes, outputs, and its partitions.

    - is standard input. # is the id of an op in FILE, for --op-attrs and --op-kind. ? is an unknown dim. Attributes
    with default values are shown only with --json.
    """
    graph = source.load(contents=False)
    if passes:
        _show_passes(graph.without_wildcards(), compiling, as_json)
        return
    partitions: tuple[PartitionReport, ...] = ()
    report = None
    runs = graph.without_wildcards()
    if not no_compile and runs.outputs:
        try:
            report = runs.compile(**compiling._asdict()).report()
            partitions = report.partitions
        except (LibraryError, UnsupportedError) as error:
            note(f"without partitions: {error}")
    owners = {name: partition for partition in reversed(partitions) for name in partition.names}
    if as_json:
        emit(_facts(graph, owners) | {"report": None if report is None else report.to_dict()})
        return
    inputs = [_tensor(name, tensor, name in graph.constant_inputs) for name, tensor in graph.inputs.items()]
    parts: list[Table | str] = [table(("input", "dtype", "shape="), inputs)]
    constants = _constants(graph)
    if constants:
        parts.append(table(("constant", "dtype", "shape="), ([*_tensor(t.name, t)] for t in constants)))
    titles = ("#>", *(["partition>"] if partitions else []), "op", "name", "from", "result=", "attributes")
    parts.append(table(titles, _rows(graph, owners, bool(partitions))))
    parts.append(table(("output", "dtype", "shape="), starmap(_tensor, graph.outputs.items())))
    print_rich(*parts, *([] if report is None else [str(report)]))


def _show_passes(graph: Graph, compiling: Compiling, as_json: bool) -> None:
    from ..compiler.options import Options
    from ..compiler.pass_changes import pass_changes

    updates = frozenset([graph.outputs[output].id for output in graph._next.values()])
    mode = compiling.fpmath_mode or ("strict" if graph._file is None else graph._file.fpmath_mode)
    options = Options(compiling.policy, mode, compiling.reproducible, compiling.finite_math, updates)
    changes = pass_changes(graph, options)
    if as_json:
        emit({"passes": [change._asdict() for change in changes]})
        return
    for change in changes:
        steps = [f"  - {text}" for text in change.removed] + [f"  + {text}" for text in change.added]
        unchanged = "  changes nothing" if change.runs else "  does not run with these options"
        refused = [f"  ! {text}" for text in change.refused]
        click.echo("\n".join([f"{change.name}: {change.reason}", *(steps or [unchanged]), *refused]))


def _tensor(name: str, tensor: LogicalTensor, is_constant: bool = False) -> list[str]:
    strides = "" if tensor.strides is None else f" strides {list(tensor.strides)}"
    return [name, str(tensor.dtype), f"{dims(tensor.shape)}{strides}{' constant' if is_constant else ''}"]


def _constants(graph: Graph) -> list[LogicalTensor]:
    return list({t.id: t for op in graph.ops for t in op.inputs if t is not None and t.constant}.values())


def _rows(graph: Graph, owners: Mapping[str, PartitionReport], partitioned: bool) -> Iterable[list[Text | str]]:
    from rich.text import Text

    names = {t.id: op.name if len(op.outputs) == 1 else t.name for op in graph.ops for t in op.outputs}
    made = {*names.values()}
    constants = ((t.name, t) for t in _constants(graph))
    named = (("input", graph.inputs.items()), ("variable", graph.variables.items()), ("constant", constants))
    for noun, tensors in named:
        names |= {t.id: f"{noun} {name}" if name in made else name for name, t in tensors}
    numbers = op_ids(graph)
    for op in graph.ops:
        owner = owners.get(op.name)
        style = "" if owner is None else COLOURS[owner.index % len(COLOURS)]
        place: list[Text | str] = [Text("" if owner is None else str(owner.index), style)] if partitioned else []
        inputs = ", ".join("none" if t is None else names[t.id] for t in op.inputs)
        results = ", ".join(f"{t.dtype} {dims(t.shape)}" for t in op.outputs)
        attributes = Text(_attributes(op), "dim")
        yield [str(numbers[op.name]), *place, Text(op.kind, style), op.name, inputs, results, attributes]


def _attributes(op: Op) -> str:
    """The attributes with other values than the defaults, as text."""
    schema = schema_of(op)
    shown = []
    for name, value in op.attrs.items():
        default = schema.attribute(name).default if schema.has_attribute(name) else None
        repeated = isinstance(default, Fill) and isinstance(value, tuple) and set(value) <= {default.value}
        if value != default and not repeated:
            shown.append(f"{name}={_value(value)}")
    return " ".join(shown)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "x".join([*map(_value, value[:8]), *(["..."] if len(value) > 8 else [])]) or "[]"
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _facts(graph: Graph, owners: Mapping[str, PartitionReport]) -> dict[str, object]:
    ids, numbers = tensor_ids(graph), op_ids(graph)

    def tensor(end: LogicalTensor | None) -> object:
        if end is None:
            return None
        facts = {"id": ids[end.id], "name": end.name, "dtype": str(end.dtype), "shape": end.shape}
        return {**facts, "strides": end.strides, "constant": end.constant}

    return {
        "edition": graph.edition,
        "inputs": {name: tensor(input_) for name, input_ in graph.inputs.items()},
        "constant_inputs": list(graph.constant_inputs),
        "ops": [
            {
                "id": numbers[op.name],
                "kind": op.kind,
                "name": op.name,
                "edition": op.edition,
                "attrs": dict(op.attrs),
                "inputs": [tensor(input_) for input_ in op.inputs],
                "outputs": [tensor(output) for output in op.outputs],
                "partition": owners[op.name].index if op.name in owners else None,
            }
            for op in graph.ops
        ],
        "outputs": {name: tensor(output) for name, output in graph.outputs.items()},
    }
