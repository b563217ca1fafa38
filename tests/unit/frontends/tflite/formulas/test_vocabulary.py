"""
The vocabulary of formulas: NumPy functions of a list, and named primitives. Machines
implement these; a formula never asks what its operands are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from xdsl_quant.frontends.tflite import formulas
from xdsl_quant.frontends.tflite.lowering.kernels import IMPLEMENTATIONS

FILES = sorted(Path(formulas.__path__[0]).glob("*.py"))

OF_EXPRESSIONS = {
    *("abs", "ceil", "clip", "concatenate", "copysign", "cos", "einsum", "exp"),
    *("expand_dims", "expm1", "floor", "fmax", "fmin", "fmod", "log", "maximum"),
    *("minimum", "moveaxis", "negative", "ones_like", "pad", "rint", "signbit"),
    *("sin", "sqrt", "stack", "take", "tanh", "trunc", "where"),
}
"""The NumPy functions that formulas apply to operands, which machines implement."""

OF_NUMBERS = {
    *("any", "append", "arange", "array", "asarray", "errstate", "frexp", "iinfo"),
    *("isfinite", "isnan", "ldexp", "max", "vectorize"),
}
"""The NumPy functions of parameters, sizes and tables, which are known."""

TYPES = {
    *("bool_", "float32", "float64", "floating", "inf", "int8", "int16", "int64"),
    "ndarray",
}

IMPORTS = {
    *("__future__", "collections.abc", "functools", "math", "numpy", "numpy.typing"),
    *("numpy.lib.stride_tricks", "operator", "typing", "xdsl_quant.unsupported"),
    *("xdsl_quant.numerics.parameters", "xdsl_quant.numerics.primitives"),
}

QUESTIONS = {"callable", "getattr", "hasattr", "isinstance", "issubclass", "type"}
"""Functions that tell machines apart."""

C_LIBRARY = "_c_function"
"""The function that finds functions of floats for tables."""


def nodes(path: Path) -> Iterator[ast.AST]:
    """The nodes of a file, without the functions of the C library."""
    tree = ast.parse(path.read_text())
    for statement in tree.body:
        if getattr(statement, "name", None) != C_LIBRARY:
            yield from ast.walk(statement)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_formulas_keep_to_their_vocabulary(path: Path):
    for node in nodes(path):
        match node:
            case ast.Attribute(value=ast.Name(id="np"), attr=name):
                assert name in OF_EXPRESSIONS | OF_NUMBERS | TYPES, name
            case ast.Call(func=ast.Name(id=name)):
                assert name not in QUESTIONS, f"line {node.lineno}: {name}"
            case ast.ImportFrom(module=module, level=0):
                assert module in IMPORTS, module
            case ast.Import(names=names):
                modules = {alias.name for alias in names}
                assert modules <= IMPORTS | {"ctypes"}, modules
            case _:
                pass


def test_lists_have_no_more_than_formulas_use():
    used = {
        node.attr
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "np"
    }
    assert used == OF_EXPRESSIONS | OF_NUMBERS | TYPES


def test_one_table_has_the_formulas_of_all_ops():
    names = [op_type.name for op_type in IMPLEMENTATIONS]
    assert len({*names}) == len(names) > 90
