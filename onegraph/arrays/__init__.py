"""Converts arrays of other libraries to numpy arrays, and allocates arrays."""
