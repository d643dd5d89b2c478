"""Writes a graph as a C++ program against oneDNN's headers alone, which compares its results with the reference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from .._util.atomic_write import write_atomically
from ..errors import ArgumentError
from ..faults.capabilities import LIBRARY_VALUES
from ..graph import Graph
from ..ir.op import Array, LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import BASE
from ..reference import run
from ..serialize import with_known
from ..testing.random_inputs import random_inputs
from .bare import bare_step
from .conformance.drawn.c_program import array_text, c_type, most_of
from .conformance.uses import plain
from .conformance.worker import stored

MOST_ELEMENTS = 1 << 18  # of all arrays in a program
COMPILE = "c++ -std=c++17 FILE.cpp -I$DNNLROOT/include -L$DNNLROOT/lib -ldnnl"
_NAMED = ("f32", "bf16", "f16", "s32", "s8", "u8", "boolean")  # data types that the headers of 3.2 have
_TYPES = {"f32": "float", "s64": "int64_t", "bool": "bool", "str": "std::string"}
_TYPES |= {"f32[]": "std::vector<float>", "s64[]": "std::vector<int64_t>"}

_PROGRAM = """\
// {title}
// {compile}
#include <cstdio>
#include <map>
#include <string>
#include <vector>
#include "oneapi/dnnl/dnnl_graph.hpp"
using namespace dnnl::graph;
using lt = logical_tensor;
using dt = lt::data_type;
static const auto strided = lt::layout_type::strided;
static const auto constant = lt::property_type::constant;

{arrays}

template <typename T>
static int differs(const char *name, const T *out, const T *want, size_t count, double most) {{
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < count; i++) {{
    double a = double(out[i]), b = double(want[i]);
    if (a == b || (a != a && b != b) || (a - b <= most && b - a <= most)) continue;
    if (!wrong++) first = i;
  }}
  if (wrong)
    std::printf("%s: %zu of %zu differ; [%zu] is %g, expected %g\\n", name, wrong, count, first, double(out[first]),
        double(want[first]));
  return wrong != 0;
}}

static int run() {{
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  std::map<size_t, lt> t = {{  // by id; the library infers the shapes of results
{tensors}
  }};
  std::map<size_t, void *> data = {{{data}}};
  graph g(dnnl::engine::kind::cpu{mode});
{ops}
  g.finalize();
  std::vector<partition> waiting = g.get_partitions(partition::policy::{policy});
  std::vector<std::vector<char>> memory;
  while (!waiting.empty()) {{
    size_t next = 0;  // a partition whose inputs are there
    for (size_t i = 0; i < waiting.size(); i++) {{
      bool ready = true;
      for (const auto &port : waiting[i].get_input_ports()) ready = ready && data.count(port.get_id());
      if (ready) next = i;
    }}
    partition part = waiting[next];
    waiting.erase(waiting.begin() + next);
    if (!part.is_supported()) return std::printf("no kernel for partition %zu\\n", part.get_id()), 1;
    std::vector<lt> ins, outs;
    for (const auto &port : part.get_input_ports()) ins.push_back(t.at(port.get_id()));
    for (const auto &port : part.get_output_ports()) outs.push_back(t.at(port.get_id()));
    compiled_partition compiled = part.compile(ins, outs, engine);
    std::vector<tensor> sources, results;
    for (const auto &in : ins) sources.emplace_back(in, engine, data.at(in.get_id()));
    for (const auto &out : outs) {{
      lt known = t[out.get_id()] = compiled.query_logical_tensor(out.get_id());
      memory.emplace_back(known.get_mem_size() + 4096);
      data[out.get_id()] = memory.back().data();
      results.emplace_back(known, engine, memory.back().data());
    }}
    compiled.execute(stream, sources, results);
    stream.wait();
  }}
  int bad = 0;
{checks}
  return bad;
}}

