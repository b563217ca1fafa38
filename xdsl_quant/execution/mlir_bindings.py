"""
Typed access to MLIR's Python bindings; no other module imports them.

MLIR has type stubs for its IR (`ir` here), but none for its dialects: only the results
of their builder functions are typed here. This module cannot be imported without the
extra `mlir`; modules that use it are imported when the first function is compiled.
"""

# The stubs are incomplete, and have lists with unknown element types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.extras import missing_package

try:
    from mlir import ir
    from mlir.dialects import arith as _arith
    from mlir.dialects import llvm as _llvm
    from mlir.execution_engine import ExecutionEngine
    from mlir.passmanager import PassManager
except ImportError:
    raise missing_package("compiled execution", "MLIR", "mlir") from None

if TYPE_CHECKING:

    class MLIRError(Exception):
        """Raised by MLIR for invalid text, an invalid module or a failed pass."""

        error_diagnostics: Sequence[ir.DiagnosticInfo]

    class FieldValue(ir.Value):
        """
        Type for fields that hold an `ir.Value`. The stub of this class omits a base
        class, so type checkers would assume a `__get__` method.
        """

        def __get__(self, instance: object, owner: object) -> FieldValue: ...
else:
    MLIRError = ir.MLIRError
    FieldValue = ir.Value

Op: TypeAlias = ir.Operation | ir.OpView
Values: TypeAlias = Sequence[ir.Value]
Sizes: TypeAlias = Sequence[int | ir.Value]
"""Sizes of a tensor: integers if static, values if dynamic."""


# Dialects


class Dialect(Protocol):
    """Builder functions of a dialect; each inserts an op and returns its result."""

    def __getattr__(self, name: str, /) -> Callable[..., ir.Value]: ...


class _ArithDialect(Dialect, Protocol):
    CmpFPredicate: type[_arith.CmpFPredicate]
    CmpIPredicate: type[_arith.CmpIPredicate]
    FastMathFlags: type[_arith.FastMathFlags]


class _FuncDialect(Dialect, Protocol):
    CallOp: Callable[[Sequence[ir.Type], str, Values], ir.OpView]
    FuncOp: Callable[..., ir.OpView]
    return_: Callable[[Values], ir.OpView]


class _LinalgDialect(Dialect, Protocol):
    GenericOp: Callable[..., ir.OpView]
    get_indexing_maps: Callable[[Op], Iterable[ir.AffineMapAttr]]


class _LlvmDialect(Dialect, Protocol):
    AtomicOrdering: type[_llvm.AtomicOrdering]


class _ScfDialect(Dialect, Protocol):
    ForOp: Callable[..., ir.OpView]
    IfOp: Callable[..., ir.OpView]


_dialects: list[str] = []
"""Names of the dialects below."""


def _dialect(name: str) -> Dialect:
    _dialects.append(name)
    return cast(Dialect, import_module(f"mlir.dialects.{name}"))


arith = cast(_ArithDialect, _dialect("arith"))
bufferization = _dialect("bufferization")
cf = _dialect("cf")
func = cast(_FuncDialect, _dialect("func"))
linalg = cast(_LinalgDialect, _dialect("linalg"))
llvm = cast(_LlvmDialect, _dialect("llvm"))
math = _dialect("math")
memref = _dialect("memref")
scf = cast(_ScfDialect, _dialect("scf"))
tensor = _dialect("tensor")
vector = _dialect("vector")


def declare(name: str, arguments: Sequence[ir.Type], *results: ir.Type) -> ir.OpView:
    """Insert a private function declaration."""
    type_ = ir.FunctionType.get(arguments, results)
    return func.FuncOp(name, type_, visibility="private")


# Modules and passes


def new_context() -> ir.Context:
    """
    Return a single-threaded context for compilation. MLIR loads further dialects on
    demand: with all of them loaded, `canonicalize` collects the patterns of all ops,
    and a small function takes 10 % longer to compile.
    """
    make = cast(Callable[..., ir.Context], ir.Context)
    context = make(load_on_create_dialects=_dialects)
    context.enable_multithreading(False)
    return context


