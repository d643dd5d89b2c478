"""Which files a finding gets, and what they say, for findings that are written by hand."""

import json
from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest

import onegraph as og
from onegraph._util.worker_process import Outcome
from onegraph.opset.editions.registry import DEFAULT, EDITIONS, edition
from onegraph.tools.conformance.drawn import filing
from onegraph.tools.conformance.drawn.c_program import FEW, MANY, RESULTS
from onegraph.tools.conformance.drawn.libraries import TriedLibrary
from onegraph.tools.conformance.drawn.trials import CALM, HARSH
from onegraph.tools.conformance.uses import ProbedUse

TRIED = TriedLibrary("lib.so", "3.2.0", "0123456789abcdef", "a CPU", "AVX2", "a system")
RIGHT, RAN = Outcome("right", "compare", ""), Outcome("ran", "compare", "")
WRONG = Outcome("wrong", "compare", "output 0 is 2 at [1], expected 1")
REFUSED = Outcome("refused", "add_op", "returned runtime_error: it threw")


def relu(size, dtype="f32", **attrs):
    """A use of ReLU; an attribute that the op lacks has no reference."""
    return ProbedUse("ReLU", ("given", "a use"), ((0, dtype),), attrs, (dtype,), [[dtype, [size], [1]]])


SMALL, LARGE, OF_FOUR_BITS = relu(3), relu(MANY + 1), relu(3, "s4")
UNKNOWN = relu(3, alpha=1.0)


def case(use, outcome=WRONG, is_allowed=True, graph=None, **more):
    call = {name: ["f32", value] for name, value in use.attrs.items()}
    return filing.FiledFinding(
        "an id", use.kind, DEFAULT, use, call, graph, outcome, is_allowed, ["A note."], {"a": 1}, **more
    )


@pytest.mark.parametrize(("given", "is_writable"), [
    (case(SMALL), True),
    (case(LARGE), False),
    (case(LARGE, near=(0, 0)), True),
    (case(LARGE, REFUSED), True),
    (case(OF_FOUR_BITS), False),
    (case(OF_FOUR_BITS, REFUSED), False),
    (case(UNKNOWN, REFUSED), False),
    (case(UNKNOWN, RAN, False), True),
    (case(LARGE, RAN, False), True),
])  # fmt: skip
def test_programs_are_written_of_what_they_show(given, is_writable):
    assert given.is_writable is is_writable
    files = dict(filing._files(given, TRIED, [(TRIED, "refuses the op")]))
    assert [*files] == [*([filing.PROGRAM] if is_writable else ()), "finding.json", filing.README]
    assert (f"There is no {filing.PROGRAM}: {given.unwritable}." not in files[filing.README]) is is_writable


@pytest.mark.parametrize(("given", "does", "detail", "most"), [
    (case(SMALL), "computes other numbers than the formula", " at compare: output 0 is 2 at [1], expected 1", MANY),
    (case(SMALL, REFUSED), "refuses the op", " at add_op: returned runtime_error: it threw", FEW),
    (case(SMALL, REFUSED, False), "refuses the op", " at add_op: returned runtime_error: it threw", FEW),
    (case(SMALL, RAN, False), "accepts and executes what the specification forbids", "", FEW),
    (case(SMALL, RIGHT, False), "accepts and executes what the specification forbids", "", FEW),
    (case(SMALL, Outcome("wrong", "compare", "output 1 is written beyond its end")),
     "writes behind the end of a result", " at compare: output 1 is written beyond its end", MANY),
    (case(SMALL, Outcome("wrong", "compare", "output 0 has shape [1], the reference [2]")),
     "gives a result of another shape than the page says", " at compare: output 0 has shape [1], the reference [2]",
     MANY),
    (case(SMALL, Outcome("hang", "execute", "no result after 20 s")), "does not return", " at execute", FEW),
    (case(SMALL, Outcome("crash", "execute", "")), "ends the process", " at execute", FEW),
    (case(SMALL, Outcome("unsupported", "compile", "unimplemented Run workload with X=1")), "has no kernel for the op",
     " at compile: unimplemented", FEW),
])  # fmt: skip
def test_outcomes_are_told_in_words(given, does, detail, most):
    assert (given.does, given.detail, given.most) == (does, detail, most)


