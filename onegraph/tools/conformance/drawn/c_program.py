"""Writes a use of one op as a C program that needs the headers of oneDNN alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....ir.op import Array
from ....opset.dtypes import DataType
from ....opset.editions.registry import BASE
from ....testing.tolerance import FLOORS, SUMS
from ..uses import GIVEN, ProbedUse
from ..worker import stored

WIDTH = 140  # of a line
# The C type of an element, by data type; others are written as their bytes.
TYPES = {"f32": "float", "s32": "int32_t", "s8": "int8_t", "u8": "uint8_t", "boolean": "uint8_t", "s64": "int64_t"}
BITS = {"bf16": "uint16_t", "f16": "uint16_t"}
SETTERS = {"f32": "f32", "f32[]": "f32", "s64": "s64", "s64[]": "s64", "bool": "bool", "str": "str"}
ELEMENTS = {"f32": "float", "s64": "int64_t", "bool": "uint8_t"}
ULPS = 2  # by which rounding may move a number of 16 bits
GUARD = 4096  # elements behind each result
UNKNOWN = 1 << 20  # elements of a result of unknown shape
FLAGS = "dnnl_stream_default_flags"  # libraries with the runtime SYCL refuse a stream without
MANY = 2048  # numbers; more are not written out
FEW = 128  # numbers that are written out where they do not matter
REPEATED = 17  # numbers that the inputs of a large use repeat, every seventh of them
RESULTS = 4  # times as many numbers of results
NEAR = 8  # elements of a large result that are compared
PLACE = re.compile(r"output (\d+) is \S+ at \[([\d, ]*)\]")  # in the detail of a wrong outcome


_HEAD = """\
#include <stdio.h>
#include "oneapi/dnnl/dnnl_graph.h"
#define DO(f) do { dnnl_status_t ended = f; if (ended) return printf("%s: status %d\\n", #f, ended), 1; } while (0)
#define ATTR(kind, name, n, ...) DO(dnnl_graph_op_set_attr_##kind(op, dnnl_graph_op_attr_##name, __VA_ARGS__, n))"""
_DIFFERS = "#define DIFFERS(a, b, most) (a != b && (a == a || b == b) && !(a - b <= most && b - a <= most))"
_NEAR = (
    "#define NEAR(k, first, n, most) for (int i = 0; i < n; i++) { double a = out##k[first + i], b = want##k[i]; "
    'if (DIFFERS(a, b, most)) bad = printf("output " #k "[%d]: %g, expected %g\\n", first + i, a, b); }'
)
_FILL = "#define FILL(k, n) for (int i = 0; i < n; i++) in##k[i] = few##k[i % 17 * 7 % 17]"
_COMPARISON = (
    "#define CHECK(k, n, most) for (int i = 0; i < n + GUARD; i++) { double a = out##k[i], b = i < n ? want##k[i] : 0; "
    'if (DIFFERS(a, b, most)) bad = printf("output " #k "[%d]: %g, expected %g\\n", i, a, b); }'
)
_BODY = """\
int main(void) {{
  dnnl_graph_logical_tensor_t t[N_IN + N_OUT]; const dnnl_graph_logical_tensor_t *lt[N_IN + N_OUT]; int bad = 0;
  dnnl_graph_tensor_t x[N_IN + N_OUT]; const_dnnl_graph_tensor_t *all = (const_dnnl_graph_tensor_t *)x;
  dnnl_stream_t stream; dnnl_graph_op_t op; dnnl_graph_graph_t graph; dnnl_graph_partition_t part; uint8_t taken;
  dnnl_graph_compiled_partition_t compiled; dnnl_engine_t engine; DO(dnnl_engine_create(&engine, dnnl_cpu, 0));
  DO(dnnl_stream_create(&stream, engine, {flags})); DO(dnnl_graph_op_create(&op, 0, dnnl_graph_op_{name}, "op"));
  for (int i = 0; i < N_IN + N_OUT; i++) {{  // the library infers the shapes of outputs
    DO(i < N_IN ? dnnl_graph_logical_tensor_init_with_dims(&t[i], i, types[i], ranks[i], dims[i], LAYOUT, UNDEF)
                : dnnl_graph_logical_tensor_init(&t[i], i, types[i], -1, LAYOUT, UNDEF));
    DO(i < N_IN ? dnnl_graph_op_add_input(op, lt[i] = &t[i]) : dnnl_graph_op_add_output(op, lt[i] = &t[i])); }}
{attributes}
  DO(dnnl_graph_graph_create(&graph, dnnl_cpu)); DO(dnnl_graph_add_op(graph, op)); DO(dnnl_graph_graph_finalize(graph));
  DO(dnnl_graph_graph_filter(graph, dnnl_graph_partition_policy_debug));
  DO(dnnl_graph_graph_get_partitions(graph, 1, &part)); DO(dnnl_graph_partition_is_supported(part, &taken));
  if (!taken) return puts("no kernel"), 1; else DO(dnnl_graph_compiled_partition_create(&compiled, part));
  DO(dnnl_graph_partition_compile(part, compiled, N_IN, lt, N_OUT, lt + N_IN, engine));
  for (int i = 0; i < N_IN + N_OUT; i++) {{ DO(dnnl_graph_compiled_partition_query_logical_tensor(compiled, i, &t[i]));
    for (int k = 0; k < ranks[i]; k++) if (t[i].dims[k] != dims[i][k]) return printf("tensor %d: other shape\\n", i), 1;
    DO(dnnl_graph_tensor_create(&x[i], &t[i], engine, data[i])); }}
{checks}
}}"""


