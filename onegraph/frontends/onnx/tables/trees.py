"""Lowers ensembles of decision trees, in the classic form and in that of op set 5 of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...._util.counted import counted
from ....arrays.trees import LEAF, Trees
from ....lowering.emitter import Array, Value, dtype_of
from ....lowering.movement import cast
from ....lowering.trees import LeafWeights, classify, tree_ensemble
from ....opset.dtypes import DataType
from ....opset.host import learned
from ..node import Node, lowers
from ..proven import ML
from .ml import labels_of, refused, rows_of

MODES = {
    "BRANCH_LEQ": 1,
    "BRANCH_LT": 2,
    "BRANCH_GTE": 3,
    "BRANCH_GT": 4,
    "BRANCH_EQ": 5,
    "BRANCH_NEQ": 6,
    "LEAF": LEAF,
}
MEMBER, EQUAL = 6, 5
AGGREGATES = {"AVERAGE": learned.AVERAGE, "SUM": learned.SUM, "MIN": learned.MINIMUM, "MAX": learned.MAXIMUM}
TRANSFORMS = {
    "NONE": learned.NONE,
    "SOFTMAX": learned.SOFTMAX,
    "LOGISTIC": learned.LOGISTIC,
    "SOFTMAX_ZERO": learned.SOFTMAX_ZERO,
}
LOWERED = "a post_transform of NONE, as converters write it beside one target"


def _integers(node: Node, name: str, size: int | None = None) -> Array:
    integers = np.array(node.attr(name, []), np.int64)
    if size is not None and len(integers) != size:
        raise node.invalid(f"{name} of {counted(len(integers), 'element')}", f"{size}, one for each node")
    return integers


def _numbers(node: Node, name: str, dtype: Any) -> Array:
    """An attribute of floats, or the tensor that op sets from 3 on may have in its place."""
    numbers = node.attr(f"{name}_as_tensor")
    if numbers is not None:
        numbers = node.importer.array(numbers, f"{node.where}: {name}_as_tensor")
    return np.array(node.attr(name, []) if numbers is None else numbers, dtype).reshape(-1)


class TreePlaces:
    """Finds nodes by the number of their tree and their own number there."""

    def __init__(self, node: Node, trees: Array, numbers: Array) -> None:
        self._node, self._trees = node, np.unique(trees)
        self._low, self._high = int(numbers.min()), int(numbers.max())
        self._span = self._high - self._low + 1
        if self._span * max(len(self._trees), 1) >= 1 << 62:
            raise node.invalid(f"node numbers up to {self._high}", "smaller numbers")
        keys = self._keys(trees, numbers)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        twice = self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]
        if len(twice):
            raise node.invalid("two nodes of one number in a tree", "a number for each node of a tree")

    def _keys(self, trees: Array, numbers: Array) -> Array:
        places: Array = np.searchsorted(self._trees, trees) * self._span + (numbers - self._low)
        return places

    def find(self, trees: Array, numbers: Array, port_name: str) -> Array:
        """The nodes, as places in the attributes."""
        is_known = np.isin(trees, self._trees) & (numbers >= self._low) & (numbers <= self._high)
        keys = self._keys(np.where(is_known, trees, self._trees[0]), np.where(is_known, numbers, self._low))
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        is_known &= self._sorted[at] == keys
        if not is_known.all():
            place = int(np.argmin(is_known))
            raise self._node.invalid(
                f"{port_name} {numbers[place]} of tree {trees[place]}", "the number of a node of the tree"
            )
        places: Array = self._order[at]
        return places


def _classic(node: Node, prefix: str, dtype: Any) -> tuple[Trees, LeafWeights]:
    """The trees and weights in the attributes of a TreeEnsembleClassifier or a TreeEnsembleRegressor."""
    owner = _integers(node, "nodes_treeids")
    count = len(owner)
    if not count:
        raise node.invalid("no nodes_treeids", "at least one node")
    modes = [one.decode() if isinstance(one, bytes) else one for one in node.attr("nodes_modes", [])]
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown or len(modes) != count:
        raise node.invalid(f"nodes_modes {unknown[:1] or len(modes)}", f"{count} of {', '.join(MODES)}")
    places = TreePlaces(node, owner, _integers(node, "nodes_nodeids", count))
    comparison = np.array([MODES[mode] for mode in modes])
    ends = [_integers(node, f"nodes_{name}nodeids", count) for name in ("true", "false")]
    inner = comparison != LEAF
    following = [np.zeros(count, np.int64), np.zeros(count, np.int64)]
    for numbers, target, name in zip(ends, following, ("nodes_truenodeids", "nodes_falsenodeids"), strict=True):
        target[inner] = places.find(owner[inner], numbers[inner], name)
    thresholds = _numbers(node, "nodes_values", dtype)
    if len(thresholds) != count:
        raise node.invalid(f"nodes_values of {counted(len(thresholds), 'element')}", f"{count}, one for each node")
    missing = _integers(node, "nodes_missing_value_tracks_true")
    if len(missing) not in (0, count):
        raise node.invalid(f"nodes_missing_value_tracks_true of {counted(len(missing), 'element')}", f"{count} or none")
    roots = np.sort(np.unique(owner, return_index=True)[1])
    is_missing = missing == 1 if len(missing) else np.zeros(count, np.bool_)
    features = _integers(node, "nodes_featureids", count)
    trees = Trees(features, thresholds, comparison, is_missing, following[0], following[1], roots)
    targets = _integers(node, f"{prefix}_ids")
    size = len(targets)
    at = places.find(_integers(node, f"{prefix}_treeids", size), _integers(node, f"{prefix}_nodeids", size), "leaf")
    number = _numbers(node, f"{prefix}_weights", dtype)
    if len(number) != size:
        raise node.invalid(f"{prefix}_weights of {counted(len(number), 'element')}", f"{size}, as {prefix}_ids")
    return trees, LeafWeights(at, targets, number)


def _scores(node: Node, trees: Trees, weights: LeafWeights, n_targets: int, **more: Any) -> Value:
    dtype = DataType.float64 if trees.threshold.dtype == np.float64 else DataType.f32
    src = cast(node.emit, rows_of(node), dtype)
    width = src.shape[1] if src.shape is not None and len(src.shape) == 2 else None
    wrong = trees.feature[(trees.comparison != LEAF) & (trees.feature >= (width or trees.feature.max(initial=0) + 1))]
    if len(wrong):
        raise node.invalid(f"feature {wrong[0]} of an input with {width} features", "features of the input")
    try:
        return tree_ensemble(node.emit, src, trees, weights, n_targets, **more)
    except ValueError as error:
        raise node.invalid(str(error), "decision trees, whose walks end at leaves") from None


def _is_wide(node: Node) -> Any:
    return np.float64 if dtype_of(node.value(0)) is DataType.float64 else np.float32


@lowers("TreeEnsembleRegressor", domain=ML)
def regressor(node: Node) -> Value:
    """The sum, average, minimum or maximum of the weights of leaves, for each target."""
    dtype, n_targets = _is_wide(node), node.attr("n_targets", 1)
    transform, aggregate = node.attr("post_transform", "NONE"), node.attr("aggregate_function", "SUM")
    if transform != "NONE":
        raise refused(node, f"post_transform {transform}; expected {LOWERED}")
    if aggregate not in AGGREGATES or n_targets < 1:
        raise node.invalid(f"aggregate_function {aggregate}, n_targets {n_targets}", f"one of {', '.join(AGGREGATES)}")
    base = _numbers(node, "base_values", dtype)
    if len(base) not in (0, n_targets):
        raise refused(node, f"{counted(len(base), 'base_value')} for {counted(n_targets, 'target')}")
    trees, weights = _classic(node, "target", dtype)
    base_scores = base if len(base) else None
    result = _scores(node, trees, weights, n_targets, aggregate=AGGREGATES[aggregate], base=base_scores)
    return cast(node.emit, result, DataType.f32)


@lowers("TreeEnsembleClassifier", domain=ML)
def classifier(node: Node) -> tuple[Value, Value]:
    """The class with the largest sum of the weights of leaves, and a score for each class."""
    classes, dtype = labels_of(node, "classlabels_int64s"), _is_wide(node)
    transform = node.attr("post_transform", "NONE")
    if transform not in TRANSFORMS:
        raise refused(node, f"post_transform {transform}")
    trees, weights = _classic(node, "class", dtype)
    base, ids = _numbers(node, "base_values", dtype), np.unique(weights.target)
    attrs: dict[str, object] = {"transform": TRANSFORMS[transform]}
    if len(classes) == 2 and len(ids) == 1:
        if len(base) not in ((0,) if ids[0] else (0, 1)):
            raise refused(node, f"{counted(len(base), 'base_value')} beside weights of one of two classes")
        # One class has the scores; 1 / 2 decides between probabilities, 0 between other scores.
        is_positive = bool((weights.number >= 0).all())
        attrs["threshold"] = 0.5 if is_positive else 0.0
        attrs["opposite"] = learned.ZERO if ids[0] else learned.COMPLEMENT if is_positive else learned.MIRROR
        if not ids[0]:
            is_logistic = transform == "LOGISTIC"
            attrs["transform"] = learned.LOGISTIC if is_logistic else learned.NONE
            attrs["opposite"] = learned.MIRROR if is_logistic else attrs["opposite"]
        count, weights = 1, weights._replace(target=np.zeros_like(weights.target))
    else:
        count, is_whole = len(classes), len(base) == len(classes)
        if len(base) and not is_whole:
            raise refused(node, f"{counted(len(base), 'base_value')} for {counted(count, 'class')}")
        attrs["absent"] = not is_whole
    absent = bool(attrs.get("absent", False))
    scores = _scores(node, trees, weights, count, base=base if len(base) else None, absent=absent)
    return classify(node.emit, scores, classes, attrs)


@lowers("TreeEnsemble", domain=ML)
def tree_ensemble_5(node: Node) -> Value:
    """Trees whose inner nodes and leaves have arrays of their own."""
    if node.attr("post_transform", 0) != 0:
        raise refused(node, f"post_transform {node.attr('post_transform')}; expected {LOWERED}")
    dtype, n_targets = _is_wide(node), node.attr("n_targets", 1)
    aggregate = node.attr("aggregate_function", 1)
    if aggregate not in range(4) or n_targets < 1:
        raise node.invalid(f"aggregate_function {aggregate}, n_targets {n_targets}", "0 to 3, and at least 1")
    trees, weights = _with_leaves(node, dtype)
    return _scores(node, trees, weights, n_targets, aggregate=[*AGGREGATES.values()][aggregate])


def _tensor(node: Node, name: str, dtype: Any) -> Array:
    if not node.has(name):
        return np.zeros(0, dtype)
    return np.asarray(node.importer.array(node.attr(name), f"{node.where}: {name}")).reshape(-1).astype(dtype)


def _with_leaves(node: Node, dtype: Any) -> tuple[Trees, LeafWeights]:
    """The trees and weights of op set 5: the leaves come behind the inner nodes here."""
    features = _integers(node, "nodes_featureids")
    count = len(features)
    modes = _tensor(node, "nodes_modes", np.int64)
    thresholds, ids = _tensor(node, "nodes_splits", dtype), _integers(node, "leaf_targetids")
    number, size = _tensor(node, "leaf_weights", dtype), len(ids)
    if len(modes) != count or len(thresholds) != count or len(number) != size:
        raise node.invalid(
            "nodes_modes, nodes_splits or leaf_weights of other sizes",
            f"{counted(count, 'node')}, {counted(size, 'leaf')}",
        )
    if ((modes < 0) | (modes > MEMBER)).any():
        raise node.invalid(f"nodes_modes up to {modes.max()}", f"0 to {MEMBER}")
    missing = _integers(node, "nodes_missing_value_tracks_true")
    if len(missing) not in (0, count):
        raise node.invalid(f"nodes_missing_value_tracks_true of {counted(len(missing), 'element')}", f"{count} or none")
    ends = []
    for side in ("true", "false"):
        numbers, leaf = _integers(node, f"nodes_{side}nodeids", count), _integers(node, f"nodes_{side}leafs", count)
        limit = np.where(leaf != 0, size, count)
        if ((numbers < 0) | (numbers >= limit)).any():
            raise node.invalid(
                f"nodes_{side}nodeids beyond the nodes or leaves", f"{counted(count, 'node')}, {counted(size, 'leaf')}"
            )
        ends.append(np.where(leaf != 0, numbers + count, numbers))
    leaves, members = np.zeros(size, np.int64), _tensor(node, "membership_values", dtype)
    trees = Trees(
        np.concatenate([features, leaves]),
        np.concatenate([thresholds, leaves.astype(dtype)]),
        np.concatenate([modes + 1, leaves + LEAF]),
        np.concatenate([missing == 1 if len(missing) else np.zeros(count, np.bool_), leaves.astype(np.bool_)]),
        np.concatenate([ends[0], leaves]),
        np.concatenate([ends[1], leaves]),
        _integers(node, "tree_roots"),
    )
    weights = LeafWeights(np.arange(size) + count, ids, number)
    is_member = modes == MEMBER
    return (_with_members(node, trees, members, is_member), weights) if is_member.any() else (trees, weights)


def _with_members(node: Node, trees: Trees, values: Array, is_member: Array) -> Trees:
    """The trees with an equality, and a node behind it, in the place of each element of a set.

    ``values`` has the sets of the nodes that compare with one, each with NaN behind it.
    """
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) < np.count_nonzero(is_member):
        raise node.invalid(
            f"membership_values of {counted(len(ends), 'set')}", "a set with NaN behind it for each BRANCH_MEMBER"
        )
    lists = [[*values[first:end]] for first, end in zip([0, *(ends[:-1] + 1)], ends, strict=True)]
    arrays: Mapping[str, list[Any]] = {name: [*getattr(trees, name)] for name in Trees._fields[:-1]}
    for place, members in zip(np.flatnonzero(is_member), lists, strict=False):
        fails, at = arrays["fails"][place], int(place)
        if not members:
            raise node.invalid("an empty set in membership_values", "at least one element")
        arrays["comparison"][at], arrays["threshold"][at] = EQUAL, members[0]
        for member in members[1:]:
            arrays["fails"][at] = len(arrays["fails"])
            at = len(arrays["fails"])
            for name, column in arrays.items():
                column.append(arrays[name][place])
            arrays["threshold"][at] = member
        arrays["fails"][at] = fails
    made = {name: np.array(column, getattr(trees, name).dtype) for name, column in arrays.items()}
    return Trees(**made, roots=trees.roots)
