"""Lowers what models of any package compute to ops of a graph. Every front end calls these functions.

A value is a numpy array that is known, or a tensor of the graph. Results that depend on known arrays alone are computed
at once, and add nothing to the graph.
"""
