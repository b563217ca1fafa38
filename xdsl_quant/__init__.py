"""MLIR's quant dialect for xDSL."""

from . import moved_modules

__version__ = "0.1.0"

moved_modules.install()
