"""``python -m benchmarks.cluster.serving``: the latency of ``examples/service_ray.py`` at rising load.

The client sends requests at a fixed rate, whether or not the answers have come, so that a slow service is not asked
less. It ends after a fixed number of requests. It counts answers, requests that were refused with status 503, and
requests without a right answer.

With ``--restart`` the service is replaced by a new version, replica after replica, while requests arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp
import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"
URL = "http://127.0.0.1:8000/"
RATES = (25, 50, 100, 200, 400, 800)  # requests in a second
SECONDS = 4.0
MOST = 4000  # requests at one rate
TIMEOUT = 20.0


class Load(NamedTuple):
    """What became of the requests at one rate.

    Attributes:
        rate: requests in a second that were sent.
        latencies: seconds of each answer.
        refused: requests with status 503.
        lost: requests without a right answer, and why.
    """

    rate: float
    latencies: list[float]
    refused: int
    lost: list[str]

    def __str__(self) -> str:
        p50, p95, p99 = np.percentile(self.latencies or [np.nan], [50, 95, 99]) * 1e3
        return (
            f"{self.rate:5.0f}/s sent: {len(self.latencies):5} answered, p50 {p50:7.1f} ms, p95 {p95:7.1f} ms, "
            f"p99 {p99:7.1f} ms; {self.refused:4} refused, {len(self.lost)} lost"
        )


async def load(rate: float, seconds: float, url: str = URL) -> Load:
    """Send requests at a rate for some seconds, and wait for all answers."""
    pixels = json.dumps(np.random.default_rng(0).uniform(size=64).round(3).tolist())
    found, refused = Load(rate, [], 0, []), [0]
    limits = aiohttp.TCPConnector(limit=512)
    async with aiohttp.ClientSession(connector=limits, timeout=aiohttp.ClientTimeout(TIMEOUT)) as client:

        async def ask() -> None:
            begun = time.perf_counter()
            try:
                async with client.post(url, data=pixels) as answer:
                    text = await answer.text()
            except (aiohttp.ClientError, asyncio.TimeoutError) as error:
                found.lost.append(repr(error))
                return
            if answer.status == 503:
                refused[0] += 1
            elif answer.status != 200 or "digit" not in json.loads(text):
                found.lost.append(f"status {answer.status}: {text[:100]}")
            else:
                found.latencies.append(time.perf_counter() - begun)

        begun, tasks = time.perf_counter(), []
        for number in range(min(MOST, int(rate * seconds))):
            await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
            tasks.append(asyncio.create_task(ask()))
        await asyncio.gather(*tasks)
    return found._replace(refused=refused[0])


def start(replicas: int) -> None:
    """Start the service of the example. If it runs, its replicas are replaced, as the model is in another folder."""
    from ray import serve

    sys.path.insert(0, str(EXAMPLES))
    import service_ray

    digits = service_ray.Digits.options(num_replicas=replicas, ray_actor_options={"num_cpus": 0.5})
    serve.run(digits.bind(service_ray.save_model(tempfile.mkdtemp())))


def restarted(rate: float = 50, seconds: float = 20) -> Load:
    """The requests during which two replicas are replaced one after the other."""
    start(2)

    async def both() -> Load:
        loading = asyncio.create_task(load(rate, seconds))
        await asyncio.sleep(2)
        await asyncio.to_thread(start, 2)
        return await loading

    return asyncio.run(both())


def main() -> None:
    import ray
    from ray import serve

    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.serving")
    parser.add_argument("--restart", action="store_true", help="replace the service while requests arrive")
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        if parser.parse_args().restart:
            print("replaced while", restarted())
            return
        start(1)
        asyncio.run(load(20, 2))  # connections, and the first batches
        for rate in RATES:
            print(asyncio.run(load(rate, SECONDS)))
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
