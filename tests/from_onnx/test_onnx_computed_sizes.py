"""Models that compute shapes, positions and masks of the sizes of their inputs: further sizes take the same steps."""

import numpy as np
import pytest
from helpers.onnx_session import session_of

from onegraph.compiler import view_places
from onegraph.native.library import HASHES_CONSTANTS

parser = pytest.importorskip("onnx.parser", reason="onnx is not installed")
numpy_helper = pytest.importorskip("onnx.numpy_helper")
load = pytest.importorskip("onegraph.onnx").load

TOKENS, ROWS, IMAGE = "int64[b,t]", "float[b,t,8]", "float[b,4,h,w]"
NUMBERS = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 s0 = {0}, int64 s1 = {1}"
LENGTH = "n=Shape<start=1,end=2>(x) s=Squeeze(n,zero)"
TABLE = "rows of a table that meet weights"
# The type of x, and the nodes that make y. e is a table of 64 rows of 8 numbers, p has the places 0 to 63 in one row.
MODELS = {
    "slice of the places": (TOKENS, f"{LENGTH} q=Slice(p,zero,n,one) a=Gather(e,x) c=Gather(e,q) y=Add(a,c)"),
    "range as places": (TOKENS, f"{LENGTH} q=Range(s0,s,s1) a=Gather(e,x) c=Gather(e,q) y=Add(a,c)"),
    "outer product of places": (
        TOKENS,
        f"{LENGTH} q=Range(s0,s,s1) f=Cast<to=1>(q) r=Unsqueeze(f,one) a=Mul(r,w) c=Cos(a) d=Gather(e,x) y=Mul(d,c)",
    ),
    "mask of earlier places": (
        ROWS,
        f"{LENGTH} q=Range(s0,s,s1) r=Unsqueeze(q,one) o=Unsqueeze(q,zero) m=LessOrEqual(o,r) "
        "k=Transpose<perm=[0,2,1]>(x) a=MatMul(x,k) l=Where(m,a,low) z=Softmax<axis=-1>(l) y=MatMul(z,x)",
    ),
    "products that letters name": (
        ROWS,
        'a=Einsum<equation="btd,bsd->bts">(x,x) z=Softmax<axis=-1>(a) y=Einsum<equation="bts,bsd->btd">(z,x)',
    ),
    "mask that begins at a computed diagonal": (
        ROWS,
        f"{LENGTH} h=Sub(n,two) k=Squeeze(h,zero) g=Concat<axis=0>(n,n) o=Expand(low,g) m=Trilu<upper=0>(o,k) "
        "y=MatMul(m,x)",
    ),
    "first token of each batch": (
        ROWS,
        "b=Shape<start=0,end=1>(x) g=Concat<axis=0>(b,one,eight) c=Expand(w3,g) a=Concat<axis=1>(c,x) y=Relu(a)",
    ),
    "halves of the tokens": (
        ROWS,
        f"{LENGTH} h=Div(n,two) a=Slice(x,zero,h,one) r=Relu(a) i=Add(h,h) c=Slice(x,h,i,one) y=Sub(r,c)",
    ),
    "as many places as elements": (
        ROWS,
        "i=Size(x) q=Range(s0,i,s1) f=Cast<to=1>(q) d=Shape(x) g=Reshape(f,d) a=Mul(g,low) y=Add(x,a)",
    ),
    "grid of an image": (
        IMAGE,
        "h1=Shape<start=2,end=3>(x) h2=Squeeze(h1,zero) h3=Range(s0,h2,s1) h4=Unsqueeze(h3,one) "
        "w1=Shape<start=3,end=4>(x) w2=Squeeze(w1,zero) w4=Range(s0,w2,s1) m=Mul(h4,w4) f=Cast<to=1>(m) y=Add(x,f)",
    ),
    "image of twice the size": (
        IMAGE,
        'r=Resize<mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="floor">(x,,scales) '
        "a=Relu(r) c=MaxPool<kernel_shape=[2,2],strides=[2,2]>(a) y=Concat<axis=1>(c,x)",
    ),
    "image of the size of another": (
        IMAGE,
        "d=Shape(x) p1=MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) "
        'r=Resize<mode="linear",coordinate_transformation_mode="pytorch_half_pixel">(p1,,,d) y=Add(r,x)',
    ),
    "image of the nearest elements of another": (
        IMAGE,
        "d=Shape(x) p1=MaxPool<kernel_shape=[2,2],strides=[2,2]>(x) p2=Relu(p1) "
        'r=Resize<mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="floor">(p2,,,d) y=Add(r,x)',
    ),
    "image of half the size": (
        IMAGE,
        "k=Concat<axis=1>(x,x,x,x,x,x,x,x) "
        'r=Resize<mode="linear",coordinate_transformation_mode="half_pixel">(k,,halves) a=Relu(r) '
        "y=MaxPool<kernel_shape=[2,2],strides=[1,1]>(a)",
    ),
    "elements at known places": (IMAGE, "e1=GatherElements<axis=2>(x,near) a=Relu(e1) y=Add(a,low)"),
    "image padded to twice its size": (
        IMAGE,
        "d=Shape(x) e1=Mul(d,axes4) e2=Sub(e1,e1) q=Concat<axis=0>(e1,e2) f=Pad(x,q) y=Relu(f)",
    ),
    "image without its edges, whose number is computed": (
        IMAGE,
        "d=Shape(x) e0=Div(d,eights) e1=Mul(e0,axes4) e2=Sub(e1,e1) e3=Sub(e2,e1) q=Concat<axis=0>(e3,e2) "
        "f=Pad(x,q) y=Relu(f)",
    ),
    "image padded to whole strides, as exporters compute it": (
        IMAGE,
        "d=Shape<start=2,end=4>(x) f=Cast<to=1>(d) q=Div(f,twof) u=Ceil(q) m=Mul(u,twof) a0=Sub(m,f) a1=Cast<to=7>(a0) "
        "hs=Slice(a1,zero,one,zero) ws=Slice(a1,one,two,zero) "
        "k=Concat<axis=0>(zero,ws,zero,hs,zero,zero,zero,zero) r=Reshape(k,pairs) t0=Slice(r,minus,far,zero,minus) "
        "t=Transpose<perm=[1,0]>(t0) j=Reshape(t,minus) c=Pad(x,j) y=MaxPool<kernel_shape=[2,2],strides=[2,2]>(c)",
    ),
    "image padded to windows": (
        IMAGE,
        "d=Shape<start=2,end=3>(x) r=Mod(d,two) c=Sub(two,r) e1=Mod(c,two) "
        "k=Concat<axis=0>(zero,zero,zero,zero,zero,zero,e1,zero) f=Pad(x,k) y=Relu(f)",
    ),
    TABLE: (ROWS, f"{LENGTH} q=Slice(e,zero,n,zero) c=MatMul(q,u8) d=MatMul(c,u8) y=Add(x,d)"),
    "blocks of pixels from channels": (IMAGE, "a=Relu(x) y=DepthToSpace<blocksize=2>(a)"),
    "blocks of pixels from channels, channels first": (IMAGE, 'y=DepthToSpace<blocksize=2,mode="CRD">(x)'),
    "channels from blocks of pixels": (
        IMAGE,
        "k=Concat<axis=2>(x,x) j=Concat<axis=3>(k,k) y=SpaceToDepth<blocksize=2>(j)",
    ),
    "products of codes with each other": (
        ROWS,
        "c=QuantizeLinear(x,sc,zp) f=DequantizeLinear(c,sc,zp) k=Transpose<perm=[0,2,1]>(f) a=MatMul(f,k) y=Relu(a)",
    ),
    "mean of all rows": (
        ROWS,
        "k=Concat<axis=1>(x,x,x,x) r=Reshape(k,rows) a=Relu(r) g=ReduceMean<axes=[0],keepdims=1>(a) "
        "c=Concat<axis=0>(g,a) y=Neg(c)",
    ),
    "any number of sequences of stated lengths": (
        ROWS,
        "k=Relu(x) d=Shape<start=0,end=1>(k) b=Shape<start=1,end=2>(k) d2=Cast<to=6>(d) n=Expand(d2,b) "
        "y=GRU<hidden_size=3>(k,gru,gru2,,n)",
    ),
    "mean of an image": (IMAGE, "a=Relu(x) g=GlobalAveragePool(a) f=Flatten(g) y=MatMul(f,v)"),
}
# Forms of Resize for which no Interpolate stands, to the size of another image or by scales.
RESIZED = {
    "corners": 'mode="linear",coordinate_transformation_mode="align_corners"',
    "half pixels": 'mode="linear",coordinate_transformation_mode="half_pixel"',
    "asymmetric": 'mode="linear",coordinate_transformation_mode="asymmetric"',
    "cubic": 'mode="cubic",coordinate_transformation_mode="half_pixel"',
    "cubic between corners": 'mode="cubic",coordinate_transformation_mode="align_corners"',
    "cubic inside": 'mode="cubic",coordinate_transformation_mode="half_pixel",exclude_outside=1,cubic_coeff_a=-0.5',
    "nearest below": 'mode="nearest",coordinate_transformation_mode="half_pixel",nearest_mode="round_prefer_floor"',
    "nearest above": 'mode="nearest",coordinate_transformation_mode="half_pixel",nearest_mode="round_prefer_ceil"',
    "nearest behind": 'mode="nearest",coordinate_transformation_mode="asymmetric",nearest_mode="ceil"',
    "nearest before": 'mode="nearest",coordinate_transformation_mode="half_pixel",nearest_mode="floor"',
}
POOLED = "d=Shape(x) p1=MaxPool<kernel_shape=[2,2],strides=[2,2]>(x)"
RESIZES = {
    f"{name} to a size": (IMAGE, f"{POOLED} r=Resize<{form}>(p1,,,d) y=Add(r,x)") for name, form in RESIZED.items()
}
RESIZES |= {
    f"{name} by scales, {scales}": (IMAGE, f"r=Resize<{form}>(x,,{scales}) y=Relu(r)")
    for name, scales in (
        ("corners", "scales"),
        ("asymmetric", "larger"),
        ("cubic", "larger"),
        ("nearest before", "larger"),
        ("half pixels", "fewer"),
        ("asymmetric", "fewer"),
        ("cubic", "fewer"),
        ("half pixels", "more"),
    )
    for form in [RESIZED[name]]
}
SIZES = [(2, 9), (2, 10), (2, 11), (2, 13), (3, 10), (3, 12), (1, 7), (2, 12)]


