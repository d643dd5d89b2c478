"""Random programs of PyTorch, compiled here, against eager mode and aot_eager; ``make fuzz`` runs many more."""

import pytest

torch = pytest.importorskip("torch")

from torch_backend.program_generator import random_program  # noqa: E402
from torch_backend.program_runs import difference, shortened  # noqa: E402
from torch_backend.programs import Program  # noqa: E402

import onegraph.torch  # noqa: E402, F401

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("seed", range(8))
def test_random_program_is_eager(seed):
    program = random_program(seed)
    assert program is not None
    text = difference(program)
    assert text in ("", "invalid"), f"{text}\n{shortened(program).script()}"


def test_wrong_numbers_are_found_and_shortened():
    steps = (("v0", "torch.relu(x0)"), ("v1", "x0 * 2"), ("v2", "v1 + 1"), ("v3", "v0 - v2"))
    program = Program(0, (("x0", "draw((3, 4), f32)"),), steps, ("v2", "v3"), False)

    def wrong(gm, inputs):
        def run(*arguments):
            return [one + 1 if one.shape == (3, 4) else one for one in gm(*arguments)]

        return run

    assert "numbers" in difference(program, wrong)
    shorter = shortened(program, wrong)
    assert (shorter.results, len(shorter.statements)) == (("v2",), 2)
    assert "import onegraph.torch" in shorter.script()
