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

from math import prod

from ...capi.settings import is_native
from ...faults.ops.windows import WEIGHT_GRADIENTS
from ...faults.use import BINARY, ELEMENTWISE, FOLDED
from ...opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ...opset.shapes import known_dims
from ...opset.signature import AttrValue
from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..ir.value import Dims
from ..kernels.windows import WINDOWS, Windows
from ..options import Options

GRADIENTS = frozenset(WEIGHT_GRADIENTS.split())
CHANNELS_FIRST = frozenset(["OIX", "IOX"])  # formats of weights
SINGLE = frozenset(["Convolution", "ConvolutionBackwardData"])  # with windows of single elements
NOTE = "as a product of two matrices, because there are few windows"
LEAST = 1 << 14  # elements of weights; fewer take no time
# Windows for each row and column of a gradient by weights, up to which the other matrices are small beside it.
MOST_WINDOWS = 0.5
MOST_ROWS = 512  # of data, up to which the copy of the weights takes long beside the product


def multiply_windows(edit: Edit, _: Options) -> None:
    """Put products in the place of convolutions of few windows, and of their gradients."""
    for step in edit.graph.steps:
        geometry = _suited(edit.graph, step)
        if geometry is not None:
            _Product(edit, step, geometry).put()


def _suited(graph: Lowered, step: Step) -> ConvolutionGeometry | None:
    """The geometry of a step that is faster as a product; None for other steps."""
    part = step.library_part
    if step.kind not in GRADIENTS | SINGLE or part is None:
        return None
    geometry, values = convolution_geometry(part.call), graph.values
    assert geometry is not None
    if geometry.groups > 1 or geometry.data_format != "NXC" or min(known_dims(geometry.pads_begin)) < 0:
        return None
    if step.kind in SINGLE:
        weights, rows = values[step.inputs[1]], prod(values[step.inputs[0]].shape[:-1])
        is_plain = len(step.inputs) == 2 and weights.constant is None and weights.dense
        is_suited = is_plain and _has_single_elements(geometry) and rows <= MOST_ROWS
        return geometry if is_suited and prod(weights.shape) >= LEAST and not _is_fused(graph, step) else None
    gradient, (*places, channels) = values[step.outputs[0]], values[_sides(step)[1]].shape
    size = prod(gradient.shape)
    return geometry if size >= LEAST and prod(places) <= MOST_WINDOWS * min(channels, size // channels) else None


def _has_single_elements(geometry: ConvolutionGeometry) -> bool:
    """Whether each element of the data is a window of its own."""
    ends = [*known_dims(geometry.kernel), *geometry.strides]
    return all(size == 1 for size in ends) and not any(
        (*known_dims(geometry.pads_begin), *known_dims(geometry.pads_end))
    )


def _is_fused(graph: Lowered, step: Step) -> bool:
    """Whether the library may compute an op behind a convolution together with it."""
    consumers = {consumer.kind for consumer in graph.consumers(step.outputs[0])}
    return step.kind == "Convolution" and not consumers.isdisjoint(BINARY | ELEMENTWISE | FOLDED)


def _sides(step: Step) -> tuple[int, int]:
    """The value with the elements under the windows, and that with one row of channels for each window."""
    first, second = step.inputs[:2]
    return (second, first) if step.kind.startswith("ConvTranspose") else (first, second)


class _Product:
    """The product in the place of one step.

    Args:
        edit: the changes of the graph.
        step: a convolution or one of its gradients.
        geometry: its geometry.
    """

    def __init__(self, edit: Edit, step: Step, geometry: ConvolutionGeometry) -> None:
        self._edit, self._step, self._geometry, self._values = edit, step, geometry, edit.values
        self._is_first = geometry.weights_format in CHANNELS_FIRST
        self._steps: list[Step] = []

    def put(self) -> None:
        """Put the product into the graph; called once."""
        if self._step.kind in SINGLE:
            self._multiply_elements()
        else:
            self._multiply_windows()
        self._edit.replace(self._step, *self._steps)

    def _multiply_elements(self) -> None:
        """Compute a convolution of single elements, or its gradient by the data."""
        (data, weights), (result,) = self._step.inputs, self._step.outputs
        *places, channels = self._values[data].shape
        rows, columns = prod(places), self._values[result].shape[-1]
        is_turned = self._is_first == (self._step.kind == "Convolution")
        left = self._matrix(data, (rows, channels))
        right = self._matrix(weights, (columns, channels) if is_turned else (channels, columns))
        product = self._values.like(result, "matrix", (rows, columns))
        self._add("MatMul", (left, right), product, {"transpose_b": is_turned})
        self._reshape(product, result)

    def _multiply_windows(self) -> None:
        """Compute a gradient by the weights."""
        (wide, narrow), gradient = self._in_own_type()
        values, geometry = self._values, self._geometry
        *places, channels = values[narrow].shape
        rows, size = prod(places), prod(values[gradient].shape) // channels
        if _has_single_elements(geometry):
            windows = self._matrix(wide, (rows, size))
        else:
            windows = values.like(wide, "windows", (rows, size))
            taken = Windows(
                tuple(places[1:]),
                known_dims(geometry.kernel),
                geometry.strides,
                geometry.dilations,
                known_dims(geometry.pads_begin),
            )
            attrs: dict[str, AttrValue] = {**taken._asdict(), "channels_first": self._is_first}
            self._steps.append(self._step.instead(WINDOWS.executor, (wide,), (windows,), attrs=attrs))
        matrix = self._matrix(narrow, (rows, channels))
        product = values.like(gradient, "matrix", (channels, size) if self._is_first else (size, channels))
        operands = (matrix, windows) if self._is_first else (windows, matrix)
        self._add("MatMul", operands, product, {"transpose_a": True})
        # Zeros around the images meet all of narrow: what computes the gradient again reads the images.
        sides = (narrow, wide) if self._step.kind.startswith("ConvTranspose") else (wide, narrow)
        again = self._step._replace(inputs=sides, outputs=(product,))
        self._steps[-1] = self._steps[-1]._replace(members=(again,))
        self._reshape(product, gradient)

    def _in_own_type(self) -> tuple[tuple[int, int], int]:
        """The two sides of a step and its gradient; those of 16 bits, if a gradient of them is computed in f32.

        The product of 16-bit matrices is summed in f32, and rounded once. Casts that nobody needs then are dropped.
        """
        graph, sides, gradient = self._edit.graph, _sides(self._step), self._step.outputs[0]
        casts = [maker for side in sides if (maker := graph.maker(side)) is not None and maker.kind == "TypeCast"]
        narrowing = graph.only_consumer(gradient)
        if len(casts) < 2 or narrowing is None or narrowing.kind != "TypeCast":
            return sides, gradient
        first, second = (cast.inputs[0] for cast in casts)
        result = narrowing.outputs[0]
        types = {self._values[number].dtype for number in (first, second)}
        if types != {self._values[result].dtype} or not all(map(is_native, types)):
            return sides, gradient
        self._edit.replace(narrowing)
        self._edit.spare(casts)
        return (first, second), result

    def _matrix(self, source: int, shape: Dims) -> int:
        """The id of a value as a matrix."""
        matrix = self._values.like(source, "matrix", shape)
        self._reshape(source, matrix)
        return matrix

    def _reshape(self, source: int, target: int) -> None:
        """Add a view of a value in another shape."""
        shape = self._values[target].shape
        self._add("StaticReshape", (source,), target, {"shape": shape, "special_zero": False})

    def _add(self, kind: str, inputs: tuple[int, ...], output: int, attrs: dict[str, AttrValue]) -> None:
        self._steps.append(self._edit.library_step(self._step, kind, inputs, (output,), attrs, NOTE))
