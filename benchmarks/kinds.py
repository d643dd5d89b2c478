"""Kinds of ops that run in kernels of onegraph, at the sizes of detection models, against ONNX Runtime and PyTorch.

Each row is a node of ONNX. A peer that lacks it has no time. ``KINDS`` names the host ops of each row. ``ELSEWHERE``
has the other host ops, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import onegraph as og

from . import peers
from .timing import QUICK, Chosen, Effort, Row, alternate, calls, every

Array = np.ndarray
TOLERANCE = 1e-3  # the largest difference of two results, relative to the largest number
TINY = 8  # the divisor of sizes in a quick run


@dataclass(frozen=True)
class Kind:
    """One node.

    Attributes:
        hosts: the host ops that it becomes; none if it becomes an op of the library or an OnnxNode.
        node: the kind of the node.
        inputs: arrays, for a function that makes sizes smaller.
        attrs: of the node.
        torch: what computes the same in PyTorch, from tensors of the inputs.
        constants: indices of the inputs that are constants of the model.
        outputs: the number of outputs.
        opset: the op set.
        races: whether threads of ONNX Runtime write the same element at once, so that its results are wrong; it has no
            time on several threads.
    """

    hosts: tuple[str, ...]
    node: str
    inputs: Callable[[Callable[[int], int]], Sequence[Array | None]]
    attrs: dict[str, Any] = field(default_factory=dict)
    torch: Callable[..., Any] | None = None
    constants: tuple[int, ...] = ()
    outputs: int = 1
    opset: int = 22
    races: bool = False


def _floats(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _places(most: int, *shape: int) -> Array:
    return np.random.default_rng(1).integers(0, most, shape)


def _boxes(count: int, size: int) -> Array:
    corners = np.random.default_rng(2).random((count, 2)) * size * 0.8
    return np.concatenate([corners, corners + np.random.default_rng(3).random((count, 2)) * size * 0.2], 1).astype("f")


def _deformable(s: Callable[[int], int]) -> Sequence[Array]:
    offsets = _floats(1, 18, s(50), s(50))
    return _floats(1, s(256), s(50), s(50)), _floats(s(256), s(256), 3, 3) / 48, offsets


def _suppression(classes: int, count: int = 8400) -> Callable[[Callable[[int], int]], Sequence[Array]]:
    def inputs(s: Callable[[int], int]) -> Sequence[Array]:
        scores = np.random.default_rng(4).random((1, classes, s(count))).astype("f")
        limits = np.array([300], np.int64), np.array([0.7], "f"), np.array([0.25 if classes == 1 else 0.9], "f")
        return _boxes(s(count), 640)[None], scores, *limits

    return inputs


def _unpooled(s: Callable[[int], int]) -> Sequence[Array]:
    places = np.arange(64 * s(112) ** 2 * 4, dtype=np.int64).reshape(-1, 4)[:, 1].reshape(1, 64, s(112), s(112))
    return _floats(1, 64, s(112), s(112)), np.ascontiguousarray(places)


def _grid(mode: str, **options: Any) -> Callable[..., Any]:
    def run(src: Any, grid: Any) -> Any:
        import torch

        return torch.nn.functional.grid_sample(src, grid, mode=mode, align_corners=False, **options)

    return run


def _functions() -> Any:
    import torch

    return torch.nn.functional


def _scattered(how: str) -> Callable[..., Any]:
    return lambda src, places, updates: src.scatter_reduce(0, places, updates, how)


def _rows(how: str) -> Callable[..., Any]:
    return lambda src, places, updates: src.index_reduce(0, places[:, 0], updates, how)


REGIONS = {"output_height": 7, "output_width": 7, "spatial_scale": 0.25}
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
KINDS = {
    "DeformConv, 256 channels, 50 x 50": Kind(("DeformColumns",), "DeformConv", _deformable, {"pads": [1] * 4}),
    "RoiAlign, 100 boxes": Kind(
        ("RoiAlign",),
        "RoiAlign",
        lambda s: (_floats(1, s(256), 160, 160), _boxes(s(100), 640), np.zeros(s(100), np.int64)),
        {**REGIONS, "sampling_ratio": 2},
        opset=16,
    ),
    "RoiAlign, 100 boxes, adaptive": Kind(
        ("RoiAlign",),
        "RoiAlign",
        lambda s: (_floats(1, s(256), 160, 160), _boxes(s(100), 640), np.zeros(s(100), np.int64)),
        REGIONS,
        opset=16,
    ),
    "NonMaxSuppression, 100 boxes": Kind(("NonMaxSuppression",), "NonMaxSuppression", _suppression(1, 100)),
    "NonMaxSuppression, 8,400 boxes": Kind(("NonMaxSuppression",), "NonMaxSuppression", _suppression(1)),
    "NonMaxSuppression, 8,400 boxes, 80 classes": Kind(("NonMaxSuppression",), "NonMaxSuppression", _suppression(80)),
    "MaxPool with indices": Kind(
        ("MaxPoolPlaces",),
        "MaxPool",
        lambda s: (_floats(1, 64, s(224), s(224)),),
        POOL,
        lambda x: _functions().max_pool2d(x, 2, 2, return_indices=True),
        outputs=2,
    ),
    "MaxUnpool": Kind(("MaxUnpool",), "MaxUnpool", _unpooled, POOL),
    "CumSum, last axis": Kind(
        ("CumSum",),
        "CumSum",
        lambda s: (_floats(s(512), s(4096)), np.array(1)),
        torch=lambda x, axis: x.cumsum(1),
        constants=(1,),
    ),
    "CumSum, first axis": Kind(
        ("CumSum",),
        "CumSum",
        lambda s: (_floats(s(2048), s(1024)), np.array(0)),
        torch=lambda x, axis: x.cumsum(0),
        constants=(1,),
    ),
    "CumProd": Kind(
        ("CumProd",),
        "CumProd",
        lambda s: (_floats(s(512), s(4096)) / 8 + 1, np.array(1)),
        torch=lambda x, axis: x.cumprod(1),
        constants=(1,),
        opset=26,
    ),
    "GridSample": Kind(
        ("GridSample",),
        "GridSample",
        lambda s: (_floats(1, s(256), s(64), s(64)), _floats(1, s(100), s(100), 2) / 2),
        torch=_grid("bilinear"),
    ),
    "GridSample, cubic": Kind(
        ("GridSample",),
        "GridSample",
        lambda s: (_floats(1, s(64), s(64), s(64)), _floats(1, s(100), s(100), 2) / 2),
        {"mode": "cubic", "padding_mode": "border"},
        _grid("bicubic", padding_mode="border"),
    ),
    "GridSample, volumes": Kind(
        ("GridSample",),
        "GridSample",
        lambda s: (_floats(1, s(32), s(32), s(32), s(32)), _floats(1, s(32), s(32), s(32), 3) / 2),
        torch=_grid("bilinear"),
    ),
    "ScatterElements, add": Kind(
        ("ScatterElements",),
        "ScatterElements",
        lambda s: (_floats(s(20000), 64), _places(s(20000), s(40000), 64), _floats(s(40000), 64)),
        {"axis": 0, "reduction": "add"},
        lambda src, places, updates: src.scatter_add(0, places, updates),
    ),
    "ScatterElements, max": Kind(
        ("ScatterElements",),
        "ScatterElements",
        lambda s: (_floats(s(20000), 64), _places(s(20000), s(40000), 64), _floats(s(40000), 64)),
        {"axis": 0, "reduction": "max"},
        _scattered("amax"),
    ),
    "ScatterND": Kind(
        ("ScatterND",),
        "ScatterND",
        lambda s: (_floats(s(20000), 64), np.arange(s(8000))[:, None] * 2, _floats(s(8000), 64)),
        torch=lambda src, places, updates: src.index_put((places[:, 0],), updates),
    ),
    "ScatterND, add": Kind(
        ("ScatterND",),
        "ScatterND",
        lambda s: (_floats(s(20000), 64), _places(s(20000), s(40000), 1), _floats(s(40000), 64)),
        {"reduction": "add"},
        lambda src, places, updates: src.index_add(0, places[:, 0], updates),
        races=True,
    ),
    "ScatterND, max": Kind(
        ("ScatterND",),
        "ScatterND",
        lambda s: (_floats(s(20000), 64), _places(s(20000), s(40000), 1), _floats(s(40000), 64)),
        {"reduction": "max"},
        _rows("amax"),
        races=True,
    ),
    "TopK, 1,000 of 163,200": Kind(
        ("TopK",),
        "TopK",
        lambda s: (_floats(1, s(163200)), np.array([s(1000)])),
        torch=lambda x, k: x.topk(1000),
        constants=(1,),
        outputs=2,
    ),
    "TopK, 300 of 8,400": Kind(
        ("TopK",),
        "TopK",
        lambda s: (_floats(8, s(8400)), np.array([s(300)])),
        torch=lambda x, k: x.topk(300),
        constants=(1,),
        outputs=2,
    ),
    "Compress": Kind(
        ("Compress",),
        "Compress",
        lambda s: (_floats(s(25200), 85), np.random.default_rng(5).random(s(25200)) < 0.2),
        {"axis": 0},
        lambda x, condition: x[condition],
    ),
    "NonZero": Kind(
        ("NonZero",),
        "NonZero",
        lambda s: (np.random.default_rng(5).random((s(8400), 80)) < 0.05,),
        torch=lambda x: x.nonzero(),
    ),
    "MatMul of float64, 512 x 512": Kind(
        ("MatMul",),
        "MatMul",
        lambda s: (_floats(s(512), s(512), dtype=np.float64), _floats(s(512), s(512), dtype=np.float64)),
        torch=lambda first, second: first @ second,
    ),
    "Softmax of float64": Kind(
        (),
        "Softmax",
        lambda s: (_floats(s(1000), 64, dtype=np.float64),),
        torch=lambda x: x.softmax(-1),
    ),
    "LogSoftmax, rows of 64": Kind(
        (), "LogSoftmax", lambda s: (_floats(s(1000), 64),), torch=lambda x: x.log_softmax(-1)
    ),
    "Unique, 20,000 elements": Kind((), "Unique", lambda s: (_places(s(9000), s(20000)),), torch=lambda x: x.unique()),
    "Trilu, 12 masks of 512 x 512": Kind(
        ("Triangle",), "Trilu", lambda s: (_floats(12, s(512), s(512)),), torch=lambda x: x.triu()
    ),
    "Gather, rows of an embedding": Kind(
        ("Gather",),
        "Gather",
        lambda s: (_floats(s(30522), 768), _places(s(30522), 8, s(512))),
        torch=lambda table, places: _functions().embedding(places, table),
        constants=(0,),
    ),
    "GatherElements": Kind(
        ("GatherElements",),
        "GatherElements",
        lambda s: (_floats(s(8400), 80), _places(s(8400), s(8400), 80)),
        {"axis": 0},
        lambda x, places: x.gather(0, places),
    ),
    "Resize, cubic, 64 x 64 to 160 x 160": Kind(
        ("WeightedGather",),
        "Resize",
        lambda s: (_floats(1, s(64), s(64), s(64)), None, None, np.array([1, s(64), s(160), s(160)])),
        {"mode": "cubic"},
        lambda x, _, __, sizes: _functions().interpolate(x, sizes[2:].tolist(), mode="bicubic"),
        constants=(3,),
    ),
    "GatherND": Kind(
        ("GatherND",),
        "GatherND",
        lambda s: (_floats(s(200), s(200), 64), _places(s(200), s(20000), 2)),
        torch=lambda x, places: x[places[:, 0], places[:, 1]],
    ),
}
OWN_PAGES = "it is part of whole models: the other benchmarks measure these"
ELSEWHERE = {
    **dict.fromkeys(("ArgMax", "ArgMin", "OneHot", "Range"), "a call of numpy"),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "SumTo"), "a call of numpy"),
    **dict.fromkeys(("Attention", "AttentionBackward"), "`attention` measures it"),
    **dict.fromkeys(("PackedMatMul", "PackedGather", "PackedExperts", "Recurrence"), OWN_PAGES),
    **dict.fromkeys(("CachedAttention", "ExtendCache", "LinearAttention", "Rotary"), OWN_PAGES),
    **dict.fromkeys(("DynamicQuantizeLinear", "FakeQuantize"), OWN_PAGES),
    **dict.fromkeys(("If", "Loop"), "its time is that of the ops in its body"),
    **dict.fromkeys(("AllReduceStart", "AllReduceDone"), "it waits for other processes"),
    **dict.fromkeys(
        ("TreeEnsemble", "Classify", "LookUp", "CouplePairs", "CountTuples"),
        "pipelines of scikit-learn have it, not detectors",
    ),
    "OnnxNode": "it runs nodes of other kinds",
}


def rows(quick: bool = False, chosen: Chosen = every) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=9, turn=0.05, limit=2.0)
    for threads in (1,) if quick else (1, 2):
        for name, kind in KINDS.items():
            case = f"{name}, {threads} thread{'s' * (threads > 1)}"
            if chosen(case):
                yield row(case, kind, threads, effort)


def row(case: str, kind: Kind, threads: int, effort: Effort) -> Row:
    """Time the contenders in turns, once their results agree."""
    arrays = [*kind.inputs((lambda size: max(size // TINY, 2)) if effort is QUICK else int)]
    with og.num_threads(threads):
        runs = runs_of(kind, arrays, threads, quick=effort is QUICK)
        expected = runs["onegraph"]()
        for name, run in runs.items():
            agree(f"{case}, {name}", kind, run(), expected)
        timing = alternate({name: calls(run) for name, run in runs.items()}, effort)
    return Row(case, timing.seconds, timing.speed, load=timing.load)


def runs_of(
    kind: Kind, arrays: Sequence[Array | None], threads: int, *, quick: bool = False
) -> dict[str, Callable[[], Any]]:
    """What runs the node in onegraph and in each peer that has it."""
    given = {
        f"x{place}": array for place, array in enumerate(arrays) if place not in kind.constants and array is not None
    }
    text = model_of(kind, arrays)
    model = og.onnx.load(text).compile(threads=threads)
    runs: dict[str, Callable[[], Any]] = {"onegraph": lambda: model(**given)}
    if peers.installed("onnxruntime") and not (kind.races and threads > 1):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        try:
            session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        except Exception:  # it lacks the op, and has many classes of errors
            session = None
        if session is not None:
            runs["ONNX Runtime"] = lambda: session.run(None, given)
    if kind.torch is not None and not quick and peers.installed("torch"):
        import torch

        torch.set_num_threads(threads)
        tensors = [None if array is None else torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        function = kind.torch

        def run() -> Any:
            with torch.no_grad():
                return function(*tensors)

        runs["PyTorch eager"] = run
    return runs


def model_of(kind: Kind, arrays: Sequence[Array | None]) -> bytes:
    """The node as a model; None for an absent input."""
    import onnx
    from onnx import helper, numpy_helper

    names = ["" if array is None else f"x{place}" for place, array in enumerate(arrays)]
    outputs = [f"y{place}" for place in range(kind.outputs)]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for place, (name, array) in enumerate(zip(names, arrays, strict=True))
        if name and place not in kind.constants
    ]
    constants = [numpy_helper.from_array(np.asarray(arrays[place]), names[place]) for place in kind.constants]
    node = helper.make_node(kind.node, names, outputs, **kind.attrs)
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "kind", inputs, ends, constants)
    opsets = [helper.make_opsetid("", kind.opset)]
    inferred = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    text: bytes = inferred.SerializeToString()
    return text


def agree(case: str, kind: Kind, found: Any, expected: Any) -> None:
    """Raise AssertionError if the first results of two contenders differ."""
    first, other = (
        np.asarray(one[0] if isinstance(one, (tuple, list)) else one).astype(np.float64) for one in (found, expected)
    )
    if kind.node == "NonZero" and first.shape != other.shape:
        first = first.T  # PyTorch has a row for each element
    largest = max(np.abs(other).max(initial=0), 1e-9)
    if first.shape != other.shape or np.abs(first - other).max(initial=0) > TOLERANCE * largest:
        raise AssertionError(f"{case}: the results differ")
