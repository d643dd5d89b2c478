"""The corpus of the fuzzers in tests/fuzz, and what they consist of; ``make fuzz`` runs them for any time."""

import difflib
import importlib
import json
import os
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import draws

from tests.fuzz import compare, corpus, differ, grow, one_input, oss_fuzz
from tests.fuzz.choices import Choices, Numbers, changed_choices
from tests.fuzz.differ import WAYS, check
from tests.fuzz.recipe import build, reproducer

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "tests" / "corpus" / "graphs"
FOUND_ONCE = sorted(RECIPES.glob("*_*.json"))  # graphs that were wrong once; the names of the others are digests


@pytest.mark.library
@pytest.mark.parametrize("path", FOUND_ONCE, ids=[path.stem for path in FOUND_ONCE])
def test_graph_that_was_wrong_once_agrees(path):
    steps = json.loads(path.read_text())
    ways = [{"policy": policy, "threads": 1, "way": way} for policy in ("fusion", "debug") for way in WAYS]
    assert list(check(steps, ways)) == []


def there(kind):
    """The entry of a kind, if the package that it needs is installed."""
    if needs := corpus.KINDS[kind].needs:
        pytest.importorskip(needs, reason=f"{needs} is not installed")
    return corpus.KINDS[kind]


@pytest.mark.library
@pytest.mark.parametrize("kind", [kind for kind, one in corpus.KINDS.items() if draws(not one.is_slow, True)])
def test_inputs_that_reached_new_branches_are_replayed(kind):
    there(kind)
    for path in [path for path in corpus.inputs(kind, corpus.CORPUS) if path not in FOUND_ONCE]:
        assert not grow.error_of(kind, path.read_bytes()), path


def test_the_corpus_is_small_and_has_each_kind():
    kept = {kind: corpus.inputs(kind, corpus.CORPUS) for kind in corpus.KINDS}
    assert {path.name for path in corpus.CORPUS.iterdir()} == {*corpus.KINDS}
    for kind, paths in kept.items():
        assert 9 < len(paths) <= corpus.DOZENS, kind
        assert sum(path.stat().st_size for path in paths) <= corpus.MOST
    assert sum(path.stat().st_size for paths in kept.values() for path in paths) < 200_000


def test_every_fuzzer_is_in_the_table():
    found = {(kind.module, kind.entry) for kind in corpus.KINDS.values()}
    for path in (ROOT / "tests" / "fuzz").glob("*.py"):
        text = path.read_text()
        if re.search(r"^DRAWN = ", text, re.MULTILINE):
            module = importlib.import_module(f"tests.fuzz.{path.stem}")
            assert {entry for name, entry in found if name == path.stem} == {*module.DRAWN}, path.stem
        elif re.search(r"^def replay\(", text, re.MULTILINE):
            assert (path.stem, "") in found
    assert {*differ.RECIPES} <= {*corpus.KINDS}


def test_the_fewest_inputs_reach_all_branches():
    ways = {b"ab": {1, 2}, b"a": {1}, b"abc" * 100: {1, 2, 3}, b"d": {4}, b"none": set(), b"known": {9}, b"slow": {5}}
    reached = {data: corpus.Reached(one, seconds=9.0 if data == b"slow" else 0.01) for data, one in ways.items()}
    assert corpus.fewest(reached, {9}, 1000, 1.0) == [b"ab", b"d", b"abc" * 100]
    assert corpus.fewest(reached, {9}, 100, 1.0) == [b"ab", b"d"]
    assert corpus.fewest(reached, {9}, 1000, 10.0) == [b"ab", b"d", b"abc" * 100, b"slow"]


@pytest.mark.parametrize("kind", [kind for kind, one in corpus.KINDS.items() if not one.is_slow])
def test_changed_inputs_depend_on_their_seed_alone(kind):
    there(kind)
    population = grow.originals(kind, keeps=False)
    made = [grow.changed(kind, population, seed) for seed in (1, 2, 1)]
    assert made[0] == made[2] != made[1]


