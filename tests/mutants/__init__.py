"""Mutation testing: changes one place of the package at a time, and asks whether the tests notice."""
