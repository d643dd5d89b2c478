"""Defines the record of a graph file: the contents that a graph itself does not store."""

from __future__ import annotations

from collections.abc import Mapping

from .._util.records import record
from ..errors import Violation

Json = Mapping[str, object]


@record(frozen=True)
class FileOrigin:
    """The file that a graph was loaded from; copies of the graph share it, and it stays valid after ops are added.

    Attributes:
        raw: the contents of the file.
        op_order: for each op of the file its index in ``Graph.ops``.
        tensor_ids: tensor id in the graph -> tensor id in the file, for the tensors that were loaded.
        n_ops: number of ops when the graph was loaded.
        outputs: names of the graph outputs when the graph was loaded.
        notes: one violation for each output shape of the file that differs from the inferred one; the graph has the
            inferred shape.
    """

    raw: Json
    op_order: tuple[int, ...]
    tensor_ids: Mapping[int, int]
    n_ops: int
    outputs: tuple[str, ...]
    notes: tuple[Violation, ...]

    @property
    def fpmath_mode(self) -> str:
        """The floating-point math mode of the file; ``strict`` if the file has none."""
        return str(self.raw.get("fpmath_mode", "strict"))
