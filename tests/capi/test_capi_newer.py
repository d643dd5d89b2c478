"""Functions of the graph C API that are newer than 3.2: each works where the library has it, or names the version."""

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import onegraph as og
from onegraph import capi
from onegraph.native import library
from onegraph.native.library import lib

pytestmark = pytest.mark.library
ROOT = Path(__file__).parents[2]
# The functions that dnnl_graph.h declares in 3.13 and not in 3.2, with the first version that has each.
NEWER = {
    "dnnl_graph_compiled_partition_execute_v2": (3, 13),
    "dnnl_graph_compiled_partition_get_scratchpad_logical_tensor": (3, 13),
    "dnnl_graph_get_constant_tensor_cache_capacity": (3, 4),
    "dnnl_graph_graph_get_fpmath_mode": (3, 7),
    "dnnl_graph_graph_set_fpmath_mode": (3, 7),
    "dnnl_graph_set_constant_tensor_cache_capacity": (3, 4),
    "dnnl_graph_set_dump_mode": (3, 11),
    "dnnl_graph_tensor_create_scalar": (3, 9),
    "dnnl_graph_tensor_get_logical_tensor": (3, 6),
}
N_OF_3_2, N_OF_3_13 = 53, 62


def test_every_function_of_the_graph_api_is_called():
    header = (ROOT / "include" / "dnnl_graph.h").read_text()
    declared = {*re.findall(r"\b(dnnl_graph_\w+)\(", header)}
    assert len(declared) == N_OF_3_2
    assert len(declared) + len(NEWER) == N_OF_3_13
    assert declared <= {*dir(lib)}
    sources = "".join(path.read_text() for path in (ROOT / "onegraph").rglob("*.py"))
    named = {*re.findall(r"dnnl_graph_\w+", sources.replace("{verb}", "get"))}
    assert {name for name in NEWER if not name.startswith("dnnl_graph_set_constant")} <= named


def needs(name):
    """The error of a library without the function; None if the library has it."""
    since = NEWER[name]
    missing = since > library.VERSION
    return pytest.raises(og.UnsupportedError, match=rf"needs oneDNN {since[0]}\.{since[1]}") if missing else None


def relu(engine):
    graph = capi.Graph()
    op = capi.Op(0, "ReLU", "relu")
    x, y = (capi.LogicalTensor(number, "f32", (2, 3)) for number in range(2))
    op.add_input(x)
    op.add_output(y)
    graph.add_op(op)
    graph.finalize()
    (partition,) = graph.partitions("debug")
    return partition.compile([x], [y], engine), x, y


def test_scratchpad_of_the_user():
    engine = capi.default_engine()
    compiled, x, y = relu(engine)
    data, result = np.array([[-1, 2, -3], [4, -5, 6]], np.float32), np.zeros((2, 3), np.float32)
    tensors = [capi.Tensor(x, data, engine)], [capi.Tensor(y, result, engine)]
    error = needs("dnnl_graph_compiled_partition_get_scratchpad_logical_tensor")
    if error is not None:
        with error:
            _ = compiled.scratchpad
        memory = capi.Tensor(capi.LogicalTensor(9, "u8", (64,)), np.zeros(64, np.uint8), engine)
        with needs("dnnl_graph_compiled_partition_execute_v2"):
            compiled.execute(capi.Stream(engine), *tensors, memory)
        return
    wanted = compiled.scratchpad
    assert (wanted.dtype, wanted.layout) == (og.u8, "strided")
    size = max(64, wanted.mem_size or 0)
    memory = capi.Tensor(capi.LogicalTensor(9, "u8", (size,)), np.zeros(size, np.uint8), engine)
    compiled.execute(capi.Stream(engine), *tensors, memory)
    np.testing.assert_array_equal(result, np.maximum(data, 0))
    frozen = np.zeros(size, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(og.ArgumentError, match="scratchpad"):
        compiled.execute(
            capi.Stream(engine), *tensors, capi.Tensor(capi.LogicalTensor(9, "u8", (size,)), frozen, engine)
        )


def test_mode_of_arithmetic_of_a_graph():
    graph = capi.Graph(fpmath_mode="bf16")
    error = needs("dnnl_graph_graph_set_fpmath_mode")
    if error is not None:
        with error:
            graph.set_fpmath_mode("f16", True)
        with needs("dnnl_graph_graph_get_fpmath_mode"):
            graph.get_fpmath_mode()
        assert graph.fpmath_mode == "bf16"
        return
    assert graph.get_fpmath_mode() == ("bf16", False)
    graph.set_fpmath_mode("f16", True)
    assert graph.get_fpmath_mode() == ("f16", True)
    assert graph.fpmath_mode == "f16"
    graph.finalize()
    for change in (graph.get_fpmath_mode, lambda: graph.set_fpmath_mode("strict")):
        with pytest.raises(og.StateError, match="finalized"):
            change()


def test_wrong_mode_of_arithmetic_is_refused():
    with pytest.raises(og.ArgumentError, match="mode"):
        capi.Graph().set_fpmath_mode("f64")


def test_dump_mode():
    error = needs("dnnl_graph_set_dump_mode")
    if error is not None:
        with error:
            capi.set_dump_mode("graph")
        return
    with suppress(og.InvalidArgumentsError):  # of a build without graph dumps
        capi.set_dump_mode("graph", "subgraph")
        capi.set_dump_mode("none")
    with pytest.raises(og.ArgumentError, match="modes"):
        capi.set_dump_mode("all")


def test_scalar_in_the_memory_of_the_host():
    if library.VERSION < (3, 9):
        with pytest.raises(og.UnsupportedError, match=r"needs oneDNN 3\.9"):
            capi.LogicalTensor(0, "f32", (), property="host_scalar")
        return
    wanted = capi.LogicalTensor(0, "f32", (), property="host_scalar")
    engine = capi.default_engine()
    scalar = capi.Tensor(wanted, np.array(3.5, np.float32), engine)
    assert scalar.engine is engine
    assert scalar.query_logical_tensor().property == "host_scalar"
    with pytest.raises(og.ArgumentError, match="host scalar"):
        capi.LogicalTensor(0, "f32", (1,), property="host_scalar")


def test_metadata_of_a_tensor_from_the_library():
    wanted = capi.LogicalTensor(3, "f32", (2, 3))
    tensor = capi.Tensor(wanted, np.zeros((2, 3), np.float32))
    error = needs("dnnl_graph_tensor_get_logical_tensor")
    if error is not None:
        with error:
            tensor.query_logical_tensor()
        return
    found = tensor.query_logical_tensor()
    assert (found.id, found.dtype, found.shape, found.strides) == (3, og.f32, (2, 3), (3, 1))
