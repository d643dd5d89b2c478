"""Random ONNX nodes against ONNX Runtime.

A program is a node of a random kind and op set with random attributes, data types and sizes: alone, with open dims, or
in a branch, a loop or a scan whose course is known in a run alone. A finding is another number, another shape, or an
error of a run; a model that is refused when it is loaded is counted.
"""

from __future__ import annotations

import base64
import collections
import os
import time
import traceback

import numpy as np

from .choices import Numbers
from .drawn import Drawn

FORMS = ("plain", "plain", "open", "If", "Loop", "Scan")
OLDEST, NEWEST = 7, 24


def kinds_of(opset):
    """The kinds with cases that an op set has."""
    import onnx

    from ..helpers.onnx_nodes import CASES

    found = []
    for kind in sorted(CASES):
        if onnx.defs.has(kind, opset, "") and not onnx.defs.get_schema(kind, opset).deprecated:
            found.append(kind)
    return found


def program(rng):
    """The description of a program, its model and inputs, and what it computes; None if ONNX Runtime has no kernel.

    ``rng`` is a generator of numpy, or choices that look like one.
    """
    from ..helpers.onnx_compare import by_runtime
    from ..helpers.onnx_nodes import CASES, Draw, model_of

    opset = int(rng.integers(OLDEST, NEWEST + 1))
    kinds = kinds_of(opset)
    kind = kinds[int(rng.integers(len(kinds)))]
    form = FORMS[int(rng.integers(len(FORMS)))]
    case = CASES[kind](Draw(rng, kind, opset))
    model, feeds = model_of(case, opset)
    wanted = by_runtime(model, feeds)
    if wanted is None:
        return None
    shapes = {name: (str(one.dtype), one.shape) for name, one in feeds.items()}
    text = f"{kind}, op set {opset}, {form}, {case.attrs}, {shapes}, known {case.known}"
    if form == "open":
        model, _ = model_of(case, opset, is_open=True)
    elif form != "plain":
        model, feeds, wanted = in_body(form, model, feeds, [np.asarray(one) for one in wanted], rng)
    return text, case, model, feeds, wanted


def in_body(form, model, feeds, wanted, rng):
    """The model whose node is in a branch, a loop or a scan, with its inputs and results."""
    from onnx import TensorProto, helper

    nodes = [*model.graph.node]
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), None)
        for name, one in zip(nodes[0].output, wanted, strict=True)
    ]
    flag, number = TensorProto.BOOL, TensorProto.INT64
    results = [f"z{place}" for place in range(len(ends))]
    count = int(rng.integers(1, 4))
    if form == "If":
        graphs = {}
        for name in ("then_branch", "else_branch"):
            copies = [type(one).FromString(one.SerializeToString()) for one in nodes]
            graphs[name] = helper.make_graph(copies, name, [], ends)
        outer = helper.make_node("If", ["flag"], results, **graphs)
        extra = [helper.make_tensor_value_info("flag", flag, [])]
        feeds = {**feeds, "flag": np.array(rng.random() < 0.5)}
    elif form == "Loop":
        nodes = [
            *nodes,
            helper.make_node("Identity", ["going"], ["going_on"]),
            helper.make_node("Add", ["state", "state"], ["next"]),
        ]
        inputs = [helper.make_tensor_value_info(*one, []) for one in (("i", number), ("going", flag), ("state", 1))]
        outputs = [helper.make_tensor_value_info(*one, []) for one in (("going_on", flag), ("next", 1))]
        body = helper.make_graph(nodes, "body", inputs, [*outputs, *ends])
        outer = helper.make_node("Loop", ["trips", "", "first_state"], ["last", *results], body=body)
        extra = [
            helper.make_tensor_value_info("trips", number, []),
            helper.make_tensor_value_info("first_state", 1, []),
        ]
        feeds = {**feeds, "trips": np.array(count), "first_state": np.float32(1.5)}
        results, wanted = ["last", *results], [np.float32(1.5 * 2**count), *[np.stack([one] * count) for one in wanted]]
    else:
        nodes = [*nodes, helper.make_node("Add", ["state", "part"], ["next"])]
        inputs = [helper.make_tensor_value_info(name, 1, []) for name in ("state", "part")]
        body = helper.make_graph(nodes, "body", inputs, [helper.make_tensor_value_info("next", 1, []), *ends])
        outer = helper.make_node("Scan", ["first_state", "parts"], ["last", *results], body=body, num_scan_inputs=1)
        extra = [helper.make_tensor_value_info("first_state", 1, []), helper.make_tensor_value_info("parts", 1, ["n"])]
        parts = rng.integers(-9, 9, count).astype(np.float32)
        feeds = {**feeds, "parts": parts, "first_state": np.float32(1)}
        results, wanted = (
            ["last", *results],
            [parts.sum() + np.float32(1), *[np.stack([one] * count) for one in wanted]],
        )
    made = type(model).FromString(model.SerializeToString())
    del made.graph.node[:]
    made.graph.node.append(outer)
    made.graph.input.extend(extra)
    del made.graph.output[:]
    made.graph.output.extend(type(ends[0])(name=name) for name in results)
    return made, feeds, wanted