def run_passes(module: ir.Module, passes: Sequence[str]) -> None:
    pipeline = f"builtin.module({','.join(passes)})"
    PassManager.parse(pipeline).run(module.operation)


_OPT_LEVEL = 2
"""LLVM optimization level; 1 to 3 generate equally fast code."""


def new_engine(module: ir.Module) -> ExecutionEngine:
    """Return an engine that compiles a module when it first looks up a function."""
    return ExecutionEngine(module, _OPT_LEVEL)


def first_diagnostic(error: MLIRError) -> str:
    """Return the first line of the first diagnostic of an error."""
    messages = [diagnostic.message for diagnostic in error.error_diagnostics]
    return (messages or [str(error)])[0].partition("\n")[0]


def first_location(error: MLIRError) -> str:
    """Return the text of the location of the first diagnostic; may be empty."""
    places = [str(diagnostic.location) for diagnostic in error.error_diagnostics]
    return (places or [""])[0]


def unused_names(module: ir.Module, prefix: str) -> Iterator[str]:
    """Yield unused symbol names: a prefix and a number."""
    taken = {*map(symbol_of, module.body.operations)}
    return (name for i in count() if (name := f"{prefix}_{i}") not in taken)


# Ops


def ops_in(op: Op | ir.Module, *names: str) -> list[ir.Operation]:
    """Return all nested ops, or those with one of these names, in post-order."""
    ops: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        if not names or inner.name in names:
            ops.append(inner)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit, ir.WalkOrder.POST_ORDER)
    return ops


def operations_of(block: ir.Block) -> list[ir.Operation]:
    """Return the ops of a block, without nested ones."""
    return [op.operation for op in block.operations]


def functions_in(module: ir.Module, names: Collection[str]) -> list[ir.Operation]:
    """Return the `func` or `llvm` functions with these names."""
    functions = (
        op for op in operations_of(module.body) if op.name in ("func.func", "llvm.func")
    )
    return [function for function in functions if symbol_of(function) in names]


def body_of(op: Op) -> ir.Block:
    return op.regions[0].blocks[0]


def append_block(op: Op, types: Sequence[ir.Type]) -> ir.Block:
    return op.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))


def yielded_values(block: ir.Block) -> Values:
    """Return the operands of the terminator of a block."""
    return block.operations[len(block.operations) - 1].operands


def users_of(value: ir.Value) -> list[ir.Operation]:
    """Return the users of a value, once per use."""
    return [use.owner.operation for use in value.uses]


def defining_op(value: ir.Value, *names: str) -> ir.Operation | None:
    """Return the op that defines a value, if it has one of these names."""
    if not isinstance(value, ir.OpResult):
        return None
    # An op's class may have an attribute `name` that is not the op name.
    op = value.owner.operation
    return op if op.name in names else None


def argument_block(value: ir.Value) -> ir.Block | None:
    """Return the block that a block argument belongs to; `None` for op results."""
    return cast(ir.Block, value.owner) if isinstance(value, ir.BlockArgument) else None


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.argtypes = [ctypes.py_object]
_capsule_name.restype = ctypes.c_char_p
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


def identity_of(op: Op) -> int:
    """
    Return the address of an op: its identity in dicts and sets until it is erased. MLIR
    hashes an op by its content, so dicts and sets lose an op when its content changes.
    Values and blocks are hashed by address.
    """
    capsule = op._CAPIPtr  # pyright: ignore[reportPrivateUsage] the only access
    return _capsule_pointer(capsule, _capsule_name(capsule))


def create_op(name: str, type_: ir.Type, operands: Values) -> ir.Value:
    return ir.Operation.create(name, [type_], operands).result


