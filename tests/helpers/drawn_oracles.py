"""What computes and judges in tests: ops in numpy, noise of rounding, random graphs: materials of :mod:`draws`."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.opset.dtypes import OF_NUMPY, DataType
from onegraph.opset.editions.registry import BASE, EDITIONS, HOST, base_of, edition
from onegraph.reference.run import run_op
from onegraph.testing.calibrated_inputs import calibrated_inputs
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import DOMAINS, random_inputs
from onegraph.testing.recipes import Draw, recipe
from onegraph.testing.tolerance import EPSILONS, compare, disturbed, inexact, lowered, summed
from tests.lowering import test_recorded_graphs as recorded

from . import host_cases
from .draws import BOUNDS, every_kind, graph_of, host_cases_by_kind, kinds_of_nodes, material, op_sets
from .near_graphs import ALIKE
from .neighbours import attributes_beside
from .recorded import numbers_of

STORED = (*EPSILONS, DataType.s8, DataType.u8, DataType.s32, DataType.s64, DataType.boolean)
SHAPES = ((), (1,), (3,), (4,), (2, 3), (0, 2), (8, 8), (31,), (300,))
ENDS = (np.inf, -np.inf, np.nan, 0.0, 1e30, -1e30, 127.0, 255.0, 256.0, -129.0, 65504.0, 70000.0, 1e-39)
SHARES = (0.0, 0.5, 0.99, 1.0, 1.01, 2.0, 8.0)


def numbers(stored: DataType, shape: tuple[int, ...], drawn: Random) -> Any:
    """Numbers of a data type, in 64 bits."""
    rng = np.random.default_rng(drawn.randrange(2**32))
    if stored is DataType.boolean:
        return rng.random(shape) < 0.5
    made = np.asarray(rng.standard_normal(shape) * drawn.choice((1.0, 1.0, 40.0, 1e-3, 0.0)))
    return np.rint(made).astype(np.int64) if stored not in EPSILONS and drawn.random() < 0.6 else made


def near(exact: Any, stored: DataType, unit: float, drawn: Random) -> Any:
    """Numbers with errors of about a unit, of which some are no numbers."""
    rng, made = np.random.default_rng(drawn.randrange(2**32)), exact.copy()
    if made.dtype.kind == "f":
        scale = float(np.abs(np.nan_to_num(exact, posinf=0, neginf=0)).max(initial=0))
        errors = np.full(exact.shape, drawn.choice(SHARES) * unit * scale)
        made = made + np.where(rng.random(exact.shape) < drawn.choice((0.02, 0.3, 1.0)), errors, 0)
    elif made.dtype.kind == "i":
        made = made + np.where(rng.random(exact.shape) < drawn.choice((0.0, 0.1, 1.0)), drawn.choice((1, 1, -1, 2)), 0)
    elif made.size and drawn.random() < 0.5:
        made.flat[drawn.randrange(made.size)] ^= True
    return np.asarray(made)


def with_ends(arrays: list[Any], drawn: Random) -> None:
    """Let arrays have ends of ranges in some places, mostly all of them in one place."""
    for _ in range(drawn.choice((0, 0, 1, 1, 3)) if arrays[0].size else 0):
        place, end = drawn.randrange(arrays[0].size), drawn.choice(ENDS)
        for array in arrays:
            if array.dtype.kind == "f":
                array.flat[place] = end if drawn.random() < 0.7 else drawn.choice(ENDS)


def compared_once(drawn: Random) -> str:
    stored, shape = drawn.choice(STORED), drawn.choice(SHAPES)
    exact = numbers(stored, shape, drawn)
    unit = EPSILONS.get(stored, 2.0**-8) * drawn.choice((1.0, 4.0, 16.0, 0.1))
    other, result = near(exact, stored, unit, drawn), near(exact, stored, unit, drawn)
    with_ends([exact, other, result], drawn)
    other = exact if drawn.random() < 0.4 else other
    with np.errstate(all="ignore"):
        if result.dtype.kind == "f" and stored not in EPSILONS:
            result = np.nan_to_num(np.rint(result), posinf=1e9, neginf=-1e9)
        got = np.asarray(result).astype(stored.numpy)
    if drawn.random() < 0.04:
        got = got[..., None]
    dtype = lowered(stored, drawn.choice(("strict", "strict", "bf16", "f16", "tf32", "any")))
    found = compare("y", got, exact, other, dtype, rounded=drawn.random() < 0.5)
    ends = (found.max_error, found.mean_error, found.limit, found.got, found.expected)
    told = [f"{end:.4e}" for end in ends]
    more = (found.where, found.wrong, found.compared, found.is_proof)
    return f"{found.dtype} {found.shape} {found.agrees} {told} {more}"


def disturbed_once(drawn: Random) -> str:
    stored, shape = drawn.choice(STORED), drawn.choice(SHAPES)
    wide = numbers(stored, shape, drawn)
    with_ends([wide], drawn)
    with np.errstate(all="ignore"):
        values = np.asarray(np.nan_to_num(wide) if stored not in EPSILONS else wide).astype(stored.numpy)
    rng = np.random.default_rng(drawn.randrange(2**32))
    if drawn.random() < 0.2 and stored in EPSILONS:
        return numbers_of(inexact(values, drawn.choice((0.0, 1.0, 1000.0)), rng))
    dtype = lowered(OF_NUMPY[values.dtype], drawn.choice(("strict", "bf16", "tf32")))
    terms = drawn.choice((1, 1, 256, 257, 1024, 65536.0))
    return numbers_of(disturbed(values, dtype, rng, rounded=drawn.random() < 0.5, terms=terms))


def summed_once(drawn: Random) -> str:
    schema = BASE[drawn.choice(("MatMul", "Convolution", "ReduceSum", "Add", "SoftMax"))]
    sizes = [np.zeros(drawn.choice(((), (4,), (2, 8), (0, 3), (3, 4, 5)))) for _ in range(3)]
    return f"{schema.kind} {summed(schema, sizes[:2], sizes[2]):.6g}"


def drawn_graph(drawn: Random) -> str:
    """A random graph of some ops, types or words."""
    words = drawn.choice([*EDITIONS])
    kinds: Any = None
    if drawn.random() < 0.5:
        known = [*edition(words).schemas]
        kinds = drawn.sample(known, drawn.choice((1, 1, 2, 4)))
        kinds = [*drawn.choice(ALIKE)] if drawn.random() < 0.2 else kinds
    if drawn.random() < 0.05:
        kinds = drawn.choice(([], ["Nothing"], ["relu"], "ReLU", [5], 5, [None]))
    types: Any = drawn.sample([*DataType], drawn.choice((1, 2, 3)))
    types = drawn.choice((["f32"], ["f32", "s8", "u8", "bf16"], ["f32", "f16"], types))
    if drawn.random() < 0.05:
        types = drawn.choice(([], ["x"], "f32", None, [None]))
    count = drawn.choice((1, 1, 2, 5, 12, drawn.choice((0, 1, -1, 1.5, "3", True, None))))
    graph = random_graph(drawn.randrange(2**16), count, dtypes=types, kinds=kinds, edition=words)
    return "\n".join(recorded.lines_of(graph))


# Ops whose results saturate, overflow, leave a domain or keep the size of their inputs.
SIZED = ("Quantize", "Dequantize", "MatMul", "Exp", "Add", "Multiply", "Clamp", "ReduceSum", "Divide", "SoftMax", "Log")
SIZED = (*SIZED, "Sqrt", "Pow", "Subtract", "ReLU", "BiasAdd", "Select", "TypeCast", "Square", "Convolution", "Elu")


def calibrated_graph(drawn: Random) -> str:
    """Inputs for which the results of a chain of ops have the right size."""
    kinds = [*drawn.sample(SIZED, 4), *(("Quantize", "Dequantize") if drawn.random() < 0.4 else ("Exp", "Multiply"))]
    types = ("f32", drawn.choice(("s8", "u8", "f16", "bf16")))
    graph = random_graph(drawn.randrange(2**16), drawn.choice((2, 4, 6)), dtypes=types, kinds=[*dict.fromkeys(kinds)])
    arrays = calibrated_inputs(graph, drawn.randrange(3))
    return "\n".join(f"{name} {numbers_of(array)}" for name, array in arrays.items())


# Ops with inputs of a domain of their own, or with inputs that give a shape.
LIMITED = (*DOMAINS, "Pow", "SigmoidBackward", "TanhBackward", "EluBackward", "Dequantize", "ReduceMax", "ReduceSum")
LIMITED = (*LIMITED, "DynamicTranspose", "DynamicReshape", "Index", "Interpolate", "ConvolutionBackwardData", "Add")


def inputs_of_op(drawn: Random) -> str:
    """Inputs of an op, among them those that give a shape."""
    words = drawn.choice(("onednn-3.13", "legacy-1"))
    kind = drawn.choice([one for one in LIMITED if one in edition(words).schemas])
    types = ("f32", drawn.choice(("s8", "u8", "f16")))
    (op,) = random_graph(drawn.randrange(2**16), 1, dtypes=types, kinds=[kind], edition=words).ops
    graph, ends = og.Graph(words), []
    for place, end in enumerate(op.inputs):
        if end.value is not None and drawn.random() < 0.4:
            ends.append(graph.constant(end.value, dtype=end.dtype))
            continue
        ends.append(graph.input(f"x{place}", end.dtype, end.shape))
        if end.dtype is DataType.f32 and drawn.random() < 0.3:
            ends[-1] = graph.op("Reshape", [ends[-1], np.array(end.shape)], edition=HOST) if end.shape else ends[-1]
            ends[-1] = graph.op("Sqrt", [ends[-1]]) if drawn.random() < 0.5 else ends[-1]
    made = graph.op(op.kind, ends, op.attrs, dtype=op.outputs[0].dtype if op.outputs else None)
    for place, one in enumerate(made if isinstance(made, tuple) else (made,)):
        graph.output(f"y{place}", one)
    return "\n".join(f"{name} {numbers_of(one)}" for name, one in random_inputs(graph, drawn.randrange(3)).items())


def recipe_of_op(drawn: Random) -> str:
    """What a recipe draws for an op, of what is usual or of everything that is allowed."""
    schema = drawn.choice([*map(base_of, edition(drawn.choice(("onednn-3.13", "legacy-1"))).schemas.values())])
    row = drawn.choice(schema.types).types if schema.types else {}
    types, ranks = (
        {name: drawn.choice(sorted(choices, key=str)) for name, choices in row.items()},
        list[tuple[int, int]](),
    )

    def source(low: int, high: int) -> tuple[int, ...]:
        ranks.append((low, high))
        return tuple(drawn.choice((1, 2, 3, 4, 6)) for _ in range(drawn.randint(low, high)))

    drawing = Draw(drawn, schema, types, source, wide=drawn.random() < 0.6)
    given = [
        f"{one.dtype} {one.shape} {[] if one.value is None else one.value.tolist()}" for one in recipe(schema)(drawing)
    ]
    return f"{schema.kind} {ranks} {given} {drawing.attributes()}"


def arrays_beside(arrays: dict[str, Any], drawn: Random) -> Any:
    """Arrays for the inputs of a graph, of which some are missing, others or no arrays."""
    for _ in range(drawn.choice((0, 1, 1, 2))):
        name = drawn.choice([*arrays, "x0"])
        array = arrays.pop(name, None)
        array = array if isinstance(array, np.ndarray) else np.ones(2, np.float32)
        others = (
            array[..., None],
            array.astype(np.float64),
            array.tolist(),
            array.astype(object),
            None,
            np.ones(0, np.float32),
        )
        if drawn.random() < 0.8:
            arrays[drawn.choice((name, name, name, "nobody"))] = drawn.choice(others)
    return arrays if drawn.random() < 0.97 else drawn.choice((None, [], [*arrays.items()]))


def any_graph(drawn: Random) -> og.Graph:
    """A graph of one op of any edition, or one beside it."""
    if drawn.random() < 0.6:
        return graph_of(drawn.choice([*every_kind()]), drawn)
    words = drawn.choice(("legacy-1", "legacy-1", *EDITIONS))
    schemas = edition(words).schemas
    of_shapes = [name for name, one in schemas.items() if any(port.gives_shape for port in one.inputs)]
    kinds = [drawn.choice(of_shapes if of_shapes and drawn.random() < 0.4 else [*schemas])]
    return random_graph(drawn.randrange(2**16), 1, dtypes=("f32", "s8", "bf16"), kinds=kinds, edition=words)


def with_few(arrays: dict[str, Any], drawn: Random) -> dict[str, Any]:
    """The arrays, some of them with a few numbers at which functions bend."""
    for name, array in arrays.items():
        if array.size and array.dtype.kind == "f" and drawn.random() < 0.3:
            arrays[name] = array = array.copy()
            array.reshape(-1)[:3] = [drawn.choice((0, 1, -1, 3, 0.5)) for _ in range(min(3, array.size))]
        elif array.dtype.kind == "i" and 0 < array.size < 8 and drawn.random() < 0.5:
            arrays[name] = np.array([drawn.choice((0, 1, 2, 3, -1, 4, 60)) for _ in range(array.size)], array.dtype)
            arrays[name] = arrays[name].reshape(array.shape)
    return arrays


def graph_run(drawn: Random) -> str:
    """A graph in numpy, of which some dims may be unknown until then."""
    graph = any_graph(drawn)
    arrays = with_few(random_inputs(graph, drawn.randrange(3)), drawn)
    if drawn.random() < 0.5:
        graph = with_open_inputs(graph, drawn)
    found = og.reference.run(graph, arrays_beside(arrays, drawn))
    return "\n".join(f"{name} {numbers_of(array)}" for name, array in found.items())


def with_open_inputs(graph: og.Graph, drawn: Random) -> og.Graph:
    """The graph, of which some dims are unknown."""
    dims = {name: list(one.shape or ()) for name, one in graph.inputs.items()}
    return graph.specialise({name: [one if drawn.random() < 0.5 else None for one in dims[name]] for name in dims})


def op_run(drawn: Random) -> str:
    """An op in numpy, with arrays that may not fit."""
    graph = any_graph(drawn)
    arrays = random_inputs(graph, drawn.randrange(3))
    if not graph.ops:
        return ""
    op = graph.ops[0]
    names = {one.id: name for name, one in graph.inputs.items()}
    given: Any = [None if one is None else arrays.get(names.get(one.id, ""), one.value) for one in op.inputs]
    if drawn.random() < 0.5 and given:
        place = drawn.randrange(len(given))
        array = given[place]
        others = (None, "x") if array is None else (array[..., None], array.tolist(), array.astype(object), None)
        given[place] = drawn.choice((*others, np.float32(1), np.ones(3, np.float64)))
    given = given if drawn.random() < 0.95 else drawn.choice((given[:-1], [*given, None], None, "x"))
    subject = op if drawn.random() < 0.97 else drawn.choice((None, "ReLU", replace(op, kind="Nothing")))
    is_rounded = drawn.random() < 0.7
    return "\n".join(numbers_of(one) for one in run_op(subject, given, rounded=is_rounded))


# Numbers at which functions bend, and places beside elements.
BENDS = (0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.0, 3.0, 7.0, -0.75, np.inf, -np.inf, np.nan)


def beside(array: Any, drawn: Random) -> Any:
    """An array with some other elements, or other sizes."""
    if array is None or array.dtype.kind not in "fiub" or drawn.random() < 0.4:
        return array
    made, is_float = array.copy(), array.dtype.kind == "f"
    for _ in range(drawn.choice((1, 2, 8)) if made.size else 0):
        place = drawn.randrange(made.size)
        made.flat[place] = drawn.choice(BENDS) if is_float else whole(made.flat[place], drawn)
    if made.size > 1 and drawn.random() < 0.2:
        axis = drawn.randrange(made.ndim)
        made = drawn.choice((np.flip(made, axis), np.take(made, [0, *range(made.shape[axis])], axis), made[..., :1]))
    return made


def whole(number: Any, drawn: Random) -> Any:
    """A number of the same type beside a whole one."""
    if number.dtype.kind == "b":
        return drawn.choice((False, True))
    limits = np.iinfo(number.dtype)
    return min(max(int(number) + drawn.choice((-1, 1, 1, 2)), int(limits.min)), int(limits.max))


def host_run(kind: str, drawn: Random) -> str:
    """Results of a use of a host op beside a case."""
    case, attrs = drawn.choice(host_cases_by_kind()[kind]), dict[str, Any]()
    attrs, schema = dict(case.attrs), edition(HOST).schemas[kind]
    for _ in range(drawn.choice((0, 1, 1, 2))):
        attrs = dict(drawn.choice([*attributes_beside(schema, attrs, BOUNDS), attrs]))
    inputs = [beside(array, drawn) for array in case.inputs]
    if drawn.random() < 0.15:
        inputs = [one if one is None or one.dtype != np.float32 else one.astype(np.float64) for one in inputs]
    for _ in range(drawn.random() < 0.1):
        inputs = drawn.choice((inputs[:-1], [*inputs[:-1], None]))
    graph, arrays = host_cases.graph_of(replace(case, attrs=attrs, inputs=inputs))
    return "\n".join(numbers_of(one) for one in og.reference.run(graph, arrays).values())


@material(host_cases_by_kind)
def results_beside(name: str, number: int) -> list[str]:
    """Results in numpy of uses of host ops beside those of cases."""
    with np.errstate(all="ignore"):
        return recorded.outcome(host_run, name, Random(f"{name} {number}"))


def node_run(kind: str, drawn: Random) -> str:
    """Results of a node of ONNX of the newest op set that has it."""
    from . import onnx_ml_nodes, onnx_nodes

    domain, versions = op_sets(kind)
    rng = np.random.default_rng(drawn.randrange(2**32))
    case = {**onnx_nodes.CASES, **onnx_ml_nodes.CASES}[kind](onnx_nodes.Draw(rng, kind, versions[-1], domain))
    model, feeds = onnx_nodes.model_of(case, versions[-1])
    found = og.reference.run(og.onnx.load(model), feeds)
    return "\n".join(f"{name} {numbers_of(array)}" for name, array in found.items() if array.dtype.kind not in "OSU")


@material(kinds_of_nodes, needs="onnx")
def computed_nodes(name: str, number: int) -> list[str]:
    """What a node of ONNX computes in numpy."""
    with np.errstate(all="ignore"):
        return recorded.outcome(node_run, name, Random(f"{name} {number}"))


WAYS = {
    "runs": graph_run,
    "ops": op_run,
    "results": compared_once,
    "noise": disturbed_once,
    "terms": summed_once,
    "graphs": drawn_graph,
    "recipes": recipe_of_op,
    "sizes": calibrated_graph,
    "inputs": inputs_of_op,
}


@material(lambda: WAYS)
def allowed(name: str, number: int) -> list[str]:
    """What is said of results near a reference, noise, and random graphs with options."""
    return recorded.outcome(WAYS[name], Random(f"{name} {number}"))
