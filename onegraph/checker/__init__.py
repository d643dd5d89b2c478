"""Ops and graphs held against the specification and the loaded library."""
