"""Adds ops to a graph, in the base vocabulary where it has the data types and as host ops elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._util.open_sizes import is_open
from ..arrays.mapped_files import file_of
from ..arrays.ndarrays import aligned_empty, place_of
from ..builder.graph import DataGraph
from ..errors import SpecError
from ..inference.type_table import typing_of
from ..ir.op import LogicalTensor, Op, make_op
from ..opset.dtypes import OF_NUMPY, DataType
from ..opset.editions.registry import DEFAULT, HOST, edition
from ..opset.kinds import DEQUANTIZATIONS, PER_RUN
from ..opset.signature import Shape
from ..reference import run_op
from .computed import computed, refuse_large
from .open_values import OpenInputs

Array = NDArray[Any]
Value = LogicalTensor | Array
Parts = Sequence[int | None]  # the elements of a vector or a number, None for unknown ones
# Ops of constants that stay in the graph: the library fuses them, they draw random numbers, or wait for processes.
KEPT = PER_RUN | DEQUANTIZATIONS


Rewrite = Callable[["Emitter", Op], Value | None]


class Rewrites(NamedTuple):
    """Functions that replace ops, by the kind of the op; each returns another result or None.

    Attributes:
        early: what replaces an op before it is examined and added; most ops of images are, and adding them takes time.
        late: what replaces an op that was just added.
    """

    early: dict[str, list[Rewrite]]
    late: dict[str, list[Rewrite]]


class NotLowered(Exception):  # noqa: N818 - no error: another way runs the node
    """What no op of a graph computes; the text is the reason."""


class Unsettled(NotLowered):
    """What is lowered once more is known: the dims of the inputs, and the contents of some of them.

    Attributes:
        contents: indices of the inputs of the node whose contents must be known.
    """

    def __init__(self, reason: str, contents: Sequence[int] = ()) -> None:
        super().__init__(reason)
        self.contents = tuple(contents)


class Emitter:
    """Adds ops to ``graph`` and computes those of known arrays.

    Attributes:
        graph: the graph.
        rewrites: functions that replace ops.
        same_as: values that have the same numbers in another data type, by the id of a value, which is kept too.
        codes: what codes were made from and how, by the id of their value, which is kept too.
        parts: what is known of the results of ops that compute shapes, by the id of the op.
        opened: the values that follow from open sizes; None if such a value needs the sizes to be known.
    """

    def __init__(self, graph: DataGraph, rewrites: Rewrites | None = None) -> None:
        self.graph, self.rewrites = graph, rewrites or Rewrites({}, {})
        self.same_as: dict[int, tuple[Value, Value]] = {}
        self.codes: dict[int, tuple[Value, Value, Any]] = {}
        self.parts: dict[int, Parts | None] = {}
        self.opened: OpenInputs | None = None
        self._makers: dict[int, Op] = {}
        self._constants: dict[int, tuple[Array, LogicalTensor]] = {}
        self._names: dict[object, tuple[Array, str]] = {}
        self._prefix = ""
        self._taken: dict[str, int] = {}

    def named(self, name: str) -> None:
        """Begin the names of the next ops with ``name``."""
        self._prefix = name

    def name_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Give names to the constants that these arrays become, and views of all of their numbers in the same order."""
        for name, array in arrays.items():
            self._names.setdefault(place_of(array), (array, name))

    def tensor(self, value: Value) -> LogicalTensor:
        """The value as a tensor of the graph; an array becomes a constant once."""
        if isinstance(value, LogicalTensor):
            return value
        value, name = self._names.get(place_of(value) if self._names else None, (value, ""))
        constant = self._constants.get(id(value))
        if constant is None:
            dtype = OF_NUMPY[value.dtype]
            name = name or f"constant_{len(self.graph._by_id)}"
            # The array is kept, so that its id stays its own.
            constant = self._constants[id(value)] = (
                value,
                self.graph._tensor(dtype, value.shape, name, None, _kept(value)),
            )
        return constant[1]

    def constant_of(self, array: Array) -> LogicalTensor | None:
        """The constant that an array has become; None if no op reads it."""
        constant = self._constants.get(id(self._names.get(place_of(array), (array, ""))[0]))
        return None if constant is None else constant[1]

    def op(
        self,
        kind: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, object] | None = None,
        *,
        dtype: DataType | None = None,
        outputs: Sequence[str] | None = None,
        edition: str | None = None,
    ) -> Value:
        """Add an op with one result, or compute it if every input is known, and return the result.

        Args:
            kind, inputs, attrs, dtype, outputs: as for :meth:`onegraph.Graph.op`.
            edition: the edition of the op; by default the base vocabulary if it has the op with these data types, else
                the host ops.

        Raises:
            SpecError: the op cannot have these inputs or attributes.
        """
        result: Value = self._op(kind, inputs, attrs, dtype, outputs, edition)
        return result

    def ends(
        self,
        kind: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, object] | None = None,
        *,
        dtype: DataType | None = None,
        outputs: Sequence[str] | None = None,
        edition: str | None = None,
    ) -> tuple[Value, ...]:
        """Add an op with several results, or compute it if every input is known, and return the results.

        Args:
            kind, inputs, attrs, dtype, outputs: as for :meth:`onegraph.Graph.op`.
            edition: as for :meth:`op`.

        Raises:
            SpecError: the op cannot have these inputs or attributes.
        """
        results: Value | tuple[Value, ...] = self._op(kind, inputs, attrs, dtype, outputs, edition)
        return results if isinstance(results, tuple) else (results,)

    def _op(
        self,
        kind: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, object] | None,
        dtype: DataType | None,
        outputs: Sequence[str] | None,
        edition: str | None,
    ) -> Any:
        """Add an op, or compute it if every input is known; returns its result, or a tuple of results."""
        chosen = edition or edition_of(kind, [None if value is None else dtype_of(value) for value in inputs])
        if kind not in KEPT and all(value is None or isinstance(value, np.ndarray) for value in inputs):
            return computed(kind, inputs, attrs, dtype, outputs, chosen)
        tensors = [None if value is None else self.tensor(value) for value in inputs]
        if (
            outputs is None
            and dtype is None
            and (replacement := self._replaced(kind, tensors, attrs, chosen)) is not None
        ):
            return replacement
        results = self.graph.op(kind, tensors, attrs, name=self._name(), dtype=dtype, outputs=outputs, edition=chosen)
        replacement = self._replaced_late(self.graph._ops[-1])
        if replacement is None:
            return results
        return replacement if isinstance(results, LogicalTensor) else (replacement, *results[1:])

    def repeat(self, op: Op, inputs: Sequence[LogicalTensor | None]) -> Sequence[Value]:
        """Add an op of another graph, or what replaces it, and return its results.

        Args:
            op: the op.
            inputs: tensors of this graph in the place of its inputs, of which more may be known.

        Raises:
            SpecError: the op cannot have these inputs.
        """
        if (early := self._replaced(op.kind, inputs, op.attrs, op.edition)) is not None:
            return (early,)
        names, types = [end.name for end in op.outputs], tuple([end.dtype for end in op.outputs])
        name = self._name() or op.name
        results = self.graph._add_op(
            edition(op.edition), op.kind, dict(op.attrs), inputs, types, name=name, names=names
        )
        replacement = self._replaced_late(self.graph._ops[-1])
        return results if replacement is None else (replacement, *results[1:])

    def _replaced_late(self, op: Op) -> Value | None:
        """What replaces the first result of an op that was just added; None if nothing does."""
        self._makers.update(dict.fromkeys([tensor.id for tensor in op.outputs], op))
        for rewrite in self.rewrites.late.get(op.kind, ()):
            try:
                if (replacement := rewrite(self, op)) is not None:
                    return replacement
            except SpecError:  # no op has this form; the op that was added stays
                continue
        return None

    def _replaced(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor | None],
        attrs: Mapping[str, object] | None,
        chosen: str,
    ) -> Value | None:
        """What replaces an op before it is added; None if nothing does."""
        for rewrite in self.rewrites.early.get(kind, ()):
            draft = make_op(-1, kind, tuple(inputs), (), attrs or {}, "", chosen, None)
            try:
                if (replacement := rewrite(self, draft)) is not None:
                    return replacement
            except SpecError:
                return None  # adding the op raises an error in the terms of the model
        return None

    def maker(self, value: Value | None) -> Op | None:
        """The op that makes a tensor; None for a known array, an input or a constant."""
        return self._makers.get(value.id) if isinstance(value, LogicalTensor) else None

    def foreign(
        self,
        inputs: Sequence[Value],
        attrs: Mapping[str, object],
        dtypes: Sequence[DataType],
        *,
        repeatable: bool,
        kind: str = "OnnxNode",
    ) -> Sequence[Value]:
        """Add a host op of which attributes alone say what it computes, or compute it if every input is known.

        Args:
            inputs: the inputs of the op.
            attrs: attributes of the op.
            dtypes: data types of the results.
            repeatable: whether the op may be computed now, because it is short and not random.
            kind: the op; by default the nodes of an ONNX model.
        """
        graph = DataGraph() if repeatable and all(map(is_known, inputs)) else self.graph
        if graph is self.graph:
            tensors = [self.tensor(value) for value in inputs]
        else:
            arrays = [input_ for input_ in inputs if isinstance(input_, np.ndarray)]
            tensors = [graph._tensor(OF_NUMPY[array.dtype], array.shape, "", None, array) for array in arrays]
        name = self._name() or f"{kind}_{len(graph.ops)}"
        labels = [f"{name}.{number}" for number in range(len(dtypes))]
        results = graph._add_op(edition(HOST), kind, attrs, tensors, tuple(dtypes), name=name, names=labels)  # type: ignore[arg-type]
        if graph is self.graph:
            return results
        for result in graph.ops[0].outputs:
            refuse_large(result.shape, result.dtype)
        return run_op(graph.ops[0], inputs)  # type: ignore[arg-type]

    def _name(self) -> str | None:
        """A free name for the next op, which begins with the name of the node."""
        if not self._prefix:
            return None
        count = self._taken.get(self._prefix, 0)
        while (name := f"{self._prefix}/{count}" if count else self._prefix) in self.graph._names:
            count += 1
        self._taken[self._prefix] = count + 1
        return name


