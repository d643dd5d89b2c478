"""Converts a graph to Python code that builds it, and back.

The code calls the op methods, or ``g.op`` for ops of another edition. Small constants are in the code; the others are
in an ``.npz`` file beside it. If the graph has ops that the specification forbids and the library takes, the code makes
a graph with ``strict=False``.
"""

from __future__ import annotations

import keyword
import re
import runpy
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from os import PathLike
from typing import Any

import numpy as np

from .._util.exact_types import has_type
from .._util.paths import path_of
from .._util.validation import string
from ..builder.graph import snapshot
from ..builder.signature_cache import signature
from ..checker.check import check_graph
from ..errors import ERROR, ArgumentError, FormatError, SpecError, UnsupportedError, shown
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, edition
from ..opset.schema import Schema
from ..opset.signature import AttrValue
from ..serialize.files import write_files
from ..serialize.names import KEY
from ..serialize.writer import tensor_ids

WIDTH = 120
INLINE = 16  # elements of the largest constant that is written in the code
TAKEN = frozenset({"g", "og", "np", "Path", "constants", "inf", *keyword.kwlist, *keyword.softkwlist})
PYTHON_FILE = "the path of a Python file"
LITERAL = {DataType.f32: "np.float32", DataType.s32: "np.int32", DataType.s8: "np.int8", DataType.u8: "np.uint8"}


def to_python(graph: Graph, data: str = "graph.py.npz") -> tuple[str, dict[str, Array]]:
    """The code that builds a graph, and the arrays that it reads.

    The code leaves the graph in ``g``. Its JSON is the same except for details of a loaded file that are not part of
    the graph: ids, strides of intermediates, and entries that the library wrote.

    Args:
        graph: the graph.
        data: name of the file for the arrays, in the folder of the code.

    Raises:
        UnsupportedError: a file gave a shape or data type that the builder cannot express.
    """
    graph = snapshot(graph)
    return _Code(graph).text(string("data", data, "the name of a file"))


def save_python(graph: Graph, path: str | PathLike[str]) -> None:
    """Write the code to a file ``x.py`` and the arrays that it reads to ``x.py.npz``.

    Raises:
        FormatError: a file cannot be written.
        UnsupportedError: as for :func:`to_python`.
    """
    target = path_of("path", path, PYTHON_FILE)
    if not target.name:
        raise ArgumentError(f"path: {shown(path)}; expected {PYTHON_FILE}")
    data = target.with_name(f"{target.name}.npz")
    code, arrays = to_python(graph, data.name)
    write_files(target, lambda _: code.rstrip("\n"), data, arrays)


def load_python(path: str | PathLike[str]) -> Graph:
    """The graph that a Python file builds: its variable ``g``, or the only graph among its variables.

    The file is executed and can do whatever its author wants, so load only files that you trust.

    Raises:
        FormatError: the file cannot be read or run, or leaves no graph or several.
    """
    path_of("path", path, PYTHON_FILE)
    try:
        namespace = runpy.run_path(str(path), run_name="__onegraph__")
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # the file may raise anything
        raise FormatError(str(path), f"{type(error).__name__}: {error}", "Python code that builds a graph") from error
    if has_type(namespace.get("g"), Graph):
        graph: Graph = namespace["g"]
        return graph
    graphs = {name: value for name, value in namespace.items() if has_type(value, Graph)}
    if len({id(value) for value in graphs.values()}) != 1:
        actual = f"the graphs {', '.join(graphs)}" if graphs else "no graph"
        raise FormatError(str(path), actual, "a variable g that is a Graph")
    return next(iter(graphs.values()))


def unsaid(graph: Graph) -> str:
    """A text that names the details in the file of a graph which :func:`to_python` cannot express; may be empty."""
    raw: Any = {} if graph._file is None else graph._file.raw
    parts_unsaid = [
        f"{key} {raw[key]}"
        for key, usual in (("fpmath_mode", "strict"), ("engine_kind", "cpu"))
        if raw.get(key, usual) != usual
    ]
    if raw.get("fpmath_mode_apply_to_int") in ("true", 1):
        parts_unsaid.append("fpmath_mode_apply_to_int")
    uses = [use for op in raw.get("graph", ()) for use in (*op.get("inputs", ()), *op.get("outputs", ()))]
    numbers = sorted({use["id"] for use in uses if use.get("property_type") == "host_scalar"})
    if numbers:
        parts_unsaid.append(f"host_scalar of tensors {', '.join(map(str, numbers))}")
    return ", ".join(parts_unsaid)


