"""One method for each op of the base vocabulary, made from its schema: ``g.convolution(src, weights, strides=...)``.

Inputs are positional or by port name, attributes by name. Signature and docstring are computed from the record, and
``methods.pyi`` is generated from the same records for editors and type checkers.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

from .once import refuse_unmade
from .op import LogicalTensor
from .plain import isinstance
from .spec.editions import BASE, DEFAULT, edition
from .spec.schema import Attribute, Fill, Port, Schema
from .spec.values import nearest

WIDTH = 108
OPTIONS = ("name", "dtype", "outputs")


class OpMethods:
    """The op methods of :class:`onegraph.Graph`."""

    def __getattr__(self, name: str) -> Any:
        """Called for what does not exist alone: the error names what was probably meant."""
        refuse_unmade(self, name)
        close = None if name.startswith("_") else _meant(name, [one for one in dir(type(self)) if one[0] != "_"])
        fix = f"; did you mean {close!r}?" if close else ""
        # Python would add a guess of its own, among the names of the object.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{fix}", name=name, obj=None)


def _meant(name: str, names: list[str]) -> str | None:
    """The method that was probably meant: ``MatMul``, ``relue``, and ``conv2d``, ``reshape``, ``sum`` by a part."""
    schema = edition(DEFAULT).schema(name)
    if schema is not None:
        return schema.name
    stem = re.sub(r"_?[123]d$", "", name.lower())
    starts = [one for one in names if one.startswith(stem)] if len(stem) > 2 else []
    ends = [one for one in names if one.endswith(f"_{stem}")]
    return min(starts, key=len, default=None) or (ends[-1] if ends else nearest(name, names))


def attribute_default(attribute: Attribute) -> str:
    """The default as documentation shows it."""
    if isinstance(attribute.default, Fill):
        return f"all {attribute.default.value}"
    return repr(attribute.default)


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
        value: object = None if isinstance(attribute.default, Fill) else attribute.default
        if attribute.required:
            value = inspect.Parameter.empty
        parameters.append(inspect.Parameter(attribute.name, keyword, default=value))
    parameters += [inspect.Parameter(option, keyword, default=None) for option in OPTIONS]
    return inspect.Signature(parameters)


def docstring(schema: Schema) -> str:
    """The docstring of the op's method."""
    chosen = edition(DEFAULT)
    since = f"; since oneDNN {schema.since[0]}.{schema.since[1]}" if schema.since > (3, 0) else ""
    results = ", ".join(f"{port.name}: {port.type}" for port in schema.outputs) or "nothing"
    lines = [_wrapped(f"{schema.kind}: {schema.doc}"), *(f"\n{_wrapped(note)}" for note in schema.notes), "", "Args:"]
    lines += [_entry(f"{port.name}: {_port(port)}") for port in schema.inputs]
    lines += [_entry(f"{attribute.name}: {_attribute(schema, attribute)}") for attribute in schema.attributes]
    lines += [
        _entry("name: text for reports."),
        _entry("dtype: data type of the result, where the table leaves it open."),
        _entry("outputs: names of the optional outputs that are wanted."),
        *("", "Returns:", _entry(results)),
        *("", "Data types:", *(_entry(str(row)) for row in schema.types)),
        *("", "Raises:", _entry("SpecError: the op breaks the specification; the graph is unchanged.")),
        *("", f"Source: {chosen.page(schema)}{since}"),
    ]
    return "\n".join(lines)


def _port(port: Port) -> str:
    return f"{port.type}{', optional' if port.optional else ''}{', any number' if port.variadic else ''}"


def _attribute(schema: Schema, attribute: Attribute) -> str:
    need = "required" if attribute.required else f"default {attribute_default(attribute)}"
    allowed = f" ({', '.join(attribute.values)})" if attribute.values else ""
    since = f" Since {attribute.since[0]}.{attribute.since[1]}." if attribute.since > schema.since else ""
    return f"{attribute.kind}, {need}{allowed}. {attribute.doc}{since}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)


def _entry(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent="        ")


def _method(schema: Schema) -> Any:
    ports = {port.name: index for index, port in enumerate(schema.inputs) if not port.variadic}

    def method(self: Any, *inputs: object, **keywords: Any) -> Any:
        if not keywords:
            return self.op(schema.kind, inputs, edition=DEFAULT)
        options = {option: keywords.pop(option) for option in OPTIONS if option in keywords}
        tensors = list(inputs)
        attrs: dict[str, object] = {}
        for key, value in keywords.items():
            if key in ports and (isinstance(value, LogicalTensor) or not schema.has_attribute(key)):
                index = ports[key]
                tensors += [None] * (index + 1 - len(tensors))
                if tensors[index] is not None:
                    raise TypeError(f"{schema.name}() got two tensors for input {key!r}")
                tensors[index] = value
            elif value is not None or not schema.has_attribute(key):
                attrs[key] = value
        return self.op(schema.kind, tensors, attrs, edition=DEFAULT, **options)

    method.__name__ = method.__qualname__ = schema.name
    method.__doc__ = docstring(schema)
    method.__signature__ = python_signature(schema)  # type: ignore[attr-defined]
    return method


for _schema in BASE.values():
    setattr(OpMethods, _schema.name, _method(_schema))
