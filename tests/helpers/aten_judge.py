"""What the judge of compiled modules says of modules that are wrong in one way each; without PyTorch.

Tensors have memory here, gradients are made up, and what ``torch.compile`` returns is the module with a fault.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.helpers import torch_stand_in as own

DTYPES: dict[Any, str] = {}
PLACES = count(1)  # of memory
GRADIENTS = [True]  # whether gradients are computed


class Real(own.Tensor):
    """A tensor with memory.

    Args:
        array: the numbers.
        like: the tensor whose memory it names again.
    """

    def __init__(self, array: Any, requires_grad: bool = False, like: Any = None) -> None:
        self.a = array if type(array) is np.ndarray else np.asarray(array)
        self.layout, self.requires_grad = own.STRIDED, requires_grad
        self.place = next(PLACES) if like is None else like.place

    @property
    def dtype(self) -> Any:
        """The data type."""
        return own.Dtype(DTYPES.setdefault(self.a.dtype, str(self.a.dtype)))

    @property
    def shape(self) -> Any:
        """The sizes of the axes."""
        return self.a.shape

    def __deepcopy__(self, memo: Any) -> Real:
        return type(self)(self.a.copy(), self.requires_grad)

    @property
    def data(self) -> Real:
        """The memory."""
        return self.detach()

    @data.setter
    def data(self, other: Real) -> None:
        self.a = other.a

    def detach(self) -> Real:
        """The tensor, of which no gradient is asked for."""
        return Real(self.a, like=self)

    resolve_conj = resolve_neg = detach

    def to_dense(self) -> Real:
        """Other numbers, which show that they were asked for."""
        return Real(self.a - 0.5)

    def clone(self) -> Real:  # type: ignore[override]
        """A copy."""
        return Real(self.a.copy(), self.requires_grad)

    def requires_grad_(self) -> Real:
        """The tensor, of which a gradient is asked for."""
        self.requires_grad = True
        return self

    def to(self, dtype: Any) -> Real:
        """The numbers in another data type."""
        return self if dtype == self.dtype else Real(self.a.astype(dtype.numpy), self.requires_grad)

    def double(self) -> Real:
        """The numbers in float64."""
        return self.to(own.Dtype("float64"))

    def nan_to_num(self) -> Real:
        """Without NaN."""
        return Real(np.nan_to_num(self.a)) if self.a.dtype.kind in "fc" else self

    def copy_(self, other: Any) -> Real:
        """Take over other numbers."""
        self.a[...] = other.a.astype(self.a.dtype)
        return self

    def add_(self, other: Any) -> Real:
        """Add in place."""
        self.a[...] = self.a + getattr(other, "a", other)
        return self

    def mul_(self, other: Any) -> Real:
        """Multiply in place."""
        self.a[...] = self.a * getattr(other, "a", other)
        return self

    def logical_not_(self) -> Real:
        """Turn in place."""
        self.a[...] = ~self.a
        return self

    def index_select(self, axis: int, rows: Any) -> Real:
        """Some rows."""
        return Real(np.take(self.a, rows.a, axis))

    def min(self) -> Real:
        """The least number."""
        return Real(self.a.min())

    def max(self) -> Real:
        """The largest number."""
        return Real(self.a.max())

    def item(self) -> Any:
        """The number."""
        return self.a.item()

    def numpy(self) -> Any:
        """The memory as an array."""
        return self.a

    def untyped_storage(self) -> Any:
        """The memory."""
        if self.layout is not own.STRIDED:
            raise RuntimeError("sparse")
        return SimpleNamespace(data_ptr=lambda: self.place)

    def __setitem__(self, place: Any, value: Any) -> None:
        self.a[place] = value

    def __mul__(self, other: Any) -> Real:
        return Real(self.a * getattr(other, "a", other), self.requires_grad or getattr(other, "requires_grad", False))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Real:
        return Real(self.a + getattr(other, "a", other), self.requires_grad or getattr(other, "requires_grad", False))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Real:
        return Real(self.a - getattr(other, "a", other))

    def __mod__(self, other: Any) -> Real:
        return Real(self.a % other)

    def __ne__(self, other: object) -> Any:
        return bool(np.any(self.a != other.a)) if isinstance(other, Real) else True

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class Parameter(Real):
    """A weight."""

    def __init__(self, value: Any, requires_grad: bool = True) -> None:
        super().__init__(getattr(value, "a", value), requires_grad)


class Module:
    """A module with a weight, a buffer of counts and one of floats."""

    def __init__(self) -> None:
        self.weight = Parameter(np.array([1.5, -2.0, 0.5], np.float32))
        self.mean, self.count = Real(np.array([0.25], np.float32)), Real(np.array([3], np.int64))

    def named_parameters(self, recurse: bool = True, remove_duplicate: bool = True) -> list[tuple[str, Any]]:
        """The weights."""
        found = {name: one for name, one in vars(self).items() if isinstance(one, Parameter)}
        seen = {id(one): name for name, one in found.items()}
        return [(name, one) for name, one in found.items() if not remove_duplicate or seen[id(one)] == name]

    def named_buffers(self) -> list[tuple[str, Any]]:
        """The buffers."""
        return [(name, one) for name, one in vars(self).items() if type(one) is Real]

    def parameters(self) -> Iterator[Any]:
        """The weights."""
        return iter([one for _, one in self.named_parameters()])

    def buffers(self) -> Iterator[Any]:
        """The buffers."""
        return iter([one for _, one in self.named_buffers()])

    def named_modules(self) -> list[tuple[str, Any]]:
        """This one."""
        return [("", self)]

    def state_dict(self) -> dict[str, Any]:
        """The weights, the buffers, and something else."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers()), "extra": "text"}

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Take over weights and buffers."""
        for name, one in stored.items():
            if name != "extra":
                getattr(self, name).copy_(one)

    def double(self) -> Module:
        """The module in float64."""
        for name, one in [*vars(self).items()]:
            if one.is_floating_point():
                setattr(self, name, Parameter(one.double()) if isinstance(one, Parameter) else one.double())
        return self

    def __call__(self, source: Any, more: Any = None, *, factor: Any = None) -> Any:
        self.mean.add_(0.5)
        result = source * self.weight + self.mean
        return (result if factor is None else result * factor), source


class Tied(Module):
    """A module that refuses other weights."""

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        raise TypeError("tied")


class Bare(Module):
    """A module without weights, which cannot be copied in float64."""

    def __init__(self) -> None:
        self.mean = Real(np.array([0.25], np.float32))

    def double(self) -> Module:
        raise TypeError("no double")

    def __call__(self, source: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        return [source + 1, {"a": source * self.mean}]


def draws(source: Any) -> Any:
    """A function that draws random numbers."""
    return source + float(SEEDS[-1] % 7)


def fails(source: Any) -> Any:
    """A function that fails for large numbers."""
    if np.any(abs(source.a) > 50):
        raise ValueError("\n  too large\nand more")
    return source * 2


SEEDS = [0]
KEPT: list[Any] = []
FAULTS: dict[str, Callable[[Any, Sequence[Any]], Any]] = {}


def fault(function: Any) -> Any:
    """Enter a fault: a function of results and arguments."""
    FAULTS[function.__name__] = function
    return function


@fault
def right(results: Any, arguments: Any) -> Any:
    """No fault."""
    return results


@fault
def wrong(results: Any, arguments: Any) -> Any:
    """Other numbers."""
    return (results[0] + 1.0, *results[1:])


@fault
def wide(results: Any, arguments: Any) -> Any:
    """Another data type."""
    return (results[0].double(), *results[1:])


@fault
def missing(results: Any, arguments: Any) -> Any:
    """A result less."""
    return results[:1]


@fault
def apart(results: Any, arguments: Any) -> Any:
    """A result in memory of its own."""
    return (results[0], results[1].clone())


@fault
def shared(results: Any, arguments: Any) -> Any:
    """Results in one memory, of which no gradient is asked for."""
    return (Real(results[0].a, like=arguments[0]), results[1])


@fault
def written(results: Any, arguments: Any) -> Any:
    """An argument that changes."""
    with_one = arguments[0].a
    with_one[...] = with_one + 1
    return results


@fault
def kept(results: Any, arguments: Any) -> Any:
    """The memory of the first call, which the caller may have changed, and whatever it has."""
    if not KEPT or KEPT[0].shape != results[0].shape or SEEDS[-1] != KEPT[1]:
        KEPT[:] = [results[0], SEEDS[-1], arguments[0].a.tolist()]
    return (KEPT[0] if arguments[0].a.tolist() == KEPT[2] else results[0], *results[1:])


@fault
def broken(results: Any, arguments: Any) -> Any:
    """An error."""
    raise RuntimeError("broken")


def compiler(name: str, told: list[str]) -> Callable[..., Any]:
    """``torch.compile`` with a fault."""

    def compiled(function: Any, *, backend: str, **options: Any) -> Any:
        told.append(f"{backend} {options}")
        if backend != "onegraph":
            return function
        first = copy.deepcopy(function.weight) if isinstance(function, Module) and hasattr(function, "weight") else None

        def run(*args: Any, **kwargs: Any) -> Any:
            if name == "stale" and first is not None:
                before, function.weight = function.weight, first
                try:
                    return function(*args, **kwargs)
                finally:
                    function.weight = before
            results = function(*args, **kwargs)
            return FAULTS.get(name, right)(results, args) if type(results) is tuple else results

        return run

    return compiled


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values in a tree, by their places."""
    if type(tree) in (list, tuple):
        for place, one in enumerate(tree):
            yield from leaves(one, f"{path}[{place}]")
    elif type(tree) is dict:
        for key, one in tree.items():
            yield from leaves(one, f"{path}[{key!r}]")
    else:
        yield path, tree


