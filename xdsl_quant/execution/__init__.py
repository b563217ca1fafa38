"""
Compile a module with MLIR and call it on NumPy arrays.

Compiling needs the extra `mlir`: `pip install 'xdsl-quant[mlir]'`.
"""

from .compilation import compile
from .compilation_error import CompilationError
from .compiled_function import CompiledFunction

__all__ = ["CompilationError", "CompiledFunction", "compile"]
