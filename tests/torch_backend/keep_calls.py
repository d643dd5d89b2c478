"""Keeps the calls of ATen ops that the tests with PyTorch lower, for tests without it.

    python -m tests.torch_backend.keep_calls
    python -m tests.torch_backend.keep_calls --again  # chooses again among the calls of the last time

Of all calls and graphs, those stay that reach lines of the front end which no shorter one with the same op reaches.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import numpy as np
import pytest
import torch
from torch.fx import Node as FxNode

import onegraph.frontends.torch.lowering as lowering
from onegraph._util.open_sizes import OpenSize
from onegraph.opset.kinds import HOST_UNARY
from tests.conditions.questions import TAKES, Answers, questions
from tests.helpers import aten_calls

TESTS = Path(__file__).parents[1]
ALL = TESTS.parent / "build" / "aten_calls.json"  # of all calls
FORMS = 3  # sets of ops that a call becomes
SIBLINGS = 8  # calls of an op that are tried as calls of another one
DRAWS = 12  # calls beside each one
MOST = 12000  # letters of a text that is kept
MOST_NODES, MOST_SECONDS = 40, 0.05  # of a graph that is kept, and of its lowering under a trace
PLAIN = (bool, int, str, type(None))


class Unwritten(Exception):  # noqa: N818 - no error: what no text says
    """A value that has no text."""


class Text:
    """The text of one graph.

    Attributes:
        sizes: the open sizes in it.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def of(self, value: Any) -> Any:
        """A value as a text."""
        kind: type = type(value)
        if kind in PLAIN:
            return value
        if kind is OpenSize:
            self.sizes = [one.value for one in value.sizes.symbols]
            code = value.sizes.code(value)
            try:
                assert eval(code, {"s": value.sizes.symbols}) is value
            except Exception:
                raise Unwritten(code) from None
            return {"size": code}
        if kind is float:
            return {"number": repr(value)}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
            return self.of(lowering.concrete(value))
        if kind is torch.dtype:
            return {"dtype": str(value).removeprefix("torch.")}
        if kind in (torch.layout, torch.device, torch.memory_format):
            return {"named": str(value)}
        if isinstance(value, FxNode):
            return (
                str(value.target)
                if value.op == "get_attr" and not hasattr(value.meta.get("val"), "stride")
                else {"node": value.name}
            )
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, (list, tuple)):
            made = [self.of(one) for one in value]
            return {"tuple": made} if isinstance(value, tuple) else made
        if hasattr(value, "stride") and hasattr(value, "dtype"):
            value = lowering.concrete(value) if isinstance(value, torch.Tensor) else value
            ends = [self.of([*end]) for end in (value.shape, value.stride())]
            return {"tensor": [str(value.dtype).removeprefix("torch."), *ends]}
        raise Unwritten(str(kind))

    @staticmethod
    def array(array: Any) -> Any:
        """The text of an array; the contents of a large one are drawn."""
        if array.size > aten_calls.GIVEN:
            return {"drawn": [str(array.dtype), [*array.shape]]}
        numbers = array.ravel()
        wide = numbers.astype(np.float64) if numbers.dtype.kind not in "biu" else numbers
        if not np.isfinite(wide).all():
            raise Unwritten("an array with NaN")
        return {"array": [str(array.dtype), [*array.shape], wide.tolist()]}

    def node(self, node: Any, like: Any, is_read: bool = False) -> list[Any]:
        """The text of a node: one that is only read has no arguments."""
        if is_read or node.op == "placeholder":
            return [node.name, "placeholder", "", [], {}, self.of(like)]
        if node.op == "output":
            return [node.name, "output", "", self.of([*node.args]), {}, None]
        if node.op == "get_attr":
            raise Unwritten("a constant in a body")
        target = "getitem" if node.target is operator.getitem else str(node.target)
        if hasattr(node.target, "_schema"):
            TARGETS[target] = [
                [one.name, *([self.of(one.default_value)] if one.has_default_value() else [])]
                for one in node.target._schema.arguments
            ]
        modules = {}
        if lowering.is_higher_order(node.target):
            modules = {key: self.module(one) for key, one in lowering.modules_of(node).items()}
        kwargs = {key: self.of(one) for key, one in node.kwargs.items()}
        return [
            node.name,
            node.op,
            target,
            self.of([*node.args]),
            kwargs,
            self.of(like),
            *([modules] if modules else []),
        ]

    def module(self, module: Any) -> Any:
        """The text of a graph that is an argument of a call."""
        nodes = [node for node in module.graph.nodes if node.op != "get_attr"]
        return {"nodes": [self.node(node, node.meta.get("val")) for node in nodes]}


TARGETS: dict[str, Any] = {}
SEEN: dict[str, str] = {}  # the texts of graphs, by what they are without the names of their nodes


