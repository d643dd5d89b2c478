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

from collections.abc import Iterator, Mapping

import numpy as np

from ..._util.open_sizes import present
from ...arrays.mapped_files import give_back
from ...capi.settings import has_avx2
from ...faults.use import MOVES
from ...ir.op import Array
from ...opset.dtypes import DataType
from ...opset.signature import AttrValue
from ..epilogues import Epilogue, epilogue_of
from ..ir.edit import Edit
from ..ir.step import Step
from ..kernels.kernel import refusal
from ..kernels.panel_product import FOR_SIZES, PANEL_PRODUCT
from ..kernels.winograd import LANES, LEAST_TILES, WINOGRAD, WORTH, Geometry, WinogradConvolution
from ..options import Options
from ..packed_weights import panels_of
from ..shared_constants import derived
from ..transformed_weights import weights_in
from .lazy_constants import placed

NOTE = "F(2x2, 3x3) of Winograd, with 16 multiplications in place of 36"
OF_ONE_IMAGE = "products for tiles of one image"
F32 = DataType.f32
KINDS = frozenset(["Convolution", "ConvolutionBackwardData"])


def transform_convolutions(edit: Edit, options: Options) -> None:
    """Put two transforms and products in the place of each large convolution with a window of 3x3.

    Where results are to be reproducible, each image is computed as if it were alone.
    """
    if any(step.kind in KINDS for step in edit.graph.steps):
        _Transforms(edit, options).run()


