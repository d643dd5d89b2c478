"""ConvolutionBackpropData-1 from a dictionary of attributes, in the names of the edition legacy-1.

The library never compiles this op with groups, or with its shape as a tensor. So onegraph gives it the ConvTranspose
with the same weights; report() shows this. With same_upper, the odd element of the padding is at the end, as in the
text of the specification. The formula on the same page has the odd element at the beginning.
"""

import numpy as np

import onegraph as og

attrs = {
    "strides": [2, 2],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "auto_pad": "same_upper",
    "groups": 2,
    "filter_format": "XIO",
}
rng = np.random.default_rng(0)
output_delta = rng.standard_normal((1, 4, 4, 6)).astype(np.float32)
weights = rng.standard_normal((3, 3, 2, 6)).astype(np.float32)  # (X, in / groups, out)

g = og.Graph(edition="legacy-1")
dy = g.input("output_delta", og.f32, output_delta.shape)
shape = g.constant(np.array([1, 8, 8, 4], np.int32))
dx = g.output("input_delta", g.op("ConvolutionBackpropData", [dy, g.constant(weights), shape], attrs))
print(f"inferred from the constant shape: {dx.shape}")
model = g.compile()
input_delta = model(output_delta)
print(model)

# By hand: the total padding is 2 * (4 - 1) + 3 - 8 = 1, at the end. So (y, x) and kh meet at position 2y + kh.
padded = np.zeros((1, 9, 9, 4))
for kh, kw in np.ndindex(3, 3):
    for group in range(2):
        outs, ins = slice(3 * group, 3 * group + 3), slice(2 * group, 2 * group + 2)
        part = np.einsum("nyxo,io->nyxi", output_delta[..., outs], weights[kh, kw][:, outs])
        padded[:, kh : kh + 8 : 2, kw : kw + 8 : 2, ins] += part
by_hand = padded[:, :8, :8]
print(f"input_delta {input_delta.shape}, off from the sum by hand by {abs(input_delta - by_hand).max():.1e}")
