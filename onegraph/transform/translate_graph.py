"""Translates a whole graph from one edition of the specification to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

import numpy as np

from .._util.tracebacks import ends_traceback
from ..builder.graph import AnyGraph, expect_graph
from ..errors import SpecError, UnsupportedError
from ..inference.infer import infer_op
from ..inference.translate_op import translate
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.editions.registry import DEFAULT, Edition, base_of
from ..opset.editions.registry import edition as edition_named


@ends_traceback
def translate_graph(graph: AnyGraph, edition: str = DEFAULT) -> AnyGraph:
    """Translate a graph to another edition; its inputs, outputs and results stay the same.

    If the axes of a tensor have another order in the target edition, as in the weights of legacy-1's ConvTranspose ops,
    a constant is transposed, and for any other tensor a StaticTranspose is added. Unused outputs that an op lacks in
    the target edition are dropped.

    Raises:
        UnsupportedError: the target edition cannot express an op or lacks its data types; the message has the details.
        SpecError: an op breaks the specification of its own edition, which is possible in graphs from files.
        ArgumentError: there is no such edition.
    """
    expect_graph(graph)
    return _Translating(graph._as_step(), edition_named(edition)).graph()._with_variables_of(graph)


class _Translating(Generic[AnyGraph]):
    def __init__(self, graph: AnyGraph, target: Edition) -> None:
        self.old, self.target, self.new = graph, target, graph._empty(target.name, strict=True)
        self.renewed: dict[int, LogicalTensor] = {}
        self.read = {tensor.id for op in graph.ops for tensor in op.inputs}
        self.read |= {tensor.id for tensor in graph.outputs.values()}

    def graph(self) -> AnyGraph:
        """Create inputs, then ops with their constants, then outputs."""
        names = {tensor.id: name for name, tensor in self.old.inputs.items()}
        for tensor in self.old._tensors:
            if tensor.id in names:
                name = names[tensor.id]
                constant = name in self.old.constant_inputs
                self.renewed[tensor.id] = self.new.input(
                    name, tensor.dtype, tensor.shape, strides=tensor.strides, constant=constant
                )
        for op in self.old.ops:
            self._op(op)
        for name, tensor in self.old.outputs.items():
            renewed = self._renewed(tensor)
            self.new.output(name, renewed, strides=tensor.strides if renewed.shape == tensor.shape else None)
        return self.new

    def _renewed(self, tensor: LogicalTensor) -> LogicalTensor:
        """The tensor in the new graph; a constant is copied at its first use."""
        if tensor.id not in self.renewed:
            self.renewed[tensor.id] = self.new._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
        return self.renewed[tensor.id]

    def _op(self, op: Op) -> None:
        try:
            translation = translate(
                op.kind, dict(op.attrs), op.inputs, self._outputs(op), source=op.edition, target=self.target.name
            )
        except SpecError as error:
            label = f"{op.kind} {op.name!r}"
            named = [
                replace(violation, op=label, message=f"{label}{violation.message[len(violation.op) :]}")
                for violation in error.violations
            ]
            raise SpecError(named) from None
        if translation.lost:
            reasons = "; ".join(translation.reasons.values())
            raise UnsupportedError(f"{op.kind} {op.name!r} in {self.target.name}: {reasons}")
        kind, attrs, permutations = translation.kind, translation.attrs, translation.permutations
        assert kind is not None  # as nothing is lost
        schema = self.target.schemas[kind]
        inputs: list[LogicalTensor] = []
        for index, tensor in enumerate(op.inputs):
            order = permutations.get(schema.input_port(index).name)
            if order is None:
                inputs.append(self._renewed(tensor))
            else:
                inputs.append(self._permuted(tensor if tensor.constant else self._renewed(tensor), order, op))
        outputs = self._outputs(op)
        dtypes = tuple(tensor.dtype for tensor in outputs)
        types = [(dtype, None) for dtype in dtypes]
        errors = infer_op(kind, attrs, inputs, types, edition=self.target, name=op.name).errors
        if errors:
            reasons = "; ".join(f"{error.where}: {error.given}; expected {error.expected}" for error in errors)
            raise UnsupportedError(f"{op.kind} {op.name!r} in {self.target.name}: {reasons}")
        names = [f"{op.name}.{port.name}" for port in schema.outputs][: len(dtypes)]
        results = self.new._add_op(self.target, kind, dict(attrs), inputs, dtypes, name=op.name, names=names)
        for port, old, result in zip(schema.outputs, outputs, results, strict=False):
            order = permutations.get(port.name)
            self.renewed[old.id] = result if order is None else self._permuted(result, np.argsort(order).tolist(), op)

    def _outputs(self, op: Op) -> tuple[LogicalTensor, ...]:
        """The outputs of the op, without unused outputs at the end that the op lacks in the target edition."""
        schema, outputs = self.target.meaning(base_of(schema_of(op))), op.outputs
        while schema is not None and len(outputs) > len(schema.outputs) and outputs[-1].id not in self.read:
            outputs = outputs[:-1]
        return outputs

    def _permuted(self, tensor: LogicalTensor, order: Sequence[int], op: Op) -> LogicalTensor:
        """The tensor with its axes permuted; if it is a vector that holds a shape, its elements are permuted."""
        vector = tensor.shape is not None and len(tensor.shape) == 1 < len(order)
        if tensor.value is not None:
            value = tensor.value[list(order)] if vector else tensor.value.transpose(order)
            return self.new.constant(value, name=tensor.name)
        if vector:
            reason = "a shape that is computed, whose elements stand in another order there"
            raise UnsupportedError(f"{op.kind} {op.name!r} in {self.target.name}: {tensor.name}: {reason}")
        made: LogicalTensor = self.new.op("StaticTranspose", [tensor], {"order": list(order)})
        return made
