"""Checks the connections between the ops of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import Violation
from ..inference.violations import Violations
from ..ir.op import LogicalTensor, Op
from ..opset.editions.registry import edition as edition_named
from ..opset.shapes import show


def structure(ops: Sequence[Op]) -> Iterator[Violation]:
    """The violations of the connections between ops: ids, types of shared tensors, producers and cycles."""
    ids: dict[int, Op] = {}
    producers: dict[int, Op] = {}
    tensors: dict[int, LogicalTensor] = {}
    for op in ops:
        noted = Violations(edition_named(op.edition), f"{op.kind} {op.name!r}")
        owner = ids.setdefault(op.id, op)
        if owner is not op:
            noted.add("op_id", "id", op.id, f"an id of its own; it is that of {owner.name!r}")
        for tensor in (tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None):
            known = tensors.setdefault(tensor.id, tensor)
            if (known.dtype, known.shape) != (tensor.dtype, tensor.shape):
                expected = f"{known.dtype} {show(known.shape)}, as an earlier use of this id has it"
                noted.add("tensor_mismatch", f"tensor {tensor.id}", f"{tensor.dtype} {show(tensor.shape)}", expected)
        for tensor in op.outputs:
            owner = producers.setdefault(tensor.id, op)
            if owner is not op:
                noted.add(
                    "two_producers", f"tensor {tensor.id}", "produced again", f"only {owner.name!r} to produce it"
                )
        yield from noted.violations
    yield from _cycles(ops, producers)


def _cycles(ops: Sequence[Op], producers: dict[int, Op]) -> Iterator[Violation]:
    """One violation that names all ops on a cycle, or that depend on one."""
    needs = [{t.id for t in op.inputs if t is not None and t.id in producers} for op in ops]
    readers: dict[int, list[int]] = {}
    for index, tensors in enumerate(needs):
        for number in tensors:
            readers.setdefault(number, []).append(index)
    missing = [len(tensors) for tensors in needs]
    ready = [index for index, count in enumerate(missing) if not count]
    for index in ready:  # the loop appends to this list
        for tensor in ops[index].outputs:
            for reader in readers.pop(tensor.id, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
    waiting = [op for op, count in zip(ops, missing, strict=True) if count]
    if waiting:
        noted = Violations(edition_named(waiting[0].edition), f"{waiting[0].kind} {waiting[0].name!r}")
        names = ", ".join(op.name for op in waiting)
        noted.add("cycle", "inputs", f"a cycle among {names}", "ops that do not wait for their own results")
        yield from noted.violations
