"""Makes graphs and arrays for tests: cases of every op, random graphs, random inputs, tolerances."""
