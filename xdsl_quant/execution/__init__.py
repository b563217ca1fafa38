"""
Compile a module with MLIR and call it on NumPy arrays.

Compiling needs the extra `mlir`: `pip install '.[mlir]'` in a checkout of xdsl-quant.
"""

from .bound_call import BoundCall
from .compilation import compile
from .compilation_error import CompilationError
from .compiled_function import CompiledFunction
from .profile import Profile, ProfileRow

__all__ = [
    "BoundCall",
    "CompilationError",
    "CompiledFunction",
    "Profile",
    "ProfileRow",
    "compile",
]
