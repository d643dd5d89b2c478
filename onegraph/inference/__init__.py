"""One op examined: its violations, and the data types and shapes of its outputs."""
