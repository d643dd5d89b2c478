"""Share of the machine's peak: products against multiply-adds on registers only, elementwise ops against a copy.

A convolution counts the operations of its definition. One that needs fewer of them can exceed the peak.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

import onegraph as og
from onegraph import capi

from .compiled import compiled
from .fusion import arrays, attention, convolution, int8_convolution, random, rng
from .kernels import notes
from .results import cpu_flags
from .timing import QUICK, Contender, Effort, Row, alternate, calls


class Instruction(NamedTuple):
    """A multiply-add instruction.

    Attributes:
        name: its name in the manuals.
        flag: Linux's name of the instruction set.
        zero, assembly: code that zeroes a register, and the instruction; ``#`` is the number of the register.
        operations: the multiplications and additions of one instruction.
        accumulators: the number of independent registers, enough to hide the latency.
    """

    name: str
    flag: str
    zero: str
    assembly: str
    operations: int
    accumulators: int


ZERO_ZMM, ZERO_YMM, ZERO_TILE = "vpxord %%zmm#, %%zmm#, %%zmm#", "vpxor %%ymm#, %%ymm#, %%ymm#", "tilezero %%tmm#"
# For each data type, from the fastest to the slowest.
INSTRUCTIONS = {
    "f32": [
        Instruction("vfmadd231ps zmm", "avx512f", ZERO_ZMM, "vfmadd231ps %%zmm30, %%zmm31, %%zmm#", 32, 24),
        Instruction("vfmadd231ps ymm", "fma", ZERO_YMM, "vfmadd231ps %%ymm14, %%ymm15, %%ymm#", 16, 12),
    ],
    "bf16": [
        Instruction("tdpbf16ps", "amx_bf16", ZERO_TILE, "tdpbf16ps %%tmm7, %%tmm6, %%tmm#", 16 * 16 * 64, 4),
        Instruction("vdpbf16ps zmm", "avx512_bf16", ZERO_ZMM, "vdpbf16ps %%zmm30, %%zmm31, %%zmm#", 64, 24),
    ],
    "int8": [
        Instruction("tdpbusd", "amx_int8", ZERO_TILE, "tdpbusd %%tmm7, %%tmm6, %%tmm#", 16 * 16 * 128, 4),
        Instruction("vpdpbusd zmm", "avx512_vnni", ZERO_ZMM, "vpdpbusd %%zmm30, %%zmm31, %%zmm#", 128, 24),
        Instruction("vpdpbusd ymm", "avx_vnni", ZERO_YMM, "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm#", 64, 12),
    ],
}
DECLARATIONS = "int spin(long count);"
SOURCE = """
#include <sys/syscall.h>
#include <unistd.h>

