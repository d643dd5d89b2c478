"""A service with Ray Serve: requests are joined to batches, and refused with status 503 when too many wait.

``python service_ray.py`` asks the service a few questions and ends; ``serve run service_ray:app`` starts it for others.
``GET /-/healthz`` tells whether it is well. Ray exports metrics for Prometheus: latencies, errors and queues.

Needs the extra ``ray``: ``pip install 'onegraph[ray,examples]'``.
"""

import asyncio
import json
import tempfile
from urllib.request import Request, urlopen

import numpy as np
from ray import serve
from sklearn.datasets import load_digits

import onegraph as og
from onegraph.distributed import BatchInference


def save_model(folder: str) -> str:
    """Save a classifier of digits, whose weights are the solution of a least-squares problem."""
    images, labels = load_digits(return_X_y=True)
    images = images / 16
    weights = np.linalg.lstsq(images.T @ images + np.eye(64), images.T @ np.eye(10)[labels], rcond=None)[0]
    g = og.Graph()
    pixels = g.input("pixels", og.f32, (None, 64))
    g.output("scores", g.matmul(pixels, g.constant(weights.astype(np.float32))))
    g.compile(threads=1).save(folder)
    return folder


@serve.deployment(num_replicas=1, max_ongoing_requests=128, max_queued_requests=64)
class Digits:
    def __init__(self, path: str) -> None:
        self.infer = BatchInference(path, batch_size=16).prepare()

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)
    async def classify(self, rows: list[np.ndarray]) -> list[int]:
        found = await asyncio.to_thread(self.infer, {"pixels": np.stack(rows)})
        return found["scores"].argmax(1).tolist()

    async def __call__(self, request) -> dict[str, int]:
        return {"digit": await self.classify(np.float32(await request.json()))}


app = Digits.bind(save_model(tempfile.mkdtemp()))  # of a real service, the folder of a model that was saved before


def main() -> None:
    serve.run(app)
    images, labels = load_digits(return_X_y=True)
    found = []
    for image in images[:20] / 16:
        request = Request("http://127.0.0.1:8000/", json.dumps(image.tolist()).encode())
        with urlopen(request, timeout=10) as answer:
            found.append(json.load(answer)["digit"])
    with urlopen("http://127.0.0.1:8000/-/healthz", timeout=10) as answer:
        print(f"health: {answer.read().decode()}")
    print(f"right: {sum(found == labels[:20])} of {len(found)}")
    serve.shutdown()


if __name__ == "__main__":
    main()
