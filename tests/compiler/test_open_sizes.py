"""Open sizes: what was computed with them holds for all sizes that answer the noted questions alike."""

import dataclasses
import math
import operator
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest

import onegraph as og
from onegraph._util.interpreter_tricks import written_function
from onegraph._util.open_numbers import numbers_of
from onegraph._util.open_sizes import OpenSize, computed, is_open, is_whole, present, settled
from onegraph._util.size_symbols import MOST_GUARDS, OpenSizes, TooManyGuardsError
from onegraph.builder.graph import DataGraph
from onegraph.lowering.resize_axes import scaled
from onegraph.transform.present import at_present
from onegraph.transform.specialise import specialise

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]
QUESTIONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def program(seed):
    """A random computation of numbers that asks questions on its way, as a function of a list of sizes."""
    draws = random.Random(seed)
    steps = [(draws.random(), draws.choice(ARITHMETIC), draws.choice(QUESTIONS), draws.random()) for _ in range(12)]

    def run(sizes):
        numbers, answers = [*sizes, 1, 2, 7, 64], []
        for place, compute, ask, other in steps:
            first, second = (numbers[int(at * len(numbers))] for at in (place, other))
            answers.append(bool(ask(first, second)))
            if answers[-1] or second == 0:
                numbers.append(first + 3 * second)
            else:
                numbers.append(compute(first, second))
        return numbers, answers

    return run


@pytest.mark.parametrize("seed", range(40))
def test_results_hold_for_all_sizes_that_fit(seed):
    run, draws = program(seed), random.Random(seed)
    sizes = [draws.randint(2, 60), draws.randint(2, 60)]
    opened = OpenSizes(sizes)
    found, answers = run(opened.symbols)
    assert ([present(number) for number in found], answers) == run(sizes)
    fits = written_function(["s"], " and ".join(opened.conditions()) or "True")
    compute = written_function(["s"], f"[{', '.join(map(repr, found))}]")
    assert fits(sizes)
    others = [[draws.randint(1, 90), draws.randint(1, 90)] for _ in range(400)]
    for other in filter(fits, others):
        assert (compute(other), answers) == run(other)


def opened(*values):
    sizes = OpenSizes(values)
    return sizes, *sizes.symbols


def test_a_polynomial_without_symbols_is_a_number():
    sizes = OpenSizes([5, 7])
    for terms, value in (({}, 0), ({(0,): 0}, 0), ({(): 3}, 3), ({(): 3, (0,): 0}, 3)):
        found = sizes.size(terms, value)
        assert (type(found), found) == (int, value)
    assert sizes.size({(0,): 1}, 5) is sizes.symbols[0]
    assert sizes.size({(0,): 1, (): 0, (1,): 0}, 5) is sizes.symbols[0]
    assert type(sizes.size({(0,): 1, (): 3}, 8)) is type(sizes.size({(0,): 2}, 10)) is OpenSize


def test_polynomials_are_equal_without_a_guard():
    sizes, n, m = opened(5, 7)
    assert (n + 1) * (m - 2) == n * m + m - 2 * n - 2
    assert (n * m * 64) // m is n * 64
    assert (6 * n * m) % (2 * m) == 0
    assert n - n == 0
    assert type(n - n) is int
    assert sizes.conditions() == ["not (s[1])==0", "not ((2)*s[1])==0"]  # the divisors


def test_a_quotient_of_polynomials_is_one_if_nothing_is_left():
    _, n, m = opened(5, 7)
    assert ((n + 1) * (m + 2) * 3) // (m + 2) is (n + 1) * 3
    assert (n * n - 1) // (n - 1) is n + 1
    quotient, rest = divmod(n * m + n + 1, m + 1)
    assert (present(quotient), present(rest)) == (5, 1)
    assert {type(quotient), type(rest)} == {OpenSize}


