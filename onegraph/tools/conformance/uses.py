"""Defines the use of one op: its arrays, attributes and output types, and what the specification says about it.

The arrays come from a valid use of the package (:mod:`onegraph.testing.cases`), from the example of a known fault, or
from the caller of ``probe``. A use names the source and picks arrays of it, so it can be sent to a worker process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any

import numpy as np

from ..._util.records import record
from ...builder.graph import DataGraph
from ...checker.library_limits import TABLES, Library
from ...errors import OneGraphError
from ...faults.capabilities import LIBRARY_VALUES
from ...faults.cpus import CPU_SUPPORT
from ...faults.fault import Fault
from ...inference.infer import infer_op
from ...ir.op import Array, LogicalTensor
from ...opset.dtypes import DataType
from ...opset.editions.registry import BASE, DEFAULT, edition
from ...opset.schema import Call, TensorType
from ...opset.values import BadValueError, convert
from ...reference import run_op
from ...testing.cases import CASES, Case

CASE, FAULT, GIVEN = "case", "fault", "given"
EXTRA = -1  # instead of the number of an array: the numbers of ``extra``
# Faults of single ops on dense tensors, which a probe can meet.
SINGLE: dict[str, Fault[Any]] = {fault.name: fault for table in (*TABLES, CPU_SUPPORT) for fault in table}
OF_CALLS = [fault for table in TABLES for fault in table]


@record(frozen=True)
class ProbedUse:
    """One use of an op.

    Attributes:
        kind: the op in the base vocabulary.
        source: where the arrays come from: ``case`` and the label, or ``fault``, its name and the name of the example.
        picks: number and data type of the array of the source for each input.
        attrs: attributes in base words, as the specification spells their values.
        outputs: data types of the outputs.
        tensors: of source ``given``: data type, shape and perhaps contents of each array.
        extra: contents of an input that the source does not have.
    """

    kind: str
    source: tuple[str, ...]
    picks: tuple[tuple[int, str], ...]
    attrs: Mapping[str, Any]
    outputs: tuple[str, ...]
    tensors: Sequence[Sequence[Any]] = field(default=(), repr=False)
    extra: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The source in words."""
        return self.source[-1]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Data types of the inputs."""
        return tuple(dtype for _, dtype in self.picks)

    @property
    def arrays(self) -> list[Array]:
        """The input arrays."""
        all_arrays = _arrays_of(self.kind, self.source) if self.source[0] != GIVEN else _given(self.tensors)
        made: list[Array] = []
        for index, dtype in self.picks:
            array = np.array(self.extra) if index == EXTRA else all_arrays[index]
            made.append(array.astype(DataType[dtype].numpy, copy=False))
        return made

    # Changes -----------------------------------------------------------------------------------------------------

    def having(self, **attrs: Any) -> ProbedUse:
        """The same use with other values of attributes."""
        return replace(self, attrs={**self.attrs, **attrs})

    def without(self, name: str) -> ProbedUse:
        """The same use without an attribute."""
        return replace(self, attrs={other: value for other, value in self.attrs.items() if other != name})

    def taking(self, count: int) -> ProbedUse:
        """The same use with so many inputs; further ones repeat the last."""
        return replace(self, picks=(self.picks + self.picks[-1:] * count)[:count])

    def giving(self, count: int) -> ProbedUse:
        """The same use with so many outputs; further ones repeat the last data type."""
        return replace(self, outputs=(self.outputs + (self.outputs[-1:] or ("f32",)) * count)[:count])

    def with_tensor_for(self, name: str) -> ProbedUse:
        """The same use with a tensor of s32 as the last input, in place of an attribute."""
        extra = tuple(int(number) for number in self.attrs[name])
        return replace(self.without(name), picks=(*self.picks, (EXTRA, "s32")), extra=extra)

    def typed(self, inputs: Mapping[int, str], outputs: Mapping[int, str]) -> ProbedUse:
        """The same use with other data types of some inputs and outputs."""
        picks = tuple((number, inputs.get(place, dtype)) for place, (number, dtype) in enumerate(self.picks))
        return replace(
            self, picks=picks, outputs=tuple(outputs.get(place, output) for place, output in enumerate(self.outputs))
        )

    # What the specification says ---------------------------------------------------------------------------------

    def broken_rules(self, name: str, *, shapes: bool = True) -> list[str]:
        """The rules of edition ``name`` that the use breaks, perhaps without knowledge of shapes.

        The edition is one in the base vocabulary.
        """
        inputs: list[object] = [_tensor(array) if array.dtype != np.int32 else array for array in self.arrays]
        if not shapes:
            inputs = [(dtype, None) for dtype in self.dtypes]
        outputs = [(dtype, None) for dtype in self.outputs]
        return [error.rule for error in infer_op(self.kind, self.attrs, inputs, outputs, edition=edition(name)).errors]

    @property
    def call(self) -> Call:
        """The use as the conditions of faults see it."""
        schema, arrays = BASE[self.kind], self.arrays
        attrs = {name: convert(schema.attribute(name), value) for name, value in self.attrs.items()}
        types = [
            TensorType(DataType[dtype], array.shape, array) for dtype, array in zip(self.dtypes, arrays, strict=True)
        ]
        return Call(schema, attrs, types, len(self.outputs), [DataType[dtype] for dtype in self.outputs])

    def faults(self, version: tuple[int, int, int]) -> list[str]:
        """Names of the known faults of a library of ``version`` that the use may run into on any CPU."""
        call = self.known_call
        if call is None:
            return []
        concerned = [fault for fault in OF_CALLS if self.kind in fault.ops and fault.affects(version)]
        return [fault.name for fault in concerned if fault.when(call)]

    def claims(self, version: tuple[int, int, int]) -> dict[str, bool]:
        """For each fault that the use may run into on this CPU, but for slow kernels, whether it is certain to show."""
        call = self.known_call
        claims_found = [] if call is None else Library(version).of_call(call)
        return {fault.name: is_certain for fault, _, is_certain in claims_found}

    @property
    def known_call(self) -> Call | None:
        """The use as the conditions of faults see it; None if an attribute is unknown or has another type."""
        try:
            return self.call
        except (BadValueError, KeyError):
            return None

    def reference(self) -> list[Array] | None:
        """The results of the formula; None if there is no formula for the use."""
        graph = DataGraph(edition=DEFAULT)
        try:
            inputs = [
                graph.constant(array) if array.dtype == np.int32 else graph.input(f"in{index}", dtype, array.shape)
                for index, (dtype, array) in enumerate(zip(self.dtypes, self.arrays, strict=True))
            ]
            names = [f"out{index}" for index in range(len(self.outputs))]
            types = tuple(DataType[dtype] for dtype in self.outputs)
            graph._add_op(edition(DEFAULT), self.kind, dict(self.attrs), inputs, types, name="op", names=names)
            return list(run_op(graph.ops[0], self.arrays))
        except OneGraphError:
            return None

    # The calls of the library ------------------------------------------------------------------------------------

    def arguments(self) -> dict[str, list[Any]]:
        """For each attribute the kind of its setter and the value, in the library's own spelling."""
        schema = BASE[self.kind]
        return {
            name: [schema.attribute(name).kind, plain(_in_library_words(name, value))]
            for name, value in self.attrs.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """The use as plain dictionaries, lists, strings and numbers."""
        return {
            "kind": self.kind,
            "source": list(self.source),
            "picks": [list(pick) for pick in self.picks],
            "attrs": {name: plain(value) for name, value in self.attrs.items()},
            "outputs": list(self.outputs),
            "tensors": list(self.tensors),
            "extra": list(self.extra),
        }

    @staticmethod
    def of_dict(facts: Mapping[str, Any]) -> ProbedUse:
        """The use that ``to_dict`` wrote."""
        picks = tuple((int(number), str(dtype)) for number, dtype in facts["picks"])
        source, outputs = tuple(facts["source"]), tuple(facts["outputs"])
        return ProbedUse(facts["kind"], source, picks, facts["attrs"], outputs, facts["tensors"], tuple(facts["extra"]))


def plain(value: Any) -> Any:
    """A value as plain Python objects for JSON."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (tuple, range)):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def _in_library_words(name: str, value: Any) -> Any:
    """The library's spelling of an attribute value."""
    return LIBRARY_VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value


def type_name(array: Array) -> str:
    """The name of the data type of a logical tensor for an array."""
    return "s64" if array.dtype == np.int64 else DataType.of(array.dtype).value


def _tensor(array: Array) -> tuple[str, tuple[int, ...]]:
    return type_name(array), array.shape


# Sources -------------------------------------------------------------------------------------------------------------


@cache
def uses_of_cases(kind: str) -> tuple[ProbedUse, ...]:
    """The valid uses of an op that the package has."""
    return tuple(_use_of_case(case) for case in CASES if case.kind == kind)


def _use_of_case(case: Case) -> ProbedUse:
    graph = DataGraph(edition=DEFAULT)
    inputs = [
        graph.constant(array) if array.dtype == np.int32 else graph.input(f"in{index}", *_tensor(array))
        for index, array in enumerate(case.inputs)
    ]
    graph.op(case.kind, inputs, case.attrs, dtype=case.dtype, outputs=case.outputs)
    picks = tuple((index, type_name(array)) for index, array in enumerate(case.inputs))
    outputs = tuple(tensor.dtype.value for tensor in graph.ops[0].outputs)
    return ProbedUse(case.kind, (CASE, case.label), picks, dict(case.attrs), outputs)


def uses_of_fault(fault: Fault[Any]) -> dict[str, ProbedUse]:
    """The examples of a fault that are of one op and small enough to run, by name."""
    uses = {}
    for example in fault.examples:
        graph = DataGraph(edition=DEFAULT)
        example.build(graph)
        op = graph.ops[-1]
        if example.runs and op.kind in fault.ops:
            picks = tuple((index, tensor.dtype.value) for index, tensor in enumerate(op.inputs) if tensor is not None)
            outputs = tuple(tensor.dtype.value for tensor in op.outputs)
            uses[example.name] = ProbedUse(op.kind, (FAULT, fault.name, example.name), picks, dict(op.attrs), outputs)
    return uses


@cache
def _arrays_of(kind: str, source: tuple[str, ...]) -> tuple[Array, ...]:
    """The arrays of a source."""
    if source[0] == CASE:
        return next(case for case in CASES if case.kind == kind and case.label == source[1]).inputs
    example = next(example for example in SINGLE[source[1]].examples if example.name == source[2])
    graph = DataGraph(edition=DEFAULT)
    example.build(graph)
    *before, last = graph.ops
    values: dict[int, Array] = {}

    def value(tensor: LogicalTensor) -> Array:
        if tensor.id not in values:
            values[tensor.id] = tensor.value if tensor.value is not None else _exact(tensor)
        return values[tensor.id]

    for op in before:  # they make numbers of the kind that the last op needs
        results = run_op(op, [None if tensor is None else value(tensor) for tensor in op.inputs])
        values.update({tensor.id: result for tensor, result in zip(op.outputs, results, strict=True)})
    return tuple(value(tensor) for tensor in last.inputs if tensor is not None)


def _exact(tensor: LogicalTensor) -> Array:
    """Random numbers whose products and sums are exact."""
    assert tensor.shape is not None
    shape = tuple(dim or 0 for dim in tensor.shape)
    low, high = {"u8": (0, 256), "s8": (-128, 128), "boolean": (0, 2)}.get(tensor.dtype.value, (-64, 64))
    whole = np.random.default_rng(tensor.id).integers(low, high, shape)
    is_float = tensor.dtype.value not in ("u8", "s8", "s32", "s64", "boolean")
    return np.asarray(whole / 32 if is_float else whole).astype(tensor.dtype.numpy)


def _given(tensors: Sequence[Sequence[Any]]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [_array(rng, *tensor) for tensor in tensors]


def _array(rng: np.random.Generator, dtype: str, shape: Sequence[int], values: Sequence[Any] | None = None) -> Array:
    """An array with these contents, of which one may stand for all, or with small random ones."""
    numbers = rng.integers(-4, 5, tuple(shape)) if values is None else np.array(values)
    if numbers.size == 1:
        numbers = np.full(tuple(shape), numbers.flat[0])
    return np.asarray(numbers).reshape(tuple(shape)).astype(DataType[dtype].numpy)
