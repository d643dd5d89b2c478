"""Finds the kernels of the package: casts, copies, Select, transforms, attention, recurrent networks, 8-bit codes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays.trees import HEAD, LEAF, MISSING, broken, broken_weights, is_ascending
from ..capi.logical_tensor import LogicalTensor
from ..native.library import ffi, lib
from ..opset.dtypes import DataType
from ..opset.host.attention import scale_of
from ..opset.host.learned import AGGREGATES, OPPOSITES, TRANSFORMS
from ..opset.host.recurrence import GATES
from ..opset.schema import Call
from .ir.value import Value
from .to_capi import capi_tensor

FLOATS = frozenset([DataType.f32, DataType.f16, DataType.bf16])
CODES = frozenset([DataType.s8, DataType.u8])
KERNELS = {
    "cast": lib.onegraph_cast,
    "select": lib.onegraph_select,
    "replace_nan": lib.onegraph_replace_nan,
    "scale": lib.onegraph_scale,
    "scale_relu": lib.onegraph_scale_relu,
    "look_up": lib.onegraph_look_up,
    "rescale": lib.onegraph_rescale,
    "add": lib.onegraph_add,
    "multiply": lib.onegraph_multiply,
}
# Elementwise ops for which the library loses NaN or an infinity.
EXACT = (
    *("relu", "clamp", "hard_sigmoid", "maximum", "minimum", "greater_equal", "exp", "gelu_erf", "gelu_tanh", "prelu"),
    *("relu_backward", "clamp_backward", "hard_sigmoid_backward", "abs_backward", "elu_backward_by_dst"),
    *("elu_backward_by_src", "hard_swish_backward", "gelu_tanh_backward", "mish_backward", "prelu_backward_src"),
    *("prelu_backward_slope", "keep_nan"),
)
KERNELS.update((name, getattr(lib, f"onegraph_{name}")) for name in EXACT)
POINTWISE: int = lib.onegraph_pointwise
ON_CODES = frozenset(["look_up", "rescale", "add", "multiply"])  # the last input is a table, or a list of numbers
MOST_TOKENS = 2**31 - 1  # of the kernel for attention
# The highest instruction set of kernels with code of their own: see ``onegraph_attention_level`` in
# ``include/onegraph.h``.
LEVEL = 3
_TENSORS = ffi.typeof("dnnl_graph_logical_tensor_t *[]")


class CompiledKernel:
    """A kernel of ``csrc/kernels/`` for fixed layouts, which a step has instead of a compiled partition.

    Args:
        number: of the kernel in C.
        tensors: the inputs, then the outputs.
        n_inputs: number of inputs.
        code: what else the kernel is made for; see its class in ``csrc/kernels.h``.

    Attributes:
        ports: number of inputs, number of outputs, and the C tensors of both.
        owner_thread: None, because every thread can run it.
    """

    owner_thread = None

    def __init__(self, number: int, tensors: Sequence[LogicalTensor], n_inputs: int, code: Sequence[int] = ()) -> None:
        self.number, self._tensors, self.code = number, [*tensors], ffi.new("int[]", [*code])
        structs = ffi.new(_TENSORS, [tensor._struct for tensor in tensors])
        self.ports = n_inputs, len(tensors) - n_inputs, structs

    @property
    def cannot_fail(self) -> bool:
        """Whether a run of the kernel always succeeds, and writes each element once it has read it."""
        return self.number == POINTWISE


def bits_of(number: float) -> int:
    """The bits of an f32, for the code of a kernel."""
    found: int = struct.unpack("i", struct.pack("f", number))[0]
    return found


def _compiled(number: int, inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int]) -> CompiledKernel:
    tensors = [capi_tensor(value.id, value, "variable") for value in (*inputs, *outputs)]
    return CompiledKernel(number, tensors, len(inputs), code)


def compiled_kernel(kind: str, values: Sequence[Value]) -> CompiledKernel:
    """The kernel of one op.

    Args:
        kind: a name in ``KERNELS``.
        values: the inputs, then the output; ``has_kernel`` holds.
    """
    *inputs, output = values
    if kind in ON_CODES:  # the kernel finds the others behind the first element
        inputs[-1] = inputs[-1]._replace(shape=(1,), strides=(1,))
    return _compiled(KERNELS[kind], inputs, [output], ())


def compiled_pointwise(inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int]) -> CompiledKernel:
    """The kernel for several elementwise ops, whose code ``Pointwise`` in ``csrc/kernels.h`` describes."""
    return _compiled(POINTWISE, inputs, outputs, [LEVEL, *code])


def compiled_attention(call: Call, inputs: Sequence[Value], outputs: Sequence[Value]) -> CompiledKernel:
    """The kernel for attention or its gradient, with the mask behind query, key and value."""
    is_backward, is_masked = call.schema.kind.endswith("Backward"), call.input("mask") is not None
    limits = [min(call.s64(name), MOST_TOKENS) for name in ("past", "window")]
    numbers = [is_backward, is_masked, call.flag("causal"), *limits, bits_of(scale_of(call)), LEVEL]
    return _compiled(lib.onegraph_attention, inputs, outputs, [int(number) for number in numbers])


def compiled_recurrence(call: Call, inputs: Sequence[Value], outputs: Sequence[Value]) -> CompiledKernel:
    """The kernel for a layer of a recurrent network, whose tensors are dense."""
    cell, reversed_ = call.string("cell"), {"forward": 0, "reverse": 1, "bidirectional": 2}[call.string("direction")]
    has_hidden, has_cell = (call.input(port) is not None for port in ("hidden", "cell"))
    code = [GATES[cell], cell == "relu", reversed_, has_hidden, has_cell, LEVEL]
    return _compiled(lib.onegraph_recurrence, inputs, outputs, [int(number) for number in code])


def _wide(value: Value) -> Value:
    """A value of elements of 8 bytes, as a data type that a tensor of the C API has."""
    return value._replace(dtype=DataType.s64) if value.dtype is DataType.float64 else value


def compiled_trees(call: Call, inputs: Sequence[Value], outputs: Sequence[Value]) -> CompiledKernel | None:
    """The kernel for decision trees whose tables are constants; None if they are not."""
    given = [port.name for port in call.schema.inputs if call.input(port.name) is not None]
    known = {name: value.constant for name, value in zip(given, inputs, strict=True)}
    nodes, roots, starts = known["nodes"], known["roots"], known.get("starts")
    if nodes is None or roots is None or any(name in given and known[name] is None for name in ("targets", "starts")):
        return None
    n_targets, (n_weights,) = call.s64("n_targets"), inputs[3].shape
    n_leaves = n_weights if starts is None else len(starts) - 1
    wrong = broken(nodes, roots, inputs[0].shape[1], n_leaves)
    if wrong or broken_weights(starts, known.get("targets"), n_weights, n_targets):
        return None  # the reference has the error
    kinds = np.unique(nodes[:, HEAD][nodes[:, HEAD] != LEAF] & (2 * MISSING - 1))
    numbers = [n_targets, AGGREGATES.index(call.string("aggregate")), call.flag("absent")]
    numbers += [kinds[0] if len(kinds) == 1 and kinds[0] < MISSING else 0, inputs[0].dtype is DataType.float64]
    numbers += [name in given for name in ("base", "targets", "starts")]
    code = [int(number) for number in numbers]
    return _compiled(lib.onegraph_trees, [*map(_wide, inputs)], [*map(_wide, outputs)], code)


def compiled_classify(call: Call, inputs: Sequence[Value], outputs: Sequence[Value]) -> CompiledKernel:
    """The kernel for the choice of a class."""
    numbers = [
        TRANSFORMS.index(call.string("transform")),
        bits_of(call.f32("threshold")),
        OPPOSITES.index(call.string("opposite")),
        call.flag("absent"),
        inputs[0].dtype is DataType.float64,
    ]
    code = [int(number) for number in numbers]
    return _compiled(lib.onegraph_classify, [*map(_wide, inputs)], outputs, code)


def compiled_look_up(call: Call, inputs: Sequence[Value], outputs: Sequence[Value]) -> CompiledKernel | None:
    """The kernel for a table of keys that are constants; None if they are not, or in no order."""
    keys = inputs[1].constant
    if keys is None or not is_ascending(keys):
        return None
    names = {"float64": "f64"}
    types = [names.get(value.dtype.value, value.dtype.value) for value in inputs[1:3]]
    code = [getattr(lib, f"onegraph_key_{name}") for name in types]
    return _compiled(lib.onegraph_find_keys, [*map(_wide, inputs)], [*map(_wide, outputs)], code)


class HostKernel(NamedTuple):
    """How a host op is compiled.

    Attributes:
        compiled: makes the kernel; None if it lacks this use of the op.
        reason: why it runs, for reports.
        dtypes: that the kernel takes.
        is_dense: whether its tensors must be dense.
        is_checked: whether the contents of constants decide which kernel it is, and whether there is one.
    """

    compiled: Callable[[Call, Sequence[Value], Sequence[Value]], CompiledKernel | None]
    reason: str
    dtypes: frozenset[DataType]
    is_dense: bool
    is_checked: bool = False


WIDE = frozenset([DataType.f32, DataType.float64])
INTEGERS = frozenset([DataType.s32, DataType.s64])
IN_TILES = "in tiles by onegraph: the library would write all scores to memory"
HOST_KERNELS = {
    "Attention": HostKernel(compiled_attention, IN_TILES, FLOATS, is_dense=False),
    "AttentionBackward": HostKernel(compiled_attention, IN_TILES, FLOATS, is_dense=False),
    "Recurrence": HostKernel(
        compiled_recurrence, "by onegraph, all steps together", frozenset([DataType.f32]), is_dense=True
    ),
    "TreeEnsemble": HostKernel(compiled_trees, "by onegraph, several walks at once", WIDE, is_dense=True, is_checked=True),
    "LookUp": HostKernel(
        compiled_look_up, "by onegraph, in a sorted table", WIDE | INTEGERS, is_dense=True, is_checked=True
    ),
    "Classify": HostKernel(compiled_classify, "by onegraph, label and scores together", WIDE, is_dense=True),
}


def compiled_winograd(inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int]) -> CompiledKernel:
    """The kernel for a transform of Winograd's convolution, by ``onegraph_winograd_number`` in ``onegraph.h``."""
    return _compiled(lib.onegraph_winograd, inputs, outputs, code)


