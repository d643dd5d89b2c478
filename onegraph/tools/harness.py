"""Rewrites graphs like benchdnn, oneDNN's test program, and reads its harness files.

``--in-shapes``, ``--op-attrs``, ``--mb``, ``--dt``, ``--op-kind``, ``--tensor-property`` and ``--attr-fpmath`` change a
graph file when it is loaded; all shapes are then inferred again. Source: oneDNN 3.13,
tests/benchdnn/doc/driver_graph.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

from .._util.paths import path_of
from .._util.records import record
from .._util.validation import integer, string
from ..errors import ArgumentError, FormatError, shown
from ..graph import Graph
from ..serialize.files import read_file
from ..transform.json_rewrite import JsonRewrite
from ..transform.rewrite_values import Values, keyed, single_or_keyed

OPTIONS = ("in-shapes", "op-attrs", "mb", "dt", "op-kind", "tensor-property")
FPMATH = "attr-fpmath"  # the commands have --fpmath-mode
MAX_DEPTH = 8  # of harness files that include others
# An option starts at every "--name", also without a blank before it: a line in a file of oneDNN 3.2 lacks the blank.
_OPTION = re.compile(r"--([a-z][a-z-]*)(?:=((?:(?!--[a-z])\S)*))?")


def rewrite(
    graph: Graph,
    *,
    in_shapes: Values | None = None,
    op_attrs: Values | None = None,
    mb: int | None = None,
    dt: Values | None = None,
    op_kind: Values | None = None,
    tensor_property: Values | None = None,
    attr_fpmath: str | None = None,
) -> Graph:
    """The graph with other shapes, attributes, data types or ops; all shapes are inferred again.

    Every option but ``mb`` and ``attr_fpmath`` is a text as for benchdnn, or a dictionary. Ops and tensors are named by
    their ids in the JSON of the graph, by the name of the op, or by the name of the graph input or output. ``to_json``
    of the new graph writes the changes too.

    Args:
        graph: the graph; it is not changed.
        in_shapes: shapes, strides or orders of axes of graph inputs: ``"0:2x64x56x56+1:64"``, ``"0:2x3*3x1"``,
            ``"0:*ba"``, ``"0:-"`` for rank 0, ``"0:default"`` for the current shape; or ``{"src": (2, 64, 56, 56)}``.
            A shape without strides is dense, and an empty text changes nothing.
        op_attrs: attributes: ``"0:strides:2x2*auto_pad:VALID+1:axis:2"``; or ``{"conv": {"strides": [2, 2]}}``.
            Attributes that the op does not have yet are added.
        mb: batch size of every input whose first dim is only the batch; 0 changes nothing.
        dt: a data type for all floating-point tensors, ``"bf16"``; or for some tensors, ``"0:bf16+3:f32"``.
        op_kind: other ops of the same category: ``"1:Multiply"``. Attributes that the new op lacks are dropped.
            ``"1:undef"`` removes the op: its readers get its only input, or the only input that an op produces.
        tensor_property: property types of tensors: ``"4:constant"``; undef, variable, constant or host_scalar. Only
            ``constant`` changes how the graph is run; the others are written to files.
        attr_fpmath: the fpmath mode of the graph: ``"bf16"``, or ``"bf16:true"`` to apply it to integers too.

    Returns:
        A new graph. Scales and zero points of per_channel ops are fitted to the new shapes: surplus ones are cut off,
        missing scales repeat the existing ones, and missing zero points are 0.

    Raises:
        ArgumentError: an option cannot be parsed, or names an op or tensor that the graph does not have.
        SpecError: the rewritten graph breaks the specification.
    """
    return _rewritten(JsonRewrite(graph), in_shapes, op_attrs, mb, dt, op_kind, tensor_property, attr_fpmath)


def rewrite_like_benchdnn(graph: Graph, **options: Any) -> tuple[Graph, list[int]]:
    """The result of ``rewrite``, and the ids in ``in_shapes`` that were ignored because no op reads such a tensor.

    Raises:
        ArgumentError, SpecError: as for :func:`rewrite`.
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
    tensor_property: Values | None = None,
    attr_fpmath: str | None = None,
) -> Graph:
    if tensor_property is not None:
        work.set_properties(keyed("tensor_property", tensor_property))
    if attr_fpmath is not None:
        work.set_fpmath(string("attr_fpmath", attr_fpmath))
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


@record(frozen=True)
class HarnessCase:
    """One graph of a harness file with its options.

    Attributes:
        path: the graph file.
        options: the given arguments of :func:`rewrite`.
        line: the harness file and the line of the case.
        knobs: benchdnn's other options that hold for the case, such as ``expected-n-partitions``.
    """

    path: Path
    options: Mapping[str, str]
    line: str
    knobs: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> Graph:
        """The rewritten graph. Shapes of tensors that are not graph inputs are ignored, as in oneDNN 3.2.

        Raises:
            FormatError, ArgumentError, SpecError: as for ``Graph.load`` and ``rewrite``; the message names the line.
        """
        options = dict(self.options)
        mb = int(options.pop("mb", "0"))
        try:
            return _rewritten(JsonRewrite(Graph.load(self.path), lenient=True), mb=mb, **options)
        except ArgumentError as error:
            raise ArgumentError(f"{self.line}: {error}") from None


def read_harness(path: str | PathLike[str]) -> list[HarnessCase]:
    """The cases of a harness file, in order.

    An option holds until ``--reset``; an option with several values, ``--mb=1,2``, makes a case for each value. Graph
    files and the files of ``--batch`` are searched beside the harness file and in the folders above it.

    Raises:
        FormatError: a file cannot be read, or a line has something other than options.
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
                yield from _cases(_find_beside(path, value), depth + 1)
            elif name == "case":
                yield from _combinations(_find_beside(path, value), options, where, knobs)
            elif name in (*OPTIONS, FPMATH):
                options[name] = value.split(",")
                if name == "mb" and not all(number.isascii() and number.isdigit() for number in options[name]):
                    raise FormatError(where, shown(value), "--mb=N, a batch size")
            else:
                knobs[name] = value


def _whole_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines by number; a backslash at the end of a line joins it with the next line, without its leading blanks."""
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
        options_of_case = {
            name.replace("-", "_"): value
            for name, value in pairs
            if value not in ("", "undef") and (name, value) != ("mb", "0")
        }
        yield HarnessCase(path, options_of_case, where, dict(knobs))


def _find_beside(harness: Path, name: str) -> Path:
    """The path of the file ``name``, in the folder of a harness file or above; ``name`` itself if there is none."""
    return next((folder / name for folder in harness.resolve().parents if (folder / name).is_file()), Path(name))
