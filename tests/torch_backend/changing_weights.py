"""Random sequences of calls and changes of weights, of compiled modules and of eager ones.

Run ``python -m tests.torch_backend.changing_weights --calls 10000 --seed 0``. It prints the number of wrong answers.
With ``--threads N``, so many other threads call the modules all the time, also while a weight is written.
"""

import argparse
import copy
import gc
import random
import sys
import tempfile
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import torch

import onegraph.torch

from .program_runs import LESS_EXACT, ROUNDINGS

nn, functional = torch.nn, torch.nn.functional


class Scaled(nn.Module):
    """A linear layer whose result is scaled by numbers that are computed from weights alone."""

    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(12, 12), nn.Parameter(torch.randn(12, 12))

    def forward(self, x):
        return self.linear(x) * self.scale.sum(0).tanh() + self.scale.square().mean()


class Words(nn.Module):
    """An embedding whose table may be the weight of the last layer."""

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(9, 8), nn.Linear(8, 9, bias=False)

    def forward(self, x):
        places = (x[:, :4] * 3).long().remainder(9)
        return self.last(functional.gelu(self.table(places)).sum(1))


def convolution():
    return nn.Sequential(nn.Unflatten(1, (3, 4)), nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten())


def wide():
    """Weights on pages of their own."""
    return nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3))


MODULES = {"scaled": Scaled, "words": Words, "convolution": convolution, "wide": wide}
MODES = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode, "grad": torch.enable_grad}


# Changes after which another thread may read freed memory, also in eager mode, or find no weight.
ALONE = "by_new_data", "by_a_flat_buffer", "by_swapping", "by_sharing", "by_remaking_at_the_same_place"


def floats(module):
    return [one for one in (*module.parameters(), *module.buffers()) if one.is_floating_point()]


def one_of(module, draw):
    return draw.choice(floats(module))


def positive(tensor):
    """New contents, which are no smaller than 0, as a variance must be."""
    return torch.rand_like(tensor, requires_grad=False) + 0.1


def owner_of(module, tensor):
    for part in module.modules():
        for name, value in (*part._parameters.items(), *part._buffers.items()):
            if value is tensor:
                return part, name
    raise LookupError


def by_copy(module, draw):
    with torch.no_grad():
        one = one_of(module, draw)
        one.copy_(positive(one))


def by_data(module, draw):
    one = one_of(module, draw)
    one.data.mul_(1.5).clamp_(max=2)


def by_new_data(module, draw):
    one = one_of(module, draw)
    one.data = positive(one)


def by_detach(module, draw):
    one = one_of(module, draw)
    one.detach().view(-1)[draw.randrange(one.numel())] = draw.random()


def by_numpy(module, draw):
    one = one_of(module, draw)
    one.detach().numpy()[...] = positive(one).numpy()


def by_dlpack(module, draw):
    one = one_of(module, draw)
    torch.from_dlpack(one.detach()).mul_(0.5)


def by_foreach(module, draw):
    tensors = [one.data for one in floats(module)]
    torch._foreach_mul_(tensors, 0.9)


def by_inference_mode(module, draw):
    with torch.inference_mode():
        one = one_of(module, draw)
        one.copy_(positive(one))


def by_a_flat_buffer(module, draw):
    """Moves all parameters into one buffer, as distributed training does, and writes to the buffer."""
    parameters = dict.fromkeys(module.parameters())
    flat = torch.cat([one.detach().reshape(-1) for one in parameters])
    start = 0
    for one in parameters:
        one.data = flat[start : start + one.numel()].view(one.shape)
        start += one.numel()
    flat.mul_(0.95)
    module.flat = [flat]


def through_the_flat_buffer(module, draw):
    for flat in getattr(module, "flat", []):
        flat[draw.randrange(len(flat))] += 0.5


