"""Knows which op makes a tensor of a graph, and which ops read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from ..ir.op import LogicalTensor, Op, make_op
from .adding_ops import OpAdding


class Uses:
    """The producers and consumers of tensors, by id.

    Attributes:
        producers: the op that makes a tensor.
        consumers: the ops that read it, each once, in their order.
        ops: the list of ops that was read, and ``count`` of them.
    """

    def __init__(self, ops: list[Op]) -> None:
        self.ops, self.count = ops, 0
        self.producers: dict[int, Op] = {}
        self.consumers: dict[int, list[Op]] = {}
        self.last: Op | None = None

    def follow(self) -> None:
        """Read the ops that were added since."""
        for op in self.ops[self.count :]:
            for tensor in op.outputs:
                self.producers[tensor.id] = op
            for number in dict.fromkeys(tensor.id for tensor in op.inputs):
                self.consumers.setdefault(number, []).append(op)
            self.count, self.last = self.count + 1, op

    def fits(self, ops: list[Op]) -> bool:
        """Whether the ops that were read are still the first of these."""
        if ops is not self.ops or len(ops) < self.count:
            return False
        return self.count == 0 or ops[self.count - 1] is self.last


_known: WeakKeyDictionary[OpAdding, Uses] = WeakKeyDictionary()


def uses_of(graph: OpAdding) -> Uses:
    """The producers and consumers in a graph as it is now."""
    uses = _known.get(graph)
    if uses is None or not uses.fits(graph._ops):
        uses = _known[graph] = Uses(graph._ops)
    uses.follow()
    return uses


def depended_on(graph: OpAdding, tensors: Iterable[LogicalTensor]) -> set[int]:
    """The ids of the ops that tensors are computed from."""
    producers, ids = uses_of(graph).producers, set[int]()
    waiting = [tensor.id for tensor in tensors]
    while waiting:
        op = producers.get(waiting.pop())
        if op is not None and op.id not in ids:
            ids.add(op.id)
            waiting += [tensor.id for tensor in op.inputs]
    return ids


def in_order(ops: Sequence[Op]) -> list[Op]:
    """The ops, each behind those that make its inputs, else in the order in which they are given."""
    producers = {tensor.id: op for op in ops for tensor in op.outputs}
    done, ordered = set[int](), list[Op]()
    for first in ops:
        waiting = [first]
        while waiting:
            op = waiting[-1]
            needed = [producers[input_.id] for input_ in op.inputs if input_.id in producers]
            missing = [other for other in needed if other.id not in done]
            if missing:
                waiting += missing[::-1]
                continue
            waiting.pop()
            if op.id not in done:
                done.add(op.id)
                ordered.append(op)
    return ordered


def is_same(op: Op, record: Op) -> bool:
    """Whether a record, maybe from before an edit, is that of an op: their results are the same."""
    if op is record:
        return True
    pairs = zip(op.outputs, record.outputs, strict=False)
    return any(a is b for a, b in pairs)


def with_inputs(op: Op, inputs: Sequence[LogicalTensor]) -> Op:
    """The same record with other inputs, which is not checked."""
    return make_op(op.id, op.kind, tuple(inputs), op.outputs, op.attrs, op.name, op.edition, op.signature)
