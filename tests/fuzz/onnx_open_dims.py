"""Compares random ONNX nodes of known dims, of open dims and of unknown rank.

Each model is one node with random attributes, of op set 7 to 24, in f32, f16 or bf16. It is loaded with its dims known,
open, or without a rank, and runs at two sizes. ONNX Runtime computes the node in f32 from the same numbers.
"""

import warnings

import ml_dtypes
import numpy as np

import onegraph as og

from .drawn import Drawn

DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
TOLERANCE = {"f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}
OP_SETS = range(7, 25)


class Draw:
    """Draws one node.

    Attributes:
        rng: the random numbers.
        op_set: the op set of the model.
        shapes: the shape of the first input at the two sizes.
        others: further inputs, each an array, or a function of the shape of the first input that returns one.
        attrs: the attributes.
    """

    def __init__(self, rng, op_set):
        self.rng, self.op_set, self.attrs, self.others = rng, op_set, {}, []
        self.shapes = self.sizes(rng.choice((3, 4)))

    def sizes(self, rank, least=1, most=9):
        """Two shapes of one rank."""
        return [tuple(self.rng.randint(least, most) for _ in range(rank)) for _ in range(2)]

    def image(self, axes=2, least=4, channels=None):
        """Make the first input images; returns their number of channels."""
        count = channels or self.rng.randint(1, 5)
        self.shapes = [
            (self.rng.randint(1, 3), count, *(self.rng.randint(least, 9) for _ in range(axes))) for _ in range(2)
        ]
        return count

    def window(self, axes, *, dilated):
        """Attributes of a window; returns its shape."""
        rng, kernel = self.rng, [self.rng.randint(1, 3) for _ in range(axes)]
        if rng.random() < 0.6:
            self.attrs["strides"] = [rng.randint(1, 3) for _ in range(axes)]
        way = rng.random()
        if way < 0.4:
            self.attrs["pads"] = [rng.randint(0, size - 1) for size in kernel] * 2
        elif way < 0.7:
            self.attrs["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if dilated and way < 0.4 and rng.random() < 0.4:
            self.attrs["dilations"] = [rng.randint(1, 2) for _ in range(axes)]
        return kernel

    def axis(self, rank=None):
        """An axis, counted from either end."""
        rank = rank or len(self.shapes[0])
        return self.rng.randrange(-rank if self.op_set >= 13 else 0, rank)

    def listed(self, name, values, since):
        """Integers that are an attribute before an op set, and an input from it on."""
        if self.op_set >= since:
            self.others.append(np.array(values, np.int64))
        else:
            self.attrs[name] = [*values]


def _pool(draw, kind):
    draw.image(draw.rng.choice((1, 2, 2, 3)))
    dilated = draw.op_set >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[kind]
    axes = len(draw.shapes[0]) - 2
    draw.attrs["kernel_shape"] = draw.window(axes, dilated=dilated)
    if draw.op_set >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[kind]:
        draw.attrs["ceil_mode"] = draw.rng.randint(0, 1) if "auto_pad" not in draw.attrs else 0
    if kind == "AveragePool":
        draw.attrs["count_include_pad"] = draw.rng.randint(0, 1)
    if kind == "LpPool":
        draw.attrs["p"] = draw.rng.randint(1, 3)


def _convolution(draw, kind):
    axes = draw.rng.choice((1, 2, 2))
    groups = draw.rng.choice((1, 1, 2))
    channels = draw.image(axes, channels=groups * draw.rng.randint(1, 3))
    kernel = draw.window(axes, dilated=True)
    draw.attrs["group"] = groups
    outputs = draw.rng.randint(1, 3)
    shape = (outputs * groups, channels // groups) if kind == "Conv" else (channels, outputs)
    draw.others = [_numbers(draw, (*shape, *kernel)), _numbers(draw, (outputs * groups,))]
    strides = draw.attrs.get("strides", [1])
    if kind == "ConvTranspose" and draw.rng.random() < 0.3:
        draw.attrs["output_padding"] = [draw.rng.randrange(step) for step in strides] * (
            axes if len(strides) == 1 else 1
        )


def _numbers(draw, shape):
    return np.random.default_rng(draw.rng.randrange(1 << 16)).uniform(-1, 1, shape).astype(np.float32)


def _resize(draw, kind):
    rng = draw.rng
    draw.op_set = max(draw.op_set, 11)
    draw.image(least=3)
    draw.attrs["mode"] = rng.choice(("nearest", "linear", "cubic"))
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    draw.attrs["coordinate_transformation_mode"] = rng.choice(modes)
    if draw.attrs["mode"] == "nearest":
        draw.attrs["nearest_mode"] = rng.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    empty, by_scale = np.zeros(0, np.float32), rng.random() < 0.5
    scales = np.array([1, 1, *(rng.choice((0.5, 1.5, 2.0, 3.0)) for _ in range(2))], np.float32)
    extent = [rng.randint(2, 12) for _ in range(2)]
    sizes = None if by_scale else lambda shape: np.array([*shape[:2], *extent], np.int64)
    draw.others = [empty, scales if by_scale else empty, *([] if by_scale else [sizes])]


def _pad(draw, kind):
    rank, mode = len(draw.shapes[0]), draw.rng.choice(("constant", "edge", "reflect"))
    draw.shapes = draw.sizes(rank, least=4)
    draw.attrs["mode"] = mode
    pads = [draw.rng.randint(-1 if mode == "constant" else 0, 2) for _ in range(2 * rank)]
    draw.listed("pads", pads, 11)
    if mode == "constant" and draw.op_set >= 11:
        draw.others.append(np.array(0.5, np.float32))


def _slice(draw, kind):
    rank = len(draw.shapes[0])
    axes = draw.rng.sample(range(rank), draw.rng.randint(1, rank))
    starts, ends = ([draw.rng.randint(-12, 12) for _ in axes] for _ in range(2))
    for name, values in (("starts", starts), ("ends", ends), ("axes", axes)):
        draw.listed(name, values, 10)
    if draw.op_set >= 10 and draw.rng.random() < 0.5:
        draw.listed("steps", [draw.rng.choice((-2, -1, 1, 2, 3)) for _ in axes], 10)


def _reshape(draw, kind):
    ways = ([0, -1], [-1], [0, 0, -1], [1, -1], [0, 1, -1], [-1, 1])
    draw.others = [np.array(draw.rng.choice(ways), np.int64)]


def _expand(draw, kind):
    draw.op_set = max(draw.op_set, 8)
    wide, ones = draw.rng.randint(1, 3), draw.rng.random() < 0.5
    draw.others = [lambda shape: np.array([wide, *([1] * len(shape) if ones else shape)], np.int64)]


def _tile(draw, kind):
    draw.others = [np.array([draw.rng.randint(1, 3) for _ in draw.shapes[0]], np.int64)]


def _reduce(draw, kind):
    rank = len(draw.shapes[0])
    draw.attrs["keepdims"] = draw.rng.randint(0, 1)
    if draw.rng.random() < 0.8:
        axes = draw.rng.sample(range(rank), draw.rng.randint(1, rank))
        axes = [axis - rank if draw.op_set >= 11 and draw.rng.random() < 0.5 else axis for axis in axes]
        draw.listed("axes", axes, 13 if kind == "ReduceSum" else 18)


def _softmax(draw, kind):
    draw.attrs["axis"] = draw.axis()


def _flatten(draw, kind):
    draw.attrs["axis"] = draw.rng.randint(0, len(draw.shapes[0]))


def _transpose(draw, kind):
    rank = len(draw.shapes[0])
    draw.attrs["perm"] = draw.rng.sample(range(rank), rank)


def _squeeze(draw, kind):
    draw.shapes = [(shape[0], 1, *shape[1:]) for shape in draw.sizes(2, least=2)]
    if draw.rng.random() < 0.6:
        draw.listed("axes", [1], 13)


def _unsqueeze(draw, kind):
    draw.listed("axes", draw.rng.sample(range(len(draw.shapes[0]) + 2), 2), 13)


def _layer_norm(draw, kind):
    draw.op_set = max(draw.op_set, {"LayerNormalization": 17, "RMSNormalization": 23}[kind])
    axis, shape = draw.rng.randint(1, 2), draw.sizes(3, least=2)[0]
    draw.shapes = [shape, (shape[0] + 1, *shape[1:])]
    draw.attrs["axis"], draw.others = axis - 3 if draw.rng.random() < 0.5 else axis, [_numbers(draw, shape[axis:])]


def _channel_norm(draw, kind):
    groups = draw.rng.choice((1, 2))
    channels = draw.image(draw.rng.choice((1, 2)), channels=groups * draw.rng.randint(1, 3))
    if kind == "GroupNormalization":
        draw.op_set = max(draw.op_set, 21)
        draw.attrs["num_groups"] = groups
    draw.others = [_numbers(draw, (channels,)), _numbers(draw, (channels,))]
    if kind == "BatchNormalization":
        draw.op_set = max(draw.op_set, 9)
        draw.others += [_numbers(draw, (channels,)), np.abs(_numbers(draw, (channels,))) + 0.5]


def _whole_images(draw, kind):
    draw.image(draw.rng.choice((1, 2, 3)))
    if kind == "GlobalLpPool":
        draw.attrs["p"] = draw.rng.randint(1, 3)


def _lrn(draw, kind):
    draw.image()
    draw.attrs |= {"size": draw.rng.choice((1, 3, 5)), "alpha": 0.3, "beta": draw.rng.choice((0.5, 0.75))}


def _lp_norm(draw, kind):
    draw.attrs |= {"axis": draw.axis(), "p": draw.rng.randint(1, 2)}


def _blocks(draw, kind):
    block = draw.rng.randint(1, 3)
    draw.attrs["blocksize"] = block
    if kind == "DepthToSpace" and draw.op_set >= 11:
        draw.attrs["mode"] = draw.rng.choice(("DCR", "CRD"))
    whole = draw.sizes(4, most=4)
    scale = (1, block**2, 1, 1) if kind == "DepthToSpace" else (1, 1, block, block)
    draw.shapes = [tuple(one * other for one, other in zip(shape, scale, strict=True)) for shape in whole]


def _top_k(draw, kind):
    draw.op_set = max(draw.op_set, 11)
    draw.attrs |= {"axis": draw.axis(), "largest": draw.rng.randint(0, 1)}
    draw.others = [np.array([1], np.int64)]


def _extreme(draw, kind):
    draw.attrs |= {"axis": draw.axis(), "keepdims": draw.rng.randint(0, 1)}


def _cum_sum(draw, kind):
    draw.op_set = max(draw.op_set, 14)
    draw.attrs |= {"exclusive": draw.rng.randint(0, 1), "reverse": draw.rng.randint(0, 1)}
    draw.others = [np.array(draw.axis(), np.int64)]


def _einsum(draw, kind):
    draw.op_set = max(draw.op_set, 12)
    draw.shapes = draw.sizes(3)
    draw.attrs["equation"] = draw.rng.choice(("abc->cab", "abc->ac", "abc->", "a...->...a", "abc"))


def _product(draw, kind):
    draw.op_set, depth = max(draw.op_set, 9), draw.rng.randint(1, 5)
    draw.shapes = [(*shape, depth) for shape in draw.sizes(draw.rng.randint(1, 3))]
    draw.others = [_numbers(draw, (depth, 3))]


def _crop(draw, kind):
    draw.op_set = max(draw.op_set, 18)
    draw.attrs["axes"] = [1, 2]
    draw.others = [np.array([draw.rng.randint(1, 9), draw.rng.randint(1, 9)], np.int64)]


def _triangle(draw, kind):
    draw.op_set = max(draw.op_set, 14)
    draw.attrs["upper"] = draw.rng.randint(0, 1)
    draw.others = [np.array(draw.rng.randint(-2, 2), np.int64)]


def _attention(draw, kind):
    draw.op_set = max(draw.op_set, 23)
    draw.shapes = [(shape[0], 2, shape[1], 4) for shape in draw.sizes(2)]
    draw.attrs["is_causal"] = draw.rng.randint(0, 1)
    values = _numbers(draw, (1, 1, 9, 9))
    draw.others = [lambda shape: np.ones(shape, np.float32), lambda shape: np.resize(values, shape)]
    if draw.rng.random() < 0.5:
        draw.others.append(lambda shape: values[0, 0, : shape[2], : shape[2]].copy())


KINDS = {
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceSumSquare"), _reduce),
    **dict.fromkeys(("ReduceLogSumExp", "ReduceProd", "ReduceMin"), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_norm),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization", "BatchNormalization"), _channel_norm),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _whole_images),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    **dict.fromkeys(("ArgMax", "ArgMin"), _extreme),
    "Attention": _attention,
    "CenterCropPad": _crop,
    "CumSum": _cum_sum,
    "Einsum": _einsum,
    "Expand": _expand,
    "Flatten": _flatten,
    "LRN": _lrn,
    "LpNormalization": _lp_norm,
    "MatMul": _product,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _unsqueeze,
}


def drawn(rng):
    """Kind, data type, draw, and the seed of the first input."""
    kind, name = rng.choice(sorted(KINDS)), rng.choice(("f32", "f32", "f16", "bf16"))
    draw = Draw(rng, rng.choice(OP_SETS))
    KINDS[kind](draw, kind)
    return kind, name, draw, rng.randrange(1 << 16)


def feeds(draw, seed, size, name):
    """The inputs of a node at one of the two sizes, in a data type; floats are rounded to it."""
    shape, numbers = draw.shapes[size], np.random.default_rng(seed)
    found = [numbers.standard_normal(shape).astype(np.float32)]
    found += [other(shape) if callable(other) else other for other in draw.others]
    return [one.astype(DTYPES[name]) if one.dtype == np.float32 else one for one in found]


def model(kind, draw, arrays, form, *, inputs):
    """The node as a model whose first inputs are those of the graph, and whose others are constants.

    Args:
        kind, draw: the node.
        arrays: its inputs.
        form: ``known``, ``open`` or ``unranked``.
        inputs: how many are inputs of the graph.
    """
    from onnx import helper, numpy_helper

    names, infos = [f"x{place}" for place in range(len(arrays))], []
    for place, array in enumerate(arrays[:inputs]):
        dims = [*array.shape] if form == "known" else None
        dims = [f"d{place}_{axis}" for axis in range(array.ndim)] if form == "open" else dims
        infos.append(helper.make_tensor_value_info(names[place], helper.np_dtype_to_tensor_dtype(array.dtype), dims))
    results = ["y", "z"] if kind == "TopK" else ["y"]
    node = helper.make_node(kind, names, results, **draw.attrs)
    ends = [helper.make_empty_tensor_value_info(one) for one in results]
    constants = [numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)][inputs:]
    graph = helper.make_graph([node], "g", infos, ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", draw.op_set)], ir_version=10)


def by_onnx_runtime(kind, draw, arrays):
    """The first result of ONNX Runtime in f32; None if it does not run the node, or another way than ONNX says.

    Its aligned corners of a resize by a broken scale lie elsewhere than those of the reference of the package onnx, and
    its transposed convolutions with SAME padding are shorter than input times stride where a window is shorter.
    """
    if kind == "ConvTranspose" and draw.attrs.get("auto_pad", "VALID") != "VALID":
        return None
    if draw.attrs.get("coordinate_transformation_mode") == "align_corners":
        return None
    try:
        import onnxruntime
    except ImportError:
        return None
    wide = [one.astype(np.float32) if one.dtype in DTYPES.values() else one for one in arrays]
    proto = model(kind, draw, wide, "known", inputs=len(wide))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # the threads of a pool would spin
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {one.name: array for one, array in zip(proto.graph.input, wide, strict=True)})[0]
    except Exception:
        return None


def run(proto, arrays):
    """The first result of a compiled model, or the error that refuses it."""
    import onegraph.onnx

    try:
        executable = onegraph.onnx.load(proto).compile()
        return [_first(executable, proto, one) for one in arrays]
    except og.OneGraphError as error:
        return error


def _first(executable, proto, arrays):
    names = [one.name for one in proto.graph.input]
    found = executable(**dict(zip(names, arrays, strict=False)))
    return found[0] if isinstance(found, tuple) else found


def difference(found, wanted, name):
    """How two arrays differ; empty if they agree."""
    if found.shape != wanted.shape:
        return f"shape {found.shape} for {wanted.shape}"
    limit = TOLERANCE[name]
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-3)
    with np.errstate(invalid="ignore"):
        close = np.isclose(found, wanted, rtol=limit, atol=limit * scale, equal_nan=True)
    return (
        "" if close.all() else f"{np.sum(~close)} of {close.size} elements, by {np.nanmax(np.abs(found - wanted)):.3g}"
    )


def findings(program):
    """What is wrong with a node, as texts."""
    kind, name, draw, seed = program
    sides = [feeds(draw, seed, size, name) for size in range(2)]
    fixed = not any(map(callable, draw.others))
    inputs = 1 if fixed else len(sides[0])
    oracle = [by_onnx_runtime(kind, draw, one) for one in sides]
    known = [run(model(kind, draw, one, "known", inputs=inputs), [one]) for one in sides]
    known = [one if isinstance(one, og.OneGraphError) else one[0] for one in known]
    where = f"{kind}-{draw.op_set} {name} {draw.attrs} {[one.shape for side in sides for one in side]}"
    for have, want in zip(known, oracle, strict=True):
        if want is None or 0 in want.shape:  # no window fits
            continue
        if isinstance(have, og.OneGraphError):
            yield f"{where}: refused, but ONNX Runtime runs it: {have}"
        elif kind not in ("ArgMax", "ArgMin") and (text := difference(have, want, name)):
            yield f"{where}: known dims: {text}"
    for form in ("open", "unranked"):
        proto = model(kind, draw, sides[0], form, inputs=inputs)
        pairs = [
            (side, want) for side, want in zip(sides, known, strict=True) if not isinstance(want, og.OneGraphError)
        ]
        found = run(proto, [side for side, _ in pairs]) if pairs else []
        if isinstance(found, og.OneGraphError):
            yield f"{where}: {form} dims: {found}"
            continue
        for have, (_, want) in zip(found, pairs, strict=True):
            if text := difference(have, want, name):
                yield f"{where}: {form} dims: {text}"


def problem(program):
    """What is wrong with a node; empty if nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return "\n".join(findings(program))


DRAWN = {"dims": Drawn(drawn, problem)}
