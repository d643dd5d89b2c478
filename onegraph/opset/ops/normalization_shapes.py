"""Computes the shapes of results of normalizations, and checks their inputs."""

from __future__ import annotations

from collections.abc import Iterable

from ..._util.counted import counted
from ..schema import Call, RuleFinding
from ..shapes import axis_of, broadcast, compatible, normalize_axis, show
from ..signature import Shape
from ..window import Dim, channels


def channel_inputs(call: Call) -> tuple[str, ...]:
    """The names of the inputs that have one element for each channel."""
    batch = call.schema.kind.startswith("BatchNorm")
    return ("gamma", "beta", "mean", "variance") if batch else ("gamma", "beta")


def channel_format(call: Call) -> str:
    """The data_format of the op; NXC, with the channels last, if the op has no such attribute."""
    return call.string("data_format") if call.schema.has_attribute("data_format") else "NXC"


def channel_count(call: Call) -> Dim:
    """Number of channels, from src or else from the first channel vector of known length; None if unknown."""
    shape = call.shape("src")
    if shape and (len(shape) > 1 or channel_format(call) == "NXC"):
        count = channels(shape, channel_format(call))
        if count is not None:
            return count
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        shape = None if tensor is None else tensor.shape
        if port.name in channel_inputs(call) and shape is not None and len(shape) == 1 and shape[0] is not None:
            return shape[0]
    return None


def begin_axis(call: Call) -> int | None:
    """The first normalized axis, counted from 0; None if the rank is unknown."""
    rank = call.rank("src")
    return None if rank is None else normalize_axis(call.s64("begin_norm_axis"), rank)


def outer_shape(call: Call) -> Shape:
    """The dims of src before the normalized axes, which are the shape of mean and variance."""
    shape, begin = call.shape("src"), begin_axis(call)
    return None if shape is None or begin is None else shape[:begin]


def has_channels(call: Call) -> Iterable[RuleFinding]:
    """src has a batch and a channel axis."""
    shape = call.shape("src")
    if shape is not None and len(shape) < 2:
        yield RuleFinding("src", f"shape {show(shape)}", "at least two axes: batch and channels")


def channel_vectors(call: Call) -> Iterable[RuleFinding]:
    """gamma, beta, and the mean and variance of a batch normalization have one element for each channel."""
    count = channel_count(call)
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        if port.name in channel_inputs(call) and tensor is not None and not compatible(tensor.shape, (count,)):
            yield RuleFinding(
                port.name,
                f"shape {show(tensor.shape)}",
                f"shape {show((count,))}, one element for each channel",
            )


def affine_pair(call: Call) -> Iterable[RuleFinding]:
    """gamma and beta are both given, or neither is."""
    if (call.input("gamma") is None) != (call.input("beta") is None):
        missing = "beta" if call.input("beta") is None else "gamma"
        yield RuleFinding(missing, "missing", "gamma and beta, both or neither")


def affine_inputs(call: Call) -> Iterable[RuleFinding]:
    """gamma and beta are given if and only if use_affine is True."""
    use = call.flag("use_affine")
    both_alike = (call.input("gamma") is None) == (call.input("beta") is None)
    for name in ("gamma", "beta"):
        is_given = call.input(name) is not None
        if use and not is_given:
            fix = f"pass {name}, or use_affine=False" if both_alike else f"pass {name}"
            yield RuleFinding(name, "missing", "a tensor, as use_affine is True", fix)
        elif is_given and not use:
            fix = "set use_affine to True" if both_alike else f"leave {name} out"
            yield RuleFinding(name, "given", "nothing, as use_affine is False", fix)


def begin_axis_in_range(call: Call) -> Iterable[RuleFinding]:
    """begin_norm_axis names an axis of src."""
    rank, axis = call.rank("src"), call.s64("begin_norm_axis")
    if rank is not None and normalize_axis(axis, rank) is None:
        yield RuleFinding("begin_norm_axis", axis, axis_of(rank))


def output_count(call: Call) -> Iterable[RuleFinding]:
    """The op has exactly the outputs that keep_stats or use_affine selects."""
    assert call.schema.implied_outputs is not None
    implied, count = call.schema.implied_outputs(call), call.n_outputs
    if count is not None and count != implied and count <= len(call.schema.outputs):
        name = "keep_stats" if call.schema.has_attribute("keep_stats") else "use_affine"
        where = call.schema.outputs[min(count, implied)].name
        yield RuleFinding(where, counted(count, "output"), f"{implied}, as {name} is {call.flag(name)}")


def gradient_pair(call: Call) -> Iterable[RuleFinding]:
    """diff_gamma and diff_beta are both outputs, or neither is."""
    if call.n_outputs == 2:
        yield RuleFinding("diff_beta", "missing", "diff_gamma and diff_beta, both or neither")


def stats_shape(call: Call) -> Iterable[RuleFinding]:
    """mean and variance have the dims of src before the normalized axes."""
    outer = outer_shape(call)
    for name in ("mean", "variance"):
        if not compatible(call.shape(name), outer):
            yield RuleFinding(
                name,
                f"shape {show(call.shape(name))}",
                f"shape {show(outer)}, the axes of src before begin_norm_axis {call.s64('begin_norm_axis')}",
            )


def groups_divide(call: Call) -> Iterable[RuleFinding]:
    """groups divides the number of channels."""
    count, groups = channel_count(call), call.s64("groups")
    if count is not None and count % groups:
        yield RuleFinding("groups", groups, f"a divisor of the {counted(count, 'channel')}")


def gamma_broadcasts(call: Call) -> Iterable[RuleFinding]:
    """gamma can be broadcast to src."""
    shape, gamma = call.shape("src"), call.shape("gamma")
    if shape is None or gamma is None:
        return
    try:
        fits = compatible(broadcast(gamma, shape), shape)
    except ValueError:
        fits = False
    if not fits:
        yield RuleFinding("gamma", f"shape {show(gamma)}", f"a shape that broadcasts to {show(shape)} of src")


def with_channel_vectors(call: Call) -> tuple[Shape, ...]:
    """The first output has the shape of src; every other output has one element for each channel."""
    return (call.shape("src"), *((channel_count(call),),) * (len(call.schema.outputs) - 1))


def with_outer(call: Call) -> tuple[Shape, ...]:
    """dst has the shape of src; mean and variance have its dims before the normalized axes."""
    return (call.shape("src"), outer_shape(call), outer_shape(call))


def with_groups(call: Call) -> tuple[Shape, ...]:
    """dst has the shape of src; mean and variance have one element for each group of each sample."""
    shape = call.shape("src")
    stats = (shape[0] if shape else None, call.s64("groups"))
    return (shape, stats, stats)


def with_row_stats(call: Call) -> tuple[Shape, ...]:
    """dst has the shape of src; stats has it too, with size 1 along axis."""
    shape = call.shape("src")
    axis = None if shape is None else normalize_axis(call.s64("axis"), len(shape))
    if shape is None or axis is None:
        return (shape, None)
    return (shape, (*shape[:axis], 1, *shape[axis + 1 :]))
