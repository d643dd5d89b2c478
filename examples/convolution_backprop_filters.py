"""ConvolutionBackpropFilters-1 from a dictionary of attributes, in the names of the edition legacy-1: depthwise, 3D."""

import numpy as np

import onegraph as og

attrs = {
    "strides": [1, 2, 1],
    "pads_begin": [0, 0, 0],
    "pads_end": [0, 0, 0],
    "dilations": [1, 1, 2],
    "auto_pad": "valid",
    "groups": 3,
    "data_format": "NCX",
    "filter_format": "OIX",
    "filter_shape": [3, 1, 2, 3, 2],
}
rng = np.random.default_rng(0)
arrays = {
    "input_forward": rng.standard_normal((2, 3, 4, 7, 6)).astype(np.float32),
    "output_delta": rng.standard_normal((2, 3, 3, 3, 4)).astype(np.float32),
}

g = og.Graph(edition="legacy-1")
inputs = [g.input(name, array.dtype, array.shape) for name, array in arrays.items()]
g.output("filter_delta", g.op("ConvolutionBackpropFilters", inputs, attrs))
model = g.compile()
filter_delta = model(**arrays)
print(model)

# By hand: output (z, y, x) reads input (z + kd, 2y + kh, x + 2kw).
x, dy = arrays["input_forward"], arrays["output_delta"]
by_hand = np.empty((3, 1, 2, 3, 2))
for kd, kh, kw in np.ndindex(2, 3, 2):
    window = x[:, :, kd : kd + 3, kh : kh + 5 : 2, 2 * kw : 2 * kw + 4]
    by_hand[:, 0, kd, kh, kw] = np.einsum("nczyx,nczyx->c", window, dy)
print(f"filter_delta {filter_delta.shape}, off from the sum by hand by {abs(filter_delta - by_hand).max():.1e}")
