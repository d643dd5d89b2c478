"""Data types that the library computes in with some instruction sets of a CPU alone."""

from __future__ import annotations

from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset import kinds
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE
from ..opset.schema import Call
from .capabilities import PLACING
from .fault import LACKS, Faults

# The instruction sets, by the names of oneDNN, from the oldest to the newest.
ISA_NAMES = (
    "sse41",
    "avx",
    "avx2",
    "avx2_vnni",
    "avx2_vnni_2",
    "avx512_core",
    "avx512_core_vnni",
    "avx512_core_bf16",
    "avx512_core_fp16",
    "avx512_core_amx",
    "avx512_core_amx_fp16",
)
NEWER_ISA_NAMES = ("avx10_2", "avx10_2_amx_2")  # the newest: as a maximum they would have no effect
EVERY_ISA = (*ISA_NAMES, *NEWER_ISA_NAMES)
# The first instruction set that computes in a data type; every instruction set computes in the other data types.
ISA_OF_DTYPE = {DataType.bf16: "avx512_core", DataType.f16: "avx512_core_fp16"}
LOW = frozenset(ISA_OF_DTYPE)
# Has instructions that convert both types, and kernels of oneDNN that use them, none of which was tried.
UNTRIED = "avx2_vnni_2"


class OnCpu(NamedTuple):
    """A use of an op on a CPU, whose newest instruction set is ``isa``."""

    call: Call
    isa: str


# Ops that move or cast elements, for which every CPU has kernels.
UNCOMPUTED = kinds.QUANTIZATIONS | {"GenIndex"}


def low_types(call: Call) -> frozenset[DataType]:
    """The data types of 16 bits in a use."""
    return LOW.intersection([*(tensor.dtype for tensor in call.inputs if tensor is not None), *call.output_types])


def computes(dtype: DataType, isa: str) -> bool:
    """Whether the library computes in a data type on a CPU, whose newest instruction set is ``isa``."""
    return dtype not in LOW or (isa in EVERY_ISA and EVERY_ISA.index(isa) >= EVERY_ISA.index(ISA_OF_DTYPE[dtype]))


def _lacking(use: OnCpu) -> list[str]:
    """The data types of a use that the library does not compute in on the CPU."""
    return sorted(dtype.value for dtype in low_types(use.call) if not computes(dtype, use.isa))


def _lacks_arithmetic(use: OnCpu) -> str:
    missing = " and ".join(_lacking(use))
    return f"the CPU has no arithmetic of {missing} that the library uses" if missing else ""


def _lacks_kernel(use: OnCpu) -> bool:
    """Whether there is no kernel: not where the op moves or casts, nor where a reference kernel casts its result."""
    if use.isa == UNTRIED:
        return False
    src = next((tensor.dtype for tensor in use.call.inputs if tensor is not None), None)
    is_cast = src not in LOW and (use.call.n_outputs or 1) > 1  # a SoftMax in f32 with stats
    return use.call.schema.kind not in UNCOMPUTED and not is_cast and bool(_lacking(use))


CPU_SUPPORT = Faults[OnCpu]()

NO_ARITHMETIC = CPU_SUPPORT.add(
    "no_arithmetic_of_the_type",
    ops=frozenset(BASE) - PLACING - {"End", "Wildcard"},
    where="data types",
    severity=LACKS,
    when=_lacks_arithmetic,
    seen={(3, 2): "throws could not create a primitive"},
    reason="the library computes in bf16 on CPUs from AVX-512 on, and in f16 on those with AVX512-FP16",
    instead="the same op in f32",
    certain=_lacks_kernel,
)


@NO_ARITHMETIC.example({(3, 2): "right"}, on={"no AVX-512": "throws could not create a primitive"})
def product_of_bf16(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "bf16", (2, 3)), g.input("w", "bf16", (3, 4)))


@NO_ARITHMETIC.example({(3, 2): "right"}, on={"no FP16": "throws could not create a primitive"})
def exponential_of_f16(g: DataGraph) -> LogicalTensor:
    return g.exp(g.input("x", "f16", (4,)))


__all__ = ["CPU_SUPPORT", "EVERY_ISA", "ISA_NAMES", "ISA_OF_DTYPE", "NEWER_ISA_NAMES", "OnCpu", "computes"]
