"""Decision trees, classifiers and tables of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from onegraph.arrays.trees import BITS, Trees, ordered, table_of
from onegraph.compiler.kernels.trees import WALKS
from onegraph.opset.host.learned import OPPOSITES, TRANSFORMS
from tests.helpers.drawn import Array

from ..draw import Draw
from ..entry import draws
from ..numbers import check, check_numbers

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40)
HOLDS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


def with_special(draw: Draw, array: Array, share: float) -> Array:
    chosen = draw.rng.random(array.shape) < share
    return np.where(chosen, draw.rng.choice(SPECIAL, array.shape), array).astype(array.dtype)


class Forest:
    """Drawn trees, whose nodes are numbered from the leaves to the roots."""

    def __init__(self, draw: Draw, features: int, dtype: Any) -> None:
        few = [[0], [1], [0, 1], [*range(6)]]
        modes, missing = draw.of(few), draw.of([0, 0.5, 1])
        self.nodes: list[tuple[int, float, int, bool, int, int]] = []
        self.leaves = 0
        self.roots = [self.grow(draw, features, modes, missing, draw.between(0, 5)) for _ in range(draw.size(33))]
        if draw.flag(0.1):  # trees that are one
            self.roots += self.roots[:2]
        feature, threshold, comparison, is_missing, holds, fails = zip(*self.nodes, strict=True)
        self.trees = Trees(
            np.array(feature), np.array(threshold, dtype), np.array(comparison), np.array(is_missing), np.array(holds),
            np.array(fails), np.array(self.roots))  # fmt: skip

    def grow(self, draw: Draw, features: int, modes: list[int], missing: float, depth: int) -> int:
        """The number of a node, behind those that follow it."""
        if depth == 0 or draw.flag(0.2):
            self.leaves += 1
            self.nodes.append((0, 0.0, 0, False, self.leaves - 1, 0))
        else:
            ends = [self.grow(draw, features, modes, missing, depth - 1) for _ in range(2)]
            limit = draw.of(
                [float(draw.between(-3, 3)), draw.rng.normal(), draw.of([0.0, -0.0, np.inf, -np.inf, np.nan])]
            )
            mode = draw.of(modes)
            self.nodes.append((draw.between(0, features - 1), limit, 1 + mode, draw.flag(missing), *ends))
        return len(self.nodes) - 1

    def leaves_of(self, rows: Array, root: int) -> Array:
        """The numbers of the leaves at which the walks of rows from a root end."""
        trees, numbers, each = self.trees, np.full(len(rows), root), np.arange(len(rows))
        while trees.comparison[numbers].any():
            x, limits, heads = rows[each, trees.feature[numbers]], trees.threshold[numbers], trees.comparison[numbers]
            goes = np.isnan(x) & trees.missing[numbers]
            for place, holds in enumerate(HOLDS):
                goes |= (heads == place + 1) & holds(x, limits)
            numbers = np.where(heads == 0, numbers, np.where(goes, trees.holds[numbers], trees.fails[numbers]))
        found: Array = trees.holds[numbers]
        return found


@draws("trees")
def trees(draw: Draw) -> None:
    features, rows, dtype = (
        draw.between(1, 9),
        draw.of([1, 2, 7, 8, 9, draw.between(1, 40)]),
        draw.of([np.float32, np.float64]),
    )
    if draw.flag(0.01):
        rows = draw.between(600, 1200)  # which threads divide
    forest, targets = Forest(draw, features, dtype), draw.of([1, 1, draw.between(1, 4)])
    src = draw.rng.normal(0, 2, (rows, features)).astype(dtype)
    src = with_special(draw, np.round(src) if draw.flag() else src, draw.of([0, 0.1]))
    sizes = draw.rng.integers(0, 3, forest.leaves) if draw.flag(0.4) else np.ones(forest.leaves, np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    has_starts = bool((sizes != 1).any())
    count = int(starts[-1])
    if not count:
        return
    weights = with_special(draw, draw.rng.normal(0, 1, count).astype(dtype), draw.of([0, 0, 0.05]))
    has_targets, has_base = targets > 1 or draw.flag(0.2), draw.flag(0.3)
    columns, base = draw.rng.integers(0, targets, count).astype(np.int32), draw.rng.normal(0, 1, targets).astype(dtype)
    table, roots = table_of(forest.trees, ordered(forest.trees), forest.trees.holds)
    heads = {int(head) & ((1 << BITS) - 1) for head in np.unique(table[:, 0]) if head}
    common = [name for kinds, name in WALKS.items() if heads and heads <= kinds]
    aggregate, absent = draw.of(["sum", "average", "minimum", "maximum"]), draw.flag()
    draw.path = common[0] if common and draw.flag(0.8) else "any"
    draw.said = (
        f"{dtype.__name__}, {rows} rows, {len(roots)} trees, {targets} targets, {aggregate}, starts {has_starts}"
    )
    found = np.zeros((rows, targets), dtype)
    further = [array for array, has in ((base, has_base), (columns, has_targets), (starts, has_starts)) if has]
    numbers = {
        "targets": targets, "aggregate": aggregate, "absent": absent, "comparison": draw.path,
        "wide": dtype is np.float64, "has_base": has_base, "has_targets": has_targets, "has_starts": has_starts,
    }  # fmt: skip
    draw.run(src, table, roots, weights, *further, found, **numbers)
    wanted, sizes_of, is_met = (np.zeros((rows, targets), kind) for kind in (np.float64, np.float64, np.bool_))
    combine = {"minimum": np.minimum, "maximum": np.maximum}.get(aggregate, np.add)
    for root in forest.roots:
        leaves = forest.leaves_of(src, root)
        for turn in range(int(sizes[leaves].max())):
            some = np.flatnonzero(sizes[leaves] > turn)
            places = starts[leaves[some]] + turn
            at, own = (some, columns[places] if has_targets else 0), weights[places].astype(np.float64)
            wanted[at] = np.where(is_met[at], combine(wanted[at], own), own)
            is_met[at] = True
            sizes_of[at] += np.where(np.isfinite(own), np.abs(own), 0)
    wanted[~is_met] = np.nan if absent else 0
    if aggregate == "average":
        wanted, sizes_of = wanted / len(roots), sizes_of / len(roots)
    if has_base:
        wanted, sizes_of = wanted + base, sizes_of + np.abs(base)
    room = (len(roots) + 4) * np.finfo(dtype).eps * sizes_of
    near = (np.abs(found - wanted) <= room) | (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    check(near, found, wanted, draw)


@draws("classify")
def classify(draw: Draw) -> None:
    rows, classes, dtype = draw.size(), draw.of([1, 1, 2, 3, 16, 17, 40]), draw.of([np.float32, np.float64])
    src = (draw.rng.standard_normal((rows, classes)) * draw.of([0.01, 1, 80])).astype(dtype)
    src = with_special(draw, np.round(src) if draw.flag() else src, draw.of([0, 0.02, 0.3]))
    labels = draw.rng.permutation(1000)[: 2 if classes == 1 and draw.flag(0.7) else classes].astype(np.int64)
    transform, opposite, absent = draw.of(TRANSFORMS), draw.of(OPPOSITES), draw.flag()
    threshold, is_pair = draw.of([0.0, 0.5, -1.0]), len(labels) != classes
    chosen, found = np.zeros(rows, np.int64), draw.result((rows, len(labels)), is_dense=True)
    draw.path, draw.said = transform, f"{dtype.__name__} {src.shape}, {len(labels)} labels, {opposite}, absent {absent}"
    draw.run(src, labels, chosen, found, results=2, transform=transform, opposite=opposite, threshold=threshold,
             absent=absent, wide=dtype is np.float64)  # fmt: skip
    wide, is_far = src.astype(np.float64), np.zeros((rows, 1), bool)
    if is_pair:
        others = {"complement": 1 - wide, "mirror": -wide}.get(opposite, np.zeros_like(wide))
        best, scores = (wide[:, 0] > threshold).astype(int), np.concatenate([others, wide], 1)
    else:
        scores, best = wide, np.zeros(rows, int)
        for row in range(rows):
            for place in range(classes):
                top = wide[row, best[row]]
                if wide[row, place] > top or (absent and np.isnan(top) and not np.isnan(wide[row, place])):
                    best[row] = place
    check_numbers(chosen, labels[best], draw)
    scores = scores.astype(np.float32).astype(np.float64)
    scores = np.where(np.isnan(scores) & absent, 0, scores)
    if transform == "logistic":
        scores = 1 / (1 + np.exp(-scores))
    elif transform in ("softmax", "softmax_zero"):
        top = scores.max(1, keepdims=True)
        powers = np.exp(scores - top)
        counts = np.abs(scores) > np.float32(1e-7) if transform == "softmax_zero" else np.ones(scores.shape, bool)
        powers = np.where(counts | np.isnan(scores), powers, scores * np.exp(-top))
        total = np.where(counts | np.isnan(scores), powers, 0).sum(1, keepdims=True)
        scores = powers / total
        is_far = (total < 1e-37) | (np.isfinite(top) & (top < -85))  # what f32 has no normal number for
    near = np.abs(found - scores) <= 2e-5 * np.abs(scores) + 1e-6
    check(near | is_far | (found == scores) | (np.isnan(found) & np.isnan(scores)), found, scores, draw)


@draws("find_keys")
def find_keys(draw: Draw) -> None:
    kinds = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "s64": np.int64}
    of_keys, of_values = draw.of([*kinds]), draw.of([*kinds])
    keys = np.unique((draw.rng.standard_normal(draw.size()) * 30).astype(kinds[of_keys]))
    is_float = of_keys[0] == "f"
    if is_float and draw.flag():
        keys = np.append(np.unique(np.append(keys, [np.inf, -np.inf, 0.0])), np.nan).astype(kinds[of_keys])
    shape = [draw.of([1, 2, 17, 33]) for _ in range(draw.between(1, 3))]
    src = np.where(draw.rng.random(shape) < 0.7, draw.rng.choice(keys, shape), draw.rng.standard_normal(shape) * 30)
    src = with_special(draw, src.astype(kinds[of_keys]), 0.05) if is_float else src.astype(kinds[of_keys])
    values = (draw.rng.standard_normal(len(keys)) * 9).astype(kinds[of_values])
    other, found = np.array([7], kinds[of_values]), np.zeros(shape, kinds[of_values])
    draw.path, draw.said = f"{of_keys} to {of_values}", f"{shape}, {len(keys)} keys"
    draw.run(src, keys, values, other, found, keys=of_keys, values=of_values)
    same = src[..., None] == keys
    if is_float:
        same |= np.isnan(src)[..., None] & np.isnan(keys)
    check_numbers(found, np.where(same.any(-1), values[same.argmax(-1)], other[0]), draw)
