"""Models written once, as calls of layers: ``network`` makes ops of them, ``training`` their gradients as well,
``torch_network`` runs them in PyTorch.

Parameters are named arrays in torch's axis order; activations are NXC in the graphs. The module of a model has
``parameters()``, ``shape(batch)`` of its input, and ``forward(net, input)``, which runs on any of the layers.
"""
