"""Moves codes of 8 bits in place of the numbers that they stand for, in front of products.

The library fuses a Dequantize with the product that reads it, and not across a transpose or reshape between them. The
same move of the codes is a view too, and the Dequantize behind it stands beside the product.
"""

from __future__ import annotations

from ...faults.use import DEQUANTIZATIONS, PRODUCTS, VIEWS
from ...opset.dtypes import DataType
from ..codings import CODES, coding
from ..ir.edit import Edit
from ..ir.step import Step
from ..options import Options


def move_codes(edit: Edit, _: Options) -> None:
    """Put each move of dequantized codes that only products read in front of the Dequantize."""
    if any(step.kind in DEQUANTIZATIONS for step in edit.graph.steps):
        _Moves(edit).run()


class _Moves:
    def __init__(self, edit: Edit) -> None:
        self._edit, self._graph = edit, edit.graph
        self._codes: dict[int, tuple[int, Step]] = {}  # by dequantized value, its codes and the Dequantize

    def run(self) -> None:
        """Change the graph; called once."""
        for step in self._graph.steps:
            if step.executor != "library" or len(step.outputs) != 1:
                continue
            source = self._graph.values[step.inputs[0]]
            if source.dtype in CODES and source.constant is None and _has_one_scale(step):
                self._codes[step.outputs[0]] = source.id, step
            elif step.kind in VIEWS and source.id in self._codes and self._feeds_products(step.outputs[0]):
                self._exchange(step)

    def _feeds_products(self, number: int) -> bool:
        """Whether products alone read a value, or moves of it that products alone read."""
        consumers = self._graph.consumers(number)
        return (
            bool(consumers)
            and number not in self._graph.returned
            and self._graph.values[number].dtype is DataType.f32
            and all(
                consumer.executor == "library"
                and (
                    consumer.kind in PRODUCTS or (consumer.kind in VIEWS and self._feeds_products(consumer.outputs[0]))
                )
                for consumer in consumers
            )
        )

    def _exchange(self, move: Step) -> None:
        codes, maker = self._codes[move.inputs[0]]
        target = self._graph.values[move.outputs[0]]
        dtype = self._graph.values[maker.inputs[0]].dtype
        moved = self._edit.values.new(dtype, target.shape, f"{target.name} (codes)")
        first = self._edit.library_step(move, move.kind, (codes,), (moved,), move.attrs, move.note)
        second = self._edit.library_step(
            maker, maker.kind, (moved, *maker.inputs[1:]), move.outputs, maker.attrs, maker.note
        )
        self._edit.replace(move, first, second)
        self._edit.spare([maker, move])
        self._codes[move.outputs[0]] = moved, maker


def _has_one_scale(step: Step) -> bool:
    """Whether a step dequantizes all codes alike; a run may compute the scale and the zero point."""
    is_dynamic = step.kind == "DynamicDequantize" and step.attrs.get("qtype", "per_tensor") == "per_tensor"
    return is_dynamic or (step.kind == "Dequantize" and coding(step) is not None)
