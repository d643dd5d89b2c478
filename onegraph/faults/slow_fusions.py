"""Fusions that are right and slower than their ops one by one."""

from __future__ import annotations

from collections.abc import Sequence

from .operands import is_fast, varying
from .use import BINARY, CONVOLUTIONS, Dims, Use


def slow_fusion(uses: Sequence[Use]) -> str:
    """Why the ops are faster one by one, empty where they are not: as one, some take a reference kernel.

    Measured on tensors of 8,000 to 500,000 elements, these take 20 to 2,000 times as long as their ops one by one.
    """
    main = uses[0]
    derived, anew = set(main.outputs), set[int]()  # from the main op; from another convolution, which is a kernel anew
    producers = {number: use for use in uses for number in use.outputs}
    for use in uses[1:]:
        joined = derived.intersection(use.inputs) if use.kind in BINARY - {"BiasAdd"} else set()
        for index, number in enumerate(use.inputs if joined else ()):
            if number not in derived and _is_slow(main, use.kind, number, use.shape(index)):
                shape = list(use.shape(index))
                return (
                    f"oneDNN has a reference kernel only for {main.kind} + {use.kind} with an operand of shape {shape}"
                )
        if use.kind in CONVOLUTIONS or anew.intersection(use.inputs):
            anew.update(use.outputs)
        if len(joined) > 1 and not joined & anew:
            for other in (producers[number] for number in joined):
                swish = (other.kind, use.kind) == ("Sigmoid", "Multiply")
                if other.call.schema.category == "elementwise" and not swish:
                    return f"oneDNN has a reference kernel only for {other.kind} + {use.kind} of one tensor"
        derived.update(use.outputs)
    return ""


def _is_slow(main: Use, binary: str, number: int, operand: Dims) -> bool:
    """Whether ``main`` and a binary op with an operand behind it are slow as one."""
    result = main.result
    if len(operand) > len(result):
        return False
    if main.call.schema.category == "elementwise":
        is_swish = main.kind == "Sigmoid" and binary == "Multiply" and number in main.inputs
        return not is_swish
    if main.kind == "SoftMax":
        return True
    varies = varying(result, operand)
    is_vector, is_whole = any(varies) and not any(varies[:-1]), operand == result
    if is_vector and ((main.kind in BINARY and len(result) > 2) or (main.kind == "MatMul" and len(result) > 4)):
        return True
    if main.kind == "MatMul" and len(main.shape(1)) > 2 and _takes_turns(varies):
        return True
    if main.kind == "Convolution" and main.call.string("data_format") == "NCX" and all(varies[1:]):
        return not (is_whole and binary == "Add")
    return not is_whole and not is_fast(varies)


def _takes_turns(varies: Sequence[bool]) -> bool:
    """Whether an operand of a batched MatMul is one matrix for all, one number for each, or anew in each first part."""
    batch, matrix = varies[:-2], varies[-2:]
    if not any(matrix):
        return len(batch) > 0 and all(batch)
    return len(batch) > 1 and all(matrix) and not batch[0] and len(set(batch[1:])) == 1
