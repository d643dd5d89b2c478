"""Turns a graph into compiled steps: lowering, partitions, layouts, memory, threads."""
