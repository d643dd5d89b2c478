"""Has the steps to newer op sets that are more than an attribute in another place."""

from __future__ import annotations

import numpy as np

from ....lowering.emitter import NotLowered
from ..protos import TensorProto
from .draft import NodeDraft, attribute

TRAINING = "a node in its form for inference"


def aligned(draft: NodeDraft) -> None:
    """Before op set 7 the attribute ``axis`` says where the axes of the second operand lie."""
    is_broadcast, axis = draft.pop("broadcast", 0), draft.pop("axis")
    if not is_broadcast or axis is None:
        return
    first, second = draft.facts.rank_of(0), draft.facts.rank_of(1)
    if first is None or second is None:
        raise NotLowered("the attribute axis beside operands of unknown rank")
    trailing = first - axis % max(first, 1) - second
    if trailing < 0:
        raise draft.refuse(f"axis={axis} for operands of {first} and {second} axes", "an axis that both have room for")
    if trailing:
        axes = draft.constant(np.arange(second, second + trailing))
        draft.put(1, draft.add("Unsqueeze", [draft.inputs[1], axes]))


def per_channel_slope(draft: NodeDraft) -> None:
    """Before op set 7 the slope of a PRelu has an element for each channel, or one."""
    rank, count = draft.facts.rank_of(0), draft.facts.size_of(1)
    if rank is None or count is None:
        raise NotLowered("a PRelu of unknown shapes")
    if count > 1 and rank > 2:
        axes = draft.constant(np.arange(1, rank - 1))
        draft.put(1, draft.add("Unsqueeze", [draft.inputs[1], axes]))


def inference_only(draft: NodeDraft) -> None:
    """Before op set 7 the attribute ``is_test`` tells inference from training, which is the default."""
    if not draft.pop("is_test", 0):
        raise draft.refuse("is_test=0, the form for training", TRAINING)
    if draft.kind == "BatchNormalization":
        without_statistics(draft)


def without_statistics(draft: NodeDraft) -> None:
    """Before op set 14 a BatchNormalization trains if it has further outputs; before 9 it may lack channels."""
    if any(draft.outputs[1:]):
        raise draft.refuse("statistics as outputs, the form for training", TRAINING)
    if not draft.pop("spatial", 1):
        raise draft.refuse("spatial=0", "spatial=1: one mean and variance for each channel")
    del draft.outputs[1:]


def mask_like_input(draft: NodeDraft) -> None:
    """Before op set 10 the mask of a Dropout has the data type of its input."""
    if any(draft.outputs[1:]):
        draft.behind("CastLike", lambda mask: [mask, draft.inputs[0]], 1)


def coerced_type(draft: NodeDraft) -> None:
    """Before op set 6 the data type is a word."""
    word = draft.pop("to", b"")
    name = word.decode() if type(word) is bytes else str(word)
    if name not in TensorProto.DataType.keys():  # noqa: SIM118 - no mapping
        raise draft.refuse(f"data type {name!r}", "the name of a data type")
    draft.set(to=int(TensorProto.DataType.Value(name)))


def number_of_outputs(draft: NodeDraft) -> None:
    """Before op set 18 the number of equal parts is that of the outputs."""
    if len(draft.inputs) < 2 or not draft.inputs[1]:
        draft.set(num_outputs=len(draft.outputs))


def repeats(draft: NodeDraft) -> None:
    """Before op set 6 a Tile repeats one axis."""
    rank = draft.facts.rank_of(0)
    tiles, axis = draft.facts.contents_of(1), draft.facts.contents_of(2)
    if rank is None or tiles is None or axis is None:
        raise NotLowered("unknown tiles, axis or rank")
    every = np.ones(rank, np.int64)
    every[int(axis.reshape(-1)[0])] = int(tiles.reshape(-1)[0])
    draft.inputs[1:] = [draft.constant(every)]


def int_power(draft: NodeDraft) -> None:
    """Before op set 2 the power is a float."""
    if "p" in draft.attrs:
        power = draft.pop("p")
        if power != int(power):
            raise draft.refuse(f"p={power}", "a whole number")
        draft.set(p=int(power))


def upsample_scales(draft: NodeDraft) -> None:
    """Before op set 7 an Upsample has two scales, and the older name of the linear mode."""
    height, width = draft.pop("height_scale", 1.0), draft.pop("width_scale", 1.0)
    attr = attribute("scales", 0)
    attr.Clear()
    attr.name, attr.type = "scales", attr.FLOATS
    attr.floats.extend([1.0, 1.0, height, width])
    draft.attrs["scales"] = attr


def as_resize(draft: NodeDraft) -> None:
    """From op set 10 on an Upsample is a Resize."""
    draft.kind = "Resize"


def resized_by_scales(draft: NodeDraft) -> None:
    """A Resize of op set 10 takes source pixels from the upper left, and the next one if it makes the image smaller."""
    mode = draft.get("mode", b"nearest")
    mode = mode.decode() if type(mode) is bytes else mode
    mode = "linear" if mode == "bilinear" else mode
    src, scales = draft.inputs
    draft.set(mode=mode, coordinate_transformation_mode="asymmetric")
    draft.inputs = [src, "", scales]
    if mode != "nearest":
        return
    draft.set(nearest_mode="floor")
    known = draft.known[scales] if scales in draft.known else draft.facts.contents_of(1)
    if draft.proto.op_type == "Upsample" or (known is not None and (known >= 1).all()):
        return
    if known is None:
        raise NotLowered("nearest neighbours by unknown scales")
    larger, smaller = (draft.constant(limit(known, 1).astype(np.float32)) for limit in (np.maximum, np.minimum))
    if (known > 1).any():
        attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        draft.inputs[0] = draft.add("Resize", [src, "", larger], **attrs)
    draft.inputs[2] = smaller
    draft.set(nearest_mode="ceil")


def scatter_elements(draft: NodeDraft) -> None:
    """From op set 11 on a Scatter is a ScatterElements."""
    draft.kind = "ScatterElements"


def flattened(draft: NodeDraft) -> None:
    """Before op set 13 a Softmax counts all axes from ``axis`` on as one."""
    axis, rank = draft.get("axis", 1), draft.facts.rank_of(0)
    draft.set(axis=-1)
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        return
    src = draft.inputs[0]
    draft.put(0, draft.add("Flatten", [src], axis=axis))
    shape = draft.add("Shape", [src])
    draft.behind("Reshape", lambda flat: [flat, shape], allowzero=1)


def dft_axis(draft: NodeDraft) -> None:
    """Before op set 20 the axis of a DFT is an attribute, 1 by default."""
    draft.put(2, draft.constant(np.array(draft.pop("axis", 1), np.int64)))


def per_channel(draft: NodeDraft) -> None:
    """Before op set 21 a GroupNormalization has a scale and a bias for each group."""
    groups = int(draft.get("num_groups", 1))
    count = draft.constant(np.array([groups]))
    channels = draft.add("Shape", [draft.inputs[0]], start=1, end=2)
    shape = draft.add("Concat", [count, draft.add("Div", [channels, count])], axis=0)
    for place in (1, 2):
        column = draft.add("Unsqueeze", [draft.inputs[place], draft.constant(np.array([1]))])
        whole = draft.add("Expand", [column, shape])
        draft.put(place, draft.add("Reshape", [whole, draft.constant(np.array([-1]))]))
