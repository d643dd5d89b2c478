"""Calls of ATen ops as texts, and the lowerings of the front end for PyTorch without PyTorch.

``tests.torch_backend.keep_calls`` writes the calls that the tests with PyTorch lower. Here stand-ins for the classes of
PyTorch bring them back: data types, tensors without memory, nodes of graphs. The modules that lower are imported a
second time with the stand-ins, so that a process may have PyTorch too.
"""

from __future__ import annotations

import base64
import importlib
import json
import operator
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from onegraph._util.size_symbols import OpenSizes
from onegraph.errors import OneGraphError
from onegraph.graph import Graph
from onegraph.ir.op import LogicalTensor
from onegraph.lowering.emitter import Emitter, NotLowered
from onegraph.lowering.open_values import OpenInputs
from onegraph.opset.kinds import HOST_UNARY
from tests.helpers import torch_stand_in as own
from tests.helpers.recorded import lines_of
from tests.helpers.torch_stand_in import Dtype, Named, Node, Target, Tensor, drawn

CALLS = Path(__file__).parents[1] / "recorded" / "aten_calls.txt"
FRONT = "onegraph.frontends.torch"
GIVEN = 64  # elements of the largest array that a text has; larger ones have drawn contents


def stand_ins() -> dict[str, ModuleType]:
    """Modules in the place of those of PyTorch."""
    passes = importlib.import_module("tests.helpers.aten_passes")
    Target.traits = passes.kept()["traits"]
    missing = {kind.lower() for kind in HOST_UNARY} - {*kept()["aten"]}
    Target.arguments, Target.decoded = kept()["targets"], staticmethod(decoded)
    return own.modules(missing)


@contextmanager
def replaced() -> Iterator[None]:
    """Have the stand-ins imported, and the modules of the front end anew."""
    package = importlib.import_module("onegraph.frontends")

    def ours() -> list[str]:
        return [
            name
            for name in sys.modules
            if name.partition(".")[0] in ("torch", "sympy") or f"{name}.".startswith(f"{FRONT}.")
        ]

    before, known = {name: sys.modules.pop(name) for name in ours()}, vars(package).get("torch")
    sys.modules.update(stand_ins())
    try:
        yield
    finally:
        for name in ours():
            del sys.modules[name]
        sys.modules.update(before)
        if known is None:
            vars(package).pop("torch", None)
        else:
            package.torch = known  # type: ignore[attr-defined]


@cache
def modules() -> Mapping[str, Any]:
    """The modules of the front end with the stand-ins, by their names in it."""
    with replaced():
        for name in ("backend", "export", "judge", "registered"):
            importlib.import_module(f"{FRONT}.{name}")
        return {name.removeprefix(f"{FRONT}."): one for name, one in sys.modules.items() if name.startswith(FRONT)}


def front_end() -> Any:
    """The module that lowers calls, with the stand-ins."""
    return modules()["lowering"]


@cache
def kept() -> Mapping[str, Any]:
    """The calls: ``targets``, the arguments of each op; ``aten``, names that PyTorch has; and ``graphs``."""
    return unpacked(CALLS) if CALLS.exists() else {"targets": {}, "aten": [], "graphs": []}


def unpacked(path: Path) -> Mapping[str, Any]:
    """What a file of ``keep`` has."""
    found: Mapping[str, Any] = json.loads(zlib.decompress(base64.b85decode(path.read_text().replace("\n", ""))))
    return found


def keep(found: Mapping[str, Any], path: Path = CALLS) -> None:
    """Write the calls."""
    text = base64.b85encode(zlib.compress(json.dumps(found).encode(), 9)).decode()
    path.write_text("\n".join(text[place : place + 120] for place in range(0, len(text), 120)) + "\n")


