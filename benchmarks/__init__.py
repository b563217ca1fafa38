"""Speed and memory of xdsl-quant, beside MLIR. One script for each question."""
