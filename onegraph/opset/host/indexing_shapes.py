"""Computes the shapes of what host ops of indices return, and checks their inputs."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, isfinite
from typing import Any

from numpy.typing import NDArray

from ..._util.open_numbers import has_open_numbers
from ..._util.open_sizes import is_whole
from ..schema import Call, RuleFinding
from ..shapes import axis_of, compatible, normalize_axis, of_rank, show
from ..signature import Shape


def _axis(call: Call, rank: int) -> int:
    return normalize_axis(call.s64("axis"), rank) or 0


def gather_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src with those of the indices in the place of axis."""
    src, indices = call.shape("src"), call.shape("indices")
    if src is None or indices is None:
        return (None,)
    axis = _axis(call, len(src))
    return ((*src[:axis], *indices, *src[axis + 1 :]),)


def weighted_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src with the first dim of the indices in the place of axis."""
    src, indices = call.shape("src"), call.shape("indices")
    if src is None:
        return (None,)
    axis = _axis(call, len(src))
    return ((*src[:axis], indices[0] if indices else None, *src[axis + 1 :]),)


def weights_fit(call: Call) -> Iterable[RuleFinding]:
    """The indices and the weights have two axes of the same dims, and known indices are elements of axis."""
    src, indices, weights = map(call.shape, ("src", "indices", "weights"))
    if indices is not None and len(indices) != 2:
        yield RuleFinding(
            "indices", f"shape {show(indices)}", "two axes: the elements of dst, and those of src for each"
        )
    elif not compatible(indices, weights):
        yield RuleFinding("weights", f"shape {show(weights)}", f"shape {show(indices)}, as indices has")
    dim = None if not src else src[_axis(call, len(src))]
    known = call.value("indices") or ()
    if dim is not None and max(known, default=-1) >= dim:
        yield RuleFinding("indices", max(known), f"indices below {dim}, the size of axis")


def indices_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of the indices."""
    return (call.shape("indices"),)


def indices_fit(call: Call) -> Iterable[RuleFinding]:
    """The indices have as many axes as src, and at most its dims beside the axis."""
    src, indices = call.shape("src"), call.shape("indices")
    if src is None or indices is None:
        return
    if len(src) != len(indices):
        yield RuleFinding("indices", f"rank {len(indices)}", f"rank {len(src)}, as src has")
        return
    axis = _axis(call, len(src))
    limits = (*src[:axis], *indices[axis : axis + 1], *src[axis + 1 :])
    if any(dim is not None and most is not None and dim > most for dim, most in zip(indices, limits, strict=True)):
        yield RuleFinding("indices", f"shape {show(indices)}", f"dims of at most {show(limits)}")


def updates_fit(call: Call) -> Iterable[RuleFinding]:
    """The updates have the shape of the indices."""
    if not compatible(call.shape("indices"), call.shape("updates")):
        shape, expected = show(call.shape("updates")), show(call.shape("indices"))
        yield RuleFinding("updates", f"shape {shape}", f"shape {expected}, as indices has")


def gather_nd_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of the indices but the last, then those of src that the last dim of the indices does not select."""
    src, indices, batch = call.shape("src"), call.shape("indices"), call.s64("batch_dims")
    if src is None or indices is None or not indices or indices[-1] is None:
        return (None,)
    return ((*indices[:-1], *src[batch + indices[-1] :]),)


def tuples_fit(call: Call) -> Iterable[RuleFinding]:
    """The last dim of the indices is at most the number of axes of src."""
    rank, indices = call.rank("src"), call.shape("indices")
    batch = call.s64("batch_dims") if call.schema.has_attribute("batch_dims") else 0
    if rank is not None and indices is not None and (not indices or (indices[-1] or 0) + batch > rank):
        yield RuleFinding("indices", f"shape {show(indices)}", f"a last dim of at most {rank - batch}")


def slices_fit(call: Call) -> Iterable[RuleFinding]:
    """The updates have the dims of the indices but the last, then those of src that the tuples do not select."""
    src, indices, updates = map(call.shape, ("src", "indices", "updates"))
    if src is None or not indices or indices[-1] is None or indices[-1] > len(src):
        return
    expected = (*indices[:-1], *src[indices[-1] :])
    if not compatible(expected, updates):
        text = f"shape {show(expected)}, as indices {show(indices)} and src {show(src)} ask for"
        yield RuleFinding("updates", f"shape {show(updates)}", text)


def batches_alike(call: Call) -> Iterable[RuleFinding]:
    """src and the indices have the same first batch_dims dims."""
    src, indices, batch = call.shape("src"), call.shape("indices"), call.s64("batch_dims")
    if src is None or indices is None:
        return
    if batch >= max(len(indices), 1) or batch > len(src):
        yield RuleFinding("batch_dims", batch, f"a number below {len(indices)}, the rank of indices")
    elif not compatible(src[:batch], indices[:batch]):
        yield RuleFinding("indices", f"shape {show(indices)}", f"the first {batch} dims of {show(src)} of src")


def src_shape(call: Call) -> tuple[Shape, ...]:
    """The shape of src."""
    return (call.shape("src"),)


def one_hot_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of the indices with depth at the place axis of dst."""
    indices, depth = call.shape("indices"), call.value("depth")
    if indices is None:
        return (None,)
    axis = normalize_axis(call.s64("axis"), len(indices) + 1) or 0
    return ((*indices[:axis], depth[0] if depth else None, *indices[axis:]),)


