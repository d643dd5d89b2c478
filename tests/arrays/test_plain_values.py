"""Values of users as plain ones: which are taken, what they become, and how the others are refused."""

import math
from collections import UserDict
from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import PurePath
from types import MappingProxyType

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph._util import exact_types, validation
from onegraph._util.counted import alike, counted, first_of, some_of
from onegraph._util.exact_types import NOT_PLAIN, entries, listed, plain, real, text, whole
from onegraph._util.paths import absolute, path_of
from onegraph._util.size_symbols import OpenSizes

F32 = np.float32
(SIZE,) = OpenSizes([3]).symbols


class Int(int):
    def __index__(self):
        return 9


class Text(str):
    def __str__(self):
        return "other"


class Endless(list):
    def __iter__(self):
        while True:
            yield 1


def is_alike(made, wanted):
    return type(made) is type(wanted) and (made == wanted or made != made != wanted != wanted)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (-3, -3),
        (Int(3), 3),
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        *[(one, None) for one in (True, np.True_, np.timedelta64(3), 3.0, F32(3), "3", b"3", None, [3], Decimal(3))],
    ],
)
def test_whole_numbers_are_ints(value, number):
    assert is_alike(whole(value), number)
    assert whole(SIZE) is SIZE


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (0.5, 0.5),
        (F32(0.5), 0.5),
        (np.int8(-3), -3.0),
        (Fraction(1, 2), 0.5),
        (math.nan, math.nan),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        *[(one, None) for one in (True, np.True_, np.timedelta64(3), "3", None, [3], 1j, np.ones(1))],
    ],
)
def test_real_numbers_are_floats(value, number):
    assert is_alike(real(value), number)


def test_texts_are_those_of_their_characters():
    assert [type(text(one)) for one in ("a", Text("a"))] == [str, str]
    assert [text(one) for one in ("a", Text("a"), b"a", 1, None)] == ["a", "a", None, None, None]


def test_endless_lists_end(monkeypatch):
    monkeypatch.setattr(exact_types, "MAX_LENGTH", 5)
    most = exact_types.MAX_LENGTH + 1
    assert len(listed(Endless())) == most
    assert len(listed(range(most + 5))) == most
    assert len(listed([1] * (most + 5))) == most + 5  # which exists
    assert [exact_types.elements(one) for one in ([1], (1,), range(1), {1}, "1", None)] == [[1], [1], *[None] * 4]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": 1, 2: 3}, {"a": 1, 2: 3}),
        ({Text("a"): 1}, {"a": 1}),
        (UserDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ([("a", 1)], None),
        (None, None),
        ("a", None),
    ],
)
def test_entries_have_plain_names(value, found):
    made = entries(value)
    assert made == found
    assert found is None or [type(key) for key in made] == [type(key) for key in found]


def test_entries_with_keys_that_have_no_hash_are_none():
    class Odd(UserDict):
        def items(self):
            return [([], 1)]

    assert entries(Odd()) is None


BF16 = ml_dtypes.bfloat16(0.5)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        *[(one, one) for one in (True, 3, 0.5, "a", SIZE)],
        (np.True_, True),
        (np.int16(3), 3),
        (F32(0.5), 0.5),
        (BF16, 0.5),
        (b"ab", "ab"),
        (np.bytes_(b"ab"), "ab"),
        (b"\xff", "\ufffd"),
        (Text("a"), "a"),
        (Int(3), 3),
        (range(3), [0, 1, 2]),
        ((True, np.int8(1), "a", BF16), [True, 1, "a", 0.5]),
        ([np.array(1), np.array(0.5)], [1, 0.5]),
        (np.array([1, 2], np.int8), [1, 2]),
        (np.array([0.5], F32), [0.5]),
        (np.array(3), 3),
        (np.array(["a"]), ["a"]),
        ([], []),
        ([None, [1]], [NOT_PLAIN, NOT_PLAIN]),
        *[(one, NOT_PLAIN) for one in (None, {}, {1}, 1j, object, Decimal(1), np.datetime64(1, "s"))],
    ],
)
def test_attributes_are_plain_numbers_texts_and_lists(value, found):
    made = plain(value)
    assert type(made) is type(found)
    assert made is found if found is NOT_PLAIN else made == found
    assert not isinstance(found, list) or [type(one) for one in made] == [type(one) for one in found]


def test_arrays_of_several_axes_and_long_floats_stay():
    matrix, number = np.ones((1, 2)), np.longdouble(0.5)
    assert plain(matrix) is matrix
    assert plain(number) is number
    assert [type(one) for one in plain([number, np.float64(0.5)])] == [np.longdouble, float]


# Arguments