def c_program(
    use: ProbedUse,
    title: str,
    compile_line: str,
    call: Mapping[str, Sequence[Any]] | None = None,
    *,
    is_allowed: bool = True,
    most: int = MANY,
    near: tuple[int, int] | None = None,
) -> str:
    """A C program of at most 40 lines that runs the use and prints what the library does, beside the reference.

    It ends with 1 where the library refuses the op, lacks a kernel, or gives other numbers than the reference; of a use
    that is not allowed, where the library runs it. Large arrays hold zeros, and no result is then compared.

    Args:
        use: the use; it has a reference.
        title: of the finding.
        compile_line: how the program is compiled.
        call: for each attribute the kind of its setter and the value; by default those of the use.
        is_allowed: whether the specification allows the use.
        most: numbers of all inputs, up to which they are written out.
        near: of a use that :func:`repeated` has made, the output and the place of an element, around which some are
            compared.
    """
    expected = (use.reference() or []) if is_allowed else [np.empty(())] * len(use.outputs)
    inputs, results = use.arrays, list(enumerate(zip(use.outputs, expected, strict=True)))
    sizes = (sum(array.size for array in arrays) for arrays in (inputs, expected))
    is_whole = all(size <= limit for size, limit in zip(sizes, (most, RESULTS * most), strict=True))
    definitions, fills = _inputs(use, is_whole, near is not None)
    checks = ["DO(dnnl_graph_compiled_partition_execute(compiled, stream, N_IN, all, N_OUT, all + N_IN));"]
    checks.append("DO(dnnl_stream_wait(stream));")
    head = [_HEAD]
    if near is not None:
        place, first = near
        dtype, array = use.outputs[place], expected[place]
        near_numbers = stored(array).ravel()[first : first + NEAR]
        near_numbers = near_numbers[
            : max(1, int(np.isfinite(near_numbers.astype(np.float32)).cumprod().sum()))
        ]  # NaN have many bits
        definitions.append(array_text(f"want{place}", dtype, near_numbers))
        checks.append(f"NEAR({place}, {first}, {near_numbers.size}, {most_of(dtype, array):.3g});")
        head += [*([_FILL] if fills else ()), _DIFFERS, _NEAR]
    elif is_allowed and is_whole:
        definitions += [array_text(f"want{place}", dtype, stored(array)) for place, (dtype, array) in results]
        checks += [f"CHECK({place}, {array.size}, {most_of(dtype, array):.3g});" for place, (dtype, array) in results]
        head += [_DIFFERS, _COMPARISON.replace("GUARD", str(GUARD))]
    else:
        checks += ['puts("executed");', f"bad = {int(not is_allowed)};"]
    checks.append("return bad != 0;")
    room = GUARD if is_allowed else UNKNOWN
    definitions += [f"static {c_type(dtype)} out{place}[{array.size + room}];" for place, (dtype, array) in results]
    attributes = _packed([*fills, *_attributes(use.arguments() if call is None else call)], "  ")
    body = _BODY.format(name=BASE[use.kind].name, flags=FLAGS, attributes=attributes, checks=_packed(checks, "  "))
    bits = "; bf16 and f16 are their bits" if BITS.keys() & {*use.dtypes, *use.outputs} else ""
    tables = _packed([*definitions, *_tables(use, inputs, expected)])
    lines = [f"// {title}: {compile_line}{bits}", *head, tables, body]
    return "\n".join(line for line in "\n".join(lines).split("\n") if line.strip()) + "\n"


def _inputs(use: ProbedUse, is_whole: bool, is_repeated: bool) -> tuple[list[str], list[str]]:
    """The definitions of the inputs, and the lines that fill large ones with the numbers that they repeat."""
    definitions, fills = list[str](), list[str]()
    for place, (dtype, array) in enumerate(zip(use.dtypes, use.arrays, strict=True)):
        if is_whole or array.size <= REPEATED:
            definitions.append(array_text(f"in{place}", dtype, stored(array)))
            continue
        definitions.append(f"static {c_type(dtype)} in{place}[{stored(array).size}];")
        if is_repeated:
            definitions.append(array_text(f"few{place}", dtype, _first(array)))
            fills.append(f"FILL({place}, {array.size});")
    return definitions, fills


