"""No two classes of the package share a name, and few names are pronouns."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "onegraph").rglob("*.py"))}
CLASS = re.compile(r"^ *class (\w+)\b.*:", re.MULTILINE)

# Each is public in two forms: as data in ``onegraph``, and as the object of the C API in ``onegraph.capi``.
TWO_FORMS = {
    "Graph": {"onegraph/graph.py", "onegraph/capi/graph.py"},
    "LogicalTensor": {"onegraph/ir/op.py", "onegraph/capi/logical_tensor.py"},
    "Op": {"onegraph/ir/op.py", "onegraph/capi/op.py"},
}

# Words that point at a thing and do not name it.
PRONOUNS = frozenset(
    {
        "behind",
        "both",
        "each",
        "everything",
        "found",
        "given",
        "it",
        "none",
        "nothing",
        "one",
        "other",
        "others",
        "some",
    }
    | {"that", "these", "this", "those", "what", "which"}
)
# Where a pronoun may be a variable, parameter or attribute; of these lines a parser decides.
SUSPECT = re.compile(rf"^ .*?\b_?(?:{'|'.join(sorted(PRONOUNS))})_?\b(?:[\w.*, ]*[:=)]| in )", re.MULTILINE)
MOST = 60  # of 45,000 definitions; a public field, such as ``Violation.given``, keeps its name
ONE_LINE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def definitions(node, of_operator=False):
    """The names of variables, parameters and attributes; without those that one line defines and reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ONE_LINE) and child.lineno == child.end_lineno:
            continue
        match child:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                if not (of_operator and name in ("other", "others")):
                    yield name
        is_operator = isinstance(child, ast.FunctionDef) and child.name.startswith("__") and child.name != "__init__"
        yield from definitions(child, is_operator or (of_operator and not isinstance(child, ast.FunctionDef)))


def pronouns(text):
    return [name for name in definitions(ast.parse(text)) if name.strip("_") in PRONOUNS]


@pytest.mark.sources
def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for path, text in TEXTS.items():
        for name in CLASS.findall(text):
            places[name].append(path)
    shared = {name: set(paths) for name, paths in places.items() if len(paths) > 1}
    assert shared == TWO_FORMS


def test_names_name_things():
    named = {path: pronouns(text) for path, text in TEXTS.items() if SUSPECT.search(text)}
    assert sum(map(len, named.values())) <= MOST, {path: names for path, names in named.items() if names}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("found = f()\nkept = found", ["found"]),
        ("def f(given): pass", ["given"]),
        ("x = [one for one in y]", []),
        ("x = [\n one for one in y]", ["one"]),
        ("def __add__(self, other): pass", []),
        ("self.other = 1", ["other"]),
    ],
)
def test_pronouns_of_one_line_are_allowed(text, names):
    assert pronouns(text) == names
    assert not names or SUSPECT.search(f" {text}")
