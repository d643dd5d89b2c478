"""Models written once, as calls of layers: ``network`` makes ops of them, ``torch_network`` runs them in PyTorch.

``tasks`` says what they are trained for; ``training`` and ``torch_training`` run the steps.

Parameters are named arrays in torch's axis order; activations are NXC in the graphs. The module of a model has
``parameters()``, ``shape(batch)`` of its input, and ``forward(net, input)``, which runs on any of the layers.
"""
