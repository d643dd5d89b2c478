"""Models of torchvision, timm and transformers with random weights, each with arguments, for torch.compile."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

import torch

Made = tuple[Any, tuple[Any, ...]]  # a module, and its arguments


def tiny(batch: int) -> Made:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(batch, 16),)


def imported(package: str) -> Any:
    """A package; torchvision, which the others import, also beside a build of PyTorch that its ops do not fit."""
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    return import_module(package)


def image(name: str, batch: int) -> Made:
    """A model of torchvision for images of 224 x 224."""
    models = imported("torchvision").models
    given = {"weights_backbone": None} if hasattr(models.segmentation, name) else {}
    return models.get_model(name, weights=None, **given), (torch.randn(batch, 3, 224, 224),)


def timm_image(name: str, batch: int) -> Made:
    """A model of timm, for the images that it expects."""
    model = imported("timm").create_model(name, pretrained=False)
    return model, (torch.randn(batch, *model.pretrained_cfg["input_size"]),)


def text(name: str, config: str, tokens: int, batch: int, **settings: Any) -> Made:
    """A model of transformers that reads tokens."""
    transformers = imported("transformers")
    model = getattr(transformers, name)(getattr(transformers, config)(use_cache=False, **settings))
    return model, (torch.randint(3, 1000, (batch, tokens)),)


def speech(batch: int) -> Made:
    """The encoder of Whisper base, for 30 seconds."""
    transformers = imported("transformers")
    settings = transformers.WhisperConfig(
        d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048
    )
    return imported("transformers.models.whisper.modeling_whisper").WhisperEncoder(settings), (
        torch.randn(batch, 80, 3000),
    )


def configured(name: str, batch: int) -> Made:
    """A model of transformers by its class and settings of its configuration: ``Qwen2Model?num_hidden_layers=4``."""
    name, _, query = name.partition("?")
    made = getattr(imported("transformers"), name)
    settings = {key: json.loads(value) for key, value in parse_qsl(query)}
    model = made(made.config_class(**({"use_cache": False} | settings)))
    inputs: dict[str, Callable[[], Any]] = {
        "input_ids": lambda: torch.randint(3, 1000, (batch, 128)),
        "pixel_values": lambda: torch.randn(batch, 3, *[getattr(model.config, "image_size", 224)] * 2),
        "input_values": lambda: torch.randn(batch, 16000),  # one second of sound
        "input_features": lambda: torch.randn(batch, model.config.num_mel_bins, 3000),
    }
    return model, (inputs[model.main_input_name](),)


def named(name: str, batch: int) -> Made:
    """A model of ``MODELS``, or ``torchvision/NAME``, ``timm/NAME``, ``transformers/CLASS?SETTINGS``."""
    package, _, rest = name.partition("/")
    makers = {"torchvision": image, "timm": timm_image, "transformers": configured}
    return makers[package](rest, batch) if package in makers else MODELS[name](batch)


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
