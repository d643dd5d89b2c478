"""The list of the library's fixes, and the recipe to go on with it."""

import json
import subprocess
import sys
from pathlib import Path

from onegraph.faults.catalogue import EVERY_FAULT

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "library_history"
HISTORY = json.loads((FOLDER / "history.json").read_text())
ENTRIES = [*HISTORY["issues"], *HISTORY["commits"]]


def name_of(entry):
    """The hash or number of an entry."""
    return str(entry.get("commit", entry.get("issue")))


def test_every_entry_has_verdict_and_reason():
    assert {entry["verdict"] for entry in ENTRIES} == set(HISTORY["verdicts"])
    assert [name_of(entry) for entry in ENTRIES if len(entry["note"]) < 3] == []
    names = [name_of(entry) for entry in ENTRIES]
    assert len(names) == len(set(names))


def test_recorded_entries_name_a_fault():
    names = {fault.name for fault in EVERY_FAULT}
    recorded = [entry["note"] for entry in ENTRIES if entry["verdict"] == "recorded"]
    assert recorded
    assert [note for note in recorded if note.partition(":")[0] not in names] == []
    assert {entry["fault"] for entry in HISTORY["unknown_upstream"]} <= names


def test_wrong_and_tried_entries_have_graphs():
    from tests.library_history.tries import TRIES

    tried = {entry["note"] for entry in ENTRIES if entry["verdict"] == "tried"}
    recorded = {entry["note"].partition(": ")[2] for entry in ENTRIES if entry["verdict"] == "recorded"}
    named = tried | recorded
    assert named - set(TRIES) - {entry["note"].partition(": ")[2] for entry in HISTORY["issues"]} == set()
    assert set(TRIES) - named == set()


def test_lists_the_fixes_after_the_last_one_read(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        done = subprocess.run(["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (tmp_path / "src" / "cpu").mkdir(parents=True)
    git("init", "-q")
    for number, subject in enumerate(("cpu: start", "cpu: fix sums", "cpu: add a kernel", "cpu: fix tails")):
        (tmp_path / "src" / "cpu" / "kernel").write_text(str(number))
        git("add", "-A")
        git("commit", "-q", "-m", subject)
        git("tag", "v3.2") if not number else None
    code = (
        "import json, pathlib, sys; from tests.library_history import __main__ as m;"
        f"m.HISTORY = pathlib.Path({str(tmp_path / 'history.json')!r});"
        f"print('\\n'.join(m.later({str(tmp_path)!r})))"
    )
    known = git("log", "-1", "--format=%h", "--grep", "fix sums")
    (tmp_path / "history.json").write_text(json.dumps({"read_from": "v3.2", "commits": [{"commit": known}]}))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.partition(" ")[2] for line in done.stdout.splitlines()] == ["cpu: fix tails"]