def test_reasons_without_a_program():
    assert case(OF_FOUR_BITS).unwritable == "the headers of oneDNN 3.2 have no name for its data types"
    assert case(LARGE).unwritable.startswith(f"the inputs have more numbers than a short program holds, {MANY}, ")


TEXT = """\
# ReLU: oneDNN 3.2.0 {does}{problem}

The page {says} this use: [{page}]({link}).

- Inputs: f32 [3]; outputs: f32.
- Attributes: {attrs}.
- The library {does}{detail}.
{notes}

{graph}

`program.c` needs the headers of oneDNN alone: `{compile}`

{tried}

| library | hash | outcome |
| --- | --- | --- |
| oneDNN 3.2.0 | 0123456789ab | {outcome} |

CPU: a CPU, AVX2. System: a system.
"""


@pytest.mark.parametrize(("given", "said"), [
    (case(SMALL), {}),
    (case(SMALL, problem="a problem"), {"problem": " (a problem)"}),
    (case(UNKNOWN, RAN, False), {
        "says": "forbids", "attrs": "alpha=1.0", "detail": "",
        "does": "accepts and executes what the specification forbids",
    }),
    (case(SMALL, REFUSED), {
        "does": "refuses the op", "detail": " at add_op: returned runtime_error: it threw",
        "notes": "- The C function lets a C++ exception escape, which ends a program in C.\n- A note.",
    }),
    (case(SMALL, replace(REFUSED, detail="returned invalid_arguments")), {
        "does": "refuses the op", "detail": " at add_op: returned invalid_arguments",
    }),
    (case(SMALL, Outcome("crash", "add_op", REFUSED.detail)), {
        "does": "ends the process", "detail": " at add_op: returned runtime_error: it threw",
    }),
    (case(SMALL, graph="yes"), {"graph": f"`{filing.BENCHDNN}`"}),
])  # fmt: skip
def test_texts_of_findings(given, said):
    if given.graph:
        graph = og.Graph()
        graph.output("y", graph.relu(graph.input("x", "f32", (3,))))
        given = case(SMALL, graph=graph)
    files = dict(filing._files(given, TRIED, [(TRIED, "an outcome")]))
    words = edition(DEFAULT)
    schema = words.schema("ReLU")
    usual = {
        "does": "computes other numbers than the formula", "problem": "", "says": "allows", "attrs": "no attributes",
        "detail": " at compare: output 0 is 2 at [1], expected 1", "notes": "- A note.",
        "graph": f"There is no graph.json: {filing.NO_GRAPH}.", "page": words.page(schema), "link": words.link(schema),
        "compile": filing.COMPILE, "tried": filing.TRIED, "outcome": "an outcome",
    }  # fmt: skip
    assert files[filing.README] == TEXT.format_map(usual | said)
    assert ("benchdnn.txt" in files) == (filing.GRAPH in files) == (given.graph is not None)
    outcomes = [{"version": "3.2.0", "hash": TRIED.hash, "outcome": "an outcome"}]
    assert json.loads(files["finding.json"]) == {"a": 1, "libraries": outcomes}


def outcomes_of(monkeypatch, *outcomes):
    """Let uses end like these, the last ones all alike; returns the uses, conditions and calls."""
    asked, ends = [], chain(outcomes, repeat(outcomes[-1]))

    def run_alone(use, condition, *, call):
        asked.append((use, condition, call))
        return next(ends)

    monkeypatch.setattr(filing, "run_alone", run_alone)
    return asked


