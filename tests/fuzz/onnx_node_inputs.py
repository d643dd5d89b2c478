"""Random ONNX nodes as inputs: the JSON of a model, its arrays and how far results may be off.

ONNX Runtime says what is right.
"""

from __future__ import annotations

import base64
import json
import random

import numpy as np


def replay(data: bytes) -> str:
    """What differs from ONNX Runtime; empty if nothing does, or if one of the two refuses the model."""
    from onnx import ModelProto

    from ..helpers.onnx_compare import by_runtime, outcome

    told = json.loads(data)
    model = ModelProto.FromString(base64.b64decode(told["model"]))
    feeds = {
        name: np.frombuffer(base64.b64decode(contents), dtype).reshape(shape)
        for name, (dtype, shape, contents) in told["feeds"].items()
    }
    wanted = by_runtime(model, feeds)
    text = "" if wanted is None else outcome(model, feeds, wanted, loose=told["loose"], scale=told["scale"])
    return "" if text.startswith("refused") else text


def changed(population: list[bytes], seed: int) -> bytes:
    """A new node: a change of one is tried by the kind ``onnx``."""
    from .onnx_nodes import program

    rng = random.Random(seed)
    while True:
        found = program(rng.randrange(10**9))
        if found is None:
            continue
        text, case, model, feeds, _ = found
        arrays = {name: np.ascontiguousarray(one) for name, one in feeds.items()}
        is_scan = "Scan" in text and model.opset_import[0].version < 9
        if is_scan or any(one.dtype.kind not in "biufc" for one in arrays.values()):
            continue
        told = {
            "model": base64.b64encode(model.SerializeToString()).decode(),
            "feeds": {
                name: [str(one.dtype), np.shape(feeds[name]), base64.b64encode(one.tobytes()).decode()]
                for name, one in arrays.items()
            },
            "loose": case.loose,
            "scale": case.scale,
        }
        return json.dumps(told).encode()
