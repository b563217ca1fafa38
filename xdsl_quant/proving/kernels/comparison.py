"""Evaluation of kernels before and after a pipeline, and search for different results."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant import execution
from xdsl_quant.diagnostics import counted
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.inspecting.op_recording import RecordedFunction
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.stateful_function import result_tuple

from ..tensors import static_shape
from ..terms import UnsupportedError
from .cutting import ModelKernel
from .forms import KernelForm
from .scheduling import scheduled_module
from .step_functions import ordered_bits

_RANDOM_INPUTS = 6


class RefutedError(Exception):
    """Raised with an input for which the results differ."""

    def __init__(self, inputs: Sequence[Array], bound: str = ""):
        """
        Keep an input.

        Args:
            inputs: the arguments.
            bound: largest difference for all inputs, e.g. `1 unit`, if known.
        """
        super().__init__()
        self.inputs = inputs
        self.bound = bound


class UndecidedError(UnsupportedError):
    """Raised if code of a known form differs, but no input with other results is found."""


class KernelComparison:
    """A kernel and its lowered code."""

    calls: int
    """Number of inputs that were compared."""

    types: Sequence[Attribute]
    """Types of the arguments."""

    form: KernelForm
    """Form of the code, set by `analyze`."""

    level: str = ""
    """Suffix of the method if the form is that of the code before scheduling."""

    def __init__(self, kernel: ModelKernel, lowered: ModuleOp):
        """
        Compile the code.

        Raises:
            UnsupportedError: if an argument or result has a dynamic shape.
            CompilationError: if the code cannot be compiled.
        """
        self.kernel, self.lowered, self.calls = kernel, lowered, 0
        (function,) = kernel.module.ops
        assert isinstance(function, FuncOp)
        self.types = [*function.function_type.inputs]
        for type_ in (*self.types, *function.function_type.outputs):
            static_shape(type_)
        self.recorded = RecordedFunction(kernel.module)
        self._after = execution.compile(lowered)

    def analyze(self, *, is_scheduled: bool) -> None:
        """
        Set the form of the code, before or after the scheduling of ops on tensors.

        Raises:
            UnsupportedError: if the form is unknown, for example with branches.
        """
        self.level = "" if is_scheduled else ", before scheduling"
        module = scheduled_module(self._after) if is_scheduled else self.lowered
        self.form = KernelForm.of(module)

    @cached_property
    def code_types(self) -> Sequence[Attribute]:
        """Argument types of the code, which may have signless stored values."""
        return [*entry_function(self.lowered).function_type.inputs]

    @cached_property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """Smallest and largest stored value of each argument."""
        ranges: list[tuple[int, int]] = []
        for type_ in map(scalar_or_element_type, self.types):
            if not isinstance(type_, StoredQuantizedType):
                raise UnsupportedError(f"has an argument of type '{type_}'")
            low, high = type_.storage_range
            ranges.append((int(low), int(high)))
        return ranges

    @property
    def has_stored_arguments(self) -> bool:
        """True if all arguments are stored values."""
        elements = map(scalar_or_element_type, self.types)
        return all(isinstance(element, StoredQuantizedType) for element in elements)

    def filled(self, index: int, value: int) -> Array:
        """Return an argument whose elements are equal."""
        type_ = self.types[index]
        return np.full(shape_of(type_), value, numpy_dtype(type_))

    def stored(self, index: int, offsets: Array) -> Array:
        """Return an argument, given its differences from the smallest stored value."""
        type_ = self.types[index]
        values = offsets + self.ranges[index][0]
        return values.reshape(shape_of(type_)).astype(numpy_dtype(type_))

    # Evaluation

    def before(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """
        Return the results of the formula.

        Raises:
            UnsupportedError: if it has none, e.g. for an index out of a table.
        """
        try:
            return self.recorded.step(*inputs)
        except InterpretationError as error:
            raise UnsupportedError(f"its formula has no result: {error}") from None

    def after(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Return the results of the code, with the dtypes and shapes of the kernel."""
        pairs = zip(inputs, self.code_types, strict=True)
        found = result_tuple(self._after(*(x.view(numpy_dtype(t)) for x, t in pairs)))
        types = [result.type for result in self.kernel.op.results]
        return tuple(
            array.view(numpy_dtype(type_)).reshape(shape_of(type_))
            for array, type_ in zip(found, types, strict=True)
        )

    def is_equal(self, inputs: Sequence[Array]) -> bool:
        """Return True if the results for an input are equal."""
        self.calls += 1
        # First: the code may fail where the formula has no result.
        expected = self.before(inputs)
        try:
            found = self.after(inputs)
        except ValueError:
            # A check in the code failed, e.g. of an index.
            return False
        return all(
            np.array_equal(a, b, equal_nan=b.dtype.kind == "f")
            for a, b in zip(found, expected, strict=True)
        )

    def check(self, inputs: Sequence[Array]) -> None:
        """
        Compare the results for an input.

        Raises:
            RefutedError: if they differ.
        """
        if not self.is_equal(inputs):
            raise RefutedError(inputs)

    def check_random_inputs(self) -> None:
        """Compare the results for a few inputs: bounds and random numbers."""
        random = np.random.default_rng(0)
        if not self.has_stored_arguments:
            for _ in range(_RANDOM_INPUTS):
                draws = [(random.normal(size=shape_of(t)), t) for t in self.types]
                self.check([(3 * x).astype(numpy_dtype(t)) for x, t in draws])
            return
        for end in (0, 1):
            self.check([self.filled(i, r[end]) for i, r in enumerate(self.ranges)])
        for _ in range(_RANDOM_INPUTS):
            self.check(
                [
                    random.integers(low, high + 1, shape_of(type_)).astype(
                        numpy_dtype(type_)
                    )
                    for (low, high), type_ in zip(self.ranges, self.types, strict=True)
                ]
            )

    # Counterexamples

    def description(self, inputs: Sequence[Array]) -> str:
        """Return a small input for which the results differ, and these results."""
        inputs = self._shrunk(inputs)
        texts = [f"argument {i} is {_array_text(x)}" for i, x in enumerate(inputs)]
        try:
            found = self.after(inputs)
        except ValueError as error:
            return "; ".join([*texts, f"the code fails: {error}"])
        for number, (a, b) in enumerate(zip(found, self.before(inputs), strict=True)):
            wrong = np.argwhere(a != b)
            if wrong.size:
                index = tuple(wrong[0].tolist())
                texts.append(
                    f"result {number} has {a[index]} at {[*index]}, expected {b[index]}"
                )
                if a.dtype == np.float32:
                    texts[-1] += f" ({counted(distance(a[index], b[index]), 'ulp')})"
                break
        return "; ".join(texts)

    def _lone_element(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Return an argument whose elements are equal, if the results still differ."""
        try:
            wrong = self.after(inputs)[0] != self.before(inputs)[0]
        except ValueError:
            return inputs
        if len(inputs) == 1 and inputs[0].shape == wrong.shape and wrong.any():
            alone = [np.full_like(inputs[0], inputs[0][wrong][0])]
            return inputs if self.is_equal(alone) else alone
        return inputs

    def _shrunk(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Replace elements by the smallest value as long as the results differ."""
        inputs = [np.array(x) for x in inputs]
        if not self.has_stored_arguments:
            return self._lone_element(inputs)
        for index, values in enumerate(inputs):
            low = self.ranges[index][0]
            size = values.size
            budget = 100
            while size and budget:
                for start in range(0, values.size, size):
                    part = values.reshape(-1)[start : start + size]
                    if budget == 0 or (part == low).all():
                        continue
                    budget -= 1
                    old = part.copy()
                    part[:] = low
                    if self.is_equal(inputs):
                        part[:] = old
                size //= 2
        return inputs


def distance(found: Array, expected: Array) -> int:
    """Return the largest difference of integers, or of `f32` numbers in ulps."""
    pair = (
        (ordered_bits(found), ordered_bits(expected))
        if found.dtype == np.float32
        else (found.astype(np.int64), expected.astype(np.int64))
    )
    return int(np.abs(pair[0] - pair[1]).max())


def _array_text(array: Array) -> str:
    """Return the value of all elements, and the others with their indices."""
    values, counts = np.unique(array, return_counts=True)
    common = values[counts.argmax()]
    others = np.argwhere(array != common).tolist()
    if len(others) > 12:
        return f"{common} at {counts.max()} of {array.size} indices"
    texts = [f"{array[tuple(index)]} at {index}" for index in others]
    return ", ".join([f"{common} everywhere", *texts]).replace(", ", " but ", 1)
