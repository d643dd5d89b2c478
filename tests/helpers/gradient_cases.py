"""Single ops with inputs, whose gradients are compared with finite differences in float64."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conftest import draws
from numpy.typing import NDArray

import onegraph as og
from onegraph.gradient.rules import refusal
from onegraph.ir.op import schema_of
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import base_of
from onegraph.testing.cases import CASES

from .host_cases import cases as host_cases
from .wide_reference import run_wide

FLOATS = frozenset([og.f32, og.bf16, og.f16])
STEP = 1e-6


class Subject:
    """One op in a graph, its inputs, and its gradients from random gradients of its results."""

    def __init__(self, kind: str, inputs: Sequence[Any], attrs: Any, dtype: Any, outputs: Any, edition: str) -> None:
        self.graph = og.Graph(strict=False)
        self.arrays: dict[str, NDArray[Any]] = {}
        rng = np.random.default_rng(zlib.crc32(f"{kind} {attrs}".encode()))
        tensors: list[Any] = []
        for number, array in enumerate(inputs):
            if array is None:
                tensors.append(None)
                continue
            dtype_of = OF_NUMPY[np.asarray(array).dtype]
            if dtype_of in FLOATS:
                tensors.append(self.graph.input(f"x{number}", dtype_of, array.shape))
                # Away from the places where a slope jumps, such as 0.
                self.arrays[f"x{number}"] = array.astype(np.float64) + rng.uniform(1e-3, 9e-3, array.shape)
            else:
                tensors.append(self.graph._tensor(dtype_of, array.shape, f"c{number}", None, array))
        self.graph.op(kind, tensors, attrs, dtype=dtype, outputs=outputs, edition=edition)
        (self.op,) = self.graph.ops
        self.base = base_of(schema_of(self.op))
        ports = {self.base.input_port(place).name for place, one in enumerate(self.op.inputs) if one is not None}
        self.wrt = [
            tensor
            for place, tensor in enumerate(self.op.inputs)
            if tensor is not None
            and tensor.name in self.graph.inputs
            and not refusal(self.base, frozenset([self.base.input_port(place).name]) & ports)
        ]
        self.results = [tensor for tensor in self.op.outputs if tensor.dtype in FLOATS] if self.wrt else []
        self.seeds = [np.asarray(rng.normal(size=tensor.shape)) for tensor in self.results]
        self.rng = rng

    def differentiate(self) -> tuple[og.LogicalTensor, ...]:
        seeds = [self.graph.input(f"d{place}", one.dtype, one.shape) for place, one in enumerate(self.results)]
        self.arrays.update((one.name, array) for one, array in zip(seeds, self.seeds, strict=True))
        return self.graph.gradient(self.results, self.wrt, seeds)

    def total(self, arrays: dict[str, NDArray[Any]]) -> float:
        """The sum of the results times their gradients."""
        found = run_wide(self.graph, arrays, self.results)
        return float(sum((one * seed).sum() for one, seed in zip(found, self.seeds, strict=True)))

    def slope(self, direction: dict[str, NDArray[Any]]) -> float:
        """The derivative of the total along a direction, by central differences."""
        ends = [
            self.total({name: one + step * direction[name] for name, one in self.arrays.items()})
            for step in (-STEP, STEP)
        ]
        return (ends[1] - ends[0]) / (2 * STEP)

    def check(self, tolerance: float = 1e-5, directions: int = draws(2, 4)) -> None:
        gradients = self.differentiate()
        assert [(one.dtype, one.shape) for one in gradients] == [(one.dtype, one.shape) for one in self.wrt]
        found = run_wide(self.graph, self.arrays, gradients)
        for _ in range(directions):
            direction: dict[str, NDArray[Any]] = {name: np.zeros(one.shape) for name, one in self.arrays.items()}
            direction.update({one.name: self.rng.normal(size=one.shape) for one in self.wrt})
            ours = sum(float((direction[one.name] * part).sum()) for one, part in zip(self.wrt, found, strict=True))
            size = sum(
                float(np.abs(direction[one.name] * part).sum()) for one, part in zip(self.wrt, found, strict=True)
            )
            assert ours == pytest.approx(self.slope(direction), rel=tolerance, abs=tolerance / 10 * max(size, 1))


def subject_of(case: Any, edition: str = "onednn-3.13") -> Subject:
    return Subject(case.kind, case.inputs, case.attrs, case.dtype, getattr(case, "outputs", None), edition)


def has_floats(case: Any) -> bool:
    return any(array is not None and np.asarray(array).dtype == np.float32 for array in case.inputs)


# Cases with results that are infinite or NaN, which have no slope.
NOT_FINITE = ("MaxPool-padding alone", "SoftMax-mode none", "ReplaceNaN")
BASE_CASES = [case for case in CASES if has_floats(case) and not str(case).startswith(NOT_FINITE)]
HOST_CASES = [case for case in host_cases() if has_floats(case) and not case.kind.startswith(NOT_FINITE)]
