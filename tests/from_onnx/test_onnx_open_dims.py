"""Models with unknown dims: the same numbers as with known dims, and no node that runs in the package onnx."""

import numpy as np
import pytest
from helpers.onnx_session import session_of

import onegraph as og

parser = pytest.importorskip("onnx.parser", reason="onnx is not installed")
load = pytest.importorskip("onegraph.onnx").load

pytestmark = pytest.mark.library

IMAGE, ROWS = "2,4,6,5", "3,4,8"
SCALES = "float[4] s = {{1.0, 1.0, {}, {}}}"
# The op set, the shape of x, the nodes that make y, and initializers.
CASES = {
    "softmax over several axes": (11, IMAGE, "y=Softmax<axis=1>(x)", ""),
    "softmax over all but the first axis, by default": (9, ROWS, "y=Softmax(x)", ""),
    "logarithm of a softmax over several axes": (11, IMAGE, "y=LogSoftmax<axis=2>(x)", ""),
    "softmax of an old op set over the last axis": (11, ROWS, "y=Softmax<axis=2>(x)", ""),
    "softmax over one axis": (13, IMAGE, "y=Softmax<axis=1>(x)", ""),
    "nearest neighbours, twice": (
        13,
        IMAGE,
        'y=Resize<mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="floor">(x,,s)',
        SCALES.format(2.0, 2.0),
    ),
    "nearest neighbours by default, three times one axis": (13, IMAGE, "y=Resize(x,,s)", SCALES.format(1.0, 3.0)),
    "linear, twice and three times": (13, IMAGE, 'y=Resize<mode="linear">(x,,s)', SCALES.format(2.0, 3.0)),
    "linear as in PyTorch": (
        13,
        IMAGE,
        'y=Resize<mode="linear",coordinate_transformation_mode="pytorch_half_pixel">(x,,s)',
        SCALES.format(2.0, 2.0),
    ),
    "upsampling of an old op set": (9, IMAGE, 'y=Upsample<mode="nearest">(x,s)', SCALES.format(2.0, 2.0)),
    "upsampling by an attribute": (7, IMAGE, 'y=Upsample<mode="nearest",scales=[1.0,1.0,2.0,2.0]>(x)', ""),
    "layer norm": (
        17,
        ROWS,
        "y=LayerNormalization(x,g,b)",
        "float[8] g = {1,2,3,4,5,6,7,8}, float[8] b = {1,0,2,0,3,0,4,0}",
    ),
    "parts of a computed shape": (
        18,
        ROWS,
        "d=Shape<start=0,end=2>(x) e=Concat<axis=0>(d,k) r=Reshape(x,e) p,q=Split<axis=2,num_outputs=2>(r) y=Sub(p,q)",
        "int64[2] k = {4,2}",
    ),
    "heads of a computed batch": (
        14,
        ROWS,
        "d=Shape(x) b=Slice(d,zero,two) e=Concat<axis=0>(b,k) r=Reshape<allowzero=1>(x,e) "
        "t=Transpose<perm=[0,2,1,3]>(r) y=Add(t,t)",
        "int64[2] k = {-1,4}, int64[1] zero = {0}, int64[1] two = {2}",
    ),
    "heads of a copied batch": (
        14,
        ROWS,
        "r=Reshape(x,k) t=Transpose<perm=[0,2,1,3]>(r) y=Add(t,t)",
        "int64[4] k = {0,0,-1,4}",
    ),
    "a known number as a code": (
        13,
        ROWS,
        "c=Reshape(o,e) q=QuantizeLinear(c,s,z) d=DequantizeLinear(q,s,z) y=Mul(x,d)",
        "float[1] o = {0.4}, int64[0] e = {}, float s = {0.05}, uint8 z = {128}",
    ),
    "padding as wide as the window needs": (13, IMAGE, 'y=MaxPool<kernel_shape=[3,2],auto_pad="SAME_UPPER">(x)', ""),
    "pool of whole images": (13, IMAGE, "a=GlobalAveragePool(x) y=Flatten(a)", ""),
}
# Where the channels stay known.
CHANNELS = {"neighbouring channels": (13, IMAGE, "y=LRN<size=3,alpha=0.5,beta=0.6>(x)", "")}
# What depends on the sizes is lowered for each of them.
ELSEWHERE = {
    "linear, by a broken number": (13, IMAGE, 'y=Resize<mode="linear">(x,,s)', SCALES.format(1.5, 2.0)),
    "linear with aligned corners": (
        13,
        IMAGE,
        'y=Resize<mode="linear",coordinate_transformation_mode="align_corners">(x,,s)',
        SCALES.format(2.0, 2.0),
    ),
    "channels to pixels": (13, IMAGE, "y=DepthToSpace<blocksize=2>(x)", ""),
    "neighbouring channels of unknown number": (13, IMAGE, "y=LRN<size=3,alpha=0.5,beta=0.6>(x)", ""),
    "channels normalized one by one": (
        13,
        IMAGE,
        "y=InstanceNormalization(x,g,b)",
        "float[4] g={1,2,3,4}, float[4] b={0,1,0,2}",
    ),
    "einsum": (13, ROWS, 'y=Einsum<equation="bij,bkj->bik">(x,x)', ""),
    "axes of size 1": (13, "3,1,4", "y=Squeeze(x)", ""),
    "steps of a recurrence": (
        14,
        "5,2,1",
        "y,z=GRU<hidden_size=1>(x,w,r)",
        "float[1,3,1] w={1,2,3}, float[1,3,1] r={0.5,1,0.5}",
    ),
}


