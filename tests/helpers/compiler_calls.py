"""Functions and methods of the compiler that are called with arguments of the types that they state.

Graphs, steps and values are those in front of a pass, with up to three changes, so that it is asked too what holds for
all graphs. Draws by number for the record of steps: what a function returns, or the type of its error, and the steps
that it makes.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph._util.open_sizes import present
from onegraph.builder.graph import DataGraph
from onegraph.compiler import unfused
from onegraph.compiler.edge_layouts import EdgeLayouts
from onegraph.compiler.ir.edit import Edit
from onegraph.compiler.ir.lowered import Lowered
from onegraph.compiler.ir.part import Part
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.kernels.adding import Adding
from onegraph.compiler.kernels.kernel import Kernel, call_of
from onegraph.compiler.kernels.registry import kernels
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.partition_store import SharedPartitions
from onegraph.compiler.passes import PASSES, run_passes
from onegraph.compiler.report import NamedTensor, PartitionReport
from onegraph.compiler.rewrites.compositions import COMPOSITIONS, PREFERRED
from onegraph.compiler.rewrites.form import FormBuilder
from onegraph.compiler.rewrites.open_forms import OPEN_KINDS
from onegraph.compiler.rewrites.single import SINGLE
from onegraph.compiler.schedule import Schedule
from onegraph.compiler.shared_constants import SharedConstants
from onegraph.errors import ArgumentError, LibraryRuntimeError, OneGraphError, UnsupportedError
from onegraph.ir import operators
from onegraph.ir.op import Op
from onegraph.opset.convolution_geometry import SIDES, ConvolutionGeometry, convolution_geometry
from onegraph.opset.dtypes import DataType
from onegraph.opset.schema import Call

from . import drawn_steps, draws  # noqa: F401  # the materials of draws need it in front of them
from .drawn_calls import UnknownTypeError, World, called_with, told
from .drawn_plans import partition_of
from .graphs import graph_of_case

ROOMS = "compiler", "ir", "native"
# Modules in which the library compiles or divides a graph, which need not end for any graph, and of what is measured.
OTHER = ("compile", "patterns", "partitioner", "library_steps", "recipes", "thread_tuning", "known_threads", "load")
OTHER = (*OTHER, "library_partitions", "single_ops", "reproducible", "partition_store", "partition_cache", "library")
OTHER = (*OTHER, "siblings", "watch", "gc_pause")
# Functions that return memory without contents, files, versions, or a time.
OF_CHANCE = "place_for", "_sources", "_versions", "_started"
SHARE = 8  # one of so many graphs that a pass leaves as they are
TYPES = tuple(map(DataType, ("f32", "f32", "bf16", "f16", "u8", "s8", "s32", "s64")))
TABLES: tuple[dict[str, Any], ...] = PREFERRED, COMPOSITIONS, SINGLE
# The ops that functions of modules read which no record of an op names.
READ_BY = {
    "packed_products": ("Dequantize", "DynamicDequantize"),
    "witnesses": tuple(SIDES),
    "window_products": tuple(SIDES),
    "packed_weights": ("MatMul", "Convolution", "Dequantize", "DynamicDequantize"),
    "detection": ("NonMaxSuppression", "RoiAlign", "GridSample", "MaxUnpool", "DeformConv"),
    "indexing": ("ScatterElements", "ScatterND", "GatherElements", "Compress", "TopK"),
    "code_product": ("MatMul", "Convolution"),
}
TYPES_BY_NAME = {"Step": Step, "Key": bytes, "Lowered": Lowered, "CompiledPartition": type(None)}
WORDS_OF = {
    "fpmath_mode": ("strict", "strict", "bf16"),
    "policy": ("fusion", "fusion", "debug"),
    "coding": ("s8", "s4", "u4", "u8", "nf4", "f32", "bf16"),
    "kind": ("MatMul", "Add", "Multiply", "Convolution", "ReLU", "Quantize", "Dequantize", "SoftMax"),
    "executor": ("library", "view", "reference", "copy"),
    "mode": ("bilinear", "nearest", "bicubic", "linear", "cubic", "avg", "max"),
    "padding": ("zeros", "border", "reflection"),
    "reduction": ("none", "add", "mul", "max", "min"),
    "weights_format": ("XIO", "OIX", "IOX"),
    "layout": ("XIO", "OIX", "IOX", "rows", "columns", "skewed"),
}
Front = tuple[Lowered, Options, tuple[int, ...]]


def watch(graph: og.Graph, options: Options, keep: Callable[..., None]) -> None:
    """Run the passes over a graph, unless it cannot be lowered, and let ``keep`` see the graphs around each."""
    shared = SharedConstants.of(graph)
    shared.partitions.rounds = options.opens
    with suppress(OneGraphError):
        run_passes(lower(graph, opens=options.opens, shared=shared), options, watch=keep)


@cache
def in_front() -> dict[str, list[Front]]:
    """Graphs in front of each pass, its options, and the steps that the pass changes."""
    found: dict[str, list[Front]] = {each.name: [] for each in PASSES}
    graphs = [graph for name in ("taken", "attended", "in_codes", "trained") for graph in drawn_steps.listed(name)]
    for place, graph in enumerate([*graphs, *drawn_steps.listed("opened")[::9]]):
        options = Options(opens=place % 3 == 2, reproducible=place % 11 == 5)

        def keep(each: Any, before: Lowered, after: Lowered, place: int = place, options: Options = options) -> None:
            known = {(step.executor, step.kind, step.inputs, step.outputs) for step in after.steps}
            changed = [one.id for one in before.steps if (one.executor, one.kind, one.inputs, one.outputs) not in known]
            if before is not after or place % SHARE == 0:
                found[each.name].append((before, options, tuple(changed)))

        watch(graph, options, keep)
    return found


@cache
def passes_of(module: str) -> list[str]:
    """The passes that call functions of a module; all if none does."""
    found = []
    for each in PASSES:
        names = vars(importlib.import_module(each.run.__module__)).values()
        if each.run.__module__ == module or any(getattr(one, "__module__", "") == module for one in names):
            found.append(each.name)
    return found if 0 < len(found) < 8 else [each.name for each in PASSES]


@cache
def kinds_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The ops that a function of a rewrite or a kernel is for, those of its module if no record names it."""
    records = [(one, [kind]) for table in TABLES for kind, one in table.items()]
    for kernel in kernels():
        records += [(one, kernel.kinds) for one in (kernel.when, kernel.numbers, kernel.add) if one is not None]
    own = [kind for one, kinds in records if inspect.unwrap(one) is function for kind in kinds]
    of_module = [kind for one, kinds in records if one.__module__ == function.__module__ for kind in kinds]
    listed = [kind for one in vars(sys.modules[function.__module__]).get("KERNELS", ()) for kind in one.kinds]
    if "array_kernels" in function.__module__:
        listed = [*vars(importlib.import_module("onegraph.compiler.kernels.arrays"))["RECORDS"]]
    if "open" in function.__module__:
        listed = [*OPEN_KINDS]
    read = READ_BY.get(function.__module__.rpartition(".")[2], ())
    return tuple(sorted({*(own or [*read] or listed or of_module)}))