def mapped(function: Any, tree: Any) -> Any:
    """A tree with other values."""
    if type(tree) in (list, tuple):
        return type(tree)(mapped(function, one) for one in tree)
    return {key: mapped(function, one) for key, one in tree.items()} if type(tree) is dict else function(tree)


@contextmanager
def enabled(value: bool) -> Iterator[None]:
    """Ask for gradients, or not."""
    GRADIENTS.append(value)
    try:
        yield
    finally:
        GRADIENTS.pop()


def gradients_of(ends: Sequence[Any], sources: Sequence[Any], seeds: Sequence[Any], allow_unused: bool) -> list[Any]:
    """Made up gradients, which follow from the results and the numbers that they are multiplied by."""
    assert allow_unused
    total = sum([float((end.a.astype(np.float64) * seed.a).sum()) for end, seed in zip(ends, seeds, strict=True)])
    made = [Real(np.full(one.shape, (place + 1) * total).astype(one.a.dtype)) for place, one in enumerate(sources)]
    return [*made[:-1], None] if len(made) > 2 else made


class Generator:
    """Random numbers."""

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew."""
        self.rng = np.random.default_rng(seed)
        return self


def ready(front: Any, told: list[str], name: str) -> None:
    """Have PyTorch's functions that the judge calls."""
    torch = front["judge.calls"].torch
    config = SimpleNamespace(cache_size_limit=8, recompile_limit=8)
    config.patch = lambda limits: told.append(str(limits)) or nullcontext()

    def foreach(targets: Sequence[Any], values: Sequence[Any]) -> None:
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)

    vars(torch).update(
        is_tensor=lambda one: isinstance(one, Real), set_grad_enabled=enabled, manual_seed=SEEDS.append,
        equal=lambda first, second: bool(np.array_equal(first.a, second.a)),
        from_dlpack=lambda one: told.append("from_dlpack") or one,  # type: ignore[func-returns-value]
        empty_like=lambda one: Real(np.empty_like(one.a)), from_numpy=lambda array: Real(np.array(array)),
        full_like=lambda one, value: Real(np.full_like(one.a, value)), arange=lambda size: Real(np.arange(size)),
        rand=lambda shape, generator, dtype: Real(generator.rng.random(tuple(shape)).astype(dtype.numpy)),
        Generator=Generator, autograd=SimpleNamespace(grad=gradients_of), _foreach_copy_=foreach,
        random=SimpleNamespace(fork_rng=lambda devices: told.append(f"fork {devices}") or nullcontext()),
        compile=compiler(name, told),
    )  # fmt: skip
    torch._dynamo.reset, torch._dynamo.config = lambda: told.append("reset"), config
    torch.nn.Module, torch.nn.Parameter = Module, Parameter
    tree = front["judge.calls"].pytree
    tree.tree_flatten_with_path = lambda value: ([*leaves(value)], None)
    tree.keystr, tree.tree_map = (lambda path: path), mapped


