"""Lets caches grow where they lie: a result that begins with an input is written behind it, without a copy of it.

The steps of a decoder read the keys and values of all tokens so far, and return them with those of new tokens. What a
call returned is memory with room behind it. If the next call gets it back, the new tokens are written into this room.
The caller owns results all the same: memory is shared only if no other array refers to it, and both arrays are
read-only until the earlier one is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from .._util.interpreter_tricks import is_only_view
from ..arrays.ndarrays import aligned_empty
from ..builder.graph import DataGraph
from ..capi.settings import is_aligned
from ..errors import ArgumentError
from ..ir.op import Array, LogicalTensor
from ..native.library import address_of
from ..opset.kinds import HOST_OPAQUE
from ..opset.shapes import dense_strides, known, known_dims
from ..opset.signature import Shape

SMALL = 1 << 15  # bytes of a cache, up to which its copy takes less time than what is done here
SPARE = 16  # tokens beyond a power of 2, so that rows of a cache do not lie a power of 2 apart
# Axes of tokens, unless an attribute says it: of ops whose result begins with an input.
AXES = {"Concat": 0, "ExtendCache": 2}
AHEAD = 8  # tokens that there is room for before a step


class Growth(NamedTuple):
    """An output that is an input with more behind it.

    Attributes:
        past, present: names of the input and the output.
        axis: along which the output is longer.
        source, target: their positions among inputs and outputs.
    """

    past: str
    present: str
    axis: int
    source: int
    target: int


class Grown(NamedTuple):
    """The output of a program for one growth.

    Attributes:
        dtype, shape, strides: as of numpy.
        span: bytes from the first element to the end of the last one.
        size: bytes of memory with room for more.
        is_over: whether the program may write it where its input lies.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int
    size: int
    is_over: bool = False


class Room(NamedTuple):
    """Memory with room for more.

    Attributes:
        memory: the bytes.
        offset: of the first element in them.
        size: bytes from there on.
        watch: the earlier array on it, which makes a later one writable at its end.
    """

    memory: Callable[[], Array | None]
    offset: int
    size: int
    watch: object = None

    def shared(self, grown: Grown, past: Array, more: int) -> Array | None:
        """An array behind an input in its memory; None if the input is not its beginning, or there is another array."""
        if grown.span > self.size or self.memory() is not past.base or not is_only_view(past, more):
            return None
        present: Array = np.ndarray(grown.shape, grown.dtype, past.base, self.offset, grown.strides)
        return present if address_of(present) == address_of(past) else None


def growths_of(graph: DataGraph, shapes: Mapping[str, Shape]) -> tuple[Growth, ...]:
    """The outputs of a graph that are an input with more behind it; ``shapes`` are stated for the inputs."""
    inputs = {tensor.id: name for name, tensor in graph.inputs.items()}
    outputs: dict[int, list[str]] = {}
    for name, tensor in graph.outputs.items():
        outputs.setdefault(tensor.id, []).append(name)
    names, growths = ([*graph.inputs], [*graph.outputs]), dict[str, Growth]()
    for op in graph.ops:
        if op.kind not in AXES or len(op.inputs) < 2:
            continue
        past, present = op.inputs[0], outputs.get(op.outputs[0].id, [])
        assert past is not None
        if past.id not in inputs or len(present) != 1 or not shapes[inputs[past.id]]:
            continue
        name, place = inputs[past.id], op.attrs.get("axis", AXES[op.kind])
        stated, ends = shapes[name] or (), (past, graph.outputs[present[0]])
        axis = int(place) % len(stated)  # type: ignore[arg-type]
        may_grow = op.kind == "ExtendCache" or stated[axis] is None
        if may_grow and name not in growths and all(end.strides is None for end in ends):
            growths[name] = Growth(name, present[0], axis, names[0].index(name), names[1].index(present[0]))
    return tuple(growths.values())


def capacity_of(shape: Sequence[int], strides: Sequence[int], axis: int) -> int | None:
    """The dim along an axis of the dense array whose first part has these strides, in elements.

    Returns:
        0 if every such array has them, because no other axis lies outside; None if there is none.
    """
    inner, step, capacity = prod(shape[axis + 1 :]), 1, 0
    for place in range(len(shape) - 1, -1, -1):
        dim, stride = shape[place], strides[place]
        if dim > 1 and place < axis and not capacity:
            capacity, remainder = divmod(stride, inner) if inner else (0, 1)
            if remainder or capacity < max(shape[axis], 1):
                return None
            step = stride
        elif dim > 1 and stride != step:
            return None
        step *= dim
    return capacity


