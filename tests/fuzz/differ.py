"""A random graph through every way of running it, against the reference."""

import contextlib
import io
import pickle
import threading
from functools import partial

import numpy as np

import onegraph as og
from onegraph import reference
from onegraph.native import library
from onegraph.opset.dtypes import OF_NUMPY

from ..guard.memory import placed
from .blocks import random_block_recipe
from .compare import differences
from .drawn import Drawn
from .generate import random_recipe
from .host_ops import random_host_recipe
from .quantized import random_quantized_recipe
from .recipe import build, make_array, reproducer, without
from .training import random_training_recipe

WAYS = ("call", "named", "bind", "out", "json", "pickle", "unknown", "sizes", "strided", "twice", "threads")


def variants(rng):
    """Options of two or three runs of one graph."""
    yield {"policy": "fusion", "threads": None, "way": "call"}
    for _ in range(rng.choice([1, 1, 2])):
        yield {
            "policy": rng.choice(["fusion", "fusion", "debug"]),
            "threads": rng.choice([None, 1, 2, 2]),
            "way": rng.choice(WAYS),
        }


SUMS = 2.0**-10  # the share by which a sum of thousands may be off in f32
RECIPES = {
    "graphs": random_recipe,
    "host": random_host_recipe,
    "training": random_training_recipe,
    "blocks": random_block_recipe,
    "quantized": random_quantized_recipe,
}
# Of the kinds with arrays that end where nobody may read.
POLICIES = {"training": "debug", "blocks": "fusion", "quantized": "fusion"}


def draw(rng, kind, lengths=(1, 2, 3, 5, 8, 12, 20, 40)):
    """A recipe, and the ways in which it is run."""
    steps = RECIPES[kind](rng, rng.choice(lengths))
    if kind in POLICIES:
        threads = rng.choice([None, 1, 2, 2, 3]) if library.RUNTIME == "OpenMP" else None
        return steps, [{"policy": POLICIES[kind], "threads": threads, "way": "out", "least": SUMS}]
    return steps, list(variants(rng))


def problem(program):
    """What goes wrong with a recipe in some ways; empty if nothing does."""
    return "\n".join(f"{text}, {variant}" for variant, text in check(*program))


def parsed(told):
    """A recipe with its ways; alone, it is run in two."""
    if isinstance(told, dict):
        return told["steps"], told["ways"]
    return told, [
        {"policy": "fusion", "threads": 1, "way": "unknown"},
        {"policy": "debug", "threads": 1, "way": "call"},
    ]


def shorter(program):
    """Programs of one way, or of one step less."""
    steps, ways = program
    yield from ((steps, [way]) for way in ways if len(ways) > 1)
    recipes = (without(steps, place) for place in reversed(range(len(steps))))
    yield from ((one, ways) for one in recipes if one is not None and any(step["op"] == "output" for step in one))


DRAWN = {
    kind: Drawn(
        partial(draw, kind=kind),
        problem,
        told=lambda program: dict(zip(("steps", "ways"), program, strict=True)),
        parsed=parsed,
        shorter=shorter,
        printed=lambda program: f"# {program[1]}\n{reproducer(program[0], program[1][0])}",
    )
    for kind in RECIPES
}


def check(steps, ways):
    """Findings: (variant, text) of what went wrong."""
    yield from compare_graph(*build(steps), ways)


def compare_graph(graph, made, ways):
    """Findings in a graph with these arrays: (variant, text) of what went wrong."""
    arrays = {name: placed(array) for name, array in made.items()}
    with np.errstate(all="ignore"):
        expected = reference.run(graph, arrays)
    for variant in ways:
        given = {name: array.copy() for name, array in arrays.items()}
        try:
            results = run(graph, arrays, variant, expected)
        except Exception as error:
            yield variant, f"{type(error).__name__}: {str(error)[:300]}"
            continue
        for name, array in given.items():
            if array.tobytes() != arrays[name].tobytes():
                yield variant, f"input {name} was written"
        for number, got in enumerate(results):
            for name, text in differences(graph, arrays, expected, got, variant.get("least", 0.0)).items():
                yield variant, f"result {number}, {name}: {text}"


def laid(tensor, array):
    """The array in the strides that the input declares."""
    if tensor.strides is None:
        return array
    size = sum((dim - 1) * step for dim, step in zip(array.shape, tensor.strides, strict=True)) + 1
    whole = placed(np.zeros(max(size, 1), array.dtype))
    view = np.lib.stride_tricks.as_strided(whole, array.shape, [step * array.itemsize for step in tensor.strides])
    view[...] = array
    return view


