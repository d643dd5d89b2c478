"""Small tools that know nothing of oneDNN: type checks, locks, file writing, argument checks, worker processes."""
