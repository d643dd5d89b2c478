"""``python -m benchmarks.exported_models [names]``: write ONNX models with random weights to ``build/models``.

The models come from torchvision and transformers, from three small networks written here, and from the light models of
the package onnx, whose files have shapes instead of weights. Nothing is downloaded. A file is made once; a seed makes
it the same again.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "build" / "models"
OPSET = 18
LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
QUANTIZED = ("resnet50", "mobilenet_v3", "bert")
Arrays = dict[str, np.ndarray]


def names() -> list[str]:
    """The names of all models: the light ones, the exported ones, those with unknown dims, and the quantized ones."""
    light = [f"light_{name}" for name in LIGHT]
    return [*light, *EXPORTS, *(f"{name}_dynamic" for name in DYNAMIC), *(f"{name}_int8" for name in QUANTIZED)]


def file_of(name: str) -> Path:
    """The file of a model, which is made if it does not exist."""
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished.onnx")
        _make(name, unfinished)
        unfinished.rename(path)
    return path


def inputs_of(name: str) -> Arrays:
    """Random inputs of a model, which are always the same."""
    import onnx

    rng, found = np.random.default_rng(1), {}
    graph = onnx.load(file_of(name), load_external_data=False).graph
    weights = {one.name for one in graph.initializer}
    for info in graph.input:
        kind = info.type.tensor_type
        if info.name in weights:
            continue
        shape = [dim.dim_value or DYNAMIC_DIMS[dim.dim_param] for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if dtype.kind == "f":
            found[info.name] = rng.standard_normal(shape).astype(dtype)
        else:
            found[info.name] = (np.ones(shape) if "mask" in info.name else rng.integers(0, 1000, shape)).astype(dtype)
    return found


def _make(name: str, path: Path) -> None:
    if name.startswith("light_"):
        _light(name, path)
    elif name.endswith("_int8"):
        _quantize(name.removesuffix("_int8"), path)
    else:
        _export(name.removesuffix("_dynamic"), path, dynamic=name.endswith("_dynamic"))


def _light(name: str, path: Path) -> None:
    """A light model with random weights in the place of the nodes that fill a shape with a constant."""
    import onnx
    from onnx import numpy_helper

    source = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    model, rng = onnx.load(source), np.random.default_rng(0)
    known = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    readers: dict[str, tuple[str, int]] = {}
    for node in model.graph.node:
        readers |= {one: (node.op_type, place) for place, one in enumerate(node.input)}
    nodes, made = [], []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = tuple(known[node.input[0]].tolist())
        array = _weights(shape, *readers.get(node.output[0], ("", 0)), rng)
        made.append(numpy_helper.from_array(array, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(made)
    # Weights that are inputs too may change from run to run, so that ONNX Runtime prepares nothing from them.
    model.ir_version = 8
    weights = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.save(model, path)


def _weights(shape: tuple[int, ...], reader: str, place: int, rng: np.random.Generator) -> np.ndarray:
    """Weights that keep the size of activations: He's initialization, variances near 1, small biases."""
    drawn = rng.standard_normal(shape)
    if reader == "BatchNormalization" and place in (1, 4):
        drawn = 1 + 0.1 * np.abs(drawn)
    elif reader in ("Conv", "Gemm") and place == 1:
        drawn *= np.sqrt(2 / np.prod(shape[1:]))
    elif reader in ("Mul", "Unsqueeze"):
        drawn = 1 + 0.1 * drawn
    else:
        drawn *= 0.1
    return drawn.astype(np.float32)


def _export(name: str, path: Path, dynamic: bool) -> None:
    """A PyTorch model as ONNX, by the exporter that traces graphs, else by the one that traces calls."""
    import torch

    # The compiled ops of torchvision may not fit the installed PyTorch. The models need none of them, and transformers
    # imports torchvision too.
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    torch.manual_seed(0)
    module, given = EXPORTS[name]()
    _settle(module, given)
    options: dict[str, Any] = {"input_names": [*given], "opset_version": OPSET}
    arguments = tuple(given.values())
    if dynamic:
        # The exporter takes a dim of size 1 for a fixed one.
        arguments = tuple(torch.cat([one, one]) for one in arguments)
        dims = {number: torch.export.Dim(dim, max=512) for number, dim in enumerate(DYNAMIC_DIMS)}
        options["dynamic_shapes"] = (tuple(dims for _ in given),)  # of the one parameter, *given
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(module, arguments, path, dynamo=True, external_data=False, **options)
        except Exception as error:  # the exporter raises errors of many classes
            print(f"{name}: dynamo=False, because of {type(error).__name__}: {error}"[:300], file=sys.stderr)
            axes = {key: dict(enumerate(DYNAMIC_DIMS)) for key in given}
            options.pop("dynamic_shapes", None)
            more = {"dynamic_axes": axes} if dynamic else {}
            torch.onnx.export(module, arguments, str(path), dynamo=False, **options, **more)


