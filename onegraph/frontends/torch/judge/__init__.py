"""Judges a compiled module by PyTorch itself: numbers, gradients, the state of its weights, and its results' memory."""

from .verification import verify

__all__ = ["verify"]
