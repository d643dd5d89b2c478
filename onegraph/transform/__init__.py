"""Graphs made from graphs: other shapes, other editions, fewer ops."""
