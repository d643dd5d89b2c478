"""Training steps as one graph: forward, gradients and the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import onegraph as og
from onegraph import training

from .network import EPSILON, Network, Tensor, sizes
from .optimizers import Optimizer
from .parameters import Parameters


class Training(Network):
    """The layers of a model that is trained. Its parameters are f32; layers compute in ``dtype``.

    Args:
        parameters: the parameters at the start.
        dtype: of activations and products.
        optimizer: one for all parameters.
    """

    def __init__(self, parameters: Parameters, dtype: og.DataType, optimizer: Optimizer) -> None:
        super().__init__(parameters, dtype)
        self._optimizer = optimizer
        self._now: dict[str, Tensor] = {}  # variables, and their new values when they have them
        self._used: dict[tuple[str, og.DataType], Tensor] = {}  # parameters, cast
        self._ends: dict[int, list[tuple[Tensor, Tensor]]] = {}  # by loss: the inputs of the function, and their copies
        self._updates = 0

    def _replace(self, name: str, value: Tensor) -> None:
        """From now on, a parameter has another value."""
        self._now[name] = value
        self._used = {key: tensor for key, tensor in self._used.items() if key[0] != name}

    def parameter(self, name: str, dtype: og.DataType | None = None) -> Tensor:
        key = name, dtype or self.dtype
        if key not in self._used:
            if name not in self._now:
                self._now[name] = self.graph.variable(name, self.parameters[name])
            whole = self._now[name]
            self._used[key] = whole if key[1] is og.f32 else self.graph.type_cast(whole, dtype=key[1])
        return self._used[key]

    def norm(self, x: Tensor, name: str) -> Any:
        if f"{name}_gamma" not in self.parameters:
            return x
        mean, variance, gamma, beta = (
            self.parameter(f"{name}_{part}", og.f32) for part in ("mean", "variance", "gamma", "beta")
        )
        done = self.graph.batch_norm_forward_training(x, mean, variance, gamma, beta, epsilon=EPSILON, momentum=0.9)
        self._replace(f"{name}_mean", done.running_mean)
        self._replace(f"{name}_variance", done.running_variance)
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
        return g.multiply(g.reduce_mean(found, axes=[0, 1]), self.graph.constant(np.full(1, -1, np.float32)))

    def judgement(self, x: Any, target: int) -> Any:
        """The cross entropy of scores of one class, for images that all are (1) or are not (0)."""
        g, x = self.graph, self.wide(x)
        if target:
            x = g.multiply(x, self.graph.constant(np.full(1, -1, np.float32)))
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
        """Add an output for each loss, and keep the statistics of batch normalization."""
        for number, loss in enumerate(losses):
            self.graph.output(f"loss{number}", loss)
        variables, assigned = self.graph.variables, self.graph.assignments
        for name, value in self._now.items():
            if name not in assigned and value is not variables[name]:
                self.graph.assign(variables[name], value)

    # Steps -----------------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *inputs: Any, frozen: str = "") -> Any:
        if not frozen:
            return function(self, *inputs)
        # The frozen parameters may depend on the inputs. The inputs are the only way back to the other parameters.
        ends = [self.reshape(tensor, sizes(tensor)) for tensor in inputs]
        found = function(self, *ends)
        self._ends[found.id] = list(zip(inputs, ends, strict=True))
        return found

    def averaged(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        """The gradients that the optimizer gets."""
        return gradients

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
        optimizer = made(self._optimizer, f"optimizer{self._updates}")
        variables = [self.graph.variables[name] for name, _ in used]
        optimizer.update(self.graph, variables, self.averaged(gradients))
        self._updates += 1
        for name, _ in used:
            self._replace(name, self.graph.assignments[name])


def made(optimizer: Optimizer, name: str) -> training.Optimizer:
    if optimizer.kind == "SGD":
        return training.SGD(optimizer.rate, momentum=optimizer.momentum, name=name)
    numbers: dict[str, Any] = {"betas": optimizer.betas, "epsilon": optimizer.epsilon, "name": name}
    if optimizer.kind == "AdamW":
        return training.AdamW(optimizer.rate, weight_decay=optimizer.decay, **numbers)
    return training.Adam(optimizer.rate, **numbers)