def compiled_vectors(inputs: Sequence[Value], outputs: Sequence[Value], is_turned: bool) -> CompiledKernel:
    """The kernel for a product of a few rows and a matrix, which holds a column in a row if it ``is_turned``."""
    return _compiled(lib.onegraph_vector_product, inputs, outputs, [int(is_turned), LEVEL])


def compiled_packed(inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int]) -> CompiledKernel:
    """The kernel for rows times a matrix of packed weights, by ``onegraph_packed_number`` without the level."""
    return _compiled(lib.onegraph_packed_product, inputs, outputs, [*code, LEVEL])


PACKED = {name: int(getattr(lib, f"onegraph_packed_{name}")) for name in ("s4", "u4", "s8", "u8", "f16", "bf16")}


def compiled_guard(inputs: Sequence[Value], outputs: Sequence[Value], code: Sequence[int]) -> CompiledKernel:
    """The kernel that computes an op again where an element is NaN or infinite, by ``onegraph_guarded_number``."""
    return _compiled(lib.onegraph_guarded, inputs, outputs, code)


def compiled_when_special(sources: Sequence[Value]) -> CompiledKernel:
    """What begins the steps that run only where an element of a source is NaN or infinite; see ``WhenSpecial``."""
    return _compiled(lib.onegraph_when_special, sources, (), ())


