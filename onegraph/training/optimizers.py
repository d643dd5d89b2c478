"""Updates variables from gradients, in f32, with the formulas of PyTorch's optimizers.

The library fuses the ops of an update into a few kernels: each begins with a tensor of the size of the variable, and
goes on with numbers and with tensors of its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np

from .._util.validation import flag, number, string
from ..builder.graph import DataGraph
from ..builder.transaction import atomic
from ..builder.uses import depended_on
from ..errors import ArgumentError
from ..gradient import gradient
from ..ir.op import LogicalTensor
from ..lowering.emitter import Emitter
from ..lowering.movement import cast
from ..opset.dtypes import DataType
from ..opset.shapes import known_dims
from .arguments import MOST, expect_free, expect_shape, rate_of, tensors_of, two_numbers

TINY = 1e-30
BELOW_ONE = math.nextafter(1, 0)
Rate = float | LogicalTensor
Tensors = tuple[LogicalTensor, ...]


class Optimizer:
    """Updates variables from gradients. :class:`SGD`, :class:`Adam` and :class:`AdamW` are optimizers.

    What an optimizer keeps for a variable is a variable too, ``<variable>/<name>/<slot>``, and zeros at first.

    Attributes:
        lr: the learning rate: a number, or a tensor.
        name: of the optimizer; a second one of the same class in a graph needs another name.
        slots: the names of the tensors that it keeps for each variable.
    """

    slots: Sequence[str] = ()

    def __init__(self, lr: Rate, name: str) -> None:
        kind = type(self).__name__
        self.lr, self.name = rate_of(f"{kind}: lr", lr), string(f"{kind}: name", name)

    @property
    def _steps(self) -> str:
        """The name of the variable that counts steps, for optimizers that do."""
        return f"{self.name}/step"

    @atomic
    def minimize(
        self, graph: DataGraph, loss: LogicalTensor | str, variables: Sequence[LogicalTensor | str] | None = None
    ) -> tuple[LogicalTensor, ...]:
        """Differentiate a loss, update variables against its gradients, and return the gradients.

        Args:
            graph: the graph to add ops to.
            loss: the tensor to make smaller, or its name.
            variables: f32 variables of the graph, or their names; by default those that the loss depends on and nothing
                assigns yet.

        Raises:
            UnsupportedError: an op between has no gradient.
            ArgumentError: as for ``update``; or ``variables`` is left out, and the loss depends on none.
        """
        chosen = _trained(graph, loss) if variables is None else variables
        gradients_found = gradient(graph, loss, tensors_of(graph, "minimize: variables", chosen, [DataType.f32]))
        self.update(graph, chosen, gradients_found)
        return gradients_found

    @atomic
    def update(
        self, graph: DataGraph, variables: Sequence[LogicalTensor | str], gradients: Sequence[LogicalTensor]
    ) -> None:
        """Assign to each variable its value after one step.

        Args:
            graph: the graph to add ops to.
            variables: f32 variables of the graph, or their names.
            gradients: one for each variable, of its shape.

        Raises:
            ArgumentError: a variable is not an f32 variable of this graph or is assigned already, a gradient does not
                fit its variable, or the learning rate is no f32 tensor of this graph with one element.
        """
        own = tensors_of(graph, "update: variables", variables, [DataType.f32])
        listed = tensors_of(graph, "update: gradients", gradients)
        if len(own) != len(listed):
            raise ArgumentError(f"update: gradients: {len(listed)}; expected {len(own)}, one for each variable")
        for place, (variable, slope) in enumerate(zip(own, listed, strict=True)):
            expect_shape(f"update: gradients[{place}]", slope, variable.shape, f"as {variable.name!r} has")
        expect_free(graph, "update: variables", own)
        names = {variable.name: [f"{variable.name}/{self.name}/{slot}" for slot in self.slots] for variable in own}
        for name in [self._steps, *chain(*names.values())]:
            if name in graph.variables:
                raise ArgumentError(f"update: {name!r} is taken by another optimizer; give this one another name")
        emit, shared = Emitter(graph), self._shared(graph, self._rate(graph))
        for variable, slope in zip(own, listed, strict=True):
            zeros = np.broadcast_to(np.float32(0), known_dims(variable.shape))  # one number in memory
            kept = [graph.variable(name, zeros) for name in names[variable.name]]
            new = self._step(graph, shared, variable, emit.tensor(cast(emit, slope, DataType.f32)), *kept)
            for target, value in zip((variable, *kept), new, strict=True):
                graph.assign(target, value)

    def _rate(self, graph: DataGraph) -> LogicalTensor:
        """The learning rate as a scalar of the graph."""
        if isinstance(self.lr, float):
            return graph.constant(np.float32(self.lr))
        (rate,) = tensors_of(graph, f"{type(self).__name__}: lr", [self.lr], [DataType.f32])
        if rate.shape == (1,):
            return graph.static_reshape(rate, shape=[], special_zero=False)
        expect_shape(f"{type(self).__name__}: lr", rate, (), "one number")
        return rate

    def _shared(self, graph: DataGraph, rate: LogicalTensor) -> Tensors:
        """The scalars that the steps of all variables use."""
        raise NotImplementedError

    def _step(
        self, graph: DataGraph, shared: Tensors, variable: LogicalTensor, slope: LogicalTensor, *kept: LogicalTensor
    ) -> Tensors:
        """The new value of a variable with a gradient, and those of the tensors that are kept for it."""
        raise NotImplementedError


class SGD(Optimizer):
    """Gradient descent, as PyTorch's ``SGD`` without dampening.

    With ``d = gradient + weight_decay * variable``: ``v = momentum * v + d``, and ``variable -= lr * v``. Nesterov's
    form is ``variable -= lr * (d + momentum * v)``.

    Args:
        lr: the learning rate: a number, or an f32 tensor of the graph with one element, such as an input.
        momentum: the share of the old direction, 0 to 1.
        weight_decay: the factor of the L2 penalty.
        nesterov: whether to use Nesterov's form; it needs a momentum.
        name: of the optimizer.

    Raises:
        ArgumentError: an argument is out of range.
    """

    def __init__(
        self,
        lr: Rate,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        name: str = "sgd",
    ) -> None:
        super().__init__(lr, name)
        self.momentum = number("SGD: momentum", momentum, 0, 1)
        self.weight_decay = number("SGD: weight_decay", weight_decay, 0, MOST)
        self.nesterov = flag("SGD: nesterov", nesterov)
        if nesterov and not momentum:
            raise ArgumentError("SGD: momentum: 0; expected a number above 0, because nesterov is True")
        self.slots = ("momentum",) if momentum else ()

    def _shared(self, graph: DataGraph, rate: LogicalTensor) -> Tensors:
        return (-rate,)

    def _step(
        self, graph: DataGraph, shared: Tensors, variable: LogicalTensor, slope: LogicalTensor, *kept: LogicalTensor
    ) -> Tensors:
        (down,) = shared
        if self.weight_decay:
            slope = variable * self.weight_decay + slope
        if not kept:
            return (slope * down + variable,)
        direction = kept[0] * self.momentum + slope
        way = direction * self.momentum + slope if self.nesterov else direction
        return way * down + variable, direction


class Adam(Optimizer):
    """Adam, as PyTorch's ``Adam``.

    With ``d = gradient + weight_decay * variable`` in step t, ``m = beta1 * m + (1 - beta1) * d`` and
    ``v = beta2 * v + (1 - beta2) * d * d``:
    ``variable -= lr * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + epsilon)``. The variable ``<name>/step``
    holds t.

    Args:
        lr: the learning rate: a number, or an f32 tensor of the graph with one element, such as an input.
        betas: beta1 and beta2, from 0 to below 1.
        epsilon: is added to the root.
        weight_decay: the factor of the L2 penalty.
        name: of the optimizer.

    Raises:
        ArgumentError: an argument is out of range.
    """

    slots = ("mean", "square")

    def __init__(
        self,
        lr: Rate = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        name: str = "adam",
    ) -> None:
        super().__init__(lr, name)
        kind = type(self).__name__
        self.betas = two_numbers(f"{kind}: betas", betas, 0, BELOW_ONE)
        self.epsilon = number(f"{kind}: epsilon", epsilon, 0, MOST)
        self.weight_decay = number(f"{kind}: weight_decay", weight_decay, 0, MOST)

    def _shared(self, graph: DataGraph, rate: LogicalTensor) -> Tensors:
        steps = graph.variable(self._steps, np.float32(0))
        count = steps + 1.0
        graph.assign(steps, count)
        first, second = (_one_minus_power(graph, beta, count) for beta in self.betas)
        return -rate / first, second

    def _step(
        self, graph: DataGraph, shared: Tensors, variable: LogicalTensor, slope: LogicalTensor, *kept: LogicalTensor
    ) -> Tensors:
        if self.weight_decay:
            slope = variable * self.weight_decay + slope
        return self._moved(graph, shared, variable, slope, *kept)

    def _moved(
        self,
        graph: DataGraph,
        shared: Tensors,
        variable: LogicalTensor,
        slope: LogicalTensor,
        mean: LogicalTensor,
        square: LogicalTensor,
    ) -> Tensors:
        """One step from a variable, or from what weight decay leaves of it."""
        down, correction = shared[:2]
        mean = _average(mean, slope, self.betas[0])
        square = _average(square, slope * slope, self.betas[1])
        root = graph.sqrt(square / correction) + self.epsilon
        return mean / root * down + variable, mean, square


class AdamW(Adam):
    """Adam with decoupled weight decay, as PyTorch's ``AdamW``: first ``variable *= 1 - lr * weight_decay``.

    Args:
        lr: the learning rate: a number, or an f32 tensor of the graph with one element, such as an input.
        betas: beta1 and beta2, from 0 to below 1.
        epsilon: is added to the root.
        weight_decay: how fast variables decay.
        name: of the optimizer.

    Raises:
        ArgumentError: an argument is out of range.
    """

    def __init__(
        self,
        lr: Rate = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 1e-2,
        name: str = "adamw",
    ) -> None:
        super().__init__(lr, betas=betas, epsilon=epsilon, weight_decay=weight_decay, name=name)

    def _shared(self, graph: DataGraph, rate: LogicalTensor) -> Tensors:
        return *super()._shared(graph, rate), 1 - rate * self.weight_decay

    def _step(
        self, graph: DataGraph, shared: Tensors, variable: LogicalTensor, slope: LogicalTensor, *kept: LogicalTensor
    ) -> Tensors:
        return self._moved(graph, shared, variable * shared[2], slope, *kept)


def _average(old: LogicalTensor, new: LogicalTensor, beta: float) -> LogicalTensor:
    """beta * old + (1 - beta) * new, as one chain of ops without a difference, which could lose digits."""
    return new if beta < TINY else (new * ((1 - beta) / beta) + old) * beta


def _one_minus_power(graph: DataGraph, beta: float, count: LogicalTensor) -> LogicalTensor:
    """1 - beta**count, as 2 * tanh(y / 2) / (1 + tanh(y / 2)) with y = -count * log(beta).

    A difference of numbers close to 1 would lose most of the digits of f32.
    """
    half = graph.tanh(count * (-math.log(max(beta, TINY)) / 2))
    return half * 2.0 / (half + 1.0)


def _trained(graph: DataGraph, loss: LogicalTensor | str) -> list[LogicalTensor]:
    """The f32 variables that a loss depends on and nothing assigns."""
    (end,) = tensors_of(graph, "minimize: loss", [loss])
    before = depended_on(graph, [end])
    read = {end.id, *(source.id for op in graph.ops if op.id in before for source in op.inputs if source is not None)}
    free = [variable for name, variable in graph.variables.items() if name not in graph.assignments]
    chosen = [variable for variable in free if variable.id in read and variable.dtype is DataType.f32]
    if not chosen:
        raise ArgumentError("minimize: the loss depends on no f32 variable that is not assigned; expected one at least")
    return chosen
