"""Trained models of a package compute the numbers of ONNX Runtime."""

from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import onegraph.capi

for module, extra in {"onnx": "onnx", "onnxruntime": "dev", "rapidocr": "ocr"}.items():
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install onegraph[{extra}]", allow_module_level=True)

from helpers.onnx_session import session_of  # noqa: E402
from PIL import Image, ImageDraw  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.reference import run  # noqa: E402

FOLDER = Path(str(distribution("rapidocr").locate_file("rapidocr/models")))
SHAPES = {"det": (1, 3, 96, 160), "rec": (2, 3, 48, 96), "cls": (3, 3, 48, 192)}


def text(height, width):
    """A picture of a word, as the models take it: (3, height, width), from -1 to 1."""
    picture = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(picture).text((8, 8), "ONNX", fill="black", font_size=height // 2)
    return (np.asarray(picture, np.float32) / 127.5 - 1).transpose(2, 0, 1)


@pytest.fixture(params=SHAPES)
def trained(request):
    """A model, an input, and the probabilities of ONNX Runtime."""
    [path] = FOLDER.glob(f"*_{request.param}_*.onnx")
    images, _, *size = SHAPES[request.param]
    x = np.stack([text(*size) / (1 + index) for index in range(images)])
    [expected] = session_of(path).run(None, {"x": x})
    assert expected.max() > 0.5
    return path, x, expected


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.library
def test_known_shapes_agree_with_onnx_runtime(trained):
    path, x, expected = trained
    model = onegraph.onnx.load(path, shapes={"x": x.shape}).compile()
    agree(model(x), expected)
    assert {part.executor for part in model.report().partitions} <= {"oneDNN", "kernel", "copy", "view", "constant"}


@pytest.mark.library
def test_unknown_shapes_agree_with_onnx_runtime(trained):
    path, x, expected = trained
    agree(onegraph.onnx.load(path).compile()(x), expected)


def test_numpy_agrees_with_onnx_runtime(trained):
    path, x, expected = trained
    [found] = run(onegraph.onnx.load(path, shapes={"x": x.shape}), {"x": x}).values()
    agree(found, expected)
