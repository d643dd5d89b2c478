"""Finds the ops that checkpoints repeat, so that derivatives by their results count the repetitions too."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.op import LogicalTensor, Op

SUFFIX = "/again"  # ends the name of a repeated op, before a number if the name is taken


def repetitions(ops: Sequence[Op]) -> dict[int, list[LogicalTensor]]:
    """The repeated tensors, by the id of the tensor that they repeat.

    A repeated op has the name of the first one with :data:`SUFFIX`, and is the same op of the same, or of repeated,
    inputs. It computes the same numbers, so that a derivative by the first result is the sum of the derivatives by all.
    """
    named = {op.name: op for op in ops}
    first: dict[int, int] = {}  # id of a repeated tensor -> id of the tensor that it repeats

    def root(tensor: LogicalTensor | None) -> int | None:
        return None if tensor is None else first.get(tensor.id, tensor.id)

    repeated_values: dict[int, list[LogicalTensor]] = {}
    for op in ops:
        name, suffix, _ = op.name.rpartition(SUFFIX)
        original = named.get(name) if suffix else None
        if original is None or (op.kind, op.edition, op.attrs) != (original.kind, original.edition, original.attrs):
            continue
        if [*map(root, op.inputs)] != [*map(root, original.inputs)]:
            continue
        for again, tensor in zip(op.outputs, original.outputs, strict=False):
            first[again.id] = first.get(tensor.id, tensor.id)
            repeated_values.setdefault(first[again.id], []).append(again)
    return repeated_values
