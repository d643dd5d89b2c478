"""Things made of draws by number, each as lines of text: graphs of models, gradients, files, reports.

Few of the numbers are kept, in tests/recorded/chosen.txt: those that decide conditions of the package which no other
test decides. ``python -m tests.conditions.choose`` looks for them.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.frontends.onnx.precision import narrowed
from onegraph.inference.infer import infer_op
from onegraph.lowering.computed_shapes import known_parts
from onegraph.lowering.emitter import Emitter
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import BASE, EDITIONS, HOST, edition
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools.python_code import to_python
from onegraph.transform.widen import widened
from tests.lowering import test_recorded_graphs as recorded

from . import host_cases
from .gradient_cases import BASE_CASES, FLOATS, HOST_CASES
from .graphs import graph_of_case
from .neighbours import attributes_beside, bounds_of, neighbours
from .recorded import numbers_of
from .wider_graphs import wider

CHOSEN = Path(__file__).parents[1] / "recorded" / "chosen.txt"
WORDS = "onednn-3.13"
BOUNDS = (1, 2, 3, 4)


class Material(NamedTuple):
    """What can be drawn.

    Attributes:
        names: of what is drawn.
        lines: the lines of a name and a number.
        needs: a package that it takes.
        version: the first numbers of that of the library whose words it has; empty if it has none.
    """

    names: Callable[[], Iterable[str]]
    lines: Callable[[str, int], list[str]]
    needs: str = ""
    version: tuple[int, ...] = ()


MATERIALS: dict[str, Material] = {}


def material(
    names: Callable[[], Iterable[str]], needs: str = "", version: tuple[int, ...] = ()
) -> Callable[[Any], Any]:
    """Enter a function that makes lines of a name and a number."""

    def enter(lines: Callable[[str, int], list[str]]) -> Callable[[str, int], list[str]]:
        @wraps(lines)
        def without_warnings(name: str, number: int) -> list[str]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pytest makes errors of them
                return lines(name, number)

        MATERIALS[lines.__name__] = Material(names, without_warnings, needs, version)
        return without_warnings

    return enter


def chosen(name: str) -> dict[str, list[int]]:
    """The numbers of a material that are kept, by what is drawn."""
    found = {}
    for line in CHOSEN.read_text().splitlines():
        whole, _, numbers = line.rpartition(": ")
        if whole.partition(": ")[0] == name:
            found[whole.partition(": ")[2]] = [*map(int, numbers.split())]
    return found


def choose(name: str, kept: Mapping[str, Iterable[int]]) -> None:
    """Keep other numbers of a material."""
    lines = [line for line in CHOSEN.read_text().splitlines() if line.partition(": ")[0] != name]
    lines += [f"{name}: {one}: {' '.join(map(str, numbers))}" for one, numbers in kept.items()]
    CHOSEN.write_text("".join(f"{line}\n" for line in sorted(lines)))


@cache
def cases_by_kind() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for case in CASES:
        found.setdefault(case.kind, []).append(case)
    return found


@cache
def host_cases_by_kind() -> dict[str, list[host_cases.HostCase]]:
    found: dict[str, list[host_cases.HostCase]] = {}
    for case in host_cases.cases():
        found.setdefault(case.kind, []).append(case)
    return found


def every_kind() -> Iterator[str]:
    yield from cases_by_kind()
    yield from (f"host {kind}" for kind in host_cases_by_kind())


def graph_of(name: str, drawn: Random) -> og.Graph:
    """A graph of a case of a kind of op, or one beside it."""
    if name.startswith("host "):
        graph = host_cases.graph_of(drawn.choice(host_cases_by_kind()[name[5:]]))[0]
    else:
        graph = graph_of_case(drawn.choice(cases_by_kind()[name]))
    return wider(graph, drawn)


def kinds_of_nodes() -> list[str]:
    from . import onnx_ml_nodes, onnx_nodes

    return sorted({*onnx_nodes.CASES, *onnx_ml_nodes.CASES})


@cache
def op_sets(kind: str) -> tuple[str, list[int]]:
    """The domain of a kind of node, and the op sets that have it."""
    import onnx

    from . import onnx_ml_nodes

    found = [one for one in onnx.defs.get_all_schemas_with_history() if one.name == kind]
    domain, since = found[0].domain, min(one.since_version for one in found)
    last = onnx.defs.onnx_opset_version()
    every = range(max(since, 3), 6) if domain == onnx_ml_nodes.ML else range(max(since, 7), last + 1)
    return domain, [one for one in every if not onnx.defs.get_schema(kind, one, domain).deprecated]


def node(kind: str, drawn: Random) -> Any:
    """A model of one node."""
    from . import onnx_ml_nodes, onnx_nodes

    domain, versions = op_sets(kind)
    opset = drawn.choice(versions)
    form = drawn.choice(({}, {}, {"is_open": True}, {"has_ranks": False}))
    rng = np.random.default_rng(drawn.randrange(2**32))
    case = {**onnx_nodes.CASES, **onnx_ml_nodes.CASES}[kind](onnx_nodes.Draw(rng, kind, opset, domain))
    return onnx_nodes.model_of(case, opset, **form)[0]


@material(kinds_of_nodes, needs="onnx")
def loaded_nodes(name: str, number: int) -> list[str]:
    """Nodes of any op set, loaded and saved."""
    return recorded.outcome(recorded.loaded_and_saved, node(name, Random(f"{name} {number}")))


@material(kinds_of_nodes, needs="onnx")
def damaged_nodes(name: str, number: int) -> list[str]:
    """Nodes with one or two fields that are others."""
    drawn = Random(f"{name} {number}")
    return recorded.damaged(node(name, drawn), drawn)


@cache
def known_models() -> dict[str, Any]:
    """Models of tests by name, those with forms that become one op, and those of ONNX Runtime's nodes."""
    from base64 import b64decode
    from zlib import decompress

    import onnx

    from .onnx_patterns import HEADS, PATTERNS, heads, model

    found = {}
    for line in recorded.KEPT_MODELS.read_text().splitlines():
        name, _, packed = line.rpartition(": ")
        found[name] = onnx.ModelProto.FromString(decompress(b64decode(packed)))
    found |= {key: model(one) for key, one in PATTERNS.items()} | {key: heads(key) for key in HEADS}
    return found | {f"packed {place}": one for place, one in enumerate(recorded.packed_models())}


