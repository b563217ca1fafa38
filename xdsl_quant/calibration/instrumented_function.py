"""
A function that records the values of which statistics are wanted.

It is made of the entry function of a module, and of all that this calls: in place of each
`quant.stats_ref` there is a call of a Python function. It gets the value where that is, in
a loop as often as the loop runs, and nothing has to be kept or returned. StableHLO's ops
are lowered before.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from io import StringIO
from typing import Protocol, cast

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

from xdsl_quant import execution
from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of, shortened
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple
from xdsl_quant.runtime.entry_function import (
    entry_function,
    functions_run,
    symbols_in,
    symbols_of,
    unused_prefix,
)
from xdsl_quant.runtime.host_functions import MinMaxFunction
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.runtime.missing_lowering import missing_lowering
from xdsl_quant.runtime.plugins import dialect_ops, dialects_in
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    QuantConvertSimulatedQuantizationPass,
)
from xdsl_quant.transforms.statistics.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)
from xdsl_quant.xdsl_patches.resources import replace_resources, resource_data

from .min_max_layout import MinMaxLayout


class Sink(Protocol):
    """Receives the values or their min/max."""

    def record(self, key: str, value: Array, /) -> object:
        """Record a value, a read-only array that is gone afterwards."""

    def reduce_min_max(
        self, positions: NDArray[np.intp], min_max: NDArray[np.float64], /
    ) -> object:
        """
        Record no more than the min/max, which may be of several values: see
        [`MinMaxFunction`][xdsl_quant.runtime.host_functions.MinMaxFunction].
        """


Run = Callable[[Sink, Arguments], None]
"""Runs a function on its arguments and records the values."""


@dataclass(frozen=True)
class InstrumentedFunction:
    """A function that can be sent to another process."""

    text: str
    """The module. Its ops know where they are in the module it was made of."""

    name: str
    """The function."""

    keys: tuple[str, ...]
    """The keys. The function `record_<i>` gets the values of key number `i`."""

    shapes: tuple[tuple[int, ...], ...]
    """The shapes of their values, with negative numbers for dynamic sizes."""

    prefix: str
    """The prefix of these names, which is `record_` unless the module has such symbols."""

    argument_shapes: tuple[tuple[int, ...], ...]
    """The shapes of the arguments, with negative numbers for dynamic sizes."""

    def __getstate__(self) -> dict[str, object]:
        # Other processes parse the text: a module is too deep to be pickled.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def module(self) -> ModuleOp:
        """The module of `text`, which may not be changed."""
        return parse_module(self.text)

    @staticmethod
    def of(module: ModuleOp, entry: str | None) -> InstrumentedFunction:
        """
        Args:
            module: a module, which is not changed.
            entry: the name of the function; by default the only public one, or `main`.

        Raises:
            ValueError: if there is no such function, no `quant.stats_ref` in what it runs,
                two with one key, one whose values cannot be recorded, or an op of StableHLO
                that cannot be lowered.
        """
        try:
            return _instrumented(module.clone(), entry)
        except PassFailedException as e:
            raise ValueError(str(e).partition("\n")[0]) from None

    def empty_argument(self, batch: Batch) -> int | None:
        """
        Return the first argument in a batch that has no elements, if its type allows
        some.
        """
        pairs = zip(as_tuple(batch), self.argument_shapes, strict=False)
        for index, (argument, shape) in enumerate(pairs):
            if 0 not in shape and _has_no_elements(argument):
                return index
        return None

    def runnable(self, layout: MinMaxLayout | None = None) -> Run:
        """
        What runs the function: compiled code, or if MLIR is not installed or refuses the
        function an interpreter. It raises a `TypeError` or a `ValueError`, or what the
        sink raises.

        Args:
            layout: the positions of the min/max of each key, if it is enough. The sink may
                get some values nevertheless.
        """
        # Threads need it at the same time, and it takes long to compile.
        key = self, layout
        with _lock:
            if (run := _kept.get(key)) is not None:
                _kept.move_to_end(key)
                return run
            run = _runnable(self, layout)
            _forget_others(len(self.text))
            # The key is a copy without the module.
            _kept[replace(self), layout] = run
        return run


_lock = threading.RLock()
"""Held while a function is compiled."""

_LEAST_KEPT, _MOST_KEPT = 4, 64
_MOST_CHARACTERS = 1 << 24

_kept: OrderedDict[tuple[InstrumentedFunction, MinMaxLayout | None], Run] = (
    OrderedDict()
)
"""
What was run last, the very last one at the end. A search for bits runs the same float
model between many others. Of large models, whose constants are in the texts and in the
code, few are kept.
"""


def _forget_others(size: int) -> None:
    """Make room for a function whose text has so many characters."""
    size += sum(len(function.text) for function, _ in _kept)
    while len(_kept) >= _LEAST_KEPT and (
        len(_kept) >= _MOST_KEPT or size > _MOST_CHARACTERS
    ):
        (function, _), _ = _kept.popitem(last=False)
        size -= len(function.text)


def _instrumented(module: ModuleOp, entry: str | None) -> InstrumentedFunction:
    function = entry_function(module, entry)
    functions = functions_run(module, function)
    if missing_lowering(functions) is not None:
        # Each `quant.stats_ref` stays where it is.
        for dialect in sorted(dialects_in(module)):
            if (ops := dialect_ops(dialect)).is_lowered_in_kernels:
                ops.to_linalg(Context(), module)
    refs = _checked_refs(function, functions)
    prefix = unused_prefix("record_", symbols_of(module))
    for index, ref in enumerate(refs):
        _replace_with_call(ref, f"{prefix}{index}", module)
    function = _without_results(module, function)
    QuantConvertSimulatedQuantizationPass(exact_bits=True).rewrite(Context(), module)
    QuantRemoveInstrumentationPass().rewrite(Context(), module)
    # Text of one process is for others.
    replace_resources(module, _resource_data)
    instrumented = InstrumentedFunction(
        _generic_text(module),
        function.sym_name.data,
        tuple(ref.stats_key.data for ref in refs),
        tuple(shape_of(ref.input.type) for ref in refs),
        prefix,
        tuple(shape_of(argument.type) for argument in function.args),
    )
    # This process need not parse the text.
    vars(instrumented)["module"] = module
    return instrumented


def _replace_with_call(ref: StatisticsRefOp, name: str, module: ModuleOp) -> None:
    value: SSAValue = ref.input
    new_ops: list[Operation] = []
    if scalar_or_element_type(value.type) is value.type:
        tensor_type = TensorType(value.type, ())
        tensor = FromElementsOp.create(operands=(value,), result_types=(tensor_type,))
        new_ops.append(tensor)
        value = tensor.results[0]
    new_ops.append(CallOp(name, (value,), ()))
    for op in new_ops:
        op.location = ref.location
    Rewriter.replace_op(ref, new_ops, (ref.input,))
    declaration = FuncOp.external(name, (value.type,), ())
    Rewriter.insert_op(declaration, InsertPoint.at_start(module.body.block))


def _without_results(module: ModuleOp, function: FuncOp) -> FuncOp:
    """Return the function without results; a copy if other functions call it."""
    if any(function.sym_name.data in symbols_in(other) for other in module.body.ops):
        function = function.clone()
        name = f"{function.sym_name.data}_with_statistics"
        function.sym_name = StringAttr(unused_prefix(name, symbols_of(module)))
        module.body.block.add_op(function)
    for block in function.body.blocks:
        if isinstance(return_op := block.last_op, ReturnOp):
            return_op.operands = ()
    inputs = function.function_type.inputs
    function.function_type = FunctionType.from_attrs(inputs, ArrayAttr(()))
    function.res_attrs = None
    return function


def _generic_text(module: ModuleOp) -> str:
    stream = StringIO()
    # In its own form `scf.while` has a location where none can be read.
    Printer(stream, print_debuginfo=True, print_generic_format=True).print_op(module)
    return stream.getvalue()


def _resource_data(op: Operation, value: DenseResourceAttr) -> bytes:
    data = resource_data(value) or b""
    type_ = cast("TensorType[Attribute]", value.type)
    if len(data) != math.prod(type_.get_shape()) * numpy_dtype(type_).itemsize:
        fail(
            op,
            f"'{op.name}' op has the resource '{value.resource_handle.data}' of "
            f"{len(data)} bytes for the type '{shortened(type_)}'",
        )
    return data


def _checked_refs(
    function: FuncOp, functions: Iterable[FuncOp]
) -> Sequence[StatisticsRefOp]:
    refs = [op for f in functions for op in f.walk() if isinstance(op, StatisticsRefOp)]
    if not refs:
        raise ValueError(
            f"function '{function.sym_name.data}' has no 'quant.stats_ref': run "
            "quant-insert-stats-refs first"
        )
    keys: set[str] = set()
    for ref in refs:
        if (reason := _unsupported_reason(ref)) is not None:
            fail(ref, f"'{ref.name}' op {reason}")
        if (key := ref.stats_key.data) in keys:
            fail(ref, f"'{ref.name}' op has key '{key}', which another op has")
        keys.add(key)
    return refs


def _unsupported_reason(ref: StatisticsRefOp) -> str | None:
    parent = ref.parent_op()
    while parent is not None and parent.name.startswith("scf."):
        parent = parent.parent_op()
    if parent is not None and not isinstance(parent, FuncOp):
        return (
            f"is in the body of '{parent.name}', but only values in functions, loops and "
            "branches are calibrated"
        )
    type_: Attribute = ref.input.type
    is_float = isinstance(scalar_or_element_type(type_), AnyFloat)
    if not is_float or type_.name == UnrankedTensorType.name:
        return (
            f"has a value of type '{shortened(type_)}', but only floats and tensors of "
            "floats are calibrated"
        )
    return None


def _has_no_elements(argument: ArrayLike) -> bool:
    # What is no array is an error when the function is called.
    with suppress(TypeError, ValueError):
        return np.size(argument) == 0
    return False


def _runnable(function: InstrumentedFunction, layout: MinMaxLayout | None) -> Run:
    # Where the values of the call that a thread is in are recorded.
    current = threading.local()
    call = _compiled_or_interpreted(
        function, _host_functions(function, layout, current)
    )

    def run(sink: Sink, arguments: Arguments) -> None:
        # What makes an array of an argument may run the function, too.
        before, current.sink = getattr(current, "sink", None), sink
        try:
            call(*arguments)
        except InterpretationError as e:
            raise ValueError(str(e)) from None
        finally:
            current.sink = before

    return run


def _host_functions(
    function: InstrumentedFunction,
    layout: MinMaxLayout | None,
    current: threading.local,
) -> Mapping[str, Callable[..., object]]:
    """Return the functions that get the values of keys, for the sink of a thread."""

    def record(key: str, value: Array) -> None:
        current.sink.record(key, value)

    def reduce_min_max(
        positions: NDArray[np.intp], min_max: NDArray[np.float64]
    ) -> None:
        current.sink.reduce_min_max(positions, min_max)

    host_functions: dict[str, Callable[..., object]] = {}
    for index, key in enumerate(function.keys):
        host_function: Callable[..., object] = partial(record, key)
        if layout is not None:
            position, axis = layout.positions[index], layout.axes[index]
            host_function = MinMaxFunction(
                host_function, reduce_min_max, position, axis
            )
        host_functions[f"{function.prefix}{index}"] = host_function
    return host_functions


def _compiled_or_interpreted(
    function: InstrumentedFunction, host_functions: Mapping[str, Callable[..., object]]
) -> Callable[..., object]:
    """Compile a function, or interpret it if that is not possible."""
    module, name = function.module, function.name
    try:
        return execution.compile(module, name, host_functions=host_functions)
    except (execution.CompilationError, ImportError) as e:
        if isinstance(e, execution.CompilationError):
            warnings.warn(f"what cannot be compiled is interpreted: {e}", stacklevel=2)
    # Compiled code needs no interpreter, whose import takes long.
    from xdsl_quant.machines.numpy import run_function

    return partial(run_function, module, name, host_functions=host_functions)
