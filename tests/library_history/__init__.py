"""The fixes of the oneDNN library, one by one: what was read, and what each of them means for onegraph."""