def graph_of_kind(kind: str, drawn: Random) -> og.Graph:
    """A graph of a case of an op."""
    from . import host_cases
    from .draws import host_cases_by_kind

    base, host = drawn_steps.cases().get(kind, []), host_cases_by_kind().get(kind, [])
    place = drawn.randrange(len(base) + len(host))
    return graph_of_case(base[place]) if place < len(base) else host_cases.graph_of(host[place - len(base)])[0]


class Compiling(World):
    """What the arguments of one call of the compiler have in common: a graph in front of a pass, and one of its steps.

    Args:
        drawn: draws.
        function: that is called.
    """

    def __init__(self, drawn: Random, function: Callable[..., Any]) -> None:
        super().__init__(drawn, function)
        self.added: list[Step] = []
        self.types = TYPES_BY_NAME
        kinds = kinds_of(function)
        self.calls = [kind for kind in kinds or drawn_steps.cases() if kind in drawn_steps.cases()]
        if kinds and self.flag(0.7):
            lowered, self.options, changed = self.of_kind(drawn.choice(kinds))
        else:
            fronts = in_front()[drawn.choice(passes_of(function.__module__))] or in_front()["pointwise"]
            lowered, self.options, changed = drawn.choice(fronts)
        places = [place for place in changed if place < len(lowered.steps)]
        self.place = drawn.choice(places if places and self.flag(0.7) else range(len(lowered.steps)))
        self.lowered = replace(lowered, values=Values(lowered.values), keys={})
        for _ in range(self.one(0, 1, 1, 1, 2, 3)):
            self.change()
        self.edit = Edit(self.lowered)
        self._schedule: Schedule | None = None

    def of_kind(self, kind: str) -> Front:
        """A lowered graph of an op, and its steps."""
        options = Options(opens=self.flag(0.4))
        lowered = lower(graph_of_kind(kind, self.drawn), opens=options.opens)
        lowered = run_passes(lowered, options) if self.flag() else lowered
        return lowered, options, tuple([step.id for step in lowered.steps if kind in (step.kind, step.op.kind)])

    # Changes ---------------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """Change a value or a step, mostly one of those around the step of the call."""
        lowered, steps = self.lowered, [*self.lowered.steps]
        near = [one.id for number in steps[self.place].outputs for one in lowered.consumers(number)]
        near += [one.id for number in steps[self.place].inputs if (one := lowered.maker(number)) is not None]
        place = self.drawn.choice([self.place, self.place, *near, *near, self.drawn.randrange(len(steps))])
        step = steps[place]
        numbers = [number for number in (*step.inputs, *step.outputs) if number in lowered.values]
        if self.flag(0.45) and numbers:
            number = self.drawn.choice(numbers)
            lowered.values[number] = self.other_value(lowered.values[number])
        elif self.flag(0.12):
            vars(lowered)["returned"] = lowered.returned | {self.drawn.choice(numbers or [0])}
        else:
            steps[place] = self.other_step(step, numbers)
            self.lowered = replace(lowered, steps=tuple(steps))
            vars(self.lowered).update((key, one) for key, one in vars(lowered).items() if key == "returned")

    def other_value(self, value: Value) -> Value:
        shape, axis = value.shape, self.drawn.randrange(max(len(value.shape), 1))
        kind = self.one("type", "dim", "dim", "strides", "axes", "contents", "contents", "storage")
        if kind == "type":
            return value._replace(dtype=self.drawn.choice(TYPES))
        if kind == "storage":
            return value._replace(storage=self.drawn.choice([*self.lowered.values]), offset=self.one(0, 1, 16))
        if kind == "contents" and value.constant is None:
            made = np.full(shape, self.one(0, 1, 2, -1, 0.5)).astype(value.dtype.numpy)
            return value._replace(constant=made) if made.size < 1 << 16 else value
        if kind == "contents":
            if self.flag(0.4):
                return value._replace(constant=None)
            made = np.array(value.constant)
            made.reshape(-1)[: self.one(1, made.size)] = self.one(0, 1, 2, 5)
            return value._replace(constant=made)
        if kind == "strides":
            order = self.drawn.sample(range(len(shape)), len(shape))
            laid = dense_of(tuple([shape[place] for place in order]))
            steps = tuple([laid[order.index(place)] * self.one(1, 1, 1, 2) for place in range(len(shape))])
            return value._replace(strides=steps)
        if kind == "axes":
            shape = self.one(shape[1:], shape[:-1], (1, *shape), (*shape, 1), ())
        else:
            dim = shape[axis] if shape else 1
            shape = (*shape[:axis], self.one(1, dim + 1, 2 * dim, dim // 2, 16, 64, 256), *shape[axis + 1 :])
        return value._replace(shape=shape, strides=dense_of(shape))

    def other_step(self, step: Step, numbers: list[int]) -> Step:
        kind = self.one("executor", "kind", "attrs", "attrs", "attrs", "inputs", "inputs", "whole", "note", "part")
        others = self.lowered.steps
        if kind == "executor":
            return step._replace(executor=self.one("library", "view", "reference", "copy", "exact", "pointwise"))
        if kind == "kind":
            named = self.drawn.choice(others).kind
            part = step.part and replace(step.part, kind=named)
            return step._replace(kind=named, part=part)
        if kind == "whole":
            return step._replace(whole=not step.whole)
        if kind == "note":
            return step._replace(note=self.one("", "rewritten"))
        if kind == "part":
            return step._replace(part=None)
        if kind == "inputs" and step.inputs:
            ins = [*step.inputs]
            place = self.drawn.randrange(len(ins))
            ins[place : place + 1] = self.one([], [ins[0]], [self.drawn.choice(numbers)], [ins[place], ins[-1]])
            ins = ins[::-1] if self.flag(0.3) else ins
            known = all(number in self.lowered.values for number in ins)
            part = step.part
            if part is not None and known and self.flag(0.7):
                part = replace(part, types=tuple([self.lowered.values[number].type for number in ins]))
            return step._replace(inputs=tuple(ins), part=part)
        attrs = dict(step.attrs or (step.part.attrs if step.part is not None else {}) or step.op.attrs)
        if not attrs:
            return step
        name = self.drawn.choice([*attrs])
        if self.flag(0.25):
            del attrs[name]
        else:
            attrs[name] = self.other_attribute(attrs[name])
        return step._replace(attrs=attrs, part=step.part and replace(step.part, attrs=attrs))

    def other_attribute(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)) and value:
            place = self.drawn.randrange(len(value))
            one = self.other_attribute(value[place])
            return type(value)(self.one([*value[:place], one, *value[place + 1 :]], value[:-1], value[::-1]))
        if isinstance(value, bool):
            return not value
        if isinstance(value, (int, float)):
            return type(value)(self.one(0, value + 1, -value, value * 2, 1))
        if isinstance(value, str):
            words = ("NXC", "NCX", "XIO", "OIX", "IOX", "none", "same_upper", "per_tensor", "per_channel")
            return self.drawn.choice(words)
        return value

    # By annotation ---------------------------------------------------------------------------------------------------

    @property
    def own(self) -> Step:
        return self.lowered.steps[self.place]

    def compiler_step(self) -> Step:
        kind = self.drawn.random()
        if kind < 0.75:
            return self.own
        near = [one for number in self.own.outputs for one in self.lowered.consumers(number)]
        near += [one for number in self.own.inputs if (one := self.lowered.maker(number)) is not None]
        return self.drawn.choice(near if near and kind < 0.9 else self.lowered.steps)

    def chain(self) -> list[Step]:
        """A step and those behind it."""
        found = [self.own]
        for _ in range(self.one(0, 0, 1, 2, 3)):
            behind = [one for number in found[-1].outputs for one in self.lowered.consumers(number)]
            found += behind[:1]
        return found

    def value_number(self) -> int:
        own = [number for number in (*self.own.inputs, *self.own.outputs) if number in self.lowered.values]
        return self.drawn.choice(own if own and self.flag(0.85) else [*self.lowered.values])

    def number(self) -> int:
        of_value = ("number", "value", "source", "target", "result", "product", "codes", "mask", "whole", "key")
        share = 0.9 if self.name in of_value else 0.3 if self.name not in ("rank", "axis", "count", "place") else 0
        return self.value_number() if self.flag(share) else super().number()

    def values_of_step(self) -> list[Value]:
        numbers = self.one(self.own.inputs, (*self.own.inputs, *self.own.outputs), self.own.outputs)
        return [self.lowered.values[number] for number in numbers if number in self.lowered.values]

    def compiler_call(self) -> Call:
        part = self.own.part
        if part is not None and self.flag(0.3):
            return part.call
        if not self.calls or self.flag(0.1):
            return call_of(self.own)
        for _ in range(4):
            found = drawn_steps.use_of(self.drawn.choice(self.calls), self.drawn)
            if found is not None:
                return found
        return self.call()

    def geometry(self) -> ConvolutionGeometry:
        kinds = [kind for kind in self.calls if kind in SIDES] or [*SIDES]
        for _ in range(6):
            call = drawn_steps.use_of(self.drawn.choice(kinds), self.drawn)
            if call is not None:
                return convolution_geometry(call)
        raise UnknownTypeError("geometry")

    def schedule(self) -> Schedule:
        if self._schedule is None:
            self._schedule = Schedule(self.lowered, self.known())
        return self._schedule

    def known(self) -> SharedPartitions:
        return SharedPartitions()

    def several(self, origin: Any, arguments: Any, depth: int) -> Any:
        kind = arguments[0] if arguments else None
        made: Any = None
        if kind is Any:
            kind = np.ndarray
        if kind is Step:
            made = self.chain()
        elif kind is Value and self.flag(0.8):
            made = self.values_of_step()
        elif kind is int and self.flag(0.6) and (self.name.endswith("s") or self.name in ("updates", "read", "taken")):
            made = [*self.one(self.own.inputs, self.own.outputs, self.own.inputs)]
        elif np.ndarray in (kind, typing.get_origin(kind)):
            made = [self.array() for _ in range(self.one(1, 2, 2, 3))]
        if made is None:
            return super().several(origin, arguments, depth)
        return origin(made) if origin in (set, frozenset) else tuple(made) if origin is tuple else made

    def of(self, hint: Any, depth: int = 0) -> Any:
        maker = OF_COMPILER.get(hint)
        if maker is not None:
            return maker(self)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if getattr(origin, "__name__", "") in ("Container", "Set"):
            return frozenset(self.several(list, arguments, depth))
        if getattr(origin, "__name__", "") == "Callable":
            return self.function(arguments[1])
        if getattr(origin, "__name__", "") in ("Mapping", "dict") and arguments[1] is Value:
            return self.lowered.values
        if inspect.isclass(hint) and hint.__module__.startswith("onegraph.compiler"):
            is_record = issubclass(hint, tuple) or hasattr(hint, "__dataclass_fields__")
            return self.record(hint, depth) if is_record else self.instance(hint, depth)
        return super().of(hint, depth)

    def instance(self, kind: type, depth: int = 0) -> Any:
        if depth > 3:
            raise UnknownTypeError(kind.__name__)
        places, names = called_with(kind.__init__, self, skipped=1)
        return kind(*places, **names)

    def function(self, result: Any) -> Callable[..., Any]:
        """What is called in the midst of the call."""
        if result in (None, type(None)):
            return self.added.append
        if result is int:
            return present
        made = self.of(result)
        return lambda *_: made

    def word(self) -> str:
        return self.drawn.choice(WORDS_OF[self.name]) if self.name in WORDS_OF else super().word()

    def report(self) -> PartitionReport:
        self.rank += 1
        return partition_of(self.drawn, self.rank)

    def part(self) -> Part:
        parts = [step.part for step in self.chain() if step.part is not None]
        return self.drawn.choice(parts or [one.part for one in self.lowered.steps if one.part is not None])

    def op(self) -> Op:
        return self.own.op


OF_COMPILER: dict[Any, Callable[[Compiling], Any]] = {
    int: Compiling.number,
    str: Compiling.word,
    Lowered: lambda world: world.lowered,
    Edit: lambda world: world.edit,
    Step: Compiling.compiler_step,
    Part: Compiling.part,
    Op: Compiling.op,
    Values: lambda world: world.lowered.values,
    Value: lambda world: world.lowered.values[world.value_number()],
    Options: lambda world: world.options._replace(fpmath_mode=world.one("strict", "strict", "bf16")),
    Call: Compiling.compiler_call,
    Schedule: Compiling.schedule,
    SharedPartitions: Compiling.known,
    EdgeLayouts: lambda world: EdgeLayouts(world.lowered, world.schedule()),
    Adding: lambda world: Adding(world.lowered, world.schedule(), EdgeLayouts(world.lowered, world.schedule())),
    Kernel: lambda world: world.drawn.choice(kernels()),
    FormBuilder: lambda world: FormBuilder(world.compiler_call()),
    DataGraph: lambda world: world.lowered.graph,
    ConvolutionGeometry: Compiling.geometry,
    SharedConstants: lambda world: world.lowered.shared,
    PartitionReport: Compiling.report,
    unfused._Partition: Compiling.report,
    unfused._PartTensor: lambda world: world.lowered.values[world.value_number()],
    NamedTensor: lambda world: world.lowered.values[world.value_number()],
    operators.Operators: Compiling.tensor,
    operators.Identity: Compiling.tensor,
    operators.OperatorGraph: lambda world: world.graph,
    OneGraphError: lambda world: world.one(ArgumentError, LibraryRuntimeError, UnsupportedError)("x"),
    np.dtype[np.generic]: lambda world: world.dtype.numpy,
    np.ufunc: lambda world: world.one(np.add, np.sqrt, np.maximum),
    type: lambda world: np.float32,
    bytes: lambda world: world.one(b"", b"x"),
    Any: Compiling.array,
}


@cache
def functions() -> dict[str, tuple[type | None, Callable[..., Any]]]:
    """The functions and methods of the rooms by their places, methods with their classes."""
    found: dict[str, tuple[type | None, Callable[..., Any]]] = {}
    for room in ROOMS:
        package = importlib.import_module(f"onegraph.{room}")
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if one.name.rpartition(".")[2] in OTHER:
                continue
            module = importlib.import_module(one.name)
            own = one.name.removeprefix("onegraph.")
            for name, made in sorted(vars(module).items()):
                if getattr(made, "__module__", "") != one.name or name in OF_CHANCE:
                    continue
                if inspect.isclass(made):
                    methods = [(key, method_of(method, str(module.__file__))) for key, method in vars(made).items()]
                    found.update((f"{own}.{name}.{key}", (made, one)) for key, one in methods if one is not None)
                elif inspect.isfunction(inspect.unwrap(made)):
                    found[f"{own}.{name}"] = None, inspect.unwrap(made)
    return found


def method_of(given: Any, file: str) -> Callable[..., Any] | None:
    """The function of a method or a property that a file defines; None for what is none, and for constructors."""
    for attribute in ("fget", "func"):
        given = getattr(given, attribute, given)
    is_own = isinstance(given, types.FunctionType) and given.__code__.co_filename == file
    return given if is_own and given.__name__ not in ("__init__", "__repr__", "__str__", "__hash__", "_hash") else None


def lines(name: str, number: int) -> list[str]:
    """What a function of the compiler makes of arguments of its types."""
    from compiler.test_recorded_steps import described

    kind, function = functions().get(name, (None, None))
    if function is None:
        return ["there is no such function"]
    try:
        world = Compiling(Random(f"{name} {number}"), function)
        own = [] if kind is None else [world.of(kind)]
        places, names = called_with(function, world, skipped=len(own))
    except Exception:
        return ["no arguments"]
    try:
        with np.errstate(all="ignore"):
            made = told(function(*own, *places, **names))
    except Exception as error:
        is_own = type(error).__module__.startswith("onegraph")
        made = f"{type(error).__name__}: {error if is_own else ''}"
    found, edit = [made], world.edit
    try:
        if edit.is_changed:
            found += [described(step, edit.values) for step in edit.steps()]
        found += [f"{len(edit.values)} {len(edit._spare)} {edit._refused} {sorted(edit.repeated)}"]
        found += [described(step, world.lowered.values) for step in world.added]
        if world._schedule is not None:
            found += [f"{one.inputs} {one.outputs} {one.note}" for one in world._schedule.steps]
            found += [f"{one.executor} {one.reasons}" for one in world._schedule.notes]
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        found.append(type(error).__name__)
    return found
