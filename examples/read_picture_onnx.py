"""Reads a photograph of a page with two trained ONNX models, PP-OCRv6: one finds lines of text, the other reads them.

The models come with the package rapidocr, of which no code runs, and the photograph with scikit-image. The first model
gives each pixel a probability that it belongs to text; neighbouring pixels above a threshold are a line. The second
gives each step along a line a probability for each of 18,708 characters, or for none.

Needs the extra ``ocr``: ``pip install onegraph[ocr]``.
"""

from collections import Counter
from importlib.metadata import distribution
from pathlib import Path
from time import perf_counter

import numpy as np
import onnx
from PIL import Image, ImageDraw
from scipy import ndimage

import onegraph.onnx

OUTPUT = Path("read_picture_onnx.png")
MODELS = Path(str(distribution("rapidocr").locate_file("rapidocr/models")))
[FINDS], [READS] = MODELS.glob("*_det_*.onnx"), MODELS.glob("*_rec_*.onnx")
PICTURE = str(distribution("scikit-image").locate_file("skimage/data/page.png"))
HEIGHT = 48  # of a line, in pixels, as the model was trained


def run(path: Path, pixels: np.ndarray) -> np.ndarray:
    """The output of a model for pixels of shape (N, height, width, 3); prints what ran where, and how long."""
    x = (pixels.astype(np.float32) / 127.5 - 1).transpose(0, 3, 1, 2)
    start = perf_counter()
    model = onegraph.onnx.load(path, shapes={"x": x.shape}).compile()
    ready = perf_counter()
    y = model(x)
    times = f"ready in {ready - start:.2f} s, runs in {1000 * (perf_counter() - ready):.0f} ms"
    ops = Counter(part.executor for part in model.report().partitions for _ in part.ops)
    computed = ops.total() - ops["constant"] - ops["view"]  # a view costs nothing, a constant is computed once
    print(f"{path.name}: {times}; oneDNN runs {ops['oneDNN']} of {computed} ops")
    return y


def find_lines(picture: Image.Image) -> list[tuple[float, ...]]:
    """The boxes (left, upper, right, lower) of the lines of text, from the top down."""
    size = np.array([64 * round(side / 32) for side in picture.size])  # twice as large, in multiples of 32
    probability = run(FINDS, np.asarray(picture.resize(size))[None])[0, 0]
    boxes = []
    for rows, columns in ndimage.find_objects(ndimage.label(probability > 0.3)[0]):
        tall, wide = rows.stop - rows.start, columns.stop - columns.start
        if min(tall, wide) > 5 and probability[rows, columns].mean() > 0.5:
            more = 0.8 * tall * wide / (tall + wide)  # the model is trained to mark the middle of a line
            edges = [columns.start - more, rows.start - more, columns.stop + more, rows.stop + more]
            boxes.append(tuple(edges * np.tile(np.divide(picture.size, size), 2)))
    return sorted(boxes, key=lambda box: box[1])


def read(lines: list[Image.Image]) -> list[str]:
    """The text of each line."""
    widths = [round(HEIGHT * line.width / line.height) for line in lines]
    pixels = np.full((len(lines), HEIGHT, max(widths), 3), 127.5, np.float32)
    for row, line, width in zip(pixels, lines, widths, strict=True):
        row[:, :width] = line.resize((width, HEIGHT))
    listed = next(one.value for one in onnx.load(READS).metadata_props if one.key == "character")
    characters = ["", *listed.splitlines(), " "]
    best = run(READS, pixels).argmax(-1)
    kept = [row[np.diff(row, prepend=0) != 0] for row in best]  # a character that lasts several steps counts once
    return ["".join(characters[index] for index in row) for row in kept]


photograph = Image.open(PICTURE).convert("RGB")
found = find_lines(photograph)
print(*read([photograph.crop(box) for box in found]), sep="\n")
for box in found:
    ImageDraw.Draw(photograph).rectangle(box, outline="red")
photograph.save(OUTPUT)
print(OUTPUT.resolve())
