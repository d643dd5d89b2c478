"""Graphs whose calls have something of their own: strides, open sizes, variables, caches, stages, control flow.

Each function returns a graph and arrays for its inputs. Numbers are whole, so that every CPU computes the same.
"""

import numpy as np

import onegraph as og

from .host_cases import body

F32 = np.float32
DTYPES = {"int64": og.s64, "bool": og.boolean, "float32": og.f32}


def counted(*shape, dtype=F32, start=1):
    """Small whole numbers."""
    return (np.arange(start, start + int(np.prod(shape))).reshape(shape) % 50).astype(dtype)


def sums():
    g = og.Graph()
    a, b = g.input("a", og.f32, (2, 3)), g.input("b", og.f32, (2, 3))
    g.output("total", g.add(a, b))
    g.output("twice", g.add(a, a))
    return g, [counted(2, 3), counted(2, 3, start=7)]


def number_of(dtype):
    def one():
        g = og.Graph()
        x = g.input("x", dtype, (2, 2))
        g.output("y", g.op("Where", [g.op("Equal", [x, x], edition="host"), x, x], edition="host"))
        return g, [counted(2, 2, dtype=og.DataType.of(dtype).numpy)]

    one.__name__ = f"type {dtype}"
    return one


def scalars():
    g = og.Graph()
    g.output("y", g.multiply(g.input("x", og.f32, (3,)), g.input("factor", og.f32, ())))
    return g, [counted(3), np.array(2, F32)]


def strided():
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3), strides=(1, 2))
    g.output("y", g.square(x), strides=(4, 1))
    return g, [np.asfortranarray(counted(2, 3))]


def rows():
    g = og.Graph()
    x = g.input("x", og.f32, (None, 3))
    g.output("y", g.add(x, x))
    return g, [counted(2, 3)]


def two_open():
    g = og.Graph()
    a, b = g.input("a", og.f32, (None, None)), g.input("b", og.f32, (None, None))
    g.output("y", g.matmul(a, b))
    return g, [counted(2, 3), counted(3, 2)]


def reshaped():
    g = og.Graph()
    x, shape = g.input("x", og.f32, (2, 3)), g.input("shape", og.s64, (2,))
    g.output("y", g.relu(g.op("Reshape", [x, shape], edition="host")))
    return g, [counted(2, 3), np.array([3, 2])]


def counter():
    g = og.Graph()
    total = g.variable("total", np.zeros((2, 2), F32))
    kept = g.variable("kept", np.ones((2, 2), F32))
    x = g.input("x", og.f32, (2, 2))
    g.output("sum", g.assign(total, g.add(total, x)))
    g.output("other", g.multiply(kept, x))
    return g, [counted(2, 2)]


def copied():
    """Outputs that are an input, a constant, a view, and another output."""
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    y = g.relu(x)
    g.output("same", x)
    g.output("constant", g.constant(counted(2)))
    g.output("y", y)
    g.output("again", y)
    g.output("view", g.static_reshape(y, shape=[6], special_zero=False))
    return g, [counted(2, 3)]


def grown():
    g = og.Graph()
    past, new = g.input("past", og.f32, (1, 2, None, 4)), g.input("new", og.f32, (1, 2, 1, 4))
    g.output("present", g.concat(past, new, axis=-2))
    return g, [counted(1, 2, 3, 4), counted(1, 2, 1, 4)]


def chosen_rows():
    """The rows with a positive sum: a graph in stages."""
    g = og.Graph()
    x = g.input("x", og.f32, (None, 3))
    total = g.op("ReduceSum", [x], {"axes": [1], "keep_dims": False})
    places = g.op("NonZero", [g.op("Greater", [total, g.constant(F32(4))], edition="host")], edition="host")
    rows = g.op("Gather", [x, g.op("Squeeze", [places], {"axes": [0]}, edition="host")], {"axis": 0}, edition="host")
    g.output("rows", g.op("Add", [rows, rows]))
    g.output("count", g.op("Shape", [rows], edition="host"))
    return g, [counted(3, 3)]


def staged_counter():
    """A variable in a graph in stages."""
    g = og.Graph()
    x, count = g.input("x", og.f32, (None, 3)), g.variable("count", np.zeros((3,), F32))
    total = g.op("ReduceSum", [x], {"axes": [1], "keep_dims": False})
    places = g.op("NonZero", [g.op("Greater", [total, g.constant(F32(4))], edition="host")], edition="host")
    rows = g.op("Gather", [x, g.op("Squeeze", [places], {"axes": [0]}, edition="host")], {"axis": 0}, edition="host")
    g.output("rows", rows)
    g.output("sum", g.assign(count, g.add(count, g.reduce_sum(rows, axes=[0]))))
    return g, [counted(3, 3)]


