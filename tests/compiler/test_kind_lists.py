"""No module lists three or more op kinds: sets of kinds come from the records, by onegraph.opset.kinds.

A list is a literal list, set or tuple, a union of such sets, a text of names, the arguments of a call, or a dictionary
that gives three or more kinds the same value. A dictionary with a value for each kind is a table of rules, not a list.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from onegraph.opset import kinds
from onegraph.opset.editions.registry import BASE, edition
from onegraph.opset.signature import Fill

PACKAGE = Path(__file__).parents[2] / "onegraph"
KINDS = BASE.keys() | edition("host").schemas.keys()
# Folders that list kinds, and why.
FOLDERS = {
    "opset": "the records, and the mistakes in the pages of single ops",
    "tools/conformance/fused": "test cases: one op of each sort that no pattern takes in",
    "reference": "the oracle of the traits, written apart from them",
    "testing": "cases, inputs and tolerances, written for one op after the other",
    "frontends/onnx/meanings": "the names are those of ONNX nodes",
    "frontends/onnx/saving": "the names are those of ONNX nodes",
}
# Functions whose arguments name kinds, and why.
FUNCTIONS = {
    "add": "an entry of the faults names the ops that it concerns",
    "made": "the spellings of one pattern, which the lines below it tell apart",
}


# Text that may be one of names alone: most modules have none, and need no tree.
NAMES = re.compile(r"""["']\s*([A-Z]\w*(?:\s+[A-Z]\w*)*)\s*(?=["'])""")
CONSTRUCTORS = ("frozenset", "set", "list", "tuple", "union", "fromkeys", "split")


def names(node: ast.AST) -> list[str]:
    """The kinds that an expression lists itself."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = node.value.split()
        return words if KINDS.issuperset(words) else []
    if isinstance(node, ast.Starred):
        return names(node.value)
    if isinstance(node, (ast.List, ast.Set, ast.Tuple)):
        return [kind for element in node.elts for kind in names(element)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.Add)):
        return [*names(node.left), *names(node.right)]
    if isinstance(node, ast.BinOp):  # what is taken away is no part of the set
        return names(node.left)
    if function_of(node) in CONSTRUCTORS:
        parts = [*node.args, getattr(node.func, "value", node)] if function_of(node) == "split" else node.args
        return [kind for part in parts if part is not node for kind in names(part)]
    if isinstance(node, ast.Dict):
        shared = Counter(ast.dump(value) for value in node.values)
        found = zip(node.keys, node.values, strict=True)
        return [kind for key, value in found if key and shared[ast.dump(value)] > 2 for kind in names(key)]
    return []


def function_of(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def lists(node: ast.AST, used: set[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of the longest lists in a tree, and their kinds."""
    is_entry = function_of(node) == "add" and any(word.arg == "ops" for word in getattr(node, "keywords", ()))
    found = sorted(set(names(node)))
    if isinstance(node, ast.Call) and function_of(node) not in CONSTRUCTORS:
        found = sorted({kind for argument in node.args for kind in names(argument)})
    if is_entry or (function_of(node) == "made" and len(found) > 2):
        used.add(function_of(node))
        return
    if len(found) > 2:
        yield getattr(node, "lineno", 0), found
        return
    for child in ast.iter_child_nodes(node):
        yield from lists(child, used)


def listed(text: str) -> list[list[str]]:
    return [found for _, found in lists(ast.parse(text), set())]


@pytest.mark.parametrize(
    "text",
    [
        "A = frozenset(['Add', 'Exp', 'ReLU'])",
        "A = ('Add', 'Exp', 'ReLU')",
        "A = B | {'Add', 'Exp'} | {'ReLU'}",
        "A = {*('Add', 'Exp'), 'ReLU'}",
        "A = 'Add Exp ReLU'.split()",
        "A = {**dict.fromkeys(['Add', 'Exp', 'ReLU'], rule)}",
        "A = {'Add': rule, 'Exp': rule, 'ReLU': rule}",
        "@rewrites('Add', 'Exp', 'ReLU')\ndef f(): pass",
        "if kind in ('Add', 'Exp', 'ReLU'): pass",
    ],
)
def test_finds_a_list(text):
    assert listed(text) == [["Add", "Exp", "ReLU"]]


@pytest.mark.parametrize(
    "text",
    [
        "A = frozenset(['Add', 'Exp'])",
        "A = {'Add', 'Exp'} - {'ReLU'}",
        "A = {'Add': first, 'Exp': second, 'ReLU': third}",
        "FAULTS.add('name', ops='Add Exp ReLU')",
        "made(emit, value, 'Add', 'Exp', 'ReLU')",
        "A = ['Add', 'Exp', 'other words']",
        "parts.add('Add', parts.add('Exp', parts.add('ReLU', 0)))",
    ],
)
def test_passes_pairs_and_tables_of_rules(text):
    assert listed(text) == []


@pytest.mark.sources
def test_no_module_lists_three_kinds():
    found, used = list[str](), set[str]()
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        folder = next((name for name in FOLDERS if f"{place}/".startswith(f"{name}/")), None)
        if folder in used:
            continue
        text = path.read_text()
        if len(KINDS.intersection(word for words in NAMES.findall(text) for word in words.split())) < 3:
            continue
        for line, words in lists(ast.parse(text), used):
            if folder is None:
                found.append(f"onegraph/{place}:{line}: {', '.join(words)}")
            else:
                used.add(folder)
    assert not found, "make these sets from traits, as onegraph/opset/kinds.py does:\n" + "\n".join(found)
    assert used == FOLDERS.keys() | FUNCTIONS.keys()


def test_sets_hold_kinds_alone():
    made = {name: value for name, value in vars(kinds).items() if isinstance(value, frozenset)}
    assert {name for name, value in made.items() if not value or not value <= KINDS} == set()


# Defaults of attributes that are spelled where an op is read ----------------------------------------------------------

READ = re.compile(r'attrs\.get\("(\w+)", ("\w+"|-?[\d.]+|True|False)\)')
NO_DEFAULT = {("alpha", 1.0): "inputs that every slope suits"}


@pytest.mark.library
def test_spelled_defaults_are_those_of_an_op():
    known = {}
    for schema in (*BASE.values(), *edition("host").schemas.values()):
        for attribute in schema.attributes:
            default = attribute.default
            known.setdefault(attribute.name, []).append(default.value if isinstance(default, Fill) else default)
    spelled = {
        (path.name, name, ast.literal_eval(text))
        for path in PACKAGE.rglob("*.py")
        if not {"frontends", "tools"} & {*path.parts}
        for name, text in READ.findall(path.read_text())
    }
    assert len(spelled) > 30
    assert not [each for each in spelled if each[1:] not in NO_DEFAULT and each[2] not in known.get(each[1], [each[2]])]
