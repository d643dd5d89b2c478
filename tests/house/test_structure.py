"""The stages of the package: each imports only those below, and the core works without the library."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.grouped import grouped

from onegraph.opset.editions.registry import BASE, EDITIONS, base_of, edition
from onegraph.reference import reference_function

pytestmark = pytest.mark.sources

PACKAGE = Path(__file__).parents[2] / "onegraph"
# The stages of the package. Each imports only stages above its own line; no file waits for one that waits for it.
STAGES = {
    "_version": "the version, which the build reads too",
    "errors": "every exception, and the record of a violation",
    "_util": "small tools without any knowledge of oneDNN",
    "opset": "the specification as data: a record for each op, and the editions",
    "ir": "the records that a graph is made of",
    "arrays": "arrays of numpy and of other libraries, taken and made",
    "inference": "one op examined: violations, data types, shapes",
    "builder": "graphs as data, and one method for each op",
    "native": "the extension: the oneDNN library is loaded and called here alone",
    "faults": "what oneDNN gets wrong, by version",
    "checker": "ops and graphs held against the specification and the library",
    "reference": "every op in numpy",
    "serialize": "graphs to and from files",
    "transform": "graphs made from graphs",
    "lowering": "what models and gradients compute, as ops",
    "gradient": "graphs differentiated: a rule for each op",
    "training": "losses and optimizers as ops",
    "view": "pictures of graphs",
    "capi": "the objects of the C API, one to one",
    "compiler": "from a graph to compiled steps",
    "runtime": "compiled graphs run on arrays",
    "graph": "the public Graph",
    "loading": "what graphs and executables saved, read again",
    "judging": "what decides whether a model is right, for every front end",
    "frontends": "models of other packages become graphs, and graphs models",
    "onnx": "the public names of the ONNX front end",
    "gguf": "the public names of the reader of GGUF files",
    "torch": "the public names of the PyTorch front end",
    "distributed": "batches for cluster engines, and data-parallel training",
    "testing": "cases, random graphs, random inputs, tolerances",
    "tools": "verify, bench, reduce, capture, conformance",
    "__init__": "the public names",
    "cli": "the command line",
    "__main__": "python -m onegraph",
}
# What a checkout holds beside the package.
TOP = {
    "pyproject.toml",
    "build_ffi.py",
    "onegraph",
    "include",
    "tests",
    "examples",
    "README.md",
} | {
    *("benchmarks", "docs", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE", "Makefile"),
    *(".gitignore", ".ci", ".github"),
}
# What stands on the library, which the core does without.
NEEDS_LIBRARY = {"native", "capi", "compiler", "runtime"}
# The border: the modules that take values straight from users, who may pass anything, and make plain values of them.
BORDER = {
    "_util.paths": "paths",
    "_util.validation": "single arguments: strings, flags, numbers, lists of one class, dictionaries",
    "opset.dtypes": "data types, in every way of writing them",
    "opset.editions.registry": "names of editions and ops",
    "ir.tensor_type": "types of tensors, shapes and strides",
    "arrays.ndarrays": "arrays of numpy and of other libraries",
    "inference.op_inference": "attributes, inputs and outputs of an op that is checked",
    "inference.suggestions": "whatever was given instead, for messages that say what was probably meant",
    "inference.violations": "whatever was given instead, as text",
    "builder.tensors": "arguments of inputs, constants and outputs",
    "builder.adding_ops": "arguments of ops",
    "builder.chosen_outputs": "outputs to return in place of those of the graph",
    "builder.editing": "ops, and what takes the place of their results",
    "builder.readers": "ops and outputs that an edit names",
    "builder.rewriting": "patterns, and what they return",
    "builder.graph": "graphs that are given to functions",
    "builder.operators": "operands of Python's operators",
    "builder.parts": "indices of parts of a tensor",
    "builder.op_outputs": "names of the outputs that are wanted",
    "checker.check": "graphs, and records of ops that were made by hand",
    "checker.library_limits": "versions to check against",
    "serialize": "texts of files, and versions to write for",
    "serialize.files": "paths",
    "gradient.arguments": "outputs, inputs and gradients to start from",
    "frontends.onnx.class_labels": "a path, the bytes of a model, or a proto",
    "frontends.onnx.load": "paths of models, and shapes and contents of inputs",
    "frontends.onnx.read": "models as bytes and as protos",
    "frontends.torch.options": "options of the backend",
    "frontends.torch.export": "modules and example inputs",
    "frontends.torch.judge.verification": "modules and inputs to judge",
    "training.arguments": "tensors and numbers of losses and optimizers",
    "transform.modes": "names of constants",
    "transform.rewrite_values": "options of benchdnn",
    "inference.translate_op": "tensors of an op that is translated",
    "tools.quantize": "names of ops",
    "tools.ranges": "samples of the inputs of calls",
    "view.given": "reports, violations and times to draw",
    "capi.logical_tensor": "strides, and what a tensor is compared with",
    "capi.op": "names of ops and attributes",
    "capi.partition": "the pointer of a partition",
    "distributed.batches": "models, and batches of arrays",
    "runtime.compile_options": "threads, by partition",
    "runtime.arguments": "arrays of a call",
    "tools.run_op": "arrays of one op",
    "tools.python_code": "variables of a file of Python code",
}
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


@functools.cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


@functools.cache
def nodes_of(name: str) -> list[ast.AST]:
    return [*ast.walk(tree_of(name))]


@functools.cache
def imports(name: str) -> set[str]:
    """The modules of the package that a module imports, at the top, inside functions, or for type checkers."""
    path, found = MODULES[name], set()
    package = path.relative_to(PACKAGE).parent.parts
    for node in nodes_of(name):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            source = ".".join(filter(None, base))
            for alias in node.names:
                inner = ".".join(filter(None, (source, alias.name)))
                found.add(inner if inner in MODULES else source or "__init__")
    return found - {name}


def stage(name: str) -> str:
    return name.split(".")[0]


@pytest.mark.library
def test_map_of_the_code_names_every_stage_in_order():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    table = text.partition("## A map of the code")[2].partition("\n\nOutside")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)]
    order = [*STAGES]
    assert sorted(named) == sorted(order)
    assert [order.index(name) for name in named] == sorted(order.index(name) for name in named)


def test_nothing_else_lies_at_the_top():
    top = Path(__file__).parents[2]
    listed = subprocess.run(["git", "ls-files"], cwd=top, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("git does not know the files of a source archive")
    assert {name.partition("/")[0] for name in listed.stdout.split("\n") if name} <= TOP


def test_the_stages_are_all_there_is():
    assert {stage(name) for name in MODULES} == set(STAGES)


@grouped("name", MODULES, key=lambda name: stage(name))
def test_a_stage_imports_only_stages_below(name):
    order = [*STAGES]
    for other in imports(name):
        if stage(other) != stage(name):
            assert order.index(stage(other)) < order.index(stage(name)), f"{name} must not import {other}"


def test_no_imports_form_a_circle():
    try:
        [*graphlib.TopologicalSorter({name: imports(name) for name in MODULES}).static_order()]
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@grouped("name", MODULES, key=lambda name: stage(name))
def test_values_become_plain_at_the_border_alone(name):
    """The border asks for the real type of a value; all other modules are given plain values and trust them.

    ``isinstance``, and a class in a ``match``, ask a value for its ``__class__``, which mocks lie about.
    """
    asks = {node.id for node in nodes_of(name) if isinstance(node, ast.Name)} & {"isinstance"}
    asks |= {"match" for node in nodes_of(name) if isinstance(node, ast.MatchClass)}
    assert ("_util.exact_types" in imports(name)) == (name in BORDER)
    assert not (name in {*BORDER, "_util.exact_types"} and asks), "the border asks for the real type"
    assert "isinstance" not in bound(nodes_of(name)), "isinstance is Python's"


def bound(nodes: list[ast.AST]) -> set[str]:
    """The names that nodes of a module bind."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.alias():
                found.add(node.asname or node.name)
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.arg():
                found.add(node.arg)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
    return found


