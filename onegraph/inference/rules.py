"""Runs the rules of an op and adds their findings, in the words of the edition that the op was written for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..opset.editions.dialect import edition_words
from ..opset.schema import Call, Rule, RuleFinding, Schema, TensorType
from ..opset.shapes import show
from ..opset.signature import AttrValue, Shape
from ..opset.unsettled import UnsettledError
from .violations import Violations


def run_rules(
    violations: Violations,
    schema: Schema,
    call: Call,
    rules: Sequence[Rule],
    attrs: Mapping[str, AttrValue],
    inputs: Sequence[TensorType | None],
) -> bool:
    """Run rules and add their findings; returns False if a rule read an unsettled attribute."""
    all_read = True
    for rule in rules:
        try:
            for finding in rule(call):
                words = edition_words(schema, call.schema, finding, attrs)
                violations.add_finding(rule.__name__, _with_shape(schema, words, attrs, inputs))
        except UnsettledError:
            all_read = False
    return all_read


def _with_shape(
    schema: Schema, finding: RuleFinding, attrs: Mapping[str, AttrValue], inputs: Sequence[TensorType | None]
) -> RuleFinding:
    """The finding with the shape that it is about, as given, and the format in which that shape was read."""
    if not finding.format:
        return finding
    shape: Shape = attrs.get(finding.where)  # type: ignore[assignment]
    for port, tensor in zip(schema.inputs, inputs, strict=False):
        if port.name == finding.where and tensor is not None:
            contents = tensor.value if port.gives_shape else None
            shape = tensor.shape if contents is None else tuple(contents.tolist())
    read_as = attrs.get(finding.format, schema.attribute(finding.format).default)
    return finding._replace(given=f"shape {show(shape)} read as {read_as} has {finding.given}")