def renamed(made: Any, names: Mapping[str, str]) -> Any:
    """A text with other names of nodes."""
    if type(made) is list:
        return [renamed(one, names) for one in made]
    if type(made) is not dict:
        return made
    found = {key: names[one] if key in ("node", "alone") else renamed(one, names) for key, one in made.items()}
    if "nodes" in found:
        found["nodes"] = [[names.get(name, name), *rest] for name, *rest in found["nodes"]]
    for key in ("known", "read"):
        if key in found:
            found[key] = {names[name]: one for name, one in found[key].items()}
    for key in ("inputs", "outputs"):
        if key in found:
            found[key] = [names[name] for name in found[key]]
    return found


def note(make: Callable[[Text], Mapping[str, Any]]) -> None:
    """Keep what a function makes, unless something has no text."""
    text = Text()
    try:
        made = {**make(text)}
    except Unwritten:
        return
    if text.sizes:
        made["sizes"] = text.sizes
    names = {name: f"n{place}" for place, (name, *_) in enumerate(made["nodes"])}
    written = json.dumps(renamed(made, names))
    if len(written) > MOST:
        return
    SEEN.setdefault(written, written)


def alone(call: Any, values: Any, metas: Any, emit: Any) -> Any:
    """Lower a call that is tried alone."""

    def make(text: Text) -> dict[str, Any]:
        sources = [node for node in call.all_input_nodes if node in metas]
        read = [user.args[1] for user in call.users if user.target is operator.getitem]
        arrays = {node.name: text.of(values[node]) for node in sources if isinstance(values.get(node), np.ndarray)}
        nodes = [*[text.node(node, metas[node], True) for node in sources], text.node(call, metas[call])]
        return {"alone": call.name, "nodes": nodes, "known": arrays, "read": {call.name: read}}

    if call.target is not operator.getitem:
        note(make)
    return LOWER_CALL(call, values, metas, emit)


def whole(nodes: Any, inputs: Any, outputs: Any, known: Any, metas: Any, **options: Any) -> Any:
    """Lower a graph."""
    calls: list[Any] = []

    def each() -> Any:
        for node in nodes:
            calls.append(node)
            yield node

    def make(text: Text) -> dict[str, Any]:
        read = dict.fromkeys(source for node in (*calls, *outputs) for source in (node, *node.all_input_nodes))
        ends = [node for node in (*inputs, *read) if node in inputs or (node in known and node not in calls)]
        made = [text.node(node, metas.get(node), True) for node in dict.fromkeys(ends)]
        arrays = {node.name: text.of(known[node]) for node in dict.fromkeys(ends) if node in known}
        return {
            "nodes": [*made, *[text.node(node, metas.get(node)) for node in calls]],
            "inputs": [node.name for node in inputs],
            "outputs": [node.name for node in outputs],
            "known": arrays,
            "opened": options.get("opened") is not None,
            "dense": options.get("dense", False),
        }

    try:
        return LOWER_GRAPH(each(), inputs, outputs, known, metas, **options)
    finally:
        note(make)


LOWER_CALL, LOWER_GRAPH = lowering.lower_call, lowering.lower_graph


