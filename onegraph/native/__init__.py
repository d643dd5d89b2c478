"""The compiled extension: the oneDNN library is loaded and called here and nowhere else."""
