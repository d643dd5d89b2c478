"""atheris, and so OSS-Fuzz, on a kind of inputs: ``python -m tests.fuzz.coverage_guided KIND OPTIONS FOLDERS``.

The options are those of libFuzzer, such as ``-max_total_time=60`` and ``-seed=1``. The folders have the corpus: new
inputs come into the first one. Bytes are changed by libFuzzer, or as the kind changes its inputs, if they have a form
that bytes seldom keep.
"""

import random
import sys
from importlib import import_module

import atheris

from .kinds import KINDS


def target(kind):
    """The function of bytes that OSS-Fuzz calls, with what the package marks for atheris; it raises what goes wrong."""
    with atheris.instrument_imports(include=["onegraph"]):
        import_module("onegraph")
        functions = KINDS[kind].functions

    def one_input(data):
        text = functions.replay(data)
        assert not text, text

    return one_input


def changing(kind):
    """How a kind changes inputs of its own form; no options for the bytes of choices."""
    if KINDS[kind].entry:
        return {}
    functions = KINDS[kind].functions

    def changed(data, most, seed):
        if not data:
            return b"{}"
        return functions.changed([data], random.Random(seed))[:most]

    return {"custom_mutator": changed}


def main(kind, options):
    """Run a kind with the options of libFuzzer, of which the first is the name of the program."""
    atheris.Setup(options, target(kind), **changing(kind))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], [sys.argv[0], *sys.argv[2:]])
