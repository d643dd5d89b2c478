"""Functions of the package that are called with arguments of the types that they state: materials of :mod:`draws`.

The words of an argument are those of its name, so that few draws go each way. What is recorded is what the function
returns, the ops that it adds, or the type of its error.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import math
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph._util.size_symbols import OpenSizes
from onegraph.gradient.reverse import active_ports
from onegraph.gradient.rules.table import COMPOSED, RULES
from onegraph.gradient.use import GradientUse
from onegraph.ir.op import LogicalTensor, Op
from onegraph.lowering.bodies import Emitted
from onegraph.lowering.emitter import Emitter
from onegraph.opset.bodies import BODIES, Expression
from onegraph.opset.dtypes import OF_NUMPY, DataType
from onegraph.opset.editions.registry import HOST, edition
from onegraph.opset.schema import Call, Schema, TensorType
from onegraph.opset.signature import Attribute, Port

from .draws import FLOATS, cases_by_kind, host_cases_by_kind, material, recorded
from .neighbours import attributes_beside
from .recorded import numbers_of
from .wider_graphs import wider

# Modules of pages and of tables that stand when they are imported.
OTHER = ("opset.errata", "opset.fusion_graphs", "opset.editions.legacy", "opset.editions.registry", "rules.table")
OTHER = (*OTHER, "opset.signature", "opset.newer", "opset.editions.changes", "host.types")
# Modules of files, and of pages that take long.
OTHER = (*OTHER, "onnx.load", "onnx.save", "onnx.deferred", "onnx.storage", "onnx.again", "builder.stubs", "op_site")
ROOMS = ("lowering", "opset", "transform", "inference", "training", "gradient", "frontends.onnx", "builder", "checker")
ROOMS = (*ROOMS, "judging")
OF_MACHINE = ("_isa_of_this_cpu",)  # what they return is another one on other machines
SHAPED = (DataType.f32,) * 6 + tuple(map(DataType, ("f16", "bf16", "s8", "u8", "s32", "s64", "boolean", "float64")))
# By the name of a parameter or a field.
WORDS_OF: dict[str, tuple[str, ...]] = {
    "kind": (
        *("Add", "Multiply", "MatMul", "ReLU", "ReduceSum", "ReduceMean", "ReduceMax", "Conv", "convolution", "int8"),
    ),
    "mode": ("nearest", "linear", "cubic", "bilinear"),
    "coordinates": (
        *("half_pixel", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
        *("asymmetric", "tf_crop_and_resize", "pytorch_nearest", "pytorch_nearest_exact"),
    ),
    "rounding": ("floor", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
    "auto_pad": ("none", "same_upper", "same_lower", "valid", "None"),
    "data_format": ("NXC", "NCX"),
    "weights_format": ("XIO", "OIX", "IOX"),
    "padding": ("zeros", "border", "reflection"),
    "coding": ("s8", "s4", "u4", "u8", "nf4"),
    "cell": ("lstm", "gru", "rnn"),
    "options": ("lstm", "gru", "rnn"),
    "direction": ("forward", "reverse", "bidirectional"),
    "policy": ("stretch", "not_larger", "not_smaller"),
    "reduction": ("add", "max", "min", "mul", "none"),
    "aggregate": ("sum", "min", "max", "average"),
    "equation": ("ab,bc->ac", "ab,cb", "aab->b", "abc,abd->abcd", "...a,a->...", "a,a->", "ab->ba", "ab,b->a"),
    "term": ("ab", "aab", "abc", "aba", "a", ""),
    "later": ("a", "ab", "", "bc"),
    "named": ("ab", "abc"),
    "remaining": ("a", "b", ""),
    "attrs": ("axis", "axes", "shape", "alpha", "data_format", "strides", "x"),
    "name": ("src", "weights", "bias", "axis", "shape", "data_format", "scale", "x", "alpha", "strides", "auto_pad"),
    "port": ("src", "weights", "bias", "dst", "diff_dst", "gamma"),
    "types": ("f32", "bf16", "T", "T1"),
    "variable": ("T", "T1", "T2", "f32"),
    "edition": ("onednn-3.13", "host", "legacy-1"),
    "source": ("onednn-3.13", "legacy-1"),
    "target": ("onednn-3.13", "onednn-3.2", "legacy-1"),
    "scalar": ("s64", "f32", "bool", "str"),
    "value": ("NXC", "nxc", "none", "None", "XIO", "x", "0,1", "1", "true"),
    "text": ("strides", "a `src` of f32", "Relu", "conv2d", "1x2", "", "true"),
    "word": ("reluu", "src", "3.2", "3.2-3.9", "f32?", "axis", "since 3.2"),
    "choices": ("src", "axis", "relu", "NXC"),
    "names": ("src", "weights", "bias", "axis", "x"),
    "option": ("in_shapes", "dt", "mb"),
    "order": ("ab", "ba", "x"),
}
SEVERAL = frozenset(["Sequence", "Iterable", "Collection", "list", "set", "frozenset", "tuple"])
MOST = 3  # records in records


class World:
    """What the arguments of one call have in common, as most calls want them to fit together.

    Args:
        drawn: draws.
        function: that is called.
    """

    types: dict[str, Any] | None = None  # that annotations name, and modules do not import

    def __init__(self, drawn: Random, function: Callable[..., Any]) -> None:
        self.drawn, self.module, self.name = drawn, function.__module__, ""
        self.kinds = kinds_of(function)
        self.graph = og.Graph(strict=False)
        self.emit = Emitter(self.graph)
        self.rank = drawn.choice((0, 1, 2, 2, 3, 3, 4, 4, 5))
        self.dims = tuple(drawn.choice((1, 2, 2, 3, 4, 6)) for _ in range(self.rank))
        self.dtype = drawn.choice(SHAPED)
        self.is_open = drawn.random() < 0.2
        self.sizes = OpenSizes([2, 3, 4]) if drawn.random() < 0.12 else None
        self.numbers = np.random.RandomState(drawn.randrange(2**31))
        self.values: list[Any] = []

    def flag(self, share: float = 0.5) -> bool:
        return self.drawn.random() < share

    def one(self, *choices: Any) -> Any:
        return self.drawn.choice(choices)

    # Numbers ---------------------------------------------------------------------------------------------------------

    def number(self) -> int:
        kind = self.drawn.random()
        if kind < 0.6:
            return self.drawn.choice((0, 1, 1, 2, 2, 3, 4, -1))
        return self.drawn.choice((self.rank, self.rank - 1, *self.dims, *self.dims, self.one(8, 16, 64, 257)))

    def word(self) -> str:
        """A word that an argument of this name may be."""
        return str(self.drawn.choice(WORDS_OF.get(self.name, ("x", "src", "f32", "NXC"))))

    def shape(self) -> tuple[int, ...]:
        """The shape of most values, or one that fits to it."""
        kind, dims = self.drawn.random(), self.dims
        if kind < 0.55:
            return dims
        if kind < 0.65:
            return tuple(dim if self.flag() else 1 for dim in dims)
        if kind < 0.75 and dims:
            return (self.drawn.choice(dims),)
        if kind < 0.82:
            return tuple(self.drawn.sample(dims, len(dims)))
        if kind < 0.87:
            return dims[1:]
        if kind < 0.9:
            return ()
        if kind < 0.93 and dims:
            return tuple(0 if place == self.drawn.randrange(len(dims)) else dim for place, dim in enumerate(dims))
        return tuple(self.drawn.choice((1, 2, 3)) for _ in range(self.drawn.choice((1, 2, 3, 4))))

    def dim(self, size: int) -> Any:
        """A size that may be unknown, or open."""
        if self.sizes is not None and self.flag(0.3):
            return self.drawn.choice(self.sizes.symbols) + self.drawn.choice((0, 0, 1))
        return None if self.is_open and self.flag(0.4) else size

    def some_dtype(self) -> DataType:
        return self.dtype if self.flag(0.85) else self.drawn.choice(SHAPED)

    def array(self) -> Any:
        dtype, shape = self.some_dtype(), self.shape()
        if self.flag(0.2):
            dtype, shape = DataType.s64, self.one((), (1,), (2,), (self.rank,))
        low, high = self.one((-3, 4), (0, 3), (1, 2), (0, 2))
        found = self.numbers.randint(low, high, shape)
        if dtype.numpy.kind == "u":
            found = np.abs(found)
        made = np.asarray(found).astype(dtype.numpy)
        if made.dtype.kind == "f" and made.size and self.flag(0.1):
            made = made.copy()
            made.reshape(-1)[:1] = self.one(np.nan, np.inf, -np.inf, 1e30)
        return made

    def anything(self) -> Any:
        number = self.one(1, 2, -1, 1.5, math.inf, -math.inf, math.nan, 2**63, np.float32(1), np.int64(3), True)
        tensors = [self.tensor() for _ in range(self.one(1, 2, 3, 4))]
        some = self.one(
            None, "x", b"x", (), [], {}, [1, 2], (1, 2.5), tuple(tensors), tensors, tensors[0], self.array()
        )
        return self.one(number, number, some, some, some, self.word())

    # Tensors ---------------------------------------------------------------------------------------------------------

    def tensor(self) -> LogicalTensor:
        if self.values and self.flag(0.8 if "patterns" in self.module else 0.15):
            return self.drawn.choice(self.values)
        dtype, shape = self.some_dtype(), self.shape()
        if self.flag(0.12):
            dtype, shape = DataType.s64, self.one((), (1,), (2,), (self.rank,))
        dims: Any = None if self.flag(0.02) else [self.dim(size) for size in shape]
        made = self.graph.input(f"x{len(self.graph.inputs)}", dtype, dims)
        for _ in range(self.one(0, 0, 0, 1, 1, 2)):
            made = self.behind(made)
        self.values.append(made)
        return made

    def behind(self, src: LogicalTensor) -> Any:
        """A result of an op that reads a tensor; the tensor itself if there is none."""
        rank = len(src.shape or ())
        order = self.drawn.sample(range(rank), rank)
        scale = {"scales": [0.5], "zps": [self.one(0, 0, 1)], "qtype": "per_tensor"}
        kind, attrs, more = self.one(
            ("StaticTranspose", {"order": order}, ()),
            ("StaticReshape", {"shape": self.one([-1], [*self.dims], [1, *self.dims]), "special_zero": False}, ()),
            ("TypeCast", {}, ()),
            ("Shape", {}, ()),
            ("Dequantize", scale, ()),
            ("Slice", {}, (np.array([self.one(0, 1)]), np.array([self.one(1, 2, 2**31)]), np.array([0]))),
            ("Gather", {"axis": self.one(0, 0, 1)}, (np.array(self.one([0], [0, 1], 0)),)),
            ("Add", {}, (np.ones((), np.float32),)),
            ("Multiply", {}, (np.full(self.one((), (1,)), 2, np.float32),)),
            ("SoftMax", {"axis": -1}, ()),
            ("ReduceMean", {"axes": [-1], "keep_dims": self.flag()}, ()),
            ("Cast", {"saturate": True}, ()),
        )
        words = next((name for name in ("onednn-3.13", HOST) if kind in edition(name).schemas), HOST)
        dtype = {"TypeCast": og.bf16, "Cast": self.one(og.s64, og.f32)}.get(kind)
        try:
            return self.emit.op(kind, [src, *more], attrs, edition=words, dtype=dtype)
        except Exception:  # there is no such op
            return src

    def value(self) -> Any:
        if self.values and self.flag(0.1):
            return self.drawn.choice(self.values)
        return self.array() if self.flag(0.3) else self.tensor()

    def op(self) -> Op:
        if not self.graph.ops:
            for _ in range(4):
                self.behind(self.tensor())
        return self.drawn.choice(self.graph.ops)  # none: there are no arguments

    def pattern(self) -> None:
        """Add a graph that a pattern takes, or one beside it."""
        from tests.lowering import test_near_patterns as cases

        cases.RNG = np.random.default_rng(0)
        graph, values = cases.built(self.drawn.choice([*cases.CASES]), with_patterns=False), dict[int, Any]()
        if self.flag(0.6):
            graph = wider(graph, self.drawn)
        for name, tensor in graph.inputs.items():
            values[tensor.id] = self.graph.input(name, tensor.dtype, tensor.shape)
        for op in graph.ops:
            given = [one if one is None else values.get(one.id, one.value) for one in op.inputs]
            dtype = op.outputs[0].dtype if op.kind in cases.TYPED else None
            results = self.emit.ends(op.kind, given, op.attrs, dtype=dtype, edition=op.edition)
            values.update((one.id, result) for one, result in zip(op.outputs, results, strict=False))
        self.values += [one for one in values.values() if isinstance(one, LogicalTensor)]

    # Uses of ops -----------------------------------------------------------------------------------------------------

    def call(self) -> Call:
        """A use of an op whose record reads the module, maybe with inputs of other types or none."""
        words, kind = self.drawn.choice(self.kinds)
        host = host_cases_by_kind().get(kind, ())
        cases = [*cases_by_kind().get(kind, ()), *(host if words == HOST else ())]
        schema = edition(words).schemas[kind]
        if not cases:
            return Call(schema, {}, [self.type_() for _ in schema.inputs])
        case = self.drawn.choice(cases)
        inputs = [None if array is None else recorded.type_of(array) for array in case.inputs]
        attrs = {name: value for name, value in case.attrs.items() if schema.has_attribute(name)}
        attrs = {name: tuple(value) if isinstance(value, list) else value for name, value in attrs.items()}
        if self.flag(0.4):
            attrs = dict(self.drawn.choice([*attributes_beside(schema, attrs, (1, 2, 3)), attrs]))
        for _ in range(self.one(0, 0, 1, 2)):
            place = self.drawn.randrange(len(inputs) + 1)
            if place == len(inputs):
                inputs = inputs[: self.one(1, 2, len(inputs))]
                continue
            was = inputs[place]
            dims = None if was is None else was.shape
            other = None if dims is None else tuple(self.one(dim, dim, None, 1, 2, 3) for dim in dims)
            shape = self.one(other, other, None, dims and dims[1:], dims and (1, *dims))
            inputs[place] = None if was is None or self.flag(0.1) else TensorType(was.dtype, shape)
        if inputs and inputs[0] is not None and inputs[0].shape is not None:
            self.resized(tuple(dim or 2 for dim in inputs[0].shape))
        return Call(schema, attrs, inputs, self.one(None, None, len(schema.outputs)))

    def resized(self, dims: tuple[int, ...]) -> None:
        """Let most values have this shape."""
        self.rank, self.dims = len(dims), dims

    def use(self) -> GradientUse:
        """An op whose gradient a function computes, for some of its inputs."""
        kinds = {f"{'host ' if words == HOST else ''}{kind}" for words, kind in self.kinds}
        cases = [one for one in recorded.DIFFERENTIATED if f"{'host ' if one[1] == HOST else ''}{one[0].kind}" in kinds]
        case, words = self.drawn.choice(cases)
        ends = []
        for array in case.inputs:
            dtype = None if array is None else OF_NUMPY[array.dtype]
            if dtype is None or dtype not in FLOATS:
                ends.append(None if array is None else self.graph.constant(array, dtype=dtype))
            else:
                dims = [self.dim(size) for size in array.shape]
                ends.append(self.graph.input(f"x{len(self.graph.inputs)}", dtype, dims))
        given = {key: one for key in ("dtype", "outputs") if (one := getattr(case, key, None))}
        schema, attrs = edition(words).schemas[case.kind], case.attrs
        if self.flag(0.3):
            attrs = self.drawn.choice([*attributes_beside(schema, attrs, (1, 2)), attrs])
        self.graph.op(case.kind, ends, attrs, edition=words, **given)
        op = self.graph.ops[-1]
        self.dtype = op.outputs[0].dtype
        self.resized(tuple(dim or 2 for dim in op.outputs[0].shape or ()))
        active = {end.id for end in op.inputs if end is not None and end.dtype in FLOATS and self.flag(0.9)}
        return GradientUse(self.emit, op, active_ports(op, active))

    def type_(self) -> Any:
        value = self.array() if self.flag(0.2) else None
        shape = tuple(self.dim(size) for size in self.shape()) if value is None else value.shape
        dtype = self.some_dtype() if value is None else DataType.of(value.dtype)
        return TensorType(dtype, None if value is None and self.flag(0.1) else shape, value)

    def schema(self) -> Schema:
        words, kind = self.drawn.choice(self.kinds)
        return edition(words).schemas[kind]

    def part_of_schema(self, kind: Any) -> Any:
        found: list[Any] = []
        while not found:
            schema = self.schema()
            found = [*schema.attributes] if kind is Attribute else [*schema.inputs, *schema.outputs]
        return self.drawn.choice(found)

    # By annotation ---------------------------------------------------------------------------------------------------

    def of(self, hint: Any, depth: int = 0) -> Any:
        """A value of a type."""
        maker = MAKERS.get(hint)
        if maker is not None:
            return maker(self)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self.union(arguments, depth)
        if origin is typing.Annotated:
            return self.of(arguments[0], depth)
        name = getattr(origin, "__name__", "")
        if origin is np.ndarray:
            return self.array()
        if name in SEVERAL:
            return self.several(origin, arguments, depth)
        if name in ("Mapping", "dict"):
            return {self.of(arguments[0], depth): self.of(arguments[1], depth) for _ in range(self.one(0, 1, 1, 2))}
        if inspect.isclass(hint) and issubclass(hint, enum.Enum) and len([*hint]):
            return self.drawn.choice([*hint])
        return self.record(hint, depth)

    def union(self, arguments: Any, depth: int) -> Any:
        if {*arguments} >= {LogicalTensor} and any(typing.get_origin(one) is np.ndarray for one in arguments):
            return None if type(None) in arguments and self.flag(0.3) else self.value()
        rest = [one for one in arguments if one is not type(None)]
        if len(rest) < len(arguments) and self.flag(0.3):
            return None
        return self.of(self.drawn.choice(rest), depth)

    def several(self, origin: Any, arguments: Any, depth: int) -> Any:
        if arguments[1:] and arguments[-1] is not ...:
            return tuple(self.of(one, depth) for one in arguments)
        if arguments and arguments[0] is int and self.flag(0.75):
            ones = [self.one(0, 1, 1, 2) for _ in range(self.rank)]
            order, few = self.drawn.sample(range(self.rank), self.rank), max(self.rank - 2, 0)
            found = self.one(ones, ones[:few], ones[:few], order, order[:1], order[:2], [*self.dims], [*self.shape()])
        else:
            count = self.one(0, 1, 2, 2, 3, self.rank)
            found = [self.of(arguments[0] if arguments else int, depth) for _ in range(count)]
        is_tuple = origin is tuple or (origin not in (list, set, frozenset) and self.flag())
        return origin(found) if origin in (set, frozenset) else tuple(found) if is_tuple else found

    def record(self, kind: Any, depth: int) -> Any:
        """A record, of fields by their types."""
        if depth > MOST or not inspect.isclass(kind) or not kind.__module__.startswith("onegraph"):
            raise UnknownTypeError(str(kind))
        hints = typing.get_type_hints(kind, localns=self.types)
        if not (issubclass(kind, tuple) or hasattr(kind, "__dataclass_fields__")):
            raise UnknownTypeError(str(kind))
        fields_of = kind._fields if issubclass(kind, tuple) else [*kind.__dataclass_fields__]
        defaults = getattr(kind, "_field_defaults", None)
        if defaults is None:
            fields = kind.__dataclass_fields__
            defaults = {name: one.default for name, one in fields.items() if "MISSING" not in str(type(one.default))}
        left = {name for name in fields_of if name in defaults and self.flag(0.4)}
        return kind(**{name: self.named(name, hints[name], depth + 1) for name in fields_of if name not in left})

    def named(self, name: str, hint: Any, depth: int = 0) -> Any:
        """A value of a type for an argument or a field of a name."""
        before, self.name = self.name, name
        made = self.of(hint, depth)
        self.name = before
        return made


class UnknownTypeError(Exception):
    """A type that no argument is made of."""


MAKERS: dict[Any, Callable[[World], Any]] = {
    int: World.number,
    float: lambda world: world.one(0.0, 0.0, 1.0, 1.0, 0.5, 2.0, -1.0, 1e-5, math.inf, -math.inf),
    bool: World.flag,
    str: World.word,
    object: World.anything,
    type(None): lambda world: None,
    DataType: World.some_dtype,
    LogicalTensor: World.tensor,
    Op: World.op,
    Emitter: lambda world: world.emit,
    Call: World.call,
    Schema: World.schema,
    GradientUse: World.use,
    Expression: lambda world: Emitted(world.emit, world.value()),
    TensorType: World.type_,
    Attribute: lambda world: world.part_of_schema(Attribute),
    Port: lambda world: world.part_of_schema(Port),
    np.ndarray: World.array,
}


# The ops that functions of modules read which no record of an op names.
READ_BY = {"convolution_geometry": "Conv", "likely_layouts": "Conv", "opset.window": "Pool", "pooling": "Pool"}


@cache
def functions_of_kinds() -> dict[tuple[str, str], list[Any]]:
    """The functions of the records of each op: those of its shapes and rules, its body and its gradients."""
    found: dict[tuple[str, str], list[Any]] = {}
    for words in ("onednn-3.13", HOST, "legacy-1"):
        for kind, schema in edition(words).schemas.items():
            name = f"host {kind}" if words == HOST else kind
            rules = [rule.function for key in (name, kind) for rule in RULES.get(key, ())]
            parts = [schema.shape, *schema.rules, *schema.shape_rules, schema.implied_outputs, *rules]
            parts += [COMPOSED.get(name), BODIES.get(name), BODIES.get(kind)]
            found[words, kind] = [inspect.unwrap(one) for one in parts if one is not None]
    return found


@cache
def kinds_of(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """The ops whose records have a function, or one of its module; all ops if there are none."""
    table, own, module = functions_of_kinds(), inspect.unwrap(function), function.__module__
    found = [key for key, parts in table.items() if own in parts]
    found = found or [key for key, parts in table.items() if module in {part.__module__ for part in parts}]
    word = next((word for name, word in READ_BY.items() if module.endswith(name)), "")
    return found or [key for key in table if word in key[1]]


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """The functions of the rooms, by their places."""
    found = {}
    for room in ROOMS:
        package = importlib.import_module(f"onegraph.{room}")
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(one.name)
            if any(other in one.name for other in OTHER):
                continue
            for name, function in sorted(vars(module).items()):
                is_own = inspect.isfunction(function) and function.__module__ == module.__name__
                if is_own and name not in OF_MACHINE and can_call(function):
                    found[f"{one.name.removeprefix('onegraph.')}.{name}"] = function
    return found


def can_call(function: Callable[..., Any]) -> bool:
    """Whether there are arguments of all types of a function, which enters nothing into a table."""
    if "Callable" in str(function.__annotations__.get("return", "")):
        return False
    try:
        called_with(function, World(Random(0), function))
    except (UnknownTypeError, KeyError, NameError):
        return False
    except Exception:
        return True
    return True


def called_with(function: Callable[..., Any], world: World, skipped: int = 0) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a function, without the first ones if some are skipped."""
    hints, places, names = typing.get_type_hints(function, localns=world.types), [], {}
    for name, parameter in [*inspect.signature(function).parameters.items()][skipped:]:
        if parameter.default is not parameter.empty and world.flag(0.35):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            places += [world.named(name, hints[name]) for _ in range(world.one(0, 1, 2, 3))]
        elif parameter.kind is parameter.VAR_KEYWORD:
            continue
        elif parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty:
            names[name] = world.named(name, hints[name])
        else:
            places.append(world.named(name, hints[name]))
    return places, names


