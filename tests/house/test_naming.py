"""No two classes of the package share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREES = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "onegraph").rglob("*.py"))}

# Each is public in two forms: as data in ``onegraph``, and as the object of the C API in ``onegraph.capi``.
TWO_FORMS = {
    "Graph": {"onegraph/graph.py", "onegraph/capi/graph.py"},
    "LogicalTensor": {"onegraph/ir/op.py", "onegraph/capi/logical_tensor.py"},
    "Op": {"onegraph/ir/op.py", "onegraph/capi/op.py"},
}


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    shared = {name: set(paths) for name, paths in places.items() if len(paths) > 1}
    assert shared == TWO_FORMS
