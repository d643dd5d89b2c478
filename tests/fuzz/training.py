"""Random ops in the shapes of training: batches, up to 17 channels, images of some thousand elements, strides.

One op makes a recipe. Numbers are small and whole, so that sums of products are exact in every order.
"""

import math

import onegraph as og

from .recipe import Builder

ELEMENTS = 40_000  # of the largest tensor
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 14, 16, 17, 28, 32, 33, 48, 64, 65, 128)
FORMATS = {"NXC": ("XIO", "XOI"), "NCX": ("OIX", "IOX")}


class Draw:
    """Random choices for one op."""

    def __init__(self, random):
        self.random, self.choice = random, random.choice
        self.dtype = random.choice(["f32", "f32", "f32", "bf16", "bf16", "f16"])
        self.axes = random.choice([1, 2, 2, 2, 3])
        self.format = random.choice(["NXC", "NCX"])
        self.batch = random.choice([1, 2, 2, 3, 4, 8])
        self.channels = random.randint(1, 17)
        self.strides = [random.choice([1, 1, 2, 2, 3]) for _ in range(self.axes)]

    def flip(self, chance=0.5):
        return self.random.random() < chance

    def spatial(self):
        """Sizes of an image that keep the tensor small enough."""
        most = ELEMENTS / (self.batch * 17)
        sizes = []
        for _ in range(self.axes):
            fitting = [size for size in SIZES if math.prod(sizes) * size <= most]
            sizes.append(self.choice(fitting[-9:] if self.flip(0.6) else fitting))
        self.random.shuffle(sizes)
        return sizes

    def laid(self, channels, sizes):
        return [self.batch, *sizes, channels] if self.format == "NXC" else [self.batch, channels, *sizes]

    def window(self, sizes, dilated=True):
        """Kernel, attributes and counts of windows; half of them without padding over whole strides."""
        exact = self.flip(0.4)
        kernel = [1 if exact and self.flip(0.7) else self.choice([1, 2, 3, 5]) for _ in sizes]
        begin = [0 if exact else self.choice([0, 0, 1, k // 2]) for k in kernel]
        end = [0 if exact else self.choice([0, b, 1]) for b in begin]
        spread = [self.choice([1, 1, 1, 2]) if dilated and not exact else 1 for _ in sizes]
        counts = [
            (size + b + e - (d * (k - 1) + 1)) // s + 1
            for size, b, e, d, k, s in zip(sizes, begin, end, spread, kernel, self.strides, strict=True)
        ]
        attrs = {"strides": self.strides, "pads_begin": begin, "pads_end": end, "data_format": self.format}
        return kernel, {**attrs, **({"dilations": spread} if dilated else {})}, counts


def convolution(draw):
    """The kind, the shapes of the inputs and the attributes of one of the six ops."""
    sizes = draw.spatial()
    kernel, attrs, counts = draw.window(sizes)
    if attrs["strides"] != [1] * len(sizes) and not any(attrs["pads_begin"]) and set(kernel) == {1}:
        sizes = [max(1, size // s) * s for size, s in zip(sizes, draw.strides, strict=True)]  # as in most networks
        counts = [size // s for size, s in zip(sizes, draw.strides, strict=True)]
        attrs["pads_end"] = [0] * len(sizes)
    groups = draw.choice([1, 1, 1, 1, 1, 2, draw.channels])
    ic = -(-draw.channels // groups) * groups
    oc = groups * draw.choice([1, 2, 3, 8, 16]) if groups > 1 else draw.choice([*range(1, 18), 32])
    wide, narrow = draw.laid(ic, sizes), draw.laid(oc, counts)
    kinds = ["Convolution", "ConvolutionBackwardData", *["ConvolutionBackwardWeights"] * 3]
    kind = draw.choice([*kinds, "ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights"])
    form = FORMATS[draw.format][kind.startswith("ConvT")]
    weights = [*kernel, ic // groups, oc] if draw.format == "NXC" else [oc, ic // groups, *kernel]
    attrs |= {"groups": groups, "weights_format": form}
    bias = [[oc]] if draw.flip() else []
    given = {
        "Convolution": [wide, weights, *bias],
        "ConvolutionBackwardData": [narrow, weights],
        "ConvolutionBackwardWeights": [wide, narrow],
        "ConvTranspose": [narrow, weights],
        "ConvTransposeBackwardData": [wide, weights],
        "ConvTransposeBackwardWeights": [narrow, wide],
    }[kind]
    if kind == "ConvolutionBackwardData":
        attrs["dst_shape"] = wide
    if kind.endswith("BackwardWeights"):
        attrs["weights_shape"] = weights
    return kind, given, attrs


def pool(draw):
    sizes = draw.spatial()
    kind = draw.choice(["AvgPool", "AvgPoolBackward", "MaxPool", "MaxPoolBackward"])
    kernel, attrs, counts = draw.window(sizes, dilated=kind.startswith("Max"))
    pads = zip(attrs["pads_begin"], attrs["pads_end"], kernel, strict=True)
    if any(max(b, e) >= k for b, e, k in pads):
        attrs["pads_begin"] = attrs["pads_end"] = [0] * len(sizes)
        spread = attrs.get("dilations", [1] * len(sizes))
        counts = [
            (size - (d * (k - 1) + 1)) // s + 1
            for size, d, k, s in zip(sizes, spread, kernel, draw.strides, strict=True)
        ]
    whole, part = draw.laid(draw.channels, sizes), draw.laid(draw.channels, counts)
    attrs["kernel"] = kernel
    if kind.startswith("Avg"):
        attrs["exclude_pad"] = draw.flip()
    if kind == "AvgPoolBackward":
        attrs["src_shape"] = whole
    given = {"AvgPoolBackward": [part], "MaxPoolBackward": [whole, part]}.get(kind, [whole])
    return kind, given, attrs


def _norm(draw):
    image = draw.laid(draw.channels, draw.spatial())
    vector = [draw.channels]
    kind = draw.choice(["BatchNormForwardTraining", "BatchNormTrainingBackward", "LayerNorm", "LayerNormBackward"])
    if kind.startswith("Batch"):
        attrs = {"epsilon": 0.125, "data_format": draw.format}
        if kind == "BatchNormForwardTraining":
            return kind, [image, vector, vector], {**attrs, "momentum": 0.5}
        return kind, [image, image, vector, vector, vector], attrs
    rows, last = image[:-1], image[-1:]
    attrs = {"epsilon": 0.125, "begin_norm_axis": -1}
    if kind == "LayerNorm":
        return kind, [image, last, last], {**attrs, "keep_stats": True}
    return kind, [image, image, rows, rows, last, last], attrs


def _other(draw):
    image = draw.laid(draw.channels, draw.spatial())
    axis = draw.random.randrange(len(image))
    shape = [1 if draw.flip(0.3) else size for size in image]
    turned = {"transpose_b": draw.flip()}
    m, k, n = (draw.choice(SIZES) for _ in range(3))
    right = [n, k] if turned["transpose_b"] else [k, n]
    modes = {1: "linear", 2: "bilinear", 3: "trilinear"}
    resize = {"mode": draw.choice(["nearest", modes[draw.axes]]), "data_format": draw.format}
    resize["sizes"] = [draw.choice([1, 2, 3, 8, 16]) for _ in range(draw.axes)]
    resized = draw.laid(draw.channels, resize["sizes"])
    return draw.choice(
        [
            ("SoftMax", [image], {"axis": axis}),
            ("LogSoftmax", [image], {"axis": axis}),
            ("SoftMaxBackward", [image, image], {"axis": axis}),
            ("LogSoftmaxBackward", [image, image], {"axis": axis}),
            (draw.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"]), [image], {"axes": [axis]}),
            (draw.choice(["Add", "Multiply", "Maximum", "SquaredDifference"]), [image, shape], {}),
            ("MatMul", [[draw.batch, m, k], right], turned),
            ("BiasAddBackward", [image], {"data_format": draw.format}),
            ("PReLUBackward", [image, [draw.channels], image], {"data_format": draw.format}),
            ("Interpolate", [image], resize),
            ("InterpolateBackward", [image, resized], resize),
            (draw.choice(["ReLUBackward", "GELUBackward", "TanhBackward", "MishBackward"]), [image, image], {}),
            ("Concat", [image, image, image], {"axis": axis}),
            ("StaticTranspose", [image], {"order": draw.random.sample(range(len(image)), len(image))}),
        ]
    )


FAMILIES = (convolution, convolution, convolution, pool, _norm, _other)
POSITIVE = {"BatchNormTrainingBackward": (3,), "LayerNormBackward": (3,)}  # inputs that are variances


def random_training_recipe(random, n_ops=1):
    """Steps of one valid op."""
    while True:
        draw = Draw(random)
        kind, shapes, attrs = draw.choice(FAMILIES)(draw)
        if any(dim < 1 for shape in shapes for dim in shape):
            continue
        if max(math.prod(shape) for shape in shapes) > 3 * ELEMENTS:
            continue
        builder = Builder()
        for index, shape in enumerate(shapes):
            vector = len(shape) == 1 or (kind == "LayerNormBackward" and index in (2, 3))
            flavour = "positive" if index in POSITIVE.get(kind, ()) else "whole"
            dtype = "f32" if "Norm" in kind and vector else draw.dtype
            data = [flavour, random.randrange(10**6)]
            builder.add({"op": "input", "dtype": dtype, "shape": shape, "data": data})
        step = {"op": kind, "in": [[index, 0] for index in range(len(shapes))], "attrs": attrs}
        if kind in ("SoftMax", "MatMul"):
            step |= {"dtype": draw.dtype, **({"outputs": []} if kind == "SoftMax" else {})}
        try:
            keys = builder.add(step)
        except og.SpecError:
            continue
        for key in keys:
            builder.add({"op": "output", "in": [list(key)]})
        return builder.steps
