"""Gradients of the ops without a category."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ..use import GradientUse
from .table import flat, gradient_of, refused

flat("GenIndex, host NonMaxSuppression", "its result is an index")
flat("End", "it has no result")
flat("host CountTuples", "it counts integers")
refused("host TreeEnsemble, host Classify, host CouplePairs, host LookUp", "no step of a gradient trains such a model")
refused("Wildcard", "the specification does not say what it computes")
refused("host OnnxNode", "the package onnx computes its nodes")
refused("host If, host Loop", "its bodies are graphs of their own; a loop of a known and small length is unrolled")
refused(
    "host PackedMatMul, host PackedGather, host PackedExperts",
    "the codes of packed weights are no numbers that a step changes",
)
refused("host AllReduceStart, host AllReduceDone", "gradients are averaged after the backward pass")


@gradient_of("Dropout", "src")
def dropout(emit: Emitter, use: GradientUse, diff: Value, _mask: None = None) -> Value:
    """The seed and the offset decide which elements are dropped, so the same ones are dropped again."""
    return emit.op("Dropout", [diff, use["seed"], use["offset"], use["probability"]], outputs=["dst"])
