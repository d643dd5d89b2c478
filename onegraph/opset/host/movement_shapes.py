"""Computes the shapes of what host ops that rearrange elements return, and checks their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ..._util.counted import counted
from ..schema import Call, Rule, RuleFinding
from ..shapes import Dim, axis_of, broadcast, known_dims, normalize_axis, of_rank, show
from ..signature import Shape


def length(call: Call, port: str) -> Dim:
    """Number of elements of a vector."""
    shape = call.shape(port)
    return None if shape is None or len(shape) != 1 else shape[0]


def reshape_shape(call: Call) -> tuple[Shape, ...]:
    """The shape in the input, with its -1 resolved."""
    wanted, src = call.value("shape"), call.shape("src")
    if wanted is None:
        return (of_rank(length(call, "shape")),)
    dims: list[Dim] = [None if dim == -1 else dim for dim in wanted]
    if -1 in wanted and src is not None and None not in src:
        dims[wanted.index(-1)] = _left_over(known_dims(src), wanted)
    return (tuple(dims),)


def _left_over(src: Sequence[int], wanted: Sequence[int]) -> int:
    """The dim for -1. Beside a 0, dims that src has too say nothing about it: (0, 6) as (0, -1, 2) is (0, 3, 2)."""
    have, unmatched = [*src], [dim for dim in wanted if dim != -1]
    if 0 in unmatched:
        for dim in src:
            if dim in unmatched:
                have.remove(dim)
                unmatched.remove(dim)
    count = prod(unmatched)
    return prod(have) // count if count else 0


def reshape_fits(call: Call) -> Iterable[RuleFinding]:
    """The shape has at most one -1 and as many elements as src."""
    wanted, src = call.value("shape"), call.shape("src")
    if wanted is None:
        return
    if wanted.count(-1) > 1 or any(dim < -1 for dim in wanted):
        yield RuleFinding("shape", list(wanted), "dims of 0 or more, and at most one -1")
    elif src is not None and None not in src:
        have, want = prod(known_dims(src)), prod(dim for dim in wanted if dim != -1)
        if have != want if -1 not in wanted else (have % want if want else have):
            yield RuleFinding("shape", list(wanted), f"a shape of {have} elements, as src has")


def _axes(call: Call, rank: int) -> set[int]:
    return {axis + rank if axis < 0 else axis for axis in call.s64s("axes")}


def squeeze_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src without those of axes."""
    src = call.shape("src")
    if src is None:
        return (None,)
    axes = _axes(call, len(src))
    return (tuple(dim for axis, dim in enumerate(src) if axis not in axes),)


def squeezed_are_one(call: Call) -> Iterable[RuleFinding]:
    """Every one of axes names an axis of size 1."""
    src, axes = call.shape("src"), call.s64s("axes")
    if src is None:
        return
    normalized = {normalize_axis(axis, len(src)) for axis in axes}
    if None in normalized:
        yield RuleFinding("axes", list(axes), axis_of(len(src), noun="axes"))
    if any(axis is not None and src[axis] not in (1, None) for axis in normalized):
        yield RuleFinding("axes", list(axes), f"axes of size 1 of {show(src)}")


def unsqueeze_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src with dims of 1 at the places axes of dst."""
    src, count = call.shape("src"), len(call.s64s("axes"))
    if src is None:
        return (None,)
    axes, dims = _axes(call, len(src) + count), iter(src)
    return (tuple(1 if axis in axes else next(dims) for axis in range(len(src) + count)),)


def unsqueezed_in_range(call: Call) -> Iterable[RuleFinding]:
    """Every one of axes names another axis of dst."""
    rank, axes = call.rank("src"), call.s64s("axes")
    if rank is None:
        return
    normalized = [normalize_axis(axis, rank + len(axes)) for axis in axes]
    if None in normalized or len({*normalized}) < len(axes):
        yield RuleFinding("axes", list(axes), f"different axes of dst, {-rank - len(axes)} to {rank + len(axes) - 1}")


def expand_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src and of the shape, broadcast as in numpy."""
    wanted, src = call.value("shape"), call.shape("src")
    if wanted is None:
        count = length(call, "shape")
        return (None if count is None or src is None else of_rank(max(count, len(src))),)
    return (broadcast(src, tuple(wanted)),)


def expand_fits(call: Call) -> Iterable[RuleFinding]:
    """src can be broadcast with the shape."""
    try:
        expand_shape(call)
    except ValueError:
        src = show(call.shape("src"))
        yield RuleFinding("shape", list(call.value("shape") or ()), f"a shape that broadcasts with {src} of src")


def one_for_each_axis(port: str, count: int = 1) -> Rule:
    """A rule: the input ``port`` has ``count`` elements for each axis of src."""

    def fits_rank(call: Call) -> Iterable[RuleFinding]:
        """There is a number, or a pair of numbers, for each axis of src."""
        rank, count_given = call.rank("src"), length(call, port)
        if rank is not None and count_given is not None and count_given != rank * count:
            yield RuleFinding(
                port, counted(count_given, "element"), f"{rank * count} elements, for {counted(rank, 'axis')}"
            )

    return fits_rank


