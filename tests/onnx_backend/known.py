"""Lists the backend tests of the package onnx that fail, by reason."""

ONNX = "1.23"  # the version whose tests the table describes

KNOWN: dict[str, str] = {}
