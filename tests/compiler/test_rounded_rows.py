"""Partitions on more rows than their values have, and updates of variables that move to the end of a program."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.small_lowered import lowered, step

import onegraph as og
from onegraph.compiler import final_updates, rounded_rows
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.kernels.native import CompiledKernel
from onegraph.compiler.notes import Note
from onegraph.compiler.rounded_rows import CALLERS, NOTE, SMALL_COPY, RoundedRows, rounded_count
from onegraph.compiler.steps import CompiledStep, NumpyStep


def as_one(_):
    return "all"


@pytest.mark.parametrize(("rows", "count"), [
    (1, 1), (4, 4), (5, 8), (8, 8), (9, 12), (31, 32), (32, 32), (33, 36), (63, 64), (64, 64), (65, 72), (127, 128),
    (128, 128), (129, 144), (1000, 1024), (1024, 1024), (1025, 1152),
])  # fmt: skip
def test_rows_are_rounded_up_to_an_eighth_of_a_power_of_two(rows, count):
    assert rounded_count(rows) == count


PRODUCT, TANH, SOFTMAX = step("MatMul", "x w", "y"), step("Tanh", "y", "z"), step("SoftMax", "z", "s", axis=1)
NORM = step("LayerNorm", "y", "z m v", begin_norm_axis=1)
OF_THREE = {"x": (3, 3, 4), "y": (3, 3, 4), "z": (3, 3, 4)}


@grouped(
    "steps, results, given, found",
    [
        ([PRODUCT, TANH], "z", {}, ["x in x of 12", "z in z of 12", "y in y of 12"]),
        ([PRODUCT, TANH], "z", {"inputs": "x"}, ["x in 9 of 12", "z in z of 12", "y in y of 12"]),
        ([PRODUCT, TANH], "z", {"returned": "z"}, ["x in x of 12", "z in 9 of 12", "y in y of 12"]),
        ([PRODUCT, TANH], "z", {"shapes": dict.fromkeys("xyz", (4, 4))}, None),
        ([PRODUCT, TANH], "z", {"shapes": dict.fromkeys("xyz", (5, 4))}, ["x in x of 8", "z in z of 8", "y in y of 8"]),
        ([PRODUCT, TANH], "z", {"shapes": OF_THREE}, ["x in x of 12", "z in z of 12", "y in y of 12"]),
        ([PRODUCT, TANH], "yz", {}, ["x in x of 12", "z in z of 12", "y in y of 12"]),
        ([TANH], "z", {"inputs": "y"}, ["y in 9 of 12", "z in z of 12"]),
        (
            [TANH],
            "z",
            {"inputs": "y", "shapes": dict.fromkeys("yz", (SMALL_COPY // 32, 8))},
            ["y in 9 of 16384", "z in z of 16384"],
        ),
        ([TANH], "z", {"inputs": "y", "shapes": dict.fromkeys("yz", (SMALL_COPY // 32 + 1, 8))}, None),
        (
            [TANH],
            "z",
            {"shapes": dict.fromkeys("yz", (SMALL_COPY // 32 + 1, 8))},
            ["y in y of 18432", "z in z of 18432"],
        ),
        ([PRODUCT, TANH], "z", {"storage": {"z": "u"}}, None),
        ([PRODUCT, TANH], "z", {"storage": {"x": "u"}}, ["x in u of 12", "z in z of 12", "y in y of 12"]),
        ([PRODUCT, TANH], "z", {"unsound": "Tanh"}, None),
        ([PRODUCT, TANH, SOFTMAX], "s", {}, ["x in x of 12", "s in s of 12", "y in y of 12", "z in z of 12"]),
        ([PRODUCT, NORM], "z", {}, ["x in x of 12", "z in z of 12", "y in y of 12"]),
        ([PRODUCT, NORM], "z m v", {"read": "m"}, None),
        ([step("Dequantize", "w", "c", scales=(1.0,)), TANH], "cz", {}, None),
        ([step("ReduceSum", "x", "y", axes=(1,))], "y", {}, None),
    ],
    key=as_one,
    label=lambda case: f"{[one.kind for one in case[0]]} {case[1:3]}",
)
def test_partitions_on_more_rows(steps, results, given, found, monkeypatch):
    shapes = {
        **dict.fromkeys("xyzs", (9, 4)),
        "w": (4, 4),
        "c": (4, 4),
        "m": (9,),
        "v": (9,),
        "u": (40, 4),
        **given.get("shapes", {}),
    }
    graph = lowered(steps, shapes, constants={"w": np.ones((4, 4))})
    values, copies = graph.values, []
    for name, storage in given.get("storage", {}).items():
        values[name] = values[name]._replace(storage=storage)
    monkeypatch.setattr(rounded_rows, "faults_of", lambda call, _: call.schema.kind == given.get("unsound"))
    schedule = SimpleNamespace(
        values=values,
        sizes={},
        returned=given.get("returned", ""),
        is_read=lambda number: number in given.get("read", ""),
        add_copy=lambda *ends: copies.append((ends[0].id, ends[1].id, *ends[2:])),
    )
    known = SimpleNamespace(sound={})
    rounding = RoundedRows(schedule, frozenset(given.get("inputs", "")), known)
    made = rounding.rounded(graph.steps, [*results.replace(" ", "")])
    assert (made is None) is (found is None)
    if found is None:
        return
    count = int(found[0].rpartition(" ")[2])
    ends = {number for one in made.steps for number in (*one.inputs, *one.outputs)} - {"w"}
    values_of = {values[number].name.split()[0]: values[number] for number in ends}
    told = [
        f"{name} in {'9' if isinstance(one.storage, int) else one.storage} of {one.shape[-2]}"
        for name, one in values_of.items()
    ]
    assert sorted(told) == sorted(found)
    assert all(one.strides == dense_of(one.shape) for one in values_of.values())
    assert made.note == NOTE.format(count)
    width = 8 if shapes["y"][-1] == 8 else 4
    assert all(
        schedule.sizes[one.storage] == max(4 * count * width, 640 if one.storage == "u" else 0)
        for one in values_of.values()
    )
    # Parts have the types of the values, and the axis is the last one.
    for one in made.steps:
        assert [each.shape for each in one.part.types] == [values[number].shape for number in one.inputs]
        assert [each.shape for each in one.part.outputs] == [values[number].shape for number in one.outputs]
        assert one.attrs is one.part.attrs
        assert not one.whole
        assert one.kind not in ("SoftMax", "LayerNorm") or 1 in one.attrs.values()
    assert [values[number].name.split()[0] for number in made.results] == [one for one in results if one in "xyzs"]
    # What lies in the memory of the caller is copied, before the steps or after them.
    copied = [(source, CALLERS) for source, _, _, reason in copies if reason == CALLERS]
    assert copied == [(name, CALLERS) for name in given.get("inputs", "")]
    rounding.finish(made, "last")
    after = copies[len(copied) :]
    assert [(target, one, reason) for _, target, one, reason in after] == [
        (name, "last", CALLERS) for name in given.get("returned", "")
    ]
    # A second partition with the same source takes the copy.
    rounding.rounded(graph.steps, [*results.replace(" ", "")])
    assert len([1 for one in copies if one[2] is None]) == len(copied)
    assert known.sound


def test_soundness_is_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(rounded_rows, "faults_of", lambda call, _: asked.append(call) or [])
    monkeypatch.setattr(rounded_rows, "MOST_PARTS", 2)
    graph = lowered([step("Tanh", "x", "y"), step("Exp", "x", "y"), step("Abs", "x", "y")], {"x": (2, 2), "y": (2, 2)})
    known = SimpleNamespace(sound={})
    rounding = RoundedRows(SimpleNamespace(values=graph.values), frozenset(), known)
    first, second, third = (one.part for one in graph.steps)
    for part, count in ((first, 1), (first, 1), (second, 2), (second, 2), (third, 3), (third, 3), (first, 4)):
        assert rounding._is_sound(part)
        assert len(asked) == count
    assert [*known.sound] == [third, first]


# Updates of variables -------------------------------------------------------------------------------------------------


class Kernel(CompiledKernel):
    """A kernel of a name, which is never run."""

    def __init__(self, name):
        self.name = name


def value(name, shape=(4,), *, strides=None, storage=None, offset=0, dtype=og.f32):
    return Value(name, dtype, shape, strides or dense_of(shape), storage or name, name, None, offset)


class Program:
    """Steps of a program with two variables: "v" becomes "n", and "w" becomes "o"."""

    def __init__(self, steps, **changes):
        names = {*"vwnoxyab", *changes}
        self.values = Values({name: changes.get(name, value(name)) for name in names})
        self.steps, self.notes = [], []
        for kind, ins, outs in steps:
            note = Note("kernel", (), (), [self.values[name] for name in ins], [self.values[name] for name in outs])
            self.notes.append(note)
            pieces = [self.values[name].storage for name in (*ins, *outs)]
            if kind == "numpy":
                self.steps.append(NumpyStep(None, tuple(ins), tuple(outs), len(self.notes) - 1))
            else:
                made = Kernel(kind) if kind != "library" else SimpleNamespace(name="library")
                self.steps.append(CompiledStep(made, made, pieces, len(ins), (), len(self.notes) - 1, 0))


def ending(steps, outputs="no", updates="vn wo", monkeypatch=None, **changes):
    """The order of the steps, how many run last, and the variables that are updated in place."""
    program = Program(steps, **changes)
    outs = {name: SimpleNamespace(id=name) for name in outputs.replace(" ", "")}
    outs |= {f"{name}{place}": SimpleNamespace(id=name) for place, name in enumerate(outputs.split()[1:])}
    graph = SimpleNamespace(outputs=outs, inputs={name: SimpleNamespace(id=name) for name in "vwx"})
    monkeypatch.setattr(
        final_updates,
        "named",
        lambda name: SimpleNamespace(updates=name.startswith("update"), takes_back=name == "extend"),
    )
    monkeypatch.setattr(final_updates, "packed", lambda name, numbers: (name, numbers))
    monkeypatch.setattr(final_updates, "compiled", lambda name, *given: Kernel(f"{name} taking back"))
    found = final_updates.move_updates_last(program, graph, dict(one for one in updates.split()))
    names = [getattr(getattr(one, "compiled", None), "name", "numpy") for one in program.steps]
    return names, found.n_steps, "".join(sorted(found.variables))


UPDATE, OTHER = ("update n", "vx", "n"), ("update o", "wx", "o")


@grouped(
    "steps, outputs, changes, found",
    [
        ([UPDATE, ("library", "x", "y")], "no", {}, ("library, update n", 1, "v")),
        ([UPDATE, OTHER], "no", {}, ("update n, update o", 2, "vw")),
        ([UPDATE, ("library", "n", "y")], "noy", {}, ("update n, library", 0, "")),
        ([UPDATE, ("numpy", "n", "y")], "noy", {}, ("update n, numpy", 0, "")),
        ([UPDATE, ("library", "v", "y")], "noy", {}, ("library, update n", 1, "v")),
        ([UPDATE, ("update o", "wv", "o")], "no", {}, ("update n, update o", 2, "w")),
        ([("update o", "wv", "o"), UPDATE], "no", {}, ("update o, update n", 2, "vw")),
        ([("library", "vx", "n"), OTHER], "no", {}, ("library, update o", 1, "w")),
        ([("update y", "vx", "y"), OTHER], "noy", {}, ("update y, update o", 1, "w")),
        ([("update both", "vwx", "no")], "no", {}, ("update both", 1, "vw")),
        ([("update both", "vx", "ny")], "noy", {}, ("update both", 0, "")),
        ([UPDATE], "no n", {}, ("update n", 0, "")),
        ([UPDATE], "no", {"n": value("n", storage="a")}, ("update n", 0, "")),
        ([UPDATE], "no", {"v": value("v", offset=1)}, ("update n", 1, "")),
        ([UPDATE], "no", {"v": value("v", strides=(2,))}, ("update n", 1, "")),
        ([UPDATE], "no", {"v": value("v", (2, 2))}, ("update n", 1, "")),
        ([UPDATE], "no", {"v": value("v", dtype=og.bf16)}, ("update n", 1, "")),
        ([UPDATE], "no", {"n": value("n", strides=(2,))}, ("update n", 1, "")),
        ([("update n", "x", "n")], "no", {}, ("update n", 1, "v")),
        ([("extend", "vx", "n"), ("library", "n", "y")], "noy", {}, ("extend taking back, library", 0, "v")),
        ([("extend", "vx", "n"), ("library", "v", "y")], "noy", {}, ("extend, library", 0, "")),
        ([("extend", "vv", "n"), ("library", "n", "y")], "noy", {}, ("extend, library", 0, "")),
        ([("extend", "xv", "n"), ("library", "n", "y")], "noy", {}, ("extend, library", 0, "")),
        ([("extend", "vx", "n"), ("library", "n", "y")], "noyv", {}, ("extend, library", 0, "")),
        (
            [("extend", "vx", "n"), ("library", "n", "y")],
            "noy",
            {"v": value("v", offset=1)},
            ("extend, library", 0, ""),
        ),
        (
            [("extend", "vx", "n"), ("library", "n", "y")],
            "noy",
            {"v": value("v", strides=(2,))},
            ("extend, library", 0, ""),
        ),
        (
            [("extend", "vx", "n"), ("library", "n", "y")],
            "noy",
            {"n": value("n", strides=(2,))},
            ("extend, library", 0, ""),
        ),
        ([("extend", "vx", "n"), ("library", "n", "y")], "noy", {"v": value("v", (2, 2))}, ("extend, library", 0, "")),
        (
            [("extend", "vx", "n"), ("extend", "wx", "o"), ("library", "no", "y")],
            "noy",
            {},
            ("extend taking back, extend taking back, library", 0, "vw"),
        ),
    ],
    key=as_one,
)
def test_updates_run_last(steps, outputs, changes, found, monkeypatch):
    names, count, variables = ending(steps, outputs, monkeypatch=monkeypatch, **changes)
    assert (", ".join(names), count, variables) == found
