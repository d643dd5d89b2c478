"""Writes the suggestions in messages: the probable name, the edition that has it, or the right way to write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .._util.exact_types import has_type, real
from ..errors import ArgumentError, Violation, class_of, shown
from ..ir.op import LogicalTensor
from ..ir.tensor_type import tensor_type
from ..opset.dtypes import DataType
from ..opset.editions.dialect import vocabulary
from ..opset.editions.registry import EDITIONS, HOST, Edition, base_of
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Schema
from ..opset.signature import Attribute, Port
from ..opset.values import axes_of, format_letters, nearest, takes
from .type_table import typing_of
from .violations import shortened

# What other frameworks call an attribute: the attributes that it may be here.
ELSEWHERE = {"dim": ("axis", "axes"), "padding": ("pads_begin",), "perm": ("order",), "negative_slope": ("alpha",)}
# Ops of the specification: the host op that computes the same under another name; and how its method is called.
HOST_FORMS = {"TypeCast": "Cast", "Select": "Where", "StaticReshape": "Reshape", "StaticTranspose": "Transpose"}
CALLS = {"Cast": "g.cast(tensor, dtype=...)", "Where": "g.where(cond, src_0, src_1)"}
CASTED = frozenset(["s8", "u8", "s32", "s64", "boolean"]) | {dtype.value for dtype in DataType if dtype.is_host}
SPATIAL = frozenset({"convolution", "pooling", "interpolation"})  # categories with lists of one element for each axis


def nearest_of(word: str, names: Sequence[str]) -> str:
    """A "did you mean" question for the name nearest to ``word``; empty if none is near."""
    return question(nearest(word, names))


def question(name: str | None) -> str:
    """A "did you mean" question for ``name``; empty for None."""
    return f"did you mean {name!r}?" if name else ""


def editions_with(has: Callable[[Edition], bool]) -> str:
    """The editions for which ``has`` is true, in words; empty if there are none."""
    names = [name for name in EDITIONS if has(edition_named(name))]
    guides = [name for name in names if name.startswith("onednn-")]
    texts = [name for name in names if name not in guides]
    if len(guides) > 1:
        texts.append(f"{guides[0]} and later" if guides[-1] == EDITIONS[-1] else f"{guides[0]} to {guides[-1]}")
    else:
        texts += guides
    return f"{', '.join(texts)} {'have' if len(names) > 1 else 'has'} it" if names else ""


def unknown_op(chosen: Edition, kind: object) -> str:
    """A suggestion for an op that the edition does not have; may be empty."""
    text = shortened(kind)
    other_editions = editions_with(lambda edition: edition.schema(kind) is not None)
    if not other_editions and edition_named(HOST).schema(kind) is not None:
        return f"edition {HOST} has it"
    close = (
        chosen.renamed(text) if other_editions else chosen.renamed(text) or _begun(chosen, text) or chosen.nearest(text)
    )
    return "; ".join(filter(None, (other_editions, f"did you mean {close!r}?" if close else "")))


def _begun(chosen: Edition, text: str) -> str | None:
    """The forward op whose name begins with ``text``, as Convolution with Conv."""
    names = [kind for kind in chosen.schemas if kind.lower().startswith(text.lower()) and "Back" not in kind]
    return min(names, key=len, default=None) if len(text) > 2 else None


def other_attribute(schema: Schema, name: str) -> tuple[str, str]:
    """The attribute that ``name`` probably means, and the suggestion; either may be empty.

    The attribute is called ``name`` in another edition or framework, or has a similar name in this one.
    """
    base = base_of(schema)
    for edition in map(edition_named, EDITIONS):
        meaning = edition.meaning(base)
        if meaning is None or not meaning.has_attribute(name):
            continue
        meant = name if meaning.dialect is None else meaning.dialect.attributes.get(name, name)
        meant = vocabulary(schema, base).get(meant, meant)
        if schema.has_attribute(meant):
            return meant, question(meant)
    other_editions = editions_with(lambda edition: (op := edition.meaning(base)) is not None and op.has_attribute(name))
    if other_editions:
        return "", other_editions
    known = [attribute for attribute in ELSEWHERE.get(name, ()) if schema.has_attribute(attribute)]
    meant = known[0] if known else nearest(name, [attribute.name for attribute in schema.attributes]) or ""
    return meant, question(meant)


def other_value(schema: Schema, name: str, value: object) -> str:
    """Other editions in which the attribute has this value, and as which it is taken there; empty if there are none."""
    base, own = base_of(schema), schema.attribute(name)
    if type(value) is not str:
        return ""
    word = format_letters(value) if name.endswith("_format") else value
    if word in own.values or word in own.aliases:
        return ""
    meanings: set[str] = set()

    def has(edition: Edition) -> bool:
        op = edition.meaning(base)
        if op is None or not op.has_attribute(name):
            return False
        attribute = op.attribute(name)
        meanings.update({axes_of(own, attribute.aliases[word])} if word in attribute.aliases else ())
        return word in attribute.values or word in attribute.aliases

    spelled = editions_with(has)
    return f"{spelled} as {' or '.join(sorted(meanings))}" if meanings else spelled


def one_for_each(schema: Schema, attribute: Attribute, value: object, inputs: object) -> str:
    """The list to write if one number was given for a list over the spatial axes; empty for other attributes."""
    per_axis = schema.category in SPATIAL and not attribute.name.endswith("_shape")
    if not per_axis or not takes(attribute, [value]):
        return ""
    try:
        rank = tensor_type(inputs[0]).rank if has_type(inputs, (list, tuple)) and inputs else None
    except ArgumentError:  # reported as another violation
        rank = None
    if rank is None or rank < 3:
        return f"write one for each spatial axis: [{shown(value)}, {shown(value)}] for two"
    return f"write [{', '.join([shown(value)] * (rank - 2))}], one for each spatial axis"


def port_names(ports: Sequence[Port]) -> str:
    """The number of ports and their names, as text; optional ports have a question mark."""
    names = ", ".join(port.name + ("?" if port.optional else "") for port in ports)
    least, most = sum(not port.optional for port in ports), len(ports)
    if not ports:
        return "none"
    count = f"{least} {'or' if most == least + 1 else 'to'} {most}" if least < most else str(most)
    if any(port.variadic for port in ports):
        count = f"at least {least}"
    return f"{count}: {names}" + (" (? is optional)" if "?" in names else "")


def other_form(
    schema: Schema | None, chosen: Edition, tensors: Sequence[LogicalTensor | None], violations: Sequence[Violation]
) -> str:
    """Another way to compute an op whose data types, or whose broadcast, the specification refuses; may be empty."""
    wrong = [one for one in violations if one.rule == "data_type"]
    hosted = None if schema is None else edition_named(HOST).schema(HOST_FORMS.get(schema.kind, schema.kind))
    if hosted is not None and chosen.name != HOST:
        types = tuple([None if tensor is None else tensor.dtype for tensor in tensors])
        spread = [one for one in violations if hosted.kind == "Where" and one.where == "cond" and one not in wrong]
        if len(wrong) + len(spread) == len(violations) and wrong and typing_of(HOST, hosted.kind, types, ())[0]:
            names = " and ".join(sorted({str(dtype) for dtype in types if dtype is not None}))
            return f"the host op {hosted.kind} takes {names}: {CALLS.get(hosted.kind) or _host_call(hosted)}"
        if spread and not wrong:
            return f"the host op Where broadcasts all of its inputs: {CALLS['Where']}"
    casted = [one.given for one in wrong if str(one.given) in CASTED]
    return f"g.cast(tensor, dtype=...) converts {casted[0]} to another data type" if casted else ""


def _host_call(schema: Schema) -> str:
    """A call of a host op that has no method of its own."""
    inputs = "[...]" if schema.variadic else f"[{', '.join(port.name for port in schema.inputs if not port.optional)}]"
    attrs = ", {" + ", ".join(f"{one.name!r}: ..." for one in schema.attributes) + "}" if schema.attributes else ""
    return f"g.op({schema.kind!r}, {inputs}{attrs}, edition={HOST!r})"


def no_tensor(value: object, where: str, dtype: DataType = DataType.f32, method: str = "") -> str:
    """The message for a value that is not a tensor of the graph, with a suggestion how to get one.

    Args:
        value: the given value.
        where: the argument it was given for.
        dtype: the data type of the constant to suggest for a number.
        method: name of the op method if the op is variadic.
    """
    expected = "a tensor of this graph"
    source = f"{expected}, as g.input, g.constant and ops return it"
    if has_type(value, LogicalTensor):
        return f"{where}: tensor {shown(value.name)} is of another graph; expected {expected}"
    if has_type(value, np.ndarray):
        return f"{where}: an array; expected {expected}: wrap it in g.constant(array)"
    if not has_type(value, np.generic) and hasattr(value, "__dlpack__"):
        return f"{where}: a {class_of(value)}; expected {expected}: wrap it in g.constant(...)"
    if has_type(value, str):
        return f"{where}: {shown(value)}; expected {expected}: g.tensor({shown(value)}) finds it by name"
    if has_type(value, tuple) and not value:
        return f"{where}: what an op without outputs returns; expected {expected}"
    if has_type(value, tuple) and hasattr(value, "_fields"):
        return f"{where}: the outputs {', '.join(value._fields)}; expected one of them, as in .{value._fields[0]}"
    if has_type(value, (int, float, np.generic)) and not has_type(value, bool):
        name = dtype.numpy.type.__name__
        if not _holds(dtype, value):
            return f"{where}: {shown(value)}; expected {source}"
        number = _literal(value)
        scalar = f"np.{name}({number})" if hasattr(np, name) else f"np.array({number}, og.{dtype}.numpy)"
        return f"{where}: {shown(value)}; expected {source}: g.constant({scalar})"
    if has_type(value, (list, tuple)) and value and all(has_type(element, LogicalTensor) for element in value):
        if not method:
            return f"{where}: a {class_of(value)} of tensors; expected {expected}: one of them, without brackets"
        shorter = ", ".join(element.name for element in value[:3]) + (", ..." if len(value) > 3 else "")
        return f"{where}: a {class_of(value)}; expected its tensors one by one: g.{method}({shorter})"
    if has_type(value, (list, tuple)):
        return f"{where}: {shown(value)}; expected {expected}, or an array, as np.array(..., np.float32)"
    return f"{where}: {shown(value)}; expected {source}"


def refused_operand(schema: Schema, operands: Sequence[object], index: int) -> str:
    """The message for input ``index`` of ``operands``, which is not a tensor of the graph."""
    value, where = operands[index], f"inputs[{index}]"
    first = next((tensor.dtype for tensor in operands if has_type(tensor, LogicalTensor)), DataType.f32)
    if schema.variadic:
        if index > 0 and real(value) is not None:
            return no_port(schema, index, value)
        return no_tensor(value, f"{schema.kind}: {where}", first, schema.name)
    if index >= len(schema.inputs):
        return no_port(schema, index, value)
    own = schema.inputs[index]
    if schema.has_attribute(own.name) and not has_type(value, LogicalTensor):
        expected = f"expected a tensor of this graph, or the attribute {own.name}=..."
        return f"{schema.kind}: {own.name}: {shown(value)}; {expected}"
    pairs = zip(schema.inputs, operands, strict=False)
    alike = (tensor.dtype for port, tensor in pairs if port.type == own.type and has_type(tensor, LogicalTensor))
    dtype = DataType.__members__.get(own.type) or next(alike, first)
    return no_tensor(value, f"{schema.kind}: {own.name}", dtype)


def no_port(schema: Schema, index: int, value: object) -> str:
    """The message for a value that is no tensor, given by position after the inputs, where attributes often are."""
    names = ", ".join(attribute.name for attribute in schema.attributes)
    names += f"={shown(value)}" if len(schema.attributes) == 1 and not has_type(value, LogicalTensor) else ""
    by_name = f"; give attributes by name: {names}" if names else ""
    if has_type(value, DataType):
        by_name = f"; give the data type of the result by name: dtype=og.{value}"
    return f"{schema.kind}: inputs[{index}]: {shown(value)}; expected {port_names(schema.inputs)}{by_name}"


def _literal(value: object) -> str:
    """A number as Python code."""
    number = np.asarray(value).tolist() if has_type(value, np.generic) else value
    if has_type(number, float) and not math.isfinite(number):
        return "np.nan" if math.isnan(number) else "np.inf" if number > 0 else "-np.inf"
    return shown(number)


def _holds(dtype: DataType, number: object) -> bool:
    """Whether ``dtype`` can hold a number: integer types exactly, float types always, as they may round."""
    if dtype.value[0] not in "su":
        return True
    try:
        with np.errstate(invalid="ignore"):
            return bool(np.asarray(number).astype(dtype.numpy).astype(np.float64) == number)
    except (OverflowError, TypeError, ValueError):
        return False
