"""The faults of single ops that files of users add."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...opset.schema import Call
from ...opset.signature import Version
from ..fault import UNSAFE, Faults
from ..user_faults import USER, UserFault


def faults_of_users(added: Iterable[UserFault]) -> Faults[Call]:
    """The records of faults that files add."""
    faults = Faults[Call](severity=UNSAFE, instead="the op in f32, or the numpy reference")
    for user_fault in added:
        seen: dict[Version, str] = {user_fault.since: "wrong"}
        faults.add(
            user_fault.name,
            ops=user_fault.ops,
            where=next(iter(user_fault.attrs), "kind"),
            when=_condition(user_fault),
            seen=seen,
            reason=user_fault.reason,
            since=user_fault.since,
            mended=user_fault.until,
        )
    return faults


def _condition(fault: UserFault) -> Callable[[Call], bool]:
    def shows(call: Call) -> bool:
        dtypes = {tensor.dtype.value for tensor in call.inputs if tensor is not None and tensor.dtype is not None}
        dtypes |= {dtype.value for dtype in call.output_types if dtype is not None}
        if fault.dtypes and fault.dtypes.isdisjoint(dtypes):
            return False
        return all(_plain(call.attr(name)) == value for name, value in fault.attrs.items())

    return shows


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


FAULTS = faults_of_users(USER.added)
