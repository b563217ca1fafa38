"""Machines that compute formulas: NumPy arrays, and IR that is built."""
