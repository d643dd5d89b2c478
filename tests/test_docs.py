"""The pages are correct: their Python and their commands run, and print what the page shows.

In a page, a block of ``text`` shows the output of the ``python`` block before it. In a block of ``console``, a line
that starts with ``$`` is a command, and the lines after it are its output, if the page shows any. ``...`` stands for
any text. Output that names a version of oneDNN is checked with that version only. A block of ``sh`` has commands for
readers that no test runs.
"""

import io
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from html import unescape
from importlib.util import find_spec
from pathlib import Path

import pytest
from sybil import Example
from sybil.document import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from benchmarks.page import markdown
from benchmarks.timing import Row
from onegraph.capi import get_num_threads
from onegraph.capi.settings import has_vnni
from onegraph.cli import COMMANDS
from onegraph.native.library import RUNTIME, VERSION
from onegraph.opset.editions.registry import BASE, DEFAULT, EDITIONS
from onegraph.tools.harness import OPTIONS as REWRITES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PROJECT = (ROOT / "pyproject.toml").read_text()
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if page.parent.name not in ("ops", "gallery"))]
# Optional packages of a page; without one of them the rest of the page is skipped.
OPTIONAL = ("torch", "dask", "jax")


class Runner:
    """Runs the blocks of one page, one after another, in one namespace and one directory."""

    def __init__(self) -> None:
        self.python, self.printed = PythonEvaluator(), ""

    @property
    def parsers(self) -> list[CodeBlockParser]:
        return [
            CodeBlockParser("python", self.run),
            CodeBlockParser("text", self.compare),
            CodeBlockParser("console", self.session),
        ]

    def run(self, example: Example) -> None:
        for name in OPTIONAL:
            if re.search(rf"^(import|from) {name}\b", example.parsed, flags=re.MULTILINE) and not find_spec(name):
                pytest.skip(f"{name} is not installed")
        if "num_threads(" in example.parsed and get_num_threads() is None:
            pytest.skip(f"the library runs its threads with {RUNTIME}, which cannot be set")
        with redirect_stdout(io.StringIO()) as printed:
            self.python(example)
        self.printed = printed.getvalue()

    def compare(self, example: Example) -> None:
        if "fused" in example.parsed and "Dequantize" in example.parsed and not has_vnni():
            return  # such a CPU runs these ops one by one
        named = re.search(r"\boneDNN (\d+)\.(\d+)", example.parsed)
        if named is None or tuple(map(int, named.groups())) == VERSION[:2]:
            assert_printed(self.printed, example.parsed)

    def session(self, example: Example) -> None:
        for part in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            done = shell(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            if expected.strip():
                assert_printed(done.stdout + done.stderr, expected)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the ``python`` and ``onegraph`` of this process."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONSAFEPATH": "1"}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, env=environment)


