"""Defines the records that a graph consists of: logical tensors, ops, and the file that a graph was loaded from."""
