"""The records of a lowered graph: values, steps, and the graph with both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from .._util.fork_safety import cached_property
from .._util.records import record
from ..builder.graph import DataGraph
from ..builder.signature_cache import MAX_SIGNATURES
from ..ir.op import Array, Op, label_of
from ..opset.dtypes import DataType
from ..opset.shapes import dense_strides
from ..opset.signature import AttrValue

if TYPE_CHECKING:
    from .rewrites import Part
    from .shared_constants import Key, SharedConstants

Dims = tuple[int, ...]
dense_of = lru_cache(maxsize=MAX_SIGNATURES)(dense_strides)
NO_ATTRS: Mapping[str, AttrValue] = MappingProxyType({})


class Value(NamedTuple):
    """A tensor of the lowered graph.

    ``storage`` is the id of the value that owns the memory: its own id, or that of the value that it is a view of.
    ``strides``, and the ``offset`` of its first element in that memory, are in elements.
    """

    id: int
    dtype: DataType
    shape: Dims
    strides: Dims
    storage: int
    name: str
    constant: Array | None = None
    offset: int = 0

    @property
    def shift(self) -> int:
        """Bytes from the start of the memory to the first element."""
        return self.offset * self.dtype.numpy.itemsize

    def placed(self, storage: int, strides: Dims, offset: int = 0) -> Value:
        """The value in the memory of ``storage``, with these strides, from element ``offset`` of that memory on."""
        return self._replace(storage=storage, strides=strides, offset=offset)

    @property
    def dense(self) -> bool:
        """Whether the strides are those of a dense row-major array."""
        return self.strides == dense_of(self.shape)

    @property
    def irregular(self) -> bool:
        """Whether elements share memory or run backwards, so that no kernel of the library takes the tensor."""
        return any(stride <= 0 and dim > 1 for dim, stride in zip(self.shape, self.strides, strict=True))


class Step(NamedTuple):
    """A step of the lowered graph: an op, a part of an op, or a view of one of its tensors.

    ``executor`` is library, view, copy, pointwise, windows, vectors or reference; ``note`` says what was rewritten.
    ``part`` is the op that the library gets. ``whole`` says whether the step is the whole op, so that numpy can run the
    op as a fallback. ``folded`` has the ops that were folded into the constants of the step. ``members`` has the steps
    that a step of executor pointwise or vectors joins.
    """

    id: int
    executor: str
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    op: Op
    attrs: Mapping[str, AttrValue] = NO_ATTRS
    note: str = ""
    part: Part | None = None
    whole: bool = True
    folded: tuple[Op, ...] = ()
    members: tuple[Step, ...] = ()

    @property
    def reads(self) -> set[int]:
        """The values that the library, or numpy as a fallback, reads; numpy runs the whole op, which may have more."""
        return {*self.inputs, *[tensor.id for tensor in self.op.inputs if self.whole and tensor is not None]}

    @property
    def label(self) -> str:
        """The kind of the op; for a part of an op, the kind of the part too."""
        return label_of(self.op) if self.whole or self.kind == self.op.kind else f"{self.op.kind}: {self.kind}"


@record(frozen=True)
class Lowered:
    """A graph lowered to steps; every shape is known.

    Attributes:
        shared: the constants that other programs of the executable have computed.
        keys: the keys in ``shared`` of the constants that were computed.
        folded: the steps that were computed at compilation.
        repeated: the results that repeat another one for their only reader, each with the other one.
        transformed: the constants that are transformed weights, each with the weights and their layout.
    """

    graph: DataGraph
    values: dict[int, Value]
    steps: tuple[Step, ...]
    shared: SharedConstants
    keys: dict[int, Key] = field(default_factory=dict)
    folded: tuple[Step, ...] = ()
    repeated: Mapping[int, int] = field(default_factory=dict)
    transformed: Mapping[int, tuple[Array, str]] = field(default_factory=dict)

    @cached_property
    def made(self) -> frozenset[int]:
        """The values that a step writes."""
        return frozenset(number for step in self.steps for number in step.outputs)

    @cached_property
    def readers(self) -> Counter[int]:
        """How often steps read each value."""
        return Counter(n for step in self.steps for n in (*step.inputs, *step.reads.difference(step.inputs)))

    def key(self, value: Value) -> Key:
        """The key of a constant."""
        assert value.constant is not None
        return self.keys.get(value.id) or self.shared.key(value.constant)
