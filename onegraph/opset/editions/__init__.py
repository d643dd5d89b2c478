"""Defines the editions of the specification by their differences from the newest one."""
