"""The specification as data: one record for each op, and the editions that differ from it."""
