"""
Validation of pipelines on models, kernel by kernel.

A model of `tfl` ops is cut at stored values: each op is a kernel, a function of its
operands that are not constant. The formula of the op in the interpreter is compared with
the code that a pipeline makes of the kernel, for all stored values:

* *movement*: the code only moves elements, so labels of elements determine it;
* *elementwise*: each result element depends on one element of each operand in the same
  way, so all (pairs of) stored values determine it;
* *products*: the code is an affine part, which zero and unit vectors determine, and an
  elementwise part, which is evaluated for all values within the bounds of the affine part;
* *means*: as products, with coefficients 1.

Kernels of other forms are reported as unknown, with the reason.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp, NameLoc, NoneType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from xdsl_quant import execution
from xdsl_quant.diagnostics import counted, op_name, shortened_text
from xdsl_quant.dialects.quant.traits import (
    CastsQuantization,
    ComputesElementwise,
    MovesElements,
    has_quantization_trait,
)
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.inspecting.op_recording import RecordedFunction, Step
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.primitives import PRIMITIVES
from xdsl_quant.runtime.arrays import constant_attr, numpy_dtype, shape_of, shape_text
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_passes
from xdsl_quant.runtime.stateful_function import result_tuple

from .kernel_forms import (
    KernelForm,
    Kind,
    affine_part,
    elements_of_constant,
    elementwise_part,
)
from .terms import UnsupportedError
from .theorems import Theorem

_STATE = frozenset(
    (
        *("tfl.assign_variable", "tfl.call_once", "tfl.read_variable"),
        *("tfl.no_value", "tfl.var_handle", "func.call"),
    )
)
"""Ops of state and structure, whose values are arguments and results of kernels."""

_ELEMENTWISE = ComputesElementwise, CastsQuantization

_MAX_CALLS = 4096
"""Maximum number of calls of a kernel for all stored values."""

_MAX_INPUTS = 1 << 17
"""Maximum number of combinations of stored values of an elementwise op."""

_MAX_PLACES = 50
"""Maximum number of different results for which an input is searched."""

_RANDOM_INPUTS = 6

_SIGNED, _UNSIGNED = {"arith.extsi", "tosa.cast"}, {"arith.extui"}
"""Extensions of stored values."""

_CHUNK = 1 << 20
"""Number of accumulators that are rescaled in a call."""


@dataclass(frozen=True)
class ModelKernel:
    """An op of a model with its constants, as a module of one function."""

    op: Operation
    module: ModuleOp

    @property
    def name(self) -> str:
        """Op name and, if known, location name."""
        location = self.op.location
        text = location.desc.data if isinstance(location, NameLoc) else ""
        name = f" {shortened_text(text)}" if text else ""
        return f"'{op_name(self.op)}'{name}"


class _Refuted(Exception):
    """Raised with an input for which the results differ."""

    def __init__(self, inputs: Sequence[Array], units: int | None = None):
        """
        Keep an input.

        Args:
            inputs: the arguments.
            units: largest difference of stored values for all inputs, if known.
        """
        super().__init__()
        self.inputs = inputs
        self.units = units


# Cutting


def cut_kernels(module: ModuleOp) -> Iterator[ModelKernel]:
    """Yield the kernels of a module; of equal kernels, only the first."""
    seen: set[object] = set()
    for function in module.ops:
        if not isinstance(function, FuncOp):
            continue
        for op in function.walk():
            if not _is_kernel(op) or (key := _key(op)) in seen:
                continue
            seen.add(key)
            yield ModelKernel(op, _lone_module(op, module))


def _is_kernel(op: Operation) -> bool:
    is_constant = any(_is_constant_operand(result) for result in op.results)
    return not (
        is_constant
        or isinstance(op, FuncOp)
        or op.has_trait(IsTerminator)
        or op_name(op) in _STATE
    )


def _is_constant_operand(value: SSAValue) -> bool:
    is_absent = isinstance(value.type, NoneType)
    return constant_attr(value) is not None or is_absent


def _key(op: Operation) -> object:
    """Return a key that is equal for equal kernels only."""
    if op.regions:
        return op
    constants = [
        constant_attr(value) or value.type if _is_constant_operand(value) else None
        for value in op.operands
    ]
    operands = [*op.operands]
    same = [operands.index(value) for value in operands]
    return (
        op_name(op),
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()),
        *(value.type for value in (*op.operands, *op.results)),
        *constants,
        *same,
    )


def _lone_module(op: Operation, module: ModuleOp) -> ModuleOp:
    varying = [v for v in dict.fromkeys(op.operands) if not _is_constant_operand(v)]
    block = Block(arg_types=[value.type for value in varying])
    values: dict[SSAValue, SSAValue] = dict(zip(varying, block.args, strict=True))
    for value in op.operands:
        if value not in values:
            assert isinstance(value.owner, Operation)
            copy = value.owner.clone()
            block.add_op(copy)
            values[value] = copy.results[0]
    copy = op.clone(value_mapper=values)
    block.add_op(copy)
    block.add_op(ReturnOp(*copy.results))
    type_ = FunctionType.from_lists([*block.arg_types], [*copy.result_types])
    function = FuncOp("kernel", type_, Region(block))
    return ModuleOp([function], {**module.attributes})


# Proofs


def kernel_theorems(module: ModuleOp, passes: str) -> Iterator[Theorem]:
    """
    Yield a theorem for each kernel of a model: the pipeline preserves its results.

    Args:
        module: module of `tfl` ops.
        passes: pipeline that lowers them.

    Raises:
        IRError: if the pipeline has an unknown pass or option.
    """
    parse_passes(passes)
    for kernel in cut_kernels(module):
        yield prove_kernel(kernel, passes)


def prove_kernel(
    kernel: ModelKernel, passes: str, mutate: Callable[[ModuleOp], None] | None = None
) -> Theorem:
    """
    Return the theorem that a pipeline preserves the results of a kernel.

    Args:
        kernel: kernel of a model.
        passes: pipeline that lowers it.
        mutate: function that changes the lowered module, to test the proof.
    """
    start = time.perf_counter()
    claim = f"{kernel.name} is preserved for all inputs"

    def theorem(verdict: Any, method: str, details: str = "") -> Theorem:
        seconds = time.perf_counter() - start
        return Theorem(claim, verdict, method, seconds, details)

    lowered = kernel.module.clone()
    try:
        apply_passes(lowered, passes, is_routine=True)
    except IRError as error:
        return theorem("unknown", "no lowering", str(error).partition("\n")[0])
    if mutate is not None:
        mutate(lowered)
    try:
        proof = KernelProof(kernel, lowered)
    except execution.CompilationError as error:
        return theorem("unknown", "no code", str(error).partition("\n")[0])
    try:
        proof.check_random_inputs()
        return theorem("proved", proof.decide())
    except _Refuted as refuted:
        units = refuted.units
        bound = "" if units is None else f"at most {counted(units, 'unit')}: "
        details = bound + proof.description(refuted.inputs)
        return theorem("refuted", "search", details)
    except (UnsupportedError, execution.CompilationError) as error:
        count = f"{counted(proof.calls, 'input')} gave equal results"
        return theorem("unknown", count, str(error))


@dataclass
class KernelProof:
    """Comparison of a kernel with its lowered code."""

    kernel: ModelKernel
    lowered: ModuleOp
    calls: int = field(default=0, init=False)

    def __post_init__(self):
        self.recorded = RecordedFunction(self.kernel.module)
        self._after = execution.compile(self.lowered)
        (function,) = self.kernel.module.ops
        assert isinstance(function, FuncOp)
        self.types = [*function.function_type.inputs]

    @cached_property
    def form(self) -> KernelForm:
        return KernelForm.of(self.lowered)

    # Evaluation

    def before(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return self.recorded.step(*inputs)

    @cached_property
    def code_types(self) -> Sequence[Any]:
        """Argument types of the code, which may have signless stored values."""
        return [*entry_function(self.lowered).function_type.inputs]

    def after(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Return the results of the code, with the dtypes of those of the formula."""
        pairs = zip(inputs, self.code_types, strict=True)
        found = result_tuple(self._after(*(x.view(numpy_dtype(t)) for x, t in pairs)))
        results = self.kernel.op.results
        return tuple(
            a.view(numpy_dtype(b.type)) for a, b in zip(found, results, strict=True)
        )

    def check(self, inputs: Sequence[Array]) -> None:
        """Raise `_Refuted` if the results for an input differ."""
        self.calls += 1
        if not self.check_equal(inputs):
            raise _Refuted(inputs)

    def check_equal(self, inputs: Sequence[Array]) -> bool:
        """Return True if the results for an input are equal."""
        try:
            found = self.after(inputs)
        except ValueError:
            # A check in the code failed, e.g. of an index.
            return False
        return all(
            np.array_equal(a.reshape(b.shape), b, equal_nan=b.dtype.kind == "f")
            for a, b in zip(found, self.before(inputs), strict=True)
        )

    def _units(self, inputs: Sequence[Array]) -> int:
        """Return the largest difference of results."""
        try:
            found = self.after(inputs)
        except ValueError:
            raise _Refuted(inputs) from None
        pairs = zip(found, self.before(inputs), strict=True)
        return max(
            int(np.abs(a.astype(np.int64).reshape(b.shape) - b.astype(np.int64)).max())
            for a, b in pairs
        )

    def check_random_inputs(self) -> None:
        """Compare the results for a few inputs: bounds and random numbers."""
        random = np.random.default_rng(0)
        shapes = [shape_of(type_) for type_ in self.types]
        if not all(isinstance(t, StoredQuantizedType) for t in self._elements):
            for _ in range(_RANDOM_INPUTS):
                self.check([_random_floats(random, t) for t in self.types])
            return
        for end in (0, 1):
            self.check(
                [self.filled(i, self.ranges[i][end]) for i in range(len(shapes))]
            )
        for _ in range(_RANDOM_INPUTS):
            ranges = zip(self.ranges, shapes, self.types, strict=True)
            self.check(
                [
                    random.integers(low, high + 1, shape).astype(numpy_dtype(type_))
                    for (low, high), shape, type_ in ranges
                ]
            )

    @property
    def _elements(self) -> Sequence[object]:
        return [scalar_or_element_type(type_) for type_ in self.types]

    @cached_property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """Smallest and largest stored value of each argument."""
        ranges: list[tuple[int, int]] = []
        for type_ in self._elements:
            if not isinstance(type_, StoredQuantizedType):
                raise UnsupportedError(f"has an argument of type '{type_}'")
            low, high = type_.storage_range
            ranges.append((int(low), int(high)))
        return ranges

    def filled(self, index: int, value: int) -> Array:
        """Return an argument whose elements are equal."""
        type_ = self.types[index]
        return np.full(shape_of(type_), value, numpy_dtype(type_))

    # Forms

    def decide(self) -> str:
        """
        Return the method of a proof.

        Raises:
            _Refuted: with an input for which the results differ.
            UnsupportedError: if the form of the kernel is unsupported.
        """
        op, form = self.kernel.op, self.form
        kinds = [form.kinds[result] for result in form.results]
        if max(kinds) <= Kind.MOVED and has_quantization_trait(op, MovesElements):
            return self._decide_movement()
        if any(has_quantization_trait(op, trait) for trait in _ELEMENTWISE):
            return self._decide_elementwise()
        start = form.affine_start()
        if op_name(op) == "tfl.average_pool_2d":
            return _MeanProof(self, start).decide()
        return _ProductProof(self, start).decide()

    def _decide_movement(self) -> str:
        """Compare the results for digits of the numbers of elements."""
        sizes = [prod(shape_of(type_)) for type_ in self.types]
        bases = [high - low + 1 for low, high in self.ranges]
        base, total = min(bases), sum(sizes)
        if base < 2 or base % 2:
            raise UnsupportedError(
                f"labels need an even number of values, found {base}"
            )
        labels, calls = np.arange(total), 0
        while True:
            digits = labels % base
            # A constant cannot be a digit and its complement.
            for values in (digits, base - 1 - digits):
                parts = np.split(values, np.cumsum(sizes)[:-1])
                self.check([self._stored(i, part) for i, part in enumerate(parts)])
                calls += 1
            labels = labels // base
            if not labels.any():
                return f"movement, {counted(calls, 'label')}"

    def _stored(self, index: int, offsets: Array) -> Array:
        type_ = self.types[index]
        values = offsets + self.ranges[index][0]
        return values.reshape(shape_of(type_)).astype(numpy_dtype(type_))

    def _decide_elementwise(self) -> str:
        """Compare the results for all combinations of stored values."""
        form = self.form
        if (name := form.is_elementwise(form.function.args)) is not None:
            raise UnsupportedError(f"its code has '{name}', which is not elementwise")
        if _has_different_constants(form, form.function.args):
            raise UnsupportedError("its code has different constants for elements")
        sizes = [high - low + 1 for low, high in self.ranges]
        shapes = {shape_of(type_) for type_ in self.types}
        (function,) = self.kernel.module.ops
        assert isinstance(function, FuncOp)
        shapes |= {shape_of(type_) for type_ in function.function_type.outputs}
        count, total = prod(next(iter(shapes))), prod(sizes)
        if len(shapes) > 1 or total > _MAX_INPUTS or total > count * _MAX_CALLS:
            raise UnsupportedError(
                f"has {total:,} combinations of stored values for shapes "
                f"{' and '.join(map(shape_text, shapes))}"
            )
        units, wrong = 0, None
        for start in range(0, total, count):
            numbers = np.arange(start, start + count) % total
            offsets = np.unravel_index(numbers, sizes)
            inputs = [self._stored(i, part) for i, part in enumerate(offsets)]
            if not self.check_equal(inputs):
                wrong = wrong or inputs
                units = max(units, self._units(inputs))
        if wrong is not None:
            raise _Refuted(wrong, units)
        return f"all {total:,} inputs of an element"

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
            wrong = np.argwhere(a.reshape(b.shape) != b)
            if wrong.size:
                index = tuple(wrong[0].tolist())
                value = a.reshape(b.shape)[index]
                texts.append(
                    f"result {number} has {value} at {[*index]}, expected {b[index]}"
                )
                break
        return "; ".join(texts)

    def _shrunk(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Replace elements by the smallest value as long as the results differ."""
        inputs = [np.array(x) for x in inputs]
        if not all(isinstance(t, StoredQuantizedType) for t in self._elements):
            return inputs
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
                    if self.check_equal(inputs):
                        part[:] = old
                size //= 2
        return inputs


def _array_text(array: Array) -> str:
    """Return the value of all elements, and the others with their indices."""
    values, counts = np.unique(array, return_counts=True)
    common = values[counts.argmax()]
    others = np.argwhere(array != common).tolist()
    if len(others) > 12:
        return f"{common} at {counts.max()} of {array.size} indices"
    texts = [f"{array[tuple(index)]} at {index}" for index in others]
    return ", ".join([f"{common} everywhere", *texts]).replace(", ", " but ", 1)


def _random_floats(random: np.random.Generator, type_: Any) -> Array:
    values = 3 * random.normal(size=shape_of(type_))
    return values.astype(numpy_dtype(type_))


def _has_different_constants(form: KernelForm, start: Sequence[SSAValue]) -> bool:
    """Return True if constant operands of a tail may have different elements."""
    for op in form.tail(start):
        is_table = op_name(op) == "tosa.table"
        if is_table or all(form.kinds[v] is Kind.CONSTANT for v in op.results):
            continue
        unused = _unused_operands(op) if isinstance(op, GenericOp) else ()
        for operand in op.operands:
            if form.kinds[operand] is not Kind.CONSTANT or operand in unused:
                continue
            if isinstance(operand.owner, FillOp):
                continue
            elements = elements_of_constant(operand)
            get_values = getattr(elements, "get_values", None)
            if get_values is None or len({*get_values()}) > 1:
                return True
    return False


def _unused_operands(op: GenericOp) -> set[SSAValue]:
    """Return operands whose elements the body never uses, such as empty outputs."""
    pairs = [*zip(op.operands, op.body.block.args, strict=True)]
    used = {operand for operand, x in pairs if x.uses.get_length()}
    return {operand for operand, _ in pairs} - used


# Products


class _AffineProof:
    """Comparison of the affine part of a kernel with its formula."""

    def __init__(self, proof: KernelProof, value: SSAValue):
        if len(proof.types) != 1:
            raise UnsupportedError("has several arguments that are multiplied")
        self.proof = proof
        self.value = value
        self.type = proof.types[0]
        self.shape = shape_of(self.type)
        self.low, self.high = proof.ranges[0]
        self.base = proof.filled(0, self.low)
        self._dtype = numpy_dtype(proof.code_types[0])
        form = proof.form
        if form.has_negation(value):
            raise UnsupportedError("its affine part subtracts elements")
        is_signed = self.base.dtype.kind == "i"
        # The other extension is affine on half of the stored values only.
        if form.extensions & (_UNSIGNED if is_signed else _SIGNED):
            raise UnsupportedError("its code extends elements by another sign")
        self._affine = execution.compile(affine_part(form, value, has_factors=True))
        self._ones = execution.compile(affine_part(form, value, has_factors=False))

    def affine(self, x: Array) -> Array:
        """Return the affine part as `int64`."""
        (result,) = result_tuple(self._affine(x.view(self._dtype)))
        return result.astype(np.int64)

    def dependences(self, x: Array) -> Array:
        """Return the affine part whose factors are 1."""
        (result,) = result_tuple(self._ones(x.view(self._dtype)))
        return result.astype(np.int64)

    def input_with(self, members: Array, offsets: Array | int) -> Array:
        """Return the smallest stored values plus offsets at flat indices."""
        x = self.base.copy()
        x.reshape(-1)[members] = self.low + offsets
        return x

    def classes(self) -> Sequence[Array]:
        """
        Return flat indices of elements of the argument in classes of which no result
        depends on two elements; this is checked for the code.
        """
        window = _window_of_values(self.proof.kernel.op)
        indices = np.arange(prod(self.shape)).reshape(self.shape)
        if window is None or len(self.shape) != 4:
            return [*indices.reshape(-1, 1)]
        (height, width), is_depthwise = window
        channels = [slice(None)] if is_depthwise else range(self.shape[3])
        return [
            indices[:, i::height, j::width, c].reshape(-1)
            for i in range(min(height, self.shape[1]))
            for j in range(min(width, self.shape[2]))
            for c in channels
        ]


def _window_of_values(op: Any) -> tuple[tuple[int, int], bool] | None:
    """Return the extent of a window, and True if channels are separate."""
    name = op_name(op)
    if name == "tfl.average_pool_2d":
        sizes = op.filter_height.value.data, op.filter_width.value.data
        return sizes, True
    if name not in ("tfl.conv_2d", "tfl.depthwise_conv_2d"):
        return None
    _, height, width, _ = shape_of(op.operands[1].type)
    rows = (height - 1) * op.dilation_h_factor.value.data + 1
    columns = (width - 1) * op.dilation_w_factor.value.data + 1
    is_depthwise = name == "tfl.depthwise_conv_2d"
    return (rows, columns), is_depthwise


class _ProductProof(_AffineProof):
    """Proof for sums of products that are rescaled."""

    def decide(self) -> str:
        """Return the method; see `KernelProof.decide`."""
        classes = self.classes()
        first, start, ones = (
            f(self.base) for f in (self._sums, self.affine, self.dependences)
        )
        offset = first - start.reshape(first.shape)
        rows = offset.reshape(-1, offset.shape[-1])
        if (rows != rows[0]).any():
            self._refute_sums()
        low, high = first.copy(), first.copy()
        span, probes = self.high - self.low, 0
        self._coefficients: list[Array] = []
        for members in classes:
            x = self.input_with(members, 1)
            if (self.dependences(x) - ones).max(initial=0) > 1:
                raise UnsupportedError("a result depends on two elements of a class")
            change = self._compared(x, first, start)
            low += span * np.minimum(change, 0)
            high += span * np.maximum(change, 0)
            self._coefficients.append(self._middle(change))
            probes += 1
            labels = np.arange(members.size)
            while len(labels) > 1 and labels.any():
                x = self.input_with(members, labels % span + 0)
                self._compared(x, first, start)
                labels = labels // span
                probes += 1
        self.probes, self._members = probes, classes
        self._first = self._middle(first)
        return self._decide_rescale(low, high, rows[0])

    def _sums(self, x: Array) -> Array:
        """Return the accumulators of the formula as `int64`."""
        self.proof.before([x])
        self.steps = self._rescale_steps()
        return self.steps[0].arrays["accumulator"].astype(np.int64)

    def _rescale_steps(self) -> Sequence[Step]:
        executions = self.proof.recorded.executions
        steps = [step for execution in executions for step in execution.steps]
        names = [step.primitive for step in steps]
        if (
            len(names) != 2
            or names[1] != "stored_values"
            or "accumulator" not in (steps[0].arrays)
        ):
            raise UnsupportedError(
                f"its formula has the steps {', '.join(names) or 'none'}"
            )
        return steps

    def _compared(self, x: Array, first: Array, start: Array) -> Array:
        """Return the change of the accumulators, which must be that of the code."""
        change = self._sums(x) - first
        actual = (self.affine(x) - start).reshape(change.shape)
        if (change != actual).any():
            self.proof.check([x])
            self._refute_sums()
        return change

    def _middle(self, values: Array) -> Array:
        """Return the values of all channels at a pixel in the middle."""
        rows = values.reshape(-1, values.shape[-1])
        return rows[len(rows) // 2]

    def _refute_sums(self) -> None:
        random = np.random.default_rng(1)
        for _ in range(200):
            shape, dtype = self.shape, self.base.dtype
            x = random.integers(self.low, self.high + 1, shape).astype(dtype)
            # Sparse inputs keep most results from saturating.
            keep = random.random(shape) < random.choice([0.02, 0.2, 1])
            self.proof.check([np.where(keep, x, self.base)])
        raise UnsupportedError("its sums differ, but no results that were tried")

    # Rescales

    def _decide_rescale(self, low: Array, high: Array, offset: Array) -> str:
        """Compare the elementwise part for all values of the affine part."""
        if max(-int(low.min()), int(high.max())) >= 1 << 31:
            raise UnsupportedError("its accumulators exceed 32 bits")
        channels = low.shape[-1]
        least = low.reshape(-1, channels).min(axis=0) - offset
        most = high.reshape(-1, channels).max(axis=0) - offset
        self._check_monotonic(int(np.abs([least + offset, most + offset]).max()))
        rows = max(16, min(_CHUNK // channels, int((most - least).max()) + 1))
        module = elementwise_part(self.proof.form, self.value, rows)
        (type_,) = entry_function(module).function_type.inputs
        code = execution.compile(module)
        self._result_dtype = numpy_dtype(self.proof.kernel.op.results[0].type)
        count, units, wrong = 0, 0, list[tuple[int, int]]()
        for start in range(0, int((most - least).max()) + 1, rows):
            values = np.minimum(least + start + np.arange(rows)[:, None], most)
            argument = values.reshape(shape_of(type_)).astype(numpy_dtype(type_))
            (found,) = result_tuple(code(argument))
            result = found.view(self._result_dtype).reshape(values.shape)
            difference, places = self._differences(values, result, offset)
            units = max(units, difference)
            wrong += places
            count += values.size
        if wrong:
            self._refute_results(wrong, units)
        return f"{self.probes:,} unit vectors, {count:,} accumulators"

    def _differences(
        self, values: Array, found: Array, offset: Array
    ) -> tuple[int, Sequence[tuple[int, int]]]:
        """
        Return the largest difference from the formula, and some pairs of a sum and a
        channel. Both are step functions, so they differ at a change or at an end.
        """
        row, column = np.nonzero(found[1:] != found[:-1])
        count: int = values.shape[1]
        channels = np.arange(count)
        ends = np.zeros(count, np.int64), np.full(count, len(values) - 1)
        row = np.concatenate([row, row + 1, *ends])
        column = np.concatenate([column, column, channels, channels])
        sums = values[row, column] + offset[column]
        expected = self._stored(sums, column).astype(np.int64)
        differences = np.abs(expected - found[row, column])
        wrong = np.flatnonzero(differences)[:_MAX_PLACES]
        places = [(int(sums[i]), int(column[i])) for i in wrong]
        return int(differences.max()), places

    def _stored(self, sums: Array, channels: Array) -> Array:
        """Return the stored values of accumulators, given their channels."""
        scale, store = self.steps
        factors = {
            name: np.broadcast_to(array, (self._first.size,))[channels].astype(
                np.float64 if name == "ratio" else np.int64
            )
            for name, array in scale.arrays.items()
            if name != "accumulator"
        }
        function = PRIMITIVES[scale.primitive]
        multiplier = factors.get("ratio")
        if multiplier is None:
            scaled = function(sums, (factors["multiplier"], factors["shift"]))
        else:
            scaled = function(sums, multiplier)
        numbers = store.numbers
        bounds = (numbers[name] for name in ("zero_point", "low", "high"))
        return np.asarray(PRIMITIVES["stored_values"](scaled, *bounds))

    def _check_monotonic(self, largest: int) -> None:
        """Check that the formula is a non-decreasing function of the accumulator."""
        arrays = self.steps[0].arrays
        factor = arrays.get("multiplier", arrays.get("ratio"))
        shift = int(np.max(arrays.get("shift", 0)))
        if factor is None or np.min(factor) < 0 or largest << max(shift, 0) >= 1 << 31:
            raise UnsupportedError("its rescale is not monotonic")

    def _refute_results(self, places: Sequence[tuple[int, int]], units: int) -> None:
        """Raise `_Refuted` with an input that gives one of some sums of a channel."""
        for target, channel in places[:: max(1, len(places) // _MAX_PLACES)]:
            x = self._input_for(target, channel)
            if not self.proof.check_equal([x]):
                raise _Refuted([x], units)
        target, channel = places[0]
        raise UnsupportedError(
            f"results differ by at most {counted(units, 'unit')} for sums such as "
            f"{target} of channel {channel}, but no input was found that gives them"
        )

    def _input_for(self, target: int, channel: int) -> Array:
        """Return an input that gives about this sum for a channel of the middle pixel."""
        coefficients = np.array([c[channel] for c in self._coefficients])
        span = self.high - self.low
        # Start from the smallest sum.
        offsets = np.where(coefficients < 0, span, 0)
        rest = target - int(self._first[channel]) - int((coefficients * offsets).sum())
        for place in np.argsort(-np.abs(coefficients), kind="stable"):
            size = abs(int(coefficients[place]))
            steps = min(rest // size, span) if size else 0
            rest -= steps * size
            offsets[place] += steps if coefficients[place] > 0 else -steps
        x = self.base.copy()
        for members, offset in zip(self._members, offsets, strict=True):
            x.reshape(-1)[members] = self.low + int(offset)
        return x


class _MeanProof(_AffineProof):
    """Proof for means of windows that do not overlap."""

    def decide(self) -> str:
        """Return the method; see `KernelProof.decide`."""
        op: Any = self.proof.kernel.op
        height, width = op.filter_height.value.data, op.filter_width.value.data
        strides = op.stride_h.value.data, op.stride_w.value.data
        batch, rows, columns, channels = self.shape
        if _has_different_constants(self.proof.form, [self.value]):
            raise UnsupportedError("its code has different constants for elements")
        if strides != (height, width) and (rows, columns) != (height, width):
            raise UnsupportedError("its windows overlap")
        if rows % height or columns % width:
            raise UnsupportedError("its windows have padding")
        start, ones = self.affine(self.base), self.dependences(self.base)
        for members in self.classes():
            x = self.input_with(members, 1)
            if (self.dependences(x) - ones != 1).any() or (
                self.affine(x) - start != 1
            ).any():
                self._refute()
        grid = (batch, rows // height, columns // width, channels)
        numbers = np.arange(prod(grid)).reshape(grid)
        count = height * width
        for bit in range(max(1, numbers.size - 1).bit_length()):
            bits = numbers >> bit & 1
            x = self._windows(np.broadcast_to(bits[..., None], (*grid, count)))
            change = (self.affine(x) - start).reshape(grid)
            if (change != bits * count).any():
                self._refute()
        total = count * (self.high - self.low) + 1
        for first in range(0, total, numbers.size):
            sums = np.minimum(first + numbers, total - 1)[..., None]
            parts = [sums // count + (place < sums % count) for place in range(count)]
            self.proof.check([self._windows(np.concatenate(parts, -1))])
        return f"{total:,} sums of {count} elements"

    def _windows(self, offsets: Array) -> Array:
        """Return an argument, given the offsets `[batch, rows, columns, channels, i]`."""
        op: Any = self.proof.kernel.op
        height, width = op.filter_height.value.data, op.filter_width.value.data
        batch, rows, columns, channels, _ = offsets.shape
        grid = offsets.reshape(batch, rows, columns, channels, height, width)
        image = grid.transpose(0, 1, 4, 2, 5, 3).reshape(self.shape)
        return (image + self.low).astype(self.base.dtype)

    def _refute(self) -> None:
        random = np.random.default_rng(1)
        for _ in range(200):
            shape = self.shape
            x = random.integers(self.low, self.high + 1, shape).astype(self.base.dtype)
            self.proof.check([x])
        raise UnsupportedError("its sums differ, but no results that were tried")
