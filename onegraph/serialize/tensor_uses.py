"""Completes the tensor records of a file, and makes all uses of one tensor agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.file_origin import FileOrigin
from ..ir.op import LogicalTensor
from ..opset.shapes import compatible, dense_strides
from .document import UNKNOWN

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

Use = dict[str, Any]


class FileUses:
    """The uses of tensors in the file that a graph was loaded from.

    The library reads and writes graphs in which uses of one tensor differ; Netron does not read them.
    """

    def __init__(self, graph: DataGraph, origin: FileOrigin | None) -> None:
        self.agreed: dict[int, Use] = {}  # tensor id -> data type, shape and layout to write, where uses differ
        if origin is None:
            return
        uses: dict[int, list[Use]] = {}
        for op in origin.raw["graph"]:  # type: ignore[attr-defined]
            for use in (*op.get("inputs", ()), *op.get("outputs", ())):
                uses.setdefault(use["id"], []).append(completed(use))
        for tensor in graph._tensors:
            number = origin.tensor_ids.get(tensor.id)
            if number in uses and any(
                _type(use) != _type(uses[number][0]) or not _fits(use["shape"], tensor) for use in uses[number]
            ):
                self.agreed[number] = _agreed(tensor, number, uses[number])

    def form(self, raw: Use) -> Use:
        """The record to write for one use in the file."""
        use = completed(raw)
        agreed = self.agreed.get(use["id"])
        return (
            use if agreed is None or _type(use) == _type(agreed) else {**agreed, "property_type": use["property_type"]}
        )


def tensor_form(tensor: LogicalTensor, number: int) -> Use:
    """The record to write for a tensor that was not in the file."""
    shape = tensor.shape
    dims = [UNKNOWN] if shape is None else [UNKNOWN if dim is None else dim for dim in shape]
    known = UNKNOWN not in dims
    return {
        "id": number,
        "dtype": str(tensor.dtype),
        "shape": dims,
        "stride": list(tensor.strides or dense_strides(dims)) if known else [UNKNOWN] * len(dims),
        "layout_type": "strided" if known else "undef",
        "property_type": "constant" if tensor.constant else "undef",
    }


def completed(raw: Mapping[str, Any]) -> Use:
    """A use with exactly the keys that readers know, in the order in which they read them."""
    shape = raw.get("shape", [UNKNOWN])
    stride = raw.get("stride", [UNKNOWN] * len(shape) if UNKNOWN in shape else list(dense_strides(shape)))
    return {
        "id": raw["id"],
        "dtype": raw["dtype"],
        "shape": shape,
        "stride": stride,
        "layout_type": raw.get("layout_type", "undef" if UNKNOWN in stride else "strided"),
        "property_type": raw.get("property_type", "undef"),
    }


def _type(use: Use) -> tuple[object, object]:
    return use["dtype"], use["shape"]


def _fits(dims: list[int], tensor: LogicalTensor) -> bool:
    """Whether the dims of a use, some of which may be unknown, can be those of the tensor."""
    return dims == [UNKNOWN] or compatible(tuple(None if dim == UNKNOWN else dim for dim in dims), tensor.shape)


def _agreed(tensor: LogicalTensor, number: int, uses: list[Use]) -> Use:
    """Data type and shape of the graph's tensor, with the layout of the first use that has this shape."""
    form = tensor_form(tensor, number)
    if all(use["dtype"] == "undef" for use in uses):
        form["dtype"] = "undef"
    alike = next((use for use in uses if use["shape"] == form["shape"]), form)
    return {**form, "stride": alike["stride"], "layout_type": alike["layout_type"]}
