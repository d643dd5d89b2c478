"""The loop of training examples: progress, early stop, checkpoints that survive Ctrl-C, and a plot of the losses."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import Progress

parser = argparse.ArgumentParser()
parser.add_argument("--quick", action="store_true", help="train for a few seconds")
parser.add_argument("--epochs", type=int, help="stop after this number of epochs")
parser.add_argument("--resume", action="store_true", help="go on from the checkpoint of an earlier run")
args = parser.parse_args()
plt.switch_backend("agg")


def train(name, model, batches, score, *, epochs, patience=5):
    """Train until ``score`` has not fallen for ``patience`` epochs; returns the mean loss and the score of each epoch.

    Writes ``<name>.npz``, the variables after the last whole epoch, ``<name>.txt``, the losses and scores, and
    ``<name>_loss.png``, which shows them.

    Args:
        name: of the files.
        model: an executable with a variable ``adam/step`` and one output, the loss.
        batches: a function that returns the inputs of every step of an epoch; the same ones in every run.
        score: a function that is called after each epoch.
        epochs: the largest number of epochs, without ``--epochs``.
        patience: the number of epochs without a better score that end the training.
    """
    checkpoint, log, history = Path(f"{name}.npz"), Path(f"{name}.txt"), []
    if args.resume:
        model.load_variables(checkpoint)
        done = int(model.variables["adam/step"]) // len(batches(0))
        history = np.loadtxt(log, ndmin=2).tolist()[:done]
    epochs = args.epochs or epochs
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task(name, total=epochs, completed=len(history))
        try:
            while len(history) < epochs and not _is_stuck([scored for _, scored in history], patience):
                steps, losses = batches(len(history)), []
                for inputs in steps:
                    losses.append(float(model(**inputs)))
                    progress.advance(bar, 1 / len(steps))
                history.append([np.mean(losses), float(score())])
                np.savetxt(log, history)
                model.save_variables(checkpoint)  # replaces the old file when the new one is complete
                progress.update(bar, description=f"epoch {len(history)}  loss {history[-1][0]:.4f}")
        except KeyboardInterrupt:
            raise SystemExit(f"stopped; --resume goes on from {checkpoint}, after the last whole epoch") from None
    lines = plt.plot(range(1, len(history) + 1), history)
    plt.legend(lines, ["loss", "score"])
    plt.xlabel("epoch")
    plt.savefig(f"{name}_loss.png")
    return history


def _is_stuck(scores, patience):
    return len(scores) > patience and min(scores[-patience:]) >= min(scores[:-patience])