def renamed(op: ir.Operation, name: str) -> ir.Operation:
    """Replace an op with one result by an op with another name."""
    types, operands = [op.results[0].type], [*op.operands]
    attributes = {key: op.attributes[key] for key in cast(Iterable[str], op.attributes)}
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(name, types, operands, attributes)
    replace_op(op, new.results[0])
    return new


def change_type(value: ir.Value, type_: ir.Type) -> None:
    value.set_type(type_)


def replace_op(op: ir.Operation, value: ir.Value) -> None:
    """Replace the only result of an op by a value, and erase the op."""
    op.results[0].replace_all_uses_with(value)
    op.erase()


def replace_uses_except(value: ir.Value, new: ir.Value, user: ir.Operation) -> None:
    """Replace all uses of a value except the uses in `user`."""
    value.replace_all_uses_except(new, user)


# Attributes and types

_AttributeT = TypeVar("_AttributeT", bound=ir.Attribute)


def attribute_of(op: Op, name: str, kind: type[_AttributeT]) -> _AttributeT:
    """Return an attribute of an op after checking its class."""
    attribute = op.attributes[name]
    assert isinstance(attribute, kind)
    return attribute


def symbol_of(op: Op, name: str = "sym_name") -> str:
    """Return the symbol in an attribute of an op, by default the op's own name."""
    symbol = op.attributes[name]
    assert isinstance(symbol, ir.StringAttr | ir.FlatSymbolRefAttr)
    return symbol.value


def type_of(op: Op, name: str = "type") -> ir.Type:
    """Return the type in a type attribute of an op."""
    return attribute_of(op, name, ir.TypeAttr).value


def types_of_function(function: Op) -> tuple[Sequence[ir.Type], Sequence[ir.Type]]:
    type_ = type_of(function, "function_type")
    assert isinstance(type_, ir.FunctionType)
    return cast("list[ir.Type]", type_.inputs), cast("list[ir.Type]", type_.results)


def number_of(value: ir.Value) -> int | float | None:
    """Return the value of an `arith.constant`; `None` for other ops."""
    constant = defining_op(value, "arith.constant")
    number = constant and constant.attributes["value"]
    return number.value if isinstance(number, ir.IntegerAttr | ir.FloatAttr) else None


def integer_of(value: ir.Value) -> int | None:
    """Return the integer of an `arith.constant`; `None` for other ops."""
    number = number_of(value)
    return number if isinstance(number, int) else None


def array_attr(attributes: Iterable[ir.Attribute]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([*attributes])


def dense_attr(numbers: Array, type_: ir.Type) -> ir.DenseElementsAttr:
    """Return a dense attribute of a tensor or vector type."""
    return ir.DenseElementsAttr.get(numbers.data, type=type_)


def initial_value(constant: Op) -> Array:
    """Return the elements of a `memref.global`, which must have a NumPy dtype."""
    return np.array(constant.attributes["initial_value"])


def shaped_type(value: ir.Value | ir.Attribute) -> ir.ShapedType:
    """Return the shaped type of a value or constant."""
    type_ = value.type
    assert isinstance(type_, ir.ShapedType)
    return type_


def shape(value: ir.Value) -> list[int]:
    return shaped_type(value).shape


def element(value: ir.Value) -> ir.Type:
    return shaped_type(value).element_type


def bits(type_: ir.Type) -> int:
    """Return the bit width of an integer or float type."""
    assert isinstance(type_, ir.IntegerType | ir.FloatType)
    return type_.width


def dimensions_of(map_: ir.AffineMap) -> list[int]:
    """Return the dimension numbers of the map results that are plain dimensions."""
    return [e.position for e in map_.results if isinstance(e, ir.AffineDimExpr)]


def vector_type(size: int, element_type: ir.Type) -> ir.VectorType:
    """Return a 1-D vector type."""
    return ir.VectorType.get([size], element_type)


def affine_map(loops: int, results: Iterable[ir.AffineExpr]) -> ir.AffineMap:
    """Return an affine map of `loops` dimensions without symbols."""
    return ir.AffineMap.get(loops, 0, [*results])