CHECKED = {
    "choice": (partial(validation.choice, allowed=("a", "b")), "expected one of 'a', 'b'"),
    "string": (validation.string, "expected a string"),
    "stated string": (partial(validation.string, expected="a word"), "expected a word"),
    "flag": (validation.flag, "expected True or False"),
    "list": (partial(validation.as_list, kind=int), "expected a list of int objects"),
    "stated list": (partial(validation.as_list, kind=int, expected="numbers"), "expected numbers"),
    "dict": (partial(validation.as_dict, expected="names"), "expected names"),
    "integer": (partial(validation.integer, low=-1, high=2), "expected an integer, -1 to 2"),
    "stated integer": (partial(validation.integer, low=-1, high=2, expected="few"), "expected few"),
    "number": (partial(validation.number, low=-1, high=2), "expected a number, -1 to 2"),
    "id": (validation.identifier, r"expected an integer, 0 to 2\*\*64 - 2"),
    "callback": (validation.callback, "expected a function"),
}
TAKEN = {
    "choice": [("a", "a"), (Text("b"), "b")],
    "string": [("", ""), (Text("a"), "a")],
    "stated string": [("x", "x")],
    "flag": [(True, True), (False, False)],
    "list": [([], []), ((1, 2), [1, 2])],
    "stated list": [([3], [3])],
    "dict": [({}, {}), ({"a": 1}, {"a": 1})],
    "integer": [(-1, -1), (2, 2), (np.int8(0), 0)],
    "stated integer": [(-1, -1), (2, 2)],
    "number": [(-1, -1.0), (2.0, 2.0), (F32(0.5), 0.5)],
    "id": [(0, 0), (2**64 - 2, 2**64 - 2)],
    "callback": [(print, print)],
}
REFUSED = {
    "choice": ["c", None, 1],
    "string": [1, None, b"a"],
    "stated string": [1],
    "flag": [0, 1, None, np.True_],
    "list": [1, None, {1}, range(2)],
    "stated list": ["1"],
    "dict": [[], None, 1],
    "integer": [-2, 3, 0.0, True, None],
    "stated integer": [-2, 3],
    "number": [-1.01, 2.01, math.nan, True, "1", None],
    "id": [-1, 2**64 - 1, 1.0, True],
    "callback": [1, "print"],
}


@pytest.mark.parametrize("kind", CHECKED)
def test_arguments_are_taken_or_refused_with_what_is_expected(kind):
    check, expected = CHECKED[kind]
    for value, found in TAKEN[kind]:
        assert is_alike(check("x", value), found), value
    for value in REFUSED[kind]:
        with pytest.raises(og.ArgumentError, match=f"^x: .*; {expected}$"):
            check("x", value)


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [(int, (), "an? int"), (og.Graph, (), "a Graph"), (OSError, (), "an OSError"), (int, ("a number",), "a number")],
)
def test_objects_are_of_a_class(kind, options, expected):
    assert validation.expect("x", 1, int) is None
    with pytest.raises(og.ArgumentError, match=f"^x: 'a'; expected {expected}$"):
        validation.expect("x", "a", kind, *options)
    with pytest.raises(og.ArgumentError, match=r"^x\[1\]: 'a'; expected a int$"):
        validation.as_list("x", [1, "a"], int)


def test_functions_may_be_missing_where_nothing_is_told():
    assert validation.callback("x", None)(1, a=2) is None
    validation.function("x", print)
    with pytest.raises(og.ArgumentError, match="x: None; expected a function"):
        validation.function("x", None)


class Pretender:
    """An object that only says that it is a path."""

    __class__ = property(lambda self: PurePath)
    _parts = _raw_paths = ("a",)
    _drv = _root = ""


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        *[("a", True), ("a\0b", False), (b"a", False), (1, False), (None, False), ("\ud800", False)],
        (Pretender(), False),
    ],
)
def test_paths_are_those_of_files(value, fits):
    told = "^x: .*; expected the path of a file$"
    with nullcontext() if fits else pytest.raises(og.ArgumentError, match=told):
        assert str(path_of("x", value, "the path of a file")) == value


def test_absolute_paths_stay(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert [absolute(one) for one in ("/a/b", "b/c", tmp_path / "d")] == ["/a/b", f"{tmp_path}/b/c", f"{tmp_path}/d"]


# Texts


def test_numbers_have_nouns_in_the_plural():
    nouns = ("axis", "class", "index", "leaf", "miss", "byte")
    assert [counted(1, noun) for noun in nouns] == [f"1 {noun}" for noun in nouns]
    assert [counted(0, noun) for noun in nouns] == [
        *("0 axes", "0 classes", "0 indices", "0 leaves", "0 misses", "0 bytes"),
    ]
    assert counted("1", "byte") == "1 bytes"


def test_some_items_stand_for_all():
    assert alike([3, 1, 4, 2], lambda number: number % 2) == [[3, 1], [4, 2]]
    assert [first_of(one) for one in ([3], [3, 3], [3, 1], [3, 1, 3, 2])] == [
        *("3", "3", "3 and 1 other", "3 and 2 others")
    ]
    names = [*map(str, range(14))]
    wanted = [", ".join(names[:12]), ", ".join([*names[:12], "..."]), ", ".join([*names[:12], "..."])]
    assert [some_of(names[:count]) for count in (12, 13, 14)] == wanted
    assert [some_of(names[:count], 1) for count in (0, 1, 2)] == ["none", "0", "0, ..."]
