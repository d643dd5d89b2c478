"""Translates ops of any edition into the base vocabulary, and findings back into the vocabulary of the edition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..dtypes import DataType
from ..schema import Call, RuleFinding, Schema, TensorType
from ..signature import AttrValue, Shape
from ..unsettled import UnsettledCall


def swap_channels(shape: Shape, weights_format: str) -> Shape:
    """The shape of a weights tensor with its two channel axes exchanged and its spatial axes unchanged."""
    if shape is None or len(shape) < 2:
        return shape
    order = channel_swap(len(shape), weights_format)
    return tuple(shape[axis] for axis in order)


def channel_swap(rank: int, weights_format: str) -> tuple[int, ...]:
    """The permutation that exchanges the two channel axes of weights in ``weights_format`` (its own inverse)."""
    axes = list(range(rank))
    first = rank - 2 if weights_format.startswith("X") else 0
    axes[first], axes[first + 1] = axes[first + 1], axes[first]
    return tuple(axes)


def base_attrs(schema: Schema, attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """Translate attributes of an edition's op into the base vocabulary: names, values, and the axis order of shapes."""
    dialect = schema.dialect
    if dialect is None:
        return dict(attrs)
    translated: dict[str, AttrValue] = {}
    for name, value in attrs.items():
        if name in dialect.values and isinstance(value, str):
            value = dialect.values[name].get(value, value)
        if name in dialect.swapped and isinstance(value, tuple):
            value = swap_channels(tuple(map(int, value)), format_of(schema, attrs))  # type: ignore[assignment]
        translated[dialect.attributes.get(name, name)] = value
    # Write out the edition's default where attribute values are translated; otherwise the base's default would apply.
    for name, mapping in dialect.values.items():
        default = schema.attribute(name).default
        if name not in attrs and isinstance(default, str):
            translated[dialect.attributes.get(name, name)] = mapping.get(default, default)
    return translated


def format_of(schema: Schema, attrs: Mapping[str, AttrValue]) -> str:
    """The weights format of an op with these attributes, as the edition names it; KeyError if the op has none."""
    for name in ("weights_format", "filter_format"):
        if schema.has_attribute(name):
            return str(attrs.get(name, schema.attribute(name).default))
    raise KeyError("weights_format")


def is_swapped(schema: Schema, port: str) -> bool:
    """Whether the tensor at ``port`` has its two channel axes in the opposite order to the base vocabulary."""
    return schema.dialect is not None and port in schema.dialect.swapped


def base_call(
    schema: Schema,
    base: Schema,
    attrs: Mapping[str, AttrValue],
    inputs: Sequence[TensorType | None],
    n_outputs: int | None = None,
    output_types: Sequence[DataType | None] = (),
) -> Call:
    """Translate one use of an op into a call of ``base``, the schema of the same op in the base vocabulary."""
    if schema.dialect is None:
        seen = inputs if base.variadic else inputs[: len(base.inputs)]
        return Call(base, dict(attrs), seen, n_outputs, output_types)
    seen = []
    for index, tensor in enumerate(inputs):
        port = schema.input_port(index).name
        if tensor is not None and is_swapped(schema, port):
            fmt = format_of(schema, attrs)
            if base.input_port(index).name.endswith("_shape"):
                tensor = replace(tensor, value=_swap_value(tensor.value, fmt))
            else:
                tensor = replace(tensor, shape=swap_channels(tensor.shape, fmt))
        seen.append(tensor)
    if not base.variadic:
        # MaxPoolBackprop of legacy-1 has an extra last port; its values follow from src, so the port is dropped.
        del seen[len(base.inputs) :]
    return Call(base, _as_base_kinds(base, base_attrs(schema, attrs)), seen, n_outputs, output_types)


