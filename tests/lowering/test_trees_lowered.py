"""Trees as one op, by hand: which weights leaves add, which inputs the op has, and what is refused at its bounds."""

import numpy as np
import pytest

import onegraph as og
from onegraph.arrays.trees import COMPARISONS, MOST_FEATURES, Trees
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.trees import LeafWeights, tree_ensemble

BELOW = 1 + [*COMPARISONS].index("<=")
ROWS = np.float32([[0.25, 9], [0.75, 9]])


def lowered(nodes, targets, numbers, *, feature=0, n_targets=1, **options):
    """The op of a tree with two leaves, nodes 1 and 2, that compares a feature with 0.5; and its scores."""
    trees = Trees(
        feature=np.array([feature, MOST_FEATURES, -1]),  # those of leaves say nothing
        threshold=np.float32([0.5, 0, 0]),
        comparison=np.array([BELOW, 0, 0]),
        missing=np.zeros(3, np.bool_),
        holds=np.array([1, 9, 9]),
        fails=np.array([2, -9, 9]),
        roots=np.array([0]),
    )
    graph = og.Graph()
    src = graph.input("x", "f32", ROWS.shape)
    weights = LeafWeights(np.array(nodes), np.array(targets), np.float32(numbers))
    graph.output("y", tree_ensemble(Emitter(graph), src, trees, weights, n_targets, **options))
    (op,) = graph.ops
    scores = None if feature >= ROWS.shape[1] else og.reference.run(graph, {"x": ROWS})["y"].tolist()
    return [end is not None for end in op.inputs[4:]], scores


@pytest.mark.parametrize(
    ("weights", "options", "has", "scores"),
    [
        (([1, 2], [0, 0], [10, 20]), {}, [], [[10], [20]]),
        (([2, 1], [0, 0], [20, 10]), {}, [], [[10], [20]]),
        (([2, 0, 1], [0, 0, 0], [20, 5, 10]), {}, [], [[10], [20]]),
        (([1, 2], [0, 0], [10, 20]), {"base": np.float32([1])}, [True], [[11], [21]]),
        (([1, 2], [0, 1], [10, 20]), {"n_targets": 2}, [True, True], [[10, 0], [0, 20]]),
        (([1, 1, 2], [0, 1, 1], [10, 30, 20]), {"n_targets": 2}, [True, True, True], [[10, 30], [0, 20]]),
        (([1], [0], [10]), {}, [True, True, True], [[10], [0]]),
        (([1, 2, 2], [0, 0, 0], [10, 20, 3]), {}, [True, True, True], [[10], [23]]),
        (([1, 2, 2], [0, 0, 0], [10, 20, 3]), {"base": np.float32([1])}, [True, True, True], [[11], [24]]),
        (([1, 2], [0, 0], [10, 20]), {"feature": 1}, [], [[20], [20]]),
    ],
)
def test_leaves_add_their_weights(weights, options, has, scores):
    assert lowered(*weights, **options) == (has, scores)


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (([1, 2], [0, 0], [1, 2]), {"feature": -1}, "feature -1; expected one from 0 to"),
        (([1, 2], [0, 0], [1, 2]), {"feature": MOST_FEATURES}, f"feature {MOST_FEATURES}; expected one from 0 to"),
        (([1, 3], [0, 0], [1, 2]), {}, "a weight of a node that does not exist"),
        (([-1, 2], [0, 0], [1, 2]), {}, "a weight of a node that does not exist"),
        (([1, 2], [0, 1], [1, 2]), {}, "target 1 of 1"),
        (([1, 2], [-1, 0], [1, 2]), {"n_targets": 2}, "target -1 of 2"),
    ],
)
def test_malformed_trees_are_refused(weights, options, message):
    with pytest.raises(ValueError, match=message):
        lowered(*weights, **options)


def test_the_last_feature_is_taken():
    assert lowered([1, 2], [0, 0], [1, 2], feature=MOST_FEATURES - 1)[0] == []