def decoded(value: Any, nodes: Mapping[str, Node] | None = None, symbols: Sequence[Any] = ()) -> Any:
    """A value of a text."""
    if type(value) is list:
        return [decoded(one, nodes, symbols) for one in value]
    if type(value) is not dict:
        return value
    ((kind, held),) = value.items()
    match kind:
        case "tuple":
            return tuple(decoded(one, nodes, symbols) for one in held)
        case "node":
            assert nodes is not None
            return nodes[held]
        case "number":
            return float(held)
        case "complex":
            return complex(*held)
        case "dtype":
            return Dtype(held)
        case "named":
            return Named(held)
        case "op":
            return own.OPS.target(held)
        case "size":
            return eval(held, {"s": symbols})
        case "tensor":
            dtype, *ends = (decoded(one, nodes, symbols) for one in held)
            return Tensor(Dtype(dtype), *ends)
        case "array":
            dtype, shape, numbers = held
            return np.array(numbers).astype(bfloat16 if dtype == "bfloat16" else dtype).reshape(shape)
        case "drawn":
            return drawn(*held)
    raise AssertionError(kind)


class Module:
    """A graph that is an argument of a call, or a whole one.

    Args:
        made: the graph as a text.
        symbols: the open sizes.
    """

    def __init__(self, made: Mapping[str, Any], symbols: Sequence[Any]) -> None:
        self.nodes: dict[str, Node] = {}
        self.graph = own.Graph()
        for name, op, target, args, kwargs, like, *bodies in made["nodes"]:
            node = Node(op, name, self._target(op, target), decoded(args, self.nodes, symbols))
            node.kwargs = {key: decoded(one, self.nodes, symbols) for key, one in kwargs.items()}
            node.meta["val"] = decoded(like, self.nodes, symbols)
            for modules in bodies:
                node.meta["onegraph_bodies"] = {key: Module(one, symbols) for key, one in modules.items()}
            for place in made.get("read", {}).get(name, ()):
                Node("call_function", "", operator.getitem, [node, place])
            self.nodes[name] = self.graph.add(node)

    @staticmethod
    def _target(op: str, target: str) -> Any:
        if op != "call_function":
            return target
        if target == "getitem":
            return operator.getitem
        return own.OPS.target(target) if target in kept()["targets"] else own.higher(target)


def replayed(made: Mapping[str, Any]) -> list[str]:
    """The lines of the graph of some calls, or why there is none."""
    sizes = OpenSizes(made.get("sizes", ()))
    module = Module(made, sizes.symbols)
    nodes, lowering = module.nodes, front_end()
    known = {nodes[name]: decoded(one, None, sizes.symbols) for name, one in made.get("known", {}).items()}
    metas = {node: node.meta["val"] for node in module.graph.nodes}
    opened = OpenInputs() if made.get("opened") else None
    try:
        if "alone" in made:
            return [*_alone(nodes[made["alone"]], known, metas)]
        calls = [node for node in module.graph.nodes if node.op == "call_function" and node not in known]
        inputs, outputs = ([nodes[name] for name in made[ends]] for ends in ("inputs", "outputs"))
        lowered = lowering.lower_graph(
            calls, inputs, outputs, known, metas, dense=made.get("dense", False), opened=opened,
            labels={f"label_{place}": one for place, one in enumerate(known.values()) if hasattr(one, "shape")}
        )  # fmt: skip
    except (NotLowered, OneGraphError) as error:
        return [f"{type(error).__name__}: {error}"]
    except Exception as error:  # PyTorch refuses most calls that end so
        if "beside" not in made:
            raise
        return [type(error).__name__]
    recipes = [] if opened is None else [(name, one.kind, one.numbers) for name, one in opened.recipes.items()]
    return [*lines_of(lowered.graph), f"{lowered.inputs} {lowered.outputs} {recipes} {sizes.conditions()}"]


