"""What the conditions of faults see: the ops of a partition and what they join, and tensors that are not dense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from math import prod

from .._util.fork_safety import cached_property
from .._util.records import record
from ..opset import kinds
from ..opset.dtypes import DataType
from ..opset.schema import Call
from ..opset.shapes import known_dims
from ..opset.traits import Trait
from ..opset.window import channel_axis

Dims = tuple[int, ...]

BINARY = kinds.in_category("binary") - kinds.GRADIENTS - {"GreaterEqual"}
VIEWS = kinds.base_kinds(Trait.VIEW)
POOLS = kinds.in_category("pooling") - kinds.GRADIENTS
CONVOLUTIONS = kinds.in_category("convolution") - kinds.GRADIENTS
NORMS = frozenset(["GroupNorm", "LayerNorm"])
PRODUCTS = kinds.PRODUCTS
FOLDED = frozenset(["BiasAdd", "BatchNormInference"])  # into the weights and the bias of the op before
DEQUANTIZATIONS = kinds.DEQUANTIZATIONS
MOVES = VIEWS | {"Reorder", "TypeCast"}
ELEMENTWISE = kinds.ELEMENTWISE
JOINED = PRODUCTS | BINARY | POOLS | NORMS | ELEMENTWISE | {"Interpolate", "SoftMax"}
# From this rank on, the kernel of an elementwise op counts on dense tensors, and with a binary op behind it writes past
# its memory.
WILD_RANK = 6


@record(frozen=True)
class Use:
    """One op of a partition: what it computes, and the values that it reads and writes, by number."""

    call: Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: DataType  # of the first output

    @property
    def kind(self) -> str:
        """Name of the op."""
        return self.call.schema.kind

    @property
    def result(self) -> Dims:
        """Shape of the first output."""
        return known_dims(self.call.shapes[0])

    def shape(self, index: int) -> Dims:
        """Shape of input ``index``."""
        tensor = self.call.inputs[index]
        assert tensor is not None
        return known_dims(tensor.shape)


@record(frozen=True)
class Operand:
    """What a binary op joins to the result of the main op of a partition: both shapes, and where a vector goes."""

    binary: Use
    result: Dims
    shape: Dims

    @property
    def single(self) -> bool:
        """Whether it is one element."""
        return prod(self.shape) == 1

    @property
    def bias_axis(self) -> int:
        """The axis that the bias of a BiasAdd goes along."""
        return channel_axis(len(self.result), self.binary.call.string("data_format"))

    @property
    def along_last(self) -> bool:
        """Whether it varies along the last axis only; the bias of a BiasAdd goes along the channels."""
        if self.binary.kind == "BiasAdd":
            return self.bias_axis == len(self.result) - 1
        return self.single or prod(self.shape) == self.shape[-1] == self.result[-1]

    @property
    def in_columns(self) -> bool:
        """Whether the last axis has size 1, and it varies along some of the other axes."""
        return self.result[-1:] == (1,) and not self.single and prod(self.shape) != prod(self.result)

    @property
    def along_bare_channels(self) -> bool:
        """Whether it varies along the channels, the second axis, of a batch without anything behind them."""
        whole = self.result
        if len(whole) < 3 or whole[0] == 1 or whole[1] == 1 or prod(whole[2:]) != 1:
            return False
        if self.binary.kind == "BiasAdd":
            return self.bias_axis == 1
        return (1,) * (len(whole) - len(self.shape)) + self.shape == (1, *whole[1:])

    @property
    def is_partial(self) -> bool:
        """Whether it is neither one element nor as large as what it is joined to."""
        return not self.single and self.shape != self.result


@record(frozen=True)
class Fused:
    """The ops of a partition, in an order in which they can run, and what the CPU lets the library use for them.

    Attributes:
        vnni: whether it may use instructions for sums of products of int8.
        avx2: whether it may use instructions that read memory of any alignment.
        avx512: whether it may use AVX-512, for which alone the library has its newest kernels of MatMul.
        strided: the values that are not dense row-major, by number.
        constants: the values that are known before the graph runs, by number.
        openmp: whether the library runs its threads with OpenMP.
        amx: whether it may use AMX.
        strict: whether it must compute f32 in f32.
    """

    uses: Sequence[Use]
    vnni: bool = True
    avx2: bool = True
    avx512: bool = True
    strided: frozenset[int] = frozenset()
    constants: frozenset[int] = frozenset()
    openmp: bool = False
    amx: bool = False
    strict: bool = True

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The names of the ops."""
        return frozenset(use.kind for use in self.uses)

    def has(self, *kinds: str) -> bool:
        """Whether there is an op of each of these kinds."""
        return self.kinds.issuperset(kinds)

    def some(self, kinds: frozenset[str]) -> bool:
        """Whether there is an op of one of these kinds."""
        return not self.kinds.isdisjoint(kinds)

    def of(self, *kinds: str) -> list[Use]:
        """The ops of these kinds."""
        return [use for use in self.uses if use.kind in kinds]

    @cached_property
    def operands(self) -> list[tuple[Use, Operand]]:
        """Each op that binary ops are joined to, with an operand of one of these."""
        uses = self.uses
        return [(main, operand) for place, main in enumerate(uses) for operand in _operands(main, uses[place + 1 :])]

    @cached_property
    def computed(self) -> list[Use]:
        """The binary ops of which every input is computed by the ops before them."""
        made, computed_uses = set[int](), []
        for use in self.uses:
            if use.kind in BINARY and made.issuperset(use.inputs):
                computed_uses.append(use)
            if use.kind not in DEQUANTIZATIONS or made.intersection(use.inputs):  # a residual is none of its results
                made.update(use.outputs)
        return computed_uses


def _operands(main: Use, later: Sequence[Use]) -> Iterator[Operand]:
    """What the binary ops after ``main`` join to its result."""
    result = main.result if main.kind in JOINED else ()
    if main.kind not in JOINED or (main.kind in ELEMENTWISE and len(result) < WILD_RANK):
        return
    derived = set(main.outputs)
    for use in later:
        if use.kind in CONVOLUTIONS or not derived.intersection(use.inputs):
            continue  # what another convolution computes is no longer in this kernel
        derived.update(use.outputs)
        if use.kind in BINARY:
            operands = [index for index, number in enumerate(use.inputs) if number not in derived]
            for index in operands or range(len(use.inputs)):
                yield Operand(use, result, use.shape(index))


@record(frozen=True)
class Laid:
    """A tensor that is not dense row-major, as an op meets it.

    Attributes:
        kind: the op.
        rank: of its first result.
        shape, strides: of the tensor.
        is_read: whether the op itself reads the tensor, and not another op of the partition.
        inside: the ops of the partition.
        attrs: attributes of the op.
    """

    kind: str
    rank: int
    shape: Dims
    strides: Dims
    is_read: bool = True
    inside: frozenset[str] = frozenset()
    attrs: Mapping[str, object] = field(default_factory=dict)