int main() {{
  try {{
    return run();
  }} catch (const dnnl::error &e) {{
    return std::printf("dnnl::error: %s\\n", e.what()), 1;
  }}
}}
"""


def to_cpp(graph: Graph, *, seed: int = 0, policy: str = "fusion", fpmath_mode: str = "strict") -> str:
    """A C++ program that runs a graph in oneDNN as it is, on random inputs, and prints where it is wrong.

    The program ends with 0 if all outputs are those of the numpy reference, up to rounding; with 1 if they differ, a
    partition has no kernel, or a call fails.

    Args:
        graph: a graph with known dims, of ops that the library has.
        seed: of the random inputs.
        policy, fpmath_mode: of the partitions.

    Raises:
        ArgumentError: a dim is unknown, or the arrays have too many elements for a text.
        UnsupportedError: the graph has an op that the library does not know.
    """
    graph, inputs = with_known(graph, random_inputs(graph, seed))
    step = bare_step(graph)
    values_by_name = {**inputs, **graph._initial}
    values = {tensor.id: values_by_name[name] for name, tensor in step.inputs.items()}
    values |= {t.id: t.value for op in step.ops for t in op.inputs if t.value is not None}
    expected = {
        tensor.id: array for tensor, array in zip(step.outputs.values(), _results(step, values_by_name), strict=True)
    }
    expected = {number: array for number, array in expected.items() if number not in values}
    count = sum(array.size for array in (*values.values(), *expected.values()))
    if count > MOST_ELEMENTS:
        raise ArgumentError(f"a program of {count} numbers; expected at most {MOST_ELEMENTS}: onegraph reduce first")
    tensors = {t.id: t for op in step.ops for t in (*op.inputs, *op.outputs)}
    values = {number: array for number, array in values.items() if number in tensors}
    arrays = [array_text(f"in{number}", tensors[number].dtype.value, _memory(tensors[number], array))
              for number, array in values.items()]  # fmt: skip
    arrays += [array_text(f"want{number}", tensors[number].dtype.value, stored(array))
               for number, array in expected.items()]  # fmt: skip
    names = {tensor.id: name for name, tensor in step.outputs.items()}
    checks = [_check(names[number], tensors[number], array) for number, array in expected.items()]
    return _PROGRAM.format(
        title=f"A graph of {', '.join(dict.fromkeys(op.kind for op in step.ops))}",
        compile=COMPILE,
        arrays="\n".join(arrays),
        tensors="\n".join(f"    {{{t.id}, {_tensor(t, values.get(t.id))}}}," for t in tensors.values()),
        data=", ".join(f"{{{number}, in{number}}}" for number in values),
        mode="" if fpmath_mode == "strict" else f", dnnl::fpmath_mode::{fpmath_mode}",
        ops="\n".join(_op(number, op) for number, op in enumerate(step.ops)),
        policy=policy,
        checks="\n".join(checks),
    )


def save_cpp(graph: Graph, path: str | PathLike[str]) -> None:
    """Write :func:`to_cpp` of a graph to a file.

    Raises:
        ArgumentError, UnsupportedError: as for ``to_cpp``.
        OSError: the file cannot be written.
    """
    text = to_cpp(graph).encode()
    write_atomically(Path(path), lambda stream: stream.write(text))


def _results(step: Graph, values_by_name: Mapping[str, Array]) -> Sequence[Array]:
    by_name = run(step, values_by_name)
    return [by_name[name] for name in step.outputs]


def _memory(tensor: LogicalTensor, array: Array) -> Array:
    """The elements in the order in which they lie in memory, with what lies between them."""
    if tensor.strides is None:
        return stored(array)
    length = 1 + sum((dim - 1) * step for dim, step in zip(array.shape, tensor.strides, strict=True))
    room = np.zeros(length if array.size else 1, array.dtype)
    steps = [step * array.itemsize for step in tensor.strides]
    np.ndarray(array.shape, array.dtype, room, 0, steps)[...] = array
    return room


def _dtype(dtype: DataType) -> str:
    return f"dt::{dtype.value}" if dtype.value in _NAMED else f"dt(dnnl_{dtype.value})"


def _tensor(tensor: LogicalTensor, array: Array | None) -> str:
    """The constructor of a logical tensor; only those with contents have a shape."""
    if array is None:
        return f"lt({tensor.id}, {_dtype(tensor.dtype)}, DNNL_GRAPH_UNKNOWN_NDIMS, strided)"
    dims = f"lt::dims{{{', '.join(map(str, array.shape))}}}"
    if tensor.strides is not None:
        return f"lt({tensor.id}, {_dtype(tensor.dtype)}, {dims}, lt::dims{{{', '.join(map(str, tensor.strides))}}})"
    tail = ", constant" if tensor.value is not None else ""
    return f"lt({tensor.id}, {_dtype(tensor.dtype)}, {dims}, strided{tail})"


def _op(number: int, op: Op) -> str:
    """The statements that add an op."""
    ins = ", ".join(f"t[{tensor.id}]" for tensor in op.inputs)
    outs = ", ".join(f"t[{tensor.id}]" for tensor in op.outputs)
    name = f"op{number}"
    kind = f"op::kind(dnnl_graph_op_{BASE[op.kind].name})"
    lines = [f'  op {name}({number}, {kind}, std::vector<lt>{{{ins}}}, std::vector<lt>{{{outs}}}, "{name}");']
    for attribute, value in op.attrs.items():
        type_ = BASE[op.kind].attribute(attribute).kind
        word = LIBRARY_VALUES.get(attribute, {}).get(value, value) if isinstance(value, str) else plain(value)
        named = f"op::attr(dnnl_graph_op_attr_{attribute})"
        lines.append(f"  {name}.set_attr<{_TYPES[type_]}>({named}, {_literal(type_, word)});")
    return "\n".join([*lines, f"  g.add_op({name});"])


def _literal(type_: str, value: object) -> str:
    if isinstance(value, list):
        return f"{{{', '.join(_literal(type_.removesuffix('[]'), one) for one in value)}}}"
    if type_.startswith("f32"):
        return f"float({float(str(value)):.9g})"
    return f'"{value}"' if type_ == "str" else str(int(str(value))) if type_ != "bool" else str(bool(value)).lower()


def _check(name: str, tensor: LogicalTensor, array: Array) -> str:
    dtype = tensor.dtype.value
    of = f"static_cast<{c_type(dtype)} *>(data.at({tensor.id}))"
    return f"  bad |= differs({json.dumps(name)}, {of}, want{tensor.id}, {array.size}, {most_of(dtype, array):.3g});"


__all__ = ["save_cpp", "to_cpp"]
