"""What whole commands print, with stand-ins for what they run, and values of options: see :mod:`drawn_by_library`."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import click
import numpy as np

import onegraph as og
from onegraph import cli as module
from onegraph.cli import Commands, bench, check, cli, conformance, options, value_types
from onegraph.errors import ArgumentError, FormatError, SpecError, UnsupportedError, Violation
from onegraph.tools.failure_probe import Failure
from tests.lowering import test_recorded_graphs as recorded

from .drawn_prints import judgement, prints, verification


@contextmanager
def in_folder() -> Iterator[None]:
    """Another working directory, which is empty."""
    before = os.getcwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def files() -> str:
    """What stands in the files of the working directory."""
    return "\n".join(f"{one.name}: {one.read_text()}" for one in sorted(Path().iterdir()) if one.suffix != ".npz")


class Prober:
    """Stands for what finds out how a graph fails."""

    def __init__(self, fails: Any, seed: int, **options: object) -> None:
        self._fails, self._seed = fails, seed
        print(seed, options)

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to end."""

    def failure(self, graph: og.Graph) -> object:
        """A failure of graphs with some ops."""
        return self._fails(graph)


@prints
def reduced(drawn: Random) -> object:
    """The command that makes a failing graph smaller."""
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 4))
    y = graph.matmul(graph.relu(x), np.ones((4, 4), np.float32))
    graph.output("y", graph.tanh(y) if drawn.random() < 0.5 else y)
    kind = drawn.choice(("MatMul", "ReLU", "Tanh"))

    def fails(one: og.Graph) -> Failure | None:
        if len(one.ops) == 1 and kind == "MatMul":
            raise ArgumentError("no inputs")
        return Failure("wrong", "it is 2", "") if any(op.kind == kind for op in one.ops) else None

    words = ["reduce", "g.json", "--max-tests", drawn.choice(("1", "20"))]
    words += drawn.choice(([], ["--json"], ["-o", "out.json"]))
    words += drawn.choice(([], [], ["--bare"], ["--command", "x {}"]))
    words += drawn.choice(([], ["--fpmath-mode", "bf16"], ["--policy", "debug"], ["--seed", "3"]))
    with in_folder(), patch("onegraph.tools.failure_probe.Prober", lambda **given: Prober(fails, **given)):
        graph.save("g.json")
        try:
            cli.main(words)
        finally:
            print(files())


class Run(list[Any]):
    """Stands for the results of probes."""

    def __init__(self, drawn: Random) -> None:
        super().__init__(SimpleNamespace(to_dict=lambda: {"probe": 1}) for _ in range(drawn.choice((1, 3))))
        self.findings = [
            SimpleNamespace(
                id=f"f{place}", verdict=drawn.choice(("wrong", "machine", "text")), ops=("Abs", "Add"), correction="c",
                to_dict=lambda: {"finding": 1},
            )
            for place in range(drawn.choice((0, 1, 12, 13)))
        ]  # fmt: skip
        self.results = "results"
        self.coverage = SimpleNamespace(to_dict=lambda: {"all": 1}, lines=lambda names: [f"lines {names}"])


class Found:
    """Stands for a report of random uses, or of patterns."""

    tried = (1, 2)

    def __init__(self, ids: dict[str, str]) -> None:
        self._ids = ids

    def to_dict(self) -> dict[str, object]:
        """The report as plain values."""
        return {"tried": 2}

    def text(self) -> str:
        """The report as text."""
        return "text of the report"

    def ids(self) -> dict[str, str]:
        """The verdicts by id."""
        return self._ids


