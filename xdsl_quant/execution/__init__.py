"""
Compile a module with MLIR and call it on NumPy arrays.

Compiling needs the extra `mlir`: `pip install 'xdsl-quant[mlir]'`.
"""

from .bound_call import BoundCall
from .compilation import compile
from .compilation_error import CompilationError
from .compiled_function import CompiledFunction

__all__ = ["BoundCall", "CompilationError", "CompiledFunction", "compile"]
