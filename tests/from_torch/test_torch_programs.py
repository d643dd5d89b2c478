"""Random programs of PyTorch, compiled here, against eager mode and aot_eager; ``make fuzz`` runs many more."""

import pytest

torch = pytest.importorskip("torch")

from torch_backend.program_generator import random_program  # noqa: E402
from torch_backend.program_runs import Allowance, difference, outcome, shortened  # noqa: E402
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


def test_random_numbers_are_replayed_in_float64():
    steps = (("v0", "F.dropout(x0, 0.5)"), ("v1", "torch.rand_like(x0) + v0"))
    program = Program(3, (("x0", "draw((3, 4), f32)"),), steps, ("v0", "v1"), False)
    eager = outcome(program, None)
    for name in ("result 0", "result 1"):
        right, apart = Allowance(program).of(name)
        assert right.dtype is torch.float64
        assert apart < 1e-6
        torch.testing.assert_close(eager.values[name].double(), right, rtol=1e-6, atol=1e-6)


def test_equal_terms_that_cancel_allow_a_rounding():
    steps = (("v0", "torch.log1p(x0.abs() + 0.3)"), ("v1", "v0 / v0"))
    program = Program(3, (("x0", "draw((3,), bf16).requires_grad_()"),), steps, ("v1",), True)
    right, apart = Allowance(program).of("gradient x0")
    assert float(right.abs().max()) < 1e-12
    assert 1e-4 < apart < 0.5  # a few roundings of terms near 10


def test_results_without_rounding_allow_none():
    steps = (("v0", "x0.flip(0) * 2"), ("v1", "v0.relu() + v0.relu()"))
    program = Program(3, (("x0", "draw((3, 4), bf16)"),), steps, ("v1",), False)
    assert Allowance(program).of("result 0")[1] == 0
