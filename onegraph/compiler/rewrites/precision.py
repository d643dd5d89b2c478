"""Computes ops in f32, and rounds once, if the library or the CPU lacks their data types.

The type tables of the specification allow these ops. The library may be older than a row of the table, may lack the row
for one of the ops, or may run on a CPU without arithmetic of the type. The cast to f32 is exact; the cast back is the
rounding that the op itself would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...capi.settings import get_cpu_isa, is_native
from ...faults.capabilities import PLACING, has_kernel
from ...faults.cpus import CPU_SUPPORT, OnCpu
from ...faults.ops import faults_of
from ...faults.precision import better_in_f32
from ...ir.op import Array
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ...opset.editions.registry import BASE
from ...opset.kinds import NORMALIZATIONS
from ...opset.schema import Call, TensorType
from ...opset.signature import Port
from ..ir.part import Part, Source
from .form import Form, FormBuilder

LOW = frozenset([DataType.f16, DataType.bf16])
# Ops whose statistics and parameters are f32 in the library, whatever the type of src is.
_NORMS = NORMALIZATIONS - {"RMSNorm"}


def in_own_types(call: Call, form: Form) -> Form:
    """The form with every part in data types that the library has for it; the same form if nothing changes."""
    reasons = [_wrong_types(part) for part in form.parts]
    if not any(reasons):
        return form
    parts = FormBuilder(call)
    numbers = list(range(len(call.inputs)))
    for part, reason in zip(form.parts, reasons, strict=True):
        inputs: list[Source] = [numbers[source] if isinstance(source, int) else source for source in part.inputs]
        outputs: Sequence[TensorType] = part.outputs
        if reason:
            ports, targets = _wide_ports(part)
            inputs = [parts.cast(s, DataType.f32) if wide else s for s, wide in zip(inputs, ports, strict=True)]
            outputs = [
                TensorType(DataType.f32, t.shape) if wide else t for t, wide in zip(part.outputs, targets, strict=True)
            ]
        first = parts.add(part.kind, *inputs, outputs=outputs, **part.attrs)
        for index, (have, want) in enumerate(zip(outputs, part.outputs, strict=True)):
            assert want.dtype is not None
            number = first + index if have is want else parts.cast(first + index, want.dtype)
            assert isinstance(number, int)
            numbers.append(number)
    notes = [form.note, *reasons]
    return Form(
        tuple(parts.parts),
        tuple(numbers[result] for result in form.results),
        form.n_inputs,
        "; ".join(dict.fromkeys(note for note in notes if note)),
    )


def _wrong_types(part: Part) -> str:
    """Why a part is to be computed in f32; empty where it is not, or where that would not help."""
    low = {t.dtype for t in (*part.types, *part.outputs) if t.dtype in LOW}
    if not low or part.kind in PLACING or not has_kernel(part.kind, VERSION):
        return ""
    if reason := CPU_SUPPORT.reason(frozenset([part.kind]), OnCpu(part.call, get_cpu_isa()), VERSION):
        return f"in f32: {reason}"
    if reason := better_in_f32(part.call, VERSION):
        return f"in f32: {reason}"
    if part.kind in _NORMS and any(_bf16_vectors(part)):
        return "parameters and statistics in f32: bf16 ones are unsupported"
    if not in_table(part.call):
        names = ", ".join(str(t.dtype) for t in (*part.types, *part.outputs))
        return f"in f32: oneDNN {VERSION[0]}.{VERSION[1]} has no {part.kind} of {names}"
    faults = faults_of(part.call, VERSION)
    return f"in f32: {faults[0].told}" if faults and not faults_of(_in_f32(part).call, VERSION) else ""


def _bf16_vectors(part: Part) -> list[bool]:
    """For each input, then for each output, whether it is a parameter or a statistic in bf16."""
    schema = BASE[part.kind]
    ports = [*_ports(part), *schema.outputs[: len(part.outputs)]]
    types = (*part.types, *part.outputs)
    return [port.type == "T2" and t.dtype is DataType.bf16 for port, t in zip(ports, types, strict=True)]


def _wide_ports(part: Part) -> tuple[list[bool], list[bool]]:
    """Whether each input, and each output, of a part becomes f32."""
    types = (*part.types, *part.outputs)
    wide = [t.dtype in LOW for t in types]
    is_native_norm = part.kind in _NORMS and all(is_native(t.dtype) for t in types)
    if is_native_norm and not better_in_f32(part.call, VERSION):
        wide = _bf16_vectors(part)
    return wide[: len(part.types)], wide[len(part.types) :]


def _in_f32(part: Part) -> Part:
    """The part with its low-precision types replaced by f32."""
    inputs, outputs = (
        tuple(replace(t, dtype=DataType.f32) if wide else t for t, wide in zip(types, ports, strict=True))
        for types, ports in zip((part.types, part.outputs), _wide_ports(part), strict=True)
    )
    return replace(part, types=inputs, outputs=outputs)


def _ports(part: Part) -> list[Port]:
    """The port of each input; an absent optional input may shift a later input to its port, which has the same type."""
    return [BASE[part.kind].input_port(index) for index in range(len(part.inputs))]


def in_table(call: Call) -> bool:
    """Whether the type table of the library's version has a row for these data types."""
    schema = call.schema
    faults = {schema.input_port(index).type: tensor.dtype for index, tensor in enumerate(call.inputs) if tensor}
    faults.update(zip((port.type for port in schema.outputs), call.output_types, strict=False))
    return any(
        all(faults.get(name) in (None, *types) for name, types in row.types.items())
        for row in schema.types
        if row.since <= VERSION
    )


def rounded(array: Array, dtype: DataType) -> Array:
    """The array in another float type, rounded to nearest; values that are too large become infinite."""
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)
