"""Tracebacks that end at the function that the user called: what lies below a refusal says nothing to its reader.

``ONEGRAPH_TRACEBACK=1`` in the environment keeps the frames of the package.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from ..errors import OneGraphError

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = TypeVar("Kind")
VARIABLE = "ONEGRAPH_TRACEBACK"


def shorten(error: OneGraphError) -> None:
    """Take the frames below a function of the API from an error, which the function then raises again."""
    if not os.environ.get(VARIABLE):
        error.__traceback__ = None


def ends_traceback(function: Function) -> Function:
    """A decorator for a function of the API: the traceback of a refusal ends there. Other errors keep all frames."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except OneGraphError as error:
            shorten(error)
            raise error

    return cast("Function", called)


def methods_end_tracebacks(kind: type[Kind]) -> type[Kind]:
    """A class decorator: the same for every public method that the class defines."""
    for name, value in [*vars(kind).items()]:
        if name.startswith("_"):
            continue
        if isinstance(value, FunctionType):
            setattr(kind, name, ends_traceback(value))
        elif isinstance(value, classmethod):
            setattr(kind, name, classmethod(ends_traceback(value.__func__)))
    return kind
