"""Leaves out the casts to a data type that the CPU lacks, and back, between ops that are computed in f32.

A fusion of the library keeps f32 between its ops as well, and rounds what it stores.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .constants import read_by
from .lower import Lowered, Step


def without_rounding(lowered: Lowered, policy: str) -> Lowered:
    """The graph without the values of such a type that only casts back to f32 read.

    Args:
        lowered: the graph.
        policy: ``debug`` rounds the result of every op.
    """
    casts = {step.outputs[0]: step.inputs[0] for step in lowered.steps if _is_cast(step)}
    back = {number: source for number, source in casts.items() if source in casts}
    if policy != "fusion" or not back:
        return lowered
    readers = Counter(number for step in lowered.steps for number in read_by(step))
    readers.update(tensor.id for tensor in lowered.graph.outputs.values())
    needless = {source for source, count in Counter(back.values()).items() if readers[source] == count}
    wide = {number: casts[source] for number, source in back.items() if source in needless}
    steps = [
        step for step in lowered.steps if needless.isdisjoint(step.outputs) and wide.keys().isdisjoint(step.outputs)
    ]
    return replace(
        lowered,
        steps=tuple([
            step._replace(id=number, inputs=tuple([wide.get(source, source) for source in step.inputs]))
            for number, step in enumerate(steps)
        ]),
    )  # fmt: skip


def _is_cast(step: Step) -> bool:
    """Whether a step casts for an op that the CPU computes in f32; the casts of users stay."""
    return step.executor == "copy" and not step.whole
