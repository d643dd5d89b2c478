"""A model as a function from dictionaries of arrays to dictionaries of arrays, which engines call for each batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._util.counted import counted
from .._util.exact_types import has_type
from .._util.fork_safety import new_rlock
from .._util.paths import path_of
from .._util.validation import as_dict, as_list, choice, integer
from ..arrays.ndarrays import array_of
from ..builder.graph import DataGraph
from ..errors import ArgumentError
from ..ir.op import Array
from ..loading import load
from ..opset.shapes import known, known_dims, show
from ..runtime.executable import Executable, TensorSpec, compile_graph

Columns = Mapping[str, Array]
Model = DataGraph | Executable | str
REMAINDERS = ("pad", "compile")
MOST_ROWS = 2**31 - 1
NUMBERS = "biufV"  # kinds of numpy's data types; V has those of ml_dtypes

_lock = new_rlock()
_loaded: dict[object, Executable] = {}  # the models that this process has loaded from files, by file and options


class BatchInference:
    """A model that maps a batch of rows, a dictionary of arrays, to a dictionary of arrays.

    Give the class to Ray Data, ``dataset.map_batches(BatchInference, fn_constructor_args=[path])``, or an object of it
    to Dask, ``client.map(object, batches)``. A model from a file is loaded and compiled once in each process, at the
    first batch or by ``prepare``. The first axis of every input and output counts the rows.

    Args:
        model: the folder of a saved executable, the file of a graph or of an ONNX model, a graph, or an executable.
        batch_size: a batch of more rows is computed in pieces of so many rows. By default the number that the model
            has for its first axis; if that is open, a batch is computed whole.
        remainder: what to do with a piece of fewer rows. ``pad`` repeats its last row up to ``batch_size``, so that one
            program is compiled; ``compile`` compiles a program for each number of rows.
        columns: by name of input, the column of the batch that it takes. By default the column of its name.
        keep: names of columns that go from the batch to the result, such as keys.
        options: of ``Graph.compile``, such as ``threads=1``; not for executables, which have their options.

    Raises:
        ArgumentError: an argument is wrong.
    """

    def __init__(
        self,
        model: DataGraph | Executable | str | PathLike[str],
        *,
        batch_size: int | None = None,
        remainder: str = "pad",
        columns: Mapping[str, str] | None = None,
        keep: Sequence[str] = (),
        **options: Any,
    ) -> None:
        if has_type(model, Executable) and options:
            raise ArgumentError(f"BatchInference: {', '.join(options)}: not for an executable, which is compiled")
        is_path = not has_type(model, (DataGraph, Executable))
        self._model: Model = str(path_of("model", model, "a path, a Graph or an Executable")) if is_path else model  # type: ignore[assignment]
        self._options = options
        self._batch_size = None if batch_size is None else integer("batch_size", batch_size, 1, MOST_ROWS)
        self._pads = choice("remainder", remainder, REMAINDERS) == "pad"
        self._columns = dict(as_dict("columns", columns or {}, "a dictionary of names"))
        self._keep = tuple(as_list("keep", keep, str))
        self._executable: Executable | None = None

    @property
    def executable(self) -> Executable:
        """The model, which is loaded and compiled now if it was not yet.

        Raises:
            FormatError: the file cannot be read.
        """
        if self._executable is None:
            self._executable = compiled(self._model, self._options)
            self._batch_size = self._batch_size or _fixed_rows(self._executable.inputs)
        return self._executable

    def prepare(self) -> BatchInference:
        """Load the model, and compile it for ``batch_size`` rows. Returns the object."""
        inputs, rows = self.executable.inputs, self._batch_size
        dims = {spec.name: None if spec.shape is None else spec.shape[1:] for spec in inputs}
        if rows is not None and all(map(known, dims.values())):
            zeros = {spec.name: np.zeros((rows, *known_dims(dims[spec.name])), spec.dtype.numpy) for spec in inputs}
            self.executable(**zeros)
        return self

    def __call__(self, batch: Columns) -> dict[str, Array]:
        """The outputs of the model by name, and the columns to keep.

        Args:
            batch: arrays by name of column, all with the same number of rows. Numbers of the same kind are cast to the
                data type of the input, such as float64 to f32.

        Raises:
            ArgumentError: a column is missing or does not fit its input, or the columns differ in their rows.
        """
        model, columns = self.executable, as_dict("batch", batch, "a dictionary of arrays by name of column")
        arrays = {
            spec.name: _for_input(columns, self._columns.get(spec.name, spec.name), spec) for spec in model.inputs
        }
        rows = {name: len(array) for name, array in arrays.items()}
        if len({*rows.values()}) != 1:
            raise ArgumentError(f"batch: rows: {rows}; expected one number of rows in all columns")
        count = next(iter(rows.values()))
        most = self._batch_size or count
        pieces = [
            self._run(model, {name: array[at : at + most] for name, array in arrays.items()}, min(most, count - at))
            for at in (range(0, count, most) if count else [0])
        ]
        results = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        return {**results, **{name: _column(columns, name, "keep") for name in self._keep}}

    def _run(self, model: Executable, arrays: Columns, rows: int) -> dict[str, Array]:
        """The outputs for at most ``batch_size`` rows."""
        total = self._batch_size if self._batch_size and self._pads else rows
        results = model._run_by_name({name: _padded(array, total) for name, array in arrays.items()})
        for name, array in results.items():
            if not array.ndim or len(array) != total:
                raise ArgumentError(
                    f"output {name!r}: shape {show(array.shape)}; expected {counted(total, 'row')}, as the inputs"
                )
        return {name: array[:rows] for name, array in results.items()}

    def __getstate__(self) -> dict[str, object]:
        """The arguments: the model is compiled anew where the object arrives."""
        return {**vars(self), "_executable": None}


def compiled(model: Model, options: Mapping[str, Any]) -> Executable:
    """The model, compiled; one from a file is compiled once in each process."""
    if has_type(model, Executable):
        return model
    if has_type(model, DataGraph):
        return compile_graph(model, **options)
    key = model, repr(sorted(options.items()))
    with _lock:
        if key not in _loaded:
            _loaded[key] = _from_file(Path(model), options)
        return _loaded[key]


def _from_file(path: Path, options: Mapping[str, Any]) -> Executable:
    if path.suffix == ".onnx":
        from ..onnx import load as load_onnx

        return load_onnx(path).compile(**options)
    loaded = load(path)
    if not has_type(loaded, Executable):
        return loaded.compile(**options)
    if options:
        raise ArgumentError(f"BatchInference: {', '.join(options)}: not for a saved executable, which has its options")
    return loaded


def _fixed_rows(inputs: Sequence[TensorSpec]) -> int | None:
    """The number of rows that the inputs of a model must have; None if it is open."""
    return next((dims[0] for spec in inputs if (dims := spec.shape) and dims[0] is not None), None)


def _column(batch: Columns, name: str, purpose: str) -> Array:
    if name not in batch:
        raise ArgumentError(f"{purpose}: no column {name!r}; the columns of the batch are {', '.join(batch) or 'none'}")
    return batch[name]


def _for_input(batch: Columns, name: str, spec: TensorSpec) -> Array:
    """The column for an input, in its data type."""
    array, wanted = array_of(f"column {name!r}", _column(batch, name, f"input {spec.name!r}")), spec.dtype.numpy
    if array.ndim == 0 or array.dtype.kind not in NUMBERS or not np.can_cast(array.dtype, wanted, "same_kind"):
        expected = f"rows for input {spec.name!r}, {spec.dtype} {show(spec.shape)}"
        raise ArgumentError(f"column {name!r}: {array.dtype} {show(array.shape)}; expected {expected}")
    return np.ascontiguousarray(array, wanted)


def _padded(array: Array, rows: int) -> Array:
    """The array with its last row repeated up to a number of rows; zeros if it has no row."""
    if len(array) == rows:
        return array
    last = array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(last, rows - len(array), axis=0)])
