"""
The function that calibration runs: each `quant.stats_ref` is replaced by a call of a
Python function that records the value.

The code consists of the entry function of a module and all functions that it calls.
Values are recorded where they are computed, in loops once per iteration, so the code
need not keep or return them. StableHLO ops are lowered first.
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
from typing import Protocol, TypeAlias, cast

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
from xdsl_quant.runtime.argument_shapes import (
    has_dynamic_arguments,
    with_argument_shapes,
)
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of, shortened
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple
from xdsl_quant.runtime.entry_function import (
    entry_function,
    reachable_functions,
    referenced_symbols,
    symbols_of,
    unused_prefix,
)
from xdsl_quant.runtime.host_functions import MinMaxFunction, SelectiveFunction
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
    """Receiver of recorded values or their min/max."""

    def needs(self, key: str, /) -> bool: ...

    def record(self, key: str, value: Array, /) -> object:
        """Record a value: a read-only array that is valid only during the call."""

    def reduce_min_max(
        self, positions: NDArray[np.intp], min_max: NDArray[np.float64], /
    ) -> object:
        """
        Record only the min/max of one or more values: see
        [`MinMaxFunction`][xdsl_quant.runtime.host_functions.MinMaxFunction].
        """


Run = Callable[[Sink, Arguments], None]
"""Function that runs an instrumented function and passes its values to a `Sink`."""


@dataclass(frozen=True)
class InstrumentedFunction:
    """An instrumented function that can be sent to another process."""

    text: str
    """Text of the module. Its ops have their locations in the original module."""

    name: str
    keys: tuple[str, ...]
    """Keys of the values. The function `record_<i>` receives the values of key `i`."""

    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the values in the order of `keys`; dynamic sizes are negative."""

    prefix: str
    """Prefix of the recording functions: `record_`, unless the module uses it."""

    argument_shapes: tuple[tuple[int, ...], ...]
    """Shapes of the arguments, with negative numbers for dynamic sizes."""

    def __getstate__(self) -> dict[str, object]:
        # Modules are nested too deeply for pickle: other processes parse the text.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def module(self) -> ModuleOp:
        """Module of `text`; must not be changed."""
        return parse_module(self.text)

    @staticmethod
    def of(module: ModuleOp, entry: str | None) -> InstrumentedFunction:
        """
        Instrument a function.

        Args:
            module: module (not changed).
            entry: name of the function; by default the only public function, or `main`.

        Raises:
            ValueError: if the function is missing, it reaches no `quant.stats_ref`,
                keys are duplicate, a value cannot be recorded, or a StableHLO op cannot
                be lowered.
        """
        try:
            return _instrumented(module.clone(), entry)
        except PassFailedException as e:
            raise ValueError(str(e).partition("\n")[0]) from None

    def empty_argument(self, batch: Batch) -> int | None:
        """Return the index of an empty argument whose type has no size 0, or `None`."""
        pairs = zip(as_tuple(batch), self.argument_shapes, strict=False)
        for index, (argument, shape) in enumerate(pairs):
            if 0 not in shape and _has_no_elements(argument):
                return index
        return None

    def runnable(self, layout: MinMaxLayout | None = None, brief: bool = False) -> Run:
        """
        Return a runner: compiled code, or an interpreter if MLIR is missing or refuses the
        function. The runner raises `TypeError`, `ValueError`, or errors of its `Sink`.

        Args:
            layout: array positions of the min/max by key, if the `Sink` needs only min/max.
                The runner may still pass whole values for some keys.
            brief: True to interpret the function, as compilation takes longer than a
                few runs.
        """
        if brief:
            return _runnable(self, None, _interpreted)
        # Threads ask for the same function at the same time: compile it only once.
        key = self, layout
        with _lock:
            if (run := _cached_runs.get(key)) is not None:
                _cached_runs.move_to_end(key)
                return run
            run = _runnable(self, layout, _compiled_or_interpreted_module)
            _evict(len(self.text))
            # `replace` copies without the cached module.
            _cached_runs[replace(self), layout] = run
        return run


_lock = threading.RLock()
"""Lock that is held during compilation."""

_MIN_CACHED, _MAX_CACHED = 4, 64
_MAX_CHARACTERS = 1 << 24

_cached_runs: OrderedDict[tuple[InstrumentedFunction, MinMaxLayout | None], Run] = (
    OrderedDict()
)
"""
Least-recently-used cache, newest last. It has several entries because a bit-width search
runs the same float model between many quantized ones. Only few large models are cached,
because their text and code contain all constants.
"""


def _evict(size: int) -> None:
    """Make room in the cache for a function with a text of `size` characters."""
    size += sum(len(function.text) for function, _ in _cached_runs)
    while len(_cached_runs) >= _MIN_CACHED and (
        len(_cached_runs) >= _MAX_CACHED or size > _MAX_CHARACTERS
    ):
        (function, _), _ = _cached_runs.popitem(last=False)
        size -= len(function.text)


