"""Stand-ins for PyTorch, as far as the front end asks: tensors without kernels, ops that are names, and graphs.

A tensor has memory only where a test gives it some. An op that is called states a result and computes nothing.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
from ml_dtypes import bfloat16

from tests.helpers import sympy_stand_in

# Data types by their rank in promotions: a kind is bool, integer, floating-point or complex.
KINDS = (
    ("bool",),
    ("uint8", "int8", "int16", "int32", "int64"),
    ("bfloat16", "float16", "float32", "float64"),
    ("complex64", "complex128"),
)
OF_NUMBERS: dict[Any, str] = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
DEPTHS = {name: (kind, place) for kind, names in enumerate(KINDS) for place, name in enumerate(names)}


class Dtype(str):
    """A data type, of which there is one object for each name."""

    made: dict[str, Dtype] = {}  # noqa: RUF012

    def __new__(cls, name: str) -> Dtype:
        if name not in cls.made:
            cls.made[name] = super().__new__(cls, name)
        return cls.made[name]

    def __repr__(self) -> str:
        return f"torch.{self!s}"

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return str.__str__(self)

    @property
    def is_floating_point(self) -> bool:
        """Whether the numbers are floats."""
        return self in KINDS[2]

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return int(self.numpy.itemsize)

    @property
    def numpy(self) -> Any:
        """The data type in numpy."""
        return np.dtype(bfloat16 if self == "bfloat16" else str(self) if self in DEPTHS else "uint8")


class Named:
    """A layout, a device or an order of memory, by its text."""

    def __init__(self, text: str) -> None:
        self.text, self.type = text, text.partition(":")[0]

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


FLOAT = Dtype("float32")
STRIDED = Named("torch.strided")
ROWS, LAST, LAST_3D = (Named(f"torch.{name}") for name in ("contiguous_format", "channels_last", "channels_last_3d"))
ORDERS = {LAST: (0, 2, 3, 1), LAST_3D: (0, 2, 3, 4, 1)}


class SymInt:
    """A size that changes from call to call.

    Args:
        expr: what PyTorch states.
        hint: the size now.
    """

    def __init__(self, expr: Any, hint: Any) -> None:
        expr = sympy_stand_in.parsed(expr) if type(expr) is str else expr
        self.node = SimpleNamespace(expr=expr, hint=hint, has_hint=lambda: hint is not None)

    def __repr__(self) -> str:
        return str(self.node.expr)

    def __eq__(self, other: object) -> bool:
        return (self.node.hint == other) if not isinstance(other, SymInt) else self.node.hint == other.node.hint

    def __hash__(self) -> int:
        return hash(self.node.hint)

    def __mul__(self, other: Any) -> SymInt:
        return SymInt(self.node.expr * expr_of(other), self.node.hint * hint_of(other))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> SymInt:
        return SymInt(self.node.expr + expr_of(other), self.node.hint + hint_of(other))

    __radd__ = __add__

    def __floordiv__(self, other: Any) -> SymInt:
        return SymInt(self.node.expr // expr_of(other), self.node.hint // hint_of(other))

    def __int__(self) -> int:
        return int(self.node.hint)


OF_NUMBERS[SymInt] = "int64"


class SymFloat(SymInt):
    """A float that changes from call to call."""


class SymBool(SymInt):
    """A condition that changes from call to call."""


def expr_of(size: Any) -> Any:
    """What PyTorch states of a size."""
    return size.node.expr if isinstance(size, SymInt) else size


def hint_of(size: Any) -> Any:
    """The number that a size is now."""
    return size.node.hint if isinstance(size, SymInt) else size


def strides_of(shape: Sequence[Any], order: Sequence[int] | None = None) -> tuple[Any, ...]:
    """The strides of elements that lie behind each other, in an order of the axes."""
    steps, step = [0] * len(shape), 1
    for axis in reversed(order or range(len(shape))):
        steps[axis] = step
        step = step * (shape[axis] if hint_of(shape[axis]) else 1)
    return tuple(steps)


class Tensor:
    """A tensor, without memory unless an array is given."""

    def __init__(
        self, dtype: Any, shape: Sequence[Any], strides: Sequence[Any] | None = None, device: str = "cpu",
        array: Any = None,
    ) -> None:  # fmt: skip
        self.dtype, self.shape, self.array = dtype, tuple(shape), array
        self._strides = strides_of(self.shape) if strides is None else tuple(strides)
        self.device, self.layout, self.requires_grad = Named(device), STRIDED, False
        self.is_quantized, self._version = False, 0

    def __repr__(self) -> str:
        device = "" if self.device.type == "cpu" else f" {self.device}"
        return f"{self.dtype} {list(self.shape)} {list(self._strides)}{device}"

    def stride(self, axis: int | None = None) -> Any:
        """The strides, or that of one axis."""
        return self._strides if axis is None else self._strides[axis]

    def dim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def is_complex(self) -> bool:
        """Whether the numbers are complex."""
        return self.dtype in KINDS[-1]

    def is_floating_point(self) -> bool:
        """Whether the numbers are floats."""
        return bool(self.dtype.is_floating_point)

    def resolve_conj(self) -> Tensor:
        """The tensor."""
        return self

    resolve_neg = requires_grad_ = resolve_conj

    def detach(self) -> Tensor:
        """Another tensor with the memory, if there is some."""
        return self if self.array is None else copy(self)

    def is_conj(self) -> bool:
        """No tensor has a flag instead of numbers."""
        return False

    is_neg = is_inference = is_pinned = is_conj

    def numel(self) -> Any:
        """The number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.numel() * self.element_size()

    def like(self, shape: Sequence[Any], strides: Sequence[Any] | None = None, dtype: Any = None) -> Tensor:
        """A tensor on the same device."""
        return Tensor(dtype or self.dtype, shape, strides, self.device.text)

    def is_contiguous(self, memory_format: Any = ROWS) -> bool:
        """Whether elements lie behind each other in an order; axes of one element say nothing."""
        order, step = ORDERS.get(memory_format, tuple(range(self.dim()))), 1
        if len(order) != self.dim():
            return False
        for axis in reversed(order):
            if hint_of(self.shape[axis]) != 1:
                if hint_of(self._strides[axis]) != hint_of(step):
                    return False
                step = step * self.shape[axis]
        return True

    def contiguous(self, memory_format: Any = ROWS) -> Tensor:
        """The tensor in an order."""
        if self.is_contiguous(memory_format):
            return self
        made = self.like(self.shape, strides_of(self.shape, ORDERS.get(memory_format)))
        made.array = None if self.array is None else np.ascontiguousarray(self.numpy())
        return made

    def clone(self, memory_format: Any = None) -> Tensor:
        """A copy in its own order."""
        return empty_like(self, memory_format=memory_format)

    def new_empty_strided(self, shape: Sequence[Any], strides: Sequence[Any]) -> Tensor:
        """Another tensor."""
        return self.like(shape, strides)

    def new_empty(self, shape: Sequence[Any]) -> Tensor:
        """Another tensor, of rows."""
        return self.like(shape)

    def to(self, dtype: Any) -> Tensor:
        """The numbers in another data type."""
        return self.like(self.shape, self._strides, dtype)

    def unsqueeze(self, axis: int) -> Tensor:
        """With another axis of one element."""
        axis %= self.dim() + 1
        step = self.shape[axis] * self._strides[axis] if axis < self.dim() else 1
        shape = (*self.shape[:axis], 1, *self.shape[axis:])
        return self.like(shape, (*self._strides[:axis], step, *self._strides[axis:]))

    def squeeze(self, axis: int) -> Tensor:
        """Without an axis."""
        return self.like(*[(*ends[:axis], *ends[axis + 1 :]) for ends in (self.shape, self._strides)])

    def view(self, shape: Any) -> Tensor:
        """The tensor with other axes, or of the bytes of other numbers.

        Raises:
            RuntimeError: the elements do not lie so.
        """
        if isinstance(shape, Dtype):
            made = self.like(self.shape, self._strides, shape)
            made.array = None if self.array is None else self.array.view(shape.numpy)
            return made
        rest = math.prod(hint_of(dim) for dim in shape if hint_of(dim) != -1)
        wanted = [hint_of(self.numel()) // max(rest, 1) if hint_of(dim) == -1 else dim for dim in shape]
        steps, left = [0] * len(wanted), [*range(self.dim())]
        at, step, room = len(wanted) - 1, 1, 1
        while left:
            axis = left.pop()
            if hint_of(self.shape[axis]) == 1:
                continue
            joined, step = hint_of(self.shape[axis]), hint_of(self._strides[axis])
            while left and hint_of(self._strides[left[-1]]) == joined * step:
                joined *= hint_of(self.shape[left.pop()])
            room = 1
            while at >= 0 and (room < joined or hint_of(wanted[at]) == 1):
                steps[at], room = step * room, room * hint_of(wanted[at])
                at -= 1
            if room != joined:
                raise RuntimeError("view")
        for place in range(at + 1):
            steps[place] = step * room
        return self.like(wanted, steps)

    def permute(self, order: Sequence[int]) -> Tensor:
        """The axes in another order."""
        made = self.like(*[[ends[axis] for axis in order] for ends in (self.shape, self._strides)])
        made.array = self.array
        return made

    def zero_(self) -> Tensor:
        """The tensor."""
        return self

    def size(self, axis: int | None = None) -> Any:
        """The shape, or the size of an axis."""
        return self.shape if axis is None else self.shape[axis]

    def numpy(self) -> Any:
        """The elements as an array; contents that follow from the form where no memory was given."""
        if self.array is None:
            self.array = drawn(
                str(self.dtype), [sum((d - 1) * s for d, s in zip(self.shape, self._strides, strict=True)) + 1]
            )
        steps = [step * self.array.itemsize for step in self._strides]
        return np.lib.stride_tricks.as_strided(self.array, self.shape, steps)

    def data_ptr(self) -> int:
        """The address of the memory."""
        self.numpy()
        return int(self.array.ctypes.data)

    def untyped_storage(self) -> Storage:
        """The memory."""
        self.numpy()
        return Storage(self.array)

    def storage_offset(self) -> int:
        """Where in the memory the tensor begins."""
        return 0

    def set_(self, memory: Storage, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
        """The tensor on other memory."""
        self.shape, self._strides, self.array = tuple(shape), tuple(strides), memory.array[offset:]
        return self


class Storage:
    """The memory of tensors."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def nbytes(self) -> int:
        """Its size."""
        return int(self.array.nbytes)

    def data_ptr(self) -> int:
        """Its address."""
        return int(self.array.ctypes.data)

    def clone(self) -> Storage:
        """A copy."""
        return Storage(self.array.copy())


def drawn(dtype: str, shape: Sequence[int]) -> Any:
    """An array with contents that follow from its data type and its shape."""
    rng = np.random.default_rng(crc32(f"{dtype}{shape}".encode()))
    numpy = np.dtype(bfloat16 if dtype == "bfloat16" else dtype)
    if numpy.kind in "biu":
        return rng.integers(0, 2 if numpy.kind == "b" else 8, shape).astype(numpy)
    return rng.standard_normal(shape).astype(np.float32).astype(numpy)


def from_numpy(array: Any) -> Tensor:
    """A tensor on the memory of an array."""
    steps = [step // array.itemsize for step in array.strides]
    return Tensor(Dtype(str(array.dtype)), array.shape, steps, array=array)


def empty(shape: Any, dtype: Any = FLOAT, device: Any = "cpu", memory_format: Any = ROWS) -> Tensor:
    """A tensor in an order."""
    shape = (shape,) if type(shape) is int else shape
    return Tensor(dtype, shape, strides_of(shape, ORDERS.get(memory_format)), str(device))


def empty_strided(shape: Sequence[Any], strides: Sequence[Any], *, dtype: Any = FLOAT, device: Any = "cpu") -> Tensor:
    """A tensor with these strides."""
    return Tensor(dtype, shape, strides, "cpu" if str(device) == "meta" else str(device))


def empty_like(like: Tensor, *, memory_format: Any = None, dtype: Any = None) -> Tensor:
    """A tensor in the order of another one, or in a given order."""
    if memory_format is None:
        order = sorted(range(like.dim()), key=lambda axis: -hint_of(like.stride(axis)))
        return like.like(like.shape, strides_of(like.shape, order), dtype)
    return like.like(like.shape, strides_of(like.shape, ORDERS.get(memory_format)), dtype)


def on_elements(*tensors: Tensor) -> Tensor:
    """The result of an op on elements, with the axes in the order of the strides of the first tensor that has any."""
    shape = np.broadcast_shapes(*[tuple(map(hint_of, one.shape)) for one in tensors])
    keys = []
    for axis in range(len(shape)):
        places = [(axis - len(shape) + one.dim(), one) for one in tensors]
        keys.append([-hint_of(one.stride(at)) for at, one in places if at >= 0 and one.shape[at] != 1])
    order = sorted(range(len(shape)), key=lambda axis: (keys[axis] or [0], axis))
    return tensors[0].like(shape, strides_of(shape, order))


def suggest_memory_format(like: Tensor) -> Named:
    """The order in which a tensor lies."""
    order = {4: LAST, 5: LAST_3D}.get(like.dim(), ROWS)
    return order if not like.is_contiguous() and like.is_contiguous(order) else ROWS


def view_as_real(tensor: Tensor) -> Tensor:
    """A complex tensor with an axis for both parts."""
    dtype = Dtype({"complex64": "float32", "complex128": "float64"}[tensor.dtype])
    return Tensor(dtype, (*tensor.shape, 2), (*[2 * step for step in tensor.stride()], 1))


def result_type(*pair: Any) -> Dtype:
    """The data type of two tensors or numbers in one op: tensors with axes come before those without, and numbers."""
    ranks = [0 if not hasattr(one, "dtype") else 2 if one.dim() else 1 for one in pair]
    names = [one.dtype if hasattr(one, "dtype") else OF_NUMBERS[type(one)] for one in pair]
    if ranks[0] != ranks[1]:
        first, second = sorted((0, 1), key=lambda place: -ranks[place])
        kinds = [DEPTHS[names[place]][0] for place in (first, second)]
        if kinds[0] >= kinds[1]:
            return Dtype(names[first])
        if ranks[second] == 0 and kinds[1] == 3 and names[first] == "float64":
            return Dtype("complex128")
        return Dtype(names[second])
    return promote_types(*names)


def promote_types(*names: Any) -> Dtype:
    """The data type that holds those of two tensors."""
    if set(names) in ({"bfloat16", "float16"},):
        return Dtype("float32")
    if set(names) == {"uint8", "int8"}:
        return Dtype("int16")
    if {*names} == {"complex64", "float64"}:
        return Dtype("complex128")
    return Dtype(max(names, key=lambda name: DEPTHS[name]))


# --- ops


class Packet:
    """An op with all of its overloads."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("__"):
            raise AttributeError(overload)
        made = Target(f"{self.name}.{overload}", self)
        setattr(self, overload, made)
        return made

    def __repr__(self) -> str:
        return self.name


class Schema(SimpleNamespace):
    """What an op takes and returns."""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(one.name for one in self.arguments)})"