def judged(front: Any) -> Iterator[str]:
    """What is found."""
    state, arguments, oracle = (front[f"judge.{name}"] for name in ("state", "arguments", "oracle"))
    verification, calls, statistics = front["judge.verification"], front["judge.calls"], front["statistics"]
    torch = calls.torch
    kept, attributes = {**vars(torch)}, {**vars(torch.nn)}
    source = Real(np.array([[1.0, 2.0, -3.0], [0.5, 4.0, 8.0]], np.float32))
    counts = Real(np.array([[1, 5, 3], [2, 2, 2]], np.int64))
    long = Real(np.ones((3, 3), np.float32))
    arguments.KINDS, usual = [*arguments.KINDS][:2], arguments.KINDS
    all_writes = dict(state.WRITES)
    told: list[str] = []
    state.gc, gc = SimpleNamespace(collect=lambda: told.append("collect")), state.gc
    cases: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("right", Module, (source, counts), {"dynamic": True, "options": {"threads": 1}}),
        *[(name, Module, (source,), {"gradients": False}) for name in ("stale", *[*FAULTS][1:])],
        ("wrong", Module, (source,), {"gradients": True, "kwargs": {"factor": source}}),
        ("shared", Module, (source,), {"seed": 3}),
        ("right", Tied, source, {"gradients": False}),
        ("right", Bare, source, {}),
        ("right", lambda: draws, source, {"seed": 5}),
        ("right", lambda: fails, (source,), {}),
        ("right", lambda: fails, (source * 100,), {}),
        ("wrong", Module, (source,), {"dynamic": True, "gradients": False}),
        ("wrong", Module, (long,), {"dynamic": True, "gradients": False}),
        ("right", lambda: draws, Real(np.float32(1)), {}),
        ("right", Module, 3, {}),
        ("right", Module, (3,), {"dynamic": True}),
        ("right", Module, (source,), {"kwargs": 3}),
        ("right", Module, (source,), {"seed": -1}),
        ("right", Module, (source,), {"gradients": 1}),
        ("right", Module, (source,), {"options": {"a": 1}}),
        ("right", lambda: 3, (source,), {}),
    ]
    try:
        for place, (name, make, inputs, more) in enumerate(cases):
            ready(front, told, name)
            own.NodeList.current = None
            statistics.reset()
            loaded = {"weights from load_state_dict": state._loaded}
            verification.WRITES = all_writes if name == "stale" else loaded
            told.clear()
            KEPT.clear()
            for kind, taken in (("inference", (place + 1) % 3), ("forward", (place + 1) % 2)):
                left = [statistics.Left("op", "why", 1)][: place % 4]
                one = statistics.RegionStatistics(kind, 1, taken, left)
                told_add(verification, statistics, one)
            kwargs = {**more}
            try:
                made = verification.verify(make(), inputs, kwargs.pop("kwargs", None), **kwargs)
                yield f"{name} {made} {made.compared} {made.contents} {made.notes} {made.findings}"
            except Exception as error:
                yield f"{name} {type(error).__name__}: {error}"
            yield str(told)
        yield from _small(front, source, counts, state, arguments, oracle, calls, verification)
    finally:
        vars(torch).update(kept)
        vars(torch.nn).update(attributes)
        arguments.KINDS, verification.WRITES, state.gc = usual, all_writes, gc


