"""Small tools without any knowledge of oneDNN: exact types, locks, files, arguments, worker processes."""
