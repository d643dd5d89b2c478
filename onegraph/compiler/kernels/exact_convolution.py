"""Convolutions and their gradients by their definition: of float64, and where NaN would meet zeros in the library."""

from __future__ import annotations

from ...errors import OutOfMemoryError
from ...opset.convolution_geometry import SIDES, convolution_geometry
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ..ir.step import Step
from .kernel import Kernel
from .native import Numbers

KINDS = (*SIDES,)
AGAIN = "convolution again"  # the executor of steps that compute a convolution of the library again
OF = {"Convolution": "narrow", "ConvTranspose": "wide", "ConvolutionBackwardData": "wide"}


def _numbers(step: Step) -> Numbers:
    assert step.part is not None
    return numbers_of(step.part.call)


def numbers_of(call: Call) -> Numbers:
    """The numbers of the kernel for a convolution whose sizes are known."""
    kind, geometry = call.schema.kind, convolution_geometry(call)
    assert geometry is not None
    pads = known_dims(geometry.pads_begin)
    of = "weights" if "Weights" in kind else OF.get(kind, "narrow")
    rank, n = len(known_dims(call.inputs[0].shape)), len(geometry.strides)  # type: ignore[union-attr]
    is_last = geometry.weights_format.startswith("X")
    outer, inner = (rank - 1, rank - 2) if is_last else (0, 1)
    first, windows = 0 if is_last else 2, list[int]()
    for axis in range(n):
        windows += [first + axis, geometry.strides[axis], geometry.dilations[axis], pads[axis]]
    return {
        "of": of,
        "groups": geometry.groups,
        "wide": call.inputs[0].dtype is DataType.float64,  # type: ignore[union-attr]
        "swapped": kind == "ConvTransposeBackwardWeights",
        "channels": rank - 1 if geometry.data_format == "NXC" else 1,
        "outer": outer,
        "inner": inner,
        "windows": windows,
    }


KERNELS = (Kernel("exact_convolution", executor=AGAIN, is_dense=False, numbers=_numbers, fails=OutOfMemoryError),)
