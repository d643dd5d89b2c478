"""Sizes of open dims and ordinary contents of inputs, with which a model is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from .._util.records import record
from ..errors import OneGraphError
from ..ir.op import Array
from .onnx_types import ModelInput

UNKNOWN_RANK = (2, 8)  # the shape that is tried for an input of unknown rank
PAIRS = ((8, 11), (2, 3), (16, 24), (32, 64), (1, 2))  # two sizes of open dims; the first pair that runs is judged
BATCHES = (2, 3)  # of an open first dim
INTEGERS_FROM_0 = 2  # random integers for inputs that take no larger ones, such as indices


@record(frozen=True)
class InputShapes:
    """Shapes of the inputs, by name, and the label of a run with them."""

    shapes: Mapping[str, tuple[int, ...]]
    label: str


def sizes_of(
    ports: Sequence[ModelInput],
    fixed: Mapping[str, tuple[int, ...]],
    arrays: Mapping[str, Array] | None,
    pair: tuple[int, int],
) -> Iterator[InputShapes]:
    """The shapes of two runs; one if no dim is open.

    Args:
        ports: the inputs.
        fixed, arrays: the shapes of some inputs, and arrays, which decide the first run.
        pair: the two sizes of other open dims.
    """
    names = dict.fromkeys(name for port in ports for name in port.open_dims())
    batch = {port.open_dims()[0] for port in ports if port.dims and type(port.dims[0]) is not int}
    known: dict[str, int] = {}
    shapes = {**{name: array.shape for name, array in (arrays or {}).items()}, **fixed}
    for port in ports:
        dims = zip(port.dims or (), shapes.get(port.name, ()), strict=False)
        sizes = [size for dim, size in dims if type(dim) is not int]
        known.update(zip(port.open_dims(), sizes, strict=False))
    for turn in (0, 1):
        sizes_by_name = {}
        for name in names:
            default = (BATCHES if name in batch else pair)[turn]
            sizes_by_name[name] = known[name] + turn if name in known else default
        shapes_found = {}
        for port in ports:
            shape = port.shape(sizes_by_name)
            shapes_found[port.name] = shapes.get(port.name, UNKNOWN_RANK) if shape is None else shape
        label = ", ".join(f"{name} {size}" for name, size in sizes_by_name.items()) or "known dims"
        yield InputShapes(shapes_found, label)
        if not names:
            return


def ordinary(path: Path, ports: Sequence[ModelInput], sizes: InputShapes, seed: int) -> Iterator[dict[str, Array]]:
    """Ordinary inputs: first with the integers that fit the graph, then with small ones, then with zeros."""
    rng = np.random.default_rng(seed)
    fitting = _calibrated(path, sizes, seed)
    for high in (None, INTEGERS_FROM_0, 1):
        made: dict[str, Array] = {}
        for port in ports:
            dtype, shape = onnx.helper.tensor_dtype_to_np_dtype(port.elem_type), sizes.shapes[port.name]
            if dtype.kind in "iu":
                whole = rng.integers(0, 100 if dtype.itemsize == 1 else 4, shape)
                fit = fitting.get(port.name)
                made[port.name] = np.asarray(
                    (whole if fit is None else fit) if high is None else rng.integers(0, high, shape)
                ).astype(dtype)
            elif dtype.kind == "b":
                made[port.name] = rng.integers(0, 2, shape).astype(np.bool_)
            else:
                made[port.name] = np.asarray(rng.standard_normal(shape)).astype(dtype)
        yield made
        if all(array.dtype.kind not in "iu" for array in made.values()):
            return


def _calibrated(path: Path, sizes: InputShapes, seed: int) -> Mapping[str, Array]:
    """Random inputs that are in the domain of the ops that read them."""
    from .. import onnx as front_end
    from ..testing.random_inputs import random_inputs

    try:
        return random_inputs(front_end.load(path, shapes=sizes.shapes), seed)
    except (OneGraphError, NotImplementedError):
        return {}


def borders(array: Array, *, largest: bool) -> Array:
    """An array of the least or the largest integer: of its type for 8 bits, else of those in it; floats stay."""
    if array.dtype.kind not in "iub" or not array.size:
        return array
    if array.dtype.kind != "b" and array.dtype.itemsize == 1:
        limits = np.iinfo(array.dtype.name)
        return np.full_like(array, limits.max if largest else limits.min)
    return np.full_like(array, array.max() if largest else array.min())


__all__ = ["InputShapes", "borders", "ordinary", "sizes_of"]
