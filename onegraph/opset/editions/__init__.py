"""The editions of the specification: what each says differently from the newest."""
