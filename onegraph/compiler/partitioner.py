"""Lets the library partition a graph, and orders the partitions so that they can run."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from ..capi import Partition
from ..errors import LibraryRuntimeError
from .ir.lowered import Lowered
from .ir.step import Step
from .to_capi import capi_graph

# The search time grows with the square of the number of ops, so the library gets this many steps at a time.
PIECE = 400
OVERLAP = 50  # steps; longer than any fusion pattern of the library

Found = tuple[Partition | None, list[Step]]


def find_partitions(lowered: Lowered, fpmath_mode: str) -> Iterator[Found]:
    """The partitions of a graph with their steps; None as the partition of a step that the library refuses.

    Raises:
        LibraryRuntimeError: the library fails on a single op.
    """
    count = len(lowered.steps)
    last_read = {number: step.id for step in lowered.steps for number in step.inputs}
    waiting: list[Step] = []
    at = 0
    while waiting or at < count:
        piece = [*waiting, *lowered.steps[at : at + PIECE - len(waiting)]]
        at += len(piece) - len(waiting)
        # A fusion in the last steps of a piece may be cut off, so those steps are searched again with the next piece.
        first_postponed = count if at == count else piece[-OVERLAP].id
        done: set[int] = set()
        needed = _read_after(piece, last_read)
        for partition, steps in search(lowered, fpmath_mode, piece, needed):
            if steps[-1].id >= first_postponed and done:
                break
            done.update(step.id for step in steps)
            yield partition, steps
        waiting = [step for step in piece if step.id not in done]


def _read_after(piece: Sequence[Step], last_read: Mapping[int, int]) -> set[int]:
    """The values that steps behind a piece read."""
    last = piece[-1].id
    return {number for step in piece for number in step.outputs if last_read.get(number, -1) > last}


def search(lowered: Lowered, fpmath_mode: str, piece: Sequence[Step], needed: Container[int]) -> Iterator[Found]:
    """The partitions of some steps, as ``find_partitions`` gives them.

    Args:
        lowered: the graph.
        fpmath_mode: name of the library's mode.
        piece: the steps.
        needed: the values that other steps read.

    Raises:
        LibraryRuntimeError: the library fails on a single op.
    """
    needed_outputs = [number for step in piece for number in step.outputs if number in needed]
    graph, refused = capi_graph(lowered, fpmath_mode, piece, needed_outputs)
    try:
        partitions = graph.partitions("fusion")
    except LibraryRuntimeError:
        if len(piece) == 1:
            raise
        # The search throws on some graphs that nearly match one of its patterns.
        half = len(piece) // 2
        read = {number for step in piece[half:] for number in step.inputs}
        boundary = {*needed_outputs, *[number for step in piece[:half] for number in step.outputs if number in read]}
        yield from search(lowered, fpmath_mode, piece[:half], boundary)
        yield from search(lowered, fpmath_mode, piece[half:], boundary)
        return
    for partition, numbers in _in_order(partitions, piece):
        if numbers[0] < len(lowered.steps):  # larger ids are of ops that stand for no step
            yield None if numbers[0] in refused else partition, [lowered.steps[number] for number in numbers]


def _in_order(partitions: Sequence[Partition], steps: Sequence[Step]) -> list[tuple[Partition, list[int]]]:
    """The partitions with the ids of their ops, both in an order in which they can run.

    The ids of the steps follow such an order already. Of the partitions that are ready, the one with the lowest op id
    runs first.
    """
    ops = [sorted(partition.ops) for partition in partitions]
    pairs = sorted(zip(partitions, ops, strict=True), key=lambda pair: pair[1])
    if all(numbers[-1] < following[0] for (_, numbers), (_, following) in pairwise(pairs)):
        return pairs
    owner = {number: index for index, numbers in enumerate(ops) for number in numbers}
    producer = {number: owner[step.id] for step in steps for number in step.outputs}
    needs: list[set[int]] = [set() for _ in ops]
    users: list[set[int]] = [set() for _ in ops]
    for step in steps:
        index = owner[step.id]
        producers = {producer[number] for number in step.inputs if number in producer} - {index}
        needs[index] |= producers
        for producer_index in producers:
            users[producer_index].add(index)
    ready = [(numbers[0], index) for index, numbers in enumerate(ops) if not needs[index]]
    heapify(ready)
    ordered = []
    while ready:
        _, index = heappop(ready)
        ordered.append((partitions[index], ops[index]))
        for user in users[index]:
            needs[user].discard(index)
            if not needs[user]:
                heappush(ready, (ops[user][0], user))
    return ordered
