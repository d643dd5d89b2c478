"""Groups of several processes, with a stand-in for the library that connects them."""

import sys

import numpy as np
import pytest
from helpers import gloo_stand_in

import onegraph as og
from onegraph.reference.host import collective

pytestmark = pytest.mark.library
CLOSED = "[pair.cc:1] Connection closed by peer\nat a place"


@pytest.fixture(autouse=True)
def _no_group():
    yield
    collective.set_group(None)


@pytest.fixture
def join(monkeypatch):
    """Join a group, and tell what was called."""

    def joined(told=(), rank=0, size=2, address="h:1", timeout=2, **errors):
        made = gloo_stand_in.GlooStandIn(dict(told), errors)
        monkeypatch.setitem(sys.modules, "torch", made.torch)
        monkeypatch.setitem(sys.modules, "torch.distributed", made.distributed)
        try:
            found = gloo_stand_in.join(rank, size, address, timeout=timeout)
        except og.OneGraphError as error:
            found = error
        return found, made

    return joined


def connection(attempt, rank=0, seconds=2):
    """The calls of an attempt to connect two processes, up to what this one tells."""
    return [
        f"onegraph/{attempt} waits {seconds} s",
        f"init_process_group gloo {rank} of 2 onegraph/{attempt} {seconds} s",
    ]


def answers(attempt, told="", rank=0, seconds=4):
    """The calls in which all processes tell how an attempt went."""
    place = f"onegraph/{attempt}/told"
    found = [f"{place}/{rank} is '!{told}'", f"wait 0 1 for {seconds} s", f"{place}/{rank}/read is ''"]
    return [*found, *["wait 0/read 1/read for 5 s"][rank:]]


@pytest.mark.parametrize(
    ("rank", "seconds", "longest"), [(0, 2, 4), (1, 2, 4), (0, 7, 12)]
)  # the first process has the store, and ends last
def test_processes_connect_and_tell_it(join, rank, seconds, longest):
    group, made = join({f"onegraph/1/told/{1 - rank}": "!"}, rank, timeout=seconds)
    expected = [f"rendezvous tcp://h:1 {rank} of 2 {seconds} s", *connection(1, rank, seconds)]
    assert made.calls == expected + answers(1, rank=rank, seconds=longest)
    assert (group.rank, group.size, made.is_initialized) == (rank, 2, True)
    assert collective._joined == [group]


OWN = {"init_process_group": [CLOSED]}
REPEATED = "join: rank 1 of 2: rank {} has lost the rendezvous: {}, in attempt {} of 3; all processes try again"


@pytest.mark.parametrize(
    ("other", "errors", "told", "which"),
    [
        ("", OWN, "Connection closed by peer", (1, "Connection closed by peer")),
        ("", {"init_process_group": [""]}, "gloo fails", (1, "gloo fails")),
        ("no route", {}, "", (0, "no route")),
        ("wait timeout", OWN, "Connection closed by peer", (1, "Connection closed by peer")),
        ("a timeout", {"init_process_group": ["timeout"]}, "timeout", (0, "a timeout")),
    ],
)
def test_all_processes_connect_again_if_one_has_not(join, other, errors, told, which):
    others = {"onegraph/1/told/0": f"!{other}", "onegraph/2/told/0": "!"}
    with pytest.warns(RuntimeWarning) as warned:
        _, made = join(others, 1, address=None, **errors)
    (one,) = warned
    assert (str(one.message), one.filename) == (REPEATED.format(*which, 1), gloo_stand_in.__file__)
    alone = ["init_process_group gloo 0 of 1 None"] if errors else []
    between = [*connection(1, 1), *answers(1, told, 1), *alone, "destroy_process_group"]
    assert made.calls == ["rendezvous env:// 1 of 2 2 s", *between, *connection(2, 1), *answers(2, rank=1)]
    assert made.is_initialized