class Target:
    """An overload of an op."""

    traits: Mapping[str, Any] = {}  # by name: arguments, tags, whether it writes or returns a view
    arguments: Mapping[str, Any] = {}  # of those of which nothing else is known
    decoded: Callable[[Any], Any]

    def __init__(self, name: str, packet: Any = None) -> None:
        known = self.traits.get(name, {})
        self._name, self.overloadpacket, self._overloadpacket = name, packet, packet
        self._overloadname = name.rpartition(".")[2]
        self.is_view = known.get("view", False)
        self.tags = frozenset(known.get("tags", ()))
        arguments = known.get("arguments")
        if arguments is None:
            arguments = [(one[0], "", *one[1:]) for one in self.arguments.get(name, ())]
        self._schema = Schema(
            name="::".join(name.split(".")[:2]),
            is_mutable=known.get("mutable", False),
            returns=[SimpleNamespace(alias_info=None)] * known.get("returns", 1),
            arguments=[
                SimpleNamespace(
                    name=one, type=kind, default_value=type(self).decoded(default[0]) if default else None,
                    has_default_value=lambda default=default: bool(default),
                )
                for one, kind, *default in arguments
            ]
        )  # fmt: skip

    def __str__(self) -> str:
        return self._name

    __repr__ = __str__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if NodeList.current is None:
            return f"{self}{args}{kwargs}"
        stated = STATED.get(".".join(self._name.split(".")[:2]))
        if stated is not None:
            return stated(*args, **kwargs)
        like = bound(NodeList.current.meta.get("val"))
        sources = [one for one in args if isinstance(one, Tensor)]
        if isinstance(like, Tensor) and sources and sources[0].shape == like.shape:
            return like.like(like.shape, on_elements(*[one for one in sources if one.shape == like.shape]).stride())
        return like


