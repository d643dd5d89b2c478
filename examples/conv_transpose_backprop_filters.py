"""ConvTransposeBackpropFilters-1 from a dictionary of attributes, in the names of the edition legacy-1.

In legacy-1, the filter of a ConvTranspose is OIX = (out / groups, in, X) or XIO = (X, in, out / groups). Later editions
swap the two channel axes. The array keeps the axis order of its edition, and no data is moved.
"""

import numpy as np

import onegraph as og

attrs = {
    "strides": [2, 2],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "output_padding": [1, 1],
    "filter_format": "OIX",
    "filter_shape": [4, 6, 3, 3],
}
rng = np.random.default_rng(0)
arrays = {
    "input_forward": rng.standard_normal((2, 5, 5, 6)).astype(np.float32),
    "output_delta": rng.standard_normal((2, 12, 12, 4)).astype(np.float32),
}

g = og.Graph(edition="legacy-1")
inputs = [g.input(name, array.dtype, array.shape) for name, array in arrays.items()]
g.output("filter_delta", g.op("ConvTransposeBackpropFilters", inputs, attrs))
model = g.compile()
filter_delta = model(**arrays)
print(model)

# By hand: in the forward op, input (y, x) times filter (kh, kw) is added to output (2y + kh, 2x + kw).
x, dy = arrays["input_forward"], arrays["output_delta"]
by_hand = np.empty((4, 6, 3, 3))
for kh, kw in np.ndindex(3, 3):
    by_hand[:, :, kh, kw] = np.einsum("nyxi,nyxo->oi", x, dy[:, kh : kh + 10 : 2, kw : kw + 10 : 2])
print(f"filter_delta {filter_delta.shape}, off from the sum by hand by {abs(filter_delta - by_hand).max():.1e}")

# The shape can also be a tensor: a constant, or an input that is read at every call.
del attrs["filter_shape"]
g = og.Graph(edition="legacy-1")
inputs = [g.input(name, array.dtype, array.shape) for name, array in arrays.items()]
shape = g.input("filter_shape", og.s32, (4,))
g.output("filter_delta", g.op("ConvTransposeBackpropFilters", [*inputs, shape], attrs))
again = g.compile()(**arrays, filter_shape=np.array([4, 6, 3, 3], np.int32))
print(f"with the shape as a tensor: {again.shape}, equal {np.array_equal(again, filter_delta)}")
