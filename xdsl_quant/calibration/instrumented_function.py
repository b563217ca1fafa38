"""
A function that shows the values of which statistics are wanted.

It is made of the entry function of a module, and of all that this calls: in place of each
`quant.stats_ref` there is a call of a function of Python. It sees the value where that is,
in a loop as often as the loop runs, and nothing has to be kept or returned. StableHLO's ops
are lowered before.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from io import StringIO
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseResourceAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.tensor import FromElementsOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.runtime.array_types import numpy_dtype, shortened
from xdsl_quant.runtime.entry_function import entry_function, functions_run, symbols_in
from xdsl_quant.runtime.host_functions import EndsFunction
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.runtime.missing_lowering import missing_lowering
from xdsl_quant.transforms.stablehlo.convert_stablehlo_to_linalg import (
    ConvertStableHLOToLinalgPass,
)
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    QuantConvertSimulatedQuantizationPass,
)
from xdsl_quant.transforms.statistics.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)
from xdsl_quant.xdsl_patches.resources import replace_resources, resource_data

from .ends import EndsLayout


class Viewer(Protocol):
    """Who looks at values."""

    def see(self, key: str, value: NDArray[Any], /) -> object:
        """Look at a value, a read-only array that is gone afterwards."""

    def see_ends(
        self, positions: NDArray[np.intp], ends: NDArray[np.float64], /
    ) -> object:
        """
        Look at no more than the ends of ranges, which may be of several values: see
        [`EndsFunction`][xdsl_quant.runtime.host_functions.EndsFunction].
        """


Run = Callable[[Viewer, tuple[ArrayLike, ...]], None]
"""Runs a function on its arguments and shows the values."""


@dataclass(frozen=True)
class InstrumentedFunction:
    """A function that can be sent to another process."""

    text: str
    """The module. Its ops know where they are in the module it was made of."""

    name: str
    """The function."""

    keys: tuple[str, ...]
    """The keys. A value is shown to the function `see_<i>` if its key is number `i`."""

    shapes: tuple[tuple[int, ...], ...]
    """The shapes of their values, with negative numbers for dynamic sizes."""

    prefix: str
    """What stands for `see_` in their names."""

    argument_shapes: tuple[tuple[int, ...], ...]
    """The shapes of the arguments, with negative numbers for dynamic sizes."""

    @staticmethod
    def of(module: ModuleOp, entry: str | None) -> InstrumentedFunction:
        """
        Args:
            module: a module, which is not changed.
            entry: the name of the function; by default the only public one, or `main`.

        Raises:
            ValueError: if there is no such function, no `quant.stats_ref` in what it runs,
                two with one key, one whose values cannot be shown, or an op of StableHLO
                that cannot be lowered.
        """
        module = module.clone()
        function = entry_function(module, entry)
        functions = functions_run(module, function)
        if missing_lowering(functions) is not None:
            _lower(module)
        refs = _checked_refs(function, functions)
        prefix = _unused_prefix(module, "see_")
        for index, ref in enumerate(refs):
            _replace_with_call(ref, f"{prefix}{index}", module)
        function = _without_results(module, function)
        try:
            QuantConvertSimulatedQuantizationPass(exact_bits=True).apply(
                Context(), module
            )
        except PassFailedException as e:
            raise ValueError(str(e).partition("\n")[0]) from None
        QuantRemoveInstrumentationPass().apply(Context(), module)
        # Text of one process is for others.
        replace_resources(module, _resource_data)
        keys = tuple(ref.stats_key.data for ref in refs)
        return InstrumentedFunction(
            _text(module),
            function.sym_name.data,
            keys,
            tuple(_shape(ref.input.type) for ref in refs),
            prefix,
            tuple(_shape(argument.type) for argument in function.args),
        )

    def empty_argument(self, batch: ArrayLike | tuple[ArrayLike, ...]) -> int | None:
        """The first argument in a batch that has no elements, if its type allows some."""
        arguments = batch if isinstance(batch, tuple) else (batch,)
        for index, (argument, shape) in enumerate(
            zip(arguments, self.argument_shapes, strict=False)
        ):
            if 0 not in shape and _has_no_elements(argument):
                return index
        return None

    def runnable(self, ends: EndsLayout | None = None) -> Run:
        """
        What runs the function: compiled code, or if MLIR is not installed or refuses the
        function an interpreter. It raises a `TypeError` or a `ValueError`, or what the
        viewer raises.

        Args:
            ends: the positions of the ends that are enough, if they are. The viewer may see
                some values nevertheless.
        """
        # Threads need it at the same time, and it takes long to compile.
        with _lock:
            return _runnable(self, ends)


def _lower(module: ModuleOp) -> None:
    """
    Lower StableHLO's ops. Each `quant.stats_ref` stays where it is.

    Raises:
        ValueError: if one cannot be lowered.
    """
    try:
        ConvertStableHLOToLinalgPass().apply(Context(), module)
    except PassFailedException as e:
        raise ValueError(str(e).partition("\n")[0]) from None


_lock = threading.RLock()
"""Held while a function is compiled."""


def _unused_prefix(module: ModuleOp, prefix: str) -> str:
    """The beginning of names that no symbol of the module has."""
    names = {
        symbol.data
        for op in module.body.ops
        if isinstance(symbol := op.get_attr_or_prop("sym_name"), StringAttr)
    }
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _replace_with_call(ref: StatisticsRefOp, name: str, module: ModuleOp) -> None:
    value: SSAValue = ref.input
    new_ops: list[Operation] = []
    type_: Attribute = value.type
    if scalar_or_element_type(type_) is type_:
        type_ = TensorType(type_, ())
        tensor = FromElementsOp.create(
            operands=(value,), result_types=(type_,), location=ref.location
        )
        new_ops.append(tensor)
        value = tensor.results[0]
    call = CallOp(name, (value,), ())
    call.location = ref.location
    Rewriter.replace_op(ref, (*new_ops, call), (ref.input,))
    declaration = FuncOp.external(name, (type_,), ())
    Rewriter.insert_op(declaration, InsertPoint.at_start(module.body.block))


def _without_results(module: ModuleOp, function: FuncOp) -> FuncOp:
    """The function with no results, or if others call it, a copy."""
    if any(function.sym_name.data in symbols_in(other) for other in module.body.ops):
        function = function.clone()
        function.sym_name = StringAttr(
            _unused_prefix(module, f"{function.sym_name.data}_with_statistics")
        )
        module.body.block.add_op(function)
    for block in function.body.blocks:
        if isinstance(return_op := block.last_op, ReturnOp):
            return_op.operands = ()
    inputs = function.function_type.inputs
    function.function_type = FunctionType.from_attrs(inputs, ArrayAttr(()))
    function.res_attrs = None
    return function


def _shape(type_: Attribute) -> tuple[int, ...]:
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def _text(module: ModuleOp) -> str:
    stream = StringIO()
    # In its own form `scf.while` has a location where none can be read.
    Printer(stream, print_debuginfo=True, print_generic_format=True).print_op(module)
    return stream.getvalue()


def _resource_data(op: Operation, value: DenseResourceAttr) -> bytes:
    data = resource_data(value) or b""
    type_ = cast("TensorType[Any]", value.type)
    if len(data) != math.prod(type_.get_shape()) * numpy_dtype(type_).itemsize:
        raise _error(
            op,
            f"has the resource '{value.resource_handle.data}' of {len(data)} bytes for the "
            f"type '{shortened(type_)}'",
        )
    return data


# Places of references


def _refs_in(op: Operation) -> Iterator[StatisticsRefOp]:
    return (inner for inner in op.walk() if isinstance(inner, StatisticsRefOp))


def _checked_refs(
    function: FuncOp, functions: Iterable[FuncOp]
) -> Sequence[StatisticsRefOp]:
    refs = [ref for function in functions for ref in _refs_in(function)]
    if not refs:
        raise ValueError(
            f"function '{function.sym_name.data}' has no 'quant.stats_ref': run "
            "quant-insert-stats-refs first"
        )
    keys: set[str] = set()
    for ref in refs:
        _check_place(ref)
        _check_type(ref)
        if (key := ref.stats_key.data) in keys:
            raise _error(ref, f"has key '{key}', which another op has")
        keys.add(key)
    return refs


def _check_place(ref: StatisticsRefOp) -> None:
    parent = ref.parent_op()
    while parent is not None and parent.name.startswith("scf."):
        parent = parent.parent_op()
    if parent is not None and not isinstance(parent, FuncOp):
        raise _error(
            ref,
            f"is in the body of '{parent.name}', but only values in functions, loops and "
            "branches are calibrated",
        )


def _check_type(ref: StatisticsRefOp) -> None:
    type_: Attribute = ref.input.type
    is_float = isinstance(scalar_or_element_type(type_), AnyFloat)
    if not is_float or type_.name == UnrankedTensorType.name:
        raise _error(
            ref,
            f"has a value of type '{shortened(type_)}', but only floats and tensors of "
            "floats are calibrated",
        )


def _error(op: Operation, message: str) -> ValueError:
    where = location_prefix(op.location)
    return ValueError(f"{where}{'error: ' if where else ''}'{op.name}' op {message}")


def _has_no_elements(argument: ArrayLike) -> bool:
    # What is no array is an error when the function is called.
    with suppress(TypeError, ValueError):
        return np.size(argument) == 0
    return False


# Calls


class _Current(threading.local):
    """Who looks at the values of the call that a thread is in."""

    viewer: Viewer | None = None

    def see(self, key: str, value: NDArray[Any]) -> None:
        assert self.viewer is not None
        self.viewer.see(key, value)

    def see_ends(self, positions: NDArray[np.intp], ends: NDArray[np.float64]) -> None:
        assert self.viewer is not None
        self.viewer.see_ends(positions, ends)


def _host_functions(
    function: InstrumentedFunction, ends: EndsLayout | None, current: _Current
) -> Iterator[tuple[str, Callable[..., object]]]:
    for index, key in enumerate(function.keys):
        see: Callable[..., object] = partial(current.see, key)
        if ends is not None:
            position, axis = ends.positions[index], ends.axes[index]
            see = EndsFunction(see, current.see_ends, position, axis)
        yield f"{function.prefix}{index}", see


@lru_cache(maxsize=4)
def _runnable(function: InstrumentedFunction, ends: EndsLayout | None) -> Run:
    from xdsl_quant.execution import CompilationError, compile
    from xdsl_quant.interpreters import run_function

    current = _Current()
    host_functions = dict(_host_functions(function, ends, current))
    call: Callable[..., object]
    try:
        call = compile(function.text, function.name, host_functions=host_functions)
    except (CompilationError, ImportError) as e:
        if isinstance(e, CompilationError):
            warnings.warn(f"what cannot be compiled is interpreted: {e}", stacklevel=2)
        call = partial(
            run_function,
            parse_module(function.text),
            function.name,
            host_functions=host_functions,
        )

    def run(viewer: Viewer, arguments: tuple[ArrayLike, ...]) -> None:
        # What makes an array of an argument may run the function, too.
        before, current.viewer = current.viewer, viewer
        try:
            call(*arguments)
        except InterpretationError as e:
            raise ValueError(str(e)) from None
        finally:
            current.viewer = before

    return run