def _tables(use: ProbedUse, inputs: Sequence[Array], expected: Sequence[Array]) -> Iterator[str]:
    """The definitions of what the program goes over in loops."""
    types = ", ".join(f"dnnl_{dtype}" for dtype in (*use.dtypes, *use.outputs))
    ranks = ", ".join(str(array.ndim) for array in (*inputs, *expected))
    dims = ", ".join(_braced(array.shape) for array in (*inputs, *expected))
    data = ", ".join([*(f"in{place}" for place in range(len(inputs))), *(f"out{k}" for k in range(len(expected)))])
    yield f"enum {{ N_IN = {len(inputs)}, N_OUT = {len(expected)} }};"
    yield "enum { LAYOUT = dnnl_graph_layout_type_strided, UNDEF = dnnl_graph_tensor_property_undef };"
    yield f"static const dnnl_data_type_t types[] = {{{types}}};"
    yield f"static const int ranks[] = {{{ranks}}};"
    yield f"static const dnnl_dims_t dims[] = {{{dims}}};"
    yield f"static void *data[] = {{{data}}};"


def repeated(use: ProbedUse, seed: int) -> ProbedUse:
    """A large use with inputs that repeat a few numbers, which a short program can hold."""
    rng, tensors = np.random.default_rng(seed), []
    for dtype, array in zip(use.dtypes, use.arrays, strict=True):
        few = array.ravel()
        if array.size > REPEATED:
            # Sums of quarters are exact, so that rounding explains nothing; of other numbers, some faults need it.
            few = rng.permutation(np.arange(REPEATED) - 8) / 4 if seed == 0 else rng.normal(size=REPEATED)
            few = few if DataType[dtype] in FLOORS else rng.integers(0, 2 if dtype == "boolean" else 100, REPEATED)
            few = few.astype(DataType[dtype].numpy)[np.arange(array.size) % REPEATED * 7 % REPEATED]
        tensors.append([dtype, list(array.shape), few.astype(float if DataType[dtype] in FLOORS else int).tolist()])
    picks = tuple((place, dtype) for place, dtype in enumerate(use.dtypes))
    return replace(use, source=(GIVEN, use.label), picks=picks, tensors=tensors, extra=())


def _first(array: Array) -> Array:
    """The numbers that an array repeats."""
    places = [next(place for place in range(REPEATED) if place * 7 % REPEATED == number) for number in range(REPEATED)]
    few: Array = array.ravel()[places]
    return few


def _packed(items: Sequence[str], indent: str = "") -> str:
    """Lines with as many items as fit."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) < WIDTH:
            lines[-1] += f" {item}"
        else:
            lines.append(f"{indent}{item}")
    return "\n".join(lines)


def _braced(numbers: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, numbers)) or '0'}}}"


def most_of(dtype: str, array: Array) -> float:
    """How much an element may differ: of 16 bits, so many of their units; of integers, not at all."""
    if dtype == "f32":
        finite = np.abs(array[np.isfinite(array)])
        return SUMS * float(finite.max(initial=0.0))
    return ULPS if dtype in BITS else 0


def c_type(dtype: str) -> str:
    """The C type of an element."""
    return TYPES.get(dtype) or BITS.get(dtype) or "uint8_t"


def array_text(name: str, dtype: str, array: Array) -> str:
    """The definition of an array with its contents, in one line."""
    if dtype in TYPES:
        items = [_number(number, dtype) for number in array.ravel().tolist()]
    else:
        raw = np.frombuffer(array.tobytes(), np.uint16 if dtype in BITS else np.uint8)
        items = [hex(number) for number in raw.tolist()]
    return f"static {c_type(dtype)} {name}[] = {{{', '.join(items) or '0'}}};"


def _number(number: Any, dtype: str) -> str:
    if dtype != "f32":
        return str(int(number))
    text = f"{number:.9g}".replace("inf", "(1 / 0.f)").replace("nan", "(0 / 0.f)")
    return text if text[-1] == ")" else f"{text}f" if "." in text or "e" in text else f"{text}.f"


def _attributes(call: Mapping[str, Sequence[Any]]) -> list[str]:
    """The calls that set the attributes."""
    calls = []
    for name, (kind, value) in call.items():
        setter = SETTERS[kind]
        if setter == "str":
            text, count = f'"{value}"', len(value) + 1
        else:
            numbers = value if isinstance(value, list) else [value]
            texts = [_number(number, "f32") if setter == "f32" else str(int(number)) for number in numbers]
            text, count = f"({ELEMENTS[setter]}[]){{{', '.join(texts) or '0'}}}", len(numbers)
        calls.append(f"ATTR({setter}, {name}, {count}, {text});")
    return calls


def is_small(use: ProbedUse, most: int = MANY) -> bool:
    """Whether a use has few enough numbers for a program that people read."""
    return sum(array.size for array in use.arrays) <= most


def is_small_result(use: ProbedUse) -> bool:
    """Whether the results have few enough numbers for a program that people read."""
    return sum(array.size for array in use.reference() or []) <= MANY // RESULTS


def is_writable(use: ProbedUse) -> bool:
    """Whether a use has no data type without a C name."""
    return not {"s4", "u4", DataType.f4_e2m1.value, "e8m0"}.intersection([*use.dtypes, *use.outputs])
