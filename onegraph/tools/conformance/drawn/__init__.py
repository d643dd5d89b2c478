"""Runs random valid uses of ops in the bare library, and measures how well the fault records tell what goes wrong."""
