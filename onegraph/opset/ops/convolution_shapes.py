"""Computes the shapes of results of convolutions, and checks their inputs."""

from __future__ import annotations

from collections.abc import Iterable

from ..._util.counted import counted
from ..convolution_geometry import SIDES, convolution_geometry
from ..likely_layouts import how_oblong, likely_weights
from ..schema import Call, RuleFinding
from ..shapes import compatible, show
from ..signature import Shape
from ..window import (
    SHAPE_SOURCE,
    AxisWindow,
    Dim,
    activation,
    given_shape,
    kernel_channels,
)


def channels_match(call: Call) -> Iterable[RuleFinding]:
    """The channels of source, result, weights and bias agree, and groups divides them."""
    problems = [*_channels(call)]
    if problems:
        fix = _agreeing_format(call)
        yield from (finding._replace(fix=fix) for finding in problems)


def _agreeing_format(call: Call) -> str:
    """A suggestion of other formats in which the channels agree; empty if there are none or a dim is unknown."""
    if not all(tensor is None or (tensor.shape is not None and None not in tensor.shape) for tensor in call.inputs):
        return ""
    data_format = "NXC" if call.attr("data_format") == "NCX" else "NCX"
    choices = [{"data_format": data_format}]
    if not call.schema.kind.startswith("ConvTranspose"):  # an edition may order the axes of their weights otherwise
        weights_format = "XIO" if call.attr("weights_format") == "OIX" else "OIX"
        choices += [{"weights_format": weights_format}, {"data_format": data_format, "weights_format": weights_format}]
    agreeing: list[tuple[int, dict[str, str]]] = []
    for choice in choices:
        format_call = call
        for name, value in choice.items():
            format_call = format_call.with_attr(name, value)
        if not any(_channels(format_call)):
            agreeing.append((how_oblong(format_call), choice))
    if not agreeing:
        return ""
    _, likeliest = min(agreeing, key=lambda one: one[0])  # the first of equal ones
    return f"with {' and '.join(f'{name}={value!r}' for name, value in likeliest.items())} they agree"


def _channels(call: Call) -> Iterable[RuleFinding]:
    geometry = convolution_geometry(call)
    if geometry is None:
        return
    kind, groups = call.schema.kind, geometry.groups
    wide_port, narrow_port, weights_port = SIDES[kind]
    for side, port in ((geometry.wide_channels, wide_port), (geometry.narrow_channels, narrow_port)):
        if side is not None and side % groups:
            yield RuleFinding(
                "groups", groups, f"a divisor of the {counted(side, 'channel')}" + (f" of {port}" if port else "")
            )
            return
    weights = call.shape(weights_port) if weights_port else given_shape(call)
    if weights is not None:
        first, second = kernel_channels(weights, geometry.weights_format)
        x_first = geometry.weights_format.startswith("X")
        whole, part = (second, first) if x_first else (first, second)
        roles = ("input", "output") if geometry.transposed else ("output", "input")
        per_group = f" for each of {groups} groups" if groups > 1 else ""
        for dim, expected, role, port, suffix in (
            (whole, geometry.narrow_channels, roles[0], narrow_port, ""),
            (part, _divide(geometry.wide_channels, groups), roles[1], wide_port, per_group),
        ):
            if dim is not None and expected is not None and dim != expected:
                yield RuleFinding(
                    weights_port or SHAPE_SOURCE[kind],
                    f"{counted(dim, role + ' channel')}{suffix}",
                    f"{expected}{suffix}, as {port or 'the result'} has",
                    format="weights_format",
                )
    bias = call.shape("bias") if any(port.name == "bias" for port in call.schema.inputs) else None
    if bias is not None:
        out = geometry.wide_channels if geometry.transposed else geometry.narrow_channels
        if not compatible(bias, (out,)):
            yield RuleFinding(
                "bias", f"shape {show(bias)}", f"shape {show((out,))}, one element for each output channel"
            )


def likely_layout(call: Call) -> Iterable[RuleFinding]:
    """A note if weights fit both layouts, and the window is far from square in the chosen one only."""
    return likely_weights(call, _channels)


def _divide(dim: Dim, groups: int) -> Dim:
    return None if dim is None else dim // groups


def batch_match(call: Call) -> Iterable[RuleFinding]:
    """Source and gradient have the same batch."""
    wide_port, narrow_port, _ = SIDES[call.schema.kind]
    wide = call.shape(wide_port) if wide_port else given_shape(call) if call.schema.kind in SHAPE_SOURCE else None
    narrow = call.shape(narrow_port) if narrow_port else None
    if wide is not None and narrow is not None and not compatible(wide[:1], narrow[:1]):
        where = wide_port or SHAPE_SOURCE[call.schema.kind]
        yield RuleFinding(where, f"batch {wide[0]}", f"batch {narrow[0]}, as {narrow_port} has")