def tile_shape(call: Call) -> tuple[Shape, ...]:
    """Each dim of src as often as repeats says."""
    src, repeats = call.shape("src"), call.value("repeats")
    if src is None:
        return (None,)
    if repeats is None:
        return (of_rank(len(src)),)
    return (tuple(None if dim is None else dim * count for dim, count in zip(src, repeats, strict=True)),)


def pad_shape(call: Call) -> tuple[Shape, ...]:
    """Each dim of src with the padding before and after it; negative padding cuts."""
    src, pads = call.shape("src"), call.value("pads")
    if src is None:
        return (None,)
    if pads is None:
        return (of_rank(len(src)),)
    ends = zip(src, pads[: len(src)], pads[len(src) :], strict=True)
    return (tuple(None if dim is None else max(dim + before + after, 0) for dim, before, after in ends),)


def cuts_fit(call: Call) -> Iterable[RuleFinding]:
    """No axis loses more elements than it has, and elements are repeated where there are some."""
    src, pads = call.shape("src"), call.value("pads")
    if src is None or pads is None or len(pads) != 2 * len(src):
        return
    for dim, before, after in zip(src, pads[: len(src)], pads[len(src) :], strict=True):
        if dim is not None and max(-before, 0) + max(-after, 0) > dim:
            yield RuleFinding("pads", list(pads), f"no cut of more elements than src has, {show(src)}")
            return
        if dim == 0 and max(before, after) > 0 and call.string("mode") != "constant":
            yield RuleFinding("pads", list(pads), f"mode constant for an axis without elements, src has {show(src)}")
            return


def slices(call: Call) -> tuple[slice, ...] | None:
    """One slice for each axis of src, as numpy takes them; None if anything about them is unknown."""
    src = call.shape("src")
    starts, ends = call.value("starts"), call.value("ends")
    operands = call.value("axes"), call.value("steps")
    absent = call.input("axes") is None, call.input("steps") is None
    if (
        src is None
        or starts is None
        or ends is None
        or any(value is None and not missing for value, missing in zip(operands, absent, strict=True))
    ):
        return None
    axes = operands[0] if operands[0] is not None else range(len(starts))
    steps = operands[1] if operands[1] is not None else (1,) * len(starts)
    parts = [slice(None)] * len(src)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place, dim = axis % max(len(src), 1), src[axis]
        if dim is None:
            # Without the dim, numpy would still read the same numbers, but the length is unknown.
            parts[place] = slice(start, end, step)
            continue
        first, last, stride = _clamped(start, end, step, dim)
        parts[place] = slice(first, last if last >= 0 else None, stride)
    return tuple(parts)


def _clamped(start: int, end: int, step: int, dim: int) -> tuple[int, int, int]:
    """Start, end and step within an axis; an end of -1 lies before its first element.

    A start before the axis counts as its first element, as ONNX says, also where the step is negative.
    """
    low, high = (0, dim) if step > 0 else (-1, dim - 1)
    start, end = start + dim if start < 0 else start, end + dim if end < 0 else end
    start = min(max(start, 0), high)
    end = min(max(end, low), high if step < 0 else dim)
    return start, end, step


def _count(part: slice) -> int:
    """The number of elements of a slice that lies within its axis; an end of None lies before the first element."""
    last: int = -1 if part.stop is None else part.stop
    count: int = -((part.start - last) // part.step)
    return max(count, 0)


def slice_shape(call: Call) -> tuple[Shape, ...]:
    """The number of elements that each slice takes."""
    src = call.shape("src")
    if src is None:
        return (None,)
    parts = slices(call)
    if parts is None:
        axes = call.value("axes")
        if axes is None:
            return (of_rank(len(src)),)
        taken = {axis % max(len(src), 1) for axis in axes}
        return (tuple(None if axis in taken else dim for axis, dim in enumerate(src)),)
    return (
        tuple(
            dim if part == slice(None) else None if dim is None else _count(part)
            for dim, part in zip(src, parts, strict=True)
        ),
    )


def slices_fit(call: Call) -> Iterable[RuleFinding]:
    """starts, ends, axes and steps are equally long; axes are axes of src, and no step is 0."""
    lengths = {port: length(call, port) for port in ("starts", "ends", "axes", "steps") if call.input(port) is not None}
    for port, count in lengths.items():
        if None not in (count, lengths["starts"]) and count != lengths["starts"]:
            yield RuleFinding(port, counted(count, "element"), f"{lengths['starts']} elements, as starts has")
            return
    rank, axes, steps = call.rank("src"), call.value("axes"), call.value("steps")
    if rank is not None and any(normalize_axis(axis, rank) is None for axis in axes or ()):
        yield RuleFinding("axes", list(axes or ()), axis_of(rank, noun="axes"))
    if rank is not None and call.input("axes") is None and (lengths["starts"] or 0) > rank:
        yield RuleFinding("starts", f"{lengths['starts']} elements", f"at most {rank}, one for each axis of src")
    if 0 in (steps or ()):
        yield RuleFinding("steps", list(steps or ()), "steps other than 0")


def is_matrix(call: Call) -> Iterable[RuleFinding]:
    """src has at least two axes."""
    rank = call.rank("src")
    if rank is not None and rank < 2:
        yield RuleFinding("src", f"rank {rank}", "at least two axes")


def src_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of src."""
    return (call.shape("src"),)