BINDINGS: dict[str, int] = {}  # the symbols of sizes, for the arguments of a module that runs
FUNCTIONS: Mapping[str, Any] = {
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod, "Max": max, "Min": min,
}  # fmt: skip


def bound(like: Any) -> Any:
    """What is stated, for the arguments of the module that runs."""
    if isinstance(like, SymInt):
        names = {str(one): BINDINGS.get(str(one)) for one in like.node.expr.free_symbols}
        return like if None in names.values() else int(eval(str(like), {**FUNCTIONS, **names}))
    if isinstance(like, Tensor) and BINDINGS:
        return like.like([*map(bound, like.shape)], [*map(bound, like.stride())])
    return type(like)(map(bound, like)) if type(like) in (list, tuple) else like


class Higher(Target):
    """An op whose arguments are graphs."""


def _cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    shape = [*tensors[0].shape]
    shape[axis] = sum(one.shape[axis] for one in tensors)
    return tensors[0].like(shape)


# What ops return that the front end calls, by what it gives.
STATED: Mapping[str, Callable[..., Any]] = {
    "aten.add": lambda first, second, **_: on_elements(*[one for one in (first, second) if isinstance(one, Tensor)]),
    "aten.cat": _cat,
    "aten.unsqueeze": lambda source, axis: source.unsqueeze(axis),
    "aten.new_zeros": lambda source, shape, **_: source.like(shape),
    "aten.index": lambda source, places: source.like(
        np.broadcast_shapes(*[one.shape for one in places if one is not None])
        + tuple(dim for dim, one in zip(source.shape, [*places, *[None] * 9], strict=False) if one is None)
    ),
    "aten.clone": lambda source, memory_format=None: empty_like(source, memory_format=memory_format),
}


