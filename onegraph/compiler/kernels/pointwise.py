"""Several elementwise ops of f32, f16 or bf16 at once, on tensors of one size, on single numbers and on rows.

The library's fusions have one result. An update of Adam has three results and four inputs of one size, so the library
reads and writes memory several times. This kernel computes the ops on blocks that stay in the cache.

It computes SiLU and gates too, x * Sigmoid(y). Behind a Convolution of few channels, the library's Sigmoid takes longer
than the Convolution. And it multiplies each channel of an image by a number, as a squeeze-and-excitation block does:
the library reads such a factor again for each place. It computes the gradients of SiLU and of gates, and that of GELU,
for which the library takes three times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...capi.settings import has_avx2
from ..ir.step import Step
from .kernel import Conditions, Kernel, refusal
from .native import Numbers

# The words of the kernel, by kind.
OPS = {
    "Add": "add",
    "Subtract": "subtract",
    "Multiply": "multiply",
    "Divide": "divide",
    "SquaredDifference": "squared_difference",
    "Square": "square",
    "Sqrt": "sqrt",
    "Sigmoid": "sigmoid",
    "SigmoidBackward": "sigmoid_backward",
    "TanhBackward": "tanh_backward",
    "TypeCast": "copy",
}
BACKWARD = frozenset(["SigmoidBackward", "TanhBackward"])
SLOPE = "GELUBackward"  # the product of a gradient and the slope of GELU
GATES = BACKWARD | {"Sigmoid", "Multiply"}  # 16-bit results between them are not rounded, as in the library's fusions
REGISTERS = 48  # of the kernel
# The library fuses chains of ops with one result as well. It needs several steps for joined ops.
MIN_OPS, MIN_RESULTS, MIN_SOURCES = 3, 2, 3
UPDATED_BYTES = 1 << 18  # of a variable, from which on its update is worth a step
# Elements of a Sigmoid behind a product that is worth a step: the library fuses fewer with the product, and more do not
# stay in the last cache.
# The library reads and writes memory several times for a GELU by tanh, which has more ops than a gate.
MIN_SIGMOID, MAX_SIGMOID, GATE_OPS = 1 << 15, 1 << 22, 4
MIN_SCALED = 1 << 13  # elements that are multiplied by a factor for each channel
MIN_SLOPES = 1 << 14  # elements of the gradient of a GELU


class PointwiseGroup(NamedTuple):
    """Ops that may be one step.

    Attributes:
        kinds: of the ops.
        size: the number of elements of their tensors.
        n_tensors, n_sources, n_results: the numbers of tensors between and around them, of inputs of this size, and of
            results.
        is_update: whether the results are the next values of variables, of which one is large.
        scales_channels: whether it is one product with a factor for each channel.
        rounds: whether the library rounds the result of an op to 16 bits.
        follows_product: whether the library computes an input by a product.
        is_between_kernels: whether other steps than the library's make an input or read a result, and the library
            computes only elementwise ops beside it.
        is_open: whether the ops are for any of several sizes.
    """

    kinds: tuple[str, ...]
    size: int
    n_tensors: int
    n_sources: int
    n_results: int
    is_update: bool
    scales_channels: bool
    rounds: bool
    follows_product: bool = False
    is_between_kernels: bool = False
    is_open: bool = False


def _is_fast(_: PointwiseGroup) -> bool:
    return has_avx2()


def _at_least(count: int) -> tuple[Callable[[PointwiseGroup], bool], str]:
    return (lambda group: group.size >= count), f"fewer than {count:,} elements take less time than a step"


def _is_of_slopes(group: PointwiseGroup) -> bool:
    return group.kinds[0] == SLOPE


def _has_gradients(group: PointwiseGroup) -> bool:
    return len(group.kinds) > 1 and not BACKWARD.isdisjoint(group.kinds)


def _has_gates(group: PointwiseGroup) -> bool:
    return len(group.kinds) > 1 and "Sigmoid" in group.kinds


def _is_alone(group: PointwiseGroup) -> bool:
    return group.size >= MIN_SIGMOID or not group.follows_product


def _is_small_step(group: PointwiseGroup) -> bool:
    """Whether the start of the library would take longer than the ops, as its code is not in the cache."""
    return group.is_between_kernels and group.size < MIN_SIGMOID and not group.rounds


def _is_compiled_anew(group: PointwiseGroup) -> bool:
    """Whether the library would compile the ops for each size, and not with the product before."""
    return group.is_open and not group.rounds and not group.follows_product


def _scales_channels(group: PointwiseGroup) -> bool:
    return group.scales_channels


def _stays_in_cache(group: PointwiseGroup) -> bool:
    return group.size <= MAX_SIGMOID


def _has_many_ops(group: PointwiseGroup) -> bool:
    return len(group.kinds) > GATE_OPS


def _shares_tensors(group: PointwiseGroup) -> bool:
    return group.n_sources >= MIN_SOURCES and group.n_results >= MIN_RESULTS and len(group.kinds) >= MIN_OPS


FAST = _is_fast, "the CPU lacks AVX2"
FUSED = f"the library fuses fewer than {MIN_SIGMOID:,} elements with the product before"
LARGE = f"more than {MAX_SIGMOID:,} elements do not stay in the last cache"
# Cases, each with the conditions under which it is worth a step; the first one that is true of a group counts.
CASES: Sequence[tuple[Callable[[PointwiseGroup], bool], Conditions[PointwiseGroup]]] = (
    (_is_compiled_anew, (FAST,)),
    (_is_of_slopes, (FAST, _at_least(MIN_SLOPES))),
    (_has_gradients, (FAST, _at_least(MIN_SIGMOID))),
    (_has_gates, (FAST, (_is_alone, FUSED), (lambda group: _stays_in_cache(group) or _has_many_ops(group), LARGE))),
    (_scales_channels, (_at_least(MIN_SCALED), (_stays_in_cache, LARGE))),
    (_is_small_step, (FAST,)),
)
JOINED: Conditions[PointwiseGroup] = (
    (lambda group: not group.rounds, "the library rounds the result of each op to 16 bits"),
    (
        lambda group: group.is_update or _shares_tensors(group),
        f"the ops are no update of a variable of {UPDATED_BYTES:,} bytes, and fewer than {MIN_OPS}, or read fewer than "
        f"{MIN_SOURCES} tensors of one size, or have fewer than {MIN_RESULTS} results",
    ),
)
FITS: Conditions[PointwiseGroup] = (
    (lambda group: group.n_results > 0, "nobody reads the results"),
    (lambda group: group.n_tensors <= REGISTERS, f"the ops have more than {REGISTERS} tensors"),
)


def is_special(group: PointwiseGroup) -> bool:
    """Whether a group is of a case of its own, so that a report tells why it is not taken."""
    return any(is_case(group) for is_case, _ in CASES)


def why_not(group: PointwiseGroup) -> str:
    """Why a group is not worth a step; empty if it is."""
    conditions = next((conditions for is_case, conditions in CASES if is_case(group)), JOINED)
    return refusal((*FITS, *conditions), group)


def _numbers(step: Step) -> Numbers:
    """The ops of a joined step: kind, result and operands of each."""
    register = {number: place for place, number in enumerate((*step.inputs, *step.outputs))}
    return {"ops": [*_instructions(step, register)]}


def _instructions(step: Step, register: dict[int, int]) -> Iterator[int | str]:
    gates = _gates(step)
    for member in step.members:
        (result,) = member.outputs
        if result in gates:
            continue
        if member.kind == SLOPE:
            src, diff = member.inputs
            slope = len(register)
            yield from ("gelu_slope", slope, register[src], register[src])
            yield from ("multiply", register[result], slope, register[diff])
            continue
        word, first, second = OPS[member.kind], member.inputs[0], member.inputs[-1]
        if member.kind == "Multiply" and not gates.keys().isdisjoint(member.inputs):
            first, second = (second, first) if first in gates else (first, second)
            word, second = "gate", gates[second]
        register.setdefault(result, len(register))
        yield from (word, register[result], register[first], register[second])


def _gates(step: Step) -> dict[int, int]:
    """The results of Sigmoids that one product alone reads, one for each product, with the inputs of the Sigmoids."""
    reads = Counter(number for member in step.members for number in member.inputs)
    sources = {member.outputs[0]: member.inputs[0] for member in step.members if member.kind == "Sigmoid"}
    products = [member.inputs for member in step.members if member.kind == "Multiply"]
    alone = [[input_ for input_ in inputs if input_ in sources and reads[input_] == 1] for inputs in products]
    return {gate[0]: sources[gate[0]] for gate in alone if gate and gate[0] not in step.outputs}


POINTWISE = Kernel(
    "pointwise",
    "together by onegraph: the library would read and write memory for each result",
    "pointwise",
    numbers=_numbers,
    overwrites=True,
)
KERNELS = (POINTWISE,)
