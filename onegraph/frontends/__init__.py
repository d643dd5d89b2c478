"""Turns models of other packages into graphs."""
