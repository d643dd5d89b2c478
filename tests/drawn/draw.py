"""One drawn use of a kernel: sizes, numbers, layouts, instructions and threads from a seed, and how the kernel runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

import onegraph as og
from onegraph.compiler.kernels import native
from onegraph.compiler.kernels.native import CompiledKernel, compiled, fields_of, packed
from onegraph.compiler.kernels.registry import kernels
from onegraph.errors import LibraryRuntimeError
from onegraph.native.library import ffi, lib
from tests.helpers.drawn import SIZES, TYPES, Array, dense_array, drawn_array, fill, placed_array
from tests.helpers.kernels import run_compiled, values_of

T = TypeVar("T")
AGAIN, OVER = 4, 3  # one of so many uses runs with another number of threads, or over an input
OVERWRITES = {kernel.name for kernel in kernels() if kernel.overwrites}


class EmptyRefusedError(Exception):
    """The kernel refuses a tensor without elements, which no graph gives it."""


class Draw:
    """What a generator draws from, and runs its kernel with.

    Attributes:
        kernel, seed: what the use follows from.
        rng: draws all that the methods do not.
        level: the highest instruction set, for kernels with code of their own for some; see ``native.LEVEL``.
        threads: number of threads.
        said: what a message says of the use; generators add to it.
        path: the code that runs, as far as a generator knows it, for the table of ``make kernels``.
        runs: how often the kernel ran.
    """

    def __init__(self, kernel: str, seed: int) -> None:
        self.kernel, self.seed, self.runs = kernel, seed, 0
        self.rng = np.random.default_rng(crc32(f"{kernel} {seed}".encode()))
        self._ways = np.random.default_rng(seed)  # apart from the use, which stays as it is
        self.level, self.threads = int(self.rng.integers(0, 5)), int(self.rng.integers(1, 4))
        self.said, self.path = "", ""

    def __str__(self) -> str:
        return f"{self.kernel} {self.seed}: {self.said}, level {self.level}, {self.threads} threads"

    # What generators draw

    def flag(self, share: float = 0.5) -> bool:
        """Whether something holds, in this share of uses."""
        return bool(self.rng.random() < share)

    def of(self, choices: Sequence[T]) -> T:
        """One of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def between(self, low: int, high: int) -> int:
        """A whole number, of which ``high`` is the largest."""
        return int(self.rng.integers(low, high + 1))

    def size(self, most: int = 257, least: int = 1) -> int:
        """A size beside one of vectors in half of the uses, and any small one in the others; seldom 0, if it may be."""
        if least == 0 and self.flag(0.01):
            return 0
        near = [size for size in SIZES if least <= size <= most]
        return self.of(near) if near and self.flag() else self.between(max(least, 1), max(least, min(most, 20)))

    def dtype(self) -> str:
        """A floating-point type: f32, bf16 or f16."""
        return self.of([*TYPES])

    def array(self, shape: Sequence[int], dtype: str = "f32") -> Array:
        """Numbers, some of them special, of other strides in half of the uses."""
        return (drawn_array if self.flag() else dense_array)(self.rng, shape, dtype)

    def dense(self, shape: Sequence[int], dtype: str = "f32") -> Array:
        """Numbers, some of them special, in dense memory."""
        return dense_array(self.rng, shape, dtype)

    def mild(self, shape: Sequence[int], dtype: str = "f32", *, special: bool = False, size: float = 1.0) -> Array:
        """Normal numbers of any strides; with ``special``, some NaN, infinities and numbers near 0 among them."""
        made = placed_array(self.rng, shape, dtype) if self.flag() else np.zeros(shape, TYPES[dtype])
        made[...] = (self.rng.standard_normal(made.shape) * size).astype(made.dtype)
        if special and made.size:
            for _ in range(self.between(1, 4)):
                place = tuple(int(self.rng.integers(dim)) for dim in made.shape)
                made[place] = self.of([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40])
        return made

    def fill(self, array: Array) -> Array:
        """Write numbers, some of them special, into an array."""
        fill(self.rng, array)
        return array

    def result(self, shape: Sequence[int], dtype: str = "f32", *, is_dense: bool = False) -> Array:
        """Memory for a result, full of NaN; of other strides in half of the uses if it need not be dense."""
        made = np.zeros(shape, TYPES[dtype]) if is_dense or self.flag() else placed_array(self.rng, shape, dtype)
        made[...] = np.nan
        return made

    # How the kernel runs

    def run(self, *arrays: Array, results: int = 1, any_threads: bool = True, **numbers: Any) -> None:
        """Run the kernel on inputs and results, between pages that nobody may touch.

        It must leave its inputs as they are, and all memory around the tensors. Some uses run again with another number
        of threads, or with the result in the memory of an input where the record of the kernel lets them: the same bits
        must come. ``any_threads=False``: the bits depend on the number of threads.
        """
        if any(field.name == "level" for field in fields_of(self.kernel)):
            numbers = {"level": self.level, **numbers}
            self.path = self.path if self.runs else f"{self.path} level {self.level}".strip()
        split = len(arrays) - results
        values = values_of(arrays)
        kernel = compiled(self.kernel, values[:split], values[split:], packed(self.kernel, numbers))
        try:
            self.run_kernel(kernel, *arrays, results=results, any_threads=any_threads)
        except LibraryRuntimeError:
            if all(array.size for array in arrays):
                raise
            raise EmptyRefusedError from None

    def run_kernel(self, kernel: CompiledKernel, *arrays: Array, results: int = 1, any_threads: bool = True) -> None:
        """The same for a kernel that the generator has made."""
        split = len(arrays) - results
        before = [array.copy() for array in arrays]
        at_begin = not self._ways.integers(3)
        run_compiled(kernel, *arrays, threads=self.threads, results=results, at_begin=at_begin)
        for place in range(split):
            assert same_bits(arrays[place], before[place]), f"{self}: input {place} is changed"
        ways: list[tuple[int, int | None]] = []
        if not self._ways.integers(AGAIN):
            ways.append((self.threads % 3 + 1 if any_threads else self.threads, None))
        if self.kernel in OVERWRITES and not self._ways.integers(OVER):
            ways += [(self.threads, place) for place in range(split) if is_alike(arrays[place], arrays[split])]
        for threads, over in ways:
            again = [*arrays[:split], *[place_of(array) for array in arrays[split:]]]
            for array, first in zip(again[split:], before[split:], strict=True):
                array[...] = first
            run_compiled(kernel, *again, threads=threads, results=results, at_begin=at_begin, over=over)
            for array, first in zip(again[split:], arrays[split:], strict=True):
                assert same_bits(array, first, nan=True), f"{self}: other bits with {threads} threads, over {over}"
        self.runs += 1

    def run_graph(self, graph: og.Graph, *given: Mapping[str, Array], **options: Any) -> list[Array]:
        """The results of a graph for the last of several inputs, which may have other sizes than those before.

        The program whose report the executable gives must have run this kernel.
        """
        kept, native.LEVEL = native.LEVEL, self.level
        try:
            model = graph.compile(threads=self.threads, **options)
            for each in given:
                found = model(**each)
        finally:
            native.LEVEL = kept
        steps = [*model._programs.cache.latest().program.source.steps]
        names = {ffi.string(lib.onegraph_kernel_name(step.kernel)).decode() for step in steps if step.kernel}
        assert self.kernel in names, f"{self}: {names}\n{model.report()}"
        self.path, self.runs = "graph", self.runs + 1
        return [*found] if isinstance(found, tuple) else [found]

    def refuses(self, *arrays: Array, results: int = 1, **numbers: Any) -> bool:
        """Whether the kernel refuses tensors, for uses of which only the kernel knows which ones it takes."""
        try:
            self.run(*arrays, results=results, **numbers)
        except LibraryRuntimeError:
            return True
        return False


def place_of(array: Array) -> Array:
    """Memory of the same strides."""
    low, high = np.lib.array_utils.byte_bounds(array)
    start = array.__array_interface__["data"][0] - low
    return np.ndarray(array.shape, array.dtype, np.zeros(high - low, np.uint8), start, array.strides)


def is_alike(one: Array, other: Array) -> bool:
    """Whether a result fits into the memory of an input."""
    return (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)


def same_bits(one: Array, other: Array, *, nan: bool = False) -> bool:
    """Whether two arrays hold the same bits; ``nan``: or NaN in the same places."""
    bits = f"u{one.itemsize}"
    same = np.ascontiguousarray(one).view(bits) == np.ascontiguousarray(other).view(bits)
    return bool((same | ((one != one) & (other != other)) if nan else same).all())
