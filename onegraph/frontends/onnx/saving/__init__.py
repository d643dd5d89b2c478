"""Writes the ops of a graph as nodes of an ONNX model: standard nodes, and functions with bodies of standard nodes."""