def room_for(tokens: int) -> int:
    """The capacity of new memory for a cache of so many tokens."""
    return int(1 << tokens.bit_length()) + SPARE


class Growing:
    """The caches of an executable.

    Args:
        graph: with unknown dims.

    Attributes:
        growths: those that the graph has.
        may_learn: whether further ones may be known with the ops of a model, which become others for known shapes.
        grown, moved: as in ``CacheInfo``.
    """

    def __init__(self, graph: DataGraph) -> None:
        self._shapes = {name: tensor.shape for name, tensor in graph.inputs.items()}
        self.growths = growths_of(graph, self._shapes) if not graph.variables else ()
        is_model = not HOST_OPAQUE.isdisjoint([op.kind for op in graph.ops])
        self.may_learn = is_model and not self.growths and not graph.variables
        self._is_open = not all(known(tensor.shape) for tensor in graph.inputs.values())
        self.grown = self.moved = 0
        self._names = tuple(graph.outputs)
        self._axes = {growth.past: growth.axis for growth in self.growths}
        self._rooms: dict[int, Room] = {}  # by id of the memory
        self._returned: Callable[[], object] = lambda: None

    def learn(self, graph: DataGraph) -> None:
        """Find the growths in the graph of a program, whose ops are known."""
        if self.may_learn and graph.ops:
            self.growths = growths_of(graph, self._shapes)
            self._axes = {growth.past: growth.axis for growth in self.growths}
            self.may_learn = not self.growths

    def fits(self, name: str, array: Array) -> bool:
        """Whether an array for an input is the first part of a longer cache."""
        axis = self._axes.get(name)
        return axis is not None and _capacity(array, axis) is not None

    def source_of(self, name: str, array: Array, inputs: Mapping[str, Array]) -> str | None:
        """The name of the input whose memory an array for an output begins with; None if there is none."""
        sources = [growth.past for growth in self.growths if growth.present == name]
        return next((past for past in sources if address_of(array) == address_of(inputs[past])), None)

    def overs(self, grown: Sequence[Grown]) -> dict[str, int]:
        """By name of output, the position of the input where whose memory it may lie."""
        pairs = zip(self.growths, grown, strict=False)
        return {growth.present: growth.source for growth, state in pairs if state.is_over}

    def refuse_over(self, grown: Sequence[Grown], written: Mapping[str, Array], inputs: Mapping[str, Array]) -> None:
        """Raise ArgumentError if an output begins where an input lies that its program does not keep there."""
        overs = self.overs(grown)
        for name, array in written.items():
            source = None if name in overs else self.source_of(name, array, inputs)
            if source is not None and np.may_share_memory(array, inputs[source]):
                raise ArgumentError(f"output {name!r} shares memory with {source!r}")

    def prepared(
        self, arrays: Sequence[Any], *, grows: bool = True, moves: bool = True
    ) -> tuple[Sequence[Any], int] | None:
        """The arrays of a call, and the capacity of the caches among them; None if the caches do not grow.

        Where there is little room left, they are copied to memory with more. So all steps run programs that differ in
        sizes alone. The capacity is 0 if dense arrays have room behind them.

        Args:
            arrays: of the inputs.
            grows: whether results of earlier calls grow; False leaves that to those that have gaps behind them.
            moves: whether caches may be copied.
        """
        if not self._is_open:
            return None
        capacity, tokens, has_gaps, is_own = 0, 0, False, False
        for growth in self.growths:
            array = arrays[growth.source]
            if type(array) is not np.ndarray or array.ndim <= growth.axis:
                return None
            if 0 < array.nbytes < SMALL and array.flags.c_contiguous:  # no room behind it, and it gets none
                return None
            room, length = _capacity(array, growth.axis), array.shape[growth.axis]
            if room is None or (room and capacity not in (0, room)):
                return None
            if room <= max(length, 1) and array.nbytes < SMALL:
                return None
            if room:
                capacity, tokens = room, max(tokens, length)
                has_gaps = has_gaps or room > max(length, 1)
            is_own = is_own or (grows and (array is self._returned() or id(array.base) in self._rooms))
        if not is_own or not capacity or capacity >= tokens + AHEAD or not moves:
            return (arrays, capacity) if is_own or has_gaps else None
        longer, moved = room_for(tokens + AHEAD), [*arrays]
        for growth in self.growths:
            self.moved += 1
            moved[growth.source] = self._moved(moved[growth.source], growth.axis, longer)
        return tuple(moved), longer

    def _moved(self, array: Array, axis: int, capacity: int) -> Array:
        """A copy of a cache with room behind it."""
        shape, size = array.shape, array.itemsize
        strides = dense_strides((*shape[:axis], capacity, *shape[axis + 1 :]))
        in_bytes = tuple([step * size for step in strides])
        nbytes = prod(shape[:axis]) * strides[axis] * capacity * size
        moved = with_room(Grown(array.dtype, shape, in_bytes, 0, nbytes), self._rooms)
        moved[...] = array
        return moved

    def laid_out(self, graph: DataGraph, room: int) -> DataGraph:
        """The graph of a call with the layout of caches whose capacity this is."""
        for growth in self.growths:
            past, present = graph._inputs[growth.past], graph._outputs[growth.present]
            if not known(present.shape):
                continue
            total = known_dims(present.shape)[growth.axis]
            longer = room if total <= room else room_for(total)
            graph._inputs[growth.past] = graph._by_id[past.id] = _with_room(past, growth.axis, room)
            graph._outputs[growth.present] = _with_room(present, growth.axis, longer)
        return graph

    def step(
        self, grown: Sequence[Grown], arrays: Sequence[Any], present: Container[str] = (), more: int = 0
    ) -> CacheStep:
        """The memory of the caches of one call.

        Args:
            grown: of the program.
            arrays: of the inputs.
            present: names of outputs for which the caller gives memory.
            more: number of views of each input that the call has made.
        """
        cache_step = CacheStep(self)
        for growth, state in zip(self.growths, grown, strict=False):
            if growth.present not in present:
                cache_step.add(growth, state, arrays[growth.source], more)
        return cache_step

    def out(self, step: CacheStep) -> Any:
        """The argument ``out`` of a quick call for which the caller gives no memory."""
        targets = tuple(map(step.presents.get, self._names))
        return targets[0] if len(targets) == 1 else targets

    def note(self, value: Any) -> None:
        """Note what a call has returned, which a later one may get back."""
        if self.growths:
            self._returned = ref(value if len(self._names) == 1 else value[self.growths[0].target])