@prints
def conformed(drawn: Random) -> object:
    """The command that holds the library against the specification."""
    ids = {f"f{place}": drawn.choice(("wrong", "machine", "claims")) for place in range(drawn.choice((0, 1, 12, 13)))}
    tool = "onegraph.tools.conformance"
    ran: list[object] = []

    def told(what: str, value: object) -> Callable[..., object]:
        def tell(*given: object, **named: object) -> object:
            ran.append((what, given[:1] if what in ("fused", "drawn") else len(given)))
            return value

        return tell

    changes = {
        f"{tool}.run": told("run", Run(drawn)), f"{tool}.drawn.run": told("drawn", Found(ids)),
        f"{tool}.fused.run": told("fused", Found(ids)), f"{tool}.markdown.markdown": told("markdown", "# issue"),
        f"{tool}.page.page": told("page", "<p>"), f"{tool}.drawn.filing.file_findings": told("filed", None),
        f"{tool}.drawn.filing.cases_of_run": told("of run", []),
        f"{tool}.drawn.filing.cases_of_report": told("of report", []),
        f"{tool}.table": told("table", "a table"), "onegraph.capi.default_engine": told("engine", None),
        f"{tool}.drawn.libraries.library_at": told("library", None),
        f"{tool}.own_edition": told("edition", ("onednn-3.2", drawn.choice(("", "a note")))),
        f"{tool}.known.known_findings": told("known", ({"f0": "wrong"}, drawn.choice(((3, 2, 0), (3, 0, 0))))),
        "onegraph.capi.version_info": lambda: {"version": "3.2.0", "cpu_isa": "AVX2"},
        "onegraph.native.library.VERSION": (3, 2, 0),
    }  # fmt: skip
    words = ["conformance", *drawn.choice(([], ["Abs"]))]
    words += drawn.choice(([], [], ["--cases", "2"], ["--patterns"], ["--patterns"], ["--cases", "2", "--seed", "3"]))
    further = (
        *(["--json"], ["--json"], ["--html", "a.html"], ["--folder", "d"], ["--markdown", "-"], ["--markdown", "b.md"]),
        *(["--write-baseline", "c.json"], ["--baseline", "old.json"], ["--baseline", "known"], ["--workers", "2"]),
        *(
            ["--fail-on", "wrong,machine"],
            ["--edition", "onednn-3.6"],
            ["--also", "old.json"],
            ["--fail-on", "x,wrong"],
        ),
    )
    for some in drawn.sample(further, drawn.choice((0, 1, 1, 2, 3))):
        words += some
    with in_folder():
        Path("old.json").write_text(json.dumps({"f0": "wrong", "f3": "x"}))
        try:
            with ExitStack() as stack:
                for name, value in changes.items():
                    stack.enter_context(patch(name, value))
                cli.main(words)
        finally:
            print(ran, [one.name for one in sorted(Path().iterdir())])


@prints
def ended(drawn: Random) -> object:
    """How the command line ends where a command raises something."""
    violation = Violation("rule", "error", "Abs", "x", "1", "2", "Abs: x: 1", "", "")
    error: BaseException = drawn.choice((
        SpecError([violation] * drawn.choice((1, 2, 3))), ArgumentError("for_version: 3; expected 4"), MemoryError(),
        FormatError("a", "b", "c"), UnsupportedError("no\nkernel"), KeyboardInterrupt(), click.Abort(),
        OSError(errno.ENOENT, "none"), OSError(errno.ENOENT, "none", "f"), OSError(errno.EACCES, "no"), OSError("x"),
        ValueError("x"), click.UsageError("Got unexpected extra argument (3)"), click.UsageError("a."),
        click.ClickException("b."), BrokenPipeError(),
    ))  # fmt: skip
    words = drawn.choice((
        *[["show"]] * 9, ["show", "--json", "3"], ["show", "--for-version=3"], ["show", "--json=1", "3"],
        ["show", "-j", "3"], ["shw"], ["-x"], ["show", "--mb"], ["zzzz"], ["--shwo"],
    ))  # fmt: skip

    def fail(**given: object) -> object:
        if drawn.random() < 0.9:
            raise error
        return drawn.choice((0, 1, None))

    options = [click.Option([name], is_flag=name != "--for-version") for name in ("--json", "--for-version")]
    command = click.Command("show", callback=fail, params=[*options, click.Argument(["file"], required=False)])
    missing = UnicodeEncodeError("ascii", "a▁█\u20ac\x9f", 1, drawn.choice((3, 5)), "no")
    with (
        patch.object(Commands, "get_command", lambda self, ctx, name: command if name == "show" else None),
        patch.object(module, "_discard_output", lambda stream: print("discarded")),
    ):
        print(module._replaced(missing))
        cli.main(words)


