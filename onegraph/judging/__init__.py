"""Judges what a model computes by an oracle of another hand: eager PyTorch, or ONNX Runtime.

``contents`` makes ordinary and extreme inputs, ``comparison`` decides what rounding explains, and ``judgement`` has the
records of what was found.
"""
