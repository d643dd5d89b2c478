"""Every example runs, is short, and prints its results."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import library

FOUND = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
EXAMPLES = [path if path.stem == "checking_attributes" else library(path) for path in FOUND]
# modules that an example needs beyond the extra `examples`, and the extra that installs them
NEEDS = {
    "batch_inference_dask": ("distributed", ["distributed"]),
    "faster_resnet_torch": ("torch", ["torch", "torchvision"]),
    "read_picture_onnx": ("ocr", ["onnx", "rapidocr", "skimage"]),
}
SHOWS = {
    "autoencoder": ["digits above their copies", "partitions, trained in 1120 steps", "8 gradients, at most"],
    "batch_inference_dask": ["797 digits in 16 batches", "the same as in one process: True", "batches, 1 thread each"],
    "checking_attributes": ["[attribute_range]", "did you mean 'filter_format'?", "expected f32, as src is f32"],
    "conv_transpose": ["f16: (2, 20, 5)", "the page prints both"],
    "conv_transpose_backprop_filters": ["(4, 6, 3, 3)", "equal True"],
    "conv_transpose_backward_weights": ["(4, 3, 3, 3)", "expected 10"],
    "convolution_backprop_data": ["ConvTranspose: groups do not compile otherwise", "(1, 8, 8, 4)"],
    "convolution_backprop_filters": ["(3, 1, 2, 3, 2)"],
    "faster_resnet_torch": ["difference", "1 graphs captured, 0 graph breaks", "100.0% of multiply-adds"],
    "getting_started": ["oneDNN, fused", "doubled output: True"],
    "partitions": ["StaticReshape", "the library does not run all of the graph"],
    "read_picture_onnx": ["Region-based segmentation\n", "\nhistogram of grey values:\n", "oneDNN runs"],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints(path, tmp_path):
    extra, modules = NEEDS.get(path.stem, ("examples", []))
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install onegraph[{extra}]")
    assert len(path.read_text().splitlines()) < 80
    done = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for text in SHOWS[path.stem]:
        assert text in done.stdout
    for line in done.stdout.splitlines():
        if "by hand by" in line:
            assert float(line.split()[-1]) < 1e-5
    if path.stem == "autoencoder":
        assert (tmp_path / "autoencoder.png").stat().st_size > 1000
        last_epoch, empty, *rest = done.stdout.splitlines()[-6:]
        assert last_epoch.startswith("epoch 40/40")
        assert (empty, rest[0]) == ("", str((tmp_path / "autoencoder.png").resolve()))
        losses = [float(line.split()[3]) for line in done.stdout.replace("\r", "\n").splitlines() if "loss 0" in line]
        assert losses[-1] < losses[0] / 5


@pytest.mark.library
def test_readme_example_runs(tmp_path):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    code = "".join(block.split("```")[0] for block in text.split("```python\n")[1:])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "f32 [8, 32, 32, 16]" in done.stdout
    assert "oneDNN, fused" in done.stdout
    assert "did you mean 'filter_format'?" in done.stdout
