"""MLIR's quant dialect for xDSL."""

__version__ = "0.1.0"
