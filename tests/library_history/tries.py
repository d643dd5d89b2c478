"""The graphs that run what a commit of the oneDNN library mended, by the commits or issues."""

from . import attention_tries, convolution_tries, graph_tries, product_tries
from .builders import TRIES

MODULES = (graph_tries, attention_tries, product_tries, convolution_tries)
__all__ = ["MODULES", "TRIES"]
