"""Loads the oneDNN library and calls it through the compiled extension. No other stage does either."""
