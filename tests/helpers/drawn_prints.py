"""What commands print of drawn results, with stand-ins for what finds them: see :mod:`drawn_by_library`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

import onegraph as og
from onegraph.cli import bench, bench_sizes, show, terminal, verify
from onegraph.judging.judgement import Finding, Judgement
from onegraph.testing.random_graph import random_graph
from onegraph.testing.tolerance import Comparison
from onegraph.tools import machine
from onegraph.tools.bench import Measurement, Variant
from onegraph.tools.bench_sizes import SizeMeasurement
from onegraph.tools.changed_ops import Unnoticed
from onegraph.tools.first_difference import Difference
from onegraph.tools.verify import Verification

from .drawn_reports import SETS, chain, reports

PRINTS: dict[str, Callable[[Random], object]] = {}
NUMBERS = (0.0, 1.0, 2.5e-7, 0.125, 12345.678, float("inf"), float("nan"))


def prints(make: Callable[[Random], object]) -> Callable[[Random], object]:
    """Enter a function that prints and may return a status."""
    PRINTS[make.__name__] = make
    return make


# Records that commands print ------------------------------------------------------------------------------------------


def comparison(drawn: Random) -> Comparison:
    shape = drawn.choice(((), (2, 3), (0,), (7,)))
    size, agrees = int(np.prod(shape)), drawn.random() < 0.6
    wrong = 0 if agrees else drawn.choice((0, 1, size))
    numbers = [drawn.choice(NUMBERS) for _ in range(5)]
    where = tuple(0 for _ in shape)
    compared = drawn.choice((0, 1, size // 2, (size + 1) // 2, size))
    return Comparison(drawn.choice("yz"), "f32", shape, agrees, *numbers[:3], where, *numbers[3:], wrong, compared)


def report_of(drawn: Random, graph: og.Graph) -> Any:
    parts = tuple(reports(drawn, graph))
    return SimpleNamespace(partitions=parts, to_dict=lambda: {"partitions": len(parts)}, fpmath_mode="strict")


def verification(drawn: Random) -> Verification:
    graph = chain(drawn.choice([*SETS]), drawn)
    kinds = [op.kind for op in graph.ops] * drawn.choice((0, 0, 1, 12))
    ways = ("", "src larger by 10 %")
    missed = [
        Unnoticed(kind, drawn.choice(ways), drawn.choice(NUMBERS), 0.5, drawn.choice(("", "y")))
        for kind in kinds[: drawn.choice((1, 12, 13, 20))]
    ]
    together = drawn.choice(((), ("MatMul 'a'",), ("MatMul 'a'", "ReLU 'b'")))
    executor, alone = drawn.choice(("", "oneDNN")), drawn.choice((None, True, False))
    first = Difference("MatMul 'a'", comparison(drawn), together, executor, alone)
    changed = drawn.choice((1, 3))
    return Verification(
        tuple(comparison(drawn) for _ in range(drawn.choice((0, 1, 2)))),
        drawn.choice((None, None, first)), {}, report_of(drawn, graph), tuple(missed), changed,
        drawn.choice((changed, 5)),
    )  # fmt: skip


def judgement(drawn: Random) -> Judgement:
    found = [
        Finding(
            drawn.choice("yz"), drawn.choice(("n 2", "n 3", "again")), drawn.choice(("NaN", "given", "zeros")),
            drawn.choice(("numbers", "shape")), "1", "2", drawn.choice(((), (1, 0))), drawn.choice((2.0, float("inf"))),
            drawn.choice((1, 2)),
        )
        for _ in range(drawn.choice((0, 0, 1, 3, 40)))
    ]  # fmt: skip
    contents = tuple(drawn.sample(("given", "NaN"), drawn.randrange(3)))
    return Judgement("ONNX Runtime", tuple(found), drawn.choice((0, 1, 9)), contents, drawn.choice(((), ("a note",))))


@prints
def verified(drawn: Random) -> object:
    """The results of verify."""
    judged = drawn.choice((None, judgement(drawn)))
    found = verification(drawn) if judged is None or drawn.random() < 0.5 else None
    return verify._end(judged, found, drawn.random() < 0.3)


def measurement(drawn: Random) -> Measurement:
    modes = (drawn.choice(("fusion", "debug")), drawn.choice((None, "bf16")), drawn.choice((None, 1, 2)))
    flags = [drawn.random() < 0.5 for _ in range(3)]
    samples = [drawn.choice((1e-6, 2e-6, 1e-5, 3e-3, 5e-7)) for _ in range(drawn.choice((1, 2, 5, 1200)))]
    parts = [SimpleNamespace(threads=drawn.choice((None, 0, 1, 3))) for _ in range(drawn.choice((0, 1, 3)))]
    report = SimpleNamespace(partitions=parts, fpmath_mode="strict", to_dict=lambda: {"parts": len(parts)})
    model: Any = SimpleNamespace(report=lambda: report)
    return Measurement(Variant(*modes, *flags), model, samples, drawn.choice((0.5, 2e-3)))


class Profile:
    """Stands for the times of partitions."""

    def to_dict(self) -> dict[str, int]:
        """Some times."""
        return {"times": 1}

    def __str__(self) -> str:
        return "times"


@prints
def benched(drawn: Random) -> object:
    """The times of variants."""
    several = [measurement(drawn) for _ in range(drawn.choice((1, 2, 3)))]
    profiles: Any = [Profile() for _ in several]
    load = {"all": drawn.choice((0.0, 24.9, 25.0, 90.0, 250.0)), "cc": 20.0}
    with patch.object(machine, "processors", lambda: 3), patch("onegraph.tools.bench.get_num_threads", lambda: 4):
        print([(one.threads, one.min, f"{one.mean:.3e}", one.median) for one in several])
        if drawn.random() < 0.2:
            terminal.emit([bench._facts(one, profile, load) for one, profile in zip(several, profiles, strict=True)])
        else:
            bench._show(several, profiles, load)
    names = ("fusion", "debug")[: drawn.choice((1, 2))]
    modes, threads = drawn.choice((None, ("bf16",))), drawn.choice((None, (1, 2)))
    made = bench._variants(names, modes, threads, ("no", "yes"), ("no",), True)
    array = np.zeros(2, drawn.choice(("int8", "uint8", "bool", "int32", "int64", "float32", "float16")))
    bench._fill(array, drawn.choice((3, 128, 300, -1)))
    return [*map(str, made), made[-1].fallback, array.tolist()]


@prints
def sized(drawn: Random) -> object:
    """The times of several sizes."""
    names = drawn.sample(["n", "m"], drawn.choice((1, 2))) + drawn.choice(([], [], [], ["n"]))
    given = [(name, drawn.sample(range(1, 5), drawn.choice((1, 2)))) for name in names]
    refused = {"--inputs": drawn.choice((None, None, None, "x.npz")), "--fill": drawn.random() < 0.1}
    variants = [Variant()] * drawn.choice((1, 1, 1, 2))

    def times(_graph: object, combinations: Any, _variant: object, **options: object) -> list[SizeMeasurement]:
        return [
            SizeMeasurement(one, 2e-3, [1e-6, 3e-6, 4e-6], drawn.choice(("compiled", "found")), 2, "why")
            for one in combinations
        ]

    word = drawn.choice(("n=1,2", "n=", "=3", "n=1, 2", "a=b=3", "n=x", "n=1,"))
    with patch("onegraph.tools.bench_sizes.bench_sizes", times):
        bench_sizes.show_sizes(og.Graph(), given, variants, refused, drawn.random() < 0.3)
    return bench_sizes.DimSizes().convert(word, None, None)


@prints
def shown(drawn: Random) -> object:
    """The ops of a graph, with their partitions."""
    graph = chain(drawn.choice([*SETS]), drawn) if drawn.random() < 0.7 else random_graph(drawn.randrange(99), n_ops=3)
    if drawn.random() < 0.4:
        x = graph.input("relu_0", "f32", (1, 4, 4, 1), strides=(99, 4, 1, 1), constant=drawn.random() < 0.5)
        y = graph.add(x, graph.constant(np.ones(1, np.float32), name="c"))
        graph.output("out", graph.clamp(y, min=drawn.choice((0.0, 1.25)), max=drawn.choice((2.0, float("inf")))))
    parts = [*reports(drawn, graph)] if all(None not in (end.shape or ()) for end in graph.inputs.values()) else []
    owners = {name: one for one in reversed(parts) for name in one.names}
    if drawn.random() < 0.3:
        return terminal.emit(show._facts(graph, owners))
    titles = ("#>", *(["partition>"] if parts else []), "op", "name", "from", "result=", "attributes")
    rows = [*show._rows(graph, owners, bool(parts))]
    ends = [show._tensor(name, end, name in graph.constant_inputs) for name, end in graph.inputs.items()]
    terminal.print_rich(terminal.table(titles, rows), str(ends), str([end.name for end in show._constants(graph)]))
    return [cell.style for row in rows for cell in row if not isinstance(cell, str)]
