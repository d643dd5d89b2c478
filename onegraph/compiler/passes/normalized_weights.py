"""Folds the normalization of the result of a convolution into its constant weights and bias."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np

from ...arrays.mapped_files import give_back
from ...arrays.ndarrays import aligned_empty
from ...builder.signature_cache import signature
from ...errors import OneGraphError
from ...faults.ops import faults_of
from ...ir.op import Array, Op
from ...native.library import VERSION
from ...opset.bodies.normalization import factor_and_shift
from ...opset.dtypes import DataType
from ...opset.editions.registry import edition
from ...opset.schema import TensorType
from ..ir.edit import Edit
from ..ir.part import Part
from ..ir.step import Step
from ..rewrites.precision import rounded
from ..shared_constants import Key, derived
from .lazy_constants import LazyConstants, placed

# Axis of the output channels of the weights of a Convolution. A ConvTranspose is slow with a bias.
OUTPUT_CHANNELS = {"XIO": -1, "OIX": 0}


class Normalizations:
    """Joins convolutions with the normalizations behind them.

    Args:
        edit: the changes of the graph.
        constants: its values.
    """

    def __init__(self, edit: Edit, constants: LazyConstants) -> None:
        self._edit, self._constants = edit, constants

    def fold(self, skipped: Container[int]) -> None:
        """Let each convolution with constant weights take in the normalization of its result.

        ``skipped``: ids of the steps whose results are constants.
        """
        for step in self._edit.graph.steps:
            if step.kind != "Convolution" or step.id in skipped:
                continue
            norm = self._edit.graph.only_consumer(step.outputs[0])
            joined = None if norm is None else self._with_norm(step, norm)
            if joined is not None:
                assert norm is not None
                self._edit.replace(step, joined)
                self._edit.replace(norm)

    def _with_norm(self, step: Step, norm: Step) -> Step | None:
        """The convolution with the normalization in its weights; None if that is not possible."""
        constants, part, own = self._constants, step.library_part, norm.library_part
        if norm.kind != "BatchNormInference" or part is None or own is None:
            return None
        if part.call.attr("data_format") != own.call.attr("data_format"):
            return None
        numbers = (*step.inputs[1:], *norm.inputs[1:])
        if not all(number in constants for number in numbers) or not (is_valid(step.op) and is_valid(norm.op)):
            return None
        biased = self._biased(part, TensorType(constants.values[numbers[0]].dtype, constants.values[numbers[-1]].shape))
        arrays = None if biased is None else self._joined(numbers, part, own)
        if arrays is None:
            return None
        names = (f"{constants.values[step.inputs[1]].name} (folded)", f"{norm.op.name} (folded)")
        made = zip(names, arrays.items(), strict=True)
        folded = [self._edit.constant(array, name, key) for name, (key, array) in made]
        note = "; ".join(filter(None, (step.note, f"{norm.op.kind} {norm.op.name!r} is folded into the weights")))
        inputs = (step.inputs[0], *folded)
        return step._replace(
            inputs=inputs, outputs=norm.outputs, note=note, part=biased, whole=False, folded=(norm.op,)
        )

    def _joined(self, numbers: Sequence[int], part: Part, norm: Part) -> dict[Key, Array] | None:
        """The weights and the bias of a convolution that takes in a normalization; None if a number is out of range.

        Args:
            numbers: the weights, the bias if there is one, and the vectors of the normalization.
            part, norm: the convolution and the normalization.
        """
        constants = self._constants
        weights = constants.values[numbers[0]]
        axis = OUTPUT_CHANNELS[str(part.call.attr("weights_format"))] % len(weights.shape)
        recipe = "normalized", axis, norm.call.f32("epsilon"), weights.dtype.value
        keys = [derived((port, *recipe), *map(constants.key, numbers)) for port in ("weights", "bias")]
        contents = [constants.shared.find(key) for key in keys]
        arrays = [array for array in contents if array is not None]
        if len(arrays) < len(keys):
            sources = [constants.contents(number) for number in numbers]
            arrays = normalized(sources, *recipe[1:3], weights.dtype)
            give_back(sources)
            arrays = [constants.shared.keep(key, placed(array)) for key, array in zip(keys, arrays, strict=False)]
        return dict(zip(keys, arrays, strict=True)) if arrays else None

    def _biased(self, part: Part, bias: TensorType) -> Part | None:
        """The convolution with a bias; None if the library gets it wrong."""
        if len(part.types) > 2:
            return part
        biased = replace(part, inputs=(0, 1, 2), types=(*part.types, bias))
        return None if faults_of(biased.call, VERSION) else biased


def is_valid(op: Op) -> bool:
    """Whether an op keeps the specification; only then numpy and the library surely compute the same."""
    if op.signature is not None:
        return True
    chosen, dtypes = edition(op.edition), tuple([tensor.dtype for tensor in op.outputs])
    try:  # an op of an unpickled graph has no signature
        signature(chosen, op.kind, dict(op.attrs), list(op.inputs), n_outputs=len(dtypes), dtypes=dtypes)
    except OneGraphError:
        return False
    return True


def normalized(constants: Sequence[Array], axis: int, epsilon: float, dtype: DataType) -> list[Array]:
    """The weights and the bias of a convolution with a normalization; nothing if a number is out of range.

    Args:
        constants: the weights, the bias if there is one, and the vectors of the normalization.
        axis: that of the output channels in the weights.
        epsilon: attribute of the normalization.
        dtype: data type of the weights and the bias.
    """
    weights, *vectors = (np.asarray(array, np.float32) for array in constants)
    with np.errstate(all="ignore"):
        bias = vectors[0] if len(vectors) > 4 else np.zeros_like(vectors[-1])
        factor, shift = factor_and_shift(vectors[-4:], epsilon, bias)
        shift = rounded(shift, dtype)
        changed = scaled(weights, factor, axis, dtype)
    return [] if changed is None or not np.isfinite(shift).all() else [changed, shift]


def scaled(weights: Array, factor: Array, axis: int, dtype: DataType) -> Array | None:
    """The f32 weights times one factor for each output channel; None if ``dtype`` has not the range of the products.

    The products are rounded once. Weights of a channel that are all smaller than normal numbers would lose their bits.
    """
    other_axes = tuple([axis_ for axis_ in range(weights.ndim) if axis_ != axis])
    largest = np.maximum(weights.max(other_axes), -weights.min(other_axes)) * np.abs(factor)
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    if not np.all((largest <= float(limits.max)) & ((largest == 0) | (largest >= float(limits.smallest_normal)))):
        return None
    products = aligned_empty(weights.shape, dtype.numpy)
    shape = [1] * weights.ndim
    shape[axis] = -1
    # numpy casts small pieces, so that large weights have no copy in f64.
    np.multiply(weights, factor.reshape(shape), out=products, dtype=np.float64, casting="unsafe")
    return products
