"""Rewrites every place of a graph that a pattern matches: a function, or a graph with a match and its replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from .._util.exact_types import elements, has_type
from ..errors import ArgumentError, shown
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset.kinds import base_kinds, host_kinds
from ..opset.shapes import compatible, show
from ..opset.traits import Trait
from .editing import Editing
from .transaction import atomic
from .uses import depended_on, uses_of

Bound = Mapping[int, LogicalTensor]  # tensors of a graph by the id of a tensor of the pattern
Pattern = Callable[["Rewriting", Op], Any] | Editing
ENDS = ("match", "replacement")
COMMUTATIVE = base_kinds(Trait.COMMUTATIVE) | host_kinds(Trait.COMMUTATIVE)


class _NoMatchError(Exception):
    """The pattern does not match here; what it has added is taken back."""


class Rewriting(Editing):
    """The call that rewrites a graph."""

    @atomic
    def rewrite(self, pattern: Callable[..., Any] | Editing) -> int:
        """Replace what a pattern finds, and return the number of places.

        A pattern is a function of this graph and one of its ops, which it gets one by one in their order. It returns
        what takes the place of the op's results, as ``replace`` takes it, or None. It may ask ``g.producer`` and
        ``g.consumers``, and adds ops as always; what it has added is taken back when it returns None.

        Or it is a small graph with two outputs of the same data type: ``match``, and ``replacement``, which is computed
        from the inputs, or any other tensors, of ``match``. An input matches each tensor of its data type, dims and
        rank, if these are known; one with ``constant=True`` matches constants only. A constant matches an equal one; a
        constant of one number matches that number in any shape. Ops match those of the same kind, attributes and data
        types. Add, Multiply, Maximum and Minimum match with their inputs in either order.

        Every op is looked at once, and ops that a replacement adds are not, so that the rewriting ends. Ops and
        constants that nothing reads then leave the graph; others may read the ops inside a match, which stay for them.

        Args:
            pattern: the function or the graph.

        Raises:
            ArgumentError: the pattern is neither, or the replacement has another data type or shape than the match.
                After any error, also one that the function raises, the graph is as it was.
            SpecError: an op cannot have the inputs that the replacement gives it.
        """
        if has_type(pattern, Editing):
            replacement: Callable[[Any, Op], Any] = _GraphPattern(cast("Rewriting", pattern)).replacement
        elif callable(pattern):
            replacement = pattern
        else:
            expected = "a function of the graph and an op, or a Graph with the outputs 'match' and 'replacement'"
            raise ArgumentError(f"rewrite: {shown(pattern)}; expected {expected}")
        count, ops = 0, self._ops
        known = {op.id: op for op in ops}
        for number in [*known]:
            if ops is not self._ops:  # a replacement may have removed or changed the op
                ops = self._ops
                known = {op.id: op for op in ops}
            op = known.get(number)
            if op is not None:
                count += self._rewritten(op, replacement)
        return count

    def _rewritten(self, op: Op, replacement: Callable[[Any, Op], Any]) -> bool:
        try:
            self._try(op, replacement)
        except _NoMatchError:
            return False
        return True

    @atomic
    def _try(self, op: Op, replacement: Callable[[Any, Op], Any]) -> None:
        replaced = replacement(self, op)
        if replaced is None:
            raise _NoMatchError
        tensors = elements(replaced)
        tensors = [replaced] if tensors is None else tensors
        pairs = zip(tensors, op.outputs, strict=False)
        if all(new is None or new is old for new, old in pairs) and len(tensors) == len(op.outputs):
            raise _NoMatchError
        for new, old in zip(tensors, op.outputs, strict=False):
            if has_type(new, LogicalTensor) and (new.dtype is not old.dtype or not compatible(new.shape, old.shape)):
                actual, expected = f"{new.dtype} {show(new.shape)}", f"{old.dtype} {show(old.shape)}"
                subject = f"rewrite: the replacement of {op.kind} {op.name!r}"
                raise ArgumentError(f"{subject} is {actual}; expected {expected}, as its result is")
        self.replace(op, tensors)


class _GraphPattern:
    """A pattern that a graph describes."""

    def __init__(self, graph: Rewriting) -> None:
        missing = [name for name in ENDS if name not in graph.outputs]
        if missing or len(graph.outputs) != len(ENDS) or graph.variables:
            names = ", ".join(graph.outputs) or "none"
            raise ArgumentError(f"rewrite: a pattern with the outputs {names}; expected 'match' and 'replacement'")
        self.graph, self.uses = graph, uses_of(graph)
        self.match, self.result = (graph._by_id[graph.outputs[name].id] for name in ENDS)
        self.inputs = {tensor.id: name for name, tensor in graph.inputs.items()}
        last = self.uses.producers.get(self.match.id)
        if last is None:
            raise ArgumentError("rewrite: the output 'match' of the pattern is not the result of an op")
        self.last = last
        matched = depended_on(graph, [self.match])
        read = {tensor.id for op in graph.ops if op.id in matched for tensor in op.inputs}
        needed = depended_on(graph, [self.result]) - matched
        self.added = [op for op in graph.ops if op.id in needed]
        wanted = {tensor.id for op in self.added for tensor in op.inputs} | {self.result.id}
        unbound = [name for number, name in self.inputs.items() if number in wanted - read]
        if unbound:
            raise ArgumentError(f"rewrite: the replacement reads {unbound[0]!r}, which the match does not read")

    def replacement(self, graph: Rewriting, op: Op) -> LogicalTensor | None:
        """What takes the place of the result of an op; None if the pattern does not match there."""
        if len(op.outputs) != 1:
            return None
        bound = next(self._op(uses_of(graph).producers, self.last, op, {}), None)
        return None if bound is None else self._made(graph, dict(bound))

    def _made(self, graph: Rewriting, bound: dict[int, LogicalTensor]) -> LogicalTensor:
        """Add the ops of the replacement."""

        def tensor(own: LogicalTensor) -> LogicalTensor:
            if own.id not in bound:
                assert own.value is not None
                bound[own.id] = graph.constant(own.value, name=own.name, dtype=own.dtype)
            return bound[own.id]

        for op in self.added:
            inputs = [tensor(input_) for input_ in op.inputs]
            names = [port.name for port in schema_of(op).outputs[: len(op.outputs)]]
            dtype = op.outputs[0].dtype
            made = graph.op(op.kind, inputs, dict(op.attrs), dtype=dtype, outputs=names, edition=op.edition)
            several = elements(made)
            results = [made] if several is None else several
            bound.update(zip([output.id for output in op.outputs], results, strict=True))
        return tensor(self.result)

    def _op(self, producers: Mapping[int, Op], own: Op, candidate: Op, bound: Bound) -> Iterator[Bound]:
        """The ways in which an op of the pattern matches an op of the graph."""
        ends = zip(own.outputs, candidate.outputs, strict=False)
        if (
            own.kind != candidate.kind
            or any(a.dtype is not b.dtype for a, b in ends)
            or _attrs(own) != _attrs(candidate)
        ):
            return
        if len(own.outputs) > len(candidate.outputs) or len(own.inputs) != len(candidate.inputs):
            return
        bindings = {**bound, **{a.id: b for a, b in zip(own.outputs, candidate.outputs, strict=False)}}
        yield from self._inputs(producers, own.inputs, candidate.inputs, bindings)
        if own.kind in COMMUTATIVE:
            yield from self._inputs(producers, own.inputs, candidate.inputs[::-1], bindings)

    def _inputs(
        self,
        producers: Mapping[int, Op],
        own: Sequence[LogicalTensor],
        candidates: Sequence[LogicalTensor],
        bound: Bound,
    ) -> Iterator[Bound]:
        if not own:
            yield bound
            return
        for bindings in self._tensor(producers, own[0], candidates[0], bound):
            yield from self._inputs(producers, own[1:], candidates[1:], bindings)

    def _tensor(
        self, producers: Mapping[int, Op], own: LogicalTensor, candidate: LogicalTensor, bound: Bound
    ) -> Iterator[Bound]:
        if own.id in bound:
            if bound[own.id].id == candidate.id:
                yield bound
        elif own.id in self.inputs:
            fits = (
                own.dtype is candidate.dtype and compatible(own.shape, candidate.shape) and _is_narrower(candidate, own)
            )
            if fits and (candidate.constant or self.inputs[own.id] not in self.graph.constant_inputs):
                yield {**bound, own.id: candidate}
        elif own.value is not None:
            if _equal(own, own.value, candidate):
                yield {**bound, own.id: candidate}
        else:
            maker, place = self.uses.producers[own.id], producers.get(candidate.id)
            ports = [output.id for output in maker.outputs].index(own.id)
            if place is not None and [output.id for output in place.outputs].index(candidate.id) == ports:
                yield from self._op(producers, maker, place, bound)


def _is_narrower(tensor: LogicalTensor, pattern: LogicalTensor) -> bool:
    """Whether every dim that the pattern states is known."""
    if pattern.shape is None:
        return True
    return tensor.shape is not None and all(
        wanted is None or dim == wanted for dim, wanted in zip(tensor.shape, pattern.shape, strict=True)
    )


def _equal(own: LogicalTensor, a: Array, second: LogicalTensor) -> bool:
    """Whether a constant of a graph has the contents of one of the pattern."""
    b = second.value
    if b is None or own.dtype is not second.dtype:
        return False
    return (a.size == 1 or a.shape == b.shape) and np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _attrs(op: Op) -> dict[str, object]:
    """The attributes with the defaults of those that are not given."""
    defaults = {
        attribute.name: attribute.default for attribute in schema_of(op).attributes if attribute.default is not None
    }
    return {**defaults, **op.attrs}
