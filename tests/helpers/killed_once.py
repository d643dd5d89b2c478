"""A model whose worker is killed in the middle, for tests of engines, whose workers import this module."""

import os
import signal
from pathlib import Path

from onegraph.distributed import BatchInference


class KilledOnce(BatchInference):
    """Kills its own process at the batch with the key 200, unless the file ``marker`` exists, which it makes."""

    def __init__(self, model, marker, **options):
        super().__init__(model, **options)
        self.marker = marker

    def __call__(self, batch):
        if 200 in batch["key"] and not os.path.exists(self.marker):
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)
