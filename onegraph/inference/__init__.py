"""Checks one op: finds its violations, and infers the data types and shapes of its outputs."""
