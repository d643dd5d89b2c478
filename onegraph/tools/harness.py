"""Graphs rewritten as benchdnn, oneDNN's test program, rewrites them, and the harness files that say how.

``--in-shapes``, ``--op-attrs``, ``--mb``, ``--dt`` and ``--op-kind`` change a graph file on the way in; shapes are then
inferred again through the graph. Source: oneDNN 3.13, tests/benchdnn/doc/driver_graph.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

from .._util.validation import integer
from ..errors import ArgumentError, FormatError, shown
from ..graph import Graph
from ..serialize.files import path_of, read_file
from ..transform.json_rewrite import JsonRewrite
from ..transform.rewrite_values import Values, keyed, single_or_keyed

OPTIONS = ("in-shapes", "op-attrs", "mb", "dt", "op-kind")
MAX_DEPTH = 8  # of harness files that name others
# An option starts wherever "--name" stands, which mends the one line of oneDNN 3.2 that lacks a blank before it.
_OPTION = re.compile(r"--([a-z][a-z-]*)(?:=((?:(?!--[a-z])\S)*))?")


def rewrite(
    graph: Graph,
    *,
    in_shapes: Values | None = None,
    op_attrs: Values | None = None,
    mb: int | None = None,
    dt: Values | None = None,
    op_kind: Values | None = None,
) -> Graph:
    """The graph with other shapes, attributes, data types or ops, its shapes inferred again.

    Every option but ``mb`` is benchdnn's text or a dictionary. Ops and tensors are named by the ids of the graph's
    JSON form, by the name of the op, or by the name of the graph input or output. What is rewritten stands in the form
    too, so that ``to_json`` gives it back.

    Args:
        graph: the graph; it is not changed.
        in_shapes: shapes, strides or orders of axes of graph inputs: ``"0:2x64x56x56+1:64"``, ``"0:2x3*3x1"``,
            ``"0:*ba"``, ``"0:-"`` for rank 0, ``"0:default"`` for those it has; or ``{"src": (2, 64, 56, 56)}``. A
            shape without strides is dense, and an empty text changes nothing.
        op_attrs: attributes: ``"0:strides:2x2*auto_pad:VALID+1:axis:2"``; or ``{"conv": {"strides": [2, 2]}}``. Those
            that the op does not have yet are added.
        mb: batch size of every input whose first dim is the batch alone; 0 leaves it.
        dt: a data type for all floating-point tensors, ``"bf16"``; or for some tensors, ``"0:bf16+3:f32"``.
        op_kind: other ops of the same category: ``"1:Multiply"``. Attributes that the new op does not have go.

    Returns:
        Another graph. Scales and zero points of per_channel ops are fitted to the new shapes: too many are cut off,
        missing scales repeat those that are there, and missing zero points are 0.

    Raises:
        ArgumentError: an option cannot be read, or names what the graph does not have.
        SpecError: the rewritten graph breaks the specification.
    """
    return _rewritten(JsonRewrite(graph), in_shapes, op_attrs, mb, dt, op_kind)


def rewrite_like_benchdnn(graph: Graph, **options: Any) -> tuple[Graph, list[int]]:
    """``rewrite``, and the ids in ``in_shapes`` that were passed over because no op reads such a tensor.

    Raises:
        ArgumentError, SpecError: as :func:`rewrite` does.
    """
    work = JsonRewrite(graph, passes_over=True)
    return _rewritten(work, **options), work.passed_over


def _rewritten(
    work: JsonRewrite[Graph],
    in_shapes: Values | None = None,
    op_attrs: Values | None = None,
    mb: int | None = None,
    dt: Values | None = None,
    op_kind: Values | None = None,
) -> Graph:
    if op_kind is not None:
        work.set_kinds(keyed("op_kind", op_kind))
    if op_attrs is not None:
        work.set_attrs(keyed("op_attrs", op_attrs, may_be_empty=True))
    if in_shapes is not None:
        work.set_shapes(keyed("in_shapes", in_shapes, may_be_empty=True))
    if mb is not None:
        work.set_batch(integer("mb", mb, 0, 2**31 - 1, "a batch size below 2**31, or 0 for that of the graph"))
    if dt is not None:
        dtypes = single_or_keyed("dt", dt)
        if isinstance(dtypes, str):
            work.set_dtype(dtypes)
        else:
            work.set_dtypes(dtypes)
    return work.graph()


@dataclass(frozen=True)
class HarnessCase:
    """One graph of a harness file, and how it is rewritten.

    Attributes:
        path: the graph file.
        options: the arguments of :func:`rewrite`, as far as they are given.
        line: where it stands: the harness file and the line.
        knobs: benchdnn's other options in force there, such as ``expected-n-partitions``.
    """

    path: Path
    options: Mapping[str, str]
    line: str
    knobs: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> Graph:
        """The graph, rewritten. Shapes of tensors that are no graph inputs are passed over, as oneDNN 3.2 does.

        Raises:
            FormatError, ArgumentError, SpecError: as ``Graph.load`` and ``rewrite`` do; the message says the line.
        """
        given = dict(self.options)
        mb = int(given.pop("mb", "0"))
        try:
            return _rewritten(JsonRewrite(Graph.load(self.path), lenient=True), mb=mb, **given)
        except ArgumentError as error:
            raise ArgumentError(f"{self.line}: {error}") from None


def read_harness(path: str | PathLike[str]) -> list[HarnessCase]:
    """The cases of a harness file, in order.

    An option holds until ``--reset``; one with several values, ``--mb=1,2``, makes a case of each. Graph files and
    the files that ``--batch`` names are looked for beside the harness file and in the folders above it.

    Raises:
        FormatError: a file cannot be read, or a line holds something else than options.
    """
    return list(_cases(path_of("path", path, "the path of a harness file"), 0))


def _cases(path: Path, depth: int) -> Iterator[HarnessCase]:
    try:
        lines = read_file(path).decode().splitlines()
    except FormatError as error:
        raise FormatError(error.where, error.given, "a harness file") from None
    except UnicodeDecodeError as error:
        raise FormatError(str(path), str(error), "a harness file") from None
    options: dict[str, list[str]] = {}
    knobs: dict[str, str] = {}
    for number, line in _whole_lines(lines):
        where = f"{path}:{number}"
        text = line.partition("#")[0]
        if _OPTION.sub("", text).strip():
            raise FormatError(where, shown(_OPTION.sub("", text).strip()), "options such as --case=FILE")
        for match in _OPTION.finditer(text):
            name, value = match[1], match[2] or ""
            if name == "reset":
                options, knobs = {}, {}
            elif name == "batch":
                if depth == MAX_DEPTH:
                    raise FormatError(where, "one file within another", f"at most {MAX_DEPTH} levels of --batch")
                yield from _cases(_beside(path, value), depth + 1)
            elif name == "case":
                yield from _combinations(_beside(path, value), options, where, knobs)
            elif name in OPTIONS:
                options[name] = value.split(",")
                if name == "mb" and not all(number.isascii() and number.isdigit() for number in options[name]):
                    raise FormatError(where, shown(value), "--mb=N, a batch size")
            else:
                knobs[name] = value


def _whole_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines by number; a backslash at the end of one joins the next to it, without the blanks that this begins with."""
    joined = ""
    for number, line in enumerate(lines, 1):
        joined += line.lstrip() if joined else line
        if line.endswith("\\") and number < len(lines):
            joined = joined[:-1]
        else:
            yield number, joined
            joined = ""


def _combinations(
    path: Path, options: Mapping[str, list[str]], where: str, knobs: Mapping[str, str]
) -> Iterator[HarnessCase]:
    for values in product(*options.values()):
        pairs = zip(options, values, strict=True)
        given = {
            name.replace("-", "_"): value
            for name, value in pairs
            if value not in ("", "undef") and (name, value) != ("mb", "0")
        }
        yield HarnessCase(path, given, where, dict(knobs))


def _beside(harness: Path, name: str) -> Path:
    """The file called ``name``, as seen from a harness file."""
    return next((folder / name for folder in harness.resolve().parents if (folder / name).is_file()), Path(name))
