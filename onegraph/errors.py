"""Defines every exception of onegraph, and the record of a violation.

::

    OneGraphError
      SpecError(ValueError)         the graph breaks the specification; .violations lists the mistakes
      ArgumentError(ValueError)     an array, name or option that the called function cannot take
      FormatError(ValueError)       a file holds no valid graph; .where is the place in the file
      StateError(RuntimeError)      a call at the wrong time: a finalized graph, a bound run in use
      UnsupportedError              allowed by the specification, but not by this library or machine
      LibraryError(ImportError)     no usable oneDNN library, or the extension is missing
      StatusError(RuntimeError)     a C call failed; .function, .status, .what and .advice
        OutOfMemoryError, InvalidArgumentsError, UnimplementedError, LibraryRuntimeError,
        InvalidGraphError, InvalidGraphOpError, InvalidShapeError, InvalidDataTypeError

A method that raises leaves its object unchanged.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_SHOWN = 1000
_name = type.__dict__["__name__"]


class _Repr(reprlib.Repr):
    """A ``repr`` that is short for every value. A few values still make it raise, which :func:`shown` catches."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 4, 14, 14, 14
        self.maxstring, self.maxlong, self.maxother = 100, 60, 100

    def repr_int(self, value: int, level: int) -> str:
        """The digits, or only the bit length of a large integer: Python refuses to print more than 4300 digits."""
        return repr(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"

    def repr_instance(self, value: object, level: int) -> str:
        """The repr of any other object, or its class name if the repr raises."""
        try:
            text = str.__str__(repr(value))  # a plain str, as __repr__ may return a subclass of str
        except Exception:  # a user's __repr__ may do anything
            text = f"<{class_of(value)}>"
        first, *more = text.splitlines() or [""]
        text = f"{first.rstrip()} ..." if more else first
        return text if len(text) <= self.maxother else f"{text[: self.maxother - 3]}..."

    def repr_ndarray(self, value: Any, level: int) -> str:
        """The elements of a short list of numbers, or the data type and shape of another array of numpy."""
        is_list = value.ndim == 1 and value.size <= self.maxlist
        return self.repr_instance(value, level) if is_list else f"an array of {value.dtype} {[*value.shape]}"


_repr = _Repr()


def shown(value: object) -> str:
    """The value as text for a message, at most ``MAX_SHOWN`` characters; never raises."""
    try:
        text = _repr.repr(value)
    except Exception:  # methods of a subclass of list or int may raise anything
        if type(value) in (bool, int, float, str):
            raise  # a signal handler raised it
        text = f"<{class_of(value)}>"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def class_of(value: object) -> str:
    """The class name of ``value`` for a message, read without calling its metaclass, which may lie or raise."""
    return str(_name.__get__(type(value)))[:100]


class OneGraphError(Exception):
    """Base of every exception that onegraph raises on purpose."""


# The severities of a violation.
ERROR, TAKEN, LIBRARY, UNSAFE, NOTE = "error", "taken", "library", "unsafe", "note"


@dataclass(frozen=True)
class Violation:
    """One mistake in an op or a graph.

    Attributes:
        rule: id of the broken rule.
        severity: ``error``: breaks the specification; ``taken``, only from ``onegraph check``: breaks the
            specification, but oneDNN takes it; ``library``: documented, but this library refuses it; ``unsafe``:
            documented, but this library would crash or compute wrong results; ``note``: allowed, but probably not
            intended.
        op: kind of the op, followed by its name if it has one.
        where: name of the attribute or port.
        given: the rejected value, as text.
        expected: the allowed values, as text.
        message: the whole violation in one line.
        edition: name of the edition of the specification that was checked against.
        page: the page of the specification that states the rule.
    """

    rule: str
    severity: str
    op: str
    where: str
    given: str
    expected: str
    message: str
    edition: str
    page: str

    def __str__(self) -> str:
        """The violation in one line, with its severity and rule: ``error: [attribute_range] Elu: alpha: ...``."""
        return f"{self.severity}: [{self.rule}] {self.message}"

    def to_dict(self) -> dict[str, str]:
        """The fields by name, for JSON."""
        return dict(vars(self))


class SpecError(OneGraphError, ValueError):
    """The op or graph breaks the specification.

    ``violations`` holds one record for each mistake, so that the user can fix all of them at once.
    """

    def __init__(self, violations: Sequence[Violation], hint: str = "") -> None:
        self.violations, self._hint = tuple(violations), hint
        super().__init__("\n".join([*(violation.message for violation in self.violations), *([hint] if hint else [])]))

    def with_hint(self, hint: str) -> SpecError:
        """The same error with a last line that says how to get what was meant; itself if that is empty."""
        return SpecError(self.violations, hint) if hint else self

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Violation, ...], str]]:
        return type(self), (self.violations, self._hint)


