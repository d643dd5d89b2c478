"""What the models are trained for: their inputs, their losses and their optimizers.

A step is written once, for :class:`~benchmarks.models.training.Training` and
:class:`~benchmarks.models.torch_training.TorchTraining`: ``net.call`` runs a part of the model, which PyTorch compiles
as a whole; ``net.update`` follows the gradient of a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import bert, dcgan, gpt2, resnet50, unet
from .optimizers import Optimizer
from .parameters import Parameters

Arrays = dict[str, np.ndarray]


class Task(NamedTuple):
    """A model that is trained.

    Attributes:
        name: of the model.
        parameters: makes its parameters.
        inputs: makes the inputs of a batch by name: images of f32 with channels last, or integers.
        step: from the layers, the inputs and the batch to the losses.
        optimizer: of all parameters.
    """

    name: str
    parameters: Callable[[], Parameters]
    inputs: Callable[[int], Arrays]
    step: Callable[[Any, Mapping[str, Any], int], list[Any]]
    optimizer: Optimizer


def tasks(quick: bool) -> list[Task]:
    """All tasks, in small sizes if ``quick``."""
    blocks, width, tokens, heads, words = ((1, 1), 8, 8, 4, 50) if quick else (resnet50.BLOCKS, 64, 128, 12, 0)
    layers, classes, size = (2, 10, 32) if quick else (12, 1000, 224)
    text = {"layers": layers, "tokens": tokens, **({"width": 32} if quick else {})}
    bert_words, gpt_words = words or bert.WORDS, words or gpt2.WORDS
    pixels, levels, unet_width = (32, 2, 8) if quick else (unet.SIZE, unet.LEVELS, unet.WIDTH)
    shared = {"tokens": tokens, "heads": heads, "layers": layers}
    return [
        Task(
            "ResNet-50",
            partial(resnet50.parameters, blocks, width, classes),
            lambda batch: {"image": images(batch, size), "label": integers(batch, classes)},
            partial(classified, forward=partial(resnet50.forward, blocks=blocks)),
            Optimizer("SGD", 0.01),
        ),
        Task(
            "BERT-base",
            partial(bert.whole_parameters, words=bert_words, **text),
            lambda batch: {"words": integers(batch * tokens, bert_words), "label": integers(batch, bert.CLASSES)},
            partial(read, forward=partial(bert.classifier, **shared)),
            Optimizer("AdamW", 5e-5),
        ),
        Task(
            "DCGAN",
            partial(dcgan.both_parameters, width),
            lambda batch: {"image": images(batch, dcgan.SIZE), "noise": images(batch, 1, dcgan.NOISE)},
            adversarial,
            Optimizer("Adam", 2e-4, betas=(0.5, 0.999)),
        ),
        Task(
            "U-Net",
            partial(unet.parameters, unet_width, levels),
            lambda batch: {"image": images(batch, pixels), "label": integers(batch * pixels**2, unet.CLASSES)},
            partial(classified, forward=partial(unet.forward, levels=levels)),
            Optimizer("Adam", 1e-3),
        ),
        Task(
            "GPT-2 small",
            partial(gpt2.parameters, words=gpt_words, **text),
            lambda batch: {"words": integers(batch * tokens, gpt_words), "label": integers(batch * tokens, gpt_words)},
            partial(read, forward=partial(gpt2.forward, **shared)),
            Optimizer("AdamW", 1e-4),
        ),
    ]


def images(batch: int, size: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, size, size, channels)).astype(np.float32)


def integers(count: int, below: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, below, count)


# Steps ---------------------------------------------------------------------------------------------------------------


def classified(net: Any, given: Mapping[str, Any], batch: int, forward: Callable[[Any, Any], Any]) -> list[Any]:
    """The class of each image, or of each of its pixels."""

    def loss(net: Any, image: Any, label: Any) -> Any:
        return net.cross_entropy(net.rows(forward(net, image)), label)

    found = net.call(loss, given["image"], given["label"])
    net.update(found)
    return [found]


def read(net: Any, given: Mapping[str, Any], batch: int, forward: Callable[[Any, Any, int], Any]) -> list[Any]:
    """The class of each sequence, or the next word at each place."""

    def loss(net: Any, words: Any, label: Any) -> Any:
        return net.cross_entropy(forward(net, words, batch), label)

    found = net.call(loss, given["words"], given["label"])
    net.update(found)
    return [found]


def adversarial(net: Any, given: Mapping[str, Any], batch: int) -> list[Any]:
    """The discriminator learns to tell images from fakes, then the generator to deceive the new discriminator."""

    def judge(net: Any, image: Any, fake: Any) -> Any:
        return net.add(net.judgement(dcgan.judged(net, image), 1), net.judgement(dcgan.judged(net, fake), 0))

    def deceive(net: Any, fake: Any) -> Any:
        return net.judgement(dcgan.judged(net, fake), 1)

    fake = net.call(dcgan.forward, given["noise"])
    judged = net.call(judge, given["image"], net.detached(fake))
    net.update(judged, "judge")
    deceived = net.call(deceive, fake, frozen="judge")
    net.update(deceived, "up", "image")
    return [judged, deceived]
