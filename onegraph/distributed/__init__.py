"""Runs executables on many machines: batches for Ray and Dask, and data-parallel training.

The engines are those of others. This package makes an executable a good citizen of them, and imports none of them
before it is used.
"""

from .averaging import average
from .batches import BatchInference
from .group import Group, join

__all__ = ["BatchInference", "Group", "average", "join"]
