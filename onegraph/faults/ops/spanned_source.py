"""What oneDNN gets wrong of convolutions whose windows span the source, which lies between two of their elements."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.convolution_geometry import convolution_geometry
from ...opset.schema import Call
from ..fault import UNSAFE, Faults, never
from .convolution import in_low_precision
from .windows import VOLUME

FAULTS = Faults[Call]()


def spans_source(call: Call) -> bool:
    """Whether a window has elements before and behind the source along an axis, and none in it; not of rows."""
    found = convolution_geometry(call)
    if found is None:
        return False
    sizes, counts = found.wide or found.backward(), found.narrow or found.forward()
    for axis, (size, count) in enumerate(zip(sizes[:-1], counts[:-1], strict=True)):
        window = found.window(axis)
        if window is None or size is None or count is None or window.dilation <= size or window.begin == 0:
            continue
        for start in range(-window.begin, min(0, count * window.stride - window.begin), window.stride):
            inside = start % window.dilation  # the first place at or behind the beginning of the source
            if inside >= size and start + window.extent > size:
                return True
    return False


SPANNED_SOURCE = FAULTS.add(
    "spanned_source",
    ops="Convolution ConvolutionBackwardData ConvTranspose ConvTransposeBackwardData",
    where="dilations",
    severity=UNSAFE,
    when=lambda call: in_low_precision(call) and spans_source(call),
    seen={(3, 2): "SIGSEGV", (3, 6): "SIGSEGV", (3, 13): "SIGSEGV"},
    reason="in 16 bits with AMX, windows with elements before and behind the source and none in it read other memory",
    instead="the same op in f32",
    certain=never,  # with AMX alone
)


@SPANNED_SOURCE.example({(3, 2): "right"}, on={"no AVX-512": "throws could not create a primitive", "AMX": "SIGSEGV"})
def volumes_of_two_rows_between_the_elements_of_windows(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (1, 8, 2, 6, 16)), g.input("w", "bf16", (1, 2, 2, 16, 16))
    attrs = {**VOLUME, "dilations": [1, 5, 1], "pads_begin": [0, 2, 0], "pads_end": [0, 3, 0]}
    return g.op("Convolution", ends, attrs)
