"""What the tools make of drawn graphs and loads, with stand-ins for what runs them: see :mod:`drawn_by_library`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np

import onegraph as og
from onegraph import reference
from onegraph.errors import OneGraphError, UnsupportedError
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools import bench_sizes, changed_ops, cpp_program, machine
from onegraph.tools.expected_results import ReferenceOracle
from onegraph.tools.first_difference import first_difference
from onegraph.tools.harness import read_harness
from onegraph.tools.reduce import reduce, size
from tests.lowering import test_recorded_graphs as recorded

from .drawn_reports import SETS, chain

TOOLS: dict[str, Callable[[Random], object]] = {}
EXACT = ("Add", "Subtract", "Multiply", "ReLU", "Abs", "StaticTranspose", "StaticReshape", "Round", "Maximum")


def tool(make: Callable[[Random], object]) -> Callable[[Random], object]:
    """Enter what a tool makes."""
    TOOLS[make.__name__] = make
    return make


@tool
def loads(drawn: Random) -> str:
    """What runs on a machine besides a process."""
    count = drawn.choice((1, 4, 6))
    pids = [drawn.choice((1, 2, 3, 5, 8)) * 10 + place for place in range(count)]

    def snapshot(clock: float, before: machine.Snapshot | None) -> machine.Snapshot:
        found = {}
        for pid in pids:
            was = None if before is None else before.processes.get(pid)
            own = (was.seconds if was else 0.0) + drawn.choice((0, 0, 0.25, 0.5, 1))
            parent = was.parent if was else drawn.choice([*pids, 1])
            name = was.name if was else drawn.choice(("cc", "ld", "make", "python"))
            children = drawn.choice((0, 0, 0.5)) + (was.with_children - was.seconds if was else 0)
            if before is None or was or drawn.random() < 0.5:
                found[pid] = machine.Process(name, parent, own, own + children)
        kept = {pid: one for pid, one in found.items() if drawn.random() < 0.85}
        seconds = drawn.choice((0, 0.02, 1, 3)) + (before.seconds if before else 0)
        return machine.Snapshot(clock, seconds, kept)

    first = snapshot(1.0, None)
    second = snapshot(drawn.choice((2.0, 3.0, 4.0)), first)
    root = drawn.choice([*pids, 7])
    found = machine.load(first, second, root)
    shares = drawn.choice(
        (found, {}, {"all": 100.0}, {"all": 100.1, "cc": 7}, {"all": 25.0}, {"all": 124.9}, {"all": 126.0})
    )
    with patch.object(machine, "processors", lambda: 4):
        lacks = [machine.lack_processors(shares, threads) for threads in (2, 3, 4, 5)]
    hidden = drawn.choice(({}, {"all": 30.0}))
    with (
        patch.object(machine, "snapshot", iter([first, second]).__next__),
        patch.object(machine, "load_by_work", lambda: hidden),
        patch.object(machine.os, "getpid", lambda: root),
    ):
        watched = machine.LoadWatch().load()
    whole = f"{found} {sorted(machine.tree(second.processes, root))} {machine.described(shares)} {lacks}"
    return f"{whole} {watched}"


@tool
def clocks(drawn: Random) -> str:
    """The processes of a machine, and what threads with fixed work lose."""
    with TemporaryDirectory() as folder:
        proc = Path(folder, "proc")
        proc.mkdir()
        if drawn.random() < 0.7:
            counters = " ".join(str(drawn.randrange(1, 900)) for _ in range(drawn.choice((8, 10))))
            (proc / "stat").write_text(f"cpu  {counters}\ncpu0 1 2 3\n")
        for name in ("12", "345", "self", "7x"):
            (proc / name).mkdir()
            fields = " ".join(str(drawn.randrange(1, 900)) for _ in range(20))
            if drawn.random() < 0.8:
                (proc / name / "stat").write_text(f"{name} ({drawn.choice(('cc', 'a) b', '(x'))}) S {fields}\n")
        with (
            patch.object(machine, "Path", lambda name: Path(folder, name.lstrip("/"))),
            patch.object(machine.time, "perf_counter", lambda: 5.0),
            patch.object(machine, "TICK", 0.01),
        ):
            found = machine.snapshot()
    moments = iter(np.cumsum([drawn.choice((1, 1, 2, 3, 9)) for _ in range(20)]).tolist())
    with (
        patch.object(machine, "processors", lambda: 1),
        patch.object(machine.time, "perf_counter", moments.__next__),
        patch.object(machine.hashlib, "sha256", lambda piece: SimpleNamespace(digest=lambda: next(moments))),
    ):
        lost = machine.lost_by_work(3)
    with patch.object(machine.os, "sched_getaffinity", lambda pid: {4, 5} if pid == 0 else {4}):
        count = machine.processors()
    with patch.object(machine, "lost_by_work", lambda: drawn.choice((24.9, 25.0, 25.1, 60))):
        hidden = machine.load_by_work()
    lines = [f"{one[:2]} {one[2]:.4f} {one[3]:.4f}" for _, one in sorted(found.processes.items())]
    return f"{found.clock} {found.seconds:.4f} {sorted(found.processes)} {lines} {lost} {hidden} {count}"


class Stand:
    """Stands for an executable that computes what the reference has, except in some ops."""

    def __init__(self, graph: og.Graph, wrong: Mapping[str, float]) -> None:
        self._graph, self._wrong = graph, wrong

    def _run_by_name(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(reference.run(self._graph, inputs))
        spoiled = dict[int, float]()
        for op in self._graph.ops:
            most = max([self._wrong.get(op.name, 0.0), *(spoiled.get(end.id, 0.0) for end in op.inputs)])
            spoiled |= {end.id: most for end in op.outputs if most}
        for name, tensor in self._graph.outputs.items():
            if tensor.id in spoiled:
                found[name] = (found[name].astype(np.float64) + spoiled[tensor.id]).astype(found[name].dtype)
        return found

    def report(self) -> Any:
        """Two ops in each partition, some of which have other names."""
        ops, parts = self._graph.ops, []
        for place in range(0, len(ops), 2):
            pair = ops[place : place + 2]
            names = tuple(op.name if crc32(op.name.encode()) % 4 else "other" for op in pair)
            parts.append(SimpleNamespace(names=names, ops=tuple(op.kind for op in pair), executor=f"e{place}"))
        return SimpleNamespace(partitions=parts)


def told(one: Any) -> str:
    """A comparison in few digits."""
    return f"{one.name} {one.agrees} {one.max_error:.1e} {one.limit:.1e}"


def with_more(drawn: Random, graph: og.Graph) -> None:
    """Add ops that say more of errors: of sums, of an own unit, of several results, of constants."""
    end = drawn.choice([*graph.outputs.values()])
    if end.dtype is not og.f32 or end.shape is None or drawn.random() < 0.3:
        return
    known = graph.constant(np.full(end.shape, drawn.choice((1, 2)), np.float32))
    for place in range(drawn.choice((1, 2))):
        kind = drawn.randrange(5)
        if kind == 0:
            end = graph.softplus(end, beta=drawn.choice((0.5, 2.0, -0.25, 1.0)))
        elif kind == 1:
            end = graph.reduce_sum(end, axes=[1, 2], keep_dims=True)
        elif kind == 2:
            end = graph.layer_norm(end, use_affine=False, keep_stats=True).dst
        else:
            end = graph.add(end, known) if end.shape == known.shape else graph.tanh(end)
        if drawn.random() < 0.8:
            graph.output(f"more{place}", end)
    if drawn.random() < 0.3:
        graph.output("known", known)


def oracle_of(drawn: Random) -> tuple[og.Graph, ReferenceOracle, list[object]]:
    graph = chain(drawn.choice([*SETS]), drawn)
    with_more(drawn, graph)
    steps: list[object] = []
    inputs = random_inputs(graph, drawn.randrange(9))
    mode = drawn.choice(("strict", "strict", "bf16"))
    return graph, ReferenceOracle(graph, inputs, mode, drawn.randrange(9), lambda *step: steps.append(step)), steps


@tool
def differences(drawn: Random) -> str:
    """The first op whose result is not that of the reference."""
    graph, oracle, steps = oracle_of(drawn)
    wrong = {op.name: drawn.choice((0.5, 3.0, 1e-7)) for op in graph.ops if drawn.random() < 0.3}
    alone = drawn.choice((wrong, {}, {name: most for name, most in wrong.items() if drawn.random() < 0.5}, None))

    def debug(part: og.Graph) -> Any:
        if alone is None:
            raise UnsupportedError("no")
        return Stand(part, alone)

    found = first_difference(oracle, lambda part: Stand(part, wrong), debug)  # type: ignore[arg-type, return-value]
    if found is None:
        return f"{steps}"
    return f"{found.op} {told(found.comparison)} {found.partition} {found.executor} {found.alone} {steps}"


@tool
def changes(drawn: Random) -> str:
    """The changes of ops that a comparison would not notice."""
    graph, oracle, steps = oracle_of(drawn)
    expected = oracle.expected({end.id for end in graph.outputs.values()})
    ends = {place: f"{one.exact.shape} {one.rounded}" for place, one in sorted(expected.items())}
    places = [place for place in range(len(graph.ops)) if drawn.random() < 0.5][:4]
    seconds = drawn.choice((1e9, 1e9, -1.0))
    missed, count = changed_ops.unnoticed_changes(oracle, places, expected, seconds)
    lines = [f"{one.op} {one.change} {one.effect:.1e} {one.limit:.1e} {one.output}" for one in missed]
    return "\n".join([*lines, f"{count} {ends} {steps}"])


def exact_graph(drawn: Random) -> tuple[og.Graph, dict[str, Any]]:
    """A graph of whole numbers, and its inputs."""
    graph, shape = og.Graph(), drawn.choice(((2, 3), (1, 4), (0, 2), (2, 2)))
    dtype = drawn.choice(("f32", "f32", "bf16", "f16"))
    values: list[Any] = []
    for place in range(drawn.choice((1, 2))):
        strides = drawn.choice((None, None, (1, shape[0]), (shape[1] + 2, 1)))
        values.append(graph.input(f"x{place}", dtype, shape, strides=strides, constant=drawn.random() < 0.2))
    if dtype == "f32":
        values.append(graph.constant(np.full(shape, drawn.choice((2, -1)), np.float32)))
    for _ in range(drawn.choice((1, 2, 4))):
        kind, first = drawn.choice(EXACT), drawn.choice(values)
        attrs: dict[str, Any] = {"StaticTranspose": {"order": [1, 0]}}.get(kind, {})
        if kind == "StaticReshape":
            attrs = {"shape": [*reversed(first.shape)], "special_zero": drawn.random() < 0.5}
        with suppress(OneGraphError):
            ends = [first, drawn.choice(values)] if kind in ("Add", "Subtract", "Multiply", "Maximum") else [first]
            values.append(graph.op(kind, ends, attrs))
    if dtype == "f32" and drawn.random() < 0.6:
        coded = graph.op("Quantize", values[-1:], {"scales": [0.5], "zps": [1]}, dtype=drawn.choice(("s8", "u8")))
        values.append(graph.op("Dequantize", [coded], {"scales": [0.5], "zps": [1]}))
    for place, one in enumerate(dict.fromkeys(values[-2:])):
        graph.output(f'y{place} "\\', one)
    if drawn.random() < 0.2 and dtype == "f32":
        graph.assign(graph.variable("state", np.ones(shape, np.float32)), drawn.choice([values[-1], values[0]]))
    whole = {name: np.ones(end.shape) * drawn.choice((1, 2, -3)) for name, end in graph.inputs.items()}
    return graph, {name: array.astype(graph.inputs[name].dtype.numpy) for name, array in whole.items()}


@tool
def programs(drawn: Random) -> str:
    """A graph as a program in C++."""
    graph, given = exact_graph(drawn)
    most = drawn.choice((2**18, 2**18, 12, 18, 24))
    made = patch.object(cpp_program, "random_inputs", lambda *_: given)
    with made, patch.object(cpp_program, "MOST_ELEMENTS", most):
        return cpp_program.to_cpp(
            graph, policy=drawn.choice(("fusion", "debug")), fpmath_mode=drawn.choice(("strict", "bf16"))
        )


@tool
def shapes(drawn: Random) -> str:
    """The open dims of a graph, and the shapes of its inputs at some sizes."""
    graph = og.Graph()
    for place in range(drawn.choice((1, 2, 3))):
        shape = [drawn.choice((None, 2)) for _ in range(drawn.choice((0, 1, 2, 3)))]
        graph.input(f"x{place}", "f32", None if drawn.random() < 0.05 else shape)
    if drawn.random() < 0.5:
        names = ("n", "m", "", "")
        graph._dims = {
            name: [drawn.choice(names) for _ in end.shape or ()]
            for name, end in graph.inputs.items()
            if drawn.random() < 0.8
        }
    found = bench_sizes.open_dims(graph)
    sizes = {name: drawn.choice((0, 1, 5, 5, 2**31 - 1)) for name in found}
    if drawn.random() < 0.3:
        sizes |= {drawn.choice(["k", *found, *found]): drawn.choice((-1, 2**31, 7))}
    if sizes and drawn.random() < 0.1:
        sizes.popitem()
    return f"{found} {bench_sizes.shapes_at(graph, sizes)}"


@tool
def smaller(drawn: Random) -> str:
    """The smallest graph that fails, and how many graphs were tried."""
    dtypes = ("f32", drawn.choice(("f16", "f32")))
    graph = random_graph(drawn.randrange(300), n_ops=drawn.choice((2, 3, 5)), dtypes=dtypes)
    op, seed, share = drawn.choice(graph.ops), drawn.randrange(2**16), drawn.choice((0, 20, 50))
    tests: list[str] = []

    def fails(one: og.Graph) -> bool:
        if not tests:
            tests.append("")
            return True
        chance = crc32(f"{seed} {size(one)[:7]} {[op.kind for op in one.ops]}".encode()) % 100
        return any(other.kind == op.kind for other in one.ops) and chance >= share

    def tell(count: int, best: og.Graph) -> None:
        tests.append(f"{count} {size(best)}")

    made = reduce(graph, fails, max_tests=drawn.choice((1, 8, 25)), progress=tell)
    return "\n".join([*tests, *recorded.lines_of(made)])


WORDS = (
    *("--mb=2", "--mb=0,4", "--mb=x", "--mb=", "--dt=bf16", "--dt=f32,f16", "--in-shapes=0:2x3+1:4", "--reset"),
    *("--case=a/g.json", "--case=g.json", "--case=none.json", "--expected-n-partitions=0", "--op-kind=1:Add,1:Mul"),
    *("--batch=other", "--batch=self", "# --mb=3", "\\", "--attr-fpmath=bf16--case=g.json", "x", " ", "--dt=undef"),
    *("--op-attrs=0:a:1x2", "--tensor-property=4:constant", "--skip-impl", "--case=g.json", "--case=g.json"),
)


@tool
def harnesses(drawn: Random) -> str:
    """The cases of a harness file."""
    with TemporaryDirectory() as folder:
        inner = Path(folder, "in")
        inner.mkdir()
        (Path(folder) / "g.json").write_text("{}")
        for name in ("self", "other"):
            lines = [" ".join(drawn.sample(WORDS, drawn.choice((1, 1, 2, 3)))) for _ in range(drawn.choice((2, 4, 7)))]
            kept = [line for line in lines if name == "self" or "--batch" not in line or drawn.random() < 0.2]
            (inner / name).write_text("\n".join(one if drawn.random() < 0.9 else f"{one}\\" for one in kept) + "\n")
        try:
            cases = [[str(one.path), one.options, one.line, one.knobs] for one in read_harness(inner / "self")]
            text = json.dumps(cases)
        except OneGraphError as error:
            text = str(error)
        return text.replace(str(Path(folder).resolve()), "F").replace(folder, "F")
