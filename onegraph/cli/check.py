"""Implements ``onegraph check`` for graph files and descriptions of single ops."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from os.path import realpath
from pathlib import Path

import click

from .._util.atomic_write import write_atomically
from .._util.counted import counted
from ..checker.library_limits import library_named
from ..errors import ERROR, LIBRARY, TAKEN, UNSAFE, ArgumentError, FormatError
from ..opset.editions.registry import EDITIONS
from ..serialize.files import read_file
from . import note
from .baselines import read_baseline
from .check_files import CheckedFile, FileFinding, unreadable
from .check_formats import FORMATS
from .graph_source import GraphSource, standard_input
from .once import OnceCommand
from .options import graph_files, json_option
from .terminal import emit, print_rich, table
from .value_types import EditionName, FilePath, OutputPath

ALL = "all"
COLOURS = {ERROR: "red", TAKEN: "yellow", LIBRARY: "yellow", UNSAFE: "yellow"}


class _Editions(EditionName):
    """The name of an edition, or ``all``."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name; fails if there is no such edition."""
        return ALL if value == ALL else str(super().convert(value, param, ctx))


class _Library(click.ParamType):  # type: ignore[type-arg]  # older versions of click have no argument
    """``none``, or a version of oneDNN, and perhaps an instruction set."""

    name = "version"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; fails if it is neither."""
        try:
            library_named(value)
        except ArgumentError as error:
            self.fail(str(error).partition(": ")[2], param, ctx)
        return value


@click.command(cls=OnceCommand)
@graph_files
@click.option(
    "--edition",
    "chosen",
    type=_Editions(),
    multiple=True,
    metavar="NAME|all",
    help="Edition that all ops of a graph must be expressible in, and of records that name none; by default that of "
    "each op, and onednn-3.13 of records. Given several times, or as all for all editions, it prints a table of them.",
)
@click.option(
    "--library",
    "libraries",
    type=_Library(),
    multiple=True,
    metavar="none|VERSION[@CPU]",
    help="Version of oneDNN, such as 3.6, which need not be installed; none checks against the text alone. By default "
    "the loaded library on this CPU. A version stands for CPUs with every instruction set, unless the newest one "
    "follows, such as 3.6@avx2. May be given several times.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", *FORMATS)),
    default="text",
    show_default=True,
    help="json has file, record, JSON pointer, line and page of each violation.",
)
@click.option("--baseline", type=FilePath(), metavar="FILE", help="Leave out the findings that FILE has accepted.")
@click.option(
    "--write-baseline", type=OutputPath(".json"), metavar="FILE", help="Accept all findings: write them to FILE."
)
@json_option
def command(
    sources: tuple[GraphSource, ...],
    chosen: tuple[str, ...],
    libraries: tuple[str, ...],
    form: str,
    baseline: str | None,
    write_baseline: str | None,
    as_json: bool,
) -> int:
    """Check FILES against the specification and against a library. - is standard input.

    A file is a graph in the JSON format of oneDNN Graph, or a model of ONNX; or JSON, TOML or YAML with one op, a list
    of ops, or a list under "ops". Each op has "op", and may have "attrs", "inputs", "outputs" and "edition";
    without inputs and outputs its attributes alone are checked. A tensor is [dtype, shape], or an object with dtype,
    shape and, for a shape or axes, values; an unknown dim is ?. A name with * or ** stands for all files that match.

    Exit status: 0 if nothing breaks the specification, also where the library refuses an op or gets it wrong; 1 if
    there is an error in any edition that is given; 2 for a file that cannot be read, once the others are checked,
    or wrong arguments; 3 if the specification forbids something in a graph, but oneDNN takes all of it.
    """
    if as_json and form != "text":
        raise click.UsageError("--json or --format, not both")
    accepted = [] if baseline is None else _accepted(baseline)
    own = {realpath(path) for path in (baseline, write_baseline) if path is not None}
    if own:  # a pattern may match them
        sources = tuple(source for source in sources if realpath(source.path) not in own)
    editions = tuple(EDITIONS) if ALL in chosen else tuple(dict.fromkeys(chosen))
    findings, unread = _checked(sources, editions or (None,), libraries or (None,))
    if write_baseline is not None and not unread:
        text = json.dumps([finding.key() for finding in findings], indent=1).encode()
        write_atomically(Path(write_baseline), lambda stream: stream.write(text))
        click.echo(f"{write_baseline}: {counted(len(findings), 'finding')} accepted", err=True)
        return 0
    new = _without(findings, accepted)
    names, shown = [source.name for source in sources], [*_distinct(new), *unread]
    if as_json:
        emit([asdict(one.violation) for one in shown])
    elif form != "text":
        click.echo(FORMATS[form](shown, names))
    elif len(editions) > 1:
        _print_matrix(new, [name for name in names if all(one.file != name for one in unread)], editions, libraries)
    elif len(unread) < len(sources):
        _print(new, len(findings) - len(new), len(sources) > 1, len(libraries) > 1)
    severities = {one.violation.severity for one in new}
    return 2 if unread else 1 if ERROR in severities else 3 if TAKEN in severities else 0


def _checked(
    sources: Sequence[GraphSource], editions: Sequence[str | None], libraries: Sequence[str | None]
) -> tuple[list[FileFinding], list[FileFinding]]:
    """Every violation in the files, in each edition and library, and the files that cannot be read."""
    findings: list[FileFinding] = []
    unread: list[FileFinding] = []
    for source in sources:
        try:
            file = CheckedFile(source, standard_input() if source.path == "-" else read_file(Path(source.path)))
            findings += [one for words in editions for library in libraries for one in file.findings(words, library)]
        except FormatError as error:
            note(str(error))
            unread.append(unreadable(source.name, error))
    return findings, unread


def _accepted(path: str) -> list[dict[str, str]]:
    """The findings of a baseline."""
    data: list[dict[str, str]] = read_baseline(path, "check", list, "list of findings")
    if not all(isinstance(one, dict) for one in data):
        raise FormatError(path, "no list of findings", "what onegraph check --write-baseline has written")
    return data


def _without(findings: Sequence[FileFinding], accepted: Sequence[dict[str, str]]) -> list[FileFinding]:
    """The findings that are not accepted; each accepted one stands for one finding."""
    left = Counter(json.dumps(one, sort_keys=True) for one in accepted)
    new = []
    for finding in findings:
        key = json.dumps(finding.key(), sort_keys=True)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new


def _distinct(findings: Sequence[FileFinding]) -> list[FileFinding]:
    """Each finding once: an op that breaks its own edition breaks it whatever edition the file is checked against."""
    return list({(*finding.key().values(), finding.path): finding for finding in findings}.values())


def _print(findings: Sequence[FileFinding], n_accepted: int, several: bool, with_library: bool) -> None:
    """Print each finding in one line, with its file if there are several, and its library likewise."""
    for finding in findings:
        violation = finding.violation
        severity = click.style(violation.severity, fg=COLOURS.get(violation.severity), bold=True)
        file = f"{finding.file}:{finding.line}: " if several else ""
        record = f"{finding.subject}: " if finding.subject.startswith("record ") else ""
        library = f" [library {finding.library}]" if with_library and violation.severity in (LIBRARY, UNSAFE) else ""
        click.echo(f"{file}{severity}: [{violation.rule}] {record}{violation.message}  ({violation.page}){library}")
    if not findings:
        click.echo("no violations" + (f" beside {n_accepted} accepted" if n_accepted else ""))


def _print_matrix(
    findings: Sequence[FileFinding], files: Sequence[str], editions: Sequence[str], libraries: Sequence[str]
) -> None:
    """Print a table for each file: what each edition forbids, and what each library lacks or gets wrong."""
    titles = ["edition=", *(f"{name or 'loaded library'}=" for name in libraries or ("",))]
    for file in files:
        here = [finding for finding in findings if finding.file == file]
        rows = [[words, *(_cell(here, words, name) for name in libraries or ("",))] for words in editions]
        print_rich(file, table(titles, rows))


def _cell(findings: Sequence[FileFinding], words: str, library: str) -> str:
    """What a file breaks in an edition, or else which of its ops the library lacks, refuses or gets wrong."""
    own = [finding.violation for finding in findings if (finding.library, finding.words) == (library, words)]
    errors = {(one.op, one.rule, one.where) for one in own if one.severity in (ERROR, TAKEN)}
    limits = {one.op for one in own if one.severity in (LIBRARY, UNSAFE)}
    if errors:
        return counted(len(errors), "error")
    return f"{counted(len(limits), 'op')} not in the library" if limits else "ok"
