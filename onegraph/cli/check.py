"""``onegraph check``: a graph file, or descriptions of single ops."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ..check import check_graph, check_op
from ..errors import ArgumentError, FormatError, SpecError
from ..serialize.files import read_file
from ..spec.editions import DEFAULT
from ..violation import ERROR, LIBRARY, UNSAFE, Violation
from .options import Source, graph_file, json_option
from .terminal import emit

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COLOURS = {ERROR: "red", LIBRARY: "yellow", UNSAFE: "yellow"}
KEYS = ("op", "attrs", "inputs", "outputs", "edition")


@click.command()
@graph_file
@click.option("--edition", default=DEFAULT, show_default=True, metavar="NAME", help="For ops that name none.")
@json_option
def command(source: Source, edition: str, as_json: bool) -> int:
    """Check FILE against the specification, and against what the loaded library makes of it. - is standard input.

    FILE is a graph in oneDNN Graph's JSON form; or JSON or TOML with one op, a list of ops, or a list under "ops". Each
    op has "op", and may have "attrs", "inputs", "outputs" and "edition"; a tensor is [dtype, shape], an unknown dim ?.

    Exit status 1 where there is an error; what the library alone refuses is none.
    """
    violations = _check(source, edition)
    errors = sum(violation.severity == ERROR for violation in violations)
    if as_json:
        emit([asdict(violation) for violation in violations])
    else:
        for violation in violations:
            severity = click.style(violation.severity, fg=COLOURS.get(violation.severity), bold=True)
            click.echo(f"{severity}: [{violation.rule}] {violation.message}  ({violation.page})")
        if not violations:
            click.echo("no violations")
    return int(errors > 0)


def _check(source: Source, edition: str) -> list[Violation]:
    content = sys.stdin.buffer.read() if source.path == "-" else read_file(Path(source.path))
    data = _parse(source.name, content)
    if isinstance(data, dict) and "graph" in data:
        try:
            return check_graph(source.parse(content if source.path == "-" else None))
        except SpecError as error:
            return list(error.violations)
    if source.rewrites:
        raise ArgumentError(f"{source.name}: descriptions of ops; expected a graph, for the options that rewrite one")
    found = data.get("ops", [data]) if isinstance(data, dict) else data
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise FormatError(source.name, "no op", 'a graph, an op as a dictionary with the key "op", or a list of them')
    return [
        violation
        for number, record in enumerate(found)
        for violation in _check_record(record, f"{source.name}: record {number}", edition)
    ]


def _parse(name: str, content: bytes) -> object:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(name, f"byte {error.start} is not UTF-8", "JSON or TOML") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as as_json:
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as as_toml:
            looks_like_json = text.lstrip()[:1] in ("{", "[", "") and not name.endswith(".toml")
            found = as_json if looks_like_json else as_toml
            if isinstance(found, RecursionError):
                raise FormatError(name, "nested too deep", "JSON or TOML") from None
            raise FormatError(name, str(found), "JSON or TOML") from None


def _check_record(record: Mapping[str, object], where: str, edition: str) -> Iterator[Violation]:
    unknown = sorted(set(record) - set(KEYS))
    if unknown or not isinstance(record.get("op"), str):
        given = f"unknown key {unknown[0]!r}" if unknown else "no op"
        raise FormatError(where, given, ", ".join(KEYS))
    outputs = record.get("outputs")
    yield from check_op(
        str(record["op"]),
        record.get("attrs"),
        [_tensor(value) for value in _list(record.get("inputs", []))],
        None if outputs is None else [_tensor(value) for value in _list(outputs)],
        edition=str(record.get("edition", edition)),
    )


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _tensor(value: object) -> object:
    """A tensor as files describe it: [dtype, shape] or {dtype, shape}; an unknown dim is null or "?"."""
    if isinstance(value, dict):
        value = [value.get("dtype"), value.get("shape")]
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
        return (value[0], tuple(None if dim == "?" else dim for dim in value[1]))
    return tuple(value) if isinstance(value, list) else value
