"""Small graphs on both sides of the conditions under which the front end changes a graph; without PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from tests.helpers import torch_stand_in as own

NOW = {"s0": 4, "s1": 6}  # sizes
END = 9223372036854775807


def sized(value: Any) -> Any:
    """A shape whose texts are sizes of PyTorch."""
    if type(value) in (list, tuple):
        return type(value)(sized(one) for one in value)
    is_size = type(value) is str and any(name in value for name in NOW)
    return own.SymInt(value, eval(value, NOW)) if is_size else value


def like_of(stated: Any) -> Any:
    """What is stated of a node: a shape; a data type, a shape, strides and a device; or several.

    Nothing is stated for None.
    """
    if stated is None or isinstance(stated, (own.Tensor, own.SymInt)):
        return stated
    if type(stated) is list:
        return own.Tensor(own.FLOAT, sized(stated))
    if type(stated[0]) is str:
        kind, *ends = stated
        return own.Tensor(own.Dtype(kind), *map(sized, ends[:2]), *ends[2:])
    return tuple(map(like_of, stated))


def graph_of(inputs: Sequence[Any], calls: Sequence[Any], results: Any) -> own.GraphModule:
    """A module of calls.

    Args:
        inputs: what is stated of each.
        calls: an op, its arguments, what is stated of the result, and perhaps arguments by name; ``n3`` is the fourth
            node, and other texts of arguments are sizes.
        results: the places of nodes.
    """
    graph, nodes = own.Graph(), list[own.Node]()

    def argument(value: Any) -> Any:
        if type(value) is list:
            return [argument(one) for one in value]
        return nodes[int(value[1:])] if type(value) is str and value[0] == "n" else sized(value)

    for place, stated in enumerate(inputs):
        nodes.append(graph.placeholder(f"x{place}"))
        nodes[-1].meta["val"] = like_of(stated)
    for name, places, stated, *named in calls:
        plain = own.operator.getitem if name == "getitem" else None
        target = plain or own.OPS.target(name if "." in name else f"aten.{name}.default")
        kwargs = {key: argument(one) for key, one in named[0].items()} if named else {}
        nodes.append(graph.call_function(target, argument(places), kwargs))
        nodes[-1].meta["val"] = like_of(stated)
    graph.output(tuple(nodes[one] for one in results))
    return own.GraphModule({}, graph)


def changed(function: Any, gm: own.GraphModule, *args: Any) -> Iterator[str]:
    """The lines of what a function makes of a graph."""
    try:
        result = function(gm, *args)
        yield str(sorted(map(str, result)) if isinstance(result, (set, frozenset, dict)) else result)
    except Exception as error:
        yield type(error).__name__
    yield from gm.graph.lines()


def sums_of_parts(front: Any) -> Iterator[str]:
    """Sums of disjoint parts of a tensor, and sums beside them."""
    join = front["parts"].join_parts
    cut, one = "slice_scatter", "select_scatter"
    terms: dict[str, list[Any]] = {
        "whole": [(cut, 0, 0, 2), (cut, 0, 2, 6)],
        "turned": [(cut, 0, 3, 6), (cut, 0, 0, 3)],
        "gap": [(cut, 0, 0, 2), (cut, 0, 3, 5)],
        "overlap": [(cut, 0, 0, 3), (cut, 0, 2, 6), (cut, 0, 3, 4)],
        "selected": [(one, 0, 1), (one, 0, -1)],
        "axes": [(cut, 0, 0, 2), (cut, 1, 0, 2), (cut, -1, 2, 4)],
        "both": [(one, 0, 0), (cut, 0, 1, 6)],
        "steps": [(cut, 0, 0, 2, 2), (cut, 0, 2, 6, 1)],
        "ends": [(cut, 0, None, -4), (cut, 0, 2, END)],
        "empty": [(cut, 0, 2, 2), (cut, 0, 2, 6)],
        "short": [(cut,), (cut, 0, 2)],
        "open": [(cut, 0, 0, "s0"), (cut, 0, 4, 6)],
        "far": [(cut, 0, 0, 2), (cut, 0, 7, 9)],
    }
    zeros: dict[str, Any] = {
        "new_zeros": ["n0", [6, 4]],
        "zeros": [[6, 4]],
        "zeros_like": ["n1"],
        "full": [[6, 4], 0],
        "new_full": ["n0", [6, 4], 0],
        "full_like": ["n1", 1],
        "ones": [[6, 4]],
    }
    cases = [(key, "zeros", "") for key in terms] + [("whole", key, "") for key in zeros]
    cases += [
        ("whole", "zeros", key) for key in ("more", "twice", "named", "kept", "inner", "wide", "scatter", "dtype")
    ]
    cases += [("gap", "zeros", "sizes"), ("whole", "zeros", "sizes"), ("whole", "zeros", "axis")]
    for key, zero, form in cases:
        full: Any = [6, 4] if form != "sizes" else [6, "s0"]
        full = ["s1", 4] if form == "axis" else full
        inputs: list[Any] = [[2, 4], full]
        calls: list[Any] = []
        made = []
        for op, *place in terms[key]:
            size = (place[2] or 6) - (place[1] or 0) if len(place) > 2 and type(place[2]) is int else 2
            part = [max(size, 0), full[1]] if op == cut else [full[1]]
            inputs.append(part if form != "dtype" else ("bfloat16", part))
        for number, (op, *place) in enumerate(terms[key]):
            calls.append((zero, zeros[zero], full))
            more = {"a": 1} if form == "scatter" else {}
            calls.append((op, [f"n{len(inputs) + len(calls) - 1}", f"n{number + 2}", *place], full, more))
            made.append(len(inputs) + len(calls) - 1)
        whole = made[0]
        for place_of in made[1:]:
            calls.append(
                ("aten.add.Tensor", [f"n{whole}", f"n{place_of}"], full, {"alpha": 2} if form == "named" else {})
            )
            whole = len(inputs) + len(calls) - 1
        if form == "more":
            calls.append(("aten.add.Tensor", ["n1", f"n{whole}"], full))
        if form == "twice":
            calls.append(("aten.add.Tensor", [f"n{whole}", f"n{whole}"], full))
        if form == "wide":
            calls.append(("aten.add.Tensor", [f"n{whole}", "n0"], full))
        results = [len(inputs) + len(calls) - 1, *([made[0]] if form == "kept" else [whole] if form == "inner" else [])]
        yield f"{key} {zero} {form}"
        yield from changed(join, graph_of(inputs, calls, results))


def joint_graphs(front: Any) -> Iterator[str]:
    """What the backward graph need not read."""
    joint = front["joint"]
    shape = [2, 3]
    calls: list[Any] = [("mul.Tensor", ["n0", "n0"], shape), ("detach", ["n1"], shape), ("alias", ["n2"], shape)]
    calls = [(name if "." not in name else f"aten.{name}", *rest) for name, *rest in calls]
    further = {
        "view": ("aten.view.default", ["n3", [6]], [6]),
        "copy": ("aten.clone.default", ["n3"], shape),
        "alias": ("aten.alias.default", ["n3"], shape),
    }
    for call, results in itertools.product(further.values(), ([4], [3], [2], [4, 3], [4, 2], [1], [1, 4])):
        yield from changed(joint.without_aliases, graph_of([shape], [*calls, call], results))
    window = [[2, 2], [2, 2], [0, 0], [1, 1], False]
    for kind, picture in itertools.product(("float32", "float16", "bfloat16", "float64"), ([1, 2, 4, 4], [2, 4, 4])):
        small = [*picture[:-2], 2, 2]
        for taken in ("getitem", "aten.clone.default"):
            pool = ("max_pool2d_with_indices", ["n0", *window], ((kind, small), ("int64", small)))
            place = (taken, ["n2", 1] if taken == "getitem" else ["n1"], ("int64", small))
            back = ("max_pool2d_with_indices_backward", ["n1", "n0", *window, "n3"], (kind, picture))
            gm = graph_of([(kind, picture), (kind, small)], [pool, place, back], [4])
            yield from changed(joint.without_indices, gm)
    for trained in (True, False):
        arguments = ["n0", "n0", "n1", "n1", "n1", "n1", "n1", trained, 1e-5, [True, True, True]]
        yield from changed(
            joint.without_statistics, graph_of([shape, [3]], [("native_batch_norm_backward", arguments, shape)], [2])
        )
        arguments[0] = "n1"
        yield from changed(
            joint.without_statistics, graph_of([shape, [3]], [("native_batch_norm", arguments, shape)], [2])
        )


def gradients_of_tables(front: Any) -> Iterator[str]:
    """Gradients of embeddings and what they are added to."""
    add = front["embeddings"].add_rows_in_place
    table, rows = [8, 4], [2, 3, 4]
    totals: dict[str, list[Any]] = {
        "call": [("aten.mul.Tensor", ["n2", "n2"], table)],
        "view": [("aten.mul.Tensor", ["n3", "n3"], [32]), ("aten.view.default", ["n5", table], table)],
        "views": [
            ("aten.mul.Tensor", ["n3", "n3"], [32]),
            ("aten.view.default", ["n5", [4, 8]], [4, 8]),
            ("aten.t.default", ["n6"], table),
        ],
        "input": [("aten.view.default", ["n3", table], table)],
        "expanded": [("aten.expand.default", ["n4", table], ("float32", table, [0, 1]))],
        "repeated": [("aten.mul.Tensor", ["n2", "n2"], ("float32", table, [0, 1]))],
        "overlapping": [("aten.mul.Tensor", ["n2", "n2"], ("float32", table, [2, 1]))],
        "kind": [("aten.mul.Tensor", ["n2", "n2"], ("bfloat16", table))],
        "shape": [("aten.mul.Tensor", ["n2", "n2"], [1, 4])],
        "open": [("aten.mul.Tensor", ["n2", "n2"], [8, "s0"])],
        "none": [("aten.mul.Tensor", ["n2", "n2"], None)],
    }
    for key, calls in totals.items():
        for turned, form in itertools.product(
            (False, True), ("", "read", "two", "scaled", "named", "meta") if key == "call" else ("",)
        ):
            total, gradient = f"n{4 + len(calls)}", f"n{5 + len(calls)}"
            stated: Any = (
                ("float32", table, [4, 1], "meta") if form == "meta" else table if key != "open" else [8, "s0"]
            )
            back = ("embedding_dense_backward", ["n0", "n1", 8, -1, form == "scaled"], stated)
            pair = [gradient, total] if turned else [total, gradient]
            end = ("aten.add.Tensor", pair, stated, {"alpha": 2} if form == "named" else {})
            results = [6 + len(calls)] + [4 + len(calls)] * (form == "read") + [5 + len(calls)] * (form == "two")
            inputs = [rows, ("int64", [2, 3]), table, [32], [4]]
            yield f"{key} {form}"
            yield from changed(add, graph_of(inputs, [*calls, back, end], results))
    both = [("embedding_dense_backward", ["n0", "n1", 8, -1, False], table)] * 2
    yield from changed(add, graph_of([rows, ("int64", [2, 3])], [*both, ("aten.add.Tensor", ["n2", "n3"], table)], [4]))
    yield from changed(
        add, graph_of([rows, ("int64", [2, 3])], [*both[:1], ("aten.add.Tensor", ["n2", 3], table)], [3])
    )


def foldings(front: Any) -> Iterator[str]:
    """Calls that give the same in every run, empty parts of joins, and pairs of transposes."""
    folding, codes = front["folding"], 1 << 16
    for pair, stated in itertools.product(
        (
            (("t", []), ("t", [])),
            (("aten.transpose.int", [0, 1]), ("aten.transpose.int", [-1, -2])),
            (("aten.transpose.int", [0, 1]), ("t", [])),
            (("permute", [[1, 0]]), ("permute", [[-1, 0]])),
            (("permute", [[1, 0]]), ("permute", [[0, 1]])),
            (("t", []), ("clone", [])),
            (("clone", []), ("t", [])),
        ),
        ("", "last", "both", "input", "source"),
    ):
        calls: list[Any] = [] if stated in ("both", "input") else [("aten.mul.Tensor", ["n0", "n0"], [2, 3])]
        for place, (name, places) in enumerate(pair):
            calls.append((name, [f"n{len(calls)}", *places], [3, 2] if place == 0 else [2, 3]))
        at = len(calls)
        calls.append(("aten.mul.Tensor", [f"n{at}", f"n{at}"], [2, 3]))
        results = {"": [at + 1], "last": [at, at + 1], "both": [at], "input": [at + 1], "source": [1, at]}[stated]
        yield from changed(folding.without_returns, graph_of([[2, 3]], calls, results))
    three = [
        ("permute", ["n0", [1, 2, 0]], [3, 4, 2]),
        ("permute", ["n1", [2, 0, 1]], [2, 3, 4]),
        ("permute", ["n2", [1, 2, 0]], [3, 4, 2]),
    ]
    yield from changed(folding.without_returns, graph_of([[2, 3, 4]], three, [3]))
    yield from changed(
        folding.without_returns,
        graph_of([[]], [("aten.transpose.int", ["n0", 0, 0], []), ("aten.transpose.int", ["n1", 0, 0], [])], [2]),
    )
    for kinds, made in itertools.product((("float32", "float32"), ("bfloat16", "float32")), ("float32", "bfloat16")):
        for shapes in (([0, 3], [2, 3]), ([2, 3], [2, 3]), ([0, 3], [0, 3]), ([2, 0], ["s0", 3])):
            inputs = [(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)]
            call = ("cat", [["n0", "n1"], 0], (made, [2, 3]))
            yield from changed(folding.without_empty, graph_of(inputs, [call], [2]))
    large = 1 << 24
    calls = [
        ("aten.mul.Tensor", ["n0", "n0"], [2, 3]),
        ("aten.mul.Tensor", ["n1", "n1"], [2, 3]),
        ("full_like", ["n1", 2.0], [2, 3]),
        ("zeros_like", ["n0"], ("bfloat16", [2, 3], [1, 2])),
        ("aten.full.default", [[large], 1.0], [large]),
        ("aten.full.default", [[large + 1], 1.0], [large + 1]),
        ("aten.add.Tensor", ["n0", "n0"], [large + 1]),
        ("aten.full.default", [["s0"], 1.0], ["s0"]),
        ("aten.empty.memory_format", [[3]], [3]),
        ("aten.full.default", [[3], 1.0], ("float32", [3], [1], "cuda")),
        ("onegraph.bernoulli_like.default", ["n0", 0.5], [2, 3]),
        ("aten.split.Tensor", ["n0", 1], ([1, 3], [1, 3])),
        ("getitem", ["n13", 1], [1, 3]),
        ("aten.sym_size.int", ["n0", 0], None),
        ("aten._to_copy.default", ["n2"], ("float32", [256, 256])),
        ("aten._to_copy.default", ["n2"], ("int32", [256, 256])),
        ("aten._to_copy.default", ["n0"], ("bfloat16", [2, 3])),
        ("aten.copy_.default", ["n18", "n0"], [2, 3]),
        ("aten.mul.Tensor", ["n18", "n0"], [2, 3]),
    ]
    for shape in ([256, 256], [codes // 16, 8, 2], [2, 8], [64, 64], [codes]):
        for kind in ("int8", "uint8", "int16"):
            gm = graph_of([[2, 3], [2, 3], (kind, shape)], calls, [21])
            inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
            known = {node: node.meta["val"] for node in (inputs[0], inputs[2])}
            for node in gm.graph.nodes:
                if node.meta.get("val") is None:
                    node.meta.pop("val", None)
            found = folding.folded(gm, known)
            folding.without_sources(found)
            yield f"{kind} {shape} {[(node.name, node.args) for node in found]}"


def pictures(front: Any) -> Iterator[str]:
    """Saved pictures, and inputs of backward graphs in other orders or data types."""
    saved, image = front["saved"], [1, 3, 4, 4]
    last = ("float32", image, [48, 1, 12, 3])
    kinds: Any = ("float32", "float64")
    for (name, places), stated in itertools.product(
        (
            ("convolution", ["n0", "n1"]),
            ("relu", ["n2"]),
            ("relu", ["n0"]),
            ("aten.add.Tensor", ["n2", "n0"]),
            ("aten.view.default", ["n2", image]),
            ("aten._unsafe_view.default", ["n2", image]),
            ("aten.mm.default", ["n3", "n3"]),
            ("getitem", ["n4", 0]),
        ),
        (image, ("float64", image), last, [3, 4, 4], [1, "s0", 4, 4], None),
    ):
        calls = [
            ("convolution", ["n0", "n1"], image),
            ("mean", ["n2"], [3]),
            ("native_batch_norm_backward", ["n2"], (image, [3])),
            (name, places, stated),
            ("aten.add.Tensor", ["n5", "n5"], image),
        ]
        gm = graph_of([image, [3, 3, 3, 3]], calls, [5, 6])
        nodes = list(gm.graph.nodes)
        for outside in (False, True):
            part = SimpleNamespace(nodes=dict.fromkeys(nodes[2 : 6 if outside else 7]))
            chosen = frozenset([nodes[5]])
            saved.with_channels_last([part], chosen)
            yield f"{name} {nodes[5].meta['val']}"
    for first, second in itertools.product(
        (image, last, ("float64", image), ("bfloat16", last[1], last[2]), [3, 4]), repeat=2
    ):
        calls = [
            ("aten.view.default", ["n0", [48]], [48]),
            ("relu", ["n0"], image),
            ("aten._unsafe_view.default", ["n0", [48]], [48]),
        ]
        gm = graph_of([first], calls, [1, 2, 3])
        yield from changed(saved.with_true_forms, gm, [like_of(second)])
    yield from changed(
        saved.with_true_forms, graph_of([image, own.SymInt("s0", 4)], [("relu", ["n0"], image)], [2]), [3, 4]
    )
    yield str(kinds)


def layouts_of_kernels(front: Any) -> Iterator[str]:
    """The strides that PyTorch's kernels give results."""
    strides, image = front["strides"], [2, 3, 4, 4]
    last, turned = [48, 1, 12, 3], [16, 32, 4, 1]
    one, thin = [1, 3, 1, 1], [2, 1, 4, 4]
    calls: list[Any] = [
        ("aten.add.Tensor", ["n0", "n1"]),
        ("aten.add.Tensor", ["n0", 2]),
        ("aten.add.Scalar", ["n0", 2]),
        ("aten.pow.Tensor_Scalar", ["n0", 2]),
        ("aten.neg.default", ["n0"]),
        ("aten.clone.default", ["n0"]),
        ("aten.addcmul.default", ["n0", "n1", "n0"]),
        ("aten.where.self", ["n0", "n1", "n0"]),
        ("aten.full_like.default", ["n0", 1.0]),
        ("aten.roll.default", ["n0", [1], [0]]),
        ("aten.index.Tensor", ["n0", [None, "n2"]]),
        ("aten.view.default", ["n0", image]),
        ("aten.view.default", ["n0", [96]]),
        ("aten._unsafe_view.default", ["n0", [6, 16]]),
        ("aten.mm.default", ["n0", "n1"]),
        ("aten.neg_.default", ["n0"]),
        ("aten.mul.Tensor", ["n0", "n0"]),
        ("aten.lerp.Scalar", ["n0", "n1", 0.5]),
        ("aten.clamp.Tensor", ["n0", "n1", "n0"]),
        ("getitem", ["n0", 0]),
    ]
    pairs = (
        (image, turned, turned),
        (image, last, last),
        (image, last, turned),
        (image, turned, [16, 16, 4, 1]),
        (one, [3, 1, 1, 1], [3, 1, 3, 3]),
        (image, *([48, 16, 4, 1],) * 2),
        (thin, *([16, 1, 4, 1],) * 2),
    )
    for (name, places), (shape, first, second) in itertools.product(calls, pairs):
        for stated in (None, [0, 16, 4, 1]):
            inputs = [("float32", shape, first), ("float32", shape, second), ("int64", [3])]
            like = ("float32", shape, stated or own.strides_of(shape))
            if name.endswith("view.default") and places[1] != image:
                like = ("float32", places[1])
            more = [{}, {"memory_format": own.ROWS}] if "like" in name and stated is None else [{}]
            for kwargs in more:
                gm = graph_of(inputs, [(name, places, like)], [3])
                node = list(gm.graph.nodes)[3]
                node.kwargs = kwargs
                try:
                    found = strides.with_kernel_strides(node)
                except Exception as error:
                    found = type(error).__name__
                yield f"{name} {found} {node.target} {node.meta['val']}"
    for shape, steps in (
        ([2, 3, 8], [24, 8, 1]),
        ([2, 3, 8], [24, 1, 3]),
        ([2, 3, "s0"], [24, 8, 1]),
        ([1 << 13, 1 << 12], [1, 1 << 13]),
    ):
        for name, places in (
            ("convolution", ["n0", "n1"]),
            ("aten.roll.default", ["n0", [1], [0]]),
            ("aten.view.default", ["n0", shape]),
            ("aten.full_like.default", ["n0", 1.0]),
            ("aten.index.Tensor", ["n0", ["n2"]]),
        ):
            for weights in ((4, 3, 3), (9, 1, 3)), ((4, 3, 3), (9, 3, 1)):
                inputs = [("float32", shape, steps), ("float32", *map(list, weights)), ("bool", [2]), ("int64", [2])]
                gm = graph_of(inputs, [(name, places, ("float32", shape))], [4])
                node = list(gm.graph.nodes)[4]
                try:
                    found = strides.with_kernel_strides(node)
                except Exception as error:
                    found = type(error).__name__
                yield f"{name} {found} {node.target} {node.meta['val']}"


