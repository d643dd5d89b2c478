"""Batch inference with Ray Data: each worker loads an ONNX model once, and maps batches of rows.

Rows keep their order. Ray restarts a worker that ends, and gives its batches to others. It shows the progress.

Needs the extras ``ray`` and ``onnx``: ``pip install 'onegraph[ray,onnx,examples]'``. On a cluster, start this with
``ray job submit``, or set ``RAY_ADDRESS``.
"""

import tempfile
from pathlib import Path

import numpy as np
import ray
from sklearn.datasets import load_digits

import onegraph as og
from onegraph.distributed import BatchInference


def save_model(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Write a classifier as an ONNX model, whose weights are the solution of a least-squares problem."""
    weights = np.linalg.lstsq(images.T @ images + np.eye(64), images.T @ np.eye(10)[labels], rcond=None)[0]
    g = og.Graph()
    pixels = g.input("pixels", og.f32, (None, 64))
    g.output("scores", g.matmul(pixels, g.constant(weights.astype(np.float32))))
    og.onnx.save(g, path)


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    ray.init(ignore_reinit_error=True)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"  # on a cluster, a path that all machines have
        save_model(path, images[:1000], labels[:1000])
        rows = [{"pixels": image, "number": number} for number, image in enumerate(images[1000:])]
        scored = ray.data.from_items(rows, override_num_blocks=16).map_batches(
            BatchInference,
            fn_constructor_args=[path],
            fn_constructor_kwargs={"batch_size": 64, "keep": ["number"], "threads": 1},
            batch_size=64,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=1),  # workers
        )
        batches = list(scored.iter_batches(batch_size=256))
    numbers = np.concatenate([batch["number"] for batch in batches])
    found = np.concatenate([batch["scores"] for batch in batches]).argmax(1)
    ray.shutdown()
    print(f"{len(found)} digits, in order: {np.array_equal(numbers, np.arange(len(found)))}")
    print(f"right: {(found == labels[1000:]).mean():.1%}")


if __name__ == "__main__":
    main()
