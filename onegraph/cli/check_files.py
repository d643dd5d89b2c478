"""Checks the ops of one file, a graph or descriptions of ops, and finds the place of each violation in it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .._util.fork_safety import cached_property
from .._util.records import record
from ..checker.check import check_attrs, check_graph, check_op
from ..errors import ERROR, TAKEN, ArgumentError, FormatError, SpecError, Violation, shown
from ..graph import Graph
from ..opset.editions.registry import DEFAULT, EDITIONS, edition
from ..serialize.json_text import ONNX, decode, other_format
from .graph_source import Source, expect_format
from .json_pointers import line_of, pointer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KEYS = ("op", "attrs", "inputs", "outputs", "edition")
_OF_FILE = re.compile(r"graph\[(\d+)\]")  # how messages of the reader of graphs begin


@record(frozen=True)
class Finding:
    """A violation in a file.

    Attributes:
        violation: the violation.
        file: the name of the file.
        subject: the record or the op of a graph, in words.
        path: the place in a JSON file, as keys and indices; empty if unknown.
        line: the line of the place, from 1; 1 if unknown.
        library: the version of the library that the op was checked for, as it was given; empty for the loaded one.
    """

    violation: Violation
    file: str
    subject: str
    path: tuple[str | int, ...] = ()
    line: int = 1
    library: str = ""

    @property
    def url(self) -> str:
        """The address of the page of the specification; empty if there is none."""
        chosen = edition(self.violation.edition)
        schema = chosen.schema(self.violation.op.partition(" ")[0])
        return "" if schema is None else chosen.link(schema)

    def key(self) -> dict[str, str]:
        """What makes two findings the same in a baseline: all but lines, which move when a file is edited."""
        found = self.violation
        names = {"file": self.file, "op": found.op, "rule": found.rule, "where": found.where, "given": found.given}
        return {**names, "edition": found.edition, "library": self.library}

    def to_dict(self) -> dict[str, object]:
        """All facts, as plain values."""
        place = {"file": self.file, "record": self.subject, "pointer": pointer(self.path), "line": self.line}
        return {**vars(self.violation), **place, "url": self.url, "library": self.library}


class CheckedFile:
    """One file, which is read once and checked for any edition and library."""

    def __init__(self, source: Source, content: bytes) -> None:
        self.source, self.content = source, content
        expect_format(source.name, content)
        self.data = None if ONNX.match(content) else parsed(source.name, content)

    @property
    def is_graph(self) -> bool:
        """Whether the file is a graph, of oneDNN or ONNX."""
        return self.data is None or (isinstance(self.data, dict) and "graph" in self.data)

    def findings(self, words: str | None, library: str | None) -> list[Finding]:
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
            for violation in _of_record(facts, where, words or DEFAULT, library):
                path = (*self._prefix, *(() if self._is_single else (number,)), *_inside(facts, violation))
                findings.append(Finding(violation, self.source.name, subject, path, self._line(path), library or ""))
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
        if self._is_single:
            assert isinstance(self.data, dict)
            return [self.data]
        given = self.data.get("ops") if isinstance(self.data, dict) else self.data
        if not isinstance(given, list) or not all(isinstance(record, dict) for record in given):
            expected = 'a graph, an op as a dictionary with the key "op", or a list of them'
            raise FormatError(self.source.name, "no op", expected)
        return given

    # Graphs -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _graph(self) -> Graph | SpecError:
        """The graph; the error of its ops if they break the specification in a way that oneDNN refuses too."""
        try:
            return self.source.parse(self.content if self.source.path == "-" else None, contents=False)
        except SpecError as error:
            return error

    def _of_graph(self, words: str | None, library: str | None) -> list[Finding]:
        graph = self._graph
        if isinstance(graph, SpecError):
            return [self._in_graph(one, _number(one.message), library) for one in graph.violations]
        numbers = _numbers(graph)
        # Loading has refused what oneDNN refuses too, so oneDNN takes the errors of the op's own edition that are left.
        own = {op.edition for op in graph.ops}
        violations = [
            replace(one, severity=TAKEN) if one.severity == ERROR and (words is None or one.edition in own) else one
            for one in check_graph(graph, edition=words, library=library)
        ]
        return [self._in_graph(one, numbers.get(one.op, _number(one.message)), library) for one in violations]

    def _in_graph(self, violation: Violation, number: int | None, library: str | None) -> Finding:
        path: tuple[str | int, ...] = ()
        if number is not None and isinstance(self.data, dict):
            attrs = self.data["graph"][number].get("attrs", {})
            path = ("graph", number, *(("attrs", violation.where) if violation.where in attrs else ()))
        return Finding(violation, self.source.name, violation.op, path, self._line(path), library or "")

    @cached_property
    def _text(self) -> str:
        return self.content.decode("utf-8-sig", errors="replace")

    def _line(self, path: Sequence[str | int]) -> int:
        """The line of a place in the file; in TOML and YAML, that of the record."""
        if not path:
            return 1
        if self._text.lstrip()[:1] in ("{", "["):
            return line_of(self._text, path)
        starts = [match.start() for match in re.finditer(r"^\s*(\[\[ops\]\]|-\s+\w)", self._text, re.MULTILINE)]
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


def _of_record(facts: Mapping[str, object], where: str, default: str, library: str | None) -> Iterator[Violation]:
    """The violations of the description of one op."""
    unknown = sorted(set(facts) - set(KEYS))
    if unknown:
        raise FormatError(where, f"unknown key {shown(unknown[0])}", f"the keys {', '.join(KEYS)}")
    op, words = facts.get("op"), facts.get("edition", default)
    if not isinstance(op, str):
        raise FormatError(where, f"op {shown(op)}" if "op" in facts else "no op", 'the key "op" with the name of one')
    if not isinstance(words, str) or words not in EDITIONS:
        raise FormatError(f"{where}: edition", shown(words), f"one of {', '.join(EDITIONS)}")
    if facts.keys().isdisjoint({"inputs", "outputs"}):
        yield from check_attrs(op, facts.get("attrs"), edition=words)
        return
    outputs = facts.get("outputs")
    yield from check_op(
        op,
        facts.get("attrs"),
        [_tensor(value, where) for value in _list(facts.get("inputs", []))],
        None if outputs is None else [_tensor(value, where) for value in _list(outputs)],
        edition=words,
        library=library,
    )


def parsed(name: str, content: bytes) -> object:
    """The value of a JSON, TOML or YAML text.

    Raises:
        FormatError: the text is none of these.
    """
    if name.endswith((".yaml", ".yml")):
        return _yaml(name, content)
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


def _yaml(name: str, content: bytes) -> object:
    try:
        import yaml  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise FormatError(name, "YAML", "JSON or TOML, or the package PyYAML: pip install pyyaml") from None
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise FormatError(name, " ".join(str(error).split()), "YAML in UTF-8") from None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _tensor(value: object, where: str) -> object:
    """The tensor of a description in a file; an unknown dim is null or "?".

    A tensor is [dtype, shape], or an object with dtype, shape and perhaps the values of a shape or of axes.
    """
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"dtype", "shape", "values"})
        if unknown:
            raise FormatError(where, f"unknown key {shown(unknown[0])} of a tensor", "the keys dtype, shape, values")
        if value.get("values") is not None:
            return _contents(value.get("dtype"), value.get("shape"), value["values"], where)
        value = [value.get("dtype"), value.get("shape")]
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
        return (value[0], tuple(None if dim == "?" else dim for dim in value[1]))
    return tuple(value) if isinstance(value, list) else value


def _contents(dtype: object, shape: object, values: object, where: str) -> object:
    """A tensor of integers whose contents are known, as an array."""
    if dtype not in ("s32", "s64") or not isinstance(values, list):
        raise FormatError(where, f"values of {shown(dtype)}", "a list of values of s32 or s64")
    try:
        array = np.array(values, np.int32 if dtype == "s32" else np.int64)
    except (OverflowError, TypeError, ValueError):
        raise FormatError(where, f"values {shown(values)}", f"integers of {dtype}") from None
    if shape not in (None, list(array.shape)):
        raise FormatError(where, f"values of shape {list(array.shape)}", f"the shape {shown(shape)} of the tensor")
    return array