def _kept(value: Array) -> Array:
    """The contents of a constant: the array itself, which nobody else has, or a copy if its layout needs one."""
    value = np.asarray(value)  # numpy returns a number, which no flag keeps, for arrays without axes
    fits = value.flags.c_contiguous and (value.flags.aligned or file_of(value) is not None)
    array: Array = value.view() if fits else aligned_empty(value.shape, value.dtype)
    if not fits:
        array[...] = value
    array.flags.writeable = False
    return array


def edition_of(kind: str, dtypes: Sequence[DataType | None]) -> str:
    """The base vocabulary if it has the op for these data types, else the host ops."""
    schema = edition(DEFAULT).schema(kind)
    if schema is None:
        return HOST
    if edition(HOST).schema(kind) is None:
        return DEFAULT
    while dtypes and dtypes[-1] is None:
        dtypes = dtypes[:-1]
    rows, _ = typing_of(DEFAULT, schema.kind, tuple(dtypes), ())
    return DEFAULT if rows and DataType.s32 not in dtypes else HOST


def dtype_of(value: Value) -> DataType:
    """Data type of a value."""
    return value.dtype if isinstance(value, LogicalTensor) else OF_NUMPY[value.dtype]


def shape_of(value: Value) -> Shape:
    """Shape of a value, with None for what is unknown."""
    return value.shape


def rank_of(value: Value) -> int | None:
    """Rank of a value; None if it is unknown."""
    shape = shape_of(value)
    return None if shape is None else len(shape)


def known_rank(value: Value) -> int:
    """Rank of a value.

    Raises:
        Unsettled: the rank is unknown.
    """
    rank = rank_of(value)
    if rank is None:
        raise Unsettled("the rank is unknown")
    return rank


def is_known(value: Value | None) -> bool:
    """Whether a value is a known array."""
    return isinstance(value, np.ndarray)


def numbers(*values: int) -> Array:
    """Integers as a known array, for shapes and axes."""
    return np.array(values, np.int64)


def integers(op: Op, name: str) -> tuple[int, ...]:
    """An attribute that is a list of integers, some of which may be open sizes."""
    attribute: Any = op.attrs[name]
    return tuple(number if is_open((number,)) else int(number) for number in attribute)
