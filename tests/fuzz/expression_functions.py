"""The functions that random expressions call, each as a method of a graph and as a function of numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import onegraph as og

ERF = np.vectorize(math.erf, otypes=[np.float64])


def kind_of(dtype: str) -> str:
    """``f`` for floats, ``b`` for booleans, else ``i``."""
    return "b" if dtype == "boolean" else "f" if dtype in ("f32", "bf16", "f16", "float64") else "i"


class Function(NamedTuple):
    """A function.

    Attributes:
        graph: of a graph and the arguments.
        numpy: of the arguments.
        kinds: of data types that it takes.
        result: its data type; ``same`` as the first argument's.
        draw: the text of its arguments, from a writer and the first one's name.
    """

    graph: Callable[..., Any]
    numpy: Callable[..., Any]
    kinds: str = "f"
    result: str = "same"
    draw: Callable[[Any, str], str] = lambda w, x: x


def host(kind: str, **attrs: Any) -> Callable[..., Any]:
    return lambda g, *inputs: g.op(kind, list(inputs), attrs, edition="host")


def reduced(kind: str) -> Callable[..., Any]:
    def build(g: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        axes = range(len(x.shape)) if axis is None else [axis] if isinstance(axis, int) else axis
        if kind_of(x.dtype.value) == "f" and x.dtype.value != "float64":
            return g.op(kind, [x], {"axes": [*axes], "keep_dims": keepdims})
        return g.op(kind, [x, np.array([*axes], np.int64)], {"keep_dims": keepdims}, edition="host")

    return build


def axes_of(w: Any, x: str) -> str:
    rank = len(w.shape(x))
    keep = w.choice(["", ", keepdims=True"])
    if not rank or w.flip(0.2):
        return f"{x}{keep}"
    if rank > 1 and w.flip(0.3):
        return f"{x}, ({', '.join(map(str, sorted(w.random.sample(range(rank), 2))))}){keep}"
    return f"{x}, {w.axis(x)}{keep}"


def named(x: str, w: Any) -> str:
    return f"{x}, {w.axis(x)}"


def rolled(g: Any, x: Any, order: Any) -> Any:
    return (
        g.static_transpose(x, order=[*order])
        if kind_of(x.dtype.value) == "f" and x.dtype.value != "float64"
        else g.op("Transpose", [x], {"order": [*order]}, edition="host")
    )


def softmax(x: Any, axis: int) -> Any:
    if not x.size:
        return x
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x: Any) -> Any:
    if not x.shape[-1]:
        return x
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def unary(kind: str, function: Any, edition: str | None = None, kinds: str = "f", result: str = "same") -> Function:
    def build(g: Any, x: Any) -> Any:
        return g.op(kind, [x], edition=edition) if edition else g.op(kind, [x])

    return Function(build, function, kinds, result)


def two(method: str, function: Any, kinds: str = "fi", result: str = "same", kind: str = "") -> Function:
    def build(g: Any, x: Any, y: Any) -> Any:
        like = x if isinstance(x, og.LogicalTensor) else y
        if kind and (kind_of(like.dtype.value) != "f" or like.dtype.value == "float64"):
            return g.op(kind, [x, y], edition="host")
        return getattr(g, method)(x, y)

    return Function(build, function, kinds, result, lambda w, x: w.pair(x))


def cast_numpy(x: Any, dtype: str) -> Any:
    kind = og.DataType(dtype).numpy
    return x.astype(np.float64 if kind_of(dtype) == "f" else kind)


FUNCTIONS = {
    "exp": unary("Exp", np.exp),
    "log": unary("Log", np.log),
    "sqrt": unary("Sqrt", np.sqrt),
    "tanh": unary("Tanh", np.tanh),
    "square": unary("Square", np.square),
    "reciprocal": unary("Reciprocal", np.reciprocal),
    "relu": unary("ReLU", lambda x: np.maximum(x, 0), kinds="f"),
    "sigmoid": unary("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    "round": unary("Round", np.round),
    "sin": unary("Sin", np.sin, "host"),
    "cos": unary("Cos", np.cos, "host"),
    "tan": unary("Tan", np.tan, "host"),
    "sinh": unary("Sinh", np.sinh, "host"),
    "arctan": unary("Atan", np.arctan, "host"),
    "arcsinh": unary("Asinh", np.arcsinh, "host"),
    "floor": unary("Floor", np.floor, "host"),
    "ceil": unary("Ceil", np.ceil, "host"),
    "erf": unary("Erf", ERF, "host"),
    "sign": unary("Sign", np.sign, "host", "fi"),
    "negative": unary("Negative", np.negative, "host", "fi"),
    "isnan": unary("IsNaN", np.isnan, "host", "f", "boolean"),
    "isinf": unary("IsInf", np.isinf, "host", "f", "boolean"),
    "abs": Function(lambda g, x: abs(x), np.abs, "fi"),
    "not_": unary("Not", np.logical_not, "host", "b", "boolean"),
    "maximum": two("maximum", np.maximum, kind="Maximum"),
    "minimum": two("minimum", np.minimum, kind="Minimum"),
    "add": two("add", np.add, kind="Add"),
    "subtract": two("subtract", np.subtract, kind="Subtract"),
    "multiply": two("multiply", np.multiply, kind="Multiply"),
    "divide": two("divide", np.divide, "f"),
    "squared_difference": two("squared_difference", lambda x, y: np.square(np.subtract(x, y)), "f"),
    "mod": two("mod", np.mod, "fi"),
    "equal": two("equal", np.equal, "fib", "boolean"),
    "less": two("less", np.less, "fi", "boolean"),
    "less_equal": two("less_equal", np.less_equal, "fi", "boolean"),
    "greater": two("greater", np.greater, "fi", "boolean"),
    "greater_equal": two("greater_equal", np.greater_equal, "f", "boolean"),
    "logical_and": two("and_", np.logical_and, "b", "boolean"),
    "logical_or": two("or_", np.logical_or, "b", "boolean"),
    "logical_xor": two("xor", np.logical_xor, "b", "boolean"),
    "bitwise_and": two("bitwise_and", np.bitwise_and, "i"),
    "bitwise_or": two("bitwise_or", np.bitwise_or, "i"),
    "sum": Function(reduced("ReduceSum"), np.sum, "fi", draw=axes_of),
    "mean": Function(reduced("ReduceMean"), np.mean, "f", draw=axes_of),
    "max": Function(reduced("ReduceMax"), np.max, "fi", draw=axes_of),
    "min": Function(reduced("ReduceMin"), np.min, "fi", draw=axes_of),
    "prod": Function(reduced("ReduceProd"), np.prod, "fi", draw=axes_of),
    "reshape": Function(
        lambda g, x, shape: g.op("Reshape", [x, np.array(shape, np.int64)], edition="host"),
        np.reshape,
        "fib",
        draw=lambda w, x: f"{x}, {w.new_shape(x)}",
    ),
    "static_reshape": Function(
        lambda g, x, shape: g.static_reshape(x, shape=shape),
        np.reshape,
        "f",
        draw=lambda w, x: f"{x}, {w.new_shape(x)}",
    ),
    "transpose": Function(rolled, np.transpose, "fib", draw=lambda w, x: f"{x}, {w.order(x)}"),
    "expand_dims": Function(
        lambda g, x, axis: g.unsqueeze(x, axes=[axis]),
        np.expand_dims,
        "fib",
        draw=lambda w, x: f"{x}, {w.random.randrange(-len(w.shape(x)) - 1, len(w.shape(x)) + 1)}",
    ),
    "squeeze": Function(
        lambda g, x, axis: g.squeeze(x, axes=[axis]), np.squeeze, "fib", draw=lambda w, x: f"{x}, {w.axis(x)}"
    ),
    "broadcast_to": Function(
        lambda g, x, shape: g.expand(x, np.array(shape, np.int64)),
        np.broadcast_to,
        "fib",
        draw=lambda w, x: f"{x}, {(w.choice([1, 2, 3]), *w.shape(x))}",
    ),
    "tile": Function(
        lambda g, x, counts: g.tile(x, np.array(counts, np.int64)),
        np.tile,
        "fib",
        draw=lambda w, x: f"{x}, {tuple(w.choice([0, 1, 1, 2, 3]) for _ in w.shape(x))}",
    ),
    "pad": Function(
        lambda g, x, pads, value: g.pad(x, np.array(pads, np.int64).reshape(-1, 2).T.reshape(-1), value),
        lambda x, pads, value: np.pad(x, pads, constant_values=value) if pads else x,
        "fi",
        draw=lambda w, x: f"{x}, {[(w.choice([0, 1, 2]), w.choice([0, 1])) for _ in w.shape(x)]}, {w.choice([0, 2])}",
    ),
    "concatenate": Function(
        lambda g, xs, axis: g.op("Concat", [*xs], {"axis": axis}, edition="host"),
        np.concatenate,
        "fib",
        draw=lambda w, x: f"[{x}, {w.like(x)}], {w.axis(x)}",
    ),
    "concat": Function(
        lambda g, xs, axis: g.concat(*xs, axis=axis),
        np.concatenate,
        "f",
        draw=lambda w, x: f"[{x}, {w.like(x)}], {w.axis(x)}",
    ),
    "take": Function(
        lambda g, x, places, axis: g.gather(x, places, axis=axis),
        np.take,
        "fib",
        draw=lambda w, x: f"{x}, {w.places(x, a := w.axis(x))}, {a}",
    ),
    "where": Function(lambda g, c, x, y: g.where(c, x, y), np.where, "b", "other", lambda w, x: w.chosen(x)),
    "select": Function(lambda g, c, x, y: g.select(c, x, y), np.where, "b", "other", lambda w, x: w.chosen(x)),
    "clip": Function(
        lambda g, x, low, high: g.clamp(x, min=low, max=high),
        np.clip,
        "f",
        draw=lambda w, x: f"{x}, {w.choice(['-1', '-0.5', '0', '-np.inf'])}, {w.choice(['1', '0.5', '6.0', 'np.inf'])}",
    ),
    "cumsum": Function(
        lambda g, x, axis: g.cum_sum(x, axis=axis), np.cumsum, "fi", draw=lambda w, x: f"{x}, {w.axis(x)}"
    ),
    "argmax": Function(
        lambda g, x, axis: g.arg_max(x, axis=axis, keep_dims=False),
        np.argmax,
        "fi",
        "s64",
        lambda w, x: f"{x}, {w.axis(x)}",
    ),
    "argmin": Function(
        lambda g, x, axis: g.arg_min(x, axis=axis, keep_dims=False),
        np.argmin,
        "fi",
        "s64",
        lambda w, x: f"{x}, {w.axis(x)}",
    ),
    "softmax": Function(
        lambda g, x, axis: g.softmax(x, axis=axis), softmax, "f", draw=lambda w, x: f"{x}, {w.axis(x)}"
    ),
    "layer_norm": Function(lambda g, x: g.layer_norm(x, keep_stats=False, use_affine=False), layer_norm, "f"),
    "tril": Function(lambda g, x: g.triangle(x, upper=False), np.tril, "fi", draw=lambda w, x: w.matrix(x)),
    "triu": Function(lambda g, x: g.triangle(x, upper=True), np.triu, "fi", draw=lambda w, x: w.matrix(x)),
    "astype": Function(
        lambda g, x, dtype: g.cast(x, dtype=og.DataType(dtype)), cast_numpy, "fib", "given", lambda w, x: w.cast(x)
    ),
    "compress": Function(
        lambda g, c, x, axis: g.compress(x, c, axis=axis), np.compress, "b", "other", lambda w, x: w.compressed(x)
    ),
    "take_along_axis": Function(
        lambda g, x, i, axis: g.gather_elements(x, i, axis=axis), np.take_along_axis, "fi", draw=lambda w, x: w.along(x)
    ),
    "matmul": Function(lambda g, x, y: g.matmul(x, y), np.matmul, "f", draw=lambda w, x: w.product(x)),
    "shape": Function(lambda g, x: g.shape(x), lambda x: np.array(x.shape, np.int64), "fib", "s64"),
    "size": Function(lambda g, x: g.size(x), lambda x: np.int64(np.size(x)), "fib", "s64"),
    "nonzero": Function(lambda g, x: g.non_zero(x), lambda x: np.array(np.nonzero(x)), "fib", "s64"),
}


def of_graphs(one: Function) -> Callable[[Any], Callable[..., Any]]:
    """A function that gives the form of a graph."""
    return lambda g: lambda *given, **named: one.graph(g, *given, **named)


GRAPH_FUNCTIONS = {name: of_graphs(one) for name, one in FUNCTIONS.items()}
NUMPY_FUNCTIONS = SimpleNamespace(**{name: one.numpy for name, one in FUNCTIONS.items()})
