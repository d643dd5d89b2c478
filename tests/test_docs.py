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
from importlib.util import find_spec
from pathlib import Path

import pytest
from sybil import Example
from sybil.document import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from onegraph.builder.op_pages import markdown_edition
from onegraph.capi import get_num_threads
from onegraph.capi.settings import has_vnni
from onegraph.cli import COMMANDS
from onegraph.native.library import RUNTIME, VERSION
from onegraph.opset.editions.registry import DEFAULT, EDITIONS, edition
from onegraph.tools.harness import OPTIONS as REWRITES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "ops")]
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


def test_op_page_shows_the_method():
    page = markdown_edition(edition(DEFAULT))
    assert "Method `g.softmax(src, *, axis=1, mode='none')`." in page
    assert "Method `g.concat(*src_i, axis)`." in page
    assert "Method `softmax`." in markdown_edition(edition("onednn-3.2"))


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


@pytest.mark.parametrize("name", EDITIONS)
def test_navigation_lists_every_edition(name):
    assert f"\nops/{name}\n" in (DOCS / "ops.md").read_text()


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
