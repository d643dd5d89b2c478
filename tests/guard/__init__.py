"""Runs with memory between pages that nobody may touch: a read or write beside a block ends the process."""
