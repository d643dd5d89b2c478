"""Records of decisions that no oracle knows, such as measured bounds: files of digests, which a run must meet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np


def digest(parts: Iterable[object]) -> str:
    """A digest of the texts of some parts."""
    return blake2b("\n".join(map(str, parts)).encode(), digest_size=6).hexdigest()


def kept(path: Path) -> Any:
    """What was recorded."""
    return json.loads(path.read_text())


def keep(path: Path, found: object) -> None:
    """Record what was found."""
    path.write_text(json.dumps(found, indent=1) + "\n")


def numbers_of(array: Any) -> str:
    """A text of the numbers of an array, to three digits."""
    numbers = np.asarray(array)
    with np.errstate(all="ignore"):
        texts = [f"{number:.2e}" for number in numbers.astype(np.float64).ravel().tolist()]
    return f"{numbers.dtype} {numbers.shape} {digest(texts)}"


def lines_of(graph: Any) -> Iterator[str]:
    """The ops of a graph, its inputs, which have the first numbers, and its outputs."""
    place = {one.id: number for number, one in enumerate(graph.inputs.values())}
    for op in graph.ops:
        ends = list[str]()
        for tensor in (*op.inputs, *op.outputs):
            if tensor is None:
                ends.append("-")
                continue
            number = place.setdefault(tensor.id, len(place))
            value = "" if tensor.value is None else numbers_of(tensor.value)
            ends.append(f"{number} {tensor.dtype} {tensor.shape} {tensor.strides or ''} {value}")
        yield f"{op.name} {op.kind} {sorted(op.attrs.items())} {'; '.join(ends)}"
    results = list[object]()
    for name, tensor in graph.outputs.items():
        is_computed = tensor.value is not None and tensor.id not in place
        results.append((name, numbers_of(tensor.value) if is_computed else place.get(tensor.id)))
    yield f"{[*graph.inputs]} {results}"
