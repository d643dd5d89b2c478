"""Graphs drawn by number for the record of steps: those of its materials with some changes, and options for each.

The numbers that are kept stand in tests/recorded/chosen_steps.txt, by instruction set and by what is drawn: those that
decide conditions of the compiler which no other graph of a record decides. Calls of functions of the compiler stand
there too, which :mod:`compiler_calls` draws.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

import onegraph as og
from onegraph.compiler.ir.part import Part
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Values
from onegraph.compiler.rewrites import is_best_alone, library_form, signature_form, takes
from onegraph.compiler.rewrites.compositions import COMPOSITIONS, PREFERRED
from onegraph.compiler.rewrites.form import Form, form_of, result_types
from onegraph.compiler.rewrites.norms import layer_norm_width, rms_norm_width
from onegraph.compiler.rewrites.open_forms import OPEN_KINDS, open_form
from onegraph.compiler.rewrites.single import SINGLE
from onegraph.compiler.witnesses import witnesses
from onegraph.errors import OneGraphError
from onegraph.inference.infer import infer_op
from onegraph.ir.op import LogicalTensor, Op
from onegraph.opset.convolution_geometry import SIDES
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import BASE, HOST, edition
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.shapes import known_dims
from onegraph.testing.cases import CASES, Case

from .near_graphs import CHANGES, changed
from .neighbours import attributes_beside, neighbours
from .recorded import digest

FORMS = "form", "newer", "ranked"  # what is asked of a use of an op
REWRITTEN = OPEN_KINDS | PREFERRED.keys() | COMPOSITIONS.keys() | SINGLE.keys()
WIDTHS = {"LayerNorm": layer_norm_width, "RMSNorm": rms_norm_width}
CHOSEN = Path(__file__).parents[1] / "recorded" / "chosen_steps.txt"
SPECIAL = 0, -1, np.inf, np.nan, 1e-30, 200
HOSTED = 200_000
FURTHER = (
    "left out", "rounded", "behind", "read", "fixed", "contents", "gaps", "resized", "type", "axes", "codes", "joined"
)  # fmt: skip


def chosen(isa: str) -> dict[str, list[int]]:
    """The numbers that are kept for an instruction set, by name."""
    found = {}
    for line in CHOSEN.read_text().splitlines():
        whole, _, numbers = line.rpartition(": ")
        if whole.partition(": ")[0] == isa:
            found[whole.partition(": ")[2]] = [*map(int, numbers.split())]
    return found


def choose(isa: str, kept: Mapping[str, Iterable[int]]) -> None:
    """Keep other numbers for an instruction set."""
    lines = [line for line in CHOSEN.read_text().splitlines() if line.partition(": ")[0] != isa]
    lines += [f"{isa}: {name}: {' '.join(map(str, numbers))}" for name, numbers in kept.items()]
    CHOSEN.write_text("".join(f"{line}\n" for line in sorted(lines)))


class Copy:
    """A graph that is copied, with a change that is drawn.

    Args:
        source: the graph.
        change: one of FURTHER.
        drawn: what decides where and how.
    """

    def __init__(self, source: og.Graph, change: str, drawn: Random) -> None:
        self._source, self._change, self._drawn = source, change, drawn
        self._new, self._made = og.Graph(), dict[int, LogicalTensor]()
        self._new._roundings = source._roundings
        places = [number for number, op in enumerate(source.ops) if op.kind in edition(HOST).schemas]
        self._place = drawn.choice(places or [0]) if change == "hosted" else drawn.randrange(len(source.ops))
        self._dims = self._dims_to_change()

    def made(self) -> og.Graph:
        """The changed graph."""
        fixed = [one for one in self._source._tensors if one.value is not None]
        given = [*self._source.inputs.values()]
        one = self._drawn.choice(given if self._change in ("fixed", "gaps", "axes") and given else fixed or given)
        for tensor in self._source._tensors:
            if tensor.value is not None or self._source.inputs.get(tensor.name) is tensor:
                self._made[tensor.id] = self._end(tensor, is_chosen=tensor is one)
        for number, op in enumerate(self._source.ops):
            self._copy(op, is_chosen=number == self._place)
        for name, tensor in self._source.outputs.items():
            self._output(name, self._made[tensor.id])
        return self._new

    def _output(self, name: str, tensor: LogicalTensor) -> None:
        self._new.output(name, tensor)

    def _dims_to_change(self) -> dict[int, int]:
        if self._change != "resized":
            return {}
        dims = sorted({dim for one in self._source._tensors for dim in one.shape or () if dim})
        old = self._drawn.choice(dims or [1])
        return {old: self._drawn.choice((1, old + 1, 2 * old, max(1, old // 2), 64, 16, 0))}

    def _resized(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return tuple([dim if dim is None else self._dims.get(dim, dim) for dim in shape])

    def _typed(self, dtype: og.DataType) -> og.DataType:
        return og.bf16 if self._change == "type" and dtype is og.f32 else dtype

    def _end(self, tensor: LogicalTensor, *, is_chosen: bool) -> LogicalTensor:
        """An input or a constant."""
        drawn, dtype, name = self._drawn, self._typed(tensor.dtype), tensor.name.replace(".", "_")
        shape = self._resized(tensor.shape)
        if tensor.value is not None:
            is_place = tensor.value.dtype.kind == "i" and tensor.dtype in (og.s64, og.s32)
            value = np.array(tensor.value) if is_place else np.resize(tensor.value, shape)
            if is_chosen and self._change == "contents":
                number = drawn.choice(SPECIAL)
                with np.errstate(all="ignore"):
                    other = np.nan_to_num(number, nan=1, posinf=2) if value.dtype.kind in "iu" else number
                    if drawn.random() < 0.5:
                        value.ravel()[:1] = np.asarray(other).astype(value.dtype)
                    else:
                        value[...] = np.asarray(other).astype(value.dtype)
            return self._new.constant(value.astype(dtype.numpy), dtype=dtype, name=tensor.name)
        if is_chosen and self._change == "fixed" and None not in shape:
            numbers = (np.arange(int(np.prod(shape))) % 7 + 1).reshape(shape)
            return self._new.constant(numbers.astype(dtype.numpy), dtype=dtype, name=tensor.name)
        strides = None
        if is_chosen and self._change == "gaps" and shape and None not in shape:
            order = [*range(len(shape))]
            if drawn.random() < 0.5:
                drawn.shuffle(order)
            step, steps, gap = 1, [0] * len(shape), drawn.choice((0, 0, 1))
            for axis in reversed(order):
                steps[axis], step = step, step * (max(shape[axis], 1) + gap)
            strides = tuple(steps)
        if is_chosen and self._change == "axes":
            shape = drawn.choice(((1, *shape), shape[1:], (), shape[-1:], (*shape[:-1], 1)))
        return self._new.input(name, dtype, shape, strides=strides)

    def _copy(self, op: Op, *, is_chosen: bool) -> None:
        new, drawn, change = self._new, self._drawn, self._change if is_chosen else ""
        ends = [None if one is None else self._made[one.id] for one in op.inputs]
        attrs = {name: self._attribute(name, one) for name, one in op.attrs.items()}
        place = drawn.randrange(len(ends)) if ends else 0
        if change == "left out":
            like = [one for one in ends if one is not None and one.dtype is op.outputs[0].dtype]
            like = [one for one in like if one.shape == op.outputs[0].shape] or like
            if like and len(op.outputs) == 1:
                self._made[op.outputs[0].id] = drawn.choice(like)
                return
        if change == "rounded" and ends and ends[place] is not None and ends[place].dtype is og.f32:
            ends[place] = new.type_cast(new.type_cast(ends[place], dtype=og.bf16), dtype=og.f32)
        if change == "codes" and ends and ends[place] is not None and ends[place].dtype is og.f32:
            codes = new.quantize(
                ends[place], scales=[0.5], zps=[drawn.choice((0, 3))], dtype=drawn.choice(("u8", "s8"))
            )
            ends[place] = new.dequantize(codes, scales=[0.5], zps=[drawn.choice((0, 3))])
        if change == "joined" and len(ends) > 1:
            ends[1] = ends[0]
        types = tuple([self._typed(one.dtype) for one in op.outputs])
        names = [one.name for one in op.outputs]
        words = edition(op.edition)
        if change == "hosted" and op.kind in edition(HOST).schemas:
            words = edition(HOST)
            attrs = {name: one for name, one in attrs.items() if words.schema(op.kind).has_attribute(name)}
        results = new._add_op(words, op.kind, attrs, ends, types, name=op.name, names=names)
        if change == "read":
            new.output("also", drawn.choice((new.relu, new.square))(results[0]))
        if change == "behind":
            results = (self._behind(results[0]), *results[1:])
        self._made.update(zip((one.id for one in op.outputs), results, strict=True))

    def _attribute(self, name: str, value: object) -> object:
        return [*self._resized(value)] if name == "shape" and isinstance(value, (list, tuple)) else value

    def _behind(self, x: LogicalTensor) -> LogicalTensor:
        """A result with one more op behind it, of the same shape."""
        new, rank = self._new, len(x.shape)
        row = np.arange(1, 1 + (x.shape[-1] or 1) if rank else 2).astype(x.dtype.numpy)
        kind = self._drawn.choice(
            ("relu", "tanh", "twice", "row", "add", "minus", "reshape", "turned", "scalar", "given")
        )
        if kind in ("relu", "tanh"):
            return getattr(new, kind)(x)
        if kind == "reshape":
            y = new.static_reshape(x, shape=[-1], special_zero=False)
            return new.static_reshape(y, shape=[*x.shape], special_zero=False)
        if kind == "turned" and rank > 1:
            order = [*range(rank - 2), rank - 1, rank - 2]
            return new.static_transpose(new.static_transpose(x, order=order), order=order)
        if kind == "scalar":
            return new.multiply(x, new.input("factor", x.dtype, ()))
        if kind == "given":
            return new.add(x, new.input("given", x.dtype, x.shape))
        number = new.constant(np.asarray(2).astype(x.dtype.numpy), dtype=x.dtype)
        constant = new.constant(row, dtype=x.dtype)
        if kind == "twice":
            return new.multiply(x, number)
        return {"row": new.multiply, "add": new.add, "minus": new.subtract}.get(kind, new.divide)(x, constant)


def other(graph: og.Graph, drawn: Random) -> og.Graph:
    """A graph with up to three changes, as far as it stays a valid one."""
    for _ in range(drawn.choice((0, 1, 1, 1, 2, 2, 3))):
        change = drawn.choice((*CHANGES, *FURTHER, *FURTHER, "opened"))
        try:
            if graph.ops:
                graph = Copy(graph, change, drawn).made() if change in FURTHER else changed(graph, change, drawn)
        except (OneGraphError, ValueError, TypeError, IndexError, OverflowError):  # a change that does not fit
            continue
    return graph


def drawn_graph(name: str, number: int, drawn: Random) -> og.Graph:
    """A drawn graph; from the number HOSTED on, one of its ops is that of the host vocabulary, if there is one."""
    graph = other(makers()[name](drawn), drawn)
    return Copy(graph, "hosted", drawn).made() if number >= HOSTED and graph.ops else graph


def options_of(drawn: Random) -> dict[str, object]:
    """Options of a compilation."""
    return {
        "opens": drawn.random() < 0.5,
        "reproducible": drawn.random() < 0.15,
        "fpmath_mode": "bf16" if drawn.random() < 0.1 else "strict",
        "finite_math": drawn.random() < 0.15,
        "policy": "debug" if drawn.random() < 0.05 else "fusion",
        "repeats": drawn.random() < 0.15,
    }


@cache
def listed(name: str) -> list[og.Graph]:
    """The graphs of a material of the record, or those that other tests have compiled."""
    from compiler import test_recorded_steps as steps

    from .kept_graphs import kept_graphs

    if name == "kept":
        return [graph for _, graph, _ in kept_graphs()]
    return [graph for _, graph in steps.MATERIAL[name]()]


@cache
def makers() -> dict[str, Callable[[Random], og.Graph]]:
    """What is drawn, by name."""
    from tests.fuzz.blocks import random_block_recipe
    from tests.fuzz.quantized import random_quantized_recipe
    from tests.fuzz.recipe import build
    from tests.fuzz.training import random_training_recipe

    from . import host_cases
    from .graphs import graph_of_case
    from .pass_graphs import placed
    from .pass_graphs.forms import MAKERS
    from .pass_graphs.opened import COUNTS

    def of_list(name: str) -> Callable[[Random], og.Graph]:
        return lambda drawn: drawn.choice(listed(name))

    def of_recipe(make: Callable[[Random], object]) -> Callable[[Random], og.Graph]:
        return lambda drawn: build(make(drawn))[0]

    found = {name: of_list(name) for name in ("planned", "attended", "taken", "in_codes", "trained", "kept")}
    found |= {f"opened {make.__name__}": make for make in COUNTS}
    found |= {make.__name__: make for make in (*MAKERS, *placed.MAKERS)}
    recipes = random_block_recipe, random_quantized_recipe, random_training_recipe
    found |= {make.__name__: of_recipe(make) for make in recipes}
    every = [*host_cases.cases()]
    return found | {
        "case": lambda drawn: graph_of_case(drawn.choice(CASES)),
        "host case": lambda drawn: host_cases.graph_of(drawn.choice(every))[0],
    }


SIZES = (1, 2, 3, 4, 6, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 511, 512, 768, 1023, 1024)
SIZES += (1025, 2047, 2048, 2049, 4095, 4096, 4097, 8192, 16384, 65535, 65536, 65537, 1 << 18, 1 << 20)


@cache
def cases() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in CASES:
        if BASE[case.kind].outputs:
            found.setdefault(case.kind, []).append(case)
    return found


def use_of(kind: str, drawn: Random) -> Call | None:
    """A use of an op beside a case, with the types of its results; None for one that is not valid."""
    case, pick = drawn.choice(cases()[kind]), drawn.choice
    types = [None if one is None else TensorType(OF_NUMPY[one.dtype], one.shape) for one in case.inputs]
    attrs = dict(case.attrs)
    for _ in range(pick((0, 1, 1, 2, 2, 3))):
        change = pick(("dims", "dims", "dims", "attributes", "attributes", "type", "beside", "absent"))
        dims = sorted({dim for one in types if one is not None for dim in one.shape or () if dim})
        if change == "dims" and dims:
            old, new = pick(dims), pick(SIZES)
            types = [one and replace(one, shape=one.shape and swapped(one.shape, old, new)) for one in types]
            attrs = {
                name: swapped(one, old, new) if name in ("shape", "dst_shape", "src_shape", "weights_shape") else one
                for name, one in attrs.items()
            }
        elif change == "attributes":
            attrs = pick([attrs, *attributes_beside(BASE[kind], attrs, (1, 2, 3, 4))])
        elif change == "type":
            old_type, new_type = pick([og.f32, og.bf16, og.u8]), pick([og.f32, og.bf16, og.f16, og.s8])
            types = [one and replace(one, dtype=new_type if one.dtype is old_type else one.dtype) for one in types]
        elif change == "beside":
            types = pick([types, *neighbours(types, (1, 2, 4))])
        elif change == "absent":
            place = drawn.randrange(len(types) + 1)
            types = [*types[:place], None, *types[place + 1 :]]
            while types and types[-1] is None:
                types.pop()
    found = infer_op(kind, attrs, types, case.outputs, edition=edition("onednn-3.13"), dtype=case.dtype)
    is_known = all(shape is not None and None not in shape for shape in found.shapes)
    if found.violations or found.attrs is None or None in found.dtypes or not is_known:
        return None
    return Call(BASE[kind], found.attrs, types, len(found.dtypes), found.dtypes)


def swapped(dims: tuple[int | None, ...], old: int, new: int) -> tuple[int | None, ...]:
    return tuple([new if dim == old else dim for dim in dims])


def forms_of(call: Call) -> list[str]:
    """What the library gets for a use of an op, what each rewrite makes of it, and what is known of it."""
    told = []
    for finite_math in (False, True):
        form, reason = library_form(call.schema, call, finite_math=finite_math)
        told.append(reason if form is None else form_text(form, call))
    kind = call.schema.kind
    rewrites = [open_form if kind in OPEN_KINDS else None, *(table.get(kind) for table in (PREFERRED, COMPOSITIONS))]
    for rewrite in rewrites:
        form = None if rewrite is None else rewrite(call)
        told.append("" if form is None else form_text(form, call))
    single = SINGLE[kind](call) if kind in SINGLE else None
    told.append("" if single is None else form_text(form_of(single, call), call))
    if kind in WIDTHS:
        told.append(f"{WIDTHS[kind](call)}")
    return [*told, f"{takes(call)} {is_best_alone(call)} {shown(call)}"]


def ranked(call: Call, drawn: Random) -> Call | None:
    """The same use with one or two further axes in front of each tensor; None if that is not valid."""
    front = drawn.choice(((1,), (2,), (1, 1), (2, 1), (3, 2)))
    types = [one and replace(one, shape=(*front, *known_dims(one.shape))) for one in call.inputs]
    count = call.n_outputs
    found = infer_op(
        call.schema.kind, call.given, types, count, edition=edition("onednn-3.13"), dtype=call.output_type(0)
    )
    if found.violations or found.attrs is None or any(shape is None or None in shape for shape in found.shapes):
        return None
    return Call(call.schema, found.attrs, types, len(found.dtypes), found.dtypes)


@contextmanager
def newer() -> Iterator[None]:
    """Let the compiler work for the newest library, and for a CPU without AVX2."""
    modules = [one for name, one in sys.modules.items() if name.startswith("onegraph.compiler.")]
    before = [(one, name, vars(one)[name]) for one in modules for name in ("VERSION", "has_avx2") if name in vars(one)]
    for one, name, _ in before:
        setattr(one, name, (3, 13, 0) if name == "VERSION" else bool)  # bool() is False
    signature_form.cache_clear()
    try:
        yield
    finally:
        for one, name, value in before:
            setattr(one, name, value)
        signature_form.cache_clear()


def shown(call: Call) -> list[object]:
    """The elements of a result that show what a convolution was given."""
    if call.schema.kind not in SIDES:
        return []
    (result,) = call.output_types
    values = Values({})
    number = values.new(result, call.shapes[0], "result")
    attrs = dict(call.given)
    part = Part(call.schema.kind, attrs, (), tuple(call.inputs), result_types(call))
    step = Step(0, "library", call.schema.kind, (), (number,), None, attrs, part=part)
    return [(one.shape, one.strides, one.offset) for one in witnesses(step, values[number])]


def form_text(form: Form, call: Call) -> str:
    parts = []
    for part in form.parts:
        sources = [one if isinstance(one, int) else (one.shape, digest([one.tolist()])) for one in part.inputs]
        parts.append(f"{part.kind} {sorted(part.attrs.items())} {sources} {part.types} {part.outputs}")
    return f"{form.note} {form.slow} {form.results} {form.direct} {form.is_op(call)} {parts}"


def lines(steps_of: Callable[..., list[str]], name: str, number: int) -> list[str]:
    """The lines of the steps of a graph, or of the forms of a use of an op; none where the number makes none."""
    drawn = Random(f"{name} {number}")
    try:
        how, _, kind = name.partition(" ")
        if how == "called":
            from . import compiler_calls

            return compiler_calls.lines(kind, number)
        if how in FORMS:
            call = use_of(kind, drawn)
            call = ranked(call, drawn) if how == "ranked" and call is not None else call
            with newer() if how == "newer" else nullcontext():
                return [] if call is None else forms_of(call)
        graph = drawn_graph(name, number, drawn)
    except OneGraphError as error:
        return [f"{type(error).__name__}: {error}"] if how in FORMS else []
    return steps_of(graph, **options_of(drawn))


def graphs(isa: str) -> Iterator[tuple[str, int]]:
    """The names and numbers that are kept."""
    for name, numbers in chosen(isa).items():
        yield from ((name, number) for number in numbers)