def loop(make_body, starts, results=(), shapes=(), scanned=(), **attrs):
    """A graph of a Loop over states that begin with ``starts``, and its inputs; ``shapes`` are of its outputs."""

    def make():
        g, arrays = og.Graph(), [np.array(3), np.array(True), *starts, *scanned, np.array(2, F32), counted(5, 3)]
        names = ["trips", "going", *[f"s{n}" for n in range(len(starts))], *[f"x{n}" for n in range(len(scanned))]]
        ends = [
            g.input(name, DTYPES[array.dtype.name], array.shape)
            for name, array in zip([*names, "step", "table"], arrays, strict=True)
        ]
        said = {"body": body(make_body), "n_states": len(starts), "n_scanned": len(scanned), **attrs}
        said["result_axes"] = (0,) * len(results)
        said["shapes"] = tuple(number for shape in shapes for number in (len(shape), *shape))
        ports = ["dst", *[f"dst_{number}" for number in range(1, len(shapes))]]
        found = g.op("Loop", ends, said, dtype="f32", outputs=ports, edition="host")
        found = found if isinstance(found, tuple) else (found,)
        for number, tensor in enumerate(found):
            g.output(f"end{number}", tensor)
        return g, arrays

    make.__name__ = make_body.__name__
    return make


def going(g):
    return g.constant(np.array(True))


def state_and_rows(g):
    state = g.add(g.input("s0", "f32", (3,)), g.input("c0", "f32", ()))
    return {"going": going(g), "t0": state, "y0": g.add(state, state)}


def while_small(g):
    state = g.multiply(g.input("s0", "f32", ()), g.input("c0", "f32", ()))
    other = g.add(g.input("s1", "f32", ()), state)
    return {"going": g.op("Less", [other, g.constant(F32(9))], edition="host"), "t0": state, "t1": other, "y0": other}


def rows_by_number(g):
    row = g.op("Gather", [g.input("c1", "f32", (5, 3)), g.input("i", "s64", ())], {"axis": 0}, edition="host")
    return {"going": going(g), "t0": g.add(g.input("s0", "f32", (3,)), row)}


def exchanged(g):
    one, two = g.input("s0", "f32", (3,)), g.input("s1", "f32", (3,))
    return {"going": going(g), "t0": two, "t1": g.add(one, two)}


def columns(g):
    column = g.input("x0", "f32", (2,))
    return {"going": going(g), "t0": g.add(g.input("s0", "f32", (2,)), column), "y0": g.multiply(column, column)}


def only_rows(g):
    return {"going": going(g), "y0": g.square(g.input("c0", "f32", ()))}


UNKNOWN = -1
LOOPS = [
    loop(state_and_rows, [counted(3)], ["y0"], [(3,), (UNKNOWN, 3)]),
    loop(while_small, [np.array(1, F32), np.array(0, F32)], ["y0"], [(), (), (UNKNOWN,)]),
    loop(rows_by_number, [counted(3)], (), [(3,)]),
    loop(exchanged, [counted(3), counted(3, start=5)], (), [(3,), (3,)]),
    loop(columns, [counted(2)], ["y0"], [(2,), (UNKNOWN, 2)], [counted(2, 3)], axes=(1,), reversed=(1,)),
    loop(only_rows, [], ["y0"], [(UNKNOWN,)]),
]


def joined_shape():
    """A shape that is joined from an input and a constant."""
    g = og.Graph()
    x, first = g.input("x", og.f32, (2, 6)), g.input("first", og.s64, (1,))
    shape = g.op("Concat", [first, g.constant(np.array([2]), dtype=og.s64)], {"axis": 0}, edition="host")
    g.output("y", g.relu(g.op("Reshape", [x, shape], edition="host")))
    return g, [counted(2, 6), np.array([6])]


def two_caches():
    g = og.Graph()
    for name in ("key", "value"):
        past, new = g.input(name, og.f32, (1, None, 4)), g.input(f"new_{name}", og.f32, (1, 2, 4))
        g.output(f"present_{name}", g.concat(past, new, axis=1))
    g.output("sum", g.reduce_sum(g.tensor("present_key"), axes=[1]))
    return g, [counted(1, 3, 4), counted(1, 2, 4), counted(1, 3, 4, start=9), counted(1, 2, 4)]


def with_options(make, **options):
    """The same graph, compiled with options."""

    def made():
        return (*make(), options)

    made.__name__ = " ".join([make.__name__, *map(str, options.values())])
    return made


def gated():
    g = og.Graph()
    bodies = {
        "then_body": body(lambda g: {"y0": g.add(g.input("c0", "f32", (2, 3)), g.input("c1", "f32", (3,)))}),
        "else_body": body(lambda g: {"y0": g.relu(g.input("c0", "f32", (2, 3)))}),
        "shapes": (2, 2, 3),
    }
    ends = [g.input("is_on", og.boolean, ()), g.input("x", og.f32, (2, 3)), g.input("row", og.f32, (3,))]
    g.output("y", g.op("If", ends, bodies, dtype="f32", edition="host"))
    return g, [np.array(True), counted(2, 3), counted(3)]


CALLED = [
    sums,
    scalars,
    strided,
    rows,
    two_open,
    reshaped,
    joined_shape,
    counter,
    copied,
    grown,
    two_caches,
    chosen_rows,
    staged_counter,
    gated,
    *LOOPS,
    *map(number_of, ("bf16", "f16", "s8", "u8", "s32", "boolean", "s64")),
    *[with_options(make, policy="debug") for make in (chosen_rows, rows, copied)],
    *[with_options(make, reproducible=True) for make in (chosen_rows, rows, grown, counter)],
    with_options(two_open, threads=1),
    with_options(sums, fallback=False),
]