class Ops:
    """The ops of PyTorch, by the names of their libraries.

    Args:
        missing: the names in ``aten`` that PyTorch lacks.
    """

    def __init__(self, missing: Iterable[str]) -> None:
        self.missing = frozenset(missing)

    def __getattr__(self, library: str) -> Any:
        if library.startswith("__"):
            raise AttributeError(library)
        made = Library(library, self.missing if library == "aten" else frozenset())
        setattr(self, library, made)
        return made

    def target(self, name: str) -> Target:
        """An overload by its name."""
        library, op, *overload = name.split(".")
        found: Target = getattr(getattr(getattr(self, library), op), ".".join(overload) or "default")
        return found


class Library:
    """The ops of one library."""

    def __init__(self, name: str, missing: frozenset[str]) -> None:
        self._name, self._missing = name, missing

    def __getattr__(self, op: str) -> Any:
        if op.startswith("__") or op in self._missing:
            raise AttributeError(op)
        made = Packet(f"{self._name}.{op}")
        setattr(self, op, made)
        return made


class Defined:
    """A library of ops of the front end, and what it defined."""

    made: list[Any] = []  # noqa: RUF012 - of all libraries

    def __init__(self, *names: str) -> None:
        self.made.append(names)

    def define(self, text: str, **options: Any) -> None:
        """Keep the text of an op."""
        self.made.append((text, options))

    def impl(self, name: Any, function: Any, key: str) -> None:
        """Keep a function of an op."""
        self.made.append((name, function, key))