def model(case, *, keep=None):
    """The graph of a case; with unknown dims, but for axis ``keep``, unless it is None."""
    opset, shape, body, initializers = case
    names = (f"D{axis}" if axis != keep else dim for axis, dim in enumerate(shape.split(",")))
    dims = shape if keep is None else ",".join(names)
    text = (
        f'<ir_version: 9, opset_import: ["" : {opset}]> g (float[{dims}] x) => (float y) <{initializers}> {{ {body} }}'
    )
    return load(parser.parse_model(text))


def run(graph, x):
    return graph.compile()(x)


@pytest.mark.parametrize("name", [*CASES, *CHANNELS, *ELSEWHERE])
def test_numbers_are_those_of_known_dims(name):
    case = {**CASES, **CHANNELS, **ELSEWHERE}[name]
    opened = model(case, keep=1 if name in CHANNELS else -1)
    x = np.random.default_rng(0).standard_normal([int(dim) for dim in case[1].split(",")]).astype(np.float32)
    np.testing.assert_allclose(run(opened, x), run(model(case), x), rtol=1e-5, atol=1e-6)
    assert ("OnnxNode" in [op.kind for op in opened.ops]) == (name in ELSEWHERE)
    assert "OnnxNode" not in [op.kind for op in opened.specialise({"x": x.shape}).ops]


@pytest.mark.parametrize(("axis", "axes"), [(1, (1, 2, 3)), (2, (2, 3))])
def test_old_softmax_is_over_all_further_axes(axis, axes):
    """The reference of the package onnx takes one axis, as newer op sets do."""
    x = np.random.default_rng(0).standard_normal((2, 4, 6, 5)).astype(np.float32)
    powers = np.exp(x.astype(np.float64))
    found = run(model((11, IMAGE, f"y=Softmax<axis={axis}>(x)", ""), keep=-1), x)
    np.testing.assert_allclose(found, powers / powers.sum(axes, keepdims=True), rtol=1e-5)


