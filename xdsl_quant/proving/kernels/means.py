"""Proofs for means of windows."""

from collections.abc import Iterable
from fractions import Fraction
from math import inf, prod
from typing import Any

import numpy as np
from xdsl.dialects.arith import AddfOp, AddiOp, ConstantOp
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float32Type,
    ModuleOp,
    TensorType,
    i32,
)
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Block, Region, SSAValue

from xdsl_quant import execution
from xdsl_quant.diagnostics import counted
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.stateful_function import result_tuple

from ..scalars import check_flags
from ..terms import UnsupportedError
from .affine import AffineProof
from .comparison import KernelComparison, RefutedError, UndecidedError, distance
from .elementwise import MAX_CALLS, compare_results
from .forms import KernelForm, Kind, has_different_constants
from .monotonicity import Trend, check_monotonic
from .parts import affine_part, function_of, tail_part


class MeanProof(AffineProof):
    """Proof for means of windows that do not overlap."""

    def decide(self) -> str:
        """Return the method; see `validation.decide`."""
        op: Any = self.comparison.kernel.op
        self._window = op.filter_height.value.data, op.filter_width.value.data
        height, width = self._window
        strides = op.stride_h.value.data, op.stride_w.value.data
        batch, rows, columns, channels = self.shape
        if strides != (height, width) and (rows, columns) != (height, width):
            raise UnsupportedError("its windows overlap")
        if rows % height or columns % width:
            raise UnsupportedError("its windows have padding")
        start, ones = self.affine(self.base), self.dependences(self.base)
        for members in self.classes():
            x = self.input_with(members, 1)
            changes = self.dependences(x) - ones, self.affine(x) - start
            if any((change != 1).any() for change in changes):
                self.refute_sums()
        grid = (batch, rows // height, columns // width, channels)
        numbers = np.arange(prod(grid)).reshape(grid)
        count = height * width
        for bit in range(max(1, numbers.size - 1).bit_length()):
            bits = numbers >> bit & 1
            x = self._windows(np.broadcast_to(bits[..., None], (*grid, count)))
            change = (self.affine(x) - start).reshape(grid)
            if (change != bits * count).any():
                self.refute_sums()
        return self._compare_sums(numbers, count)

    def _compare_sums(self, numbers: Array, count: int) -> str:
        """Compare the results for all sums, given numbers of the windows of a size."""
        total = count * (self.high - self.low) + 1
        # Each element gets all sums if its constants may differ from those of others.
        is_shared = not has_different_constants(self.comparison.form, [self.value])
        step = numbers.size if is_shared else 1
        if total > step * MAX_CALLS:
            raise UnsupportedError("its code has different constants for elements")
        sums = (
            np.minimum(first + numbers * is_shared, total - 1)
            for first in range(0, total, step)
        )
        self._compare_results(sums, count)
        return f"{total:,} sums of {count} elements"

    def _compare_results(self, sums: Iterable[Array], count: int) -> None:
        """Compare the results for offsets of sums of a number of elements."""
        compare_results(self.comparison, ([self._input(s, count)] for s in sums))

    def _input(self, sums: Array, count: int) -> Array:
        """Return an argument whose windows have sums."""
        parts = [(sums // count + (i < sums % count))[..., None] for i in range(count)]
        return self._windows(np.concatenate(parts, -1))

    def _windows(self, offsets: Array) -> Array:
        """Return an argument, given the offsets `[batch, rows, columns, channels, i]`."""
        height, width = self._window
        batch, rows, columns, channels, _ = offsets.shape
        grid = offsets.reshape(batch, rows, columns, channels, height, width)
        image = grid.transpose(0, 1, 4, 2, 5, 3).reshape(self.shape)
        return (image + self.low).astype(self.base.dtype)


def float_sums(form: KernelForm) -> SSAValue | None:
    """Return a value whose elements are sums of `f32` numbers that are not constant."""
    for op in form.ops:
        if isinstance(op, GenericOp) and form.kinds[op.results[0]] is not Kind.CONSTANT:
            first, *others = op.body.block.ops
            x, y = op.body.block.args[0], op.body.block.args[-1]
            if (
                isinstance(first, AddfOp)
                and first.result.type == Float32Type()
                and [[*other.operands] for other in others] == [[first.result]]
                and [*first.operands] in ([x, y], [y, x])
            ):
                return op.results[0]
    return None


class FloatMeanProof(MeanProof):
    """Proof for means as sums of dequantized values: bounds of the rounding errors."""

    def __init__(self, comparison: KernelComparison, value: SSAValue):
        super().__init__(comparison, value)
        op, form = value.owner, comparison.form
        assert isinstance(op, GenericOp)
        for each in form.function.walk():
            check_flags(each)
        elements = affine_part(form, op.inputs[0], has_factors=True)
        start = affine_part(form, op.outputs[0], has_factors=True)
        inner = KernelForm.of(elements)
        if (
            form.is_bypassed(value)
            or form.is_elementwise([value]) is not None
            or inner.is_elementwise(inner.function.args, keeps_channels=False)
            or inner.has_broadcasts(prod(self.shape))
            or form.kinds[op.outputs[0]] is not Kind.CONSTANT
            or self._evaluated(start, [self.low]).any()
        ):
            raise UnsupportedError("its code adds floats in an unknown form")
        types = self.base.dtype, numpy_dtype(comparison.kernel.op.results[0].type)
        if {*types} != {np.dtype(np.int8)}:
            raise UnsupportedError("has values that are not signed integers of 8 bits")
        terms = self._evaluated(elements, range(self.low, self.high + 1))
        if not np.isfinite(terms).all() or (terms != terms[:, :1]).any():
            raise UnsupportedError("its code adds floats that are infinite or differ")
        self._terms = [Fraction(float(x)) for x in terms[:, 0]]
        self._summand_shape = shape_of(op.inputs[0].type)
        self._integer_sums = execution.compile(_integer_sums(op))

    def _evaluated(self, part: ModuleOp, values: Iterable[int]) -> Array:
        """Return the results `[values, elements]` for arguments with equal elements."""
        code = execution.compile(part)
        inputs = (self.comparison.filled(0, x).view(self._dtype) for x in values)
        return np.stack([result_tuple(code(x))[0].reshape(-1) for x in inputs])

    def affine(self, x: Array) -> Array:
        """Return the sums that the code computes, of integers."""
        summands = x.astype(np.int32).reshape(self._summand_shape)
        (result,) = result_tuple(self._integer_sums(summands))
        return result.astype(np.int64)

    dependences = affine

    def _bounds(self, count: int) -> tuple[Array, Array]:
        """Return bounds of the code's sum of a number of terms, for all sums."""
        terms, span = self._terms, self.high - self.low
        slope = (terms[-1] - terms[0]) / span
        deviation = max(abs(x - terms[0] - i * slope) for i, x in enumerate(terms))
        largest = max(map(abs, terms))
        # Each of the additions rounds by at most 2^-24, in any order. The rest is the
        # error of the exact sums below, which are `f64`.
        rounding = (1 + Fraction(1, 1 << 24)) ** (count - 1) - 1 + Fraction(1, 1 << 45)
        error = float(count * (deviation + rounding * largest))
        sums = float(count * terms[0]) + float(slope) * np.arange(count * span + 1)
        low, high = np.float32(sums - error), np.float32(sums + error)
        return np.nextafter(low, np.float32(-inf)), np.nextafter(high, np.float32(inf))

    def _compare_results(self, sums: Iterable[Array], count: int) -> None:
        tail, sums = tail_part(self.comparison.form, self.value), [*sums]
        bounds = self._bounds(count)
        ends = float(np.min(bounds)), float(np.max(bounds))
        if max(map(abs, ends)) >= 2.0**126:
            raise UnsupportedError("its code adds large floats")
        check_monotonic(entry_function(tail), Trend(*ends, 1))
        code, units = execution.compile(tail), 0
        for number in sums:
            (expected,) = self.comparison.before([self._input(number, count)])
            for bound in bounds:
                argument = bound[number].reshape(shape_of(self.value.type))
                (found,) = result_tuple(code(argument))
                found = found.view(expected.dtype).reshape(expected.shape)
                units = max(units, distance(found, expected))
        if not units:
            return
        text = counted(units, "unit")
        for number in sums:
            x = self._input(number, count)
            if not self.comparison.is_equal([x]):
                raise RefutedError([x], text)
        raise UndecidedError(f"at most {text}: no input was found that differs")


def _integer_sums(op: GenericOp) -> ModuleOp:
    """Return sums of floats as a function of integers."""
    shapes = [shape_of(op.inputs[0].type), shape_of(op.results[0].type)]
    types = [TensorType(i32, shape) for shape in shapes]
    block = Block(arg_types=types[:1])
    zeros = ConstantOp(DenseIntOrFPElementsAttr.from_list(types[1], [0]))
    others = [EmptyOp([], operand.type) for operand in op.inputs[1:]]
    inner = [i32, *(x.type for x in op.body.block.args[1:-1]), i32]
    body = Block(arg_types=inner)
    sum_ = AddiOp(body.args[0], body.args[-1])
    body.add_ops([sum_, YieldOp(sum_)])
    inputs = [block.args[0], *(empty.tensor for empty in others)]
    copy = GenericOp(
        *(inputs, [zeros.result], Region(body)),
        *(op.indexing_maps, op.iterator_types, types[1:]),
    )
    block.add_ops([zeros, *others, copy])
    return function_of(block, copy.results)
