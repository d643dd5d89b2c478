"""The kernels of the package: a record for each of what it computes, when it is taken and why, and how it is called."""
