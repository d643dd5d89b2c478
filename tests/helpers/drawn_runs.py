"""What tools make of what they run, with stand-ins for executables and processes: names of :mod:`drawn_by_library`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

import onegraph as og
from onegraph import reference
from onegraph.errors import OneGraphError
from onegraph.opset.editions.registry import EDITIONS, HOST, edition
from onegraph.runtime.bound_run import BoundRun
from onegraph.testing.cases import CASES
from onegraph.tools import bench, bench_sizes, folded_norms, op_examples, ranges, verify
from onegraph.tools.run_op import run_op
from tests.lowering import test_recorded_graphs as recorded

from .drawn_quantization import image
from .drawn_tools import exact_graph, tool
from .recorded import numbers_of

F32 = np.float32


class Executable:
    """Stands for an executable, which computes what the reference has."""

    def __init__(self, graph: og.Graph, drawn: Random) -> None:
        self.graph, self._drawn, self.calls = graph, drawn, 0
        self._info = SimpleNamespace(misses=0, reused=0, partitions=0, reason="of its own")

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The results."""
        self.calls += 1
        if self._drawn.random() < 0.5:
            self._info.misses += 1
            self._info.partitions += 2
            self._info.reused += self._drawn.randrange(2)
        given = {**dict(zip(self.graph.inputs, arrays, strict=False)), **named}
        found = [*reference.run(self.graph, given).values()]
        return tuple(found) if len(found) != 1 else found[0]

    def cache_info(self) -> Any:
        """Numbers of programs."""
        return SimpleNamespace(**vars(self._info))

    def report(self) -> Any:
        """Partitions."""
        kinds = ("oneDNN", "kernel", "oneDNN")
        return SimpleNamespace(partitions=[SimpleNamespace(executor=one, threads=None) for one in kinds])

    def bind(self, **arrays: Any) -> Any:
        """A bound run; refuse if no shape is known."""
        if self._drawn.random() < 0.5:
            raise og.ArgumentError("no shape is known")
        return Bound()


class Bound(BoundRun):
    """Stands for a bound run."""

    def __init__(self) -> None:
        self._places = ["apart"]

    def _lay_upon_inputs(self) -> None:
        self._places.append("upon inputs")

    def _sample(self, enough: int, most: int) -> list[int]:  # type: ignore[override]
        return [len(self._places) * 10] * min(most, 4)


@contextmanager
def compiling(drawn: Random) -> Iterator[list[Any]]:
    """Let graphs compile to stand-ins; yields these with the options."""
    made: list[Any] = []

    def compiled(graph: og.Graph, **options: object) -> Executable:
        made.append((Executable(graph, drawn), options))
        return made[-1][0]  # type: ignore[no-any-return]

    with patch.object(og.Graph, "compile", compiled):
        yield made


@tool
def ranged(drawn: Random) -> str:
    """The ranges of tensors over samples."""
    graph = og.Graph()
    ends = [graph.input(name, "f32", (2, 3)) for name in ("x", "y")[: drawn.choice((1, 2))]]
    inner = graph.multiply(ends[0], ends[-1])
    graph.output("z", graph.relu(inner))

    def array() -> Any:
        numbers = np.array([drawn.choice((-3, 0, 1, 2, 9)) for _ in range(6)], F32).reshape(2, 3)
        numbers[0, 0] = drawn.choice((1, 1, 1, 1, 1, 1, 1, np.nan, np.inf, 1e4))
        return numbers * drawn.choice((1, 1, -1, 0))

    def sample() -> Any:
        arrays = [array() for _ in ends]
        named = dict(zip(graph.inputs, arrays, strict=True))
        fewer = {name: one for name, one in named.items() if name != drawn.choice("xy")}
        return drawn.choice((named, named, named, tuple(arrays), arrays, arrays[0], fewer, [*arrays, arrays[0]]))

    several: Any = [sample() for _ in range(drawn.choice((1, 2, 3)))]
    several = drawn.choice((several,) * 8 + (iter(several), (), 3, several[0]))
    tensors = drawn.choice(([*ends], [inner], [inner, *ends], [ends[-1], graph.ops[-1].outputs[0]]))
    with compiling(drawn) as made:
        found = ranges.ranges(graph, tensors, several, histograms=drawn.random() < 0.6)
    lines = [[number, one.low, one.high, f"{one.square:.4e}", one.count] for number, one in found.items()]
    percents = (50, 90, 99.99, 100)
    lines += [[f"{end:.5g}" for end in one.inner(percent)] for one in found.values() for percent in percents]
    empty = ranges.NumberRange()
    empty.widen(np.zeros(0, F32))
    return f"{lines} {[one.calls for one, _ in made]} {vars(empty)}"


