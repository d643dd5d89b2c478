"""Random valid graphs as recipes.

Every choice comes from one ``random.Random``, such as ``Choices``. The values of the reference are known while a graph
grows, so no op leaves the range in which results can be compared. ``onegraph.testing.random_graph``, which users call,
draws every op of any edition alike and computes nothing; here the ops, shapes and data types are those in which kernels
and fusions differ.
"""

import contextlib
import math

import numpy as np

import onegraph as og

from .recipe import FLOATS, Builder

LIMIT = 1e4  # no op reads larger values
ELEMENTS = 20000  # elements of one tensor
DIMS = (1, 2, 3, 4, 5, 7, 8, 16, 17)
UNARY = {
    "Abs": {}, "Exp": {}, "GELU": {}, "HardSwish": {}, "Log": {}, "Mish": {}, "ReLU": {}, "Round": {}, "Sigmoid": {},
    "Sqrt": {}, "Square": {}, "Tanh": {}, "SoftPlus": {"beta": (1.0, 2.0, -1.0, 0.5)}, "Reciprocal": {},
    "Clamp": {"min": (-1.0, 0.0), "max": (1.0, 6.0)}, "Elu": {"alpha": (1.0, 0.5)}, "LeakyReLU": {"alpha": (0.1, 1.5)},
    "HardSigmoid": {"alpha": (0.2, 0.5), "beta": (0.5, -0.25)}, "Pow": {"beta": (2.0, 0.5, -1.0, 3.0)},
}  # fmt: skip
UNARY_BACKWARD = [
    "AbsBackward",
    "ClampBackward",
    "EluBackward",
    "GELUBackward",
    "HardSigmoidBackward",
    "HardSwishBackward",
    "MishBackward",
    "ReLUBackward",
    "SigmoidBackward",
    "SoftPlusBackward",
    "SqrtBackward",
    "TanhBackward",
]
FLAT = ("GELUBackward", "MishBackward", "SigmoidBackward", "TanhBackward")  # far from 0 only rounding errors remain
BINARY = ["Add", "Divide", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract"]
REDUCTIONS = ["ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"]


class Skip(Exception):  # noqa: N818
    """No value in the pool fits this op."""


class Generator:
    """One random graph."""

    def __init__(self, random, n_ops=10, rank=None):
        self.random, self.n_ops = random, n_ops
        self.builder = Builder()
        self.refused = []
        self.dtype = self.random.choice(["f32", "f32", "f32", "bf16", "f16"])
        self.format = self.random.choice(["NXC", "NCX"])
        self.constants = self.random.random()
        self.pool = []

    # Drawing ---------------------------------------------------------------------------------------------------------

    def flip(self, chance):
        return self.random.random() < chance

    def choice(self, things):
        return self.random.choice(list(things))

    def tensor(self, key):
        return self.builder.values[key][0]

    def array(self, key):
        return self.builder.values[key][1]

    def shape(self, key):
        return self.array(key).shape

    def dtype_of(self, key):
        return self.tensor(key).dtype.value

    def add(self, kind, inputs=(), attrs=None, **options):
        step = {"op": kind, "in": [None if key is None else list(key) for key in inputs]}
        if attrs:
            step["attrs"] = attrs
        step.update(options)
        try:
            keys = self.builder.add(step)
        except og.SpecError as error:
            self.refused.append((step, str(error)))
            raise Skip from None
        self.pool += [key for key in keys if self._usable(key)]
        return keys

    def _usable(self, key):
        array = self.array(key)
        if array.size > ELEMENTS:
            return False
        if self.dtype_of(key) not in FLOATS or not array.size:
            return True
        return bool(np.isfinite(array).all() and np.abs(array.astype(np.float64)).max() < LIMIT)

    def source(self, shape, dtype=None, flavour="normal", variable=False):
        """A new input or constant."""
        kind = "constant" if not variable and self.flip(self.constants) else "input"
        shape = [int(dim) for dim in shape]
        step = {"op": kind, "dtype": dtype or self.dtype, "shape": shape,
                "data": [flavour, self.random.randrange(10**6)]}  # fmt: skip
        if kind == "input" and shape and self.flip(0.15):
            step["strides"] = self.strides(shape)
        (key,) = self.builder.add(step)
        self.pool.append(key)
        return key

    def strides(self, shape):
        order = list(range(len(shape)))
        self.random.shuffle(order)
        strides, step = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= max(shape[axis], 1) + (self.random.randrange(3) if self.flip(0.3) else 0)
        return strides

    def dim(self):
        return self.choice(DIMS) if not self.flip(0.015) else 0

    def some_shape(self, rank=None):
        rank = self.random.choice([0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6]) if rank is None else rank
        while True:
            shape = [self.dim() for _ in range(rank)]
            if math.prod(max(dim, 1) for dim in shape) <= 4000:
                return shape

    def pick(self, types=None, rank=None, test=lambda array: True):
        """A value of the pool, mostly one of the last; at times a new one."""
        types = types or (self.dtype,)
        fits = [
            key
            for key in self.pool
            if self.dtype_of(key) in types and (rank is None or len(self.shape(key)) in rank) and test(self.array(key))
        ]
        if fits and not self.flip(0.05):
            return fits[-1] if self.flip(0.6) else self.choice(fits)
        if rank is None:
            found = self.source(self.some_shape(), self.choice(types))
        else:
            found = self.source(self.some_shape(self.choice(rank)), self.choice(types))
        if not test(self.array(found)):
            raise Skip
        return found

    def like(self, key, chance=0.5):
        """A value of the same shape and type."""
        fits = [k for k in self.pool if self.shape(k) == self.shape(key) and self.dtype_of(k) == self.dtype_of(key)]
        if len(fits) > 1 and self.flip(chance):
            return self.choice(fits)
        return self.source(self.shape(key), self.dtype_of(key))

    # The graph -------------------------------------------------------------------------------------------------------

    def make(self):
        """The steps."""
        self.source(self.some_shape(self.choice([2, 3, 4, 4, 4, 5, None])), variable=True)
        families = [getattr(self, name) for name in dir(self) if name.startswith("op_")]
        weights = [function.__doc__.count("*") for function in families]
        done = tries = 0
        while done < self.n_ops and tries < 4 * self.n_ops:
            tries += 1
            before = len(self.builder.graph.ops)
            with contextlib.suppress(Skip):
                self.random.choices(families, weights)[0]()
            done += len(self.builder.graph.ops) - before
        self.outputs()
        return self.builder.steps

    def outputs(self):
        graph = self.builder.graph
        read = {t.id for op in graph.ops for t in op.inputs if t is not None}
        keys = {key: pair[0] for key, pair in self.builder.values.items()}
        made = {t.id for op in graph.ops for t in op.outputs}
        wanted = [
            key
            for key, tensor in keys.items()
            if (tensor.id in made and (tensor.id not in read or self.flip(0.12))) or self.flip(0.01)
        ]
        if not wanted:
            wanted = [next(iter(keys))]
        if self.flip(0.05):
            wanted.append(wanted[0])
        for key in wanted:
            self.builder.add({"op": "output", "in": [list(key)]})

    # Ops: a function for each family, its weight the stars in its text -----------------------------------------------

    def op_unary(self):
        """******"""
        key = self.pick()
        kind = self.choice(UNARY)
        data = self.array(key).astype(np.float64)
        low, high = data.min(initial=1.0), data.max(initial=1.0)
        if (kind in ("Log", "Sqrt") and low <= 0.05) or (kind == "Reciprocal" and np.abs(data).min(initial=1) < 0.1):
            raise Skip
        attrs = {name: self.choice(values) for name, values in UNARY[kind].items()}
        if kind == "Pow" and (low <= 0.1 and attrs["beta"] not in (2.0, 3.0)):
            raise Skip
        if kind in ("Exp", "Square", "Pow", "SoftPlus") and max(-low, high) > 20:
            raise Skip
        if kind == "GELU" and self.flip(0.3):
            attrs["mode"] = "gelu_tanh"
        self.add(kind, [key], attrs)

    def op_backward(self):
        """**"""
        key, kind = self.pick(), self.choice(UNARY_BACKWARD)
        grad = self.like(key)
        base = kind.removesuffix("Backward")
        attrs = {name: self.choice(values) for name, values in UNARY.get(base, {}).items()}
        data = self.array(key).astype(np.float64)
        if kind in ("ClampBackward", "EluBackward", "ReLUBackward", "SigmoidBackward", "SqrtBackward", "TanhBackward"):
            attrs["use_dst"] = self.flip(0.5)
        if (kind == "SqrtBackward" and data.min(initial=1) < 0.1) or np.abs(data).max(initial=0) > 20:
            raise Skip
        if kind in FLAT and not attrs.get("use_dst") and np.abs(data).min(initial=np.inf) > 2:
            raise Skip
        self.add(kind, [key, grad], attrs)

    def operand(self, shape):
        """A shape that is broadcast to another."""
        shape = list(shape)
        how = self.random.randrange(7)
        if how <= 1 or not shape:
            return shape
        if how == 2:
            return [1] * len(shape) if self.flip(0.5) else []
        if how == 3:
            return shape[-1:] if self.flip(0.7) else [1]
        if how == 4:
            channels = -1 if self.format == "NXC" else min(1, len(shape) - 1)
            return [dim if axis == channels % len(shape) else 1 for axis, dim in enumerate(shape)]
        return [1 if self.flip(0.5) else dim for dim in shape][self.random.randrange(len(shape)) if how == 5 else 0 :]

    def op_binary(self):
        """*******"""
        key = self.pick()
        kind = self.choice(BINARY)
        shape = self.operand(self.shape(key))
        fits = [k for k in self.pool if list(self.shape(k)) == shape and self.dtype_of(k) == self.dtype_of(key)]
        divides = kind == "Divide"
        if fits and self.flip(0.5) and not divides:
            other = self.choice(fits)
        else:
            other = self.source(shape, self.dtype_of(key), "positive" if divides else "normal")
        if divides and np.abs(self.array(other).astype(np.float64)).min(initial=1) < 0.2:
            raise Skip
        pair = [key, other] if divides or self.flip(0.7) else [other, key]
        self.add(kind, pair)

    def op_bias(self):
        """**"""
        key = self.pick(rank=(2, 3, 4, 5))
        fmt = self.format if self.flip(0.8) else self.choice(["NXC", "NCX"])
        channels = self.shape(key)[-1 if fmt == "NXC" else 1]
        what = self.choice(["BiasAdd", "BiasAdd", "PReLU", "BiasAddBackward"])
        attrs = {"data_format": fmt}
        if what == "BiasAddBackward":
            self.add(what, [key], attrs)
        elif what == "BiasAdd":
            self.add(what, [key, self.source([channels])], attrs)
        else:
            if self.flip(0.5):
                attrs["per_channel_broadcast"] = True
                slope = [channels]
            else:
                attrs["per_channel_broadcast"] = False
                slope = self.operand(self.shape(key)) or [1]
            self.add(what, [key, self.source(slope)], attrs)

    def op_select(self):
        """*"""
        key = self.pick()
        other = self.source(self.operand(self.shape(key)))
        (cond,) = self.add("GreaterEqual", [key, other])
        self.add("Select", [cond, self.like(key), self.source(self.operand(self.shape(key)))])

    def op_prelu_backward(self):
        """*"""
        key = self.pick(rank=(2, 3, 4))
        fmt = self.choice(["NXC", "NCX"])
        slope = [self.shape(key)[-1 if fmt == "NXC" else 1]] if self.flip(0.5) else self.operand(self.shape(key)) or [1]
        self.add("PReLUBackward", [key, self.source(slope), self.like(key)], {"data_format": fmt})

    def op_matmul(self):
        """*****"""
        key = self.pick(rank=(1, 2, 3, 4))
        shape = list(self.shape(key))
        attrs = {}
        left = shape
        if len(shape) > 1 and self.flip(0.2):
            attrs["transpose_a"] = True
            left = [*shape[:-2], shape[-1], shape[-2]]
        k, n = left[-1], self.dim()
        batch = left[:-2]
        weights = [k, n]
        if self.flip(0.25) and self.flip(0.5):
            weights = [k]
        elif batch and self.flip(0.5):
            weights = [*[dim if self.flip(0.7) else 1 for dim in batch], k, n]
            if self.flip(0.2):
                weights = weights[1:]
        if len(weights) > 1 and self.flip(0.3):
            attrs["transpose_b"] = True
            weights = [*weights[:-2], weights[-1], weights[-2]]
        inputs = [key, self.source(weights)]
        if self.flip(0.3) and len(weights) > 1:
            inputs.append(self.source([n] if self.flip(0.8) else [1]))
        dtype = self.dtype_of(key)
        if dtype != "f32" and self.flip(0.2) and len(inputs) == 2:
            dtype = "f32"
        self.add("MatMul", inputs, attrs, dtype=dtype)

    def op_attention(self):
        """**"""
        batch, heads, rows, size = self.choice([1, 2]), self.choice([1, 2, 4]), self.choice([1, 4, 7, 16]), 8
        shape = [batch, heads, rows, size]
        q, k, v = (self.source(shape, variable=True) for _ in range(3))
        (score,) = self.add("MatMul", [q, k], {"transpose_b": True}, dtype=self.dtype)
        if self.flip(0.8):
            kind = self.choice(["Divide", "Multiply"])
            (score,) = self.add(kind, [score, self.source([1] if self.flip(0.5) else [], flavour="positive")])
        if self.flip(0.6):
            mask = self.choice([[batch, 1, 1, rows], [1, 1, 1, rows], [batch, heads, rows, rows], [rows, rows]])
            (score,) = self.add("Add", [score, self.source(mask)])
        weights = self.add("SoftMax", [score], {"axis": self.choice([-1, 3])}, **self.soft(score))[0]
        (out,) = self.add("MatMul", [weights, v], dtype=self.dtype)
        if self.flip(0.7):
            (out,) = self.add("StaticTranspose", [out], {"order": [0, 2, 1, 3]})
            if self.flip(0.7):
                self.add("StaticReshape", [out], {"shape": [batch, rows, heads * size], "special_zero": False})
            else:
                self.add("Reorder", [out])

    def window(self, sizes, dilated=True):
        rank = len(sizes)
        kernel, strides, dilations, begin, end = [], [], [], [], []
        for size in sizes:
            d = self.choice([1, 1, 1, 2]) if dilated else 1
            k = self.choice([1, 2, 3, 3])
            b, e = self.choice([0, 0, 1]), self.choice([0, 0, 1, 2])
            b, e = min(b, (k - 1) * d), min(e, (k - 1) * d)
            if (k - 1) * d + 1 > size + b + e:
                k = 1
                b = e = 0
            kernel.append(k), strides.append(self.choice([1, 1, 2, 3])), dilations.append(d)
            begin.append(b), end.append(e)
        pad = self.choice(["none"] * 5 + ["same_upper", "same_lower", "valid"])
        if pad == "valid" and any((k - 1) * d + 1 > n for k, d, n in zip(kernel, dilations, sizes, strict=True)):
            pad = "none"
        attrs = {"strides": strides, "pads_begin": begin, "pads_end": end, "dilations": dilations}
        if pad != "none":
            attrs["auto_pad"] = pad
        assert rank == len(kernel)
        return kernel, attrs

    def image(self):
        return self.pick(rank=(3, 4, 4, 4, 5), test=lambda array: array.size > 0 or self.flip(0.02))

    def parts(self, key):
        shape = list(self.shape(key))
        return (shape[-1], shape[1:-1]) if self.format == "NXC" else (shape[1], shape[2:])

    def op_conv(self):
        """******"""
        self.conv(self.image(), self.choice(["Convolution", "Convolution", "Convolution", "ConvTranspose"]))

    def conv(self, key, kind, bias=True):
        channels, sizes = self.parts(key)
        groups = self.choice([1, 1, 1, *[g for g in (2, 4, channels) if channels and channels % g == 0]]) or 1
        out = groups * self.choice([1, 2, 3, 4])
        kernel, attrs = self.window(sizes)
        attrs.update(data_format=self.format, groups=groups)
        if kind == "Convolution":
            first = self.flip(0.5)
            attrs["weights_format"] = "OIX" if first else "XIO"
            weights = [out, channels // groups, *kernel] if first else [*kernel, channels // groups, out]
        else:
            first = self.flip(0.5)
            attrs["weights_format"] = "IOX" if first else "XOI"
            weights = [channels, out // groups, *kernel] if first else [*kernel, out // groups, channels]
            if attrs.get("auto_pad") == "valid" or self.flip(0.5):
                attrs.pop("auto_pad", None)
        inputs = [key, self.source(weights)]
        if bias and self.flip(0.4):
            inputs.append(self.source([out]))
        return self.add(kind, inputs, attrs)

    def op_block(self):
        """***"""
        key = self.image()
        (x,) = self.conv(key, "Convolution", bias=False)
        fmt = {"data_format": self.format}
        channels = self.parts(x)[0]
        if self.flip(0.5):
            (x,) = self.add("BiasAdd", [x, self.source([channels])], fmt)
        if self.flip(0.5):
            gamma, beta, mean = (self.source([channels], "f32") for _ in range(3))
            variance = self.source([channels], "f32", "positive")
            (x,) = self.add("BatchNormInference", [x, gamma, beta, mean, variance], {"epsilon": 1e-3, **fmt})
        if self.flip(0.5):
            (x,) = self.add(self.choice(["Add", "Multiply", "Maximum"]), [x, self.like(x)])
        if self.flip(0.7):
            (x,) = self.add(self.choice(["ReLU", "GELU", "HardSwish", "Sigmoid", "Tanh"]), [x])
        if self.flip(0.5):
            self.pool_of(x)

    def op_conv_gradient(self):
        """**"""
        key = self.image()
        (x,) = self.conv(key, self.choice(["Convolution", "ConvTranspose"]), bias=False)
        step = self.builder.steps[-1]
        kind, attrs = step["op"], dict(step["attrs"])
        weights = tuple(step["in"][1])
        grad = self.like(x)
        what = self.choice(["Data", "Weights"])
        if what == "Data":
            inputs = [grad, weights]
            if kind == "Convolution":
                attrs["dst_shape"] = list(self.shape(key))
        else:
            inputs = [key, grad]
            attrs["weights_shape"] = list(self.shape(weights))
        self.add(f"{kind}Backward{what}", inputs, attrs)

    def op_pool(self):
        """***"""
        self.pool_of(self.image())

    def pool_of(self, key):
        sizes = self.parts(key)[1]
        kind = self.choice(["AvgPool", "MaxPool"])
        kernel, attrs = self.window(sizes, dilated=kind == "MaxPool")
        if kind == "AvgPool":
            del attrs["dilations"]
            attrs["exclude_pad"] = self.flip(0.5)
        elif set(attrs["dilations"]) == {1} and self.flip(0.3):
            del attrs["dilations"]
        attrs.update(kernel=kernel, data_format=self.format)
        if self.flip(0.2):
            attrs["rounding_type"] = "ceil"
        (x,) = self.add(kind, [key], attrs)
        if self.flip(0.2) and self.array(x).size:
            attrs = dict(attrs)
            attrs.pop("rounding_type", None)
            if kind == "AvgPool":
                attrs["src_shape"] = list(self.shape(key))
                self.add("AvgPoolBackward", [self.like(x)], attrs)
            else:
                src = self.source(self.shape(key), flavour="distinct")
                self.add("MaxPoolBackward", [src, self.like(x)], attrs)

    def op_batch_norm(self):
        """**"""
        key = self.pick(rank=(2, 3, 4, 5), test=lambda array: array.size > 0)
        channels = self.parts(key)[0]
        types = "f32" if self.dtype != "bf16" or self.flip(0.7) else "bf16"
        attrs = {"epsilon": self.choice([1e-3, 0.1]), "data_format": self.format}
        gamma, beta, mean = (self.source([channels], types) for _ in range(3))
        variance = self.source([channels], types, "positive")
        kind = self.choice(["BatchNormInference", "BatchNormForwardTraining", "BatchNormTrainingBackward"])
        if kind == "BatchNormInference":
            self.add(kind, [key, gamma, beta, mean, variance], attrs)
        elif kind == "BatchNormForwardTraining":
            if self.flip(0.5):
                attrs["momentum"] = 0.9
            affine = [gamma, beta] if self.flip(0.5) else []
            self.add(kind, [key, mean, variance, *affine], {**attrs, "epsilon": 0.1})
        else:
            gamma = [gamma] if self.flip(0.7) else []
            outputs = [] if self.flip(0.2) else None
            self.add(kind, [key, self.like(key), mean, variance, *gamma], attrs, outputs=outputs)

    def op_layer_norm(self):
        """***"""
        key = self.pick(rank=(1, 2, 3, 4), test=lambda array: array.size > 0)
        shape = self.shape(key)
        begin = self.choice([-1, -1, -1, 0, len(shape) - 1])
        types = "f32" if self.dtype != "bf16" or self.flip(0.7) else "bf16"
        part = shape[begin:]
        attrs = {"begin_norm_axis": begin, "epsilon": 0.1}
        kind = self.choice(["LayerNorm", "LayerNorm", "RMSNorm", "GroupNorm", "LayerNormBackward"])
        if kind == "RMSNorm":
            self.add(kind, [key, *([self.source(part, types)] if self.flip(0.5) else [])], attrs)
        elif kind == "GroupNorm":
            if len(shape) < 3:
                raise Skip
            channels = self.parts(key)[0]
            groups = self.choice([g for g in range(1, channels + 1) if channels % g == 0])
            keep = self.flip(0.3)
            affine = [self.source([channels], types), self.source([channels], types)] if self.flip(0.5) else []
            attrs = {"epsilon": 0.1, "groups": groups, "data_format": self.format, "keep_stats": keep}
            self.add(kind, [key, *affine], {**attrs, "use_affine": bool(affine)})
        elif kind == "LayerNorm":
            affine = [self.source(part, types), self.source(part, types)] if self.flip(0.6) else []
            self.add(kind, [key, *affine], {**attrs, "use_affine": bool(affine), "keep_stats": self.flip(0.3)})
        else:
            stats = shape[: begin % len(shape)]
            affine = [self.source(part, types), self.source(part, types)] if self.flip(0.6) else []
            mean, variance = self.source(stats, types), self.source(stats, types, "positive")
            attrs["use_affine"] = bool(affine)
            self.add(kind, [key, self.like(key), mean, variance, *affine], attrs)

    def soft(self, key, kind="SoftMax"):
        return {"outputs": [], "dtype": self.dtype_of(key)} if kind.startswith("SoftMax") else {}

    def op_softmax(self):
        """***"""
        key = self.pick(test=lambda array: array.ndim > 0)
        axis = self.random.randrange(-len(self.shape(key)), len(self.shape(key))) if self.flip(0.5) else -1
        kind = self.choice(["SoftMax", "SoftMax", "LogSoftmax", "SoftMaxBackward", "LogSoftmaxBackward"])
        if kind == "SoftMax":
            outputs = None if self.flip(0.2) else []
            attrs = {"axis": axis, **({"mode": "inf_as_zero"} if self.flip(0.2) else {})}
            dtype = "f32" if self.flip(0.1) else self.dtype_of(key)
            self.add(kind, [key], attrs, outputs=outputs, dtype=dtype)
        elif kind == "LogSoftmax":
            self.add(kind, [key], {"axis": axis})
        else:
            dst = self.add(kind.removesuffix("Backward"), [key], {"axis": axis}, **self.soft(key, kind))[0]
            self.add(kind, [self.like(dst), dst], {"axis": axis})

    def op_reduce(self):
        """***"""
        key = self.pick(test=lambda array: array.ndim > 0 and array.size > 0)
        rank = len(self.shape(key))
        axes = self.random.sample(range(rank), self.random.randrange(1, rank + 1))
        axes = [axis - rank if self.flip(0.3) else axis for axis in axes]
        kind = self.choice(REDUCTIONS)
        if kind == "ReduceProd" and math.prod(self.shape(key)[axis] for axis in axes) > 20:
            raise Skip
        self.add(kind, [key], {"axes": axes, "keep_dims": self.flip(0.5)})

    def op_move(self):
        """*****"""
        key = self.pick()
        shape = list(self.shape(key))
        kind = self.choice(
            ["StaticTranspose", "StaticTranspose", "StaticReshape", "StaticReshape", "Reorder", "Concat"]
        )
        if kind == "StaticTranspose":
            order = list(range(len(shape)))
            self.random.shuffle(order)
            self.add(kind, [key], {"order": order})
        elif kind == "StaticReshape":
            if 0 in shape:
                raise Skip
            how = self.random.randrange(4)
            if how == 0:
                shape = [-1]
            elif how == 1 and len(shape) > 1:
                axis = self.random.randrange(len(shape) - 1)
                shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
            elif how == 2:
                shape.insert(self.random.randrange(len(shape) + 1), 1)
            else:
                places = [a for a, dim in enumerate(shape) if dim % 2 == 0]
                if not places:
                    raise Skip
                axis = self.choice(places)
                shape[axis : axis + 1] = [2, shape[axis] // 2]
            if len(shape) > 8:
                raise Skip
            self.add(kind, [key], {"shape": shape, "special_zero": self.flip(0.5)})
        elif kind == "Reorder":
            self.add(kind, [key])
        else:
            if not shape:
                raise Skip
            axis = self.random.randrange(len(shape))
            others = []
            for _ in range(self.choice([0, 1, 1, 2])):
                fits = [
                    k
                    for k in self.pool
                    if self.dtype_of(k) == self.dtype_of(key)
                    and len(self.shape(k)) == len(shape)
                    and all(a == axis or m == n for a, (m, n) in enumerate(zip(self.shape(k), shape, strict=True)))
                ]
                if fits and self.flip(0.6):
                    others.append(self.choice(fits))
                else:
                    others.append(self.source([self.dim() if a == axis else dim for a, dim in enumerate(shape)]))
            keys = [key, *others]
            self.random.shuffle(keys)
            self.add(kind, keys, {"axis": axis - len(shape) if self.flip(0.3) else axis})

    def op_interpolate(self):
        """*"""
        key = self.image()
        sizes = self.parts(key)[1]
        modes = {1: ["nearest", "linear"], 2: ["nearest", "linear", "bilinear"], 3: ["nearest", "linear", "trilinear"]}
        attrs = {
            "mode": self.choice(modes[len(sizes)]),
            "coordinate_transformation_mode": self.choice(["half_pixel", "align_corners"]),
            "data_format": self.format,
            "sizes": [self.choice([1, 2, 3, 5, 8]) for _ in sizes],
        }
        (x,) = self.add("Interpolate", [key], attrs)
        if self.flip(0.3):
            self.add("InterpolateBackward", [key, self.like(x)], attrs)

    def op_cast(self):
        """*"""
        key = self.pick(types=FLOATS)
        source = self.dtype_of(key)
        to = self.choice(["bf16", "f16"]) if source == "f32" else "f32"
        (x,) = self.add("TypeCast", [key], dtype=to)
        if self.flip(0.5):
            if to != self.dtype:
                self.dtype = to
        elif to != self.dtype and self.dtype == "f32":
            self.add("TypeCast", [x], dtype="f32")

    def op_index(self):
        """*"""
        key = self.pick(test=lambda array: array.ndim > 0)
        self.add("GenIndex", [key], {"axis": self.random.randrange(len(self.shape(key)))})

    # int8 ------------------------------------------------------------------------------------------------------------

    def scales(self, n=1):
        return [self.choice([0.1, 0.05, 0.25, 0.03125]) for _ in range(n)]

    def quantized(self, key, small):
        """Quantize and Dequantize again; the key of the float result."""
        attrs = {"scales": self.scales(), "qtype": "per_tensor"}
        if self.flip(0.5):
            attrs["zps"] = [self.choice([0, 3, 128 if small == "u8" else -7])]
        if self.dtype_of(key) != "f32":
            (key,) = self.add("TypeCast", [key], dtype="f32")
        (whole,) = self.add("Quantize", [key], attrs, dtype=small)
        return self.dequantized(whole, attrs)

    def dequantized(self, whole, attrs):
        (x,) = self.add("Dequantize", [whole], attrs)
        if self.dtype == "bf16":
            (x,) = self.add("TypeCast", [x], dtype="bf16")
        return x

    def quantized_weights(self, shape, axis):
        whole = self.source(shape, "s8")
        if self.flip(0.5):
            attrs = {"scales": self.scales(shape[axis]), "qtype": "per_channel", "axis": axis}
            if self.flip(0.5):
                attrs["zps"] = [0] * shape[axis]
        else:
            attrs = {"scales": self.scales(), "qtype": "per_tensor", **({"zps": [0]} if self.flip(0.5) else {})}
        return self.dequantized(whole, attrs)

    def op_int8(self):
        """***"""
        if self.dtype == "f16":
            raise Skip
        small = self.choice(["u8", "s8"])
        what = self.choice(["conv", "matmul", "pool", "softmax", "plain", "layer"])
        if what == "conv":
            key = self.image()
            x = self.quantized(key, small)
            channels, sizes = self.parts(x)
            kernel, attrs = self.window(sizes)
            out = self.choice([1, 4, 8])
            attrs.update(data_format=self.format, groups=1, weights_format="XIO" if self.format == "NXC" else "OIX")
            shape = [*kernel, channels, out] if self.format == "NXC" else [out, channels, *kernel]
            weights = self.quantized_weights(shape, len(shape) - 1 if self.format == "NXC" else 0)
            bias = [self.source([out], "f32" if self.dtype == "f32" else "bf16")] if self.flip(0.5) else []
            (x,) = self.add("Convolution", [x, weights, *bias], attrs)
        elif what == "matmul":
            key = self.pick(rank=(2, 3, 4))
            x = self.quantized(key, small)
            n = self.choice([1, 4, 8])
            weights = self.quantized_weights([self.shape(x)[-1], n], 1)
            bias = [self.source([n])] if self.flip(0.5) else []
            (x,) = self.add("MatMul", [x, weights, *bias], dtype=self.dtype_of(x))
        elif what == "pool":
            x = self.quantized(self.image(), small)
            before = len(self.pool)
            self.pool_of(x)
            if len(self.pool) > before:
                x = self.pool[before]
        elif what == "softmax":
            x = self.pick(rank=(2, 3, 4))
            x = self.add("SoftMax", [x], {"axis": -1}, **self.soft(x))[0]
        elif what == "layer":
            x = self.add(
                "LayerNorm", [self.pick(rank=(2, 3, 4))], {"use_affine": False, "keep_stats": False, "epsilon": 0.1}
            )[0]
        else:
            x = self.quantized(self.pick(), small)
            if self.flip(0.5):
                (x,) = self.add(self.choice(["Reorder", "ReLU"]), [x])
        if self.flip(0.4):
            other = self.quantized(self.like(x), self.choice(["u8", "s8"]))
            (x,) = self.add("Add", [x, other] if self.flip(0.7) else [other, x])
        if self.flip(0.4):
            (x,) = self.add(self.choice(["ReLU", "GELU", "Sigmoid", "Square"]), [x])
        if self.flip(0.8):
            if self.dtype_of(x) != "f32":
                (x,) = self.add("TypeCast", [x], dtype="f32")
            attrs = {"scales": self.scales(), "qtype": "per_tensor"}
            if self.flip(0.5):
                attrs["zps"] = [self.choice([0, 2, 100 if small == "u8" else -5])]
            (x,) = self.add("Quantize", [x], attrs, dtype=self.choice([small, small, "u8", "s8"]))
            if self.flip(0.5):
                self.dequantized(x, attrs)


def random_recipe(random, n_ops=10):
    """Steps of a valid random graph."""
    return Generator(random, n_ops).make()
