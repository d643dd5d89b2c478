"""Lists the mistakes in the texts of the specification: what is printed, what is meant, why, and what onegraph does."""