def run(graph, arrays, variant, expected):
    """Results of the graph, as dictionaries by output; ``expected`` are the right ones."""
    way = variant["way"]
    options = {"policy": variant["policy"], "threads": variant["threads"]}
    names = list(graph.outputs)

    def named(results):
        return dict(zip(names, results if len(names) > 1 else [results], strict=True))

    if way == "json" and not any(tensor.constant for tensor in graph._tensors):
        graph = og.Graph.from_json(graph.to_json())
    if way in ("unknown", "sizes"):
        graph = _with_unknown(graph, arrays)
    model = graph.compile(**options)
    if way == "pickle":
        buffer = io.BytesIO(pickle.dumps(model))
        model = pickle.load(buffer)
    values = [laid(graph.inputs[name], arrays[name]) for name in arrays]
    if way == "sizes":
        _run_for_others(model, graph, values)
    if way == "strided":
        values = [_padded(array) for array in values]
    if way == "bind" and not _is_open(graph):
        run = model.bind(**dict(zip(arrays, values, strict=True)))
        first = {name: np.copy(array) for name, array in named(run.run()).items()}
        for array in run.outputs.values():
            array.fill(0)
        return [first, named(run.run())]
    if way == "out":
        out = [placed(np.full(array.shape, 3).astype(array.dtype)) for array in expected.values()]
        results = model(*values, out=out)
        assert all(a is b for a, b in zip(out, named(results).values(), strict=True)), "out= is not what comes back"
        return [named(results)]
    if way == "twice":
        first = named(model(*values))
        model(*[_other(array) for array in values])
        return [first, named(model(*values))]
    if way == "threads":
        found = [None] * 4

        def work(index):
            for _ in range(3):
                try:
                    found[index] = named(model(*values))
                except Exception as error:
                    found[index] = error
                    return

        workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for result in found:
            if isinstance(result, Exception):
                raise result
        return found
    if way == "named":
        return [named(model(**dict(zip(arrays, values, strict=True))))]
    return [named(model(*values))]


def _is_open(graph):
    """Whether a shape depends on what the graph computes, so that no array can be bound to its outputs."""
    return any(op.kind == "NonZero" and op.edition == "host" for op in graph.ops)


def _padded(array):
    """The same array with gaps and turned axes."""
    if not array.ndim:
        return array
    whole = placed(np.zeros([dim + 1 for dim in array.shape[::-1]], array.dtype))
    view = whole[tuple(slice(0, dim) for dim in array.shape[::-1])].transpose()
    view[...] = array
    return view


def _run_for_others(model, graph, values):
    """Run for sizes that are 1 to 3 larger, whose programs make that for these arrays, as far as the ops allow."""
    for more in (3, 2, 1):
        longer = [
            np.resize(
                array,
                [dim + more if known is None else dim for dim, known in zip(array.shape, tensor.shape, strict=True)],
            )
            if tensor.shape is not None and None in tensor.shape
            else array
            for tensor, array in zip(graph.inputs.values(), values, strict=True)
        ]
        with contextlib.suppress(og.errors.OneGraphError):
            model(*longer)
    open_programs = vars(model._programs).get("_open")
    assert open_programs is None or open_programs.error is None, repr(open_programs.error)


def _other(array):
    dtype = OF_NUMPY[array.dtype].value
    # Numbers of int64 are shapes and indices.
    return array if dtype == "s64" else make_array("normal", 99, dtype, array.shape)


def _with_unknown(graph, arrays):
    """The graph with unknown dims in its dense inputs, as far as the ops allow."""
    other = og.Graph()
    renewed = {}
    for tensor in graph._tensors:
        if tensor.constant:
            renewed[tensor.id] = other.constant(tensor.value, dtype=tensor.dtype)
    for name, tensor in graph.inputs.items():
        shape = tensor.shape
        if tensor.strides is None:
            shape = None if len(shape) < 2 else (None, *shape[1:])
        renewed[tensor.id] = other.input(name, tensor.dtype, shape, strides=tensor.strides)
    for op in graph.ops:
        sources = [None if t is None else renewed[t.id] for t in op.inputs]
        before = len(other.ops)
        try:
            open_type = {"dtype": op.outputs[0].dtype} if op.kind in OPEN or op.edition == "host" else {}
            ports = [t.name.rpartition(".")[2] for t in op.outputs]
            wanted = [port for port in ports if port in OPTIONAL]
            other.op(op.kind, sources, dict(op.attrs), edition=op.edition, outputs=wanted, **open_type)
        except og.SpecError:
            return graph  # this op needs more known dims
        renewed.update((old.id, new.id and new) for old, new in zip(op.outputs, other.ops[before].outputs, strict=True))
    for name, tensor in graph.outputs.items():
        other.output(name, renewed[tensor.id])
    return other


OPTIONAL = ("mean", "variance", "stats", "diff_gamma", "diff_beta", "mask")
OPEN = ("Quantize", "DynamicQuantize", "TypeCast", "MatMul", "SoftMax")
