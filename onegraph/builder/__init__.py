"""The op-builder: graphs as data, one method for each op."""
