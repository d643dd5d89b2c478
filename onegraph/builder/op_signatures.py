"""Computes the signature and the docstring of an op's method from the schema of the op."""

from __future__ import annotations

import inspect
import textwrap

from ..opset.editions.registry import DEFAULT, edition
from ..opset.schema import Schema
from ..opset.signature import Attribute, AttrValue, Fill, Port

WIDTH = 108
OPTIONS = ("name", "dtype", "outputs")


def attribute_default(attribute: Attribute) -> str:
    """The default of an attribute as text for documentation."""
    if isinstance(attribute.default, Fill):
        return f"all {attribute.default.value}"
    return repr(attribute.default)


def method_default(attribute: Attribute) -> AttrValue | None:
    """The value that an op's method uses for an attribute that is left out; None where that depends on others."""
    if attribute.implied_if is not None:
        return None
    value = attribute.default if attribute.implied is None else attribute.implied
    return value.value if isinstance(value, Fill) else value


def python_signature(schema: Schema) -> inspect.Signature:
    """The signature of the op's method."""
    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", positional)]
    taken = set()
    for port in schema.inputs:
        if port.variadic:
            parameters.append(inspect.Parameter(port.name, inspect.Parameter.VAR_POSITIONAL))
            break
        default = None if port.optional else inspect.Parameter.empty
        parameters.append(inspect.Parameter(port.name, positional, default=default))
        taken.add(port.name)
    for attribute in schema.attributes:
        if attribute.name in taken:
            continue  # one parameter takes the tensor or the attribute, as in weights_shape
        needed = attribute.required and attribute.implied is None
        value = inspect.Parameter.empty if needed else method_default(attribute)
        parameters.append(inspect.Parameter(attribute.name, keyword, default=value))
    parameters += [inspect.Parameter(option, keyword, default=None) for option in OPTIONS]
    return inspect.Signature(parameters)


def docstring(schema: Schema, vocabulary: str = DEFAULT) -> str:
    """The docstring of the method of an op that the edition ``vocabulary`` has."""
    chosen = edition(vocabulary)
    since = f"; since oneDNN {schema.since[0]}.{schema.since[1]}" if schema.since > (3, 0) else ""
    results = ", ".join(f"{port.name}: {port.type}" for port in schema.outputs) or "nothing"
    lines = [_wrapped(f"{schema.kind}: {schema.doc}"), *(f"\n{_wrapped(note)}" for note in schema.notes), "", "Args:"]
    lines += [_entry(f"{port.name}: {_port(port)}") for port in schema.inputs]
    lines += [_entry(f"{attribute.name}: {_attribute(schema, attribute)}") for attribute in schema.attributes]
    lines += [
        _entry("name: text for reports."),
        _entry("dtype: data type of the result if the type table allows several; by default that of the first input."),
        _entry("outputs: names of the wanted optional outputs."),
        *("", "Returns:", _entry(results)),
        *("", "Data types:", *(_entry(str(row)) for row in schema.types)),
        *("", "Raises:", _entry("SpecError: the op breaks the specification; the graph is unchanged.")),
        *("", f"Source: {chosen.page(schema)}{since}"),
    ]
    return "\n".join(lines)


def _port(port: Port) -> str:
    cast = "; f32 is cast to bf16 or f16 if the first input has that type" if port.name == "bias" else ""
    return f"{port.type}{', optional' if port.optional else ''}{', any number' if port.variadic else ''}{cast}"


def _attribute(schema: Schema, attribute: Attribute) -> str:
    need = "required" if attribute.required else f"default {attribute_default(attribute)}"
    if attribute.implied is not None:
        need = "required by the specification" + (
            ", except where both say the same" if attribute.implied_if else f", {method_default(attribute)!r} here"
        )
    allowed = f" ({', '.join(attribute.values)})" if attribute.values else ""
    since = f" Since {attribute.since[0]}.{attribute.since[1]}." if attribute.since > schema.since else ""
    return f"{attribute.kind}, {need}{allowed}. {attribute.doc}{since}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _entry(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent="        ")
