"""Machines that evaluate formulas: on NumPy arrays, or by building IR."""
