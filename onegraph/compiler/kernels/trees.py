"""Decision trees of f32 or float64, several walks at once, and what classifiers and encoders look up.

A walk reads memory at numbers that a table has, so that the tables must be constants, which are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arrays.trees import HEAD, LEAF, MISSING, broken, broken_weights, is_ascending
from ...opset.dtypes import DataType
from ..ir.step import Step
from ..ir.value import Value
from .kernel import NOT_EMPTY, Kernel, call_of
from .native import Numbers

OPTIONAL = ("base", "targets", "starts")
# What all nodes have in common in walks of their own, by the first number of a node without its feature.
WALKS = {
    frozenset([1]): "less_equal",
    frozenset([2]): "less",
    frozenset([1, 1 + MISSING]): "less_equal_missing",
    frozenset([2, 2 + MISSING]): "less_missing",
}
TYPES = {DataType.float64: "f64"}


def _walks_end(values: Sequence[Value]) -> bool:
    """Whether the tables of trees are constants through which every walk ends at weights of targets."""
    src, nodes, roots, weights, *further, dst = values
    targets, starts = [*further[1:], None, None][:2]
    tables = [None if value is None else value.constant for value in (nodes, roots, targets, starts)]
    needed = [value for value in (nodes, roots, targets, starts) if value is not None]
    if any(value.constant is None for value in needed):
        return False
    assert tables[0] is not None
    assert tables[1] is not None
    leaves = weights.shape[0] if tables[3] is None else len(tables[3]) - 1
    wrong = broken(tables[0], tables[1], src.shape[1], leaves)
    return not (wrong or broken_weights(tables[3], tables[2], weights.shape[0], dst.shape[1]))


def _is_sorted(values: Sequence[Value]) -> bool:
    keys = values[1].constant
    return keys is not None and is_ascending(keys)


def _tree_numbers(step: Step) -> Numbers:
    call, nodes = call_of(step), step.op.inputs[1]
    assert nodes is not None
    head = np.zeros(0, np.int32) if nodes.value is None else np.asarray(nodes.value)[:, HEAD]
    kinds = {int(kind) for kind in np.unique(head[head != LEAF] & (2 * MISSING - 1))}
    common = (name for walk_kinds, name in WALKS.items() if kinds and kinds <= walk_kinds)
    return {
        "targets": call.s64("n_targets"),
        "aggregate": call.string("aggregate"),
        "absent": call.flag("absent"),
        "comparison": next(common, "any"),
        "wide": _is_wide(step),
        **{f"has_{name}": call.input(name) is not None for name in OPTIONAL},
    }


def _is_wide(step: Step) -> bool:
    src = step.op.inputs[0]
    assert src is not None
    return src.dtype is DataType.float64


def _class_numbers(step: Step) -> Numbers:
    call = call_of(step)
    names = ("transform", "opposite")
    return {
        **{name: call.string(name) for name in names},
        "threshold": call.f32("threshold"),
        "absent": call.flag("absent"),
        "wide": _is_wide(step),
    }


def _key_numbers(step: Step) -> Numbers:
    dtypes = [DataType.s64 if tensor is None else tensor.dtype for tensor in step.op.inputs[1:3]]
    names = [TYPES.get(dtype, dtype.value) for dtype in dtypes]
    return {"keys": names[0], "values": names[1]}


KERNELS = (
    Kernel(
        "trees",
        "by onegraph, several walks at once",
        kinds=("TreeEnsemble",),
        takes=(NOT_EMPTY, (_walks_end, "the tables of the trees are no constants, or wrong")),
        numbers=_tree_numbers,
    ),
    Kernel(
        "classify",
        "by onegraph, label and scores together",
        kinds=("Classify",),
        takes=(NOT_EMPTY,),
        numbers=_class_numbers,
    ),
    Kernel(
        "find_keys",
        "by onegraph, in a sorted table",
        kinds=("LookUp",),
        takes=(NOT_EMPTY, (_is_sorted, "the keys are no constants in ascending order")),
        numbers=_key_numbers,
    ),
)
