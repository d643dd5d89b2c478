"""Parameters of layers: random f32 arrays by name, in torch's axis order, which keep the scale of activations."""

from __future__ import annotations

import numpy as np

Parameters = dict[str, np.ndarray]


class Initial:
    """Adds random parameters to ``arrays``, layer by layer."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self.arrays: Parameters = {}

    def weight(self, name: str, shape: tuple[int, ...], fan_in: int) -> None:
        self.arrays[f"{name}_weight"] = self._normal(shape, np.sqrt(2 / fan_in))

    def bias(self, name: str, width: int) -> None:
        self.arrays[f"{name}_bias"] = self._normal((width,), 0.1)

    def gain(self, name: str, width: int, centre: float = 1.0) -> None:
        self.arrays[name] = (centre * self._rng.uniform(0.8, 1.2, width)).astype(np.float32)

    def norm(self, name: str, width: int, gain: float = 1.0) -> None:
        """Batch normalization after a layer."""
        self.gain(f"{name}_gamma", width, gain)
        self.gain(f"{name}_variance", width)
        for part in ("beta", "mean"):
            self.arrays[f"{name}_{part}"] = self._normal((width,), 0.1)

    def linear(self, name: str, out: int, source: int) -> None:
        self.weight(name, (out, source), 2 * source)
        self.bias(name, out)

    def layer_norm(self, name: str, width: int) -> None:
        self.gain(f"{name}_gamma", width)
        self.bias(name, width)

    def transformer(self, width: int, prefix: str = "") -> None:
        """A layer with attention, a feed-forward part and two layer normalizations."""
        shapes = dict.fromkeys(("query", "key", "value", "attended"), (width, width))
        shapes |= {"wide": (4 * width, width), "narrow": (width, 4 * width)}
        for name, shape in shapes.items():
            self.linear(f"{prefix}{name}", *shape)
        for name in ("norm1", "norm2"):
            self.layer_norm(f"{prefix}{name}", width)

    def table(self, name: str, rows: int, width: int) -> None:
        """An embedding, whose rows are small numbers."""
        self.arrays[f"{name}_weight"] = self._normal((rows, width), 0.02)

    def _normal(self, shape: tuple[int, ...], scale: float) -> np.ndarray:
        return (self._rng.standard_normal(shape) * scale).astype(np.float32)


def folded(parameters: Parameters, epsilon: float) -> Parameters:
    """The same layers with batch normalization folded into the weights and biases of the convolutions."""
    found = dict(parameters)
    for name in [key.removesuffix("_variance") for key in parameters if key.endswith("_variance")]:
        scale = found.pop(f"{name}_gamma") / np.sqrt(found.pop(f"{name}_variance") + epsilon)
        found[f"{name}_weight"] = found[f"{name}_weight"] * scale[:, None, None, None]
        found[f"{name}_bias"] = found.pop(f"{name}_beta") - found.pop(f"{name}_mean") * scale
    return found
