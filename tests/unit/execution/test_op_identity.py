"""Ops of MLIR in sets and dicts: by identity, as their hash changes with their content."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import xdsl_quant.execution
from xdsl_quant.execution.mlir_bindings import (
    functions_in,
    identity_of,
    ir,
    new_context,
    ops_in,
)

MODULE = """
func.func @f(%a: i32, %b: i32) -> i32 {
  %0 = arith.addi %a, %b : i32
  %1 = arith.addi %a, %b : i32
  return %0 : i32
}"""


def test_an_op_has_one_identity():
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(MODULE)
        first, second = ops_in(module, "arith.addi")
        (function,) = functions_in(module, ["f"])
        found = {identity_of(first): "first", identity_of(second): "second"}
        values = {first.results[0]: "first", second.results[0]: "second"}
        first.operands[1] = first.operands[0]
        first.attributes["changed"] = ir.UnitAttr.get()
        again = [*function.regions[0].blocks[0].operations]
        assert [found[identity_of(op)] for op in again[:2]] == ["first", "second"]
        assert [values[op.results[0]] for op in again[:2]] == ["first", "second"]
        assert identity_of(again[0]) == identity_of(again[0].operation)


def test_ops_have_no_hash():
    """So each set and dict of ops fails in tests, whether the ops change or not."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(MODULE)
        (function,) = functions_in(module, ["f"])
        for op in (function, function.operation, module.operation):
            with pytest.raises(TypeError, match="use identity_of"):
                hash(op)


# A lint that also reads code that no test runs

OPS = "ops_in", "operations_of", "functions_in", "users_of"
"""Functions that return ops; `defining_op` returns one."""

PARTS = "owner", "operation", "opview", "parent"
"""Attributes that are ops."""

PARAMETERS = "op", "generic", "insert", "function"
"""Names of parameters that are ops."""

SETS = "set", "frozenset", "dict.fromkeys", "hash"
METHODS = "add", "discard", "get", "pop", "remove", "setdefault", "update"


def _called(node: ast.Call) -> str:
    """The function of a call, which may be in a module that is called `mlir`."""
    return ast.unparse(node.func).removeprefix("mlir.")


