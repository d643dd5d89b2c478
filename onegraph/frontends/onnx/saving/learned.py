"""Writes trees, the choice of a class, and tables of keys as nodes of ai.onnx.ml and plain ones."""

from __future__ import annotations

from itertools import islice

import numpy as np

from ....arrays.trees import (
    BITS,
    FAILS,
    HEAD,
    HOLDS,
    LEAF,
    MISSING,
    broken,
    broken_weights,
    leaf_numbers_of,
    thresholds_of,
)
from ....errors import UnsupportedError
from ....opset.dtypes import DataType
from ....opset.host.learned import AVERAGE, COMPLEMENT, LOGISTIC, MAXIMUM, MINIMUM, MIRROR, NONE, SOFTMAX, SUM
from ....opset.schema import Call
from ..proven import ML
from .body import Array, NodeValue
from .nodes import Attr
from .table import known_dims_of, writes

MODES = ("LEAF", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
AGGREGATES = {SUM: "SUM", AVERAGE: "AVERAGE", MINIMUM: "MIN", MAXIMUM: "MAX"}
OLD = 2  # the oldest op set of ai.onnx.ml that has the nodes written here
NAMES = {DataType.s64: "int64s", DataType.f32: "floats"}


def _constant(call: Call, name: str, value: NodeValue) -> Array:
    array = value.body.known(value)
    if array is None:
        raise UnsupportedError(f"{call.schema.kind}: {name} is no constant; ONNX has it as an attribute")
    return array


def _nodes_of(table: Array, root: int) -> Array:
    """The nodes that a walk from a root may meet, the root first; trees may share nodes."""
    levels, level = list[Array](), np.array([root])
    while len(level):
        levels.append(level)
        inner = level[table[level, HEAD] != LEAF]
        level = np.unique(table[inner, HOLDS : FAILS + 1])
    return np.unique(np.concatenate(levels))


@writes("host TreeEnsemble")
def tree_ensemble(
    call: Call,
    src: NodeValue,
    nodes: NodeValue,
    roots: NodeValue,
    weights: NodeValue,
    base: NodeValue | None = None,
    targets: NodeValue | None = None,
    starts: NodeValue | None = None,
) -> NodeValue:
    if src.dtype is not DataType.f32 or call.flag("absent"):
        raise UnsupportedError("TreeEnsemble: float64, or absent targets; ONNX has no such node with these inputs")
    table, first, numbers = (
        _constant(call, name, value) for name, value in (("nodes", nodes), ("roots", roots), ("weights", weights))
    )
    known = [None if value is None else _constant(call, "an input", value) for value in (base, targets, starts)]
    starts_of = np.arange(len(numbers) + 1) if known[2] is None else known[2].astype(np.int64)
    (features,) = known_dims_of(call, (call.shape("src") or (None, None))[1:], "the features")
    count = call.s64("n_targets")
    wrong = broken(table, first, features, len(starts_of) - 1)
    wrong = wrong or broken_weights(known[2], known[1], len(numbers), count)
    if wrong:
        raise UnsupportedError(wrong)
    trees = [_nodes_of(table, root) for root in first]
    tree, place = np.repeat(np.arange(len(trees)), [*map(len, trees)]), np.concatenate(trees)
    head, is_leaf = table[place, HEAD], table[place, HEAD] == LEAF
    leaf = np.flatnonzero(is_leaf)
    # The weights of each leaf, one after another. ONNX Runtime wants as many weights as targets.
    begin, end = (starts_of[leaf_numbers_of(table)[place[leaf]] + one] for one in (0, 1))
    owner = np.repeat(leaf, end - begin)
    weight = np.concatenate([np.arange(*pair) for pair in zip(begin, end, strict=True)])
    ids = np.zeros(len(owner), np.int64) if known[1] is None else known[1][weight]
    attrs: dict[str, Attr] = {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": place.tolist(),
        "nodes_featureids": (head >> BITS).tolist(),
        "nodes_modes": [MODES[kind] for kind in head & (MISSING - 1)],
        "nodes_values": np.where(is_leaf, 0, thresholds_of(table)[place]).tolist(),
        "nodes_truenodeids": np.where(is_leaf, 0, table[place, HOLDS]).tolist(),
        "nodes_falsenodeids": np.where(is_leaf, 0, table[place, FAILS]).tolist(),
        "nodes_missing_value_tracks_true": (head & MISSING != 0).astype(int).tolist(),
        "target_treeids": tree[owner].tolist(),
        "target_nodeids": place[owner].tolist(),
        "target_ids": ids.tolist(),
        "target_weights": numbers[weight].tolist(),
        "n_targets": count,
        "aggregate_function": AGGREGATES[call.string("aggregate")],
    }
    if known[0] is None or not known[0].any():
        added = None
    elif len(np.unique(owner * count + ids)) == len(leaf) * count:
        attrs["base_values"], added = known[0].tolist(), None
    else:  # ONNX Runtime adds no base value to a target for which no leaf of a row has a weight
        added = src.body.constant(known[0])
    src.body.functions.imports[ML] = OLD
    (result,) = src.body.nodes_results("TreeEnsembleRegressor", [src], [DataType.f32], ML, **attrs)
    return result if added is None else result + added


@writes("host Classify")
def classify(call: Call, src: NodeValue, classes: NodeValue) -> tuple[NodeValue, NodeValue]:
    """An ArgMax or a comparison, and the transform as a node."""
    body, transform, columns = src.body, call.string("transform"), (call.shape("src") or (None, None))[1]
    if transform not in (NONE, LOGISTIC, SOFTMAX) or columns is None:
        raise UnsupportedError(f"Classify: transform {transform} of {columns} columns; ONNX has no node for it")
    scores = src
    if columns == 1 and call.shape("classes") == (2,):
        opposite = {COMPLEMENT: 1.0 - src, MIRROR: -src}.get(call.string("opposite"), src * 0.0)
        is_last = src.compare("Greater", float(call.f32("threshold"))).cast(DataType.s64).reshape(-1)
        label, scores = classes.op("Gather", is_last, axis=0), body.node("Concat", [opposite, src], axis=1)
    else:
        order = src
        if call.flag("absent"):
            lowest = float(np.finfo(np.float64 if src.dtype is DataType.float64 else np.float32).min)  # -inf is a score
            order = src.op("IsNaN", dtype=DataType.boolean).where(float("-inf"), src.op("Clip", lowest))
            scores = src.op("IsNaN", dtype=DataType.boolean).where(0.0, src)
        best = order.op("ArgMax", dtype=DataType.s64, axis=1, keepdims=0)
        label = classes.op("Gather", best, axis=0)
    scores = scores.cast(DataType.f32)
    return label, scores if transform == NONE else scores.op("Sigmoid") if transform == LOGISTIC else scores.op(
        "Softmax", axis=1
    )


@writes("host LookUp")
def look_up(call: Call, src: NodeValue, keys: NodeValue, values: NodeValue, default: NodeValue) -> NodeValue:
    """A LabelEncoder."""
    if keys.dtype not in NAMES or values.dtype not in NAMES:
        raise UnsupportedError(f"LookUp: keys of {keys.dtype} and values of {values.dtype}; ONNX has s64 and f32")
    attrs: dict[str, Attr] = {
        f"keys_{NAMES[keys.dtype]}": _constant(call, "keys", keys).tolist(),
        f"values_{NAMES[values.dtype]}": _constant(call, "values", values).tolist(),
        f"default_{NAMES[values.dtype][:-1]}": _constant(call, "other", default).item(),
    }
    src.body.functions.imports[ML] = OLD
    (result,) = src.body.nodes_results("LabelEncoder", [src], [values.dtype], ML, **attrs)
    return result


@writes("host CountTuples")
def count_tuples(call: Call, src: NodeValue) -> NodeValue:
    """A TfIdfVectorizer, which has the tuples by their size."""
    elements, tuples = iter(call.s64s("tuples")), list[tuple[int, ...]]()
    for size in call.s64s("sizes"):
        tuples.append(tuple(islice(elements, size)))
    if not tuples or len({*tuples}) < len(tuples):
        raise UnsupportedError("CountTuples: equal tuples, or none; ONNX has no such node")
    order = sorted(range(len(tuples)), key=lambda place: len(tuples[place]))
    longest = len(tuples[order[-1]])
    attrs: dict[str, Attr] = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": longest,
        "max_skip_count": call.s64("skips"),
        "ngram_counts": [sum(len(one) for one in tuples if len(one) < size) for size in range(1, longest + 1)],
        "ngram_indexes": [call.s64s("columns")[place] for place in order],
        "pool_int64s": [element for place in order for element in tuples[place]],
    }
    if max(call.s64s("columns")) + 1 < call.s64("width"):
        raise UnsupportedError("CountTuples: columns without a tuple at the end; ONNX has no such node")
    (result,) = src.body.nodes_results("TfIdfVectorizer", [src], [DataType.f32], **attrs)
    return result
