"""The house: arrows point one way, nothing generated is stale, the core works without the library."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onegraph import pages, stubs
from onegraph.reference import reference_function
from onegraph.spec.editions import BASE, EDITIONS, base_of, edition

PACKAGE = Path(__file__).parents[1] / "onegraph"
# Who may import whom inside the package; lower layers first. An import inside a function is listed as an exception.
LAYERS = [
    {"errors", "forks", "plain"},
    {"once", "atomic", "validate", "process"},
    {"spec"},
    {"op"},
    {"tensor_types", "violation", "recipes"},
    {"dlpack", "mends", "type_table"},
    {"examine"},
    {"check", "methods", "arrays", "outputs", "memo", "lenient"},
    {"contents"},
    {"builder"},
    {"graph", "cases", "reference", "translate", "stubs", "pages"},
    {"random_graph", "batch", "knobs", "sketch", "translation", "npz", "inputs", "tolerance"},
    {"view", "reduce"},
    {"serialize"},
    {"flex_rewrite", "codegen"},
    {"harness"},
    {"native"},
    {"capi", "collector"},
    {"rewrites", "lower", "report", "memory", "plan"},
    {"library_graph"},
    {"threads", "steps", "patterns"},
    {"schedule", "search"},
    {"assemble", "frame"},
    {"program"},
    {"runs"},
    {"arguments", "cache", "implementations", "options", "profile"},
    {"executor"},
    {"verify", "bench"},
    {"capture", "recorded"},
    {"conformance"},
    {"failing"},
    {"cli"},
]
EXCEPTIONS = {
    ("graph", "executor"),
    ("graph", "library_graph"),
    ("graph", "capi"),
    ("graph", "serialize"),
    ("graph", "flex_rewrite"),
    ("graph", "view"),
    ("errors", "violation"),
    ("check", "native"),
    ("frame", "program"),  # for type checkers alone
}


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


# What stands on the library; what captures is imported first of all, and waits for it.
NEEDS_LIBRARY = frozenset().union(*LAYERS[layer("native") :]) - {"capture"}


def imports(path: Path) -> set[str]:
    """Top-level modules of the package that ``path`` imports."""
    depth = len(path.relative_to(PACKAGE).parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {name.split(".")[0] for name in names}
    return found


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE or "__" not in path.name]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_one_way(path):
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for other in imports(path):
        if other != name and not other.startswith("_") and (name, other) not in EXCEPTIONS:
            assert layer(other) <= layer(name), f"{name} must not import {other}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_asks_objects_for_their_class(path):
    """``isinstance`` is that of ``plain``, and no class stands in a ``match``: both would ask ``__class__``."""
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    for node in ast.walk(tree):
        if path.stem != "plain" and isinstance(node, ast.Name) and node.id == "isinstance":
            assert "isinstance" in imported, f"line {node.lineno}"
        assert not isinstance(node, ast.MatchClass), f"line {node.lineno}"


def test_nothing_is_computed_under_a_lock_that_a_fork_may_find_held():
    own = re.compile(r"^from functools import .*cached_property", flags=re.MULTILINE)
    assert [path.name for path in PACKAGE.rglob("*.py") if own.search(path.read_text())] == []


def test_only_native_knows_the_extension():
    users = [path.name for path in PACKAGE.rglob("*.py") if "_ffi" in path.read_text() and path.name != "native.py"]
    assert users == []


def test_the_stub_is_fresh():
    assert stubs.PATH.read_text() == stubs.stub(), "run make stubs"


@pytest.mark.parametrize("name", EDITIONS)
def test_the_reference_pages_are_fresh(name):
    assert (pages.DOCS / f"{name}.md").read_text() == pages.markdown_edition(edition(name)), "run make stubs"


@pytest.mark.parametrize("name", EDITIONS)
def test_every_rule_says_what_it_is(name):
    for schema in edition(name).schemas.values():
        base = base_of(schema)
        assert all(rule.__doc__ and rule.__doc__.strip() for rule in (*base.rules, *base.shape_rules)), schema.kind


@pytest.mark.parametrize("kind", BASE)
def test_every_op_has_a_reference(kind):
    assert callable(reference_function(BASE[kind]))


def test_the_core_works_without_the_library():
    code = f"""
import sys
for name in {sorted(NEEDS_LIBRARY)}:
    sys.modules["onegraph." + name] = None
import numpy as np
import onegraph as og
g = og.Graph()
y = g.relu(g.input("x", og.f32, (4,)))
g.output("y", y)
assert og.check_op("ReLU", inputs=[y]) == []
assert og.reference.run(g, {{"x": np.float32([-1, 0, 2, 3])}})["y"].tolist() == [0, 0, 2, 3]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
