"""What the front end makes of graphs that few programs have, and of calls outside of any capture; without PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from onegraph._util.size_symbols import OpenSizes
from onegraph.ir.op import LogicalTensor
from onegraph.opset.dtypes import DataType
from tests.helpers import torch_stand_in as own
from tests.helpers.aten_passes import described, program_of
from tests.helpers.aten_tables import changed, graph_of, sized
from tests.helpers.recorded import lines_of

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
        ("aten.split.Tensor", ["n2", 1], ([1, 3], [1, 3])),
        ("getitem", ["n4", 1], [1, 3]),
        ("aten.ones.default", [[2, 3]], [2, 3]),
        ("aten.mm.default", ["n3", "n6"], [2, 3]),
        ("aten.slice.Tensor", ["n1", 0, 0, 0], [0, 3]),
        ("aten.cat.default", [["n8", "n1"], 0], [2, 3]),
    ]
    given = [own.from_numpy(np.ones((2, 3), np.float16))]
    try:
        for now in (None, SimpleNamespace(fw_metadata=None)):
            own.TracingContext.now = now
            yield str(backend.onegraph(graph_of([[2, 3]], calls, [3, 5, 7, 9]), [], options={"threads": 1}))
            for kind in ("inference", "forward", "backward"):
                region = backend.CapturedRegion(graph_of([[2, 3]], calls, [3, 5, 7, 9]), options(), kind)
                yield f"{kind} {region.weights} {region.written} {region.saved}"
                made = region._divided(given, [])
                yield from made.graph.lines()
                yield f"{[name for name in vars(made) if name.startswith('_folded')]} {made.recompiled}"
            yield f"{front['in_place'].written_inputs(graph_of([[2, 3]], calls, [3, 5, 7, 9]))}"
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
            yield described(module.op_writes(gm, {0: 0}))
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
        call.meta["val"] = (source.meta["val"],)
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
        first.meta["val"] = source.meta["val"]
        end.args = ((first,),)
        for smallest in (1, 5):
            options = front["options"].BackendOptions(smallest=smallest)
            yield str(front["partitions"].divided(gm, {}, options, "inference")[1])
            yield from gm.graph.lines()


def decisions(front: Any) -> Iterator[str]:
    """Which calls run here, which parts are worth it, and which calls are dead."""
    module, verdict = front["partitions"], front["support"].Verdict
    for reason, host, few, kind, forced in itertools.product(
        ("", "why"), (False, True), (False, True), ("inference", "forward"), (False, True)
    ):
        yield f"{module._runs_here(verdict(reason, host=host, few=few), kind, forced)}"
    shape = [3, 3]
    names = ("aten.add.Tensor", "mm", "aten.permute.default", "aten.fill_.Scalar", "aten.rand.default", "getitem")
    gm = graph_of([shape], [(name, ["n0", 0], shape) for name in names], [0])
    own.OPS.target("aten.fill_.Scalar")._schema.is_mutable = True
    nodes = [*gm.graph.nodes]
    for first, (moves, few) in itertools.product(nodes[1:4], itertools.product((False, True), repeat=2)):
        for others in ((), nodes[1:2], nodes[6:7]):
            part = SimpleNamespace(nodes=dict.fromkeys([first, *others]))
            told = dict.fromkeys(nodes, verdict()) | {first: verdict(moves=moves, few=few)}
            yield f"{[module._is_worth(part, told, smallest) for smallest in (0, 1, 2)]}"
    yield str([module._is_worth(SimpleNamespace(nodes={}), {}, smallest) for smallest in (0, 1)])
    module.without_dead(gm.graph)
    yield from gm.graph.lines()
    for rank, axes in itertools.product((0, 1, 3), (None, [], 0, -1, [0, -1, 0])):
        yield f"{front['node'].axes_of(axes, rank)}"


def open_tensors(front: Any) -> Iterator[str]:
    """Tensors and programs whose sizes are open."""
    module, made = front["open_part"], front["open_export"]
    sizes = OpenSizes([4, 6])
    first, second = sizes.symbols
    known = {own.sympy_stand_in.Symbol(name): one for name, one in zip(("s0", "s1"), sizes.symbols, strict=True)}
    tensors = [
        (["s0", 6], None, [4, 6], None), (["s0", 6], None, [5, 6], None), (["s0", 6], ["s1", 1], [4, 6], [6, 1]),
        (["s0", 1], ["s1", "s0"], [4, 1], [1, 9]), ([2, 3], ["s1", 1], [2, 3], [6, 1]), ([2, 3], None, [2, 3], None),
        (["s0", 6], ["s3", 1], [4, 6], [6, 1]), (["s0", 6], ["s3", 1], [4, 6], [7, 1]),
    ]  # fmt: skip
    for shape, strides, now, steps in tensors:
        stated = own.Tensor(FLOAT, sized(shape), None if strides is None else [_step(one) for one in strides])
        try:
            one = module.OpenLikes(known).of(stated, own.Tensor(FLOAT, now, steps))
            yield f"{one.shape} {one.stride()} {one.stride(0)} {one.numel()} {one.dtype} {type(one).__name__}"
        except Exception as error:
            yield f"{type(error).__name__}: {error}"
        node = SimpleNamespace(meta={"val": stated})
        yield f"{module.Dims([node]).stated} {module.Dims([node]).layouts}"
        yield str(module.Dims([node, SimpleNamespace(meta={"val": 3})]).of([own.Tensor(FLOAT, now, steps), 3]))
    like = module.OpenLike(own.Tensor(FLOAT, [4, 6]), (first, second), (second, 1))
    yield f"{like.size()} {like.size(1)} {like.stride(0)} {like.stride()} {like.numel()}"
    layout, at = front["layouts"].Layout, {4: 5, 6: 7}
    for shape, strides in (((first, 3), (3, 1)), ((2, 3), (second, 1)), ((2, 3), None), ((2, first), None)):
        found = layout(FLOAT, shape, (0, 1), (), strides)
        yield str(module._at(found, lambda size: at.get(getattr(size, "value", size), size)))
        tensor = LogicalTensor(0, DataType.f32, shape, strides)
        empty = SimpleNamespace()
        graph = SimpleNamespace(inputs={"a": tensor}, outputs={"b": tensor}, _empty=lambda empty=empty: empty)
        yield str(module.shell(graph, lambda size: at.get(getattr(size, "value", size), size)))
    for found, fits in itertools.product((None, [2, 3]), (False, True)):
        program = SimpleNamespace(
            parameters=SimpleNamespace(sizes=lambda dims, found=found: found), fits=lambda sizes, fits=fits: fits,
            at=lambda sizes: lambda size: size,
        )  # fmt: skip
        for stated in ([own.Tensor(FLOAT, [2, 3])], [own.Tensor(FLOAT, [2, 3], [1, 2])]):
            layouts = [layout.of(own.Tensor(FLOAT, [2, 3]))]
            part = module.OpenPart(program, SimpleNamespace(of=lambda arguments: []), layouts, [])
            yield str((part.sizes(stated) or [None])[0])
    most, large, made.MOST_SIZES, made.LARGE_SIZES = made.MOST_SIZES, made.LARGE_SIZES, 6, (8, 16, 32)
    for ranges in ([(2, 4)], [(3, 9)], [(2, 8), (2, 16)], [(2, 5), (7, 7), (4, 8), (2, 3), (3, 31)], [(2, 6), (2, 7)]):
        now = [SimpleNamespace(value=low + 1) for low, _ in ranges]
        tried = made.OpenDims._values(SimpleNamespace(_sizes=SimpleNamespace(symbols=now), ranges=ranges))
        yield str([*tried])
    made.MOST_SIZES, made.LARGE_SIZES = most, large
    for bounds in (None, (0, 5), (1, 5), (2, 1 << 30), (3, 1 << 20)):
        yield str(made._range(None if bounds is None else SimpleNamespace(lower=bounds[0], upper=bounds[1])))


def _step(step: Any) -> Any:
    """A stride of PyTorch, of which s3 is known by no dim."""
    return step if type(step) is int else own.SymInt(step, {"s0": 4, "s1": 6, "s3": 6}[step])


def changes_in_order(front: Any) -> Iterator[str]:
    """What is done to a joint graph before it is divided, and to the inputs of a backward graph."""
    module, told = vars(front["capture"]), list[str]()
    names = ("with_true_types", "without_aliases", "without_indices", "without_statistics", "join_parts")
    before = {name: module[name] for name in (*names, "min_cut_rematerialization_partition")}
    module.update({name: lambda *ends, name=name, **more: told.append(f"{name} {ends} {more}") for name in before})
    try:
        yield f"{front['capture'].partitioned('joint', 'inputs', more=1)} {told}"
    finally:
        module.update(before)
    given = [own.Tensor(own.Dtype(kind), [2, 3]) for kind in ("float32", "bfloat16", "bfloat16", "float32")] + [3]
    calls = [("aten.neg.default", [f"n{place}"], [2, 3]) for place in range(5)]
    gm = graph_of([[2, 3], [2, 3], None, ("float16", [2, 3]), [2, 3]], calls, [*range(5, 10)])
    yield from changed(front["saved"].with_true_forms, gm, given)
    formats, images = front["true_types"], ([2, 3, 4, 5], [2, 1, 4, 5], [2, 3, 1, 1], [2, 3, 4, 5, 6], [2, 1, 4, 5, 6])
    for shape in (*images, [2, 3, 1, 1, 1], [2, 3, 4]):
        order = [0, *range(2, len(shape)), 1]
        for strides in (None, own.strides_of(shape, order), own.strides_of(shape, order[::-1])):
            yield f"{shape} {strides} {formats._format_of(own.Tensor(FLOAT, shape, strides))}"


def chains_of_writes(front: Any) -> Iterator[str]:
    """Several writes into one input, as many as there are such ops, and writes of many bytes."""
    module, places = front["in_place"], [["n1"], "n2"]
    rest = [0, "n1", "n2"]
    ends = {
        "aten.index_put.default": places, "aten.scatter.src": rest, "aten.scatter.value": [0, "n1", 2.0],
        "aten.scatter_add.default": rest, "aten.scatter_reduce.two": [*rest, "sum"],
        "aten.masked_scatter.default": ["n3", "n2"], "slice_scatter": ["n2", 0, 0, 1],
    }  # fmt: skip
    given: list[Any] = [[8, 4], ("int64", [1]), [1, 4], ("bool", [8, 4])]
    kinds = [*ends.items()]
    for count in range(1, 8):
        for chosen in (kinds[:count], [*kinds[:2], kinds[count - 1]]):
            for size in (8, "s0"):
                shapes: list[Any] = [[size, 4], *given[1:]]
                calls = [
                    (name, [f"n{3 + at}" if at else "n0", *more], [size, 4]) for at, (name, more) in enumerate(chosen)
                ]
                yield described(module.op_writes(graph_of(shapes, calls, [3 + len(calls)]), {0: 0}))
    for kind, shape in (
        ("float32", [256, 256]),
        ("float32", [255, 256]),
        ("float16", [256, 512]),
        ("bool", [512, 511]),
    ):
        gm = graph_of(
            [(kind, shape), (kind, [1, shape[1]])], [("slice_scatter", ["n0", "n1", 0, 0, 1], (kind, shape))], [2]
        )
        yield described(module.op_writes(gm, {0: 0}))


def attentions(front: Any) -> Iterator[str]:
    """Attentions of which one result is read: of few scores and of many, with masks of all kinds, and of open sizes."""
    name = "aten._scaled_dot_product_flash_attention_for_cpu.default"

    def made(kind: str, rows: Any, columns: Any, mask: str = "", causal: bool = False, batch: Any = 1) -> Any:
        source, keys = (kind, [batch, 2, rows, 8]), (kind, [batch, 2, columns, 8])
        ends = [source, keys, keys, *([("bool" if mask == "bool" else "float32", [rows, columns])] if mask else [])]
        likes = source, ("float32", [batch, 2, rows])
        named = {"attn_mask": "n3"} if mask else {}
        calls = [(name, ["n0", "n1", "n2", 0.0, causal], likes, named), ("getitem", [f"n{len(ends)}", 0], source)]
        return graph_of(ends, calls, [len(ends) + 1])

    masks = (("", False), ("", True), ("float", False), ("bool", False), ("known", False))
    for kind, size, (mask, causal) in itertools.product(("float32", "bfloat16", "float16"), (4, 64, 255, 256), masks):
        if size > 4 and mask == "known":
            continue
        gm = made(kind, size, size, mask, causal)
        *inputs, call, first, _ = gm.graph.nodes
        metas = {node: node.meta.get("val") for node in gm.graph.nodes}
        known = {inputs[3]: np.float32([[0, -np.inf, 1, 0]] * 4)} if mask == "known" else {}
        read = [node for node in inputs if node not in known]
        yield from lines_of(front["lowering"].lower_graph([call, first], read, [first], known, metas).graph)
    for rows, columns, batch in (("s0", "s1", 1), ("s0", 6, 1), (4, "s0", 1), (4, 6, 1), (4, 6, "s0")):
        gm = made("float32", rows, columns, batch=batch)
        program = program_of(gm, {}, [("USER_INPUT", None)] * 3, 1)
        yield from lines_of(front["export"].export(program, None))
    for sizes in (OpenSizes([4, 6]), OpenSizes([256, 512])):
        gm = made("float32", *sizes.symbols)
        *inputs, call, first, _ = gm.graph.nodes
        metas = {node: node.meta.get("val") for node in gm.graph.nodes}
        yield from lines_of(front["lowering"].lower_graph([call, first], inputs, [first], {}, metas).graph)
        yield str(sizes.conditions())


def masked_scores(front: Any) -> Iterator[str]:
    """Safe softmaxes of products plus known masks that leave each query, or each key, a finite number or none."""
    inf, shape = -np.inf, [3, 4]
    masks = {
        "a key for each query": [[0, inf, 1, inf], [inf, 0, 0, inf], [inf, inf, 2, inf]],
        "a query for each key": [[0, 1, 2, 3], [inf] * 4, [0, inf, 0, inf]],
        "a row": [[0, inf, inf, inf]],
        "no row": [[inf] * 4],
        "a number": 0.5,
    }
    for (name, numbers), product, dim in itertools.product(masks.items(), ("mm", "aten.exp.default"), (-1, 1, 0)):
        mask = np.float32(numbers)
        inputs = [[3, 5] if product == "mm" else shape, [5, 4], [*mask.shape]]
        calls: list[Any] = [
            (product, ["n0", "n1"] if product == "mm" else ["n0"], shape),
            ("aten.add.Tensor", ["n3", "n2"], shape),
            ("aten._safe_softmax.default", ["n4", dim], shape),
        ]
        gm = graph_of(inputs, calls, [5])
        sources, taken = [*gm.graph.nodes][:2], [*gm.graph.nodes][3:6]
        metas, known = {node: node.meta.get("val") for node in gm.graph.nodes}, {[*gm.graph.nodes][2]: np.asarray(mask)}
        made = front["lowering"].lower_graph(taken, sources, taken[-1:], known, metas)
        yield f"{name} {product} {dim} {[(op.kind, op.outputs[0].shape) for op in made.graph.ops]}"


PARTS = (
    captured,
    draws_in_order,
    writes,
    views,
    whole_calls,
    decisions,
    open_tensors,
    changes_in_order,
    chains_of_writes,
    attentions,
    masked_scores,
)
BORDERS = {one.__name__: one for one in PARTS}
