"""The pages are correct: their Python and their commands run, and print what the page shows."""

import ast
import importlib
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from conftest import library
from helpers.grouped import grouped
from helpers.pages import NEEDS, PACKAGES, Runner, needed, normalised

import onegraph as og
from onegraph.cli import COMMANDS
from onegraph.opset.editions.registry import EDITIONS
from onegraph.tools.harness import OPTIONS as REWRITES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PROJECT = (ROOT / "pyproject.toml").read_text()
CORE = {"onegraph", "numpy", "ml_dtypes"}  # pip installs them with onegraph
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if page.parent.name not in ("ops", "gallery"))]


def runs_the_library(page: Path) -> bool:
    return re.search(r"^```(python|console)", page.read_text(), flags=re.MULTILINE) is not None


@pytest.mark.parametrize(
    "page",
    [library(page) if runs_the_library(page) else page for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_page_runs_as_written(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "onegraph.torch" in sys.modules:  # tests before this one have compiled models, which a page would count
        sys.modules["onegraph.torch"].reset()
    Runner(page).run()
    if registered := sys.modules.get("onegraph.frontends.onnx.registered"):  # by the page on ONNX
        registered.OWN.clear()
    for picture in page.parent.glob("*.svg"):
        if (tmp_path / picture.name).exists() and og.version_info()["version"].startswith("3.2"):
            assert normalised((tmp_path / picture.name).read_text()) == normalised(picture.read_text())


@grouped("page", PAGES, key=lambda page: page.parent.name)
def test_empty_lines_surround_headings_and_blocks(page):
    inside, lines = False, ["", *page.read_text().splitlines(), ""]
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        fence = line.startswith("```")
        if (fence and not inside) or (line.startswith("#") and not inside):
            assert not before, line
        if (fence and inside) or (line.startswith("#") and not inside):
            assert not after, line
        inside ^= fence


def test_command_reference_is_complete():
    page = (DOCS / "commands.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\]\(commands/(\w+)\.rst\) \| (.*) \|$", page, flags=re.MULTILINE)
    assert sorted(rows) == sorted((name, name, text) for name, text in COMMANDS.items())
    trees = re.findall(r"^commands/(\w+)$", page, flags=re.MULTILINE)
    assert trees == ["change", "proof", *(name for name, *_ in rows)]


def test_option_grammar_is_complete():
    page = (DOCS / "commands" / "change.md").read_text()
    assert set(re.findall(r"^## --([a-z-]+)$", page, flags=re.MULTILINE)) == set(REWRITES)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("```python\nprint('a b c')\n```\n```text\na b c\n```\n", False),
        ("```python\nprint('a b c')\n```\n```text\na ... c\n```\n", True),
        ("```python\n1 / 0\n```\n", True),
        ("```console\n$ echo one\none\n$ echo two\n```\n", False),
        ("```console\n$ echo one\ntwo\n```\n", True),
        ("```console\n$ exit 3\n```\n", True),
        ("```python\nimport sklearn\n```\n", True),
    ],
)
def test_page_runner_checks_printed_output(text, fails, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    if fails:
        with pytest.raises((AssertionError, ZeroDivisionError, ImportError)):
            Runner(page).run()
    else:
        assert Runner(page).run() > 0


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("(f32, 64 bytes, 1 thread)", "(f32, 64 bytes, all threads)", True),
        ("(f32, 64 bytes, 1 thread)", "(f32, 65 bytes, 1 thread)", False),
        ("debug  1 us  2 us  3 us  40  5 ms  1.0  1.1", "debug  10.0 us  2 us  3 us  4,100  5 ms  -  -", True),
        ("debug  1 us  2 us  3 us  40  5 ms  1.0  1.1", "fusion  1 us  2 us  3 us  40  5 ms  1.0  1.1", False),
        ("y  100 %   1.72e-05  0.5  agrees", "y  100 %  0  0.5  agrees", True),
        ("y  100 %  0  0.5  agrees", "y  100 %  0  0.5  not proven", False),
        ("oneDNN 3.2.0 on avx2", "oneDNN 3.2.1 on avx512_core", True),
        ("oneDNN 3.2.0 on avx2", "oneDNN 3.3.0 on avx2", False),
        ("matmul gemm:jit:f32", "matmul brg:avx512_core", True),
        ("path     /opt/one/libdnnl.so.3", "path     /usr/libdnnl.so.3", True),
        ("a/b/one", "a/b/two", False),
        ("one two", "one  two", False),
    ],
)
def test_normalised_output_keeps_other_differences(one, other, equal):
    assert (normalised(one) == normalised(other)) is equal