def test_enlarged_images_of_several_sizes():
    enlarge = model(CASES["nearest neighbours, twice"], keep=-1).compile()
    for shape in ((1, 3, 1, 1), (2, 3, 7, 2), (1, 1, 64, 33)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(enlarge(x), x.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize("keep", [-1, None], ids=["unknown dims", "known dims"])
@pytest.mark.parametrize("scales", ["2.0,2.0", "1.0,1.0,2.0,2.0,2.0"])
def test_upsampling_of_other_axes_than_those_of_x_is_refused(scales, keep):
    with pytest.raises(og.FormatError, match="Upsample"):
        model((7, IMAGE, f'y=Upsample<mode="nearest",scales=[{scales}]>(x)', ""), keep=keep)


@pytest.mark.parametrize("name", ["parts of a computed shape", "layer norm", "nearest neighbours, twice"])
def test_empty_batch_of_a_model_with_unknown_dims(name):
    run, (_, *others) = model(CASES[name], keep=-1).compile(), map(int, CASES[name][1].split(","))
    whole, empty = (run(np.zeros((count, *others), np.float32)).shape for count in (2, 0))
    assert empty == (0, *whole[1:])


POOL = "AveragePool", "MaxPool", "LpPool"
# Attributes of pools whose windows depend on the dims.
WINDOWS = {
    "a last window that is partly behind": "kernel_shape=[2,2],strides=[2,2],ceil_mode=1",
    "a last window that starts behind": "kernel_shape=[1,1],strides=[3,2],ceil_mode=1",
    "a last window in the padding": "kernel_shape=[3,3],strides=[2,2],pads=[1,1,1,1],ceil_mode=1",
    "windows with gaps": "kernel_shape=[2,2],dilations=[2,2],pads=[1,0,1,0]",
    "windows with gaps, and a last one behind": "kernel_shape=[2,2],dilations=[2,1],strides=[2,2],ceil_mode=1",
    "padding that the window needs": 'kernel_shape=[3,2],strides=[2,2],auto_pad="SAME_LOWER"',
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("kind", [*POOL, "AveragePool of padding"])
def test_pool_of_open_dims_is_that_of_onnx_runtime(kind, name):
    more = ",count_include_pad=1" if kind.endswith("padding") else ""
    text = f"y={kind.split()[0]}<{WINDOWS[name]}{more}>(x)"
    proto = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 19]> g (float[n,c,h,w] x) => (float y) {{ {text} }}'
    )
    pool, session = load(proto).compile(), session_of(proto)
    for shape in ((1, 2, 4, 5), (2, 3, 7, 6), (1, 1, 5, 8)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_allclose(pool(x), wanted, rtol=1e-5, atol=1e-6)


def node_of_open_dims(op_set, inputs, body):
    """The executable of a node whose inputs, with their types, have dims without sizes."""
    text = f'<ir_version: 10, opset_import: ["" : {op_set}]> g ({inputs}) => (float y) {{ {body} }}'
    return load(parser.parse_model(text)).compile()


@pytest.mark.parametrize("name", ["s", "a,b,c,d"])
def test_sizes_of_a_resize_are_an_input(name):
    """Each size of the result is another lowering; the number of sizes need not be known either."""
    resize = node_of_open_dims(18, f"float[{name if ',' in name else 'n,c,h,w'}] x, int64[k] s", "y=Resize(x,,,s)")
    for shape, sizes in (((1, 2, 3, 4), (1, 2, 6, 12)), ((2, 1, 5, 2), (2, 1, 10, 2))):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        wanted = x.repeat(sizes[2] // shape[2], 2).repeat(sizes[3] // shape[3], 3)
        np.testing.assert_array_equal(resize(x=x, s=np.array(sizes)), wanted)


def test_affine_grid_of_open_dims():
    grid = node_of_open_dims(20, "float[n,a,b] t, int64[k] s", "y=AffineGrid(t,s)")
    for height, width in ((2, 3), (4, 5)):
        found = grid(t=np.array([[[1, 0, 0], [0, 2, 1]]], np.float32), s=np.array([1, 1, height, width]))
        rows, columns = ((2 * np.arange(size) + 1) / size - 1 for size in (height, width))
        wanted = np.stack(np.broadcast_arrays(columns, 2 * rows[:, None] + 1), -1)[None]
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op_set", [23, 24])
def test_row_that_masks_hide_wholly_is_zero(op_set):
    """The causal mask and two tokens of padding on the left together hide every key of the first two queries."""
    attention = node_of_open_dims(op_set, "float[b,h,s,d] q, bool[b,o,s,t] m", "y=Attention<is_causal=1>(q,q,q,m)")
    q = np.random.default_rng(0).standard_normal((2, 2, 4, 8)).astype(np.float32)
    mask = np.ones((2, 1, 4, 4), bool)
    mask[0, :, :, :2] = False
    scores = q.astype(np.float64) @ q.swapaxes(-1, -2) / np.sqrt(8)
    powers = np.where(mask & np.tril(np.ones((4, 4), bool)), np.exp(scores), 0)
    total = powers.sum(-1, keepdims=True)
    shares = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    np.testing.assert_allclose(attention(q=q, m=mask), shares @ q, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["ReduceSum", "Flatten", "GlobalAveragePool", "Softmax<axis=1>", "Squeeze"])
def test_rank_may_be_unknown(kind):
    x = np.random.default_rng(0).standard_normal((3, 1, 4)).astype(np.float32)
    functions = {
        "ReduceSum": lambda x: x.sum(keepdims=True),
        "Flatten": lambda x: x.reshape(3, 4),
        "GlobalAveragePool": lambda x: x.mean(2, keepdims=True),
        "Softmax<axis=1>": np.ones_like,
        "Squeeze": lambda x: x[:, 0],
    }
    proto = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 13]> g (float[n] x) => (float y) {{ y={kind}(x) }}'
    )
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    np.testing.assert_allclose(load(proto).compile()(x), functions[kind](x), rtol=1e-6)


@pytest.mark.parametrize(("start", "end", "wanted"), [(-8, 2, []), (-8, -100, [0]), (-7, -100, [0]), (9, 2, [6, 4])])
def test_slice_backwards_from_outside_the_axis(start, end, wanted):
    """ONNX moves a start to the nearest element of the axis."""
    text = f"int64[1] a = {{{start}}}, int64[1] b = {{{end}}}, int64[1] c = {{0}}, int64[1] d = {{-2}}"
    proto = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 13]> g (float[n] x) => (float y) <{text}> {{ y = Slice(x,a,b,c,d) }}'
    )
    np.testing.assert_array_equal(load(proto).compile()(np.arange(7, dtype=np.float32)), wanted)