def spatial_fits(call: Call) -> Iterable[RuleFinding]:
    """The window fits into the source, and the sizes of source and result agree."""
    geometry = convolution_geometry(call)
    if geometry is None:
        return
    kind = call.schema.kind
    wide_port, narrow_port, _ = SIDES[kind]
    fewest = 1 if narrow_port is None else 0  # an input may be empty, a computed output may not
    exact = call.schema.has_attribute("output_padding") and (
        call.has("output_padding") if kind.startswith("ConvTranspose") else any(geometry.output_padding)
    )
    for axis in geometry.axes:
        window = geometry.window(axis)
        if window is None:
            continue
        wide = None if geometry.wide is None else geometry.wide[axis]
        narrow = None if geometry.narrow is None else geometry.narrow[axis]
        if narrow is None and wide is not None:
            narrow = window.forward(wide - geometry.output_padding[axis])
            if narrow < fewest:
                yield RuleFinding(
                    wide_port or "dst",
                    f"{counted(wide, 'element')} along spatial axis {axis}",
                    f"at least {window.extent - window.begin - window.end}, the reach of the dilated kernel "
                    "without the padding",
                )
                continue
            if kind == "ConvTransposeBackwardData" and exact:
                yield from _consistent(axis, window, wide, narrow, geometry.output_padding[axis], exact, str(wide_port))
        elif wide is None and narrow is not None and kind == "ConvTranspose":
            added = geometry.output_padding[axis]
            whole = window.transposed(narrow, added) + window.begin + window.end
            if window.begin + window.end >= whole:
                terms = "stride * (size - 1) + reach" + (" + output_padding" if added else "")
                yield RuleFinding(
                    "pads_begin",
                    f"{window.begin} + {window.end} along spatial axis {axis}",
                    f"less than {whole} together with pads_end, as the result has {terms} elements without padding",
                )
        elif wide is not None and narrow is not None:
            where = wide_port or SHAPE_SOURCE[kind]
            yield from _consistent(axis, window, wide, narrow, geometry.output_padding[axis], exact, where)


def padding_left_out(call: Call) -> Iterable[RuleFinding]:
    """Without output_padding every size that the window maps to the other side is taken, not that of zeros alone."""
    geometry = convolution_geometry(call)
    if geometry is None or call.has("output_padding"):
        return
    wide_port, _, _ = SIDES[call.schema.kind]
    for axis in geometry.axes:
        window, wide = geometry.window(axis), None if geometry.wide is None else geometry.wide[axis]
        if window is None or wide is None:
            continue
        narrow = window.forward(wide)
        least = window.transposed(narrow)
        if wide > least and (geometry.narrow is None or geometry.narrow[axis] == narrow):
            expected = f"{wide - least} along spatial axis {axis}, which {counted(wide, 'element')} of {wide_port} need"
            fix = f"the printed default, zeros, would need {least}, so write the value"
            yield RuleFinding("output_padding", "left out", expected, fix, note=True)


def _consistent(
    axis: int, window: AxisWindow, wide: int, narrow: int, added: int, exact: bool, where: str
) -> Iterable[RuleFinding]:
    """A convolution maps ``wide`` elements to ``narrow``; with ``exact``, the remainder must be ``added`` elements."""
    least = window.transposed(narrow)
    if exact and wide != least + added:
        yield RuleFinding(
            where,
            f"{counted(wide, 'element')} along spatial axis {axis}",
            f"{least + added}, from {counted(narrow, 'element')} with output_padding {added}",
        )
    elif not exact and not 0 <= wide - least < window.stride:
        choices = str(least) if window.stride == 1 else f"{least} to {least + window.stride - 1}"
        yield RuleFinding(
            where,
            f"{counted(wide, 'element')} along spatial axis {axis}",
            f"{choices}, which this window maps to {narrow}",
        )


def narrow_shape(call: Call) -> tuple[Shape, ...]:
    """Shape of a Convolution's dst or of a ConvTransposeBackwardData's diff_src."""
    geometry = convolution_geometry(call)
    if geometry is None:
        return (None,)
    return (activation(geometry.batch, geometry.narrow_channels, geometry.forward(), geometry.data_format),)


def wide_shape(call: Call) -> tuple[Shape, ...]:
    """Shape of a ConvTranspose's dst."""
    geometry = convolution_geometry(call)
    if geometry is None:
        return (None,)
    return (activation(geometry.batch, geometry.wide_channels, geometry.backward(), geometry.data_format),)


def source_shape(call: Call) -> tuple[Shape, ...]:
    """The output shape given by the attribute or the input; dims that are known only at run time are None."""
    shape = given_shape(call)
    return ((None,) * (call.rank(call.schema.inputs[0].name) or 0) or None if shape is None else shape,)