def test_processes_that_never_connect_give_up(join):
    others = {f"onegraph/{attempt}/told/0": "!no route" for attempt in (1, 2, 3, 4)}
    with pytest.warns(RuntimeWarning) as warned:
        error, made = join(others, 1)
    assert [str(one.message) for one in warned] == [REPEATED.format(0, "no route", attempt) for attempt in (1, 2)]
    told = "rank 0 has lost the rendezvous: no route, in each of 3 attempts"
    assert str(error) == f"join: rank 1 of 2 at tcp://h:1: {told}"
    assert not made.is_initialized


@pytest.mark.parametrize(
    ("told", "errors", "message"),
    [
        ({"onegraph/1/told/2": "!"}, {}, "rank 1 has ended, or is silent"),
        ({}, {"rendezvous": [CLOSED]}, "Connection closed by peer"),
    ],
)
def test_silent_process_is_named(join, told, errors, message):
    error, _ = join(told, size=3, **errors)
    assert isinstance(error, og.StateError)
    assert str(error) == f"join: rank 0 of 3 at tcp://h:1: {message}"


@pytest.mark.parametrize(("size", "error"), [(2**20, og.StateError), (2**20 + 1, og.ArgumentError)])
def test_groups_have_most_processes(join, size, error):
    assert type(join(size=size, rank=size - 1, rendezvous=["no"])[0]) is error


LOST = (
    "rank 0 of 2 has lost its group: {}; the variables are those of the last whole step; end all processes, and start "
    "them again from a checkpoint"
)


@pytest.fixture
def connected(join):
    return lambda **errors: join({"onegraph/1/told/1": "!"}, **errors)


def test_sums_are_started_and_awaited(connected):
    group, made = connected()
    first, second = np.ones(2, np.float32), np.zeros(1, np.float32)
    del made.calls[:]
    for _ in range(2):
        group.start(first)
        group.start(second)
        group.wait(first)
        group.wait(second)
    starts = [["all_reduce [1.0, 1.0] True", "all_reduce [0.0] True"], ["all_reduce [2.0, 2.0] True"]]
    assert made.calls == [*starts[0], "wait", "wait", *starts[1], starts[0][1], "wait", "wait"]
    assert first.tolist() == [4.0, 4.0]
    with pytest.raises(og.StateError, match="AllReduceDone: this memory is not that of an AllReduceStart"):
        group.wait(first)
    assert made.is_initialized


@pytest.mark.parametrize(
    ("calls", "errors", "why"),
    [
        ("start start", {}, "an earlier step was interrupted"),
        ("start", {"all_reduce": [CLOSED]}, "Connection closed by peer"),
        ("start wait", {"wait": [CLOSED]}, "Connection closed by peer"),
        ("_send", {"broadcast": [CLOSED]}, "Connection closed by peer"),
    ],
)
def test_lost_group_says_so_in_every_later_call(connected, calls, errors, why):
    group, made = connected(**errors)
    memory, said = np.ones(2, np.float32), LOST.format(why)
    *before, last = calls.split()
    for name in before:
        getattr(group, name)(memory)
    for name in (last, "start", "wait", "_send"):
        with pytest.raises(og.StateError) as raised:
            getattr(group, name)(memory)
        assert str(raised.value) == said
    assert collective._joined == [group]  # whose error says more than that there is no group
    assert made.calls.count("destroy_process_group") == 1


def test_variables_are_those_of_the_first_process(connected):
    g = og.Graph()
    g.output("y", g.variable("w", np.ones((2, 3), np.float32)) + g.variable("c", np.float32(1)))
    model, (group, made) = g.compile(), connected()
    group.share_variables(model)
    assert made.calls[-2:] == ["broadcast uint8 (24,) from 0", "broadcast uint8 (4,) from 0"]
    twos = np.full((), 0x02020202, np.uint32).view(np.float32)
    assert np.all(model.variables["w"] == twos)
    assert model.variables["c"] == twos


def test_group_is_left_once(connected):
    group, made = connected()
    with group as entered:
        assert entered is group
    assert (collective._joined, made.calls[-1], made.is_initialized) == ([], "destroy_process_group", False)
    group.leave()
    assert made.calls.count("destroy_process_group") == 1
