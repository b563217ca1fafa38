"""Machines: they evaluate formulas (Python functions of arrays), or build IR for them."""
