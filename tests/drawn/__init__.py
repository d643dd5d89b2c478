"""Drawn uses of each kernel of the package; ``make kernels`` runs many."""
