"""What is made of draws that decide conditions: the record draws.json, which a change of a condition must change too.

The numbers that are drawn stand in tests/recorded/chosen.txt. Run as a script, this file writes the record anew; with
names of materials, it prints what their digests are made of.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import library
from helpers.draws import MATERIALS, chosen
from helpers.recorded import digest, keep, kept

KEPT = Path(__file__).parents[1] / "recorded" / "draws.json"


def recorded(name):
    """The digests of a material, by what is drawn."""
    lines = MATERIALS[name].lines
    return {one: digest(digest(lines(one, number)) for number in numbers) for one, numbers in chosen(name).items()}


def has_version(wanted):
    from onegraph.native.library import VERSION

    return VERSION[: len(wanted)] == wanted


@pytest.mark.parametrize("name", [library(name) if one.needs else name for name, one in MATERIALS.items()])
def test_draws_are_made_as_recorded(name):
    if MATERIALS[name].needs:
        pytest.importorskip(MATERIALS[name].needs, reason=f"the package {MATERIALS[name].needs} is not installed")
    if MATERIALS[name].version and not has_version(MATERIALS[name].version):
        pytest.skip("the record has the words of another library")
    assert recorded(name) == kept(KEPT)[name]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for one, numbers in chosen(name).items():
            for number in numbers:
                print(f"{one} {number}:", *MATERIALS[name].lines(one, number), sep="\n")
    if not sys.argv[1:]:
        keep(KEPT, {name: recorded(name) for name in MATERIALS})
