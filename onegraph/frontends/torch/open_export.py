"""Opens the dims of an exported graph that PyTorch's dynamic shapes name.

The calls are lowered once, with open sizes in the place of ints. What was asked of the sizes must hold for all that the
program permits. Then the graph is made again with unknown dims, and what it states as sizes is found from its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Any

import sympy
import torch
from torch.fx import Node as FxNode

from ..._util.interpreter_tricks import written_function
from ..._util.open_sizes import OpenSize, Symbols, is_open
from ..._util.size_symbols import OpenSizes
from ...builder.graph import DataGraph
from ...compiler.library_steps import NoParametersError
from ...graph import Graph
from ...ir.op import LogicalTensor, Op
from ...lowering.emitter import Emitter, NotLowered, Value, numbers
from ...lowering.movement import concat, expand, reshape, slice_
from ...lowering.open_values import OpenInputs
from ...opset.editions.registry import edition as edition_named
from .lowering import concrete
from .open_part import OpenLikes, marks
from .tables.quotients import floored

LARGEST = 2**20  # of a dim without an end
MOST_SIZES = 4096  # of one dim, for each of which the guards are tried
LARGE_SIZES = (*(2**power for power in range(13, 20)), LARGEST)  # that are tried too
FEW_SIZES = (2, 3, 4, 5, 7, 8, 16, 31, 64, 127, 1000, 4096)  # that are tried together


class OpenDims:
    """The open sizes of a program.

    Args:
        inputs: the placeholders of its tensors.
        ranges: the least and the largest value of each symbol of PyTorch.
    """

    def __init__(self, inputs: Sequence[FxNode], ranges: Mapping[Any, Any]) -> None:
        stated, places = marks(inputs), dict[Any, int]()
        for dim in stated:
            if type(dim) is torch.SymInt and isinstance(dim.node.expr, sympy.Symbol):
                places.setdefault(dim.node.expr, concrete(dim))
        self.names, self.ranges = [*places], [_range(ranges.get(name)) for name in places]
        self._sizes = OpenSizes([*places.values()])
        by_name = dict(zip(self.names, self._sizes.symbols, strict=True))
        self._likes, self._seen = OpenLikes(by_name), set[str]()

    def of(self, node: FxNode) -> Any:
        """What a call returns, with open sizes.

        Raises:
            NotLowered: a size follows from the dims of inputs in another way than as a sum of products.
        """
        stated = node.meta.get("val")
        if type(stated) in (torch.SymFloat, torch.SymBool) and node.users:
            raise NotLowered(f"{node.target} ({node.name}): a number that is no size follows from an open dim")
        try:
            return self._likes.of(stated, concrete(stated))
        except NoParametersError as error:
            raise NotLowered(f"{node.target} ({node.name}): {error}") from None

    def watched(self, calls: Sequence[FxNode]) -> Iterator[FxNode]:
        """The calls, one after another; the lowering of each may ask nothing that other sizes answer otherwise.

        Raises:
            NotLowered: the lowering of a call does not hold for all sizes.
        """
        for call in calls:
            yield call
            self.expect_same(f"{call.target} ({call.name})")

    def expect_same(self, name: str) -> None:
        """Check that what was asked of the sizes since the last check has the same answers for all sizes.

        Args:
            name: what asked.

        Raises:
            NotLowered: it has not.
        """
        # A size that is unlike another number takes the general way, which is right where they are alike too.
        texts = [text for text in self._sizes.conditions() if not (text.startswith("not ") and text.endswith("==0"))]
        asked = [text for text in texts if text not in self._seen]
        self._seen.update(asked)
        holds = written_function(["s"], " and ".join(asked) or "True")
        for values in self._values() if asked else ():
            if not holds(values):
                pairs = zip(self.names, values, self.ranges, strict=True)
                text = ", ".join(f"{name} = {value} (from {low} to {high})" for name, value, (low, high) in pairs)
                raise NotLowered(
                    f"{name} is lowered otherwise for other sizes, such as {text}; narrow the ranges of "
                    "dynamic_shapes, or export known shapes"
                )

    def _values(self) -> Iterator[list[int]]:
        """Sizes to try: each symbol alone with all its values, and a few values of all together."""
        now = [symbol.value for symbol in self._sizes.symbols]
        for place, (low, high) in enumerate(self.ranges):
            large = [size for size in (*LARGE_SIZES, high) if size <= high]
            for value in (*range(low, min(high, MOST_SIZES) + 1), *large):
                yield [*now[:place], value, *now[place + 1 :]]
        few = [[size for size in FEW_SIZES if low <= size <= high] for low, high in self.ranges]
        yield from map(list, product(*few[:3], *[some[:2] for some in few[3:]]))


def _range(bounds: Any) -> tuple[int, int]:
    """The least and the largest size; PyTorch takes sizes of 0 and 1 for known ones."""
    low, high = (2, LARGEST) if bounds is None else (bounds.lower, min(bounds.upper, LARGEST))
    return max(int(low), 2), int(high)


def with_unknown_dims(graph: DataGraph, opened: OpenInputs) -> Graph:
    """A graph with unknown dims in the place of open ones.

    Args:
        graph: the graph.
        opened: what its values are that follow from open sizes.

    Raises:
        NotLowered: an op has an attribute that needs a size.
    """
    made: Any = graph._empty()
    return _Unknown(graph, made, opened).whole()


class _Unknown:
    """Makes a graph again with unknown dims.

    Args:
        graph: the graph with open sizes.
        made: the new graph, without ops.
        opened: what the values of the graph are that follow from open sizes.
    """

    def __init__(self, graph: DataGraph, made: Graph, opened: OpenInputs) -> None:
        self._graph, self._made, self._emit = graph, made, Emitter(made)
        self._tensors: dict[int, LogicalTensor] = {}
        recipes = opened.recipes.items()
        self._recipes = {graph.inputs[name].id: one for name, one in recipes if name in graph.inputs}
        self._dims: dict[OpenSize, tuple[LogicalTensor, int]] = {}  # an input, and the axis that has the size
        self._sizes: dict[OpenSize, Value] = {}

    def whole(self) -> Graph:
        """The new graph."""
        for name, tensor in self._graph.inputs.items():
            shape: Any = tensor.shape
            if tensor.id in self._recipes:
                continue
            made = self._made.input(name, tensor.dtype, [None if type(dim) is OpenSize else dim for dim in shape])
            self._tensors[tensor.id] = made
            for axis, dim in enumerate(shape):
                if type(dim) is OpenSize:
                    self._dims.setdefault(dim, (made, axis))
        for op in self._graph.ops:
            if (moved := self._moved(op)) is not None:
                self._tensors[op.outputs[0].id] = moved
                continue
            sources = [None if tensor is None else self._source(tensor) for tensor in op.inputs]
            results = self._again(op, sources)
            self._tensors.update(zip([tensor.id for tensor in op.outputs], results, strict=True))
        for name, tensor in self._graph.outputs.items():
            self._made.output(name, self._source(tensor))
        return self._made

    def _source(self, tensor: LogicalTensor) -> LogicalTensor:
        if tensor.id not in self._tensors:
            recipe: Any = self._recipes.get(tensor.id)
            self._tensors[tensor.id] = (
                self._made._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
                if recipe is None
                else self._emit.tensor(recipe.make(self._emit, self._vector))
            )
        return self._tensors[tensor.id]

    def _moved(self, op: Op) -> LogicalTensor | None:
        """The result of an op that stands for an Expand, a Reshape or a Slice; None if it stands for itself."""
        recipes = [(self._recipes.get(input_.id), input_) for input_ in op.inputs if input_ is not None]
        recipe = next((one for one, _ in recipes if one is not None and one.kind != "value"), None)
        if recipe is None:
            return None
        src = self._source(recipes[recipe.kind == "shape"][1])
        self._emit.named(op.name)
        if recipe.kind in ("shape", "rows"):
            change = expand if recipe.kind == "shape" else reshape
            return self._emit.tensor(change(self._emit, src, self._vector(recipe.numbers)))
        axis, *places = [self._vector([number]) for number in recipe.numbers]
        start, end, step = places
        return self._emit.tensor(slice_(self._emit, src, start, end, axis, step))

    def _vector(self, sizes: Sequence[Any]) -> Value:
        """Sizes as a vector of s64."""
        for size in sizes:
            if type(size) is OpenSize and size not in self._sizes:
                self._sizes[size] = self._size(size)
        pieces = [self._sizes[size] if type(size) is OpenSize else numbers(size) for size in sizes]
        return pieces[0] if len(pieces) == 1 else concat(self._emit, pieces, 0)

    def _again(self, op: Op, sources: Sequence[LogicalTensor | None]) -> Sequence[LogicalTensor]:
        asked = [name for name, value in op.attrs.items() if is_open(value if type(value) is tuple else (value,))]
        if asked == ["shape"]:  # of a StaticReshape
            src: Any = sources[0]
            return [self._reshaped(op, src)]
        if asked:
            raise NotLowered(f"{op.kind} {op.name!r}: attribute {asked[0]} needs a size that is open")
        types = tuple([tensor.dtype for tensor in op.outputs])
        names = [tensor.name for tensor in op.outputs]
        return self._made._add_op(
            edition_named(op.edition), op.kind, dict(op.attrs), sources, types, name=op.name, names=names
        )

    def _reshaped(self, op: Op, src: LogicalTensor) -> LogicalTensor:
        """A reshape: an axis keeps the dim of its source, one may be what is left, and others are computed."""
        shape: Any = op.attrs["shape"]
        stated: list[Any] = [*shape]
        before = () if op.inputs[0] is None else op.inputs[0].shape or ()
        kept = [0 if at < len(before) and dim is before[at] else dim for at, dim in enumerate(stated)]
        unknown = [at for at, dim in enumerate(kept) if type(dim) is OpenSize]
        self._emit.named(op.name)
        if len(unknown) < 2:
            dims = [-1 if at in unknown else dim for at, dim in enumerate(kept)]
            return self._emit.tensor(self._emit.op("StaticReshape", [src], {"shape": dims, "special_zero": True}))
        return self._emit.tensor(reshape(self._emit, src, self._vector(stated)))

    def _size(self, size: OpenSize) -> Value:
        """The number that an open size is, as a vector of one."""
        emit = self._emit
        if size in self._dims:
            source, axis = self._dims[size]
            return slice_(emit, emit.op("Shape", [source]), [axis], [axis + 1], [0])
        terms = []
        for monomial, factor in size.terms:
            factors = [numbers(factor), *[self._atom(size.sizes, atom) for atom in monomial]]
            terms.append(reduce(lambda a, b: emit.op("Multiply", [a, b], edition="host"), factors))
        return reduce(lambda a, b: emit.op("Add", [a, b], edition="host"), terms)

    def _atom(self, sizes: Symbols, atom: int) -> Value:
        """The number that an atom of a size is: a dim of an input, or a quotient."""
        if atom < len(sizes.symbols):
            return self._size(sizes.symbols[atom])
        if atom not in sizes.divided:
            raise NotLowered("a size is no sum of products and quotients of the dims of inputs")
        return floored(self._emit, *[self._vector([one]) for one in sizes.divided[atom]])


__all__ = ["OpenDims", "with_unknown_dims"]
