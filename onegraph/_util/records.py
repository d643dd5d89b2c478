"""Classes of records: dataclasses that are made in a quarter of the time.

The module ``dataclasses`` compiles the text of each method of each class. With some 40 classes that takes 20 ms of an
import. A record compiles its constructor alone; what it inherits from :class:`_Record` reads its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from typing import TYPE_CHECKING, Any

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, eq: bool = True) -> Callable[[type], type]:
        """A decorator like :func:`dataclasses.dataclass`, for frozen classes without slots."""
        if not frozen:
            raise TypeError("record() makes frozen classes; use dataclass")

        def made(kind: type) -> type:
            kind.__doc__ = kind.__doc__ or kind.__name__  # dataclass would compute a signature
            kind = dataclass(init=False, repr=False, eq=False)(kind)
            methods = {**_METHODS, **(_BY_FIELDS if eq else {}), "__init__": _constructor(kind)}
            kind._compared = tuple(field.name for field in fields(kind) if field.compare)
            for name, method in methods.items():
                if name not in vars(kind):
                    setattr(kind, name, method)
            return kind

        return made


def _constructor(kind: type) -> Callable[..., None]:
    """The function ``__init__`` of a record."""
    names: dict[str, Any] = {"put": object.__setattr__, "missing": MISSING}
    head, body = ["self"], []
    for field in fields(kind):
        name, value = field.name, field.name
        if field.default is not MISSING:
            names[f"default_{name}"] = field.default
            head.append(f"{name}=default_{name}")
        elif field.default_factory is not MISSING:
            names[f"new_{name}"] = field.default_factory
            head.append(f"{name}=missing")
            value = f"new_{name}() if {name} is missing else {name}"
        else:
            head.append(name)
        body.append(f"put(self, {name!r}, {value})")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({', '.join(head)}):\n " + "\n ".join(body or ["pass"])
    exec(text, names)
    made: Callable[..., None] = names["__init__"]
    made.__annotations__ = {**{field.name: field.type for field in fields(kind)}, "return": None}
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    return made


def _values(record: Any) -> tuple[object, ...]:
    return tuple([getattr(record, name) for name in record._compared])


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _equals(self: object, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: object) -> int:
    return hash(_values(self))


_METHODS = {"__repr__": _repr, "__setattr__": _set, "__delattr__": _delete}
_BY_FIELDS = {"__eq__": _equals, "__hash__": _hash}
