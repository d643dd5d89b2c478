"""ConvTransposeBackwardWeights from a dictionary of attributes, in the names of the oneAPI specification 1.4.

Several sizes of diff_dst fit one size of src, and output_padding selects one. The library refuses output_padding for
this op. It also refuses the lower-case auto_pad of the specification, and its own auto_pad is wrong for odd sizes. So
onegraph passes the padding as numbers.
"""

import numpy as np

import onegraph as og

attrs = {
    "strides": [2, 2],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "auto_pad": "same_upper",
    "output_padding": [1, 0],
    "groups": 2,
    "data_format": "NCX",
    "weights_format": "IOX",  # (in, out / groups, X)
    "weights_shape": [4, 3, 3, 3],
}
rng = np.random.default_rng(0)
src = rng.standard_normal((2, 4, 5, 5)).astype(np.float32)
diff_dst = rng.standard_normal((2, 6, 11, 10)).astype(np.float32)

g = og.Graph(edition="oneapi-1.4")
inputs = [g.input("src", og.f32, src.shape), g.input("diff_dst", og.f32, diff_dst.shape)]
g.output("diff_weights", g.op("ConvTransposeBackwardWeights", inputs, attrs))
model = g.compile()
diff_weights = model(src, diff_dst)
print(model)

# By hand: same_upper pads one element, at the end. So window element 0 is at position 2y of diff_dst.
padded = np.pad(diff_dst, ((0, 0), (0, 0), (0, 1), (0, 1)))
by_hand = np.empty((4, 3, 3, 3))
for kh, kw in np.ndindex(3, 3):
    window = padded[:, :, kh : kh + 10 : 2, kw : kw + 10 : 2]
    for group in range(2):
        ins, outs = slice(2 * group, 2 * group + 2), slice(3 * group, 3 * group + 3)
        by_hand[ins, :, kh, kw] = np.einsum("niyx,noyx->io", src[:, ins], window[:, outs])
print(f"diff_weights {diff_weights.shape}, off from the sum by hand by {abs(diff_weights - by_hand).max():.1e}")

try:
    g.op("ConvTransposeBackwardWeights", inputs, {**attrs, "output_padding": [0, 0]})
except og.SpecError as error:
    print(error)