def test_no_cached_property_of_functools():
    own = re.compile(r"^from functools import .*cached_property", flags=re.MULTILINE)
    assert [path.name for path in PACKAGE.rglob("*.py") if own.search(path.read_text())] == []


def calls_itself(source):
    """Whether a function within another one names itself: then the two, and all they know, refer to themselves."""
    outer = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    inner = [node for one in outer for part in one.body for node in ast.walk(part) if isinstance(node, ast.FunctionDef)]
    return any(isinstance(node, ast.Name) and node.id == one.name for one in inner for node in ast.walk(one))


def test_no_inner_function_keeps_what_it_knows_until_the_collector_runs():
    """A weight would stay in memory, where a module function or a method frees it at once."""
    assert calls_itself("def f():\n    def g(x):\n        return g(x)\n    return g")
    assert not calls_itself("def f():\n    def g(x):\n        return f(x)\n    return g")
    assert [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if calls_itself(path.read_text())] == []


@pytest.mark.library
def test_only_native_knows_the_extension():
    assert [name for name, path in MODULES.items() if "_ffi" in path.read_text()] == ["native.load"]


@pytest.mark.parametrize("name", EDITIONS)
def test_every_rule_says_what_it_is(name):
    for schema in edition(name).schemas.values():
        base = base_of(schema)
        assert all(rule.__doc__ and rule.__doc__.strip() for rule in (*base.rules, *base.shape_rules)), schema.kind


@grouped("kind", BASE, key=lambda kind: BASE[kind].category)
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


@grouped("path", sorted(Path(__file__).parents[1].glob("*/test_*.py")), key=lambda path: path.stem.split("_")[1])
def test_no_test_module_imports_another(path):
    """Shared code belongs to tests/helpers; a script in a string may import the module that it stands in."""
    imported = re.findall(r"^ *(?:from|import) +(?:tests\.)?(test_\w+)", path.read_text(), flags=re.MULTILINE)
    assert set(imported) <= {path.stem}


LINES_OF_A_MODULE, LINES_OF_A_FUNCTION = 350, 60
# Docstrings of the public Graph, and a list of records with their examples.
LONG = {"graph"}


def test_modules_and_functions_are_short():
    long = {name for name, path in MODULES.items() if path.read_text().count("\n") > LINES_OF_A_MODULE}
    assert long <= LONG
    for name in MODULES:
        for node in nodes_of(name):
            if isinstance(node, ast.FunctionDef):
                first = node.body[bool(ast.get_docstring(node)) if len(node.body) > 1 else 0]
                assert node.end_lineno - first.lineno < LINES_OF_A_FUNCTION, f"{name}: {node.name}"
