"""Functions of arrays as users of numpy write them. The same text on numpy arrays in float64 says what is right.

An input is the JSON of a function: inputs, and statements with Python's operators, indices, and functions of ``o``,
which are methods of a graph or functions of numpy. A statement that the package refuses is left out, with what needs
it. The refusal is a finding unless REFUSALS explains it, and so is what numpy refuses and a graph takes.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

import onegraph as og
from onegraph import reference

from .drawn import Drawn
from .expression_functions import GRAPH_FUNCTIONS, NUMPY_FUNCTIONS

FLOATS = {"f32": 2.0**-21, "bf16": 2.0**-8, "f16": 2.0**-11, "float64": 2.0**-21}
RUNS = 6
# Refusals that are right although numpy computes the statement, by the type of the statement's first tensor.
REFUSALS = (
    r"expected (integers|numbers) within its range, as .* is ",
    r"the host op \w+ (takes|broadcasts) .*: g\.",
    r"g\.cast\(tensor, dtype=\.\.\.\) converts",
    r"expected \w+, as \w+ is|expected boolean",
    r"expected a number that a 32-bit float holds|\w+: \w+: no logical tensor has the data type",
    r"expected at most \d+ elements, the size of the axis",
    r"expected a tensor with axes, not a scalar",
    r"expected no integer beside a list of indices; index twice",
    r"expected a shape that broadcasts to",
    r": (True|False|np\.(True|False)_); expected a tensor of this graph",
)

# What numpy refuses, and a graph computes on purpose: the specification says how.
TAKEN = "|".join(
    (
        *("ufunc 'bitwise_.*' not supported", "zero-size array to reduction", "nonzero on 0d", "numpy has larger"),
        *("Integers to negative integer powers", "out of bounds for axis .* size 0"),
    )
)


def made(seed: int, dtype: str, shape: list[int], flavour: str) -> Any:
    """The contents of an input."""
    kind, rng = og.DataType(dtype).numpy, np.random.default_rng(seed)
    if dtype == "boolean":
        return rng.random(shape) < 0.5
    if dtype in FLOATS:
        data = np.asarray(rng.normal(0, 1, shape))
        if flavour == "special" and data.size:
            places = rng.random(shape) < 0.3
            data = np.where(places, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1e4, -3.0], shape), data)
        if flavour == "whole":
            data = np.round(data * 3)
        return np.asarray(data).astype(kind)
    info = np.iinfo(kind)
    low, high = (max(-9, info.min), min(10, info.max)) if flavour != "special" else (info.min, info.max)
    return np.asarray(rng.integers(low, high, shape, endpoint=True, dtype=kind))


class Moved:
    """numpy, whose constants are rounded to a narrower data type, or moved by as much as that."""

    def __init__(self, sign: Any, dtype: str) -> None:
        self.sign, self.dtype = sign, dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def array(self, data: Any, dtype: Any = None) -> Any:
        made = np.array(data, dtype)
        if made.dtype.kind != "f" or self.dtype not in FLOATS:
            return made
        if self.sign is None:
            return made.astype(og.DataType(self.dtype).numpy).astype(np.float64)
        return made * (1 + FLOATS[self.dtype] * self.sign(made.shape))


class Exact:
    """The statements on numpy arrays: floats in float64, moved by a share of a rounding after each statement."""

    def __init__(self, arrays: dict[str, Any], dtypes: dict[str, str], sign: Any = None, narrow: bool = False) -> None:
        self.dtypes, self.sign, self.narrow = dict(dtypes), sign, narrow
        self.values = {name: self._kept(array, dtypes[name], 1) for name, array in arrays.items()}

    def _kept(self, value: Any, dtype: str, share: float) -> Any:
        array = np.asarray(value)
        if dtype not in FLOATS:
            return array.astype(og.DataType(dtype).numpy)
        wide = array.astype(np.float64)
        if self.narrow:
            wide = wide.astype(og.DataType(dtype).numpy).astype(np.float64)
        if self.sign is not None and wide.size:
            wide = wide * (1 + share * FLOATS[dtype] * self.sign(wide.shape))
        return wide

    def run(self, name: str, text: str, dtype: str) -> Any:
        """Run a statement, and return its value."""
        space = {
            "np": Moved(self.sign, dtype) if self.narrow or self.sign is not None else np,
            "o": NUMPY_FUNCTIONS,
            **self.values,
        }
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = eval(text, space)
        if dtype not in FLOATS and np.asarray(value).dtype.kind == "f" and not np.array_equal(value, np.round(value)):
            raise TypeError("numpy has fractions, which the data type has not")
        if dtype not in FLOATS and not (np.abs(np.asarray(value, np.float64)) < 2.0**63).all():
            raise OverflowError("numpy has larger numbers")
        self.values[name], self.dtypes[name] = self._kept(value, dtype, 1), dtype
        return self.values[name]


def uses(text: str) -> set[str]:
    return set(re.findall(r"\b[xv]\d+\b", text))


def problem(told: dict[str, Any]) -> str:
    """What goes wrong with a function; empty if nothing does."""
    graph = og.Graph()
    arrays = {name: made(seed, dtype, shape, flavour) for name, dtype, shape, seed, flavour, _ in told["inputs"]}
    dtypes = {name: dtype for name, dtype, *_ in told["inputs"]}
    tensors: dict[str, Any] = {}
    for name, dtype, shape, _, _, opened in told["inputs"]:
        dims = [None if axis in opened else dim for axis, dim in enumerate(shape)]
        tensors[name] = graph.input(name, og.DataType(dtype), dims)
    exact, kept, is_open = Exact(arrays, dtypes), [], any(one[5] for one in told["inputs"])
    late = {}  # tensors of statements that numpy refuses, and a run has to refuse
    functions = SimpleNamespace(**{name: make(graph) for name, make in GRAPH_FUNCTIONS.items()})
    for name, text, dtype in told["statements"]:
        if not uses(text) <= tensors.keys() or not uses(text) <= exact.values.keys():
            continue
        refused, tensor = "", None
        before = len(graph.ops)
        try:
            tensor = eval(text, {"np": np, "o": functions, **tensors})
        except (og.SpecError, og.ArgumentError, og.UnsupportedError) as error:
            refused = str(error)
        except TypeError as error:
            refused = f"TypeError: {error}"
        except Exception as error:
            return f"{name} = {text}: a foreign {type(error).__name__}: {error}"
        if refused and len(graph.ops) != before:
            return f"{name} = {text}: refused, and left {len(graph.ops) - before} ops: {refused}"
        try:
            value = exact.run(name, text, dtype)
        except Exception as error:
            if not refused:
                late[name] = (
                    tensor,
                    re.search(TAKEN, str(error)),
                    f"{name} = {text}: numpy refuses it, a graph does not: {type(error).__name__}: {error}",
                )
            continue
        if refused:
            exact.values.pop(name)
            if why := unexplained(refused):
                return f"{name} = {text} of {[dtypes.get(one) for one in sorted(uses(text))]}: {why}"
            continue
        if not isinstance(tensor, og.LogicalTensor):
            return f"{name} = {text}: {type(tensor).__name__} in the place of a tensor"
        if tensor.dtype is og.f32 and {dtypes[one] for one in uses(text)} & {"f32"} and dtype in ("bf16", "f16"):
            dtype = "f32"  # of an operand of 32 and one of 16 bits
            exact.dtypes[name] = dtype
        if tensor.dtype.value != dtype:
            return f"{name} = {text} of {[dtypes.get(one) for one in sorted(uses(text))]}: {tensor.dtype} for {dtype}"
        if not _fits(tensor.shape, value.shape):
            text = f"{name} = {text}: the shape {tensor.shape} for {value.shape}"
            if not is_open:
                return text
            late[name] = tensor, None, text  # a run tells that the sizes do not fit
            exact.values.pop(name)
            continue
        tensors[name], dtypes[name] = tensor, dtype
        kept.append((name, text, dtype))
    for tensor, is_right, text in late.values():
        if not is_right and (missing := _accepted(graph, tensor, arrays)):
            return f"{text}: {missing}"
    if late:
        return ""
    results = [name for name in told["results"] if name in {name for name, *_ in kept}]
    if not results:
        return ""
    for name in results:
        graph.output(f"r_{name}", tensors[name])
    calls = [arrays]
    if is_open and (other := _resized(told, kept)) is not None:
        calls.append(other)
    model = None
    for number, given in enumerate(calls):
        for way in told["ways"]:
            copies = {name: array.copy() for name, array in given.items()}
            try:
                if way == "reference":
                    found = [*reference.run(graph, given).values()]
                else:
                    model = model or graph.compile(policy=told["policy"])
                    found = model(**given)
                    found = [found] if len(results) == 1 else [*found]
            except Exception as error:
                if isinstance(error, og.OneGraphError) and not unexplained(str(error)):
                    break
                return f"call {number}, {way}: {type(error).__name__}: {error}"
            if any(given[name].tobytes() != copies[name].tobytes() for name in given):
                return f"call {number}, {way}: an input was written"
            text = difference(dict(zip(results, found, strict=True)), kept, given, dtypes)
            if text:
                return f"call {number}, {way}: {text}"
    return ""


def _fits(shape: Any, right: tuple[int, ...]) -> bool:
    return shape is None or (
        len(shape) == len(right) and all(a is None or a == b for a, b in zip(shape, right, strict=True))
    )


def _accepted(graph: og.Graph, tensor: Any, arrays: dict[str, Any]) -> str:
    """What a graph gives that has to refuse its arrays; empty if it refuses them."""
    try:
        found = graph.compile(outputs=[tensor])(**arrays)
    except og.OneGraphError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return str(found)


def unexplained(refused: str) -> str:
    """What is wrong with a refusal of something that numpy computes; empty if it is explained."""
    return refused if not any(re.search(one, refused) for one in REFUSALS) else ""


def _resized(told: dict[str, Any], kept: list[Any]) -> dict[str, Any] | None:
    """Arrays of other sizes along the open axes; None if the statements do not run on them."""
    dims = sorted({shape[axis] for _, _, shape, _, _, opened in told["inputs"] for axis in opened})
    others = {dim: dim + 2 if dim > 1 else dim for dim in dims}
    arrays = {}
    for name, dtype, shape, seed, flavour, opened in told["inputs"]:
        other = [others[dim] if axis in opened else dim for axis, dim in enumerate(shape)]
        arrays[name] = made(seed, dtype, other, flavour)
    exact = Exact(arrays, {name: dtype for name, dtype, *_ in told["inputs"]})
    try:
        for name, text, dtype in kept:
            exact.run(name, text, dtype)
    except Exception:
        return None
    return arrays


def difference(found: dict[str, Any], kept: list[Any], arrays: dict[str, Any], dtypes: dict[str, str]) -> str:
    """A text for the first result that is further from numpy than roundings explain."""
    rng = np.random.default_rng(0)
    inputs = {name: dtypes[name] for name in arrays}

    def signs(shape: Any) -> Any:
        return rng.choice([-1.0, 1.0], shape)

    ways: list[Any] = [None, None, np.ones, lambda shape: -np.ones(shape), *[signs] * RUNS]
    runs: list[Exact] = []
    for place, sign in enumerate(ways):
        exact = Exact(arrays, inputs, sign, narrow=place == 1)
        for name, text, dtype in kept:
            exact.run(name, text, dtype)
        runs.append(exact)
    for name, got in found.items():
        right, dtype = runs[0].values[name], runs[0].dtypes[name]
        kind = og.DataType(dtype).numpy
        text = next(text for one, text, _ in kept if one == name)
        if got.dtype != kind or got.shape != right.shape:
            return f"{name} = {text}: {got.dtype}{got.shape} for {kind}{right.shape}"
        if any(run.values[name].shape != right.shape for run in runs):
            return ""  # how many elements there are depends on roundings
        others = np.stack([np.asarray(run.values[name]).astype(np.float64) for run in runs[1:]])
        ours, theirs = got.astype(np.float64), right.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (got == right) if dtype not in FLOATS else (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
            finite = np.isfinite(theirs)
            moved = ((others != theirs) & ~(np.isnan(others) & np.isnan(theirs))).any(0)
            doubtful = np.isfinite(others).any(0) & ~finite | ~np.isfinite(others).all(0) & finite
            doubtful |= moved & (dtype not in FLOATS)
            doubtful |= (dtype == "s64") & (np.abs(theirs) >= 2.0**53)  # numpy took a float64 for an operand
            rounding = FLOATS.get(dtype, 0.0)
            scale = np.abs(theirs[finite]).max(initial=0.0)
            allowed = 10 * np.abs(others - theirs).max(0) + 4 * rounding * np.abs(theirs) + 2 * rounding * scale
            doubtful |= finite & ~np.isfinite(ours) & (allowed >= np.abs(theirs))  # a quotient by what may be 0
            near = finite & (np.abs(ours - theirs) <= allowed + 1e-37) & (dtype in FLOATS)
            if dtype == "f16":
                near |= (np.abs(ours - theirs) <= 1e-6) & finite
        wrong = ~(same | near | doubtful)
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0])
            return (
                f"{name} = {text}: {int(wrong.sum())} of {wrong.size} wrong, at {[*map(int, place)]} "
                f"{got[place]} for {right[place]} (rounding explains {allowed[place]:.2g})"
            )
    return ""


def draw(rng: random.Random) -> dict[str, Any]:
    """A function."""
    from .expression_statements import Writer

    return Writer(rng).function()


def shorter(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Functions without a statement, a result, or inputs that nothing reads."""
    statements, results = told["statements"], told["results"]
    for place in reversed(range(len(statements))):
        yield told | {"statements": statements[:place] + statements[place + 1 :]}
    yield from (told | {"results": [one for one in results if one != name]} for name in results if len(results) > 1)
    used = set[str]().union(*[uses(text) for _, text, _ in statements])
    if len(inputs := [one for one in told["inputs"] if one[0] in used]) < len(told["inputs"]):
        yield told | {"inputs": inputs}


def printed(told: dict[str, Any]) -> str:
    """The function as Python code."""
    lines = [f"# {one}" for one in told["inputs"]]
    lines += [f"{name} = {text}  # {dtype}" for name, text, dtype in told["statements"]]
    return "\n".join([*lines, f"# results {told['results']}, {told['policy']}"])


DRAWN = {"expressions": Drawn(draw, problem, told=lambda told: told, shorter=shorter, printed=printed)}
