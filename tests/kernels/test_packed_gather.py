"""Rows of tables of packed codes, which a kernel of the package reads alone."""

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped
from onnx import TensorProto, helper, numpy_helper

import onegraph as og
import onegraph.onnx
from onegraph.arrays.packed_codes import packed
from onegraph.compiler.kernels import packed_gather
from tests.helpers.kernels import run

TESTED_KERNELS = ("packed_gather",)
RNG = np.random.default_rng(0)
LIMITS = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
ROWS = 50
PLACES = np.array([[3, -1, 0], [49, -50, 3]])
MANY = np.concatenate([PLACES, PLACES[::-1], PLACES])  # whose long rows threads share


class Table:
    """Random codes, their scales and zero points, and the numbers in float64."""

    def __init__(self, coding, depth, group=0, zeros=None, scales="f32"):
        size, low_high = group or depth, LIMITS[coding]
        self.codes = RNG.integers(*low_high, (ROWS, depth))
        self.scales = RNG.uniform(0.01, 0.02, (ROWS, -(-depth // size))).astype(DTYPES[scales])
        self.zeros = None if zeros is None else RNG.integers(max(low_high[0], -9), 9, self.scales.shape).astype(zeros)
        points = 0 if zeros is None else self.spread(self.zeros, size)
        self.numbers = (self.codes - points) * self.spread(self.scales, size)

    def spread(self, values, size):
        return np.repeat(values.astype(np.float64), size, 1)[:, : self.codes.shape[1]]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("coding", LIMITS)
@grouped("depth, group", [(1, 0), (67, 0), (67, 3), (1300, 32), (1025, 1000)], key=lambda _: "sizes")
def test_rows_are_those_of_numpy(coding, depth, group, level):
    signed = np.int8 if coding[0] == "s" else np.uint8
    for zeros, dtype in ((None, "f32"), (signed, "f32"), (np.float32, "f16"), (ml_dtypes.bfloat16, "bf16")):
        table = Table(coding, depth, group, zeros, dtype)
        for index in (np.int32, np.int64):
            out = np.empty((*MANY.shape, depth), DTYPES[dtype])
            ends = [packed(table.codes, int(coding[1])), MANY.astype(index), table.scales]
            numbers = {"coding": coding, "group": group, "zero": 0, "zeros": zeros is not None, "level": level}
            run("packed_gather", *ends, *([] if zeros is None else [table.zeros]), out, threads=2, **numbers)
            exact, error = table.numbers[MANY], {"f32": 1e-7, "f16": 1e-3, "bf16": 8e-3}[dtype]
            np.testing.assert_allclose(out.astype(np.float64), exact, rtol=error, atol=0)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_become_f32(dtype):
    table, out = RNG.standard_normal((ROWS, 70)).astype(DTYPES[dtype]), np.empty((*PLACES.shape, 70), np.float32)
    run("packed_gather", table, PLACES, out, coding=dtype, group=0, zero=0, zeros=False)
    np.testing.assert_array_equal(out, table[PLACES].astype(np.float32))


# The pass -------------------------------------------------------------------------------------------------------------


def reasons(model):
    return [part.reason for part in model.report().partitions]


def gathered(graph, table, shape=PLACES.shape, dtype="s64"):
    return graph.op("Gather", [table, graph.input("places", dtype, shape)], {"axis": 0}, edition="host")


def dequantized(way, coding, depth=96):
    """A graph of the rows of dequantized codes, and the numbers of the table."""
    table, g = Table(coding, depth, 32 if way == "per_group" else 0, np.int32), og.Graph()
    codes = g.constant(table.codes.astype(og.DataType[coding].numpy))
    if way == "per_group":
        ends = g.constant(table.scales), g.constant(table.zeros)
        d = g.dynamic_dequantize(codes, *ends, qtype="per_group", axis=1, group_shape=[1, 32])
    elif way == "dynamic":
        ends = g.constant(table.scales[:, 0]), g.constant(table.zeros[:, 0])
        d = g.dynamic_dequantize(codes, *ends, qtype="per_channel", axis=0)
    else:
        attrs = {"scales": table.scales[:, 0].tolist(), "zps": table.zeros[:, 0].tolist()}
        d = g.dequantize(codes, **attrs, qtype="per_channel", axis=0)
    return g, d, table


WAYS = [("per_channel", "s8"), ("per_channel", "u8"), *((way, c) for way in ("dynamic", "per_group") for c in LIMITS)]


@pytest.mark.library
@pytest.mark.parametrize(("way", "coding"), WAYS, ids=str)
def test_only_gathered_rows_are_unpacked(way, coding):
    g, d, table = dequantized(way, coding)
    g.output("y", gathered(g, d))
    model = g.compile()
    np.testing.assert_allclose(model(PLACES), table.numbers[PLACES], rtol=1e-6, atol=0)
    assert reasons(model) == [packed_gather.NOTE]


@pytest.mark.library
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_tables_of_halves_stay_halves(dtype):
    table, g = RNG.standard_normal((ROWS, 64)).astype(DTYPES[dtype]), og.Graph()
    g.output("y", gathered(g, g.type_cast(g.constant(table), dtype="f32"), dtype="s32"))
    model = g.compile()
    np.testing.assert_array_equal(model(PLACES.astype(np.int32)), table[PLACES].astype(np.float32))
    assert reasons(model) == [packed_gather.NOTE]


@pytest.mark.library
def test_a_tied_product_shares_the_codes():
    """The rows of 4-bit codes are filled up once."""
    g, d, table = dequantized("per_group", "s4")
    x = gathered(g, d)
    g.output("y", g.matmul(x, d, transpose_b=True))
    model = g.compile()
    exact = table.numbers[PLACES] @ table.numbers.T
    np.testing.assert_allclose(model(PLACES), exact, rtol=0, atol=2e-6 * np.abs(exact).max())
    (program,) = [entry.program for entry in model._programs.cache.entries.values()]
    sizes = {id(array): array.nbytes for array in program.placement.constants.values()}
    scales_and_zeros = table.scales.nbytes * 2
    assert sum(sizes.values()) <= ROWS * 64 + scales_and_zeros


@pytest.mark.library
@pytest.mark.parametrize("axis", [1, -1])
def test_columns_of_a_table_are_right(axis):
    g, d, table = dequantized("per_group", "s8")
    g.output("y", g.op("Gather", [d, g.input("places", "s64", (3,))], {"axis": axis}, edition="host"))
    places = np.array([5, 0, -1])
    np.testing.assert_allclose(g.compile()(places), table.numbers[:, places], rtol=1e-6, atol=0)


@pytest.mark.library
@pytest.mark.parametrize("place", [ROWS, -ROWS - 1, 1 << 40])
def test_a_place_outside_the_table_is_refused(place):
    g, d, table = dequantized("per_group", "u4")
    g.output("y", gathered(g, d, (None,)))
    model = g.compile()
    with pytest.raises(og.ArgumentError, match=f"indices: {place} at place 1; expected numbers from -50 to 49"):
        model(np.array([0, place]))
    np.testing.assert_allclose(model(np.arange(5)), table.numbers[:5], rtol=1e-6, atol=0)
    assert model(np.arange(0)).shape == (0, 96)


@pytest.mark.library
@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize(("group", "zero"), [(0, 3), (7, 1 << 40), (1 << 40, 0), (20, -5)])
def test_the_host_op_takes_any_group(group, zero, policy):
    table, g = Table("u4", 45, group if group < 45 else 0), og.Graph()
    ends = g.constant(packed(table.codes, 4)[:, :23]), g.input("places", "s64", PLACES.shape), g.constant(table.scales)
    attrs = {"coding": "u4", "group": group, "zero": zero, "depth": 45}
    g.output("y", g.op("PackedGather", [*ends], attrs, edition="host"))
    numbers = (table.codes - float(zero)) * table.spread(table.scales, group if 0 < group < 45 else 45)
    np.testing.assert_allclose(g.compile(policy=policy)(PLACES), numbers[PLACES], rtol=1e-6, atol=0)


# ONNX -----------------------------------------------------------------------------------------------------------------


@pytest.mark.library
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("coding", LIMITS)
def test_a_tied_table_of_onnx_is_read_packed(coding, block):
    table = Table(coding, 64, block)
    codes = table.codes.astype(og.DataType[coding].numpy)
    given = {"codes": codes, "scales": table.scales if block else table.scales[:, 0]}
    attrs = {"axis": 1, "block_size": block} if block else {"axis": 0}
    nodes = [
        helper.make_node("DequantizeLinear", [*given], ["table"], **attrs),
        helper.make_node("Gather", ["table", "places"], ["rows"]),
        helper.make_node("Transpose", ["table"], ["columns"], perm=[1, 0]),
        helper.make_node("MatMul", ["rows", "columns"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("places", TensorProto.INT64, PLACES.shape)]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(array, name) for name, array in given.items()]
    graph = helper.make_graph(nodes, "tied", ends, results, held)
    opsets = [helper.make_opsetid("", 21)]
    model = onegraph.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    shape = (ROWS, 64 * int(coding[1]) // 8)  # two codes of 4 bits in a byte
    assert sum(tensor.constant and tensor.shape == shape for tensor in model._tensors) == 1
    compiled = model.compile()
    exact = table.numbers[PLACES] @ table.numbers.T
    np.testing.assert_allclose(compiled(PLACES), exact, rtol=0, atol=2e-6 * np.abs(exact).max())
    assert len(reasons(compiled)) == 2
    assert reasons(compiled)[0] == packed_gather.NOTE