@material(known_models, needs="onnx")
def damaged_models(name: str, number: int) -> list[str]:
    """Models with one or two fields that are others."""
    return recorded.damaged(known_models()[name], Random(f"{name} {number}"))


@material(known_models, needs="onnx")
def models_beside(name: str, number: int) -> list[str]:
    """Models that lie one or two changes beside one."""
    import onegraph.onnx

    from .onnx_patterns import near_models

    drawn, proto = Random(f"{name} {number}"), known_models()[name]
    for _ in range(drawn.choice((1, 1, 2))):
        others = [*near_models(proto)]
        proto = drawn.choice(others) if others else proto
    return recorded.outcome(onegraph.onnx.load, proto)


def pattern_cases() -> Iterable[str]:
    from tests.lowering import test_near_patterns

    return [*test_near_patterns.CASES, *test_near_patterns.BESIDE]


@material(pattern_cases)
def rewritten_beside(name: str, number: int) -> list[str]:
    """What patterns make of graphs beside those that they take."""
    from tests.lowering import test_near_patterns as cases

    cases.RNG = np.random.default_rng(0)  # what was drawn before decides nothing
    plain = cases.built(name, with_patterns=False)
    return recorded.outcome(cases.rewritten, wider(plain, Random(f"{name} {number}")))


def lowering_cases() -> Iterable[str]:
    from tests.lowering import test_drawn_lowerings

    return test_drawn_lowerings.CASES


@material(lowering_cases)
def lowered(name: str, number: int) -> list[str]:
    """Drawn lowerings of tensors of known and of unknown dims."""
    from tests.lowering import test_drawn_lowerings as cases

    forms = ("known", "open")
    return [
        line
        for form in forms
        for line in recorded.outcome(cases.lowered, name, number, form, also=[recorded.NotLowered])
    ]


@material(lambda: ("chains",))
def rewritten_chains(name: str, number: int) -> list[str]:
    """What patterns make of chains of drawn ops."""
    from tests.lowering import test_drawn_chains as chains

    return recorded.outcome(chains.chain, number, with_patterns=True)