def products(front: Any) -> Iterator[str]:
    """The multiply-adds of calls."""
    module, aten = front["multiply_adds"], own.OPS.aten
    query, key, value = ([2, 3, 5, 7], [2, 3, 11, 7], [2, 3, 11, 13])
    forward, backward = (f"_scaled_dot_product_flash_attention_for_cpu{end}" for end in ("", "_backward"))
    calls: list[Any] = [
        (forward, ["n0", "n1", "n2"], ([2, 3, 5, 13], [2, 3, 5])),
        (backward, ["n0", "n0", "n1", "n2"], (query, key, value)),
        ("aten.mkldnn_rnn_layer.default", ["n3", "n4", "n5"], ([5, 2, 4], [2, 4])),
        ("mm", ["n6", "n7"], [4, 13]),
        ("mm", ["n6", "n7"], None),
        ("relu", ["n6"], [4, 11]),
        ("getitem", ["n8", 0], [2, 3, 5, 13]),
        ("mm", ["n8", "n7"], ["s0", 13]),
    ]
    inputs = [query, key, value, [5, 2, 3], [16, 3], [16, 4], [4, 11], [11, 13], ["s0", 11]]
    gm = graph_of(inputs, calls, [9])
    for node in gm.graph.nodes:
        yield f"{node.name} {module.products_of(node)}"
    nodes, inner = list(gm.graph.nodes), graph_of([[4, 11], [11, 13]], [("mm", ["n0", "n1"], [4, 13])] * 2, [2])
    for name in ("cond", "while_loop", "flex_attention", "flex_attention_backward"):
        for arguments in (nodes[:4], [*nodes[:2], 3], [nodes[0], *nodes[:4]]):
            node = gm.graph.call_function(own.higher(name), arguments)
            first, second, third = (gm.graph.get_attr(one) for one in ("a.b", "c", "d"))
            node.args = (*node.args, first, second, third)
            vars(gm).update(
                {
                    "a": SimpleNamespace(b=inner),
                    "c": graph_of([[4, 11], [11, 13]], [("mm", ["n0", "n1"], [4, 13])], [2]),
                }
            )
            try:
                yield f"{name} {module.products_of(node)}"
            except KeyError:
                yield f"{name} reads a graph"
    op, wrapped = aten.mm.default, own.higher("with_effects")
    for arguments, like in itertools.product(
        ([op, nodes[6], nodes[7]], [nodes[0], op, nodes[6], nodes[7]], [op, own.Dtype("float32"), nodes[6], nodes[7]]),
        ([4, 13], (None, [4, 13]), ([4, 13], None), None),
    ):
        node = gm.graph.call_function(wrapped, arguments)
        node.meta["val"] = like_of(like)
        yield str(module.products_of(node))
    node = gm.graph.call_function(own.higher("auto"), [op])
    node.kwargs = {
        "_all_bases": [nodes[6], nodes[7]],
        "_self_base_index": 0,
        "mat2": nodes[7],
        "_x": 1,
        "_b_base_index": None,
    }
    node.meta["val"] = like_of([4, 13])
    told: list[str] = []
    kept = module.FORMULAS.get(aten.mm)
    module.FORMULAS[aten.mm] = lambda *args, **kwargs: told.append(f"{args} {kwargs}") or 10
    yield f"{module.products_of(node)} {told}"
    module.FORMULAS.pop(aten.mm) if kept is None else module.FORMULAS.update({aten.mm: kept})


