"""Moves the cast behind a convolution that runs in f32 in the place of 16 bits behind the normalization that reads it.

The convolution takes in a bias or a normalization of its own data type only. Where it runs in f32, as those of f16 do,
a cast to 16 bits lies between, so that the next op would read and write memory once more.
"""

from __future__ import annotations

from ...faults.use import CONVOLUTIONS
from ...opset.dtypes import DataType
from ..ir.edit import Edit
from ..ir.step import Step
from ..options import Options

JOINED = frozenset(["BatchNormInference", "BiasAdd"])


def cast_behind_norms(edit: Edit, _: Options) -> None:
    """Let what a convolution takes in read its result in f32, before the cast to 16 bits."""
    for cast in edit.graph.steps:
        if cast.kind != "TypeCast" or cast.executor != "library":
            continue
        norm = edit.graph.only_consumer(cast.outputs[0])
        if norm is not None and _joins(edit, cast, norm):
            _exchange(edit, cast, norm)


def _joins(edit: Edit, cast: Step, norm: Step) -> bool:
    """Whether the convolution before a cast to 16 bits can take in the op behind it, once that is in f32."""
    source = cast.inputs[0]
    maker, values = edit.graph.maker(source), edit.graph.values
    if maker is None or maker.kind not in CONVOLUTIONS or maker.library_part is None or norm.library_part is None:
        return False
    is_narrowed = values[source].dtype is DataType.f32
    is_alone = edit.graph.only_consumer(source) is not None and norm.kind in JOINED
    is_known = all(values[number].constant is not None for number in norm.inputs[1:])
    return is_narrowed and is_alone and is_known


def _exchange(edit: Edit, cast: Step, norm: Step) -> None:
    """Put an op before the cast that it reads."""
    inputs, added = [cast.inputs[0]], []
    for number in norm.inputs[1:]:
        vector = edit.graph.values[number]
        if vector.dtype is not DataType.f32:
            wide = edit.values.new(DataType.f32, vector.shape, f"{vector.name} (f32)")
            added.append(edit.library_step(norm, "TypeCast", (number,), (wide,)))
            number = wide
        inputs.append(number)
    source = edit.graph.values[cast.inputs[0]]
    result = edit.values.new(DataType.f32, source.shape, f"{norm.op.name} (f32)")
    narrow_norm = edit.library_step(norm, norm.kind, tuple(inputs), (result,), norm.attrs, norm.note)
    narrowed = edit.library_step(norm, "TypeCast", (result,), norm.outputs, note=cast.note)
    edit.replace(cast)
    edit.replace(norm, *added, narrow_norm, narrowed)
