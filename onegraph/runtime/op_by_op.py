"""Runs a graph op by op in numpy, where its sizes change from call to call and its tensors have few elements.

Compiling takes longer than many such runs. So a combination of shapes is compiled when it has come often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from .._util.fork_safety import cached_property
from ..builder.graph import DataGraph
from ..compiler.array_kernels import with_kernel
from ..compiler.report import PartitionReport
from ..errors import ArgumentError
from ..ir.op import Array, Op, label_of, schema_of, shape_inputs_of
from ..opset import kinds
from ..opset.editions.registry import HOST, base_of
from ..opset.host import arithmetic, indexing, logic, movement, reduction
from ..opset.host.control import BODIES
from ..opset.schema import Call, make_type
from ..opset.traits import Trait
from ..reference.host import computed_on_host, host_function
from ..reference.run import computed, run_op
from .direct_ops import CHECKED, Direct, direct
from .segments import Make, Segment, segments

REASON = "few elements, whose number changes from call to call: op by op, without a compilation"
Compute = Callable[[Sequence[Any]], Sequence[Array]]
FEW, MOST_KEYS = 64, 256  # elements whose contents rules may ask for; combinations of shapes that are remembered
SMALL, MOST_TERMS = 1 << 14, 1 << 18  # elements of all inputs, and of a result; products of a MatMul
OFTEN, MOST_COUNTS = 4, 1024  # runs with the same shapes, before these are compiled; combinations that are counted
SELDOM = 32  # the same of a segment, whose sizes may be others in each run
# Host ops of which numpy computes few elements in a few microseconds.
PLAIN = frozenset(schema.kind for category in (arithmetic, logic, movement, indexing) for schema in category.OPS)
CHEAP_HOST = PLAIN.union(
    [schema.kind for schema in reduction.OPS], ["NonMaxSuppression", "Compress"], kinds.HOST_OPAQUE
)
CHEAP = (
    kinds.base_kinds(Trait.POINTWISE) | kinds.PLACING | kinds.CASTS | kinds.REDUCTIONS | kinds.SOFTMAXES | {"MatMul"}
)
# Host ops whose numpy function refuses what their rules refuse, if the ranks are known. A Pad would cut too much off.
REFUSED_BY_NUMPY = PLAIN & frozenset().union(
    *map(kinds.host_kinds, (Trait.POINTWISE, Trait.MOVES, Trait.CASTS, Trait.SHAPE_ONLY))
) - {"Pad", "GatherND"}


class TooLargeError(Exception):
    """A tensor has too many elements to run op by op."""


class ExaminedOp:
    """An op whose rules are asked once for each combination of shapes, and of contents that decide shapes.

    Args:
        op: the op.
    """

    def __init__(self, op: Op) -> None:
        self._op, self._allowed = op, set[object]()
        self._by_ranks = None if _has_ranks(op) else dict[object, ExaminedOp]()
        self._deciding = frozenset(shape_inputs_of(op))
        self._examine = partial(run_op, op, host=with_kernel)
        is_opaque = op.kind in kinds.HOST_OPAQUE
        self._needs_no_rules = is_opaque or _is_refused_by_numpy(op)
        function = direct(op) if self._needs_no_rules and not is_opaque else None
        self._compute = _prepared(op) if function is None else partial(_directly, op, function)

    def __call__(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results for these arrays."""
        if self._needs_no_rules:
            return self._compute(arrays)
        if self._by_ranks is not None:
            return self._of_ranks(self._by_ranks, arrays)(arrays)
        key = tuple([self._key_of(index, array) for index, array in enumerate(arrays)])
        if key in self._allowed:
            return self._compute(arrays)
        results = self._examine(arrays)
        if len(self._allowed) < MOST_KEYS:
            self._allowed.add(key)
        return results

    def _of_ranks(self, by_ranks: dict[object, ExaminedOp], arrays: Sequence[Array]) -> ExaminedOp:
        """The op for the ranks of these arrays, which were unknown until now."""
        ranks = tuple([array.ndim for array in arrays])
        examined = by_ranks.get(ranks)
        if examined is None:
            examined = by_ranks[ranks] = ExaminedOp(_ranked(self._op, ranks))
        return examined

    @property
    def compute(self) -> Compute:
        """What computes the op, with as few calls as are needed."""
        return self._compute if self._needs_no_rules else self

    def _key_of(self, index: int, array: Array) -> object:
        """What the rules may ask of an array: its shape, and the contents of a few numbers."""
        return array.shape, array.tobytes() if array.size <= FEW or index in self._deciding else b""