def by_a_file(module, draw):
    """The system writes the contents of a file into the memory."""
    one = one_of(module, draw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights"
        path.write_bytes(positive(one).numpy().tobytes())
        with path.open("rb", buffering=0) as file:
            file.readinto(memoryview(one.detach().numpy()).cast("B"))


def by_replacing(module, draw):
    part, name = owner_of(module, one_of(module, draw))
    value = getattr(part, name)
    if isinstance(value, nn.Parameter):
        setattr(part, name, nn.Parameter(positive(value)))
    else:
        setattr(part, name, positive(value))


def by_remaking_at_the_same_place(module, draw):
    part, name = owner_of(module, draw.choice([*module.parameters()]))
    shape = getattr(part, name).shape
    delattr(part, name)
    gc.collect()
    setattr(part, name, nn.Parameter(torch.rand(shape) + 0.1))


def by_swapping(module, draw):
    one = one_of(module, draw)
    new = positive(one)
    one.data, new = new, one.data


def by_loading(module, draw):
    state = {key: positive(one) if one.is_floating_point() else one.clone() for key, one in module.state_dict().items()}
    module.load_state_dict(state, assign=draw.random() < 0.3)


def by_an_optimizer(module, draw):
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    for one in module.parameters():
        one.grad = torch.ones_like(one)
    optimizer.step()
    optimizer.zero_grad()


def by_tying(module, draw):
    if isinstance(module, Words):
        module.last.weight = module.table.weight


def by_sharing(module, draw):
    if not getattr(module, "flat", None):  # the buffer would keep the old memory
        module.share_memory()


def by_reset(module, draw):
    for part in module.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()


CHANGES = {
    name: function
    for name, function in globals().copy().items()
    if name.startswith(("by_", "through_")) and callable(function)
}


class Model:
    """A module, and the compiled forms of it and of a clone that runs the same code."""

    def __init__(self, name, draw, options):
        self.name, self.draw = name, draw
        self.modules = [MODULES[name]().eval() for _ in range(2)]
        self.dynamic = draw.random() < 0.3
        self.options = options
        for one in self.modules:
            one.compile(backend=onegraph.torch.backend, dynamic=self.dynamic or None, options=options)
        self.kept, self.calling = [], threading.Lock()

    def change(self):
        """Change one module, and return the name of the change."""
        name = self.draw.choice([*CHANGES])
        with self.calling if name in ALONE else nullcontext():
            CHANGES[name](self.draw.choice(self.modules), self.draw)
        return name

    def is_right(self, mode):
        """Whether a compiled module is as near to float64 as eager, and earlier answers stay as they were."""
        rows = self.draw.choice([2, 5] if self.dynamic else [3])
        module, x = self.draw.choice(self.modules), torch.rand(rows, 12)
        with MODES[mode]():
            result, eager = module(x), module.forward(x)
            exact = copy.deepcopy(module).double().forward(x.double())
        apart, rounded = (float((one.double() - exact).detach().abs().max()) for one in (result, eager))
        limit = ROUNDINGS * torch.finfo(torch.float32).eps * (1 + float(exact.detach().abs().max()))
        is_right = apart <= limit + LESS_EXACT * rounded
        is_right = is_right and all(torch.equal(one, before) for one, before in self.kept)
        self.kept = [*self.kept[-3:], (result.detach(), result.detach().clone())]
        return is_right


class Callers:
    """Threads that call the modules of a model, in a block. What they find lies between writes, so it is not compared.

    Attributes:
        errors: texts of what calls raised, and of results that are no numbers.
    """

    def __init__(self, model, mode, count):
        self.model, self.mode, self.ends, self.errors = model, mode, threading.Event(), []
        self.threads = [threading.Thread(target=self.call, args=(place,)) for place in range(count)]

    def call(self, place):
        draw = random.Random(place)
        while not self.ends.wait(0.0005):
            try:
                with MODES[self.mode](), self.model.calling:
                    result = draw.choice(self.model.modules)(torch.rand(3, 12))
                if not bool(result.detach().isfinite().all()):
                    self.errors.append("no finite number")
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}"[:200])

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        for thread in self.threads:
            thread.join()


def run(calls, seed=0, options=None, modules=tuple(MODULES), threads=0):
    """Run so many calls, beside those of other threads.

    Returns:
        The number of calls, and the wrong ones: by the module, its mode and the last change.
    """
    draw, wrong, count = random.Random(seed), Counter(), 0
    torch.manual_seed(seed)
    while count < calls:
        torch._dynamo.reset()
        model, change = Model(draw.choice(modules), draw, options or {}), "none"
        mode = draw.choice([*MODES])
        with Callers(model, mode, threads) as callers:
            for _ in range(min(draw.randrange(10, 80), calls - count)):
                if draw.random() < 0.4:
                    change = model.change()
                if draw.random() < 0.05:
                    mode = draw.choice([*MODES])
                if draw.random() < 0.02:
                    model.modules[draw.randrange(2)] = other = copy.deepcopy(model.modules[0])
                    other.compile(backend=onegraph.torch.backend, dynamic=model.dynamic or None, options=options or {})
                count += 1
                if not model.is_right(mode):
                    wrong[model.name, mode, change] += 1
        wrong.update((model.name, callers.mode, f"{change}, in another thread: {text}") for text in callers.errors)
    return count, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    count, wrong = run(given.calls, given.seed, threads=given.threads)
    print(f"{count} calls, {sum(wrong.values())} wrong")
    for (name, mode, change), times in wrong.most_common():
        print(f"  {times:5} {name}, {mode}, after {change}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
