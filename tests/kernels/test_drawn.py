"""Some drawn uses of each kernel of the package; ``make kernels`` runs many."""

import pytest
from conftest import draws

from tests.drawn.table import GENERATORS

pytestmark = pytest.mark.library


@pytest.mark.parametrize("name", GENERATORS)
def test_drawn_uses_are_right(name):
    for seed in range(draws(8, 1000)):
        GENERATORS[name].run(seed, graph=False)
    if GENERATORS[name].graph:
        for seed in range(draws(1, 10)):
            GENERATORS[name].run(seed, graph=True)
