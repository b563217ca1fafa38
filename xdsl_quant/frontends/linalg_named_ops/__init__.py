"""Named ops of MLIR's `linalg` dialect that xDSL lacks."""
