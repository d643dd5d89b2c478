"""The cases and random graphs that other tests run, and the defaults of arguments, are those of material.json.

A change of their makers changes what is tested, and no test of the package fails; nor does one where a default changes
that all tests state. ``python tests/house/test_recorded_material.py`` writes the record anew.

Bounds that were measured or chosen, and the defaults of all functions and fields, are those of bounds.json and, if they
are words or None, of words.json: most tests name a bound, and do not say what it is.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from contextlib import suppress
from datetime import timedelta
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from conftest import library
from helpers.recorded import digest, keep, kept
from helpers.tables import Tables

import onegraph as og
import onegraph.judging.contents
import onegraph.testing
import onegraph.training
from onegraph.native.library import VERSION
from onegraph.opset.editions.registry import EDITIONS
from onegraph.opset.signature import Range
from onegraph.testing.cases import CASES
from onegraph.testing.random_graph import random_graph
from tests.helpers import aten_calls

KEPT = Path(__file__).parents[1] / "recorded" / "material.json"
SEEDS = range(12)
OTHERS = {"floats": {"dtypes": ("f32", "f16")}, "pools": {"kinds": ("MaxPool", "AvgPool", "Convolution"), "n_ops": 4}}


def described(array):
    """A text of the numbers of an array, to four digits."""
    if array is None:
        return ""
    numbers = np.asarray(array)
    with np.errstate(all="ignore"):
        texts = [f"{number:.3e}" for number in numbers.astype(np.float64).ravel().tolist()]
    return f"{numbers.dtype} {numbers.shape} {digest(texts)}"


def cases():
    found = {}
    for case in CASES:
        parts = [*map(described, case.inputs), sorted(case.attrs.items()), case.dtype, case.outputs]
        found.setdefault(case.kind, []).extend([case.label, *parts])
    return {kind: digest(parts) for kind, parts in found.items()}


def lines_of(graph):
    for op in graph.ops:
        ends = [None if t is None else (t.id, t.dtype, t.shape, described(t.value)) for t in (*op.inputs, *op.outputs)]
        yield op.kind, sorted(op.attrs.items()), ends
    yield [*graph.inputs], [(name, tensor.id) for name, tensor in graph.outputs.items()]


def graphs():
    options = {**{name: {"edition": name} for name in EDITIONS}, **OTHERS}
    return {
        name: digest(line for seed in SEEDS for line in lines_of(random_graph(seed, **given)))
        for name, given in options.items()
    }


def defaults():
    """The arguments of what users call, with their defaults, by module."""
    found = {}
    for module in (og, og.training, onegraph.judging.contents, onegraph.testing):
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in sorted(names):
            for label, made in members(name, getattr(module, name)):
                found.setdefault(module.__name__, []).append(f"{label}{made}")
    return {name: digest(lines) for name, lines in found.items()}


def members(name, given):
    """The signatures of a function, or of a class and its methods, without annotations."""
    methods = vars(given).items() if isinstance(given, type) else ()
    for label, one in [(name, given), *((f"{name}.{key}", one) for key, one in methods if not key.startswith("_"))]:
        one = getattr(one, "__func__", one)
        if callable(one) and str(getattr(one, "__module__", "")).startswith("onegraph"):
            try:
                parameters = inspect.signature(one).parameters.values()
            except (TypeError, ValueError):
                continue
            yield label, [(part.name, str(part.kind), repr_of(part.default)) for part in parameters]


def repr_of(default):
    return re.sub(" at 0x[0-9a-f]+", "", repr(default))


MATERIAL = {"cases": cases, "graphs": graphs, "defaults": defaults}


@pytest.mark.parametrize("name", [library(name) if name == "defaults" else name for name in MATERIAL])
def test_material_of_tests_is_the_recorded_one(name):
    assert MATERIAL[name]() == kept(KEPT)[name]


BOUNDS, WORDS = KEPT.with_name("bounds.json"), KEPT.with_name("words.json")
# Modules that are made, or need PyTorch itself, and names of what the machine, Python or the library decides.
OTHERS_THAN = ("onegraph._ffi", "onegraph._version", "onegraph.frontends.torch", "onegraph.torch")
OF_MACHINE = frozenset(
    ["VERSION", "HASHES_CONSTANTS", "NOT_NATIVE", "PATH", "MAX_THREADS", "TICK", "USER", "RUNTIME", "_ALONE"]
)
PLAIN = (bool, int, float, timedelta)
ASSIGNED = re.compile("^(_*[A-Z].*?) = ", re.MULTILINE)  # what lines outside of blocks begin with


def plain(value):
    """A text of numbers, flags, and collections that have some; None for other values."""
    if type(value) in PLAIN:
        return repr(value)
    if isinstance(value, Enum) or type(value) in (str, type(None)):
        return str(value)
    if type(value) in (tuple, list, set, frozenset):
        parts = [*map(plain, value)]
        return None if None in parts or not parts else str(parts if isinstance(value, (tuple, list)) else sorted(parts))
    if type(value) is dict:
        parts = [*map(plain, value.items())]
        return None if None in parts or not parts else str(sorted(parts))
    return None


def numbers_in(label, values):
    """What names and values say, without single words, which tests would miss at once."""
    for name, value in values.items():
        text = None if isinstance(value, (str, Enum, type(None))) else plain(value)
        if text is not None and not name.startswith(("__", "_fields", "_is_protocol")) and name not in OF_MACHINE:
            yield f"{label}{name} = {text}"


def words_in(label, values):
    """What names and values say that are words, members of an Enum or None."""
    for name, value in values.items():
        if isinstance(value, (str, Enum, type(None))) and not name.startswith("_"):
            yield f"{label}{name} = {value}"


def bounds_of(module):
    """The constants and tables of a module, and the defaults of its functions, methods and fields."""
    assigned = {*re.findall(r"\w+", " ".join(ASSIGNED.findall(Path(module.__file__).read_text())))} - OF_MACHINE
    for name, value in vars(module).items():
        if name.isupper() and name in assigned:
            yield f"{name} = {Tables().text(value)}"
    yield from defaults_in(module, numbers_in)
    for name, made in own_names(module):
        yield from sizes_of_caches(name, made)
        if inspect.isclass(made) and issubclass(made, Enum):  # whose other names follow from the version of Python
            yield from numbers_in(f"{name}.", {key: one.value for key, one in made.__members__.items()})
        elif inspect.isclass(made):
            yield from numbers_in(f"{name}.", vars(made))
            for key, one in vars(made).items():
                yield from sizes_of_caches(f"{name}.{key}", getattr(one, "__func__", one))
            if rules := vars(made).get("__dataclass_params__"):
                yield f"{name} {rules.frozen} {rules.eq} {'__slots__' in vars(made)}"


def sizes_of_caches(label, made):
    """How many results a function remembers."""
    if hasattr(made, "cache_parameters"):
        yield f"{label} remembers {sorted(made.cache_parameters().items())}"


def own_names(module):
    """The functions and classes of a module."""
    for name, made in vars(module).items():
        if getattr(made, "__module__", "") == module.__name__ and hasattr(made, "__qualname__"):
            yield name, made


def defaults_in(module, told):
    """The defaults of the functions, methods and fields of a module."""
    for name, made in own_names(module):
        yield from defaults_of(f"{name} ", inspect.unwrap(made) if callable(made) else made, told)
        if inspect.isclass(made) and not issubclass(made, Enum):
            yield from told(f"{name} ", getattr(made, "_field_defaults", {}))
            fields = vars(made).get("__dataclass_fields__", {})
            yield from told(f"{name} ", {key: one.default for key, one in fields.items()})
            for key, one in vars(made).items():
                yield from defaults_of(f"{name}.{key} ", getattr(one, "__func__", one), told)


def defaults_of(label, function, told):
    if isinstance(function, FunctionType):
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        given = function.__defaults__ or ()
        yield from told(label, dict(zip(names[len(names) - len(given) :], given, strict=True)))
        yield from told(label, function.__kwdefaults__ or {})


def words_of(module):
    """The defaults of the functions, methods and fields of a module that are words or None."""
    return defaults_in(module, words_in)


def by_module(told):
    """The digest of what is told of each module that can be imported; PyTorch's front end gets stand-ins."""
    found = {**modules(), **{f"{aten_calls.FRONT}.{name}": one for name, one in aten_calls.modules().items()}}
    texts = {name: sorted(told(module)) for name, module in found.items()}
    return {name.removeprefix("onegraph."): digest(lines)[:8] for name, lines in texts.items() if lines}


