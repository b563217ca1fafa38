"""
Export kernels as integer arithmetic for code generation: a `quant.region` with scales at
all float ports becomes ops on integers.

Values between kernels are integer tensors whose scale, zero point and range are known at
compile time. Contractions accumulate products of zero-point-corrected integers in 32 bits,
or in 64 if needed. The terms of a sum are first aligned to a common scale by exact integer
multiplication. Data movement and ordering ops work on the integers unchanged. A rescale
computes [`requantize_fixed_point`][xdsl_quant.numerics.requantize_fixed_point], with a
multiplier of fewer than 31 bits if its operand has more than 32 bits.

Without pushing (`push-rescales=false`), each result is rescaled to the type of its
port, and so is each operand whose type differs. Pushing moves rescales to later ports,
after additions and data movement, and never adds rescales. The export then only clamps a
value to the range of a port and keeps its scale if the port is

* an operand with a single use in its kernel, which is not a multiplication, or
* a result with a single use, which is an operand of this kind or a port of another type.

**Bound.** Pushing skips some of the roundings at ports. Data movement and ordering do not
increase the resulting difference, sums add differences, and contractions multiply them by
the sum of absolute weights. Without contractions in between, a result with scale `s`
differs by at most

    floor(1 + (s_1 + ... + s_n) / (2 * s) + e)

stored units. `s_i` are the scales of the ports without a rescale, counted once per path
to the result. `e` is the error of multipliers and rounded range limits, at most
`(s_1 + ... + s_n) / (4 * s) + 1 / 2` for types of up to 16 bits. For `n = 0` the
results are bit-identical. From scales, ranges and constant weights, the pass computes a
bound for each result that includes contractions and the exact `e`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    RegionOp,
    ScaledQuantizedType,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.types import with_element_type
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.plugins import dialect_ops
from xdsl_quant.transforms.building.builder import LoweringBuilder, Values, shape_of
from xdsl_quant.unsupported import Unsupported

from ..dialect_casts import rounded_as_stated, stated_quantization
from ..module_kernels import ParametersType, is_float_value, operands_of
from .float_kernels import (
    KernelExport,
    ResultOutOfRange,
    builder_after,
    check_constants,
    check_operands,
    check_parameters,
    check_ports,
    reason_of,
)
from .integer_kernels import IntegerKernel, Value, multiplies
from .integers import Integers, StoredRange
from .loop_nests import EmptyTensor, RealConstant, constant_or_empty, known_numbers
from .loops import loop_over

_PortKey: TypeAlias = tuple[int, int]
"""Kernel index and port number; operands come first."""


class CodegenExport(KernelExport):
    """Export of the kernels of a module as integer arithmetic."""

    def __init__(self, module: ModuleOp, reference: CodegenExport | None = None):
        """
        Args:
            module: the module.
            reference: the export of a copy without pushing; `None` disables pushing.
        """
        super().__init__(module)
        self.module, self.reference = module, reference
        self.rescales = 0
        """Number of rescales built so far."""

        self.rounding: dict[_PortKey, Fraction] = {}
        """Maps ports to an upper bound on the deviation that their rescale introduces."""

        self._integers: dict[SSAValue, Integers] = {}
        """Maps each kernel result to the integers that represent it."""

        self._stored: dict[tuple[SSAValue, ScaledQuantizedType], Integers] = {}
        self._expressed: dict[SSAValue, SSAValue] = {}
        self._read: dict[SSAValue, None] = {}
        """Constants and destinations that kernels use without quantization."""

        self._differences: dict[str, list[int]] = {}
        self._is_bounded = True

    @property
    def differences(self) -> Mapping[str, Sequence[int]] | None:
        """
        Map each function to bounds: the largest difference of each result, in stored
        units, from the result without pushing. `None` if an op outside of kernels uses
        a value that may differ.
        """
        return self._differences if self._is_bounded else None

    # Modules

    def run(self) -> None:
        self.export_kernels()
        if self.reference is not None:
            self._find_differences()
        self.erase_kernels()
        for constant in {value.owner for value, _ in self._stored}:
            if isinstance(constant, Operation) and is_trivially_dead(constant):
                Rewriter.erase_op(constant)
        for value in self._read:
            _erase_unused_ops(value)

    def _find_differences(self) -> None:
        ops = [*self.module.walk()]
        has_calls = any(isinstance(op, func.CallOp) for op in ops)
        for value in [*self._integers]:
            users = {use.operation for use in value.uses}
            outside = {op for op in users if not isinstance(op, RegionOp)}
            known = () if has_calls else func.ReturnOp
            if not all(isinstance(op, known) for op in outside):
                self._is_bounded &= not self._at_result(value).difference
        for op in ops:
            function = op.parent_op()
            if isinstance(op, func.ReturnOp) and isinstance(function, func.FuncOp):
                units = [*map(self._units, op.operands)]
                self._differences[function.sym_name.data] = units

    def _units(self, value: SSAValue) -> int:
        """Return the bound in `differences` for a value that a function returns."""
        if value not in self._integers:
            return 0
        stored = self._at_result(value)
        return int(stored.difference / min(stored.scales))

    # Kernels

    def export(self, index: int, region: RegionOp) -> None:
        if self.reference is not None:
            in_float = self.reference.in_float
            if reason := in_float.get(self.reference.regions[index]):
                raise reason
        check_parameters(region)
        check_ports(region, lambda x: constant_or_empty(x.owner) is not None)
        check_constants(region)
        check_operands(region, self.out_of_range)
        body = _lowered_body(region)
        pushes, arguments = self.reference is not None, region.body.block.args
        may_wait = [pushes and _may_wait(argument) for argument in arguments]
        try:
            self._attempt(index, region, body, may_wait)
        except Unsupported:
            if not any(may_wait):
                raise
            self._attempt(index, region, body, [False] * len(may_wait))

    def _attempt(
        self, index: int, region: RegionOp, body: Block, may_wait: Sequence[bool]
    ) -> None:
        scratch = Block()
        builder = LoweringBuilder(InsertPoint.at_end(scratch), location=region.location)
        rescales = self.rescales
        try:
            results = self._integer_results(builder, index, region, body, may_wait)
        except Unsupported:
            self.rescales = rescales
            for op in reversed([*scratch.ops]):
                scratch.erase_op(op)
            raise
        kept = {x.value if isinstance(x, Integers) else x for x in results}
        for op in reversed([*scratch.ops]):
            # Remove unused sizes and constants.
            if is_trivially_dead(op) and kept.isdisjoint(op.results):
                scratch.erase_op(op)
        Rewriter.inline_block(scratch, InsertPoint.before(region))
        for old, new in zip(region.results, results, strict=True):
            if isinstance(new, Integers):
                new.value.name_hint = new.value.name_hint or old.name_hint
                self._integers[old] = new
            else:
                old.replace_all_uses_with(new)

    def _integer_results(
        self,
        builder: LoweringBuilder,
        index: int,
        region: RegionOp,
        body: Block,
        may_wait: Sequence[bool],
    ) -> Sequence[Integers | SSAValue]:
        """Build the integer ops of a kernel and return its results."""
        kernel = IntegerKernel(builder)
        is_same = True
        for i, argument in enumerate(body.args):
            value: Value = region.inputs[i]
            spec = region.input_specs.data[i]
            if isinstance(spec, ScaledQuantizedType):
                port = StoredRange.of(spec)
                value = self._operand(builder, (index, i), value, port, may_wait[i])
                is_same &= value.is_same_at_port and not value.difference
                is_same &= port.has_type_of(value)
            elif is_float_value(argument):
                self._read[value] = None
                kernel.destinations[argument] = value
                value = cast(RealConstant | EmptyTensor, constant_or_empty(value.owner))
            kernel.values[argument] = value
        return [
            self._result(builder, (index, len(body.args) + i), region, value, is_same)
            for i, value in enumerate(kernel.run(body))
        ]

    # Ports

    def _operand(
        self,
        builder: LoweringBuilder,
        key: _PortKey,
        value: SSAValue,
        port: StoredRange,
        may_wait: bool,
    ) -> Integers:
        integers = self._integers.get(value)
        if integers is not None and may_wait and not port.has_type_of(integers):
            if integers.port == port.type:
                return integers
            clamped = self._clamped(builder, integers, port)
            return self._waiting(key, clamped, port)
        stored = self._at_port(value, port, key)
        self.rounding[key] = stored.rounding
        return stored

    def _result(
        self,
        builder: LoweringBuilder,
        key: _PortKey,
        region: RegionOp,
        value: Value,
        is_same: bool,
    ) -> Integers | SSAValue:
        """
        Rescale a result to the type of its port, or clamp it if the rescale is pushed.
        """
        if isinstance(value, SSAValue):
            return value
        port = StoredRange.of(cast(ScaledQuantizedType, region.specs[key[1]]))
        if isinstance(value, RealConstant):
            raise Unsupported("a result is constant")
        if not isinstance(value, Integers):
            raise Unsupported("a result has undefined elements")
        if port.clamps(value):
            number = float((value.bounds[0] - value.zero_point) * min(value.scales))
            message = f"a result exceeds the range of '{port.type}'"
            raise ResultOutOfRange(message, number)
        # Rounding commutes with data movement.
        is_same |= value.is_same_at_port and value.port == port.type
        result = region.results[key[1] - len(region.inputs)]
        if self.reference is not None and _waits_for_a_kernel(result, port):
            try:
                clamped = self._clamped(builder, value, port)
                _check_fits(clamped, port)
                waiting = self._waiting(key, clamped, port)
                return replace(waiting, is_same_at_port=is_same)
            except Unsupported:
                pass
        stored = self._rescaled(builder, value, port)
        self.rounding[key] = stored.rounding
        return self._compared(stored, port, key, is_same)

    def _waiting(
        self, key: _PortKey, integers: Integers, port: StoredRange
    ) -> Integers:
        """Return the integers at a port that is not rescaled because of pushing."""
        assert self.reference is not None
        rounding = self.reference.rounding.get(key, port.extent)
        return replace(
            integers,
            difference=integers.difference + rounding,
            port=port.type,
            is_same_at_port=False,
        )

    def _compared(
        self, stored: Integers, port: StoredRange, key: _PortKey | None, is_same: bool
    ) -> Integers:
        """
        Return stored values with a bound on their difference from the result without
        pushing.
        """
        if self.reference is None or is_same:
            return replace(stored, difference=Fraction(0), is_same_at_port=True)
        difference = stored.difference + stored.rounding
        if key is not None:
            difference += self.reference.rounding.get(key, port.extent)
        unit = min(port.scales)
        if len(port.scales) == 1:
            difference = (difference // unit) * unit
        difference = min(difference, port.extent)
        return replace(stored, difference=difference, is_same_at_port=not difference)

    def _at_port(
        self, value: SSAValue, port: StoredRange, key: _PortKey | None = None
    ) -> Integers:
        """Convert a value to the type of a port; kernels share the converted value."""
        known = (value, port.type)
        if known not in self._stored:
            integers = self._integers.get(value)
            if integers is None:
                self._stored[known] = _stored_at_port(value, port)
            elif port.has_type_of(integers) and integers.port == port.type:
                self._stored[known] = integers
            else:
                stored = self._rescaled_to(value, port)
                is_known = integers.port == port.type
                is_same = is_known and integers.is_same_at_port
                key = None if is_known else key
                self._stored[known] = self._compared(stored, port, key, is_same)
        return self._stored[known]

    def _rescaled_to(self, value: SSAValue, port: StoredRange) -> Integers:
        """Rescale a result of a kernel to the type of a port."""
        integers = self._integers[value]
        try:
            return self._rescaled(builder_after(integers.value), integers, port)
        except Unsupported:
            if integers.port in (None, port.type):
                raise
            # Rescale in two steps, as without pushing.
            stored = self._at_result(value)
            return self._rescaled(builder_after(stored.value), stored, port)

    def _at_result(self, value: SSAValue) -> Integers:
        """Return a kernel's result with its port's type, for uses outside of kernels."""
        port = self._integers[value].port
        assert port is not None
        return self._at_port(value, StoredRange.of(port))

    def _rescaled(
        self, builder: LoweringBuilder, integers: Integers, port: StoredRange
    ) -> Integers:
        if port.has_type_of(integers):
            stored = replace(integers, port=port.type, rounding=integers.error)
            return replace(stored, error=Fraction(0), array=None)
        loop, element = loop_over(builder, integers)
        result = loop.rescaled(element, port)
        self.rescales += loop.rescales
        return loop.finished(result, shape_of(integers.value))

    def _clamped(
        self, builder: LoweringBuilder, integers: Integers, port: StoredRange
    ) -> Integers:
        loop, element = loop_over(builder, integers)
        clamped = loop.clamped(element, port)
        if clamped is element:
            return integers
        return loop.finished(clamped, shape_of(integers.value))

    # Floats

    def floats(self, value: SSAValue) -> SSAValue:
        if (integers := self._integers.get(value)) is None:
            return value
        if value not in self._expressed:
            stored, type_ = self._at_result(value).value, integers.port
            assert type_ is not None
            builder = builder_after(stored)
            self._expressed[value] = _floats_of_stored(builder, stored, value, type_)
        return self._expressed[value]

    def export_floats(self, region: RegionOp, *, are_stored: bool) -> Values:
        builder = LoweringBuilder.before(region)
        block = region.body.block
        values: dict[SSAValue, SSAValue] = {}
        is_same = True
        for argument, value, spec in operands_of(region):
            values[argument], is_exact = self._as_floats(builder, value, spec)
            is_same &= is_exact
        for op in block.ops:
            if op is not block.last_op:
                builder.insert(op.clone(values))
        for old, returned, spec in zip(
            region.results, region.returned_values, region.output_specs, strict=True
        ):
            new = values[returned]
            if are_stored:
                new = rounded_as_stated(builder, new, region, old.index)
            if are_stored and self._is_stored(old, new, spec, is_same):
                continue
            self._is_bounded &= is_same
            if are_stored:
                new = _rounded_to_type(builder, new, spec)
            old.replace_all_uses_with(new)
        return [values[returned] for returned in region.returned_values]

    def _is_stored(
        self, old: SSAValue, new: SSAValue, spec: Attribute, is_same: bool
    ) -> bool:
        """Record the stored values of a float result; return True on success."""
        if not isinstance(spec, ScaledQuantizedType):
            return False
        try:
            port = StoredRange.of(spec)
            loaded = _stored_at_port(new, port)
        except Unsupported:
            return False
        difference = Fraction(0) if is_same else port.extent
        self._integers[old] = replace(
            loaded, difference=difference, is_same_at_port=is_same
        )
        return True

    def _as_floats(
        self, builder: LoweringBuilder, value: SSAValue, spec: Attribute
    ) -> tuple[SSAValue, bool]:
        """Return the floats of a port, and True if they are the same without pushing."""
        if self.is_clamped(value, spec):
            return value, True
        if isinstance(spec, ScaledQuantizedType):
            try:
                stored = self._at_port(value, StoredRange.of(spec))
                floats = _floats_of_stored(builder, stored.value, value, spec)
                return floats, not stored.difference
            except Unsupported:
                pass
        is_same = True
        if value in self._integers:
            is_same = not self._at_result(value).difference
        return _rounded_to_type(builder, self.floats(value), spec), is_same


def _rounded_to_type(
    builder: LoweringBuilder, value: SSAValue, spec: Attribute
) -> SSAValue:
    """Round floats with a pair of casts, for a type that integer ops do not support."""
    if not isinstance(spec, ParametersType):
        return value
    type_ = with_element_type(value.type, spec)
    if stated_quantization(value, type_) is not None:
        return value
    quantized = builder.op(QuantizeCastOp, (value,), type_)
    return builder.op(DequantizeCastOp, (quantized,), value.type)


def _lowered_body(region: RegionOp) -> Block:
    """Copy the body of a kernel and lower it to linalg if its dialect requires that."""
    body = region.body.clone()
    lowered = [
        ops
        for name in {op.name.partition(".")[0] for op in body.walk()}
        if (ops := dialect_ops(name)).is_lowered_in_kernels
    ]
    if lowered:
        for op in body.walk():
            # Set the op's name as location: messages about float kernels show the name.
            op.location = NameLoc(StringAttr(op.name), UnknownLoc())
        types = [argument.type for argument in body.block.args], ()
        module = ModuleOp([func.FuncOp("kernel", types, body)])
        try:
            for ops in lowered:
                ops.to_linalg(Context(), module)
        except PassFailedException as e:
            raise Unsupported(reason_of(e, "")) from None
    return body.block


def _erase_unused_ops(value: SSAValue) -> None:
    """Erase an unused constant or destination; xDSL keeps an unused `linalg.fill`."""
    op = value.owner
    if (
        not isinstance(op, Operation)
        or op.parent is None
        or value.first_use is not None
    ):
        return
    if constant_or_empty(op) is None and not is_trivially_dead(op):
        return
    operands = op.operands
    Rewriter.erase_op(op)
    for operand in operands:
        _erase_unused_ops(operand)


def _may_wait(argument: BlockArgument) -> bool:
    """Return True if an operand has a single use that is not a multiplication."""
    uses = [*argument.uses]
    return len(uses) == 1 and not multiplies(uses[0].operation)


def _waits_for_a_kernel(result: SSAValue, port: StoredRange) -> bool:
    """
    Return True if the only use of a result is a kernel operand whose rescale may be
    pushed, or whose type differs from the type of `port`.
    """
    uses = [*result.uses]
    if len(uses) != 1 or not isinstance(region := uses[0].operation, RegionOp):
        return False
    index = uses[0].index
    argument = region.body.block.args[index]
    return _may_wait(argument) or region.input_specs.data[index] != port.type


def _check_fits(integers: Integers, port: StoredRange) -> None:
    """Raise `Unsupported` unless a later rescale to a port's type is possible."""
    if not port.has_type_of(integers):
        scratch = InsertPoint.at_end(Block())
        builder = LoweringBuilder(scratch, location=UnknownLoc())
        loop, element = loop_over(builder, integers)
        loop.rescaled(element, port)