@pytest.mark.parametrize(("outcomes", "is_allowed", "told", "tries"), [
    ([REFUSED], True, "refuses the op at add_op: returned runtime_error: it threw", 1),
    ([RIGHT, WRONG], True, "computes other numbers than the formula at compare: output 0 is 2 at [1], expected 1", 2),
    ([RIGHT], True, "right", 2),
    ([RAN], False, "executes it", 2),
])  # fmt: skip
def test_libraries_run_a_use_in_filled_and_in_zeroed_memory(monkeypatch, outcomes, is_allowed, told, tries):
    asked = outcomes_of(monkeypatch, *outcomes)
    given = case(SMALL, is_allowed=is_allowed)
    assert filing._again(given, TRIED) == told
    assert [(use, one.name, one.edges, call) for use, one, call in asked] == [
        (SMALL, one.name, one.edges, given.call) for one in (HARSH, CALM)[:tries]
    ]
    assert all(one.settings == {**of.settings, "ONEGRAPH_LIBRARY": "lib.so"}
               for (_, one, _), of in zip(asked, (HARSH, CALM), strict=False))  # fmt: skip


def test_large_wrong_uses_get_numbers_that_repeat(monkeypatch):
    asked = outcomes_of(monkeypatch, RIGHT, replace(WRONG, detail="output 0 is written beyond its end"), RIGHT, WRONG)
    made = filing._with_repeated_numbers(case(LARGE))
    assert [one for _, one, _ in asked] == [HARSH, CALM, HARSH, CALM]
    assert made.use == asked[-1][0]
    assert (made.outcome, made.near) == (WRONG, (0, 1))
    asked = outcomes_of(monkeypatch, RIGHT)
    assert filing._with_repeated_numbers(case(LARGE)) == case(LARGE)
    assert len(asked) == 2 * filing.REPEATS


@pytest.mark.parametrize("given", [case(LARGE, REFUSED), case(relu(MANY + 1, "s4")), case(SMALL)])
def test_other_findings_keep_their_numbers(monkeypatch, given):
    asked = outcomes_of(monkeypatch, WRONG)
    assert filing._with_repeated_numbers(given) is given
    assert not asked


def test_large_results_of_few_numbers_are_compared_near_the_wrong_one():
    """A small input is added to itself along a new axis."""
    dims = [2, 1], [1, MANY // RESULTS]
    use = ProbedUse(
        "Add", ("given", "a use"), ((0, "f32"), (1, "f32")), {}, ("f32",), [["f32", one, [1]] for one in dims]
    )
    wrong = replace(WRONG, detail="output 0 is 2 at [1, 3], expected 1")
    assert filing._with_repeated_numbers(case(use, wrong)).near == (0, MANY // RESULTS + 3)
    other = replace(WRONG, detail="output 0 has shape [2], the reference [3]")
    assert filing._with_repeated_numbers(case(use, other)).near is None


@pytest.mark.parametrize(("detail", "place"), [
    ("output 0 is nan at [1, 2], expected 3", (0, 5)),
    ("output 1 is 1 at [0, 1], expected 3", (1, 1)),
    ("output 2 is 1 at [], expected 3", (2, 0)),
    ("output 0 has shape [1], the reference [2]", None),
])  # fmt: skip
def test_places_of_wrong_elements(detail, place):
    class Use:
        def reference(self):
            return [np.zeros((2, 3)), np.zeros((1, 4)), np.zeros(())]

    assert filing._place(Use(), replace(WRONG, detail=detail)) == place


def test_only_later_editions_allow_a_use_later():
    first, *_, last = EDITIONS
    assert filing._is_allowed_later(SMALL, {}, first)
    assert not filing._is_allowed_later(SMALL, {}, last)
    assert not filing._is_allowed_later(SMALL, {"alpha": ["f32", 1.0]}, first)


def test_a_use_without_a_reference_has_no_place():
    assert filing._place(UNKNOWN, WRONG) is None


def test_names_of_folders_are_short_and_plain(monkeypatch, tmp_path):
    outcomes_of(monkeypatch, RIGHT)
    monkeypatch.setattr(filing, "library_at", lambda path: TRIED)
    long = "wrong:ReLU: a=1, [2] " + "x" * 200
    (place,) = filing.file_findings([replace(case(SMALL), id=long)], tmp_path / "new")
    assert place.parent == tmp_path / "new"
    assert place.name == ("wrong_ReLU_a=1_2_" + "x" * 200)[:120]
    assert sorted(one.name for one in place.iterdir()) == ["README.md", "finding.json", "program.c"]
