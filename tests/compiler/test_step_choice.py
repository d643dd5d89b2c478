"""Who runs a step: the choice among the library, kernels, views, copies and numpy, with all of them made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph._util.size_symbols import OpenSizes
from onegraph.compiler import compile as module
from onegraph.compiler import library_steps, recipes
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.library_steps import LibrarySteps, NoParametersError, OtherStepsError, Partitioning
from onegraph.compiler.partition_store import PartitionStore, SharedPartitions
from onegraph.compiler.single_ops import Collapsing, Reordering
from onegraph.errors import LibraryRuntimeError, OutOfMemoryError, UnsupportedError


def value(number, shape=(2, 3), strides=None, constant=None, storage=None, offset=0):
    strides = dense_of(shape) if strides is None else strides
    storage = number if storage is None else storage
    return Value(number, og.f32, shape, strides, storage, f"v{number}", constant, offset)


def step(number, inputs=(1,), outputs=(2,), kind="Add", executor="library", note="", **attrs):
    op = SimpleNamespace(kind=kind, inputs=())
    return Step(number, executor, kind, tuple(inputs), tuple(outputs), op, attrs, note)


class Chosen:
    """A compiler of steps whose parts say yes to some kinds of steps; notes who got a step."""

    def __init__(self, monkeypatch, *, policy="fusion", at=None, groups=(), known=None, **yes):
        self.log, self.yes, self.raises, self.placed = [], yes, {}, set()
        schedule = SimpleNamespace(
            add_repeated=self.asked("repeated"),
            add_cast=lambda one, reason: self.log.append(("cast", one.kind, reason)),
            add_numpy=lambda one, reason: self.log.append(("numpy", one.kind, reason, *one.refused)),
            take_back=self.taken,
            notes=[],
            note=lambda *given: self.log.append(("note", given[0], given[1].kind, *given[2:])),
            threads=SimpleNamespace(before="before"),
            values={},
        )
        self.schedule = schedule
        known = SharedPartitions() if known is None else known
        monkeypatch.setattr(module, "Schedule", lambda *_: schedule)
        monkeypatch.setattr(module, "EdgeLayouts", lambda *_: None)
        monkeypatch.setattr(module, "Adding", lambda *_: SimpleNamespace(add=self.kernel))
        concats = SimpleNamespace(add=lambda one: self.ask("concat", one))
        monkeypatch.setattr(module, "Concats", lambda _: concats)
        monkeypatch.setattr(module, "Patterns", lambda *_, **__: ["pattern"])
        monkeypatch.setattr(module, "RoundedRows", lambda *given: ("rows", given[1]))
        monkeypatch.setattr(module, "LibrarySteps", self.library)
        monkeypatch.setattr(module, "RowLeaks", self.leaks)
        monkeypatch.setattr(module, "restore_threads", lambda count: self.log.append(("restored", count)))
        for name in ("add_repeated", "add_norm", "add_rescaling"):
            monkeypatch.setattr(module, name, self.adds(name))
        monkeypatch.setattr(module, "add_view", self.asked("view"))
        copies = tuple(self.asked(name) for name in ("copied view", "pad", "tile"))
        monkeypatch.setattr(module, "COPIES", copies)
        monkeypatch.setattr(module, "VIEWS", {"View"})
        monkeypatch.setattr(module, "add_norm_guards", lambda _, steps: self.log.append(("guards", len(steps))))
        monkeypatch.setattr(module, "add_widened", self.widened)
        monkeypatch.setattr(module, "of_executor", lambda name: self.yes.get("executors", {}).get(name))
        monkeypatch.setattr(module, "for_op", lambda one: self.yes.get("kernels", {}).get(one.kind))
        monkeypatch.setattr(module, "structure_of", lambda _: "structure")
        monkeypatch.setattr(module, "find_partitions", lambda *_: iter(groups))
        monkeypatch.setattr(module, "search", self.searched)
        self.lowered = SimpleNamespace(
            steps=yes.get("steps", ()),
            folded=yes.get("folded", ()),
            graph=SimpleNamespace(inputs={"x": SimpleNamespace(id=77)}),
            consumers=lambda number: [one for one in yes.get("readers", ()) if number in one.inputs],
        )
        self.known, self.pieces = known, yes.get("pieces", {})
        self.compiler = module._StepCompiler(
            self.lowered,
            "strict",
            share=True,
            keeps=False,
            unkept=frozenset(),
            at=at,
            postpones=True,
            known=known,
            rounds=yes.get("rounds", False),
        )
        self.compiler._scales = policy == "fusion"

    def ask(self, name, one):
        is_taken = one.kind in self.yes.get(name, ())
        if is_taken:
            self.log.append((name, one.kind))
        return is_taken

    def asked(self, name):
        return lambda *given: self.ask(name, given[-1])

    def adds(self, name):
        def add(_, given):
            one = given[0] if isinstance(given, (list, tuple)) and not isinstance(given, Step) else given
            return self.ask(name, one)

        return add

    def kernel(self, kernel, one, *reasons):
        self.log.append((f"kernel {kernel.name}", one.kind, *reasons))
        return kernel.refused

    def widened(self, _, one, again):
        if one.kind not in self.yes.get("widened", ()):
            return False
        self.log.append(("widened", one.kind, *again.keywords.values()))
        return True

    def taken(self, numbers):
        placed = self.placed & {*numbers}
        self.placed -= placed
        return bool(placed)

    def library(self, *_, share, rows):
        self.given = share, rows
        return SimpleNamespace(
            add=self.partition,
            add_collapsed=self.collapsed,
            compile_postponed=lambda: self.yes.get("postponed", True),
        )

    def collapsed(self, one, note):
        return self.ask("collapsed", one)

    def partition(self, steps, partition, results, note):
        kinds = "+".join(one.kind for one in steps)
        self.log.append(("library", kinds, partition, tuple(results), note))
        self.schedule.notes.append(kinds)
        if kinds in self.raises:
            raise self.raises[kinds]
        return self.yes.get("reasons", {}).get(kinds, ("", 0))

    def leaks(self, _):
        def refuse(one):
            if one.kind in self.yes.get("leaking", ()):
                raise UnsupportedError("it leaks")

        def add(steps, results, first, add_step):
            self.log.append(("leaks", len(steps), tuple(results), first))

        refusal = lambda steps: "leaks" if "+".join(one.kind for one in steps) in self.yes.get("refused", ()) else ""  # noqa: E731
        return SimpleNamespace(refusal=refusal, refuse=refuse, add=add)

    def searched(self, _, mode, steps, needed):
        self.log.append(("search", [one.id for one in steps], sorted(needed)))
        for members in self.pieces[tuple(one.id for one in steps)]:
            outputs = [number for one in members for number in one.outputs if number in needed]
            found = SimpleNamespace(output_ids=outputs) if len(members) > 1 else None
            yield found, members


def one_step(monkeypatch, one, **yes):
    chosen = Chosen(monkeypatch, **yes)
    chosen.compiler._add_one(one, "a note")
    return chosen.log


LIBRARY = ("library", "Add", None, (), "a note"), ("leaks", 1, (2,), 0)
# By name: the step, who says yes, and who got the step.
ONES = {
    "the library": (step(0), {}, LIBRARY),
    "a view of axes": (step(0, executor="view"), {"repeated": ["Add"]}, ()),
    "what is repeated": (step(0), {"repeated": ["Add"]}, [("repeated", "Add")]),
    "repeated elements": (step(0), {"add_repeated": ["Add"]}, [("add_repeated", "Add")]),
    "repeated elements of numpy": (step(0, executor="reference"), {"add_repeated": ["Add"]}, [("numpy", "Add", "")]),
    "a view": (step(0, kind="View"), {"view": ["View"]}, [("view", "View")]),
    "no view": (step(0), {"view": ["Add"]}, LIBRARY),
    "a concat": (step(0), {"concat": ["Add"]}, [("concat", "Add")]),
    "a norm": (step(0), {"add_norm": ["Add"]}, [("add_norm", "Add")]),
    "a rescaling": (step(0), {"add_rescaling": ["Add"]}, [("add_rescaling", "Add")]),
    "a rescaling that is left": (step(0), {"policy": "debug", "add_rescaling": ["Add"]}, LIBRARY),
    "fewer axes": (step(0), {"collapsed": ["Add"]}, [("collapsed", "Add")]),
    "a leak": (step(0), {"leaking": ["Add"]}, [("numpy", "Add", "it leaks")]),
    "a copy": (step(0, executor="copy"), {}, [("cast", "Add", "")]),
    "a cast": (step(0, kind="TypeCast", executor="reference"), {}, [("cast", "TypeCast", "")]),
    "numpy": (step(0, executor="reference", note="as noted"), {}, [("numpy", "Add", "as noted")]),
    "a host view": (step(0, executor="reference"), {"copied view": ["Add"]}, [("copied view", "Add")]),
    "a pad": (step(0, executor="reference"), {"pad": ["Add"]}, [("pad", "Add")]),
    "a tile": (step(0, executor="reference"), {"tile": ["Add"]}, [("tile", "Add")]),
    "a host concat": (step(0, executor="reference"), {"concat": ["Add"]}, [("concat", "Add")]),
    "a wide op": (step(0, executor="reference", note="wide"), {"widened": ["Add"]}, [("widened", "Add", "wide")]),
}


@pytest.mark.parametrize("name", ONES)
def test_who_runs_a_step(name, monkeypatch):
    one, yes, wanted = ONES[name]
    assert one_step(monkeypatch, one, **yes) == [*wanted]


def test_a_refused_step_is_tried_again_without_the_place_of_its_result(monkeypatch):
    chosen = Chosen(monkeypatch)
    chosen.raises["Add"] = UnsupportedError("strides")
    chosen.placed = {2}
    chosen.compiler._add_one(step(0, note="noted"), "a note")
    assert chosen.log == [LIBRARY[0], LIBRARY[0], ("numpy", "Add", "strides")]


def kernel(name="k", follows=False, refused=""):
    return SimpleNamespace(name=name, follows=follows, refused=refused)


@pytest.mark.parametrize("follows", [False, True])
def test_kernels_that_passes_have_chosen(follows, monkeypatch):
    one = step(0, executor="guarded", note="noted")
    log = one_step(monkeypatch, one, executors={"guarded": kernel(follows=follows)})
    assert log == [*(LIBRARY if follows else ()), ("kernel k", "Add", "noted")]


@pytest.mark.parametrize("mark", [module.NORMALIZED, module.BOUNDED])
def test_what_the_library_would_have_to_fuse_is_exact(mark, monkeypatch):
    one = step(0, executor="guarded", note="noted", **{mark: True})
    executors = {"guarded": kernel("of its executor"), module.EXACT: kernel()}
    assert one_step(monkeypatch, one, executors=executors) == [("kernel k", "Add", "noted")]


@pytest.mark.parametrize("refused", ["", "it has gaps"])
def test_kernels_for_ops_that_the_library_does_not_run(refused, monkeypatch):
    log = one_step(monkeypatch, step(0, executor="reference", note="noted"), kernels={"Add": kernel(refused=refused)})
    numpy = [("numpy", "Add", "noted", "k: it has gaps")] if refused else []
    assert log == [("kernel k", "Add", "noted"), *numpy]


PAIR = [step(0, [1], [2], "Add"), step(1, [2], [3], "ReLU")]
CHAIN = [step(number, [number + 1], [number + 2], kind) for number, kind in enumerate(("Add", "ReLU", "Exp", "Tanh"))]
FOUND = SimpleNamespace(output_ids=[3])


def added(monkeypatch, given, partition=FOUND, note="", results=(), **yes):
    chosen = Chosen(monkeypatch, **yes)
    chosen.raises = yes.get("raises", {})
    chosen.compiler._add(given, partition, note, results)
    return chosen.log


@pytest.mark.parametrize("partition", [FOUND, None])
def test_a_partition_is_added_with_what_guards_it(partition, monkeypatch):
    log = added(monkeypatch, PAIR, partition, "behind", [2, 3])
    ends = (3,) if partition else (2, 3)
    assert log == [("library", "Add+ReLU", partition, (2, 3), "behind"), ("leaks", 2, ends, 0), ("guards", 2)]


def test_a_norm_of_several_steps_is_a_kernel(monkeypatch):
    assert added(monkeypatch, PAIR, add_norm=["Add"]) == [("add_norm", "Add")]


def test_views_alone_are_no_partition(monkeypatch):
    views = [one._replace(kind="View") for one in (*PAIR, PAIR[1])]
    assert added(monkeypatch, views, view=["View"]) == [("view", "View")] * 3
    assert added(monkeypatch, [views[0], PAIR[1]])[0][:2] == ("library", "View+ReLU")


@pytest.mark.parametrize("how", ["raises", "refused", "reasons"])
def test_a_refused_partition_runs_one_by_one(how, monkeypatch):
    whole = "Add+ReLU+Exp"
    reasons = {"raises": {whole: UnsupportedError("no")}, "refused": [whole], "reasons": {whole: ("no", 0)}}
    log = added(monkeypatch, CHAIN[:3], **{how: reasons[how]})
    told = "leaks" if how == "refused" else "no"
    wanted = [("library", whole, FOUND, (), "")] if how != "refused" else []
    first = len(wanted)
    assert log == [
        *wanted,
        ("library", "Add", None, (), told),
        ("leaks", 1, (2,), first),
        ("library", "ReLU", None, (), told),
        ("leaks", 1, (3,), first + 1),
        ("library", "Exp", None, (), told),
        ("leaks", 1, (4,), first + 2),
    ]


def test_a_slow_partition_is_cut_and_searched_anew(monkeypatch):
    reasons = {"Add+ReLU+Exp+Tanh": ("slow", 2)}
    pieces = {(0, 1): [CHAIN[:2]], (2, 3): [[CHAIN[2]], [CHAIN[3]]]}
    log = added(monkeypatch, CHAIN, FOUND, reasons=reasons, pieces=pieces, readers=[CHAIN[2]], steps=CHAIN)
    assert log[0] == ("library", "Add+ReLU+Exp+Tanh", FOUND, (), "")
    assert log[1] == ("search", [0, 1], [3])
    assert (log[2][1], log[2][2].output_ids, log[2][3:]) == ("Add+ReLU", [3], ((), "slow"))
    assert log[3:5] == [("leaks", 2, (3,), 1), ("guards", 2)]
    assert log[5:] == [
        ("search", [2, 3], []),
        ("library", "Exp", None, (), "slow"),
        ("leaks", 1, (4,), 2),
        ("library", "Tanh", None, (), "slow"),
        ("leaks", 1, (5,), 3),
    ]


def test_a_cut_in_front_of_the_last_op_leaves_one(monkeypatch):
    steps, reasons = CHAIN[:3], {"Add+ReLU+Exp": ("slow", 2)}
    log = added(monkeypatch, steps, FOUND, reasons=reasons, pieces={(0, 1): [CHAIN[:2]]})
    assert log[-2:] == [("library", "Exp", None, (), "slow"), ("leaks", 1, (4,), 2)]


@pytest.mark.parametrize("at", [None, int])
def test_equal_pieces_are_searched_once(at, monkeypatch):
    pieces = {(0, 1): [CHAIN[:2]]}
    chosen = Chosen(monkeypatch, at=at, pieces=pieces, readers=[CHAIN[2]])
    known = chosen.compiler._known_pieces = {}
    if at is not None:
        with pytest.raises(NoParametersError, match=r"^a partition is cut where the size decides$"):
            chosen.compiler._add_piece(CHAIN[:2], "slow")
        assert known == {}
        return
    chosen.compiler._add_piece(CHAIN[:2], "slow")
    assert known == {((0, 1), (3,)): [([0, 1], [2])]}
    chosen.compiler._add_piece(CHAIN[:2], "slow")
    assert [one[0] for one in chosen.log] == ["search", "library", "leaks", "guards", "library", "leaks", "guards"]
    assert chosen.log[4] == ("library", "Add+ReLU", None, (3,), "slow")
    later = Chosen(monkeypatch, at=int, pieces=pieces, readers=[CHAIN[2]])
    later.compiler._known_pieces = known
    later.compiler._add_piece(CHAIN[:2], "slow")
    assert later.log[0] == ("library", "Add+ReLU", None, (3,), "slow")


@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("executors", [("library", "library"), ("library", "reference")])
def test_a_graph_is_searched_if_it_has_two_ops_of_the_library(policy, executors, monkeypatch):
    steps = [one._replace(executor=executor) for one, executor in zip(PAIR, executors, strict=True)]
    folded = [step(9, kind="Exp", note="folded")]
    chosen = Chosen(monkeypatch, steps=steps, folded=folded, groups=[(FOUND, steps)])
    schedule = chosen.compiler.run(policy)
    assert schedule is chosen.schedule
    assert schedule.patterns == ["pattern"]
    is_searched = policy == "fusion" and executors[1] == "library"
    alone = [one.kind for one in steps if one.executor == "library"]
    found = [one[1] for one in chosen.log if one[0] == "library"]
    assert found == (["Add+ReLU"] if is_searched else alone)
    assert chosen.log[-2:] == [
        ("note", "constant", "Exp", "computed once, at compilation", "folded"),
        ("restored", "before"),
    ]
    assert chosen.known.groups == ({"structure": [((0, 1), (3,))]} if is_searched else {})
    assert chosen.compiler._scales is (policy == "fusion")


def test_a_refusal_of_what_was_postponed_ends_the_run(monkeypatch):
    chosen = Chosen(monkeypatch, steps=PAIR[:1], postponed=False)
    assert chosen.compiler.run("fusion") is None
    assert chosen.log[-1] == ("restored", "before")


def test_a_graph_of_a_known_structure_is_not_searched(monkeypatch):
    known = SharedPartitions()
    known.keep_groups("structure", [((0, 1), (3,)), ((2,), ())])
    chosen = Chosen(monkeypatch, steps=CHAIN[:3], known=known, at=int)
    chosen.compiler.run("fusion")
    assert chosen.log[0] == ("library", "Add+ReLU", None, (3,), "")
    assert ("library", "Exp", None, (), "") in chosen.log
    assert known.pieces == {"structure": {}}
    with pytest.raises(OtherStepsError, match=r"^the library has not divided a graph of this structure$"):
        Chosen(monkeypatch, steps=CHAIN[:3], at=int).compiler.run("fusion")


def test_rows_are_rounded_where_sizes_change(monkeypatch):
    assert Chosen(monkeypatch, rounds=True).given == (True, ("rows", frozenset([77])))
    assert Chosen(monkeypatch).given == (True, None)


# Partitions of the library --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("what", ["", "a function"])
def test_lack_of_memory_is_told_from_a_refusal(is_short, what, monkeypatch):
    def empty(size, dtype):
        assert (size, dtype) == (1 << 27, np.uint8)
        if is_short:
            raise MemoryError

    monkeypatch.setattr(library_steps.np, "empty", empty)
    error = OutOfMemoryError("no memory", 1, what)
    error.what = what
    if is_short or not what:
        with pytest.raises(OutOfMemoryError):
            library_steps.refusal_of(error)
    else:
        assert library_steps.refusal_of(error) == str(error)
    assert library_steps.refusal_of(UnsupportedError("no")) == "no"


@pytest.mark.parametrize(
    ("shape", "strides", "size", "found"),
    [
        ((2, 3), (3, 1), 24, (3, 1)),
        ((2, 3), (1, 2), 24, None),
        ((2, 3), (3, 1), 25, None),
        ((2, 3, 4), (12, 4, 1), 96, (12, 4, 1)),
        ((2, 3, 4), (12, 1, 3), 96, (12, 1, 3)),
        ((2, 4, 3), (12, 1, 4), 96, (12, 1, 4)),
        ((2, 3, 4), (12, 1, 3), 100, None),
        ((2, 3, 4), (1, 2, 6), 96, None),
        ((4, 2), (1, 4), 32, None),
    ],
)
def test_strides_that_the_library_chooses_by_a_rule(shape, strides, size, found):
    if found is None:
        with pytest.raises(NoParametersError, match=r"^the library chooses strides by the size$"):
            library_steps.chosen_again(1, value(1, shape), strides, size, int)
    else:
        assert library_steps.chosen_again(1, value(1, shape), strides, size, int) == (1, found, size)


class Threads:
    def __init__(self):
        self.used, self.before = [], 3

    def use(self, count):
        self.used.append(count)


def partitioning(**more):
    facts = {
        "steps": [PAIR[0]],
        "results": [2],
        "values": [value(1), value(2)],
        "places": [0, 1],
        "n_inputs": 1,
        "is_open": True,
        "free": (True,),
        "is_small": False,
        "chosen": ((1, (1, 2), 24),),
        "takes_all": False,
        "pattern": None,
    }
    return Partitioning(**{**facts, **more})


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, None),
        ({"reason": "slow"}, "other partitions are fast, or right, for another size"),
        ({"places": (1, 0)}, "other partitions are fast, or right, for another size"),
        ({"n_inputs": 2}, "other partitions are fast, or right, for another size"),
        ({"chosen": ((1, (3, 1), 24),)}, "the library chooses other strides for another size"),
        ({"chosen": ()}, "the library chooses other strides for another size"),
    ],
)
@pytest.mark.parametrize("is_small", [False, True])
def test_a_partition_for_another_size_is_the_same(facts, told, is_small):
    asked = []
    made = SimpleNamespace(chosen=facts.get("chosen", ((1, (1, 2), 24),)))
    pattern = SimpleNamespace(
        reason=facts.get("reason", ""),
        places=facts.get("places", (0, 1)),
        n_inputs=facts.get("n_inputs", 1),
        layout=lambda strides, is_open: (strides, is_open),
        compile=lambda values, layout, free, key: asked.append((values, layout, free, key)) or made,
    )
    patterns = SimpleNamespace(find=lambda *given: asked.append(given) or (pattern, [1, 2]))
    threads = Threads()
    one = partitioning(is_small=is_small)
    if told:
        with pytest.raises(NoParametersError) as caught:
            one.compiled(int, patterns, "key", threads)
        assert str(caught.value) == told
    else:
        assert one.compiled(int, patterns, "key", threads) == (pattern, made)
        assert asked[0] == ([PAIR[0]], None, [2])
        assert asked[1] == (one.values, ([(3, 1), (3, 1)], True), (True,), "key")
        assert threads.used == [1 if is_small else None]


def test_what_one_compiled_partition_serves_is_equal():
    weights = [value(1, constant=np.ones((2, 3))), value(2)]
    one, other = partitioning(values=weights), partitioning(values=weights, takes_all=True)
    keys = [one.kind(lambda _: "a"), one.kind(lambda _: "b"), one.kind(None), partitioning().kind(None)]
    keys += [partitioning(is_open=False).kind(None), partitioning(free=()).kind(None)]
    keys += [partitioning(is_small=True).kind(None), partitioning(chosen=()).kind(None)]
    keys.append(partitioning(values=[value(1, strides=(1, 2)), value(2)]).kind(None))
    keys.append(partitioning(chosen=((1, (3, 1), 24),)).kind(None))
    keys.append(partitioning(steps=PAIR, results=[3]).kind(None))
    assert len({*keys}) == len(keys)
    assert [end[-1] for end in one.kind(lambda _: "a")[1]] == ["a", False]
    assert other.kind(lambda _: "a") == other.kind(lambda _: "b") == other.kind(None) == one.kind(None)
    assert partitioning(chosen=((5, (1, 2), 99),)).kind(None) == partitioning().kind(None)


class Pattern:
    def __init__(self, groups=(), error=None):
        self.groups, self.error, self.is_settled = groups, error, False
        self.reason, self.cut = "", 0

    def postponed(self):
        return self.groups

    def settle(self):
        self.is_settled = True
        if self.error:
            raise self.error


def library(patterns, postpones=True, rows=None, steps=()):
    class Patterns(list):
        pass

    many = Patterns(patterns)
    many.postpones = postpones
    schedule = SimpleNamespace(threads=Threads(), steps=[*steps], values={}, notes=[])
    return LibrarySteps(schedule, None, many, share=True, rows=rows)


@pytest.mark.parametrize("postpones", [False, True])
@pytest.mark.parametrize("failure", [None, "status", "settle"])
def test_what_was_postponed_is_compiled_at_the_end(postpones, failure, monkeypatch):
    asked = []

    def compile_postponed(groups, most):
        asked.append((groups, most))
        return [0, 5 if failure == "status" else 0]

    monkeypatch.setattr(library_steps, "compile_postponed", compile_postponed)
    monkeypatch.setattr(
        library_steps, "status_error", lambda name, status: LibraryRuntimeError(f"{name} {status}", status, "")
    )
    patterns = [
        Pattern([["a"], ["b"]], UnsupportedError("another shape") if failure == "settle" else None),
        Pattern([["c"]]),
    ]
    one = library(patterns, postpones)
    if failure and not postpones:
        with pytest.raises(
            (LibraryRuntimeError, UnsupportedError), match=r"dnnl_graph_partition_compile 5|another shape"
        ):
            one.compile_postponed()
    else:
        assert one.compile_postponed() is not bool(failure)
    assert asked == [([["a"], ["b"], ["c"]], 3)]
    assert [each.is_settled for each in patterns] == [failure != "status", failure is None]


def test_results_lie_over_inputs_that_start_at_their_memory(monkeypatch):
    monkeypatch.setattr(library_steps, "compile_postponed", lambda *_: [])
    kept = SimpleNamespace(_replace=lambda **more: more)
    one = library([], steps=["first", kept])
    values = [value(1, storage=11), value(2, storage=12, offset=1), value(3, storage=13), value(4, storage=14)]
    made = SimpleNamespace(in_place=[(2, 0), (3, 1)])
    one._shared.append((1, made, values))
    assert one.compile_postponed()
    assert one._schedule.steps == ["first", {"in_place": [(13, 11)]}]


@pytest.mark.parametrize("case", ["added", "not by row", "refused", "error", "memory"])
def test_steps_run_on_more_rows_where_they_may(case, monkeypatch):
    log = []
    rounded = SimpleNamespace(steps=("more",), results=(9,), note="rounded", copies=())
    rows = SimpleNamespace(
        rounded=lambda steps, results: log.append((steps, results)) or (None if case == "not by row" else rounded),
        finish=lambda one, last: log.append(("finished", one is rounded, last.kind)),
    )
    one = library([], rows=rows)
    pattern = Pattern()
    pattern.reason, pattern.cut = ("slow", 3) if case == "refused" else ("", 0)
    monkeypatch.setattr(one, "_add", lambda *given: log.append(("added", *given[1:])))

    def find(steps, partition, results):
        log.append(("found", steps, partition, results))
        errors = {"error": UnsupportedError("no"), "memory": OutOfMemoryError("memory", 1, "")}
        if case in errors and steps == ("more",):
            raise errors[case]
        return pattern, [5]

    one._patterns = SimpleNamespace(find=find)
    if case == "memory":
        with pytest.raises(OutOfMemoryError):
            one.add(PAIR, FOUND, (), "why")
        return
    assert one.add(PAIR, FOUND, (), "why") == (("slow", 3) if case == "refused" else ("", 0))
    assert log[0] == (PAIR, [3])
    more = [("found", ("more",), None, (9,))]
    plain = [("found", PAIR, FOUND, [3]), ("added", PAIR, [5], [3], "why")]
    wanted = {
        "added": [*more, ("added", ("more",), [5], (9,), "why; rounded"), ("finished", True, "ReLU")],
        "not by row": plain,
        "refused": [*more, plain[0]],
        "error": [*more, *plain],
    }
    assert log[1:] == wanted[case]
    one._rows = None
    log.clear()
    one.add(PAIR[:1], None, (), "")
    assert log[0] == ("found", PAIR[:1], None, (2,))
    log.clear()
    one.add(PAIR, None, [2, 3], "")
    assert log[0] == ("found", PAIR, None, [2, 3])


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("nbytes", [1 << 15, (1 << 15) + 1])
def test_small_patterns_are_compiled_for_one_thread(share, nbytes):
    one = library([])
    one._share = share
    is_small = share and nbytes == 1 << 15
    assert one._use_threads(SimpleNamespace(nbytes=nbytes)) is is_small
    assert one._schedule.threads.used == [1 if is_small else None]


# Further sizes --------------------------------------------------------------------------------------------------------


def test_recipes_know_their_values():
    ends = [value(1), value(2)]
    assert [*recipes.ends_of(Reordering(*ends))] == ends
    assert [*recipes.ends_of(Collapsing(PAIR[0], ends))] == ends


@pytest.mark.parametrize("failed", [0, 5])
def test_recipes_are_compiled_for_known_sizes(failed, monkeypatch):
    """A partition, a copy that was compiled for other values, and a binary op on fewer axes."""
    log, threads = [], Threads()
    kernel = SimpleNamespace(
        inputs=[SimpleNamespace(id=31)], outputs=[SimpleNamespace(id=32)], inplace_pairs=[(31, 32)]
    )
    binary = SimpleNamespace(inputs=[], outputs=[], inplace_pairs=[(2, 3), (1, 3)])
    made = SimpleNamespace(made="made", like="like", in_place=[(1, 0)])
    monkeypatch.setattr(Partitioning, "compiled", lambda *given: log.append(given[1:]) or ("pattern", made))
    monkeypatch.setattr(Reordering, "compiled", lambda *given: log.append(given[1:]) or kernel)
    monkeypatch.setattr(Collapsing, "compiled", lambda *given: log.append(given[1:]) or binary)
    monkeypatch.setattr(recipes, "ThreadCount", lambda: threads)
    monkeypatch.setattr(recipes, "library_keeps", lambda: "keeps")
    monkeypatch.setattr(recipes, "known_by", lambda *given: log.append(given) or "key")
    pattern = Pattern([["a"]])

    class Patterns(list):
        def __init__(self, *given, **options):
            super().__init__([pattern])
            log.append((given, options))

    monkeypatch.setattr(recipes, "Patterns", Patterns)
    monkeypatch.setattr(recipes, "compile_postponed", lambda *given: log.append(given) or [0, failed])
    monkeypatch.setattr(
        recipes, "status_error", lambda name, status: LibraryRuntimeError(f"{name} {status}", status, "")
    )
    shared = SharedPartitions()

    class Lent:
        def __enter__(self):
            return shared

        def __exit__(self, *_):
            log.append("returned")

    store = SimpleNamespace(lent=lambda key: log.append(key) or Lent())
    lowered = SimpleNamespace(shared=SimpleNamespace(partitions=store))
    given = [
        partitioning(),
        Reordering(value(1), value(2)),
        Collapsing(PAIR[0], [value(1), value(2), value(3)]),
    ]
    options = {"policy": "fusion", "fpmath_mode": "strict", "share": True}
    schedule = SimpleNamespace(key="key of")
    if failed:
        with pytest.raises(LibraryRuntimeError, match=r"^dnnl_graph_partition_compile 5 "):
            recipes.compile_recipes(given, int, lowered, schedule, **options)
        assert not pattern.is_settled
        return
    found = recipes.compile_recipes(given, int, lowered, schedule, **options)
    assert [(*one,) for one in found] == [
        ("made", "like", [(1, 0)], "pattern"),
        (kernel, kernel, [(1, 0)], None),
        (binary, binary, [(2, 1), (2, 0)], None),
    ]
    assert log[:2] == [("fusion", "strict", True, "keeps", frozenset()), "key"]
    known = {"keeps": "keeps", "unkept": frozenset(), "postpones": True, "known": shared, "at": int}
    assert log[2] == ((lowered, schedule, "strict"), known)
    assert log[3][0::2] == (int, "key of")
    assert log[3][3] is threads
    assert log[4:6] == [(int, shared.reorders, threads), (int, threads)]
    assert log[6:] == [([["a"]], 3), "returned"]
    assert pattern.is_settled


def test_a_binary_op_that_is_slow_for_another_size_needs_another_program(monkeypatch):
    monkeypatch.setattr(Collapsing, "compiled", lambda *_: None)
    one = Collapsing(PAIR[0], [value(1), value(2)])
    with pytest.raises(NoParametersError, match=r"^a binary op is slow for another size$"):
        recipes._compiled(one, int, None, None, SharedPartitions(), Threads())


class Layout:
    is_open = True


def added_pattern(monkeypatch, *, at=None, count=2, outputs=(3,), hashes=False, prepares=False, **facts):
    """The schedule behind a pattern of some steps, what it was asked for, and the pattern."""
    log, layout, values = [], Layout(), {number: value(number) for number in range(1, 8)}
    layout.is_open = facts.get("is_open", True)
    monkeypatch.setattr(library_steps, "HASHES_CONSTANTS", hashes)
    kernel = SimpleNamespace(_compilation=SimpleNamespace(keeps_constants=prepares))
    made = SimpleNamespace(made=kernel, like="like", chosen=facts.get("chosen", ()), in_place=[])
    pattern = SimpleNamespace(
        places=[*range(2 + len(outputs))],
        n_inputs=2,
        nbytes=facts.get("nbytes", 40),
        flops=7,
        is_quick=facts.get("is_quick", True),
        marks=("marked",),
        takes_all=False,
        compile=lambda *given: log.append(given) or made,
    )
    schedule = SimpleNamespace(
        values=values,
        sizes={},
        steps=["before"],
        notes=["before"],
        threads=Threads(),
        key="key of",
        take_back=lambda numbers: log.append(("taken back", [*numbers])),
        add_copy=lambda *given: log.append(("copied", *given)),
    )
    copies = facts.get("copies", [])
    edges = SimpleNamespace(
        choose=lambda *given: log.append(("chosen", given[0], given[2])) or (layout, copies),
        is_free=lambda one: one.id == 3,
    )
    patterns = SimpleNamespace(at=at, partition_again=lambda *given: given)
    one = LibrarySteps(schedule, edges, patterns, share=True, rows=None)
    for number, strides in facts.get("strides", {}).items():
        values[number] = value(number, strides=strides)
    steps = PAIR[:count]
    one._add(pattern, steps, [1, 2, *outputs], [3], "a note")
    return schedule, log, layout, one, made


def test_a_partition_is_a_step_with_a_note(monkeypatch):
    schedule, log, layout, one, made = added_pattern(monkeypatch)
    ends = [schedule.values[number] for number in (1, 2, 3)]
    assert log[0][2] == ends
    assert log[1] == (ends, layout, (True,), "key of")
    assert len(log) == 2
    assert schedule.threads.used == [1]
    (_, added), note = schedule.steps, schedule.notes[1]
    assert (added.compiled, added.like, added.pieces, added.n_inputs) == (made.made, "like", [1, 2, 3], 2)
    assert (added.in_place, added.note, added.nbytes, added.flops) == ((), 1, 40, 7)
    assert (added.is_small, added.is_quick, added.shifts, added.again) == (True, True, (), None)
    assert ([*added.ends], added.recipe) == ([1, 2, 3], None)
    assert (note.executor, note.steps, note.reasons) == ("oneDNN", PAIR, ("a note", "marked"))
    assert ([*note.inputs], [*note.outputs]) == (ends[:2], ends[2:])
    assert [(index, compiled, [*values]) for index, compiled, values in one._shared] == [(1, made, ends)]


@pytest.mark.parametrize(
    ("facts", "free"),
    [
        ({"is_open": False}, ()),
        ({"strides": {3: (1, 2)}}, (False,)),
        ({"outputs": (4,)}, (False,)),
        ({"outputs": (4, 3)}, (False, True)),
    ],
)
def test_results_whose_layout_is_left_to_the_library(facts, free, monkeypatch):
    assert next(one for one in added_pattern(monkeypatch, count=1, **facts)[1] if len(one) == 4)[2] == free


@pytest.mark.parametrize(
    ("count", "outputs", "is_taken"), [(2, (3, 4), True), (2, (3,), False), (1, (3, 4), False), (2, (3, 4, 5), True)]
)
def test_several_results_of_a_fusion_have_memory_of_their_own(count, outputs, is_taken, monkeypatch):
    log = added_pattern(monkeypatch, count=count, outputs=outputs)[1]
    assert [one for one in log if one[0] == "taken back"] == ([("taken back", [*outputs])] if is_taken else [])


@pytest.mark.parametrize(
    ("nbytes", "is_quick", "wanted"),
    [(40, True, (True, True)), (40, False, (True, False)), (1 << 20, True, (False, False))],
)
def test_small_partitions_are_quick_if_their_ops_are(nbytes, is_quick, wanted, monkeypatch):
    added = added_pattern(monkeypatch, nbytes=nbytes, is_quick=is_quick)[0].steps[1]
    assert (added.is_small, added.is_quick) == wanted


@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("prepares", [False, True])
def test_steps_that_prepare_constants_are_made_again(hashes, prepares, monkeypatch):
    added = added_pattern(monkeypatch, hashes=hashes, prepares=prepares)[0].steps[1]
    assert (added.again and added.again()) == ((PAIR, [3]) if hashes and prepares else None)


def test_chosen_strides_and_copies_are_noted(monkeypatch):
    copies = [(value(5), value(6), "why"), (value(6), value(7), "why not")]
    schedule, log, *_ = added_pattern(monkeypatch, chosen=((2, (1, 2), 99),), copies=copies)
    assert (schedule.values[3].strides, schedule.sizes) == ((1, 2), {3: 99})
    assert schedule.notes[1].outputs[0].strides == (1, 2)
    assert log[2:] == [("copied", *copies[0][:2], PAIR[1], "why"), ("copied", *copies[1][:2], PAIR[1], "why not")]


@pytest.mark.parametrize("depends", [False, True])
def test_partitions_of_open_sizes_have_recipes(depends, monkeypatch):
    asked = []
    monkeypatch.setattr(library_steps, "value_at", lambda one, at: asked.append((one.id, at)) or one)
    monkeypatch.setattr(Partitioning, "sizes", lambda _: (1,) if depends else ())
    schedule, *_ = added_pattern(monkeypatch, at=int, chosen=((2, (3, 1), 24),))
    recipe = schedule.steps[1].recipe
    assert asked == [(1, int), (2, int), (3, int)]
    assert (recipe.steps, recipe.results, recipe.places, recipe.n_inputs) == (PAIR, [3], [0, 1, 2], 2)
    assert (recipe.is_open, recipe.free, recipe.is_small, recipe.chosen) == (True, (True,), True, ((2, (3, 1), 24),))
    assert (recipe.takes_all, recipe.pattern is None) == (False, depends)
    assert [one.id for one in recipe.values] == [1, 2, 3]
    assert asked[0][1] is int


def collapsed(monkeypatch, shapes, *, is_slow=True, compiled="compiled", strides=None, times=1):
    log = []
    values = {number: value(number, shape) for number, shape in enumerate(shapes, 1)}
    for number, one in (strides or {}).items():
        values[number] = value(number, shapes[number - 1], one)
    schedule = SimpleNamespace(
        values=values,
        threads=Threads(),
        dense_copy=lambda one: log.append(("copied", one.id)) or values.setdefault(7, value(7, one.shape)).id,
        tiled=lambda number, count: log.append(("tiled", number, count)) or 8,
        note=lambda *given: log.append(("note", *given)) or 5,
        add_compiled=lambda made, numbers, note, recipe: log.append((made, numbers, note)),
    )
    monkeypatch.setattr(Collapsing, "compiled", lambda *_: log.append(("compiled",)) or compiled)
    monkeypatch.setattr(Collapsing, "places", lambda *_: [1, 0, 2])
    edges = SimpleNamespace(has_slow_operand=lambda _: is_slow)
    one = LibrarySteps(schedule, edges, None, share=True, rows=None)
    found = [one.add_collapsed(step(0, [1, 2], [3]), "a note") for _ in range(times)]
    return found[0] if times == 1 else found, log


WIDE, LINE, ROWS, SHORT = (4, 2, 3), (4, 1, 3), (1 << 13, 16), (1, 16)


def test_binary_ops_that_are_slow_run_on_fewer_axes(monkeypatch):
    fewer = "on fewer axes, as the library has a reference kernel only for an operand that is broadcast like this"
    one = step(0, [1, 2], [3])
    assert collapsed(monkeypatch, [WIDE, LINE, WIDE], is_slow=False) == (False, [])
    assert collapsed(monkeypatch, [WIDE, LINE, WIDE], compiled=None) == (False, [("compiled",)])
    assert collapsed(monkeypatch, [WIDE, LINE, WIDE], strides={3: (1, 4, 8)}) == (False, [])
    added = [("note", "oneDNN", one, "a note", fewer), ("compiled", [2, 1, 3], 5)]
    assert collapsed(monkeypatch, [WIDE, LINE, WIDE]) == (True, [("compiled",), *added])
    assert collapsed(monkeypatch, [WIDE, LINE, WIDE], times=2) == ([True, True], [("compiled",), *added, *added])
    found, log = collapsed(monkeypatch, [WIDE, LINE, WIDE], strides={1: (1, 4, 8)})
    assert (found, log[0], log[-1]) == (True, ("copied", 1), ("compiled", [2, 7, 3], 5))


@pytest.mark.parametrize(
    ("shapes", "number", "count", "ends"),
    [
        ([ROWS, SHORT, ROWS], 2, 32, [8, 1, 3]),
        ([SHORT, ROWS, ROWS], 1, 32, [2, 8, 3]),
        ([(8198, 16), SHORT, (8198, 16)], 2, 2, [8, 1, 3]),  # twice a prime
    ],
)
def test_short_vectors_lie_side_by_side(shapes, number, count, ends, monkeypatch):
    longer = "on longer rows, as the library starts anew with each row for a vector that is so short"
    found, log = collapsed(monkeypatch, shapes)
    assert found
    assert log[1:] == [
        ("tiled", number, count),
        ("note", "oneDNN", step(0, [1, 2], [3]), "a note", longer),
        ("compiled", ends, 5),
    ]


# Whole graphs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_refused_graph_is_compiled_in_order(rounds, hashes, is_refused, monkeypatch):
    log, store = [], PartitionStore()
    store.rounds = rounds
    lowered = SimpleNamespace(shared=SimpleNamespace(partitions=store))

    class Compiler:
        def __init__(self, *given, **options):
            log.append((given, options))

        def run(self, policy):
            return None if is_refused and len(log) == 1 else (policy, len(log))

    monkeypatch.setattr(module, "_StepCompiler", Compiler)
    monkeypatch.setattr(module, "HASHES_CONSTANTS", hashes)
    monkeypatch.setattr(module, "compiled_partition_cache_changes", lambda: 1)
    monkeypatch.setattr(module, "get_compiled_partition_cache_capacity", lambda: 0)
    monkeypatch.setattr(module, "library_keeps", lambda: False)
    found = module.compile_steps(
        lowered, policy="fusion", fpmath_mode="strict", share=True, unkept=frozenset([3]), at=int
    )
    assert found == ("fusion", 2 if is_refused else 1)
    known = log[0][1].pop("known")
    options = {"share": True, "keeps": False, "unkept": {3}, "at": int}
    first = {**options, "postpones": True, "rounds": rounds and not hashes}
    assert log[0] == ((lowered, "strict"), first)
    with store.lent(module.known_by("fusion", "strict", True, False, frozenset([3]))) as again:
        assert again is known
    if is_refused:
        assert log[1][1].pop("known") is not known
        assert log[1] == ((lowered, "strict"), {**options, "postpones": False, "rounds": False})


def test_what_compiled_partitions_depend_on(monkeypatch):
    monkeypatch.setattr(module, "get_num_threads", lambda: 6)
    given = "fusion", "strict", True, False, frozenset([3])
    assert module.known_by(*given) == (*given, 6)


def test_open_sizes_of_what_is_compiled():
    size = OpenSizes([5]).symbols[0]
    assert partitioning().sizes() == Reordering(value(1), value(2)).sizes() == ()
    opened = value(1)._replace(shape=(size, 3))
    assert partitioning(values=[opened, value(2)]).sizes() == (size,)
    assert Reordering(value(2), opened).sizes() == (size,)
    assert Collapsing(PAIR[0], [opened]).sizes() == (size,)