def some(drawn: Random, values: list[Any]) -> Any:
    """A value that was computed, or small numbers."""
    if drawn.random() < 0.65:
        return drawn.choice(values[-3:] if drawn.random() < 0.6 else values)
    few = [drawn.choice((0, 1, 1, 2, 2, 3, -1, 7)) for _ in range(drawn.choice((1, 1, 1, 2, 3)))]
    return np.array(few if drawn.random() < 0.7 else few[0], np.int64)


def one_number(drawn: Random) -> Any:
    return np.array([drawn.choice((-2, -1, 0, 0, 1, 1, 2, 2**31))], np.int64)


def as_float(drawn: Random, emit: Any, values: list[Any], wide: Any) -> Any:
    """A value that was computed as a float, or a number that may be no integer or one that f32 may not hold."""
    if drawn.random() < 0.7:
        return emit.op("Cast", [some(drawn, values)], {"saturate": True}, dtype=wide)
    number = drawn.choice((1.0, 2.0, 3.0, 0.0, 0.0, -1.0, -2.0, 0.5, 2.0**24, 2.0**24 - 1, float("inf")))
    return np.array([number] if drawn.random() < 0.7 else number, wide.numpy)


def quotient(drawn: Random, emit: Any, values: list[Any]) -> Any:
    wide = drawn.choice((og.f32, og.f32, og.DataType.float64))
    ends = [as_float(drawn, emit, values, wide) for _ in range(2)]
    made = emit.op(drawn.choice(("Divide", "Divide", "Divide", "Add", "Multiply")), ends, edition=HOST)
    kind = drawn.choice(("Ceil", "Ceil", "Floor", "Floor", "", "Clamp", "ReLU"))
    limits = {"min": drawn.choice((0.0, 1.0, 0.5, float("-inf"))), "max": drawn.choice((2.0, 9.0, float("inf")))}
    made = emit.op(kind, [made], limits if kind == "Clamp" else {}) if kind else made
    narrow = drawn.choice((og.s64, og.s64, og.s32, og.f32, og.f16))
    return emit.op("Cast", [made], {"saturate": True}, dtype=narrow)


def bounded(drawn: Random, emit: Any, values: list[Any]) -> Any:
    """Numbers within limits, as floats in between."""
    made = as_float(drawn, emit, values, og.f32)
    if drawn.random() < 0.3:
        made = emit.op(drawn.choice(("Add", "Multiply")), [made, as_float(drawn, emit, values, og.f32)], edition=HOST)
    ends = {"min": (0.0, 1.0, 2.0, 0.5, float("-inf"), -1.0), "max": (2.0, 3.0, 1.5, float("inf"), float("nan"))}
    attrs = {name: drawn.choice(numbers) for name, numbers in ends.items()}
    made = emit.op("Clamp", [made], attrs) if drawn.random() < 0.8 else emit.op("ReLU", [made])
    return emit.op("Cast", [made], {"saturate": True}, dtype=drawn.choice((og.s64, og.s64, og.s32)))


def of_rows(drawn: Random, emit: Any, values: list[Any]) -> Any:
    """Part of a matrix, or the matrix turned."""
    shape = np.array(drawn.choice(((2, -1), (-1, 2), (1, -1), (-1, 1), (-1,))), np.int64)
    src = emit.op("Reshape", [some(drawn, values), shape])
    if drawn.random() < 0.5:
        turned = emit.op("Transpose", [src], {"order": drawn.choice(([1, 0], [1, 0], [0, 1], [0], []))})
        return emit.op("Reshape", [turned, np.array([-1])]) if drawn.random() < 0.7 else turned
    ends = [np.array([drawn.choice((0, 0, 1, -1))]), np.array([drawn.choice((1, 2, -1, 2**31))])]
    part = emit.op("Slice", [src, *ends, np.array([drawn.choice((0, 1, -1, -2))])])
    return emit.op("Reshape", [part, np.array([-1])]) if drawn.random() < 0.7 else part


def sliced(drawn: Random, emit: Any, values: list[Any]) -> Any:
    ends = [one_number(drawn) for _ in range(drawn.choice((2, 3, 3, 4)))]
    ends[2:3] = [np.array([drawn.choice((0, 0, 1, -1))], np.int64)] * len(ends[2:3])
    return emit.op("Slice", [some(drawn, values), *ends])