# --- graphs


class NodeList(list[Any]):
    """The nodes of a graph; whoever goes through them sees those that were there at the beginning."""

    current: Any = None  # the node that is looked at

    def __iter__(self) -> Iterator[Any]:
        for node in [*super().__iter__()]:
            NodeList.current = node
            yield node


class Node:
    """A node of a graph."""

    def __init__(self, op: str, name: str, target: Any = None, args: Sequence[Any] = (), kwargs: Any = None) -> None:
        self.op, self.name, self.target = op, name, target
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self.graph: Any = None
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self.args, self.kwargs = tuple(args), {**(kwargs or {})}

    def __repr__(self) -> str:
        return self.name

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by place."""
        return self._args

    @args.setter
    def args(self, args: Sequence[Any]) -> None:
        self._change(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Any]) -> None:
        self._change(self._args, {**kwargs})

    def _change(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for source in self.all_input_nodes:
            source.users.pop(self, None)
        self._args, self._kwargs = args, kwargs
        for source in self.all_input_nodes:
            source.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it reads, each once."""
        return [*dict.fromkeys(nodes_in((self._args, self._kwargs)))]

    def replace_all_uses_with(self, other: Any, wanted: Callable[[Any], bool] = lambda user: True) -> None:
        """Have those who read this node read another one."""
        for user in [*self.users]:
            if wanted(user):
                user.replace_input_with(self, other)

    def replace_input_with(self, old: Node, new: Any) -> None:
        """Read another node."""
        self._change(*[map_arg(one, lambda node: new if node is old else node) for one in (self._args, self._kwargs)])


def nodes_in(value: Any) -> Iterator[Node]:
    """The nodes in an argument."""
    if type(value) is Node:
        yield value
    elif type(value) in (list, tuple):
        for one in value:
            yield from nodes_in(one)
    elif type(value) is dict:
        yield from nodes_in([*value.values()])


def map_arg(value: Any, change: Any) -> Any:
    """An argument with something else in the place of each node."""
    if type(value) in (list, tuple):
        return type(value)(map_arg(one, change) for one in value)
    if type(value) is dict:
        return {key: map_arg(one, change) for key, one in value.items()}
    return change(value) if type(value) is Node else value