def draw(rng):
    """A program as JSON tells it: a model, its inputs and how far results may be off; None if there is no oracle."""
    found = program(Numbers(rng))
    if found is None:
        return None
    text, case, model, feeds, _ = found
    arrays = {name: np.ascontiguousarray(one) for name, one in feeds.items()}
    is_scan = "Scan" in text and model.opset_import[0].version < 9
    if is_scan or any(one.dtype.kind not in "biufc" for one in arrays.values()):
        return None
    return {
        "model": base64.b64encode(model.SerializeToString()).decode(),
        "feeds": {
            name: [str(one.dtype), [*np.shape(feeds[name])], base64.b64encode(one.tobytes()).decode()]
            for name, one in arrays.items()
        },
        "loose": case.loose,
        "scale": case.scale,
        "text": text,
    }


def parts(told):
    """The model and the inputs of a program."""
    from onnx import ModelProto

    feeds = {
        name: np.frombuffer(base64.b64decode(contents), dtype).reshape(shape)
        for name, (dtype, shape, contents) in told["feeds"].items()
    }
    return ModelProto.FromString(base64.b64decode(told["model"])), feeds


def problem(told):
    """What differs from ONNX Runtime; empty if nothing does, or if one of the two refuses the model."""
    from ..helpers.onnx_compare import by_runtime, outcome

    model, feeds = parts(told)
    wanted = by_runtime(model, feeds)
    text = "" if wanted is None else outcome(model, feeds, wanted, loose=told["loose"], scale=told["scale"])
    return "" if text.startswith("refused") else text


def printed(told):
    """A program as a person reads it."""
    import onnx

    model, feeds = parts(told)
    return f"{told.get('text', '')}\n{onnx.printer.to_text(model)}\n{feeds}"


DRAWN = {"nodes": Drawn(draw, problem, told=lambda told: told, printed=printed)}


def finding(seed):
    """What is wrong with a program, "" if nothing is; the second result counts it."""
    from ..helpers.onnx_compare import outcome

    try:
        found = program(np.random.default_rng(seed))
        if found is None:
            return "", "without an oracle"
        text, case, model, feeds, wanted = found
        if "Scan" in text and model.opset_import[0].version < 9:
            return "", "without an oracle"
        result = outcome(model, feeds, wanted, loose=case.loose, scale=case.scale)
    except Exception:
        return traceback.format_exc(), "broken"
    if not result:
        return "", "right"
    if result.startswith("refused"):
        return f"{text}: {result}", "refused"
    return f"{text}: {result}", "wrong"


def search(first, count, seconds=float("inf")):
    """Try the programs of the seeds; yields (seed, text) of findings, and returns the counts."""
    end, counts = time.monotonic() + seconds, collections.Counter()
    for seed in range(first, first + count):
        if time.monotonic() > end:
            break
        text, what = finding(seed)
        counts[what] += 1
        if what in ("wrong", "broken") or (what == "refused" and os.environ.get("ONEGRAPH_SHOW_REFUSED")):
            yield seed, text
    yield None, ", ".join(f"{what}: {number}" for what, number in sorted(counts.items()))
