"""Writes reference pages of ops from their schemas: as plain data, Markdown, or text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .._util.counted import counted
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, HOST, Edition, base_of
from ..opset.errata.correction import Correction
from ..opset.errata.page import escaped
from ..opset.errata.page import to_dict as correction_dict
from ..opset.schema import Rule, Schema
from ..opset.signature import Attribute, Port, Version
from .op_names import methods
from .op_signatures import OPTIONS, attribute_default, python_signature

# Makes Python code that builds an op, or no text: ``onegraph.tools.op_examples.example``.
Example = Callable[[Edition, Schema], str]
IMPORTS = ("import numpy as np", "import onegraph as og")


def to_dict(chosen: Edition, schema: Schema) -> dict[str, object]:
    """The full description of an op in an edition, as plain values for JSON."""
    return {
        "kind": schema.kind,
        "name": schema.name,
        "category": schema.category,
        "edition": chosen.name,
        "page": chosen.page(schema),
        "link": chosen.link(schema),
        "doc": schema.doc,
        "notes": list(schema.notes),
        "since": _version(schema.since),
        "base": base_of(schema).kind,
        "attributes": [_attribute_dict(attribute) for attribute in schema.attributes],
        "inputs": [_port_dict(port) for port in schema.inputs],
        "outputs": [_port_dict(port) for port in schema.outputs],
        "types": [{name: _type_names(types) for name, types in row.types.items()} for row in schema.types],
        "corrections": [_correction_dict(correction) for correction in chosen.corrections(schema)],
        "rules": [{"id": rule.__name__, "doc": _first_line(rule)} for rule in _rules(schema)],
    }


def _correction_dict(correction: Correction) -> dict[str, object]:
    """A correction without the addresses of other pages."""
    return {key: value for key, value in correction_dict(correction).items() if key != "pages"}


def _attribute_dict(attribute: Attribute) -> dict[str, object]:
    return {
        "name": attribute.name,
        "kind": attribute.kind,
        "required": attribute.required,
        "default": None if attribute.default is None else attribute_default(attribute).strip("'"),
        "values": list(attribute.values),
        "aliases": dict(attribute.aliases),
        "range": attribute.range.name if attribute.range else None,
        "since": _version(attribute.since),
        "doc": attribute.doc,
    }


def _port_dict(port: Port) -> dict[str, object]:
    return {
        "name": port.name,
        "type": port.type,
        "optional": port.optional,
        "variadic": port.variadic,
        "since": _version(port.since),
    }


def _version(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _type_names(types: Iterable[DataType]) -> list[str]:
    names = set(types)
    return [dtype.value for dtype in DataType if dtype in names]


def _rules(schema: Schema) -> tuple[Rule, ...]:
    return (*schema.rules, *schema.shape_rules)


def _first_line(rule: Rule) -> str:
    return str(rule.__doc__).strip().splitlines()[0]


def _allowed(attribute: Attribute) -> str:
    if attribute.values:
        return ", ".join(attribute.values)
    return attribute.range.name if attribute.range else "any"


def _need(attribute: Attribute) -> str:
    if attribute.required:
        return "required"
    return "optional" if attribute.default is None else f"default {attribute_default(attribute)}"


def _ports(ports: tuple[Port, ...]) -> str:
    marks = {(True, False): "?", (False, True): "*", (True, True): "*", (False, False): ""}
    return ", ".join(f"{port.name}: {port.type}{marks[port.optional, port.variadic]}" for port in ports) or "none"


def _type_rows(schema: Schema) -> list[str]:
    return [
        ", ".join(f"{names} = {' or '.join(_type_names(types))}" for names, types in row.cells())
        for row in schema.types
    ]


def _type_table(schema: Schema) -> Iterator[str]:
    """The allowed combinations of data types, one in each line of a table."""
    combinations = _merged([{name: _type_names(types) for name, types in row.types.items()} for row in schema.types])
    for number, combination in enumerate(combinations):
        if not number:
            yield f"| {' | '.join(combination)} |"
            yield "|" + " --- |" * len(combination)
        yield f"| {' | '.join(_listed(names) for names in combination.values())} |"


def _merged(rows: Sequence[Mapping[str, list[str]]]) -> list[dict[str, list[str]]]:
    """The same combinations in fewer rows: two rows that differ in one variable become one."""
    rows_merged: list[dict[str, list[str]]] = []
    for row in rows:
        for merged_row in rows_merged:
            different = [name for name in row if row[name] != merged_row[name]]
            if len(different) == 1:
                merged_row[different[0]] = [*dict.fromkeys((*merged_row[different[0]], *row[different[0]]))]
                break
        else:
            rows_merged.append(dict(row))
    return rows_merged if len(rows_merged) == len(rows) else _merged(rows_merged)


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def markdown(chosen: Edition, schema: Schema, example: Example) -> str:
    """The page of one op in Markdown."""
    return f"## {schema.kind}\n\n{markdown_body(chosen, schema, example)}"


def markdown_body(chosen: Edition, schema: Schema, example: Example) -> str:
    """The page of one op in Markdown, without its heading."""
    since = f" Since oneDNN {_version(schema.since)}." if schema.since > (3, 0) else ""
    lines = [escaped_text(f"{sentence(schema.doc)}{since}"), ""]
    lines += [f"{_call(chosen, schema)}{_source(chosen, schema)}.", ""]
    lines += [f"- Inputs: {escaped_text(_ports(schema.inputs))}", f"- Outputs: {escaped_text(_ports(schema.outputs))}"]
    lines += ["", *_type_table(schema), ""]
    if schema.attributes:
        lines += ["| attribute | kind | need | allowed | meaning |", "| --- | --- | --- | --- | --- |"]
        for attribute in schema.attributes:
            cells = (attribute.name, attribute.kind, _need(attribute), _allowed(attribute), attribute.doc)
            lines.append("| " + " | ".join(escaped_text(cell) for cell in cells) + " |")
        lines.append("")
    code = example(chosen, schema)
    lines += ["```py", code, "```", ""] if code else []
    lines += [f"- `{rule.__name__}`: {escaped_text(_first_line(rule))}" for rule in _rules(schema)]
    lines += [f"\n{escaped_text(note)}" for note in schema.notes]
    corrections = chosen.corrections(schema)
    if corrections:
        lines += ["", "Mistakes on the page of the specification:", ""]
        lines += [f"- {escaped(str(correction))}" for correction in corrections]
    return "\n".join(lines).rstrip() + "\n"


def _call(chosen: Edition, schema: Schema) -> str:
    """How a graph gets the op."""
    if chosen.name == HOST:
        names = {other.kind: name for name, other, vocabulary in methods() if vocabulary == HOST}
        called = f"Method `{names[schema.kind]}`, or " if schema.kind in names else ""
        return f'{called}`g.op("{schema.kind}", [...], edition="{HOST}")`'
    return f"Method `{method(chosen, schema)}`"


def _source(chosen: Edition, schema: Schema) -> str:
    """The page of the specification that has the op, if one does."""
    link = chosen.link(schema)
    return f". [{chosen.page(schema)}]({link})" if link else ""


def method(chosen: Edition, schema: Schema) -> str:
    """The method call with all arguments; only the name of the op in editions other than the default."""
    if chosen.name != DEFAULT:
        return schema.name
    signature_ = python_signature(schema)
    shown = [parameter for name, parameter in signature_.parameters.items() if name not in ("self", *OPTIONS)]
    return f"g.{schema.name}{signature_.replace(parameters=shown)}"


def sentence(text: str) -> str:
    """The text with a full stop."""
    return text if text.endswith(".") else text + "."


def escaped_text(text: str) -> str:
    """The text of a record without the markup of Markdown."""
    return text.replace("|", "\\|").replace("*", "\\*")


def markdown_edition(chosen: Edition, example: Example) -> str:
    """The page of an edition in Markdown: its ops by category."""
    lines = [f"# {chosen.name}", "", f"{chosen.title}: {counted(len(chosen.schemas), 'op')}.", ""]
    lines += ["`?` marks an optional tensor, `*` any number of tensors.", ""]
    if chosen.name != HOST:
        lines += ["Each example starts with these lines:", "", "```py", *IMPORTS, "```", ""]
    for category, schemas in by_category(chosen):
        names = ", ".join(f"[{schema.kind}](#{schema.kind.lower()})" for schema in schemas)
        lines.append(f"- {category}: {names}")
    pages = [markdown(chosen, schema, example) for _, schemas in by_category(chosen) for schema in schemas]
    return "\n".join([*lines, "", *pages])


def by_category(chosen: Edition) -> Iterator[tuple[str, list[Schema]]]:
    """The ops of an edition, category by category."""
    for category in dict.fromkeys(schema.category for schema in chosen.schemas.values()):
        yield category, [schema for schema in chosen.schemas.values() if schema.category == category]


def terminal_page(chosen: Edition, schema: Schema) -> str:
    """The page of one op as text for a terminal."""
    lines = [f"{schema.kind}  ({schema.category}, {chosen.page(schema)})", f"  {schema.doc}", ""]
    lines += [f"  inputs   {_ports(schema.inputs)}", f"  outputs  {_ports(schema.outputs)}"]
    lines += [f"  {'types' if not number else '':7}  {row}" for number, row in enumerate(_type_rows(schema))]
    if schema.attributes:
        cells = [(a.name, a.kind, _need(a), _allowed(a)) for a in schema.attributes]
        widths = [max(len(row[column]) for row in cells) for column in range(3)]
        lines += ["", "  attributes"]
        for row in cells:
            padded = (f"{cell:{width}}" for cell, width in zip(row[:3], widths, strict=True))
            lines.append(f"    {'  '.join(padded)}  {row[3]}")
    lines += ["", *(f"  {note}" for note in schema.notes)] if schema.notes else []
    corrections = chosen.corrections(schema)
    if corrections:
        texts = (
            textwrap.fill(str(correction), 118, initial_indent=" " * 4, subsequent_indent=" " * 6)
            for correction in corrections
        )
        lines += ["", "  mistakes on its page", *texts]
    rules = _rules(schema)
    if rules:
        width = max(len(rule.__name__) for rule in rules)
        lines += ["", "  rules", *(f"    {rule.__name__:{width}}  {_first_line(rule)}" for rule in rules)]
    return "\n".join(lines)
