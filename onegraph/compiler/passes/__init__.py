"""The passes over a lowered graph, in their order: each changes steps, and says when and why."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from ..ir.edit import Edit
from ..ir.lowered import Lowered
from ..options import Options
from .changing_attention import attend
from .channel_scales import fold_scales
from .chosen_products import multiply_chosen
from .code_products import multiply_codes
from .coded_attention import attend_codes
from .codes import compute_on_codes
from .constants import fold_constants
from .label_gradients import add_at_labels
from .last_softmax import take_last_softmax
from .late_casts import cast_behind_norms
from .moved_codes import move_codes
from .narrow_groups import join_groups
from .open_steps import take_open_steps
from .packed_products import multiply_packed
from .panel_convolutions import convolve_with_panels
from .pointwise import join_elementwise
from .product_weights import skew_weights
from .repetition import repeat_for_consumers
from .row_leaks import mark_leaks
from .rows_as_images import see_images
from .special_values import keep_special_values
from .unsigned_codes import use_unsigned_codes
from .vector_products import multiply_vectors
from .weight_layouts import lay_out_weights
from .window_products import multiply_windows
from .winograd import transform_convolutions


class Pass(NamedTuple):
    """A pass.

    Attributes:
        name: by which it is listed and skipped.
        run: changes the graph.
        reason: what it is for.
        when: whether it runs under the options.
    """

    name: str
    run: Callable[[Edit, Options], None]
    reason: str
    when: Callable[[Options], bool] = lambda options: options.fuses


def _always(options: Options) -> bool:
    return True


def _is_strict(options: Options) -> bool:
    return options.fuses and options.fpmath_mode == "strict"


def _may_sum_anew(options: Options) -> bool:
    """Whether a product may be summed in another order for more rows."""
    return _is_strict(options) and not options.reproducible


PASSES = (
    Pass("packed_products", multiply_packed, "the library dequantizes constant weights in every run"),
    Pass("chosen_products", multiply_chosen, "the library gets a copy of a matrix for each row that names it"),
    Pass("late_casts", cast_behind_norms, "a convolution takes in a normalization of its own data type only"),
    Pass("constants", fold_constants, "ops on constants alone are computed once", _always),
    Pass("changing_attention", attend, "the library compiles attention for each number of tokens", _is_strict),
    Pass("coded_attention", attend_codes, "codes of keys and values are read in less time than their numbers"),
    Pass("label_gradients", add_at_labels, "the gradient of a LogSoftmax is zero but for the labels"),
    Pass("channel_scales", fold_scales, "the library has no convolution that writes codes with scales of channels"),
    Pass("moved_codes", move_codes, "the library fuses a Dequantize beside a product only"),
    Pass("unsigned_codes", use_unsigned_codes, "VNNI multiplies u8 by s8"),
    Pass("codes", compute_on_codes, "the library fuses Dequantize and Quantize with products and pools only"),
    Pass("code_products", multiply_codes, "the library compiles an int8 product for each size"),
    Pass("repetition", repeat_for_consumers, "the library fuses a step with a single consumer only"),
    Pass("window_products", multiply_windows, "the library copies variable weights into blocks in every run"),
    Pass("rows_as_images", see_images, "the library's fast depthwise kernels take images alone"),
    Pass("weight_layouts", lay_out_weights, "the library copies weights fastest with the channels last"),
    Pass("winograd", transform_convolutions, "F(2x2, 3x3) needs 16 multiplications in place of 36", _is_strict),
    Pass("panel_convolutions", convolve_with_panels, "the library compiles a convolution for each size", _is_strict),
    Pass("vector_products", multiply_vectors, "the library reads a matrix slowly for few rows", _may_sum_anew),
    Pass("narrow_groups", join_groups, "the library has no AVX2 kernel for groups of few channels"),
    Pass("product_weights", skew_weights, "the AVX2 kernel packs no weights at aligned addresses"),
    Pass("open_steps", take_open_steps, "the library compiles a step for each size"),
    Pass("last_softmax", take_last_softmax, "the library's SoftMax takes longer, and loses NaN"),
    Pass("special_values", keep_special_values, "some kernels of the library lose NaN or an infinity", _always),
    Pass("row_leaks", mark_leaks, "some kernels of the library let NaN and infinities into other rows", _always),
    Pass("pointwise", join_elementwise, "the library's fusions have one result"),
)
Watch = Callable[[Pass, Lowered, Lowered], None]
watches: list[Watch] = []  # called after each pass with the graphs before and after it; tests add checks


NAMES = frozenset(each.name for each in PASSES)


def run_passes(graph: Lowered, options: Options, names: Container[str] = NAMES, watch: Watch | None = None) -> Lowered:
    """The graph as the passes change it.

    Args:
        graph: the graph.
        options: what it is compiled for.
        names: the passes that may run; all by default.
        watch: called after each pass with the pass and the graphs before and after it.
    """
    for current in PASSES:
        if current.name not in names or not current.when(options):
            continue
        edit = Edit(graph)
        current.run(edit, options)
        before, graph = graph, edit.done()
        for call in (*watches, *([] if watch is None else [watch])):
            call(current, before, graph)
    return graph
