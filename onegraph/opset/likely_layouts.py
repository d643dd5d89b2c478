"""Finds weights that are probably in the other layout: both fit, and the other one has the likelier window."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .schema import Call, RuleFinding
from .shapes import known, known_dims, show

FAR = 4  # of the longest side of a window to its shortest one; kernels of models stay below


def likely_weights(call: Call, channels: Callable[[Call], Iterable[RuleFinding]]) -> Iterable[RuleFinding]:
    """A note if weights fit both layouts, and the window is far from square in the chosen one only.

    Args:
        call: a convolution with weights of OIX or XIO.
        channels: what is wrong with the channels of a call.
    """
    shape = call.shape("weights")
    if shape is None or len(shape) < 4 or not known(shape):
        return
    chosen = call.string("weights_format")
    second = "XIO" if chosen == "OIX" else "OIX"
    dims = known_dims(shape)
    window, square = _window(dims, chosen), _window(dims, second)
    if min(*window, *square) < 1 or max(window) < FAR * min(window) or max(square) != min(square):
        return
    if any(channels(call)) or any(channels(call.with_attr("weights_format", second))):
        return
    yield RuleFinding(
        "weights",
        f"a window of {show(window)}",
        f"{show(square)}, as {show(shape)} has in {second}, which fits too",
        f"with weights_format={second!r} the window is square",
        note=True,
    )


def how_oblong(call: Call) -> int:
    """How much longer the longest side of a window is than its shortest one; 0 if that is unknown."""
    if not call.schema.has_attribute("weights_format") or all(port.name != "weights" for port in call.schema.inputs):
        return 0
    shape = call.shape("weights")
    if not known(shape):
        return 0
    window = _window(known_dims(shape), call.string("weights_format"))
    return max(window) - min(window) if window else 0


def _window(dims: tuple[int, ...], weights_format: str) -> tuple[int, ...]:
    """The sizes of the window along the spatial axes."""
    return dims[2:] if weights_format == "OIX" else dims[:-2]
