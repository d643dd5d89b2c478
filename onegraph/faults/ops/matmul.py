"""What oneDNN gets wrong of MatMul."""

from __future__ import annotations

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ..fault import LIBRARY, UNSAFE, Faults, never

FAULTS = Faults[Call](severity=UNSAFE)


def _product(g: DataGraph, *shapes: tuple[int, ...]) -> LogicalTensor:
    """Of a source, weights and perhaps a bias."""
    return g.op("MatMul", [g.input(name, "f32", shape) for name, shape in zip("xwb", shapes, strict=False)])


def over_one(call: Call) -> bool:
    """Whether a MatMul of rank 4 or more sums over an axis of size 1."""
    src, weights = call.shape("src"), call.shape("weights")
    if src is None or weights is None or max(len(src), len(weights)) < 4 or len(src) < 2:
        return False
    return src[-2 if call.flag("transpose_a") else -1] == 1


MATMUL_OVER_ONE = FAULTS.add(
    "matmul_over_one",
    ops="MatMul",
    where="src",
    when=over_one,
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "right"},
    reason="a sum over one element leaves the result unwritten where the rank is 4 or more",
    instead="a Multiply",
    certain=never,  # by what lies in memory
)


@MATMUL_OVER_ONE.example({(3, 2): "right", (3, 6): "right", (3, 13): "right"})
def product_over_one_element(g: DataGraph) -> LogicalTensor:
    return _product(g, (2, 2, 5, 1), (2, 2, 1, 3))


def batches_of_one_matrix(call: Call) -> bool:
    """Whether a MatMul of rank 4 is of batches along the first axis alone, with one matrix for all of them."""
    src, weights = call.shape("src"), call.shape("weights")
    if src is None or weights is None or len(src) != 4 or len(weights) > 4 or src[0] == 1 or src[1] != 1:
        return False
    turned = call.flag("transpose_a")
    if len(weights) == 2 and not turned:  # seen as one matrix by another
        return False
    return set(weights[:-2]) <= {1} and src[-1 if turned else -2] != 1


MATMUL_BATCHES = FAULTS.add(
    "matmul_batches",
    ops="MatMul",
    where="src",
    when=batches_of_one_matrix,
    seen={(3, 2): "right", (3, 6): "SIGSEGV | overrun | wrong", (3, 13): "right"},
    reason="the rows of batches along the first axis of four, where the second has size 1 and all meet one matrix, are "
    "looked "
    "for a whole matrix apart: wrong values, or a crash",
    instead="a MatMul whose batches lie along the second axis",
    certain=never,  # by what lies in memory
)


@MATMUL_BATCHES.example(on={"no AVX-512": "SIGSEGV | overrun | wrong | right"})
def batches_that_meet_one_matrix(g: DataGraph) -> LogicalTensor:
    return _product(g, (4, 1, 128, 16), (1, 1, 16, 16))


def single_rows(call: Call) -> bool:
    """Whether batches of one row, given as a column, meet one matrix in bf16 or f16."""
    src, weights, first = call.shape("src"), call.shape("weights"), call.inputs[0]
    if src is None or weights is None or first is None or first.dtype is DataType.f32:
        return False
    if len(src) != 4 or not call.flag("transpose_a") or src[-1] != 1 or src[-2] == 1:
        return False
    return set(src[:-2]) != {1} and set(weights[:-2]) <= {1}


SINGLE_ROWS = FAULTS.add(
    "matmul_single_rows",
    ops="MatMul",
    where="transpose_a",
    when=single_rows,
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "right"},
    reason="in bf16 and f16, one row for each batch of four axes, given as a column with transpose_a, is read wrong "
    "where all "
    "batches meet one matrix",
    instead="the same op in f32",
    certain=never,  # of most sizes
)


@SINGLE_ROWS.example(on={"no FP16": "right", "no AVX-512": "throws could not create a primitive"})
def rows_that_are_given_as_columns(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (8, 7, 33, 1)), g.input("w", "bf16", (33, 2))
    return g.op("MatMul", ends, {"transpose_a": True})


ACCUMULATION = FAULTS.add(
    "accumulation_type",
    ops="MatMul",
    where="accumulation_mode",
    severity=LIBRARY,
    when=lambda call: call.string("accumulation_mode") in ("f32", "s32", "f16"),
    seen={(3, 2): "absent", (3, 13): "throws could not create a primitive"},
    reason="an accumulation_mode that names a data type never compiles on a CPU",
    instead="the same op without it, as f32 is what every mode allows",
    since=(3, 3),
)


@ACCUMULATION.example()
def product_summed_in_f32(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6))
    return g.op("MatMul", ends, {"accumulation_mode": "f32"})


def bias_of_many_axes(call: Call) -> bool:
    """Whether the bias of a MatMul has more axes than the matrix that the library makes of its operands."""
    src, weights, bias = call.rank("src"), call.rank("weights"), call.rank("bias")
    if src is None or weights is None or bias is None:
        return False
    return (src > 2 and weights == 2 and bias > 2) or (1 in (src, weights) and bias > 1)


MATMUL_BIAS = FAULTS.add(
    "matmul_bias",
    ops="MatMul",
    where="bias",
    when=bias_of_many_axes,
    seen={(3, 2): "hang | throws std::bad_alloc"},
    reason="compile never ends for a bias of more than two axes where a batch of matrices meets one matrix; beside a "
    "vector, a bias of more than one axis is added along other axes",
    instead="a MatMul and an Add",
)


@MATMUL_BIAS.example()
def bias_of_a_batch_of_matrices(g: DataGraph) -> LogicalTensor:
    return _product(g, (2, 5, 3), (3, 4), (2, 1, 4))


@MATMUL_BIAS.example({(3, 2): "wrong", (3, 13): "right"})
def bias_of_a_product_with_a_vector(g: DataGraph) -> LogicalTensor:
    return _product(g, (2, 2, 5, 4), (4,), (2, 1, 1))
