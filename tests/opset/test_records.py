"""Records behave like frozen dataclasses, which are the oracle here."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from inspect import signature

import pytest

from onegraph._util.records import record


class _Body:
    """The fields of the classes under test."""

    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list)
    hidden: int = field(default=0, repr=False, compare=False)


def _made(decorator, name):
    contents = {key: value for key, value in vars(_Body).items() if key not in ("__dict__", "__weakref__")}
    kind = decorator(type(name, (), {**contents, "__qualname__": name}))
    globals()[name] = kind  # where pickle looks for it
    return kind


Record = _made(record(frozen=True), "Record")
Twin = _made(dataclass(frozen=True), "Twin")
Single = _made(record(frozen=True, eq=False), "Single")


def shape_of(value):
    """A text or a signature, with the name of the class replaced."""
    return str(value).replace("Record", "Twin")


@pytest.mark.parametrize(
    "make", [lambda kind: kind(1), lambda kind: kind(1, "2", [3], 4), lambda kind: kind(first=1, hidden=5)]
)
def test_a_record_has_the_fields_and_text_of_a_dataclass(make):
    ours, theirs = make(Record), make(Twin)
    assert asdict(ours) == asdict(theirs)
    assert shape_of(repr(ours)) == repr(theirs)
    assert [one.name for one in fields(ours)] == [one.name for one in fields(theirs)]
    assert asdict(replace(ours, second="new")) == asdict(replace(theirs, second="new"))
    assert Record.__match_args__ == Twin.__match_args__


def test_records_are_equal_by_the_fields_that_are_compared():
    for kind in (Record, Twin):
        assert kind(1, hidden=1) == kind(1, hidden=2)
        assert kind(1) != kind(2)
        assert kind(1).__eq__(1) is NotImplemented
        assert hash(kind(1, "a", (), 1)) == hash(kind(1, "a", (), 2)) == hash((1, "a", ()))
        with pytest.raises(TypeError, match="unhashable"):
            hash(kind(1))
    assert Record(1) != Twin(1)
    one = Single(1)
    assert one == one
    assert one != Single(1)
    assert hash(one) == object.__hash__(one)


def test_each_record_gets_its_own_default_list():
    assert Record(1).third is not Record(1).third


@pytest.mark.parametrize("name", ["first", "another"])
def test_a_record_is_frozen(name):
    one = Record(1)
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(one, name, 2)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(one, name)
    assert one.first == 1


def test_records_are_copied_and_pickled():
    one = Record(1, "2", [3], 4)
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert other.hidden == 4
        assert other is not one


def test_wrong_arguments_are_refused_by_name():
    for arguments, named in (((), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"other": 1})):
        with pytest.raises(TypeError) as ours:
            Record(*arguments, **named)
        with pytest.raises(TypeError) as theirs:
            Twin(*arguments, **named)
        assert shape_of(ours.value) == str(theirs.value)
    assert [*signature(Record).parameters] == [*signature(Twin).parameters]


def test_methods_of_the_class_stay():
    @record(frozen=True)
    class Named:
        name: str
        length: int = -1

        def __post_init__(self):
            object.__setattr__(self, "length", len(self.name))

        def __repr__(self):
            return f"<{self.name}>"

    assert repr(Named("abc")) == "<abc>"
    assert Named("abc").length == 3


def test_a_record_is_always_frozen():
    with pytest.raises(TypeError, match="use dataclass"):
        record(frozen=False)
