"""Graphs of PyTorch as texts, and what the functions of the front end that change graphs make of them without PyTorch.

``tests.torch_backend.keep_passes`` writes the graphs that the tests with PyTorch capture. The stand-ins of
``torch_stand_in`` bring them back. What is lowered is not compiled here.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from sys import intern
from types import SimpleNamespace
from typing import Any

from onegraph.opset.editions.registry import HOST
from tests.helpers import aten_calls
from tests.helpers import torch_stand_in as own
from tests.helpers.recorded import lines_of

PASSES = Path(__file__).parents[1] / "recorded" / "aten_passes.txt"
LOG: list[str] = []  # what was lowered and compiled
ORIGINALS: dict[str, Any] = {}  # functions that compile


@cache
def kept() -> Mapping[str, Any]:
    """The graphs: ``traits`` of their ops, and ``graphs``."""
    return aten_calls.unpacked(PASSES) if PASSES.exists() else {"traits": {}, "graphs": []}


@cache
def modules() -> Mapping[str, Any]:
    """The modules of the front end, which compile nothing."""
    made = aten_calls.modules()
    part = made["compiled_part"]
    lower = part.lower_graph

    def lowered(*args: Any, **kwargs: Any) -> Any:
        found = lower(*args, **kwargs)
        return part.LoweredGraph(Uncompiled(found.graph), found.inputs, found.outputs)

    instead = {
        "lower_graph": lowered, "possible_overs": possible_overs, "overwriting": lambda model, overs: model,
    }  # fmt: skip
    ORIGINALS.update({name: vars(part)[name] for name in instead})
    vars(part).update(instead)
    return made


@contextmanager
def compiling() -> Iterator[None]:
    """Compile what is lowered."""
    part = vars(modules()["compiled_part"])
    instead = {name: part[name] for name in ORIGINALS}
    part.update(ORIGINALS)
    try:
        yield
    finally:
        part.update(instead)


class Uncompiled:
    """A graph that is not compiled, in the place of it and of what is compiled of it."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self._programs = SimpleNamespace(only_program=lambda: None)

    def compile(self, **options: Any) -> Uncompiled:
        """Keep the ops and the options."""
        LOG.extend(["compiled", *lines_of(self.graph), str(options)])
        return self

    def report(self) -> Any:
        """Each op as a partition."""
        return SimpleNamespace(
            partitions=[
                SimpleNamespace(executor="numpy" if op.edition == HOST else "oneDNN", ops=[op.kind], names=[op.name])
                for op in self.graph.ops
            ]
        )


def possible_overs(model: Uncompiled) -> dict[int, int]:
    """The results that may lie over an input: those that have its form."""
    inputs = [*model.graph.inputs.values()]
    return {
        to: source
        for to, result in enumerate(model.graph.outputs.values())
        for source, one in enumerate(inputs)
        if (one.shape, one.dtype) == (result.shape, result.dtype)
    }


def module_of(made: Mapping[str, Any], nodes: dict[str, own.Node]) -> own.GraphModule:
    """A module with the graph of a text.

    Args:
        made: the text.
        nodes: its nodes by name, which are entered here.
    """
    graph, held = own.Graph(), dict[str, Any]()
    for name, op, target, args, kwargs, like, *more in made["nodes"]:
        found = target
        if op == "call_function":
            found = target_of(target)
        node = own.Node(op, name, found, value_of(args, nodes), value_of_all(kwargs, nodes))
        if like != {"none": 0}:
            node.meta["val"] = value_of(like, nodes)
        for one in more:
            value, (*path, last) = value_of(one, nodes), target.split(".")
            owner = held
            for part in path:
                owner = vars(owner.setdefault(part, SimpleNamespace()))
            owner[last] = value
        nodes[name] = graph.add(node)
    return own.GraphModule(held, graph)


def target_of(name: str) -> Any:
    """What a node calls."""
    if name in kept()["traits"]:
        return own.OPS.target(name)
    if name == "getitem":
        return aten_calls.operator.getitem
    plain = getattr(aten_calls.operator, name, None) or getattr(aten_calls.own.math, name, None)
    return own.higher(name) if plain is None else plain


