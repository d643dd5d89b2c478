"""Runs compiled graphs on arrays."""