def without_hint(error: Exception) -> str:
    """The text of an error without what only the caller of a method can do about it."""
    return str(SpecError(error.violations) if isinstance(error, SpecError) else error)


class ArgumentError(OneGraphError, ValueError):
    """An array, a name or an option that the called function cannot take."""


class FormatError(OneGraphError, ValueError):
    """A file or text has the wrong content, or a file cannot be read or written.

    Attributes:
        where: the place in the file: a JSON path such as ``graph[3].inputs[0].shape``, or line and column.
    """

    def __init__(self, where: str, given: object, expected: str) -> None:
        self.where, self.given, self.expected = where, given, expected
        super().__init__(f"{where}: {given}; expected {expected}")

    def __reduce__(self) -> tuple[type[FormatError], tuple[str, object, str]]:
        return type(self), (self.where, self.given, self.expected)


class StateError(OneGraphError, RuntimeError):
    """A call at the wrong time: the object is finalized, not yet finalized, or in use."""


class UnsupportedError(OneGraphError):
    """The specification allows the request, but the loaded library or this machine does not support it."""


class LibraryError(OneGraphError, ImportError):
    """The oneDNN library is missing, too old or built without the graph API, or the extension is not compiled."""


class StatusError(OneGraphError, RuntimeError):
    """A call of the C API returned a status other than success.

    Attributes:
        function: name of the C function.
        status: name of the status, without its ``dnnl_`` prefix.
        what: text of the C++ exception that caused the failure; empty if there was none.
        advice: the purpose of the call and how to avoid the failure; empty if onegraph does not know them.
    """

    def __init__(self, function: str, status: str, what: str = "", advice: str = "") -> None:
        self.function, self.status, self.what, self.advice = function, status, what, advice
        super().__init__(f"{function} returned {status}" + "".join(f": {text}" for text in (what, advice) if text))

    def __reduce__(self) -> tuple[type[StatusError], tuple[str, str, str, str]]:
        return type(self), (self.function, self.status, self.what, self.advice)


class OutOfMemoryError(StatusError, MemoryError):
    """``dnnl_out_of_memory``."""


class InvalidArgumentsError(StatusError):
    """``dnnl_invalid_arguments``."""


class UnimplementedError(StatusError):
    """``dnnl_unimplemented``."""


class LibraryRuntimeError(StatusError):
    """``dnnl_runtime_error``, or a C++ exception caught before it could reach Python."""


class InvalidGraphError(StatusError):
    """``dnnl_invalid_graph``."""


class InvalidGraphOpError(StatusError):
    """``dnnl_invalid_graph_op``."""


class InvalidShapeError(StatusError):
    """``dnnl_invalid_shape``."""


class InvalidDataTypeError(StatusError):
    """``dnnl_invalid_data_type``."""


STATUS_ERRORS: dict[str, type[StatusError]] = {
    "out_of_memory": OutOfMemoryError,
    "invalid_arguments": InvalidArgumentsError,
    "unimplemented": UnimplementedError,
    "runtime_error": LibraryRuntimeError,
    "invalid_graph": InvalidGraphError,
    "invalid_graph_op": InvalidGraphOpError,
    "invalid_shape": InvalidShapeError,
    "invalid_data_type": InvalidDataTypeError,
}

__all__ = [
    "ArgumentError",
    "FormatError",
    "InvalidArgumentsError",
    "InvalidDataTypeError",
    "InvalidGraphError",
    "InvalidGraphOpError",
    "InvalidShapeError",
    "LibraryError",
    "LibraryRuntimeError",
    "OneGraphError",
    "OutOfMemoryError",
    "SpecError",
    "StateError",
    "StatusError",
    "UnimplementedError",
    "UnsupportedError",
]
