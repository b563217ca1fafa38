"""Formulas with their integer arithmetic in another order, for tests of machines."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import TypeAlias

import pytest

from xdsl_quant.frontends.tflite.formulas import (
    elementwise,
    fixed_point,
    quantized,
    reduction,
    rows,
    tables,
    windows,
)

INTEGER_MODULES = elementwise, fixed_point, quantized, reduction, rows, tables, windows
"""The formulas of integers, whose sums and products may have any order."""

Rewriting: TypeAlias = type[ast.NodeTransformer]


class Commuted(ast.NodeTransformer):
    """Exchanges the operands of sums, products and bitwise ops."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd):
            node.left, node.right = node.right, node.left
        return node


class Reassociated(ast.NodeTransformer):
    """Turns `a + b - c` into `a - c + b`, and `a - b + c` into `a + c - b`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        inner = node.left
        if isinstance(inner, ast.BinOp) and {type(node.op), type(inner.op)} == {
            ast.Add,
            ast.Sub,
        }:
            node.op, inner.op = inner.op, node.op
            node.right, inner.right = inner.right, node.right
        return node


REWRITINGS = Commuted, Reassociated


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions that a module defines, without their decorators."""
    for value in vars(module).values():
        function = inspect.unwrap(value) if callable(value) else None
        if inspect.isfunction(function) and function.__module__ == module.__name__:
            if function.__name__ != "<lambda>":
                yield function


def rewritten_code(function: FunctionType, rewriting: Rewriting) -> CodeType | None:
    """The code of a rewritten function; `None` if nothing changes."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    before = ast.dump(tree)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = [rewriting().visit(node) for node in definition.body]
    if ast.dump(tree) == before:
        return None
    definition.decorator_list = []
    module = compile(
        ast.fix_missing_locations(tree), "<rewritten>", "exec", dont_inherit=True
    )
    (code,) = (c for c in module.co_consts if isinstance(c, CodeType))
    return code


@contextmanager
def rewritten(
    rewriting: Rewriting, modules: tuple[ModuleType, ...] = INTEGER_MODULES
) -> Generator[list[Callable[..., object]]]:
    """Rewrites all functions of some modules in place; yields those that changed."""
    with pytest.MonkeyPatch.context() as patch:
        changed: list[Callable[..., object]] = []
        for module in modules:
            for function in functions_of(module):
                if (code := rewritten_code(function, rewriting)) is not None:
                    patch.setattr(function, "__code__", code)
                    changed.append(function)
        yield changed
