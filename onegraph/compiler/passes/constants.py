"""Computes once, at compilation, what depends on constants alone, and folds normalizations into constant weights.

The library would do neither, or in every run: before its first run 3.2 folds a normalization with a reference kernel,
and newer versions without their cache of constants fold it in each run.
"""

from __future__ import annotations

from collections.abc import Container

from ...capi.settings import has_vnni
from ...faults.use import DEQUANTIZATIONS, MOVES, PRODUCTS
from ...opset.kinds import PER_RUN
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..options import Options
from ..report import nbytes
from .lazy_constants import LazyConstants, NotComputedError
from .normalized_weights import Normalizations, is_valid

# A result of at most this many bytes may be larger than the constants that it is computed from.
SMALL_BYTES = 1 << 20
OVERFLOWS = "in floats, as oneDNN adds products of int8 in 16 bits on a CPU without VNNI, where they overflow"


def fold_constants(edit: Edit, options: Options) -> None:
    """Take away the steps that depend on constants alone, and the normalizations that weights take in.

    The constants are new values, and ``Lowered.folded`` gets the steps that were computed. Normalizations stay ops of
    their own under the policy ``debug``.
    """
    kept, attempts = set[int](), list[_Folding]()
    while True:
        attempts.append(_Folding(edit, kept))  # the next attempt finds what this one has computed
        try:
            attempts[-1].run(options)
            return
        except NotComputedError as error:
            kept.add(error.step.id)
            edit.reset()


class _Folding:
    """Decides first which values are constants, and computes only those that a step or the graph needs.

    ``kept``: ids of the steps that stay, whatever they read.
    """

    def __init__(self, edit: Edit, kept: Container[int]) -> None:
        self._edit, self._kept, self._constants = edit, kept, LazyConstants(edit)
        self._multiplied, self._apart = _multiplied(edit.graph)

    def run(self, options: Options) -> None:
        """Change the graph; called once.

        Raises:
            NotComputedError: a step cannot be computed.
        """
        taken = set[int]()
        for step in self._edit.graph.steps:
            if self._takes(step):
                taken.add(step.id)
                self._edit.replace(step)
        if options.fuses:
            Normalizations(self._edit, self._constants).fold(taken)
        if self._edit.is_changed:
            self._constants.settle(self._edit.read())

    def _takes(self, step: Step) -> bool:
        """Whether the results of a step are constants; they are computed when they are needed."""
        constants = self._constants
        if step.executor == "view" and step.outputs[0] in constants:
            return True  # the lowering or the op itself has computed it
        sources = [number for number in step.inputs if number in constants]
        if not sources or len(sources) < len(step.inputs) or step.id in self._kept:
            return False
        if not PER_RUN.isdisjoint([step.kind, step.op.kind]) or step.op.attrs.get("draws"):
            return False
        if step.kind in DEQUANTIZATIONS and step.outputs[0] in self._multiplied:
            return False  # a fusion with 8-bit weights begins with their Dequantize
        if step.executor != "view":
            if self._grows(step) or not is_valid(step.op) or not all(number in constants for number in step.reads):
                return False
            split = step.note if step.op.kind in DEQUANTIZATIONS else ""  # which int8 kernels do without
            self._edit.note_computed(step, OVERFLOWS if step.outputs[0] in self._apart else split)
        constants.add(step)
        return True

    def _grows(self, step: Step) -> bool:
        values = self._constants.values
        sources, results = (sum([nbytes(values[number]) for number in ends]) for ends in (step.inputs, step.outputs))
        return results > max(SMALL_BYTES, sources * 4)


def _multiplied(graph: Lowered) -> tuple[set[int], set[int]]:
    """The values that a product reads, also behind casts and changes of shape: those of a fusion, and the others.

    A fusion needs two dequantized tensors and VNNI. The others are those of products that lack VNNI alone.
    """
    floats = set[int]()
    for step in graph.steps:
        if step.kind in DEQUANTIZATIONS or (step.kind in MOVES and step.inputs[0] in floats):
            floats.add(step.outputs[0])
    fused, apart = set[int](), set[int]()
    for step in reversed(graph.steps):
        if step.kind in PRODUCTS:
            if floats.issuperset(step.inputs[:2]):
                (fused if has_vnni() else apart).update(step.inputs[:2])
        elif step.kind in MOVES:
            for products in (fused, apart):
                products.update(step.inputs[:1] if step.outputs[0] in products else ())
    return fused, apart
