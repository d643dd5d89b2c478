"""Models of torchvision and transformers with random weights, each with arguments, for torch.compile."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

Made = tuple[Any, tuple[Any, ...]]  # a module, and its arguments


def tiny(batch: int) -> Made:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(batch, 16),)


def image(name: str, batch: int) -> Made:
    """A model of torchvision for images of 224 x 224."""
    # torchvision's compiled ops do not load beside a build of PyTorch that they do not fit; its models do.
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    import torchvision

    given = {"weights_backbone": None} if hasattr(torchvision.models.segmentation, name) else {}
    return torchvision.models.get_model(name, weights=None, **given), (torch.randn(batch, 3, 224, 224),)


def text(name: str, config: str, tokens: int, batch: int, **settings: Any) -> Made:
    """A model of transformers that reads tokens."""
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    import transformers

    model = getattr(transformers, name)(getattr(transformers, config)(use_cache=False, **settings))
    return model, (torch.randint(3, 1000, (batch, tokens)),)


def speech(batch: int) -> Made:
    """The encoder of Whisper base, for 30 seconds."""
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    settings = WhisperConfig(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048)
    return WhisperEncoder(settings), (torch.randn(batch, 80, 3000),)


MODELS: dict[str, Callable[[int], Made]] = {
    "tiny": tiny,
    "ResNet-18": partial(image, "resnet18"),
    "ResNet-50": partial(image, "resnet50"),
    "MobileNetV3": partial(image, "mobilenet_v3_large"),
    "EfficientNet-b0": partial(image, "efficientnet_b0"),
    "DenseNet-121": partial(image, "densenet121"),
    "ConvNeXt-tiny": partial(image, "convnext_tiny"),
    "ViT-B/16": partial(image, "vit_b_16"),
    "Swin-T": partial(image, "swin_t"),
    "DeepLabV3": partial(image, "deeplabv3_mobilenet_v3_large"),
    "BERT-base": partial(text, "BertModel", "BertConfig", 128),
    "GPT-2": partial(text, "GPT2LMHeadModel", "GPT2Config", 64),
    "T5 encoder": partial(text, "T5EncoderModel", "T5Config", 128),
    "Llama": partial(
        text, "LlamaForCausalLM", "LlamaConfig", 64, hidden_size=512, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=4, intermediate_size=1536, vocab_size=2000,
    ),
    "Whisper encoder": speech,
}  # fmt: skip


def result_of(value: Any) -> Any:
    """The first floating-point tensor in the result of a model."""
    if isinstance(value, torch.Tensor):
        return value if value.is_floating_point() else None
    values = value.values() if isinstance(value, dict) else value
    return next((found for one in values if (found := result_of(one)) is not None), None)
