"""StableHLO frontend: dialect, quantization casts, lowering to integers and linalg."""