int spin(long count) {
#ifdef TILES
    /* Linux permits tile registers on request. Palette 1 has eight tiles of 16 rows of 64 bytes. */
    unsigned char config[64] = {1};
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return -1;
    for (int tile = 0; tile < 8; tile++) config[16 + 2 * tile] = 64, config[48 + tile] = 16;
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
#endif
    __asm__ volatile(ZERO : : : CLOBBERED);
    for (long i = 0; i < count; i++) __asm__ volatile(STEP : : : CLOBBERED);
#ifdef TILES
    __asm__ volatile("tilerelease");
#else
    __asm__ volatile("vzeroupper");
#endif
    return 0;
}
"""


@cache
def spin(instruction: Instruction) -> Any:
    """A C function that runs the instruction on every accumulator, ``count`` times."""
    tiles, wide = instruction.zero == ZERO_TILE, instruction.zero == ZERO_ZMM
    registers = range(8 if tiles else 32 if wide else 16)
    # without AVX-512 options, the compiler does not accept zmm16 and above
    clobbered = ", ".join(f'"xmm{number}"' for number in range(16))
    definitions = {
        "ZERO": _lines(instruction.zero, registers),
        "STEP": _lines(instruction.assembly, range(instruction.accumulators)),
        "CLOBBERED": clobbered,
    } | ({"TILES": "1"} if tiles else {})
    defined = "".join(f"#define {name} {text}\n" for name, text in definitions.items())
    return compiled("_benchmark_spin", DECLARATIONS, defined + SOURCE)[1].spin


def _lines(assembly: str, registers: range) -> str:
    return '"' + r"\n".join(assembly.replace("#", str(number)) for number in registers) + '"'


def registers_only(instruction: Instruction, operations: float, threads: int, pool: ThreadPoolExecutor) -> Contender:
    """A contender with as many operations per run as the other contender, divided among threads."""
    function = spin(instruction)
    steps = operations / (instruction.operations * instruction.accumulators * threads)

    def contender(count: int) -> None:
        for status in pool.map(function, [max(1, round(count * steps))] * threads):
            assert status == 0, f"{instruction.name}: the kernel refuses the tile registers"

    return contender


def matmul(size: int, dtype: og.DataType) -> og.Graph:
    g = og.Graph()
    src = g.input("src", dtype, (size, size))
    g.output("dst", g.matmul(src, g.constant(random(size, size, dtype=dtype)), dtype=dtype))
    return g


def int8_matmul(size: int) -> og.Graph:
    g = og.Graph()
    src = g.dequantize(g.input("src", og.u8, (size, size)), scales=[0.1], zps=[0])
    weights = g.dequantize(g.constant(rng.integers(-127, 128, (size, size), np.int8)), scales=[0.01], zps=[0])
    g.output("dst", g.quantize(g.matmul(src, weights), dtype=og.u8, scales=[10.0], zps=[128]))
    return g


def elementwise(size: int, dtype: og.DataType) -> og.Graph:
    """The sum of two tensors: two are read, and one is written."""
    g = og.Graph()
    g.output("dst", g.add(*(g.input(name, dtype, (size, 1024)) for name in ("first", "second"))))
    return g


def copies(nbytes: int, threads: int, pool: ThreadPoolExecutor) -> Contender:
    """A contender that reads and writes so many bytes in all, divided among threads."""
    pairs = [
        (np.ones(nbytes // threads // 2, np.uint8), np.empty(nbytes // threads // 2, np.uint8)) for _ in range(threads)
    ]

    def several(pair: tuple[np.ndarray, np.ndarray], count: int) -> None:
        for _ in range(count):
            np.copyto(pair[1], pair[0])

    def contender(count: int) -> None:
        list(pool.map(several, pairs, [count] * threads))

    return contender


def bandwidth_rows(quick: bool, effort: Effort, counts: Sequence[int]) -> Iterator[Row]:
    """Elementwise ops on tensors that no cache holds, against copies of as many bytes."""
    size = 64 if quick else 32768
    for dtype in (og.f32, og.bf16):
        graph, nbytes = elementwise(size, dtype), 3 * size * 1024 * dtype.numpy.itemsize
        for threads in counts:
            run = graph.compile(threads=threads).bind(**arrays(graph))
            with ThreadPoolExecutor(threads) as pool:
                contenders = {"copy": copies(nbytes, threads, pool), "onegraph": calls(run.run)}
                seconds, speed, load = alternate(contenders, effort)
            numbers = {f"{name}, GB/s": nbytes / taken / 1e9 for name, taken in seconds.items()}
            yield Row(f"Add {size}x1024, {dtype}, threads {threads}", seconds, speed, numbers, load=load)


def cases(quick: bool) -> Iterator[tuple[str, str, og.Graph, float]]:
    """The name, kind of arithmetic, graph and number of operations of each case."""
    size, width, channels = (64, 8, 16) if quick else (2048, 28, 256)
    tokens = 64 if quick else 2048
    graphs = {
        "f32": (matmul(size, og.f32), convolution(width, channels, og.f32)),
        "bf16": (matmul(size, og.bf16), convolution(width, channels, og.bf16)),
        "int8": (int8_matmul(size), int8_convolution(width, channels)),
    }
    for dtype in (og.f32, og.bf16):
        # batch 4, 2 heads of size 64: two products, each of all queries and keys
        yield (
            f"attention, {tokens} tokens, {dtype}",
            str(dtype),
            attention(tokens, 2, dtype),
            4.0 * 4 * 2 * 64 * tokens**2,
        )
    for kind, (product, convolved) in graphs.items():
        yield f"MatMul {size}x{size}x{size}, {kind}", kind, product, 2.0 * size**3
        outputs = prod(dim or 0 for dim in convolved.outputs["dst"].shape or ())
        yield (
            f"Convolution 3x3, {width}x{width}, {channels} channels, {kind}",
            kind,
            convolved,
            18.0 * outputs * channels,
        )


def rows(quick: bool = False) -> Iterator[Row]:
    effort, default = QUICK if quick else Effort(rounds=9, turn=0.1), capi.get_num_threads() or 1
    flags = cpu_flags()
    best = {kind: next((i for i in known if i.flag in flags), None) for kind, known in INSTRUCTIONS.items()}
    for case, kind, graph, operations in cases(quick):
        instruction = best[kind]
        for threads in sorted({1, default}) if instruction else ():
            assert instruction is not None
            model = graph.compile(threads=threads)
            run = model.bind(**arrays(graph))
            with ThreadPoolExecutor(threads) as pool:
                peak = registers_only(instruction, operations, threads, pool)
                seconds, speed, load = alternate({instruction.name: peak, "onegraph": calls(run.run)}, effort)
            numbers = {f"{name}, billion a second": operations / taken / 1e9 for name, taken in seconds.items()}
            yield Row(f"{case}, threads {threads}", seconds, speed, numbers, notes(model.report(), run.run), load)
    yield from bandwidth_rows(quick, effort, sorted({1, default}))
