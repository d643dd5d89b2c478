"""Kernels on dense arrays (``csrc/kernels/arrays/``) as steps of a plan, which begin at once.

Calling them from Python takes longer than most of them compute. They take the forms that
:mod:`onegraph.compiler.array_kernels` passes on as they are; numpy or that package computes others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from ..._util.open_sizes import is_whole, present
from ...errors import ArgumentError
from ...opset import kinds
from ...opset.dtypes import DataType
from ...opset.editions.registry import HOST, edition
from ...opset.host.reduction import OPS as HOST_OPS
from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call
from ...reference.host import CHANGES
from ..array_kernels.arrays import MOVED, TYPES
from ..array_kernels.detection import MODES, PADDINGS
from ..array_kernels.indexing import REDUCED, REDUCTIONS
from ..array_kernels.matrices import MULTIPLIED, product_numbers
from ..ir.step import Step
from ..ir.value import Value
from .adding import Adding
from .kernel import COMPILED_ANEW, HOST_OP, NOT_EMPTY, Kernel, call_of, refusal

Values = Sequence[Value]
REASON = "by onegraph, called without Python"
FEW = 4  # times as many elements of a source with strides as are read, from which on no dense copy is made


def _axis(call: Call, values: Values) -> int:
    return call.s64("axis") % len(values[0].shape)


def _of_axis(call: Call, values: Values) -> list[int]:
    return [_axis(call, values)]


def _of_scatter(call: Call, values: Values) -> list[int]:
    axis = 0 if "axis" not in {one.name for one in call.schema.attributes} else _axis(call, values)
    return [axis, REDUCTIONS[call.string("reduction")]]


def _of_running(call: Call, values: Values) -> list[int]:
    return [_axis(call, values), call.flag("exclusive"), call.flag("reverse")]


def _of_grid(call: Call, values: Values) -> list[int]:
    return [MODES[call.string("mode")], PADDINGS[call.string("padding")], call.flag("align_corners")]


def _of_reduction(how: int, call: Call, values: Values) -> list[int]:
    axes = reduced_axes(call)
    assert axes is not None
    return [how, sum(1 << axis for axis in axes)]


REDUCING = [schema.kind for schema in HOST_OPS if schema.kind in kinds.REDUCTIONS]  # in the order of C++
# By the kind of an op, the numbers that its kernel takes.
NUMBERS: dict[str, Callable[[Call, Values], Sequence[int]]] = {
    "Gather": _of_axis,
    "GatherElements": _of_axis,
    "GatherND": lambda call, values: [call.s64("batch_dims")],
    "ScatterElements": _of_scatter,
    "ScatterND": _of_scatter,
    "CumSum": _of_running,
    "CumProd": _of_running,
    "WeightedGather": lambda call, values: [_axis(call, values)],
    "TopK": lambda call, values: [_axis(call, values), call.flag("largest")],
    "ArgMax": lambda call, values: [_axis(call, values), call.flag("last")],
    "ArgMin": lambda call, values: [_axis(call, values), call.flag("last")],
    "GridSample": _of_grid,
    "CouplePairs": lambda call, values: [],
    "MaxUnpool": lambda call, values: [],
    "OneHot": lambda call, values: [call.s64("axis") % len(values[-1].shape)],
    "Triangle": lambda call, values: [call.flag("upper"), call.s64("offset")],
    "Concat": lambda call, values: [_axis(call, values), len(values) - 1],
    "MatMul": lambda call, values: product_numbers(call, has_bias=len(values) > 3),
    **{kind: partial(_of_reduction, how) for how, kind in enumerate(REDUCING)},
}
SCHEMAS = {kind: edition(HOST).schemas[kind] for kind in NUMBERS}
# Those whose second input holds indices.
INDEXED = frozenset(
    [kind for kind, schema in SCHEMAS.items() if "indices" in [port.name for port in schema.inputs][1:]]
)


MOVING = kinds.MOVES | {"OneHot"}


def _fits(call: Call, kind: str, values: Values) -> str:
    """Why the kernel does not compute an op; empty if it does."""
    src = values[0]
    if not src.shape:
        return "a tensor has no axis"
    if kind in ("GridSample", "WeightedGather"):
        return "" if src.dtype in (DataType.f32, DataType.float64) else "a tensor is neither f32 nor f64"
    if kind in INDEXED:
        return _fits_indices(call, kind, values)
    if kind == "MatMul":
        return _fits_product(values)
    if kind in REDUCING:
        if src.dtype.numpy.name not in REDUCED:
            return "a data type that C lacks"
        return "the axes are not known" if reduced_axes(call) is None else ""
    return "" if kind in MOVING or src.dtype.numpy in TYPES else "a data type that C lacks"


def _fits_indices(call: Call, kind: str, values: Values) -> str:
    src, indices, *rest = values
    if kind == "GatherND" and (batch := call.s64("batch_dims")) and src.shape[:batch] != indices.shape[:batch]:
        return "shapes do not fit"
    reads_few = present(prod(values[-1].shape)) * FEW < present(prod(src.shape))
    if not src.dense and reads_few:
        return "the source has strides, and few of its elements are read"
    reduces = kind.startswith("Scatter") and call.string("reduction") != "none"
    if reduces and src.dtype.numpy.name not in REDUCED:
        return "a data type that C lacks"
    if kind.endswith("Elements"):
        axis = _axis(call, values)
        pairs = [pair for at, pair in enumerate(zip(indices.shape, src.shape, strict=True)) if at != axis]
        if any(dim > most for dim, most in pairs):
            return "shapes do not fit"
    elif kind == "ScatterND":
        expected = *indices.shape[:-1], *src.shape[indices.shape[-1] :]
        if rest[0].shape != expected:
            return "shapes do not fit"
    return ""


def _fits_product(values: Values) -> str:
    src, weights, *bias, dst = values
    if src.dtype.numpy.name not in MULTIPLIED:
        return "a data type that C lacks"
    if any(one.shape != dst.shape[-1:] or len(weights.shape) < 2 for one in bias):
        return "shapes do not fit"
    return ""


def _letters(text: str) -> list[int]:
    code = text.encode()
    return [len(code), *[byte - 256 if byte > 127 else byte for byte in code]]


def _add(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    kind, call = step.op.kind, call_of(step)
    if kind != step.kind:
        return _add_part(adding, step, reasons)
    kernel = RECORDS[kind]
    values = adding.at((*step.inputs[: kernel.n_read], *step.outputs))
    if refused := refusal(kernel.takes, values) or _fits(call, kind, values):
        return refused
    adding.schedule.let_overwrite(step)
    says_more = step.note not in ("", HOST_OP)  # of a step that a pass made
    said = replace(kernel, reason=step.note) if says_more else kernel
    return adding.plainly(said, step, reasons)


def _add_part(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    """Add a part of another op, which has attributes of its own."""
    values = adding.at((*step.inputs, *step.outputs))
    if step.part is None or step.kind not in REDUCING or any(value.dtype is not DataType.f32 for value in values):
        return "a part of another op"
    return adding.plainly(replace(OPEN_REDUCTION, takes=(NOT_EMPTY,)), step, reasons)


def _numbers(step: Step) -> dict[str, object]:
    kind, call, op = step.op.kind, call_of(step), step.op
    ends = [tensor for tensor in (*op.inputs[: RECORDS[kind].n_read], *op.outputs) if tensor is not None]
    is_replaced = call.schema.has_attribute("reduction") and call.string("reduction") == "none"
    moves = kind in MOVING or is_replaced
    types = []
    for place, tensor in enumerate(ends):
        dtype = tensor.dtype.numpy
        is_indices = place == (1 if kind in INDEXED else 0 if kind == "OneHot" else None)
        types.append(TYPES[dtype] if is_indices or not moves else MOVED[dtype.itemsize])
    numbers = NUMBERS[kind](call, ends)  # type: ignore[arg-type]
    numbers = [number if is_whole(number) else int(number) for number in numbers]  # open sizes stay
    contents = [len(numbers), *numbers, *types, *_letters(kind), *_letters(f"{kind} {op.name!r}")]
    return {"indices": 1 if kind in INDEXED else -1, "contents": contents}


def _record(kind: str) -> Kernel:
    """The record of an op, which reads no input that only decides the shape of its result."""
    decides = [port.decides for port in SCHEMAS[kind].inputs]
    n_read = decides.index(True) if any(decides) else None
    return Kernel(
        "arrays",
        REASON,
        kinds=(kind,),
        takes=(NOT_EMPTY,),
        n_read=n_read if all(decides[n_read:]) else None,
        rows=(0,) if kind == "Gather" else (),
        numbers=_numbers,
        changes=kind in CHANGES,
        fails=ArgumentError,  # or OutOfMemoryError
        varies=kind in INDEXED,
        add=_add,
    )


def _numbers_of_part(step: Step) -> dict[str, object]:
    assert step.part is not None
    numbers = _of_reduction(REDUCING.index(step.kind), step.part.call, ())
    contents = [len(numbers), *numbers, *[TYPES[DataType.f32.numpy]] * 2, *_letters(step.kind)]
    return {"indices": -1, "contents": [*contents, *_letters(f"{step.kind} {step.op.name!r}")]}


RECORDS = {kind: _record(kind) for kind in NUMBERS}
# Reductions of f32 in the place of the library, where sizes are open.
OPEN_REDUCTION = Kernel("arrays", COMPILED_ANEW, "open reduction", numbers=_numbers_of_part, fails=ArgumentError)
KERNELS = (*RECORDS.values(), OPEN_REDUCTION)
