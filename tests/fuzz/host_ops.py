"""Random graphs that mix the specification's ops with host ops: views of views, shapes from ops, unknown shapes."""

import math

import numpy as np

from .generate import Generator, Skip
from .recipe import FLOATS

INTEGERS = ("s8", "u8", "int16", "s32", "s64")
TYPES = (*FLOATS, *INTEGERS, "boolean", "float64")


class HostGenerator(Generator):
    """One random graph with host ops between the others."""

    def host(self, kind, inputs, attrs=None, **options):
        return self.add(kind, inputs, attrs, edition="host", **options)

    def any(self, types=TYPES, test=lambda array: True):
        """A value of the pool, of any data type, mostly one of the last; at times a new one."""
        fits = [key for key in self.pool if self.dtype_of(key) in types and test(self.array(key))]
        if fits and not self.flip(0.1):
            return fits[-1] if self.flip(0.6) else self.choice(fits)
        found = self.source(self.some_shape(), self.choice(types))
        if not test(self.array(found)):
            raise Skip
        return found

    def numbers(self, values, given=0.1):
        """A vector of int64 with these contents: mostly a constant, at times an input or the result of an op."""
        values = [int(value) for value in values]
        step = {"op": "constant", "dtype": "s64", "shape": [len(values)], "data": ["exact", values]}
        if self.flip(given):
            step["op"] = "input"
            (key,) = self.builder.add(step)
            return key
        (key,) = self.builder.add(step)
        if len(values) > 1 and self.flip(0.1):
            step = {"op": "constant", "dtype": "s64", "shape": [1], "data": ["exact", values[:1]]}
            (first,) = self.builder.add(step)
            tail = {"op": "constant", "dtype": "s64", "shape": [len(values) - 1], "data": ["exact", values[1:]]}
            (rest,) = self.builder.add(tail)
            (key,) = self.host("Concat", [first, rest], {"axis": 0})
        return key

    def used(self, key):
        """Let an op of the library read a value now and then, so that views meet its kernels."""
        if self.dtype_of(key) == self.dtype and self._usable(key) and self.flip(0.5):
            how = self.random.randrange(4)
            if how == 0:
                self.add(self.choice(["Tanh", "ReLU", "Abs", "Sigmoid"]), [key])
            elif how == 1:
                self.add(self.choice(["Add", "Multiply", "Maximum"]), [key, self.like(key)])
            elif how == 2 and self.shape(key):
                self.add("SoftMax", [key], {"axis": -1}, **self.soft(key))
            elif len(self.shape(key)) > 1:
                size = self.shape(key)[-1]
                self.add("MatMul", [key, self.source([size, self.dim()])], dtype=self.dtype_of(key))

    # Views ------------------------------------------------------------------------------------------------------------

    def op_host_slice(self):
        """********"""
        key = self.any(test=lambda array: array.ndim > 0)
        shape = self.shape(key)
        axes = self.random.sample(range(len(shape)), self.random.randrange(1, len(shape) + 1))
        starts, ends, steps = [], [], []
        for axis in axes:
            size = shape[axis]
            step = self.choice([1, 1, 1, 1, 2, 3, -1, -2])
            start, end = self.random.randrange(-size - 2, size + 3), self.random.randrange(-size - 2, size + 3)
            if self.flip(0.7):
                first, last = sorted((self.random.randrange(size + 1), self.random.randrange(size + 1)))
                start, end = (first, last) if step > 0 else (last, first - size - 1)
            if self.flip(0.1):
                end = 2**63 - 1 if step > 0 else -(2**63)
            starts.append(start), ends.append(end), steps.append(step)
        inputs = [key, self.numbers(starts), self.numbers(ends)]
        if self.flip(0.9) or axes != list(range(len(axes))) or set(steps) != {1}:
            shown = [axis - len(shape) if self.flip(0.2) else axis for axis in axes]
            inputs.append(self.numbers(shown))
            if set(steps) != {1} or self.flip(0.5):
                inputs.append(self.numbers(steps))
        self.used(self.host("Slice", inputs)[0])

    def op_host_split(self):
        """***"""
        key = self.any(test=lambda array: array.ndim > 0 and max(array.shape) > 1)
        shape = self.shape(key)
        axis = self.choice([axis for axis, dim in enumerate(shape) if dim > 1])
        place = self.random.randrange(1, shape[axis])
        for start, end in ((0, place), (place, shape[axis])):
            (part,) = self.host("Slice", [key, *(self.numbers([n], 0) for n in (start, end, axis))])
            self.used(part)

    def op_host_reshape(self):
        """******"""
        key = self.any()
        shape = list(self.shape(key))
        how = self.random.randrange(5)
        if how == 0 or not shape:
            shape = [-1] if math.prod(shape) else shape
        elif how == 1 and len(shape) > 1:
            axis = self.random.randrange(len(shape) - 1)
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif how == 2:
            shape.insert(self.random.randrange(len(shape) + 1), 1)
        elif how == 3:
            axis = self.random.randrange(len(shape))
            factor = self.choice([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0] or [1])
            shape[axis : axis + 1] = [factor, shape[axis] // factor]
        else:
            self.random.shuffle(shape)
        if len(shape) > 7:
            raise Skip
        if math.prod(shape) > 0 and self.flip(0.3):
            shape[self.random.randrange(len(shape))] = -1
        self.used(self.host("Reshape", [key, self.numbers(shape)])[0])

    def op_host_transpose(self):
        """******"""
        key = self.any()
        order = list(range(len(self.shape(key))))
        self.random.shuffle(order)
        self.used(self.host("Transpose", [key], {"order": order})[0])

    def op_host_axes(self):
        """***"""
        key = self.any(test=lambda array: array.ndim < 6)
        shape = self.shape(key)
        ones = [axis for axis, dim in enumerate(shape) if dim == 1]
        if ones and self.flip(0.6):
            axes = self.random.sample(ones, self.random.randrange(1, len(ones) + 1))
            axes = [axis - len(shape) if self.flip(0.3) else axis for axis in axes]
            self.used(self.host("Squeeze", [key], {"axes": axes})[0])
        else:
            count = self.choice([1, 1, 2])
            axes = self.random.sample(range(len(shape) + count), count)
            axes = [axis - len(shape) - count if self.flip(0.3) else axis for axis in axes]
            self.used(self.host("Unsqueeze", [key], {"axes": axes})[0])

    def op_host_expand(self):
        """****"""
        key = self.any(test=lambda array: array.size < 500 and array.ndim < 6)
        shape = [self.dim() if dim == 1 and self.flip(0.7) else self.choice([1, dim]) for dim in self.shape(key)]
        if self.flip(0.3):
            shape.insert(0, self.choice([1, 2, 3]))
        elif shape and self.flip(0.2):
            del shape[0]
        self.used(self.host("Expand", [key, self.numbers(shape)])[0])

    # Other movements --------------------------------------------------------------------------------------------------

    def op_host_concat(self):
        """***"""
        key = self.any(test=lambda array: array.ndim > 0)
        shape = self.shape(key)
        axis = self.random.randrange(len(shape))
        keys = [key]
        for _ in range(self.choice([0, 1, 2])):
            other = [self.dim() if a == axis else dim for a, dim in enumerate(shape)]
            keys.append(self.like(key) if self.flip(0.4) else self.source(other, self.dtype_of(key)))
        self.random.shuffle(keys)
        self.used(self.host("Concat", keys, {"axis": axis - len(shape) if self.flip(0.3) else axis})[0])

    def op_host_pad(self):
        """**"""
        key = self.any(test=lambda array: array.size < 2000 and array.ndim > 0)
        rank = len(self.shape(key))
        mode = self.choice(["constant", "constant", "edge"]) if self.array(key).size else "constant"
        pads = [self.choice([0, 0, 1, 2, -1 if min(self.shape(key)) > 2 else 0]) for _ in range(2 * rank)]
        value = [self.source([], self.dtype_of(key))] if mode == "constant" and self.flip(0.5) else []
        self.used(self.host("Pad", [key, self.numbers(pads), *value], {"mode": mode})[0])

    def op_host_tile(self):
        """*"""
        key = self.any(test=lambda array: array.size < 500)
        self.used(self.host("Tile", [key, self.numbers([self.choice([0, 1, 1, 2, 3]) for _ in self.shape(key)])])[0])

    def op_host_gather(self):
        """***"""
        key = self.any(test=lambda array: array.ndim > 0 and min(array.shape) > 0 and array.size < 2000)
        rank = len(self.shape(key))
        axis = self.random.randrange(rank)
        size = self.shape(key)[axis]
        found = [self.random.randrange(-size, size) for _ in range(self.choice([0, 1, 2, 5]))]
        places = self.numbers(found)
        if len(found) == 1 and self.flip(0.5):
            (places,) = self.host("Squeeze", [places], {"axes": [0]})
        self.used(self.host("Gather", [key, places], {"axis": axis - rank if self.flip(0.3) else axis})[0])

    def op_host_where(self):
        """**"""
        key = self.any(test=lambda array: array.ndim < 6)
        shape = self.operand(self.shape(key))
        dtype = self.dtype_of(key)
        other = self.source(self.operand(self.shape(key)), dtype)
        conditions = [k for k in self.pool if self.dtype_of(k) == "boolean" and list(self.shape(k)) == shape]
        condition = self.choice(conditions) if conditions and self.flip(0.7) else self.source(shape, "boolean")
        self.used(self.host("Where", [condition, *((key, other) if self.flip(0.5) else (other, key))])[0])

    def op_host_cast(self):
        """****"""
        key = self.any()
        to = self.choice(TYPES) if self.flip(0.5) else self.dtype
        low = float(self.array(key).astype(np.float64).min(initial=0))
        if (to == "u8" and low < 0) or np.abs(self.array(key).astype(np.float64)).max(initial=0) > 100:
            raise Skip
        self.used(self.host("Cast", [key], dtype=to)[0])

    # Arithmetic -------------------------------------------------------------------------------------------------------

    def op_host_binary(self):
        """***"""
        key = self.any(types=(*INTEGERS, *FLOATS, "float64"))
        other = self.source(self.operand(self.shape(key)), self.dtype_of(key))
        kind = self.choice(["Add", "Subtract", "Multiply", "Maximum", "Equal", "Less", "GreaterEqual"])
        self.used(self.host(kind, [key, other] if self.flip(0.7) else [other, key])[0])

    def op_host_unary(self):
        """**"""
        key = self.any(types=(*INTEGERS, *FLOATS))
        floats = ["Sin", "Ceil", "Floor", "Negative", "Sign", "IsNaN"]
        self.used(self.host(self.choice(floats if self.dtype_of(key) in FLOATS else ["Negative", "Abs"]), [key])[0])

    def op_host_reduce(self):
        """**"""
        key = self.any(types=INTEGERS, test=lambda array: array.ndim > 0 and array.size > 0)
        axes = self.numbers(self.random.sample(range(len(self.shape(key))), 1))
        kind = self.choice(["ReduceSum", "ReduceMax", "ReduceMin"])
        self.host(kind, [key, axes], {"keep_dims": self.flip(0.5)})

    def op_host_order(self):
        """**"""  # of integers: rounding may change the order of floats
        key = self.any(types=INTEGERS, test=lambda array: array.ndim > 0 and array.size > 0)
        axis = self.random.randrange(len(self.shape(key)))
        kind = self.choice(["CumSum", "ArgMax", "ArgMin", "TopK"])
        if kind == "TopK":
            self.host(kind, [key, self.numbers([self.random.randrange(self.shape(key)[axis] + 1)])], {"axis": axis})
        else:
            self.host(kind, [key], {"axis": axis})

    # Shapes -----------------------------------------------------------------------------------------------------------

    def op_host_shape_chain(self):
        """****"""
        key = self.any(test=lambda array: 1 < array.ndim < 6)
        (dims,) = self.host("Shape", [key])
        if self.flip(0.5):
            (first,) = self.host("Slice", [dims, *(self.numbers([n], 0) for n in (0, 1))])
            if 0 in self.shape(key):
                raise Skip
            (dims,) = self.host("Concat", [first, self.numbers([-1], 0)], {"axis": 0})
        else:
            (dims,) = self.host("Gather", [dims, self.numbers(range(len(self.shape(key)))[::-1])], {"axis": 0})
        self.used(self.host("Reshape", [key, dims])[0])

    def op_host_open(self):
        """**"""
        key = self.any(types=(*INTEGERS, "boolean"), test=lambda array: 0 < array.ndim < 4)
        (places,) = self.host("NonZero", [key])
        (rows,) = self.host("Transpose", [places], {"order": [1, 0]})
        self.used(self.host("GatherND", [key, rows])[0])

    def op_host_range(self):
        """*"""
        ends = [
            self.builder.add({"op": "constant", "dtype": "s64", "shape": [], "data": ["exact", n]})[0]
            for n in (self.random.randrange(3), self.random.randrange(9), self.choice([1, 2, -1]))
        ]
        self.used(self.host("Range", ends)[0])


def random_host_recipe(random, n_ops=10):
    """Steps of a valid random graph with host ops."""
    return HostGenerator(random, n_ops).make()
