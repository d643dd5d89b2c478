"""Reads the pages of the specification, and compares them with the records of an edition."""
