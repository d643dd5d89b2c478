"""Computes on u8 codes where a graph has s8 codes between its Quantize and Dequantize ops.

VNNI multiplies u8 by s8. For s8 by s8 the library shifts src at each place, and corrects the sums.
A code c with the zero point z stands for the same number as the unsigned code c + 128 with the zero point z + 128, so
the results are the same. Behind a ReLU z is -128, and the zero point of the unsigned codes is 0, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...capi.settings import has_vnni
from ...opset.dtypes import DataType
from ...opset.schema import TensorType
from ..ir.edit import Edit
from ..ir.step import Step
from ..options import Options

SHIFT = 128
NOTE = "u8 codes in the place of s8, which VNNI multiplies as they are"


def use_unsigned_codes(edit: Edit, _: Options) -> None:
    """Use u8 in the place of each s8 that a Quantize makes and that Dequantize ops alone read."""
    graph = edit.graph
    changed = {
        step.outputs[0]
        for step in graph.steps
        if graph.values[step.outputs[0]].dtype is DataType.s8
        and step.outputs[0] not in graph.returned
        and _has_one_scale([step])
        and _has_one_scale(graph.consumers(step.outputs[0]), "Dequantize")
    }
    if not changed or not has_vnni():
        return
    for number in changed:
        edit.change(number, dtype=DataType.u8)
    for step in graph.steps:
        if changed & {*step.inputs, *step.outputs}:
            edit.replace(step, _shifted(step))


def _has_one_scale(steps: Sequence[Step], kind: str = "Quantize") -> bool:
    """Whether the library runs all of the steps, which are of this kind and have one scale and zero point each."""
    return all(
        step.executor == "library" and step.kind == kind and step.attrs.get("qtype", "per_tensor") == "per_tensor"
        for step in steps
    )


def _shifted(step: Step) -> Step:
    """A Quantize or Dequantize of the unsigned codes."""
    signed = step.part
    assert signed is not None
    zeros = signed.attrs.get("zps") or (0,)
    assert isinstance(zeros, tuple)
    part = replace(
        signed,
        attrs={**signed.attrs, "zps": tuple([int(zero) + SHIFT for zero in zeros])},
        types=tuple(map(_unsigned, signed.types)),
        outputs=tuple(map(_unsigned, signed.outputs)),
    )
    note = "; ".join(filter(None, (step.note, NOTE))) if step.kind == "Quantize" else step.note
    return step._replace(attrs=part.attrs, part=part, note=note, whole=False)


def _unsigned(tensor: TensorType) -> TensorType:
    return replace(tensor, dtype=DataType.u8) if tensor.dtype is DataType.s8 else tensor
