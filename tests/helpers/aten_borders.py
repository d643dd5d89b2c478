"""What the front end makes of graphs that few programs have, and of calls outside of any capture; without PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.helpers import torch_stand_in as own
from tests.helpers.aten_tables import changed, graph_of

FLOAT = own.Dtype("float32")


def captured(front: Any) -> Iterator[str]:
    """Graphs that are compiled outside of a capture, or that state nothing of it."""
    backend, options = front["backend"], front["options"].BackendOptions
    usual, before = backend.aot_autograd, own.TracingContext.now
    backend.aot_autograd = lambda **settings: (
        lambda gm, inputs: [
            (name, make(gm, inputs)._boxed_call) for name, make in sorted(settings.items()) if name.endswith("compiler")
        ]
    )
    calls = [
        ("aten.mul.Tensor", ["n0", "n0"], [2, 3]),
        ("zeros_like", ["n1"], [2, 3]),
        ("aten.add.Tensor", ["n0", "n2"], [2, 3]),
    ]
    given = [own.from_numpy(np.ones((2, 3), np.float16))]
    try:
        for now in (None, SimpleNamespace(fw_metadata=None)):
            own.TracingContext.now = now
            yield str(backend.onegraph(graph_of([[2, 3]], calls, [3]), [], options={"threads": 1}))
            for kind in ("inference", "forward", "backward"):
                region = backend.CapturedRegion(graph_of([[2, 3]], calls, [3]), options(), kind)
                yield f"{kind} {region.weights} {region.written} {region.saved}"
                yield from region._divided(given, []).graph.lines()
            yield f"{front['in_place'].written_inputs(graph_of([[2, 3]], calls, [3]))}"
    finally:
        backend.aot_autograd, own.TracingContext.now = usual, before


def draws_in_order(front: Any) -> Iterator[str]:
    """Draws of random numbers, calls that draw nothing, and draws that are lowered."""
    table, lowered = front["node"].LOWERINGS, "aten.bernoulli.default"
    calls = [
        ("onegraph.bernoulli_like.default", ["n0", 0.5], [2, 3]),
        ("unknown", ["n1"], [2, 3]),
        ("aten.bernoulli.default", ["n0"], [2, 3]),
        ("aten.rand_like.default", ["n2"], ("float32", [2, 3], [1, 2])),
        ("aten.rand_like.default", ["n1"], ("float32", [2, "s0"], [4, 1])),
        ("aten.rand.default", [[2, 3]], [2, 3]),
    ]
    for is_lowered in (False, True):
        before = table.pop(lowered, None)
        if is_lowered:
            table[lowered] = print
        yield from changed(front["draws"].order_draws, graph_of([[2, 3], [2, "s0"]], calls, [7]))
        table.pop(lowered, None)
        table.update({lowered: before} if before is not None else {})


def writes(front: Any) -> Iterator[str]:
    """Writes into inputs, whose elements may share memory."""
    module = front["in_place"]
    like: Any
    for like in (
        ([8, 4], [4, 1]), ([8, 4], [0, 1]), ([1, 4], [0, 1]), ([2, 4], [0, 1]), ([8, "s0"], ["s0", 1]),
        ([8, 4], [1, 8]), ([1, 1], [0, 0]),
    ):  # fmt: skip
        stated = ("float32", *like)
        for name, places in (("aten.index_put.default", [["n1"], "n2"]), ("slice_scatter", ["n2", 0, 0, 1])):
            gm = graph_of([stated, ("int64", [1]), [1, 4]], [(name, ["n0", *places], stated)], [3])
            yield f"{module.op_writes(gm, {0: 0})}"
            yield from changed(module.write_in_place, gm, {0: 0})
            yield str(gm.recompiled)
    gm = graph_of([[8, 4], [8, 4]], [("aten.neg.default", ["n0"], [8, 4])], [0, 1, 2])
    for written in ({0: 0}, {0: 1}, {2: 0}, {}):
        yield from changed(module.write_in_place, gm, written)


def views(front: Any) -> Iterator[str]:
    """The arrays that tensors are read as, and the tensors that results are."""
    layout = front["layouts"].Layout
    source = np.arange(24, dtype=np.float32)
    for shape, strides in (
        ((2, 3), (3, 1)), ((2, 3), (1, 2)), ((2, 3), (0, 1)), ((2, 3), (0, 0)), ((3, 4), (2, 1)), ((3, 1), (8, 5)),
        ((2, 3, 4), (12, 1, 3)), ((2, 1, 4), (1, 9, 2)), ((), ()), ((2, 3), (6, 2)), ((4, 2, 3), (0, 3, 1)),
    ):  # fmt: skip
        made = layout.stated(FLOAT, shape, strides)
        array = made.array()(own.Tensor(FLOAT, shape, strides, array=source))
        back = made.tensor()(array) if not made.repeated else None
        yield f"{made} {made.dims} {array.tolist()} {array.strides} {back} {back is not None and back.numpy().tolist()}"


def whole_calls(front: Any) -> Iterator[str]:
    """Calls whose arguments are graphs, with arguments by name and without."""
    lowering, inner = front["lowering"], graph_of([[2, 3]], [("aten.neg.default", ["n0"], [2, 3])], [1])
    for name, kwargs in itertools.product(("cond", "unknown"), ({}, {"more": 1})):
        gm = graph_of([("bool", []), [2, 3]], [], [0])
        vars(gm).update({"yes": inner, "no": inner})
        flag, source, end = gm.graph.nodes
        with gm.graph.inserting_before(end):
            bodies = [gm.graph.get_attr(one) for one in ("yes", "no")]
            call = gm.graph.call_function(own.higher(name), [flag, *bodies, [source]], kwargs)
        metas = {node: node.meta.get("val") for node in gm.graph.nodes}
        metas[call] = (metas[source],)
        with gm.graph.inserting_before(end):
            first = gm.graph.call_function(own.operator.getitem, [call, 0])
        metas[first] = metas[source]
        try:
            made = lowering.lower_graph([call, first], [flag, source], [first], {}, metas)
            yield f"{[op.kind for op in made.graph.ops]}"
        except Exception as error:
            yield f"{type(error).__name__}: {error}"


BORDERS = {one.__name__: one for one in (captured, draws_in_order, writes, views, whole_calls)}