def unsettled_call(
    schema: Schema,
    base: Schema,
    attrs: Mapping[str, AttrValue],
    inputs: Sequence[TensorType | None],
    unsettled: Set[str],
    n_outputs: int | None = None,
    output_types: Sequence[DataType | None] = (),
) -> Call:
    """Like ``base_call``, but some attributes are wrong or missing: ``unsettled``, in the edition's names."""
    if schema.dialect is not None and not unsettled.isdisjoint({"weights_format", "filter_format"}):
        # Without the format the order of the channel axes is unknown, so the dims of swapped tensors are unknown too.
        unsettled = unsettled | (schema.dialect.swapped & attrs.keys())
        inputs = [
            replace(tensor, shape=tensor.shape and (None,) * len(tensor.shape), value=None)
            if tensor is not None and is_swapped(schema, schema.input_port(index).name)
            else tensor
            for index, tensor in enumerate(inputs)
        ]
    names = frozenset(unsettled).union(new for new, old in vocabulary(schema, base).items() if old in unsettled)
    return UnsettledCall(base_call(schema, base, attrs, inputs, n_outputs, output_types), names)


def _as_base_kinds(base: Schema, attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """Convert integers to floats where the base has kind f32 and the edition s64, as for the beta of SoftPlus."""
    return {
        name: float(value) if base.attribute(name).kind == "f32" and isinstance(value, int) else value
        for name, value in attrs.items()
    }


def _swap_value(value: NDArray[np.generic] | None, weights_format: str) -> NDArray[np.generic] | None:
    return None if value is None else value[list(channel_swap(value.size, weights_format))]


def output_shapes(schema: Schema, call: Call, attrs: Mapping[str, AttrValue]) -> tuple[Shape, ...]:
    """The inferred output shapes of ``call``, in the edition's axis order."""
    shapes = call.shapes
    if schema.dialect is None:
        return shapes[: len(schema.outputs)]
    return tuple(
        swap_channels(shape, format_of(schema, attrs)) if is_swapped(schema, port.name) else shape
        for port, shape in zip(schema.outputs, shapes, strict=False)
    )


def edition_words(
    schema: Schema, base: Schema, finding: RuleFinding, attrs: Mapping[str, AttrValue] | None = None
) -> RuleFinding:
    """Translate a finding of a rule into the edition's names of attributes, ports and attribute values.

    ``attrs`` are the attributes in the edition's vocabulary. With them, shapes are shown in the edition's axis order
    instead of the base's.
    """
    dialect = schema.dialect
    if dialect is None:
        return finding
    words = vocabulary(schema, base)
    where = words.get(finding.where, finding.where)
    value = finding.given
    if attrs is not None and where in dialect.swapped and isinstance(value, (list, tuple)):
        value = swap_channels(tuple(value), format_of(schema, attrs))
        value = list(value or ()) if isinstance(finding.given, list) else value
    elif isinstance(value, str):
        value = in_words(value, words)
    return finding._replace(
        where=where,
        given=value,
        expected=in_words(finding.expected, words),
        fix=in_words(finding.fix, words),
        format=words.get(finding.format, finding.format),
    )


def vocabulary(schema: Schema, base: Schema) -> dict[str, str]:
    """Map base words to the edition's words, for names of attributes and ports and for values of attributes."""
    back: dict[str, str] = {}
    if schema.dialect is None:
        return back
    for mapping in schema.dialect.values.values():
        back.update({new: old for old, new in mapping.items()})
    # The order does not matter: a port and an attribute with the same base name share a name in every edition too.
    back.update({new: old for old, new in schema.dialect.attributes.items()})
    for theirs, ours in ((base.inputs, schema.inputs), (base.outputs, schema.outputs)):
        back.update({new.name: old.name for new, old in zip(theirs, ours, strict=False) if new.name != old.name})
    return back


def in_words(text: str, words: Mapping[str, str]) -> str:
    """``text`` with every whole word that is a key of ``words`` replaced by its value."""
    return re.sub(r"\w+", lambda match: words.get(match[0], match[0]), text)
