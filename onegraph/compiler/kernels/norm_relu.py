"""A ReLU behind a normalization in training that the library fuses with it: channels of NaN are computed again."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import OutOfMemoryError
from ..ir.step import Step
from .adding import Adding
from .kernel import Kernel

NORMALIZED = "behind a normalization"  # the mark of a ReLU that the library may fuse with one, in training
REASON = "channels whose statistics are not finite are computed again by onegraph, as the library's ReLU loses NaN"


def add_norm_guards(adding: Adding, steps: Sequence[Step]) -> None:
    """Add what computes channels again behind the normalizations of a partition."""
    schedule, makers = adding.schedule, {number: step for step in steps for number in step.outputs}
    for relu in steps:
        norm = makers.get(relu.inputs[0]) if NORMALIZED in relu.attrs else None
        if norm is None:
            continue
        assert norm.part is not None
        call, note = norm.part.call, adding.note_also(REASON)
        ids = [norm.inputs[0], *norm.outputs[3:5], *norm.inputs[3:]]
        inputs, output = adding.at([schedule.forwards(number) for number in ids]), adding.values[relu.outputs[0]]
        numbers = {
            "channels": len(output.shape) - 1 if call.string("data_format") == "NXC" else 1,
            "gamma": call.input("gamma") is not None,
            "beta": call.input("beta") is not None,
            "epsilon": call.f32("epsilon"),
        }
        schedule.add_kernel("norm_relu", inputs, [output], note, numbers)


KERNELS = (Kernel("norm_relu", REASON, is_dense=False, fails=OutOfMemoryError),)
