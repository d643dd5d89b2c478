"""What each pass does to a graph, for those who want to see it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..builder.graph import DataGraph
from .ir.lowered import Lowered
from .ir.step import Step
from .lower import lower
from .options import Options
from .passes import PASSES, Pass, run_passes
from .runnable import refuse_wildcards


class PassChange(NamedTuple):
    """What one pass did to a graph.

    Attributes:
        name, reason: of the pass.
        runs: whether it runs under the options.
        removed: the steps that it took away, as text.
        added: the steps that it put in their place.
        refused: the steps that a kernel of the package does not take, each with the kernel and the reason.
        n_steps: how many steps the graph has after it.
    """

    name: str
    reason: str
    runs: bool
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    n_steps: int = 0


def pass_changes(graph: DataGraph, options: Options) -> list[PassChange]:
    """What each pass does to a graph, in their order.

    Args:
        graph: a graph with known shapes.
        options: what it would be compiled for.

    Raises:
        ArgumentError: a shape is unknown.
    """
    refuse_wildcards(graph)
    changes: dict[str, PassChange] = {}

    def note(current: Pass, before: Lowered, after: Lowered) -> None:
        removed, added = (Counter(map(_text, steps.steps)) for steps in (before, after))
        gone, new = (removed - added).elements(), (added - removed).elements()
        texts = {text for step in before.steps for text in _refused(step)}
        refused = tuple([text for step in after.steps for text in _refused(step) if text not in texts])
        changes[current.name] = PassChange(
            current.name, current.reason, True, tuple(gone), tuple(new), refused, len(after.steps)
        )

    fallback = not options.reproducible
    run_passes(lower(graph, fallback=fallback, finite_math=options.finite_math), options, watch=note)
    return [changes.get(pass_.name) or PassChange(pass_.name, pass_.reason, False) for pass_ in PASSES]


def _refused(step: Step) -> list[str]:
    return [f"{step.label} {step.op.name!r} not by {text}" for text in step.refused]


def _text(step: Step) -> str:
    by = "" if step.executor == "library" else f" by {step.executor}"
    return f"{step.label} {step.op.name!r}{by}"