def values_are_two(call: Call) -> Iterable[RuleFinding]:
    """The values are what is elsewhere, and what is at an index."""
    if not compatible(call.shape("values"), (2,)):
        yield RuleFinding("values", f"shape {show(call.shape('values'))}", "(2,)")


def place_in_range(call: Call) -> Iterable[RuleFinding]:
    """The axis is one of dst, which has one axis more than the indices."""
    rank, axis = call.rank("indices"), call.s64("axis")
    if rank is not None and normalize_axis(axis, rank + 1) is None:
        yield RuleFinding("axis", axis, axis_of(rank + 1))


def arg_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src without axis, or with 1 in its place."""
    src = call.shape("src")
    if src is None:
        return (None,)
    axis = _axis(call, len(src))
    return ((*src[:axis], *((1,) if call.flag("keep_dims") else ()), *src[axis + 1 :]),)


def top_shape(call: Call) -> tuple[Shape, ...]:
    """The dims of src with k at axis, for the values and the indices."""
    src, count = call.shape("src"), call.value("k")
    if src is None:
        return None, None
    axis = _axis(call, len(src))
    return ((*src[:axis], count[0] if count else None, *src[axis + 1 :]),) * 2


def top_fits(call: Call) -> Iterable[RuleFinding]:
    """k is at most the size of axis."""
    src, count = call.shape("src"), call.value("k")
    dim = None if not src else src[_axis(call, len(src))]
    if count and (count[0] < 0 or (dim is not None and count[0] > dim)):
        most = "or more" if dim is None else f"to {dim}, the size of axis"
        yield RuleFinding("k", count[0], f"a number of 0 {most}")


def nonzero_shape(call: Call) -> tuple[Shape, ...]:
    """One row for each axis of src; the number of columns depends on the contents."""
    return ((call.rank("src"), None),)


def dims_shape(call: Call) -> tuple[Shape, ...]:
    """One element for each axis of src."""
    return ((call.rank("src"),),)


def scalar_shape(call: Call) -> tuple[Shape, ...]:
    """A scalar."""
    return ((),)


def range_shape(call: Call) -> tuple[Shape, ...]:
    """The number of steps from start to limit, if they are known."""
    ends = [call.input(name) for name in ("start", "limit", "step")]
    values = [end.value for end in ends if end is not None and end.value is not None]
    return (of_rank(1),) if len(values) < len(ends) else ((count_of_steps(*map(plain, values)),),)


def plain(value: NDArray[Any]) -> int | float:
    """The first number of an array as a Python number."""
    number = value.ravel()[0]
    if has_open_numbers(value):
        return number  # type: ignore[no-any-return]
    return int(number) if value.dtype.kind in "iu" else float(number)


def count_of_steps(start: float, limit: float, step: float) -> int:
    """How many of start, start + step, ... lie before limit; exact for integers."""
    if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int):
        count: int = -((start - limit) // step)
        return max(count, 0)
    return max(0, ceil((limit - start) / step))


def ends_are_finite(call: Call) -> Iterable[RuleFinding]:
    """start, limit and step are finite, and the step is not 0."""
    for name in ("start", "limit", "step"):
        end = call.input(name)
        if end is None or end.value is None or not end.value.size:
            continue
        number = plain(end.value)
        if not is_whole(number) and not isfinite(number):
            yield RuleFinding(name, number, "a finite number")
        elif name == "step" and not number:
            yield RuleFinding(name, 0, "a number other than 0")
