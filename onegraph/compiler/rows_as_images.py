"""Sees rows as images with a height or width of 1 in convolutions with a channel in each group, and in their gradients.

The library has fast kernels of them for images alone, which take a tenth of the time. The ops behind a convolution that
the library may fuse with it see images as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ..faults.depthwise import SLOW_ROWS
from ..faults.use import BINARY, DEQUANTIZATIONS, ELEMENTWISE
from ..native.library import VERSION
from ..opset.schema import Call, TensorType
from ..opset.shapes import known_dims
from ..opset.signature import AttrValue
from .lowered import Dims, Lowered, Step, dense_of
from .rewrites import Part
from .shared_constants import derived

# What the attributes of a window are along the new axis.
NEUTRAL = {"strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 0, "output_padding": 0}
BEHIND = (ELEMENTWISE | BINARY) - {"BiasAdd", "PReLU", "Select"}


def see_images(lowered: Lowered) -> Lowered:
    """The graph with images in place of rows in convolutions that are slow with rows."""
    if not SLOW_ROWS.affects(VERSION) or not any(_is_suited(step) for step in lowered.steps):
        return lowered
    return _Images(lowered).run()


def _is_suited(step: Step) -> bool:
    if step.executor != "library" or step.part is None or step.kind not in SLOW_ROWS.ops:
        return False
    return SLOW_ROWS.when(step.part.call) is True


class _Images:
    """Adds an axis of size 1 to the tensors of convolutions, and of the ops behind them."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = replace(lowered, values=dict(lowered.values), keys=dict(lowered.keys))
        self._values = self._lowered.values
        self._makers = {number: step for step in lowered.steps for number in step.outputs}
        self._returned = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._readers: dict[int, list[Step]] = {}
        for step in lowered.steps:
            for number in step.reads | {*step.inputs}:
                self._readers.setdefault(number, []).append(step)
        self._seen: dict[tuple[int, int], int] = {}  # the images, by row and place of the new axis
        self._steps: list[Step] = []

    def run(self) -> Lowered:
        """The graph; called once."""
        done: set[int] = set()
        for step in self._lowered.steps:
            if step.id in done:
                continue
            maker = self._makers.get(step.inputs[0]) if step.inputs else None
            if _is_suited(step) and (maker is None or maker.kind not in DEQUANTIZATIONS):
                chain = [step, *self._behind(step)]
                done.update(one.id for one in chain)
                self._add(chain)
            else:
                self._steps.append(step)
        steps = tuple([step._replace(id=number) for number, step in enumerate(self._steps)])
        return replace(self._lowered, steps=steps)

    def _behind(self, step: Step) -> Iterator[Step]:
        """The ops that follow, each of which is the only reader of the one before and reads what is there already."""
        ready = {number for one in self._steps for number in one.outputs}
        while step.kind == "Convolution" or step.kind in BEHIND:
            (result,) = step.outputs
            readers = self._readers.get(result, [])
            if result in self._returned or len(readers) != 1 or readers[0].kind not in BEHIND:
                return
            step = readers[0]
            others = {number for number in step.inputs if number != result and number in self._makers}
            is_alike = self._values[step.outputs[0]].shape == self._values[result].shape
            if step.executor != "library" or step.part is None or not others <= ready or not is_alike:
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
            made = {before.outputs[0]: result}
            result = self._image(step.outputs[0], axis)
            inputs = [made.get(number) or self._read(step, number, axis, result) for number in step.inputs]
            self._add_step(step, inputs, result, step.part.attrs)
        self._view(chain[-1], result, chain[-1].outputs[0])

    def _read(self, step: Step, number: int, axis: int, result: int) -> int:
        """The image that a step reads in place of a row; other tensors, such as a bias, stay."""
        value = self._values[number]
        if len(value.shape) != len(self._values[result].shape) - 1:
            return number
        known = self._seen.get((number, axis))
        if known is None:
            known = self._seen[number, axis] = self._image(number, axis)
            if value.constant is None:
                self._view(step, number, known)
        return known

    def _image(self, number: int, axis: int) -> int:
        """A new value: a tensor with an axis of size 1 at a place, in the same memory; returns its id."""
        value, made = self._values[number], len(self._values)
        shape = _with_axis(value.shape, axis, 1)
        strides = dense_of(shape) if value.dense else _with_axis(value.strides, axis, 1)
        constant = value.constant
        self._values[made] = value._replace(
            id=made,
            shape=shape,
            strides=strides,
            name=f"{value.name} (image)",
            storage=value.storage if constant is None else made,
            constant=None if constant is None else constant.reshape(shape),
        )
        if constant is not None:
            self._lowered.keys[made] = derived(("image", axis), self._lowered.key(value))
        return made

    def _view(self, step: Step, source: int, target: int) -> None:
        """Add a view of a tensor with another number of axes."""
        self._steps.append(
            step._replace(executor="view", kind="Wildcard", inputs=(source,), outputs=(target,), part=None, whole=False)
        )

    def _add_step(self, step: Step, inputs: Sequence[int], result: int, attrs: Mapping[str, AttrValue]) -> None:
        types = [TensorType(self._values[one].dtype, self._values[one].shape) for one in (*inputs, result)]
        part = Part(step.kind, attrs, tuple(range(len(inputs))), tuple(types[:-1]), (types[-1],))
        note = "; ".join(filter(None, [step.note, f"as an image: {SLOW_ROWS.reason}"]))
        self._steps.append(
            step._replace(inputs=tuple(inputs), outputs=(result,), attrs=attrs, note=note, part=part, whole=False)
        )


def _with_axis(dims: Dims, axis: int, size: int) -> Dims:
    return (*dims[:axis], size, *dims[axis:])


def _attrs(call: Call, is_column: bool, weights_axis: int) -> dict[str, AttrValue]:
    """The attributes of a convolution over one axis, for images that are columns or rows."""
    found = dict(call.given)
    for name, value in NEUTRAL.items():
        if name in found:
            (given,) = call.s64s(name, 1)
            found[name] = (given, value) if is_column else (value, given)
    if "weights_shape" in found:
        found["weights_shape"] = _with_axis(known_dims(call.shapes[0]), weights_axis, 1)
    return found
