"""Makes a copy of a graph with known shapes for its inputs, and computes what follows from the shapes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from .._util.open_numbers import has_open_numbers
from .._util.open_sizes import is_open
from .._util.validation import as_dict
from ..arrays.ndarrays import array_of
from ..builder.graph import AnyGraph, DataGraph
from ..errors import ArgumentError, shown
from ..ir.op import Array, LogicalTensor, Op
from ..ir.tensor_type import as_shape
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, HOST
from ..opset.editions.registry import edition as edition_named
from ..opset.kinds import DEQUANTIZATIONS, OPAQUE, PER_RUN
from ..opset.shapes import compatible, known_dims, show
from ..opset.signature import AttrValue, Shape
from ..reference import run_op

MAX_ELEMENTS = 2**16  # of the results that are computed here
# Of those of the specification's ops in models, which compute sizes with f32 numbers. Larger ones are shared by the
# programs of an executable, if the compiler computes them.
MAX_NUMBERS = 2**8
NATIVE = frozenset([DataType.f32, DataType.bf16, DataType.f16])  # of ReduceSum in the base vocabulary
# Ops that are computed when the graph runs: by another package, with other processes, at random, or in a fusion.
LATE = PER_RUN | DEQUANTIZATIONS | OPAQUE


def specialise(
    graph: AnyGraph, shapes: Mapping[str, Shape], values: Mapping[str, Array] | None = None, *, sparing: bool = False
) -> AnyGraph:
    """The graph for inputs of known shapes; see :meth:`onegraph.Graph.specialise`.

    ``sparing``: whether constants that no op reads any more are left out, as for a graph that nobody sees.
    """
    shapes = _by_name(graph, "shapes", shapes)
    values = _copied(_by_name(graph, "values", {} if values is None else values))
    new, before = graph._empty(), DataGraph.copy(graph)
    renewed = _Renewed(new, before)
    settled = _Settled(before._is_as_read())
    if not sparing:
        renewed.add_all()
    for name, tensor in before._inputs.items():
        shape = as_shape(shapes.get(name, tensor.shape))
        if not compatible(shape, tensor.shape):
            fix = "g.replace(name, g.input(...)) gives the graph an input of other sizes"
            raise ArgumentError(f"input {name!r}: shape {show(shape)}; expected {show(tensor.shape)}; {fix}")
        made = new._tensor(tensor.dtype, shape, name, tensor.strides, values.get(name))
        renewed.made[tensor.id] = new._inputs[name] = made
    new._constant_inputs, new._roundings = before._constant_inputs - values.keys(), before._roundings
    for op in before._ops:
        arrays = settled.results(op, [renewed.seen(tensor.id) for tensor in op.inputs])
        if arrays is not None:
            for end, array in zip(op.outputs, arrays, strict=True):
                renewed.known[end.id] = LogicalTensor(end.id, end.dtype, array.shape, None, end.name, array)
            if not sparing:
                renewed.add_all()
            continue
        sources = [renewed.tensor(tensor.id) for tensor in op.inputs]
        chosen, types = edition_named(op.edition), tuple([tensor.dtype for tensor in op.outputs])
        labels = [tensor.name for tensor in op.outputs]
        if (same := _summed(new, op, sources)) is not None:
            renewed.made[op.outputs[0].id] = same
            continue
        results = new._add_op(chosen, op.kind, dict(op.attrs), sources, types, name=op.name, names=labels)
        renewed.made.update(zip([tensor.id for tensor in op.outputs], results, strict=True))
    new._outputs = {name: renewed.tensor(t.id)._laid_out(t.strides) for name, t in before._outputs.items()}
    return new


class _Renewed:
    """The tensors of a new graph, by the ids that they have in the graph before.

    Args:
        graph: the new graph.
        before: the graph before.

    Attributes:
        made: the tensors that the new graph has.
        known: what has contents, and is added to the new graph when an op reads it.
    """

    def __init__(self, graph: DataGraph, before: DataGraph) -> None:
        self._graph = graph
        self.made: dict[int, LogicalTensor] = {}
        self.known = {tensor.id: tensor for tensor in before._tensors if tensor.constant}

    def seen(self, number: int) -> LogicalTensor:
        """A tensor to look at, which the new graph need not have."""
        made = self.made.get(number)
        return self.known[number] if made is None else made

    def tensor(self, number: int) -> LogicalTensor:
        """A tensor of the new graph."""
        made = self.made.get(number)
        if made is None:
            known = self.known[number]
            made = self.made[number] = self._graph._tensor(known.dtype, known.shape, known.name, None, known.value)
        return made

    def add_all(self) -> None:
        """Add all that has contents to the new graph."""
        for number in self.known:
            self.tensor(number)
        self.known.clear()


def _summed(graph: AnyGraph, op: Op, sources: Sequence[LogicalTensor]) -> LogicalTensor | None:
    """The result of a SumTo whose shapes are known: a sum, or its source; None for another op."""
    if op.kind != "SumTo":
        return None
    src, shape = sources[0], sources[1]
    if shape.value is None or src.shape is None or None in src.shape:
        return None
    target = tuple(shape.value.tolist())
    if src.shape == target:
        return src
    added = len(src.shape) - len(target)
    pairs = enumerate(zip(target, src.shape[added:], strict=True), added)
    axes = (*range(added), *(axis for axis, (dim, size) in pairs if dim == 1 != size))
    native = edition_named(DEFAULT if src.dtype in NATIVE else HOST)

    def add(kind: str, attrs: Mapping[str, AttrValue], source: LogicalTensor, name: str) -> LogicalTensor:
        names = [op.outputs[0].name]
        return graph._add_op(native, kind, attrs, [source], (src.dtype,), name=name, names=names)[0]

    total = add("ReduceSum", {"axes": axes, "keep_dims": True}, src, op.name)
    if not added:
        return total
    if native.name == HOST:
        return add("Squeeze", {"axes": tuple(range(added))}, total, f"{op.name}/shape")
    return add("StaticReshape", {"shape": target, "special_zero": False}, total, f"{op.name}/shape")


class _Settled:
    """Computes what follows from shapes and constants of few elements alone.

    The layers of a model compute the same sizes from the same numbers, so equal ops on equal numbers are computed once.

    Args:
        is_model: whether the graph is a model as it was read, whose ops of the specification may compute sizes too.
    """

    def __init__(self, is_model: bool) -> None:
        self._is_model = is_model
        self._known: dict[tuple[object, ...], tuple[Array, ...]] = {}

    def results(self, op: Op, sources: Sequence[LogicalTensor]) -> tuple[Array, ...] | None:
        """The results of an op, as read-only arrays; None for an op that depends on more."""
        if op.kind in ("Shape", "Size"):
            shape = sources[0].shape
            if shape is None or None in shape:
                return None
            if self._is_model and is_open(shape):
                return None  # an array has fixed numbers; what reads them is lowered again with open ones
            number = shape if op.kind == "Shape" else prod(known_dims(shape))
            return (_read_only(np.array(number, np.int64)),)
        most = MAX_ELEMENTS if op.edition == HOST else MAX_NUMBERS if self._is_model else 0
        if not most or op.kind in LATE:
            return None
        arrays = [source.value for source in sources if source.value is not None]
        if len(arrays) < len(sources) or any(map(has_open_numbers, arrays)):
            return None
        if sum([array.size for array in arrays]) > most:
            return None
        contents = [(array.dtype, array.shape, array.tobytes()) for array in arrays]
        dtypes = [tensor.dtype for tensor in op.outputs]
        key = op.kind, op.edition, *op.attrs.items(), *contents, *dtypes
        computed = self._known.get(key)
        if computed is None:
            outputs = tuple([replace(end, shape=None) for end in op.outputs])
            small = replace(op, inputs=tuple(sources), outputs=outputs, signature=None)
            computed = self._known[key] = tuple(map(_read_only, run_op(small, arrays)))
        return computed if sum([array.size for array in computed]) <= most else None


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _by_name(graph: DataGraph, argument_name: str, argument: object) -> Mapping[str, Any]:
    """``argument`` as a mapping whose keys are names of inputs; ArgumentError if it is not one."""
    expected = f"a dictionary by names of inputs: {', '.join(graph._inputs) or 'none'}"
    by_name = as_dict(argument_name, argument, expected)
    if not all(name in graph._inputs for name in by_name):
        raise ArgumentError(f"{argument_name}: {shown(argument)}; expected {expected}")
    return by_name


def _copied(values: Mapping[str, object]) -> dict[str, Array]:
    """Copies of the arrays, so that later changes by the caller cannot contradict the inferred shapes."""
    copies = {name: array_of(f"values: {name!r}", value).copy() for name, value in values.items()}
    for name, value in copies.items():
        if value.dtype.kind not in "biufV":
            raise ArgumentError(f"values: {name!r}: an array of {value.dtype}; expected numbers")
    return copies
