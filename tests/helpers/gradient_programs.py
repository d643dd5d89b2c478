"""Random programs with open dims, whose first and second derivatives are compared with PyTorch's in float64.

They have the ops that both compute alike, and no others: ``tests/fuzz`` draws graphs of all ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import onegraph as og

SIZES = (2, 3, 4)
TOLERANCE = 2e-3  # of the largest number of a tensor; steep chains of f32 lose digits
UNARY = ("tanh", "sigmoid", "square", "exp", "relu", "softmax", "sum", "mean", "transpose", "negative")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "select", "matmul")


@dataclass(frozen=True)
class Program:
    """A random program.

    Attributes:
        shapes: of the inputs, with None for open dims.
        calls: the shapes of the inputs in two calls; an open dim may be 1 in one of them.
        steps: the ops: a name, and the numbers of values that it reads; inputs come first.
        wrt: the numbers of values to differentiate by.
        checkpoints: the numbers of values that the first gradient keeps; None for all.
        seed: of the contents.
    """

    shapes: list[tuple[int | None, ...]]
    calls: list[list[tuple[int, ...]]]
    steps: list[tuple[str, tuple[int, ...]]]
    wrt: list[int]
    checkpoints: list[int] | None
    seed: int


def program(seed: int, rng: Any = None) -> Program:
    """The random program of a seed, or of other choices."""
    rng = rng or np.random.default_rng(seed)
    full = tuple(int(rng.choice(SIZES)) for _ in range(3))
    shapes, kinds = [], []
    for _ in range(int(rng.integers(2, 4))):
        rank = int(rng.integers(1, 4))
        kind = [str(rng.choice(["known", "one", "open", "both"], p=[0.3, 0.15, 0.2, 0.35])) for _ in range(rank)]
        dims = full[3 - rank :]
        known = {"known": lambda dim: dim, "one": lambda dim: 1}
        shapes.append(tuple(known[one](dim) if one in known else None for one, dim in zip(kind, dims, strict=True)))
        kinds.append([(one, dim) for one, dim in zip(kind, dims, strict=True)])
    calls = [
        [
            tuple(1 if one == "one" or (one == "both" and rng.random() < 0.5) else dim for one, dim in kind)
            for kind in kinds
        ]
        for _ in range(2)
    ]
    count = len(shapes)
    steps: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(int(rng.integers(2, 7))):
        some = BINARY if rng.random() < 0.6 else UNARY
        reads = tuple(int(one) for one in rng.integers(0, count + len(steps), 2 if some is BINARY else 1))
        steps.append((str(rng.choice(some)), reads))
    ends = count + len(steps)
    wrt = sorted({int(one) for one in rng.integers(0, ends - 1, 3)})
    kept = None if rng.random() < 0.4 else sorted({int(one) for one in rng.integers(count, ends, 2)})
    return Program(shapes, calls, steps, wrt, kept, seed)


def built(one: Program) -> tuple[og.Graph, list[Any], list[tuple[str, tuple[int, ...]]]]:
    """The graph of a program, its values, and the steps that its shapes permit."""
    g = og.Graph()
    values = [g.input(f"x{place}", og.f32, shape) for place, shape in enumerate(one.shapes)]
    steps = []
    for name, reads in one.steps:
        try:
            values.append(OURS[name](g, *(values[place] for place in reads)))
        except og.SpecError:  # shapes that do not fit: the value stands for itself
            name, reads = "same", reads[:1]
            values.append(values[reads[0]])
        steps.append((name, reads))
    return g, values, steps


def _last(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else [0]


OURS: dict[str, Callable[..., Any]] = {
    "tanh": lambda g, x: g.tanh(x),
    "sigmoid": lambda g, x: g.sigmoid(x),
    "square": lambda g, x: g.square(x),
    "exp": lambda g, x: g.exp(g.tanh(x)),
    "relu": lambda g, x: g.relu(x),
    "softmax": lambda g, x: g.softmax(x, axis=-1),
    "sum": lambda g, x: g.reduce_sum(x, axes=[len(x.shape) - 1], keep_dims=True),
    "mean": lambda g, x: g.reduce_mean(x, axes=[0], keep_dims=True),
    "transpose": lambda g, x: g.static_transpose(x, order=_last(len(x.shape))),
    "negative": lambda g, x: -x,
    "add": lambda g, x, y: g.add(x, y),
    "subtract": lambda g, x, y: g.subtract(x, y),
    "multiply": lambda g, x, y: g.multiply(x, y),
    "divide": lambda g, x, y: g.divide(x, g.square(y) + 1.0),
    "maximum": lambda g, x, y: g.maximum(x, y),
    "select": lambda g, x, y: g.select(g.greater_equal(x, y), g.tanh(x), g.square(y)),
    "matmul": lambda g, x, y: g.matmul(x, y),
}
THEIRS: dict[str, Callable[..., Any]] = {
    "same": lambda t, x: x,
    "tanh": lambda t, x: t.tanh(x),
    "sigmoid": lambda t, x: t.sigmoid(x),
    "square": lambda t, x: x * x,
    "exp": lambda t, x: t.exp(t.tanh(x)),
    "relu": lambda t, x: t.relu(x),
    "softmax": lambda t, x: t.softmax(x, -1),
    "sum": lambda t, x: x.sum(-1, keepdim=True),
    "mean": lambda t, x: x.mean(0, keepdim=True),
    "transpose": lambda t, x: x.permute(_last(x.dim())),
    "negative": lambda t, x: -x,
    "add": lambda t, x, y: x + y,
    "subtract": lambda t, x, y: x - y,
    "multiply": lambda t, x, y: x * y,
    "divide": lambda t, x, y: x / (y * y + 1),
    "maximum": lambda t, x, y: t.maximum(x, y),
    "select": lambda t, x, y: t.where(x >= y, t.tanh(x), y * y),
    "matmul": lambda t, x, y: x @ y,
}


def differences(one: Program) -> list[str]:
    """What differs from PyTorch; empty if nothing does, also for programs that shapes of a call do not permit."""
    import torch

    g, values, steps = built(one)
    result, wrt = values[-1], [values[place] for place in one.wrt]
    inputs = {id(value) for value in values[: len(one.shapes)]}
    kept = None if one.checkpoints is None else [values[place] for place in one.checkpoints]
    kept = None if kept is None else [value for value in kept if id(value) not in inputs] or None
    first = g.gradient(result, wrt, 0.5, checkpoint=kept)
    # Rules may use the result of an op or compute it anew, so a gradient is differentiated by its own source alone.
    second = [g.gradient(g.square(value), source)[0] for value, source in zip(first, wrt, strict=True)]
    for place, tensor in enumerate((result, *first, *second)):
        g.output(f"y{place}", tensor)
    model, found = g.compile(), []
    for number, shapes in enumerate(one.calls):
        rng = np.random.default_rng([one.seed, number])
        arrays = [rng.uniform(-1.5, 1.5, shape).astype(np.float32) for shape in shapes]
        theirs = [torch.from_numpy(array).double().requires_grad_() for array in arrays]
        try:
            for name, reads in steps:
                theirs.append(THEIRS[name](torch, *(theirs[place] for place in reads)))
        except RuntimeError:  # the sizes of this call do not fit
            continue
        wanted = _derivatives(torch, theirs[-1], [theirs[place] for place in one.wrt])
        named = dict(zip(g.inputs, arrays, strict=True))
        for label, results in (("compiled", model(*arrays)), ("reference", og.reference.run(g, named).values())):
            for place, (ours, want) in enumerate(zip(results, wanted, strict=True)):
                scale = max(1.0, float(np.abs(want).max(initial=0)))
                if ours.shape != want.shape or not np.allclose(ours, want, atol=TOLERANCE * scale, rtol=TOLERANCE):
                    found.append(f"{label}, shapes {shapes}, y{place}: {ours.tolist()}; expected {want.tolist()}")
    return found


def _derivatives(torch: Any, result: Any, wrt: list[Any]) -> list[Any]:
    """The result, its gradients, and the gradients of their squares."""
    seed = torch.full_like(result, 0.5)
    first = _grad(torch, [result], wrt, [seed])
    pairs = zip(first, wrt, strict=True)
    second = [_grad(torch, [(value * value).sum()], [source], None)[0] for value, source in pairs]
    return [one.detach().numpy() for one in (result, *first, *second)]


def _grad(torch: Any, ends: list[Any], wrt: list[Any], seeds: Any) -> list[Any]:
    ends = [end for end in ends if end.requires_grad]
    seeds = seeds[: len(ends)] if seeds is not None else None
    zeros = [torch.zeros_like(one) for one in wrt]
    if not ends:
        return zeros
    found = torch.autograd.grad(ends, wrt, seeds, create_graph=True, allow_unused=True)
    return [zero if one is None else one for zero, one in zip(zeros, found, strict=True)]
