"""Makes random valid graphs: every op of an edition, several data types, branches, several outputs.

A graph grows op by op. First an op is chosen, then data types that it takes, preferably those of existing tensors. The
recipe of the op chooses the shapes and attributes. Each input is a matching tensor of the graph, a new graph input or a
constant. An op that the specification refuses is drawn again, so every graph is valid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np

from .._util.validation import as_list, integer
from ..builder.signature_cache import signature
from ..errors import ArgumentError, SpecError, shown
from ..graph import Graph
from ..inference.suggestions import unknown_op
from ..inference.translate_op import translate
from ..ir.op import Array, LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE, DEFAULT, Edition, base_of
from ..opset.editions.registry import edition as edition_named
from ..opset.schema import Schema
from ..opset.shapes import known_dims
from ..opset.signature import AttrValue
from .recipes import Draw, recipe
from .recipes.draw import Dims

DTYPES = (DataType.f32, DataType.bf16, DataType.s8, DataType.u8)
ALWAYS = (DataType.s32, DataType.boolean, DataType.s64)
MAX_ELEMENTS = 512  # of a result that further ops read, so that shapes stay small
RECENT = 6  # number of latest results that ops mostly read
TRIES = 200
Types = dict[str, DataType]


def random_graph(
    seed: int,
    n_ops: int = 10,
    *,
    dtypes: Sequence[object] = DTYPES,
    kinds: Sequence[str] | None = None,
    edition: str = DEFAULT,
) -> Graph:
    """A random valid graph; the same arguments give the same graph in every process.

    Dims are small. Every result that no op reads is a graph output, and so are some other results. Numbers in constants
    are multiples of 1/4, which every data type represents exactly.

    Args:
        seed: seed of all random choices.
        n_ops: number of ops.
        dtypes: data types of activations and weights; s32, boolean and s64 are also used where ops need them.
        kinds: the ops to choose from, by their names in the edition; by default all except Wildcard.
        edition: name of the edition of the specification.

    Raises:
        ArgumentError: the edition or a kind is unknown, a number is invalid, or no such op takes these data types.
    """
    start = integer("seed", seed, -math.inf, math.inf, "an integer")
    count = integer("n_ops", n_ops, 1, math.inf, "an integer of 1 or more")
    types = as_list("dtypes", dtypes, object, "a list of data types")
    if not types:
        raise ArgumentError(f"dtypes: {shown(dtypes)}; expected a list of data types")
    growing = _Growing(Random(start), edition, [DataType.of(dtype) for dtype in types], kinds)
    for _ in range(count):
        growing.grow()
    return growing.finished()


def _contents(rng: Random, dtype: DataType, dims: Dims) -> Array:
    count = math.prod(dims)
    values: list[float]
    if dtype is DataType.boolean:
        values = [rng.random() < 0.5 for _ in range(count)]
    elif dtype.value[0] in "su":
        low, high = (0, 3) if dtype in (DataType.u8, DataType.u4, DataType.s64) else (-3, 3)
        values = [rng.randint(low, high) for _ in range(count)]
    else:
        values = [rng.randint(-8, 8) / 4 for _ in range(count)]
    return np.array(values).reshape(dims).astype(dtype.numpy)


class _Growing:
    def __init__(self, rng: Random, name: str, dtypes: Sequence[DataType], kinds: Sequence[str] | None) -> None:
        self.rng = rng
        self.edition = edition_named(name)
        self.graph = Graph(name)
        self.dtypes = tuple(dtype for dtype in DataType if dtype in dtypes)
        self.categories = _categories(self.edition, kinds)
        self.read: set[int] = set()

    def grow(self) -> None:
        """Add one op."""
        for _ in range(TRIES):
            # A category with many ops is chosen more often, but less than in proportion.
            weights = [len(schemas) ** 0.5 for schemas in self.categories]
            schema = self.rng.choice(self.rng.choices(self.categories, weights)[0])
            types = self._types(base_of(schema))
            if types is not None and self._add(schema, types):
                return
        raise ArgumentError(f"dtypes: {', '.join(map(str, self.dtypes))}; expected some that these ops take")

    def finished(self) -> Graph:
        """The graph with its outputs."""
        for tensor in [tensor for op in self.graph.ops for tensor in op.outputs]:
            if tensor.id not in self.read or self.rng.random() < 0.15:
                self.graph.output(f"out_{len(self.graph.outputs)}", tensor)
        if not self.graph.outputs:  # only ops without results
            self.graph.output("out_0", self.graph._tensors[0])
        return self.graph

    def _types(self, base: Schema) -> Types | None:
        """A data type for each type variable, mostly such that a tensor of the graph can be the first input."""
        first = base.inputs[0].type
        choices = []
        for row in base.types:
            cells = [
                [dtype for dtype in DataType if dtype in types and dtype in (*self.dtypes, *ALWAYS)]
                for types in row.types.values()
            ]
            choices += [dict(zip(row.types, found, strict=True)) for found in product(*cells)]
        if not choices or (first in DataType.__members__ and DataType[first] not in (*self.dtypes, *ALWAYS)):
            return None
        held = {tensor.dtype for op in self.graph.ops for tensor in op.outputs}
        near = [types for types in choices if types.get(first) in held]
        return self.rng.choice(near if near and self.rng.random() < 0.85 else choices)

    def _source(self, draw: Draw, tensors: list[LogicalTensor], low: int, high: int) -> Dims:
        """Dims of the first input: those of a tensor, added to ``tensors``, or new random dims."""
        fits = [
            (tensor, dims)
            for op in self.graph.ops
            for tensor in op.outputs
            if tensor.dtype is draw.dtype(0) and (dims := _small(tensor)) and low <= len(dims) <= high
        ]
        if fits and self.rng.random() < 0.9:
            tensor, dims = self.rng.choice(fits[-RECENT:] if self.rng.random() < 0.7 else fits)
            tensors.append(tensor)
            return dims
        rank = self.rng.randint(max(low, 1), min(high, 4))
        return tuple(self.rng.randint(1, 6 - rank // 2) for _ in range(rank))

    def _add(self, schema: Schema, types: Types) -> bool:
        """Draw an op and add it; returns False if the specification refuses it."""
        base = base_of(schema)
        first: list[LogicalTensor] = []
        draw = Draw(self.rng, base, types, lambda low, high: self._source(draw, first, low, high))
        wanted = [LogicalTensor(0, t.dtype or DataType.f32, t.shape, None, "", t.value) for t in recipe(base)(draw)]
        attrs = draw.attributes()
        port = base.outputs[0].type if base.outputs else ""
        dtype = types.get(port)
        names = None
        if any(port.optional for port in schema.outputs) and base.implied_outputs is None and draw.coin():
            names = [port.name for port in schema.outputs if not port.optional]
        try:
            if base.kind in BASE and self.edition.name != DEFAULT:
                attrs, wanted = in_edition(schema, base, attrs, wanted, self.edition)
            count = None if names is None else len(names)
            signature(self.edition, schema.kind, attrs, wanted, dtype=dtype, n_outputs=count)
        except SpecError:
            return False
        inputs = [first[0] if first and not index else self._tensor_of_type(one) for index, one in enumerate(wanted)]
        self.graph.op(schema.kind, inputs, attrs, dtype=dtype, outputs=names)
        self.read.update(tensor.id for tensor in inputs)
        return True

    def _tensor_of_type(self, wanted: LogicalTensor) -> LogicalTensor:
        """A tensor of the graph with this type: an existing one, a new input, or a new constant."""
        graph, rng = self.graph, self.rng
        if wanted.value is not None:
            return graph.constant(wanted.value)
        fits = [t for t in graph._tensors if (t.dtype, t.shape) == (wanted.dtype, wanted.shape) and not t.constant]
        if fits and rng.random() < 0.6:
            return rng.choice(fits)
        if rng.random() < 0.3 and wanted.dtype is not DataType.s64:  # the builder refuses int64 constants
            return graph.constant(_contents(rng, wanted.dtype, known_dims(wanted.shape)))
        return graph.input(f"in_{len(graph.inputs)}", wanted.dtype, wanted.shape)


def in_edition(
    schema: Schema, base: Schema, attrs: Mapping[str, object], wanted: list[LogicalTensor], target: Edition
) -> tuple[dict[str, AttrValue], list[LogicalTensor]]:
    """The attributes and inputs of an op in the names of its edition; those that the edition lacks are dropped."""
    translated = translate(base.kind, attrs, wanted, source=DEFAULT, target=target.name)
    inputs = []
    for index, tensor in enumerate(translated.inputs):
        assert isinstance(tensor, LogicalTensor)
        order = translated.permutations.get(schema.input_port(index).name)
        if order is not None and tensor.value is not None and tensor.value.ndim == 1:
            tensor = replace(tensor, value=tensor.value[list(order)])
        inputs.append(tensor)
    return dict(translated.attrs), inputs


def _small(tensor: LogicalTensor) -> Dims | None:
    """The dims of a tensor of few elements; None for other tensors."""
    dims = known_dims(tensor.shape)
    return dims if math.prod(dims) <= MAX_ELEMENTS else None


def _categories(chosen: Edition, kinds: Sequence[str] | None) -> list[list[Schema]]:
    """The ops to choose from, by category."""
    wanted: list[object] = [kind for kind in chosen.schemas if kind != "Wildcard"]
    if kinds is not None:
        wanted = as_list("kinds", kinds, object, "a list of ops")
    if not wanted:
        raise ArgumentError(f"kinds: {shown(kinds)}; expected a list of ops")
    by_category: dict[str, list[Schema]] = {}
    for kind in wanted:
        schema = chosen.schema(kind)
        if schema is None:
            hint = unknown_op(chosen, kind)
            expected = f"ops of edition {chosen.name}{'; ' if hint else ''}{hint}"
            raise ArgumentError(f"kinds: {shown(kind)}; expected {expected}")
        by_category.setdefault(schema.category, []).append(schema)
    return list(by_category.values())
