"""What calls say and give: the record calls.json of results, errors and counters.

Each executable of ``CALLED`` gets arrays of all forms, writes into arrays of all forms, is bound and warmed up. A line
has the result or the error, and which counters have changed: copies, programs, runs that a cache grew in. Numbers are
whole, so that every CPU computes the same. The record has digests of the lines.
``python tests/runtime/test_recorded_calls.py`` prints them, and writes the record anew with ``--keep``.
"""

from __future__ import annotations

import itertools
import os
import pickle
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from helpers.called_graphs import CALLED
from helpers.recorded import digest, keep, kept

import onegraph as og
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.capi.settings import has_avx2
from onegraph.native.library import VERSION

KEPT = Path(__file__).parents[1] / "recorded" / "calls.json"


class Subclass(np.ndarray):
    pass


class Producer:
    """An array of another library."""

    def __init__(self, array):
        self._array = array

    def __repr__(self):
        return "Producer()"

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def moved(array, by):
    """A copy, so many bytes behind an aligned address."""
    memory = aligned_empty((array.nbytes + by,), np.dtype(np.uint8))
    copy = memory[by:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def aligned(array):
    return moved(array, 0)


def spaced(array):
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]


def reversed_(array):
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1] if array.ndim else array


def read_only(array):
    array = aligned(array)
    array.flags.writeable = False
    return array


def of_other_type(array):
    return array.astype(np.int32 if array.dtype.kind not in "iu" else np.float32)


FORMS = {
    "as it is": aligned,
    "in Fortran's order": np.asfortranarray,
    "spaced": spaced,
    "reversed": reversed_,
    "one byte further": lambda array: moved(array, 1),
    "one number further": lambda array: moved(array, array.itemsize),
    "read-only": read_only,
    "subclass": lambda array: aligned(array).view(Subclass),
    "list": lambda array: array.tolist(),
    "bytes": lambda array: array.tobytes(),
    "memory": lambda array: memoryview(aligned(array)),
    "producer": lambda array: Producer(aligned(array)),
    "other type": of_other_type,
    "other byte order": lambda array: array.astype(array.dtype.newbyteorder()),
    "further axis": lambda array: array[None],
    "longer": lambda array: np.concatenate([array, array]) if array.ndim else array.repeat(2),
    "longer twice": lambda array: np.concatenate([array] * 4) if array.ndim else array.repeat(4),
    "empty": lambda array: array.reshape(-1)[:0] if array.ndim < 2 else array[:0],
    "None": lambda array: None,
    "int": lambda array: 2,
    "float": lambda array: 2.0,
    "large": lambda array: 10**400,
    "flag": lambda array: True,
    "text": lambda array: "3",
}


def input_calls(model, given):
    """Calls with one array of another form, and of all."""
    for place, array in enumerate(given):
        for name, form in FORMS.items():
            if name in ("as it is", "longer", "longer twice") and place:
                continue

            def call(place=place, form=form, array=array):
                return model(*[form(array) if other == place else aligned(given[other]) for other in range(len(given))])

            yield f"{name} {place}", call
    yield "all longer", lambda: model(*[np.concatenate([array, array]) if array.ndim else array for array in given])
    yield "as it is again", lambda: model(*map(aligned, given))


def argument_calls(model, given):
    """Calls with arrays in other places."""
    names = [port.name for port in model.inputs]
    named = dict(zip(names, map(aligned, given), strict=True))
    yield "none", lambda: model()
    yield "one too many", lambda: model(*given, given[0])
    yield "by name", lambda: model(**named)
    yield "by name in another order", lambda: model(**dict(reversed(named.items())))
    yield "first by name as well", lambda: model(*given, **{names[0]: given[0]})
    yield "all by name and one more", lambda: model(**named, other=given[0])
    yield "unknown name", lambda: model(*given[1:], other=given[0])
    yield "a list", lambda: model([*given])
    yield "a dictionary", lambda: model(named)


def output_calls(model, given):
    """Calls that write into arrays."""
    arrays = [*map(aligned, given)]
    found = model(*arrays)
    results = (
        dict(zip(found._fields, found, strict=True)) if hasattr(found, "_fields") else {model.outputs[0].name: found}
    )
    names = [*results]

    def to(form, array=None):
        return {name: form(array if name == array else result) for name, result in results.items()}

    def call(out):
        return model(*arrays, out=out)

    for name, form in FORMS.items():
        yield f"into {name}", lambda form=form: call(dict(to(form)))
        yield f"first into {name}", lambda form=form: call({names[0]: form(results[names[0]])})
    yield "into a list", lambda: call([*to(aligned).values()])
    yield "into a tuple with None", lambda: call((aligned(results[names[0]]), *[None] * (len(names) - 1)))
    yield "into too few", lambda: call([])
    yield "into too many", lambda: call([*to(aligned).values(), aligned(found if len(names) == 1 else found[0])])
    yield "into an unknown name", lambda: call({"other": aligned(results[names[0]])})
    yield "into nothing", lambda: call({})
    yield "into an input", lambda: call({names[-1]: arrays[0]})
    yield "into an input turned", lambda: call({names[-1]: arrays[0].T})
    one = aligned(results[names[0]])
    yield "all into one", lambda: call(dict.fromkeys(names, one))


