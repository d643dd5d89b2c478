"""Every exception of onegraph.

::

    OneGraphError
      SpecError(ValueError)         the graph breaks the specification; .violations lists how
      ArgumentError(ValueError)     an array, a name or an option does not fit what it is given to
      FormatError(ValueError)       a file holds no graph, or not all of one; .where says where in it
      StateError(RuntimeError)      a call at the wrong time: a finalized graph, a bound run in use
      UnsupportedError              the specification allows it; this library or machine does not
      LibraryError(ImportError)     no usable oneDNN library, or the extension is missing
      StatusError(RuntimeError)     a C call failed; .function, .status, .what and .advice
        OutOfMemoryError, InvalidArgumentsError, UnimplementedError, LibraryRuntimeError,
        InvalidGraphError, InvalidGraphOpError, InvalidShapeError, InvalidDataTypeError

A failed call changes nothing: the object it was made on is as it was before.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

MAX_SHOWN = 1000
_name = type.__dict__["__name__"]


class _Repr(reprlib.Repr):
    """A ``repr`` that is short and never raises, whatever a user hands in."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 4, 14, 14, 14
        self.maxstring, self.maxlong, self.maxother = 100, 60, 100

    def repr_int(self, value: int, level: int) -> str:
        """Python itself refuses to write out an integer of more than 4300 digits."""
        return repr(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"

    def repr_instance(self, value: object, level: int) -> str:
        """The repr of any other object; its class where that raises."""
        try:
            text = str.__str__(repr(value))  # without the class that it may have
        except Exception:  # a user's __repr__ may do anything
            text = f"<{class_of(value)}>"
        return text if len(text) <= self.maxother else f"{text[: self.maxother - 3]}..."


_repr = _Repr()


def shown(value: object) -> str:
    """Text for messages of a value that was given: never long, never an exception."""
    try:
        text = _repr.repr(value)
    except Exception:  # a subclass of a list or of an int may do anything
        text = f"<{class_of(value)}>"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def class_of(value: object) -> str:
    """The name of the class of ``value``, for messages; a metaclass may say anything, or raise."""
    return str(_name.__get__(type(value)))[:100]


class OneGraphError(Exception):
    """Base of every exception that onegraph raises on purpose."""


# The severities of a violation.
ERROR, LIBRARY, UNSAFE, NOTE = "error", "library", "unsafe", "note"


@dataclass(frozen=True)
class Violation:
    """One mistake.

    Attributes:
        rule: id of the rule that is broken.
        severity: ``error``: breaks the specification; ``library``: documented, but this library refuses it;
            ``unsafe``: documented, but this library would crash or compute wrong; ``note``: allowed, worth knowing.
        op: kind of the op, with its name where it has one.
        where: attribute or port.
        given: what was given, as text.
        expected: what is allowed, as text.
        message: all of it in one line.
        edition: name of the edition that was checked against.
        page: where the specification says it.
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
        return self.message


class SpecError(OneGraphError, ValueError):
    """The op or graph breaks the specification.

    ``violations`` holds one record for each mistake, so that all are mended at once.
    """

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("\n".join(violation.message for violation in self.violations))

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Violation, ...]]]:
        return type(self), (self.violations,)


class ArgumentError(OneGraphError, ValueError):
    """An array, a name or an option does not fit what it is given to."""


class FormatError(OneGraphError, ValueError):
    """A file or text does not hold what it should.

    Attributes:
        where: the place in it: a JSON path such as ``graph[3].inputs[0].shape``, or line and column.
    """

    def __init__(self, where: str, given: object, expected: str) -> None:
        self.where, self.given, self.expected = where, given, expected
        super().__init__(f"{where}: {given}; expected {expected}")

    def __reduce__(self) -> tuple[type[FormatError], tuple[str, object, str]]:
        return type(self), (self.where, self.given, self.expected)


class StateError(OneGraphError, RuntimeError):
    """A call at the wrong time: the object is finalized, not yet finalized, or in use."""


class UnsupportedError(OneGraphError):
    """The specification allows it; the loaded library or this machine does not."""


class LibraryError(OneGraphError, ImportError):
    """No usable oneDNN library: missing, too old, without the graph API; or no compiled extension."""


class StatusError(OneGraphError, RuntimeError):
    """A call of the C API returned a status other than success.

    Attributes:
        function: name of the C function.
        status: name of the status, without its ``dnnl_`` prefix.
        what: text of the C++ exception behind it, empty where there was none.
        advice: what the call was made for, and what to do, where onegraph knows it; else empty.
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
    """``dnnl_runtime_error``, or a C++ exception that the guard caught."""


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
