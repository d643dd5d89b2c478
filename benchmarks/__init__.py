"""What the binding costs, and what the library gains: timings against a peer in one run. README.md says how."""
