"""``python -m benchmarks.named_models NAMES``: the benchmark ``torch`` on any model of torchvision, timm, transformers.

A name is ``torchvision/resnet34``, ``timm/convnextv2_tiny`` or, with settings of the configuration,
``transformers/Qwen2ForCausalLM?hidden_size=768&num_hidden_layers=8``.
"""

from __future__ import annotations

import argparse

from .results import table
from .timing import Effort
from .torch_child import RUNNERS, TorchSetup
from .torch_compile import contenders, row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.named_models", description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--training", action="store_true", help="a step of stochastic gradient descent")
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--against", nargs="*", choices=[*RUNNERS][1:], help="the peers; all that fit by default")
    given = parser.parse_args()
    for name in given.names:
        setup = TorchSetup("", name, given.dtype, given.batch, given.training)
        runners = [one for one in contenders(setup) if given.against is None or one in ("onegraph", *given.against)]
        print(table(row(setup, Effort(rounds=7, turn=0.3), runners)), flush=True)


if __name__ == "__main__":
    main()
