"""Computes the products of a few rows and a large matrix by a kernel that reads the matrix as it lies in memory."""

from __future__ import annotations

from math import prod

from ...capi.settings import core_cache
from ...faults.use import DEQUANTIZATIONS
from ...faults.vectors import MOST_ROWS, SLOW_VECTORS, VectorMatMul
from ...native.library import VERSION
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..kernels.vector_product import VECTOR_PRODUCT
from ..options import Options
from ..report import nbytes

SMALL = 1 << 17  # bytes of a matrix


def multiply_vectors(edit: Edit, options: Options) -> None:
    """Put steps of executor ``vectors`` in the place of such products, and of the sum behind each.

    In the body of a loop small products take them too: the library takes longer to begin one.
    """
    if not SLOW_VECTORS.affects(VERSION) and not options.repeats:
        return
    graph, values = edit.graph, edit.values
    products = [step for step in graph.steps if _is_suited(graph, step, options.repeats)]
    # What stays in the last cache is read fast in the library's layout too, if it is laid out once.
    matrices = [values[number] for number in {step.inputs[1] for step in products}]
    if sum(map(nbytes, matrices)) < 2 * core_cache() and not options.repeats:
        constant = {value.id for value in matrices if values[value.storage].constant is not None}
        for step in products:
            if step.inputs[1] in constant:
                edit.refuse(step, VECTOR_PRODUCT.name, "all matrices stay in the last cache, in the library's layout")
        products = [step for step in products if step.inputs[1] not in constant]
    fused_sums: set[int] = set()  # ids of the sums that take in a product
    for step in products:
        (result,) = step.outputs
        consumer = graph.only_consumer(result) if len(step.inputs) == 2 else None
        # Of a sum of two products, the first one is taken in.
        if consumer is not None and consumer.id not in fused_sums and _adds(graph, consumer, result):
            fused_sums.add(consumer.id)
            (addend,) = {*consumer.inputs}.difference(step.outputs)
            joined = _product(step, (*step.inputs, addend), consumer.outputs)
            edit.replace(step)
            edit.replace(consumer, joined._replace(members=(step, consumer)))
        else:
            edit.replace(step, _product(step, step.inputs, step.outputs))


def _is_suited(graph: Lowered, step: Step, repeats: bool) -> bool:
    part = step.library_part
    if step.kind != "MatMul" or part is None:
        return False
    src, weights, *bias = (graph.values[number] for number in step.inputs)
    (result,) = (graph.values[number] for number in step.outputs)
    if any(value.dtype is not DataType.f32 for value in (src, weights, *bias, result)):
        return False
    if len(weights.shape) != 2 or not weights.dense or len(result.shape) != len(src.shape):
        return False
    maker = graph.maker(weights.id)
    if part.call.flag("transpose_a") or (maker is not None and maker.kind in DEQUANTIZATIONS):
        return False
    if bias and prod(bias[0].shape) != result.shape[-1]:
        return False
    product = VectorMatMul(prod(src.shape[:-1]), nbytes(weights))
    return SLOW_VECTORS.when(product) is True or (repeats and product.rows <= MOST_ROWS and product.nbytes <= SMALL)


def _adds(graph: Lowered, step: Step, product: int) -> bool:
    """Whether a step adds one row, or a row for each, to a product."""
    if step.kind != "Add" or step.executor != "library":
        return False
    shape = graph.values[product].shape
    (addend,) = (graph.values[number] for number in step.inputs if number != product)
    (result,) = (graph.values[number] for number in step.outputs)
    is_alike = addend.dtype is result.dtype is DataType.f32 and result.shape == shape
    is_row = bool(addend.shape) and prod(addend.shape) == addend.shape[-1] == shape[-1]
    return is_alike and (is_row or addend.shape == shape)


def _product(step: Step, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Step:
    assert step.part is not None
    attrs = {"transpose_b": step.part.call.flag("transpose_b")}
    return step._replace(
        executor=VECTOR_PRODUCT.executor, inputs=inputs, outputs=outputs, attrs=attrs, part=None, whole=False
    )
