"""Joins elementwise ops that share their tensors, such as those of an optimizer, so that memory is read once.

A step of executor ``pointwise`` is several ops that one kernel computes; ``kernels/pointwise`` says when that pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import prod

from ..._util.open_sizes import present
from ...opset.dtypes import DataType
from ...opset.kinds import PRODUCTS
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..ir.value import Dims
from ..kernels.kernel import FLOATS
from ..kernels.norm_relu import NORMALIZED
from ..kernels.pointwise import (
    BACKWARD,
    GATES,
    OPS,
    POINTWISE,
    SLOPE,
    UPDATED_BYTES,
    PointwiseGroup,
    is_special,
    why_not,
)
from ..options import Options
from ..report import nbytes

EXACT = "gelu_erf"


def join_elementwise(edit: Edit, options: Options) -> None:
    """Join elementwise ops to steps, each behind the last consumer of what it may overwrite.

    A kernel that computes the next value of a large variable saves its second memory.
    """
    groups = _Groups(edit.graph, options.updates, options.opens)
    joined = list[Sequence[Step]]()
    for candidate in groups.found():
        described = groups.described(candidate)
        if not (reason := why_not(described)):
            joined.append(candidate)
        elif is_special(described):
            edit.refuse(candidate[-1], POINTWISE.name, reason)
    if not joined:
        return
    member_of = {step.id: group for group in joined for step in group}
    steps: list[Step] = []
    for step in edit.graph.steps:
        group = member_of.get(step.id)
        if group is None:
            steps.append(step)
        elif group[-1] is step:
            steps.append(_merged(group, groups.results(group)))
    edit.reorder(steps)
    ordered = _in_order(edit.done())
    if ordered is None:
        edit.reset()
    else:
        edit.reorder(ordered)


def _merged(group: Sequence[Step], results: Sequence[int]) -> Step:
    """One step for several, which reads each input once."""
    produced = {number for step in group for number in step.outputs}
    sources = dict.fromkeys(number for step in group for number in step.inputs if number not in produced)
    return group[-1]._replace(
        executor=POINTWISE.executor,
        inputs=tuple(sources),
        outputs=tuple(results),
        part=None,
        whole=False,
        members=tuple(group),
        refused=(),
    )


class _Groups:
    """The groups of ops that can be one step: no path leaves a group and comes back to it.

    Args:
        graph: the graph.
        updates: ids of the next values of variables.
        opens: whether the steps are for any of several sizes.
    """

    def __init__(self, graph: Lowered, updates: frozenset[int], opens: bool) -> None:
        self._graph, self._values, self._updates, self._opens = graph, graph.values, updates, opens

    def found(self) -> list[list[Step]]:
        """All groups, each in the order of its steps."""
        before: list[int] = []  # for each step, the steps that it depends on, as bits
        group_of: dict[int, set[int]] = {}
        steps = self._graph.steps
        for step in steps:
            makers = self._makers(step)
            mask = 0
            for maker in makers:
                mask |= before[maker] | 1 << maker
            before.append(mask)
            if not self._is_eligible(step):
                continue
            joinable = [group_of[maker] for maker in makers if maker in group_of and self._takes(steps[maker], step)]
            group_of[step.id] = {step.id}
            for second in sorted(joinable, key=len, reverse=True):
                own = group_of[step.id]
                union = own | second
                if own is not second and self._is_convex(union, before):
                    group_of.update(dict.fromkeys(union, union))
        groups = {id(group): group for group in group_of.values()}
        return [[steps[number] for number in sorted(group)] for group in groups.values()]

    def _makers(self, step: Step) -> set[int]:
        """Ids of the steps that make the inputs of a step."""
        return {maker.id for number in step.inputs if (maker := self._graph.maker(number)) is not None}

    def _takes(self, maker: Step, step: Step) -> bool:
        """Whether a step can be in the group of a maker: they compute in f32, on tensors of one size."""
        if SLOPE in (maker.kind, step.kind):
            return False  # it is worth a step of its own, also in 16 bits
        value, is_gate = self._values[maker.outputs[0]], GATES.issuperset((maker.kind, step.kind))
        return (value.dtype is DataType.f32 or is_gate) and value.shape == self._values[step.outputs[0]].shape

    def _is_eligible(self, step: Step) -> bool:
        if step.kind not in (*OPS, SLOPE) or step.executor not in ("library", "copy"):
            return False
        if NORMALIZED in step.attrs or (step.kind == SLOPE and step.attrs.get("mode", EXACT) != EXACT):
            return False
        if step.kind in BACKWARD and not step.attrs.get("use_dst", True):
            return False
        result = self._values[step.outputs[0]]
        if prod(result.shape) < 2 or not result.dense or result.dtype not in FLOATS:
            return False
        is_cast = step.kind == "TypeCast"
        for number in step.inputs:
            value = self._values[number]
            if value.dtype not in FLOATS or not value.dense or not (is_cast or value.dtype is result.dtype):
                return False
            if value.shape != result.shape and prod(value.shape) != 1 and not self._is_read(value.shape, result.shape):
                return False
        return is_cast or result.dtype is DataType.f32 or step.kind in (*GATES, SLOPE)

    def _is_read(self, shape: Dims, result_shape: Dims) -> bool:
        """Whether the kernel reads an operand that is broadcast: a row, for which it is as fast as the library."""
        return self._opens or _is_row(shape, result_shape)

    def _is_convex(self, group: set[int], before: Sequence[int]) -> bool:
        """Whether no step outside of the group depends on it and is needed by it."""
        mask = sum(1 << number for number in group)
        makers = {maker for number in group for maker in self._makers(self._graph.steps[number])} - group
        return not any(before[maker] & mask for maker in makers)

    def results(self, group: Sequence[Step]) -> list[int]:
        """The results of a group that other steps or the caller read."""
        inside = {step.id for step in group}
        return [
            number
            for step in group
            for number in step.outputs
            if number in self._graph.returned
            or not inside.issuperset([consumer.id for consumer in self._graph.consumers(number)])
        ]

    def described(self, group: Sequence[Step]) -> PointwiseGroup:
        """What decides whether a group is worth a step."""
        results, produced = self.results(group), {number for step in group for number in step.outputs}
        read = {number for step in group for number in step.inputs}
        sizes = [nbytes(self._values[number]) for number in results]
        makers = [maker for number in read - produced if (maker := self._graph.maker(number)) is not None]
        inside = {step.id for step in group}
        readers = [step for number in results for step in self._graph.consumers(number) if step.id not in inside]
        return PointwiseGroup(
            kinds=tuple([step.kind for step in group]),
            size=present(prod(self._values[group[0].outputs[0]].shape)),
            n_tensors=len(read | produced),
            n_sources=sum(prod(self._values[number].shape) > 1 for number in read - produced),
            n_results=len(results),
            is_update=self._updates.issuperset(results) and max(sizes, default=0) >= UPDATED_BYTES,
            scales_channels=len(group) == 1 and self._scales_channels(group[0]),
            rounds=any(
                self._values[number].dtype is not DataType.f32 and step.kind != "TypeCast"
                for step in group
                for number in step.outputs
            ),
            follows_product=any(maker.kind in PRODUCTS and maker.executor == "library" for maker in makers),
            is_between_kernels=bool(results) and _are_kernels([*makers, *readers]),
            is_open=self._opens,
        )

    def _scales_channels(self, step: Step) -> bool:
        """Whether a step multiplies each channel of a tensor, which other steps read too, by a computed factor."""
        shape = self._values[step.outputs[0]].shape
        factors = [number for number in step.inputs if _is_row(self._values[number].shape, shape)]
        full_operands = [number for number in step.inputs if self._values[number].shape == shape]
        return (
            step.kind == "Multiply"
            and len(factors) == len(full_operands) == 1
            and self._graph.maker(factors[0]) is not None
            and len(self._graph.consumers(full_operands[0])) > 1
        )


def _are_kernels(steps: Sequence[Step]) -> bool:
    """Whether the library computes none of these steps, but for elementwise ops."""
    library_steps = [step for step in steps if step.kind not in OPS]
    return bool(library_steps) and all(step.library_part is None for step in library_steps)


def _is_row(shape: Dims, result_shape: Dims) -> bool:
    """Whether a tensor has one number for each place of the last axis of another one."""
    return bool(shape) and shape[-1] == result_shape[-1] > 1 and prod(shape) == shape[-1] < prod(result_shape)


def _in_order(graph: Lowered) -> list[Step] | None:
    """The steps of a graph in an order in which they can run; None if there is none.

    A joined step runs as soon as its inputs are there and the other consumers of the graph inputs among them have run,
    so that gradients are freed early, and a new value can take the place of the old one.
    """
    steps = graph.steps
    needs = [{maker.id for value in step.inputs if (maker := graph.maker(value)) is not None} for step in steps]
    users: list[list[int]] = [[] for _ in steps]
    for place, need in enumerate(needs):
        for producer in need:
            users[producer].append(place)
    keys = [float(place) for place in range(len(steps))]
    graph_inputs = {tensor.id for tensor in graph.graph.inputs.values()}
    for place, step in enumerate(steps):
        if step.members:
            readers = {
                consumer.id for value in step.inputs if value in graph_inputs for consumer in graph.consumers(value)
            }
            keys[place] = max([*needs[place], *readers.difference(_reached(users, place))], default=place) + 0.5
    waits = [len(need) for need in needs]
    ready = [(keys[place], place) for place, count in enumerate(waits) if not count]
    heapify(ready)
    ordered: list[Step] = []
    while ready:
        _, place = heappop(ready)
        ordered.append(steps[place])
        for user in users[place]:
            waits[user] -= 1
            if not waits[user]:
                heappush(ready, (keys[user], user))
    return ordered if len(ordered) == len(steps) else None


def _reached(users: Sequence[Sequence[int]], start: int) -> set[int]:
    """A step and the steps that depend on it."""
    reached, waiting = {start}, [start]
    while waiting:
        new = [user for user in users[waiting.pop()] if user not in reached]
        reached.update(new)
        waiting += new
    return reached