def _has_ranks(op: Op) -> bool:
    """Whether the ranks of all inputs are known."""
    return all(tensor.shape is not None for tensor in op.inputs)


def _ranked(op: Op, ranks: Sequence[int]) -> Op:
    """An op whose inputs have these ranks."""
    inputs = [
        tensor if tensor.shape is not None else replace(tensor, shape=(None,) * rank)
        for tensor, rank in zip(op.inputs, ranks, strict=True)
    ]
    return Op(op.id, op.kind, tuple(inputs), op.outputs, op.attrs, op.name, op.edition)


def _is_refused_by_numpy(op: Op) -> bool:
    """Whether the numpy function of an op refuses every shape that the rules of the op refuse."""
    if not _has_ranks(op):
        return False
    if op.edition != HOST or op.kind in CHECKED:
        return direct(op) is not None
    if op.kind not in REFUSED_BY_NUMPY:
        return False
    return all(op.inputs[index].value is not None for index in shape_inputs_of(op))


def _prepared(op: Op) -> Compute:
    """What computes an op of few elements."""
    schema = schema_of(op)
    if op.edition != HOST:
        return partial(computed, op, schema, host=with_kernel)
    base, function = base_of(schema), host_function(schema)
    dtypes = [tensor.dtype for tensor in op.outputs]
    if op.kind in kinds.HOST_OPAQUE:  # it reads attributes and arrays alone
        return _opaque(op, Call(base, op.attrs, [None] * len(op.inputs), len(dtypes), dtypes), function)
    types, wanted = [one.dtype for one in op.inputs], [dtype.numpy for dtype in dtypes]

    def in_numpy(_: Call, *arrays: Array) -> object:
        inputs = [make_type(dtype, array.shape, array, None) for dtype, array in zip(types, arrays, strict=True)]
        return function(Call(base, op.attrs, inputs, len(dtypes), dtypes), *arrays)

    # A kernel reads attributes and arrays alone.
    call = Call(base, op.attrs, [one.type for one in op.inputs], len(dtypes), dtypes)
    run = with_kernel(op.kind, in_numpy)

    def compute(arrays: Sequence[Array]) -> Sequence[Array]:
        results = computed_on_host(op, run, call, arrays)
        return [_dense(result, dtype) for result, dtype in zip(results, wanted, strict=False)]

    return compute


def _opaque(op: Op, call: Call, function: Callable[..., object]) -> Compute:
    """What computes an op that another reader runs, and whose rules ask nothing of its inputs."""
    wanted = [tensor.dtype.numpy for tensor in op.outputs]

    def compute(arrays: Sequence[Array]) -> Sequence[Array]:
        results = computed_on_host(op, function, call, arrays)
        return [_dense(result, dtype) for result, dtype in zip(results, wanted, strict=False)]

    return compute


def _directly(op: Op, function: Direct, arrays: Sequence[Array]) -> Sequence[Array]:
    """The result of an op that a function computes. What numpy refuses, the rules of the op refuse in their words."""
    try:
        result = np.asarray(function(*arrays))
    except (IndexError, ValueError, TypeError, ZeroDivisionError) as error:
        run_op(op, arrays, host=with_kernel)
        raise ArgumentError(f"{op.kind} {op.name!r}: {error}") from None
    return [np.asarray(result, order="C")]


def _dense(array: Array, dtype: np.dtype[np.generic]) -> Array:
    return np.asarray(array, dtype, order="C")


class GraphPart(NamedTuple):
    """An op, or a segment.

    Attributes:
        is_product: whether it is a MatMul.
        compute: gives its results.
        inputs, outputs: ids of its tensors.
    """

    is_product: bool
    compute: Compute
    inputs: Sequence[int]
    outputs: Sequence[int]


