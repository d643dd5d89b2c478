"""The library's search for ops that it can do in one: a graph as partitions, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from ..capi import Partition
from ..errors import LibraryRuntimeError
from .lower import Lowered, Step
from .to_capi import capi_graph

# The search takes time with the square of the number of ops, so that the library gets so many steps at a time.
PIECE = 400
OVERLAP = 50  # steps, more than any of its patterns is long

Found = tuple[Partition | None, list[Step]]


def find_partitions(lowered: Lowered, fpmath_mode: str) -> Iterator[Found]:
    """Partitions of a graph, each with its steps; none for a step that the library refuses.

    Raises:
        LibraryRuntimeError: the library fails at an op by itself.
    """
    count = len(lowered.steps)
    last_read = {number: step.id for step in lowered.steps for number in step.inputs}
    waiting: list[Step] = []
    at = 0
    while waiting or at < count:
        piece = [*waiting, *lowered.steps[at : at + PIECE - len(waiting)]]
        at += len(piece) - len(waiting)
        # What would reach into the last steps of a piece may be cut short there, and is searched with what comes after.
        firm = count if at == count else piece[-OVERLAP].id
        done: set[int] = set()
        for partition, steps in _search_piece(lowered, fpmath_mode, piece, last_read):
            if steps[-1].id >= firm and done:
                break
            done.update(step.id for step in steps)
            yield partition, steps
        waiting = [step for step in piece if step.id not in done]


def _search_piece(
    lowered: Lowered, fpmath_mode: str, piece: Sequence[Step], last_read: Mapping[int, int]
) -> Iterator[Found]:
    last = piece[-1].id
    needed = [number for step in piece for number in step.outputs if last_read.get(number, -1) > last]
    graph, refused = capi_graph(lowered, fpmath_mode, piece, needed)
    try:
        partitions = graph.partitions("fusion")
    except LibraryRuntimeError:
        if len(piece) == 1:
            raise
        # The search throws on some graphs that have much in common with one of its patterns.
        half = len(piece) // 2
        yield from _search_piece(lowered, fpmath_mode, piece[:half], last_read)
        yield from _search_piece(lowered, fpmath_mode, piece[half:], last_read)
        return
    for partition, numbers in _in_order(partitions, piece):
        if numbers[0] < len(lowered.steps):  # the others are marks in the library's graph
            yield None if numbers[0] in refused else partition, [lowered.steps[number] for number in numbers]


def _in_order(partitions: Sequence[Partition], steps: Sequence[Step]) -> list[tuple[Partition, list[int]]]:
    """The partitions in an order in which they can run, with the ids of their ops, in such an order too.

    The steps of the graph stand in such an order already; among the partitions that are ready, the one with the lowest
    id goes first.
    """
    ops = [sorted(partition.ops) for partition in partitions]
    pairs = sorted(zip(partitions, ops, strict=True), key=lambda pair: pair[1])
    if all(numbers[-1] < others[0] for (_, numbers), (_, others) in pairwise(pairs)):
        return pairs
    owner = {number: index for index, numbers in enumerate(ops) for number in numbers}
    producer = {number: owner[step.id] for step in steps for number in step.outputs}
    needs: list[set[int]] = [set() for _ in ops]
    users: list[set[int]] = [set() for _ in ops]
    for step in steps:
        index = owner[step.id]
        found = {producer[number] for number in step.inputs if number in producer} - {index}
        needs[index] |= found
        for other in found:
            users[other].add(index)
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