def told_add(verification: Any, statistics: Any, one: Any) -> None:
    """Count a program as soon as the judge has looked at what was counted before."""
    verification.statistics = Counted([one], verification.statistics)


class Counted:
    """The statistics, with programs that are counted from the second question on."""

    def __init__(self, programs: list[Any], before: Any) -> None:
        self.programs = [*getattr(before, "programs", []), *programs][-2:]
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        return SimpleNamespace(regions=self.programs if self.asked > 1 else [])


def _small(
    front: Any, source: Real, counts: Real, state: Any, arguments: Any, oracle: Any, calls: Any, verification: Any
) -> Iterator[str]:
    """Parts of it alone."""
    waves, none = Real(np.array([1j, 2.0])), Real(np.zeros((2, 0), np.int64))
    half = Real(source.a.astype(np.float16))
    flags, empty = Real(np.array([True, False])), Real(np.zeros((0, 3), np.float32))
    for given in (
        (source,),
        (counts,),
        (half, source),
        (flags,),
        (empty,),
        (Real(np.array([2, 2])),),
        (counts, source),
        (waves,),
        (none,),
        (waves, none, counts),
    ):
        made = [*arguments.variants((given, {}), 3)]
        yield str([(kind, [one.numpy().tolist() for _, one in leaves(args)]) for kind, (args, _) in made])
        yield f"{arguments.batch_of((given, {}))}"
        if arguments.batch_of((given, {})):
            for size in (1, 3):
                cut = arguments.resized((given, {"a": Real(np.float32(1))}), size)
                yield str([one.numpy().tolist() for _, one in leaves(cut)])
    yield str(arguments.batch_of(((Real(np.float32(1)),), {}))) + str(arguments.batch_of(((), {})))
    for name, write in state.WRITES.items():
        module = Module()
        if name == "weights written through numpy":
            module.mean = Real(module.mean.a.astype(own.Dtype("bfloat16").numpy))
        before, module.tied = module.weight, module.weight
        for _ in write(module, Generator().manual_seed(1)):
            values = [one.a.astype(np.float64).tolist() for one in (module.weight, module.mean, module.count)]
            yield f"{name} {values} {module.weight is before} {module.weight.requires_grad}"
    for name in ("aten::add", "aten::gelu_backward"):
        for info in (None, "alias"):
            for unit in (0.5, 0.0):
                made = oracle.Disturbance(unit, 3)
                function = Called(name, info)
                result = made.__torch_dispatch__(function, (), (Real(np.array([1.0, -2.0])), source.clone()), {"a": 1})
                yield f"{name} {info} {[one.a.tolist() for one in result[:2]]}"
    for one in (ValueError("\n  too large\nand more"), ValueError(""), ValueError("x" * 300)):
        yield verification._shown(one)
    sparse, none = Real(np.ones(3)), Real(np.ones(0))
    sparse.layout = own.Named("sparse")
    double = sparse.double()
    double.layout = sparse.layout
    yield str([oracle.Disturbance(0.5, 1).disturb(one).a.tolist() for one in (double, sparse.double(), sparse)])
    yield str([calls._memory(one) for one in (sparse, none)]) + str(oracle._array(sparse).tolist())
    for outputs in ({}, {"output": counts}, {"output": source.clone().requires_grad_()}):
        made = calls._gradients(calls.Subject(draws, Module()), {}, outputs, 0)
        yield str({name: one.a.tolist() for name, one in made.items()})
    wide = calls.Subject(Module(), Module()).wide()
    yield f"{wide.module.weight.dtype} {wide.function is wide.module} {calls.Subject(Bare(), Bare()).wide()}"
    yield f"{calls.Subject(draws, None).wide().function is draws} {calls.Subject(draws, None).state()}"
    yield from _written(source, verification)
    for kinds in (("float16",), ("bfloat16", "float64"), ("int64",), ("float64",)):
        given = tuple(Real(np.ones(2).astype(own.Dtype(kind).numpy)) for kind in kinds)
        eager = calls.Subject(draws, None)
        yield str(oracle.EagerOracle(eager, random=True, seed=0)._unit((given, {})))