TYPES: tuple[Any, ...] = (
    value_types.Integer(), value_types.Integer(min=1), value_types.Integer(max=5), value_types.Number(min=0, max=2),
    value_types.Number(), value_types.OutputPath(".json", ".py", allow_dash=True), value_types.OutputPath(),
    value_types.FilePath(), value_types.OutputPath(".html"), value_types.FolderPath(), value_types.EditionName(),
    bench.Several(value_types.Integer(min=1)), bench.Several(click.Choice(["no", "yes"])), conformance._Failures(),
    check._Editions(), check._Library(),
)  # fmt: skip
TEXTS = (
    *("3", "٣", "-1", "x", "nan", "2", "2.5", "inf", "2.٣", "", "a\0", "-", "a.json", "a.py", "d", "d/a.json"),
    *("none/a.json", "old", "pipe", "1,2,1", "1, 2", "yes,no", "wrong,text", "wrong,x", "onednn-3.2", "onednn-3.3"),
    *("all", "none", "3.6@avx2"),
)


@prints
def converted(drawn: Random) -> object:
    """Values of options."""
    kind: Any = drawn.choice(TYPES)
    found = []
    with in_folder():
        Path("d").mkdir()
        Path("old").write_text("")
        os.mkfifo("pipe")
        for text in drawn.sample(TEXTS, 8):
            try:
                found.append(kind.convert(text, None, None))
            except (click.BadParameter, og.OneGraphError) as error:
                found.append(str(error))
    context: Any = SimpleNamespace(params={"name": drawn.choice(("onednn-3.2", "host", None))})
    begun = drawn.choice(("re", "Dyn", "COS", "x", ""))
    names = [one.value for one in value_types.OpName().shell_complete(context, None, begun)]  # type: ignore[arg-type]
    return [*(sorted(one) if isinstance(one, frozenset) else one for one in found), kind.name, recorded.digest(names)]


# Commands that run graphs ---------------------------------------------------------------------------------------------


class Model:
    """Stands for an executable of any graph."""

    def __init__(self, graph: og.Graph, options: object) -> None:
        self._graph = graph
        self._interface = SimpleNamespace(by_name=lambda results: results)
        print("compiled", options, [*graph.inputs])

    def __call__(self, *arrays: Any) -> Any:
        """The results by name."""
        names = [*self._graph.inputs]
        return dict(og.reference.run(self._graph, dict(zip(names, arrays, strict=True))))

    def report(self, **options: object) -> Any:
        """A report."""
        print("report", options)
        return Report()

    def profile(self, *arrays: Any, **options: object) -> Any:
        """Times."""
        print("profile", len(arrays), options)
        return [1e-6]

    def explain(self, *arrays: Any, **options: object) -> Any:
        """An explanation."""
        print("explain", len(arrays), options)
        return Report()


class Report:
    """Stands for what an executable says of itself."""

    partitions = (SimpleNamespace(index=1, names=("relu_0",), executor="oneDNN"),)

    def to_dict(self) -> dict[str, object]:
        """The report as plain values."""
        return {"partitions": []}

    def __str__(self) -> str:
        return "a report"


def small_graph(drawn: Random) -> og.Graph:
    """A graph for commands."""
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 4))
    w = graph.input("w", "f32", (2, 4), constant=drawn.random() < 0.3)
    y = graph.add(graph.relu(x), w)
    if drawn.random() < 0.2:
        y = graph.wildcard(y, dtype="f32")
        graph.output("z", graph.relu(w))
    graph.output("y", graph.abs(y))
    return graph


COMMANDS = (
    *("run g.json", "run g.json --json", "run g.json --bare", "run g.json --bare --json", "run g.json --inputs i.npz"),
    *("run g.json --outputs o.npz", "run g.json --outputs i.npz --inputs i.npz", "run g.json --trace t.json --seed 3"),
    *("run g.json --trace g.json", "verify g.json --bare", "verify g.json --bare --json --outputs o.npz"),
    *(
        "verify g.json --bare --fpmath-mode bf16",
        "verify m.onnx",
        "verify m.onnx --json",
        "verify m.onnx --inputs i.npz",
    ),
    *("verify m.onnx --mb 3", "verify m.onnx --dt bf16", "verify g.json", "verify g.json --json --policy debug"),
    *("show g.json", "show g.json --json", "show g.json --passes", "show g.json --passes --json", "show g.json --mb 3"),
    *("show g.json --passes --fpmath-mode bf16", "explain g.json", "explain g.json --json --runs 3 --kernels"),
    *(
        "view g.json",
        "view g.json --json",
        "view g.json --profile --seed 2",
        "view g.json -o -",
        "view g.json -o p.htm",
    ),
    *("view g.json --no-compile", "view g.json -o g.json", "view m.onnx --json", "show g.json --no-compile"),
    *("run nothing.json", "run d", "show g.json --op-kind 0:undef", "verify d --bare", "run g.json --no-fallback"),
)


