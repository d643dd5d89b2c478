"""Tests over thousands of small cases, as one item for each group of cases."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def kind_of(case: Any) -> str:
    return str(case.kind)


def grouped(
    names: str, cases: Iterable[Any], key: Callable[[Any], str] = kind_of, label: Callable[[Any], str] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize(names, cases)``, but an item runs all cases of equal ``key`` and names what fails.

    pytest and its workers take 2 ms for an item, which is longer than many cases take. The cases of a group share the
    fixtures. A case must not skip: that would hide the others.
    """
    groups: dict[str, list[Any]] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    each = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def of_group(*, group_of_cases: list[Any], **given: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for case in group_of_cases:
                try:
                    test(**dict(zip(each, case if len(each) > 1 else (case,), strict=True)), **given)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failed.append((label(case), error))
            if failed:
                text = "\n".join(f"{case}: {type(error).__name__}: {error}" for case, error in failed)
                raise AssertionError(f"{len(failed)} of {len(group_of_cases)} cases:\n{text}") from failed[0][1]

        fixtures = [fixture for name, fixture in inspect.signature(test).parameters.items() if name not in each]
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("group_of_cases", kind), *(fixture.replace(kind=kind) for fixture in fixtures)]
        of_group.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("group_of_cases", groups.values(), ids=[*groups])(of_group)

    return decorate
