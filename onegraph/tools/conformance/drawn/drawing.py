"""Draws random valid uses of ops: data types, dims, attributes, optional ports, and arrays to run them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from ...._util.records import record
from ....errors import ArgumentError, OneGraphError
from ....graph import Graph
from ....inference.suggestions import unknown_op
from ....ir.op import Array, LogicalTensor
from ....opset.dtypes import DataType
from ....opset.editions.registry import BASE, DEFAULT, EDITIONS, Edition, base_of
from ....opset.editions.registry import edition as edition_named
from ....opset.schema import Schema, TensorType
from ....opset.signature import AttrValue
from ....testing.random_inputs import random_inputs
from ....testing.recipes import Draw, recipe
from ....testing.recipes.draw import Dims
from ..page_of_op import PageOfOp
from ..uses import GIVEN, ProbedUse, plain

DIMS = (1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8)  # what a dim is drawn from
LONG_DIMS = (9, 15, 16, 17, 24, 32, 33)  # now and then, beside the vectors of kernels
LONG = 0.06
MAX_ELEMENTS = 4096  # of the first input
TRIES = 400
HALF = 0.5
# An op whose kind stands for any op, and an op without a result.
NOT_DRAWN = frozenset(["Wildcard", "End"])


@record(frozen=True)
class DrawnUse:
    """A valid use of an op.

    Attributes:
        number: it follows from the seed and this number alone, whatever else is drawn.
        edition: name of an edition that allows the use.
        graph: a graph of the op alone, in base words; tensors whose contents decide shapes are constants.
        use: the op with its arrays.
    """

    number: int
    edition: str
    graph: Graph
    use: ProbedUse


def pages_to_draw(name: str | None, kinds: Sequence[str], version: tuple[int, int, int]) -> dict[str, list[PageOfOp]]:
    """The pages of each op that uses are drawn from, by base kind.

    Args:
        name: name of the edition; None for every edition that is not newer than the library.
        kinds: names of ops in these editions; every op if there are none.
        version: that of the library.

    Raises:
        ArgumentError: no edition has an op of a given name, or the library has none of the ops.
    """
    chosen = [edition_named(edition) for edition in (EDITIONS if name is None else [name])]
    for kind in kinds:
        if not any(kind in edition.schemas for edition in chosen):
            hint = unknown_op(chosen[-1], kind)
            raise ArgumentError(f"{kind!r} is no op of {name or 'any edition'}" + (f"; {hint}" if hint else ""))
    pages: dict[str, list[PageOfOp]] = {}
    for edition in chosen:
        for kind, schema in edition.schemas.items():
            base = base_of(schema)
            known = base.kind in BASE and base.kind not in NOT_DRAWN and base.since <= version
            if known and (not kinds or kind in kinds) and (name is not None or _is_old_enough(edition, version)):
                pages.setdefault(base.kind, []).append(PageOfOp(edition, schema))
    if not pages:
        raise ArgumentError(f"{', '.join(kinds)}: oneDNN {'.'.join(map(str, version))} has none of these ops")
    return pages


def _is_old_enough(edition: Edition, version: tuple[int, int, int]) -> bool:
    """Whether a library of ``version`` knows everything in an edition."""
    family, _, number = edition.name.partition("-")
    return family != "onednn" or tuple(map(int, number.split("."))) <= version[:2]


def draw(seed: int, number: int, pages: dict[str, list[PageOfOp]]) -> DrawnUse | None:
    """The use with this number: the ops take turns; None if the specification refuses everything that was drawn."""
    kinds = list(pages)
    rng = Random(f"{seed} {number}")
    page = rng.choice(pages[kinds[number % len(kinds)]])
    for _ in range(TRIES):
        graph = _graph(rng, page)
        use = None if graph is None else use_of(graph, number)
        if graph is not None and use is not None and page.allows(use):
            return DrawnUse(number, page.edition.name, graph, use)
    return None


def _source(rng: Random, low: int, high: int) -> Dims:
    rank = rng.randint(low, high)
    dims = [rng.choice(LONG_DIMS if rng.random() < LONG else DIMS) for _ in range(rank)]
    while _count(dims) > MAX_ELEMENTS:
        dims[dims.index(max(dims))] //= 2
    return tuple(dims)


def _count(dims: Sequence[int]) -> int:
    total = 1
    for dim in dims:
        total *= dim
    return total


def _graph(rng: Random, page: PageOfOp) -> Graph | None:
    """A graph of one op with random attributes, shapes and data types; None if the specification refuses it."""
    base = page.base
    types = {name: DataType[word] for name, word in rng.choice(page.combinations).items()}
    drawing = Draw(rng, base, types, lambda low, high: _source(rng, low, high), wide=True)
    try:
        inputs = recipe(base)(drawing)
        attrs = {name: value for name, value in drawing.attributes().items() if page_has(page, name)}
        graph = graph_of(base, attrs, inputs, _output_types(drawing, base))
        return None if any(0 in (tensor.shape or ()) for tensor in graph._tensors) else graph
    except (OneGraphError, ValueError, IndexError):
        return None


def page_has(page: PageOfOp, name: str) -> bool:
    """Whether an edition has an attribute, by its base name."""
    return any(page.base_name(attribute.name) == name for attribute in page.schema.attributes)


def _output_types(drawing: Draw, base: Schema) -> tuple[DataType, ...]:
    required = sum(not port.optional for port in base.outputs)
    count = drawing.number(required, len(base.outputs))
    if base.implied_outputs is not None and drawing.coin(0.8):
        count = required if drawing.fixed.get("keep_stats") is False else len(base.outputs)
    return tuple(drawing.types.get(port.type) or DataType[port.type] for port in base.outputs[:count])


def graph_of(
    base: Schema, attrs: Mapping[str, AttrValue], inputs: Sequence[TensorType], outputs: Sequence[DataType]
) -> Graph:
    """A graph of one op, in base words.

    Raises:
        SpecError: the newest edition refuses the op.
    """
    graph = Graph(DEFAULT)
    tensors: list[LogicalTensor | None] = []
    for index, tensor in enumerate(inputs):
        if tensor.value is not None and base.input_port(index).gives_shape:
            tensors.append(graph.constant(tensor.value))
        else:
            tensors.append(graph.input(f"in{index}", tensor.dtype, tensor.shape))
    names = [f"out{index}" for index in range(len(outputs))]
    edition = edition_named(DEFAULT)
    results = graph._add_op(edition, base.kind, attrs, tensors, tuple(outputs), name=base.name, names=names)
    for name, result in zip(names, results, strict=True):
        graph.output(name, result)
    return graph


def use_of(graph: Graph, seed: int) -> ProbedUse | None:
    """The use of the one op of a graph, with random arrays; None if no valid arrays are known."""
    (op,) = graph.ops
    try:
        made = random_inputs(graph, seed)
    except ArgumentError:
        return None
    tensors: list[list[Any]] = []
    picks: list[tuple[int, str]] = []
    for tensor in op.inputs:
        if tensor is None:
            return None
        array: Array = made[tensor.name] if tensor.value is None else tensor.value
        if op.attrs.get("mode") == "inf_as_zero" and Random(seed).random() < HALF:
            array = _with_a_row_of_nothing(array, op.attrs.get("axis", 1))
        picks.append((len(tensors), tensor.dtype.value))
        tensors.append([tensor.dtype.value, list(array.shape), _numbers(array)])
    outputs = tuple(tensor.dtype.value for tensor in op.outputs)
    attrs = {name: plain(value) for name, value in op.attrs.items()}
    return ProbedUse(op.kind, (GIVEN,), tuple(picks), attrs, outputs, tensors)


def _with_a_row_of_nothing(array: Array, axis: AttrValue) -> Array:
    """The array with -inf in its first row along an axis, which the mode inf_as_zero is about."""
    assert isinstance(axis, int)
    filled = array.copy()
    np.moveaxis(filled, axis, -1)[(0,) * (array.ndim - 1)] = -np.inf
    return filled


def _numbers(array: Array) -> list[float] | list[int] | list[bool]:
    """The contents as numbers of JSON, each exactly."""
    numbers: list[float] = array.ravel().tolist() if array.dtype.kind in "biu" else array.astype("f8").ravel().tolist()
    return numbers
