"""Graphs that passes of the compiler take."""
