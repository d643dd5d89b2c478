"""Attributes of convolutions and pools that the examples start from."""

from __future__ import annotations

FORWARD = "Convolution ConvTranspose"
DATA_GRADIENTS = "ConvolutionBackwardData ConvTransposeBackwardData"
WEIGHT_GRADIENTS = "ConvolutionBackwardWeights ConvTransposeBackwardWeights"
CONVOLUTIONS = f"{FORWARD} {DATA_GRADIENTS} {WEIGHT_GRADIENTS}"
POOLS = "AvgPool AvgPoolBackward MaxPool MaxPoolBackward"
Attrs = dict[str, object]

NCX: Attrs = {"data_format": "NCX"}
ROW: Attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
IMAGE: Attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
VOLUME: Attrs = {"strides": [1] * 3, "pads_begin": [0] * 3, "pads_end": [0] * 3, "dilations": [1] * 3}
POOL: Attrs = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
AVERAGE: Attrs = {**POOL, "exclude_pad": True}
