"""onegraph: the Python binding layer of the oneDNN Graph API."""