class OpByOp:
    """The ops of a graph, one after another.

    Args:
        graph: a graph of cheap ops.
        runs: by id of op, what computes it.
        make: makes the executables of segments; None for no segments.
        often: runs with the same shapes, before these are compiled.

    Attributes:
        is_open: whether shapes depend on contents, so that no program holds all ops for all calls with some shapes.
    """

    def __init__(
        self, graph: DataGraph, runs: dict[int, Compute], make: Make | None = None, often: int = OFTEN
    ) -> None:
        self._often = often
        self.is_open, self._counts, self._large = False, dict[object, int](), set[object]()
        self._graph, self._runs, self._make = graph, runs, make
        self._steps = [self._step(op) for op in graph.ops]
        self._ops = graph.ops
        self._constants = {tensor.id: tensor.value for tensor in graph._tensors if tensor.value is not None}
        self._inputs = [tensor.id for tensor in graph.inputs.values()]
        self._ends = [tensor.id for tensor in graph.outputs.values()]
        made = [number for step in self._steps for number in step.outputs]
        # Results that are inputs, constants, views or other results share no memory with these.
        copied, seen = list[bool](), set[int]()
        for number in self._ends:
            copied.append(number not in made or number in seen)
            seen.add(number)
        self._is_copied = copied

    @classmethod
    def of(
        cls, graph: DataGraph, control: Callable[[Op], Compute], make: Make | None = None, often: int = OFTEN
    ) -> OpByOp | None:
        """What runs a graph of cheap ops; None for other graphs.

        Args:
            graph: the graph.
            control: what computes an op of control flow.
            make: makes the executables of segments; None for no segments.
            often: runs with the same shapes, before these are compiled.
        """
        if any(op.kind not in (CHEAP_HOST if op.edition == HOST else CHEAP) for op in graph.ops):
            return None
        runs = {op.id: control(op) if op.kind in BODIES else ExaminedOp(op).compute for op in graph.ops}
        return cls(graph, runs, make, often)

    def _step(self, op: Op) -> GraphPart:
        """An op as a step."""
        inputs = [tensor.id for tensor in op.inputs]
        return GraphPart(op.kind == "MatMul", self._runs[op.id], inputs, [tensor.id for tensor in op.outputs])

    @cached_property
    def _divided(self) -> Sequence[GraphPart] | None:
        """The steps with segments among them; None if there is no segment."""
        parts = None if self._make is None else segments(self._graph, self._make)
        if parts is None:
            return None
        return [GraphPart(False, *part) if isinstance(part, Segment) else self._step(part) for part in parts]

    def run(self, arrays: Sequence[Array]) -> Sequence[Array] | None:
        """The outputs for these arrays; None if they are large, or come so often that they are worth a compilation."""
        if self.is_open and self._divided is not None:
            return self.results(arrays, steps=self._divided)
        key = tuple([array.shape for array in arrays])
        count = self._counts.get(key, 0)
        is_often = count >= self._often and not self.is_open
        if is_often or key in self._large or sum([array.size for array in arrays]) > SMALL:
            return None
        if len(self._counts) >= MOST_COUNTS:
            self._counts, self._large = {}, set()
        self._counts[key] = count + 1
        try:
            return self.results(arrays, SMALL, MOST_TERMS)
        except TooLargeError:
            self._large.add(key)
            return None

    def results(
        self,
        arrays: Sequence[Array],
        most: float = inf,
        most_terms: float = inf,
        steps: Sequence[GraphPart] | None = None,
    ) -> Sequence[Array]:
        """The outputs for these arrays.

        Args:
            arrays: of the inputs.
            most: elements of a result.
            most_terms: products of a MatMul.
            steps: in their order; by default the ops.

        Raises:
            TooLargeError: a result has more than ``most`` elements, or a MatMul more than ``most_terms`` products.
        """
        values: dict[int, Any] = {**self._constants, **dict(zip(self._inputs, arrays, strict=True))}
        with np.errstate(all="ignore"):
            for is_product, compute, inputs, outputs in steps or self._steps:
                operands = [values[number] for number in inputs]
                if is_product and prod(operands[0].shape) * operands[1].shape[-1] > most_terms:
                    raise TooLargeError
                for number, result in zip(outputs, compute(operands), strict=True):
                    if result.size > most:
                        raise TooLargeError
                    values[number] = result
        return self._owned(values)

    def _owned(self, values: dict[int, Any]) -> Sequence[Array]:
        """The outputs, which own their memory."""
        results = [values[number] for number in self._ends]
        for place, array in enumerate(results):
            if self._is_copied[place] or array.base is not None:
                results[place] = array.copy()
        return results

    def report(self) -> PartitionReport:
        """What a report says of the ops."""
        kinds_of_ops, names = tuple(map(label_of, self._ops)), tuple([op.name for op in self._ops])
        return PartitionReport(0, "host", kinds_of_ops, names, (REASON,))
