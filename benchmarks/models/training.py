"""Training steps as one graph: forward, gradients and the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import onegraph as og

from .network import EPSILON, Network, Tensor, sizes
from .optimizers import Optimizer
from .parameters import Parameters


class Training(Network):
    """The layers of a model that is trained. Its parameters are f32; layers compute in ``dtype``.

    Args:
        parameters: the parameters at the start.
        dtype: of activations and products.
        optimizer: one for all parameters.

    Attributes:
        state: the arrays at the start of everything that a step replaces, by name.
    """

    def __init__(self, parameters: Parameters, dtype: og.DataType, optimizer: Optimizer) -> None:
        super().__init__(parameters, dtype)
        self.state: dict[str, np.ndarray] = {}
        self._optimizer = optimizer
        self._now: dict[str, Tensor] = {}  # variables, and their new values when they have them
        self._used: dict[tuple[str, og.DataType], Tensor] = {}  # parameters, cast
        self._ends: dict[int, list[tuple[Tensor, Tensor]]] = {}  # by loss: the inputs of the function, and their copies
        self._counted: dict[str, Tensor] = {}

    def variable(self, name: str, array: np.ndarray) -> Tensor:
        """A tensor that a step reads and replaces."""
        if name not in self._now:
            self.state[name] = array
            self._now[name] = self.graph.input(name, og.DataType(str(array.dtype).replace("float", "f")), array.shape)
        return self._now[name]

    def assign(self, name: str, value: Tensor) -> None:
        self._now[name] = value
        self._used = {key: tensor for key, tensor in self._used.items() if key[0] != name}

    def parameter(self, name: str, dtype: og.DataType | None = None) -> Tensor:
        key = name, dtype or self.dtype
        if key not in self._used:
            whole = self.variable(name, self.parameters[name])
            self._used[key] = whole if key[1] is og.f32 else self.graph.type_cast(whole, dtype=key[1])
        return self._used[key]

    def norm(self, x: Tensor, name: str) -> Any:
        if f"{name}_gamma" not in self.parameters:
            return x
        mean, variance, gamma, beta = (
            self.parameter(f"{name}_{part}", og.f32) for part in ("mean", "variance", "gamma", "beta")
        )
        done = self.graph.batch_norm_forward_training(x, mean, variance, gamma, beta, epsilon=EPSILON, momentum=0.9)
        self.assign(f"{name}_mean", done.running_mean)
        self.assign(f"{name}_variance", done.running_variance)
        return done.dst

    def layer_norm(self, x: Any, name: str) -> Any:
        gamma, beta = (self.parameter(f"{name}_{part}", og.f32) for part in ("gamma", "bias"))
        return self.graph.layer_norm(x, gamma, beta, epsilon=EPSILON).dst

    # Losses ----------------------------------------------------------------------------------------------------------

    def rows(self, x: Any) -> Any:
        shape = sizes(x)
        return x if len(shape) == 2 else self.reshape(x, (int(np.prod(shape[:-1])), shape[-1]))

    def cross_entropy(self, x: Any, label: Any) -> Any:
        g, (rows, _) = self.graph, sizes(x)
        likely = g.log_softmax(self.wide(x), axis=-1)
        places = g.op("Reshape", [label, g.constant(np.array([rows, 1]), dtype=og.s64)], edition="host")
        found = g.op("GatherElements", [likely, places], {"axis": 1}, edition="host")
        return g.multiply(g.reduce_mean(found, axes=[0, 1]), self._number(-1))

    def judgement(self, x: Any, target: int) -> Any:
        """The cross entropy of scores of one class, for images that all are (1) or are not (0)."""
        g, x = self.graph, self.wide(x)
        if target:
            x = g.multiply(x, self._number(-1))
        return g.reduce_mean(g.softplus(x), axes=[0, 1, 2, 3])

    def detached(self, x: Any) -> Any:
        return x

    def wide(self, x: Any) -> Any:
        return x if x.dtype is og.f32 else self.graph.type_cast(x, dtype=og.f32)

    def given(self, name: str, array: np.ndarray) -> Tensor:
        """An input like an array. Images become ``dtype``."""
        if array.dtype.kind == "i":
            return self.graph.input(name, og.s64, array.shape)
        image = self.graph.input(name, og.f32, array.shape)
        return image if self.dtype is og.f32 else self.graph.type_cast(image, dtype=self.dtype)

    def finish(self, losses: list[Any]) -> None:
        """Add an output for each loss, and for the new value of each variable."""
        for number, loss in enumerate(losses):
            self.graph.output(f"loss{number}", loss)
        for name, value in self._now.items():
            if value.name not in self.graph.inputs:
                self.graph.output(f"new/{name}", value)

    # Steps -----------------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *inputs: Any, frozen: str = "") -> Any:
        if not frozen:
            return function(self, *inputs)
        # The frozen parameters may depend on the inputs. The inputs are the only way back to the other parameters.
        ends = [self.reshape(tensor, sizes(tensor)) for tensor in inputs]
        found = function(self, *ends)
        self._ends[found.id] = list(zip(inputs, ends, strict=True))
        return found

    def update(self, loss: Any, *prefixes: str) -> None:
        """Follow the gradient of a loss with respect to the parameters with these prefixes, or to all."""
        used = [
            (name, tensor)
            for (name, _), tensor in self._used.items()
            if not name.endswith(("_mean", "_variance")) and (not prefixes or name.startswith(prefixes))
        ]
        wrt, ends = [tensor for _, tensor in used], self._ends.get(loss.id)
        if ends is None:
            gradients = self.graph.gradient(loss, wrt)
        else:
            seeds = self.graph.gradient(loss, [end for _, end in ends])
            gradients = self.graph.gradient([origin for origin, _ in ends], wrt, seeds)
        for (name, _), gradient in zip(used, gradients, strict=True):
            self.assign(name, getattr(self, f"_{self._optimizer.kind.lower()}")(name, self.wide(gradient), prefixes))

    def _sgd(self, name: str, gradient: Tensor, prefixes: tuple[str, ...]) -> Tensor:
        g, o, now = self.graph, self._optimizer, self._now[name]
        momentum = g.add(g.multiply(self._zeros(f"{name}/momentum", now), self._number(o.momentum)), gradient)
        self.assign(f"{name}/momentum", momentum)
        return g.subtract(now, g.multiply(momentum, self._number(o.rate)))

    def _adam(self, name: str, gradient: Tensor, prefixes: tuple[str, ...], decay: float = 0.0) -> Tensor:
        g, o, now = self.graph, self._optimizer, self._now[name]
        first, second = (self._zeros(f"{name}/{part}", now) for part in ("first", "second"))
        rate, scale = self._corrections("/".join(prefixes))
        (b1, b2) = o.betas
        first = g.add(g.multiply(first, self._number(b1)), g.multiply(gradient, self._number(1 - b1)))
        second = g.add(g.multiply(second, self._number(b2)), g.multiply(g.square(gradient), self._number(1 - b2)))
        self.assign(f"{name}/first", first)
        self.assign(f"{name}/second", second)
        whole = g.add(g.multiply(g.sqrt(second), scale), self._number(o.epsilon))
        if decay:
            now = g.multiply(now, self._number(1 - o.rate * decay))
        return g.subtract(now, g.multiply(g.divide(first, whole), rate))

    def _adamw(self, name: str, gradient: Tensor, prefixes: tuple[str, ...]) -> Tensor:
        return self._adam(name, gradient, prefixes, self._optimizer.decay)

    def _number(self, value: float) -> Tensor:
        return self.graph.constant(np.full(1, value, np.float32))

    def _zeros(self, name: str, like: Tensor) -> Tensor:
        return self.variable(name, np.zeros(sizes(like), np.float32))

    def _corrections(self, group: str) -> tuple[Tensor, Tensor]:
        """The rate by which Adam divides the corrected moments, and the factor of the second moment's root."""
        g, o = self.graph, self._optimizer
        if group not in self._counted:
            powers = []
            for part, beta in zip(("first", "second"), o.betas, strict=True):
                name = f"{group}/power of {part}"
                self.assign(name, g.multiply(self.variable(name, np.ones(1, np.float32)), self._number(beta)))
                powers.append(g.subtract(self._number(1), self._now[name]))
            rate = g.divide(self._number(o.rate), powers[0])
            self._counted[group] = rate, g.divide(self._number(1), g.sqrt(powers[1]))
        return self._counted[group]