def types_of_norms(front: Any) -> Iterator[str]:
    """The data types and the orders of axes of normalizations."""
    change, image, last = front["true_types"].with_true_types, [2, 3, 4, 4], [48, 1, 12, 3]
    kinds = (("bfloat16", "float32"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float16", "float32"))
    for (kind, weights), steps in itertools.product(kinds, (None, last, [16, 32, 4, 1])):
        source = (kind, image) if steps is None else (kind, image, steps)
        inputs = [source, (weights, [3]), (kind, [3])]
        results = ((kind, image), *[(kind, [3])] * 4, ("uint8", [0]), (kind, [3]))
        norms: list[Any] = [
            ("native_layer_norm", ["n0", [3], "n1", "n1", 1e-5], results[:3]),
            ("native_layer_norm", ["n0", [3], None, None, 1e-5], results[:3]),
            ("native_group_norm", ["n0", "n1", "n1", 2, 3, 16, 1, 1e-5], results[:3]),
            ("_native_batch_norm_legit_functional", ["n0", "n1", "n1", "n1", "n2", True, 0.1, 1e-5], results[:5]),
            ("aten._native_batch_norm_legit.no_stats", ["n0", "n1", "n2", True, 0.1, 1e-5], results[:3]),
            ("_batch_norm_with_update_functional", ["n0", "n1", "n1", "n2", "n2", 0.1, 1e-5], results),
            ("_native_batch_norm_legit_no_training", ["n0", "n1", "n1", "n1", "n1", 0.1, 1e-5], results[:3]),
            ("im2col", ["n0", [2, 2], [1, 1], [0, 0], [1, 1]], (kind, [2, 12, 9], [1, 2, 24])),
        ]
        for norm in norms:
            calls = [norm]
            if type(norm[2][0]) is tuple:
                calls += [("getitem", ["n3", place], norm[2][place]) for place in range(len(norm[2]))]
            calls.append(("aten.neg.default", [f"n{4 if len(calls) > 1 else 3}"], (kind, image)))
            yield from changed(change, graph_of(inputs, calls, [2 + len(calls)]))


TABLES = {
    one.__name__: one
    for one in (
        sums_of_parts,
        joint_graphs,
        gradients_of_tables,
        foldings,
        pictures,
        layouts_of_kernels,
        products,
        types_of_norms,
    )
}
