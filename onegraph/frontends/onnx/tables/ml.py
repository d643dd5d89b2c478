"""Lowers the nodes of the domain ai.onnx.ml that prepare features, and linear models."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from ...._util.counted import counted
from ....errors import FormatError
from ....lowering.elementwise import binary, filled, multiply, select
from ....lowering.emitter import Array, Emitter, Value, dtype_of
from ....lowering.layers import matmul
from ....lowering.movement import as_s64, cast, concat, flatten, reshape, unsqueeze
from ....lowering.reduction import reduce
from ....lowering.trees import classify
from ....opset.dtypes import OF_NUMPY, DataType
from ....opset.host import learned
from ..node import Node, NotLowered, TensorList, lowers
from ..proven import ML

SMALLEST = np.finfo(np.float32).smallest_subnormal
STRINGS = "strings, which no tensor of a graph has"


def refused(node: Node, reason: str) -> FormatError:
    """The error for a node that no run computes either."""
    text = f"{node.proto.op_type} of {ML}, op set {node.opset}: {reason}"
    return FormatError(node.where, text, "a node that onegraph lowers, or another runtime")


def labels_of(node: Node, name: str) -> Array:
    """The labels of the classes, which are integers."""
    if node.attr("classlabels_strings"):
        raise refused(node, f"the labels of its classes are {STRINGS}; train with integers as classes")
    labels = np.array(node.attr(name, []), np.int64)
    if not len(labels):
        raise node.invalid(f"no {name}", "a label for each class")
    return labels


def rows_of(node: Node) -> Value:
    """The features (rows, features); a vector is one row."""
    src = node.value(0)
    return src if node.rank() != 1 else reshape(node.emit, src, np.array([1, -1], np.int64))


def _features(node: Node) -> Value:
    return cast(node.emit, rows_of(node), DataType.f32)


def _floats(node: Node, name: str, default: float | None = None) -> Array:
    return np.array(node.attr(name, [] if default is None else [default]), np.float32)


@lowers("Scaler", domain=ML)
def scaler(node: Node) -> Value:
    """(src - offset) * scale."""
    src = cast(node.emit, node.value(0), DataType.f32)
    offset, scale = _floats(node, "offset", 0.0), _floats(node, "scale", 1.0)
    return multiply(node.emit, binary(node.emit, "Subtract", src, offset), scale)


@lowers("Normalizer", domain=ML)
def normalizer(node: Node) -> Value:
    """Each row divided by its largest element, the sum of the magnitudes, or the root of the sum of squares."""
    kind = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}.get(node.attr("norm", "MAX"))
    if kind is None:
        raise node.invalid(f"norm {node.attr('norm')}", "MAX, L1 or L2")
    emit, src = node.emit, _features(node)
    size = reduce(emit, kind, src, [-1], keep=True)
    if kind == "ReduceMax":
        divisor = select(emit, binary(emit, "Equal", size, filled(0, size)), filled(1, size), size)
    else:  # the elements of a row without a size are 0, also divided by the smallest number
        divisor = binary(emit, "Maximum", size, np.full(1, SMALLEST, np.float32))
    return binary(emit, "Divide", src, divisor)


@lowers("Imputer", domain=ML)
def imputer(node: Node) -> Value:
    """The features with a number for each in the place of a value that stands for a missing one."""
    emit, src = node.emit, rows_of(node)
    is_integer = dtype_of(src) is DataType.s64
    values = np.array(node.attr("imputed_value_int64s" if is_integer else "imputed_value_floats", []))
    if not len(values):
        raise node.invalid("no imputed values of the data type of the input", "a value, or one for each feature")
    values = values.astype(dtype_of(src).numpy)
    missing = node.attr(*(("replaced_value_int64", 0) if is_integer else ("replaced_value_float", float("nan"))))
    if isnan(missing):
        return emit.op("ReplaceNaN", [src, values])
    return select(emit, binary(emit, "Equal", src, filled(missing, src)), values, src)


@lowers("Binarizer", domain=ML)
def binarizer(node: Node) -> Value:
    """1 where a feature is above a threshold, otherwise 0."""
    src = node.value(0)
    return cast(node.emit, binary(node.emit, "Greater", src, filled(node.attr("threshold", 0.0), src)), dtype_of(src))


@lowers("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(node: Node) -> Value:
    """The elements along the last axis that indices name; a vector gives one row."""
    emit, src = node.emit, node.value(0)
    places = reshape(emit, node.value(1), np.array([-1], np.int64))
    result = emit.op("Gather", [src, places], {"axis": max(node.rank() - 1, 0)})
    return unsqueeze(emit, result, [0]) if node.rank() == 1 else result


@lowers("FeatureVectorizer", domain=ML)
def feature_vectorizer(node: Node) -> Value:
    """The features of all inputs side by side, the first ones of each as the attribute says."""
    emit, parts = node.emit, []
    for index, size in enumerate(node.attr("inputdimensions", [])):
        src = cast(emit, node.value(index), DataType.f32)
        src = unsqueeze(emit, src, [0]) if node.rank(index) == 1 else flatten(emit, src, 1)
        width = None if src.shape is None else src.shape[-1]
        if width != size:
            raise NotLowered(f"input {index} with {width} features beside inputdimensions {size}")
        parts.append(src)
    if len(parts) != len(node):
        raise node.invalid(f"inputdimensions of {counted(len(parts), 'element')}", f"{len(node)}, one for each input")
    return concat(emit, parts, 1)


def _looked_up(emit: Emitter, src: Value, keys: Array, values: Array, default: Array) -> Value:
    order = np.argsort(keys, kind="stable")
    ends = [src, keys[order], values[order], np.array(default, values.dtype).reshape(())]
    return emit.op("LookUp", ends)


@lowers("OneHotEncoder", domain=ML)
def one_hot_encoder(node: Node) -> Value:
    """1 in the place of the category of each element; another element gives zeros, or an error if ``zeros`` is 0."""
    if node.attr("cats_strings"):
        raise refused(node, f"its categories are {STRINGS}")
    emit, categories = node.emit, np.array(node.attr("cats_int64s", []), np.int64)
    if not len(categories):
        raise node.invalid("no cats_int64s", "the categories")
    count = len(categories)
    if len(np.unique(categories)) < count:
        raise refused(node, "two categories are equal")
    # Without zeros, an element that is no category has a place beyond the table, which the error of Gather names.
    beyond, table = np.array(count), np.eye(count + bool(node.attr("zeros", 1)), count, dtype=np.float32)
    place = _looked_up(emit, as_s64(emit, node.value(0)), categories, np.arange(count), beyond)
    return emit.op("Gather", [table, place], {"axis": 0})


def _table(node: Node, side: str) -> Array:
    """The keys or the values of a LabelEncoder."""
    if node.has(f"{side}_strings"):
        raise refused(node, f"its {side} are {STRINGS}")
    if node.has(f"{side}_tensor"):
        contents = np.asarray(node.importer.array(node.attr(f"{side}_tensor"), f"{node.where}: {side}_tensor"))
        if contents.dtype.kind not in "if":
            raise refused(node, f"its {side} are {STRINGS}")
        return contents.reshape(-1)
    if node.has(f"{side}_floats"):
        return _floats(node, f"{side}_floats")
    return np.array(node.attr(f"{side}_int64s", []), np.int64)


@lowers("LabelEncoder", domain=ML)
def label_encoder(node: Node) -> Value:
    """The value of each key; another element has a default."""
    if node.opset < 2:
        raise refused(node, f"op set 1, whose keys or values are {STRINGS}")
    emit, keys, values = node.emit, _table(node, "keys"), _table(node, "values")
    if len(keys) != len(values) or not len(keys):
        raise node.invalid(f"{counted(len(keys), 'key')} and {counted(len(values), 'value')}", "a value for each key")
    if len(np.unique(keys)) < len(keys):
        raise refused(node, "two keys are equal")
    if node.has("default_tensor"):
        default_value = np.asarray(node.importer.array(node.attr("default_tensor"), f"{node.where}: default_tensor"))
    else:
        name, default = ("default_float", -0.0) if values.dtype.kind == "f" else ("default_int64", -1)
        default_value = np.array(node.attr(name, default), values.dtype)
    if default_value.size != 1:
        raise node.invalid(f"default_tensor of shape {list(default_value.shape)}", "one element")
    return _looked_up(emit, cast(emit, node.value(0), OF_NUMPY[keys.dtype]), keys, values, default_value.reshape(()))


@lowers("LinearRegressor", domain=ML)
def linear_regressor(node: Node) -> Value:
    """Sums of the features with coefficients for each target."""
    if node.attr("post_transform", "NONE") != "NONE":
        raise refused(node, f"post_transform {node.attr('post_transform')}")
    return _sums(node, node.attr("targets", 1))


def _sums(node: Node, count: int) -> Value:
    weights, bias = _floats(node, "coefficients"), _floats(node, "intercepts")
    if count < 1 or len(weights) % count or len(bias) not in (0, count):
        raise node.invalid(
            f"{counted(len(weights), 'coefficient')} and {counted(len(bias), 'intercept')}",
            f"those of {counted(count, 'target')}",
        )
    factors = np.ascontiguousarray(weights.reshape(count, -1).T)
    return matmul(node.emit, _features(node), factors, bias if len(bias) else None)


@lowers("LinearClassifier", domain=ML)
def linear_classifier(node: Node) -> tuple[Value, Value]:
    """The class with the largest sum of the features with coefficients, and a score for each class."""
    classes, transform = labels_of(node, "classlabels_ints"), node.attr("post_transform", "NONE").lower()
    count = len(node.attr("intercepts", [])) or len(classes)
    if transform not in learned.TRANSFORMS:
        raise refused(node, f"post_transform {transform.upper()}")
    if count != len(classes) and (count, len(classes)) != (1, 2):
        raise refused(node, f"{counted(count, 'intercept')} for {counted(len(classes), 'class')}")
    attrs: dict[str, Any] = {"transform": transform}
    if count == 1 and len(classes) == 2:  # of the scores of one class, only the logistic function is computed
        is_logistic = transform == learned.LOGISTIC
        attrs["transform"] = learned.LOGISTIC if is_logistic else learned.NONE
        attrs["opposite"] = learned.MIRROR if is_logistic else learned.COMPLEMENT
    return classify(node.emit, _sums(node, count), classes, attrs)


@lowers("ZipMap", domain=ML)
def zip_map(node: Node) -> Value:
    """The scores (rows, classes): a graph has no maps, and :func:`onegraph.onnx.class_labels` has their keys."""
    if isinstance(node.any(0), TensorList):
        raise node.invalid("a sequence", "a tensor of scores")
    return rows_of(node)