class _Code:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.strict = all(violation.severity != ERROR for violation in check_graph(graph.ops))
        self.names: dict[int, str] = {}  # variable of a tensor, by its id
        self.taken = set(TAKEN)
        self.arrays: dict[str, Array] = {}
        self.op_names: set[str] = set()
        self.count = 0  # number of tensors made so far

    def text(self, data: str) -> tuple[str, dict[str, Array]]:
        """The code and its arrays."""
        graph = self.graph
        body = list(self._body())
        options = [] if graph.edition == DEFAULT else [_quoted(graph.edition)]
        options += [] if self.strict else ["strict=False"]
        lines = ['"""A graph of onegraph."""', ""]
        if self.arrays:
            lines += ["from pathlib import Path", ""]
        if any("np." in line for line in body) or self.arrays:
            lines += ["import numpy as np", ""]
        lines += ["import onegraph as og", ""]
        if any(re.search(r"\binf\b", line) for line in body):
            lines += ['inf = float("inf")']
        if self.arrays:
            lines += [f"constants = np.load(Path(__file__).with_name({_quoted(data)}))"]
        lines += [f"g = og.Graph({', '.join(options)})", *body]
        return "\n".join(lines) + "\n", self.arrays

    def _body(self) -> Iterator[str]:
        """Statements in the order in which the tensors were made, so that their ids stay the same."""
        graph = self.graph
        inputs = {tensor.id: name for name, tensor in graph._inputs.items()}
        made = {tensor.id: op for op in graph.ops for tensor in op.outputs[:1]}
        waiting = list(graph.ops)
        for tensor in self._in_order():
            if tensor.id in inputs:
                yield self._input(inputs[tensor.id], tensor)
            elif tensor.value is not None:
                yield self._constant(tensor, tensor.value)
            while tensor.id in made and tensor.id not in self.names:
                yield self._op(waiting.pop(0))
        yield from map(self._op, waiting)
        for name, tensor in graph.assignments.items():
            yield _call("g.assign", [self.names[graph.variables[name].id], self.names[tensor.id]])
        for name, tensor in graph.outputs.items():
            strides = [] if tensor.strides is None else [f"strides={tensor.strides!r}"]
            yield _call("g.output", [_quoted(name), self.names[tensor.id], *strides])

    def _in_order(self) -> Sequence[LogicalTensor]:
        """The tensors in the order of their ids in a file that onegraph wrote; otherwise in the order of the graph."""
        graph, ids = self.graph, tensor_ids(self.graph)
        ours = graph._file is not None and KEY in graph._file.raw and sorted(ids.values()) == [*range(len(ids))]
        firsts = [min(ids[tensor.id] for tensor in op.outputs) for op in graph.ops if op.outputs]
        if not ours or firsts != sorted(firsts):
            return graph._tensors
        for op in graph.ops:
            made, read = [ids[t.id] for t in op.outputs], [ids[t.id] for t in op.inputs]
            if made and (made != [*range(made[0], made[0] + len(made))] or made[0] <= max(read, default=-1)):
                return graph._tensors
        return sorted(graph._tensors, key=lambda tensor: ids[tensor.id])

    def _name(self, preferred: str) -> str:
        """A unique name of a variable, similar to ``preferred``."""
        stem = re.sub(r"\W+", "_", preferred, flags=re.ASCII).strip("_").lower() or "t"
        stem = f"t{stem}" if stem[0].isdigit() else stem
        name, number = stem, 2
        while name in self.taken:
            name, number = f"{stem}_{number}", number + 1
        self.taken.add(name)
        return name

    def _input(self, name: str, tensor: LogicalTensor) -> str:
        if name in self.graph._initial:
            variable = self.names[tensor.id] = self._name(name)
            arguments = [_quoted(name), self._contents(variable, tensor, self.graph._initial[name])]
            self.count += 1
            return _call(f"{variable} = g.variable", arguments + ["dtype=og.s64"] * (tensor.dtype is DataType.s64))
        arguments = [_quoted(name), f"og.{tensor.dtype}", repr(tensor.shape)]
        if tensor.strides is not None:
            arguments.append(f"strides={tensor.strides!r}")
        arguments += ["constant=True"] * (name in self.graph.constant_inputs)
        self.names[tensor.id] = self._name(name)
        self.count += 1
        return _call(f"{self.names[tensor.id]} = g.input", arguments)

    def _constant(self, tensor: LogicalTensor, value: Array) -> str:
        name = self.names[tensor.id] = self._name(tensor.name)
        text = self._contents(name, tensor, value)
        named = [] if tensor.name == f"constant_{self.count}" else [f"name={_quoted(tensor.name)}"]
        named += ["dtype=og.s64"] * (tensor.dtype is DataType.s64)
        self.count += 1
        return _call(f"{name} = g.constant", [text, *named])

    def _contents(self, name: str, tensor: LogicalTensor, value: Array) -> str:
        """The contents of a constant or variable: a literal, or an array of the file beside the code."""
        literal = LITERAL.get(tensor.dtype)
        if literal and value.ndim < 2 and value.size <= INLINE and np.isfinite(value).all():
            return f"np.array({_shortest(value).tolist()!r}, {literal})"
        self.arrays[name] = value
        plain = value.dtype.isbuiltin != 2
        return f"constants[{_quoted(name)}]" + ("" if plain else f".view(og.{tensor.dtype}.numpy)")

    def _op(self, op: Op) -> str:
        chosen = edition(op.edition)
        schema = chosen.schema(op.kind)
        assert schema is not None
        inputs = [self.names[tensor.id] for tensor in op.inputs]
        attrs = {name: _value(value) for name, value in op.attrs.items()}
        options = self._options(op, schema)
        if op.edition == DEFAULT:
            keywords = [f"{name}={value}" for name, value in attrs.items()]
            call, arguments = f"g.{schema.name}", [*inputs, *keywords, *options]
        else:
            arguments = [_quoted(op.kind), f"[{', '.join(inputs)}]", *([_dict(attrs)] if attrs else []), *options]
            call = "g.op"
            if op.edition != self.graph.edition:
                arguments.append(f"edition={_quoted(op.edition)}")
        if op.outputs:
            name = self._name(op.name)
            call = f"{name} = {call}"
            for port, tensor in zip(schema.outputs, op.outputs, strict=False):
                self.names[tensor.id] = name if len(op.outputs) == 1 else f"{name}.{port.name}"
        self.count += len(op.outputs)
        return _call(call, arguments)

    def _options(self, op: Op, schema: Schema) -> list[str]:
        """The keyword arguments that the call needs: a name other than the default, types and numbers of outputs."""
        options = []
        number = len(self.op_names)
        while f"{schema.name}_{number}" in self.op_names:
            number += 1
        if op.name != f"{schema.name}_{number}":
            options.append(f"name={_quoted(op.name)}")
        self.op_names.add(op.name)
        chosen, attrs = edition(op.edition), dict(op.attrs)
        types, shapes = [tensor.dtype for tensor in op.outputs], [tensor.shape for tensor in op.outputs]
        names = [port.name for port in schema.outputs[: len(types)]]
        listed = ", ".join(map(_quoted, names))
        # Take the shortest call that makes the same op.
        for count, wanted in product((None, len(types)), (None, *dict.fromkeys(types))):
            try:
                inferred = signature(
                    chosen, op.kind, attrs, op.inputs, dtype=wanted, n_outputs=count, lenient=not self.strict
                )
            except SpecError:
                continue
            if list(inferred.dtypes) == types and list(inferred.shapes) == shapes:
                options += [] if wanted is None else [f"dtype=og.{wanted}"]
                return options + ([] if count is None else [f"outputs=[{listed}]"])
        outputs = ", ".join(f"{tensor.dtype} {shown(tensor.shape)}" for tensor in op.outputs)
        raise UnsupportedError(
            f"{op.kind} {op.name!r}: no call of the builder gives outputs {outputs}, as the file has"
        )


def _value(value: AttrValue) -> str:
    if has_type(value, str):
        return _quoted(value)
    return repr(list(value)) if has_type(value, tuple) else repr(value)


def _quoted(text: str) -> str:
    """A string as code, in double quotes if that needs no escapes."""
    code = repr(text)
    return f'"{code[1:-1]}"' if code[0] == "'" and '"' not in code else code


def _shortest(array: Array) -> Array:
    """The numbers of an f32 array in f64, with the digits that f32 needs; other arrays as they are."""
    return array.astype(str).astype(np.float64) if array.dtype == np.float32 else array


def _dict(entries: Mapping[str, str]) -> str:
    """A dictionary as an argument, on one line if it fits on a line of its own."""
    pairs = [f"{_quoted(name)}: {value}" for name, value in entries.items()]
    line = f"{{{', '.join(pairs)}}}"
    if len(line) + len("    ,") <= WIDTH:
        return line
    return "{\n" + "".join(f"        {pair},\n" for pair in pairs) + "    }"


def _call(function: str, arguments: list[str]) -> str:
    """A call, on one line if it fits."""
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return line
    inner = f"    {', '.join(arguments)}"
    if len(inner) <= WIDTH:
        return f"{function}(\n{inner}\n)"
    return f"{function}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
