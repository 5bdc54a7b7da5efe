"""Operators of neural networks: activations, normalizations, attention, losses, steps of optimizers."""