def compiled_when_special_end(sources: Sequence[Value]) -> CompiledKernel:
    """What ends these steps."""
    return _compiled(lib.onegraph_when_special_end, sources, (), ())


def compiled_max_pool(source: Value, target: Value, code: Sequence[int]) -> CompiledKernel:
    """The kernel for MaxPool, by ``onegraph_max_pool_number`` in ``onegraph.h``."""
    return _compiled(lib.onegraph_max_pool, [source], [target], code)


def compiled_norm_relu(call: Call, inputs: Sequence[Value], output: Value) -> CompiledKernel:
    """The kernel that computes channels of a BatchNormForwardTraining and a ReLU again; see ``NormRelu``.

    Args:
        call: the normalization.
        inputs: src, the mean and the variance of the batch, and gamma and beta if there are any.
        output: the result of the ReLU.
    """
    channels = len(output.shape) - 1 if call.string("data_format") == "NXC" else 1
    given = [int(call.input(port) is not None) for port in ("gamma", "beta")]
    return _compiled(lib.onegraph_norm_relu, inputs, [output], [channels, *given, bits_of(call.f32("epsilon"))])


def compiled_rms_norm(inputs: Sequence[Value], output: Value, width: int, epsilon: float) -> CompiledKernel:
    """The kernel for RMSNorm over the last axes, which have ``width`` elements."""
    return _compiled(lib.onegraph_rms_norm, inputs, [output], [width, bits_of(epsilon), LEVEL])


def compiled_log_softmax_gradient(inputs: Sequence[Value], output: Value) -> CompiledKernel:
    """The kernel for -exp(src) * sums, with one of the sums for each row."""
    return _compiled(lib.onegraph_log_softmax_gradient, inputs, [output], [LEVEL])


def has_kernel(kind: str, values: Sequence[Value]) -> bool:
    """Whether a kernel has the data types of these inputs and this output, which comes last."""
    dtypes = [value.dtype for value in values]
    if any(0 in value.shape for value in values):
        return False
    if any(value.irregular for value in values):
        return False
    if kind in ON_CODES:
        kinds = CODES if kind == "look_up" else CODES | {DataType.f32}
        return kinds.issuperset(dtypes)
    if dtypes[-1] not in FLOATS:
        return False
    if kind == "replace_nan":
        return dtypes == [dtypes[-1]] * 3
    if kind in ("scale", "scale_relu"):
        return dtypes[1:3] == [DataType.f32] * 2 and dtypes[0] == dtypes[3] != DataType.f16
    if kind == "select":
        return dtypes[:-1] == [DataType.boolean, dtypes[-1], dtypes[-1]]
    return dtypes[0] in FLOATS
