"""Shrinks a failing graph to a small one that fails in the same way.

Ops are removed first, by delta debugging (Zeller and Hildebrandt, 2002): any subset of the ops is a graph, whose inputs
are the tensors that it reads from the other ops. Then outputs, constants, dims, attributes, data types and names are
simplified, until nothing gets smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from .._util.validation import callback, function, integer
from ..builder.graph import expect_graph
from ..checker.check import ERROR, check_graph
from ..errors import ArgumentError, OneGraphError
from ..graph import Graph
from ..ir.op import Array, Op, schema_of
from ..opset.dtypes import DataType
from ..opset.shapes import known_dims
from ..opset.signature import AttrValue, Shape
from ..transform.rebuild import Change, rebuild

MAX_TESTS = 2000
LOW_PRECISION = frozenset({DataType.bf16, DataType.f16})
# Attributes whose elements are dims.
SHAPES = ("shape", "sizes", "dst_shape", "src_shape", "weights_shape", "output_shape", "input_shape", "filter_shape")
Fails = Callable[[Graph], bool]
Progress = Callable[[int, Graph], None]


def reduce(
    graph: Graph,
    fails: Fails,
    *,
    progress: Progress | None = None,
    max_tests: int = MAX_TESTS,
) -> Graph:
    """The smallest failing graph that the search finds.

    Args:
        graph: a graph that fails.
        fails: returns whether a graph fails in the relevant way. It is called with valid graphs only; exceptions from
            it end the search.
        progress: called after each test with the number of tests and the smallest graph so far.
        max_tests: number of graphs to try.

    Returns:
        A graph that is no larger by :func:`size`; ``graph`` itself if nothing smaller fails.

    Raises:
        ArgumentError: ``graph`` does not fail.
    """
    expect_graph(graph)
    function("fails", fails)
    tell = callback("progress", progress)
    most = integer("max_tests", max_tests, 1, 2**62, "a number of 1 or more")
    search = _Search(graph, fails, tell, most)
    if not fails(graph):
        raise ArgumentError("the graph does not fail; expected one that does")
    return search.run()


def size(graph: Graph) -> tuple[int, ...]:
    """The size of a graph, most important first: ops, elements, attributes, outputs, constants, types, names."""
    elements = sum(math.prod(2 if dim is None else dim for dim in t.shape or ()) for t in graph._tensors)
    lists = [value for op in graph.ops for value in op.attrs.values()]
    numbers = sum(abs(n) for value in lists if not isinstance(value, str) for n in np.ravel(value).tolist())
    defaults = {f"{schema_of(op).name}_{place}" for place, op in enumerate(graph.ops)}
    return (
        len(graph.ops),
        elements,
        len(lists),
        math.ceil(numbers * 16) if math.isfinite(numbers) else 2**62,
        len(graph.outputs),
        sum(tensor.constant for tensor in graph._tensors),
        sum(tensor.dtype in LOW_PRECISION for tensor in graph._tensors),
        sum(op.name not in defaults for op in graph.ops),
        sum(not name.startswith("in_") for name in graph.inputs),
    )


class _Search:
    def __init__(self, graph: Graph, fails: Fails, progress: Progress, max_tests: int) -> None:
        self.best, self.fails, self.progress, self.max_tests = graph, fails, progress, max_tests
        self.tests = 0
        self.seen: set[str] = set()
        self.tolerated = _errors(graph)  # violations of the original graph, which may stay

    def run(self) -> Graph:
        """Repeat all steps until none makes the graph smaller."""
        self._ops()
        while True:
            before = size(self.best)
            for step in (_outputs, _constants_as_inputs, _dims, _attributes, _types, _names):
                self._step(step)
            if size(self.best) == before or self.tests >= self.max_tests:
                return self.best
            self._ops()

    def _step(self, changes: Callable[[Graph], Iterator[Change]]) -> None:
        """Try changes; after one that helps, start again with the changes of the new graph."""
        while any(self._try(change) for change in changes(self.best)):
            pass

    def _try(self, change: Change) -> bool:
        if self.tests >= self.max_tests:
            return False
        try:
            candidate = rebuild(self.best, change)
        except (OneGraphError, ValueError):
            return False
        if (
            not candidate.outputs
            or size(candidate) >= size(self.best)
            or _count_unknown_shapes(candidate) > _count_unknown_shapes(self.best)
        ):
            return False
        if _errors(candidate) - self.tolerated:
            return False
        key = candidate.to_json() + str([t.value.tobytes() for t in candidate._tensors if t.value is not None])
        if key in self.seen:
            return False
        self.seen.add(key)
        self.tests += 1
        failed = self.fails(candidate)
        if failed:
            self.best = candidate
        self.progress(self.tests, self.best)
        return failed

    def _ops(self) -> None:
        """Try subsets of the ops: one part, then all but one part, in smaller and smaller parts."""
        parts = 2
        while len(self.best.ops) > 1:
            count = len(self.best.ops)
            parts = min(parts, count)
            pieces = [range(count * n // parts, count * (n + 1) // parts) for n in range(parts)]
            rests = [[place for place in range(count) if place not in piece] for piece in pieces]
            if any(self._try(Change(ops=piece)) for piece in pieces):
                parts = 2
            elif parts > 2 and any(self._try(Change(ops=rest)) for rest in rests):
                parts = max(parts - 1, 2)
            elif parts < count:
                parts *= 2
            else:
                return


def _count_unknown_shapes(graph: Graph) -> int:
    """Number of tensors with unknown dims or rank."""
    return sum(tensor.shape is None or None in tensor.shape for tensor in graph._tensors)


def _errors(graph: Graph) -> set[tuple[str, str]]:
    return {(found.rule, found.where) for found in check_graph(graph.ops) if found.severity == ERROR}


def _outputs(graph: Graph) -> Iterator[Change]:
    """Without one of the outputs."""
    for name in graph.outputs:
        yield Change(outputs=[other for other in graph.outputs if other != name])


def _constants_as_inputs(graph: Graph) -> Iterator[Change]:
    """Constants turned into inputs: all of them, then one by one."""
    numbers = [tensor.id for tensor in graph._tensors if tensor.constant]
    yield Change(freed=numbers)
    for number in numbers:
        yield Change(freed=[number])


Dims = tuple[int, ...]


def _dims(graph: Graph) -> Iterator[Change]:
    """Smaller dims: all of one size together, all along an axis, then one by one, then in two equal shapes."""
    made = {tensor.id for op in graph.ops for tensor in op.outputs}
    # Constant vectors of integers are shapes.
    vectors = {
        t.id: t.value for t in graph._tensors if t.dtype is DataType.s32 and t.value is not None and t.value.ndim == 1
    }
    sources = {
        t.id: known for t in graph._tensors if t.id not in made and t.id not in vectors and (known := _known(t.shape))
    }
    yield from _dims_of_one_size(graph, sources, vectors)
    yield from _dims_of_one_axis(graph, sources, vectors)
    yield from _single_dims(graph, sources, vectors)


def _dims_of_one_size(graph: Graph, sources: Mapping[int, Dims], vectors: Mapping[int, Array]) -> Iterator[Change]:
    """All dims of one size made smaller together, the largest size first."""
    for old in sorted({dim for dims in sources.values() for dim in dims if dim > 1}, reverse=True):
        for new in sorted({1, 2, old // 2, old - 1} - {0, old}):
            if new < old:
                shapes = {number: tuple(new if dim == old else dim for dim in dims) for number, dims in sources.items()}
                yield Change(shapes=shapes)
                attrs = {at: _with_dim(op, old, new) for at, op in enumerate(graph.ops)}
                values = {n: np.where(value == old, new, value) for n, value in vectors.items()}
                yield Change(shapes=shapes, attrs=attrs, values=values)


def _dims_of_one_axis(graph: Graph, sources: Mapping[int, Dims], vectors: Mapping[int, Array]) -> Iterator[Change]:
    """All dims along one axis, counted from the first or the last, made smaller by the same number."""
    longest = max(map(len, sources.values()), default=0)
    for axis in (*range(longest), *range(-longest, 0)):
        along = {number: dims[axis] for number, dims in sources.items() if -len(dims) <= axis < len(dims)}
        most, least = max(along.values()), min(along.values())
        for less in sorted({most - 1, most // 2, least - 1, 1}, reverse=True):
            shapes = {number: _replace_dim(sources[number], axis, max(dim - less, 1)) for number, dim in along.items()}
            yield Change(shapes=shapes)
            yield _along(graph, shapes, vectors, axis, less)


def _single_dims(graph: Graph, sources: Mapping[int, Dims], vectors: Mapping[int, Array]) -> Iterator[Change]:
    """One dim of one tensor made smaller, then one dim of two tensors with equal shapes."""
    sizes = {**sources, **{number: tuple(value.tolist()) for number, value in vectors.items()}}
    places = [(number, axis, dim) for number, dims in sizes.items() for axis, dim in enumerate(dims) if dim > 1]
    for number, axis, dim in places:
        for new in {1, dim // 2, dim - 1} - {dim}:
            smaller = _replace_dim(sizes[number], axis, new)
            yield _sized({number: smaller}, vectors)
            if number in sources:
                yield _along(graph, {number: smaller}, vectors, axis, dim - new)
    for (number, axis, dim), (second, other_axis, other_dim) in combinations(places, 2):
        if number != second and dim == other_dim:
            yield _sized(
                {number: _replace_dim(sizes[number], axis, 1), second: _replace_dim(sizes[second], other_axis, 1)},
                vectors,
            )


def _sized(sizes: Mapping[int, tuple[int, ...]], vectors: Collection[int]) -> Change:
    """The change to these shapes; for constants that are shapes, the change of their contents."""
    shapes = {number: dims for number, dims in sizes.items() if number not in vectors}
    values = {number: np.array(dims, np.int32) for number, dims in sizes.items() if number in vectors}
    return Change(shapes=shapes, values=values)


def _along(graph: Graph, shapes: Mapping[int, Shape], vectors: Mapping[int, Array], axis: int, less: int) -> Change:
    """The change to these shapes, with the dim along the axis also reduced in shape attributes and constants."""
    attrs = {at: _with_less(op, axis, less) for at, op in enumerate(graph.ops)}
    values = {n: np.array(_less(value.tolist(), axis, less), np.int32) for n, value in vectors.items()}
    return Change(shapes=shapes, attrs=attrs, values=values)


def _known(shape: Shape) -> tuple[int, ...]:
    """The dims of a known shape; empty for an unknown one."""
    return () if shape is None or None in shape else known_dims(shape)


def _replace_dim(dims: tuple[int, ...], axis: int, new: int) -> tuple[int, ...]:
    axis %= len(dims)
    return (*dims[:axis], new, *dims[axis + 1 :])


def _with_dim(op: Op, old: int, new: int) -> Mapping[str, AttrValue]:
    """The attributes with ``new`` in the place of ``old`` in shapes; ``groups`` of ``old`` goes if ``new`` is 1."""
    attrs = {name: value for name, value in op.attrs.items() if (name, value, new) != ("groups", old, 1)}
    for name in SHAPES:
        value = attrs.get(name)
        if isinstance(value, tuple):
            attrs[name] = tuple(new if dim == old else int(dim) for dim in value)
    return attrs


def _with_less(op: Op, axis: int, less: int) -> Mapping[str, AttrValue]:
    """The attributes with the dim along an axis reduced in shapes."""
    attrs = dict(op.attrs)
    for name in SHAPES:
        value = attrs.get(name)
        if isinstance(value, tuple):
            attrs[name] = _less([int(dim) for dim in value], axis, less)
    return attrs


def _less(dims: Sequence[int], axis: int, less: int) -> tuple[int, ...]:
    """The dims, reduced along an axis if they have it."""
    if not -len(dims) <= axis < len(dims):
        return tuple(dims)
    return _replace_dim(tuple(dims), axis, max(dims[axis] - less, 1))


def _attributes(graph: Graph) -> Iterator[Change]:
    """Attributes removed, and lists with smaller numbers."""
    for place, op in enumerate(graph.ops):
        for name, value in op.attrs.items():
            without = {place: {key: other for key, other in op.attrs.items() if key != name}}
            yield Change(attrs=without)
            if name == "groups" and isinstance(value, int):  # one group of the channels
                for tensor in op.inputs:
                    dims = _known(tensor.shape)
                    for axis, dim in enumerate(dims):
                        if dim % value == 0:
                            yield Change(attrs=without, shapes={tensor.id: _replace_dim(dims, axis, dim // value)})
            if isinstance(value, int) and not isinstance(value, bool):
                for number in {0, 1} - {value}:
                    yield Change(attrs={place: {**op.attrs, name: number}})
            if isinstance(value, tuple):
                for simple in _simple(value):
                    yield Change(attrs={place: {**op.attrs, name: simple}})


def _simple(value: Sequence[float]) -> Iterator[tuple[float, ...] | tuple[int, ...]]:
    kind = type(value[0]) if value else int
    for number in (0, 1):
        yield tuple(kind(number) for _ in value)
    for place, element in enumerate(value):
        for number in (0, 1):
            if element != number:
                yield (*value[:place], kind(number), *value[place + 1 :])


def _types(graph: Graph) -> Iterator[Change]:
    """f32 in the place of low-precision floating-point types."""
    yield Change(dtype=lambda dtype: DataType.f32 if dtype in LOW_PRECISION else dtype)
    for narrow in (DataType.bf16, DataType.f16):
        yield Change(dtype=lambda dtype, narrow=narrow: DataType.f32 if dtype is narrow else dtype)  # type: ignore[misc]


def _names(graph: Graph) -> Iterator[Change]:
    """Plain names."""
    yield Change(plain=True)