@tool
def folded(drawn: Random) -> object:
    """A graph with norms computed into the weights before them."""
    graph = og.Graph()
    y = graph.input("x", "f32", (1, 4, 4, 4))
    for place in range(drawn.choice((1, 2, 3))):
        with suppress(OneGraphError):
            y = image(graph, drawn, y, f"l{place}")
    if drawn.random() < 0.3:
        norm = [np.full(4, number, F32) for number in (2, 1, 3, 0.75)]
        y = graph.batch_norm_inference(graph.relu(y), *norm, epsilon=0.25, data_format="NXC")
    if drawn.random() < 0.5:
        weights: Any = graph.constant(np.ones((2, 2, 4, 4), F32))
        weights = drawn.choice((weights, graph.relu(weights), graph.input("w", "f32", (2, 2, 4, 4))))
        parts: list[Any] = [np.full(4, number, F32) for number in (2, 1, 3, 0.75)]
        y = graph.convolution(y, weights, weights_format="XIO", pads_end=1)
        y = graph.batch_norm_inference(y, *parts, epsilon=0.25, data_format="NXC")
    graph.output("y", y)
    made = folded_norms.folded_norms(graph)
    return "\n".join([*map(folded_norms.own_name, made.ops), *recorded.lines_of(made)])


@tool
def examples(drawn: Random) -> object:
    """An example of an op in code."""
    words = edition(drawn.choice((*EDITIONS, *EDITIONS, HOST)))
    return op_examples.example(words, drawn.choice([*words.schemas.values()]))


@tool
def ran(drawn: Random) -> object:
    """A graph that runs one op."""
    case = drawn.choice(CASES)
    arrays: Any = [*case.inputs]
    arrays = arrays[0] if len(arrays) == 1 and drawn.random() < 0.5 else drawn.choice((arrays, tuple(arrays)))
    if drawn.random() < 0.2 and not isinstance(arrays, np.ndarray):
        place = drawn.randrange(len(arrays) + 1)
        arrays = [*arrays[:place], None, *arrays[place + 1 :]]
    options = drawn.choice(({}, {}, {"edition": "onednn-3.6"}, {"edition": "legacy-1"}))
    with compiling(drawn) as made, suppress(OneGraphError, NotImplementedError):
        run_op(case.kind, arrays, case.attrs, dtype=case.dtype, outputs=case.outputs, **options)
    return "\n".join([str([*one.graph.inputs]) + "\n".join(recorded.lines_of(one.graph)) for one, _ in made])


@tool
def needed(drawn: Random) -> object:
    """Ops and contents of variables that verify looks at."""
    graph = og.Graph()
    x = graph.input("x", "f32", (2,))
    zeros, rate = graph.variable("zeros", np.zeros(2, F32)), graph.constant(np.full(1, 0.5, F32))
    ones = graph.variable("ones", np.full(2, drawn.choice((0, 1)), F32))
    values = [x, zeros, ones, rate, graph.constant(np.ones(2, F32))]
    for _ in range(drawn.choice((2, 4, 6))):
        make = drawn.choice((graph.add, graph.multiply, graph.divide))
        values.append(make(drawn.choice(values), drawn.choice(values)))
    if drawn.random() < 0.8:
        graph.assign(zeros, drawn.choice([one for one in values[4:] if one.shape == (2,)]))
    if drawn.random() < 0.5:
        graph.assign(ones, drawn.choice([one for one in values[4:] if one.shape == (2,)]))
    graph.output("y", values[-1])
    with np.errstate(all="ignore"):
        found = verify._contents(graph, {"x": np.array([1, drawn.choice((0, 3))], F32)})
    lines = [f"{name} {numbers_of(array)}" for name, array in found.items()]
    return [*lines, verify._ops_of_outputs(graph._as_step())]


