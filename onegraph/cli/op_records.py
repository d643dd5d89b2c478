"""Reads descriptions of ops in JSON, TOML or YAML: checks each, or makes a graph of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy as np

from ..checker.check import check_attrs, check_op
from ..errors import FormatError, Violation, shown
from ..graph import Graph
from ..ir.op import LogicalTensor
from ..opset.editions.registry import DEFAULT, EDITIONS, edition
from ..serialize.json_text import decode, other_format

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KEYS = ("op", "attrs", "inputs", "outputs", "edition")


def records_of(name: str, data: object) -> list[Mapping[str, object]]:
    """The descriptions of ops in the contents of a file: one, a list, or a list under "ops".

    Raises:
        FormatError: there are none.
    """
    if isinstance(data, dict) and "op" in data:
        return [data]
    records = data.get("ops") if isinstance(data, dict) else data
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise FormatError(name, "no op", 'a graph, an op as a dictionary with the key "op", or a list of them')
    return records


def violations_of(facts: Mapping[str, object], where: str, default: str, library: str | None) -> Iterator[Violation]:
    """The violations of one description; without tensors, those of its attributes alone.

    Raises:
        FormatError: the description has unknown keys, no op, or tensors of another form.
    """
    op, words = _op_and_edition(facts, where, default)
    if facts.keys().isdisjoint({"inputs", "outputs"}):
        yield from check_attrs(op, facts.get("attrs"), edition=words)
        return
    yield from check_op(
        op,
        facts.get("attrs"),
        _tensors(facts, "inputs", where),
        _tensors(facts, "outputs", where) if facts.get("outputs") is not None else None,
        edition=words,
        library=library,
    )


def graph_of(name: str, content: bytes) -> Graph | None:
    """A graph of the described ops side by side; None if the text describes no ops.

    Raises:
        FormatError: a description has unknown keys, no op, or tensors of another form.
        SpecError: an op breaks the specification.
    """
    try:
        data = parsed(name, content)
        records = records_of(name, data)
    except FormatError:
        return None
    if not records or "op" not in records[0]:
        return None
    graph = Graph(DEFAULT)
    for number, facts in enumerate(records):
        _add(graph, facts, f"{name}: record {number}", f"op{number}_" if len(records) > 1 else "")
    return graph


def _add(graph: Graph, facts: Mapping[str, object], where: str, prefix: str) -> None:
    """Add one described op, with inputs and outputs of its own."""
    op, words = _op_and_edition(facts, where, DEFAULT)
    schema, inputs = edition(words).schema(op), list[LogicalTensor | None]()
    for index, tensor in enumerate(_tensors(facts, "inputs", where)):
        port = f"input_{index}" if schema is None else schema.input_port(index).name
        label = port if port not in graph.inputs and not prefix else f"{prefix}{port}_{index}"
        if isinstance(tensor, np.ndarray):
            inputs.append(graph.constant(tensor))
        elif isinstance(tensor, tuple) and len(tensor) == 2:
            inputs.append(graph.input(label, *tensor))
        elif tensor is None:
            inputs.append(None)
        else:
            raise FormatError(f"{where}: inputs[{index}]", shown(tensor), "[dtype, shape]")
    outputs = _tensors(facts, "outputs", where)
    dtype = outputs[0][0] if outputs and isinstance(outputs[0], tuple) else None
    attrs = facts.get("attrs")
    results = graph.op(op, inputs, attrs, edition=words, dtype=dtype)  # type: ignore[call-overload]
    for place, result in enumerate(results if isinstance(results, tuple) else (results,)):
        graph.output(f"{prefix}out_{place}", result)


def _op_and_edition(facts: Mapping[str, object], where: str, default: str) -> tuple[str, str]:
    """The name of the op and of its edition; refuses unknown keys."""
    unknown = sorted(set(facts) - set(KEYS))
    if unknown:
        raise FormatError(where, f"unknown key {shown(unknown[0])}", f"the keys {', '.join(KEYS)}")
    op, words = facts.get("op"), facts.get("edition", default)
    if not isinstance(op, str):
        raise FormatError(where, f"op {shown(op)}" if "op" in facts else "no op", 'the key "op" with the name of one')
    if not isinstance(words, str) or words not in EDITIONS:
        raise FormatError(f"{where}: edition", shown(words), f"one of {', '.join(EDITIONS)}")
    return op, words


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


def _tensors(facts: Mapping[str, object], key: str, where: str) -> list[object]:
    """The tensors of a description; one may stand for a list of one."""
    entries_given = facts.get(key) or []
    return [_tensor(value, where) for value in (entries_given if isinstance(entries_given, list) else [entries_given])]


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
