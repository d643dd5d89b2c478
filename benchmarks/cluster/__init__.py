"""Measurements of many processes on one machine, which stand for many machines."""
