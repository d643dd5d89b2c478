"""Elementwise ops that the library computes wrong for some numbers, in f32, f16 or bf16 of any strides.

The library takes the larger of two numbers with an instruction that returns the second one if one of them is NaN. So a
ReLU of NaN is 0, alone and fused with the op before it, in every version. It multiplies by 0 where it should select, so
that an infinite gradient becomes NaN. Its logarithm has an absolute error of 4e-6, so that the results near 0 of Log,
SoftPlus and Mish have no right digit; nor have those of Elu, which subtracts 1 from an exponential. And of two operands
that are both broadcast, as in an outer product, it computes one element after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...opset.ops.binary import slope_target
from ...opset.schema import Call
from ...opset.shapes import known_dims
from ..ir.step import Step
from ..ir.value import Value, dense_of
from .adding import Adding
from .kernel import AGAIN, COMPILED_ANEW, DIGITS, KEEPS, NOT_EMPTY, OF_FLOATS, SPREADS, Kernel, call_of
from .registry import EXACT, exact_kernel

SLOPES = "prelu", "prelu_backward_src"  # kernels whose second input is the slope of a PReLU
PATCHED = {"LogSoftmaxBackward": 1}  # ops whose result is NaN where an input is: that input
HOST = NOT_EMPTY, OF_FLOATS  # what kernels of host ops take
MIN_SPREAD = 256  # elements
OWN = "own"  # the attribute of a step that names its kernel, if the op is computed by several


def _add(adding: Adding, step: Step, _: Sequence[str]) -> str:
    schedule, values = adding.schedule, adding.values
    assert step.part is not None
    call, result, name = step.part.call, values[step.outputs[0]], step.attrs.get(OWN)
    kernel = BY_NAME[str(name)] if name else exact_kernel(call)
    assert kernel is not None
    numbers = [*step.inputs]
    if kernel.name in SLOPES:
        numbers[1] = _slopes(adding, call, values[numbers[1]], result)
    inputs = adding.at([schedule.forwards(number) for number in numbers])
    if adding.edges.is_free(result):
        like = next((input_ for input_ in inputs if input_.shape == result.shape and is_whole(input_)), result)
        result = values[result.id] = result._replace(strides=like.strides)
    attrs = adding.at([schedule.new_number(call.f32(name), len(result.shape)) for name in kernel.attrs])
    in_place = [
        (result.storage, input_.storage)
        for input_ in inputs
        if (input_.dtype, input_.shape, input_.strides, input_.offset)
        == (result.dtype, result.shape, result.strides, 0)
    ]
    note = schedule.note("kernel", step, kernel.reason)
    schedule.add_kernel(kernel.name, [*inputs, *attrs], [result], note, in_place=in_place)
    return ""


def _add_patch(adding: Adding, step: Step, _: Sequence[str]) -> str:
    """Add what writes NaN over the result of the library where an input has NaN."""
    source = adding.values[adding.schedule.forwards(step.inputs[PATCHED[step.kind]])]
    result = adding.values[step.outputs[0]]
    adding.schedule.add_kernel("keep_nan", [source, result], [result], adding.note_also(AGAIN))
    return ""


def _slopes(adding: Adding, call: Call, slope: Value, result: Value) -> int:
    """The slopes of a PReLU in a shape that is broadcast to that of src."""
    shape = known_dims(slope_target(call, slope.shape, result.shape))
    dense = slope if slope.dense else adding.values[adding.schedule.dense_copy(slope)]
    if dense.constant is not None:
        return adding.schedule.new_constant(dense.constant.reshape(shape), dense.name)
    return adding.schedule.part(dense, shape, dense_of(shape), dense.offset)


def is_whole(value: Value) -> bool:
    """Whether the elements of a value lie side by side, in whatever order."""
    last = sum(stride * (dim - 1) for dim, stride in zip(value.shape, value.strides, strict=True))
    return not value.irregular and last + 1 == prod(value.shape)


def _by_tanh(call: Call) -> bool:
    return call.string("mode") == "gelu_tanh"


def _spreads(call: Call) -> bool:
    """Whether both operands are broadcast to more elements than the library's reference kernel is fast for."""
    (shape, *_), operands = call.shapes, [tensor.shape for tensor in call.inputs if tensor is not None]
    return shape not in operands and prod(known_dims(shape)) >= MIN_SPREAD


