"""Decisions of the front end for PyTorch that no graph shows, as lines of text; without PyTorch."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from onegraph._util.size_symbols import OpenSizes
from onegraph.graph import Graph
from onegraph.lowering.emitter import Emitter
from tests.helpers import aten_passes
from tests.helpers import torch_stand_in as own
from tests.helpers.aten_borders import BORDERS
from tests.helpers.aten_judge import judged
from tests.helpers.aten_tables import END, NOW, TABLES, graph_of, sized
from tests.helpers.recorded import lines_of

FLOAT, BF16, INT = (own.Dtype(name) for name in ("float32", "bfloat16", "int64"))


CALLS: list[str] = []  # those of functions of PyTorch


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """What a call returns or raises."""
    try:
        return str(function(*args, **kwargs))
    except Exception as error:
        return f"{type(error).__name__}: {error if type(error).__module__.startswith('onegraph') else ''}"


class Told:
    """What functions of PyTorch are asked to compute, as a text.

    Args:
        text: the text.
        known: attributes that have values.
    """

    def __init__(self, text: str, **known: Any) -> None:
        self._text = text
        vars(self).update(known)

    def __repr__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> Told:
        if name.startswith("__"):
            raise AttributeError(name)
        return Told(f"{self}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Told:
        ends = [*map(str, args), *[f"{key}={one}" for key, one in kwargs.items()]]
        made = Told(f"{self}({', '.join(ends)})")
        CALLS.append(str(made))
        return made

    def __getitem__(self, place: Any) -> Told:
        return Told(f"{self}[{place}]")

    def __iter__(self) -> Iterator[Told]:
        return iter([self[0], self[1]])


for _name in ("add", "sub", "mul", "truediv", "matmul", "ne", "eq", "pow"):
    setattr(Told, f"__{_name}__", lambda self, other, name=_name: Told(f"({self} {name} {other})"))
Told.__hash__ = object.__hash__  # type: ignore[method-assign]


def options(front: Any) -> Iterator[str]:
    """Which options are taken."""
    most = 2**31
    values = {
        "fallback": ("eager", "error", "other", 1), "prepare": (True, False, 1), "frozen": (True, 0),
        "threads": (None, 0, 1, 7, most - 1, most, "1"), "fpmath_mode": ("bf16", 1), "smallest": (0, 1, most - 1, most),
        "cache_capacity": (0, 1, most - 1, most), "new_sizes": ("compile", "eager", "other", 1),
        "reproducible": (True, 1), "finite_math": (True, None), "other": (1,),
    }  # fmt: skip
    given = [None, {}, 1, *[{name: one} for name, several in values.items() for one in several]]
    for one in given:
        yield outcome(front["options"].options_of, one)


def statistics(front: Any) -> Iterator[str]:
    """What is counted, and how it is told."""
    module, sizes = front["statistics"], front["sizes"]
    works = [sizes.Work() for _ in range(3)]
    works[1].compilations, works[1].dropped, works[1].answered, works[1].reused = 5, 2, 1, 1
    works[1].reason, works[2].reused = "because", 3
    works[1].add([own.Tensor(FLOAT, (2, 3)), 4])
    works[1].add([own.Tensor(FLOAT, (2, 5)), 4])
    works[2].add([own.Tensor(FLOAT, (2, 5)), 4])
    left = [
        module.Left("a", "x", 1, 7),
        module.Left("b", "x", 3),
        module.Left("a", "x", 2, 1),
        module.Left("a", "y", 1),
    ]
    region, same = module.RegionStatistics, object()
    regions = [
        region("inference", 1, 2, left, (10, 5), works[0], same, "weights"),
        region("forward", 2, 1, left[1:], (20, 0), works[1], same),
        region("backward", 0, 0, (), (0, 0), works[2], None, "weights"),
    ]
    counters = module.torch._dynamo.utils.counters
    for count, breaks in ((0, 0), (1, 1), (2, 0), (3, 2)):
        module.reset()
        counters["graph_break"].update({"one": breaks})
        counters["unimplemented"].update({"two": breaks, "one": 1})
        for one in regions[:count]:
            module.add(one)
        found = module.statistics()
        yield f"{found}"
        yield str({**found.to_dict(), "prepared_bytes": 0})
        yield f"{[str(one) for one in found.left]} {type(found.prepared_bytes)}"
    counters["graph_break"].clear()
    counters["unimplemented"].clear()
    counters["graph_break"].update({"three": 1})
    yield str(module.statistics().breaks)
    module.reset()
    yield str(module.statistics())
    yield str(module.Statistics(regions[2:]).share) + str(module.Statistics([region("forward", taken=1)]).share)
    counters["graph_break"].clear()


def sizes(front: Any) -> Iterator[str]:
    """What is kept for combinations of sizes."""
    module = front["sizes"]
    made: list[str] = []

    def compiled(arguments: Sequence[Any]) -> Any:
        made.append(str(arguments))
        if arguments[0] == 13:
            raise ValueError("thirteen")
        return lambda *given: f"{module.is_background()} {arguments} {given}"

    for capacity, eager in ((2, None), (1, None), (2, lambda *given: f"eager {given}")):
        work = module.Work()
        kept = module.BySizes(compiled, capacity, work, eager)
        made.clear()
        for number in (1, 2, 1, 3, 2, 1.0, True, 13, 13, own.Tensor(FLOAT, (2, 3)), own.Tensor(FLOAT, (2, 3), (1, 2))):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                yield outcome(kept.run, number)
                for thread in module.threading.enumerate():
                    if thread.name == module.NAME:
                        thread.join()
            places = [(one.filename.rpartition("/")[2], str(one.message)) for one in told]
            yield f"{places} {made} {kept._busy} {len(kept._failed)} {[*kept._kept]}"
        yield f"{work.compilations} {work.dropped} {work.answered} {work.counts}"
    yield f"{module.is_background()}"


class Weight(own.Tensor):
    """A weight with memory."""


def programs(front: Any) -> Iterator[str]:
    """Which program runs for the weights of a call."""
    module = front["programs"]
    clock, log = [0.0], list[str]()
    module.perf_counter = lambda: clock[0]
    module.log = SimpleNamespace(info=lambda text, *values: log.append(text % values))

    def weight(number: float) -> Any:
        return own.from_numpy(np.full(4096, number, np.float32))

    first, second = weight(1), weight(2)
    for frozen, times in itertools.product((False, True), ((1.0, 100.0), (50.0, 1.0), (1e-6, 1e-6), (1.0, 40.0))):

        def compiled(arguments: Sequence[Any], places: Sequence[int], times: Any = times) -> Any:
            log.append(f"compiled {len(arguments)} {[*places]}")

            def run(*given: Any) -> str:
                clock[0] += times[1] if places else times[0]
                return f"run {places} {len(given)}"

            return run

        options = front["options"].BackendOptions(frozen=frozen)
        made, log[:] = module.Programs(compiled, [1], options), []
        fits = front["weights"].ModuleWeights.fit

        def fit(self: Any, tensors: Any, times: Any = times, fits: Any = fits) -> bool:
            clock[0] += times[0]
            return bool(fits(self, tensors))

        front["weights"].ModuleWeights.fit = fit
        try:
            results = [f"{made.run([0, first])} {[one.calls for one in made.programs.values()]}" for _ in range(20)]
            yield f"{frozen} {times} {results} {made.trial is None} {made.places} {made.in_vain} {log}"
            for number in range(8):
                second.array[number] += 1
                second._version += 1
                result = made.run([0, second if number % 3 else first])
                yield f"{result} {made.in_vain} {made.places} {len(made.programs)} {log[-1]}"
        finally:
            front["weights"].ModuleWeights.fit = fits
        yield f"{[one.calls for one in made.programs.values()]} {len(made.readers)}"
    options = front["options"].BackendOptions(frozen=True)
    made, kept = module.Programs(compiled, [0], options), [weight(one) for one in range(66)]
    yield str([made.run([one]) for one in kept[62:] + kept])
    yield f"{len(made.programs)} {made.in_vain} {sum(one.calls for one in made.programs.values())}"
    for one in made.programs.values():
        one.calls = 100
    del kept[3:], one
    yield f"{len(made.programs)} {made.in_vain}"
    odd = weight(1)
    odd.device = own.Named("meta")
    yield f"{made._renewed(2, kept[:1])(*kept[:1])} {made.run([odd])} {made.places} {len(made.programs)}"
    plain = module.Programs(compiled, [], options)
    yield str([plain.run([number]) for number in range(3)])
    for comparing, computing, reading in (
        ([1.0] * 7, [1.0], []), ([1.0] * 8, [50.0], []), ([1.0] * 8, [49.0], []), ([1.0] * 8, [49.0], [1.0] * 7),
        ([1.0] * 8, [49.0], [1.0] * 8), ([3e-6] * 8, [1e-6], []), ([2e-6] * 8, [1e-6], []), ([1.0] * 8, [49.0], [50.0]),
        ([1.0] * 8, [49.0], [49.5, 60.0]), ([1.0] * 8, [50.0], [1.0]),
    ):  # fmt: skip
        trial = module.Trial()
        trial.comparing, trial.computing, trial.reading = comparing, computing, reading
        yield f"{trial.wants_reading} {trial.is_over} {trial.reads_faster}"


def weights(front: Any) -> Iterator[str]:
    """Which weights are the same, and which can be watched."""
    module = front["weights"]

    def weight(shape: Sequence[int], strides: Any = None) -> Any:
        return own.Tensor(FLOAT, shape, strides)

    for one in (weight([2, 3]), weight([2, 3], [1, 2]), weight([0, 3]), weight([1, 3], [7, 2]), weight([])):
        yield f"{module._span(one)[1]} {module._span(one)[0] == one.data_ptr()}"
        for frozen, inference in itertools.product((True, False), repeat=2):
            one.is_inference = lambda inference=inference: inference
            made = module.ModuleWeights([one], 2, frozen)
            found = [made.fit([one]), made.fit([one, one]), made.fit([weight([2, 3])]), made.is_counted, made.writes]
            one._version += 1
            yield f"{found} {made.fit([one])} {made.watch is None}"
    for name, value in {
        "layout": "sparse", "device": own.Named("cuda"), "is_quantized": True, "is_conj": lambda: True,
        "is_neg": lambda: True, "is_pinned": lambda: True, "dtype": FLOAT,
    }.items():  # fmt: skip
        one = weight([2])
        setattr(one, name, value)
        found = [module.can_be_watched(one)]
        module.torch.accelerator.is_available = lambda: True
        found.append(module.can_be_watched(one))
        module.torch.accelerator.is_available = lambda: False
        yield f"{name} {found} {module.can_be_watched(Weight(FLOAT, [2]))}"


def decompositions(front: Any) -> Iterator[str]:
    """What ops are taken apart into."""
    paths, capture, forms = front["fast_paths"], front["capture"], front["kernel_forms"]
    told, before = Told("torch"), [paths.torch, paths.aten, capture.torch, capture.aten]
    told.bool = own.Dtype("bool")
    paths.torch, paths.aten, capture.torch, capture.aten = told, Told("aten"), told, Told("aten")
    try:
        source = Told("src", shape=(2, 5, 8))
        masks = [
            (None, None),
            *[(Told("m", dtype=kind, shape=(2, 5)), one) for kind in ("x", told.bool) for one in (0, 1, 2)],
        ]
        for (mask, kind), needed, average in itertools.product(masks, (True, False), (True, False)):
            parts = [Told(name) for name in ("qkv", "qkv_b", "proj", "proj_b")]
            yield str(paths._attention(source, source, source, 8, 4, *parts, mask, needed, average, kind))
        yield str(paths._attention(source, source, source, 8, 4, *parts))
        rest = [Told(name) for name in "abcdefgh"]
        for gelu, first, (mask, kind) in itertools.product((True, False), (True, False), masks[:2]):
            yield str(paths._encoder_layer(source, 8, 4, *parts, gelu, first, 0.5, *rest, mask, kind))
        for p, train in ((0.25, None), (0.25, True), (1, True), (1, False), (1, None), (0, None)):
            yield str(capture._dropout(Told("src"), p, train))
    finally:
        paths.torch, paths.aten, capture.torch, capture.aten = before
    yield from _filled(paths)
    table = {
        op: (lambda *args, name=str(op), **kwargs: Told(f"{name}{args}{kwargs}"))
        for op in (*forms.DTYPE_OF, *forms.IN_ROWS, own.OPS.aten.add.Tensor)
    }
    changed = forms.as_kernels(table)
    kinds = [own.Tensor(own.Dtype(name), (2,)) for name in ("float32", "bfloat16", "float64")]
    for op, function in changed.items():
        for given in (kinds, kinds[::-1], [own.Tensor(FLOAT, (0,)), *kinds], [*kinds, own.Tensor(FLOAT, (2, 0))]):
            yield f"{op} {outcome(function, *given)}"
        yield f"{op} {outcome(function, 1, own.Tensor(FLOAT, (own.SymInt('s0', 0),)), *kinds)}"
    several = {op: lambda *_, **__: (Told("a"), Told("b")) for op in forms.IN_ROWS}
    yield str([one(kinds[0]) for one in forms.as_kernels(several).values()] + [*forms.as_kernels({})])


def _filled(paths: Any) -> Iterator[str]:
    """What becomes of functions that make tensors of numbers."""
    before = paths.torch

    def function(name: str) -> Any:
        return lambda *args, **kwargs: f"{name} {args} {kwargs}"

    paths.torch = SimpleNamespace(tensor=function("tensor"), full=function("full"))
    try:
        for name, number, named in itertools.product(("tensor", "full"), (1.5, 2, True), (None, {"dtype": 3})):
            yield paths._filled_numbers().__torch_function__(getattr(paths.torch, name), (), (number,), named)
        yield paths._filled_numbers().__torch_function__(paths.torch.full, ())
    finally:
        paths.torch = before


def own_ops(front: Any) -> Iterator[str]:
    """The ops that the front end defines, and what they compute."""
    for made in own.Defined.made:
        yield str([one.get("tags") if type(one) is dict else one for one in made if type(one) in (str, dict)])
    torch = Told("torch")
    functions = {
        "draws": ("_bernoulli_like",), "embeddings": ("_add_rows", "_embedding_gradient"),
        "in_place": ("_slice", "_select"),
        "joint": ("_max_pool_backward", "_max_pool_backward_like"), "resizing": ("_resized_like", "_gradient_like"),
    }  # fmt: skip
    source = Told("src", shape=(2, 3, 4, 5))
    for name, several in functions.items():
        module, made = front[name], [Told(one, shape=(6, 7)) for one in "abcd"]
        before = {
            key: vars(module)[key]
            for key in ("torch", "aten", "library", "suggest_memory_format")
            if key in vars(module)
        }
        vars(module).update({key: torch if key == "torch" else Told(key) for key in before})
        try:
            for function in several:
                count = max(vars(module)[function].__code__.co_argcount, 2) - 2
                for last in (made[3], 0, -1, 2):
                    CALLS.clear()
                    yield f"{function} {outcome(vars(module)[function], source, *made[:count], last)} {CALLS}"
        finally:
            vars(module).update(before)
    for made in own.Defined.made:
        if len(made) == 3 and made[2] == "Meta":
            yield f"{made[0]} {outcome(made[1], own.Tensor(FLOAT, (2, 3, 4)), own.Tensor(FLOAT, (4, 3)), 7, 3)}"
        if type(made[0]) is tuple:  # a gradient
            context = SimpleNamespace()
            made[1]["setup_context"](context, [own.Tensor(FLOAT, (2, 3, 4)), [8], True, 0.5], None)
            yield f"{made[0][0]} {context.sizes} {outcome(made[0][1], context, own.Tensor(FLOAT, (2, 3, 8)))}"


def resizes(front: Any) -> Iterator[str]:
    """Which resizing of images becomes one op."""
    module = front["resizing"]
    module.upsample_compute_output_size = lambda shape, size, factors: f"{shape} {size} {factors}"
    mode = module.whole_ops()
    for rank, kind in ((3, FLOAT), (4, FLOAT), (4, BF16), (4, INT), (5, FLOAT), (2, FLOAT)):
        source = own.Tensor(kind, (2, 3, 4, 5, 6)[:rank])
        for name, size, factor in itertools.product(
            ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"),
            (None, 7, [7, 8]), (None, 1.5, (1.5, 2.5)),
        ):  # fmt: skip
            for more in ({}, {"align_corners": True}, {"recompute_scale_factor": True}, {"antialias": True}):
                kwargs = {"size": size, "scale_factor": factor, "mode": name, **more}
                found = module._resized(source, **kwargs)
                if found is not None:
                    yield f"{rank} {kind} {kwargs} {found}"
    odd = own.Tensor(FLOAT, (2, 3, 4, 5))
    for name, value in {"device": own.Named("cuda"), "layout": "sparse", "is_quantized": True}.items():
        before, _ = getattr(odd, name), setattr(odd, name, value)
        yield f"{name} {module._resized(odd, 3)}"
        setattr(odd, name, before)
    for shape in ((2, 3, 0, 5), (2, 3, own.SymInt("s0", 4), 5)):
        yield str(module._resized(own.Tensor(FLOAT, shape), 3))
    module.dense_attention = lambda *args, **kwargs: f"dense {args} {kwargs}"
    for divides, compiling in itertools.product((True, False), repeat=2):
        module.torch.compiler = SimpleNamespace(is_dynamo_compiling=lambda compiling=compiling: compiling)
        mode = module.whole_ops(divides)
        for function in (module.torch.nn.functional.interpolate, Told("other"), module.flex_attention):
            for given in ((odd, 3), (own.Tensor(INT, (2, 3, 4, 5)), 3)):
                found = outcome(mode.__torch_function__, function, (), given, {"mode": "nearest"})
                yield f"{divides} {compiling} {found}"
        yield outcome(mode.__torch_function__, module.flex_attention, (), (1,)) + str(module.whole_ops().divides)


def registered(front: Any) -> Iterator[str]:
    """Which lowerings of custom ops are taken, and what they return."""
    module, backends = front["registered"], front["registration"]
    mine, table = own.OPS.target("mine.scale.default"), front["node"].LOWERINGS
    for op, function in (
        ("mine", None), (own.OPS.aten.add.Tensor, None), (own.OPS.target("onegraph.a.default"), None), (mine, 3),
        (mine, None), (mine, lambda call: None),
    ):  # fmt: skip
        yield f"{outcome(module.register, op, function)} {str(mine) in table}"
    like = own.Tensor(FLOAT, (2, 3))
    results: dict[str, Callable[[Any], Any]] = {
        "one": lambda call: call.graph.op("Abs", [call.args["a"]]),
        "two": lambda call: (call.graph.op("Abs", [call.args["a"]]), call.args["b"][1]),
        "list": lambda call: [call.args["a"]], "none": lambda call: None, "array": lambda call: np.ones(3),
    }  # fmt: skip
    for (name, function), likes in itertools.product(results.items(), (like, [like], (like, like))):
        module.register(mine, function)
        graph = Graph()
        emit = Emitter(graph)
        a = graph.input("a", "f32", [2, 3])
        values = {"a": a, "b": [np.zeros((2, 3), np.float32), a], "c": "text"}
        node = front["node"].AtenNode(mine, values, values, likes, frozenset(), emit)
        yield f"{name} {outcome(lambda node=node: [one.shape for one in _listed(table[str(mine)](node))])}"
        yield from lines_of(graph)
    module.register(mine, None)
    yield str(str(mine) in table)
    registry = backends.registry
    registry._COMPILER_FNS, told = {"other": 1, "onegraph": 2}, []
    registry.register_backend = lambda **kwargs: told.append(kwargs["name"])
    for _ in range(2):
        backends.register(print)
        kept = registry._COMPILER_FNS
        yield f"{told} {type(kept).__name__} {'onegraph' in kept} {'other' in kept} {'third' in kept} {len(kept)}"
        registry._COMPILER_FNS["fourth"] = 4


def _listed(value: Any) -> Any:
    return [("list", *[one]) and one for one in value] if type(value) in (list, tuple) else [value]


class Power(own.sympy_stand_in.Pow):
    """A power with any exponent."""

    def __init__(self, *ends: Any) -> None:
        super().__init__({ends: 1})
        self.ends = ends

    @property
    def args(self) -> tuple[Any, ...]:
        """The base and the exponent."""
        return self.ends


def stated(front: Any) -> Iterator[str]:
    """How dims give sizes."""
    module = front["stated_sizes"]
    tables = (
        (["s0", 4, "s0"], [6, 4, 6], [[8, 4, 8], [8, 4, 9], [8, 5, 8]]),
        (["2*s0", "s0+1"], [6, 4], [[8, 5], [7, 5], [8, 4]]),
        (["s0*s1", "s1"], [12, 3], [[20, 5], [21, 5], [20, 4]]),
        (["s0+s1", "s1", "s0-s1"], [9, 3, 3], [[9, 4, 1], [9, 4, 2]]),
        (["s0//2", "s0"], [3, 7], [[4, 8], [4, 9], [3, 8]]),
        (["s0//2", "s1"], [3, 7], [[4, 8], [4, 9]]),
        (["s0%3", "s0"], [1, 7], [[2, 8], [1, 8]]),
        (["s0", "s1"], [1, 7], [[1, 9], [2, 9]]),
        (["s0", "s1"], [0, 7], [[0, 9], [2, 9]]),
        (["s0**2", "s0"], [9, 3], [[16, 4], [15, 4]]),
        (["s0**2", "s0**3"], [9, 27], [[16, 64], [16, 60]]),
        (["Max(1, s0)", "s0"], [5, 5], [[7, 7], [7, 6]]),
        (["Min(4, s0)", "s0", "PythonMod(s0, 4)"], [4, 5, 1], [[3, 3, 3], [4, 7, 3], [4, 4, 1]]),
        (["3*s0+2*s1", "s1"], [18, 3], [[20, 4], [21, 3], [19, 3]]),
        (["TruncToInt(Float*ToFloat(s0))", "s0"], [12, 8], [[15, 10], [16, 10]]),
        (["TruncToInt(Odd*ToFloat(s0))", "s0"], [8, 8], [[11, 10], [12, 10]]),
        (["TruncToInt(Float*s0)", "s0"], [12, 8], [[15, 10]]),
        (["TruncToInt(Minus*ToFloat(s0))", "s0"], [12, 8], [[15, 10]]),
        (["Abs(s0)", "s0"], [8, 8], [[9, 9], [9, 8]]),
        (["s0*(s1//2)", "s0", "s1"], [12, 4, 7], [[10, 5, 4], [10, 5, 6]]),
        (["s0+s1", "s0-s1"], [9, 3], [[10, 4], [10, 3]]),
        (["2*s0+3*s1", 4], [12, 4], [[14, 4], [12, 5]]),
    )  # fmt: skip
    parsed = own.sympy_stand_in.parsed
    numbers = {"Float": 1.5, "Odd": 1.1, "Minus": -1.5}
    for texts, dims, others in tables:
        plain = [text if type(text) is int else _with_numbers(text, numbers, parsed) for text in texts]
        sized = [one if type(one) is int else own.SymInt(one, dim) for one, dim in zip(plain, dims, strict=True)]
        yield f"{texts} {sorted(map(str, module.solved_symbols(sized)))}"
        made = module.StatedSizes(sized, dims, 1)
        yield f"{made.places} {made.layouts} {made._solved} {made._ones} {[*map(str, made.known)]}"
        yield str([made.sizes(one) for one in [dims, *others]])
        if symbols := own_sizes(made.sizes(dims)):
            yield f"{made.opened(dims, symbols)} {symbols[0].sizes.conditions()}"
    for text in (
        "s0",
        "s0*2",
        "s0*s1*3",
        "s0+s1+4",
        "s0**3",
        "Max(s0, s1, 9)",
        "Min(s0, s1, 2)",
        "Mod(s0, s1)",
        "s0//s1",
        "Abs(s0)",
    ):
        expression = parsed(text)
        known = {own.sympy_stand_in.Symbol("s0"): 7, own.sympy_stand_in.Symbol("s1"): 4}
        yield f"{text} {outcome(module.value_of, expression, known)} {outcome(module.value_of, expression, {})}"
        yield outcome(module.value_of, expression, {**known, parsed("s0*s1"): 100, parsed("s0"): 5})
    first, sizes = parsed("s0"), OpenSizes([7, 4]).symbols
    for exponent, value in (*((parsed(str(number)), 7) for number in (0, 1, 2)), (parsed("0-1"), 7), (parsed("s1"), 7)):
        known = {first: value, own.sympy_stand_in.Symbol("s1"): sizes[1]}
        yield outcome(module.value_of, Power(first, exponent), known)


def own_sizes(values: Sequence[int] | None) -> Any:
    """Open sizes of these values."""
    return OpenSizes(values).symbols if values else ()


def _with_numbers(text: str, numbers: dict[str, float], parsed: Any) -> Any:
    for name, number in numbers.items():
        text = text.replace(name + "*", f"{number}*")
    return parsed(text)


def _graph(shapes: Sequence[Any], calls: Sequence[Any], results: Any) -> Any:
    """A module of calls: an op, its arguments, and the shape and perhaps the strides of its result."""
    made = [
        (name, places, like[0] if isinstance(like[0], (own.SymInt, tuple)) else (_kind(name), *like))
        for name, places, *like in calls
    ]
    gm = graph_of(shapes, made, results if type(results) is list else [results])
    if type(results) is not list:
        end = [*gm.graph.nodes][-1]
        end.args = end.args[0]
    return gm


def _kind(name: str) -> str:
    return "int64" if name.startswith("aten.arange") else "float32"


# Calls of one op each, by the shapes of the inputs, with sizes that change.
OPEN: tuple[tuple[Any, ...], ...] = (
    ([["s0", 6]], "aten.view.default", ["n0", ["6*s0"]], ["6*s0"]),
    ([["s0", "s1", 2]], "aten.view.default", ["n0", ["s0", "2*s1"]], ["s0", "2*s1"]),
    ([["s0", "s1", 2]], "aten.view.default", ["n0", ["s1", "2*s0"]], ["s1", "2*s0"]),
    ([["s0", 6]], "aten.view.default", ["n0", [2, "s0", 3]], [2, "s0", 3]),
    ([["2*s0", 3], ["s0"]], "aten.view.default", ["n0", [2, "s0", 3]], [2, "s0", 3]),
    ([["s0*s1", 3], ["s0"], ["s1"]], "aten.view.default", ["n0", ["s0", "s1", 3]], ["s0", "s1", 3]),
    ([["s0", 1], ["s1"]], "aten.expand.default", ["n0", ["s0", "s1"]], ["s0", "s1"], ["1", 0]),
    ([[1, 4], ["s0"]], "aten.expand.default", ["n0", ["s0", 4]], ["s0", 4], [0, 1]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 1, 1, 5], ["s0", 4], [6, 1]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, 0, "s0//2"], ["s0//2", 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, "s0-1", "s0"], [1, 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, 1, 9223372036854775807], ["s0-1", 6]),
    ([["s0", 6], ["s1", 6]], "aten.cat.default", [["n0", "n1"], 0], ["s0+s1", 6]),
    ([["s0", 6]], "aten.full.default", [["s0", 3], 2.0], ["s0", 3]),
    ([["s0", 6]], "aten.full.default", [["s0", "s0"], 2.0], ["s0", "s0"]),
    ([["s0", 6]], "aten.full.default", [["s0//2", 3], 2.0], ["s0//2", 3]),
    ([["s0", "s1"]], "aten.full.default", [["s1//4", "s0*s1"], 2.0], ["s1//4", "s0*s1"]),
    ([["s0", 6]], "aten.full.default", [["s0%3", 3], 2.0], ["s0%3", 3]),
    ([["s0", 6]], "aten.full.default", [[2, 3], "s0"], [2, 3]),
    ([["s0", 6]], "aten.full.default", [[], "s0"], []),
    ([["s0", 6]], "aten.add.Tensor", ["n0", "s0"], ["s0", 6]),
    ([["s0", 6]], "aten.arange.start_step", [0, "s0"], ["s0"]),
    ([["s0", 6]], "aten.arange.start_step", [2, "2*s0", 2], ["s0-1"]),
    ([["s0", 6]], "aten.mean.dim", ["n0", [0]], [6]),
    ([["s0", 6]], "aten._softmax.default", ["n0", 0, False], ["s0", 6]),
    ([["s0", "s1"]], "aten.permute.default", ["n0", [1, 0]], ["s1", "s0"], [1, "s1"]),
    ([["s0", 6]], "aten.constant_pad_nd.default", ["n0", [0, 0, 1, 2], 0.5], ["s0+3", 6]),
    ([[1, 2, "s0", "s1"]], "aten.avg_pool2d.default", ["n0", [2, 2], [2, 2]], [1, 2, "s0//2", "s1//2"]),
    ([["s0", 6]], "aten.mul.Tensor", ["n0", "s0"], ["s0", 6]),
    ([["s0", 6]], "aten.select.int", ["n0", 0, -1], [6]),
    ([["s0", 6]], "aten.repeat.default", ["n0", [2, 1]], ["2*s0", 6]),
    ([["s0", 6], ["s0*s0"]], "aten.add.Tensor", ["n0", "n0"], ["s0", 6]),
    ([["s0", 6]], "aten.view.default", ["n0", ["s0**2"]], ["s0**2"]),
    ([["s0", 6]], "aten.select.int", ["n0", 0, "s0-1"], [6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, "s0//2", END], ["s0-s0//2", 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, None, "s0-1"], ["s0-1", 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, "s0-3", "s0-1", 2], [1, 6]),
    ([["s0", 6], [2, 6]], "aten.slice_scatter.default", ["n0", "n1", 0, "s0-2", END], ["s0", 6]),
    ([["s0", 6], [2, 6]], "aten.slice_scatter.default", ["n0", "n1", 0, 1, 3], ["s0", 6]),
    ([["s0", 6], ["s0-2", 6]], "aten.slice_scatter.default", ["n0", "n1", 0, 1, "s0-1"], ["s0", 6]),
    ([["s0", 6], ["s0-1", 6]], "aten.slice_scatter.default", ["n0", "n1", 0, 1, "s0"], ["s0", 6]),
    ([["s0", 6], [1, 6]], "aten.slice_scatter.default", ["n0", "n1", 0, "s0-3", "s0-2"], ["s0", 6]),
    ([["s0", 6]], "aten.roll.default", ["n0", [1], [0]], ["s0", 6]),
    ([["s0", 6]], "aten.roll.default", ["n0", [9], [0]], ["s0", 6]),
    ([["s0", 6]], "aten.flip.default", ["n0", [0]], ["s0", 6]),
    ([["s0", 6]], "aten.constant_pad_nd.default", ["n0", [0, 0, -1, 2], 0.5], ["s0+1", 6]),
    ([["s0", 6]], "aten.constant_pad_nd.default", ["n0", [1, 0], None], ["s0", 7]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, -2, None], [2, 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, 0, "s0"], ["s0", 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, 0, END, 2], ["s0-s0//2", 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, "1-s0", END], ["s0-1", 6]),
    ([["s0", 6]], "aten.select.int", ["n0", 0, 2], [6]),
    ([["s0", 6]], "aten.select.int", ["n0", 0, "2-s0"], [6]),
    ([["s0", 6], [6]], "aten.select_scatter.default", ["n0", "n1", 0, -1], ["s0", 6]),
    ([["s0", 6], [6]], "aten.select_scatter.default", ["n0", "n1", 0, "s0-2"], ["s0", 6]),
    ([["s0", 6], [2, 6]], "aten.slice_scatter.default", ["n0", "n1", 0, None, 2], ["s0", 6]),
    ([["s0", 6], [2, 6]], "aten.slice_scatter.default", ["n0", "n1", 0, 0, 4, 2], ["s0", 6]),
    ([["s0", 6], [2, 6]], "aten.slice_scatter.default", ["n0", "n1", 0, -4, END, 2], ["s0", 6]),
    ([["s0", 6], ["s0", 6]], "aten.slice_scatter.default", ["n0", "n1", 0, 0, END], ["s0", 6]),
    ([["s0", 6], ["s0", 3]], "aten.slice_scatter.default", ["n0", "n1", 1, 1, 4], ["s0", 6]),
    ([["s0", 6]], "aten.roll.default", ["n0", [-3, 1], [0, 1]], ["s0", 6]),
    ([["s0", 6]], "aten.roll.default", ["n0", [2], []], ["s0", 6]),
    ([["s0", 6]], "aten.var.correction", ["n0", [0], 1], [6]),
    ([["s0", 6]], "aten.var.correction", ["n0", [0], 0], [6]),
    ([["s0", 6]], "aten.std.correction", ["n0", [0, 1], 2], []),
    ([["s0", 6]], "aten.var_mean.correction", ["n0", [0], 1], ([6], [6])),
    ([["s0", 6]], "aten.sort.default", ["n0", 0, True], (["s0", 6], ("int64", ["s0", 6]))),
    ([("bool", ["s0", 6])], "aten.sort.default", ["n0", -1, False], (("bool", ["s0", 6]), ("int64", ["s0", 6]))),
    ([[2, 3, "s0"]], "aten.reflection_pad1d.default", ["n0", [1, 2]], [2, 3, "s0+3"]),
    ([[2, 3, "s0"]], "aten.replication_pad1d.default", ["n0", [-1, 2]], [2, 3, "s0+1"]),
    ([[2, 3, "s0+3"], [2, 3, "s0"]], "aten.reflection_pad1d_backward.default", ["n0", "n1", [1, 2]], [2, 3, "s0"]),
    ([[1, 2, "s0", 6]], "aten._adaptive_avg_pool2d.default", ["n0", [2, 3]], [1, 2, 2, 3]),
    ([[1, 2, "s0", 6]], "aten._adaptive_avg_pool2d.default", ["n0", [1, 1]], [1, 2, 1, 1]),
    ([[1, 2, "s0", 6]], "aten.adaptive_max_pool2d.default", ["n0", [2, 3]], ([1, 2, 2, 3], ("int64", [1, 2, 2, 3]))),
    ([[1, 2, 6, 6, "s0"]], "aten._adaptive_avg_pool3d.default", ["n0", [2, 3, 2]], [1, 2, 2, 3, 2]),
    ([[1, 2, "s0", 6]], "aten.avg_pool2d.default", ["n0", [2, 2], [2, 2], [0, 0], True], [1, 2, "(s0+1)//2", 3]),
    ([[1, 2, "s0", 6]], "aten.avg_pool2d.default", ["n0", [2, 2], [1, 1], [0, 0], False, True, 3], [1, 2, "s0-1", 5]),
    ([["s0", 6]], "aten.unfold.default", ["n0", 1, 2, 2], ["s0", 3, 2]),
    ([["s0", 6]], "aten.unfold.default", ["n0", 0, 2, 1], ["s0-1", 6, 2]),
    ([["s0", 6], ["s0", 6]], "aten.stack.default", [["n0", "n1"], 1], ["s0", 2, 6]),
    ([["s0", 6]], "aten.split.Tensor", ["n0", 2, 1], (["s0", 2], ["s0", 2], ["s0", 2])),
    ([["s0"], ["s1"]], "aten.searchsorted.Tensor", ["n0", "n1"], ("int64", ["s1"])),
    ([[6], ["s1"]], "aten.searchsorted.Tensor", ["n0", "n1", True], ("int32", ["s1"])),
    ([["s0", "s0"]], "aten.diagonal.default", ["n0", 0], ["s0"]),
    ([["s0", 6]], "aten.cumsum.default", ["n0", 0], ["s0", 6]),
    ([["s0", 6]], "aten.triu.default", ["n0", 1], ["s0", 6]),
    ([["s0", 6], ("int64", ["s1"])], "aten.index_select.default", ["n0", 0, "n1"], ["s1", 6]),
    ([["s0", 6]], "aten.amax.default", ["n0", [0]], [6]),
    ([["s0", 6]], "aten.full_like.default", ["n0", 2.0], ["s0", 6]),
    ([["s0", 6]], "aten.linalg_vector_norm.default", ["n0", 2, [0]], [6]),
    (
        [[1, 2, "s0", 8], [1, 2, "s1", 8]],
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
        ["n0", "n1", "n1", 0.0, True],
        ([1, 2, "s0", 8], [1, 2, "s0"]),
    ),
    ([[1, 2, "s0", 6]], "onegraph.upsample_nearest2d.default", ["n0", ["2*s0", 12]], [1, 2, "2*s0", 12]),
    ([[1, 2, "s0", 6]], "onegraph.upsample_bilinear2d.default", ["n0", [8, 12], False], [1, 2, 8, 12]),
    (
        [["s0", 6], [6], [6]],
        "aten.native_layer_norm.default",
        ["n0", [6], "n1", "n2", 1e-5],
        (["s0", 6], ["s0", 1], ["s0", 1]),
    ),
    (
        [["s0", 4, 6]],
        "aten.native_group_norm.default",
        ["n0", None, None, "s0", 4, 6, 2, 1e-5],
        (["s0", 4, 6], ["s0", 2], ["s0", 2]),
    ),
)


def exports(front: Any) -> Iterator[str]:
    """Programs that become graphs with unknown dims, and programs that do not."""
    module, torch = front["export"], front["export"].torch
    symbols = [own.sympy_stand_in.Symbol(name) for name in NOW]
    for place, (shapes, name, places, *like) in enumerate(OPEN):
        calls: list[Any] = [(name, places, *like)]
        has_several = type(like[0]) is tuple and type(like[0][0]) is not str
        if has_several:
            calls += [("getitem", [f"n{len(shapes)}", at], *like[0][at : at + 1]) for at in range(len(like[0]))]
        elif not name.startswith("aten.arange"):
            calls.append(("aten.add.Tensor", [f"n{len(shapes)}", f"n{len(shapes)}"], like[0]))
        least, most = ((None, None), (2, 64), (3, 5), (0, 1 << 40), (4, 7))[place % 5]
        if "s0-" in str(places) or "//" in str(places):
            least, most = 4, 7
        ends = [len(shapes) + at for at in reversed(range(len(calls)))]
        ends = ends[:-1] if has_several else ends[: 1 + place % 2]
        gm = _graph(shapes, calls, ends)
        program = aten_passes.program_of(gm, {}, [("USER_INPUT", None)] * len(shapes), len(ends))
        if least is not None:
            program.range_constraints = dict.fromkeys(symbols, SimpleNamespace(lower=least, upper=most))
        try:
            yield from lines_of(module.export(program, None))
        except Exception as error:
            yield f"{name} {type(error).__name__}: {error}"
    for kinds in itertools.product(("USER_OUTPUT", "BUFFER_MUTATION"), repeat=2):
        gm = _graph([[2, 3]], [("aten.neg.default", ["n0"], [2, 3])], [1, 1])
        for result in (None, 3, next(iter(gm.graph.nodes))):
            end = [*gm.graph.nodes][-1]
            end.args = ((end.args[0][0], result),)
            program = aten_passes.program_of(gm, {}, [("USER_INPUT", None)], [*zip(kinds, "ab", strict=True)][:2])
            yield outcome(lambda program=program: [*lines_of(module.export(program, None))])
    weight = own.from_numpy(np.arange(48, dtype=np.float32).reshape(6, 8))
    turned, odd = weight.permute([1, 0]), own.from_numpy(np.arange(4, dtype=np.float32))
    part, half = (own.Tensor(FLOAT, (size, 8), (8, 1), array=weight.array) for size in (2, 3))
    stored = {"a": weight, "b": turned, "c": part, "d": odd, "e": own.Tensor(FLOAT, (0, 8))}
    calls = [("aten.mm.default", ["n0", "n1"], [4, 8]), ("aten.mm.default", ["n6", "n2"], [4, 6]),
             ("aten.cat.default", [["n6", "n3"], 0], [6, 8])]  # fmt: skip
    stated = [[4, 6], [6, 8], *[own.Tensor(FLOAT, one.shape, one.stride()) for one in (turned, part, odd, stored["e"])]]
    specs = [("USER_INPUT", None), *[("PARAMETER", key) for key in stored]]
    for results in (8, 7):
        program = aten_passes.program_of(_graph(stated, calls, [results]), stored, specs, 1)
        yield from lines_of(module.export(program, None))
    made = module.export(aten_passes.program_of(_graph(stated, calls[:1], [6]), stored, specs, 1), None)
    weight.array[:] = 0
    yield from lines_of(made)
    for one in ("n0", "n1"):
        copies: dict[int, Any] = {}
        node = own.Node("call_function" if one == "n1" else "placeholder", one, own.OPS.aten.add.Tensor)
        for tensor in (weight, turned, part, half, odd, stored["e"], type("Odd", (own.Tensor,), {})(FLOAT, (2, 2))):
            array = module._own(node, tensor, copies)
            shares = np.shares_memory(array, tensor.numpy())
            yield f"{one} {array.shape} {array.strides} {shares} {len(copies)}"
    torch.nn.Module = type("Layer", (), {"named_buffers": lambda self: {"b": 1}.items()})
    torch.export.load = lambda path: 1 / 0
    torch.export.export = lambda own_module, *args, **kwargs: f"{args} {kwargs}"
    whole = module.whole_ops
    module.whole_ops = lambda **named: CALLS.append(str(named)) or whole()  # type: ignore[func-returns-value]
    CALLS.clear()
    layer = torch.nn.Module()
    for given in (
        ("no such file", None), ("no such file", ()), (3, ()), (layer, None), (layer, (1,), {"a": 2}, {"a": None}),
        (layer, 3), (layer, (), 3), (own.ExportedProgram(), None), (own.ExportedProgram(), (), None),
        (own.ExportedProgram(), None, {}), (own.ExportedProgram(), None, None, {}),
    ):  # fmt: skip
        found = outcome(module._program, *[*given, None, None, None][:4])
        yield f"{found.partition('object at')[0]} {CALLS}"
    module.whole_ops = whole


def computed_places(front: Any) -> Iterator[str]:
    """Programs of calls whose arguments are sizes that other calls compute."""
    for shapes, name, places, *like in (*OPEN, *PLACES, *parts_of_axes()):
        texts = [one for one in dict.fromkeys(_texts(places)) if isinstance(sized(one), own.SymInt)]
        if not texts or type(like[0]) is tuple:
            continue
        first = len(shapes)
        nodes = {text: f"n{first + at}" for at, text in enumerate(texts)}
        calls: list[Any] = [("aten.sym_size.int", ["n0", 0], sized(text)) for text in texts]
        gm = _graph(shapes, [*calls, (name, _renamed(places, nodes), *like)], [first + len(texts)])
        program = aten_passes.program_of(gm, {}, [("USER_INPUT", None)] * first, 1)
        symbols = [own.sympy_stand_in.Symbol(name) for name in NOW]
        program.range_constraints = dict.fromkeys(symbols, SimpleNamespace(lower=4, upper=7))
        try:
            yield from lines_of(front["export"].export(program, None))
        except Exception as error:
            yield f"{name} {type(error).__name__}: {error}"


def open_calls(front: Any) -> Iterator[str]:
    """Calls that are lowered for open sizes, in a program that takes them at the call."""
    for shapes, name, places, *like in (*OPEN, *PLACES, *parts_of_axes()):
        sizes = OpenSizes([4, 6])
        known = dict(zip(("s0", "s1"), sizes.symbols, strict=True))

        def opened(value: Any, known: Any = known) -> Any:
            if type(value) in (list, tuple):
                return type(value)(opened(one) for one in value)
            is_size = type(value) is str and ("s0" in value or "s1" in value)
            return eval(value, dict(known)) if is_size else value

        def tensor(stated: Any, opened: Any = opened) -> Any:
            kind, shape = stated if type(stated) is tuple else ("float32", stated)
            return own.Tensor(own.Dtype(kind), opened(shape))

        gm = _graph(shapes, [(name, places, *like)], [len(shapes)])
        *inputs, call, _ = gm.graph.nodes
        has_several = type(like[0]) is tuple and type(like[0][0]) is not str
        metas = {node: tensor(stated) for node, stated in zip(inputs, shapes, strict=True)}
        metas[call] = tuple(map(tensor, like[0])) if has_several else tensor(like[0])
        first = gm.graph.call_function(own.operator.getitem, [call, 0])
        metas[first], ends = metas[call][0] if has_several else metas[call], [call]
        named = {f"n{place}": node for place, node in enumerate(inputs)}
        call.args = tuple(_renamed(opened(places), named))
        try:
            calls = [call, first] if has_several else ends
            made = front["lowering"].lower_graph(calls, call.all_input_nodes, calls[-1:], {}, metas)
            yield from lines_of(made.graph)
        except Exception as error:
            yield f"{name} {type(error).__name__}: {error}"
        yield str(sizes.conditions())


# Places that are counted from the end, and steps, of axes whose size is known and of others.
PLACES: tuple[tuple[Any, ...], ...] = (
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 1, "0-s0", END], ["s0", "s0"], [6, 1]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 1, "s0-3", "s0-1"], ["s0", 2], [6, 1]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, "s0-4", "s0", 2], ["2", 6]),
    ([["s0", 6]], "aten.slice.Tensor", ["n0", 0, None, "s0-2"], ["s0-2", 6]),
    ([["s0", 6], [6]], "aten.select_scatter.default", ["n0", "n1", 0, "s0-4"], ["s0", 6]),
    ([["s0", 6]], "aten.select.int", ["n0", 1, "s0-1"], ["s0"]),
    ([["s0", 6]], "aten.unfold.default", ["n0", 0, "s0-1", 1], [2, 6, "s0-1"]),
    ([["s0", 6]], "aten.constant_pad_nd.default", ["n0", [0, 0, "s0", 1], 0.5], ["2*s0+1", 6]),
    ([[2, 3], ["s0"]], "aten.constant_pad_nd.default", ["n0", ["s0", 0], 0.5], [2, "s0+3"]),
    ([["s0", 6]], "aten.repeat.default", ["n0", ["s0", 1]], ["s0*s0", 6]),
    ([["s0", 6]], "aten.roll.default", ["n0", ["s0-1"], [1]], ["s0", 6]),
)


def parts_of_axes() -> Iterator[tuple[Any, ...]]:
    """Parts of an open axis and of a known one, and other tensors in their places."""
    starts: tuple[Any, ...] = (None, 0, 1, -1, "s0-3", "1-s0")
    ends: tuple[Any, ...] = (None, 2, -1, END, "s0", "s0-1", "s1")
    for axis, start, end, step in itertools.product((0, 1), starts, ends, (1, 2)):
        if axis * step == 2 or (axis and start in (0, 1)) or (step == 2 and end in (-1, "s0-1", "s1")):
            continue
        first, last = (eval(str(one), {**NOW}) for one in (start, end))
        count = len(range((4, 6)[axis])[slice(first, last, step)])
        part = [count, 6] if axis == 0 else ["s0", count]
        place = ["n0", axis, start, end, step]
        yield [["s0", 6]], "aten.slice.Tensor", place, part
        if not axis and (step == 1 or start in (None, 1, -1)):
            yield [["s0", 6], part], "aten.slice_scatter.default", ["n0", "n1", *place[1:]], ["s0", 6]
    for axis, index in itertools.product((0, 1), (0, 1, -1, -2, "s0-1", "0-s0")):
        row = [6] if axis == 0 else ["s0"]
        yield [["s0", 6]], "aten.select.int", ["n0", axis, index], row
        yield [["s0", 6], row], "aten.select_scatter.default", ["n0", "n1", axis, index], ["s0", 6]


def _texts(value: Any) -> Iterator[str]:
    for one in value if type(value) is list else [value]:
        yield from _texts(one) if type(one) is list else [one] if type(one) is str else []


def _renamed(value: Any, names: Any) -> Any:
    if type(value) is list:
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if type(value) is str else value


def parts(front: Any) -> Iterator[str]:
    """Parts that are compiled, for known sizes and for sizes that change."""
    module, options_of, work_of = front["compiled_part"], front["options"].BackendOptions, front["sizes"].Work
    rng = np.random.default_rng(3)

    def tensor(*shape: int) -> Any:
        return own.from_numpy(rng.integers(-4, 5, shape).astype(np.float32))

    size = "s0"
    product, sums = ("aten.mm.default", ["n0", "n1"]), ("aten.add.Tensor", ["n2", "n2"])
    cases = (
        ([[4, 8], [8, 8]], [(*product, [4, 8]), (*sums, [4, 8]), ("aten.neg.default", ["n0"], [4, 8])], [3, 4]),
        ([[4, 8], [8, 8]], [(*product, [4, 8]), (*sums, [4, 8])], [3]),
        ([[4, 8], [8, 8]], [(*product, [4, 8]), ("aten.permute.default", ["n2", [1, 0]], [8, 4], [1, 8])], 3),
        ([[size, 8], [8, 8]], [(*product, [size, 8]), (*sums, [size, 8])], [3]),
        ([[size, 8], [8, 8], sized(size)], [("aten.mm.default", ["n0", "n1"], [size, 8]),
                                     ("aten.add.Tensor", ["n3", "n2"], [size, 8])], [4, 3]),
    )  # fmt: skip
    numbers = (
        [[size, 8], [8, 8], sized(size)],
        [("aten.mm.default", ["n0", "n1"], [size, 8]), ("aten.full.default", [["n2", 8], "n2"], [size, 8]),
         ("aten.add.Tensor", ["n3", "n4"], [size, 8]), ("aten.arange.start_step", [1, "n2"], [f"{size}-1"]),
         ("aten.var.correction", ["n5", [0]], [8]), ("aten.mul.Tensor", ["n7", "n2"], [8])],
        [5, 6, 8],
    )  # fmt: skip
    with aten_passes.compiling():
        for place, (shapes, calls, results) in enumerate((*cases, numbers)):
            work = work_of()
            part = module.CompiledPart(
                _graph(shapes, calls, results), {}, options_of(threads=1, smallest=place + 1), work
            )
            function, weight = part.function(), tensor(8, 8)
            yield f"{part.is_static} {part.several} {part.overs} {part.fallbacks()}"
            for rows in (4,) if part.is_static else (4, 6, 6, 7, 0, 9):
                given = [tensor(rows, 8), weight, rows][: len(shapes)]
                found = outcome(function, *given) if rows == 0 else function(*given)
                several = found if type(found) is list else [found]
                want = given[0].numpy() @ weight.numpy()
                seen = [
                    (str(one), [round(float(number)) for number in one.numpy().ravel()]) if rows else str(one)
                    for one in several
                ]
                yield f"{type(found)} {seen} {float(want.sum())}"
                counts = f"{work.compilations} {work.reused} {work.reason} {work.counts}"
                yield f"{counts} {len(part._open)} {part._failures} {type(part.program).__name__}"
            if not part.is_static:  # programs of other threads remain, but for the oldest
                part._open = [SimpleNamespace(program=SimpleNamespace(threads=-1))] * module.MOST
                function(*[tensor(11, 8), weight, 11][: len(shapes)])
                yield f"{[type(one).__name__ for one in part._open]}"
            if part.is_static and part.overs:
                given = [tensor(4, 8), weight]
                found = part.writing(part.overs)(*given)
                pairs = [(one is given[0], float(one.numpy().sum())) for one in found]
                yield f"{pairs} {float(given[0].numpy().sum())}"
    yield from _threads(module, part)


def _threads(module: Any, part: Any) -> Iterator[str]:
    """Which programs another thread may make."""
    before, part._for_sizes = module.is_background, lambda arguments: "made"
    for owner, is_background in itertools.product((None, 0, 7), (False, True)):
        part.program = SimpleNamespace(owner_thread=owner) if owner != 0 else None
        module.is_background = lambda is_background=is_background: is_background
        yield f"{owner} {is_background} {outcome(part._anywhere, [])}"
    module.is_background = before


# Calls on [4, 6], a part of it and a vector, by their results.
CLOSED: dict[str, tuple[tuple[list[Any], list[int]], ...]] = {
    "aten.slice_scatter.default": tuple(
        (["n0", "n1", axis, *ends], [4, 6])
        for axis in (0, -2)
        for ends in ((None, 2), (0, 2), (1, 3), (2, END), (-2, None), (0, 4, 2), (1, None, 2), (0, -2), (-3, -1))
    ),
    "aten.slice.Tensor": tuple(
        (["n0", 0, *ends], [size, 6])
        for ends, size in (
            ((None, 2), 2),
            ((0, END), 4),
            ((1, 3), 2),
            ((-2, None), 2),
            ((0, 4, 2), 2),
            ((1, 4, 2), 2),
            ((0, 4), 4),
            ((-9, 3), 3),
            ((0, -1), 3),
            ((None, None, 3), 2),
        )
    ),
    "aten.select.int": tuple((["n0", 0, place], [6]) for place in (0, -1, 2)),
    "aten.roll.default": tuple(
        (["n0", *ends], [4, 6]) for ends in (([1], [0]), ([-1], [1]), ([0], [0]), ([5], [0]), ([1, 2], [0, 1]), ([3],))
    ),
    "aten.repeat.default": tuple(
        (["n0", counts], [4 * counts[-2], 6 * counts[-1]]) for counts in ([1, 2], [3, 1], [1, 1])
    ),
    "aten.constant_pad_nd.default": tuple(
        (["n0", pads, *value], [4 + sum(pads[2:]), 6 + sum(pads[:2])])
        for pads, value in (([1, 2], [0.5]), ([1, -2, 0, 1], []), ([-1, -1], [1]), ([0, 0, 2, 0], [0]), ([0, 0], [2.0]))
    ),
    "aten.permute.default": ((["n0", [1, 0]], [6, 4]), (["n0", [-2, -1]], [4, 6])),
    "aten.t.default": ((["n0"], [6, 4]), (["n2"], [6])),
    "aten.transpose.int": ((["n0", 0, -1], [6, 4]), (["n0", 1, 1], [4, 6])),
    "aten.view.default": ((["n0", [24]], [24]), (["n0", [2, -1]], [2, 12])),
    "aten.flip.default": ((["n0", [0]], [4, 6]), (["n0", [0, -1]], [4, 6]), (["n0", []], [4, 6])),
    "aten.cat.default": ((["n01", 0], [6, 6]), (["n03", 0], [4, 6]), (["n00", -1], [4, 12])),
    "aten.select_scatter.default": ((["n0", "n2", 0, 1], [4, 6]), (["n0", "n2", 0, -1], [4, 6])),
    "aten.unfold.default": ((["n0", 1, 2, 2], [4, 3, 2]), (["n0", 0, 4, 1], [1, 6, 4]), (["n2", 0, 3, 1], [4, 3])),
}


def movements(front: Any) -> Iterator[str]:
    """Ops that move elements of known sizes, of an input and of known arrays."""
    lowering = front["lowering"]
    for name, several in CLOSED.items():
        for given, result in several:
            places = [[f"n{one}" for one in given[0][1:]], *given[1:]] if name == "aten.cat.default" else given
            gm = graph_of([[4, 6], [2, 6], [6], [0]], [(name, places, result)], [4])
            nodes = [*gm.graph.nodes]
            metas = {node: node.meta.get("val") for node in nodes}
            for known in ([], nodes[:1], nodes[:4]):
                arrays = {
                    node: np.arange(metas[node].numel(), dtype=np.float32).reshape(metas[node].shape) for node in known
                }
                inputs = [node for node in nodes[:4] if node not in arrays]
                try:
                    yield from lines_of(lowering.lower_graph(nodes[4:5], inputs, nodes[4:5], arrays, metas).graph)
                except Exception as error:
                    yield f"{name} {given} {type(error).__name__}: {error}"


CODES, WIDE = ("int8", [4, 8]), ("int64", [1])
BYTE, WHOLE = own.Dtype("int8"), (-128, 127)
OF_TENSOR, OF_CHANNEL = ("quantized_decomposed.{}_per_tensor.{}", "quantized_decomposed.{}_per_channel.default")
# Calls by their inputs, arguments and results, with the places of the inputs that are known, in several ways.
CALLED: tuple[tuple[Any, ...], ...] = (
    *[
        (
            OF_TENSOR.format("quantize", "default"),
            [[4, 8]],
            ["n0", 0.5, zero, *ends, own.Dtype(kind)],
            (kind, [4, 8]),
            [[], [0]],
        )
        for zero, kind, ends in (
            (0, "int8", WHOLE),
            (3, "uint8", (0, 255)),
            (-2, "int8", (-127, 127)),
            (1, "uint8", (0, 127)),
            (0, "int16", WHOLE),
        )
    ],
    *[
        (
            OF_TENSOR.format("quantize", name),
            [[4, 8], [1], WIDE, ("int64", [])],
            ["n0", "n1", "n2", *ends, BYTE],
            CODES,
            [[], [1, 2], [1], [2], [1, 2, 3]],
        )
        for name, ends in (("tensor", WHOLE), ("tensor", ("n3", 127)), ("tensor", (-127, 126)))
    ],
    *[
        (
            OF_TENSOR.format("dequantize", "tensor"),
            [(kind, [4, 8]), [1], (points, [1])],
            ["n0", "n1", "n2", -128, 127, own.Dtype(kind)],
            (made, [4, 8]),
            [[], [1, 2], [0, 1, 2], [1]],
        )
        for kind, points, made in (
            ("int8", "int64", "float32"),
            ("uint8", "int32", "bfloat16"),
            ("int8", "int8", "float32"),
        )
    ],
    *[
        (
            OF_CHANNEL.format(name),
            [first, [4], points],
            ["n0", "n1", "n2" if points else None, axis, *ends, BYTE],
            result,
            [[], [1, 2], [1]],
        )
        for name, first, result in (("dequantize", CODES, [4, 8]),)
        for points, axis, ends in ((("int64", [4]), 0, WHOLE), (None, 0, WHOLE), (("int64", [4]), -2, (-127, 127)))
    ],
    *[
        (
            "torchao.dequantize_affine.default",
            [CODES if kind == "int8" else (kind, [4, 8]), scales, points],
            ["n0", block, "n1", "n2" if points else None, BYTE, *ends],
            (made, [4, 8]),
            [[], [0, 1, 2], [0, 1], [1, 2]],
        )
        for block, scales, points, ends, kind, made in (
            ([1, 4], [4, 2], ("int8", [4, 2]), (-8, 7), "int8", "float32"),
            ([1, 4], [4, 2], ("float32", [4, 2]), (0, 15), "uint8", "bfloat16"),
            ([1, 8], [4, 1], None, (-8, 8), "int8", "float32"),
            ([1, 8], [4], ("int64", [4]), WHOLE, "int8", "float32"),
            ([4, 8], [1], ("int64", [1]), WHOLE, "int8", "float32"),
            ([2, 8], [2], None, WHOLE, "int8", "float32"),
            ([4, 1], [8], ("int32", [8]), WHOLE, "int32", "bfloat16"),
            ([1, 4], [4, 2], None, (-8, 7), "int32", "float32"),
            ([1, 4], [4, 2], ("int8", [4, 2]), (0, 16), "int8", "float32"),
        )
    ],
    *[
        (
            "torchao.dequantize_affine.default",
            [("int8", dims), scales, None],
            ["n0", block, "n1", None, BYTE, -8, 7],
            ("float32", dims),
            [[0], [0, 1]],
        )
        for dims, scales, block in (
            ([4, 9], [4, 3], [1, 3]),
            ([2, 4, 8], [2, 4, 8], [1, 1, 1]),
            ([4, 8], [2, 2], [2, 4]),
        )
    ],
    *[
        (
            "quantized_decomposed.choose_qparams.tensor",
            [[4, 8]],
            ["n0", *ends, 1e-5, own.Dtype(kind)],
            (("float64", [1]), WIDE),
            [[]],
        )
        for kind, ends in (("int8", WHOLE), ("uint8", (0, 255)), ("int8", (-127, 127)), ("int32", WHOLE))
    ],
    *[("aten._int_mm.default", [CODES, ("int8", [8, 3])], ["n0", "n1"], ("int32", [4, 3]), [[], [1], [0, 1]])],
    *[
        (
            f"aten.{name}.default",
            [[3, 4, 5], ("int64", [2]), ("int64", [2, 1]), values],
            ["n0", places, "n3", add],
            [3, 4, 5],
            [[], [1, 2]],
        )
        for name in ("index_put",)
        for places, values in (
            (["n1"], [2, 4, 5]),
            ([None, "n1"], [3, 2, 5]),
            ([None, None, "n1"], []),
            (["n1", "n2"], [2, 2, 5]),
            (["n1", None, "n2"], [2, 2, 4]),
            ([None, "n1", "n2"], [3, 2, 2]),
            (["n1", "n1", "n1"], [2]),
            ([None, "n1"], ("float64", [3, 2, 5])),
        )
        for add in (False, True)
    ],
    *[
        (
            "aten.index.Tensor",
            [[3, 4, 5], ("int64", [2]), ("int64", [2, 1]), (kind, [3])],
            ["n0", places],
            shape,
            [[], [1, 2], [0, 1, 2]],
        )
        for kind in ("bool",)
        for places, shape in (
            (["n1"], [2, 4, 5]),
            ([None, "n1"], [3, 2, 5]),
            (["n1", None, "n2"], [2, 2, 4]),
            ([None, "n1", "n2"], [3, 2, 2]),
            (["n1", "n2"], [2, 2, 5]),
            (["n3"], [3, 4, 5]),
            ([None, None, "n1"], [3, 4, 2]),
            (["n1", "n1", "n1"], [2]),
        )
    ],
    *[
        ("aten.index.Tensor", [[3, 4, 5, 6], ("int64", [2]), ("int64", [2, 1])], ["n0", places], shape, [[], [1, 2]])
        for places, shape in (
            ([None, "n1", None, "n2"], [2, 2, 3, 5]),
            ([None, None, "n1", "n2"], [3, 4, 2, 2]),
            ([None, "n1", "n2"], [3, 2, 2, 6]),
            ([None, "n1"], [3, 2, 5, 6]),
        )
    ],
    ("aten.index.Tensor", [[3, 4, 5], ("int64", [3]), ("bool", [3])], ["n0", ["n1", "n2"]], [3, 5], [[]]),
    *[
        (f"aten.{name}", [[3, 4], ("int64", [2, 4]), [2, 4]], ["n0", axis, "n1", *rest], [3, 4], [[], [1]])
        for axis in (0, -1)
        for name, rest in (
            ("scatter.src", ["n2"]),
            ("scatter.value", [2.0]),
            ("scatter_add.default", ["n2"]),
            ("gather.default", []),
            *[("scatter_reduce.two", ["n2", kind, whole]) for kind in ("sum", "amax") for whole in (True, False)],
        )
    ],
    *[
        ("aten.masked_scatter.default", [[3, 4], ("bool", mask), kind], ["n0", "n1", "n2"], [3, 4], [[]])
        for mask in ([3, 4], [4])
        for kind in ([12], ("float64", [3, 4]))
    ],
    *[
        (
            "aten._embedding_bag_forward_only.default",
            [[9, 4], ("int64", [6]), ("int64", [3]), [6]],
            ["n0", "n1", "n2", False, mode, False, "n3" if weighted else None, last, padding],
            ([3 - last, 4], ("int64", [6]), ("int64", [3]), ("int64", [3])),
            [[]],
        )
        for mode, weighted, last, padding in (
            *((0, False, False, -1), (0, True, False, -1), (1, False, True, -1), (2, False, False, -1)),
            *((0, False, False, 0), (None, False, False, 2), (2, True, True, None)),
        )
    ],
    *[
        (f"aten.{name}", [shape, ("int64", index), index], ["n0", 0, "n1", *rest], shape, [[], [0]])
        for shape, index in (([], [1]), ([3], []), ([], []))
        for name, rest in (("scatter.src", ["n2"]), ("scatter.value", [2.0]), ("scatter_add.default", ["n2"]))
    ],
    *[
        (
            "aten._native_batch_norm_legit_functional.default",
            [shape, *[[shape[1]]] * 4],
            [*(f"n{place}" for place in range(5)), True, 0.25, 1e-5],
            (shape, *[[shape[1]]] * 4),
            [[]],
        )
        for shape in ([3, 1, 2], [2, 1, 1], [1, 1, 1], [1, 2, 1], [4, 3], [2, 3, 4, 5])
    ],
    *[
        (
            "aten.native_group_norm.default",
            [shape, [4], [4]],
            ["n0", *ends, shape[0], 4, shape[2], 2, 1e-5],
            (shape, [shape[0], 2], [shape[0], 2]),
            [[]],
        )
        for shape in ([2, 4, 3], [2, 4, 4])
        for ends in (["n1", None], [None, "n2"], ["n1", "n2"], [None, None])
    ],
    *[
        ("aten._fused_rms_norm.default", [[4, 8], [8]], ["n0", [8], weight, eps], ([4, 8], [4, 1]), [[]])
        for weight in ("n1", None)
        for eps in (None, 1e-5, 0.5)
    ],
    *[
        (f"aten.{name}", [[2, 3], []], places, (kind, shape), [[], [0]])
        for name, places, kind, shape in (
            *(("arange.start_step", ends, "int64", [5]) for ends in ([0, 5], [1, 11, 2], [5, 0, -1], [None, 5, None])),
            *(("arange.start_step", ends, "float32", [4]) for ends in ([0.5, 4.5], [0, 2, 0.5], [1, 3.0, 0.5], [2, 6])),
            *(("arange.default", [5], "int32", [5]), ("arange.start", [2, 6], "bfloat16", [4])),
            *(("full.default", [[2, 3], number], "float32", [2, 3]) for number in (1.5, 0, "n1")),
            *(
                ("full_like.default", ["n0", 2], "int64", [2, 3]),
                ("new_full.default", ["n0", [2], 3.0], "float32", [2]),
            ),
            *((f"{name}_like.default", ["n0"], "bfloat16", [2, 3]) for name in ("zeros", "ones", "empty")),
            *((f"new_{name}.default", ["n0", [4]], "int32", [4]) for name in ("zeros", "ones", "empty")),
            *((f"{name}.default", [[4]], "float16", [4]) for name in ("zeros", "ones")),
            *(("scalar_tensor.default", [2.5], "float32", []), ("fill.Scalar", ["n0", 2.5], "float32", [2, 3])),
            *(("copy.default", ["n0", "n1"], "bfloat16", [2, 3]), ("empty.memory_format", [[3]], "float32", [3])),
        )
    ],
    *[
        (f"aten.{name}", [(kind, [2, 3])] * 3, ["n0", "n1", *ends], (kind, [2, 3]), [[], [1]])
        for kind in ("float32", "bfloat16", "float64", "int64")
        for name, ends in (
            *((f"{name}.default", ["n2", *ends]) for name in ("addcmul", "addcdiv") for ends in ([], [1], [2])),
            *(("lerp.Scalar", [weight]) for weight in (0.25, 0.5, -0.5, 0.75)),
        )
    ],
    *[
        ("aten.histc.default", [(kind, [2, 5])], ["n0", 4, low, high], (kind, [4]), [[]])
        for kind, low, high in (("float32", 0, 2), ("bfloat16", -1, 3), ("float32", 0, 0))
    ],
    *[
        ("aten.diagonal.default", [[2, 3, 4]], ["n0", offset, first, second], [*rest, size], [[], [0]])
        for offset, first, second, rest, size in (
            *(
                (0, 0, 1, [4], 2),
                (1, -1, 0, [3], 1),
                (-1, 1, 2, [2], 2),
                (2, 1, -1, [2], 2),
                (None, None, None, [4], 2),
            ),
        )
    ],
    *[
        (f"aten.{name}.default", [source], ["n0", *places], result, [[], [0]])
        for name, source, places, result in (
            ("_adaptive_avg_pool2d", [1, 2, 4, 6], [[2, 3]], [1, 2, 2, 3]),
            ("_adaptive_avg_pool2d", [2, 4, 6], [[2, 3]], [2, 2, 3]),
            ("_adaptive_avg_pool2d", [1, 2, 5, 6], [[2, 4]], [1, 2, 2, 4]),
            ("_adaptive_avg_pool2d", [1, 2, 5, 6], [[1, 1]], [1, 2, 1, 1]),
            ("_adaptive_avg_pool3d", [1, 2, 4, 4, 6], [[2, 2, 3]], [1, 2, 2, 2, 3]),
            ("adaptive_avg_pool1d", [2, 6], [[3]], [2, 3]),
            ("avg_pool2d", [1, 2, 5, 6], [[2, 2], [2, 2], [0, 0], True], [1, 2, 3, 3]),
            ("avg_pool2d", [1, 2, 5, 6], [[3, 3], [2, 2], [1, 1], False, False], [1, 2, 3, 3]),
            ("avg_pool2d", [2, 5, 6], [[3, 3], [2, 2], [1, 1], False, True, 4], [2, 3, 3]),
            ("avg_pool2d", [2, 5, 6], [[2, 3]], [2, 2, 2]),
            ("avg_pool1d", [2, 6], [[2], [2], [1], False, True], [2, 4]),
            ("avg_pool3d", [1, 2, 4, 4, 4], [[2, 2, 2], [2, 2, 2]], [1, 2, 2, 2, 2]),
            ("im2col", [1, 2, 4, 4], [[2, 2], [1, 1], [0, 0], [2, 2]], [1, 8, 4]),
            ("im2col", [2, 4, 4], [[2, 2], [1, 1], [1, 0], [1, 1]], [8, 15]),
            ("col2im", [1, 8, 4], [[4, 4], [2, 2], [1, 1], [0, 0], [2, 2]], [1, 2, 4, 4]),
            ("col2im", [8, 4], [[4, 4], [2, 2], [1, 1], [0, 0], [2, 2]], [2, 4, 4]),
            ("im2col", [1, 2, 5, 6], [[3, 2], [1, 2], [1, 0], [2, 1]], [1, 12, 12]),
            ("col2im", [1, 12, 12], [[5, 6], [3, 2], [1, 2], [1, 0], [2, 1]], [1, 2, 5, 6]),
            ("avg_pool2d", [2, 5, 6], [[3, 2], [2, 1], [1, 0], False, True, 5], [2, 3, 5]),
            ("avg_pool2d", [1, 2, 5, 6], [[3, 2], [2, 1], [1, 0], False, True], [1, 2, 3, 5]),
            ("avg_pool3d", [2, 5, 6, 4], [[3, 2, 1], [2, 1, 3], [1, 0, 0], True, True, 7], [2, 3, 5, 2]),
            ("adaptive_avg_pool1d", [2, 7], [[3]], [2, 3]),
            ("_adaptive_avg_pool3d", [1, 2, 5, 4, 7], [[2, 2, 3]], [1, 2, 2, 2, 3]),
        )
    ],
    *[
        (f"aten.{name}.default", [source], ["n0", *places], (result, ("int64", result)), [[], [0]])
        for name, source, places, result in (
            ("max_pool2d_with_indices", [1, 2, 7, 8], [[3, 2], [2, 3], [1, 0], [1, 2], True], [1, 2, 4, 3]),
            ("max_pool2d_with_indices", [2, 7, 8], [[3, 2], [2, 3], [1, 0], [1, 2]], [2, 4, 2]),
            ("max_pool2d_with_indices", [2, 7, 8], [[2], []], [2, 3, 4]),
            ("max_pool3d_with_indices", [1, 2, 4, 5, 6], [[2, 3, 2], [2, 1, 3], [1, 0, 0]], [1, 2, 3, 3, 2]),
            ("adaptive_max_pool2d", [2, 7, 6], [[3, 4]], [2, 3, 4]),
            ("adaptive_max_pool3d", [1, 2, 5, 4, 7], [[2, 2, 3]], [1, 2, 2, 2, 3]),
        )
    ],
    ("aten._adaptive_avg_pool2d_backward.default", [[2, 3, 4], [2, 7, 6]], ["n0", "n1"], [2, 7, 6], [[]]),
    *[
        (f"aten.{name}", [(kind, [2, 3, 4])], ["n0", axes, keeps], (made or kind, shape), [[]])
        for axes, keeps, shape in (([1], False, [2, 4]), ([0, -1], True, [1, 3, 1]), ([-2], True, [2, 1, 4]))
        for name, kind, made in (
            *((f"{name}.default", kind, "") for name in ("amax", "amin") for kind in ("float32", "int64")),
            *(
                (name, kind, "")
                for name in ("mean.dim", "sum.dim_IntList")
                for kind in ("float32", "float64", "bfloat16")
            ),
            *((f"{name}.dims", kind, "bool") for name in ("any", "all") for kind in ("bool", "float32", "int64")),
            *(("sum.dim_IntList", kind, "int64") for kind in ("int64", "bool", "int32")),
        )
    ],
    *[
        (f"aten.{name}", [(kind, [2, 3, 4])], ["n0", axis, keeps], made(kind, shape), [[]])
        for axis, keeps, shape in ((1, False, [2, 4]), (-1, True, [2, 3, 1]), (0, False, [3, 4]))
        for kind in ("float32", "int64", "bfloat16")
        for name, made in (
            *((f"{name}.dim", lambda kind, shape: ((kind, shape), ("int64", shape))) for name in ("max", "min")),
            *((f"arg{name}.default", lambda kind, shape: ("int64", shape)) for name in ("max", "min")),
            ("prod.dim_int", lambda kind, shape: (kind, shape)),
        )
    ],
    *[
        (f"aten.{name}.default", [(kind, [2, 3, 4])], ["n0", axis], (kind, [2, 3, 4]), [[]])
        for name in ("cumsum", "cumprod")
        for kind in ("float32", "int64", "bfloat16")
        for axis in (0, -2, 2)
    ],
    *[
        ("aten.var.dim", [(kind, [2, 3, 4])], ["n0", axes, unbiased, keeps], (kind, shape), [[]])
        for kind in ("float32", "bfloat16")
        for axes, unbiased, keeps, shape in (([1], True, False, [2, 4]), ([0, 2], False, True, [1, 3, 1]))
    ],
    *[
        ("aten.linalg_vector_norm.default", [(kind, [2, 3, 4])], ["n0", order, axes, keeps], (kind, shape), [[]])
        for kind in ("float32", "bfloat16")
        for order in (1, 2, 3.0)
        for axes, keeps, shape in (([1], False, [2, 4]), ([0, 2], True, [1, 3, 1]), (None, False, []))
    ],
    *[
        (f"aten.{name}.Tensor", [(kind, [2, 3]), (kind, second)], ["n0", "n1"], (kind, [2, 3]), [[], [1]])
        for name in ("remainder", "fmod")
        for kind in ("float32", "int64", "bfloat16", "int32", "uint8")
        for second in ([2, 3], [3], [])
    ],
    *[
        (f"aten.{name}.Scalar", [(kind, [2, 3])], ["n0", number], (kind, [2, 3]), [[]])
        for name in ("remainder", "fmod")
        for kind, number in (
            ("float32", 2.5),
            ("float32", -2),
            ("int64", 3),
            ("int64", -3),
            ("bfloat16", 1),
            ("int32", 4),
        )
    ],
    *[
        (f"aten.{name}.default", [(kind, [2, 3])], ["n0"], (made or kind, [2, 3]), [[]])
        for kind in ("float32", "int64", "bfloat16", "float64")
        for name, made in (
            *((name, "float32" if kind == "int64" else "") for name in ("log2", "log10", "log1p", "expm1")),
            *(("trunc", ""), ("isinf", "bool")),
        )
    ],
    *[
        (
            "aten.avg_pool2d_backward.default",
            [[1, 2, *result], [1, 2, 5, 6]],
            ["n0", "n1", *window],
            [1, 2, 5, 6],
            [[]],
        )
        for window, result in (
            ([[3, 2], [2, 1], [1, 0], False, True, None], [3, 5]),
            ([[3, 2], [2, 1], [1, 0], False, False, None], [3, 5]),
            ([[3, 2], [2, 1], [1, 0], False, False, 4], [3, 5]),
            ([[2, 3], [2, 2], [0, 1], True, True, None], [3, 4]),
        )
    ],
    ("aten._adaptive_avg_pool2d_backward.default", [[1, 2, 3, 2], [1, 2, 3, 5]], ["n0", "n1"], [1, 2, 3, 5], [[]]),
    *[
        ("aten._grouped_mm.default", [rows, matrices, ("int32", [3]), [5]], ["n0", "n1", ends, bias], result, [[]])
        for rows, matrices, ends, bias, result in (
            ([6, 4], [3, 4, 5], "n2", None, [6, 5]),
            ([3, 6, 4], [3, 4, 5], None, None, [3, 6, 5]),
            ([6, 4], [4, 5], "n2", None, [3, 6, 5]),
            ([6, 4], [3, 4, 5], "n2", "n3", [6, 5]),
        )
    ],
)


def calls(front: Any) -> Iterator[str]:
    """Calls of one op each: of codes, and of places that tensors name."""
    lowering = front["lowering"]
    for name, inputs, places, result, known_of in CALLED:
        gm = graph_of(inputs, [(name, places, result)], [len(inputs)])
        nodes = [*gm.graph.nodes]
        metas, call = {node: node.meta.get("val") for node in nodes}, nodes[len(inputs)]
        results = metas[call] if type(metas[call]) is tuple else ()
        places_read = [[place] for place in range(len(results))] + [[*range(len(results))]] * (len(results) > 1)
        for known, several in itertools.product(known_of, places_read or [[]]):
            parts = [gm.graph.call_function(own.operator.getitem, [call, place]) for place in several]
            metas.update((part, results[place]) for part, place in zip(parts, several, strict=True))
            read = [nodes[one] for one in known if metas[nodes[one]] is not None]
            arrays = {
                node: np.arange(metas[node].numel()).reshape(metas[node].shape).astype(metas[node].dtype.numpy)
                for node in read
            }
            sources = [node for node in call.all_input_nodes if node not in arrays]
            try:
                made = lowering.lower_graph([call, *parts], sources, parts or [call], arrays, metas)
                yield from lines_of(made.graph)
            except Exception as error:
                yield f"{name} {places} {known} {type(error).__name__}"
            for part in parts:
                gm.graph.erase_node(part)


def lines(name: str, front: Any) -> list[str]:
    """The lines of one of ``PARTS``.

    Args:
        name: of the part.
        front: the modules of the front end.
    """
    own.NodeList.current = None
    return [*PARTS[name](front)]


PARTS = {
    **{
        one.__name__: one
        for one in (
            options, statistics, sizes, programs, weights, decompositions, own_ops, resizes, registered, stated, parts,
            exports, computed_places, open_calls, judged, movements, calls,
        )
    },
    **TABLES,
    **BORDERS,
}  # fmt: skip
