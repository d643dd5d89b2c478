"""The same models in PyTorch, ONNX Runtime and OpenVINO. A peer that is not installed is skipped."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

import onegraph as og

from .models.parameters import Parameters

Run = Callable[[], np.ndarray]


def installed(name: str) -> bool:
    return util.find_spec(name) is not None


def torch_model(parameters: Parameters, forward: Any, dtype: og.DataType) -> Any:
    """The model as a torch module."""
    import torch

    from .models.torch_network import TorchNetwork

    return TorchNetwork(parameters, forward, getattr(torch, "bfloat16" if dtype is og.bf16 else "float32"))


def to_torch(array: np.ndarray) -> Any:
    """A tensor that shares the memory of an array; images are NCHW in the memory format channels_last."""
    import torch

    if array.dtype == og.bf16.numpy:
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    return tensor.permute(0, 3, 1, 2) if tensor.ndim == 4 else tensor


def torch_runs(model: Any, array: np.ndarray, threads: int) -> dict[str, Callable[[], Any]]:
    """Inference, eager and compiled with the weights frozen in."""
    import torch
    import torch._inductor.config as inductor

    torch.set_num_threads(threads)
    inductor.freezing = True
    model.eval()
    tensor, faster = to_torch(array), torch.compile(model)

    def run(module: Any) -> Any:
        with torch.no_grad():
            return module(tensor)

    return {"torch eager": lambda: run(model), "torch compiled": lambda: run(faster)}


def export(model: Any, array: np.ndarray) -> bytes:
    """The model as ONNX, with inputs and outputs in NCHW."""
    import torch

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / "model.onnx"
        model.eval()
        # this exporter needs no other package
        torch.onnx.export(model, (to_torch(array),), str(file), dynamo=False, opset_version=17, input_names=["x"])
        return file.read_bytes()


def quantized(model: bytes, array: np.ndarray) -> dict[str, bytes]:
    """The model in int8 for each peer that reads ONNX, calibrated with one array: u8, s8 weights per channel.

    Each peer gets the form in which it is fastest: QuantizeLinear and DequantizeLinear; for ONNX Runtime and models
    without convolutions, quantization during the run. With s8 activations, ONNX Runtime takes 2.4 times as long.
    """
    from onnxruntime import quantization

    class Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
        rest = iter([{"x": as_nchw(array)}])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rest, None)

    given = {"per_channel": True, "weight_type": quantization.QuantType.QInt8}
    with tempfile.TemporaryDirectory() as folder:
        source, prepared, fixed, dynamic = (
            Path(folder) / f"{name}.onnx" for name in ("model", "prepared", "fixed", "dynamic")
        )
        source.write_bytes(model)
        quantization.shape_inference.quant_pre_process(source, prepared)
        quantization.quantize_static(
            prepared,
            fixed,
            Calibration(),
            op_types_to_quantize=None if array.ndim == 4 else ["Gemm", "MatMul"],
            activation_type=quantization.QuantType.QUInt8,
            **given,
        )
        found = {"ONNX Runtime": fixed.read_bytes(), "OpenVINO": fixed.read_bytes()}
        if array.ndim != 4:
            quantization.quantize_dynamic(prepared, dynamic, **given)
            found["ONNX Runtime"] = dynamic.read_bytes()
    return found


def onnxruntime_run(model: bytes, array: np.ndarray, threads: int) -> Callable[[], np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = {"x": as_nchw(array)}
    return lambda: session.run(None, given)[0]


def openvino_run(model: bytes, array: np.ndarray, threads: int, dtype: og.DataType) -> Callable[[], np.ndarray]:
    import openvino

    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "bf16" if dtype is og.bf16 else "f32",
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model=model, weights=b""), "CPU", hints)
    request, given = compiled.create_infer_request(), as_nchw(array)
    return lambda: request.infer([given], share_inputs=True, share_outputs=True)[0]


def as_nchw(array: np.ndarray) -> np.ndarray:
    """The array in f32; images become NCHW."""
    wide = array.astype(np.float32)
    return np.ascontiguousarray(wide.transpose(0, 3, 1, 2)) if wide.ndim == 4 else wide


def as_nxc(result: Any) -> np.ndarray:
    """A copy of a peer's result in f32; images become NXC."""
    array = result if isinstance(result, np.ndarray) else result.detach().float().numpy()
    return np.array(array.transpose(0, 2, 3, 1) if array.ndim == 4 else array, np.float32)