def _stored_at_port(value: SSAValue, port: StoredRange) -> Integers:
    """Quantize a float value with the type of a port; fold constants."""
    text = f"a port of type '{value.type}'"
    if not isinstance(value.type, TensorType):
        raise Unsupported(f"{text} is not a ranked tensor")
    builder = builder_after(value)
    storage = port.type.signless_storage_type
    stored_type = TensorType(storage, shape_of(value))
    owner = value.owner
    numbers = known_numbers(owner) if isinstance(owner, Operation) else None
    width = storage.bitwidth
    if numbers is not None and width in (8, 16, 32):
        parameters = QuantizationParameters.from_integer_type(port.type)
        floats = cast(Array, numbers).astype(parameters.expressed_dtype)
        array = quantize(floats, parameters)
        data = BytesAttr(array.tobytes())
        attribute = DenseIntOrFPElementsAttr(stored_type, data)
        return port.integers(builder.constant(attribute, stored_type), array)
    quantized_type = TensorType(port.type, shape_of(value))
    quantized = stated_quantization(value, quantized_type)
    if quantized is None:
        quantized = builder.op(QuantizeCastOp, (value,), quantized_type)
    return port.integers(builder.op(StorageCastOp, (quantized,), stored_type))


def _floats_of_stored(
    builder: LoweringBuilder,
    stored: SSAValue,
    value: SSAValue,
    type_: ScaledQuantizedType,
) -> SSAValue:
    quantized_type = with_element_type(value.type, type_)
    quantized = builder.op(StorageCastOp, (stored,), quantized_type)
    return builder.op(DequantizeCastOp, (quantized,), value.type)