def _alone(call: Node, known: Mapping[Node, Any], metas: Mapping[Node, Any]) -> Iterator[str]:
    """The lines of a call that is tried alone: of the graph, and of its results."""
    front, graph = front_end(), Graph()
    values, emit = dict(known), Emitter(graph)
    for source in call.all_input_nodes:
        if source not in values and source.op != "get_attr":
            values[source] = _stand_in(graph, source.name, metas[source])
    results = front.lower_call(call, values, metas, emit)
    likes = metas[call] if type(metas[call]) in (list, tuple) else [metas[call]]
    for result, like in zip(results if type(results) in (list, tuple) else [results], likes, strict=False):
        if isinstance(result, (np.ndarray, LogicalTensor)):
            graph.output(f"result:{len(graph.outputs)}", emit.tensor(result))
            yield f"{result.shape} {hasattr(like, 'shape') and front.result_fits(result, like)}"
    yield from lines_of(graph)


def _stand_in(graph: Graph, name: str, like: Any) -> Any:
    if type(like) in (tuple, list):
        return [_stand_in(graph, f"{name}.{place}", one) for place, one in enumerate(like)]
    if not hasattr(like, "stride"):
        return like
    types = front_end()
    if like.dtype in types.PARTS_OF:
        return graph.input(name, types.PARTS_OF[like.dtype], [*like.shape, 2])
    return graph.input(name, types.DTYPES[like.dtype], like.shape)


OTHERS = (None, True, False, 0, 1, -1, 2, {"number": "0.5"}, {"number": "inf"}, [], [1], [0, 1], "mean", "floor")
DTYPES_BESIDE = ("float32", "bfloat16", "float16", "float64", "int32", "int64", "uint8", "bool", "complex64")


def beside(made: Mapping[str, Any], rng: Random) -> dict[str, Any]:
    """A call beside another one, with other arguments, data types or sizes; PyTorch may refuse it."""
    other: dict[str, Any] = json.loads(json.dumps({**made, "beside": True}))
    call, *_ = (node for node in other["nodes"] if node[0] == made["alone"])
    for _ in range(rng.choice((1, 1, 2))):
        match rng.randrange(5):
            case 0 | 1:
                arguments = kept()["targets"].get(call[2]) or [("",)]
                place = rng.randrange(len(arguments))
                held = [*call[3], *[call[4].get(name, *default) for name, *default in arguments[len(call[3]) :]]]
                held = [*held[:place], _changed(held[place] if place < len(held) else None, rng), *held[place + 1 :]]
                call[3], call[4] = held, {}
            case 2:
                tensors = [one for node in other["nodes"] for one in _tensors(node[5])]
                if tensors:
                    rng.choice(tensors)[0] = rng.choice(DTYPES_BESIDE)
            case 3:
                tensors = [one for node in other["nodes"] for one in _tensors(node[5])]
                sizes = [dim for one in tensors for dim in one[1]]
                if sizes:
                    old, size = rng.choice(sizes), rng.choice((1, 1, 2, 3))
                    for one in tensors:
                        one[1] = [size if dim == old else dim for dim in one[1]]
                        one[2] = [int(np.prod(one[1][place + 1 :])) for place in range(len(one[1]))]
            case 4:
                read = other.get("read", {}).get(made["alone"], [])
                if read:
                    other["read"][made["alone"]] = [rng.choice(read)]
    return other


def _changed(value: Any, rng: Random) -> Any:
    if type(value) is int and rng.randrange(3):
        return value + rng.choice((-1, 1))
    if type(value) is bool and rng.randrange(4):
        return not value
    if type(value) is list and value and rng.randrange(3):
        place = rng.randrange(len(value))
        other = [*value[:place], _changed(value[place], rng), *value[place + 1 :]]
        return rng.choice((other, value[1:], value[::-1]))
    return rng.choice(OTHERS)


def _tensors(like: Any) -> list[Any]:
    """The tensors of a text."""
    if type(like) is dict and "tensor" in like:
        return [like["tensor"]]
    several = like if type(like) is list else like.get("tuple", ()) if type(like) is dict else ()
    return [one for part in several for one in _tensors(part)]
