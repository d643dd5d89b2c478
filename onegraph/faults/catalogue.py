"""Every fault there is, by the part of the package that has it: for tests and for the page of the documentation."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..errors import ArgumentError
from ..opset.values import nearest
from . import (
    capabilities,
    constant_inputs,
    cpus,
    depthwise,
    execution,
    layouts,
    leaks,
    performance,
    precision,
    slow_fusions,
    slow_images,
    slow_operands,
    slow_spreads,
    slow_strides,
    strided_ops,
    support,
    vectors,
    without_avx512,
)
from .fault import Fault
from .fusions import (
    attention,
    image_operands,
    int8,
    int8_convolutions,
    operands,
    residuals,
    scales,
    strided,
    views,
    zero_points,
)
from .fusions import convolution as fused_convolution
from .fusions import matmul as fused_matmul
from .ops import (
    auto_padding,
    convolution,
    convolution_gradients,
    copied_sources,
    elementwise,
    interpolation,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    size,
    spanned_source,
)
from .user_faults import VARIABLE

MODULES: dict[str, ModuleType] = {
    "Convolutions": convolution,
    "Convolutions that copy the source": copied_sources,
    "Convolutions whose windows span the source": spanned_source,
    "Gradients of convolutions": convolution_gradients,
    "Automatic padding of gradients": auto_padding,
    "Pools": pooling,
    "Reductions": reduction,
    "Normalizations and SoftMax": normalization,
    "Quantization": quantization,
    "Interpolate": interpolation,
    "MatMul": matmul,
    "Elementwise and binary ops": elementwise,
    "Moves of elements": movement,
    "Empty and huge tensors": size,
    "Low precision": precision,
    "NaN and infinities in other rows": leaks,
    "Ops without a kernel": capabilities,
    "Forms without a kernel": support,
    "Data types without instructions": cpus,
    "Fused: operands of binary ops": operands,
    "Fused: operands behind Interpolate and pools": image_operands,
    "Fused: attention": attention,
    "Fused: views, folded ops, further outputs": views,
    "Fused: convolutions": fused_convolution,
    "Fused: matrix products": fused_matmul,
    "Fused: int8": int8,
    "Fused: int8, convolutions": int8_convolutions,
    "Fused: int8, gaps and zero points": zero_points,
    "Fused: int8, scales along an axis": scales,
    "Fused: int8, residuals": residuals,
    "Fused: tensors that are not dense": strided,
    "Tensors that are not dense": layouts,
    "Single ops on tensors that are not dense": strided_ops,
    "Slow kernels": performance,
    "Slow kernels of convolutions of each channel": depthwise,
    "Slow products of few rows": vectors,
    "Slow kernels without AVX-512": without_avx512,
    "Slow kernels of tensors that are not dense": slow_strides,
    "Slow kernels of fused ops: operands": slow_operands,
    "Slow kernels of fused ops: images": slow_images,
    "Slow kernels of fused ops: spread results": slow_spreads,
    "Slow kernels of fused ops": slow_fusions,
    "Constants of partitions": constant_inputs,
    "Between search, compile and execute": execution,
}


def faults_in(module: ModuleType) -> list[Fault[Any]]:
    """The faults that a module makes, in its order."""
    return [value for value in vars(module).values() if isinstance(value, Fault)]


CATALOGUE: dict[str, list[Fault[Any]]] = {title: faults_in(module) for title, module in MODULES.items()}
EVERY_FAULT: list[Fault[Any]] = [fault for faults in CATALOGUE.values() for fault in faults]


def check_names(off: frozenset[str]) -> None:
    """Refuse names of faults that are to be switched off and do not exist.

    Raises:
        ArgumentError: there is no such fault; the message suggests the nearest name.
    """
    names = {fault.name for fault in EVERY_FAULT}
    for name in sorted(off - names):
        close = nearest(name, sorted(names))
        hint = f"; did you mean -{close}?" if close else ""
        raise ArgumentError(f"{VARIABLE}: -{name}; expected the name of a fault of docs/faults.md{hint}")
