"""Checks the ops of one file, a graph or descriptions of ops, and finds the place of each violation in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .._util.fork_safety import cached_property
from .._util.records import record
from ..checker.check import check_graph
from ..errors import ERROR, TAKEN, ArgumentError, FormatError, SpecError, Violation
from ..graph import Graph
from ..opset.editions.registry import DEFAULT, edition
from ..serialize.json_text import ONNX
from .graph_source import GraphSource, expect_format
from .json_pointers import line_of, pointer
from .op_records import parsed, records_of, violations_of

UNREADABLE = "unreadable_file"  # the rule of files that are no graph
_LINE = re.compile(r"\bline (\d+)")  # of a syntax error
_OF_FILE = re.compile(r"graph\[(\d+)\]")  # how messages of the reader of graphs begin


@record(frozen=True)
class FileFinding:
    """A violation in a file.

    Attributes:
        violation: the violation.
        file: the name of the file.
        subject: the record or the op of a graph, in words.
        path: the place in a JSON file, as keys and indices; empty if unknown.
        line: the line of the place, from 1; 1 if unknown.
        library: the version of the library that the op was checked for, as it was given; empty for the loaded one.
        words: the edition that the file was checked against; empty for that of each op. An op that breaks its own
            edition has the violations of that one.
    """

    violation: Violation
    file: str
    subject: str
    path: tuple[str | int, ...] = ()
    line: int = 1
    library: str = ""
    words: str = ""

    @property
    def url(self) -> str:
        """The address of the page of the specification; empty if there is none."""
        chosen = edition(self.violation.edition)
        schema = chosen.schema(self.violation.op.partition(" ")[0])
        return "" if schema is None else chosen.link(schema)

    def key(self) -> dict[str, str]:
        """What makes two findings the same in a baseline: all but lines, which move when a file is edited."""
        violation = self.violation
        names = {
            "file": self.file,
            "op": violation.op,
            "rule": violation.rule,
            "where": violation.where,
            "given": violation.given,
        }
        return {**names, "edition": violation.edition, "library": self.library}

    def to_dict(self) -> dict[str, object]:
        """All facts, as plain values."""
        place = {"file": self.file, "record": self.subject, "pointer": pointer(self.path), "line": self.line}
        return {**self.violation.to_dict(), **place, "url": self.url, "library": self.library}


def unreadable(file: str, error: FormatError) -> FileFinding:
    """The finding of a file that cannot be read, or is neither a graph nor descriptions of ops."""
    facts = (error.where, str(error.given), error.expected, str(error))
    line = _LINE.search(str(error))
    return FileFinding(
        Violation(UNREADABLE, ERROR, "", *facts, DEFAULT, ""), file, "file", line=int(line[1]) if line else 1
    )


class CheckedFile:
    """One file, which is read once and checked for any edition and library."""

    def __init__(self, source: GraphSource, content: bytes) -> None:
        self.source, self.content = source, content
        expect_format(source.name, content)
        self.data = None if ONNX.match(content) else parsed(source.name, content)

    @property
    def is_graph(self) -> bool:
        """Whether the file is a graph, of oneDNN or ONNX."""
        return self.data is None or (isinstance(self.data, dict) and "graph" in self.data)

    def findings(self, words: str | None, library: str | None) -> list[FileFinding]:
        """Every violation in the file.

        Args:
            words: the edition to check a graph against, by default that of each op; the edition of records that name
                none.
            library: ``"none"``, a version, or None for the loaded library.

        Raises:
            FormatError: the file is neither a graph nor descriptions of ops.
        """
        if self.is_graph:
            return self._of_graph(words, library)
        if self.source.rewrites:
            raise ArgumentError(
                f"{self.source.name}: descriptions of ops; expected a graph, for the options that rewrite one"
            )
        findings = []
        for number, facts in enumerate(self.records):
            subject = "op" if self._is_single else f"record {number}"
            where = self.source.name if self._is_single else f"{self.source.name}: {subject}"
            for violation in violations_of(facts, where, words or DEFAULT, library):
                path = (*self._prefix, *(() if self._is_single else (number,)), *_inside(facts, violation))
                findings.append(
                    FileFinding(
                        violation, self.source.name, subject, path, self._line(path), library or "", words or ""
                    )
                )
        return findings

    # Records ----------------------------------------------------------------------------------------------------------

    @property
    def _is_single(self) -> bool:
        return isinstance(self.data, dict) and "op" in self.data

    @property
    def _prefix(self) -> tuple[str, ...]:
        return ("ops",) if isinstance(self.data, dict) and not self._is_single else ()

    @cached_property
    def records(self) -> list[Mapping[str, object]]:
        """The descriptions of ops in the file."""
        return records_of(self.source.name, self.data)

    # Graphs -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _graph(self) -> Graph | SpecError:
        """The graph; the error of its ops if they break the specification in a way that oneDNN refuses too."""
        try:
            return self.source.parse(self.content if self.source.path == "-" else None, contents=False)
        except SpecError as error:
            return error

    def _of_graph(self, words: str | None, library: str | None) -> list[FileFinding]:
        graph = self._graph
        if isinstance(graph, SpecError):
            located = [self._in_graph(violation, _number(violation.message)) for violation in graph.violations]
            return [replace(finding, library=library or "", words=words or "") for finding in located]
        numbers = _numbers(graph)
        # Loading has refused what oneDNN refuses too, so oneDNN takes the errors of the op's own edition that are left.
        own = {op.edition for op in graph.ops}
        violations = [
            replace(violation, severity=TAKEN)
            if violation.severity == ERROR and (words is None or violation.edition in own)
            else violation
            for violation in check_graph(graph, edition=words, library=library)
        ]
        located = [
            self._in_graph(violation, numbers.get(violation.op, _number(violation.message))) for violation in violations
        ]
        return [replace(finding, library=library or "", words=words or "") for finding in located]

    def _in_graph(self, violation: Violation, number: int | None) -> FileFinding:
        path: tuple[str | int, ...] = ()
        if number is not None and isinstance(self.data, dict):
            attrs = self.data["graph"][number].get("attrs", {})
            path = ("graph", number, *(("attrs", violation.where) if violation.where in attrs else ()))
        return FileFinding(violation, self.source.name, violation.op, path, self._line(path))

    @cached_property
    def _text(self) -> str:
        return self.content.decode("utf-8-sig", errors="replace")

    def _line(self, path: Sequence[str | int]) -> int:
        """The line of a place in the file; in TOML and YAML, that of the record."""
        if not path:
            return 1
        records = re.compile(r"^[ \t]*(\[\[[ \t]*ops[ \t]*\]\]|-\s+\w)", re.MULTILINE)
        starts = [match.start(1) for match in records.finditer(self._text)]
        if not starts and self._text.lstrip()[:1] in ("{", "["):
            return line_of(self._text, path)
        number = next((part for part in path if isinstance(part, int)), 0)
        return self._text.count("\n", 0, starts[number]) + 1 if number < len(starts) else 1


def _number(message: str) -> int | None:
    """The number of the op in the file that a message of the reader of graphs begins with."""
    match = _OF_FILE.match(message)
    return None if match is None else int(match[1])


def _numbers(graph: Graph) -> dict[str, int]:
    """For each op, as violations name it, its number in the file."""
    file = graph._file
    if file is None:
        return {}
    ops = {f"{op.kind} {op.name!r}": place for place, op in enumerate(graph.ops)}
    numbers = {place: number for number, place in enumerate(file.op_order)}
    return {label: numbers[place] for label, place in ops.items() if place in numbers}


def _inside(record: Mapping[str, object], violation: Violation) -> tuple[str, ...]:
    """The place of a violation inside a record: its attribute, if it is about one."""
    attrs = record.get("attrs")
    return ("attrs", violation.where) if isinstance(attrs, dict) and violation.where in attrs else ()
