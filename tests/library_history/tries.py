"""The graphs that run what commits of the oneDNN library mended, by the names that history.json gives them."""

from . import attention_tries, convolution_tries, graph_tries, product_tries
from .builders import TRIES

MODULES = (graph_tries, attention_tries, product_tries, convolution_tries)
__all__ = ["MODULES", "TRIES"]