@pytest.mark.library
@pytest.mark.parametrize("kind", [kind for kind, one in corpus.KINDS.items() if one.entry and not one.is_slow])
def test_drawn_inputs_are_bytes_and_may_be_json(kind):
    functions = there(kind).functions
    *_, data = [path.read_bytes() for path in corpus.inputs(kind, corpus.CORPUS) if not path.suffix]
    program = functions.program(data)
    kept = functions.kept(data + b"more")
    assert len(kept) <= len(data)
    if functions.told is not None:
        assert functions.program(kept) == program
        told = json.dumps(functions.told(program)).encode()
        assert functions.program(told) == program
        assert functions.kept(told) == told


def test_choices_come_from_bytes_and_then_from_a_seed():
    choices = Choices(bytes([7, 0, 128, 3, 1, 2, 250, 200]))
    assert choices.choice("abcde") == "c"
    assert (choices.random(), choices.choice("a"), choices.randint(5, 9)) == (0.5, "a", 8)
    assert choices.randrange(1000) == 513
    assert choices.getrandbits(4) == 10
    assert (choices.used, choices.randrange(1000, 1256)) == (7, 1200)
    rest = [choices.randrange(1000) for _ in range(9)]
    assert (len({*rest}), choices.used) == (9, 8)
    again = Choices(b"")
    assert rest == [again.randrange(1000) for _ in range(9)]


def test_generators_of_numpy_have_choices_for_few_numbers():
    numbers = Numbers(Choices(bytes(range(1, 40))))
    assert (numbers.integers(3, 9), numbers.choice("abc"), numbers.integers(5, size=2).tolist()) == (4, "c", [3, 4])
    assert sorted(numbers.permutation(4)) == [0, 1, 2, 3]
    assert numbers.choice("abc", p=[0, 1, 0]) == "b"
    before = numbers.choices.used
    large = numbers.uniform(0, 1, (3, 4))
    assert (large.shape, numbers.integers(2, size=50).shape, numbers.choices.used) == ((3, 4), (50,), before + 4)


@pytest.mark.parametrize("seed", range(4))
def test_most_changes_of_bytes_leave_most_choices(seed):
    rng = random.Random(seed)
    data = [rng.randbytes(200)]
    made = [changed_choices(data, random.Random(number), 0) for number in range(seed * 50, seed * 50 + 50)]
    alike = [difflib.SequenceMatcher(None, data[0], one, autojunk=False).ratio() for one in made]
    assert sorted(alike)[10] > 0.6
    assert len({*made}) > 45


DYING = """
import os, sys
from pathlib import Path
from tests.fuzz import corpus, grow, one_input
INPUTS = [text.encode() for text in sys.argv.pop(1).split()]
corpus.FOUND, grow.FINDINGS = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
one_input.replay = lambda data: os.abort() if {*b"!#"} & {*data} else "odd" if b"?" in data else ""
one_input.changed = lambda population, rng: rng.choice(INPUTS)
one_input.program = lambda data: os.abort() if b"#" in data else data
one_input.smaller = lambda data: (data[:at] + data[at + 1 :] for at in range(len(data)))
one_input.shown = lambda data: f"shown: {data}"
grow.main()
"""


@pytest.mark.library
def test_findings_are_files_with_a_short_input(tmp_path, monkeypatch, capsys):
    """A signal ends the process; the input that it tried is then shortened in others."""
    worker = "-c", DYING, "... ...!..... ?.....?", str(tmp_path), str(tmp_path / "found")
    monkeypatch.setattr(grow, "WORKER", worker)
    monkeypatch.setattr(grow, "FINDINGS", tmp_path / "found")
    monkeypatch.setattr(one_input, "smaller", lambda data: [b"!"] if len(data) > 1 else [], raising=False)
    report = grow.in_child("files", 1, 40)
    assert report.tried < 40
    odd, fatal = report.findings
    assert "odd\nshown: b'?'" in odd
    assert "ended by -6" in fatal
    kept = sorted((tmp_path / "found" / "files").iterdir())
    assert {path.read_bytes() for path in kept} == {b"?", b"!"}
    for path in kept:
        assert f"python -m tests.fuzz.grow files {os.path.relpath(path, ROOT)}" in odd + fatal
    monkeypatch.setattr(grow, "WORKER", (*worker[:2], "#", *worker[3:]))
    assert grow.in_child("files", 1, 1) == ([], 1, 0)
    assert "the drawing of the program ends the process" in capsys.readouterr().out


