"""``make test-reproducible``: compares the bits of the benchmark models over threads, batches and processes.

Each number of threads has a process of its own, which runs every batch. ``ONEDNN_MAX_CPU_ISA=AVX2`` repeats it for
processors without AVX-512.
"""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256

import numpy as np

THREADS = (1, 2, 3, 4, 7, 8)
BATCHES = (1, 2, 3, 5, 16)
TOKENS = 128
GENERATOR = "GPT-2 small, f32"


def cases():
    """By name: the graph of a batch, and its input, whose first axis has all images of the largest batch."""
    import onegraph as og
    from benchmarks import inference
    from benchmarks.models import gpt2
    from benchmarks.models.network import Network

    for model in inference.models(quick=False):
        for kind in model.kinds:
            dtype = og.f32 if kind == "int8" else og.DataType(kind)
            scales = None
            if kind == "int8":
                given = inference.random(model.shape(1), dtype)
                scales = inference.calibrated(model.parameters, model.forward, given)

            def graph_of(batch, model=model, dtype=dtype, scales=scales):
                net = Network(model.parameters, dtype)
                if scales is not None:
                    net = inference.Int8(model.parameters, scales)
                net.graph.output("result", model.forward(net, net.input("x", model.shape(batch))))
                return net.graph

            yield f"{model.name}, {kind}", graph_of, inference.random(model.shape(max(BATCHES)), dtype)
    parameters = gpt2.parameters()

    def text(batch):
        net = Network(parameters)
        words = net.graph.input("x", og.s32, (batch * TOKENS,))
        net.graph.output("result", gpt2.forward(net, words, batch))
        return net.graph

    yield GENERATOR, text, np.random.default_rng(0).integers(0, gpt2.WORDS, max(BATCHES) * TOKENS, np.int32)


def hashes(threads):
    """Print a line of JSON for each case and batch: the hash of the result for each image."""
    for name, graph_of, array in cases():
        share = len(array) // max(BATCHES)
        for batch in BATCHES[:3] if name == GENERATOR else BATCHES:  # the memory for more scores of words is short
            result = graph_of(batch).compile(reproducible=True, threads=threads)(array[: batch * share])
            found = [sha256(part.tobytes()).hexdigest() for part in np.split(result, batch)]
            print(json.dumps([name, batch, found]), flush=True)


def main():
    """Run a process for each number of threads, and print the differences."""
    known, failures = {}, 0
    for threads in THREADS:
        command = [sys.executable, "-m", __spec__.name, str(threads)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for name, batch, found in map(json.loads, done.stdout.splitlines()):
            wrong = [index for index, one in enumerate(found) if known.setdefault((name, index), one) != one]
            failures += len(wrong)
            print(f"{name}, batch {batch}, {threads} threads: {f'images {wrong} differ' if wrong else found[0][:16]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 1 else hashes(int(sys.argv[1])))
