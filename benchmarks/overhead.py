"""The overhead of a run: bound runs and calls against a C loop over the same compiled partitions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import onegraph as og
from onegraph import capi
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.native import library

from .compiled import compiled
from .models.network import sizes
from .timing import QUICK, Contender, Effort, Row, alternate, calls

DECLARATIONS = """
struct step {
    const void *compiled;
    size_t n_inputs, n_outputs;
    const void **inputs, **outputs;
};
int execute(void *function, void *stream, size_t n_steps, const struct step *steps, long count);
"""
SOURCE = (
    "#include <stddef.h>\n"
    + DECLARATIONS
    + """
typedef int (*execute_f)(const void *, void *, size_t, const void *const *, size_t, const void *const *);

int execute(void *function, void *stream, size_t n_steps, const struct step *steps, long count) {
    execute_f run = (execute_f)function;
    int status = 0;
    for (long i = 0; i < count; i++)
        for (size_t k = 0; k < n_steps; k++)
            status |= run(steps[k].compiled, stream, steps[k].n_inputs, steps[k].inputs, steps[k].n_outputs,
                    steps[k].outputs);
    return status;
}
"""
)
peer = cache(lambda: compiled("_benchmark_execute", DECLARATIONS, SOURCE))


def relu() -> og.Graph:
    g = og.Graph()
    g.output("dst", g.relu(g.input("src", og.f32, (16, 16))))
    return g


def matmul() -> og.Graph:
    g = og.Graph()
    a, b = (g.input(name, og.f32, (32, 32)) for name in "ab")
    g.output("dst", g.matmul(a, b))
    return g


def chain(length: int = 100) -> og.Graph:
    g = og.Graph()
    tensor = g.input("src", og.f32, (16, 16))
    for _ in range(length):
        tensor = g.relu(tensor)
    g.output("dst", tensor)
    return g


class CLoop:
    """The partitions of a graph, run by C code: a tensor for each port, and ``execute`` in a loop."""

    def __init__(self, graph: og.Graph, arrays: dict[str, np.ndarray]) -> None:
        ffi, self._lib = peer()
        self._stream = capi.Stream()
        self._held: list[object] = [self._stream]
        held = {graph.inputs[name].id: array for name, array in arrays.items()}
        partitions = sorted(graph.partitions("debug"), key=lambda partition: partition.ops)
        self._steps = ffi.new("struct step[]", len(partitions))
        for step, partition in zip(self._steps, partitions, strict=True):
            done = partition.compile()
            step.compiled = ffi.cast("void *", library.address(done._ptr))
            step.n_inputs, step.inputs = self._tensors(ffi, done.inputs, held)
            step.n_outputs, step.outputs = self._tensors(ffi, done.outputs, held)
            self._held.append(done)
        self.outputs = {name: held[tensor.id] for name, tensor in graph.outputs.items()}
        function = ctypes.CDLL(library.PATH).dnnl_graph_compiled_partition_execute
        self._function = ffi.cast("void *", ctypes.cast(function, ctypes.c_void_p).value)
        self._stream_pointer = ffi.cast("void *", library.address(self._stream._ptr))

    def _tensors(self, ffi: Any, logical: tuple[capi.LogicalTensor, ...], held: dict[int, Any]) -> tuple[int, Any]:
        pointers = ffi.new("const void *[]", len(logical))
        for index, tensor in enumerate(logical):
            if tensor.id not in held:
                held[tensor.id] = aligned_empty(sizes(tensor), tensor.dtype.numpy)
            made = capi.Tensor(tensor, held[tensor.id])
            pointers[index] = ffi.cast("void *", library.address(made._ptr))
            self._held.append(made)
        self._held.append(pointers)
        return len(logical), pointers

    def __call__(self, count: int) -> None:
        status = self._lib.execute(self._function, self._stream_pointer, len(self._steps), self._steps, count)
        assert status == 0
        self._stream.wait()


def contenders(graph: og.Graph, threads: int | None) -> dict[str, Contender]:
    """The C loop, and the ways to run the same graph from Python. All have the same results."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name, tensor in graph.inputs.items():
        arrays[name] = aligned_empty(sizes(tensor), tensor.dtype.numpy)
        arrays[name][...] = rng.standard_normal(sizes(tensor))
    loop = CLoop(graph, arrays)
    model = graph.compile(policy="debug", threads=threads)
    run, values = model.bind(**arrays), tuple(arrays.values())
    out = model(*values)
    loop(1)
    for result in (run.run(), model(*values), model(*values, out=out), model(**arrays)):
        np.testing.assert_array_equal(result, loop.outputs["dst"])
    return {
        "C loop": loop,
        "bound run": calls(run.run),
        "positional call": calls(lambda: model(*values)),
        "positional call, out=": calls(lambda: model(*values, out=out)),
        "keyword call": calls(lambda: model(**arrays)),
    }


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=31)
    default = capi.get_num_threads()
    graphs = {"ReLU 16x16": relu(), "MatMul 32x32x32": matmul(), "100 x ReLU 16x16": chain(10 if quick else 100)}
    for case, graph in graphs.items():
        for threads in (1, None):
            capi.set_num_threads(threads or default or 1)  # for the C loop
            seconds, speed, load = alternate(contenders(graph, threads), effort)
            capi.set_num_threads(default or 1)
            beside = {
                f"{name} - C loop (us)": (taken - seconds["C loop"]) * 1e6
                for name, taken in seconds.items()
                if name != "C loop"
            }
            name = f"{case}, {'default threads' if threads is None else '1 thread'}"
            yield Row(name, seconds, speed, beside, load=load)
