"""Models of torchvision, timm and transformers with random weights, for the backend of torch.compile."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]  # a module, and its arguments


def imported(name: str) -> Any:
    """A package; torchvision also beside a build of PyTorch that its compiled ops do not fit."""
    if "torchvision" not in sys.modules:
        sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return __import__(name, fromlist=["_"])


SIZES = {"inception_v3": 128, "maxvit_t": 224, "alexnet": 96, "googlenet": 96}


def classifier(name: str) -> Made:
    """A classifier of torchvision."""
    models = imported("torchvision.models")
    more = {"aux_logits": False, "init_weights": False} if name in ("inception_v3", "googlenet") else {}
    model = models.get_model(name, weights=None, **more)
    size = 224 if name.startswith("vit_") else SIZES.get(name, 64)
    return model, (torch.randn(2, 3, size, size),), {}


def segmentation(name: str) -> Made:
    """A model of torchvision that labels pixels."""
    model = imported("torchvision.models").get_model(name, weights=None, weights_backbone=None)
    return model, (torch.randn(1, 3, 64, 64),), {}


def detection_backbone(name: str) -> Made:
    """The backbone of a model of torchvision that finds objects."""
    model = imported("torchvision.models").get_model(name, weights=None, weights_backbone=None)
    size = 300 if name == "ssd300_vgg16" else 96
    return model.backbone, (torch.randn(1, 3, size, size),), {}


def video_model(name: str) -> Made:
    """A model of torchvision that classifies videos."""
    model = imported("torchvision.models").get_model(name, weights=None)
    frames, size = (16, 224) if name in ("mvit_v2_s", "s3d") else (4, 64)
    return model, (torch.randn(1, 3, frames, size, size),), {}


def image_model(name: str, size: int = 96) -> Made:
    """A model of timm, for images of this size where it takes them."""
    model = imported("timm").create_model(name, pretrained=False)
    wanted = model.pretrained_cfg.get("input_size", (3, 224, 224))
    fixed = model.pretrained_cfg.get("fixed_input_size", False)
    return model, (torch.randn(1, 3, *(wanted[1:] if fixed else (size, size))),), {}


TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def text_model(name: str, config: str, **more: Any) -> Made:
    """A model of transformers that reads tokens."""
    transformers = imported("transformers")
    settings = getattr(transformers, config)(**{**TINY, **more})
    tokens = torch.randint(3, 256, (2, 16))
    return getattr(transformers, name)(settings), (tokens,), {}


def sequence_model(name: str, config: str, **more: Any) -> Made:
    """A model of transformers with an encoder and a decoder."""
    transformers = imported("transformers")
    settings = getattr(transformers, config)(**{"vocab_size": 256, "pad_token_id": 0, **more})
    tokens = torch.randint(3, 256, (2, 12))
    return getattr(transformers, name)(settings), (), {"input_ids": tokens, "decoder_input_ids": tokens[:, :8]}


def picture_model(name: str, config: str, **more: Any) -> Made:
    """A model of transformers that sees pictures."""
    transformers = imported("transformers")
    settings = getattr(transformers, config)(**more)
    size = more.get("image_size", 32)
    size = size if type(size) is int else size[0]
    return getattr(transformers, name)(settings), (torch.randn(1, 3, size, size),), {}


VISION = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 8,
}
BARTLIKE = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "decoder_start_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "forced_eos_token_id": 2,
    "max_position_embeddings": 64,
}
GROUPED = {"num_key_value_heads": 2}
TRANSFORMERS: dict[str, Callable[[], Made]] = {
    **{
        name: partial(text_model, f"{name}Model", f"{name}Config")
        for name in ("Bert", "Roberta", "Electra", "MPNet", "Camembert", "Ernie", "MobileBert", "Megatron" + "Bert")
    },
    "Albert": partial(text_model, "AlbertModel", "AlbertConfig", embedding_size=32),
    "DistilBert": partial(text_model, "DistilBertModel", "DistilBertConfig", dim=64, n_layers=2, n_heads=4),
    "DebertaV2": partial(text_model, "DebertaV2Model", "DebertaV2Config"),
    "ModernBert": partial(text_model, "ModernBertModel", "ModernBertConfig"),
    "GPT2": partial(text_model, "GPT2LMHeadModel", "GPT2Config", n_embd=64, n_layer=2, n_head=4),
    "GPTNeoX": partial(text_model, "GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "OPT": partial(text_model, "OPTForCausalLM", "OPTConfig", ffn_dim=128, word_embed_proj_dim=64),
    "Bloom": partial(text_model, "BloomForCausalLM", "BloomConfig", n_layer=2, n_head=4),
    "Falcon": partial(text_model, "FalconForCausalLM", "FalconConfig"),
    **{
        name: partial(text_model, f"{name}ForCausalLM", f"{name}Config", **GROUPED)
        for name in ("Llama", "Mistral", "Qwen2", "StableLm", "Phi", "Olmo", "Starcoder2", "Gemma2")
    },
    "Qwen3": partial(text_model, "Qwen3ForCausalLM", "Qwen3Config", head_dim=16, **GROUPED),
    "Gemma": partial(text_model, "GemmaForCausalLM", "GemmaConfig", head_dim=16, **GROUPED),
    "T5": partial(
        sequence_model, "T5Model", "T5Config", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4
    ),
    "Bart": partial(sequence_model, "BartModel", "BartConfig", **BARTLIKE),
    "Pegasus": partial(sequence_model, "PegasusModel", "PegasusConfig", **BARTLIKE),
    "ViT": partial(picture_model, "ViTModel", "ViTConfig", **VISION),
    "DeiT": partial(picture_model, "DeiTModel", "DeiTConfig", **VISION),
    "Dinov2": partial(picture_model, "Dinov2Model", "Dinov2Config", **VISION),
    "CLIPVision": partial(picture_model, "CLIPVisionModel", "CLIPVisionConfig", **VISION),
    "SiglipVision": partial(picture_model, "SiglipVisionModel", "SiglipVisionConfig", **VISION),
    "Beit": partial(picture_model, "BeitModel", "BeitConfig", **VISION),
    "ConvNext": partial(picture_model, "ConvNextModel", "ConvNextConfig", hidden_sizes=[16, 32, 64, 128]),
    "Swin": partial(picture_model, "SwinModel", "SwinConfig", image_size=64, embed_dim=32, depths=[1, 1],
                    num_heads=[2, 4], window_size=4),
    "Segformer": partial(picture_model, "SegformerModel", "SegformerConfig", image_size=64),
    "ResNet": partial(picture_model, "ResNetModel", "ResNetConfig", image_size=64, depths=[1, 1, 1, 1]),
}  # fmt: skip
# Architectures that were first tried when the table of ops was finished.
NEW: dict[str, Callable[[], Made]] = {
    **{
        name: partial(image_model, name, 224)
        for name in ("davit_tiny", "focalnet_tiny_srf", "gcvit_xxtiny", "hiera_tiny_224", "nextvit_small")
    },
    **{
        name: partial(image_model, name)
        for name in ("ghostnetv2_100", "repghostnet_050", "efficientvit_b0", "hgnet_tiny", "skresnet18", "resnest14d")
    },
    **{
        name: partial(image_model, name, 224)
        for name in ("sequencer2d_s", "tiny_vit_5m_224", "mvitv2_tiny", "convit_tiny", "maxxvit_rmlp_nano_rw_256",
                     "eva02_tiny_patch14_224", "nest_tiny", "efficientvit_m0", "mambaout_femto", "shvit_s1")
    },
    **{name: partial(video_model, name) for name in ("r3d_18", "r2plus1d_18", "s3d", "swin3d_t")},
    "XLNet": partial(text_model, "XLNetModel", "XLNetConfig", d_model=64, n_layer=2, n_head=4, d_inner=128),
    "GPTJ": partial(text_model, "GPTJForCausalLM", "GPTJConfig", n_embd=64, n_layer=2, n_head=4, rotary_dim=8),
    "Phi3": partial(text_model, "Phi3ForCausalLM", "Phi3Config", **GROUPED),
    "Granite": partial(text_model, "GraniteForCausalLM", "GraniteConfig", **GROUPED),
    "Cohere": partial(text_model, "CohereForCausalLM", "CohereConfig", **GROUPED),
    "Glm": partial(text_model, "GlmForCausalLM", "GlmConfig", head_dim=16, **GROUPED),
    "Mamba": partial(text_model, "MambaForCausalLM", "MambaConfig"),
    "RoFormer": partial(text_model, "RoFormerModel", "RoFormerConfig"),
    "Nystromformer": partial(text_model, "NystromformerModel", "NystromformerConfig"),
    "Swinv2": partial(picture_model, "Swinv2Model", "Swinv2Config", image_size=64, embed_dim=32, depths=[1, 1],
                      num_heads=[2, 4], window_size=4),
    "Cvt": partial(picture_model, "CvtModel", "CvtConfig", image_size=64),
    "MobileViT": partial(picture_model, "MobileViTModel", "MobileViTConfig", image_size=64),
    "Yolos": partial(picture_model, "YolosModel", "YolosConfig", **{**VISION, "image_size": [32, 32]}),
    "Data2VecVision": partial(picture_model, "Data2VecVisionModel", "Data2VecVisionConfig", **VISION),
    "RegNet": partial(picture_model, "RegNetModel", "RegNetConfig", image_size=64, depths=[1, 1, 1, 1]),
}  # fmt: skip
FAMILIES = ("classification", "segmentation", "detection", "timm", "transformers", "new")
TIMM = (
    *("resnet18", "resnet26d", "resnetv2_50", "resnext50_32x4d", "seresnet18", "ecaresnet26t", "res2net50_26w_4s"),
    *("efficientnet_b0", "efficientnetv2_rw_t", "mobilenetv3_large_100", "mobilenetv4_conv_small", "mnasnet_100"),
    *("fbnetc_100", "ghostnet_100", "tinynet_e", "lcnet_050", "hardcorenas_a", "mixnet_s", "rexnet_100"),
    *("regnetx_002", "regnety_002", "regnetz_b16", "densenet121", "dla34", "dpn68", "hrnet_w18_small", "vovnet39a"),
    *("darknet53", "cspresnet50", "cspdarknet53", "nf_resnet50", "dm_nfnet_f0", "inception_v3", "xception41"),
    *("convnext_atto", "convnextv2_atto", "convmixer_768_32", "edgenext_xx_small", "fastvit_t8", "repvgg_a0"),
    *("mobileone_s0", "inception_next_tiny", "poolformer_s12", "caformer_s18", "starnet_s1", "vgg11_bn"),
    *("vit_tiny_patch16_224", "deit_tiny_patch16_224", "beit_base_patch16_224", "cait_xxs24_224", "coat_tiny"),
    *("crossvit_tiny_240", "levit_128s", "mixer_s16_224", "gmlp_ti16_224", "resmlp_12_224", "pit_ti_224"),
    *("swin_tiny_patch4_window7_224", "swinv2_cr_tiny_ns_224", "tnt_s_legacy_patch16_224", "twins_pcpvt_small"),
    *("visformer_tiny", "volo_d1_224", "xcit_nano_12_p16_224", "mobilevit_xxs", "efficientformer_l1", "pvt_v2_b0"),
)


def models(family: str) -> dict[str, Callable[[], Made]]:
    """The models of one of ``FAMILIES``."""
    if family == "new":
        return NEW
    if family == "transformers":
        return TRANSFORMERS
    if family == "timm":
        return {name: partial(image_model, name) for name in TIMM}
    module = imported("torchvision.models")
    make = {"classification": classifier, "segmentation": segmentation, "detection": detection_backbone}[family]
    part = module if family == "classification" else getattr(module, family)
    return {name: partial(make, name) for name in module.list_models(module=part)}
