"""The tool that changes the package and asks whether the tests notice."""

import ast
import json
import subprocess
import sys

import pytest

from tests import changed as changes
from tests.branches import marks
from tests.mutants import native, reached, trials
from tests.mutants.__main__ import EQUIVALENT
from tests.mutants.child import NOTICED, PACKAGE, SURVIVED
from tests.mutants.operators import mutants, mutated
from tests.mutants.stages import NATIVE, NATIVE_REST, OF_CHILDREN, OF_CONSTANTS, files_named

pytestmark = pytest.mark.sources

SOURCE = '''
def limited(value: int, limit: int = 3, *more: int | None, **named: int | None) -> int:
    """The value, at most the limit."""
    if value > limit and not value == 7:
        raise ValueError(f"{value + 1} is too large")
    check(value)
    return value if limit else value - 1
'''


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("Gt becomes GtE", "value >= limit"),
        ("And becomes Or", "value > limit or"),
        ("operand 0 is dropped", "if not value == 7:"),
        ("operand 1 is dropped", "if value > limit:"),
        ("not is dropped", "and value == 7"),
        ("Eq becomes NotEq", "value != 7"),
        ("raise is dropped", "pass\n    check"),
        ("call of check is dropped", "pass\n    return"),
        ("branches are exchanged", "return value - 1 if limit else value"),
        ("Sub becomes Add", "value + 1\n"),
        ("None is returned", "return None"),
        ("7 becomes 8", "value == 8"),
        ("3 becomes 4", "limit: int=4"),
    ],
)
def test_each_change_is_made(change, text):
    (mutant,) = [mutant for mutant in mutants("m.py", SOURCE) if mutant.change == change]
    assert text in ast.unparse(mutated(SOURCE, mutant)) + "\n"


def test_texts_and_annotations_are_left_alone():
    changes = [mutant.change for mutant in mutants("m.py", SOURCE)]
    assert len(changes) == len(set(changes)) == 14  # 1 becomes 2 once: that of the message stays


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("y = x.reshape(-1)", []),
        ("y = x.reshape(-1, 2)", ["2 becomes 3"]),
        ("y = g.reshape(x, -1)", ["1 becomes 2"]),
        ("y = rng.random() < z", []),
        ("y = rng.random() > z", ["Gt becomes GtE"]),
    ],
)
def test_what_changes_no_number_is_left_alone(source, changes):
    assert [mutant.change for mutant in mutants("m.py", source)] == changes


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x = 0.5", {"0.5 becomes 1.0": "x = 1.0"}),
        ("x = 0.0", {"0.0 becomes 1.0": "x = 1.0"}),
        ("x += y", {"Add becomes Sub": "x -= y"}),
        ("x += 'text'", {}),
        ("x = max(y)", {"max becomes min": "x = min(y)"}),
        ("x = all(y)", {"all becomes any": "x = any(y)"}),
        ("x = min(y, key=z)", {"min becomes max": "x = max(y, key=z)", "argument key is dropped": "x = min(y)"}),
        ("x.y = z", {"x.y is not set": "pass"}),
        ("x = f(y, **z)", {}),
        ("x = f(a=b, c=d)", {"argument a is dropped": "x = f(c=d)", "argument c is dropped": "x = f(a=b)"}),
        ("for x in y:\n    continue", {"continue becomes break": "for x in y:\n    break"}),
    ],
)
def test_further_changes_of_a_line(line, changed):
    assert {one.change: ast.unparse(mutated(line, one)) for one in mutants("m.py", line)} == changed


@pytest.mark.parametrize(("flag", "changes"), [(True, []), (False, ["False becomes True"])])
def test_a_strict_zip_is_an_assertion(flag, changes):
    assert [mutant.change for mutant in mutants("m.py", f"x = zip(a, b, strict={flag})")] == changes


@pytest.mark.parametrize(
    ("condition", "changes"),
    [
        ("not node.attr('keepdims', 1)", ["not is dropped"]),
        ("bool(node.attr('keepdims', 1))", []),
        ("bool(node.attr('keepdims', 0))", ["0 becomes 1"]),
        ("node.attr('axis', 1)", ["1 becomes 2"]),
        ("not is_plain(step, 1)", ["not is dropped", "1 becomes 2"]),
    ],
)
def test_a_flag_that_is_a_number_is_true_if_it_is_not_0(condition, changes):
    assert [mutant.change for mutant in mutants("m.py", f"x = {condition}")] == changes


