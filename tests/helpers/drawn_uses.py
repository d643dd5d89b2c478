"""Uses of ops of any edition that are checked and translated, right ones and wrong ones: materials of :mod:`draws`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np

import onegraph as og
from onegraph.errors import OneGraphError
from onegraph.ir.op import LogicalTensor
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE, EDITIONS, HOST, edition
from onegraph.opset.schema import TensorType
from onegraph.testing.random_graph import random_graph
from tests.lowering import test_recorded_graphs as recorded

from .draws import BOUNDS, WORDS, every_kind, graph_of, material
from .neighbours import attributes_beside, neighbours

LEGACY = ("legacy-1", "oneapi-1.2", "oneapi-1.4", "onednn-3.2", "onednn-3.14")
SETS = ("", "@avx2", "@avx512_core", "@avx512_core_fp16", "@sse41", "@avx512_core_amx")
VALUES = (None, True, 0, -1, 2**63, 1.5, float("inf"), float("nan"), "", "x", "NXC", b"x", [], [1, 2], [1.5], (0,), {})
OBJECTS = (*VALUES, np.int64(3), np.float32(1.5), np.array([1, 2]), np.array([[1]]), np.array(["x"]), range(2), {1: 2})
TYPES = ("f32", "bf16", "f16", "s8", "u8", "s32", "s64", "boolean", "f8_e4m3", "float64")


class Written(NamedTuple):
    """A use of an op as arguments of a check."""

    kind: Any
    attrs: Any
    inputs: Any
    outputs: Any
    words: str


def written(words: str, drawn: Random) -> Written:
    """A right use of an op of an edition: in a random graph, or beside a case."""
    kind = drawn.choice([*edition(words).schemas])
    graph = None
    if words != WORDS and words != HOST:
        with suppress(OneGraphError):
            types = ("f32", "s8", "u8", drawn.choice(("f16", "bf16")))
            graph = random_graph(drawn.randrange(2**16), 1, dtypes=types, kinds=[kind], edition=words)
    if graph is None:
        kinds = [one for one in every_kind() if one.removeprefix("host ") == kind] or ["ReLU"]
        graph = graph_of(drawn.choice(kinds), drawn)
    if not graph.ops:
        return Written(kind, {}, [], [], words)
    op = drawn.choice(graph.ops)
    return Written(op.kind, dict(op.attrs), [*op.inputs], [*op.outputs], op.edition)


def types_of(tensors: Any) -> list[TensorType | None]:
    return [None if one is None else TensorType(one.dtype, one.shape, one.value) for one in tensors]


def strided(known: TensorType | None, drawn: Random) -> Any:
    """A logical tensor of a type, whose strides, dims or rank may be others."""
    if known is None or known.dtype is None or known.shape is None:
        return known
    dims = [dim or 2 for dim in known.shape]
    steps = [int(np.prod(dims[place + 1 :])) * drawn.choice((1, 1, 2)) for place in range(len(dims))]
    shape = drawn.choice((tuple(dims), tuple(dims), known.shape, None, tuple(dims[:-1]), tuple(dims[1:])))
    is_given = shape == tuple(dims) and drawn.random() < 0.6
    return LogicalTensor(0, known.dtype, shape, tuple(steps) if is_given else None, "t", None)


def other_types(tensors: Any, drawn: Random) -> Any:
    """Types beside those of some tensors."""
    types = types_of(tensors)
    kind = drawn.random()
    if kind < 0.25 and types:
        return [strided(one, drawn) if drawn.random() < 0.6 else one for one in types]
    if kind < 0.4 and types:
        others = [*recorded.less_known(types)]
        return drawn.choice(others) if others else types
    if kind < 0.6 and types:
        return drawn.choice([*neighbours(types, drawn.sample(BOUNDS, 2)), types])
    if kind < 0.7:
        return drawn.choice((types[:-1], [*types, None], [*types, *types[-1:]], [None, *types[1:]], types * 9, []))
    place = drawn.randrange(len(types)) if types else 0
    known = types[place] if types else None
    shape = None if known is None else known.shape
    dims = [dim or 2 for dim in shape or ()]
    wrong: list[Any] = [*OBJECTS, (drawn.choice(TYPES), shape), ("f32", dims), (drawn.choice(TYPES), [1] * 13)]
    wrong += [np.ones(dims, np.float32), ("f32", [2**20] * 3), ("f32", [2**20] * 2 + [2**19]), (shape, "f32")]
    if known is not None and known.dtype is not None:
        wrong += [np.zeros(dims, known.dtype.numpy), replace(known, value=np.zeros(dims, known.dtype.numpy))] * 3
    changed = [*types[:place], drawn.choice(wrong), *types[place + 1 :]]
    return drawn.choice((changed, changed, changed, changed, tuple(changed), drawn.choice(OBJECTS)))


def other_attrs(use: Written, drawn: Random) -> Any:
    """Attributes beside those of a use."""
    schema, attrs = edition(use.words).schema(use.kind), dict(use.attrs)
    kind = drawn.random()
    if schema is not None and kind < 0.4:
        return drawn.choice([*attributes_beside(schema, attrs, BOUNDS), attrs])
    names = [*(attribute.name for attribute in schema.attributes)] if schema is not None else ["axis"]
    name = drawn.choice([*names, "axis", "shape"])
    if kind < 0.7:
        return {**attrs, name: drawn.choice(OBJECTS)}
    if kind < 0.8:
        value = attrs.get(name)
        return {**attrs, name: drawn.choice(([value], value and [value] * 3, str(value), np.array(value or 0), value))}
    if kind < 0.95:
        theirs = [one.name for schema in (BASE.get(use.kind),) if schema for one in schema.attributes]
        others = (name[:-1], name.upper(), f"{name}s", name.replace("_", ""), *theirs, "kernel_size", "stride", 5)
        return {**{key: one for key, one in attrs.items() if key != name}, drawn.choice(others): attrs.get(name, 1)}
    return drawn.choice(OBJECTS)


def other_kind(use: Written, drawn: Random) -> Any:
    kind = use.kind
    words = (
        kind.lower(),
        kind[:-1],
        f"{kind}s",
        kind[:3],
        kind.upper(),
        "Conv",
        "Gemm",
        "BatchNorm",
        "Softmax",
        "x",
        5,
    )
    return drawn.choice((*words, *edition(drawn.choice((HOST, *LEGACY))).schemas))


def changed(use: Written, drawn: Random) -> Written:
    """A use with up to three changes."""
    for _ in range(drawn.choice((0, 1, 1, 2, 3))):
        kind = drawn.random()
        if kind < 0.4:
            use = use._replace(attrs=other_attrs(use, drawn)) if isinstance(use.attrs, dict) and use.kind else use
        elif kind < 0.75 and isinstance(use.inputs, list) and all(hasattr(one, "value") for one in use.inputs):
            use = use._replace(inputs=other_types(use.inputs, drawn))
        elif kind < 0.9 and isinstance(use.outputs, list) and all(hasattr(one, "value") for one in use.outputs):
            use = use._replace(outputs=drawn.choice((None, other_types(use.outputs, drawn))))
        elif isinstance(use.kind, str) and kind < 0.95:
            use = use._replace(kind=other_kind(use, drawn))
        else:
            use = use._replace(words=drawn.choice(LEGACY))
    return use


def checked_use(use: Written, drawn: Random) -> str:
    version = f"3.{drawn.choice((2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, drawn.choice((0, 1))))}" + drawn.choice(
        ("", "", ".1")
    )
    library = drawn.choice(("none", f"{version}{drawn.choice(SETS)}"))
    found = og.check_op(use.kind, use.attrs, use.inputs, use.outputs, edition=use.words, library=library)
    return "\n".join(f"{one.rule} {one.severity} {one.where} {one.message} {one.given} {one.page}" for one in found)


def translated_use(use: Written, drawn: Random) -> str:
    target = drawn.choice([*LEGACY, *EDITIONS])
    inputs = drawn.choice((use.inputs, use.inputs, ()))
    given = drawn.choice((use.outputs, None))
    return str(og.translate(use.kind, use.attrs, inputs, given, source=use.words, target=target))


def added_use(use: Written, drawn: Random) -> str:
    """What adding the op to a graph says and makes."""
    graph = og.Graph(use.words if use.words != HOST else WORDS, strict=drawn.random() < 0.6)
    ends = [
        one
        if one is None or getattr(one, "dtype", None) is None or not hasattr(one, "shape")
        else np.asarray(one.value)
        if getattr(one, "value", None) is not None
        else graph.input(f"x{place}", one.dtype, one.shape)
        for place, one in enumerate(use.inputs)
    ]
    outputs = () if isinstance(use.outputs, np.ndarray) else use.outputs or ()
    dtype = drawn.choice((None, None, DataType.f32, *(getattr(one, "dtype", None) for one in outputs)))
    made = graph.op(use.kind, ends, use.attrs, dtype=dtype, edition=use.words)
    return "\n".join([str(type(made)), *recorded.lines_of(graph)])


WAYS: tuple[Callable[[Written, Random], str], ...] = (checked_use, translated_use, added_use)


@material(lambda: (*LEGACY, WORDS, HOST))
def used(name: str, number: int) -> list[str]:
    """What a check, a translation or a graph makes of a use of an op, right or wrong."""
    drawn = Random(f"{name} {number}")
    use, way = changed(written(name, drawn), drawn), drawn.choice(WAYS)
    return recorded.outcome(way, use, drawn, also=(TypeError,) if way is added_use else ())