ORDERS = ("Equal", "Greater", "Less")
SHAPE_STEPS: dict[str, Callable[[Random, Any, list[Any]], Any]] = {
    "pair": lambda drawn, emit, values: emit.op(
        drawn.choice(("Add", "Subtract", "Subtract", "Multiply", "Divide", "Mod", "Maximum", "Minimum")),
        [some(drawn, values), some(drawn, values)],
        edition=HOST,
    ),
    "choice": lambda drawn, emit, values: emit.op(
        "Where",
        [
            emit.op(
                drawn.choice(("Equal", "Greater", "Less")), [some(drawn, values), some(drawn, values)], edition=HOST
            ),
            *(some(drawn, values) for _ in range(2)),
        ],
        edition=HOST,
    ),
    "quotient": quotient,
    "bounded": bounded,
    "rows": of_rows,
    "slice": sliced,
    "gather": lambda drawn, emit, values: emit.op(
        "Gather", [some(drawn, values), some(drawn, values)], {"axis": 0}, edition=HOST
    ),
    "join": lambda drawn, emit, values: emit.op(
        "Concat", [some(drawn, values), some(drawn, values)], {"axis": drawn.choice((0, 0, 1))}, edition=HOST
    ),
    "shape": lambda drawn, emit, values: emit.op(
        "Reshape", [some(drawn, values), np.array(drawn.choice(((-1,), (1, -1), (-1, 1), (2, -1))), np.int64)]
    ),
    "turn": lambda drawn, emit, values: emit.op(
        "Transpose", [some(drawn, values)], {"order": drawn.choice(([0], [1, 0], [0, 1]))}
    ),
    "product": lambda drawn, emit, values: emit.op(
        "ReduceProd", [some(drawn, values), None], {"axes": [drawn.choice((0, -1))], "keep_dims": drawn.random() < 0.5}
    ),
}


@material(lambda: SHAPE_STEPS)
def computed(name: str, number: int) -> list[str]:
    """What is known of numbers that are computed of a shape; ``name`` is the last step."""
    drawn = Random(f"{name} {number}")
    graph, sizes = og.Graph(), [drawn.choice((1, 2, 2, 3, 4, 6)) for _ in range(drawn.choice((1, 2, 3, 4)))]
    emit = Emitter(graph)
    src = graph.input("x", "f32", [dim if drawn.random() < 0.6 else None for dim in sizes])
    values = [emit.op("Shape", [src]), emit.op("Size", [src])]
    for step in [*(drawn.choice([*SHAPE_STEPS]) for _ in range(drawn.choice((1, 3, 5)))), name]:
        with suppress(OneGraphError, ValueError, RuntimeWarning):
            values += [one for one in [SHAPE_STEPS[step](drawn, emit, values)] if isinstance(one, og.LogicalTensor)]
    for place, one in enumerate(values):
        graph.output(f"y{place}", one)
    known = [known_parts(emit, one) for one in values]
    with suppress(OneGraphError), np.errstate(all="ignore"):
        found = og.reference.run(graph, {"x": np.zeros(sizes, np.float32)})
        for parts, array in zip(known, found.values(), strict=True):
            assert parts is None or len(parts) == array.size
            pairs = zip(parts or (), array.reshape(-1).tolist(), strict=False)
            assert all(part in (None, right) for part, right in pairs), (name, number, parts, array)
    return [str(parts) for parts in known]


def differentiable() -> list[str]:
    return [*dict.fromkeys(f"{one.kind}" for one in (*BASE_CASES, *HOST_CASES))]


@material(differentiable)
def differentiated(name: str, number: int) -> list[str]:
    """Gradients of graphs beside a case of an op."""
    drawn = Random(f"{name} {number}")
    case, words = drawn.choice([one for one in recorded.DIFFERENTIATED if one[0].kind == name])
    graph = og.Graph()
    ends = [
        None
        if array is None
        else graph.input(f"x{place}", OF_NUMPY[array.dtype], array.shape)
        if OF_NUMPY[array.dtype] in FLOATS
        else graph.constant(array, dtype=OF_NUMPY[array.dtype])
        for place, array in enumerate(case.inputs)
    ]
    given = {key: one for key, one in (("dtype", case.dtype), ("outputs", getattr(case, "outputs", None))) if one}
    made = graph.op(case.kind, ends, case.attrs, edition=words, **given)
    for place, one in enumerate(made if isinstance(made, tuple) else (made,)):
        if one is not None:
            graph.output(f"y{place}", one)
    return recorded.outcome(with_gradients, wider(graph, drawn), drawn)