class CacheStep:
    """The memory of the caches of one call.

    Args:
        growing: the caches.

    Attributes:
        presents: the arrays for outputs.
    """

    def __init__(self, growing: Growing) -> None:
        self._growing, self._rooms, self.presents = growing, growing._rooms, dict[str, Array]()
        self._shared: list[tuple[Array, Array]] = []

    def add(self, growth: Growth, grown: Grown, past: Array, more: int) -> None:
        """Add the memory for an output: that of its input if no other array refers to it, otherwise new memory."""
        number = id(past.base)
        room = self._rooms.pop(number, None) if grown.is_over else None  # no other call finds it meanwhile
        if room is not None:
            present = room.shared(grown, past, more)
            self._rooms[number] = room
            if present is not None:
                self.presents[growth.present] = present
                self._shared.append((past, present))
                return
        self.presents[growth.present] = with_room(grown, self._rooms)

    def finish(self) -> None:
        """Let nobody write to memory that arrays of two steps share, before the earlier one is gone."""
        self._growing.grown += len(self._shared)
        for past, present in self._shared:
            past.flags.writeable = present.flags.writeable = False
            number = id(past.base)
            room, released = self._rooms.get(number), ref(present)
            if room is not None:
                self._rooms[number] = room._replace(watch=ref(past, partial(_release, released)))


def with_room(grown: Grown, rooms: dict[int, Room]) -> Array:
    """New memory with room for more, which is added to ``rooms``."""
    row = aligned_empty((grown.size,), np.dtype(np.uint8))
    memory: Any = row.base
    number, offset = id(memory), address_of(row) - address_of(memory)
    view: Array = np.ndarray(grown.shape, grown.dtype, memory, offset, grown.strides)
    rooms[number] = Room(ref(memory, lambda _: rooms.pop(number, None)), offset, grown.size)
    return view


def _release(present: Callable[[], Array | None], _past: object) -> None:
    """Let the caller write to the array of the later step."""
    array = present()
    if array is not None:
        array.flags.writeable = True


def _capacity(array: Array, axis: int) -> int | None:
    size = array.itemsize
    return capacity_of(array.shape, [step // size for step in array.strides], axis) if is_aligned(array) else None


def _with_room(tensor: LogicalTensor, axis: int, capacity: int) -> LogicalTensor:
    """A tensor in the memory of a longer one."""
    shape: Sequence[int] = tensor.shape  # type: ignore[assignment]
    if all(dim == 1 for dim in shape[:axis]):
        return tensor
    return tensor._laid_out(dense_strides((*shape[:axis], capacity, *shape[axis + 1 :])))
