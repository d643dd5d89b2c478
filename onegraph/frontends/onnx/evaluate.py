"""Runs the model of an OnnxNode on arrays: the importer lowers its nodes, and each value is known."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from functools import lru_cache

from ...errors import FormatError, OutOfMemoryError
from ...lowering.emitter import Array
from .importer import evaluated
from .protos import ModelProto


@lru_cache(maxsize=256)
def _model(text: str) -> ModelProto:
    model = ModelProto()
    model.ParseFromString(b64decode(text))
    return model


def run_node(text: str, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs of the model of an OnnxNode, which is serialized in base64.

    Raises:
        ValueError: the nodes cannot be computed; the text has the reason.
    """
    try:
        model = _model(text)
        return tuple(evaluated(model, dict(zip([one.name for one in model.graph.input], arrays, strict=True))))
    except (MemoryError, OutOfMemoryError):
        raise MemoryError from None
    except Exception as error:
        raise ValueError(
            str(error) if isinstance(error, FormatError) else f"{type(error).__name__}: {error}"
        ) from error
