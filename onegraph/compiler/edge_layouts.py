"""Chooses the layouts of the tensors between partitions.

The library chooses the layout of a tensor if every reader honours strides. Ops that honour no strides get dense copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._util.open_sizes import present
from ..errors import UnsupportedError
from ..faults.fusions import wrong_strides
from ..faults.operands import varying
from ..faults.ops.pooling import SLOW_CHANNELS_FIRST
from ..faults.slow_strides import SLOW_ROWS
from ..faults.use import Fused
from ..native.library import VERSION
from .ir.lowered import Lowered
from .ir.part import Part
from .ir.step import Step
from .ir.value import Value, dense_of
from .partition_cache import Pattern, PortLayout
from .schedule import Schedule
from .single_ops import ARITHMETIC, slow_operand
from .slow_layouts import WEIGHTED, channels_last, is_slow_pool, mixed, needs_dense

Copy = tuple[Value, Value, str]  # of a result: the source, the target and the reason


class EdgeLayouts:
    """The layouts of a graph's values.

    Args:
        lowered: the graph.
        schedule: its schedule, which gets the copies into other layouts.
    """

    def __init__(self, lowered: Lowered, schedule: Schedule) -> None:
        self._lowered, self._schedule, self._values = lowered, schedule, schedule.values
        self._slow: dict[Part | None, bool] = {}  # whether a binary op has a slow operand

    def choose(self, pattern: Pattern, steps: Sequence[Step], values: list[Value]) -> tuple[PortLayout, list[Copy]]:
        """The layout of a pattern for the strides of ``values``, and the copies of results to make after the ops.

        In ``values``, dense values replace those whose strides the ops do not honour, and channels-last values those of
        a pool that is slow otherwise. A copy is a source, a target and the reason.

        Raises:
            UnsupportedError: the ops cannot be run on values of these strides.
        """
        layout = pattern.layouts.get(tuple([value.strides for value in values]))
        if layout is not None:  # never with strides that are open
            return layout, []
        count = pattern.n_inputs
        copies = self._honoured(steps, values, count)
        if len(steps) == 1 and is_slow_pool(steps[0], self._schedule.use(steps[0]).call, values):
            copies += self._channels_last(values, count)
        # Convolutions of channels-first data are fastest with channels-last strides, as are the ops between them.
        is_open = any(step.attrs.get("data_format") == "NCX" for step in steps)
        # Weights that lie in an order of their own say nothing about the data.
        weights = {step.inputs[1] for step in steps if step.kind in WEIGHTED}
        is_open = is_open or not all(value.dense for value in values[:count] if value.id not in weights)
        return pattern.layout([tuple(map(present, value.strides)) for value in values], is_open), copies

    def _honoured(self, steps: Sequence[Step], values: list[Value], count: int) -> list[Copy]:
        """Replace values whose strides the ops do not honour by dense ones; returns the copies of results."""
        schedule, copies = self._schedule, list[Copy]()
        returned = self._refused_results(steps, values, count)
        copied = mixed(steps, values[:count]) if not all(value.dense for value in values) else ()
        for index, value in enumerate(values):
            needed = not value.dense and (needs_dense(value, steps) or self._is_shared(value, steps[0]))
            if not (value.id in returned or value.id in copied or needed):
                continue
            if index < count:
                values[index] = self._values[schedule.dense_copy(value)]
                continue
            reason = f"{steps[-1].kind} writes dense tensors only"
            if value.id not in schedule.returned:
                raise UnsupportedError(reason)
            values[index] = schedule.new_value(value, dense_of(value.shape))
            copies.append((values[index], value, reason))
        return copies

    def _refused_results(self, steps: Sequence[Step], values: Sequence[Value], count: int) -> set[int]:
        """The returned values whose strides a fusion does not honour."""
        schedule, strided = self._schedule, frozenset([value.id for value in values if not value.dense])
        if not strided or len(steps) < 2:
            return set()
        uses = [schedule.use(step) for step in steps]
        if not wrong_strides(Fused(uses, strided=strided), VERSION):
            return set()
        returned = {value.id for value in values[count:] if value.id in schedule.returned and not value.dense}
        if reason := wrong_strides(Fused(uses, strided=strided - returned), VERSION):
            raise UnsupportedError(f"{reason}, so that the ops run one by one")
        return returned

    def _channels_last(self, values: list[Value], count: int) -> list[Copy]:
        """Replace the values of a pool by those of channels last, where it is fast; returns the copies of results."""
        schedule, reason, copies = self._schedule, SLOW_CHANNELS_FIRST.told, list[Copy]()
        for index, value in enumerate(values):
            strides = channels_last(value.shape)
            if index < count:
                values[index] = self._values[schedule.copy(value, strides, reason)]
            elif not self.is_free(value):
                values[index] = schedule.new_value(value, strides)
                copies.append((values[index], value, reason))
        return copies

    def has_slow_operand(self, step: Step) -> bool:
        """Whether the library has no fast kernel for the operand of a binary op."""
        is_slow = self._slow.get(step.part)
        if is_slow is None:
            is_slow = self._slow[step.part] = slow_operand(step, self._values) is not None
        return is_slow

    def _is_shared(self, value: Value, step: Step) -> bool:
        """Whether several MatMuls would each copy a value that one of them reads as weights."""
        if step.kind != "MatMul" or step.inputs[1] != value.id or value.constant is not None:
            return False
        products = [
            consumer
            for consumer in self._lowered.consumers(value.id)
            if consumer.kind == "MatMul" and consumer.inputs[1] == value.id
        ]
        return len(products) > 1 and bool(SLOW_ROWS.affects(VERSION) and SLOW_ROWS.when((value.shape, value.strides)))

    def is_free(self, value: Value) -> bool:
        """Whether the library may choose the layout: the value is not returned, and every reader honours strides."""
        if len(value.shape) < 2 or 0 in value.shape:
            return False
        if value.id in self._schedule.returned or value.id in self._schedule.viewed:
            return False
        consumers = self._lowered.consumers(value.id)
        return bool(consumers) and all(
            (step.executor == "exact" and self._keeps_layout(step, value))
            or (
                step.executor in ("library", "guarded", "pool")
                and step.kind != "StaticReshape"
                and not needs_dense(value, [step])
                and not (self.has_slow_operand(step) or (step.kind in ARITHMETIC and self._repeats_batch(step)))
            )
            for step in consumers
        )

    def _keeps_layout(self, step: Step, value: Value) -> bool:
        """Whether an elementwise kernel of the package computes elements in the order in which a value has them."""
        return value.shape == self._values[step.outputs[0]].shape

    def _repeats_batch(self, step: Step) -> bool:
        """Whether the operand of a binary op is broadcast along the first axis alone: fast for dense tensors only."""
        result = self._values[step.outputs[0]].shape
        return any(
            not varies[0] and all(varies[1:]) and result[0] > 1
            for varies in (varying(result, self._values[number].shape) for number in step.inputs)
        )
