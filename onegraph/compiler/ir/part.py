"""The ops that the library gets: parts, which are equal if they compute the same on the same types."""

from __future__ import annotations

from collections.abc import Mapping

from ..._util.fork_safety import cached_property
from ..._util.records import record
from ...ir.op import Array
from ...opset.editions.registry import BASE
from ...opset.schema import Call, TensorType
from ...opset.signature import AttrValue

# The number of a value of a form, or a constant.
Source = int | Array


@record(frozen=True)
class Part:
    """One op of the library with its types.

    Parts are equal if kind, attributes and types are, so that what is compiled for one serves the others.
    ``inputs`` says where a rewrite takes the operands from: constants, or numbers of values, as a form counts them.
    ``types`` are the types of the operands, ``outputs`` those of the results.
    """

    kind: str
    attrs: Mapping[str, AttrValue]
    inputs: tuple[Source, ...]
    types: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    @property
    def call(self) -> Call:
        """The part as a Call of its op."""
        return Call(BASE[self.kind], self.attrs, self.types, len(self.outputs), [t.dtype for t in self.outputs])

    @cached_property
    def _key(self) -> tuple[object, ...]:
        # 0, 0.0, -0.0 and False are equal to each other.
        attrs = [(name, value or repr(value)) for name, value in self.attrs.items()]
        return self.kind, tuple(attrs), self.types, self.outputs

    @cached_property
    def _hash(self) -> int:
        try:
            return hash(self._key)
        except TypeError:  # an attribute of an unchecked op may be a list
            return hash(self.kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Part) and self._hash == other._hash and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash
