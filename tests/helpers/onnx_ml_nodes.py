"""Random nodes of the domain ai.onnx.ml, which ONNX Runtime computes too."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from .onnx_nodes import F32, F64, Case

ML = "ai.onnx.ml"
CASES = {}  # by kind; those of ai.onnx are of kinds that the package onnx runs too


def case(*kinds):
    def enter(function):
        CASES.update(dict.fromkeys(kinds, function))
        return function

    return enter


def floats(d, count, low=-3.0, high=3.0):
    return [float(one) for one in d.array((count,), F32, low, high)]


@case("ArrayFeatureExtractor")
def extract(d):
    width = d.size(2, 5)
    src = d.array((d.size(1, 4), width), d.dtype(F32, F64, np.int64, np.int32))
    return Case(d.kind, {"X": src, "Y": d.array((1, d.size(1, 4)), np.int64, 0, width - 1)}, domain=ML)


@case("Binarizer")
def binarizer(d):
    attrs = {"threshold": floats(d, 1)[0]} if d.maybe(True, 0.8) else {}
    return Case(d.kind, {"X": d.array(d.shape(1, 3), F32)}, attrs, domain=ML)


@case("Scaler")
def scaler(d):
    width = d.size(1, 4)
    count = d.one(1, width)
    attrs = {"offset": floats(d, count), "scale": floats(d, count)}
    return Case(d.kind, {"X": d.array((d.size(1, 4), width), d.dtype(F32, F64, np.int64))}, attrs, domain=ML)


@case("Normalizer")
def normalizer(d):
    src = d.array((d.size(1, 4), d.size(1, 4)), d.dtype(F32), -1, 3)
    return Case(d.kind, {"X": src}, {"norm": d.one("MAX", "L1", "L2")}, domain=ML)


@case("LinearRegressor")
def linear(d):
    width, targets = d.size(1, 4), d.size(1, 3)
    attrs = {"coefficients": floats(d, width * targets), "targets": targets}
    if d.maybe(True):
        attrs["intercepts"] = floats(d, targets)
    return Case(d.kind, {"X": d.array((d.size(1, 4), width), F32)}, attrs, domain=ML)


@case("LinearClassifier")
def linear_classifier(d):
    width, classes = d.size(1, 4), d.one(2, 2, 3, 5)
    count = d.one(1, classes) if classes == 2 else classes
    attrs = {
        "coefficients": floats(d, width * count),
        "intercepts": floats(d, count),
        "classlabels_ints": [5, 3, 8, 1, 9][:classes],
        "post_transform": d.one("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"),
    }
    src = d.array((d.size(1, 4), width), d.dtype(F32, F64, np.int64))
    return Case(d.kind, {"X": src}, attrs, domain=ML, outputs=2)


def kernel(d, width, vectors):
    kind = d.one("LINEAR", "POLY", "RBF", "SIGMOID")
    params = [0.5, 0.25, float(d.size(1, 3))]
    return {"kernel_type": kind, "kernel_params": params, "support_vectors": floats(d, width * vectors, -1, 1)}


@case("SVMRegressor")
def support_vectors(d):
    width, count = d.size(1, 4), d.size(1, 5)
    attrs = kernel(d, width, count) | {"n_supports": count, "coefficients": floats(d, count), "rho": floats(d, 1)}
    attrs["one_class"] = d.one(0, 0, 1)
    return Case(d.kind, {"X": d.array((d.size(1, 4), width), F32, -1, 1)}, attrs, domain=ML)


@case("SVMClassifier")
def support_vector_classes(d):
    width, classes = d.size(1, 4), d.size(2, 4)
    sizes, pairs = [d.size(1, 3) for _ in range(classes)], classes * (classes - 1) // 2
    attrs = kernel(d, width, sum(sizes)) | {"vectors_per_class": sizes, "rho": floats(d, pairs)}
    attrs |= {"coefficients": floats(d, (classes - 1) * sum(sizes)), "classlabels_ints": [5, 3, 8, 1][:classes]}
    if d.maybe(True):
        attrs |= {"prob_a": floats(d, pairs, -2, -1), "prob_b": floats(d, pairs, -0.5, 0.5)}
    src = d.array((d.size(1, 4), width), F32, -1, 1)
    return Case(d.kind, {"X": src}, attrs, domain=ML, outputs=2)


@case("Imputer")
def imputer(d):
    width = d.size(1, 4)
    src = np.round(d.array((d.size(1, 4), width), F32, -1, 1))
    values = floats(d, d.one(1, width))
    if d.maybe(True):
        return Case(d.kind, {"X": src}, {"imputed_value_floats": values, "replaced_value_float": 0.0}, domain=ML)
    src[src == 0] = np.nan
    return Case(d.kind, {"X": src}, {"imputed_value_floats": values, "replaced_value_float": np.nan}, domain=ML)


@case("OneHotEncoder")
def one_hot(d):
    attrs = {"cats_int64s": [0, 1, 2, 3], "zeros": 1}
    return Case(d.kind, {"X": d.array((d.size(1, 5),), np.int64, 0, 5)}, attrs, domain=ML)


@case("FeatureVectorizer")
def vectorizer(d):
    sizes = [d.size(1, 3) for _ in range(d.size(1, 3))]
    return Case(d.kind, {"X": [d.array((2, size), F32) for size in sizes]}, {"inputdimensions": sizes}, domain=ML)


@case("LabelEncoder")
def label_encoder(d):
    pairs = d.one(("int64s", "int64s"), ("int64s", "floats"), ("floats", "int64s"), ("floats", "floats"))
    made = {"int64s": [1, 2, 3], "floats": [1.0, 2.0, 3.0]}
    attrs = {f"keys_{pairs[0]}": made[pairs[0]], f"values_{pairs[1]}": [one * 5 for one in made[pairs[1]]]}
    if d.maybe(True):
        attrs["default_int64" if pairs[1] == "int64s" else "default_float"] = 7 if pairs[1] == "int64s" else 7.5
    src = d.array(d.shape(1, 2), np.int64, 0, 4).astype(np.int64 if pairs[0] == "int64s" else F32)
    return Case(d.kind, {"X": src}, attrs, domain=ML)


def tree(d, width, trees, leaves):
    """Attributes of trees of depth 2 whose leaves have weights for targets."""
    nodes = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    ends = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    modes = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")
    mode = d.one(*modes)
    for number in range(trees):
        for node in range(7):
            is_leaf = node >= 3
            row = (number, node, 0 if is_leaf else d.size(0, width - 1), 0.0 if is_leaf else floats(d, 1)[0])
            row = (*row, "LEAF" if is_leaf else mode, *((0, 0) if is_leaf else (2 * node + 1, 2 * node + 2)))
            for name, value in zip(nodes, row, strict=True):
                nodes[name].append(value)
            if is_leaf:
                for name, value in zip(ends, (number, node, d.size(0, leaves - 1), floats(d, 1)[0]), strict=True):
                    ends[name].append(value)
    return {f"nodes_{name}": value for name, value in nodes.items()}, ends


@case("TreeEnsembleRegressor")
def regressor(d):
    width, targets = d.size(1, 4), d.size(1, 3)
    attrs, ends = tree(d, width, d.size(1, 3), targets)
    attrs |= {f"target_{name}": value for name, value in ends.items()} | {"n_targets": targets}
    attrs["aggregate_function"] = d.one("SUM", "AVERAGE", "MIN", "MAX")
    return Case(d.kind, {"X": d.array((d.size(1, 4), width), F32)}, attrs, domain=ML)


@case("TreeEnsembleClassifier")
def classes(d):
    width, count = d.size(1, 4), d.one(2, 3, 5)
    attrs, ends = tree(d, width, d.size(1, 3), count)
    if count == 2:  # ONNX Runtime chooses labels of two classes right if the weights are those of one class alone
        ends["ids"] = [d.one(0, 0, 1)] * len(ends["ids"])
    if d.maybe(True):
        ends["weights"] = [abs(one) / 3 for one in ends["weights"]]
    attrs |= {f"class_{name}": value for name, value in ends.items()}
    attrs |= {"classlabels_int64s": [5, 3, 8, 1, 9][:count], "post_transform": d.one("NONE", "LOGISTIC", "SOFTMAX")}
    if d.maybe(True) and ends["ids"][0] == 0 and count > 1:
        attrs["base_values"] = floats(d, 1 if count == 2 else count)
    src = d.array((d.size(1, 9), width), d.dtype(F32, F64, np.int64))
    return Case(d.kind, {"X": src}, attrs, domain=ML, outputs=2)


@case("TreeEnsemble")
def ensemble(d):
    width, targets, leaves = d.size(1, 4), d.size(1, 3), 4
    kind = d.one(F32, F64)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))

    def tensor(values, dtype=number):
        return helper.make_tensor("t", dtype, [len(values)], values)

    attrs = {
        "n_targets": targets,
        "aggregate_function": d.one(0, 1, 2, 3),
        "tree_roots": [0],
        "nodes_featureids": [d.size(0, width - 1) for _ in range(3)],
        "nodes_splits": tensor(floats(d, 3)),
        "nodes_modes": tensor([d.one(0, 1, 2, 3)] * 3, TensorProto.UINT8),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [d.size(0, targets - 1) for _ in range(leaves)],
        "leaf_weights": tensor(floats(d, leaves)),
    }
    return Case(d.kind, {"X": d.array((d.size(1, 4), width), kind)}, attrs, domain=ML)


@case("TfIdfVectorizer")
def tf_idf(d):
    least = d.size(1, 2)
    attrs = {
        "mode": d.one("TF", "IDF", "TFIDF"),
        "min_gram_length": least,
        "max_gram_length": d.size(least, 2),
        "max_skip_count": d.size(0, 2),
        "ngram_counts": [0, 4],
        "ngram_indexes": d.rng.permutation(7).tolist(),
        "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    }
    if d.size(0, 3):
        attrs["weights"] = floats(d, 7, 0.5, 2)
    shape = d.one((12,), (2, 6), (0,), (3, 1))
    return Case(d.kind, {"X": d.array(shape, d.one(np.int64, np.int32), 2, 8)}, attrs)
