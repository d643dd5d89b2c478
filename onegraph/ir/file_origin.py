"""What a graph file said beyond what the graph holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import Violation

Json = Mapping[str, object]


@dataclass(frozen=True)
class FileOrigin:
    """What a file said of a graph beyond what the graph holds; true also of copies and after ops were added.

    Attributes:
        raw: the file.
        op_order: for each op of the file its place in ``Graph.ops``.
        tensor_ids: ids in the file of the first tensors of the graph, by the ids that they have there.
        n_ops, inputs, outputs: the graph as it was when it was loaded.
        notes: shapes that the file has and that are not those that follow, which the graph has.
    """

    raw: Json
    op_order: tuple[int, ...]
    tensor_ids: Mapping[int, int]
    n_ops: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[Violation, ...]

    @property
    def fpmath_mode(self) -> str:
        """The mode that the graph was made for."""
        return str(self.raw.get("fpmath_mode", "strict"))
