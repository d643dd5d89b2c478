"""Checks ops and graphs against the specification and the loaded library."""
