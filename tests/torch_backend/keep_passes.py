"""Keeps the graphs that tests with PyTorch pass through the front end, for tests without it.

    python -m tests.torch_backend.keep_passes
    python -m tests.torch_backend.keep_passes --again  # chooses again among the graphs of the last time

A text holds a graph, the function that gets it, and what else the function gets. Those stay that reach conditions which
no shorter one reaches, and others beside them that reach more.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from random import Random
from time import process_time
from typing import Any

import pytest
import torch
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from onegraph.frontends.torch import lowering
from onegraph.frontends.torch.options import BackendOptions
from tests.helpers import aten_calls, aten_passes
from tests.torch_backend.keep_calls import MOST, TESTS, Asking, Text, Unwritten, renamed

ALL = TESTS.parent / "build" / "aten_passes.json"
FRONT = "onegraph.frontends.torch"
# The functions that get a graph first.
PASSES = (
    *("joint.without_aliases", "joint.without_indices", "joint.without_statistics", "parts.join_parts"),
    *("true_types.with_true_types", "embeddings.add_rows_in_place", "folding.without_empty", "folding.without_returns"),
    *("draws.order_draws", "folding.folded", "results.with_own_results", "in_place.op_writes"),
    *("in_place.write_in_place", "saved.with_true_forms", "saved.without_written", "saved.saved_nodes"),
    *("in_place.written_inputs", "partitions.divided"),
)
DRAWS = 20  # graphs beside each one
MOST_SECONDS = 0.03  # of a graph that is kept
SEEN: dict[str, None] = {}
TRAITS: dict[str, Any] = {}


class Names(dict[str, str]):
    """Other names of nodes; those of bodies stay."""

    def __missing__(self, name: str) -> str:
        return name


class PassText(Text):
    """The text of a graph and of what else a function gets."""

    def of(self, value: Any) -> Any:
        """A value as a text."""
        kind: type = type(value)
        if kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
            if not value.node.has_hint():
                raise Unwritten("a size without a hint")
            return {"sym": [kind.__name__, str(value.node.expr), self.of(value.node.hint)]}
        if isinstance(value, FxNode):
            return {"node": value.name}
        if isinstance(value, (set, frozenset)):
            return {"set": sorted([self.of(one) for one in value], key=str)}
        if isinstance(value, BackendOptions):
            return {"options": {k: v for k, v in value._asdict().items() if v != BackendOptions._field_defaults[k]}}
        if isinstance(value, Mapping):
            return {"map": [[self.of(key), self.of(one)] for key, one in value.items()]}
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided:
                raise Unwritten("a sparse tensor")
            ends = [self.of([*end]) for end in (value.shape, value.stride())]
            device = [] if value.device.type == "cpu" else [value.device.type]
            return {"tensor": [str(value.dtype).removeprefix("torch."), *ends, *device]}
        if isinstance(value, GraphModule):
            return {"module": self.graph(value)}
        if hasattr(value, "_schema"):
            self.note(value)
            return {"op": str(value)}
        return super().of(value)

    def note(self, target: Any) -> None:
        """Keep what is known of an op."""
        name, schema = str(target), target._schema
        if name not in TRAITS:
            arguments = []
            for one in schema.arguments:
                try:
                    default = [self.of(one.default_value)] if one.has_default_value() else []
                except Unwritten:
                    default = []
                arguments.append([one.name, str(one.type), *default])
            tags = [tag for tag in ("pointwise", "nondeterministic_seeded") if getattr(torch.Tag, tag) in target.tags]
            TRAITS[name] = {
                "arguments": arguments, "tags": tags, "mutable": schema.is_mutable,
                "view": bool(getattr(target, "is_view", False)), "returns": len(schema.returns),
            }  # fmt: skip

    def graph(self, gm: Any) -> Any:
        """The nodes of a graph."""
        nodes, found = [], gm.graph if hasattr(gm, "graph") else gm
        for node in found.nodes:
            target = str(node.target)
            if node.op == "call_function":
                if hasattr(node.target, "_schema"):
                    self.note(node.target)
                elif not lowering.is_higher_order(node.target):
                    if node.target is torch.empty_strided:
                        raise Unwritten("a draw that was ordered")
                    target = getattr(node.target, "__name__", target)
            more = []
            if node.op == "get_attr":
                value: Any = gm
                for name in target.split("."):
                    value = getattr(value, name)
                more = [self.of(value)]
            like = self.of(node.meta["val"]) if "val" in node.meta else {"none": 0}
            kwargs = {key: self.of(one) for key, one in node.kwargs.items()}
            nodes.append([node.name, node.op, target, self.of([*node.args]), kwargs, like, *more])
        return {"nodes": nodes}


def metadata() -> Any:
    """What PyTorch says of the graph that it captures."""
    context = TracingContext.try_get()
    data = None if context is None else context.fw_metadata
    if data is None:
        return None
    return {
        "written": [one.mutates_data for one in data.input_info],
        "num_forward": data.num_forward,
        "mutated_inp_runtime_indices": [*data.mutated_inp_runtime_indices],
        "static_input_indices": [*data.static_input_indices],
    }


def note(name: str, gm: Any, make: Callable[[PassText], Mapping[str, Any]]) -> None:
    """Keep a graph, and what else a function gets."""
    text = PassText()
    try:
        made = {"of": name, **text.graph(gm), **make(text)}
        context = metadata()
        if context is not None:
            made["context"] = context
    except Unwritten:
        return
    names = Names({one: f"n{place}" for place, (one, *_) in enumerate(made["nodes"])})
    written = json.dumps(renamed(made, names))
    if len(written) <= 2 * MOST:
        SEEN.setdefault(written)


def watched(name: str, function: Any) -> Any:
    """A function that keeps what it gets."""

    @wraps(function)
    def noting(gm: Any, *args: Any, **kwargs: Any) -> Any:
        def make(text: PassText) -> Any:
            rest, named = args, {**kwargs}
            if name == "partitions.divided":
                named = {
                    **named,
                    **dict(zip(("saved", "made_anew", "captured", "weights", "writes"), args[3:], strict=False)),
                }
                rest = args[:3]
                named.pop("captured", None)
            return {"args": text.of([*rest]), "kwargs": {key: text.of(one) for key, one in named.items()}}

        note(name, gm, make)
        return function(gm, *args, **kwargs)

    return noting


def watch() -> None:
    """Have the functions keep what they get."""
    import onegraph.torch  # noqa: F401 - its modules take the functions
    from onegraph.frontends.torch import backend

    modules = [module for name, module in sys.modules.items() if name.startswith(FRONT) or name == "onegraph.torch"]
    for name in PASSES:
        module, _, function = name.partition(".")
        original = getattr(importlib.import_module(f"{FRONT}.{module}"), function)
        made = watched(name, original)
        for one in modules:
            for key, value in [*vars(one).items()]:
                if value is original:
                    setattr(one, key, made)

    region, divide = backend.CapturedRegion.__init__, backend.CapturedRegion._divided
    decompose = torch.export.ExportedProgram.run_decompositions

    def begun(self: Any, gm: Any, options: Any, kind: str) -> None:
        text = PassText()
        try:
            self.noted = {**text.graph(gm), "args": text.of([options, kind]), "context": metadata()}
        except Unwritten:
            self.noted = None
        region(self, gm, options, kind)

    def divided(self: Any, arguments: Any, places: Any, *, writes: bool = False) -> Any:
        if self.noted is not None:
            noted = self.noted
            note(
                "backend.CapturedRegion", torch.fx.Graph(),
                lambda text: {**noted, "called": text.of([[*arguments], [*places]]), "kwargs": {"writes": writes}},
            )  # fmt: skip
        return divide(self, arguments, places, writes=writes)

    def decomposed(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = decompose(self, *args, **kwargs)
        specs = made.graph_signature
        ranges = {str(key): [int(one.lower), int(min(one.upper, 2**40))] for key, one in self.range_constraints.items()}

        def make(text: PassText) -> Any:
            stored = {**made.state_dict, **made.constants}
            return {
                "args": [], "kwargs": {}, "ranges": ranges,
                "input_specs": [[one.kind.name, one.target] for one in specs.input_specs],
                "output_specs": [[one.kind.name, one.target] for one in specs.output_specs],
                "stored": {key: text.of(one) for key, one in stored.items() if isinstance(one, torch.Tensor)},
            }  # fmt: skip

        note("export.export", made.graph_module, make)
        return made

    backend.CapturedRegion.__init__, backend.CapturedRegion._divided = begun, divided  # type: ignore[method-assign]
    torch.export.ExportedProgram.run_decompositions = decomposed


class AskingPasses(Asking):
    """Imports the modules of the front end with questions, and asks what a graph reaches."""

    def reached(self, made: Mapping[str, Any]) -> set[object]:
        """The answers of conditions, outside of what the calls that are kept ask."""
        for met in self.met.values():
            met[:] = bytes(len(met))
        aten_passes.replayed(made)
        return {
            (key, place)
            for key, met in self.met.items()
            if ".tables." not in key and not key.endswith((".node", ".lowering", ".types"))
            for place, one in enumerate(met)
            if one
        }


def chosen(everything: Mapping[str, Any]) -> Mapping[str, Any]:
    """The graphs that stay, and those beside them that reach more."""
    aten_passes.kept.cache_clear()
    aten_passes.kept = lambda: everything  # type: ignore[assignment]
    asking = AskingPasses()
    sys.meta_path.insert(0, asking)  # type: ignore[arg-type]
    aten_passes.modules()
    sys.meta_path.remove(asking)  # type: ignore[arg-type]
    before, graphs, seconds = set[object](), [], 0.0

    def tried(made: Any) -> bool:
        nonlocal before, seconds
        start = process_time()
        try:
            found = asking.reached(made)
            took = process_time() - start
        except Exception as error:
            print(f"{error!r}: {json.dumps(made)[:300]}")
            return False
        if took > MOST_SECONDS or not found - before:
            return False
        before, seconds = before | found, seconds + took
        graphs.append(made)
        return True

    # Functions that others call come last: much of them is reached by then.
    late = ("backend.CapturedRegion", "partitions.divided", "export.export")
    for made in sorted(everything["graphs"], key=lambda one: (one["of"] in late, len(one["nodes"]))):
        tried(made)
    print(len(graphs), "graphs stay", seconds, flush=True)
    rng, whole = Random(0), [*graphs]
    for made in whole * DRAWS:
        tried(aten_passes.beside(made, rng))
    print(len(graphs) - len(whole), "beside them", seconds)
    used = {node[2] for made in graphs for node in made["nodes"]}
    traits = {
        name: one for name, one in everything["traits"].items() if name in used or name.endswith(("_", "_.default"))
    }
    return {"traits": traits, "graphs": graphs}


def main(*files: str) -> int:
    """Run the tests, and write the graphs."""
    watch()
    for file in files or map(str, sorted((TESTS / "from_torch").glob("*.py"))):
        pytest.main(["-q", "-p", "no:xdist", "-x", "--maxfail=50", file])
        print(len(SEEN), "graphs", flush=True)
        ALL.parent.mkdir(exist_ok=True)
        ALL.write_text(json.dumps({"traits": TRAITS, "graphs": [json.loads(one) for one in sorted(SEEN, key=len)]}))
    aten_calls.keep(chosen(json.loads(ALL.read_text())), aten_passes.PASSES)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--again"]:
        aten_calls.keep(chosen(json.loads(ALL.read_text())), aten_passes.PASSES)
    else:
        sys.exit(main(*sys.argv[1:]))
