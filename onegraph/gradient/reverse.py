"""Applies the rules of gradients from the outputs of a graph back to its inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from ..errors import UnsupportedError
from ..ir.op import LogicalTensor, Op, schema_of
from ..lowering.elementwise import add
from ..lowering.emitter import Emitter, NotLowered, Value, shape_of
from ..lowering.layers import matmul
from ..lowering.movement import cast, concat
from ..opset.editions.registry import base_of
from ..opset.shapes import known_dims
from .rules import COMPOSED, FLAT, rules_of
from .rules.indexing import zeros_like
from .rules.movement import joined
from .rules.table import Found, entry
from .use import (
    GradientUse,
    MatrixGradient,
    Part,
    Piece,
    Scattered,
    has_gradient,
    may_repeat,
    summed_to,
    summed_where_open,
)


class Reverse:
    """The gradients of tensors, which grow as ops are taken back.

    Attributes:
        active: ids of the tensors whose gradients are computed.
        label: ends the names of the ops of the gradient of an op, behind its name.
    """

    def __init__(self, emit: Emitter, active: Iterable[int], label: str) -> None:
        self.emit, self.active, self.label = emit, {*active}, label
        self._parts: dict[int, list[Part]] = {}
        self._readers: Counter[int] = Counter()  # inputs of ops that were not taken back yet, by id of the tensor

    def give(self, tensor: LogicalTensor | None, gradient: Part | None, *, repeated: bool = False) -> None:
        """Add a part of the gradient with respect to a tensor.

        Args:
            tensor: the tensor.
            gradient: the part; None for zero.
            repeated: whether a call may have broadcast the tensor along an axis whose size is unknown before.
        """
        if tensor is None or gradient is None or tensor.id not in self.active:
            return
        part: Part
        if isinstance(gradient, Piece | Scattered):
            part = replace(gradient, value=cast(self.emit, gradient.value, tensor.dtype))
        elif isinstance(gradient, MatrixGradient):
            part = gradient
        else:
            part = fitted(self.emit, gradient, tensor, repeated)
        self._parts.setdefault(tensor.id, []).append(part)

    def gradient(self, tensor: LogicalTensor) -> Value | None:
        """The sum of the parts of the gradient with respect to a tensor; None if it is zero."""
        parts_of_value = self._parts.get(tensor.id)
        if parts_of_value is None:
            return None
        parts = [part for part in parts_of_value if not isinstance(part, Piece | MatrixGradient | Scattered)]
        products = [part for part in parts_of_value if isinstance(part, MatrixGradient)]
        if products:
            parts.append(cast(self.emit, self._product(products), tensor.dtype))
        pieces = [part for part in parts_of_value if isinstance(part, Piece)]
        for axis in sorted({piece.axis for piece in pieces}):
            size = known_dims(tensor.shape)[axis]
            parts += joined(self.emit, [piece for piece in pieces if piece.axis == axis], size)
        while len(parts) > 1:
            parts[:2] = [add(self.emit, parts[0], parts[1])]
        for part in parts_of_value:
            if isinstance(part, Scattered):
                whole = parts[0] if parts else zeros_like(self.emit, tensor, part.value)
                parts = [self.emit.op(part.kind, [whole, part.indices, part.value], part.attrs)]
        self._parts[tensor.id] = [*parts]
        return parts[0]

    def _product(self, products: Sequence[MatrixGradient]) -> Value:
        first, second = (
            concat(self.emit, rows, 0)
            for rows in zip(*((product.first, product.second) for product in products), strict=True)
        )
        return matmul(self.emit, first, second, transpose_a=True)

    def take(self, ops: Sequence[Op]) -> None:
        """Take ops back; the last one comes first."""
        self._readers.update(tensor.id for op in ops for tensor in op.inputs if tensor is not None)
        for op in ops:
            ports = active_ports(op, self.active)
            if ports and any(tensor.id in self._parts for tensor in op.outputs):
                try:
                    self._take(op, ports)
                except NotLowered as reason:
                    raise UnsupportedError(f"gradient: {op.kind} {op.name!r}: {reason}") from None
            for tensor in op.inputs:
                if tensor is None:
                    continue
                self._readers[tensor.id] -= 1
                # The rows of the products need no memory from here on.
                if not self._readers[tensor.id] and any(
                    isinstance(one, MatrixGradient) for one in self._parts.get(tensor.id, ())
                ):
                    self.gradient(tensor)

    def _take(self, op: Op, ports: dict[str, list[int]]) -> None:
        self.emit.named(f"{op.name}/{self.label}")
        gradients = [self.gradient(tensor) if has_gradient(tensor) else None for tensor in op.outputs]
        use = GradientUse(self.emit, op, ports)
        if use.schema.has_attribute("data_format"):  # the place of the channels depends on the rank
            use.rank(use.base.inputs[0].name)
        composition = entry(COMPOSED, use.base)
        if composition is not None and self._takes_composed(use, gradients):
            return
        if entry(FLAT, use.base) is None:
            self._take_by_rules(use, ports, gradients)

    def _take_by_rules(self, use: GradientUse, ports: dict[str, list[int]], gradients: list[Value | None]) -> None:
        sides = zip(use.schema.outputs, gradients, strict=False)
        ordered = [None if one is None else use.in_base_order(one, port.name) for port, one in sides]
        for rule in rules_of(use.base, use.wanted):
            by_port = rule.function(self.emit, use, *ordered)
            for port, value in zip(rule.ports, by_port if isinstance(by_port, tuple) else (by_port,), strict=False):
                for index in ports.get(port, ()):
                    part: Any = value[index] if isinstance(value, list) else value
                    if part is not None and not isinstance(part, Piece | MatrixGradient | Scattered):
                        part = use.in_base_order(part, use.schema.input_port(index).name)
                    self.give(use.op.inputs[index], part, repeated=may_repeat(use, index))

    def _takes_composed(self, use: GradientUse, gradients: list[Value | None]) -> bool:
        """Take the ops of a composition back, which are added behind those of the graph, if there is one."""
        composition, ops = entry(COMPOSED, use.base), self.emit.graph._ops
        assert composition is not None
        before = len(ops)
        made: Found = composition(self.emit, use)
        if made is None:
            return False
        added = ops[before:]
        for op in added:
            if active_ports(op, self.active):
                self.active.update(tensor.id for tensor in op.outputs if has_gradient(tensor))
        for result, gradient in zip(made if isinstance(made, tuple) else (made,), gradients, strict=False):
            self.give(result if isinstance(result, LogicalTensor) else None, gradient)
        self.take(added[::-1])
        return True


def active_ports(op: Op, active: Set[int]) -> dict[str, list[int]]:
    """The indices of the inputs of an op whose gradients are computed, by their ports in the base vocabulary."""
    indices: dict[str, list[int]] = {}
    base = base_of(schema_of(op))
    for index, tensor in enumerate(op.inputs):
        if tensor is not None and tensor.id in active:
            indices.setdefault(base.input_port(index).name, []).append(index)
    return indices


def fitted(emit: Emitter, gradient: Value, tensor: LogicalTensor, repeated: bool) -> Value:
    """A gradient in the shape and data type of its tensor: summed over the axes along which the tensor was broadcast.

    Unless ``repeated``, an unknown dim of the tensor is that of the gradient. A gradient of unknown rank is one of a
    result that may be larger.
    """
    if repeated or (shape_of(gradient) is None and tensor.shape is not None):
        return cast(emit, summed_where_open(emit, gradient, tensor), tensor.dtype)
    return cast(emit, summed_to(emit, gradient, tensor.shape), tensor.dtype)
