"""The models of ``inference``, and attention alone, on the installed oneDNN and on newer ones in child processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import numpy as np

from . import newer_libraries
from .child import Child, Setup, in_turns, ratios
from .inference import BATCHES, Model, agree, attentions, models
from .machine import undisturbed
from .timing import QUICK, Effort, Row

INSTALLED = {"ONEGRAPH_LIBRARY": ""}
# The largest allowed difference of two libraries' results, relative to their norm.
TOLERANCE = {"f32": 1e-3, "bf16": 0.1, "int8": 0.1}


def rows(quick: bool = False) -> Iterator[Row]:
    newer = [] if quick else [newer_libraries.LIBRARIES[version]() for version in newer_libraries.MEASURED]
    effort = QUICK if quick else Effort(rounds=7, turn=0.25)
    for model in models(quick)[: 1 if quick else None]:
        for batch in (2,) if quick else BATCHES:
            for kind in model.kinds:
                yield row(model, kind, batch, [INSTALLED, *newer], effort, quick)
    for model in attentions(quick):
        for kind in ("f32",) if quick else ("f32", "bf16"):
            yield row(model, kind, 1, [INSTALLED, *newer], effort, quick)


def row(model: Model, kind: str, batch: int, environments: list[dict[str, str]], effort: Effort, quick: bool) -> Row:
    """Time the libraries in turns. Each environment loads one; the first is the installed one."""
    case = f"{model.name}, {kind}, batch {batch}"
    with ExitStack() as stack:
        children, about = {}, {}
        for environment in environments:
            child = stack.enter_context(Child(Setup("onegraph", model.name, kind, batch, quick), environment))
            told = child.ready()
            name = f"oneDNN {told['version']}"
            children[name], about[name] = child, told
        first, *others = children
        for name in others:
            agree(np.array(about[name]["result"]), np.array(about[first]["result"]), TOLERANCE[kind], f"{case}, {name}")

        times, load = undisturbed(lambda: in_turns(children, effort))
    seconds, longer = {name: median(taken) for name, taken in times.items()}, ratios(times, first)
    numbers = {f"{name} / {first}": ratio for name, ratio in longer.items()}
    numbers |= {f"partitions, {name}": float(told["partitions"]) for name, told in about.items()}
    return Row(case, seconds, {name: 1 / ratio for name, ratio in longer.items()}, numbers, load=load)