def test_table_of_packages_names_real_extras():
    extras = metadata.metadata("onegraph").get_all("Provides-Extra")
    assert {name[len("onegraph[") : -1] for name in PACKAGES if "[" in name} <= set(extras)


@grouped("page", PAGES, key=lambda page: page.parent.name)
def test_page_names_the_packages_that_it_imports(page):
    text = page.read_text()
    trees = [ast.parse(block) for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    beyond = {name.split(".")[0] for name in imported} - CORE - sys.stdlib_module_names
    assert beyond <= {module for name in needed(text) for module in PACKAGES[name]}
    assert text.count("Needs: ") == len(NEEDS.findall(text))


def test_index_names_every_guide():
    listed, trees = (DOCS / "index.md").read_text().split("```{toctree}", 1)
    guides = {path.stem for path in (DOCS / "howto").glob("*.md")}
    assert guides == {*re.findall(r"\(howto/([\w-]+)\.md\)", listed)} == {*re.findall(r"^howto/([\w-]+)$", trees, re.M)}


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


def test_gallery_lists_every_example(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    elsewhere = {"batch_inference_ray", "data_parallel", "faster_resnet_torch", "service_ray"}  # need other packages
    assert {*importlib.import_module("gallery_pages").examples_shown()} == names - elsewhere


# What the pages say about other machines and libraries than the one that the reader has.


@pytest.mark.library
def test_attention_is_one_partition_since_3_6():
    text = (DOCS / "tutorial" / "2-fusion.md").read_text()
    names = {}
    exec(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1], names)
    assert len(names["g"].partitions()) == (3 if og.capi.settings.library.VERSION < (3, 6) else 1)


def executors(graph):
    return {part.executor for part in graph.compile().report().partitions}


@pytest.mark.library
def test_report_names_each_executor():
    graphs = {}
    for name in ("oneDNN", "reference", "view", "copy", "constant", "kernel"):
        graphs[name] = g = og.Graph()
        x = g.input("x", og.f16 if name == "copy" else og.f32, (4, 8))
        if name == "view":
            x = g.static_reshape(g.relu(x), shape=[8, 4], special_zero=False)
        elif name == "reference":
            x = g.pow(x, beta=2.5)
        elif name == "constant":
            x = x + g.exp(g.constant(np.ones((4, 8), np.float32)))
        elif name == "kernel":
            x = g.relu(x)
        g.output("y", g.tanh(x))
    found = {name: executors(g) for name, g in graphs.items()}
    if "f16" in og.version_info()["cpu_dtypes"]:
        found["copy"].add("copy")  # such a CPU computes f16
    assert {name for name, used in found.items() if name in used} == set(graphs)


@pytest.mark.library
def test_cpu_without_bf16_casts_and_ignores_fpmath():
    """An older CPU runs bf16 in f32 between two casts, and has one result in every fpmath mode."""
    program = """
import numpy as np
import onegraph as og

g = og.Graph()
g.output("y", g.tanh(g.input("x", og.bf16, (64, 256))))
report = g.compile().report()
assert [part.executor for part in report.partitions] == ["copy", "oneDNN", "copy"], report
g = og.Graph()
x = np.random.default_rng(0).standard_normal((64, 256), np.float32)
g.output("y", g.matmul(g.input("x", og.f32, (64, 256)), g.constant(x.T.copy())))
strict, *others = [g.compile(fpmath_mode=mode, threads=1)(x) for mode in ("strict", "bf16", "any")]
assert all(np.array_equal(strict, other) for other in others)
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
