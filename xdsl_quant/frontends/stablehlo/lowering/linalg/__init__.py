"""Lowering patterns of `convert-stablehlo-to-linalg`: one module per group of ops."""
