"""Functions compiled to machine code that take and return NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.ir import Attribute

from xdsl_quant.numerics.arrays import Array, DType, check_unmasked
from xdsl_quant.runtime.arrays import check_argument, shape_text, shortened
from xdsl_quant.runtime.entry_function import check_argument_count
from xdsl_quant.runtime.host_functions import HostFunctions, SelectiveFunction

from . import runtime_library
from .bound_call import BoundCall
from .compilation_error import CompilationError
from .cpu import CodeOptions
from .entry_point import Boundary, EntryWrapper
from .profile import Profile, measure_steps, rows_of
from .static_calls import StaticCalls
from .stored_code import StoredCode, code_of

if TYPE_CHECKING:
    from .clock_reads import ClockReads
    from .machine_code import MachineCode
    from .source_ops import NumberedSource

_Arrays = Sequence[Array]
_Shapes = Sequence[tuple[int, ...]]
_Output = Array | tuple[Array, ...] | None
_Kernel = Callable[[int], None]

STREAMED_BYTES = 48 << 20
"""
Minimum total size in bytes of results that are written with streaming stores.

In measurements, streaming was never faster at 16 MiB and always faster at 64 MiB.
"""


class CompiledFunction:
    """
    Function of a module, compiled by [`compile`][xdsl_quant.execution.compile].

    Takes an array, a number or a list of numbers per argument (see
    [`array_types`][xdsl_quant.runtime.arrays] for the dtype of each type). Returns a
    new array, a tuple of arrays if there are several results, or `None` without
    results. Argument arrays are never modified and never share memory with a result;
    arrays that are not contiguous are copied.

    Thread-safe. Calls release Python's global interpreter lock.
    """

    name: str

    argument_types: Sequence[Attribute]
    """Argument types in the module, possibly quantized."""

    result_types: Sequence[Attribute]
    """Result types in the module, possibly quantized."""

    text: str
    """MLIR text of the lowered function and its callees."""

    wrapper: EntryWrapper
    """Generated functions that call the entry point."""

    temporary_bytes: int
    """
    Bytes that a call allocates for intermediate values, excluding values of dynamic
    size and values inside loops and branches.
    """

    def __init__(
        self,
        wrapper: EntryWrapper,
        text: str,
        source: Callable[[], NumberedSource],
        host_functions: HostFunctions,
        options: CodeOptions,
    ):
        """
        Args:
            wrapper: generated functions that call the entry point.
            text: MLIR text of the entry point and its callees.
            source: lowers the entry point again, with op numbers as locations.
            host_functions: Python functions that the code calls.
            options: code generation options; `stream` is set per kernel.

        Raises:
            CompilationError: if MLIR cannot compile the text.
            ImportError: if MLIR is not installed.
        """
        entry = wrapper.entry
        self.name = entry.name
        self.argument_types = tuple(b.type_ for b in entry.arguments)
        self.result_types = tuple(b.type_ for b in entry.results)
        self.text = text
        self._arguments = entry.arguments
        self._results = entry.results
        self.wrapper = wrapper
        self._source = source
        self._host_functions = host_functions
        self._options = options
        try:
            self._code = code = self._compiled(stream=False)
        except CompilationError as e:
            raise CompilationError(self._located_message(e)) from None
        self.temporary_bytes = code.temporary_bytes
        self._streaming_code: MachineCode | StoredCode | None = None
        self._streaming_lock = Lock()
        self._kernel = code.function(wrapper.kernel_name)
        self._sizes = code.function(wrapper.sizes_name) if wrapper.sizes_name else None
        self._static_shapes = [result.shape for result in entry.results]
        self._static_calls = self._calls_with_static_shapes()
        self._last_shapes: tuple[_Shapes | None, _Shapes] = (None, [])

    def _calls_with_static_shapes(self) -> StaticCalls | None:
        """Return the calls without conversions; `None` if each call must check values."""
        boundaries = (*self._arguments, *self._results)
        if any(boundary.dynamic_dimensions for boundary in boundaries):
            return None
        if not all(argument.accepts_full_range for argument in self._arguments):
            return None
        if self._code.can_stream and _size_in_bytes(self._results) >= STREAMED_BYTES:
            return None
        return StaticCalls(self.name, self._kernel, self._arguments, self._results)

    def __repr__(self) -> str:
        arguments = ", ".join(map(shortened, self.argument_types))
        results = ", ".join(map(shortened, self.result_types))
        return f"<CompiledFunction {self.name}: ({arguments}) -> ({results})>"

    def __call__(self, *arguments: ArrayLike, out: _Output = None) -> Any:
        """
        Call the function and return an array, a tuple of arrays or `None`.

        Args:
            arguments: one value per argument of the function.
            out: array for the result, or a tuple with an array per result; filled and
                returned. These arrays must be contiguous and must not overlap each
                other or an argument.

        Raises:
            TypeError: if the argument count or the dtype of an array is wrong.
            ValueError: if a shape is wrong, a value is out of the range of its type,
                `out` is unsuitable, or a run-time check fails.
            Exception: any exception of a Python function that the code calls.
        """
        if out is None and self._static_calls is not None:
            results = self._static_calls(arguments)
            if results is not None:
                return results[0] if len(results) == 1 else tuple(results) or None
        inputs = self._inputs(arguments)
        return self._bound(inputs, self._outputs(inputs, out))()

    def bind(self, *arguments: ArrayLike, out: _Output = None) -> BoundCall:
        """
        Return a call that is bound to arrays, which are validated only once.

        Args:
            arguments: as in a call. Arrays are not copied but read at each call, so
                they must be contiguous, aligned and in native byte order. Numbers and
                lists are read only once.
            out: as in a call; by default new arrays, which each call overwrites.

        Raises:
            TypeError: as in a call, or if an argument is neither an array nor a number
                or list, so that each call would have to convert it.
            ValueError: as in a call; if each call would have to copy an array or check
                its values; or if result sizes may depend on argument values or on a
                Python function.
        """
        inputs = self._inputs(arguments)
        for index, value in enumerate(arguments):
            self._check_can_be_bound(value, inputs[index], index)
        if self._sizes is not None and not self._code.sizes_depend_on_shapes:
            raise ValueError(
                f"cannot bind '{self.name}': result sizes may depend on more than the "
                "argument shapes"
            )
        return self._bound(inputs, self._outputs(inputs, out))

    def profile(self, *arguments: ArrayLike) -> Profile:
        """
        Measure how long each op of the module takes in compiled code.

        Compiles the function again with clock reads between loop nests, and calls it
        for a quarter of a second.

        Args:
            arguments: as in a call.

        Raises:
            CompilationError: if the model file has changed or is missing.
            TypeError: as in a call.
            ValueError: as in a call.
            Exception: any exception of a Python function that the code calls.
        """
        # Import here: this needs the extra `mlir`, which cached code does not.
        from .clock_reads import ClockReads

        inputs = self._inputs(arguments)
        outputs = self._outputs(inputs, None)
        source, clock = self._source(), ClockReads()
        stream = self._is_streamed(outputs)
        code = self._compiled(stream=stream, text=source.text, clock=clock)
        kernel = code.function(self.wrapper.kernel_name)
        call = BoundCall(self.name, kernel, code, inputs, outputs)
        seconds, count = measure_steps(call, clock.seconds)
        rows = rows_of(source.ops, source.products, clock.steps, seconds.tolist())
        return Profile(self.name, rows, count)

    def _check_can_be_bound(self, value: ArrayLike, array: Array, index: int) -> None:
        if isinstance(value, np.generic | int | float | list | tuple):
            return
        if not isinstance(value, np.ndarray):
            raise TypeError(
                f"cannot bind argument {index} of type '{type(value).__name__}'; pass a "
                "NumPy array that shares its memory"
            )
        if not self._arguments[index].accepts_full_range:
            type_ = shortened(self.argument_types[index])
            raise ValueError(
                f"cannot bind argument {index}: each call would have to check its values "
                f"against '{type_}'"
            )
        if array.ctypes.data != cast(Array, value).ctypes.data:
            raise ValueError(
                f"cannot bind argument {index}: each call would have to copy it; pass a "
                "contiguous and aligned array in native byte order"
            )

    def _bound(self, inputs: _Arrays, outputs: _Arrays) -> BoundCall:
        return BoundCall(self.name, self._kernel_for(outputs), self, inputs, outputs)

    def _inputs(self, arguments: Sequence[ArrayLike]) -> list[Array]:
        check_argument_count(self.name, len(self._arguments), len(arguments))
        pairs = zip(arguments, self._arguments, strict=True)
        return [_input(*pair, index) for index, pair in enumerate(pairs)]

    def _outputs(self, inputs: _Arrays, out: _Output) -> _Arrays:
        shapes = self._result_shapes(inputs)
        if out is not None:
            return self._given_outputs(out, shapes, inputs)
        pairs = zip(shapes, self._results, strict=True)
        return [np.empty(shape, result.dtype) for shape, result in pairs]

    def _result_shapes(self, inputs: _Arrays) -> _Shapes:
        if self._sizes is None:
            return self._static_shapes
        if not self._code.sizes_depend_on_shapes:
            return self._computed_shapes(self._sizes, inputs)
        # Consecutive calls mostly have the same shapes.
        last_inputs, last_results = self._last_shapes
        shapes = [array.shape for array in inputs]
        if shapes == last_inputs:
            return last_results
        results = self._computed_shapes(self._sizes, inputs)
        self._last_shapes = shapes, results
        return results

    def _computed_shapes(self, function: _Kernel, inputs: _Arrays) -> _Shapes:
        sizes = np.empty(self.wrapper.dynamic_size_count, np.int64)
        with runtime_library.mute_host_functions():
            BoundCall(self.name, function, self, inputs, [sizes])()
        known = iter(sizes.tolist())
        return [
            tuple(
                next(known) if i in result.dynamic_dimensions else size
                for i, size in enumerate(result.shape)
            )
            for result in self._results
        ]

    def _given_outputs(
        self,
        out: Array | tuple[Array, ...],
        shapes: _Shapes,
        inputs: _Arrays,
    ) -> _Arrays:
        outputs = out if isinstance(out, tuple) else (out,)
        if len(outputs) != len(self._results):
            raise TypeError(
                f"`out` must have one array per result of '{self.name}': expected "
                f"{len(self._results)}, found {len(outputs)}"
            )
        taken = list(inputs)
        for index, output in enumerate(outputs):
            name = "out" if len(outputs) == 1 else f"out[{index}]"
            _check_output(output, self._results[index].dtype, shapes[index], name)
            if any(np.may_share_memory(output, array) for array in taken):
                raise ValueError(f"{name} overlaps an argument or another output")
            taken.append(output)
        return outputs

    def _kernel_for(self, outputs: _Arrays) -> _Kernel:
        """
        Return the fastest kernel for outputs of these sizes. The kernel with streaming
        stores is compiled on first use.
        """
        if not self._is_streamed(outputs):
            return self._kernel
        with self._streaming_lock:
            if self._streaming_code is None:
                self._streaming_code = self._compiled(stream=True)
        return self._streaming_code.function(self.wrapper.kernel_name)

    def _is_streamed(self, outputs: _Arrays) -> bool:
        size = sum(output.nbytes for output in outputs)
        return self._code.can_stream and size >= STREAMED_BYTES

    def _located_message(self, error: CompilationError) -> str:
        """Return the message of an error, with the source op at which MLIR failed."""
        if not error.place:
            return str(error)
        source = self._source()
        try:
            self._compiled(stream=False, text=source.text)
        except CompilationError as e:
            return f"{source.subject_at(e.place)}{error}"
        return str(error)

    def _compiled(
        self, *, stream: bool, text: str | None = None, clock: ClockReads | None = None
    ) -> MachineCode | StoredCode:
        text = f"{self.text if text is None else text}\n{self.wrapper.text}"
        functions, options = self._host_functions, replace(self._options, stream=stream)
        callbacks = {
            f"_mlir_ciface_{name}": _host_callback(arguments, functions[name])
            for name, arguments in self.wrapper.entry.host_declarations.items()
        }
        names = self.wrapper.names
        return code_of(text, names, options, functions, callbacks, clock)


def _size_in_bytes(boundaries: Sequence[Boundary]) -> int:
    return sum(b.dtype.itemsize * math.prod(b.shape) for b in boundaries)


def _host_callback(
    arguments: Sequence[Boundary], function: Callable[..., object]
) -> object:
    """
    Return a callback that converts memrefs to arrays and calls a Python function.

    See `xdsl_quant.runtime.host_functions`.

    Args:
        arguments: `Boundary` of each argument, with the rank and dtype of its array.
        function: Python function that takes the arrays.
    """

    # Making arrays takes most of the time of a call.
    is_needed = (
        function.is_needed if isinstance(function, SelectiveFunction) else lambda: True
    )

    def called(*addresses: int) -> None:
        if not is_needed():
            return
        runtime_library.call_unless_failed(
            lambda: function(
                *(
                    runtime_library.array_at(address, len(arg.shape), arg.dtype)
                    for address, arg in zip(addresses, arguments, strict=True)
                )
            )
        )

    return runtime_library.callback(called, len(arguments))


def _input(value: ArrayLike, boundary: Boundary, index: int) -> Array:
    # Most arrays match already.
    array = (
        value
        if type(value) is np.ndarray and boundary.is_same(value)
        else np.asarray(check_argument(value, boundary.type_, f"argument {index}"))
    )
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


def _check_output(
    output: Array, dtype: DType, shape: tuple[int, ...], name: str
) -> None:
    if not isinstance(cast(object, output), np.ndarray):
        raise TypeError(f"{name} must be an array, not {type(output).__name__}")
    check_unmasked(output, name)
    if output.dtype != dtype:
        raise TypeError(f"{name} has dtype {output.dtype}, but the result has {dtype}")
    if output.shape != shape:
        raise ValueError(
            f"{name} has shape {shape_text(output.shape)}, but the result has shape "
            f"{shape_text(shape)}"
        )
    if not output.flags.carray:
        raise ValueError(f"{name} must be writable, contiguous and aligned")
