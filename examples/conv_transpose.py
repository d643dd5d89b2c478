"""ConvTranspose from a dictionary of attributes, in the names of the oneDNN guide 3.13.

The page of the guide has two pairs of names for the format of the weights: OIX and XIO in the table, IOX and XOI in a
note. onegraph accepts both pairs and reports a note. For every number of groups, OIX and IOX mean
(in, out / groups, X), and XIO and XOI mean (X, out / groups, in).
"""

import ml_dtypes
import numpy as np

import onegraph as og

attrs = {
    "strides": [3],
    "pads_begin": [1],
    "pads_end": [0],
    "dilations": [2],
    "output_padding": [1],
    "weights_format": "OIX",
}
for violation in og.check_attrs("ConvTranspose", attrs):
    print(violation)

rng = np.random.default_rng(0)
for dtype, tolerance in ((np.float32, 1e-5), (ml_dtypes.bfloat16, 2**-7), (np.float16, 2**-9)):
    src = rng.integers(-8, 9, (2, 6, 4)).astype(dtype)  # small integers are exact in every data type
    weights = rng.integers(-8, 9, (4, 5, 3)).astype(dtype)
    bias = rng.integers(-8, 9, 5).astype(dtype)
    g = og.Graph()
    x = g.input("src", dtype, src.shape)
    g.output("dst", g.op("ConvTranspose", [x, g.constant(weights), g.constant(bias)], attrs))
    model = g.compile()
    dst = model(src)

    # By hand: add element x of src times kernel element k to position 3x + 2k, then cut the padding at the beginning.
    full = np.zeros((2, 3 * 5 + 5 + 1, 5))
    for x_, k in np.ndindex(6, 3):
        full[:, 3 * x_ + 2 * k] += src[:, x_].astype(float) @ weights[:, :, k].astype(float)
    by_hand = full[:, 1:] + bias.astype(float)
    error = abs(dst.astype(float) - by_hand).max() / abs(by_hand).max()
    print(f"{model.outputs[0].dtype}: {dst.shape}, off by {error:.1e}, by {model.report().partitions[0].executor}")
    assert error <= tolerance
