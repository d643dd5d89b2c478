"""Every example runs, is short, and prints its results."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import library
from helpers.fork_server import run_forked

FOLDER = Path(__file__).parents[2] / "examples"
FOUND = sorted(FOLDER.glob("*.py"))
EXAMPLES = [path if path.stem == "checking_attributes" else library(path) for path in FOUND]
# modules that an example needs beyond the extra `examples`, and the extra that installs them
NEEDS = {
    **dict.fromkeys(
        ["autoencoder", "digits_resnet", "language_model", "quantize_digits", "text_transformer"],
        ("examples", ["matplotlib"]),
    ),
    "batch_inference_dask": ("distributed", ["distributed"]),
    "batch_inference_ray": ("ray,onnx", ["ray", "onnx"]),
    "data_parallel": ("torch", ["torch"]),
    "faster_resnet_torch": ("torch", ["torch", "torchvision"]),
    "read_picture_onnx": ("ocr", ["onnx", "rapidocr", "skimage"]),
    "service_ray": ("ray", ["ray"]),
}
# The cluster's workers are forked, and find their packages imported. In make test-cluster, they start as for a user.
FORKS = {} if os.environ.get("ONEGRAPH_CLUSTER") else {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "fork"}
CLUSTERS = {"batch_inference_dask", "batch_inference_ray", "data_parallel", "faster_resnet_torch", "service_ray"}
# examples that take --quick, and what they write
TRAINING = {
    name: [f"{name}.npz", f"{name}_loss.png", *others]
    for name, *others in [
        ("autoencoder", "autoencoder.png"),
        ("digits_resnet",),
        ("language_model",),
        ("quantize_digits",),
        ("text_transformer",),
    ]
}
SHOWS = {
    "autoencoder": ["digits above their copies", "partitions, trained in 104 steps"],
    "batch_inference_dask": ["797 digits in 16 batches", "the same as in one process: True", "batches, 1 thread each"],
    "batch_inference_ray": ["797 digits, in order: True"],
    "checking_attributes": ["[attribute_range]", "did you mean 'filter_format'?", "expected f32, as src is f32"],
    "conv_transpose": ["f16: (2, 20, 5)", "the page prints both"],
    "conv_transpose_backprop_filters": ["(4, 6, 3, 3)", "equal True"],
    "conv_transpose_backward_weights": ["(4, 3, 3, 3)", "expected 10"],
    "convolution_backprop_data": ["ConvTranspose: groups do not compile otherwise", "(1, 8, 8, 4)"],
    "convolution_backprop_filters": ["(3, 1, 2, 3, 2)"],
    "data_parallel": ["epoch 0: loss", "epoch 9: loss 0.0"],
    "faster_resnet_torch": ["difference", "graphs captured: 1, graph breaks: 0", "100.0% of multiply-adds"],
    "digits_resnet": ["in the last of 2", "of 297 digits that the network has not seen"],
    "getting_started": ["loses NaN or an infinity", "oneDNN, fused", "doubled output: True"],
    "language_model": ["int8: ", "int4: ", "letters a second", "\nThe "],
    "partitions": ["StaticReshape", "the library does not run all of the graph"],
    "quantize_digits": [
        "layer2: u8, scale",
        ("Dequantize 'layer1/src/1' + Dequantize", "on a CPU without VNNI"),
        "% with codes of 8 bits",
    ],
    "text_transformer": ["on text that the network has not seen", "\nThe "],
    "service_ray": ["health: success", "right: 19 of 20"],
    "read_picture_onnx": ["Region-based segmentation\n", "\nhistogram of grey values:\n", "oneDNN runs"],
}


def loss_falls(printed):
    """Whether the loss of the last epoch is less than half of the first one's."""
    first, last = re.search(r"loss ([\d.]+) in the first epoch, ([\d.]+) in the last", printed).groups()
    return float(last) < float(first) / 2


def knows_more_than_frequencies(printed):
    """Whether the loss is less than 3.1, which a guess by the frequencies of the letters has."""
    unseen, guess = re.search(r"loss ([\d.]+) on text .* a guess has ([\d.]+)", printed).groups()
    return float(unseen) < 2.9 < 4 < float(guess)


def loses_little_by_codes(printed):
    """Whether weights of 8 and 4 bits take less memory, and predict unseen text nearly as well."""
    sizes, losses = zip(*re.findall(r"([\d,]+) bytes, loss ([\d.]+) on unseen", printed), strict=True)
    sizes, losses = [int(size.replace(",", "")) for size in sizes], [*map(float, losses)]
    return sizes == sorted(sizes, reverse=True) and max(losses) - min(losses) < 0.05 and losses[0] < 3


LEARNS = {
    "autoencoder": loss_falls,
    "digits_resnet": loss_falls,
    "language_model": loses_little_by_codes,
    "quantize_digits": loss_falls,
    "text_transformer": knows_more_than_frequencies,
}


def require(path):
    """Skip the test where a package that the example needs is missing."""
    extra, modules = NEEDS.get(path.stem, ("examples", []))
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install onegraph[{extra}]")


