"""Computes convolutions with windows of 3x3 by Winograd's F(2x2, 3x3), which needs 16 multiplications in place of 36.

The library has no such kernel. A tile of 4x4 places of src gives 2x2 places of dst: src and weights are transformed,
multiplied place by place, which is 16 products of matrices over the channels, and transformed back. A kernel of the
package transforms, and the library multiplies. The transforms add and subtract a few f32 numbers, so the errors are of
the size of those of a direct convolution.

The transformed tensors are four times as large as src and dst. So a large image is computed in strips that stay in the
caches, one after the other in the same memory. A strip has tiles of several images, or, for results that are the same
in every batch, of one image: then neither the choice of a form nor a product depends on the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..arrays.mapped_files import give_back
from ..ir.op import Array
from ..native.library import lib
from ..opset.dtypes import DataType
from ..opset.schema import TensorType
from ..opset.signature import AttrValue
from .kernels import bits_of
from .lazy_constants import placed
from .lowered import Lowered, Step, Value, dense_of
from .rewrites import Part
from .shared_constants import derived
from .transformed_weights import LAYOUTS, weights_in

# A transform takes 16 channels at once. With fewer channels than these, it takes as long as it saves.
LANES, LEAST_CHANNELS = 16, 32
ACTIVATIONS = ("ReLU", "LeakyReLU")
LEAST_PRODUCTS = 1 << 23  # multiplications of a direct convolution, from which on three steps are worth their start
# Pairs of channels for each tile, up to which the larger weights are worth their memory and the time to read them; and
# the largest share of the multiplications that are left, as tiles at the ends are computed for nothing.
MOST_PAIRS, MOST_LEFT = 1536, 0.65
STRIP_BYTES = 6 << 20  # of the transformed tensors, which stay in the last cache
NOTE = "F(2x2, 3x3) of Winograd, with 16 multiplications in place of 36"
OF_ONE_IMAGE = "products for tiles of one image"
F32 = DataType.f32
# Tiles, from which on the weights are transformed in each run: that takes a small part of the time, and no memory. For
# fewer tiles, the transformed weights are constants.
LEAST_TILES = 64
KINDS = frozenset(["Convolution", "ConvolutionBackwardData"])


class Geometry(NamedTuple):
    """Sizes of a convolution: images that share a strip, rows and columns of tiles in an image, channels, padding."""

    images: int
    rows: int
    columns: int
    channels: int
    results: int
    top: int
    left: int

    @property
    def tiles(self) -> int:
        """The number of tiles of 2x2 places of dst."""
        return self.images * self.rows * self.columns

    def strips(self) -> Iterator[tuple[int, int]]:
        """The first tile of each strip, and the number of its tiles."""
        size = 4 * 16 * self.columns * (self.channels + self.results)
        total = self.images * self.rows
        count = min(total, -(-total * size // STRIP_BYTES))
        rows = -(-total // count)
        for first in range(0, total, rows):
            yield first * self.columns, min(rows, total - first) * self.columns


def transform_convolutions(lowered: Lowered, *, by_image: bool = False) -> Lowered:
    """The graph with two transforms and products in the place of each large convolution with a window of 3x3.

    ``by_image``: whether each image is computed as if it were alone.
    """
    if not any(step.kind in KINDS for step in lowered.steps):
        return lowered
    return _Transforms(lowered, by_image).run()


class _Transforms:
    def __init__(self, lowered: Lowered, by_image: bool) -> None:
        self._lowered, self._values, self._keys = lowered, dict(lowered.values), dict(lowered.keys)
        self._by_image, self._sources = by_image, dict[int, tuple[Array, str]]()
        self._readers: dict[int, list[Step]] = {}
        for step in lowered.steps:
            for number in step.reads:
                self._readers.setdefault(number, []).append(step)
        self._dequantized = {number for step in lowered.steps if step.kind == "Dequantize" for number in step.outputs}
        self._returned = {tensor.id for tensor in lowered.graph.outputs.values()}
        self._parts: dict[tuple[int, int, int], Part] = {}  # equal products share one

    def run(self) -> Lowered:
        """The graph; called once."""
        steps, taken = list[Step](), set[int]()
        for step in self._lowered.steps:
            if step.id in taken:
                continue
            geometry = self._geometry(step)
            chain = [step] if geometry is None else self._chain(step)
            if geometry is None or not self._is_own(chain[-1].outputs[0]):
                steps.append(step)
                continue
            taken.update(one.id for one in chain)
            steps += self._transformed(chain, geometry)
        if not taken:
            return self._lowered
        numbered = tuple([step._replace(id=number) for number, step in enumerate(steps)])
        return replace(self._lowered, values=self._values, steps=numbered, keys=self._keys, transformed=self._sources)

    def _geometry(self, step: Step) -> Geometry | None:
        """The sizes of a convolution that is faster with transforms; None for other steps."""
        part = step.part
        if step.kind not in KINDS or step.executor != "library" or part is None:
            return None
        src, weights, *_ = (self._values[number] for number in step.inputs)
        dst, call = self._values[step.outputs[0]], part.call
        if len(src.shape) != 4 or any(self._values[n].dtype is not F32 for n in (*step.inputs, dst.id)):
            return None
        if src.constant is not None or self._dequantized.issuperset(step.inputs[:2]):  # then the kernel multiplies int8
            return None
        if (
            call.attr("data_format") != "NXC"
            or str(call.attr("auto_pad")).lower() != "none"
            or call.attr("groups") != 1
        ):
            return None
        if tuple(call.s64s("strides", 2)) != (1, 1) or tuple(call.s64s("dilations", 2)) != (1, 1):
            return None
        window = weights.shape[2:] if call.attr("weights_format") == "OIX" else weights.shape[:2]
        (images, height, width, results), channels = dst.shape, src.shape[3]
        top, left = (2 - pad if _is_turned(step) else pad for pad in call.s64s("pads_begin", 2))
        together = 1 if self._by_image else images
        geometry = Geometry(together, -(-height // 2), -(-width // 2), channels, results, top, left)
        direct = 9 * together * height * width * channels * results
        left_over = 16 * geometry.tiles * channels * results
        is_worthwhile = (
            window == (3, 3)
            and channels % LANES == results % LANES == 0
            and min(channels, results) >= LEAST_CHANNELS
            and direct >= LEAST_PRODUCTS
            and channels * results <= MOST_PAIRS * geometry.tiles
            and left_over <= MOST_LEFT * direct
            and (geometry.tiles >= LEAST_TILES or (weights.constant is not None and not _is_turned(step)))
        )
        return geometry if is_worthwhile else None

    def _chain(self, step: Step) -> list[Step]:
        """A convolution, and the BiasAdd and the activation behind it that its second transform computes too."""
        chain = [step]
        if _is_turned(step):
            return chain
        for kinds in (["BiasAdd"], ACTIVATIONS) if len(step.inputs) == 2 else (ACTIVATIONS,):
            number = chain[-1].outputs[0]
            following = self._readers.get(number, [])
            if number in self._returned or len(following) != 1:
                break
            (one,) = following
            is_known = one.kind in ACTIVATIONS or self._values[one.inputs[-1]].constant is not None
            if one.kind in kinds and one.executor == "library" and is_known and self._has_channels_last(one):
                chain.append(one)
        return chain

    def _has_channels_last(self, step: Step) -> bool:
        return step.part is not None and (step.kind in ACTIVATIONS or step.part.call.attr("data_format") == "NXC")

    def _is_own(self, number: int) -> bool:
        """Whether a result has dense memory of its own."""
        value = self._values[number]
        return value.dense and value.storage == number

    def _transformed(self, chain: Sequence[Step], geometry: Geometry) -> Iterator[Step]:
        """The steps in the place of a convolution and the ops behind it."""
        step, *others = chain
        source, target, slope = step.inputs[0], chain[-1].outputs[0], _slope(chain[-1])
        if geometry.tiles < LEAST_TILES:
            weights = self._constant_weights(step)
        else:
            weights = self._new(TensorType(F32, (16, geometry.channels, geometry.results)), f"{step.op.name} (weights)")
            yield self._kernel(step, (step.inputs[1],), weights, geometry, _operand(step))
        bias = self._bias(chain, geometry)
        folded = (*step.folded, *[op for one in others for op in (one.op, *one.folded)])
        together, before = [*geometry.strips()], tuple[int, ...]()
        parts = self._values[source].shape[0] // geometry.images
        strips = [(part * geometry.tiles + first, count) for part in range(parts) for first, count in together]
        for first, count in strips:
            planes = self._new(TensorType(F32, (16, count, geometry.channels)), f"{step.op.name} (tiles)")
            products = self._new(TensorType(F32, (16, count, geometry.results)), f"{step.op.name} (products)")
            result = target if (first, count) == strips[-1] else self._strip_of(target)
            yield self._kernel(step, (source,), planes, geometry, lib.onegraph_winograd_src, first)
            yield step._replace(
                kind="MatMul",
                inputs=(planes, weights),
                outputs=(products,),
                attrs={},
                note=OF_ONE_IMAGE if self._by_image else "",
                part=self._product(count, geometry),
                whole=False,
                folded=(),
            )
            inputs = (products, bias, source, step.inputs[1], *before)
            end = self._kernel(step, inputs, result, geometry, lib.onegraph_winograd_dst, first, slope)
            yield end._replace(folded=folded)
            before = (result,)  # the strips are written one after the other

    def _kernel(
        self,
        step: Step,
        inputs: tuple[int, ...],
        output: int,
        geometry: Geometry,
        operand: int,
        first: int = 0,
        slope: float = 1.0,
    ) -> Step:
        numbers = {
            lib.onegraph_winograd_of: operand,
            lib.onegraph_winograd_slope: bits_of(slope),
            lib.onegraph_winograd_rows: geometry.rows,
            lib.onegraph_winograd_columns: geometry.columns,
            lib.onegraph_winograd_first: first,
            lib.onegraph_winograd_top: geometry.top,
            lib.onegraph_winograd_left: geometry.left,
            lib.onegraph_winograd_turned: int(_is_turned(step)),
            lib.onegraph_winograd_layout: _operand(step),
        }
        attrs: Mapping[str, AttrValue] = {"code": tuple([numbers[place] for place in sorted(numbers)])}
        return step._replace(
            executor="kernel",
            kind="Transform",
            inputs=inputs,
            outputs=(output,),
            attrs=attrs,
            note=NOTE,
            part=None,
            whole=False,
            folded=(),
        )

    def _product(self, count: int, geometry: Geometry) -> Part:
        sizes = count, geometry.channels, geometry.results
        if sizes not in self._parts:
            tiles, channels, results = sizes
            types = TensorType(F32, (16, tiles, channels)), TensorType(F32, (16, channels, results))
            self._parts[sizes] = Part("MatMul", {}, (0, 1), types, (TensorType(F32, (16, tiles, results)),))
        return self._parts[sizes]

    def _new(self, tensor: TensorType, name: str, contents: Array | None = None) -> int:
        number, shape = len(self._values), tuple([dim or 0 for dim in tensor.shape or ()])
        self._values[number] = Value(number, F32, shape, dense_of(shape), number, name, contents)
        return number

    def _strip_of(self, target: int) -> int:
        """The result of a convolution of which the last strips are not written yet."""
        number, value = len(self._values), self._values[target]
        self._values[number] = value._replace(id=number, name=f"{value.name} (strip)")
        return number

    def _constant_weights(self, step: Step) -> int:
        """The transformed weights of a convolution, (16, channels of src, channels of dst)."""
        assert step.part is not None
        value, layout = self._values[step.inputs[1]], step.part.call.attr("weights_format")
        known = value.constant
        assert known is not None
        key = derived(("winograd", layout), self._lowered.key(value))
        array = self._lowered.shared.once(key, lambda: weights_in(str(layout), known))
        give_back([known])
        number = self._new(TensorType(F32, array.shape), f"{value.name} (transformed)", array)
        self._keys[number], self._sources[number] = key, (known, str(layout))
        return number

    def _bias(self, chain: Sequence[Step], geometry: Geometry) -> int:
        for step, place in zip(chain[:2], (2, 1), strict=False):
            if step.kind in ("Convolution", "BiasAdd") and len(step.inputs) > place:
                return step.inputs[place]
        zeros = placed(np.zeros(geometry.results, np.float32))
        return self._new(TensorType(F32, zeros.shape), f"{chain[0].op.name} (no bias)", zeros)


def _slope(step: Step) -> float:
    """The factor of negative results of a step."""
    if step.kind == "LeakyReLU":
        return float(str(step.op.attrs["alpha"]))
    return 0.0 if step.kind == "ReLU" else 1.0


def _is_turned(step: Step) -> bool:
    """Whether a step is the gradient by src: a convolution with the window turned around, and channels swapped."""
    return step.kind == "ConvolutionBackwardData"


def _operand(step: Step) -> int:
    """What the kernel calls the weights of a step."""
    assert step.part is not None
    return LAYOUTS[str(step.part.call.attr("weights_format"))]
