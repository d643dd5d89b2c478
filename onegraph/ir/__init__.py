"""The records that a graph is made of: logical tensors, ops, and where a graph was loaded from."""
