"""Makes graphs from graphs: with other shapes, in another edition, or with fewer ops."""
