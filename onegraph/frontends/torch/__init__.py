"""Turns FX graphs of PyTorch into graphs, and runs them: the backend of torch.compile, and export."""
