"""Which kernels of the package take steps, where they write and what they are made for, with stand-ins for steps."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.small_lowered import step

import onegraph as og
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels import attention, pointwise
from onegraph.compiler.kernels.adding import STRIDED_OUTPUT, Adding, in_place_pairs
from onegraph.compiler.kernels.kernel import Kernel, of_types, refusal
from onegraph.compiler.kernels.pointwise import (
    MAX_SIGMOID,
    MIN_SCALED,
    MIN_SIGMOID,
    MIN_SLOPES,
    PointwiseGroup,
    is_special,
    why_not,
)
from onegraph.errors import ArgumentError

BF16, F32 = og.bf16, og.f32


def as_one(_):
    return "all"


def value(name, shape=(2, 3), *, strides=None, dtype=F32, offset=0, storage=None):
    return Value(name, dtype, shape, strides or dense_of(shape), storage or name, name, None, offset)


# Groups of elementwise ops --------------------------------------------------------------------------------------------


def group(*kinds, **changes):
    given = {
        "size": 1000,
        "n_tensors": 6,
        "n_sources": 3,
        "n_results": 2,
        "is_update": False,
        "scales_channels": False,
        "rounds": False,
    }
    return PointwiseGroup(kinds=kinds or ("Add", "Multiply", "Exp"), **{**given, **changes})


SLOPE = pointwise.SLOPE
TAKEN, SLOW, JOINS, ROUNDS = "", "the CPU lacks AVX2", "the ops are no update", "the library rounds"
FEW, FUSED, LARGE = "take less time than a step", "fuses fewer than", "do not stay in the last cache"


@grouped(
    "one, reason, special",
    [
        (group(), TAKEN, False),
        (group("Add", "Exp"), JOINS, False),
        (group("Add", "Exp", is_update=True), TAKEN, False),
        (group(n_sources=2), JOINS, False),
        (group(n_results=1), JOINS, False),
        (group(rounds=True), ROUNDS, False),
        (group(rounds=True, is_update=True), ROUNDS, False),
        (group(n_results=0), "nobody reads", False),
        (group(n_results=0, is_update=True), "nobody reads", False),
        (group(n_tensors=48), TAKEN, False),
        (group(n_tensors=49), "more than 48 tensors", False),
        (group("Add", n_tensors=49, is_open=True), "more than 48 tensors", True),
        (group("Add", is_open=True), TAKEN, True),
        (group("Add", is_open=True, rounds=True), ROUNDS, False),
        (group("Add", is_open=True, follows_product=True), JOINS, False),
        (group(SLOPE, size=MIN_SLOPES), TAKEN, True),
        (group(SLOPE, size=MIN_SLOPES - 1), FEW, True),
        (group("Add", SLOPE), JOINS, False),
        (group("Add", "TanhBackward", size=MIN_SIGMOID), TAKEN, True),
        (group("Add", "TanhBackward", size=MIN_SIGMOID - 1), FEW, True),
        (group("TanhBackward", size=MIN_SIGMOID), JOINS, False),
        (group("Sigmoid", "Multiply", size=MIN_SIGMOID), TAKEN, True),
        (group("Sigmoid", size=MIN_SIGMOID), JOINS, False),
        (group("Sigmoid", "Multiply", size=1), TAKEN, True),
        (group("Sigmoid", "Multiply", size=1, follows_product=True), FUSED, True),
        (group("Sigmoid", "Multiply", size=MIN_SIGMOID, follows_product=True), TAKEN, True),
        (group("Sigmoid", "Multiply", size=MAX_SIGMOID), TAKEN, True),
        (group("Sigmoid", "Multiply", size=MAX_SIGMOID + 1), LARGE, True),
        (group(*["Sigmoid"] * (pointwise.GATE_OPS + 1), size=MAX_SIGMOID + 1), TAKEN, True),
        (group(*["Sigmoid"] * pointwise.GATE_OPS, size=MAX_SIGMOID + 1), LARGE, True),
        (group("Multiply", scales_channels=True, size=MIN_SCALED), TAKEN, True),
        (group("Multiply", scales_channels=True, size=MIN_SCALED - 1), FEW, True),
        (group("Multiply", scales_channels=True, size=MAX_SIGMOID + 1), LARGE, True),
        (group("Add", is_between_kernels=True), TAKEN, True),
        (group("Add", is_between_kernels=True, rounds=True), ROUNDS, False),
        (group("Add", is_between_kernels=True, size=MIN_SIGMOID), JOINS, False),
        (group("Add", is_between_kernels=True, size=MIN_SIGMOID - 1), TAKEN, True),
    ],
    key=as_one,
)
def test_groups_that_are_worth_a_step(one, reason, special, monkeypatch):
    monkeypatch.setattr(pointwise, "has_avx2", lambda: True)
    assert is_special(one) is special
    assert reason in why_not(one)
    assert bool(reason) == bool(why_not(one))
    monkeypatch.setattr(pointwise, "has_avx2", lambda: False)
    needs = special and not one.scales_channels and reason not in ("more than 48 tensors",)
    assert (why_not(one) == SLOW) is needs


@grouped(
    "members, ends, ops",
    [
        ([step("Add", "a b", "c")], "a b -> c", ["add", 2, 0, 1]),
        ([step("Sqrt", "a", "b")], "a -> b", ["sqrt", 1, 0, 0]),
        ([step("Add", "a b", "c"), step("Sqrt", "c", "d")], "a b -> d", ["add", 3, 0, 1, "sqrt", 2, 3, 3]),
        ([step("Add", "a b", "c"), step("Sqrt", "c", "d")], "a b -> c d", ["add", 2, 0, 1, "sqrt", 3, 2, 2]),
        ([step("Sigmoid", "a", "b"), step("Multiply", "a b", "c")], "a -> c", ["gate", 1, 0, 0]),
        ([step("Sigmoid", "a", "b"), step("Multiply", "b d", "c")], "a d -> c", ["gate", 2, 1, 0]),
        (
            [step("Sigmoid", "a", "b"), step("Multiply", "d b", "c")],
            "a d -> b c",
            ["sigmoid", 2, 0, 0, "multiply", 3, 1, 2],
        ),
        (
            [step("Sigmoid", "a", "b"), step("Multiply", "b d", "c"), step("Add", "b c", "e")],
            "a d -> e",
            ["sigmoid", 3, 0, 0, "multiply", 4, 3, 1, "add", 2, 3, 4],
        ),
        (
            [step("Sigmoid", "a", "b"), step("Sigmoid", "d", "e"), step("Multiply", "b e", "c")],
            "a d -> c",
            ["sigmoid", 3, 1, 1, "gate", 2, 3, 0],
        ),
        ([step(SLOPE, "a b", "c")], "a b -> c", ["gelu_slope", 3, 0, 0, "multiply", 2, 3, 1]),
    ],
    key=as_one,
)
def test_instructions_of_a_group(members, ends, ops):
    inputs, outputs = (tuple(part.split()) for part in ends.split(" -> "))
    one = step("Add", "", "")._replace(members=tuple(members), inputs=inputs, outputs=outputs)
    assert pointwise.POINTWISE.numbers(one) == {"ops": ops}


# Steps of kernels -----------------------------------------------------------------------------------------------------


@grouped(
    "inputs, outputs, pairs",
    [
        ([value("a")], [value("y")], [("y", "a")]),
        ([value("a"), value("b")], [value("y")], [("y", "b")]),
        ([value("a"), value("b")], [value("y"), value("z")], [("y", "b"), ("z", "a")]),
        ([value("a", (3,))], [value("y")], []),
        ([value("a"), value("b", (3,))], [value("y")], [("y", "a")]),
        ([value("a", dtype=BF16)], [value("y")], []),
        ([value("a", offset=1)], [value("y")], []),
        ([value("a", storage="u")], [value("y", storage="v")], [("v", "u")]),
    ],
    key=as_one,
)
def test_results_that_may_lie_over_an_input(inputs, outputs, pairs):
    assert in_place_pairs(inputs, outputs) == pairs


GAPS = {"strides": (6, 2)}


@grouped(
    "kernel, changes, told",
    [
        ({}, {}, ["note kernel x w y because", "kernel k: x w -> y [] {'n': 1} False ()"]),
        ({"reason": "own"}, {}, ["note kernel x w y own", "kernel k: x w -> y [] {'n': 1} False ()"]),
        ({"is_movement": True}, {}, ["note copy x w y because", "kernel k: x w -> y [] {'n': 1} False ()"]),
        ({"overwrites": True}, {}, ["note kernel x w y because", "kernel k: x w -> y [('y', 'w')] {'n': 1} False ()"]),
        ({"changes": True}, {}, ["note kernel x w y because", "kernel k: x w -> y [('y', 'x')] {'n': 1} False ()"]),
        ({"n_read": 1}, {}, ["note kernel x y because", "kernel k: x -> y [] {'n': 1} False ()"]),
        ({"varies": True, "rows": (1,)}, {}, ["note kernel x w y because", "kernel k: x w -> y [] {'n': 1} True (1,)"]),
        ({}, {"x": GAPS}, ["note kernel x' w y because", "kernel k: x' w -> y [] {'n': 1} False ()"]),
        ({"is_dense": False}, {"x": GAPS}, ["note kernel x w y because", "kernel k: x w -> y [] {'n': 1} False ()"]),
        (
            {"is_dense": False},
            {"x": {"strides": (0, 1)}},
            ["note kernel x' w y because", "kernel k: x' w -> y [] {'n': 1} False ()"],
        ),
        (
            {},
            {"y": GAPS},
            [
                "back y",
                "note kernel x w y* because",
                "kernel k: x w -> y* [] {'n': 1} False ()",
                f"copy y* y {STRIDED_OUTPUT}",
            ],
        ),
        ({"is_dense": False}, {"y": GAPS}, ["note kernel x w y because", "kernel k: x w -> y [] {'n': 1} False ()"]),
        ({"takes": (of_types(BF16),)}, {}, "a tensor has another data type than bf16"),
        ({"takes": (of_types(F32),)}, {"w": {"dtype": BF16}}, "a tensor has another data type than f32"),
        (
            {"takes": (of_types(F32),), "n_read": 1},
            {"w": {"dtype": BF16}},
            ["note kernel x y because", "kernel k: x -> y [] {'n': 1} False ()"],
        ),
    ],
    key=as_one,
)
def test_steps_that_kernels_run(kernel, changes, told):
    log, values = [], {name: value(name, **changes.get(name, {})) for name in "xwy"}

    def new(one, strides):
        return one._replace(id=f"{one.id}*", strides=strides, storage=f"{one.id}*")

    def dense(one):
        values[f"{one.id}'"] = one._replace(id=f"{one.id}'", strides=dense_of(one.shape))
        return f"{one.id}'"

    def run(name, ins, outs, note, numbers, pairs, varies, rows):
        assert note == 0
        ends = " -> ".join(" ".join(one.id for one in part) for part in (ins, outs))
        log.append(f"kernel {name}: {ends} {pairs} {numbers} {varies} {rows}")

    class Notes(list):
        def append(self, note):
            super().append(note)
            ends = [one.id for one in (*note.inputs, *note.outputs)]
            log.append(" ".join(["note", note.executor, *ends, *note.reasons]))

    schedule = SimpleNamespace(
        values=values,
        notes=Notes(),
        new_value=new,
        dense_copy=dense,
        take_back=lambda numbers: numbers and log.append(f"back {' '.join(numbers)}"),
        add_copy=lambda source, target, one, reason: log.append(f"copy {source.id} {target.id} {reason}"),
        add_kernel=run,
    )
    found = Adding(None, schedule, None).add(
        Kernel("k", numbers=lambda _: {"n": 1}, **kernel), step("Add", "x w", "y"), "because"
    )
    assert (found, log) == ((told, []) if isinstance(told, str) else ("", told))


def test_kernels_add_steps_in_their_own_way():
    asked = []
    own = Kernel("k", add=lambda *given: asked.append(given) or "refused")
    adding, one = Adding(None, SimpleNamespace(values={}, notes=[]), None), step("Add", "x w", "y")
    assert adding.add(own, one, "why", "also") == "refused"
    assert asked == [(adding, one, ("why", "also"))]


def test_conditions_are_asked_in_order():
    conditions = (lambda number: number > 0, "negative"), (lambda number: number < 9, "large")
    assert [refusal(conditions, number) for number in (1, -1, 10)] == ["", "negative", "large"]
    assert [
        Kernel("k", **given).updates
        for given in ({}, {"overwrites": True}, {"overwrites": True, "fails": ArgumentError})
    ] == [False, True, False]


# Numbers of attention -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "limit"), [
    (0.0, 0.0), (3.0, 3.0), (1e-40, 2.0**-100), (2.0**-100, 2.0**-100), (1e30, 2.0**80), (2.0**80, 2.0**80),
])  # fmt: skip
def test_limits_of_scores_are_such_that_the_kernel_computes(given, limit):
    assert attention._limit(given) == limit
    one = step("attention", "q k v", "y", "attention", masked=True, scale=0.5, softcap=given, plain=True)
    wanted = {
        "backward": False,
        "lengths": False,
        "causal": False,
        "past": 0,
        "window": 0,
        "mask": True,
        "scale": 0.5,
        "plain": True,
    }
    wanted |= {"hidden": 0.0, "selects": "none", "sink": False, "key_axis": 0, "value_axis": 0, "softcap": limit}
    assert attention.numbers_of(one) == wanted


def host(kind, *shapes, mask=False, **attrs):
    g = og.Graph()
    ends = [g.input(f"x{place}", F32, shape) for place, shape in enumerate(shapes)]
    ends += [g.input("mask", F32, (3, 4))] if mask else []
    g.op(kind, ends, attrs, edition="host")
    op = g.ops[-1]
    return step(kind, "", "", "reference")._replace(op=op)


SHAPES = [(1, 2, 3, 16), (1, 2, 4, 16), (1, 2, 4, 16)]
LARGE_COUNT = 2**40


@grouped(
    "attrs, mask, wanted",
    [
        ({}, False, {"mask": False, "causal": False, "past": 0, "window": 0, "scale": 0.25}),
        ({"scale": 0.5}, True, {"mask": True, "scale": 0.5}),
        ({"causal": True, "past": 1, "window": 2}, False, {"causal": True, "past": 1, "window": 2}),
        ({"window": 2}, False, {"window": 0}),
        ({"causal": True, "past": LARGE_COUNT, "window": LARGE_COUNT}, False, {"past": 2**31 - 1, "window": 2**31 - 1}),
    ],
    key=as_one,
)
def test_numbers_of_attention(attrs, mask, wanted):
    found = attention.numbers_of(host("Attention", *SHAPES, mask=mask, **attrs))
    assert {name: found[name] for name in wanted} == wanted
    assert (found["backward"], found["lengths"], found["plain"], found["sink"], found["softcap"]) == (
        False,
        False,
        False,
        False,
        0.0,
    )


def test_numbers_of_attention_to_a_cache():
    g = og.Graph()
    ends = [g.input(name, F32, shape) for name, shape in zip("qkv", SHAPES, strict=True)]
    g.op(
        "CachedAttention",
        [*ends, g.input("ends", og.s64, (1,))],
        {"softcap": 1e-40, "window": LARGE_COUNT, "scale": 0.5},
        edition="host",
    )
    found = attention.numbers_of(step("CachedAttention", "", "", "reference")._replace(op=g.ops[-1]))
    wanted = {
        "backward": False,
        "lengths": True,
        "causal": True,
        "past": 0,
        "plain": False,
        "window": 2**31 - 1,
        "scale": 0.5,
        "mask": False,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found["softcap"] == np.ldexp(1.0, -100)