def _written(source: Real, verification: Any) -> Iterator[str]:
    """What is written to the results of a call, of which some share memory."""
    judge = verification._Judge(None, None, None, (), 5)
    first, flag = "output['first']", "output['flag']"
    for memory in (set(), {(first, "args[0]")}, {("args[0]", flag)}, {(first, flag)}, {(flag, first), (first, "x")}):
        ends = {"first": Real(np.ones(2)), "flag": Real(np.array([True, False])), "sparse": Real(np.ones(2))}
        ends["sparse"].layout = own.Named("sparse")
        for gradients in (False, True):
            asked: list[Any] = []

            def function(*args: Any, asked: Any = asked, ends: Any = ends, **kwargs: Any) -> Any:
                asked.append((GRADIENTS[-1], SEEDS[-1], args[0] is source, args[0].requires_grad, [*kwargs]))
                return ends

            compiled, peer = SimpleNamespace(module=None, function=function), SimpleNamespace(memory=memory)
            judge._write_results(compiled, ((source,), {"a": source}), peer, gradients)
            yield f"{asked} { {name: one.a.tolist() for name, one in ends.items()} }"


class Called:
    """An op that is called under a disturbance."""

    def __init__(self, name: str, info: Any) -> None:
        self._schema = SimpleNamespace(name=name, returns=[SimpleNamespace(alias_info=info)])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return [*args, kwargs]
