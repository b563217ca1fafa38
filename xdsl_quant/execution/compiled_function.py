"""Machine code that is called with NumPy arrays."""

from __future__ import annotations

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
from xdsl_quant.runtime.host_functions import HostFunctions

from . import runtime_library
from .bound_call import BoundCall
from .cpu import CodeOptions
from .entry_point import Boundary, EntryWrapper
from .profile import Profile, measure_steps, rows_of
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
Results of together so many bytes are streamed: see `scheduling.streaming_stores`.

That was never faster with 16 MiB, and with 64 MiB it always was.
"""


class CompiledFunction:
    """
    A function of a module, compiled by [`compile`][xdsl_quant.execution.compile].

    It is called with an array, a number or a list of numbers for each argument. Types say
    which arrays fit: see [`array_types`][xdsl_quant.runtime.arrays]. It returns a new
    array if the function has one result, a tuple of arrays if it has several, and `None`
    if it has none. Arrays of arguments are neither written to nor part of a result. Those
    that are not contiguous are copied.

    Any thread may call it; other Python threads run meanwhile.
    """

    name: str
    """The name of the function."""

    argument_types: Sequence[Attribute]
    """The types of the arguments in the module, possibly quantized."""

    result_types: Sequence[Attribute]
    """The types of the results in the module, possibly quantized."""

    text: str
    """The function and all that it needs, as it was handed to MLIR."""

    temporary_bytes: int
    """
    The bytes of intermediate values that a call has in memory at once. Those of dynamic
    sizes, or inside of loops and branches, are not counted.
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
            wrapper: the functions around the entry point.
            text: the entry point and all that it needs, for MLIR.
            source: returns the text again, with numbers for ops.
            host_functions: Python functions that the code calls.
            options: how the code is generated, without streaming.

        Raises:
            CompilationError: if MLIR does not compile it.
            ImportError: if MLIR is not installed.
        """
        entry = wrapper.entry
        self.name = entry.name
        self.argument_types = tuple(b.type_ for b in entry.arguments)
        self.result_types = tuple(b.type_ for b in entry.results)
        self.text = text
        self._arguments = entry.arguments
        self._results = entry.results
        self._wrapper = wrapper
        self._source = source
        self._host_functions = host_functions
        self._options = options
        self._code = code = self._compiled(stream=False)
        self.temporary_bytes = code.temporary_bytes
        self._streaming_code: MachineCode | StoredCode | None = None
        self._streaming_lock = Lock()
        self._kernel = code.function(wrapper.kernel_name)
        self._sizes = code.function(wrapper.sizes_name) if wrapper.sizes_name else None
        self._static_shapes = [result.shape for result in entry.results]
        self._last_shapes: tuple[_Shapes | None, _Shapes] = (None, [])

    def __repr__(self) -> str:
        arguments = ", ".join(map(shortened, self.argument_types))
        results = ", ".join(map(shortened, self.result_types))
        return f"<CompiledFunction {self.name}: ({arguments}) -> ({results})>"

    def __call__(self, *arguments: ArrayLike, out: _Output = None) -> Any:
        """
        Call the function; it returns an array, a tuple of arrays or `None`.

        Args:
            arguments: one for each argument of the function.
            out: an array for the result, or a tuple of one for each result, to be filled
                and returned. They must be contiguous and have no memory in common with
                each other or with an argument.

        Raises:
            TypeError: if the number of arguments or the dtype of an array is wrong.
            ValueError: if a shape is wrong, sizes do not fit each other, a number does not
                fit its type, or `out` cannot be used.
            Exception: whatever a Python function raises that the code calls.
        """
        inputs = self._inputs(arguments)
        return self._bound(inputs, self._outputs(inputs, out))()

    def bind(self, *arguments: ArrayLike, out: _Output = None) -> BoundCall:
        """
        Return a call on certain arrays, which are checked and described here and now,
        once for all times that it is made.

        Args:
            arguments: as in a call, but arrays are read when the call is made, and so
                cannot be copied: they must be contiguous, aligned and in native byte
                order. Plain numbers and lists stay what they are now.
            out: as in a call; without it there are new arrays, which all calls fill.

        Raises:
            TypeError: as in a call, or if an argument is something else that becomes an
                array, which each call would have to make anew.
            ValueError: as in a call, or if an array must be copied or all its numbers must
                be looked at, or if sizes of results may depend on more than shapes: on
                numbers, or on a function that calls a Python function.
        """
        inputs = self._inputs(arguments)
        for index, value in enumerate(arguments):
            self._check_can_be_bound(value, inputs[index], index)
        if self._sizes is not None and not self._code.has_sizes_of_shapes:
            raise ValueError(
                f"'{self.name}' cannot be bound, as sizes of its results may depend on "
                "more than the shapes of its arguments"
            )
        return self._bound(inputs, self._outputs(inputs, out))

    def profile(self, *arguments: ArrayLike) -> Profile:
        """
        How long each op of the module takes in compiled code. The function is compiled once
        more, with reads of the clock between loop nests, and called for a quarter of a
        second.

        Args:
            arguments: as in a call.

        Raises:
            CompilationError: if it was compiled from a file that has changed since, or is
                not there any more.
            TypeError: as in a call.
            ValueError: as in a call.
            Exception: whatever a Python function raises that the code calls.
        """
        # Needs the extra `mlir`, which code from the cache does not.
        from .clock_reads import ClockReads

        inputs = self._inputs(arguments)
        outputs = self._outputs(inputs, None)
        source, clock = self._source(), ClockReads()
        stream = self._is_streamed(outputs)
        code = self._compiled(stream=stream, text=source.text, clock=clock)
        kernel = code.function(self._wrapper.kernel_name)
        call = BoundCall(self.name, kernel, code, inputs, outputs)
        seconds, count = measure_steps(call, clock.seconds)
        rows = rows_of(source.ops, source.products, clock.steps, seconds.tolist())
        return Profile(self.name, rows, count)

    def _check_can_be_bound(self, value: ArrayLike, array: Array, index: int) -> None:
        if isinstance(value, np.generic | int | float | list | tuple):
            return
        if not isinstance(value, np.ndarray):
            raise TypeError(
                f"argument {index} cannot be bound, as it is a {type(value).__name__}: "
                "give an array that shares its memory"
            )
        if not self._arguments[index].takes_all_numbers:
            type_ = shortened(self.argument_types[index])
            raise ValueError(
                f"argument {index} cannot be bound, as each call must check that its "
                f"numbers fit '{type_}'"
            )
        if array.ctypes.data != cast(Array, value).ctypes.data:
            raise ValueError(
                f"argument {index} cannot be bound, as each call must copy an array that "
                "is not contiguous, aligned and in native byte order"
            )

    def _bound(self, inputs: _Arrays, outputs: _Arrays) -> BoundCall:
        return BoundCall(self.name, self._kernel_for(outputs), self, inputs, outputs)

    def _inputs(self, arguments: Sequence[ArrayLike]) -> list[Array]:
        check_argument_count(self.name, len(self._arguments), len(arguments))
        return [
            _input(value, boundary, index)
            for index, (value, boundary) in enumerate(
                zip(arguments, self._arguments, strict=True)
            )
        ]

    def _outputs(self, inputs: _Arrays, out: _Output) -> _Arrays:
        shapes = self._result_shapes(inputs)
        if out is not None:
            return self._given_outputs(out, shapes, inputs)
        return [
            np.empty(shape, result.dtype)
            for shape, result in zip(shapes, self._results, strict=True)
        ]

    def _result_shapes(self, inputs: _Arrays) -> _Shapes:
        if self._sizes is None:
            return self._static_shapes
        if not self._code.has_sizes_of_shapes:
            return self._computed_shapes(self._sizes, inputs)
        # Most often shapes are those of the last call.
        last_inputs, last_results = self._last_shapes
        shapes = [array.shape for array in inputs]
        if shapes == last_inputs:
            return last_results
        results = self._computed_shapes(self._sizes, inputs)
        self._last_shapes = shapes, results
        return results

    def _computed_shapes(self, function: _Kernel, inputs: _Arrays) -> _Shapes:
        sizes = np.empty(self._wrapper.dynamic_size_count, np.int64)
        with runtime_library.muted():
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
                f"`out` must have an array for each result of '{self.name}', "
                f"{len(self._results)} and not {len(outputs)}"
            )
        taken = list(inputs)
        for index, output in enumerate(outputs):
            name = "out" if len(outputs) == 1 else f"out[{index}]"
            _check_output(output, self._results[index].dtype, shapes[index], name)
            if any(np.may_share_memory(output, array) for array in taken):
                raise ValueError(f"{name} has memory in common with another array")
            taken.append(output)
        return outputs

    def _kernel_for(self, outputs: _Arrays) -> _Kernel:
        """
        Return the kernel that is fastest for outputs of these sizes. The one with
        streaming stores is compiled when it is needed first.
        """
        if not self._is_streamed(outputs):
            return self._kernel
        with self._streaming_lock:
            if self._streaming_code is None:
                self._streaming_code = self._compiled(stream=True)
        return self._streaming_code.function(self._wrapper.kernel_name)

    def _is_streamed(self, outputs: _Arrays) -> bool:
        return (
            self._code.can_stream and sum(o.nbytes for o in outputs) >= STREAMED_BYTES
        )

    def _compiled(
        self, *, stream: bool, text: str | None = None, clock: ClockReads | None = None
    ) -> MachineCode | StoredCode:
        text = f"{self.text if text is None else text}\n{self._wrapper.text}"
        functions, options = self._host_functions, replace(self._options, stream=stream)
        callbacks = {
            f"_mlir_ciface_{name}": _host_callback(arguments, functions[name])
            for name, arguments in self._wrapper.entry.host_declarations.items()
        }
        names = self._wrapper.names
        return code_of(text, names, options, functions, callbacks, clock)


def _host_callback(
    arguments: Sequence[Boundary], function: Callable[..., object]
) -> object:
    """
    Return a Python function as compiled code calls it, with the addresses of the
    descriptors of memrefs: see `xdsl_quant.runtime.host_functions`.

    Args:
        arguments: tensors that are in memory what they are as arrays.
        function: takes the arrays.
    """

    def called(*addresses: int) -> None:
        runtime_library.guarded(
            lambda: function(
                *(
                    runtime_library.array_at(address, len(arg.shape), arg.dtype)
                    for address, arg in zip(addresses, arguments, strict=True)
                )
            )
        )

    return runtime_library.callback(called, len(arguments))


def _input(value: ArrayLike, boundary: Boundary, index: int) -> Array:
    # Most arrays are just what is wanted.
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
        raise TypeError(f"{name} is a {type(output).__name__} but no array")
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