@cache
def modules():
    """All modules that can be imported: some add to the tables of others."""
    found = {}
    for one in pkgutil.walk_packages(og.__path__, "onegraph.", onerror=lambda name: None):
        if one.name.startswith(OTHERS_THAN) or one.name.endswith("__main__"):
            continue
        with suppress(ImportError):  # of a package that is not installed
            found[one.name] = importlib.import_module(one.name)
    return found


@pytest.mark.library
@pytest.mark.skipif(VERSION[:2] != (3, 2), reason="the record is of oneDNN 3.2")
@pytest.mark.parametrize(("told", "path"), [(bounds_of, BOUNDS), (words_of, WORDS)], ids=["bounds", "words"])
def test_bounds_and_defaults_are_the_recorded_ones(told, path):
    found, recorded = by_module(told), kept(path)
    assert {name: one for name, one in found.items() if recorded.get(name) != one} == {}
    assert recorded.keys() - found.keys() <= {name for name in recorded if name.startswith(("frontends", "onnx"))}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": (1, 2.5), "a": {"y", "x"}}, "dict('a': set('x', 'y'), 'b': tuple(1, 2.5))"),
        (og.f32, "DataType.f32"),
        (np.add, "function()"),
        (len, "function()"),
        (partial(len, [3]), "function(tuple(list(3)), dict())"),
        (Range("any", bool), "Range('any', bool())"),
        (re.compile("x"), "'x'"),
        (KEPT, "..."),
        (object, "object()"),
    ],
)
def test_tables_are_written_with_what_they_hold(value, text):
    assert Tables().text(value) == text


@pytest.mark.library
def test_functions_are_written_with_what_they_were_made_with():
    from onegraph.compiler.kernels.kernel import of_types

    assert Tables().text(of_types(og.f32, og.s8)[0]) == "function(frozenset(DataType.f32, DataType.s8))"


def test_a_table_that_holds_itself_is_written_once():
    table = [1]
    table.append(table)
    assert Tables().text(table) == "list(1, ...)"


if __name__ == "__main__":
    keep(BOUNDS, by_module(bounds_of))
    keep(WORDS, by_module(words_of))
    keep(KEPT, {name: make() for name, make in MATERIAL.items()})