class OpsInSets(ast.NodeVisitor):
    """Finds ops of MLIR in a function that are elements of sets or keys of dicts."""

    def __init__(self, function: ast.AST):
        self.lines: list[int] = []
        self._ops: set[str] = set()
        self._lists: set[str] = set()
        self._keyed: set[str] = set()
        for _ in range(3):
            for node in ast.walk(function):
                self._name(node)
        self.visit(function)

    def _name(self, node: ast.AST) -> None:
        """Note the names that a node gives to ops, lists of ops, sets and dicts."""
        match node:
            case ast.arg(arg=name):
                if name in PARAMETERS:
                    self._ops.add(name)
            case (
                ast.Assign(targets=[target], value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                if isinstance(value, ast.Set | ast.Dict | ast.SetComp | ast.DictComp):
                    self._keyed.add(ast.unparse(target))
                if ast.unparse(value) in ("set()", "dict()"):
                    self._keyed.add(ast.unparse(target))
                self._bind(target, value)
            case (
                ast.For(target=target, iter=elements)
                | ast.comprehension(target=target, iter=elements)
            ):
                self._bind_elements(target, elements)
            case _:
                pass

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            if self._is_list(value):
                self._ops.update(e.id for e in target.elts if isinstance(e, ast.Name))
        elif isinstance(target, ast.Name):
            if self._is_op(value):
                self._ops.add(target.id)
            if self._is_list(value):
                self._lists.add(target.id)

    def _bind_elements(self, target: ast.expr, elements: ast.expr) -> None:
        match elements:
            case ast.Call(func=ast.Name(id="enumerate"), args=[elements, *_]):
                if isinstance(target, ast.Tuple):
                    self._bind_elements(target.elts[1], elements)
            case ast.Call(func=ast.Name(id="zip"), args=several):
                if isinstance(target, ast.Tuple):
                    for element, each in zip(target.elts, several, strict=False):
                        self._bind_elements(element, each)
            case _:
                if self._is_list(elements) and isinstance(target, ast.Name):
                    self._ops.add(target.id)

    def _is_op(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._ops
            case ast.Call() if _called(node) == "defining_op":
                return True
            case ast.Call(func=ast.Attribute(attr="clone")):
                return True
            case ast.Attribute(attr=attribute):
                return attribute in PARTS
            case ast.Subscript(value=elements, slice=index):
                return not isinstance(index, ast.Slice) and self._is_list(elements)
            case _:
                return False

    def _is_list(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._lists
            case ast.Call() if _called(node) in OPS:
                return True
            case ast.Attribute(attr=attribute):
                return attribute == "operations"
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                return self._is_op(element)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return any(map(self._is_element, elements))
            case ast.Subscript(value=elements):
                return self._is_list(elements)
            case _:
                return False

    def _is_element(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Starred):
            return self._is_list(node.value)
        return self._is_op(node)

    def _check(self, node: ast.expr, is_wrong: bool) -> None:
        if is_wrong:
            self.lines.append(node.lineno)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._check(node, any(map(self._is_element, node.elts)))

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._check(node, self._is_op(node.elt))

    def visit_Dict(self, node: ast.Dict) -> None:
        self._check(
            node, any(key is not None and self._is_op(key) for key in node.keys)
        )

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._check(node, self._is_op(node.key))

    def visit_Compare(self, node: ast.Compare) -> None:
        is_in = isinstance(node.ops[0], ast.In | ast.NotIn) and self._is_op(node.left)
        keyed = ast.unparse(node.comparators[0]) in self._keyed
        self._check(node, is_in and keyed)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._check(node, self._is_op(node.slice))

    def visit_Call(self, node: ast.Call) -> None:
        given = any(self._is_op(each) or self._is_list(each) for each in node.args)
        match node.func:
            case ast.Attribute(attr=name, value=target):
                is_keyed = ast.unparse(target) in self._keyed and name in METHODS
            case _:
                is_keyed = False
        self._check(node, given and (is_keyed or ast.unparse(node.func) in SETS))


def ops_in_sets(text: str) -> Iterator[int]:
    """The lines at which ops of MLIR are elements of sets or keys of dicts."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield from OpsInSets(node).lines


FOLDER = Path(xdsl_quant.execution.__file__).parent
PATHS = [
    path for path in sorted(FOLDER.rglob("*.py")) if "mlir_bindings" in path.read_text()
]


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_no_op_is_in_a_set(path: Path):
    assert [*ops_in_sets(path.read_text())] == []


def test_rooms_are_linted():
    assert len(PATHS) >= 30


@pytest.mark.parametrize(
    "line",
    [
        "position = {op: i for i, op in enumerate(ops_in(module))}",
        "made: set[Any] = set(); made.add(defining_op(value, 'linalg.generic'))",
        "made = {defining_op(value, 'linalg.generic')}",
        "owner = defining_op(value); taken = {}; taken[owner] = 1",
        "readers = {use.owner.operation for use in value.uses}",
        "users = [use.owner for use in value.uses]; count = len({*users})",
        "ops = [op.operation for op in block.operations]; later = {*ops[1:]}",
        "known = dict.fromkeys(ops_in(module))",
        "seen = set(); found = [v for v in values if v.owner in seen]",
        "for op in ops_in(module): hash(op)",
        "for op in mlir.operations_of(block): hash(op)",
        "readers = {*mlir.users_of(value)}",
        "made = {mlir.defining_op(value, 'linalg.generic')}",
    ],
)
def test_what_the_lint_finds(line: str):
    assert len([*ops_in_sets(f"def f(module):\n {line}")]) >= 1


@pytest.mark.parametrize(
    "line",
    [
        "position = {identity_of(op): i for i, op in enumerate(ops_in(module))}",
        "taken = {op.attributes['sym_name'].value for op in module.body.operations}",
        "made = set(); made.update(defining_op(value).results)",
        "users = [use.owner for use in value.uses]; found = op in users",
        "blocks = {op.block for op in ops_in(module)}",
    ],
)
def test_what_the_lint_accepts(line: str):
    assert [*ops_in_sets(f"def f(module, op):\n {line}")] == []