def test_a_quotient_by_a_number_has_one_form():
    _, n, m = opened(37, 5)
    assert (n - 4) // 4 + 1 is n // 4
    assert (n // 4) // 2 is n // 8
    assert (n * 6 + m) // 3 is n * 2 + m // 3
    assert (n + 7) % 7 is n % 7
    assert (n * m + 3) // 3 is n * m // 3 + 1
    assert [present(one) for one in ((n - 40) // 4, (n - 40) % 4, (m - 9) // 2 // 3)] == [-1, 1, -1]


def test_unequal_polynomials_are_other_keys():
    _, n, m = opened(5, 5)
    assert len({n, m, 5}) == 3
    assert {(n, 2): "a"}[(n + 1 - 1, 2)] == "a"


@pytest.mark.parametrize("need", [int, float, range, np.empty, operator.index, lambda n: [0][:n], lambda n: n / 2])
def test_a_number_that_is_needed_is_noted(need):
    sizes, n = opened(5)
    need(n)
    assert sizes.are_pinned
    assert sizes.conditions() == ["(s[0])==5"]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "truediv"])
def test_real_numbers_need_the_number(name):
    function = getattr(operator, name)
    for ordered in (lambda one, other: (one, other), lambda one, other: (other, one)):
        sizes, n = opened(5)
        assert function(*ordered(n, 2.5)) == function(*ordered(5, 2.5))
        assert sizes.are_pinned


@pytest.mark.parametrize("name", ["pow", "and_", "lshift", "rshift", "truediv"])
def test_other_operators_need_the_number(name):
    function = getattr(operator, name)
    sizes, n = opened(5)
    assert function(n, 3) == function(5, 3)
    assert sizes.conditions() == ["(s[0])==5"]
    if name != "rshift":
        sizes, n = opened(5)
        assert function(3, n) == function(3, 5)
        assert sizes.conditions() == ["(s[0])==5"]


def test_numbers_are_divided_by_open_ones():
    sizes, n = opened(5)
    assert [present(one) for one in (17 // n, 17 % n, *divmod(17, n), *divmod(n, 2), -n)] == [3, 2, 3, 2, 2, 1, -5]
    assert abs(n) is n
    assert present(abs(n - 9)) == 4
    assert sizes.conditions() == ["not (s[0])==0", "not (s[0])<0", "((-9)+s[0])<0"]


def test_the_number_of_bits_is_a_question():
    sizes, n = opened(5)
    assert n.bit_length() == 3
    assert sizes.conditions() == ["(s[0]).bit_length()==3"]


@pytest.mark.parametrize(("size", "more", "less"), [(5, 4, 6), (0, -1, 1)])
def test_comparisons_hold_at_their_bounds(size, more, less):
    _, n = opened(size)
    assert (n <= size, n >= size, n < size, n > size, n == size, n != size) == (True, True, False, False, True, False)
    assert (n > more, n >= more, n <= more, n < less, n <= less, n >= less) == (True, True, False, True, True, False)
    assert bool(n) is bool(size)


def test_functions_of_sizes_are_symbols_of_their_own():
    sizes, n = opened(5)
    half = computed("half({})", 2, n)
    assert (present(half), f"{half + 1}") == (2, "((1)+half((s[0])))")
    assert computed("half({})", 2, n) is half
    assert computed("half({})", 2, 4) == 2
    assert sizes.conditions() == []


def test_one_open_symbol_is_enough():
    sizes, n, m = opened(5, 7)
    np.empty(n)
    assert not sizes.are_pinned
    np.empty(m)
    assert sizes.are_pinned


def test_functions_of_python_keep_sizes_open():
    sizes, n = opened(6)
    assert math.prod([n, 4, n]) is n * n * 4
    assert sum([n, n, 1]) is 2 * n + 1
    assert max(n, 1) is n
    assert not sizes.pinned


def test_texts_and_types_ask_nothing():
    sizes, n = opened(6)
    assert isinstance(n, int)
    assert is_whole(n)
    assert is_open([1, n])
    assert not is_open([1, 2])
    assert not is_whole(True)
    assert not is_whole(2.0)
    assert "s[0]" in f"{n}"
    assert sizes.conditions() == []


def test_too_many_questions_end_a_computation():
    _, n = opened(10**9)
    with pytest.raises(TooManyGuardsError):
        all(n > number for number in range(MOST_GUARDS + 1))
    _, n = opened(10**9)
    assert all(n > number for number in range(MOST_GUARDS))


def test_open_sizes_are_not_pickled():
    with pytest.raises(TypeError):
        pickle.dumps(opened(3)[1])
    assert type(opened(3)[1]) is OpenSize


def test_a_settled_size_holds_for_its_value_alone():
    sizes = OpenSizes([6, 5])
    assert (settled(sizes.symbols[0] + 1), settled(4), sizes.pinned) == (7, 4, set())
    fits = written_function(["s"], " and ".join(sizes.conditions()))
    assert [fits([first, 9]) for first in (5, 6, 7)] == [False, True, False]


@pytest.mark.parametrize("flags", [[], ["-O"]], ids=["plain", "optimized"])
def test_questions_are_noted_without_assertions_too(flags):
    code = (
        "from onegraph._util.open_sizes import settled\n"
        "from onegraph._util.size_symbols import OpenSizes\n"
        "sizes = OpenSizes([6])\n"
        "settled(sizes.symbols[0])\n"
        "print(len(sizes.conditions()))"
    )
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "1\n", done.stderr


def test_a_graph_at_present_has_plain_numbers():
    graph = DataGraph()
    x = graph.input("x", og.f32, (None, None, 4))
    total = graph.add(graph.relu(x, name="first"), graph.constant(np.float32(1)))
    graph.output("y", graph.op("Reshape", [total, graph.input("dims", og.s64, (2,))], edition="host"))
    sizes, n, m = opened(5, 7)
    whole = specialise(graph, {"x": (n, m, 4)})
    whole._by_id[whole.inputs["dims"].id] = dims = dataclasses.replace(
        whole.inputs["dims"], value=numbers_of([n * m, 4], (2,))
    )
    whole._inputs["dims"], asked = dims, sizes.conditions()
    present_ = at_present(whole)
    assert sizes.conditions() == asked
    shapes = [tensor.shape for tensor in (present_.inputs["x"], *(op.outputs[0] for op in present_.ops[:2]))]
    assert shapes == [(5, 7, 4)] * 3
    assert all(type(dim) is int for shape in shapes for dim in shape)
    assert {**present_._by_id}.keys() == {**whole._by_id}.keys()
    assert [(op.id, op.kind, op.name) for op in present_.ops] == [(op.id, op.kind, op.name) for op in whole.ops]
    assert present_.inputs["dims"].shape == (2,)
    contents = present_.inputs["dims"].value
    assert (contents.dtype, contents.tolist()) == (object, [35, 4])
    assert all(type(number) is int for number in contents)
    assert is_open(whole.inputs["x"].shape)
    assert is_open(whole.inputs["dims"].value)


def test_attributes_at_present_are_plain_numbers():
    graph, (_, n) = DataGraph(), opened(6)
    x = graph.input("x", og.f32, (None, 4))
    whole = specialise(graph, {"x": (n, 4)})
    x = whole.inputs["x"]
    flat = whole.op("StaticReshape", [x], {"shape": [4 * n], "special_zero": False})
    whole.output("y", whole.op("StaticTranspose", [whole.relu(x)], {"order": [1, 0]}))
    whole.output("z", flat)
    present_ = at_present(whole)
    assert [dict(op.attrs) for op in present_.ops] == [{"shape": (24,), "special_zero": False}, {}, {"order": (1, 0)}]
    assert type(present_.ops[0].attrs["shape"][0]) is int
    assert present_.outputs["y"].shape == (4, 6)
    assert present_.outputs["z"].shape == (24,)


@pytest.mark.parametrize("scale", [0.4, 0.7, 1.3, 2.6, 1 / 3, 0.999999, 1.7e-3])
def test_number_of_elements_by_a_scale_is_that_of_single_precision(scale):
    single = np.float32(scale)
    count, is_ratio = scaled(OpenSizes([7]).symbols[0], float(single))
    function = written_function(["s"], repr(count))
    assert not is_ratio
    for size in [*range(1, 3000), 8_388_607, 12_345_678]:
        assert function([size]) == int(np.float32(size) * single), size
