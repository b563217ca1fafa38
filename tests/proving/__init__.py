"""Theorems about casts of many types."""
