"""Forms of ops of f32 where sizes are open: those that kernels of the package take.

Where the library's reductions are slow, they are pools and products with ones, whose windows are as large as the axes.
So not even their ops are the same for two sizes. Kernels of the package compute plain sums, means and products, and
elementwise ops whose operands are broadcast in any way. Gradients of normalizations are such ops.
"""

from __future__ import annotations

from ...capi.settings import has_avx2
from ...opset.dtypes import DataType
from ...opset.kinds import ARITHMETIC
from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call, TensorType
from ..kernels.arrays import REDUCING
from ..kernels.kernel import COMPILED_ANEW
from .bodies import by_body
from .form import Form, FormBuilder, Rewrite, form_of

SPREAD = ARITHMETIC - {"Maximum", "Minimum"}
PLAIN = frozenset(REDUCING) - {"ReduceMax", "ReduceMin"}
NORMS = {"ReduceL1": ("Abs", None), "ReduceL2": ("Square", "Sqrt")}  # the ops in front of a sum and behind it
GRADIENTS = frozenset(["BatchNormTrainingBackward", "LayerNormBackward"])  # which are ops of the other kinds
OPEN_KINDS = PLAIN | NORMS.keys() | SPREAD | GRADIENTS


def open_form(call: Call) -> Form | None:
    """The form of an op of f32 for open sizes; None if its form is that for known sizes.

    ``call`` is one of ``OPEN_KINDS``."""
    kind = call.schema.kind
    if kind in SPREAD:
        is_full = all(_is_full(tensor) for tensor in call.inputs)
        return form_of(Rewrite(kind, call.given, (0, 1)), call) if is_full and has_avx2() else None
    if kind in GRADIENTS:
        types = {tensor.dtype for tensor in call.inputs if tensor is not None}
        is_full = types == {DataType.f32} and _is_full(call.inputs[0])
        return by_body(call, COMPILED_ANEW) if is_full and has_avx2() else None
    src, axes = call.inputs[0], reduced_axes(call)
    if not axes or not _is_full(src):
        return None
    keep_dims = call.flag("keep_dims")
    if kind in PLAIN:
        return form_of(Rewrite(kind, {"axes": axes, "keep_dims": keep_dims}, (0,)), call)
    before, following = NORMS[kind]
    parts = FormBuilder(call)
    result = parts.add("ReduceSum", parts.add(before, 0), axes=axes, keep_dims=keep_dims)
    return parts.form(result if following is None else parts.add(following, result), note=f"{before}, ReduceSum")


def _is_full(tensor: TensorType | None) -> bool:
    """Whether a tensor has elements, of f32."""
    assert tensor is not None
    return tensor.dtype is DataType.f32 and 0 not in tensor.shape  # type: ignore[operator]
