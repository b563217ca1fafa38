"""Inspection of quantized models, and comparison with their float models."""
