"""What is done with graphs beside running them: verify, bench, reduce, capture, conformance."""