def _settle(module: Any, given: Mapping[str, Any]) -> None:
    """Give the model weights and statistics under which activations keep their size."""
    import torch

    generator = torch.Generator().manual_seed(0)
    for name, parameter in module.named_parameters():
        if name.endswith("layer_scale"):  # 1e-6 would hide all blocks
            torch.nn.init.constant_(parameter, 0.5)
        elif not parameter.any() and parameter.ndim > 1:  # a head of zeros would hide the whole model
            torch.nn.init.normal_(parameter, std=0.02, generator=generator)
        elif parameter.ndim == 1:
            with torch.no_grad():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    norms = [one for one in module.modules() if isinstance(one, torch.nn.BatchNorm2d)]
    if norms:
        module.train()
        momentum = [one.momentum for one in norms]
        for one in norms:
            one.momentum = 1.0
        with torch.no_grad():
            module(*(torch.cat([one, torch.randn(one.shape, generator=generator)]) for one in given.values()))
        for one, number in zip(norms, momentum, strict=True):
            one.momentum = number
    module.eval()


def _quantize(name: str, path: Path) -> None:
    """The model with QuantizeLinear and DequantizeLinear: u8 activations, s8 weights per channel."""
    from onnxruntime import quantization

    class Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
        rest = iter([inputs_of(name)])

        def get_next(self) -> Arrays | None:
            return next(self.rest, None)

    prepared = path.with_suffix(".prepared.onnx")
    quantization.shape_inference.quant_pre_process(file_of(name), prepared)
    quantization.quantize_static(prepared, path, Calibration(), per_channel=True)
    prepared.unlink()


Made = tuple[Any, dict[str, Any]]


def _image(size: int = 224, channels: int = 3) -> dict[str, Any]:
    import torch

    return {"x": torch.randn(1, channels, size, size, generator=torch.Generator().manual_seed(1))}


def _torchvision(name: str, size: int = 224) -> Made:
    from torchvision import models

    return getattr(models, name)(), _image(size)


def _tokens() -> Any:
    import torch

    shape = tuple(DYNAMIC_DIMS.values())
    return torch.randint(0, 1000, shape, generator=torch.Generator().manual_seed(1))


def _bert() -> Made:
    """BERT-base."""
    import torch
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=True)
    tokens = _tokens()
    return _Results(model, "last_hidden_state"), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def _gpt() -> Made:
    """GPT-2 with 6 of its 12 layers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6, use_cache=False, attn_implementation="sdpa"))
    return _Results(model, "logits"), {"input_ids": _tokens()}


def _whisper() -> Made:
    """The encoder of Whisper tiny, for 30 s of sound."""
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
    config._attn_implementation = "sdpa"
    sound = torch.randn(1, config.num_mel_bins, 3000, generator=torch.Generator().manual_seed(1))
    return _Results(WhisperEncoder(config), "last_hidden_state"), {"input_features": sound}


def _Results(model: Any, field: str) -> Any:  # noqa: N802 - a class whose base is imported late
    """The model with one field of its results as result."""
    import torch

    class Results(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *given: Any) -> Any:
            return getattr(self.model(*given), field)

    return Results()


def _crnn() -> Made:
    """A line of text of 32 by 256 pixels, which has 64 columns behind the convolutions."""
    import torch

    from .models import recognizers

    return recognizers.Crnn(), {"x": torch.randn(1, 1, 32, 256, generator=torch.Generator().manual_seed(1))}


def _written(name: str, size: int) -> Made:
    from .models import detectors

    return getattr(detectors, name)(), _image(size)


EXPORTS: dict[str, Callable[[], Made]] = {
    "resnet50": partial(_torchvision, "resnet50"),
    "mobilenet_v3": partial(_torchvision, "mobilenet_v3_large"),
    "efficientnet_b0": partial(_torchvision, "efficientnet_b0"),
    "densenet121": partial(_torchvision, "densenet121"),
    "convnext_tiny": partial(_torchvision, "convnext_tiny"),
    "vit_b_16": partial(_torchvision, "vit_b_16"),
    "swin_t": partial(_torchvision, "swin_t"),
    "yolo": partial(_written, "Yolo", 320),
    "unet": partial(_written, "UNet", 256),
    "crnn": _crnn,
    "bert": _bert,
    "gpt": _gpt,
    "whisper": _whisper,
}
DYNAMIC = ("bert", "gpt")
DYNAMIC_DIMS = {"batch": 1, "sequence": 128}


if __name__ == "__main__":
    for wanted in sys.argv[1:] or names():
        print(file_of(wanted), flush=True)