def bound_calls(model, given):
    """Runs that are bound to arrays."""
    arrays = [*map(aligned, given)]
    ends = {port.name: port for port in model.outputs}

    def runs(*inputs, **outputs):
        run = model.bind(*inputs, **outputs)
        return [repr(run).partition("\n")[0], run(), run.run(), sorted(run.outputs)]

    for name, form in FORMS.items():
        yield f"bound {name}", lambda form=form: runs(*[form(array) for array in given])
    found = model(*map(aligned, given))
    first = found[0] if len(ends) > 1 else found
    name = next(iter(ends))
    for form in ("as it is", "in Fortran's order", "one byte further", "read-only", "other type", "longer", "list"):
        yield f"bound into {form}", lambda form=form: runs(*arrays, **{name: FORMS[form](first)})
    yield "bound into an input", lambda: runs(*arrays, **{name: arrays[0]})
    yield "bound by an unknown name", lambda: runs(*arrays, other=arrays[0])

    def changed():
        run = model.bind(*arrays)
        run()
        for array in arrays:
            array[...] = array[..., ::-1] if array.ndim else array
        return run()

    yield "bound and changed", changed


def cached_calls(model, given):
    """Runs on caches, whose memory is part of the executable's inputs."""
    names = [port.name for port in model.inputs]
    is_past = [name in ("past", "key", "value") for name in names]
    arrays = dict(zip(names, map(aligned, given), strict=True))
    for name, axis, capacity in itertools.product(names, (-2, 0, 5), (1, 9)):
        yield (
            f"a cache as {name} {axis} {capacity}",
            lambda a=(name, axis, capacity): model.bind(**{**arrays, a[0]: og.Cache(arrays[a[0]], a[2], a[1])}).run(),
        )
    if not any(is_past):
        return

    def decoded(count, step, tokens=3):
        """Results that are the next inputs, of which ``step`` says which are copied."""
        given = {name: array[..., :tokens, :] if name in caches else array for name, array in arrays.items()}
        for number in range(count):
            found = model(**given)
            results = dict(zip(found._fields, found, strict=True)) if hasattr(found, "_fields") else {"": found}
            for name, array in zip(caches, results.values(), strict=False):
                given[name] = array.copy() if step and number % step == 0 else array
        return [array.shape for array in given.values()], [float(array.sum()) for array in given.values()]

    caches = {name: og.Cache(arrays[name], 9, -2) for name, is_cache in zip(names, is_past, strict=True) if is_cache}
    others = {name: array for name, array in arrays.items() if name not in caches}
    run, cache = model.bind(**arrays | caches), next(iter(caches.values()))
    for count, step, tokens in ((12, 0, 3), (12, 5, 3), (6, 1, 3), (6, 2, 0), (6, 0, 1)):
        yield f"decoded {count} {step} {tokens}", lambda a=(count, step, tokens): decoded(*a)
    yield "one cache twice", lambda: model.bind(**arrays | dict.fromkeys(caches, cache)).run()
    yield "one of the caches", lambda: model.bind(**{**arrays, next(iter(caches)): cache}).run()
    yield "warmed up", lambda: run.warm_up(2)
    for number in range(2):
        yield f"run {number}", lambda: [repr(cache), run(), run.outputs]
    yield "run with others", lambda: [run(**{name: array + 1 for name, array in others.items()}), run.run()]
    yield "run with a cache", lambda: run(**caches)
    yield "run with an unknown name", lambda: run(other=given[0])
    yield "run with another shape", lambda: run(**{name: array[..., :1] for name, array in others.items()})
    yield "run on", lambda: [run(), cache]
    for length in (2, 0, 100, -1, "1"):
        yield f"length {length!r}", lambda length=length: [setattr(cache, "length", length), cache, len(cache)]
    yield "of uneven lengths", lambda: [run(), [*caches.values()]]
    for number in range(4):
        yield f"until it is full {number}", lambda: [run(), [*caches.values()]]
    yield "warmed up when full", lambda: run.warm_up(2)
    yield "warmed up for none", lambda: run.warm_up(0)
    yield "pickled", lambda: pickle.dumps(run)


def variable_calls(model, given):
    """What is read from and written to variables."""
    variables = model.variables
    value = aligned(np.full((2, 2), 7, np.float32))
    for name in (*variables, "other", 3):
        yield f"read {name}", lambda name=name: variables[name]
        yield f"deleted {name}", lambda name=name: variables.__delitem__(name)
        for form in FORMS:
            yield (
                f"{name} as {form}",
                lambda name=name, form=form: [variables.update({name: FORMS[form](value)}), variables.get("total")],
            )
    yield "all", lambda: [repr(variables), len(variables), [*variables]]
    yield "several of which one is wrong", lambda: variables.update(total=np.zeros((2, 2), np.float32), other=1)
    yield "called", lambda: [model(*map(aligned, given)), [*variables.values()]]
    yield "called again", lambda: [model(*map(aligned, given)), [*variables.values()]]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "v")
        yield "saved", lambda: [model.save_variables(file), os.listdir(folder)]
        yield "set to others", lambda: variables.update({name: array + 3 for name, array in variables.items()})
        yield "loaded", lambda: [model.load_variables(file), [*variables.values()]]
        yield "loaded loosely", lambda: [model.load_variables(file, strict=False), [*variables.values()]]
        yield "saved whole", lambda: [model.save(os.path.join(folder, "m")), sorted(os.listdir(folder))]
        yield "loaded whole", lambda: [og.load(os.path.join(folder, "m"))(*map(aligned, given)), [*variables.values()]]


