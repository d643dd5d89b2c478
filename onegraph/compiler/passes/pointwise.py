"""Joins elementwise ops that share their tensors, such as those of an optimizer, so that memory is read once.

The library's fusions have one result. An update of Adam has three results and four inputs of one size, so the library
reads and writes memory several times. A step of executor ``pointwise`` is several ops that the kernel ``Pointwise`` of
``csrc/kernels/pointwise`` computes on blocks that stay in the cache.

The same kernel computes SiLU and gates, x * Sigmoid(y). Behind a Convolution of few channels, the library's Sigmoid
takes longer than the Convolution. And it multiplies each channel of an image by a number, as a squeeze-and-excitation
block does: the library reads such a factor again for each place. It computes the gradients of SiLU and of gates, and
that of GELU, for which the library takes three times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import prod

from ...capi.settings import has_avx2
from ...native.library import lib
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..ir.value import Dims
from ..kernels import FLOATS
from ..options import Options
from ..report import nbytes
from .special_values import NORMALIZED

# The kernel's ops, by kind.
OPS = {
    "Add": lib.onegraph_op_add,
    "Subtract": lib.onegraph_op_subtract,
    "Multiply": lib.onegraph_op_multiply,
    "Divide": lib.onegraph_op_divide,
    "SquaredDifference": lib.onegraph_op_squared_difference,
    "Square": lib.onegraph_op_square,
    "Sqrt": lib.onegraph_op_sqrt,
    "Sigmoid": lib.onegraph_op_sigmoid,
    "SigmoidBackward": lib.onegraph_op_sigmoid_backward,
    "TanhBackward": lib.onegraph_op_tanh_backward,
    "TypeCast": lib.onegraph_op_copy,
}
BACKWARD = frozenset(["SigmoidBackward", "TanhBackward"])
EXACT = "gelu_erf"
SLOPE = "GELUBackward"  # the product of a gradient and the slope of GELU
GATES = BACKWARD | {"Sigmoid", "Multiply"}  # 16-bit results between them are not rounded, as in the library's fusions
REGISTERS = 48  # of the kernel
# The library fuses chains of ops with one result as well. It needs several steps for joined ops.
MIN_OPS, MIN_RESULTS, MIN_SOURCES = 3, 2, 3
UPDATED_BYTES = 1 << 18  # of a variable, from which on its update is worth a step
# Elements of a Sigmoid that is worth a step: fewer take less time than a step, and more do not stay in the last cache.
# The library reads and writes memory several times for a GELU by tanh, which has more ops than a gate.
MIN_SIGMOID, MAX_SIGMOID, GATE_OPS = 1 << 15, 1 << 22, 4
MIN_SCALED = 1 << 13  # elements that are multiplied by a factor for each channel
MIN_SLOPES = 1 << 14  # elements of the gradient of a GELU


def join_elementwise(edit: Edit, options: Options) -> None:
    """Join elementwise ops to steps, each behind the last consumer of what it may overwrite.

    A kernel that computes the next value of a large variable saves its second memory.
    """
    groups = _Groups(edit.graph, options.updates)
    if not (joined := groups.found()):
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
    made = {number for step in group for number in step.outputs}
    sources = dict.fromkeys(number for step in group for number in step.inputs if number not in made)
    return group[-1]._replace(
        executor="pointwise",
        inputs=tuple(sources),
        outputs=tuple(results),
        part=None,
        whole=False,
        members=tuple(group),
    )


class _Groups:
    """The groups of ops that can be one step: no path leaves a group and comes back to it.

    Args:
        graph: the graph.
        updates: ids of the next values of variables.
    """

    def __init__(self, graph: Lowered, updates: frozenset[int]) -> None:
        self._graph, self._values, self._updates = graph, graph.values, updates

    def found(self) -> list[list[Step]]:
        """The groups that are worth a step, each in the order of its steps."""
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
            for other in sorted(joinable, key=len, reverse=True):
                own = group_of[step.id]
                whole = own | other
                if own is not other and self._is_convex(whole, before):
                    group_of.update(dict.fromkeys(whole, whole))
        groups = {id(group): group for group in group_of.values()}
        ordered = [[steps[number] for number in sorted(group)] for group in groups.values()]
        return [group for group in ordered if self._is_worthwhile(group)]

    def _makers(self, step: Step) -> set[int]:
        """Ids of the steps that make the inputs of a step."""
        return {maker.id for number in step.inputs if (maker := self._graph.maker(number)) is not None}

    def _takes(self, maker: Step, step: Step) -> bool:
        """Whether a step can be in the group of a maker: they compute in f32, on tensors of one size."""
        if SLOPE in (maker.kind, step.kind):
            return False  # it is worth a step of its own, also in 16 bits
        value, is_gate = self._values[maker.outputs[0]], {maker.kind, step.kind} <= GATES
        return (value.dtype is DataType.f32 or is_gate) and value.shape == self._values[step.outputs[0]].shape

    def _is_eligible(self, step: Step) -> bool:
        if step.kind not in (*OPS, SLOPE) or step.executor not in ("library", "copy") or len(step.outputs) != 1:
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
            if value.shape != result.shape and prod(value.shape) != 1 and not _is_row(value.shape, result.shape):
                return False
        return is_cast or result.dtype is DataType.f32 or step.kind in (*GATES, SLOPE)

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

    def _is_worthwhile(self, group: Sequence[Step]) -> bool:
        size = prod(self._values[group[0].outputs[0]].shape)
        ends = {number for step in group for number in (*step.inputs, *step.outputs)}
        if len(ends) > REGISTERS:
            return False
        if group[0].kind == SLOPE:
            return has_avx2() and size >= MIN_SLOPES
        if len(group) > 1 and any(step.kind in BACKWARD for step in group):
            return has_avx2() and size >= MIN_SIGMOID
        if len(group) > 1 and any(step.kind == "Sigmoid" for step in group):
            return has_avx2() and size >= MIN_SIGMOID and (size <= MAX_SIGMOID or len(group) > GATE_OPS)
        if len(group) == 1 and self._scales_channels(group[0]):
            return MIN_SCALED <= size <= MAX_SIGMOID
        if any(
            self._values[number].dtype is not DataType.f32 and step.kind != "TypeCast"
            for step in group
            for number in step.outputs
        ):
            return False  # the library rounds the result of each op
        made = {number for step in group for number in step.outputs}
        whole = {
            number
            for step in group
            for number in step.inputs
            if number not in made and prod(self._values[number].shape) > 1
        }
        results = self.results(group)
        is_large = len(whole) >= MIN_SOURCES and len(results) >= MIN_RESULTS and len(group) >= MIN_OPS
        sizes = [nbytes(self._values[number]) for number in results]
        updates = self._updates.issuperset(results) and max(sizes, default=0) >= UPDATED_BYTES
        return is_large or updates

    def _scales_channels(self, step: Step) -> bool:
        """Whether a step multiplies each channel of a tensor, which other steps read too, by a computed factor."""
        shape = self._values[step.outputs[0]].shape
        factors = [number for number in step.inputs if _is_row(self._values[number].shape, shape)]
        others = [number for number in step.inputs if self._values[number].shape == shape]
        return (
            step.kind == "Multiply"
            and len(factors) == len(others) == 1
            and self._graph.maker(factors[0]) is not None
            and len(self._graph.consumers(others[0])) > 1
        )


def _is_row(shape: Dims, whole: Dims) -> bool:
    """Whether a tensor has one number for each place of the last axis of another one."""
    return bool(shape) and shape[-1] == whole[-1] > 1 and prod(shape) == shape[-1] < prod(whole)


def _in_order(graph: Lowered) -> list[Step] | None:
    """The steps of a graph in an order in which they can run; None if there is none.

    A joined step runs as soon as its inputs are there and the other consumers of the graph inputs among them have run,
    so that gradients are freed early, and a new value can take the place of the old one.
    """
    steps = graph.steps
    needs = [{maker.id for value in step.inputs if (maker := graph.maker(value)) is not None} for step in steps]
    users: list[list[int]] = [[] for _ in steps]
    for place, need in enumerate(needs):
        for other in need:
            users[other].append(place)
    keys = [float(place) for place in range(len(steps))]
    given = {tensor.id for tensor in graph.graph.inputs.values()}
    for place, step in enumerate(steps):
        if step.members:
            readers = {consumer.id for value in step.inputs if value in given for consumer in graph.consumers(value)}
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


def code_of(step: Step) -> list[int]:
    """The ops of a joined step for the kernel: kind, result and operands of each."""
    register = {number: place for place, number in enumerate((*step.inputs, *step.outputs))}
    return [*_instructions(step, register)]


def _instructions(step: Step, register: dict[int, int]) -> Iterator[int]:
    gates = _gates(step)
    for member in step.members:
        (result,) = member.outputs
        if result in gates:
            continue
        if member.kind == SLOPE:
            src, diff = member.inputs
            slope = len(register)
            yield from (lib.onegraph_op_gelu_slope, slope, register[src], register[src])
            yield from (OPS["Multiply"], register[result], slope, register[diff])
            continue
        code, first, second = OPS[member.kind], member.inputs[0], member.inputs[-1]
        if member.kind == "Multiply" and not gates.keys().isdisjoint(member.inputs):
            first, second = (second, first) if first in gates else (first, second)
            code, second = lib.onegraph_op_gate, gates[second]
        register.setdefault(result, len(register))
        yield from (code, register[result], register[first], register[second])


def _gates(step: Step) -> dict[int, int]:
    """The results of Sigmoids that one product alone reads, one for each product, with the inputs of the Sigmoids."""
    reads = Counter(number for member in step.members for number in member.inputs)
    sources = {member.outputs[0]: member.inputs[0] for member in step.members if member.kind == "Sigmoid"}
    products = [member.inputs for member in step.members if member.kind == "Multiply"]
    alone = [[one for one in inputs if one in sources and reads[one] == 1] for inputs in products]
    return {found[0]: sources[found[0]] for found in alone if found and found[0] not in step.outputs}
