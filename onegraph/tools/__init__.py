"""Verifies, times, reduces, captures and converts graphs, and tests the library's conformance."""
