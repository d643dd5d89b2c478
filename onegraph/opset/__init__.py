"""Holds the specification as data: one record for each op, and the differences of each edition."""