def _instrumented(module: ModuleOp, entry: str | None) -> InstrumentedFunction:
    function = entry_function(module, entry)
    functions = reachable_functions(module, function)
    if missing_lowering(functions) is not None:
        # The lowering keeps `quant.stats_ref` ops.
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
    # Other processes lack the resources of this one.
    replace_resources(module, _resource_data)
    instrumented = InstrumentedFunction(
        _generic_text(module),
        function.sym_name.data,
        tuple(ref.stats_key.data for ref in refs),
        tuple(shape_of(ref.input.type) for ref in refs),
        prefix,
        tuple(shape_of(argument.type) for argument in function.args),
    )
    # Saves parsing the text in this process.
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
    """Return the function without results: a copy if other ops reference it."""
    if any(
        function.sym_name.data in referenced_symbols(other) for other in module.body.ops
    ):
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
    # xDSL cannot parse the location that it prints in the custom form of `scf.while`.
    Printer(stream, print_debuginfo=True, print_generic_format=True).print_op(module)
    return stream.getvalue()


def _resource_data(op: Operation, value: DenseResourceAttr) -> bytes:
    data = bytes(resource_data(value) or b"")
    type_ = cast("TensorType[Attribute]", value.type)
    expected = math.prod(type_.get_shape()) * numpy_dtype(type_).itemsize
    if len(data) != expected:
        fail(
            op,
            f"'{op.name}' op has resource '{value.resource_handle.data}' of {len(data)} "
            f"bytes; expected {expected} for '{shortened(type_)}'",
        )
    return data


def _checked_refs(
    function: FuncOp, functions: Iterable[FuncOp]
) -> Sequence[StatisticsRefOp]:
    refs = [op for f in functions for op in f.walk() if isinstance(op, StatisticsRefOp)]
    if not refs:
        raise ValueError(
            f"function '{function.sym_name.data}' has no 'quant.stats_ref'; run "
            "quant-insert-stats-refs first"
        )
    keys: set[str] = set()
    for ref in refs:
        if (reason := _unsupported_reason(ref)) is not None:
            fail(ref, f"'{ref.name}' op {reason}")
        if (key := ref.stats_key.data) in keys:
            fail(ref, f"'{ref.name}' op has duplicate key '{key}'")
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
    # Objects that are not arrays are reported when the function is called.
    with suppress(TypeError, ValueError):
        return np.size(argument) == 0
    return False


_HostFunctions: TypeAlias = "Mapping[str, Callable[..., object]]"

_Prepare: TypeAlias = "Callable[[ModuleOp, str, _HostFunctions], Callable[..., object]]"
"""Return the function of a module with a name, compiled or interpreted."""


def _runnable(
    function: InstrumentedFunction, layout: MinMaxLayout | None, prepare: _Prepare
) -> Run:
    # `current.sink` is the sink of the running call of each thread.
    current = threading.local()
    host_functions = _host_functions(function, layout, current)
    call = _with_static_shapes(function, host_functions, prepare)

    def run(sink: Sink, arguments: Arguments) -> None:
        # Converting an argument to an array may call this function recursively.
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
) -> _HostFunctions:
    """Return the host functions that pass values to the `Sink` of the current thread."""

    def record(key: str, value: Array) -> None:
        current.sink.record(key, value)

    def is_needed(key: str) -> bool:
        return current.sink.needs(key)

    def reduce_min_max(
        positions: NDArray[np.intp], min_max: NDArray[np.float64]
    ) -> None:
        current.sink.reduce_min_max(positions, min_max)

    host_functions: dict[str, Callable[..., object]] = {}
    for index, key in enumerate(function.keys):
        host_function: Callable[..., object] = partial(record, key)
        if layout is None:
            host_function = SelectiveFunction(host_function, partial(is_needed, key))
        else:
            position, axis = layout.positions[index], layout.axes[index]
            host_function = MinMaxFunction(
                host_function, reduce_min_max, position, axis
            )
        host_functions[f"{function.prefix}{index}"] = host_function
    return host_functions


def _with_static_shapes(
    function: InstrumentedFunction, host_functions: _HostFunctions, prepare: _Prepare
) -> Callable[..., object]:
    """Prepare a function, once for each combination of dynamic argument shapes."""
    module, name = function.module, function.name
    if not has_dynamic_arguments(module, name):
        return prepare(module, name, host_functions)
    calls: dict[tuple[tuple[int, ...], ...], Callable[..., object]] = {}

    def call(*arguments: ArrayLike) -> object:
        shapes = tuple(map(np.shape, arguments))
        if shapes not in calls:
            static = with_argument_shapes(module, name, shapes)
            calls[shapes] = prepare(static, name, host_functions)
        return calls[shapes](*arguments)

    return call


def _compiled_or_interpreted_module(
    module: ModuleOp, name: str, host_functions: _HostFunctions
) -> Callable[..., object]:
    try:
        return execution.compile(module, name, host_functions=host_functions)
    except (execution.CompilationError, ImportError) as e:
        if isinstance(e, execution.CompilationError):
            warnings.warn(f"falling back to the interpreter: {e}", stacklevel=2)
    return _interpreted(module, name, host_functions)


def _interpreted(
    module: ModuleOp, name: str, host_functions: _HostFunctions
) -> Callable[..., object]:
    # Importing the interpreter is slow.
    from xdsl_quant.machines.numpy import run_function

    return partial(run_function, module, name, host_functions=host_functions)
