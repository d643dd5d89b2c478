"""Verdicts of the specification alone, independent of the loaded library."""

from __future__ import annotations

import onegraph as og
from onegraph.checker import check
from onegraph.errors import ERROR, NOTE, Violation
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.signature import AttrValue, Shape


def check_op(
    kind: str, attrs: object = None, inputs: object = (), outputs: object = None, *, edition: str | None = None
) -> list[Violation]:
    """The violations of :func:`onegraph.check_op` that do not depend on the library."""
    found = check.check_op(kind, attrs, inputs, outputs, edition=edition)
    return [violation for violation in found if violation.severity in (ERROR, NOTE)]


def graph_errors(graph: og.Graph) -> list[Violation]:
    """The violations of severity ``error`` in a graph."""
    return [violation for violation in og.check_graph(graph) if violation.severity == ERROR]


def shape_of(kind: str, attrs: dict[str, AttrValue], *shapes: Shape) -> Shape:
    """The shape that the first output of an op gets from the shapes of its inputs."""
    return BASE[kind].shape(Call(BASE[kind], attrs, [TensorType(None, shape) for shape in shapes]))[0]
