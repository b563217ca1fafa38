"""What `convert-stablehlo-to-linalg` makes of each op: one module for a group of ops."""
