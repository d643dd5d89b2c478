"""Calls of ops that the specification forbids and oneDNN does not check."""

from __future__ import annotations

from functools import partial

from ...errors import ArgumentError, SpecError
from ..fault import Faults
from .misuse import misuse

FAULTS = Faults[None]()
_add = partial(misuse, FAULTS)
# It reads or writes where nothing of its own is.
WRECK = "SIGSEGV | SIGABRT | throws | garbage | overrun | accepted"
_GROUPS_0 = {(3, 2): "SIGFPE", (3, 6): "throws cannot create std::vector", (3, 13): "throws std::bad_alloc"}
_BEGIN = {(3, 2): WRECK, (3, 6): "unsupported"}
_IGNORED = {(3, 2): "accepted", (3, 6): "refuses partition_compile: invalid_shape"}
_EITHER = (SpecError, ArgumentError)

# Convolutions and pools ----------------------------------------------------------------------------------------------

_add("ops: strides 0", "SIGFPE", "the kernels divide by the strides", SpecError, "strides", "[0, 0]", "positive")
_add("ops: groups 0", _GROUPS_0, "the kernels divide by the groups", SpecError, "groups", "0", "positive")
_add("ops: groups 0, transposed", _GROUPS_0, "the kernels divide by the groups", SpecError, "groups")
_add("ops: groups 0, gradient", "SIGFPE | accepted", "the kernels divide by the groups", SpecError, "groups")
_add("ops: groups -1", "refuses | throws | hang", "a negative number of groups is counted with", SpecError, "groups")
_add("ops: kernel []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "kernel")
_add("ops: strides []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "strides")
_add(
    "ops: output_padding []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "output_padding"
)
_add("ops: dst_shape []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "dst_shape")
_add("ops: src_shape []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "src_shape")
_add("ops: weights_shape []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "weights_shape")
_add(
    "ops: weights_shape [], transposed",
    "SIGSEGV",
    "a list that is too short is read beyond its end",
    SpecError,
    "weights_shape",
)
_add(
    "ops: src_shape long",
    {(3, 2): "SIGABRT", (3, 13): "SIGABRT | throws could not create a descriptor"},
    "a list that is too long is copied beyond the end of an array",
    SpecError,
    "src_shape",
)
_add(
    "ops: no src_shape",
    {(3, 2): "SIGABRT", (3, 6): "accepted"},
    "the shape that neither an attribute nor an input says is read all the same",
    SpecError,
    "src_shape",
)
_add(
    "ops: pool strides 0",
    {(3, 2): "refuses", (3, 13): "SIGFPE"},
    "the kernels divide by the strides",
    SpecError,
    "strides",
)
_add("ops: average strides []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "strides")
_add("ops: average kernel []", "SIGSEGV", "a list that is too short is read beyond its end", SpecError, "kernel")
_add("ops: no pads", "throws", "a list that is too short is read beyond its end", SpecError, "pads_begin")
_add("ops: strides too long", "accepted", "further elements of a list are ignored", SpecError, "strides")
_add("ops: kernel too long", "accepted", "further elements of a list are ignored", SpecError, "kernel")
_add("ops: pads too long", "accepted", "further elements of a list are ignored", SpecError, "pads_begin")
_add("ops: rounding_type foo", "accepted", "an unknown value is taken for the default", SpecError, "rounding_type")
_add("ops: MaxPool of rank 1", "SIGABRT | SIGSEGV", "axes that are not there are read", SpecError, "src")

# Normalizations ------------------------------------------------------------------------------------------------------

_add(
    "ops: LayerNorm of one input",
    "throws vector::_M_range_check",
    "gamma and beta, which use_affine promises, are read although they are not there",
    SpecError,
    "gamma",
)
for _name, _parts in (("100", ["100"]), ("-100", []), ("5", []), ("2**40", [])):
    _add(
        f"ops: begin_norm_axis {_name}",
        _BEGIN,
        "an axis that the source does not have is looked up",
        SpecError,
        "begin_norm_axis",
        *_parts,
    )
_add(
    "ops: gradient without gamma",
    "SIGSEGV | throws | refuses",
    "what lies in the place of gamma is read",
    SpecError,
    "gamma",
)
_add("ops: BatchNorm of rank 1", "SIGSEGV", "axes that are not there are read", SpecError, "src")
_add("ops: gamma of length 1", "accepted", "a vector that is too short is read beyond its end", SpecError, "gamma")
_add("ops: gamma too short", "accepted", "a vector that is too short is read beyond its end", SpecError, "gamma")
_add("ops: mean too short", "accepted", "a vector that is too short is read beyond its end", SpecError, "mean")
_add("ops: epsilon nan", "accepted", "NaN is taken for a number", SpecError, "epsilon")

# Other ops -----------------------------------------------------------------------------------------------------------

_add("ops: Quantize axis 5", "accepted", "an axis that the source does not have is taken", SpecError, "axis")
_add("ops: MatMul of a scalar", "SIGSEGV", "axes that are not there are read", SpecError, "src")
_add("ops: Interpolate of rank 1", "refuses", "a source without spatial axes cannot be resized", SpecError, "")
_add(
    "ops: bias of a higher rank",
    "hang | throws std::bad_alloc",
    "axes are added to the product until it has as many as the bias",
    SpecError,
    "bias",
)
_add("ops: axis 2**32", "accepted", "an axis is cut to 32 bits", SpecError, "axis")
_add("ops: axis -100", "throws", "an axis that the source does not have is looked up", SpecError, "axis")
_add("ops: axis of Concat", "refuses", "an axis that the sources do not have is looked up", SpecError, "axis")
_add("ops: Clamp from 1 to -1", "throws", "there is no number between the bounds", SpecError, "min")
_add("ops: Clamp to nan", "throws", "NaN is no bound", SpecError, "max")
_add("ops: slope too short", "refuses | throws", "the slope fits no axis of the source", SpecError, "slope")
_add("ops: scale nan", "accepted", "NaN is taken for a number", SpecError, "scales")
_add("ops: qtype foo", "accepted", "an unknown value is taken for the default", SpecError, "qtype")

# Calls whose output shape is told, so that the library looks away ----------------------------------------------------

_add("ops: ignored: axes", _IGNORED, "axes that contradict the shape of the output are ignored", _EITHER)
_add("ops: ignored: axes out of range", _IGNORED, "axes that the source does not have are ignored", _EITHER)
_add("ops: ignored: sizes", _IGNORED, "sizes that contradict the shape of the output are ignored", _EITHER)
_add("ops: ignored: dilations 0", "accepted", "dilations of 0 are ignored", _EITHER)
_add("ops: ignored: dst_shape", "accepted", "a dst_shape that contradicts the output is ignored", _EITHER)
_add("ops: ignored: weights_shape", "accepted", "a weights_shape that contradicts the output is ignored", _EITHER)
_add("ops: ignored: output_padding", "accepted", "an output_padding beyond the strides is ignored", _EITHER)
