"""Computes convolutions of few windows, and their gradients, as products of matrices, which have plain layouts.

The library copies weights that are no constants into blocks in every run, and writes their gradient in blocks, which it
copies into the plain layout. With few windows, as of small images in a small batch, that takes several times as long as
the arithmetic.

With the elements under each window as a row of a matrix, the gradient by the weights is a product of two small
matrices, which is written once. A kernel of the package copies the rows. Where windows are single elements, the data
are such a matrix already, and the weights are the other one: the convolution and its gradient by the data are products,
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..capi.settings import is_native
from ..faults.ops.windows import WEIGHT_GRADIENTS
from ..faults.use import BINARY, ELEMENTWISE, FOLDED
from ..opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ..opset.schema import TensorType
from ..opset.shapes import known_dims
from ..opset.signature import AttrValue
from .lowered import Dims, Lowered, Step, dense_of
from .rewrites import Part

GRADIENTS = frozenset(WEIGHT_GRADIENTS.split())
CHANNELS_FIRST = frozenset(["OIX", "IOX"])  # formats of weights
SINGLE = frozenset(["Convolution", "ConvolutionBackwardData"])  # with windows of single elements
NOTE = "as a product of two matrices, because there are few windows"
LEAST = 1 << 14  # elements of weights; fewer take no time
# Windows for each row and column of a gradient by weights, up to which the other matrices are small beside it.
MOST_WINDOWS = 0.5
MOST_ROWS = 512  # of data, up to which the copy of the weights takes long beside the product


class Windows(NamedTuple):
    """The windows that a step of executor ``windows`` copies; one number for each spatial axis."""

    places: Dims
    kernel: Dims
    strides: Dims
    dilations: Dims
    pads_begin: Dims

    @property
    def reach(self) -> Dims:
        """The elements from the first one of the first window to the last one of the last."""
        axes = zip(self.places, self.kernel, self.strides, self.dilations, strict=True)
        return tuple([(n - 1) * stride + (size - 1) * dilation + 1 for n, size, stride, dilation in axes])


def windows_of(step: Step) -> Windows:
    """The windows of a step of executor ``windows``."""
    return Windows(*[step.attrs[name] for name in Windows._fields])  # type: ignore[arg-type]


def multiply_windows(lowered: Lowered) -> Lowered:
    """The graph with products in place of convolutions of few windows, and of their gradients."""
    found = {step.id: geometry for step in lowered.steps if (geometry := _suited(lowered, step)) is not None}
    return _Products(lowered).run(found) if found else lowered


def _suited(lowered: Lowered, step: Step) -> ConvolutionGeometry | None:
    """The geometry of a step that is faster as a product; None for other steps."""
    if step.kind not in GRADIENTS | SINGLE or step.executor != "library" or step.part is None:
        return None
    found, values = convolution_geometry(step.part.call), lowered.values
    if found is None or found.groups > 1 or found.data_format != "NXC":
        return None
    if found.pads_begin is None or min(found.pads_begin, default=0) < 0:
        return None
    if step.kind in SINGLE:
        weights, rows = values[step.inputs[1]], prod(values[step.inputs[0]].shape[:-1])
        is_plain = len(step.inputs) == 2 and weights.constant is None and weights.dense
        is_suited = is_plain and _has_single_elements(found) and rows <= MOST_ROWS
        return found if is_suited and prod(weights.shape) >= LEAST and not _is_fused(lowered, step) else None
    gradient, (*places, channels) = values[step.outputs[0]], values[_sides(step)[1]].shape
    size = prod(gradient.shape)
    return found if size >= LEAST and prod(places) <= MOST_WINDOWS * min(channels, size // channels) else None


def _has_single_elements(found: ConvolutionGeometry) -> bool:
    """Whether each element of the data is a window of its own."""
    ends = [*(found.kernel or ()), *found.strides]
    return all(size == 1 for size in ends) and not any((*(found.pads_begin or ()), *(found.pads_end or ())))


def _is_fused(lowered: Lowered, step: Step) -> bool:
    """Whether the library may compute an op behind a convolution together with it."""
    behind = {other.kind for other in lowered.steps if step.outputs[0] in other.inputs}
    return step.kind == "Convolution" and not behind.isdisjoint(BINARY | ELEMENTWISE | FOLDED)


def _sides(step: Step) -> tuple[int, int]:
    """The value with the elements under the windows, and that with one row of channels for each window."""
    first, second = step.inputs[:2]
    return (second, first) if step.kind.startswith("ConvTranspose") else (first, second)


class _Products:
    def __init__(self, lowered: Lowered) -> None:
        self._lowered, self._values = lowered, dict(lowered.values)
        self._makers = {number: step for step in lowered.steps for number in step.outputs}
        self._returned = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._readers: dict[int, list[Step]] = {}
        for step in lowered.steps:
            for number in step.inputs:
                self._readers.setdefault(number, []).append(step)
        self._steps: list[Step] = []
        self._made: set[int] = set()  # results of casts that a product computes

    def run(self, found: dict[int, ConvolutionGeometry]) -> Lowered:
        """The graph with products in place of these steps; called once."""
        for step in self._lowered.steps:
            if step.id in found:
                add = self._add_single if step.kind in SINGLE else self._add_gradient
                add(step, found[step.id])
            elif self._made.isdisjoint(step.outputs):
                self._steps.append(step)
        read = self._returned | {number for step in self._steps for number in step.reads}
        widened = {number for step in self._lowered.steps if step.id in found for number in step.inputs}
        steps = [step for step in self._steps if step.outputs[0] not in widened or step.outputs[0] in read]
        numbered = tuple([step._replace(id=number) for number, step in enumerate(steps)])
        return replace(self._lowered, values=self._values, steps=numbered)

    def _add_single(self, step: Step, found: ConvolutionGeometry) -> None:
        """Add a convolution of single elements, or its gradient by the data."""
        (data, weights), (result,) = step.inputs, step.outputs
        values, is_first = self._values, found.weights_format in CHANNELS_FIRST
        *places, channels = values[data].shape
        rows, columns = prod(places), values[result].shape[-1]
        is_turned = is_first == (step.kind == "Convolution")
        left = self._matrix(step, data, (rows, channels))
        right = self._matrix(step, weights, (columns, channels) if is_turned else (channels, columns))
        product = self._new(result, (rows, columns), "matrix")
        self._add(step, "MatMul", (left, right), product, {"transpose_b": is_turned})
        self._reshape(step, product, result)

    def _add_gradient(self, step: Step, found: ConvolutionGeometry) -> None:
        """Add a gradient by the weights."""
        (wide, narrow), gradient = self._in_own_type(step)
        values, is_first = self._values, found.weights_format in CHANNELS_FIRST
        *places, channels = values[narrow].shape
        rows, size = prod(places), prod(values[gradient].shape) // channels
        if _has_single_elements(found):
            windows = self._matrix(step, wide, (rows, size))
        else:
            windows = self._new(wide, (rows, size), "windows")
            taken = Windows(
                tuple(places[1:]), known_dims(found.kernel), found.strides, found.dilations, found.pads_begin or ()
            )
            attrs: dict[str, AttrValue] = {**taken._asdict(), "channels_first": is_first}
            made = step._replace(executor="windows", inputs=(wide,), outputs=(windows,), attrs=attrs, part=None)
            self._steps.append(made._replace(whole=False))
        matrix = self._matrix(step, narrow, (rows, channels))
        product = self._new(gradient, (channels, size) if is_first else (size, channels), "matrix")
        self._add(step, "MatMul", (matrix, windows) if is_first else (windows, matrix), product, {"transpose_a": True})
        self._reshape(step, product, gradient)

    def _matrix(self, step: Step, source: int, shape: Dims) -> int:
        """The number of a value as a matrix."""
        matrix = self._new(source, shape, "matrix")
        self._reshape(step, source, matrix)
        return matrix

    def _in_own_type(self, step: Step) -> tuple[tuple[int, int], int]:
        """The two sides of a step and its gradient; those of 16 bits, if a gradient of them is computed in f32.

        The product of 16-bit matrices is summed in f32, and rounded once.
        """
        sides, gradient = _sides(step), step.outputs[0]
        makers = [self._makers.get(number) for number in sides]
        sources = [one.inputs[0] for one in makers if one is not None and one.kind == "TypeCast"]
        readers = self._readers.get(gradient, ())
        types = {self._values[number].dtype for number in sources}
        if len(sources) < 2 or len(readers) != 1 or readers[0].kind != "TypeCast" or gradient in self._returned:
            return sides, gradient
        result = readers[0].outputs[0]
        if types != {self._values[result].dtype} or not all(map(is_native, types)):
            return sides, gradient
        self._made.add(result)
        return (sources[0], sources[1]), result

    def _new(self, like: int, shape: Dims, name: str) -> int:
        """The number of a new value of the data type of another one."""
        number, value = len(self._values), self._values[like]
        made = value._replace(id=number, shape=shape, name=f"{value.name} ({name})", constant=None)
        self._values[number] = made.placed(number, dense_of(shape))
        return number

    def _reshape(self, step: Step, source: int, target: int) -> None:
        """Add a view of a value in another shape."""
        shape = self._values[target].shape
        self._add(step, "StaticReshape", (source,), target, {"shape": shape, "special_zero": False})

    def _add(self, step: Step, kind: str, inputs: tuple[int, ...], output: int, attrs: Mapping[str, AttrValue]) -> None:
        """Add an op of the library in place of a step."""
        types = [TensorType(self._values[one].dtype, self._values[one].shape) for one in (*inputs, output)]
        part = Part(kind, attrs, tuple(range(len(inputs))), tuple(types[:-1]), (types[-1],))
        made = step._replace(kind=kind, inputs=inputs, outputs=(output,), attrs=attrs, note=NOTE, part=part)
        self._steps.append(made._replace(whole=False))