class _Transforms:
    def __init__(self, edit: Edit, options: Options) -> None:
        self._edit, self._graph, self._values = edit, edit.graph, edit.values
        self._by_image, self._opens = options.reproducible, options.opens

    def run(self) -> None:
        """Change the graph; called once."""
        fused_steps = set[int]()
        for step in self._graph.steps:
            geometry = None if step.id in fused_steps else self._geometry(step)
            if geometry is None:
                continue
            epilogue = Epilogue((step,), None, 1.0) if _is_turned(step) else epilogue_of(self._edit, step)
            if not self._is_own(epilogue.result):
                continue
            fused_steps.update(link.id for link in epilogue.steps)
            for link in epilogue.steps[1:]:
                self._edit.replace(link)
            self._edit.replace(step, *self._transformed(epilogue, geometry))

    def _geometry(self, step: Step) -> Geometry | None:
        """The sizes of a convolution that is faster with transforms; None for other steps."""
        part = step.library_part
        if step.kind not in KINDS or part is None:
            return None
        src, weights, *_ = (self._values[number] for number in step.inputs)
        dst, call = self._values[step.outputs[0]], part.call
        if len(src.shape) != 4 or any(self._values[n].dtype is not F32 for n in (*step.inputs, dst.id)):
            return None
        if src.constant is not None or all(map(self._is_dequantized, step.inputs[:2])):  # the kernel multiplies int8
            return None
        if call.attr("data_format") != "NXC" or call.attr("groups") != 1:
            return None
        if tuple(call.s64s("strides", 2)) != (1, 1) or tuple(call.s64s("dilations", 2)) != (1, 1):
            return None
        window = weights.shape[2:] if call.attr("weights_format") == "OIX" else weights.shape[:2]
        (images, height, width, results), channels = dst.shape, src.shape[3]
        top, left = (2 - pad if _is_turned(step) else pad for pad in call.s64s("pads_begin", 2))
        if window != (3, 3) or channels % LANES or results % LANES:
            return None
        together = 1 if self._by_image else images
        geometry = Geometry(together, -(-height // 2), -(-width // 2), channels, results, top, left)
        is_constant = weights.constant is not None and not _is_turned(step)
        # Which of two kernels is faster is decided for the present sizes.
        known = Geometry(*[present(size) for size in geometry])
        if reason := refusal(WORTH, WinogradConvolution(known, present(together * height * width), is_constant)):
            self._edit.refuse(step, WINOGRAD.name, reason)
            return None
        return geometry

    def _is_dequantized(self, number: int) -> bool:
        maker = self._graph.maker(number)
        while maker is not None and maker.kind in MOVES:
            maker = self._graph.maker(maker.inputs[0])
        return maker is not None and maker.kind == "Dequantize"

    def _is_own(self, number: int) -> bool:
        """Whether a result has dense memory of its own."""
        value = self._values[number]
        return value.dense and value.storage == number

    def _transformed(self, epilogue: Epilogue, geometry: Geometry) -> Iterator[Step]:
        """The steps in the place of a convolution and the ops behind it."""
        step = epilogue.steps[0]
        source, target, slope = step.inputs[0], epilogue.result, epilogue.slope
        if self._has_panels(step):
            weights = self._panels(step)
        elif present(geometry.tiles) < LEAST_TILES:
            weights = self._constant_weights(step)
        else:
            shape = 16, geometry.channels, geometry.results
            weights = self._values.new(F32, shape, f"{step.op.name} (weights)")
            yield self._kernel(step, (step.inputs[1],), weights, geometry, _layout(step))
        bias = self._bias(epilogue, geometry)
        together, before = [*geometry.strips(self._opens)], tuple[int, ...]()
        parts = self._values[source].shape[0] // geometry.images
        strips = [(part * geometry.tiles + first, count) for part in range(parts) for first, count in together]
        for first, count in strips:
            planes = self._values.new(F32, (16, count, geometry.channels), f"{step.op.name} (tiles)")
            products = self._values.new(F32, (16, count, geometry.results), f"{step.op.name} (products)")
            is_last = (first, count) == strips[-1]
            result = target if is_last else self._strip_of(target)
            yield self._kernel(step, (source,), planes, geometry, "src", first)
            yield self._product(step, planes, weights, products)
            inputs = (products, bias, source, step.inputs[1], *before)
            end = self._kernel(step, inputs, result, geometry, "dst", first, slope)
            yield end._replace(folded=epilogue.folded)
            before = (result,)  # the strips are written one after the other

    def _kernel(
        self,
        step: Step,
        inputs: tuple[int, ...],
        output: int,
        geometry: Geometry,
        operand: str,
        first: int = 0,
        slope: float = 1.0,
    ) -> Step:
        attrs: Mapping[str, AttrValue] = {
            "of": operand,
            "slope": slope,
            "rows": geometry.rows,
            "columns": geometry.columns,
            "first": first,
            "top": geometry.top,
            "left": geometry.left,
            "turned": _is_turned(step),
            "layout": _layout(step),
        }
        return step.instead(WINOGRAD.executor, inputs, (output,), kind="Transform", attrs=attrs, note=NOTE)

    def _strip_of(self, target: int) -> int:
        """The result of a convolution of which the last strips are not written yet."""
        value = self._values[target]
        return self._values.part(value, "strip", value.shape, value.strides, value.offset)

    def _constant_weights(self, step: Step) -> int:
        """The transformed weights of a convolution, (16, channels of src, channels of dst)."""
        assert step.part is not None
        value, layout = self._values[step.inputs[1]], str(step.part.call.attr("weights_format"))
        constant = value.constant
        assert constant is not None
        key = derived(("winograd", layout), self._edit.key(value.id))
        array = self._graph.shared.once(key, lambda: weights_in(layout, constant))
        give_back([constant])
        number = self._edit.constant(array, f"{value.name} (transformed)", key)
        self._edit.transformed[number] = constant, layout
        return number

    def _has_panels(self, step: Step) -> bool:
        """Whether a kernel of the package multiplies: where sizes are open, the library would compile each product."""
        is_known = self._values[step.inputs[1]].constant is not None and not _is_turned(step)
        return self._opens and is_known and has_avx2()

    def _product(self, step: Step, planes: int, weights: int, products: int) -> Step:
        if self._has_panels(step):
            executor, ends = PANEL_PRODUCT.executor, (planes, weights)
            return step.instead(executor, ends, (products,), kind="MatMul", attrs={"bias": False}, note=FOR_SIZES)
        note = OF_ONE_IMAGE if self._by_image else ""
        return self._edit.library_step(step, "MatMul", (planes, weights), (products,), note=note)

    def _panels(self, step: Step) -> int:
        """The transformed weights of a convolution in panels, those of the 16 matrices one behind the other."""
        assert step.part is not None
        value, layout = self._values[step.inputs[1]], str(step.part.call.attr("weights_format"))
        constant = value.constant
        assert constant is not None

        def laid_out() -> Array:
            return np.concatenate([panels_of(matrix, False) for matrix in weights_in(layout, constant)])

        key = derived(("winograd panels", layout), self._edit.key(value.id))
        array = self._graph.shared.once(key, laid_out)
        give_back([constant])
        return self._edit.constant(array, f"{value.name} (transformed)", key)

    def _bias(self, epilogue: Epilogue, geometry: Geometry) -> int:
        if epilogue.bias is not None:
            return epilogue.bias
        zeros = placed(np.zeros(geometry.results, np.float32))
        return self._edit.constant(zeros, f"{epilogue.steps[0].op.name} (no bias)")


def _is_turned(step: Step) -> bool:
    """Whether a step is the gradient by src: a convolution with the window turned around, and channels swapped."""
    return step.kind == "ConvolutionBackwardData"


def _layout(step: Step) -> str:
    """What the kernel calls the layout of the weights of a step."""
    assert step.part is not None
    return str(step.part.call.attr("weights_format")).lower()
