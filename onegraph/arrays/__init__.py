"""Arrays of numpy and of other libraries, as the package takes and makes them."""
