"""Asks the bare library for the partitions of a chain of ops, and runs the one that holds all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....capi import Graph as LibraryGraph
from ....capi import LogicalTensor, Op
from ....errors import OneGraphError
from ....ir.op import Array
from ....reference.run import run as reference
from ..worker import _compile_and_execute, serve, tell
from .cases import PatternCase

# The largest error, of the largest number of the result: what rounding between the ops of a chain explains.
TOLERANCES = {"f32": 1e-4, "bf16": 0.06, "f16": 0.01, "u8": 1e-4, "s8": 1e-4}
UNCERTAIN = {"Round"}  # a difference in the last bit changes the result by 1


def answer(task: Mapping[str, Any]) -> dict[str, object]:
    """The outcome of a case: how many partitions there are, and whether one that holds all ops computes right."""
    case = PatternCase(task["pattern"], tuple(task["kinds"]), task["dtype"], task["promised"])
    tell(stage="partition")
    try:
        return _answer(case)
    except OneGraphError as error:
        return {"outcome": "refused", "detail": str(error).splitlines()[0]}


def _answer(case: PatternCase) -> dict[str, object]:
    graph, arrays = case.graph(), case.inputs()
    tensors = {
        tensor.id: LogicalTensor(tensor.id, tensor.dtype, tensor.shape)
        for op in graph.ops
        for tensor in (*op.inputs, *op.outputs)
        if tensor is not None
    }
    library = LibraryGraph()
    for op in graph.ops:
        ins = [tensors[tensor.id] for tensor in op.inputs if tensor is not None]
        outs = [tensors[tensor.id] for tensor in op.outputs]
        library.add_op(Op(op.id, op.kind, inputs=ins, outputs=outs, attrs=dict(op.attrs)))
    library.finalize()
    partitions = library.partitions("fusion")
    if len(partitions) > 1:
        return {"outcome": "split", "detail": " | ".join(" + ".join(_kinds(graph.ops, p.ops)) for p in partitions)}
    (partition,) = partitions
    if not partition.supported:
        return {"outcome": "unsupported", "detail": "is_supported is 0"}
    by_id = {tensor.id: arrays[name] for name, tensor in graph.inputs.items()}
    ins, outs = [tensors[number] for number in partition.input_ids], [tensors[i] for i in partition.output_ids]
    got = _compile_and_execute(partition._ptr, ins, outs, [by_id[tensor.id] for tensor in ins], False)
    place = partition.output_ids.index(graph.outputs["dst"].id)
    detail = _difference(got[place], reference(graph, arrays)["dst"], case)
    return {"outcome": "wrong" if detail else "fused", "detail": detail}


def _kinds(ops: Sequence[Any], numbers: Sequence[int]) -> list[str]:
    return [op.kind for op in ops if op.id in numbers]


def _difference(got: Array, expected: Array, case: PatternCase) -> str:
    """How a result differs from the reference beyond what rounding explains; empty if it does not."""
    if UNCERTAIN.intersection(case.kinds):
        return ""
    ours, theirs = (array.astype(np.float64).ravel() for array in (got, expected))
    known = np.isfinite(theirs)
    if not known.all() and {"Log", "Sqrt"}.intersection(case.kinds):
        ours, theirs = ours[known], theirs[known]  # near zero, rounding decides whether there is a root
    scale = float(np.abs(theirs).max(initial=1.0))
    error = float(np.abs(ours - theirs).max(initial=0.0))
    allowed = max(TOLERANCES[name] for name in {case.dtype, *_between(case)}) * scale
    if "Quantize" in case.kinds:
        allowed = max(allowed, 1.0)  # a tie may round to the other side
    return "" if error <= allowed else f"off by {error:.3g}, of {scale:.3g}"


def _between(case: PatternCase) -> set[str]:
    """Data types that the chain has behind its first op."""
    return {"bf16"} if "TypeCast" in case.kinds and case.dtype != "f16" else set()


def main() -> None:
    """Run chains."""
    serve(answer)