class Graph:
    """A graph of nodes."""

    def __init__(self) -> None:
        self.nodes, self.owning_module = NodeList(), None
        self._at: int | None = None
        self._names = Counter[str]()

    def add(self, node: Node) -> Node:
        """Insert a node where the graph is changed, by default at the end."""
        node.graph = self
        if self._at is None:
            self.nodes.append(node)
        else:
            self.nodes.insert(self._at, node)
            self._at += 1
        return node

    def _named(self, text: str) -> str:
        self._names[text] += 1
        return f"{text}.{self._names[text]}"

    def call_function(self, target: Any, args: Any = (), kwargs: Any = None) -> Node:
        """A call."""
        name = target._name if isinstance(target, Target) else getattr(target, "__name__", str(target))
        return self.add(Node("call_function", self._named(name), target, args, kwargs))

    def get_attr(self, name: str) -> Node:
        """An attribute of the module."""
        return self.add(Node("get_attr", self._named(name), name))

    def placeholder(self, name: str) -> Node:
        """An input."""
        return self.add(Node("placeholder", name, name))

    def output(self, result: Any) -> Node:
        """The end."""
        return self.add(Node("output", "output", "output", (result,)))

    @contextmanager
    def _inserting(self, node: Node, more: int) -> Iterator[None]:
        before, self._at = self._at, [one is node for one in list.__iter__(self.nodes)].index(True) + more
        try:
            yield
        finally:
            self._at = before

    def inserting_before(self, node: Node) -> Any:
        """Insert in front of a node."""
        return self._inserting(node, 0)

    def inserting_after(self, node: Node) -> Any:
        """Insert behind a node."""
        return self._inserting(node, 1)

    def erase_node(self, node: Node) -> None:
        """Take a node away that nobody reads."""
        assert not node.users, node
        node.args, node.kwargs = (map_arg(one, lambda _: None) for one in (node.args, node.kwargs))
        del self.nodes[[one is node for one in list.__iter__(self.nodes)].index(True)]

    def node_copy(self, node: Node, change: Callable[[Node], Any] = lambda node: node) -> Node:
        """A copy of a node."""
        args, kwargs = (map_arg(one, change) for one in (node.args, node.kwargs))
        made = self.add(Node(node.op, self._named(node.name), node.target, args, kwargs))
        made.meta = {**node.meta}
        return made

    def graph_copy(self, graph: Graph, copies: dict[Node, Node]) -> Any:
        """Copy all nodes; returns the result of the graph."""
        for node in list.__iter__(graph.nodes):
            if node.op == "output":
                return map_arg(node.args[0], copies.__getitem__)
            copies[node] = self.node_copy(node, copies.__getitem__)
            copies[node].name = node.name
        return None

    def lines(self) -> Iterator[str]:
        """The nodes as texts."""
        for node in list.__iter__(self.nodes):
            target = node.target if not isinstance(node.target, FunctionType) else node.target.__name__
            ends = f"{node.args} {node.kwargs}"
            yield f"{node.op} {node.name} {target} {ends} {node.meta.get('val', '')}"


class GraphModule:
    """A module that runs a graph.

    Args:
        root: the module, or the attributes, that ``get_attr`` and ``call_module`` name.
        graph: the graph.
    """

    def __init__(self, root: Any, graph: Graph) -> None:
        self.graph, self.recompiled = graph, 0
        graph.owning_module = self
        held = root if isinstance(root, dict) else {**vars(root)}
        for name, one in held.items():
            if name != "graph":
                setattr(self, name, one)

    def recompile(self) -> None:
        """Nothing is kept that a change of the graph makes wrong: the call is counted."""
        self.recompiled += 1

    def get_submodule(self, name: str) -> Any:
        """A module in this one."""
        return getattr(self, name)

    def forward(self, *arguments: Any) -> Any:
        """Run the graph."""
        return Interpreter(self).run(*arguments)

    def __call__(self, *arguments: Any) -> Any:
        return self.forward(*arguments)


