"""The cost of the binding and the gain of the library, timed against peers in one run: see README.md."""
