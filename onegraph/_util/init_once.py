"""Guards against a second call of ``__init__``: the library or a thread may still use what the first call stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import StateError

Record = TypeVar("Record")
Method = TypeVar("Method", bound=Callable[..., None])
_making: dict[int, tuple[object]] = {}  # objects whose ``__init__`` is running, by ``id``


class Made:
    """Base class: using an object that was created by ``__new__`` without ``__init__`` raises StateError."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Called for a missing attribute: StateError if ``__init__`` should have set it, else AttributeError."""
            refuse_unmade(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


def refuse_unmade(instance: object, name: str) -> None:
    """Raise StateError if attribute ``name`` is missing because ``__init__`` did not run or failed."""
    kind = type(instance)
    is_empty = bool(kind.__dictoffset__) and not vars(instance) and not name.startswith("__")
    if is_empty or any(name in vars(base).get("__slots__", ()) for base in kind.__mro__):
        raise StateError(f"this {kind.__name__} was not made by its constructor, or that failed")


def once(attribute: str) -> Callable[[Method], Method]:
    """A decorator for an ``__init__`` that sets ``attribute``: another call on the same object raises StateError.

    If two threads call ``__init__`` on one object at once, one of them initializes it and the other gets StateError.
    """

    def guarded(method: Method) -> Method:
        @wraps(method)
        def checked(self: object, *args: Any, **kwargs: Any) -> None:
            # The claim keeps the object alive. If an interrupt leaves it behind, no other object gets the same id.
            claim = (self,)
            try:
                if _making.setdefault(id(self), claim) is not claim or _is_initialized(self, attribute):
                    raise StateError(
                        f"this {type(self).__name__} is made; make another one instead of calling __init__ again"
                    )
                method(self, *args, **kwargs)
            finally:
                if _making.get(id(self)) is claim:
                    del _making[id(self)]

        return cast("Method", checked)

    return guarded


def _is_initialized(instance: object, attribute: str) -> bool:
    try:
        object.__getattribute__(instance, attribute)  # bypasses __getattr__, which raises StateError
    except AttributeError:
        return False
    return True


def made_once(record: type[Record]) -> type[Record]:
    """A class decorator: ``__init__`` and ``__setstate__`` of a frozen dataclass run once for each object.

    The first field must have no default: the object counts as initialized when it has that field.
    """
    guarded = once(fields(record)[0].name)  # type: ignore[arg-type]
    for name in ("__init__", "__setstate__"):
        if name in vars(record):
            setattr(record, name, guarded(vars(record)[name]))
    return record
