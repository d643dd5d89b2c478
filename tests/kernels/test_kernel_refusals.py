"""Which tensors and numbers kernels refuse: the record kernel_calls.jsonl, which a change of a check must change too.

Each line has a call that a kernel takes, and the verdicts on the calls that differ from it in one place. They are
asked of the constructors in C++; nothing runs. Run as a script, this file writes the verdicts anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from helpers.grouped import grouped
from helpers.kernels import plan_of

import onegraph as og
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.native import CompiledKernel, fields_of, packed, tensor_of
from onegraph.errors import OneGraphError

KEPT = Path(__file__).parents[1] / "recorded" / "kernel_calls.jsonl"
TYPES = ("f32", "bf16", "s8", "s32", "s64")
MOST = 12  # numbers of a list that are changed


def calls():
    return [json.loads(line) for line in KEPT.read_text().splitlines()]


def tensors_of(call):
    return [(dtype, tuple(shape)) for dtype, shape in (*call["inputs"], *call["outputs"])]


def changes(call):
    """Calls that differ in a dim, an axis, a type, a tensor or a number: tensors, the number of inputs, numbers."""
    tensors, count, code = tensors_of(call), len(call["inputs"]), packed(call["kernel"], call["numbers"])
    for place, (dtype, shape) in enumerate(tensors):
        before, behind = tensors[:place], tensors[place + 1 :]
        for axis, dim in enumerate(shape):
            for other in (dim + 1, 2 * dim, 0):
                yield [*before, (dtype, (*shape[:axis], other, *shape[axis + 1 :])), *behind], count, code
        yield from (
            ([*before, (dtype, other), *behind], count, code) for other in (shape[1:], (1, *shape), (*shape, 2))
        )
        yield from (([*before, (other, shape), *behind], count, code) for other in TYPES if other != dtype)
        yield [*before, *behind], count - (place < count), code
    for size in sorted({dim for _, shape in tensors for dim in shape}):  # of all tensors at once
        for other in (size + 1, 0):
            yield (
                [(dtype, tuple([other if dim == size else dim for dim in shape])) for dtype, shape in tensors],
                count,
                code,
            )
    yield [*tensors, tensors[-1]], count, code
    yield [tensors[0], *tensors], count + 1, code
    for place in range(min(len(code), len(fields_of(call["kernel"])) + MOST)):
        for other in (code[place] + 1, code[place] - 1):
            yield tensors, count, (*code[:place], max(other, 0), *code[place + 1 :])
    yield tensors, count, code[:-1]
    yield tensors, count, (*code, 1)


def is_refused(kernel, tensors, count, code):
    values = [Value(0, og.DataType(dtype), shape, dense_of(shape), 0, "") for dtype, shape in tensors]
    try:
        plan_of(
            CompiledKernel(kernel, [*map(tensor_of, values)], count, code), len(values), results=len(values) - count
        )
    except OneGraphError:
        return True
    return False


def verdicts(call):
    """One character for each four changes."""
    found = "".join(str(int(is_refused(call["kernel"], *change))) for change in changes(call))
    return "".join(f"{int(found[place : place + 4], 2):x}" for place in range(0, len(found), 4))


@grouped("call", calls(), key=lambda call: call["kernel"], label=lambda call: str(call["inputs"]))
def test_kernels_refuse_what_is_recorded(call):
    assert not is_refused(
        call["kernel"], tensors_of(call), len(call["inputs"]), packed(call["kernel"], call["numbers"])
    )
    assert verdicts(call) == call["refused"]


if __name__ == "__main__":
    lines = [json.dumps({**call, "refused": verdicts(call)}, separators=(",", ":")) for call in calls()]
    KEPT.write_text("\n".join(lines) + "\n")
