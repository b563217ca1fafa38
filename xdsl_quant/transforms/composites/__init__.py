"""Composite ops and outlined functions: inlining, and export of their kernels."""
