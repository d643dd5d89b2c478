"""Finds the values of a model, by the names that they have in its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import ArgumentError, shown
from ..ir.op import LogicalTensor, brief
from ..opset.dtypes import DataType
from ..opset.signature import AttrValue


class View(NamedTuple):
    """An op of one input that the graph lacks, such as a transposition."""

    kind: str
    attrs: Mapping[str, AttrValue]
    edition: str
    dtype: DataType


class ModelValue(NamedTuple):
    """What a graph has of a value of a model.

    Attributes:
        tensor: name of a tensor of the graph; empty if the graph has none, because ops were joined.
        view: what makes the value of the tensor; None if the tensor is the value.
    """

    tensor: str
    view: View | None = None


ModelValues = Mapping[str, ModelValue]
EMPTY: ModelValues = {}


def tensor_of_value(
    values: ModelValues, tensors: Iterable[LogicalTensor], name: str
) -> tuple[LogicalTensor, View | None] | None:
    """The tensor of a graph for a value of its model, and the view that makes the value of it; None without one."""
    value = values.get(name)
    if value is None or not value.tensor:
        return None
    named = [tensor for tensor in tensors if tensor.name == value.tensor]
    return (named[0], value.view) if len(named) == 1 else None


def refuse_view(where: str, name: str, tensor: LogicalTensor, view: View) -> ArgumentError:
    """The error where a tensor is expected, and the graph lacks the view that makes the value of the model."""
    attrs = ", ".join(f"{key}={brief(attr)}" for key, attr in view.attrs.items())
    return ArgumentError(
        f"{where}: {shown(name)}: the graph has this value of the model as {shown(tensor.name)}, behind which was a "
        f"{view.kind}({attrs}); take g.tensor({tensor.name!r}), or compile(outputs=[{name!r}]), which adds the op"
    )
