"""Code that several test modules share; no test stands here."""
