"""Generators of drawn uses, a module for each family of kernels; ``table.py`` says how an entry looks."""