JUDGED = """
import sys, time
from tests.mutants.child import PACKAGE, Trial
from tests.mutants.operators import mutants
made = mutants("errors.py", (PACKAGE / "errors.py").read_text())
made = [one for one in made if one.change == "None is returned"][:2]
assert [one.line for one in made] == sorted(one.line for one in made), "of shown, and of class_of"
for one, test in zip([*made, made[0]], [*sys.argv[1:2] * 2, sys.argv[1] + "::test_of_another_name"]):
    trial = Trial(one, [test], 60)
    while (verdict := trial.verdict()) is None:
        time.sleep(0.02)
    print(verdict)
"""


def test_a_mutant_is_judged_by_tests_and_their_children(tmp_path):
    test = tmp_path / "test_shown.py"
    child = "from onegraph.errors import shown; assert shown(3) == '3'"
    test.write_text(
        "import subprocess, sys\ndef test_shown():\n"
        f"    assert subprocess.run([sys.executable, '-c', {child!r}]).returncode == 0\n"
    )
    command = [sys.executable, "-c", JUDGED, str(test)]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [NOTICED, SURVIVED, SURVIVED]


# Functions that call what is imported; those of commands have decorators in front of them, too.
EXCHANGED = """
import json
from tests.mutants.choose import changes_of

print(json.dumps([[one.mutant.key for one in changes_of(path)] for path in {paths}]))
"""


@pytest.mark.library
def test_functions_that_call_what_is_imported_get_the_code_of_their_mutants():
    paths = "compiler/passes/row_leaks.py", "cli/info.py"
    code = EXCHANGED.format(paths=paths)  # in a process whose functions have no marks of branches
    found = json.loads(
        subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True, capture_output=True).stdout
    )
    made = mutants(paths[0], (PACKAGE / paths[0]).read_text())
    inside = {one.key for one in made if one.line in one.body}
    assert inside - json.loads(EQUIVALENT.read_text()).keys() == {*found[0]}
    assert found[1]


PLACES = """\
LIMIT = 3

def f(x, y=4):
    if x > 5:
        return 6
    y = 7
    for one in x:
        if one: pass
        elif g(8): h(9)
        else: h(10)
        while True:
            h(11)
    try:
        h(12)
    except g(13):
        h(14)
    match x:
        case 15:
            h(16)
    def inner():
        return 17
    return inner
"""
WAYS = {
    3: [],
    4: ["3 function f"],
    5: ["3 function f"],
    6: ["4 true", "3 function f"],
    7: ["4 false", "3 function f"],
    8: ["8 false", "7 item", "4 false", "3 function f"],
    9: ["9 true", "8 false", "7 item", "4 false", "3 function f"],
    10: ["9 false", "8 false", "7 item", "4 false", "3 function f"],
    11: ["7 item", "4 false", "3 function f"],
    12: ["4 false", "3 function f"],
    13: ["4 false", "3 function f"],
    14: ["15 except", "4 false", "3 function f"],
    15: ["18 case", "4 false", "3 function f"],
    16: ["18 case", "4 false", "3 function f"],
    17: ["20 function inner"],
}


def test_a_place_has_the_ways_around_it():
    places = reached.Places(PLACES)
    made = {one.change.partition(" ")[0]: one for one in mutants("m.py", PLACES)}
    found = {number: [*places.ways(made[str(number)])] for number in WAYS if number != 15}
    assert found == {number: ways for number, ways in WAYS.items() if number != 15}
    every = {way for ways in WAYS.values() for way in ways}
    assert every <= {*marks.marked(PLACES)[1]}


def test_rooms_run_by_children_name_tests():
    for room, tests in OF_CHILDREN.items():
        assert (PACKAGE / room).is_dir()
        assert all(len(files_named(name)) == 1 for name in (*tests, *OF_CONSTANTS)), room


def test_equivalent_mutants_exist_and_have_reasons():
    known = json.loads(EQUIVALENT.read_text())
    modules = {key.partition(" ")[0] for key in known}
    keys = set()
    for module in modules:
        made = mutants if module.endswith(".py") else native.mutants
        keys |= {mutant.key for mutant in made(module, (PACKAGE / module).read_text())}
    assert {*known} <= keys
    assert all(len(reason.split()) > 3 for reason in known.values())


NATIVE_SOURCE = """\
// a < b
template <std::size_t N, long M>
const Registered<Sum> SUM {"sum", "width < 3"};
    for (long i = 1; i < count && !done; i++)
        total += row[i] * 0x10; // a > b
    share(total, threads);
    if (count > 4) throw std::invalid_argument("more than 4 < 5");
    if (count % 2 == 0) __builtin_prefetch(row + 64);
    return is_last ? total : run(threads);
"""


