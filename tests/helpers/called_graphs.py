"""Graphs whose calls have something of their own: strides, open sizes, variables, caches, stages, control flow.

Each function returns a graph and arrays for its inputs. Numbers are whole, so that every CPU computes the same.
"""

import numpy as np

import onegraph as og

from .host_cases import body

F32 = np.float32


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


def repeated():
    def turn(g):
        state = g.add(g.input("s0", "f32", (3,)), g.input("c0", "f32", ()))
        return {"going": g.constant(np.array(True)), "t0": state, "y0": g.add(state, state)}

    g = og.Graph()
    trips, x, step = g.input("trips", og.s64, ()), g.input("x", og.f32, (3,)), g.input("step", og.f32, ())
    ends = [trips, g.constant(np.array(True)), x, step]
    attrs = {"body": body(turn), "n_states": 1, "result_axes": (0,), "shapes": (1, 3, 2, -1, 3)}
    last, all_ = g.op("Loop", ends, attrs, dtype="f32", outputs=["dst", "dst_1"], edition="host")
    g.output("last", last)
    g.output("all", all_)
    return g, [np.array(3), counted(3), np.array(2, F32)]


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
