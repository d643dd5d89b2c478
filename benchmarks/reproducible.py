"""The cost of ``reproducible=True``: the models of ``inference``, compiled with it and without."""

from __future__ import annotations

from collections.abc import Iterator

import onegraph as og

from .inference import BATCHES, graph_of, models, random
from .timing import QUICK, Effort, Row, alternate, calls


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=9, turn=0.2)
    for model in models(quick):
        for batch in (2,) if quick else BATCHES:
            for kind in model.kinds:
                array = random(model.shape(batch), og.f32 if kind == "int8" else og.DataType(kind))
                graph = graph_of(model, kind, array)
                usual, same = graph.compile(), graph.compile(reproducible=True)
                runs = {"reproducible": same.bind(x=array).run, "usual": usual.bind(x=array).run}
                seconds, speed, load = alternate({name: calls(run) for name, run in runs.items()}, effort)
                changed = [report for report in same.report().partitions if "adds in another order" in report.reason]
                numbers = {"partitions with other threads": float(len(changed))}
                yield Row(f"{model.name}, {kind}, batch {batch}", seconds, speed, numbers, "", load)
