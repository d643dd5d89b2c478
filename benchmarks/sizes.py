"""Sizes that change: a decoder whose caches grow, and a stream of sentences of random lengths through an encoder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import onegraph as og
import onegraph.onnx

from . import peers
from .decoder import SMALL, Array, Decoder, Sizes
from .timing import QUICK, Effort, Row, alternate, calls

Call = Callable[[dict[str, Array]], Any]
LIMIT = 1e-3  # the largest difference, as a share of the largest number


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort(7, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        yield decoder_row(Path(folder), quick, effort)
        yield encoder_row(Path(folder), quick, effort)


def decoder_row(folder: Path, quick: bool, effort: Effort) -> Row:
    """The time of a generation, whose caches have one token more in each step."""
    decoder = Decoder(SMALL if quick else Sizes(layers=6, width=512, heads=8, inner=1408, words=8192), "f32", 1)
    model, steps = decoder.model(), 4 if quick else 64
    for value in model.graph.input[1:]:
        value.type.tensor_type.shape.dim[2].dim_param = "past"
    given = decoder.inputs()
    names = [*given][1:]

    def generation(call: Call) -> Callable[[], Any]:
        def run() -> Any:
            state = given
            for _ in range(steps):
                found = call(state)
                state = {"x": given["x"], **dict(zip(names, [*found][1:], strict=True))}
            return found[0]

        return run

    runs = {name: generation(call) for name, call in contenders(folder / "decoder.onnx", model).items()}
    case = f"{steps} steps of a decoder from {decoder.sizes.past} tokens on"
    return row(case, runs, effort, {"MB of weights": decoder.bytes / 1e6})


def encoder_row(folder: Path, quick: bool, effort: Effort) -> Row:
    """The time of a stream of sentences."""
    width, layers, count = (32, 1, 3) if quick else (384, 6, 40)
    graph, rng = encoder(width, layers), np.random.default_rng(0)
    lengths = rng.integers(8, 128, count).tolist()
    sentences = [{"x": rng.standard_normal((1, length, width)).astype(np.float32)} for length in lengths]
    path = folder / "encoder.onnx"
    onegraph.onnx.save(graph, path)
    known = {length: graph.specialise({"x": (1, length, width)}).compile() for length in lengths}
    found = {"known lengths": lambda given: (known[given["x"].shape[1]](**given),)}
    found |= contenders(path, onnx.load(path))
    found["onegraph"] = found.pop("onegraph")

    def stream(call: Call) -> Callable[[], Any]:
        return lambda: [call(given)[0] for given in sentences][-1]

    runs = {name: stream(call) for name, call in found.items()}
    return row(f"{count} sentences of 8 to 127 tokens, {layers} layers", runs, effort, {})


def encoder(width: int, layers: int) -> og.Graph:
    """Layers of attention and two products, for sentences of any length."""
    g, rng, heads = og.Graph(), np.random.default_rng(0), width // 16
    x = state = g.input("x", og.f32, (1, None, width))

    def product(source: Any, columns: int) -> Any:
        depth = source.shape[-1]
        weights = rng.standard_normal((depth, columns), np.float32) / np.float32(depth**0.5)
        return g.add(g.matmul(source, g.constant(weights)), g.constant(np.zeros(columns, np.float32)))

    def apart(source: Any) -> Any:
        split = g.static_reshape(source, shape=(0, 0, heads, width // heads), special_zero=True)
        return g.static_transpose(split, order=(0, 2, 1, 3))

    ones, zeros = g.constant(np.ones(width, np.float32)), g.constant(np.zeros(width, np.float32))
    for _ in range(layers):
        query, key, value = (apart(product(state, width)) for _ in range(3))
        scores = g.multiply(g.matmul(query, key, transpose_b=True), g.constant(np.float32(0.25)))
        mixed = g.static_transpose(g.matmul(g.softmax(scores, axis=-1), value), order=(0, 2, 1, 3))
        together = g.static_reshape(mixed, shape=(0, 0, width), special_zero=True)
        state = g.layer_norm(g.add(state, product(together, width)), ones, zeros, keep_stats=False)
        inner = product(g.gelu(product(state, 4 * width)), width)
        state = g.layer_norm(g.add(state, inner), ones, zeros, keep_stats=False)
    g.output("y", state)
    assert x.shape is not None
    return g


def contenders(path: Path, model: onnx.ModelProto) -> dict[str, Call]:
    """The engines: onegraph with programs for all sizes and for the last one alone, and ONNX Runtime."""
    onnx.save(model, path)
    kept, anew = (onegraph.onnx.load(path).compile() for _ in range(2))
    anew.cache_capacity = 1
    one = len(kept.outputs) == 1
    found: dict[str, Call] = {
        "onegraph": lambda given: (kept(**given),) if one else kept(**given),
        "onegraph, each size new": lambda given: (anew(**given),) if one else anew(**given),
    }
    if peers.installed("onnxruntime"):
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        found["ONNX Runtime"] = lambda given: session.run(None, given)
    return found


def row(case: str, runs: dict[str, Callable[[], Any]], effort: Effort, numbers: dict[str, float]) -> Row:
    """The times of runs, whose results agree."""
    results = {name: np.array(run()) for name, run in runs.items()}
    first = next(iter(results.values()))
    for name, found in results.items():
        error = float(np.abs(found - first).max() / np.abs(first).max())
        assert error <= LIMIT, (case, name, error)
    seconds, speed, load = alternate({name: calls(run) for name, run in runs.items()}, effort)
    return Row(case, seconds, speed, numbers, load=load)