class Interpreter:
    """Runs the nodes of a module one after another."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.values: dict[Node, Any] = {}
        self.rest: Iterator[Any] = iter(())

    def run(self, *arguments: Any) -> Any:
        """The result for arguments."""
        self.rest = iter(arguments)
        ends = [node.meta.get("val") for node in list.__iter__(self.module.graph.nodes) if node.op == "placeholder"]
        for like, argument in zip(ends, arguments, strict=True):
            pairs = [(like, argument)] if not isinstance(like, Tensor) else zip(like.shape, argument.shape, strict=True)
            BINDINGS.update({str(one): given for one, given in pairs if isinstance(one, SymInt)})
        try:
            for node in self.module.graph.nodes:
                self.values[node] = self.run_node(node)
        finally:
            BINDINGS.clear()
        return self.values[node]

    def run_node(self, n: Node) -> Any:
        """The result of a node."""
        args, kwargs = (map_arg(one, self.values.__getitem__) for one in (n.args, n.kwargs))
        match n.op:
            case "placeholder":
                return next(self.rest)
            case "get_attr":
                return getattr(self.module, n.target)
            case "output":
                return args[0]
            case "call_module":
                return getattr(self.module, n.target)(*args)
        return n.target(*args, **kwargs)


class Partition:
    """Calls that become one module."""

    def __init__(self, id: Any = None, nodes: Iterable[Node] = ()) -> None:
        self.id, self.nodes = id, dict.fromkeys(nodes)

    def add_node(self, node: Node) -> None:
        """Take a node in."""
        self.nodes[node] = None

    def remove_node(self, node: Node) -> None:
        """Leave a node out."""
        self.nodes.pop(node, None)


class CapabilityBasedPartitioner:
    """Joins calls that are supported and stand behind each other."""

    def __init__(self, module: Any, support: Any, allows_single_node_partition: bool = False) -> None:
        self.module, self.support, self.alone = module, support, allows_single_node_partition

    def propose_partitions(self) -> list[Partition]:
        """The parts."""
        parts: list[list[Node]] = [[]]
        for node in self.module.graph.nodes:
            if node.op == "call_function" and self.support.is_node_supported({}, node):
                parts[-1].append(node)
            elif node.op not in ("placeholder", "get_attr"):
                parts.append([])
        return [Partition(place, part) for place, part in enumerate(parts) if len(part) > (not self.alone)]

    def fuse_partitions(self, parts: Sequence[Partition], prefix: str) -> None:
        """Put a call of a module in the place of the calls of each part."""
        graph = self.module.graph
        for place, part in enumerate(parts):
            own = [node for node in graph.nodes if node in part.nodes]
            sources = dict.fromkeys(one for node in own for one in node.all_input_nodes if one not in part.nodes)
            ends = [node for node in own if any(user not in part.nodes for user in node.users)]
            inner, copies = Graph(), dict[Node, Any]()
            for source in sources:
                copies[source] = inner.placeholder(source.name)
                copies[source].meta = {**source.meta}
            for node in own:
                copies[node] = inner.node_copy(node, copies.__getitem__)
                copies[node].name = node.name
            results = tuple(copies[node] for node in ends)
            inner.output(results if len(results) != 1 else results[0])
            name = f"{prefix}{place}"
            setattr(self.module, name, GraphModule({}, inner))
            with graph.inserting_after(own[-1]):
                call = graph.add(Node("call_module", name, name, tuple(sources)))
                for at, node in enumerate(ends):
                    made = call if len(ends) == 1 else graph.call_function(operator.getitem, (call, at))
                    made.meta = {**made.meta, **node.meta}
                    node.replace_all_uses_with(made, lambda user: user not in part.nodes)  # noqa: B023
            for node in reversed(own):
                graph.erase_node(node)
        _sort(graph)


def _sort(graph: Graph) -> None:
    """Put each node behind those that it reads."""
    left, done, sorted_nodes = [*list.__iter__(graph.nodes)], set[Node](), []
    while left:
        node = next(node for node in left if all(source in done for source in node.all_input_nodes))
        left.remove(node)
        done.add(node)
        sorted_nodes.append(node)
    graph.nodes[:] = sorted_nodes


class Metadata(SimpleNamespace):
    """What PyTorch says of a captured graph."""

    @classmethod
    def of(cls, context: Any) -> Any:
        """By a text; None for none."""
        if context is None:
            return None
        rest = {key: one for key, one in context.items() if key != "written"}
        infos = [SimpleNamespace(mutates_data=one) for one in context["written"]]
        return cls(input_info=infos, bw_donated_idxs=[0], **rest)


class TracingContext:
    """The capture that takes place."""

    now: Any = None

    @classmethod
    def try_get(cls) -> Any:
        """The capture; None if there is none."""
        return cls.now


class _Mode:
    """A mode in which functions of PyTorch are called otherwise."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def from_tensor(self, tensor: Any) -> Any:
        """The tensor."""
        return tensor


class OneForAll(dict[Any, Any]):
    """A table that has something for every op."""

    def __missing__(self, op: Any) -> Any:
        return op


class ExportedProgram:
    """A program that was exported."""


OPS = Ops(())
HIGHER: dict[str, Higher] = {}


def higher(name: str) -> Higher:
    """An op whose arguments are graphs, by its name."""
    return HIGHER.setdefault(name, Higher(name))


