"""Computes the products of a few rows and a large matrix by a kernel that reads the matrix as it lies in memory.

Such a product takes as long as reading the matrix. The library reads memory at two thirds of the speed that two loops
reach, and copies a matrix that is no constant in every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from ..capi.settings import core_cache
from ..faults.use import DEQUANTIZATIONS
from ..faults.vectors import SLOW_VECTORS, Product
from ..native.library import VERSION
from ..opset.dtypes import DataType
from .lowered import Lowered, Step, Value
from .report import nbytes


def multiply_vectors(lowered: Lowered) -> Lowered:
    """The graph with steps of executor ``vectors`` in place of such products, and of the sum behind each."""
    if not SLOW_VECTORS.affects(VERSION):
        return lowered
    makers = {number: step for step in lowered.steps for number in step.outputs}
    found = [step for step in lowered.steps if _is_suited(step, lowered.values, makers)]
    # What stays in the last cache is read fast in the library's layout too, if it is laid out once.
    matrices = [lowered.values[number] for number in {step.inputs[1] for step in found}]
    if sum(map(nbytes, matrices)) < 2 * core_cache():
        constant = {value.id for value in matrices if lowered.values[value.storage].constant is not None}
        found = [step for step in found if step.inputs[1] not in constant]
    steps = _steps(lowered, frozenset(step.id for step in found))
    return replace(lowered, steps=tuple([step._replace(id=number) for number, step in enumerate(steps)]))


def _is_suited(step: Step, known: Mapping[int, Value], makers: Mapping[int, Step]) -> bool:
    if step.kind != "MatMul" or step.executor != "library" or step.part is None:
        return False
    src, weights, *bias = (known[number] for number in step.inputs)
    (result,) = (known[number] for number in step.outputs)
    if any(value.dtype is not DataType.f32 for value in (src, weights, *bias, result)):
        return False
    if len(weights.shape) != 2 or not weights.dense or len(result.shape) != len(src.shape):
        return False
    maker = makers.get(weights.id)
    if step.part.call.flag("transpose_a") or (maker is not None and maker.kind in DEQUANTIZATIONS):
        return False
    if bias and prod(bias[0].shape) != result.shape[-1]:
        return False
    return SLOW_VECTORS.when(Product(prod(src.shape[:-1]), nbytes(weights))) is True


def _steps(lowered: Lowered, found: frozenset[int]) -> Iterator[Step]:
    """The steps, with those of ``found`` changed; a sum behind one is computed with it."""
    readers: dict[int, list[Step]] = {}
    for step in lowered.steps:
        for number in step.reads | {*step.inputs}:
            readers.setdefault(number, []).append(step)
    returned = {tensor.id for tensor in lowered.graph.outputs.values()}
    taken: dict[int, Step] = {}  # products, by the sum that takes them in
    for step in lowered.steps:
        if step.id in found:
            (result,) = step.outputs
            behind = readers.get(result, [])
            is_alone = len(behind) == 1 and result not in returned and len(step.inputs) == 2
            # Of a sum of two products, the first one is taken in.
            if is_alone and behind[0].id not in taken and _adds(behind[0], lowered.values[result], lowered.values):
                taken[behind[0].id] = step
            else:
                yield _product(step, step.inputs, step.outputs)
        elif step.id in taken:
            product = taken[step.id]
            (other,) = {*step.inputs}.difference(product.outputs)
            made = _product(product, (*product.inputs, other), step.outputs)
            yield made._replace(members=(product, step))
        else:
            yield step


def _adds(step: Step, product: Value, known: Mapping[int, Value]) -> bool:
    """Whether a step adds one row, or a row for each, to a product."""
    if step.kind != "Add" or step.executor != "library" or len({*step.inputs}) != 2:
        return False
    (other,) = (known[number] for number in step.inputs if number != product.id)
    (result,) = (known[number] for number in step.outputs)
    is_alike = other.dtype is result.dtype is DataType.f32 and result.shape == product.shape
    is_row = bool(other.shape) and prod(other.shape) == other.shape[-1] == product.shape[-1]
    return is_alike and (is_row or other.shape == product.shape)


def _product(step: Step, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Step:
    assert step.part is not None
    attrs = {"transpose_b": step.part.call.flag("transpose_b")}
    return step._replace(executor="vectors", inputs=inputs, outputs=outputs, attrs=attrs, part=None, whole=False)
