"""Asks the library whether it makes one partition of some ops of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..builder.graph import DataGraph
from ..compiler.library_partitions import library_partitions
from ..compiler.report import SIZES, PartitionReport
from ..compiler.unfused import is_kept_apart
from ..errors import OneGraphError
from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.kinds import QUANTIZATIONS
from ..transform.part import part_of
from ..transform.rebuild import Change, rebuild

if TYPE_CHECKING:
    from .compile_options import CompileOptions

SHORT = (DataType.bf16, DataType.f16)


class Joining:
    """Tells which ops of a graph the library joins; each question is asked once."""

    def __init__(self, graph: DataGraph, options: CompileOptions, make: Callable[..., Any]) -> None:
        self.graph, self.options, self.make = graph, options, make
        self._known: dict[object, bool] = {}
        self._kept_apart: dict[object, str] = {}

    def joins(self, ops: Sequence[Op], *, f32: bool = False, without: str = "") -> bool:
        """Whether the library, with ``finite_math=True``, makes one partition of these ops if nothing else reads them.

        Args:
            ops: the ops.
            f32: whether to ask for f32 in place of 16-bit types.
            without: the name of one of them that is left out: its readers get its first input.
        """
        key = (
            f32,
            without,
            *[(op.kind, *_types(op.inputs), *_types(op.outputs), *map(str, op.attrs.items())) for op in ops],
        )
        if key not in self._known:
            self._known[key] = False
            with suppress(OneGraphError):
                piece = self._piece(ops)
                if without:
                    op = _op_of(piece, without)
                    piece.replace(op, op.inputs[0])
                if f32:
                    piece = rebuild(piece, Change(dtype=lambda dtype: DataType.f32 if dtype in SHORT else dtype))
                self._known[key] = len(library_partitions(piece, "fusion")) == 1
        return self._known[key]

    def with_finite_math(self, ops: Sequence[Op]) -> str:
        """What ``finite_math=True`` makes of these ops, which the library joins; empty if it changes nothing."""
        if self.options.finite_math:
            return ""
        key = "finite math", *[op.name for op in ops]
        if key not in self._kept_apart:
            self._kept_apart[key] = ""
            with suppress(OneGraphError):
                options = {**self.options._asdict(), "finite_math": True, "threads": 1}
                reports = self.make(self._piece(ops), **options).report().partitions
                apart = next((reason_of(one) for one in reports if is_kept_apart(one.reason)), "")
                if apart:
                    self._kept_apart[key] = f"with finite_math=True, {apart}"
                elif len(reports) == 1:
                    self._kept_apart[key] = "compile(finite_math=True) lets the library join the two"
        return self._kept_apart[key]

    def coded(self, ops: Sequence[Op]) -> str:
        """Says if the library takes an op and a Quantize behind it with a Dequantize before it; empty if not."""
        first, last = ops[0], ops[-1]
        if last.kind != "Quantize" or first.kind in QUANTIZATIONS:
            return ""
        with suppress(OneGraphError):
            piece = self._piece(ops)
            source = _op_of(piece, first.name).inputs[0]
            codes = piece.input("codes", last.outputs[0].dtype, source.shape)
            piece.replace(source, piece.op("Dequantize", [codes], {**last.attrs}))
            if len(library_partitions(piece, "fusion")) == 1:
                return (
                    f"the library takes {first.kind} and {last.kind} together behind a Dequantize; here no Dequantize "
                    f"makes the source of {first.kind} {first.name!r}"
                )
        return ""

    def _piece(self, ops: Sequence[Op]) -> DataGraph:
        """The graph of some ops; its outputs are the results that none of them reads."""
        chosen = {op.name for op in ops}
        ordered = [op for op in self.graph.ops if op.name in chosen]
        made = {tensor.id for op in ordered for tensor in op.outputs}
        read = {tensor.id: tensor for op in ordered for tensor in op.inputs}
        inputs = {f"t{number}": one for number, one in read.items() if number not in made and not one.constant}
        last = [op.outputs[0].id for op in ordered if all(end.id not in read for end in op.outputs)]
        return part_of(self.graph, ordered, inputs, {f"t{number}": number for number in last})


def _op_of(graph: DataGraph, name: str) -> Op:
    return next(op for op in graph.ops if op.name == name)


def _types(tensors: Sequence[LogicalTensor]) -> list[object]:
    return [(tensor.dtype, tensor.shape, tensor.constant) for tensor in tensors]


def reason_of(report: PartitionReport) -> str:
    """The reasons of a partition without those that say for which sizes it was compiled."""
    return "; ".join(dict.fromkeys(text for text in report.reasons if text and text not in SIZES))
