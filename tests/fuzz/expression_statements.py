"""Draws functions of arrays, with statements as a user of numpy writes them; numpy says which shape a value has."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .expression_functions import FUNCTIONS, kind_of
from .expressions import Exact, made

DTYPES = (
    "f32",
    "f32",
    "f32",
    "bf16",
    "f16",
    "s64",
    "s32",
    "u8",
    "s8",
    "boolean",
    "int16",
    "float64",
    "uint16",
    "uint32",
    "uint64",
    "float64",
)
DIMS = (1, 1, 2, 3, 4, 5, 8, 17)
NUMBERS = {
    "f": ("0", "1", "2", "-1", "0.5", "-1.5", "3", "0.1", "1e-3", "True", "np.float32(1.5)", "np.float64(-0.25)",
          "np.int64(3)", "np.float16(2)", "1e5", "np.inf", "np.nan", "np.bool_(True)", "-2.5", "np.array(2.0)"),
    "i": ("0", "1", "2", "3", "5", "7", "True", "np.int64(3)", "np.int8(2)", "np.uint8(4)", "-1", "-3", "np.float64(2)",
          "100", "1.0", "0.5", "300", "np.array(3)", "np.int32(-2)"),
    "b": ("True", "False", "np.bool_(True)", "1", "0"),
}  # fmt: skip
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
LOGIC = ("&", "|", "^")
ORDER = ("<", "<=", ">", ">=")
MOST = 5000  # elements of a value


class Writer:
    """Writes one function."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.inputs: list[list[Any]] = []
        self.statements: list[list[str]] = []
        self.exact = Exact({}, {})
        self.opened = rng.random() < 0.35
        self.flavours = ["special", "normal"] if rng.random() < 0.25 else ["normal", "normal", "whole"]
        self.kinds = [self.choice(DTYPES), self.choice(DTYPES)]

    def flip(self, chance: float) -> bool:
        return self.random.random() < chance

    def choice(self, things: Any) -> Any:
        return self.random.choice(list(things))

    def shape(self, name: str) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.exact.values[name].shape
        return shape

    def dtype(self, name: str) -> str:
        return self.exact.dtypes[name]

    def input(self, shape: Any, dtype: str) -> str:
        """The name of a new input."""
        name, seed, flavour = f"x{len(self.inputs)}", self.random.randrange(10**6), self.choice(self.flavours)
        opened = [axis for axis, dim in enumerate(shape) if dim > 1 and self.opened and self.flip(0.6)]
        self.inputs.append([name, dtype, [*shape], seed, flavour, opened])
        self.exact.values[name] = self.exact._kept(made(seed, dtype, [*shape], flavour), dtype, 0)
        self.exact.dtypes[name] = dtype
        return name

    def any(self, kinds: str = "fib") -> str:
        names = [name for name in self.exact.values if kind_of(self.dtype(name)) in kinds]
        if not names:
            if "b" in kinds and len(kinds) == 1:
                return self.input(self.new_dims(), "boolean")
            return self.input(self.new_dims(), self.choice([one for one in DTYPES if kind_of(one) in kinds]))
        return names[max(self.random.randrange(len(names)) for _ in range(2))]

    def new_dims(self) -> list[int]:
        shape = [self.choice(DIMS) for _ in range(self.choice([0, 1, 2, 2, 3, 3, 4]))]
        if shape and self.flip(0.07):
            shape[self.random.randrange(len(shape))] = 0
        return shape

    def broadcastable(self, shape: tuple[int, ...]) -> list[int]:
        other = [1 if self.flip(0.25) else dim for dim in shape]
        return other[self.random.randrange(len(other) + 1) :] if self.flip(0.3) else other

    def tensor_like(self, name: str) -> str:
        """A value of the data type that broadcasts with another one."""
        names = []
        for other in self.exact.values:
            try:
                np.broadcast_shapes(self.shape(name), self.shape(other))
            except ValueError:
                continue
            if self.dtype(other) == self.dtype(name) or self.flip(0.04):
                names.append(other)
        if names and self.flip(0.7):
            return str(self.choice(names))
        return self.input(self.broadcastable(self.shape(name)), self.dtype(name))

    def array_text(self, name: str) -> str:
        """A small array as a literal, of another data type now and then."""
        shape = self.broadcastable(self.shape(name))
        if np.prod(shape) > 24:
            shape = shape[-1:] if shape and shape[-1] <= 24 else []
        kind = kind_of(self.dtype(name))
        if kind == "f":
            array = np.random.default_rng(self.random.randrange(99)).normal(0, 1, shape).round(2)
            types = ["np.float32", "np.float64", "np.float16"]
            if self.flip(0.2):
                array, types = array.round(), ["np.int64", "np.int32"]
        elif kind == "b":
            array, types = np.random.default_rng(self.random.randrange(99)).random(shape) < 0.5, ["np.bool_"]
        else:
            array, types = (
                np.random.default_rng(self.random.randrange(99)).integers(0, 6, shape),
                ["np.int64", "np.int32", "np.uint8"],
            )
        return f"np.array({np.asarray(array).tolist()}, {self.choice(types)})" + (
            f".reshape({tuple(shape)})" if 0 in shape else ""
        )

    def operand(self, name: str) -> str:
        how = self.random.random()
        if how < 0.45:
            return self.tensor_like(name)
        return self.choice(NUMBERS[kind_of(self.dtype(name))]) if how < 0.75 else self.array_text(name)

    # What functions of the table ask for ------------------------------------------------------------------------------

    def axis(self, name: str) -> int:
        rank = len(self.shape(name))
        return self.random.randrange(-rank, rank) if rank else 0

    def pair(self, name: str) -> str:
        pair = [name, self.operand(name)]
        if self.flip(0.3):
            pair.reverse()
        return ", ".join(pair)

    def new_shape(self, name: str) -> tuple[int, ...]:
        shape = [*self.shape(name)]
        how = self.random.randrange(5)
        if how == 0:
            return (-1,)
        if how == 1 and len(shape) > 1:
            at = self.random.randrange(len(shape) - 1)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif how == 2:
            shape.insert(self.random.randrange(len(shape) + 1), 1)
        elif how == 3 and shape:
            shape.reverse()
        if self.flip(0.4) and shape and 0 not in shape:
            shape[self.random.randrange(len(shape))] = -1
        return tuple(shape)

    def order(self, name: str) -> tuple[int, ...]:
        order = [*range(len(self.shape(name)))]
        self.random.shuffle(order)
        return tuple(order)

    def like(self, name: str) -> str:
        same = [
            one
            for one in self.exact.values
            if self.dtype(one) == self.dtype(name) and self.shape(one) == self.shape(name)
        ]
        return str(self.choice(same)) if self.flip(0.6) else self.input(self.shape(name), self.dtype(name))

    def places(self, name: str, axis: int) -> str:
        shape = self.shape(name)
        size = shape[axis] if shape else 1
        count = self.choice([[], [1], [3], [2, 2]])
        places = np.random.default_rng(self.random.randrange(99)).integers(-size, max(size, 1), count)
        return f"np.array({places.tolist()})"

    def chosen(self, mask: str) -> str:
        names = [
            n for n in self.exact.values if self.dtype(n) != "boolean" and _broadcast(self.shape(n), self.shape(mask))
        ]
        first = (
            str(self.choice(names))
            if names
            else self.input(self.broadcastable(self.shape(mask)), self.choice(self.kinds))
        )
        self.other = first
        pair = [first, self.operand(first)]
        if self.flip(0.3):
            pair.reverse()
        return f"{mask}, {pair[0]}, {pair[1]}"

    def cast(self, name: str) -> str:
        wide = self.exact.values[name].astype(np.float64)
        types = ["f32", "bf16", "f16", "boolean"]
        if wide.size == 0 or (
            np.isfinite(wide).all() and np.abs(wide).max() < 120 and kind_of(self.dtype(name)) != "f"
        ):
            types += ["s64", "s32", "s8", *(["u8"] if wide.min(initial=0) >= 0 else [])]
        self.given = self.choice(types)
        return f"{name}, {self.given!r}"

    def compressed(self, mask: str) -> str:
        names = [n for n in self.exact.values if self.shape(n) and self.dtype(n) != "boolean"]
        fits = [(n, a) for n in names for a, dim in enumerate(self.shape(n)) if self.shape(mask) == (dim,)]
        if not fits:
            name = next((n for n in names), None) or self.input([3], "f32")
            mask = self.input([self.shape(name)[0]], "boolean")
            fits = [(name, 0)]
        self.other, axis = self.choice(fits)
        return f"{mask}, {self.other}, {axis}"

    def along(self, name: str) -> str:
        shape = self.shape(name)
        axis = self.axis(name)
        size = shape[axis] if shape else 1
        if np.prod(shape) > 60 or not np.prod(shape):
            return f"{name}, np.zeros({tuple(shape)}, np.int64), {axis}"
        places = np.random.default_rng(3).integers(-size, size, shape)
        return f"{name}, np.array({places.tolist()}), {axis}"

    def matrix(self, name: str) -> str:
        if len(self.shape(name)) < 2:
            raise ValueError
        return name

    def product(self, name: str) -> str:
        shape = self.shape(name)
        size = shape[-1] if shape else 1
        other = self.choice([[size, self.choice(DIMS)], [size], [*shape[:-2], size, self.choice(DIMS)]])
        if self.flip(0.3):
            return f"{name}, {self.input(other, self.dtype(name))}"
        fits = [n for n in self.exact.values if self.dtype(n) == self.dtype(name) and self.shape(n)[-2:-1] == (size,)]
        return f"{name}, {self.choice(fits) if fits else self.input(other, self.dtype(name))}"

    # Statements -------------------------------------------------------------------------------------------------------

    def statement(self) -> tuple[str, str]:
        """The text of a statement, and the data type of its value."""
        how = self.random.random()
        name = self.any()
        dtype = self.dtype(name)
        kind = kind_of(dtype)
        if how < 0.30:
            sign = self.choice(LOGIC if kind == "b" else (*ARITHMETIC, *(LOGIC if kind == "i" else ())))
            pair = [name, self.operand(name)]
            if self.flip(0.35):
                pair.reverse()
            if pair[0].startswith("-"):  # -1 ** x is two operators
                pair[0] = f"({pair[0]})"
            return f"{pair[0]} {sign} {pair[1]}", dtype
        if how < 0.36:
            pair = [name, self.operand(name)]
            if self.flip(0.35):
                pair.reverse()
            return f"{pair[0]} {self.choice(ORDER)} {pair[1]}", "boolean"
        if how < 0.42:
            return self.choice(
                [f"-{name}", f"abs({name})", f"~{name}"] if kind != "f" else [f"-{name}", f"abs({name})"]
            ), dtype
        if how < 0.47:
            name = self.any("fi") if self.flip(0.2) else self.any("f")
            pair = self.product(name).split(", ")
            if self.flip(0.3):
                rng = np.random.default_rng(self.random.randrange(99))
                size = self.shape(name)[-1] if self.shape(name) else 1
                pair = [name, f"np.array({rng.normal(0, 1, (min(size, 8), 2)).round(1).tolist()})"]
            return f"{pair[0]} @ {pair[1]}", self.dtype(name)
        if how < 0.65:
            return f"{name}[{self.index(name)}]", dtype
        function = self.choice(FUNCTIONS)
        one = FUNCTIONS[function]
        name = self.any(one.kinds)
        self.other, self.given = name, ""
        text = f"o.{function}({one.draw(self, name)})"
        result = {"same": self.dtype(name), "other": self.dtype(self.other), "given": self.given}.get(
            one.result, one.result
        )
        return text, result

    def index(self, name: str) -> str:
        """A text that stands between brackets."""
        shape, items, listed, number = self.shape(name), list[str](), False, False
        for size in shape:
            how = self.random.random()
            if how < 0.2:
                break
            low, high = self.random.randrange(-size - 1, size + 2), self.random.randrange(-size - 1, size + 2)
            if how < 0.4 and not listed:
                items.append(str(self.random.randrange(-size, size) if size else 0))
                number = True
            elif how < 0.5 and not number and not listed:
                listed = True
                tensors = [
                    one for one in self.exact.values if self.dtype(one) in ("s32", "s64") and self._is_place(one, size)
                ]
                if tensors and self.flip(0.6):
                    items.append(self.choice(tensors))
                    continue
                picks = [self.random.randrange(-size, size) if size else 0 for _ in range(self.choice([0, 1, 2, 3]))]
                forms = [str(picks), f"np.array({picks}, np.int64)", f"np.array({picks}, np.int32)"]
                items.append(self.choice(forms if picks else forms[1:]))
            elif how < 0.75:
                items.append(f"{self.choice(['', low])}:{self.choice(['', high])}")
            else:
                step = self.choice([1, 2, 3, -1, -2])
                items.append(f"{self.choice(['', '', low])}:{self.choice(['', '', high])}:{step}")
        if self.flip(0.25):
            items.insert(self.random.randrange(len(items) + 1), "None")
        if self.flip(0.25):
            at = self.random.randrange(len(items) + 1)
            rest = items[at:]
            items[at:] = ["...", *rest]
            count = len([one for one in items if one not in ("None", "...")])
            if count and self.flip(0.3):
                self.random.shuffle(items)
        if self.flip(0.03):
            items.append(self.choice(["0", "99", "-99", "..."]))
        return ", ".join(items) if items else "..."

    def _is_place(self, name: str, size: int) -> bool:
        """Whether all numbers of a value are indices of an axis."""
        value = self.exact.values[name]
        return value.size < 50 and value.ndim < 3 and bool(((value >= -size) & (value < size)).all())

    def function(self) -> dict[str, Any]:
        """The function, as JSON has it."""
        for kind in self.kinds:
            self.input(self.new_dims(), kind)
        if self.flip(0.4):
            self.input(self.broadcastable(self.shape("x0")), self.kinds[0])
        length = self.choice([1, 2, 3, 5, 8])
        for _ in range(8 * length):
            if len(self.statements) >= length:
                break
            count = len(self.inputs)
            try:
                text, dtype = self.statement()
            except (IndexError, ValueError):
                self._forget(count)
                continue
            name = f"v{len(self.statements)}"
            try:
                value = self.exact.run(name, text, dtype)
            except Exception:
                if self.flip(0.1):  # the package is to refuse it too
                    self.statements.append([name, text, dtype])
                else:
                    self._forget(count)
                self.exact.values.pop(name, None)
                continue
            if value.size > MOST or value.ndim > 6:
                self.exact.values.pop(name)
                self._forget(count)
                continue
            self.statements.append([name, text, dtype])
        names = [name for name, *_ in self.statements]
        results = [name for name in names if name == names[-1] or self.flip(0.4)]
        return {
            "inputs": self.inputs,
            "statements": self.statements,
            "results": results,
            "policy": self.choice(["fusion", "fusion", "debug"]),
            "ways": self.choice([["call"], ["call", "reference"], ["call", "call"]]),
        }

    def _forget(self, count: int) -> None:
        for name, *_ in self.inputs[count:]:
            self.exact.values.pop(name)
        del self.inputs[count:]


def _broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(first, second)
    except ValueError:
        return False
    return True
