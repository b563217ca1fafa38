"""Comparison of quantizers on the same models and samples."""
