"""Compiled graphs run on arrays."""
