"""From a graph to compiled steps: lowering, partitions, layouts, memory, threads."""