def assert_printed(printed: str, expected: str) -> None:
    """Raise unless ``printed`` is ``expected``, where ``...`` stands for anything."""
    pattern = r".*?".join(re.escape(part) for part in trimmed(expected).split("..."))
    assert re.fullmatch(pattern, trimmed(printed), flags=re.DOTALL), f"printed:\n{printed}\nthe page shows:\n{expected}"


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run_page(page: Path) -> int:
    """Run every block of a page; returns how many there are."""
    examples = list(Document.parse(str(page), *Runner().parsers).examples())
    for example in examples:
        example.evaluate()
    return len(examples)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs_as_written(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_command_reference_is_complete():
    page = (DOCS / "commands.md").read_text()
    named = re.findall(
        r"^\.\. click:: onegraph\.cli\.(\w+):command\n   :prog: onegraph (\w+)$", page, flags=re.MULTILINE
    )
    assert named == [(name, name) for name in COMMANDS]


def test_option_grammar_is_complete():
    page = (DOCS / "commands.md").read_text()
    assert set(re.findall(r"^### --([a-z-]+)$", page, flags=re.MULTILINE)) == set(REWRITES)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("```python\nprint('a b c')\n```\n```text\na ... c\n```\n", False),
        ("```python\nprint('a b c')\n```\n```text\na b\n```\n", True),
        ("```python\n1 / 0\n```\n", True),
        ("```console\n$ echo one\none\n$ echo two\n```\n", False),
        ("```console\n$ echo one\ntwo\n```\n", True),
        ("```console\n$ exit 3\n```\n", True),
    ],
)
def test_page_runner_checks_printed_output(text, fails, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    if fails:
        with pytest.raises((AssertionError, ZeroDivisionError)):
            run_page(page)
    else:
        assert run_page(page) > 0


def test_finds_every_page():
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/index.md", "docs/tutorial/1-first-graph.md", "docs/safety.md"} <= names


def test_install_page_lists_every_extra():
    extras = re.search(r"^\[project\.optional-dependencies\]\n(.*?)^\[", PROJECT, flags=re.MULTILINE | re.DOTALL)[1]
    named = re.findall(r"^\| `(\w+)` \|", (DOCS / "install.md").read_text(), flags=re.MULTILINE)
    assert sorted(named) == sorted(re.findall(r"^(\w+) = \[", extras, flags=re.MULTILINE))


@pytest.mark.parametrize("name", EDITIONS)
def test_navigation_lists_every_edition(name):
    assert f"\nops/{name}\n" in (DOCS / "ops.md").read_text()


def test_benchmark_results_become_a_page():
    row = Row("case", {"C loop": 2e-6, "bound run": 4e-6}, {"bound run": 0.5}, note="a note")
    page = markdown({"overhead": {"environment": {"cpu": "a cpu", "threads": 2}, "rows": [asdict(row)]}})
    assert "### overhead\n\ncpu a cpu, threads 2\n" in page
    assert re.search(r"bound run +4\.00 us +0\.50 x\n", page)
    assert "`make bench` measures them" in markdown({})


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as ``make docs`` builds it, but most editions have a few ops only, because their pages are alike."""
    root = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if path != DOCS:
            (root / path.name).symlink_to(path)
    shutil.copytree(DOCS, root / "docs")
    target = root / "site"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", str(root / "docs"), str(target)]
    command += ["-D", f"whole_editions={DEFAULT},legacy-1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_site_loads_nothing_from_other_hosts(site):
    pages = list(site.rglob("*.html"))
    assert {"index.html", "safety.html", "performance.html", "design.html"} <= {page.name for page in pages}
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*?src=[\"']?(?:https?:)?//|<link[^>]*?href=[\"']?(?:https?:)?//"
    )
    assert [page.name for page in pages if loads.search(page.read_text())] == []
    styles = [
        path for path in site.rglob("*.css") if re.search(r"(?:@import|url\()[\s\"']*(?:https?:)?//", path.read_text())
    ]
    assert styles == []


def test_gallery_shows_every_example(site):
    cards = (site / "gallery" / "index.html").read_text().split('class="card')[1:]
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert {re.search(r'href="(\w+)\.html"', card)[1] for card in cards} == names
    drawn = {name for name in names for card in cards if re.search(rf'<img [^>]*src="[^"]*/{name}\.(svg|png)"', card)}
    assert names - drawn == {"checking_attributes"}  # it compiles nothing; its card shows what it prints


def test_index_of_site_has_every_op_method(site):
    index = (site / "genindex.html").read_text()
    page = (site / "ops" / "methods.html").read_text()
    for kind, schema in BASE.items():
        assert f'href="ops/methods.html#onegraph.Graph.{schema.name}"' in index
        assert f'href="{DEFAULT}.html#{kind.lower()}"' in page


def test_site_has_readable_signatures(site):
    shown = {
        page.name: unescape(
            re.sub(r"<[^>]+>", "", " ".join(re.findall(r'<dt class="sig sig-object py.*?</dt>', text, re.DOTALL)))
        )
        for page in site.rglob("*.html")
        if (text := page.read_text())
    }
    assert "progress: Callable[[str, int, int], None] | None = None" in shown["other.html"]
    unreadable = re.compile(r"<|~\w+\.|object at 0x")  # default values by repr, and names as autodoc writes them
    assert {name: found[0] for name, text in shown.items() if (found := unreadable.search(text))} == {}
