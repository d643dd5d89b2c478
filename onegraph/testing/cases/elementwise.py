"""Lists valid uses of the elementwise ops, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ...opset.editions.registry import BASE
from .case import FLOATS, NP, Attrs, Case, Dims, Make, SeededData, Use, typed

Floats = NDArray[np.float32]

_ATTRIBUTES: dict[str, list[Attrs]] = {
    "Clamp": [{"min": -1.0, "max": 0.75}],
    "Elu": [{"alpha": 0.5}],
    "HardSigmoid": [{"alpha": 0.3, "beta": 0.4}],
    "LeakyReLU": [{"alpha": 0.1}, {"alpha": -0.5}],
    "Pow": [{"beta": beta} for beta in (2.0, -1.0, 0.5, 3.0, 0.0)],
    "SoftPlus": [{}, {"beta": 2.0}, {"beta": -1.0}],
    "GELU": [{}, {"mode": "gelu_tanh"}],
    "GELUBackward": [{}, {"mode": "gelu_tanh"}],
    "SoftPlusBackward": [{}, {"beta": 2.0}],
    "ClampBackward": [{"min": -1.0, "max": 0.75, "use_dst": use} for use in (True, False)],
    "EluBackward": [{"alpha": 0.5, "use_dst": use} for use in (True, False)],
    "HardSigmoidBackward": [{"alpha": 0.3, "beta": 0.4}],
    "ReLUBackward": [{}, {"use_dst": False}],
    "SigmoidBackward": [{}, {"use_dst": False}],
    "SqrtBackward": [{}, {"use_dst": False}],
    "TanhBackward": [{}, {"use_dst": False}],
}


def _clamp(x: Floats) -> Floats:
    return np.asarray(np.clip(x, -1, 0.75), np.float32)


def _elu(x: Floats) -> Floats:
    return np.asarray(np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0))), np.float32)


def _relu(x: Floats) -> Floats:
    return np.asarray(np.maximum(x, 0), np.float32)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def _sqrt(x: Floats) -> Floats:
    return np.asarray(np.sqrt(x), np.float32)


def _tanh(x: Floats) -> Floats:
    return np.asarray(np.tanh(x), np.float32)


# The forward op, whose result a backward op with use_dst reads.
_FORWARD: dict[str, Callable[[Floats], Floats]] = {
    "ClampBackward": _clamp,
    "EluBackward": _elu,
    "ReLUBackward": _relu,
    "SigmoidBackward": _sigmoid,
    "SqrtBackward": _sqrt,
    "TanhBackward": _tanh,
}
_ABOVE_ZERO = ("Log", "Sqrt", "Reciprocal", "Pow", "SqrtBackward")


def _use(kind: str, attrs: Attrs, shape: Dims) -> Make:
    def make(data: SeededData, dtype: str) -> Use:
        draw = data.positive if kind in _ABOVE_ZERO else data.normal
        first = draw("f32", *shape).astype(np.float32)
        if kind in _FORWARD and attrs.get("use_dst", True):
            first = _FORWARD[kind](first)
        second = (data.normal(dtype, *shape),) if kind.endswith("Backward") else ()
        return (first.astype(NP[dtype]), *second), attrs

    return make


def cases() -> Iterator[Case]:
    """Every elementwise op of the base vocabulary."""
    shapes: dict[str, Dims] = {"4d": (2, 3, 4, 5), "1d": (7,), "scalar": ()}
    for kind, schema in BASE.items():
        if schema.category != "elementwise":
            continue
        for number, attrs in enumerate(_ATTRIBUTES.get(kind, [{}])):
            for label, shape in shapes.items():
                types = FLOATS if label == "4d" else ("f32",)
                yield from typed(kind, f"{number}-{label}", _use(kind, attrs, shape), types)
