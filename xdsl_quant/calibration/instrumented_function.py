"""
A function whose results are the values of which statistics are wanted.

It is made of the entry function of a module: what stood behind `quant.stats_ref` is
returned, under the key. So any way to call a function is a way to calibrate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from typing import Any, cast

from numpy.typing import ArrayLike, NDArray
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    AnyFloat,
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from xdsl_quant.array_types import numpy_dtype, shortened
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.entry_function import entry_function
from xdsl_quant.loading import parse_module, place
from xdsl_quant.transforms.quant_convert_simulated_quantization import (
    QuantConvertSimulatedQuantizationPass,
)
from xdsl_quant.transforms.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)


@dataclass(frozen=True)
class InstrumentedFunction:
    """A function that can be sent to another process."""

    text: str
    """The module. Its ops know where they are in the module it was made of."""

    name: str
    """The function."""

    keys: tuple[str, ...]
    """The key of each result."""

    @staticmethod
    def of(module: ModuleOp, entry: str | None) -> InstrumentedFunction:
        """
        Args:
            module: a module, which is not changed.
            entry: the name of the function; by default the only public one, or `main`.

        Raises:
            ValueError: if there is no such function, no `quant.stats_ref` in it, two
                with one key, or one whose values cannot be returned.
        """
        module = module.clone()
        original = entry_function(module, entry)
        refs = _checked_refs(module, original)
        # The original stays for functions that call it.
        name = _unused_name(module, f"{original.sym_name.data}_with_statistics")
        mapping: dict[Any, Any] = {}
        function = original.clone(mapping)
        function.sym_name = StringAttr(name)
        module.body.block.add_op(function)
        return_op = function.body.block.last_op
        assert isinstance(return_op, ReturnOp)
        return_op.operands = [mapping[ref.input] for ref in refs]
        function.update_function_type()
        try:
            QuantConvertSimulatedQuantizationPass(exact_bits=True).apply(
                Context(), module
            )
        except PassFailedException as e:
            raise ValueError(str(e).partition("\n")[0]) from None
        QuantRemoveInstrumentationPass().apply(Context(), module)
        _replace_resources(module)
        keys = tuple(ref.stats_key.data for ref in refs)
        return InstrumentedFunction(_text(module), name, keys)

    def runnable(self) -> Callable[..., Sequence[NDArray[Any]]]:
        """
        What returns the value of each key for arguments: compiled code, or if MLIR is not
        installed an interpreter. It raises a `TypeError` or a `ValueError`.

        Raises:
            ValueError: if the module cannot be compiled.
            ImportError: if a package for a type in the signature is not installed.
        """
        return _runnable(self.text, self.name)


def _unused_name(module: ModuleOp, name: str) -> str:
    names = {
        symbol.data
        for op in module.body.ops
        if isinstance(symbol := op.get_attr_or_prop("sym_name"), StringAttr)
    }
    while name in names:
        name += "_"
    return name


def _text(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue()


def _replace_resources(module: ModuleOp) -> None:
    """Put the data of resources into constants: text of one process is for others."""
    for op in module.walk():
        for attributes in (op.properties, op.attributes):
            for name, value in attributes.items():
                if isinstance(value, DenseResourceAttr):
                    attributes[name] = _without_resource(op, value)


def _without_resource(op: Operation, value: DenseResourceAttr) -> Attribute:
    resources = Builtin.get_interface(OpAsmDialectInterface)
    assert resources is not None
    key, type_ = value.resource_handle.data, cast("TensorType[Any]", value.type)
    # The first four bytes say how the others are to be aligned.
    data = bytes.fromhex((resources.lookup(key) or "").removeprefix("0x"))[4:]
    size = math.prod(type_.get_shape()) * numpy_dtype(type_).itemsize
    if len(data) != size:
        raise _error(
            op,
            f"has the resource '{key}' of {len(data)} bytes for the type "
            f"'{shortened(type_)}'",
        )
    return DenseIntOrFPElementsAttr(type_, BytesAttr(data))


# Places of references


def _refs_in(op: Operation) -> Iterator[StatisticsRefOp]:
    return (inner for inner in op.walk() if isinstance(inner, StatisticsRefOp))


def _checked_refs(module: ModuleOp, function: FuncOp) -> Sequence[StatisticsRefOp]:
    name = function.sym_name.data
    refs = [*_refs_in(function)]
    for callee in _called(module, function):
        if (ref := next(_refs_in(callee), None)) is not None:
            raise _error(
                ref,
                f"is in function '{callee.sym_name.data}', but only values of '{name}' "
                f"itself are calibrated: inline the function first",
            )
    if not refs:
        raise ValueError(
            f"function '{name}' has no 'quant.stats_ref': run quant-insert-stats-refs first"
        )
    keys: set[str] = set()
    for ref in refs:
        _check_place(ref, function)
        if (key := ref.stats_key.data) in keys:
            raise _error(ref, f"has key '{key}', which another op has")
        keys.add(key)
    return refs


def _check_place(ref: StatisticsRefOp, function: FuncOp) -> None:
    name = function.sym_name.data
    parent = ref.parent_op()
    if parent is not None and parent is not function:
        raise _error(
            ref,
            f"is in the body of '{parent.name}', but only values in the body of function "
            f"'{name}' itself are calibrated",
        )
    if len(function.body.blocks) != 1:
        raise _error(
            ref,
            f"is in function '{name}' with branches between blocks, but only functions of "
            "one block are calibrated",
        )
    if not isinstance(scalar_or_element_type(ref.input.type), AnyFloat):
        raise _error(
            ref,
            f"has a value of type '{shortened(ref.input.type)}', but only floats and "
            "tensors of floats are calibrated",
        )


def _error(op: Operation, message: str) -> ValueError:
    where = place(op)
    return ValueError(f"{where}{'error: ' if where else ''}'{op.name}' op {message}")


def _called(module: ModuleOp, function: FuncOp) -> Iterator[FuncOp]:
    """The other functions that a function needs, directly or not."""
    functions = {
        op.sym_name.data: op for op in module.body.ops if isinstance(op, FuncOp)
    }
    seen = {function.sym_name.data}
    todo: list[FuncOp] = [function]
    while todo:
        for name in _references(todo.pop()):
            if name in functions and name not in seen:
                seen.add(name)
                todo.append(functions[name])
                yield functions[name]


def _references(function: FuncOp) -> Iterator[str]:
    for op in function.walk():
        for attr in (*op.properties.values(), *op.attributes.values()):
            if isinstance(attr, SymbolRefAttr):
                yield attr.root_reference.data


# Calls


@lru_cache(maxsize=4)
def _runnable(text: str, name: str) -> Callable[..., Sequence[NDArray[Any]]]:
    from xdsl_quant.execution import compile
    from xdsl_quant.interpreters import run_function

    try:
        compiled = compile(text, name)
    except ImportError:
        module = parse_module(text)

        def interpreted(*arguments: ArrayLike) -> Sequence[NDArray[Any]]:
            try:
                return run_function(module, name, *arguments)
            except InterpretationError as e:
                raise ValueError(str(e)) from None

        return interpreted

    def called(*arguments: ArrayLike) -> Sequence[NDArray[Any]]:
        results: Any = compiled(*arguments)
        return results if len(compiled.result_types) > 1 else (results,)

    return called
