"""What oneDNN gets wrong, by version."""