def test_state_of_open_dims_is_read():
    """The first state and the biases of a recurrence have open dims too."""
    text = "y,h=RNN<hidden_size=1,clip=9.0>(x,w,r,b,,s)"
    inputs = "float[t,n,i] x, float[d,g,i] w, float[d,g,h] r, float[d,k] b, float[d,n,h] s"
    rnn = node_of_open_dims(14, inputs, text)
    x, one = np.array([[[0.5]], [[-1.0]]], np.float32), np.ones((1, 1, 1), np.float32)
    found = rnn(x=x, w=one, r=one, b=np.full((1, 2), 0.25, np.float32), s=one * 2)
    first = np.tanh(0.5 + 0.5 + 2)
    np.testing.assert_allclose(found.ravel(), [first, np.tanh(-1 + 0.5 + first)], rtol=1e-6)


def test_picture_of_the_model_shows_where_each_size_runs():
    """An op that was made for a size has the name of an op of the model and a number."""
    opened = model(ELSEWHERE["linear with aligned corners"], keep=-1)
    run = opened.compile()
    run(np.zeros((2, 4, 6, 5), np.float32))
    report = run.report()
    assert any(name not in {op.name for op in opened.ops} for part in report.partitions for name in part.names)
    picture = og.view.svg(opened, report)
    for part in report.partitions:
        assert f"partition {part.index}" in picture


@pytest.mark.parametrize(("shape", "axis"), [((3, 0), 1), ((2, 0, 3), 1), ((0, 3), 1), ((0,), 0)])
def test_hardmax_along_an_empty_axis_is_empty(shape, axis):
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Hardmax", ["x"], ["y"], axis=axis)], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert og.onnx.load(model).compile()(np.zeros(shape, np.float32)).shape == shape


@pytest.mark.parametrize("count", [1, 3, 2**40])
@pytest.mark.parametrize("shape", [ROWS, "n,n,n"])
def test_a_split_into_more_or_fewer_parts_than_outputs_is_refused(count, shape):
    text = f'<ir_version: 10, opset_import: ["": 18]> m (float[{shape}] x) => (float[] p, float[] q)'
    proto = parser.parse_model(f"{text} {{ p, q = Split<num_outputs={count}>(x) }}")
    with pytest.raises(og.FormatError, match=f"Split.*num_outputs: {count}; expected 2, the number of outputs"):
        load(proto)