def other_calls(model, given):
    """What is asked of an executable besides calls."""
    names = [port.name for port in model.inputs]
    shapes = {name: array.shape for name, array in zip(names, given, strict=True)}
    for label, sizes in {
        "shapes": shapes,
        "several": [shapes, {name: tuple(2 * dim for dim in shape) for name, shape in shapes.items()}],
        "nothing": {},
        "a name": "x",
        "an unknown name": {**shapes, "other": (2,)},
        "a negative dim": {name: tuple(-dim for dim in shape) for name, shape in shapes.items()},
        "no list": 3,
    }.items():
        yield f"warm_up {label}", lambda sizes=sizes: model.warm_up(sizes)
    yield "name", lambda: repr(model).partition("\n")[0]
    yield "ends", lambda: (model.inputs, model.outputs)
    yield "pickled", lambda: pickle.loads(pickle.dumps(model))(*map(aligned, given))

    def limited(capacity):
        model.cache_capacity = capacity
        return model.cache_capacity

    for capacity in (1, 0, -1, "2", True, 64):
        yield f"capacity {capacity!r}", lambda capacity=capacity: limited(capacity)
    yield "after that", lambda: model(*map(aligned, given))
    report = model.report()
    yield "reported", lambda: (report.copies, report.cache, report.variables, report.note, report.memory)
    yield "measured", lambda: [row.index for row in model.profile(*map(aligned, given), runs=1).rows]
    yield "measured without arrays", lambda: model.profile(runs=1)


def counters(model):
    info = model.cache_info()
    return {
        "hits": info.hits,
        "misses": info.misses,
        "evictions": info.evictions,
        "size": info.size,
        "grown": info.grown,
        "moved": info.moved,
        "copies": model.copies,
    }


def shown(value):
    """A result as a text: of an array what it is made of, its numbers, and who owns them."""
    if isinstance(value, np.ndarray):
        numbers = " ".join(f"{number:g}" for number in np.asarray(value).astype(np.float64).ravel()[:24])
        kind = "" if type(value) is np.ndarray else f"{type(value).__name__} "
        flags = ("" if value.flags.writeable else " read-only") + ("" if value.base is None else " view")
        return f"{kind}{value.dtype}{value.shape}{value.strides}{flags}: {numbers}"
    if isinstance(value, (tuple, list)) and not all(isinstance(one, (int, str)) for one in value):
        return " | ".join(map(shown, value))
    return str(value)


def line_of(model, call):
    before = counters(model)
    try:
        text = shown(call())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    after = counters(model)
    changed = [f"{name} {after[name] - count:+}" for name, count in before.items() if after[name] != count]
    return "; ".join([re.sub(" at 0x[0-9a-f]+", "", text), *changed])


def lines(make):
    """The lines of an executable by name of the call, for each sort of calls."""
    graph, given, *options = make()
    found = {}
    for calls in (input_calls, argument_calls, output_calls, bound_calls, cached_calls, variable_calls, other_calls):
        model = graph.compile(**dict(*options))
        found[calls.__name__] = {name: line_of(model, call) for name, call in calls(model, given)}
        found[calls.__name__]["in the end"] = shown([model.report().cache, model.report().note, model.report().memory])
    return found


def digests(lines):
    return " ".join([digest([name, line])[:5] for name, line in lines.items()])


@pytest.mark.library
@pytest.mark.skipif(VERSION[:2] != (3, 2) or not has_avx2(), reason="the record is of oneDNN 3.2 and a CPU with AVX2")
@pytest.mark.parametrize("make", CALLED, ids=lambda make: make.__name__)
def test_calls_give_what_was_recorded(make):
    for sort, found in lines(make).items():
        wanted = kept(KEPT)[make.__name__][sort]
        changed = [*zip(found.items(), digests(found).split(), wanted.split(), strict=False)]
        assert [call for call, now, before in changed if now != before] == []
        assert digests(found) == wanted


if __name__ == "__main__":
    all_lines = {make.__name__: lines(make) for make in CALLED}
    if "--keep" in sys.argv:
        keep(
            KEPT,
            {name: {sort: digests(of_calls) for sort, of_calls in found.items()} for name, found in all_lines.items()},
        )
    for name, found in all_lines.items():
        for sort, of_calls in found.items():
            print(*[f"{name}, {sort}, {call}: {line}" for call, line in of_calls.items()], sep="\n")
