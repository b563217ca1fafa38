"""
Theorems about the casts of a quantized type, for all inputs.

The output of `lower-quant-ops` for casts of scalars is translated to terms of the SMT
solver, which compares them with the [formula][xdsl_quant.proving.formula].
"""

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, FloatData, IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.numerics.arrays import Array, DType
from xdsl_quant.runtime.arrays import numpy_dtype

from .exhaustion import Bits, FloatOrder, StepFunction, first_difference
from .formula import Cast, CastFormula
from .pipelines import lowered_function, scalar_lowering
from .scalars import Number, bits_of
from .tensors import scalar
from .terms import Term, Terms, UnsupportedError, bit_count, float_sizes
from .theorems import (
    CompiledDemonstration,
    Demonstration,
    NamedTerm,
    Theorem,
    decide_claim,
    decode_bits,
    printed_terms,
)
from .translation import translate_function

_SCALE = 0.75
"""Placeholder for a symbolic scale. Powers of two would be lowered differently."""


def with_scale(type_: UniformQuantizedType, scale: float) -> UniformQuantizedType:
    parameters = (*type_.common_parameters, type_.zero_point, FloatData(scale))
    return UniformQuantizedType.new(parameters)


@dataclass(frozen=True)
class CastProver:
    """
    Prover of theorems about the casts of a type.

    Scalar casts suffice, because tensor casts are elementwise.
    """

    cast: Cast

    fuse: bool = False
    """Option `fuse` of `lower-quant-ops`."""

    scales: tuple[float, float] | None = None
    """
    Inclusive range of scales for which claims are proved, instead of the one scale of
    the type. Scales are floats of the expressed type; with `fuse`, powers of two are
    excluded, because they are lowered differently.
    """

    seconds: float = 60.0
    """Time limit of the solver for each claim."""

    _terms: Terms = field(default_factory=Terms, repr=False)

    # Code

    @cached_property
    def passes(self) -> str:
        """Pipeline that lowers a cast."""
        return scalar_lowering(self.cast.rounding, fuse=self.fuse)

    def text(self, ops: str, container: str = "{}", scale: float | None = None) -> str:
        """
        Return the text of a module whose function applies casts.

        Args:
            ops: `q` to quantize, `d` to dequantize, `dq` to dequantize and quantize.
            container: argument and result type, with `{}` in place of the element type.
            scale: scale of the quantized type; by default unchanged.
        """
        type_ = self.cast.type if scale is None else with_scale(self.cast.type, scale)
        quantized, expressed = (
            container.format(type_) for type_ in (type_, self.cast.expressed)
        )
        pairs = {"q": (expressed, quantized), "d": (quantized, expressed)}
        source, target = pairs[ops[0]][0], pairs[ops[-1]][1]
        lines = [
            f"%{i + 1} = quant.{op}cast %{i} : {pairs[op][0]} to {pairs[op][1]}"
            for i, op in enumerate(ops)
        ]
        return " ".join(
            [
                f"func.func @main(%0: {source}) -> {target} {{",
                *lines,
                f"return %{len(ops)} : {target}",
                "}",
            ]
        )

    @cached_property
    def _functions(self) -> dict[str, FuncOp]:
        """Lowered functions of the scalar casts, by name: `q` and `d`."""
        functions: dict[str, FuncOp] = {}
        # The placeholder of a symbolic scale is not a power of two.
        scale = None if self.scales is None else _SCALE
        for op in ("q", "d"):
            functions[op] = lowered_function(self.text(op, scale=scale), self.passes)
        return functions

    # Terms

    def _symbol(self, name: str, *, is_stored: bool = False) -> NamedTerm:
        type_ = self.cast.storage if is_stored else self.cast.expressed
        return NamedTerm(name, type_, self._terms.symbol(type_, name))

    @cached_property
    def _x(self) -> NamedTerm:
        return self._symbol("x")

    @cached_property
    def _q(self) -> NamedTerm:
        return self._symbol("q", is_stored=True)

    @cached_property
    def _scale(self) -> NamedTerm:
        """The scale of the type, or a symbol for any scale in `scales`."""
        expressed = self.cast.expressed
        if self.scales is None:
            return NamedTerm("scale", expressed, self._float(self.cast.type.scale.data))
        return NamedTerm(
            "scale", expressed, self._terms.from_bits(expressed, self._bits)
        )

    @cached_property
    def _bits(self) -> Term:
        width = bit_count(self.cast.expressed)
        return self._terms.symbol(IntegerType(width), "scale")

    @property
    def _is_power_of_two(self) -> Term:
        """Condition that a positive symbolic scale is a power of two."""
        terms, type_ = self._terms, IntegerType(bit_count(self.cast.expressed))
        sizes = float_sizes(self.cast.expressed)
        assert sizes is not None
        zero, one = (terms.of_bits(type_, bits) for bits in (0, 1))
        mask = terms.of_bits(type_, (1 << sizes[1] - 1) - 1)
        fraction = terms.op("BV_AND", self._bits, mask)
        less = terms.op("BV_SUB", fraction, one)
        # The exponent bits of a subnormal number are 0.
        is_subnormal = terms.equal(self._bits, fraction)
        has_one_bit = terms.equal(terms.op("BV_AND", fraction, less), zero)
        return terms.op(
            "OR", terms.equal(fraction, zero), terms.all(is_subnormal, has_one_bit)
        )

    def _float(self, value: float) -> Term:
        type_ = self.cast.expressed
        return self._terms.of_bits(type_, bits_of(FloatAttr(value, type_)))

    @cached_property
    def formula(self) -> CastFormula:
        """Formula of the expected results."""
        return CastFormula(self._terms, self.cast, self._scale.term)

    def _lowered_result(self, op: str, argument: Term) -> Number:
        terms, function = self._terms, self._functions[op]
        known: dict[SSAValue, Number] = {}
        if self.scales is not None:
            scale = self.formula.in_compute_type(self._scale.term)
            known[self._scale_constant(function)] = Number(scale, terms.true())
        arguments = [Number(argument, terms.true())]
        return scalar(*translate_function(terms, function, arguments, known))

    @staticmethod
    def _scale_constant(function: FuncOp) -> SSAValue:
        """
        Return the constant that holds the scale, to be replaced by a symbol.

        Raises:
            UnsupportedError: if the code has no such constant.
        """
        for op in function.body.block.ops:
            if op.name not in ("arith.divf", "arith.mulf"):
                continue
            constant = op.operands[1].owner
            if (
                isinstance(constant, ConstantOp)
                and isinstance(value := constant.value, FloatAttr)
                and value.value.data == _SCALE
            ):
                return constant.result
        raise UnsupportedError("the lowered code has no constant for the scale")

    # Theorems by the solver

    def theorems(self) -> Iterator[Theorem]:
        """Prove and yield the theorems about `qcast` and `dcast`, one at a time."""
        yield self.is_defined()
        yield self.matches_quantization_formula()
        yield self.is_monotone()
        yield self.dequantizes_by_the_formula()
        yield self.round_trips()

    def is_defined(self) -> Theorem:
        """Decide whether `qcast` is defined for all expressed values."""
        found = self._lowered_result("q", self._x.term)
        values = [self._x, *self._results(found)]
        claim = "qcast(x) is defined for all x"
        return self._decided(claim, found.is_defined, values, "q")

    def matches_quantization_formula(self) -> Theorem:
        """Decide whether `qcast` equals its formula where the formula is defined."""
        x = self._x.term
        found, right = self._lowered_result("q", x), self.formula.stored(x)
        condition = self._implies(right.is_defined, self._same(found, right.term))
        values = [self._x, *self._results(found, right.term)]
        return self._decided(
            "qcast(x) is the formula for all x", condition, values, "q"
        )

    def is_monotone(self) -> Theorem:
        """Decide whether `qcast` is monotonic."""
        terms, x, y = self._terms, self._x, self._symbol("y")
        first, second = (self._lowered_result("q", each.term) for each in (x, y))
        are_defined = (self.formula.stored(each.term).is_defined for each in (x, y))
        premise = terms.all(terms.op("FP_LEQ", x.term, y.term), *are_defined)
        condition = self._implies(premise, self._at_most(first.term, second.term))
        values = [x, y, *self._results(first)]
        claim = "qcast(x) <= qcast(y) for all x <= y"
        return self._decided(claim, condition, values, "q")

    def dequantizes_by_the_formula(self) -> Theorem:
        """Decide whether `dcast` equals its formula for all stored values."""
        found = self._lowered_result("d", self._q.term)
        right = self.formula.expressed(self._q.term)
        values = [
            self._q,
            *printed_terms(self._terms, self.cast.expressed, found, right),
        ]
        claim = "dcast(q) is the formula for all q"
        return self._decided(claim, self._same(found, right), values, "d")

    def round_trips(self) -> Theorem:
        """Decide whether `qcast(dcast(q)) = q` for all `q` in the storage range."""
        q = self._q
        low, high = (self._terms.of_bits(q.type, bound) for bound in self.cast.bounds)
        in_range = self._at_most(low, q.term), self._at_most(q.term, high)
        found = self._lowered_result("q", self._lowered_result("d", q.term).term)
        condition = self._implies(self._terms.all(*in_range), self._same(found, q.term))
        values = [q, *self._results(found)]
        claim = "qcast(dcast(q)) = q for all q"
        return self._decided(claim, condition, values, "dq")

    def _results(self, found: Number, right: Term | None = None) -> Sequence[NamedTerm]:
        return printed_terms(self._terms, self.cast.storage, found, right)

    def _at_most(self, first: Term, second: Term) -> Term:
        kind = "BV_SLE" if self.cast.type.is_signed else "BV_ULE"
        return self._terms.op(kind, first, second)

    def _implies(self, premise: Term, claim: Term) -> Term:
        return self._terms.op("IMPLIES", premise, claim)

    def _same(self, found: Number, right: Term) -> Term:
        """Return the condition that `found` is defined and equals the term `right`."""
        return self._terms.all(found.is_defined, self._terms.equal(found.term, right))

    def _decided(
        self, claim: str, condition: Term, values: Sequence[NamedTerm], ops: str
    ) -> Theorem:
        first, *others = values

        def show(found: Mapping[str, float | str]) -> str:
            text = self.text(ops, scale=cast("float | None", found.get("scale")))
            return Demonstration(text, f"-p {shlex.quote(self.passes)}").command(
                found[first.name]
            )

        if self.scales is not None:
            low, high = map(self._float, self.scales)
            scale, terms = self._scale, self._terms
            conditions = [
                terms.op("FP_LEQ", *pair)
                for pair in ((low, scale.term), (scale.term, high))
            ]
            claim += " and scale"
            if self.fuse:
                conditions.append(terms.negation(self._is_power_of_two))
                claim += " that is not a power of two"
            condition = self._implies(terms.all(*conditions), condition)
            values = [first, scale, *others]
        return decide_claim(self._terms, claim, condition, values, self.seconds, show)

    # All inputs

    def all_inputs(
        self, progress: Callable[[Iterable[int]], Iterable[int]] = iter
    ) -> Iterator[Theorem]:
        """
        Compare casts with their formula by trying all inputs.

        Quantize all expressed values, in compiled code and with `numerics`. For storage
        of up to 16 bits, also dequantize all stored values and quantize the results, in
        compiled code.

        Args:
            progress: wraps the iteration over chunks of values.

        Raises:
            UnsupportedError: if the expressed type has 64 bits, if both the expressed
                type and the storage type exceed 16 bits, if rounding is `truncate`, or
                if `scales` is a range.
        """
        if self.scales is not None:
            raise UnsupportedError(
                "trying all inputs requires a single scale, found a range"
            )
        steps = self._steps()
        mode, order, nan = self.cast.rounding
        options = f"--rounding-mode {mode} --zero-point-order {order} --nan {nan}"
        compiled = CompiledDemonstration(self.text("q"), self._options)
        for name, function, show in (
            ("compiled", self._compiled_quantization(), compiled),
            (
                "numerics",
                self.quantize_in_numpy,
                Demonstration(self.text("q"), options),
            ),
        ):
            start = time.perf_counter()
            found = first_difference(steps, function, progress)
            yield self._exhaustive_theorem(
                f"qcast(x) is the formula for all x, {name}",
                1 << steps.order.width,
                time.perf_counter() - start,
                found and (decode_bits(self.cast.expressed, found[0]), *found[1:]),
                show,
            )
        if self.cast.width <= 16:
            yield self.compiled_round_trips()

    def _steps(self) -> StepFunction:
        cast, sizes = self.cast, float_sizes(self.cast.expressed)
        if (
            sizes is None
            or sum(sizes) > 32
            or min(sum(sizes), cast.width) > 16
            or cast.rounding.mode == "truncate"
        ):
            raise UnsupportedError(
                "trying all inputs requires rounding to nearest, an expressed type of "
                "at most 32 bits, and at most 16 bits in it or in the storage type"
            )
        clamped = self.formula.clamped(self._x.term)

        def stored(bits: int) -> int:
            x = self._terms.of_bits(cast.expressed, bits)
            found = self._terms.evaluate(clamped, {self._x.term: x})
            return round(float(decode_bits(cast.compute, found)))

        return StepFunction.of(FloatOrder(*sizes), stored)

    def compiled_round_trips(self) -> Theorem:
        """Try `qcast(dcast(q)) = q` in compiled code for all stored values."""
        low, high = self.cast.bounds
        stored = np.arange(low, high + 1)
        function = self._compiled("dq")
        start = time.perf_counter()
        found = function(stored.astype(numpy_dtype(self.cast.storage)))
        seconds = time.perf_counter() - start
        places = np.flatnonzero(found != stored)
        first = None
        if places.size:
            place = int(places[0])
            first = int(stored[place]), int(found[place]), int(stored[place])
        claim = "qcast(dcast(q)) = q for all q, compiled"
        show = CompiledDemonstration(self.text("dq"), self._options)
        return self._exhaustive_theorem(claim, stored.size, seconds, first, show)

    @staticmethod
    def _exhaustive_theorem(
        claim: str,
        count: int,
        seconds: float,
        difference: tuple[float | str, int, int] | None,
        show: Demonstration | CompiledDemonstration,
    ) -> Theorem:
        method = f"{count:,} inputs"
        if difference is None:
            return Theorem(claim, "proved", method, seconds)
        value, found, expected = difference
        details = f"input = {value}, found = {found}, expected = {expected}"
        command = show.command(value)
        return Theorem(claim, "refuted", method, seconds, details, command)

    @property
    def _options(self) -> Mapping[str, object]:
        return {**self.cast.rounding.arguments(), "fuse": self.fuse}

    @cached_property
    def _dtype(self) -> DType:
        return numpy_dtype(self.cast.expressed)

    def _compiled(self, ops: str) -> Callable[[Array], NDArray[np.integer]]:
        # Import late: the solver does not need MLIR.
        from xdsl_quant.execution import compile

        text, arguments = self.text(ops, "tensor<?x{}>"), self.cast.rounding.arguments()
        return compile(text, fuse=self.fuse, **arguments)

    def _compiled_quantization(self) -> Callable[[Bits], NDArray[np.integer]]:
        function = self._compiled("q")
        return lambda bits: function(bits.view(self._dtype))

    @cached_property
    def _parameters(self) -> QuantizationParameters:
        return QuantizationParameters.from_integer_type(self.cast.type)

    def quantize_in_numpy(self, bits: Bits) -> NDArray[np.integer]:
        """Quantize expressed values, given by their bits, with `numerics`."""
        values, arguments = bits.view(self._dtype), self.cast.rounding.arguments()
        return quantize(values, self._parameters, **arguments)
