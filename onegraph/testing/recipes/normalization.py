"""Draws MatMul, normalizations and reductions."""

from __future__ import annotations

from .draw import MAX_DIM, Dims, Draw, Inputs, divisors


def matmul(draw: Draw) -> Inputs:
    """Matrices, vectors and batches, with or without transposition and bias."""
    dims = draw.source(1, 4)
    across, down = draw.flag("transpose_a"), draw.flag("transpose_b")
    depth = dims[-2] if across and len(dims) > 1 else dims[-1]
    columns = draw.number(1, MAX_DIM)
    weights: Dims = (columns, depth) if down else (depth, columns)
    if len(dims) > 2 and draw.coin():
        weights = (*(dim if draw.coin(0.8) else 1 for dim in dims[:-2]), *weights)
    elif draw.coin(0.1):
        return draw.tensors(dims, (depth,))
    bias: list[Dims] = [(columns,)] if draw.coin(0.4) else []
    if bias and draw.wide:
        bias = [draw.rng.choice(((columns,), (1, columns), (1,)))]
    return draw.tensors(dims, weights, *bias)


def batch_norm(draw: Draw) -> Inputs:
    """Statistics for each channel, with or without gamma and beta if these are optional."""
    dims, channel = draw.activation()
    count = len(draw.schema.inputs) if draw.coin(0.7) else draw.schema.required_inputs
    shapes = {"src": dims, "diff_dst": dims}
    return [
        draw.positive(index, (channel,))
        if port.name == "variance"
        else draw.tensor(index, shapes.get(port.name, (channel,)))
        for index, port in enumerate(draw.schema.inputs[:count])
    ]


def layer_norm(draw: Draw) -> Inputs:
    """Normalization over the axes from a random one to the last."""
    dims = draw.source(1 if draw.wide else 2, 5)
    begin = draw.number(0 if draw.wide else 1, len(dims) - 1)
    if draw.wide and draw.coin():
        begin = len(dims) - 1
    draw.fixed["begin_norm_axis"] = begin if draw.coin() else begin - len(dims)
    kind = draw.schema.kind
    inputs = draw.tensors(dims)
    if kind == "LayerNormBackward":
        inputs = [*draw.tensors(dims, dims, dims[:begin]), draw.positive(3, dims[:begin])]
    affine = draw.coin() if kind == "RMSNorm" else draw.flag("use_affine")
    last = dims[begin:] if kind == "RMSNorm" else dims[-1:]
    ports = draw.schema.inputs[len(inputs) :] if affine else ()
    return [*inputs, *(draw.tensor(len(inputs) + index, last) for index in range(len(ports)))]


def group_norm(draw: Draw) -> Inputs:
    """Normalization of groups of channels."""
    dims, channel = draw.activation(3)
    draw.fixed["groups"] = draw.rng.choice(divisors(channel))
    return draw.tensors(dims, *[(channel,)] * 2) if draw.flag("use_affine") else draw.tensors(dims)


def axis(draw: Draw) -> Inputs:
    """An op along a random axis."""
    dims = draw.source(1, 5)
    draw.fixed["axis"] = draw.number(-len(dims), len(dims) - 1)
    return draw.tensors(*[dims] * draw.schema.required_inputs)


def reduction(draw: Draw) -> Inputs:
    """A reduction over some of the axes, given as an attribute or as a tensor."""
    dims = draw.source(1, 5)
    axes = sorted(draw.rng.sample(range(len(dims)), draw.number(0 if draw.wide else 1, len(dims))))
    if draw.coin(0.3):
        return [*draw.tensors(dims), draw.integers(1, axes)]
    draw.fixed["axes"] = tuple(number if draw.coin() else number - len(dims) for number in axes)
    return draw.tensors(dims)
