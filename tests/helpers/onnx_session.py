"""Sessions of ONNX Runtime, the oracle of many tests."""

import pytest


def session_of(model, optimized=""):
    """The session of a model, which is a proto, its bytes or a path; the test is skipped without ONNX Runtime.

    It has one thread: those of a pool wait for work in a loop, and take processors from the other tests.

    Args:
        model: the model.
        optimized: the path to which ONNX Runtime writes the model as it runs it.
    """
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(optimized)
    options.add_session_config_entry("session.x64quantprecision", "1")  # for products that the optimizer makes
    from onegraph.tools.onnx_unsigned import with_unsigned_operands  # needs the package onnx

    given = with_unsigned_operands(model).SerializeToString() if hasattr(model, "SerializeToString") else model
    return runtime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
