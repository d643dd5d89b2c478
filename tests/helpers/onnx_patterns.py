"""Models of ONNX with decomposed forms, and models that lie one change beside a model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

HEAD = '<ir_version: 9, opset_import: ["" : {opset}]> g ({inputs}) => (float[{shape}] y) {{ {body} }}'
# Bodies whose result is y: the kinds of ops expected, the inputs, the shape of y, and the nodes.
X = "float[2,3,8] x"
HALVES = (
    "z=Constant<value_ints=[0]>() h=Constant<value_ints=[4]>() e=Constant<value_ints=[9223372036854775807]>() "
    "i=Constant<value_ints=[3]>() a=Slice(x,z,h,i) b=Slice(x,h,e,i) n=Neg(b) t=Concat<axis=-1>(n,a) "
)
ROTARY = "float[2,3,5,8] x, float[2,1,5,8] c, float[2,1,5,8] s"
NEAR = (
    "z=Constant<value_ints=[0]>() o=Constant<value_ints=[1]>() e=Constant<value_ints=[9223372036854775807]>() "
    "i=Constant<value_ints=[3]>() w=Constant<value_ints=[2]>() l=Constant<value_ints=[-1]>() "
    "r=Constant<value_ints=[2,3,5,8]>() a=Slice(x,z,e,i,w) b=Slice(x,o,e,i,w) "
)
BY_PAIR = "float[2,3,5,8] x, float[2,1,5,4] c, float[2,1,5,4] s"
TURNED = "p=Mul(a,c) q=Mul(b,s) u=Sub(p,q) m=Mul(b,c) n=Mul(s,a) v=Add(m,n) "
STACKED = "f=Unsqueeze(u,l) g=Unsqueeze(v,l) j=Concat<axis=-1>(f,g) "
PATTERNS = {
    "rotary embedding of neighbours": (
        ["Rotary"],
        ROTARY,
        "2,3,5,8",
        f"{NEAR}u=Neg(b) v=Identity(a) {STACKED}t=Reshape(j,r) p=Mul(x,c) q=Mul(t,s) y=Add(p,q)",
    ),
    "rotary embedding of neighbours, by pair": (
        ["Rotary"],
        BY_PAIR,
        "2,3,5,8",
        f"{NEAR}{TURNED}{STACKED}y=Reshape(j,r)",
    ),
    "rotary embedding of halves, by pair": (
        ["Rotary"],
        BY_PAIR,
        "2,3,5,8",
        f"a,b=Split<axis=3>(x) {TURNED}y=Concat<axis=-1>(u,v)",
    ),
    "rotary embedding of some neighbours": (
        ["Rotary"],
        "float[2,3,5,11] k, float[2,1,5,8] c, float[2,1,5,8] s",
        "2,3,5,11",
        "k0=Constant<value_ints=[0]>() k8=Constant<value_ints=[8]>() k3=Constant<value_ints=[3]>() "
        "k9=Constant<value_ints=[99]>() x=Slice(k,k0,k8,k3) k1=Slice(k,k8,k9,k3) "
        f"{NEAR}u=Neg(b) v=Identity(a) {STACKED}t=Reshape(j,r) p=Mul(x,c) q=Mul(t,s) y1=Add(p,q) "
        "y=Concat<axis=-1>(y1,k1)",
    ),
    "rotary embedding": (["Rotary"], ROTARY, "2,3,5,8", f"{HALVES}p=Mul(x,c) q=Mul(t,s) y=Add(p,q)"),
    "rotary embedding, sines first": (["Rotary"], ROTARY, "2,3,5,8", f"{HALVES}p=Mul(c,x) q=Mul(s,t) y=Add(q,p)"),
    "rotary embedding by a Split": (
        ["Rotary"],
        ROTARY,
        "2,3,5,8",
        "a,b=Split<axis=3>(x) n=Neg(b) t=Concat<axis=3>(n,a) p=Mul(x,c) q=Mul(t,s) y=Add(p,q)",
    ),
    "GELU by Erf": (
        ["GELU"],
        X,
        "2,3,8",
        "r=Constant<value_float=1.41421354>() h=Constant<value_float=0.5>() o=Constant<value_float=1.0>() "
        "a=Div(x,r) b=Erf(a) c=Add(b,o) d=Mul(x,c) y=Mul(d,h)",
    ),
    "GELU by Erf, half first": (
        ["GELU"],
        X,
        "2,3,8",
        "r=Constant<value_float=0.70710677>() h=Constant<value_float=0.5>() o=Constant<value_float=1.0>() "
        "s=Mul(x,h) a=Mul(x,r) b=Erf(a) c=Add(o,b) y=Mul(s,c)",
    ),
    "GELU by Tanh": (
        ["GELU"],
        X,
        "2,3,8",
        "t=Constant<value_float=3.0>() k=Constant<value_float=0.044715>() r=Constant<value_float=0.7978846>() "
        "h=Constant<value_float=0.5>() o=Constant<value_float=1.0>() "
        "p=Pow(x,t) a=Mul(p,k) b=Add(x,a) c=Mul(b,r) d=Tanh(c) e=Add(d,o) f=Mul(x,e) y=Mul(h,f)",
    ),
    "HardSwish by HardSigmoid": (["HardSwish"], X, "2,3,8", "a=HardSigmoid<alpha=0.16666667,beta=0.5>(x) y=Mul(x,a)"),
    "HardSwish by Clip": (
        ["HardSwish"],
        X,
        "2,3,8",
        "t=Constant<value_float=3.0>() z=Constant<value_float=0.0>() s=Constant<value_float=6.0>() "
        "a=Add(x,t) b=Clip(a,z,s) c=Mul(x,b) y=Div(c,s)",
    ),
    "Mish": (["Mish"], X, "2,3,8", "a=Softplus(x) b=Tanh(a) y=Mul(x,b)"),
    "LayerNorm": (
        ["LayerNorm"],
        f"{X}, float[8] g, float[8] b",
        "2,3,8",
        "t=Constant<value_float=2.0>() e=Constant<value_float=0.00001>() m=ReduceMean<axes=[-1]>(x) a=Sub(x,m) "
        "p=Pow(a,t) v=ReduceMean<axes=[-1]>(p) s=Add(v,e) r=Sqrt(s) n=Div(a,r) w=Mul(n,g) y=Add(w,b)",
    ),
    "RMSNorm": (
        ["RMSNorm"],
        f"{X}, float[8] g",
        "2,3,8",
        "t=Constant<value_float=2.0>() e=Constant<value_float=0.00001>() p=Pow(x,t) v=ReduceMean<axes=[-1]>(p) "
        "s=Add(v,e) r=Sqrt(s) i=Reciprocal(r) n=Mul(x,i) y=Mul(n,g)",
    ),
    "GatherElements with known indices along the last axis": (
        ["StaticReshape", "Gather"],
        X,
        "2,3,2",
        "i=Constant<value=int64[2,3,2]{0,-1,7,-8,3,3,1,6,2,5,4,-4}>() y=GatherElements<axis=2>(x,i)",
    ),
    "GatherElements with known indices along the first axis": (
        ["StaticReshape", "Gather"],
        X,
        "1,3,8",
        "i=Constant<value=int64[1,3,8]{0,1,-1,-2,0,1,0,1,1,0,1,0,1,0,1,0,0,0,0,0,1,1,1,1}>() "
        "y=GatherElements<axis=0>(x,i)",
    ),
    "GatherND with one known place along the first axis": (
        ["Slice"],
        X,
        "1,3,8",
        "i=Constant<value=int64[1,1]{-1}>() y=GatherND(x,i)",
    ),
    "GatherND with known places along the first axis": (
        ["Gather"],
        X,
        "3,3,8",
        "i=Constant<value=int64[3,1]{1,0,-1}>() y=GatherND(x,i)",
    ),
    "GroupNorm by InstanceNormalization": (
        ["GroupNorm"],
        "float[2,4,3,3] x",
        "2,4,3,3",
        "k=Constant<value_ints=[0,2,-1]>() o=Constant<value_floats=[1.0,1.0]>() z=Constant<value_floats=[0.0,0.0]>() "
        "a=Reshape(x,k) b=InstanceNormalization(a,o,z) d=Shape(x) c=Reshape(b,d) "
        "w=Constant<value_floats=[1.0,2.0,3.0,4.0]>() q=Constant<value_ints=[1,2]>() u=Unsqueeze(w,q) "
        "e=Mul(c,u) y=Add(e,u)",
    ),
    "scale of both factors": (
        ["MatMul", "Divide"],
        "float[2,3,4] x, float[2,4,5] z",
        "2,3,5",
        "s=Constant<value_float=0.5>() a=Mul(x,s) b=Mul(z,s) y=MatMul(a,b)",
    ),
    "scale before a transpose": (
        ["MatMul", "Divide"],
        "float[2,3,4] x, float[2,5,4] z",
        "2,3,5",
        "s=Constant<value_float=0.5>() a=Mul(x,s) b=Mul(z,s) c=Transpose<perm=[0,2,1]>(b) y=MatMul(a,c)",
    ),
    "heads that a reshape joined with the batches": (
        ["MatMul", "Divide"],
        "float[2,3,4,5] x, float[2,3,5,6] z",
        "2,3,4,6",
        "s=Constant<value_float=0.5>() a=Mul(x,s) j=Constant<value_ints=[6,4,5]>() b=Reshape(a,j) "
        "k=Constant<value_ints=[6,5,6]>() c=Reshape(z,k) d=MatMul(b,c) "
        "l=Constant<value_ints=[2,3,4,6]>() y=Reshape(d,l)",
    ),
    "keys that are repeated for heads, which a reshape joined with the batches elsewhere": (
        ["StaticReshape", "StaticReshape", "MatMul"],
        "float[6,4,5] x, float[1,2,3,5,6] z",
        "1,6,4,6",
        "k=Constant<value_ints=[6,5,6]>() c=Reshape(z,k) d=MatMul(x,c) "
        "l=Constant<value_ints=[1,6,4,6]>() y=Reshape(d,l)",
    ),
    "zeros around an image": (
        ["Convolution"],
        "float[1,2,5,6] x, float[3,2,3,3] w",
        "1,3,5,5",
        "p=Constant<value_ints=[0,0,0,1,0,0,1,0]>() a=Pad(x,p) y=Conv<pads=[0,0,1,0]>(a,w)",
    ),
    "minus infinities around an image, in two steps": (
        ["MaxPool"],
        "float[1,2,5,6] x",
        "1,2,3,3",
        "p=Constant<value_ints=[0,0,0,1,0,0,0,1]>() q=Constant<value_ints=[0,0,1,0,0,0,0,0]>() "
        "i=Constant<value=float {-inf}>() a=Pad(x,p,i) b=Pad(a,q,i) "
        "y=MaxPool<kernel_shape=[3,3],strides=[2,2],pads=[0,0,1,0]>(b)",
    ),
    "attention with a mask": (
        ["Attention"],
        "float[1,2,256,4] q, float[1,2,256,4] k, float[1,2,256,3] v, float[256,256] m",
        "1,2,256,3",
        "t=Transpose<perm=[0,1,3,2]>(k) a=MatMul(q,t) s=Constant<value_float=0.5>() b=Mul(a,s) c=Add(b,m) "
        "p=Softmax<axis=-1>(c) y=MatMul(p,v)",
    ),
    "attention without a scale": (
        ["Attention"],
        "float[1,2,256,4] q, float[1,2,4,256] k, float[1,2,256,3] v",
        "1,2,256,3",
        "a=MatMul(q,k) p=Softmax<axis=-1>(a) y=MatMul(p,v)",
    ),
    "Expand before a division": (
        ["ReduceL2", "Divide"],
        X,
        "2,3,8",
        "n=ReduceL2<axes=[-1],keepdims=1>(x) d=Shape(x) w=Expand(n,d) y=Div(x,w)",
    ),
}


def model(pattern, opset=17):
    """The model of a pattern."""
    _, inputs, shape, body = pattern
    return parser.parse_model(HEAD.format(inputs=inputs, shape=shape, body=body, opset=opset))


REPEATED = "s=Constant<value_ints=[1,2,3,7,4]>() h=Constant<value_ints=[1,6,7,4]>() u=Constant<value_ints=[2]>() "
HEADS = {
    "no mask": ("", "b=Identity(a)"),
    "a mask": (", float[1,1,2,7] m", "b=Add(a,m)"),
    "a mask of each head": (", float[6,2,7] m", "b=Add(m,a)"),
}


def heads(name):
    """The model of attention whose heads share keys and values."""
    inputs, masked = HEADS[name]
    text = f"float[1,6,2,4] q, float[1,2,7,4] k, float[1,2,7,4] v{inputs}"
    body = (
        f"{REPEATED} k5=Unsqueeze(k,u) k6=Expand(k5,s) k4=Reshape(k6,h) v5=Unsqueeze(v,u) v6=Expand(v5,s) "
        "v4=Reshape(v6,h) t=Transpose<perm=[0,1,3,2]>(k4) f=Constant<value_float=0.5>() p=MatMul(q,t) a=Mul(p,f) "
        f"{masked} r=Softmax<axis=-1>(b) y=MatMul(r,v4)"
    )
    return model(([], text, "1,6,2,4", body))


OTHERS = {"Add": "Mul", "Mul": "Add", "Sub": "Add", "Div": "Mul", "Softmax": "LogSoftmax", "ReduceMean": "ReduceSum"}


def near_models(proto: ModelProto) -> Iterator[ModelProto]:
    """The models with a constant that is given or another one, a result that is returned too, other ops, attributes,
    inputs, sizes or data types."""
    for place, node in enumerate(proto.graph.node):
        if node.op_type == "Constant":
            array = np.asarray(ReferenceEvaluator(_alone(node)).run(None, {})[0])
            other = _copy(proto)
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            other.graph.input.append(helper.make_tensor_value_info(node.output[0], kind, array.shape))
            del other.graph.node[place]
            yield other
            other = _copy(proto)
            del other.graph.node[place].attribute[:]
            with np.errstate(over="ignore"):
                value = numpy_helper.from_array(np.asarray(array * array.dtype.type(2) + 1, array.dtype))
            other.graph.node[place].attribute.append(helper.make_attribute("value", value))
            yield other
            continue
        if len(node.input) > 1:
            other = _copy(proto)
            other.graph.node[place].input[:2] = node.input[1::-1]
            yield other
        if node.op_type in OTHERS:
            other = _copy(proto)
            other.graph.node[place].op_type = OTHERS[node.op_type]
            yield other
        if node.output[0] != "y":
            other = _copy(proto)
            other.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
            yield other
    for place, one in enumerate(proto.graph.input):
        for axis in range(len(one.type.tensor_type.shape.dim)):
            other = _copy(proto)
            other.graph.input[place].type.tensor_type.shape.dim[axis].dim_param = "N"
            yield other
            other = _copy(proto)
            other.graph.input[place].type.tensor_type.shape.dim[axis].dim_value += 1
            yield other
        other = _copy(proto)
        del other.graph.input[place].type.tensor_type.shape.dim[:1]
        yield other
    for place, node in enumerate(proto.graph.node):
        for number, attribute in enumerate(node.attribute):
            for changed in _other_attributes(attribute):
                other = _copy(proto)
                other.graph.node[place].attribute[number].CopyFrom(changed)
                yield other
            if node.op_type != "Constant":
                other = _copy(proto)
                del other.graph.node[place].attribute[number]
                yield other
        if node.op_type != "Constant" and len(node.input) > 2:
            other = _copy(proto)
            other.graph.node[place].input.pop()
            yield other
    halves = _copy(proto)
    for one in halves.graph.input:
        if one.type.tensor_type.elem_type == TensorProto.FLOAT:
            one.type.tensor_type.elem_type = TensorProto.FLOAT16
    yield halves


def _other_attributes(attribute: onnx.AttributeProto) -> Iterator[onnx.AttributeProto]:
    """An attribute of numbers with other ones."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, int):
        yield from (helper.make_attribute(attribute.name, number) for number in (value + 1, value - 1))
    elif isinstance(value, float):
        yield helper.make_attribute(attribute.name, 2 * value + 1)
    elif isinstance(value, list) and value and isinstance(value[0], int):
        for numbers in (value[::-1], [*value[:-1], value[-1] // 2 + 1], value[1:]):
            if numbers:
                yield helper.make_attribute(attribute.name, numbers)


def _copy(proto: ModelProto) -> ModelProto:
    other = ModelProto()
    other.CopyFrom(proto)
    return other


def _alone(node: onnx.NodeProto) -> ModelProto:
    """A model of one node."""
    graph = helper.make_graph([node], "one", [], [onnx.ValueInfoProto(name=node.output[0])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