@tool
def proofs(drawn: Random) -> object:
    """What verify finds of a graph with variables."""
    graph, given = exact_graph(drawn)
    wrong, told = drawn.choice((0, 0, 1)), list[object]()
    executors = drawn.choice(((), ("oneDNN", "host"), ("reference", "host"), ("host",)))
    parts = [SimpleNamespace(executor=one, names=(), ops=()) for one in executors]

    class Verified(Executable):
        """Stands for an executable with variables."""

        def __init__(self, of: og.Graph, drawn: Random) -> None:
            super().__init__(of, drawn)
            self.variables = dict(of._initial)

        def _run_by_name(self, inputs: Any) -> dict[str, Any]:
            found = dict(reference.run(self.graph._as_step(), {**inputs, **self.variables}))
            self.variables.update((name, found.pop(output)) for name, output in self.graph._next.items())
            return {name: one + one.dtype.type(wrong) for name, one in found.items()}

        def report(self) -> Any:
            return SimpleNamespace(partitions=parts, fpmath_mode="strict")

    def compiled(of: og.Graph, **options: object) -> Verified:
        told.append(sorted(options.items(), key=str))
        return Verified(of, drawn)

    seed = drawn.choice((0, 1, 2**64, -1, 3))
    with patch.object(og.Graph, "compile", compiled), patch.object(verify, "MUTATION_SECONDS", 1e9):
        found = verify.verify(graph, given, seed=seed, policy=drawn.choice(("fusion", "debug")), fallback=False)
    lines = [f"{one.name} {one.agrees} {one.max_error:.1e}" for one in found.outputs]
    missed = [(one.op, one.change, one.output) for one in found.unnoticed]
    first = found.first and found.first.op
    return [lines, missed, first, [*found.results], found.changed, found.provable, found.agrees, found.computed,
            found.proven, told]  # fmt: skip


def ticks(drawn: Random) -> Callable[[], int]:
    """A clock."""
    step = drawn.choice((1, 7, 100))
    return count(1000, step).__next__


@tool
def timed(drawn: Random) -> object:
    """Times of variants."""
    graph, given = exact_graph(drawn)
    variants: Any = [bench.Variant(policy=drawn.choice(("fusion", "debug"))) for _ in range(drawn.choice((0, 1, 2)))]
    asked: list[tuple[int, int]] = []
    steps: list[object] = []

    def sample(run: Callable[[], object], enough: int, most: int) -> list[int]:
        run()
        asked.append((enough, most))
        return [enough % 97 + 1] * min(most, 3)

    runs, is_upon = drawn.choice((1, 10, 25, 10_000, 10_000, 2**31)), drawn.choice((False, True, True, 3))
    options: dict[str, Any] = {"seconds": drawn.choice((0, 1.5, 3.0, 3.0, -1)), "runs": runs, "in_place": is_upon}
    clock = patch.object(bench, "perf_counter_ns", ticks(drawn))
    with compiling(drawn) as made, clock, patch.object(bench, "sample", sample):
        found = bench.bench(graph, given, variants, progress=lambda *step: steps.append(step), **options)
    times = [(f"{one.compile_seconds:.3e}", len(one.samples), f"{one.mean:.3e}", one.threads) for one in found]
    return [times, asked, steps, [(options, model.calls) for model, options in made]]


