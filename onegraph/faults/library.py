"""How the library takes ops, apart from what it gets wrong (:mod:`.quirks`): spellings, layouts, data types."""

from __future__ import annotations

from ..opset.dtypes import DataType
from ..opset.schema import Call, Version
from .conditions import overlapping

# The texts and the C header spell these one way, the library takes only the other.
LIBRARY_VALUES = {
    "auto_pad": {"none": "None", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
}
# Ops that read or write dense row-major tensors only, whatever strides they are told.
DENSE_ONLY = frozenset(
    [
        "LayerNorm",
        "LayerNormBackward",
        "SoftMaxBackward",
        "LogSoftmax",
        "LogSoftmaxBackward",
        "PReLU",
        "PReLUBackward",
        "DynamicQuantize",
        "DynamicDequantize",
    ]
)
# Ops that place elements and compute nothing: the library has them in every float type, on every CPU; from 3.5 on, not
# Concat, which numpy runs as fast as it would run the casts.
PLACING = frozenset(["Concat", "Reorder", "StaticReshape", "StaticTranspose", "TypeCast"])
# Ops that have no partition of their own, and the first version in which they have one.
NEVER = (99, 0)
UNSUPPORTED: dict[str, Version] = {"BiasAddBackward": NEVER, "Pow": NEVER, "Reciprocal": NEVER, "Select": (3, 6)}
# Pools whose gradients are rounded with every window that is added, and the first version that adds them up in f32.
ROUNDED_SUMS: dict[str, Version] = {"AvgPoolBackward": (3, 6), "MaxPoolBackward": (3, 13)}


def better_in_f32(call: Call, version: tuple[int, int, int]) -> str:
    """Why an op of a low-precision type is better computed in f32, also where the CPU has the type; empty elsewhere."""
    dtype = call.inputs[0].dtype if call.inputs and call.inputs[0] is not None else None
    if ROUNDED_SUMS.get(call.schema.kind, version) > version and overlapping(call):
        return "windows that overlap are rounded with every one that is added otherwise"
    if call.schema.kind == "Round" and dtype is not DataType.f32:
        return "Round has f32 only"
    if call.schema.kind == "MatMul" and dtype is DataType.f16 and call.input("bias") is not None:
        return "MatMul with a bias of f16 takes a reference kernel, 2,000 times slower"
    return ""
