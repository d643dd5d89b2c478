"""Computes the gradient of a convolution by its weights as one product, where there are few windows.

The library's kernels write such a gradient in blocks, add the parts of the threads, and copy the blocks into the plain
layout. With few windows, as of small images in a small batch, that takes several times as long as the arithmetic. With
the elements under each window as a row of a matrix, the gradient is a product of two small matrices, which is written
once. A kernel of the package copies the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..capi.settings import is_native
from ..faults.ops.windows import WEIGHT_GRADIENTS
from ..opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ..opset.schema import AttrValue, TensorType
from ..opset.shapes import known_dims
from .lowered import Dims, Lowered, Step, dense_of
from .rewrites import Part

KINDS = frozenset(WEIGHT_GRADIENTS.split())
CHANNELS_FIRST = frozenset(["OIX", "IOX"])  # formats of weights
NOTE = "as a product of two matrices, because there are few windows"
LEAST = 1 << 14  # elements of a gradient; fewer take no time
# Windows for each channel of the result of the convolution, up to which the rows are small beside the gradient.
MOST_WINDOWS = 0.5


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
    """The graph with products in place of the gradients by weights that have few windows."""
    found = {step.id: geometry for step in lowered.steps if (geometry := _suited(lowered, step)) is not None}
    return _Products(lowered).run(found) if found else lowered


def _suited(lowered: Lowered, step: Step) -> ConvolutionGeometry | None:
    """The geometry of a step that is faster as a product; None for other steps."""
    if step.kind not in KINDS or step.executor != "library" or step.part is None:
        return None
    found, gradient = convolution_geometry(step.part.call), lowered.values[step.outputs[0]]
    if found is None or found.groups > 1 or found.data_format != "NXC" or prod(gradient.shape) < LEAST:
        return None
    if found.pads_begin is None or min(found.pads_begin, default=0) < 0:
        return None
    *places, channels = lowered.values[_sides(step)[1]].shape
    return found if prod(places) <= MOST_WINDOWS * channels else None


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
                self._add_product(step, found[step.id])
            elif self._made.isdisjoint(step.outputs):
                self._steps.append(step)
        read = self._returned | {number for step in self._steps for number in step.reads}
        widened = {number for step in self._lowered.steps if step.id in found for number in step.inputs}
        steps = [step for step in self._steps if step.outputs[0] not in widened or step.outputs[0] in read]
        numbered = tuple([step._replace(id=number) for number, step in enumerate(steps)])
        return replace(self._lowered, values=self._values, steps=numbered)

    def _add_product(self, step: Step, found: ConvolutionGeometry) -> None:
        (wide, narrow), gradient = self._in_own_type(step)
        values, is_first = self._values, found.weights_format in CHANNELS_FIRST
        *places, channels = values[narrow].shape
        rows, size = prod(places), prod(values[gradient].shape) // channels
        windows = self._new(wide, (rows, size), "windows")
        taken = Windows(
            tuple(places[1:]), known_dims(found.kernel), found.strides, found.dilations, found.pads_begin or ()
        )
        attrs: dict[str, AttrValue] = {**taken._asdict(), "channels_first": is_first}
        self._steps.append(
            step._replace(executor="windows", inputs=(wide,), outputs=(windows,), attrs=attrs, part=None, whole=False)
        )
        matrix = self._new(narrow, (rows, channels), "matrix")
        product = self._new(gradient, (channels, size) if is_first else (size, channels), "matrix")
        self._reshape(step, narrow, matrix)
        ends = (matrix, windows) if is_first else (windows, matrix)
        self._add(step, "MatMul", ends, product, {"transpose_a": True})
        self._reshape(step, product, gradient)

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