class Asking:
    """Imports the modules of the front end with questions, as ``tests.conditions`` does.

    Attributes:
        met: for each module, which of its questions are answered.
    """

    def __init__(self) -> None:
        self.met: dict[str, bytearray] = {}
        self.kinds: dict[str, set[tuple[str, ...]]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The specification of a module of the front end."""
        if not name.startswith(f"{aten_calls.FRONT}."):
            return None
        spec: Any = PathFinder.find_spec(name, path, target)
        spec.loader.exec_module = self.exec_module
        return spec

    def exec_module(self, module: Any) -> None:
        """Run a module with questions."""
        tree, asked = questions(Path(module.__file__).read_text())
        met = self.met[module.__name__] = bytearray(len(asked))
        vars(module)[TAKES] = Answers(met)
        exec(compile(tree, module.__file__, "exec", dont_inherit=True), vars(module))

    def reached(self, made: Mapping[str, Any]) -> set[object]:
        """What a graph reaches: answers of conditions, and steps from line to line by the op of a call alone."""
        for met in self.met.values():
            met[:] = bytes(len(met))
        (name,) = {node[2] for node in made["nodes"] if node[1] == "call_function"} if "alone" in made else {""}
        found = set[object]()

        def trace(frame: Any, event: str, _: Any) -> Any:
            file = frame.f_code.co_filename
            if "/frontends/torch/" not in file:
                return None
            before = [0]

            def line(frame: Any, event: str, _: Any) -> Any:
                if event == "line":
                    found.add((name, file, before[0], frame.f_lineno))
                    before[0] = frame.f_lineno
                return line

            return line

        sys.settrace(trace)
        try:
            lines = aten_calls.replayed(made)
        finally:
            sys.settrace(None)
        if name and "beside" not in made:  # the ops that a call becomes
            kinds = tuple(sorted({line.split()[1] for line in lines if " " in line}))
            if len(self.kinds.setdefault(name, {kinds})) < FORMS:
                self.kinds[name].add(kinds)
            if kinds in self.kinds[name]:
                found.add((name, 0, kinds))
        return found | {(key, place) for key, met in self.met.items() for place, one in enumerate(met) if one}


def siblings(graphs: Sequence[Mapping[str, Any]], targets: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Calls of the ops in the table that no graph calls, with the arguments of those of other ops.

    Args:
        graphs: the graphs.
        targets: the arguments of their ops; those of the others are added.
    """
    table = aten_calls.front_end()
    calls = [made for made in graphs if "alone" in made and "beside" not in made and not made.get("sizes")]
    met = {node[2] for made in graphs for node in made["nodes"]}
    for name in sorted({*table.LOWERINGS, *table.PARTS} - met):
        library, op, overload = name.split(".")
        packet = getattr(getattr(torch.ops, library), op, None)
        if packet is None or overload not in packet.overloads():
            continue
        arguments = getattr(packet, overload)._schema.arguments
        text = Text()
        targets[name] = [
            [one.name, *([text.of(one.default_value)] if one.has_default_value() else [])] for one in arguments
        ]
        names = [one.name for one in arguments]

        def shared(made: Mapping[str, Any], names: Sequence[str] = names) -> int:
            *_, call = made["nodes"]
            own = [one for one, *_ in targets.get(call[2], ())]
            return -sum(1 if one in own else 0 for one in names) * 10 + len(own)

        for made in sorted(calls, key=shared)[:SIBLINGS]:
            other = json.loads(json.dumps({**made, "beside": True}))
            *_, call = other["nodes"]
            own = [one for one, *_ in targets.get(call[2], ())]
            given = {**dict(zip(own, call[3], strict=False)), **call[4]}
            defaults = {one: default[0] for one, *default in targets[name] if default}
            call[2], call[3], call[4] = name, [], {one: given.get(one, defaults.get(one)) for one in names}
            yield other


def chosen(everything: Mapping[str, Any]) -> Mapping[str, Any]:
    """The graphs that stay, and those beside them that reach more."""
    aten_calls.kept.cache_clear()
    aten_calls.kept = lambda: everything  # type: ignore[assignment]
    asking = Asking()
    sys.meta_path.insert(0, asking)  # type: ignore[arg-type]
    aten_calls.front_end()
    sys.meta_path.remove(asking)  # type: ignore[arg-type]
    before, graphs = set[object](), []
    for made in everything["graphs"]:
        before_it = process_time()
        try:
            found = asking.reached(made)
        except Exception as error:
            print(f"{error!r}: {json.dumps(made)[:300]}")
            continue
        is_long = len(made["nodes"]) > MOST_NODES or process_time() - before_it > MOST_SECONDS
        if found - before and not is_long:
            before |= found
            graphs.append(made)
    print(len(graphs), "graphs stay", flush=True)
    rng, beside = Random(0), []
    for made in [one for one in graphs if "alone" in one and not one.get("sizes")] * DRAWS:
        other = aten_calls.beside(made, rng)
        found = asking.reached(other)
        if found - before:
            before |= found
            beside.append(other)
    print(len(beside), "beside them", flush=True)
    again, targets = [], {**everything["targets"]}
    for other in siblings(graphs, targets):
        found = asking.reached(other)
        if found - before:
            before |= found
            again.append(other)
    print(len(again), "of other ops")
    used = {node[2] for made in (*graphs, *beside, *again) for node in made["nodes"]}
    targets = {name: one for name, one in targets.items() if name in used}
    return {**everything, "targets": targets, "graphs": [*graphs, *beside, *again]}


def main(*files: str) -> int:
    """Run the tests, and write the calls."""
    lowering.lower_graph = whole
    import onegraph.frontends.torch.support as support

    support.lower_call = alone
    import onegraph.torch  # noqa: F401 - its modules take the functions above

    aten = sorted(name.lower() for name in HOST_UNARY if hasattr(torch.ops.aten, name.lower()))
    for file in files or map(str, sorted((TESTS / "from_torch").glob("*.py"))):
        pytest.main(["-q", "-p", "no:xdist", file])
        print(len(SEEN), "graphs", flush=True)
        everything = {"targets": TARGETS, "aten": aten, "graphs": [json.loads(one) for one in sorted(SEEN, key=len)]}
        ALL.parent.mkdir(exist_ok=True)
        ALL.write_text(json.dumps(everything))
    aten_calls.keep(chosen(everything))
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--again"]:
        aten_calls.keep(chosen(json.loads(ALL.read_text())))
    elif sys.argv[1:] == ["--siblings"]:
        DRAWS = 0
        aten_calls.keep(chosen(aten_calls.kept()))
    else:
        sys.exit(main(*sys.argv[1:]))
