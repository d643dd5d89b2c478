"""Computes once, at compilation, what depends on constants alone, and folds normalizations into constant weights.

The library would do neither, or in every run: before its first run 3.2 folds a normalization with a reference kernel,
and newer versions without their cache of constants fold it in each run.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ..capi.settings import has_vnni
from ..faults.use import DEQUANTIZATIONS, MOVES, PRODUCTS
from .lazy_constants import LazyConstants, NotComputedError
from .lowered import Lowered, Step
from .normalized_weights import Normalizations, is_valid
from .report import nbytes

# Dropout draws random numbers, and the others wait for other processes.
KEPT = frozenset(["Dropout", "AllReduceStart", "AllReduceDone"])
# A result of at most this many bytes may be larger than the constants that it is computed from.
SMALL_BYTES = 1 << 20
OVERFLOWS = "in floats, as oneDNN adds products of int8 in 16 bits on a CPU without VNNI, where they overflow"


def fold_constants(lowered: Lowered, policy: str) -> Lowered:
    """The graph without the steps that depend on constants alone and without the normalizations that weights take in.

    The constants are new values, and ``Lowered.keys`` has their keys. ``Lowered.folded`` has the steps that were
    computed.

    Args:
        lowered: the graph.
        policy: normalizations stay ops of their own under ``debug``.
    """
    attempts, kept = list[_Folding](), set[int]()
    while True:
        attempts.append(_Folding(lowered, kept))  # the next attempt finds what this one has computed
        try:
            return attempts[-1].run(policy)
        except NotComputedError as error:
            kept.add(error.step.id)


class _Folding:
    """Decides first which values are constants, and computes only those that a step or the graph needs.

    ``kept``: ids of the steps that stay, whatever they read.
    """

    def __init__(self, lowered: Lowered, kept: Container[int]) -> None:
        self._lowered, self._kept = lowered, kept
        self._constants = LazyConstants(lowered)
        self._folded: list[Step] = []
        self._outputs = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._multiplied, self._apart = _multiplied(lowered.steps)

    def run(self, policy: str) -> Lowered:
        """The graph with its constants; called once.

        Raises:
            NotComputedError: a step cannot be computed.
        """
        lowered, constants = self._lowered, self._constants
        steps = [step for step in lowered.steps if not self._takes(step)]
        if policy == "fusion":
            steps = [*Normalizations(constants, self._outputs).run(steps)]
        if len(steps) == len(lowered.steps):
            return lowered
        numbered = tuple([step._replace(id=number) for number, step in enumerate(steps)])
        constants.settle(self._outputs.union(*[step.reads for step in steps]))
        folded = tuple(self._folded)
        return replace(lowered, values=constants.values, steps=numbered, keys=constants.keys, folded=folded)

    def _takes(self, step: Step) -> bool:
        """Whether the results of a step are constants; they are computed when they are needed."""
        constants = self._constants
        if step.executor == "view" and step.outputs[0] in constants:
            return True  # the lowering or the op itself has computed it
        sources = [number for number in step.inputs if number in constants]
        if not sources or len(sources) < len(step.inputs) or step.id in self._kept:
            return False
        if not KEPT.isdisjoint([step.kind, step.op.kind]) or step.op.attrs.get("draws"):
            return False
        if step.kind in DEQUANTIZATIONS and step.outputs[0] in self._multiplied:
            return False  # a fusion with 8-bit weights begins with their Dequantize
        if step.executor != "view":
            if self._grows(step) or not is_valid(step.op) or not all(number in constants for number in step.reads):
                return False
            self._folded.append(step._replace(note=OVERFLOWS if step.outputs[0] in self._apart else ""))
        constants.add(step)
        return True

    def _grows(self, step: Step) -> bool:
        values = self._constants.values
        sources, results = (sum([nbytes(values[number]) for number in ends]) for ends in (step.inputs, step.outputs))
        return results > max(SMALL_BYTES, sources * 4)


def _multiplied(steps: Sequence[Step]) -> tuple[set[int], set[int]]:
    """The values that a product reads, also behind casts and changes of shape: those of a fusion, and the others.

    Without VNNI, a product of two dequantized tensors is no fusion.
    """
    floats = set[int]()
    for step in () if has_vnni() else steps:
        if step.kind in DEQUANTIZATIONS or (step.kind in MOVES and step.inputs[0] in floats):
            floats.add(step.outputs[0])
    fused, apart = set[int](), set[int]()
    for step in reversed(steps):
        if step.kind in PRODUCTS:
            (apart if floats.issuperset(step.inputs[:2]) else fused).update(step.inputs[:2])
        elif step.kind in MOVES:
            for found in (fused, apart):
                found.update(step.inputs[:1] if step.outputs[0] in found else ())
    return fused, apart