def test_each_change_of_native_code_is_made():
    made = native.mutants("native/csrc/m.cpp", NATIVE_SOURCE)
    found = [native.mutated(NATIVE_SOURCE, mutant).split("\n")[mutant.line - 1].strip() for mutant in made]
    assert found == [
        "for (long i = 1; i <= count && !done; i++)",
        "for (long i = 1; i < count || !done; i++)",
        "for (long i = 1; i < count && done; i++)",
        "for (long i = 2; i < count && !done; i++)",
        "total += row[i] + 0x10; // a > b",
        "total -= row[i] * 0x10; // a > b",
        ";",
    ]
    assert len({mutant.key for mutant in made}) == len(made)


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("kernels/winograd.cpp", ["test_winograd"]),
        ("kernels/panel_product/tiles.inc", ["test_open_steps", "test_panel_products"]),
        ("memory_plan.cpp", [*NATIVE["memory_plan"]]),
    ],
)
def test_native_mutants_are_judged_by_the_tests_of_their_kernels(source, tests):
    found = [path.rpartition("/")[2].removesuffix(".py") for path in native.tests_of(native.CSRC / source)]
    assert {*tests} <= {*found}
    assert len(found) < 6


def test_each_native_source_is_mutated_and_has_tests():
    assert not native.sources(native.CSRC / "guard.h"), "every source would be compiled"
    assert native.sources(native.CSRC / "kernels" / "turned.h")
    names = {*NATIVE_REST, *(test for tests in NATIVE.values() for test in tests)}
    assert all(len(files_named(name)) == 1 for name in names)
    for path in native.CSRC.rglob("*.cpp"):
        if path.parent == native.CSRC:
            assert path.stem in NATIVE


DIFF = """\
diff --git a/onegraph/a.py b/onegraph/a.py
--- a/onegraph/a.py
+++ b/onegraph/a.py
@@ -3 +3,2 @@ def f():
-old
+new
+line
@@ -9,2 +11,0 @@
-gone
-gone
diff --git a/onegraph/b.py b/onegraph/b.py
--- a/onegraph/b.py
+++ /dev/null
@@ -1 +0,0 @@
-gone
"""


def test_changed_lines_are_those_of_the_new_files():
    assert changes.parsed(DIFF) == {"onegraph/a.py": {3, 4}}


def test_changed_sources_include_those_of_changed_headers():
    folder = "onegraph/native/csrc"
    assert changes.sources({f"{folder}/plan.cpp", "README.md"}) == [changes.CSRC / "plan.cpp"]
    by_header = changes.sources({f"{folder}/kernels/rows.h"})
    assert 1 < len(by_header) <= changes.MOST
    winograd = changes.tests([changes.CSRC / "kernels" / "winograd.cpp"])
    assert winograd == [changes.DRAWN, "tests/kernels/test_winograd.py"]
    assert changes.DRAWN in changes.tests([changes.CSRC / "kernels" / "elementwise.cpp"])
    assert changes.tests([changes.CSRC / "plan.cpp"]) == [*changes.OTHERS]


@pytest.fixture
def small_record(monkeypatch, tmp_path):
    """A record of a package of one module, with tests of three files that run it."""
    (tmp_path / "onegraph").mkdir()
    (tmp_path / "onegraph" / "m.py").write_text(SOURCE)
    tests = {"test_quick.py::test[0]": 0.5, "test_quick.py::test[1]": 0.5, "test_slow.py::test": 5.0}
    tests |= {"test_slower.py::test": 19.0, "test_slower.py::test_all": 1.0}
    record = {
        "tests": [*tests],
        "seconds": [*tests.values()],
        "ways": {
            "m.py": {"2 function limited": [2, 1, 0, 3], "4 false": [1, 2]},
            "n.py": {"1 function other": [2, 3], "3 function more": [4]},
        },
    }
    (tmp_path / "reached.json").write_text(json.dumps(record))
    monkeypatch.setattr(reached, "REACHED", tmp_path / "reached.json")
    for module in (reached, trials):
        monkeypatch.setattr(module, "PACKAGE", tmp_path / "onegraph")
    (tmp_path / "onegraph" / "n.py").write_text("")
    monkeypatch.setattr(trials, "OF_PACKAGE", trials.Limits([(1, 2.0), (2, 6.0)], [20.0, 60.0, 60.0]))
    monkeypatch.setattr(changes, "lines", lambda folder: {"onegraph/m.py": {1, 6}, "onegraph/m.cpp": {1}})


