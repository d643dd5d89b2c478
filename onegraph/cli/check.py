"""Implements ``onegraph check`` for a graph file or descriptions of single ops."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from ..checker.check import check_graph, check_op
from ..errors import ERROR, LIBRARY, TAKEN, UNSAFE, ArgumentError, FormatError, SpecError, Violation, shown
from ..opset.editions.registry import DEFAULT, EDITIONS
from ..serialize.files import read_file
from ..serialize.json_text import ONNX, decode, other_format
from .graph_source import Source, standard_input
from .options import graph_file, json_option
from .terminal import emit
from .value_types import EditionName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COLOURS = {ERROR: "red", TAKEN: "yellow", LIBRARY: "yellow", UNSAFE: "yellow"}
KEYS = ("op", "attrs", "inputs", "outputs", "edition")


@click.command()
@graph_file
@click.option(
    "--edition",
    type=EditionName(),
    default=DEFAULT,
    show_default=True,
    metavar="NAME",
    help="Edition of ops that name none.",
)
@json_option
def command(source: Source, edition: str, as_json: bool) -> int:
    """Check FILE against the specification and against the loaded library. - is standard input.

    FILE is a graph in the JSON format of oneDNN Graph, or a model of ONNX; or JSON or TOML with one op, a list of ops,
    or a list under "ops". Each op has "op", and may have "attrs", "inputs", "outputs" and "edition". A tensor is
    [dtype, shape]; an unknown dim is ?.

    Exit status 1 if there is an error, and 3 if the specification forbids something in a graph, but oneDNN takes all of
    it. An op that only the library refuses is not an error.
    """
    violations = _check(source, edition)
    severities = {violation.severity for violation in violations}
    if as_json:
        emit([asdict(violation) for violation in violations])
    else:
        for violation in violations:
            severity = click.style(violation.severity, fg=COLOURS.get(violation.severity), bold=True)
            click.echo(f"{severity}: [{violation.rule}] {violation.message}  ({violation.page})")
        if not violations:
            click.echo("no violations")
    return 1 if ERROR in severities else 3 if TAKEN in severities else 0


def _check(source: Source, edition: str) -> list[Violation]:
    content = standard_input() if source.path == "-" else read_file(Path(source.path))
    data = None if ONNX.match(content) else _parse(source.name, content)
    if data is None or (isinstance(data, dict) and "graph" in data):
        try:
            violations = check_graph(source.parse(content if source.path == "-" else None))
        except SpecError as error:
            return list(error.violations)
        # Loading has refused what oneDNN refuses too, so oneDNN takes the errors that are left.
        return [replace(one, severity=TAKEN) if one.severity == ERROR else one for one in violations]
    if source.rewrites:
        raise ArgumentError(f"{source.name}: descriptions of ops; expected a graph, for the options that rewrite one")
    if isinstance(data, dict) and "op" in data:
        return list(_check_record(data, source.name, edition))
    found = data.get("ops") if isinstance(data, dict) else data
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise FormatError(source.name, "no op", 'a graph, an op as a dictionary with the key "op", or a list of them')
    return [
        replace(violation, message=f"record {number}: {violation.message}")
        for number, record in enumerate(found)
        for violation in _check_record(record, f"{source.name}: record {number}", edition)
    ]


def _parse(name: str, content: bytes) -> object:
    """The value of a JSON or TOML text."""
    try:
        return decode(content)
    except FormatError as as_json:
        if other_format(content):
            raise FormatError(name, as_json.given, "JSON or TOML in UTF-8") from None
        try:
            return tomllib.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError:  # the JSON error reports that too
            raise FormatError(name, as_json.given, "JSON or TOML in UTF-8") from None
        except (ValueError, RecursionError) as as_toml:
            if isinstance(as_toml, RecursionError) or (
                content.lstrip()[:1] in (b"{", b"[", b"") and not name.endswith(".toml")
            ):
                raise FormatError(f"{name}: {as_json.where}", as_json.given, as_json.expected) from None
            raise FormatError(name, str(as_toml), "JSON or TOML") from None


def _check_record(record: Mapping[str, object], where: str, edition: str) -> Iterator[Violation]:
    unknown = sorted(set(record) - set(KEYS))
    if unknown:
        raise FormatError(where, f"unknown key {shown(unknown[0])}", f"the keys {', '.join(KEYS)}")
    op, words = record.get("op"), record.get("edition", edition)
    if not isinstance(op, str):
        raise FormatError(where, f"op {shown(op)}" if "op" in record else "no op", 'the key "op" with the name of one')
    if not isinstance(words, str) or words not in EDITIONS:
        raise FormatError(f"{where}: edition", shown(words), f"one of {', '.join(EDITIONS)}")
    outputs = record.get("outputs")
    yield from check_op(
        op,
        record.get("attrs"),
        [_tensor(value) for value in _list(record.get("inputs", []))],
        None if outputs is None else [_tensor(value) for value in _list(outputs)],
        edition=words,
    )


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _tensor(value: object) -> object:
    """The tensor of a description in a file: [dtype, shape] or {dtype, shape}; an unknown dim is null or "?"."""
    if isinstance(value, dict):
        value = [value.get("dtype"), value.get("shape")]
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
        return (value[0], tuple(None if dim == "?" else dim for dim in value[1]))
    return tuple(value) if isinstance(value, list) else value