def test_each_kind_is_a_target_of_oss_fuzz(tmp_path):
    for kind in corpus.KINDS:
        script, packed = oss_fuzz.write(kind, tmp_path)
        compile(script.read_text(), script, "exec")
        with zipfile.ZipFile(packed) as file:
            assert len(file.namelist()) == len(corpus.inputs(kind, corpus.CORPUS))


@pytest.mark.library
@pytest.mark.skipif(not draws("", "long"), reason="atheris takes ten seconds to mark the package")
def test_atheris_starts_from_a_corpus(tmp_path):
    pytest.importorskip("atheris", reason="atheris is not installed")
    script, packed = oss_fuzz.write("files", tmp_path)
    with zipfile.ZipFile(packed) as file:
        file.extractall(tmp_path / "corpus")
    command = [sys.executable, str(script), "-runs=50", "-seed=1", str(tmp_path / "corpus")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{len(corpus.inputs('files', corpus.CORPUS))} files found" in done.stderr


GROWN = """
import sys
from pathlib import Path
from tests.fuzz import corpus, grow
corpus.FOUND, corpus.CORPUS = Path(sys.argv[1]) / "found", Path(sys.argv[1])  # a corpus of one small file
grow.grow("files", 1, 40, 1000, True, corpus.FOUND)
"""


@pytest.mark.library
def test_an_input_that_reaches_new_branches_is_kept(tmp_path):
    corpus.keep("files", min((path.read_bytes() for path in corpus.inputs("files")), key=len), tmp_path)
    command = [sys.executable, "-c", GROWN, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    kept = corpus.inputs("files", tmp_path / "found")
    assert kept
    assert done.stdout.splitlines().count("@kept") == len(kept)


def test_fuzzers_find_the_helpers_without_the_folder_of_tests():
    """``make fuzz`` starts in the folder of the project, where no package is called helpers."""
    texts, seen = [path.read_text() for path in (ROOT / "tests" / "fuzz").glob("*.py")], set()
    while texts:
        text = texts.pop()
        assert not re.search(r"^ *(from|import) helpers\b", text, re.MULTILINE), text[:200]
        names = {*re.findall(r"from \.\.?(?:helpers\.)?(\w+) import", text)} - seen
        seen |= names
        texts += [path.read_text() for name in names if (path := ROOT / "tests" / "helpers" / f"{name}.py").exists()]
    assert {"onnx_compare", "onnx_session", "onnx_nodes"} <= seen


@pytest.mark.library
def test_reproducer_is_a_script():
    names = {}
    source = reproducer(
        json.loads((RECIPES / "bias_and_its_source.json").read_text()), {"policy": "debug", "threads": 1}
    )
    exec(source.replace("print(", "result = ("), names)
    assert len(names["result"]) == 3


def test_detects_a_wrong_result():
    graph, arrays = build(json.loads((RECIPES / "strided_vector_operand.json").read_text()))
    right = {"y5": arrays["x0"] @ arrays["x1"] + arrays["x3"]}
    assert compare.differences(graph, arrays, right, right) == {}
    near = {"y5": right["y5"] * np.float32(1 + 2**-22)}
    assert compare.differences(graph, arrays, right, near) == {}
    wrong = {"y5": right["y5"].copy()}
    wrong["y5"][2, 3] += 1e-3
    assert "1 of 30 wrong, at [2, 3]" in compare.differences(graph, arrays, right, wrong)["y5"]
