"""The steps of a lowered graph."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ...ir.op import Op, label_of
from ...opset.signature import AttrValue
from .part import Part

NO_ATTRS: Mapping[str, AttrValue] = MappingProxyType({})


class Step(NamedTuple):
    """A step of the lowered graph: an op, a part of an op, or a view of one of its tensors.

    ``executor`` is library, view, copy, reference, or one of those that records in ``compiler/kernels`` name; ``note``
    says what was rewritten.
    ``part`` is the op that the library gets. ``whole`` says whether the step is the whole op, so that numpy can run the
    op as a fallback. ``folded`` has the ops that were folded into the constants of the step. ``members`` has the steps
    that a step of executor pointwise or vectors joins, or the convolution that a product of matrices, or one with other
    groups, stands for.
    ``refused`` has the kernels of the package that were considered
    for the step, each with the reason why it was not taken.
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
    refused: tuple[str, ...] = ()

    @property
    def reads(self) -> set[int]:
        """The values that the library, or numpy as a fallback, reads; numpy runs the whole op, which may have more."""
        return {*self.inputs, *[tensor.id for tensor in self.op.inputs if self.whole and tensor is not None]}

    @property
    def label(self) -> str:
        """The kind of the op; for a part of an op, the kind of the part too."""
        return label_of(self.op) if self.whole or self.kind == self.op.kind else f"{self.op.kind}: {self.kind}"

    @property
    def library_part(self) -> Part | None:
        """The part, if the library runs the step."""
        return self.part if self.executor == "library" else None

    def instead(
        self,
        executor: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        *,
        kind: str = "",
        attrs: Mapping[str, AttrValue] = NO_ATTRS,
        note: str = "",
        part: Part | None = None,
    ) -> Step:
        """Another step for the same op, in the place of this one; its kind stays unless ``kind`` is given."""
        kind = kind or self.kind
        return Step(self.id, executor, kind, inputs, outputs, self.op, attrs, note, part, whole=False)