def _by_dst(call: Call) -> bool:
    return call.flag("use_dst")


def _add_with_attrs(adding: Adding, step: Step, reasons: Sequence[str]) -> str:
    """Add a host op whose attributes are numbers that the kernel reads as tensors."""
    kernel, rank = BY_NAME["fake_quantize"], len(adding.values[step.outputs[0]].shape)
    numbers = [adding.schedule.new_number(call_of(step).f32(name), rank) for name in kernel.attrs]
    return adding.plainly(kernel, step._replace(inputs=(*step.inputs, *numbers)), reasons)


def _exact(
    name: str,
    kinds: tuple[str, ...],
    attrs: tuple[str, ...] = (),
    when: Callable[[Call], bool] | None = None,
    reason: str = KEEPS,
) -> Kernel:
    is_faster = reason == SPREADS
    return Kernel(
        name, reason, EXACT, kinds, when, attrs, is_dense=False, overwrites=True, is_faster=is_faster, add=_add
    )


KERNELS = (
    _exact("spread_add", ("Add",), (), _spreads, SPREADS),
    _exact("spread_subtract", ("Subtract",), (), _spreads, SPREADS),
    _exact("spread_multiply", ("Multiply",), (), _spreads, SPREADS),
    _exact("spread_divide", ("Divide",), (), _spreads, SPREADS),
    _exact("spread_squared_difference", ("SquaredDifference",), (), _spreads, SPREADS),
    _exact("abs_backward", ("AbsBackward",)),
    _exact("clamp", ("Clamp",), ("min", "max")),
    _exact("clamp_backward", ("ClampBackward",), ("min", "max")),
    _exact("elu", ("Elu",), ("alpha",), None, DIGITS),
    _exact("elu_backward_by_dst", ("EluBackward",), ("alpha",), _by_dst),
    _exact("elu_backward_by_src", ("EluBackward",), ("alpha",)),
    _exact("exp", ("Exp",)),
    _exact("gelu_tanh", ("GELU",), (), _by_tanh),
    _exact("gelu_erf", ("GELU",)),
    _exact("gelu_tanh_backward", ("GELUBackward",), (), _by_tanh),
    _exact("greater_equal", ("GreaterEqual",)),
    _exact("hard_sigmoid", ("HardSigmoid",), ("alpha", "beta")),
    _exact("hard_sigmoid_backward", ("HardSigmoidBackward",), ("alpha", "beta")),
    _exact("hard_swish_backward", ("HardSwishBackward",)),
    _exact("log", ("Log",), (), None, DIGITS),
    _exact("maximum", ("Maximum",)),
    _exact("minimum", ("Minimum",)),
    _exact("mish", ("Mish",), (), None, DIGITS),
    _exact("mish_backward", ("MishBackward",)),
    _exact("prelu", ("PReLU",)),
    # The gradients of a PReLU, which a pass divides into both.
    _exact("prelu_backward_src", ()),
    _exact("prelu_backward_slope", ()),
    # Those that the library computes right, for which a pass takes them where sizes are open.
    _exact("abs", (), (), None, COMPILED_ANEW),
    _exact("hard_swish", (), (), None, COMPILED_ANEW),
    _exact("leaky_relu", (), ("alpha",), None, COMPILED_ANEW),
    _exact("round", (), (), None, COMPILED_ANEW),
    _exact("tanh", (), (), None, COMPILED_ANEW),
    _exact("relu", ("ReLU",)),
    _exact("relu_backward", ("ReLUBackward",)),
    _exact("softplus", ("SoftPlus",), ("beta",), None, DIGITS),
    Kernel("erf", "by onegraph", kinds=("Erf",), takes=HOST, is_dense=False, overwrites=True),
    Kernel(
        "fake_quantize",
        "by onegraph",
        kinds=("FakeQuantize",),
        attrs=("step", "low", "high"),
        takes=HOST,
        is_dense=False,
        overwrites=True,
        add=_add_with_attrs,
    ),
    Kernel("keep_nan", AGAIN, "patched", (*PATCHED,), is_dense=False, follows=True, add=_add_patch),
)
BY_NAME = {kernel.name: kernel for kernel in KERNELS}
