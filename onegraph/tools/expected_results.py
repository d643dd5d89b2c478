"""Computes what a graph should return, and how far rounding errors may move each result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from .._util.records import record
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.editions.registry import base_of
from ..opset.kinds import base_kinds
from ..opset.traits import Trait
from ..reference.run import narrow, run_op
from ..testing.tolerance import INEXACT, ROUNDED_TWICE, Comparison, compare, disturbed, inexact, lowered, summed

Progress = Callable[[str, int, int], None]
ROUNDING = base_kinds(Trait.QUANTIZES) | {"TypeCast"}  # to integers, in every edition
# Ops that round nothing, and whose gradients ask whether a result lies exactly at an end.
PLATEAUS = frozenset({"ReLU", "Clamp"})


@record(frozen=True)
class Expected:
    """The reference of a tensor: exact, and disturbed by rounding errors.

    In ``near`` all earlier tensors are disturbed; in ``noisy`` this tensor is disturbed too. ``wide`` and ``near`` are
    not rounded to the data type of the tensor; they are empty for tensors that are not compared. ``rounded`` says
    whether its integers are results of rounding.
    """

    exact: Array
    noisy: Array
    wide: Array
    near: Array
    rounded: bool


class ReferenceOracle:
    """The reference of one graph without variables for one set of inputs.

    Attributes:
        given: the inputs and constants, by tensor; filled by ``expected``.
    """

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Array], fpmath_mode: str, seed: int, progress: Progress
    ) -> None:
        self.graph, self.inputs, self.seed, self.progress = graph, inputs, seed, progress
        self.fpmath_mode = fpmath_mode
        self.given: dict[int, Array] = {}

    def expected(self, wanted: Collection[int]) -> dict[int, Expected]:
        """The reference of the wanted tensors; other tensors are freed after their last use."""
        rng = np.random.default_rng(self.seed)
        last = {t.id: n for n, op in enumerate(self.graph.ops) for t in op.inputs}
        values: dict[int, Expected] = {}
        for name, tensor in self.graph.inputs.items():
            values[tensor.id] = self._given_reference(self.inputs[name], tensor, rng)
        for known in (*(t for op in self.graph.ops for t in op.inputs), *self.graph.outputs.values()):
            if known.value is not None and known.id not in values:
                values[known.id] = self._given_reference(known.value, known, rng)
        self.given = {number: value.exact for number, value in values.items()}
        for number, op in enumerate(self.graph.ops):
            self.progress("reference", number, len(self.graph.ops))
            self._run(op, values, rng, last, wanted)
            for used in (*op.inputs, *op.outputs):
                if last.get(used.id, number) <= number and used.id not in wanted:
                    values.pop(used.id, None)
        self.progress("reference", len(self.graph.ops), len(self.graph.ops))
        return values

    def _given_reference(self, values: Array, tensor: LogicalTensor, rng: np.random.Generator) -> Expected:
        """The reference of an input or constant, which is exact unless the arithmetic rounds it before use."""
        precision = lowered(tensor.dtype, self.fpmath_mode)
        exact = precision is tensor.dtype
        noisy = values if exact else disturbed(values, precision, rng, rounded=False)
        return Expected(values, noisy, values, values, False)

    def _run(
        self,
        op: Op,
        values: dict[int, Expected],
        rng: np.random.Generator,
        last: Mapping[int, int],
        wanted: Collection[int],
    ) -> None:
        operands = [values[tensor.id] for tensor in op.inputs]
        exact = run_op(op, [value.exact for value in operands], rounded=False)
        same = all(value.noisy is value.exact for value in operands)
        inputs = [value.noisy for value in operands]
        disturbed_run = exact if same else run_op(op, inputs, rounded=False)
        if any(wide.shape != near.shape for wide, near in zip(exact, disturbed_run, strict=True)):
            disturbed_run = exact  # the contents decide the shape, as of NonZero
        unit = _unit(op)
        exact_inputs = [value.exact for value in operands]
        terms = summed(schema_of(op), exact_inputs, exact[0]) if exact else 1
        inherited = any(value.rounded for value in operands)
        for tensor, wide, near in zip(op.outputs, exact, disturbed_run, strict=False):
            rounded = op.kind in ROUNDING or inherited
            precision = lowered(tensor.dtype, self.fpmath_mode)
            near = inexact(near, unit, rng) if unit else near
            if tensor.dtype is not DataType.f32 and base_of(schema_of(op)).kind in ROUNDED_TWICE:
                near = disturbed(near, tensor.dtype, rng, rounded=False)
            right = narrow(wide, tensor.dtype)
            noisy = right if near is wide else narrow(near, tensor.dtype)
            if tensor.id in last and base_of(schema_of(op)).kind not in PLATEAUS:
                noisy = disturbed(noisy, precision, rng, rounded=rounded, terms=terms)
            kept = (wide, near) if tensor.id in wanted else (right, right)
            values[tensor.id] = Expected(right, noisy, *kept, rounded)

    def compare(
        self, graph: Graph, results: Mapping[str, Array], expected: Mapping[int, Expected]
    ) -> tuple[Comparison, ...]:
        """Compare the outputs of ``graph``, which is this graph or its beginning, with the reference."""
        return tuple(
            [
                self.compare_one(name, tensor, results[name], expected[tensor.id])
                for name, tensor in graph.outputs.items()
            ]
        )

    def compare_one(self, name: str, tensor: LogicalTensor, result: Array, wanted: Expected) -> Comparison:
        """Compare one tensor with its reference."""
        precision = lowered(tensor.dtype, self.fpmath_mode)
        return compare(name, result, wanted.wide, wanted.near, precision, rounded=wanted.rounded)


def _unit(op: Op) -> float:
    """The unit of the library's absolute error, which is some millionths of it; 0 for ops without such an error."""
    if base_of(schema_of(op)).kind not in INEXACT:
        return 0.0
    beta = op.attrs.get("beta")  # of SoftPlus
    return max(1.0, 1 / abs(beta)) if isinstance(beta, (int, float)) and beta else 1.0
