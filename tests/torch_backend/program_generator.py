"""Draws random programs."""

from __future__ import annotations

import random
import warnings

import torch

from .program_ops import MAKERS, in_place
from .programs import DIMS, ELEMENTS, SCALARS, SPELLED, Program, body_namespace, namespace

LAYOUTS = (
    "{}", "{}", "{}", "{}.transpose(0, -1)", "{}.to(memory_format=torch.channels_last)", "{}[::2]", "{}[..., 1:]",
    "{}.expand(3, *{}.shape)", "{}.t()", "{}.permute(*range({}.dim())[::-1])", "{}.view({}.shape)",
)  # fmt: skip
ATTEMPTS = 30


class Refused(Exception):  # noqa: N818
    """No value fits."""


class Generator:
    """Grows one program."""

    makers = MAKERS

    def __init__(self, seed: int, statements: int = 8, choices: random.Random | None = None) -> None:
        self.random, self.seed, self.length = choices or random.Random(seed), seed, statements
        self.grad = self.flip(0.5)
        self.kinds = self.choice([["f32"], ["f32"], ["bf16"], ["f16"], ["f32", "bf16"], ["f32", "f16"]])
        self.inputs: list[tuple[str, str]] = []
        self.statements: list[tuple[str, str]] = []
        self.space, self.body = namespace(), body_namespace(False)
        self.values: dict[str, torch.Tensor] = {}
        self.rounded: set[str] = set()  # names of values that a rounding has touched
        self.uses: list[str] = []

    def flip(self, chance):
        return self.random.random() < chance

    def choice(self, things):
        return self.random.choice(list(things))

    def below(self, count):
        return self.random.randrange(max(count, 1))

    def number(self):
        return self.choice(SCALARS) if self.flip(0.5) else self.choice(SCALARS[:8])

    def value(self, name):
        return self.values[name]

    def is_exact(self, name):
        return name not in self.rounded

    def spelled(self, dtype):
        return SPELLED[dtype]

    def _drawn(self, fits):
        names = [name for name, value in self.values.items() if fits(name, value)]
        if not names:
            raise Refused
        # Later values are likelier, so that programs are deep.
        name = names[max(self.below(len(names)), self.below(len(names)))]
        self.uses.append(name)
        return name

    def any(self):
        return self._drawn(lambda name, value: True)

    def floating(self):
        return self._drawn(lambda name, value: value.is_floating_point())

    def integer(self):
        return self._drawn(lambda name, value: not value.is_floating_point())

    def index(self):
        return self._drawn(lambda name, value: value.dtype == torch.int64)

    def exact(self):
        return self._drawn(lambda name, value: self.is_exact(name))

    def mask(self):
        return self._drawn(lambda name, value: value.dtype == torch.bool)

    def image(self):
        return self._drawn(lambda name, value: value.is_floating_point() and 3 <= value.dim() <= 5)

    def pair(self):
        first = self.any()
        shape = self.values[first].shape

        def fits(name, value):
            try:
                torch.broadcast_shapes(shape, value.shape)
            except RuntimeError:
                return False
            return True

        return first, self._drawn(fits)

    def matrices(self):
        first = self._drawn(lambda name, value: value.is_floating_point() and value.dim() >= 2)
        like = self.values[first]
        size, width = like.shape[-1], self.choice([1, 2, 4])
        if self.flip(0.5):
            return first, self.input((size, width), SPELLED[like.dtype])
        return first, self._drawn(
            lambda name, value: value.dtype == like.dtype and value.dim() >= 2 and value.shape[-2] == size
        )

    def input(self, shape, kind, layout="{}", more=""):
        """The name of a new input."""
        name, shape = f"x{len(self.inputs)}", shape if isinstance(shape, tuple) else tuple(shape)
        made = f"draw({shape}, {kind})" if kind in ("f32", "bf16", "f16") else f"count({shape}, {kind})"
        text = layout.replace("{}", made) + more
        if self.grad and kind in ("f32", "bf16", "f16") and not more and self.flip(0.6):
            text += ".requires_grad_()" if layout == "{}" else ".detach().requires_grad_()"
        torch.manual_seed(len(self.inputs))
        self.space[name] = self.body[name] = self.values[name] = eval(text, self.space)
        self.inputs.append((name, text))
        self.uses.append(name)
        return name

    def _first_inputs(self):
        rank = self.choice([0, 1, 2, 3, 4, 4, 4, 5])
        shape = [self.choice(DIMS) for _ in range(rank)]
        if rank and self.flip(0.1):
            shape[self.below(rank)] = 0
        for _ in range(self.choice([1, 2, 2, 3])):
            own = [*shape]
            if own and self.flip(0.3):
                own[self.below(len(own))] = 1
            if self.flip(0.15):
                own = own[1:]
            if self.flip(0.1):
                own = []
            kind = (
                self.choice(self.kinds)
                if self.flip(0.75)
                else self.choice(["i64", "boolean", "i32", "u8", "i8", "i16"])
            )
            layout = self.choice(LAYOUTS)
            try:
                self.input(own, kind, layout)
            except (RuntimeError, IndexError, ValueError, TypeError):
                self.input(own, kind)
        if self.flip(0.5):
            self.input(shape, "boolean")
        if self.flip(0.1) and self.inputs:  # two inputs of one memory
            name, text = self.inputs[0]
            if "requires_grad" not in text:
                self.inputs.append(("x" + str(len(self.inputs)), f"{name}.view({name}.shape)"))
                other, text = self.inputs[-1]
                self.space[other] = self.body[other] = self.values[other] = eval(text, self.space)

    def write(self):
        """The text of a statement that writes into a value."""
        return in_place(self)

    def is_small(self, value):
        """Whether a value is small enough to go on with."""
        return _is_small(value)

    def _statement(self):
        count = len(self.inputs)
        self.uses = []
        writes = self.flip(0.12)
        try:
            maker = self.random.choices([one for _, one in self.makers], [weight for weight, _ in self.makers])[0]
            text = self.write() if writes else maker(self)
        except (Refused, IndexError):
            text = None
        name = "" if writes else f"v{len(self.statements)}"
        if text is None or not self._runs(name, text):
            for gone, _ in self.inputs[count:]:
                del self.values[gone]
            del self.inputs[count:]

    def _runs(self, name, text):
        before = {} if name else {key: value._version for key, value in self.values.items()}
        torch.manual_seed(self.seed)
        try:
            with torch.set_grad_enabled(self.grad):
                if name:
                    made = eval(text, self.body)
                else:
                    exec(text, self.body)
                    made = None
        except Exception:
            if any(value._version != before[key] for key, value in self.values.items() if key in before):
                raise Refused from None
            return False
        if name and (
            not isinstance(made, torch.Tensor) or made.dtype not in SPELLED or made.layout is not torch.strided
        ):
            return False
        if name and (made.numel() > ELEMENTS or not self.is_small(made)):
            return False
        if not name and not all(map(self.is_small, self.values.values())):
            raise Refused
        self.statements.append((name, text))
        jumps = not name or any(one in self.rounded for one in self.uses)
        if name:
            self.values[name] = self.body[name] = made
            moved = made.dtype == torch.bool or not made.is_floating_point() or _moves(text)
            if not moved or jumps:
                self.rounded.add(name)
        else:
            self.rounded.update(key for key, value in self.values.items() if value._version != before[key])
        return True

    def program(self) -> Program | None:
        """The program; None if it came to nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._first_inputs()
            try:
                for _ in range(ATTEMPTS * self.length):
                    if len(self.statements) >= self.length:
                        break
                    self._statement()
            except (Refused, RuntimeError):  # a statement failed halfway, or views may not be written
                return None
        names = [name for name, _ in self.statements if name]
        if not names:
            return None
        results = [name for name in names if name == names[-1] or self.flip(0.4)]
        if self.flip(0.1):
            results.append(self.inputs[0][0])
        return Program(self.seed, tuple(self.inputs), tuple(self.statements), tuple(results), self.grad, self.flip(0.1))


MOVES = (
    *(".transpose", ".flip", ".unsqueeze", ".squeeze", ".flatten", ".reshape", ".contiguous", ".clone", ".narrow"),
    *(".roll", ".select", "[", ".permute", ".expand", ".view", ".detach", ".t(", ".tril", "F.max_pool"),
)
COMPUTES = (" + ", " * ", " / ", " @ ", "F.conv", "dropout", "norm", "sum", "softmax")


def _moves(text):
    """Whether an expression only moves elements."""
    return any(word in text for word in MOVES) and not any(word in text for word in COMPUTES)


def _is_small(value):
    if value.dtype == torch.bool or not value.numel():
        return True
    wide = value.detach().double()
    return bool(torch.isfinite(wide).all()) and float(wide.abs().max()) <= (
        60000.0 if value.is_floating_point() else 1e6
    )


def random_program(seed: int, statements: int = 8, choices: random.Random | None = None) -> Program | None:
    """A program; None if the seed, or other choices, give none."""
    return Generator(seed, statements, choices).program()