def value_of(value: Any, nodes: dict[str, own.Node]) -> Any:
    """A value of a text."""
    if type(value) is list:
        return [value_of(one, nodes) for one in value]
    if type(value) is not dict:
        return value
    ((kind, held),) = value.items()
    match kind:
        case "tuple":
            return tuple(value_of(one, nodes) for one in held)
        case "set":
            return frozenset(value_of(one, nodes) for one in held)
        case "map":
            return {value_of(key, nodes): value_of(one, nodes) for key, one in held}
        case "sym":
            name, text, hint = held
            return getattr(own, name)(text, value_of(hint, nodes))
        case "tensor":
            dtype, *ends = held
            return own.Tensor(own.Dtype(dtype), *[value_of(one, nodes) for one in ends])
        case "options":
            return modules()["options"].BackendOptions(**held)
        case "module":
            return module_of(held, {})
    return aten_calls.decoded(value, nodes)


def value_of_all(values: Mapping[str, Any], nodes: dict[str, own.Node]) -> dict[str, Any]:
    """Values of a text, by name."""
    return {key: value_of(one, nodes) for key, one in values.items()}


def described(value: Any) -> str:
    """A result as a text that does not depend on the order of sets."""
    if isinstance(value, own.GraphModule):
        return "module"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(described, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{described(key)}: {described(one)}' for key, one in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(described, value))}]"
    return str(value)


def replayed(made: Mapping[str, Any]) -> list[str]:
    """The lines of the graph that a function has made of one, and what it returned."""
    nodes = dict[str, own.Node]()
    module, name = made["of"].split(".")
    front = modules()
    gm = module_of(made, nodes)
    own.TracingContext.now = SimpleNamespace(fw_metadata=own.Metadata.of(made.get("context")))
    statistics = front["statistics"]
    statistics.reset()
    LOG.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = [*OTHERS.get(made["of"], usual)(getattr(front[module], name), gm, made, nodes)]
    except Exception as error:
        if type(error).__module__.startswith("onegraph"):
            return [f"{type(error).__name__}: {error}"]
        if "beside" not in made:  # a graph that PyTorch makes
            raise
        return [type(error).__name__]
    counted = [str(statistics.statistics()), str(statistics._regions)] if statistics._regions else []
    return [*gm.graph.lines(), *result, *LOG, *counted]


def usual(function: Any, gm: Any, made: Mapping[str, Any], nodes: dict[str, own.Node]) -> Iterator[str]:
    """A function that gets a graph first, and changes it."""
    first = gm.graph if made["of"] in ("support.verdicts", "partitions.without_dead") else gm
    result = function(first, *value_of(made["args"], nodes), **value_of_all(made["kwargs"], nodes))
    yield described(result)


def of_region(region_of: Any, gm: Any, made: Mapping[str, Any], nodes: dict[str, own.Node]) -> Iterator[str]:
    """The captured graph of one call."""
    options, kind = value_of(made["args"], nodes)
    arguments, places = value_of(made["called"], nodes)
    region = region_of(gm, options, kind)
    yield described([region.saved, region.weights, region.written])
    compiled = region._compiled(arguments, places)
    yield from compiled.__self__.graph.lines()
    yield f"{compiled.__code__.co_stacksize} {described(own.TracingContext.now.fw_metadata)}"


def program_of(gm: Any, stored: Mapping[str, Any], inputs: Any, outputs: Any) -> own.ExportedProgram:
    """A program.

    Args:
        gm: its module.
        stored: the parameters by name.
        inputs: the kind, and the name of a parameter, of each input.
        outputs: the same of each result; or how many results there are.
    """
    program = own.ExportedProgram()
    program.graph_module, program.state_dict, program.constants, program.range_constraints = gm, stored, {}, {}
    ends = [("USER_OUTPUT", None)] * outputs if type(outputs) is int else outputs
    program.graph_signature = SimpleNamespace(
        **{
            name: [SimpleNamespace(kind=intern(kind), target=target) for kind, target in several]
            for name, several in (("input_specs", inputs), ("output_specs", ends))
        }
    )
    program.run_decompositions = lambda table: program
    return program


def of_export(export: Any, gm: Any, made: Mapping[str, Any], nodes: dict[str, own.Node]) -> Iterator[str]:
    """A program that is exported."""
    program = program_of(gm, value_of_all(made["stored"], nodes), made["input_specs"], made["output_specs"])
    program.range_constraints = {
        own.sympy_stand_in.Symbol(name): SimpleNamespace(lower=low, upper=high)
        for name, (low, high) in made.get("ranges", {}).items()
    }
    yield from lines_of(export(program, None))


OTHERS = {"backend.CapturedRegion": of_region, "export.export": of_export}
DIMS = (0, 1, 1, 2, 3, 4, 64, 1 << 20, {"sym": ["SymInt", "s0", 4]})


def beside(made: Mapping[str, Any], rng: Random) -> dict[str, Any]:
    """A graph beside another one, with other arguments, forms or readers; PyTorch may not make such a graph."""
    other: dict[str, Any] = json.loads(json.dumps({**made, "beside": True}))
    nodes = other["nodes"]
    calls = [node for node in nodes if node[1] == "call_function"]
    inner = [node for node in nodes if node[1] != "output"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        match rng.randrange(9):
            case 0 if calls:  # another number
                node = rng.choice(calls)
                places = [place for place, one in enumerate(node[3]) if type(one) in (int, bool, list)]
                if places:
                    place = rng.choice(places)
                    node[3][place] = aten_calls._changed(node[3][place], rng)
            case 1 if calls:  # another source
                node = rng.choice(calls)
                places = [place for place, one in enumerate(node[3]) if type(one) is dict and "node" in one]
                before = inner[: [one[0] for one in inner].index(node[0])]
                if places and before:
                    node[3][rng.choice(places)] = {"node": rng.choice(before)[0]}
            case 2:  # another data type, everywhere
                tensors = _tensors_of(nodes)
                if tensors:
                    old, new = rng.choice(tensors)[0], rng.choice(aten_calls.DTYPES_BESIDE)
                    for tensor in tensors:
                        tensor[0] = new if tensor[0] == old else tensor[0]
            case 3:  # of one tensor
                tensors = _tensors_of([rng.choice(inner)])
                if tensors:
                    rng.choice(tensors)[0] = rng.choice(aten_calls.DTYPES_BESIDE)
            case 4:  # another size, everywhere
                tensors = _tensors_of(nodes)
                sizes = [dim for one in tensors for dim in one[1] if type(dim) is int]
                if sizes:
                    old, new = rng.choice(sizes), rng.choice(DIMS)
                    for tensor in tensors:
                        tensor[1] = [new if dim == old else dim for dim in tensor[1]]
                        if type(new) is int:
                            plain = [dim if type(dim) is int else 4 for dim in tensor[1]]
                            order = sorted(range(len(plain)), key=lambda axis: -_plain(tensor[2][axis]))
                            tensor[2] = [*own.strides_of(plain, order)]
            case 5:  # other strides, of one tensor
                tensors = [one for one in _tensors_of([rng.choice(inner)]) if one[1]]
                if tensors:
                    tensor = rng.choice(tensors)
                    axis = rng.randrange(len(tensor[1]))
                    tensor[2] = rng.choice(
                        (tensor[2][::-1], [*tensor[2][:axis], rng.choice((0, 1, 2)), *tensor[2][axis + 1 :]])
                    )
            case 6 if nodes[-1][1] == "output":  # other results
                (held,) = nodes[-1][3]
                results = next(iter(held.values())) if type(held) is dict and "tuple" in held else held
                if type(results) is list:
                    if results and rng.randrange(2):
                        results.pop(rng.randrange(len(results)))
                    else:
                        results.insert(rng.randrange(len(results) + 1), {"node": rng.choice(inner)[0]})
            case 7:  # another context
                context = other.get("context")
                if context:
                    context["num_forward"] = max(0, context["num_forward"] + rng.choice((-1, 1)))
                    context["written"] = [one is not (not rng.randrange(3)) for one in context["written"]]
            case 8:  # other arguments of the function
                other["args"] = [_other(one, rng, inner) for one in other["args"]]
                other["kwargs"] = {key: _other(one, rng, inner) for key, one in other["kwargs"].items()}
    return other


def _plain(size: Any) -> int:
    return size if type(size) is int else 4


def _other(value: Any, rng: Random, nodes: Sequence[Any]) -> Any:
    """Another argument of a function beside the graph."""
    if type(value) is bool:
        return value is not (not rng.randrange(2))
    if type(value) is str:
        return value if rng.randrange(2) else rng.choice(("inference", "forward", "backward"))
    if type(value) is not dict or rng.randrange(2):
        return value
    ((kind, held),) = value.items()
    if kind in ("set", "map") and held and rng.randrange(2):
        return {kind: held[:-1]}
    if kind == "set":
        return {kind: [*held, {"node": rng.choice(nodes)[0]}]}
    if kind == "options":
        more = {"fallback": "error", "prepare": False, "frozen": True, "threads": 3, "smallest": rng.choice((1, 2, 4))}
        more |= {"reproducible": True, "finite_math": True, "new_sizes": "eager"}
        name = rng.choice([*more])
        return {kind: {**held, name: more[name]}}
    return value


def _tensors_of(nodes: Sequence[Any]) -> list[Any]:
    """The texts of the tensors that nodes return."""
    return [one for node in nodes for one in aten_calls._tensors(node[5])]