def with_gradients(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph with the gradients of its results by its inputs, also those of the gradients."""
    results = [one for one in graph.outputs.values() if one.dtype in FLOATS]
    of = [one for one in graph.inputs.values() if one.dtype in FLOATS]
    for _ in range(drawn.choice((1, 1, 2))):
        results = [one for one in graph.gradient(results, of) if one is not None]
    for place, one in enumerate(results):
        graph.output(f"d{place}", one)
    return graph


@material(every_kind)
def examined(name: str, number: int) -> list[str]:
    """What is said of uses of an op that lie one or two changes beside a case."""
    drawn, kind = Random(f"{name} {number}"), name.removeprefix("host ")
    is_host = kind != name
    case = drawn.choice(host_cases_by_kind()[kind] if is_host else cases_by_kind()[kind])
    words = edition(HOST) if is_host else drawn.choice([one for one in map(edition, EDITIONS) if kind in one.schemas])
    types = tuple(None if array is None else recorded.type_of(array) for array in case.inputs)
    attrs = case.attrs
    for _ in range(drawn.choice((1, 1, 2))):
        others = [(attrs, given) for given in neighbours(types, BOUNDS)]
        others += [(attrs, given) for given in recorded.less_known(types)]
        if kind in words.schemas:
            others += [(given, types) for given in attributes_beside(words.schema(kind), attrs, BOUNDS)]
        attrs, types = drawn.choice(others or [(attrs, types)])
    return recorded.outcome(said, kind, attrs, types, words)


def said(kind: str, attrs: Any, types: Any, words: Any) -> list[str]:
    found = infer_op(kind, attrs, [*types], edition=words)
    told = [(one.rule, one.where, one.message) for one in found.violations]
    return [f"{found.shapes} {found.dtypes} {told}"]


@material(cases_by_kind)
def translated(name: str, number: int) -> list[str]:
    """Uses of an op in the words of another edition, and of a third one; tensors have all forms that a call takes."""
    drawn = Random(f"{name} {number}")
    op = graph_of_case(drawn.choice(cases_by_kind()[name])).ops[-1]
    attrs = drawn.choice([*attributes_beside(BASE[name], op.attrs, BOUNDS)] or [op.attrs])
    attrs = attrs if drawn.random() < 0.3 else op.attrs
    inputs, outputs = ([end_of(one, drawn) for one in ends] for ends in (op.inputs, op.outputs))
    use = name, attrs, drawn.choice((inputs, inputs, [])), drawn.choice((outputs, outputs, None))
    lines, source = list[str](), WORDS
    for target in drawn.sample(("legacy-1",) * 6 + EDITIONS, 2):
        try:
            made = og.translate(*use, source=source, target=target)
        except OneGraphError as error:
            return [*lines, f"{type(error).__name__}: {error}"]
        ends = (*made.inputs, *made.outputs)
        values = [numbers_of(one.value) for one in ends if getattr(one, "value", None) is not None]
        lines.append(f"{made} {values}")
        if made.kind is None:
            break
        use, source = (made.kind, made.attrs, made.inputs, made.outputs or None), target
    return lines


def end_of(tensor: Any, drawn: Random) -> Any:
    """A tensor in a form that a translation takes, maybe with less known of it."""
    if tensor is None or tensor.shape is None or drawn.random() < 0.2:
        return tensor if drawn.random() < 0.9 else None
    dims = tuple(dim if drawn.random() < 0.6 else None for dim in tensor.shape)
    known = [dim or 1 for dim in tensor.shape]
    order = drawn.sample(range(len(known)), len(known))
    steps = np.empty([known[axis] for axis in order], np.int8).transpose(np.argsort(order)).strides
    array = np.arange(math.prod(known)).reshape(known).astype(tensor.dtype.numpy)
    forms = [(tensor.dtype, one) for one in (tensor.shape, tensor.shape, dims, None)]
    forms += [og.LogicalTensor(7, *form, name="x") for form in forms]
    forms += [og.LogicalTensor(7, tensor.dtype, tensor.shape, steps, "x")]
    forms += [og.LogicalTensor(7, tensor.dtype, tensor.shape, None, "x", one) for one in (array, tensor.value)]
    return drawn.choice([*forms, array])


@material(every_kind, needs="onnx")
def saved(name: str, number: int) -> list[str]:
    """Graphs beside a case of an op as nodes of ONNX."""
    return recorded.outcome(recorded.nodes_of, graph_of(name, Random(f"{name} {number}")))


@material(every_kind)
def checked(name: str, number: int) -> list[str]:
    """Reports of graphs beside a case of an op."""
    drawn = Random(f"{name} {number}")
    library = drawn.choice(("3.2@avx2", "3.2@avx512_core", "3.0", "3.4", "3.13@avx512_core_amx"))
    return recorded.outcome(reported, graph_of(name, drawn), drawn.choice([*EDITIONS]), library)


def reported(graph: og.Graph, words: str, library: str) -> str:
    told = og.check_graph(graph, edition=words, library=library)
    return "\n".join([told._repr_html_(), *(f"{one.rule} {one.message}" for one in told)])


FEW = (0.0, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 7.0, 127.0, float("inf"), float("nan"))


@material(every_kind)
def results_of_few(name: str, number: int) -> list[str]:
    """Results of an op in numpy for numbers at which functions bend, such as 0 and those of its attributes."""
    drawn = Random(f"{name} {number}")
    if name.startswith("host "):
        graph = host_cases.graph_of(drawn.choice(host_cases_by_kind()[name[5:]]))[0]
    else:
        graph = graph_of_case(drawn.choice(cases_by_kind()[name]))
    given = [value for op in graph.ops for value in op.attrs.values() if type(value) in (int, float)]

    def made() -> list[str]:
        arrays = random_inputs(graph, drawn.randrange(3))
        for key, array in arrays.items():
            if array.size and array.dtype.kind in "fiubV" and drawn.random() < 0.7:
                arrays[key] = array = array.copy()
                numbers = [drawn.choice((*FEW, *given, *given)) for _ in range(min(array.size, 40))]
                few = np.nan_to_num(numbers, nan=5, posinf=9) if array.dtype.kind in "iub" else np.array(numbers)
                array.reshape(-1)[: len(numbers)] = few.astype(array.dtype)
        return [numbers_of(one) for one in og.reference.run(graph, arrays).values()]

    with np.errstate(all="ignore"):
        return recorded.outcome(made)


def drawn_graph(name: str, number: int) -> tuple[og.Graph, Random]:
    drawn = Random(f"{name} {number}")
    dtypes = ("f32", drawn.choice(("f16", "bf16")))
    if drawn.random() < 0.5:
        return wider(random_graph(number, drawn.choice((3, 8)), dtypes=dtypes), drawn), drawn
    return graph_of(drawn.choice([*every_kind()]), drawn), drawn


def with_some(graph: og.Graph, drawn: Random) -> og.Graph:
    arrays = random_inputs(graph, seed=1)
    return graph.with_constants({name: arrays[name] for name in arrays if drawn.random() < 0.6})


EDITS: dict[str, Callable[[og.Graph, Random], object]] = {
    "constants": with_some,
    "variables": lambda graph, drawn: with_some(graph, drawn).with_variables(),
    "inference": lambda graph, drawn: with_some(graph, drawn).with_variables().for_inference(),
    "shapes": lambda graph, drawn: graph.specialise(
        {
            name: [(dim or 0) + (drawn.random() < 0.1) if drawn.random() < 0.95 else None for dim in one.shape]
            for name, one in graph.inputs.items()
            if one.shape is not None and drawn.random() < 0.9
        }
    ),
    "f32": lambda graph, drawn: widened(graph, [og.f16, og.bf16]),
    "narrow": lambda graph, drawn: narrowed(graph) if all(op.outputs for op in graph.ops) else graph,
    "translation": lambda graph, drawn: og.translate_graph(graph, drawn.choice([*EDITIONS])),
    "JSON": lambda graph, drawn: graph.to_json(for_version=drawn.choice(recorded.VERSIONS)),
    "Python": lambda graph, drawn: to_python(graph),
    "dot": lambda graph, drawn: graph.to_dot(),
    "compressed": lambda graph, drawn: og.compress_weights(with_some(graph, drawn), drawn.choice(("int4", "int8"))),
}


@material(lambda: EDITS)
def edited(name: str, number: int) -> list[str]:
    """Random graphs with other contents, sizes, types or words, and as texts."""
    graph, drawn = drawn_graph(name, number)
    return recorded.outcome(EDITS[name], graph, drawn)


@material(lambda: ("files",))
def read(name: str, number: int) -> list[str]:
    """Files of random graphs with one or two values that are left out or others."""
    graph, drawn = drawn_graph(name, number)
    form = json.loads(graph.to_json())
    for _ in range(drawn.choice((1, 1, 2))):
        place = drawn.choice([*recorded.places_in(form)])
        form = recorded.with_other(form, place, drawn.choice((recorded.LEFT_OUT, *recorded.OTHERS)))
    return recorded.outcome(og.Graph.from_json, json.dumps(form))


@cache
def faults() -> dict[str, Any]:
    """The faults that a condition tells of, by name."""
    from onegraph.faults.api import API
    from onegraph.faults.catalogue import CATALOGUE

    return {fault.name: fault for one in CATALOGUE.values() for fault in one if fault not in API and fault.examples}


@material(faults)
def beside_faults(name: str, number: int) -> list[str]:
    """Whether the conditions of a fault hold for what lies some changes beside its examples."""
    from tests.faults.test_fault_conditions import verdict

    from .fault_subjects import graph_of as graph_of_example
    from .fault_subjects import subjects

    fault, drawn = faults()[name], Random(f"{name} {number}")
    graph = graph_of_example(drawn.choice(fault.examples).build)
    if drawn.random() < 0.5:
        graph = wider(graph, drawn)
    found, bounds = subjects(fault, graph), bounds_of(fault)
    if not found:
        return []
    subject = drawn.choice(found)
    for _ in range(drawn.choice((0, 1, 1, 2, 3))):
        others = [*islice(neighbours(subject, bounds), 400)]
        subject = drawn.choice(others or [subject])
    return [verdict(condition, subject) for condition in (fault.when, fault.certain) if condition is not None]


@material(faults)
def around_faults(name: str, number: int) -> list[str]:
    """Whether the conditions of a fault hold for what lies further around its examples, with changes that fit."""
    from tests.faults.test_fault_conditions import verdict

    subject, fault = around_fault(name, number), faults()[name]
    return [verdict(condition, subject) for condition in (fault.when, fault.certain) if condition is not None]


KNOWN = 1000  # of the draws around faults, the first ones whose ranks may all be unknown


def around_fault(name: str, number: int) -> Any:
    """The drawn subject of a fault."""
    from .around import around, less_known
    from .fault_subjects import graph_of as graph_of_example
    from .fault_subjects import subjects

    fault, drawn = faults()[name], Random(f"{name} {number}")
    found = subjects(fault, graph_of_example(drawn.choice(fault.examples).build))
    subject, bounds = drawn.choice(found or [None]), bounds_of(fault)
    if number >= KNOWN and drawn.random() < 0.15:
        subject = less_known(subject, drawn)
    for _ in range(drawn.choice((1, 1, 2, 2, 3, 4, 6)) if found else 0):
        with suppress(OneGraphError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
            subject = around(subject, bounds, drawn)
    return subject


def programs() -> dict[str, Callable[[], object]]:
    from . import fault_bounds, fault_programs, text_programs  # noqa: F401  # they add programs
    from .small_programs import PROGRAMS

    return PROGRAMS


@material(programs)
def made_by_programs(name: str, number: int) -> list[str]:
    """What small programs make or say; the number changes nothing."""
    return recorded.outcome(programs()[name])


from . import (  # noqa: E402, F401  # they add materials
    drawn_arrays,
    drawn_aten,
    drawn_by_library,
    drawn_calls,
    drawn_commands,
    drawn_compressions,
    drawn_conformance,
    drawn_edits,
    drawn_files,
    drawn_fusions,
    drawn_gradients,
    drawn_handles,
    drawn_judges,
    drawn_layers,
    drawn_loops,
    drawn_numbers,
    drawn_open_calls,
    drawn_oracles,
    drawn_patterns,
    drawn_pictures,
    drawn_quantization,
    drawn_reports,
    drawn_resizes,
    drawn_runs,
    drawn_saves,
    drawn_tools,
    drawn_training,
    drawn_uses,
    drawn_windows,
)
