"""Compiled modules whose sizes change share what no size reaches, and compute what eager PyTorch computes."""

import pytest

torch = pytest.importorskip("torch")

import onegraph.torch  # noqa: E402
from onegraph.capi import compilation  # noqa: E402
from onegraph.native.library import HASHES_CONSTANTS  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]


def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).eval()


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash, for one program each")
def test_close_sizes_share_prepared_weights(monkeypatch):
    model, jobs, compile_all = module(), [], compilation.compile_all
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)

    def counted(given, most):
        jobs.append(len(given))
        return compile_all(given, most)

    with torch.no_grad():
        for size in (36, 20, 33):
            run(torch.randn(size, 32))
        monkeypatch.setattr("onegraph.capi.partition.compile_all", counted)
        for size in (34, 35, 18, 17, 19):
            x = torch.randn(size, 32)
            torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
    assert sum(jobs) == 0


def test_weights_that_change_are_seen_by_every_size():
    model = module()
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)
    with torch.no_grad():
        for round_ in range(3):
            for size in (5, 9, 33, 34):
                x = torch.randn(size, 32)
                torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
            model[round_ % 3 // 2 * 2].weight.data.mul_(1.5)
