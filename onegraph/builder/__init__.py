"""Builds graphs: the data of a graph, and one method for each op."""