def drawn(room="package", module=None, count=None, known=(), shard=(1, 1)):
    return trials.of_room(known=known, seed=0, room=room, module=module, shard=shard, count=count)


@pytest.mark.usefixtures("small_record")
def test_mutants_of_changed_lines_know_their_tests():
    (found,) = trials.of_changed(known=(), seed=0)
    assert found.mutant.change == "call of check is dropped"
    assert found.trials == [(["test_quick.py::test[1]"], 0.5), (["test_quick.py", "test_slow.py"], 6.0)]
    assert trials.of_changed(known=[found.mutant.key], seed=0) == []


@pytest.mark.usefixtures("small_record")
def test_mutants_of_the_package_get_further_tests_if_they_survive():
    found = drawn()
    assert sorted(one.mutant.change for one in found) == sorted(one.change for one in mutants("m.py", SOURCE))
    assert [one.mutant for one in found] != sorted((one.mutant for one in found), key=lambda one: one.place)
    inside = next(one for one in found if one.mutant.change == "7 becomes 8")
    assert [tests for tests, _ in inside.trials] == [
        ["test_quick.py::test[1]", "test_quick.py::test[0]"],
        ["test_slow.py::test"],
        ["test_quick.py", "test_slow.py"],
        ["test_slower.py"],
    ]
    outside = next(one for one in found if one.mutant.change == "3 becomes 4")
    assert outside.trials[0][0] == trials.named(OF_CONSTANTS)
    assert outside.trials[1:] == inside.trials


@pytest.mark.usefixtures("small_record")
def test_mutants_are_chosen_by_room_module_and_shard():
    whole = [one.mutant for one in drawn()]
    assert [one.mutant for one in drawn(".")] == [one.mutant for one in drawn(module="m")] == whole
    assert drawn("capi") == drawn(module="other/") == []
    assert {one.mutant for one in drawn(known=[whole[0].key])} == {*whole[1:]}
    assert [one.mutant for one in drawn(count=5, shard=(2, 3))] == [whole[1], whole[4]]


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("graph.py", "."),
        ("capi/graph.py", "capi"),
        ("compiler/passes/codes.py", "compiler"),
        ("frontends/onnx/nodes/rows.py", "frontends/onnx"),
        ("frontends/__init__.py", "frontends"),
        ("native/load.py", "binding"),
        ("native/csrc/plan.cpp", "native"),
    ],
)
def test_a_mutant_is_counted_in_its_room(module, room):
    assert trials.room_of(mutants(module, "x = 1")[0]) == room


def test_records_judge_what_survives_the_files_of_a_module(monkeypatch, tmp_path):
    files = [f"tests/a/test_{name}.py" for name in ("one", "two", "three", "recorded_draws")]
    ways = {"m.py": {"2 function limited": [0, 1, 2, 3]}, "n.py": {"1 function other": [1, 2, 3]}}
    ways["n.py"] |= {f"{line} function more_{line}": [3] for line in range(3)}
    record = {"tests": [f"{file}::test" for file in files], "seconds": [9.0] * 4, "ways": ways}
    (tmp_path / "reached.json").write_text(json.dumps(record))
    (tmp_path / "m.py").write_text(SOURCE)
    monkeypatch.setattr(reached, "REACHED", tmp_path / "reached.json")
    monkeypatch.setattr(reached, "PACKAGE", tmp_path)
    mutant = next(one for one in mutants("m.py", SOURCE) if one.change == "7 becomes 8")
    found = trials.candidate(reached.Reached(), mutant, trials.Limits([], [9.0] * 4, specific=2))
    assert [chosen for chosen, _ in found.trials] == [files[:1], files[2:3], files[3:], files[1:2]]


@pytest.mark.usefixtures("small_record")
def test_mutants_are_judged_until_one_trial_notices(monkeypatch):
    asked = []

    class Verdict:
        def __init__(self, mutant, tests, seconds):
            self.mutant, self.tests = mutant, tests
            asked.append((mutant.change, tests))

        def verdict(self):
            return NOTICED if self.tests == ["test_slower.py"] or "3" in self.mutant.change else SURVIVED

    monkeypatch.setattr(trials, "Trial", Verdict)
    wanted = [one for one in drawn() if one.mutant.change in ("7 becomes 8", "3 becomes 4")]
    verdicts = trials.judged(wanted, 60)
    assert [found for _, found in verdicts] == [NOTICED, NOTICED]
    assert len([change for change, _ in asked if change == "7 becomes 8"]) == 4
    assert len([change for change, _ in asked if change == "3 becomes 4"]) == 1
