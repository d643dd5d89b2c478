"""Which tensors and numbers kernels refuse: the record kernel_calls.jsonl, which a change of a check must change too.

Each line has a call that a kernel takes, and the verdicts on the calls that differ from it in one place. They are
asked of the constructors in C++. What kernels take must read and write no other memory than that of the tensors. Run as
a script, this file writes the verdicts anew.
"""

from __future__ import annotations

import faulthandler
import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.kernels import plan_of

import onegraph as og
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.codes import KERNELS as ON_CODES
from onegraph.compiler.kernels.native import CompiledKernel, fields_of, packed, tensor_of
from onegraph.errors import OneGraphError
from tests.guard.memory import Guarded

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


@cache
def tensor(dtype, shape):
    return tensor_of(Value(0, og.DataType(dtype), shape, dense_of(shape), 0, ""))


def is_refused(kernel, tensors, count, code):
    made = CompiledKernel(kernel, [tensor(*one) for one in tensors], count, code)
    try:
        plan_of(made, len(tensors), results=len(tensors) - count)
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


# Kernels whose numbers or contents say where in memory something lies, which their callers have checked.
TOLD = {"elements", "trees", *(kernel.name for kernel in ON_CODES)}


def taken(call):
    """The call, and those like it that are not refused, as the record says."""
    yield tensors_of(call), len(call["inputs"]), packed(call["kernel"], call["numbers"])
    others, whole = [*changes(call)], call["refused"][:-1]
    rest = len(others) - 4 * len(whole)
    bits = "".join(f"{int(digit, 16):04b}" for digit in whole) + f"{int(call['refused'][-1], 16):0{rest}b}"
    yield from (change for change, bit in zip(others, bits, strict=True) if bit == "0")


def run_taken(tell):
    """Run all calls that are taken, on memory that ends at pages which nobody may touch; names each before it runs."""
    for call in calls():
        known = {}
        for tensors, count, code in () if call["kernel"] in TOLD else taken(call):
            for one in enumerate(tensors):
                if one not in known:
                    known[one] = Guarded(np.zeros(one[1][1], og.DataType(one[1][0]).numpy))
            tell(f"{call['kernel']}: {tensors}, {count} inputs, {code}")
            arrays = [known[one] for one in enumerate(tensors)]
            with suppress(OneGraphError):
                kernel = CompiledKernel(call["kernel"], [tensor(*one) for one in tensors], count, code)
                kernel.run_once(*[each.array for each in arrays])
            assert all(each.is_clean() for each in arrays)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a crash must not end the tests")
def test_kernels_touch_only_the_tensors_of_calls_that_they_take(tmp_path):
    said = tmp_path / "said"
    if not (child := os.fork()):
        faulthandler.disable()
        with said.open("w") as file:
            try:
                run_taken(lambda text: print(text, file=file, flush=True))
            except BaseException as error:
                print(repr(error), file=file, flush=True)
                os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, said.read_text().splitlines()[-2:]


if __name__ == "__main__":
    lines = [json.dumps({**call, "refused": verdicts(call)}, separators=(",", ":")) for call in calls()]
    KEPT.write_text("\n".join(lines) + "\n")
