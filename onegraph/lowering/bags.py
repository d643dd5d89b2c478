"""Reduces bags of rows whose ends only a run knows, as an EmbeddingBag and the loops that exporters write for it do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor, Op
from ..opset.shapes import known, known_dims
from .elementwise import binary
from .emitter import Array, Emitter, NotLowered, Value, dtype_of, numbers, rank_of, shape_of
from .movement import as_s64, cast, concat, expand, reshape, slice_
from .reduction import reduce

WRONG = 2**40  # an index that no axis has
REDUCTIONS = {"ReduceSum": ("add", 0.0), "ReduceMean": ("add", 0.0), "ReduceMax": ("max", -np.inf)}
ALL = 2**31 - 1  # an end beyond every axis that memory holds


def reduced_bags(emit: Emitter, kind: str, rows: Value, ends: Value, trips: Value | None = None) -> Value:
    """A reduction of the rows between each two neighbouring ends, of which there is one more than bags.

    Rows in front of the first end, and from the last one on, belong to no bag. If ends descend or are negative, a run
    finds an index that is out of range.

    Args:
        emit: adds ops.
        kind: one of ``REDUCTIONS``.
        rows: the rows of all bags.
        ends: s64; those beyond the rows count as their number.
        trips: the number of bags that are wanted, at most all of them.

    Raises:
        NotLowered: the dims of a row are unknown.
    """
    shape, dtype = shape_of(rows), dtype_of(rows)
    if shape is None or not known(shape[1:]):
        raise NotLowered("the dims of a row are unknown")
    reduction, start = REDUCTIONS[kind]
    count, n_ends, inner = _size(emit, rows), _size(emit, ends), known_dims(shape[1:])
    within = binary(emit, "Minimum", ends, count)
    sizes = binary(emit, "Subtract", slice_(emit, within, [1], [ALL], [0]), slice_(emit, within, [0], [-1], [0]))
    checked = [slice_(emit, ends, [0], [1], [0]), sizes]
    if trips is not None:
        trips = binary(emit, "Maximum", reshape(emit, as_s64(emit, trips), numbers(1)), numbers(0))
        checked.append(binary(emit, "Subtract", binary(emit, "Subtract", n_ends, numbers(1)), trips))
    least = reduce(emit, "ReduceMin", concat(emit, checked, 0), [0], keep=True)
    wrong = binary(emit, "Multiply", as_s64(emit, binary(emit, "Less", least, numbers(0))), numbers(WRONG))
    # The number of ends up to each row: 0 in front of the first bag, and that of all ends behind the last one.
    marks = _scattered(
        emit, expand(emit, numbers(0), _plus_one(emit, count)), within, expand(emit, numbers(1), n_ends), "add"
    )
    places = emit.op("CumSum", [slice_(emit, marks, [0], [-1], [0])], {"axis": 0, "exclusive": False, "reverse": False})
    dims = concat(emit, [_plus_one(emit, n_ends), numbers(*inner)], 0)
    first = np.full((1,) * len(shape), start).astype(dtype.numpy)
    bags = _scattered(emit, expand(emit, first, dims), binary(emit, "Add", places, wrong), rows, reduction)
    bags = slice_(emit, bags, [1], [-1], [0])
    if kind == "ReduceMean":  # no rows have a mean of 0, as in PyTorch and ONNX Runtime
        counts = binary(emit, "Maximum", reshape(emit, sizes, [-1, *[1] * len(inner)]), numbers(1))
        bags = binary(emit, "Divide", bags, cast(emit, counts, dtype))
    return bags if trips is None else slice_(emit, bags, numbers(0), trips, [0])


def _size(emit: Emitter, value: Value) -> Value:
    """The size of the first axis, as a vector."""
    shape = shape_of(value)
    assert shape is not None
    if shape[0] is not None:
        return numbers(shape[0])
    return slice_(emit, emit.op("Shape", [value]), [0], [1], [0])


def _plus_one(emit: Emitter, number: Value) -> Value:
    return number + 1 if isinstance(number, np.ndarray) else binary(emit, "Add", number, numbers(1))


def _scattered(emit: Emitter, src: Value, places: Value, updates: Value, reduction: str) -> Value:
    return emit.op("ScatterND", [src, reshape(emit, places, [-1, 1]), updates], {"reduction": reduction})


class _Body:
    """The body of a loop, and what it reads of the graph around it."""

    def __init__(self, body: DataGraph, captured: Sequence[Value]) -> None:
        self._makers = {tensor.id: op for op in body.ops for tensor in op.outputs}
        self._around: dict[int, Value] = {
            tensor.id: captured[int(name[1:])] for name, tensor in body.inputs.items() if name.startswith("c")
        }
        self._number = body.inputs["i"]

    def made(self, tensor: LogicalTensor | None, *kinds: str) -> Op | None:
        """The op that makes a value, if it is of one of these kinds."""
        op = None if tensor is None else self._makers.get(tensor.id)
        return op if op is not None and op.kind in kinds else None

    def around(self, tensor: LogicalTensor | None) -> Value | None:
        """What a value is in the graph around the body."""
        if tensor is None:
            return None
        return self._around.get(tensor.id, tensor.value)

    def turn(self, tensor: LogicalTensor | None) -> Value | None:
        """The vector whose element at the number of the iteration a value of one element is."""
        gather = self.made(self._shaped(tensor), "Gather")
        if gather is None or self._shaped(gather.inputs[1]) is not self._number:
            return None
        vector = self.around(gather.inputs[0])
        return vector if vector is not None and rank_of(vector) == 1 else None

    def _shaped(self, tensor: LogicalTensor | None) -> LogicalTensor | None:
        """A value of one element before it got another shape."""
        while op := self.made(tensor, "Unsqueeze", "Squeeze", "Reshape", "StaticReshape"):
            tensor = op.inputs[0]
        return tensor


def loop_of_bags(emit: Emitter, body: DataGraph, captured: Sequence[Value], trips: Value) -> Value | None:
    """The result of a loop of which each iteration reduces one bag of rows of a table; None for other loops."""
    if "i" not in body.inputs:
        return None
    inside = _Body(body, captured)
    reduction = inside.made(body.outputs["y0"], *REDUCTIONS)
    if reduction is None or reduction.attrs.get("axes") != (0,) or reduction.attrs.get("keep_dims"):
        return None
    gather = inside.made(reduction.inputs[0], "Gather")
    if gather is None or gather.attrs.get("axis", 0) != 0:
        return None
    part = inside.made(gather.inputs[1], "Slice")
    if part is None:
        return None
    table, indices = inside.around(gather.inputs[0]), inside.around(part.inputs[0])
    starts, ends = (inside.turn(tensor) for tensor in part.inputs[1:3])
    bounds = _contents(part.inputs[3:])
    is_plain = _count_up(bounds)
    if table is None or indices is None or starts is None or ends is None or not is_plain:
        return None
    if rank_of(indices) != 1 or not _follow(emit, starts, ends):
        return None
    if isinstance(trips, np.ndarray):
        if shape_of(ends) != (int(trips.item()),):
            return None
        wanted = None
    else:
        wanted = trips
    rows = emit.op("Gather", [table, indices], {"axis": 0})
    try:
        return reduced_bags(emit, reduction.kind, rows, starts, wanted)
    except NotLowered:
        return None


def _follow(emit: Emitter, starts: Value, ends: Value) -> bool:
    """Whether the ends are the starts from the second one on."""
    op = emit.maker(ends)
    if op is None or op.kind != "Slice" or op.inputs[0] is not emit.tensor(starts):
        return False
    begin, end, *bounds = _contents(op.inputs[1:])
    if begin is None or end is None or begin.tolist() != [1] or int(end.item()) < ALL:
        return False
    return _count_up(bounds)


def _contents(tensors: Sequence[LogicalTensor | None]) -> list[Array | None]:
    return [None if tensor is None else tensor.value for tensor in tensors]


def _count_up(bounds: Sequence[Array | None]) -> bool:
    """Whether the axes and the steps of a Slice, as far as they are given, are the first axis and 1."""
    return all(value is not None and value.tolist() == [place] for place, value in enumerate(bounds))
