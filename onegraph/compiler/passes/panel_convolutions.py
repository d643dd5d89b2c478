"""Computes convolutions with constant f32 weights by a kernel of the package where sizes are open.

The library compiles a convolution for each size, which takes as long as some runs of it, and reads weights that it has
prepared for another size as they are. The kernel of the package takes any number of windows. Its weights lie in panels
of channels, which programs for all sizes share. It copies what a strip of windows covers into rows, which stay in the
caches, and multiplies them by the panels.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...arrays.mapped_files import give_back
from ...capi.settings import has_avx2
from ...opset.convolution_geometry import convolution_geometry
from ...opset.dtypes import DataType
from ...opset.shapes import known_dims
from ...opset.signature import AttrValue
from ..epilogues import epilogue_of
from ..ir.edit import Edit
from ..ir.step import Step
from ..kernels.kernel import refusal
from ..kernels.panel_convolution import FOR_WINDOWS, PANEL_CONVOLUTION, TAKES, PanelConvolution
from ..options import Options
from ..packed_weights import window_panels
from ..shared_constants import derived
from .row_leaks import is_finite

KINDS = frozenset(["Convolution", "ConvTranspose"])


def convolve_with_panels(edit: Edit, options: Options) -> None:
    """Put a step of executor ``panel convolution`` in the place of each such convolution, with its epilogue."""
    if not options.opens or options.reproducible or not has_avx2():
        return
    for step in edit.graph.steps:
        made = _made(edit, step)
        if made is not None:
            for link in made.members[1:]:
                edit.replace(link)
            edit.replace(step, made)


def _made(edit: Edit, step: Step) -> Step | None:
    """The step in the place of a convolution; None for other steps."""
    part, values = step.library_part, edit.values
    if step.kind not in KINDS or part is None or part.call.attr("data_format") != "NXC":
        return None
    src, weights, *_ = (values[number] for number in step.inputs)
    constant, geometry = weights.constant, convolution_geometry(part.call)
    is_full = all(values[number].dtype is DataType.f32 for number in (*step.inputs, *step.outputs))
    assert geometry is not None
    if constant is None or src.constant is not None or not is_full:
        return None
    if part.call.attr("auto_pad") not in (None, "none", "None"):
        return None
    epilogue = epilogue_of(edit, step)
    result = values[epilogue.result]
    channels, columns = (value.shape[-1] // geometry.groups for value in (src, result))
    candidate = PanelConvolution(len(geometry.strides), channels, columns, geometry.groups, is_finite(weights))
    if reason := refusal(TAKES, candidate):
        edit.refuse(step, PANEL_CONVOLUTION.name, reason)
        return None
    pads = known_dims(geometry.pads_begin)
    numbers = (
        geometry.transposed,
        geometry.groups,
        geometry.weights_format,
        geometry.strides,
        geometry.dilations,
        pads,
    )
    key = derived(("panels", *numbers), edit.key(weights.id))
    array = edit.graph.shared.once(key, lambda: window_panels(constant, geometry))
    give_back([constant])
    panels = edit.constant(array, f"{weights.name} (panels)", key)
    axes = zip(known_dims(geometry.kernel), geometry.strides, geometry.dilations, pads, strict=True)
    attrs: Mapping[str, AttrValue] = {
        "transposed": geometry.transposed,
        "groups": geometry.groups,
        "bias": epilogue.bias is not None,
        "slope": epilogue.slope,
        "windows": tuple([number for axis in axes for number in axis]),
    }
    ends = (src.id, panels, *([] if epilogue.bias is None else [epilogue.bias]))
    note = f"{step.note}; {FOR_WINDOWS}" if step.note else FOR_WINDOWS
    made = step.instead(PANEL_CONVOLUTION.executor, ends, (epilogue.result,), attrs=attrs, note=note)
    return made._replace(members=epilogue.steps, folded=epilogue.folded)
