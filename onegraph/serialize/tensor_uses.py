"""What the ops of a file say of tensors: completed, and made to agree where several of them use one tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.file_origin import FileOrigin
from ..ir.op import LogicalTensor
from ..opset.shapes import dense_strides
from .document import UNKNOWN

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

Use = dict[str, Any]


class Uses:
    """The uses of tensors in the file that a graph comes from.

    The library takes uses that say different things of one tensor, and writes such graphs; Netron does not read them.
    """

    def __init__(self, graph: DataGraph, origin: FileOrigin | None) -> None:
        self.agreed: dict[int, Use] = {}  # data type, shape and layout, where uses disagree
        if origin is None:
            return
        uses: dict[int, list[Use]] = {}
        for op in origin.raw["graph"]:  # type: ignore[attr-defined]
            for use in (*op.get("inputs", ()), *op.get("outputs", ())):
                uses.setdefault(use["id"], []).append(completed(use))
        for tensor in graph._tensors:
            number = origin.tensor_ids.get(tensor.id)
            if number in uses and any(_type(use) != _type(uses[number][0]) for use in uses[number]):
                self.agreed[number] = _agreed(tensor, number, uses[number])

    def form(self, raw: Use) -> Use:
        """One use as it is written."""
        use = completed(raw)
        agreed = self.agreed.get(use["id"])
        return (
            use if agreed is None or _type(use) == _type(agreed) else {**agreed, "property_type": use["property_type"]}
        )


def tensor_form(tensor: LogicalTensor, number: int) -> Use:
    """A use of a tensor that was in no file."""
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
    """A use with all keys in the order in which they are read, and no others."""
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


def _agreed(tensor: LogicalTensor, number: int, uses: list[Use]) -> Use:
    """What the graph has, laid out as in the first use that says so."""
    form = tensor_form(tensor, number)
    if all(use["dtype"] == "undef" for use in uses):
        form["dtype"] = "undef"
    alike = next((use for use in uses if use["shape"] == form["shape"]), form)
    return {**form, "stride": alike["stride"], "layout_type": alike["layout_type"]}