def told(value: Any, depth: int = 0) -> str:
    """A text of a result."""
    if isinstance(value, LogicalTensor):
        return f"<{value.dtype} {value.shape} {value.strides}>"
    if isinstance(value, np.ndarray):
        return numbers_of(value) if value.dtype.kind not in "OSUV" else f"{value.dtype} {value.shape}"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(told(one, depth) for one in value))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{told(key, depth)}: {told(one, depth)}' for key, one in value.items())}}}"
    if isinstance(value, Emitted):
        return told(value.value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(told(one, depth) for one in value)})"
    if isinstance(value, Iterator):
        return told([*value], depth)
    if isinstance(value, og.Graph):
        return "\n".join(recorded.lines_of(value))
    if value is None or isinstance(value, (str, int, np.generic, enum.Enum)):
        return str(value)
    fields = getattr(value, "__dataclass_fields__", None)
    if fields and depth < MOST:
        return f"{type(value).__name__}{told([getattr(value, name) for name in fields], depth + 1)}"
    return type(value).__name__


@material(functions)
def called(name: str, number: int) -> list[str]:
    """What a function makes of arguments of its types."""
    return of_call(name, Random(f"{name} {number}"), World)[0]


def of_call(name: str, drawn: Random, kind: type[World]) -> tuple[list[str], World | None]:
    """What a function makes of arguments of its types, and what these have in common."""
    module, _, own = f"onegraph.{name}".rpartition(".")
    function = getattr(importlib.import_module(module), own, None)
    if function is None:
        return ["there is no such function"], None
    world = kind(drawn, function)
    try:
        if "patterns" in module:
            world.pattern()
        places, names = called_with(function, world)
    except Exception:
        return ["no arguments"], None
    known = {op.id for op in world.graph.ops}
    try:
        with np.errstate(all="ignore"):
            made = told(function(*places, **names))
    except Exception as error:
        is_own = type(error).__module__.startswith("onegraph")
        made = f"{type(error).__name__}: {error if is_own else ''}"
    graph = world.graph
    read = {end.id for op in graph.ops for end in op.inputs if end is not None}
    for op in graph.ops:
        for end in op.outputs:
            if end.id not in read and op.id not in known:
                graph.output(f"y{len(graph.outputs)}", end)
    return [made, *recorded.lines_of(graph)], world