def made(model):
    type_, nodes = (MODELS | RESIZES)[model]
    text = f'<ir_version:8,opset_import:["":17]> g({type_} x)=>(float[] y)<{NUMBERS}>{{{nodes}}}'
    proto = parser.parse_model(text)
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    arrays = {
        "e": np.linspace(-1, 1, 512, dtype=np.float32).reshape(64, 8),
        "w": np.linspace(0.1, 1, 8, dtype=np.float32),
        "v": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3),
        "w3": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 1, 8),
        "p": np.arange(64)[None],
        "eight": np.array([8]),
        "rows": np.array([-1, 8]),
        "sc": np.float32(0.02),
        "zp": np.uint8(128),
        "gru": np.linspace(-1, 1, 72, dtype=np.float32).reshape(1, 9, 8),
        "gru2": np.linspace(1, -1, 27, dtype=np.float32).reshape(1, 9, 3),
        "eights": np.array([8, 8, 8, 8]),
        "axes4": np.array([0, 0, 1, 1]),
        "low": np.float32(-9),
        "scales": np.float32([1, 1, 2, 2]),
        "fewer": np.float32([1, 1, 0.4, 0.7]),
        "more": np.float32([1, 1, 1.3, 2.6]),
        "larger": np.float32([1, 1, 1.5, 1.5]),
        "near": np.array([0, 5, -2, 1]).reshape(1, 1, 4, 1).repeat(4, 1),
        "twof": np.float32([2]),
        "pairs": np.array([-1, 2]),
        "minus": np.array([-1]),
        "far": np.array([-9]),
        "u8": np.linspace(-0.5, 0.5, 64, dtype=np.float32).reshape(8, 8),
        "halves": np.float32([1, 1, 0.5, 0.5]),
    }
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items())
    return proto


def given(model, batch, size):
    rng = np.random.default_rng(size)
    type_ = (MODELS | RESIZES)[model][0]
    if type_ == TOKENS:
        return rng.integers(0, 64, (batch, size))
    shape = (batch, size, 8) if type_ == ROWS else (batch, 4, size, size + batch)
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("model", MODELS | RESIZES)
def test_further_sizes_take_the_same_steps(model, monkeypatch):
    monkeypatch.setattr(view_places, "FEW", 0)  # sizes on both sides of it take other steps
    atol = 2e-5 if model in RESIZES else 1e-6  # ONNX Runtime rounds the places between elements to f32
    proto = made(model)
    session = session_of(proto)
    compiled = load(proto).compile()
    for batch, size in SIZES * 2:
        x = given(model, batch, size)
        np.testing.assert_allclose(compiled(x), session.run(None, {"x": x})[0], rtol=1e-5, atol=atol)
    info = compiled.cache_info()
    assert compiled._programs._open.error is None
    assert HASHES_CONSTANTS or info.reused >= 3
    assert model != TABLE or not info.partitions
