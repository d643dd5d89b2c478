"""Gradients of the convolution category: each is an op of the category."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...lowering.emitter import Emitter, Value
from ...opset.convolution_geometry import convolution_geometry
from ..use import GradientUse, shape_for
from .table import gradient_of

# The gradient with respect to the source of a convolution is the gradient op of its data, and so on. Each row is an op,
# one of its inputs, and the op of the gradient with its inputs: those of the op, or diff.
_GRADIENTS = """
Convolution                  src       ConvolutionBackwardData       diff weights
Convolution                  weights   ConvolutionBackwardWeights    src diff
ConvolutionBackwardData      diff_dst  Convolution                   diff weights
ConvolutionBackwardData      weights   ConvolutionBackwardWeights    diff diff_dst
ConvolutionBackwardWeights   src       ConvolutionBackwardData       diff_dst diff
ConvolutionBackwardWeights   diff_dst  Convolution                   src diff
ConvTranspose                src       ConvTransposeBackwardData     diff weights
ConvTranspose                weights   ConvTransposeBackwardWeights  src diff
ConvTransposeBackwardData    diff_dst  ConvTranspose                 diff weights
ConvTransposeBackwardData    weights   ConvTransposeBackwardWeights  diff diff_dst
ConvTransposeBackwardWeights src       ConvTransposeBackwardData     diff_dst diff
ConvTransposeBackwardWeights diff_dst  ConvTranspose                 src diff
"""
# The attribute that gives the shape of the result of a gradient op.
_SHAPES = {
    "ConvolutionBackwardData": "dst_shape",
    "ConvolutionBackwardWeights": "weights_shape",
    "ConvTransposeBackwardWeights": "weights_shape",
}


def _rule(port: str, kind: str, sources: Sequence[str]) -> Callable[[Emitter, GradientUse, Value], Value]:
    def convolution_gradient(emit: Emitter, use: GradientUse, diff: Value) -> Value:
        attrs: dict[str, object] = {**use.shared(kind)}
        inputs = [diff if source == "diff" else use[source] for source in sources]
        if kind in _SHAPES:
            shape, operand = shape_for(emit, _SHAPES[kind], use[port])
            attrs, inputs = {**attrs, **shape}, [*inputs, *operand]
        elif kind == "ConvTranspose" and use.call.string("auto_pad") == "none":
            attrs["output_padding"] = _output_padding(use)
        return emit.op(kind, inputs, attrs)

    return convolution_gradient


def _output_padding(use: GradientUse) -> list[int]:
    """The output_padding of the ConvTranspose whose result has the shape of the wide side of this gradient op.

    The gradient ops take any wide side that the window maps to the narrow side, if they have no output_padding.
    """
    geometry = convolution_geometry(use.call)
    added = []
    for axis, padding in enumerate(() if geometry is None else geometry.output_padding):
        assert geometry is not None
        window, wide = geometry.window(axis), None if geometry.wide is None else geometry.wide[axis]
        if window is None or wide is None:
            added.append(padding)
            continue
        narrow = None if geometry.narrow is None else geometry.narrow[axis]
        added.append(wide - window.transposed(window.forward(wide - padding) if narrow is None else narrow))
    return added


for _line in _GRADIENTS.strip().split("\n"):
    _kind, _port, _second_port, *_sources = _line.split()
    gradient_of(_kind, _port)(_rule(_port, _second_port, _sources))


@gradient_of("Convolution, ConvTranspose", "bias")
def bias(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return emit.op("BiasAddBackward", [diff], use.shared("BiasAddBackward"))
