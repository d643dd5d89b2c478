"""Build a graph, run it, and read the report."""

import numpy as np

import onegraph as og

rng = np.random.default_rng(0)
weights = rng.standard_normal((3, 3, 3, 16)).astype(np.float32)  # XIO: spatial axes, in, out

g = og.Graph()
src = g.input("src", og.f32, (8, 32, 32, 3))  # NXC: batch, spatial axes, channels
conv = g.convolution(src, g.constant(weights), pads_begin=1, pads_end=1)
dst = g.output("dst", g.relu(conv))
print(f"inferred before anything is compiled: {dst.dtype} {dst.shape}")

model = g.compile()
x = rng.standard_normal((8, 32, 32, 3)).astype(np.float32)
y = model(src=x)
print(f"run on an array: {y.shape}, mean {y.mean():.4f}")
print("\nby default:", model.report(), sep="\n")

# oneDNN's ReLU of NaN is 0, so a kernel of onegraph computes the ReLU. If no NaN occurs, the library can fuse it.
print("\nwith finite_math=True:", g.compile(finite_math=True).report(), "", sep="\n")

# A bound run: the arrays are bound once, their contents may change, and a run has no work per array.
run = model.bind(src=x, dst=np.empty_like(y))
x *= 2
print(f"doubled input, doubled output: {np.allclose(run.run(), 2 * y, rtol=1e-5)}")

# The reference computes every op in numpy, from the formulas of the specification.
exact = og.reference.run(g, {"src": x})["dst"]
print(f"largest difference from the reference: {np.abs(run.run() - exact).max():.1e}")