@tool
def timed_sizes(drawn: Random) -> object:
    """Times of sizes."""
    graph = og.Graph()
    x = graph.input("x", "f32", (None, 2))
    w = graph.input("w", "f32", (None, 2), constant=drawn.random() < 0.3)
    graph.output("y", graph.add(x, graph.relu(x)))
    graph.output("z", graph.relu(w))
    sizes: Any = [{"x:0": drawn.choice((1, 2, 3)), "w:0": 2} for _ in range(drawn.choice((0, 1, 2, 4, 4)))]
    asked: list[tuple[int, int]] = []

    def sample(run: Callable[[], object], enough: int, most: int) -> list[int]:
        asked.append((enough, most))
        return [100, 200, 400]

    options: dict[str, Any] = {
        "seconds": drawn.choice((0, 3.0, 3.0, -1)),
        "runs": drawn.choice((1, 7, 7, 2**31)),
        "seed": 1,
    }
    clock = patch.object(bench_sizes, "perf_counter_ns", ticks(drawn))
    with compiling(drawn) as made, clock, patch.object(bench_sizes, "sample", sample):
        found = bench_sizes.bench_sizes(graph, sizes, drawn.choice((None, bench.Variant("debug"))), **options)
    times = [
        (one.sizes, f"{one.first:.3e}", one.made, one.partitions, one.reason, f"{one.median:.3e}") for one in found
    ]
    return [times, asked, [(options, model.calls, [*model.graph.inputs]) for model, options in made]]


def coded_layer(graph: og.Graph, drawn: Random, x: Any, name: str) -> Any:
    """A product or a convolution, of weights that may be unfit for codes."""
    kind = drawn.choice(("matmul", "matmul", "convolution", "conv_transpose"))
    channels = int(x.shape[-1])
    forms = {"convolution": ("XIO", "OIX"), "conv_transpose": ("XOI", "IOX"), "matmul": ("",)}[kind]
    form = drawn.choice(forms)
    shape = {"XIO": (3, channels, 8), "OIX": (8, channels, 3), "XOI": (3, 8, channels), "IOX": (channels, 8, 3)}
    dims = shape.get(form, (channels, drawn.choice((7, 8, 16))))
    numbers = [drawn.choice((-3, -1, 0, 1, 2)) for _ in range(int(np.prod(dims)))]
    weights: Any = np.array(numbers, F32).reshape(dims)
    if drawn.random() < 0.05:
        weights[(0,) * weights.ndim] = drawn.choice((np.nan, np.inf))
    if kind == "matmul":
        return graph.matmul(x, weights, name=name)
    bias = [np.full(8, drawn.choice((1, 1e9, 0, 1e30)), F32)] if drawn.random() < 0.5 and kind == "convolution" else []
    return getattr(graph, kind)(x, weights, *bias, weights_format=form, name=name)


@tool
def coded(drawn: Random) -> object:
    """A graph that computes with codes."""
    graph = og.Graph()
    x = graph.input("x", drawn.choice(("f32", "f32", "f32", "f32", "bf16")), (1, 5, 8))
    w = graph.variable("w", np.ones(8, F32)) if drawn.random() < 0.15 else None
    y = x if w is None else graph.add(x, w)
    for place in range(drawn.choice((1, 1, 2, 3))):
        with suppress(OneGraphError):
            source, y = y, coded_layer(graph, drawn, y, f"l{place}")
            kind = drawn.random()
            y = graph.relu(y) if kind < 0.3 else graph.add(y, source) if kind < 0.5 and y.shape == source.shape else y
            if kind > 0.8:
                graph.output(f"y{place}", y)
    graph.output("y", drawn.choice((y, graph.relu(y), graph.static_reshape(y, shape=[-1], special_zero=False))))
    numbers = np.array([drawn.choice((-2, -1, 0, 1, 3, 9)) for _ in range(40)]).reshape(1, 5, 8)
    sample = np.maximum(numbers, drawn.choice((-9, -9, -1, 0))).astype(x.dtype.numpy)
    options: dict[str, Any] = {
        "method": drawn.choice(("minmax", "percentile")), "percentile": drawn.choice((50, 90, 100)),
        "exclude": drawn.choice((*[()] * 12, ("l0",), ("l0",), ["l*"], ("y",), "l0", (5,), ("relu*",))),
        "limit": drawn.choice((0.1, 1.0, 0, 1e-3)), "portable": drawn.random() < 0.4,
    }  # fmt: skip
    with compiling(drawn):
        made = og.quantize(graph, [sample] * drawn.choice((1, 2)), **options)
    records = [f"{one.name} {one.dtype} {one.scale:.5g} {one.zero_point} {one.error:.3g}" for one in made.quantization]
    return "\n".join([*recorded.lines_of(made), *records, *(one.reason for one in made.quantization)])