def run(path, folder, *arguments):
    """The finished process of an example that runs in a folder.

    It is forked from one that has imported what most examples import, unless the example starts processes of its own.
    """
    require(path)
    if path.stem in CLUSTERS or not hasattr(os, "fork"):
        command = [sys.executable, path, *arguments]
        environment = {**os.environ, **FORKS}
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env=environment)
    return run_forked("helpers.example_server", [str(path), *arguments], cwd=folder, seconds=120)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Runs an example once for the tests of this file; returns its folder and the finished process."""

    @cache
    def runs(path):
        folder = tmp_path_factory.mktemp(path.stem)
        return folder, run(path, folder, *(["--quick"] if path.stem in TRAINING else []))

    return runs


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints(path, shown):
    assert len(path.read_text().splitlines()) < 110
    folder, done = shown(path)
    assert done.returncode == 0, done.stderr
    for text in SHOWS[path.stem]:  # or one of several, by the CPU
        assert any(one in done.stdout for one in (text if isinstance(text, tuple) else (text,))), text
    for line in done.stdout.splitlines():
        if "by hand by" in line:
            assert float(line.split()[-1]) < 1e-5
    for name in TRAINING.get(path.stem, ()):
        assert (folder / name).stat().st_size > 1000
    assert LEARNS.keys() == TRAINING.keys()
    if path.stem in LEARNS:
        assert LEARNS[path.stem](done.stdout)


@pytest.mark.library
def test_resumed_training_equals_whole_training(shown, tmp_path):
    path = FOLDER / "autoencoder.py"
    whole, _ = shown(path)  # 4 epochs
    for arguments in (["--epochs", "3"], ["--epochs", "4", "--resume"]):
        done = run(path, tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    with np.load(whole / "autoencoder.npz") as first, np.load(tmp_path / "autoencoder.npz") as second:
        assert len(first.files) == len(second.files) >= 25
        assert all(np.array_equal(first[name], second[name]) for name in first.files)
    assert (whole / "autoencoder.txt").read_text() == (tmp_path / "autoencoder.txt").read_text()


def test_training_stops_without_better_scores(tmp_path):
    if find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed: pip install onegraph[examples]")
    code = f"""
import sys
sys.path.insert(0, {str(FOLDER)!r})
from shared.loop import train

class Model:
    def __call__(self, x):
        return x

    def save_variables(self, path):
        path.touch()

scores = iter([5, 4, 3, 2, 3, 4, 2, 1, 0])
history = train("name", Model(), lambda epoch: [{{"x": 1.0}}, {{"x": 2.0}}], lambda: next(scores), epochs=9, patience=3)
assert history == [[1.5, 5], [1.5, 4], [1.5, 3], [1.5, 2], [1.5, 3], [1.5, 4], [1.5, 2]], history
"""
    script = tmp_path / "patient.py"
    script.write_text(code)
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "name_loss.png").stat().st_size > 1000


ENDLESS = f"""
import sys
sys.path.insert(0, {str(FOLDER)!r})
import numpy as np
import onegraph as og
from shared.loop import train

g = og.Graph()
w = g.variable("w", np.ones(4, np.float32))
loss = g.output("loss", g.reduce_sum(g.square(w) * g.input("x", og.f32, (4,)), axes=[0]))
og.training.Adam(1e-3).minimize(g, loss, [w])
steps = [{{"x": np.ones(4, np.float32)}}] * 200
train("endless", g.compile(), lambda epoch: steps, lambda: 0.0, epochs=10**9, patience=10**9)
"""


@pytest.mark.library
def test_interrupted_training_leaves_a_checkpoint(tmp_path):
    if find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed: pip install onegraph[examples]")
    script, log, checkpoint = (tmp_path / f"endless.{ending}" for ending in ("py", "txt", "npz"))
    script.write_text(ENDLESS)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore interrupts
    process = subprocess.Popen(
        [sys.executable, script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, before)
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    errors = None
    for _ in range(6):  # Python drops an interrupt that arrives inside a destructor; a user presses the keys again
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            _, errors = process.communicate(timeout=10)
            break
    assert process.returncode == 1, errors
    assert "stopped; --resume goes on from endless.npz" in errors
    epochs = len(log.read_text().splitlines())
    done = run(script, tmp_path, "--resume", "--epochs", str(epochs + 1))
    assert done.returncode == 0, done.stderr
    assert len(log.read_text().splitlines()) == epochs + 1
    with np.load(checkpoint) as kept:
        assert kept["adam/step"] == 200 * (epochs + 1)


@pytest.mark.library
def test_readme_example_runs(tmp_path):
    text = (Path(__file__).parents[2] / "README.md").read_text()
    code = "".join(block.split("```")[0] for block in text.split("```python\n")[1:])
    (tmp_path / "readme.py").write_text(code)
    done = run(tmp_path / "readme.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "f32 [8, 32, 32, 16]" in done.stdout
    assert "oneDNN, fused" in done.stdout
    assert "did you mean 'filter_format'?" in done.stdout
