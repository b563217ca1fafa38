"""Inspection and comparison of models."""
