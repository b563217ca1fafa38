"""Passes on layers of float models: the model computes the same, but quantizes better."""
