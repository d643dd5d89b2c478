"""Graphs and arrays to test with: cases of every op, random graphs, random inputs, tolerances."""
