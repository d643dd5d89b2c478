"""Sees rows as images with a height or width of 1 in convolutions with a channel in each group, and in their gradients.

The library has fast kernels of them for images alone, which take a tenth of the time. The ops behind a convolution that
the library may fuse with it see images as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ...faults.depthwise import SLOW_ROWS
from ...faults.slow_images import SLOW_DEPTHWISE
from ...faults.use import DEQUANTIZATIONS, ELEMENTWISE
from ...native.library import VERSION
from ...opset.kinds import ARITHMETIC
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ...opset.signature import AttrValue
from ..ir.edit import Edit
from ..ir.step import Step
from ..ir.value import Dims, dense_of
from ..options import Options
from ..shared_constants import derived

# What the attributes of a window are along the new axis.
NEUTRAL = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0, "output_padding": 0}
BEHIND = ELEMENTWISE | ARITHMETIC


def see_images(edit: Edit, _: Options) -> None:
    """Use images in place of rows in convolutions that are slow with rows."""
    if SLOW_ROWS.affects(VERSION) and any(map(_is_suited, edit.graph.steps)):
        _Images(edit).run()


def _is_suited(step: Step) -> bool:
    part = step.library_part
    return part is not None and step.kind in SLOW_ROWS.ops and SLOW_ROWS.when(part.call) is True


def _has_no_integer_kernel(step: Step) -> bool:
    return step.kind == "ConvTranspose" and SLOW_DEPTHWISE.affects(VERSION)


class _Images:
    """Adds an axis of size 1 to the tensors of convolutions, and of the ops behind them."""

    def __init__(self, edit: Edit) -> None:
        self._edit, self._graph, self._values = edit, edit.graph, edit.values
        self._seen: dict[tuple[int, int], int] = {}  # the images, by row and place of the new axis
        self._ready: set[int] = set()  # the values that are made before the present step
        self._steps: list[Step] = []  # in the place of the present step

    def run(self) -> None:
        """Change the graph; called once."""
        done: set[int] = set()
        for step in self._graph.steps:
            if step.id in done:
                continue
            maker = self._graph.maker(step.inputs[0]) if step.inputs else None
            is_float = maker is None or maker.kind not in DEQUANTIZATIONS or _has_no_integer_kernel(step)
            if is_float and _is_suited(step):
                chain = [step, *self._behind(step)]
                done.update(link.id for link in chain)
                self._steps = []
                self._add(chain)
                for link in chain[1:]:
                    self._edit.replace(link)
                self._edit.replace(step, *self._steps)
                self._ready.update(chain[-1].outputs)
            else:
                self._ready.update(step.outputs)

    def _behind(self, step: Step) -> Iterator[Step]:
        """The ops that follow, each of which is the only consumer of the one before and reads what is there already."""
        while step.kind == "Convolution" or step.kind in BEHIND:
            (result,) = step.outputs
            consumer = self._graph.only_consumer(result)
            if consumer is None or consumer.kind not in BEHIND:
                return
            step = consumer
            operands = {number for number in step.inputs if number != result and self._graph.maker(number) is not None}
            is_alike = self._values[step.outputs[0]].shape == self._values[result].shape
            if step.library_part is None or not operands <= self._ready or not is_alike:
                return
            yield step

    def _add(self, chain: Sequence[Step]) -> None:
        """Add a convolution and the ops behind it on images."""
        first = chain[0]
        assert first.part is not None
        call = first.part.call
        is_gradient = first.kind == "ConvolutionBackwardWeights"
        # Kernels for windows with gaps, and those of gradients by weights, go along columns; the others go along rows.
        is_column = is_gradient or call.s64s("dilations", 1) != (1,)
        axis = (1 if call.string("data_format") == "NXC" else 2) + is_column
        weights_axis = (0 if str(call.string("weights_format")).startswith("X") else 2) + is_column
        axes = [axis, axis if is_gradient else weights_axis, axis]
        result = self._image(first.outputs[0], weights_axis if is_gradient else axis)
        inputs = [self._read(first, *ends, result) for ends in zip(first.inputs, axes, strict=False)]
        self._add_step(first, inputs, result, _attrs(call, is_column, weights_axis))
        for before, step in pairwise(chain):
            assert step.part is not None
            image_by_value = {before.outputs[0]: result}
            result = self._image(step.outputs[0], axis)
            inputs = [image_by_value.get(number) or self._read(step, number, axis, result) for number in step.inputs]
            self._add_step(step, inputs, result, step.part.attrs)
        self._view(chain[-1], result, chain[-1].outputs[0])

    def _read(self, step: Step, number: int, axis: int, result: int) -> int:
        """The image that a step reads in place of a row; other tensors, such as a bias, stay."""
        value = self._values[number]
        if len(value.shape) != len(self._values[result].shape) - 1:
            return number
        image = self._seen.get((number, axis))
        if image is None:
            image = self._seen[number, axis] = self._image(number, axis)
            if value.constant is None:
                self._view(step, number, image)
        return image

    def _image(self, number: int, axis: int) -> int:
        """A new value: a tensor with an axis of size 1 at a place, in the same memory; returns its id."""
        value = self._values[number]
        shape = _with_axis(value.shape, axis, 1)
        if value.constant is not None:
            key = derived(("image", axis), self._edit.key(number))
            return self._edit.constant(value.constant.reshape(shape), f"{value.name} (image)", key)
        strides = dense_of(shape) if value.dense else _with_axis(value.strides, axis, 1)
        return self._values.part(value, "image", shape, strides, value.offset)

    def _view(self, step: Step, source: int, target: int) -> None:
        """Add a view of a tensor with another number of axes."""
        self._steps.append(step.instead("view", (source,), (target,), kind="Wildcard"))

    def _add_step(self, step: Step, inputs: Sequence[int], result: int, attrs: Mapping[str, AttrValue]) -> None:
        note = "; ".join(filter(None, [step.note, f"as an image: {SLOW_ROWS.told}"]))
        image = self._edit.library_step(step, step.kind, tuple(inputs), (result,), attrs, note)
        self._steps.append(image._replace(folded=step.folded))


def _with_axis(dims: Dims, axis: int, size: int) -> Dims:
    return (*dims[:axis], size, *dims[axis:])


def _attrs(call: Call, is_column: bool, weights_axis: int) -> dict[str, AttrValue]:
    """The attributes of a convolution over one axis, for images that are columns or rows."""
    attrs = dict(call.given)
    for name, value in NEUTRAL.items():
        if name in attrs:
            (number,) = call.s64s(name, 1)
            attrs[name] = (number, value) if is_column else (value, number)
    if "weights_shape" in attrs:
        attrs["weights_shape"] = _with_axis(known_dims(call.shapes[0]), weights_axis, 1)
    return attrs