def modules(missing: Iterable[str]) -> dict[str, ModuleType]:
    """Modules in the place of those of PyTorch.

    Args:
        missing: the names of elementwise ops that ``aten`` lacks.
    """
    global OPS
    OPS = Ops(missing)
    made: dict[str, ModuleType] = {}

    def module(name: str, **members: Any) -> ModuleType:
        made[name] = ModuleType(name)
        vars(made[name]).update(members)
        return made[name]

    def nothing(*_: Any, **__: Any) -> None:
        return None

    class Module:
        """A module of layers."""

    lock = nullcontext()
    counters: dict[str, Any] = {"graph_break": Counter(), "unimplemented": Counter()}
    torch = module(
        "torch", **{name: Dtype(name) for name in DEPTHS}, SymInt=SymInt, SymFloat=SymFloat, SymBool=SymBool,
        Tensor=Tensor, empty=empty, empty_strided=empty_strided, empty_like=empty_like, view_as_real=view_as_real,
        result_type=result_type, promote_types=promote_types, from_numpy=from_numpy, ops=OPS, no_grad=nullcontext,
        strided=STRIDED, contiguous_format=ROWS, channels_last=LAST, channels_last_3d=LAST_3D, dtype=Dtype,
        Tag=SimpleNamespace(pointwise="pointwise", nondeterministic_seeded="nondeterministic_seeded"),
        neg=on_elements, add=on_elements, addcmul=on_elements, roll=lambda like, *_: empty_like(like),
        is_tensor=lambda one: isinstance(one, Tensor), get_num_threads=lambda: 2, Generator=Module,
        _ops=SimpleNamespace(OpOverload=Target, HigherOrderOperator=Higher),
        accelerator=SimpleNamespace(is_available=lambda: False), sym_int=int,
        _dynamo=SimpleNamespace(utils=SimpleNamespace(counters=counters), config=SimpleNamespace(), reset=nothing),
        nn=SimpleNamespace(
            Module=Module, Parameter=type("Parameter", (Tensor,), {}), Buffer=lambda tensor, persistent: tensor,
            functional=SimpleNamespace(interpolate=lambda *given, **named: f"usual {given} {named}"),
        ),
        library=SimpleNamespace(Library=Defined, register_autograd=lambda *a, **k: Defined.made.append((a, k))),
    )  # fmt: skip
    export = module("torch.export", ExportedProgram=ExportedProgram, default_decompositions=OneForAll)
    kinds = SimpleNamespace(USER_INPUT="USER_INPUT"), SimpleNamespace(USER_OUTPUT="USER_OUTPUT")
    module("torch.export.graph_signature", InputKind=kinds[0], OutputKind=kinds[1])
    fx = module("torch.fx", Node=Node, Graph=Graph, GraphModule=GraphModule, Interpreter=Interpreter)
    fx.node = module("torch.fx.node", map_arg=map_arg)  # type: ignore[attr-defined]
    for name in ("fx.passes", "fx.passes.infra", "utils", "utils._sympy", "_dynamo", "_dynamo.backends", "_functorch"):
        module(f"torch.{name}")
    module(
        "torch.fx.passes.infra.partitioner", CapabilityBasedPartitioner=CapabilityBasedPartitioner, Partition=Partition
    )
    module("torch.fx.passes.operator_support", OperatorSupportBase=Module)
    module("torch.utils._python_dispatch", _disable_current_modes=nullcontext, TorchDispatchMode=_Mode)
    module("torch.utils._pytree")
    torch.utils = SimpleNamespace(_pytree=None)  # type: ignore[attr-defined]
    made["torch.utils"]._pytree = made["torch.utils._pytree"]  # type: ignore[attr-defined]
    module("torch.utils.flop_counter", flop_registry={OPS.aten.mm: _flops_of_mm, OPS.aten.addmm: _flops_of_addmm})
    module("torch._guards", TracingContext=TracingContext)
    module("torch._dynamo.backends.common", aot_autograd=lambda **settings: settings)
    registry = SimpleNamespace(_COMPILER_FNS={}, register_backend=nothing)
    made["torch._dynamo.backends"].registry = registry  # type: ignore[attr-defined]
    module("torch._dynamo.convert_frame", compile_lock=lock)
    module("torch._functorch.partitioners", min_cut_rematerialization_partition=lambda joint, inputs, **_: joint)
    module("torch._decomp", core_aten_decompositions=dict)
    module("torch._decomp.decompositions", upsample_compute_output_size=nothing)
    module("torch._prims_common", suggest_memory_format=suggest_memory_format, make_contiguous_strides_for=strides_of)
    module("torch.overrides", TorchFunctionMode=_Mode)
    module("torch._higher_order_ops")
    module("torch._higher_order_ops.flex_attention", flex_attention=nothing)
    module("torch._subclasses")
    module("torch._subclasses.fake_tensor", FakeTensorMode=_Mode)
    torch.fx, torch.export = fx, export  # type: ignore[attr-defined]
    functions = ("FloorDiv", "Max", "Min", "Mod", "PythonMod", "ToFloat", "TruncToInt")
    module("torch.utils._sympy.functions", **{name: getattr(sympy_stand_in, name) for name in functions})
    made["sympy"] = sympy_stand_in
    return made


def _flops_of_mm(first: Any, second: Any, *_: Any, **__: Any) -> Any:
    return 2 * first.shape[0] * first.shape[1] * second.shape[1]


def _flops_of_addmm(_: Any, first: Any, second: Any, **__: Any) -> Any:
    return _flops_of_mm(first, second)