@prints
def commanded(drawn: Random) -> object:
    """Commands that compile a graph, or run it in the library as it is."""
    from onnx import TensorProto, helper

    from onegraph.tools.bare import BareRun

    graph, words = small_graph(drawn), drawn.choice(COMMANDS).split()
    ending = drawn.choice(("", "", "", "", "unsupported"))

    def compiled(one: og.Graph, **options: object) -> Model:
        if ending:
            raise UnsupportedError("no kernel for x")
        return Model(one, [f"{name}={value}" for name, value in options.items() if value])

    def run_bare(one: og.Graph, given: Any, **options: object) -> BareRun:
        print("bare", [*given], options)
        if drawn.random() < 0.2:
            return BareRun("crash", "compile", "SIGSEGV", {}, ())
        results = {name: np.array(array) for name, array in og.reference.run(one, given).items()}
        if drawn.random() < 0.3:
            results["y"][0, 0] += 1
        return BareRun("ran", "execute", "", results, (("ReLU", "Add"),))

    def judged(path: object, **options: object) -> object:
        print("judged", path, [(name, str(value)[:20]) for name, value in options.items() if value])
        return drawn.choice((judgement(drawn), None))

    def told(one: og.Graph, given: Any, **options: Any) -> object:
        print("verified", [*given], [*options], options["policy"])
        options["progress"]("reference", 1, 2)
        return verification(drawn)

    changes = [
        SimpleNamespace(
            name=f"pass {place}", reason="why", runs=drawn.random() < 0.5, removed=drawn.choice(((), ("a",))),
            added=drawn.choice(((), ("b",))), refused=drawn.choice(((), ("c",))), _asdict=lambda: {"change": 1},
        )
        for place in range(2)
    ]  # fmt: skip

    def passes(one: og.Graph, options: Any) -> object:
        print(len(one.ops), options.policy, options.fpmath_mode, len(options.updates))
        return changes

    node = helper.make_node("Relu", ["x"], ["y"])
    dims = drawn.choice(([2, 4], ["n", 4]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in ("x", "y")]
    proto = helper.make_model(helper.make_graph([node], "m", ends[:1], ends[1:]), ir_version=10)
    proto.opset_import[0].version = 21
    with (
        in_folder(),
        patch.object(og.Graph, "compile", compiled),
        patch("onegraph.tools.bare.run_bare", run_bare),
        patch("onegraph.tools.verify_model.verify_model", judged),
        patch("onegraph.tools.verify.verify", told),
        patch("onegraph.compiler.pass_changes.pass_changes", passes),
        patch("onegraph.runtime.profile.chrome_trace", lambda profiles: str([*profiles])),
        patch("onegraph.view.page", lambda one, **given: f"<p>{len(one.ops)} {given['title']} {given['times']}"),
        patch("time.perf_counter", lambda: 1.0),
    ):
        graph.save("g.json")
        Path("m.onnx").write_bytes(proto.SerializeToString())
        Path("d").mkdir()
        np.savez("i.npz", x=np.ones((2, 4), np.float32), w=np.full((2, 4), -1, np.float32))
        before = {one.name for one in Path().iterdir()}
        try:
            cli.main(words)
        finally:
            print(sorted((one.name, one.read_text()[:40] if one.suffix != ".npz" else "") for one in Path().iterdir()
                         if one.name not in before))  # fmt: skip


@prints
def matched(drawn: Random) -> object:
    """The files of patterns."""
    found = []
    with in_folder():
        for name in ("a.json", "b.json", "[c].json", "d/e.json"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text("")
        Path("f.json").mkdir()
        for text in drawn.sample(("*.json", "a.json", "x.json", "*.x", "d", "**/*.json", "[c].json", "-", "?.json"), 3):
            try:
                found.append(options._matching(text))
            except og.OneGraphError as error:
                found.append([str(error)])
    return found
