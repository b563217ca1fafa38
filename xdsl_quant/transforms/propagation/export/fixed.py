"""
Kernels as quantized ops, for targets with fixed kernels: a `quant.region` whose ports all
have uniform types becomes the ops within, which take and give quantized values.

It is done in the words of the dialect that the ops are of: values are quantized by
`tfl.quantize` or `stablehlo.uniform_quantize`, and constants become those of stored values.
Where one kernel gives a value with other parameters than the next one takes, a cast from
the ones to the others is between them. A value that is stored already, with the parameters
that a kernel takes or gives, needs none, and its stored values stay as they are.

A kernel may have values of its own between its ops, and nothing says how these are
quantized. An accumulator, which is the result of an op that multiplies and accumulates, has
32 bits and the product of the scales of its factors; what is added to it has that, too.
A value that is only moved, ordered and clamped until it is a result has the type of this
result: what exceeds it makes no difference. In TensorFlow Lite an accumulator is no value.

A kernel stays what it was in floating point if a port has no uniform type, nothing says how
a value within is stored, or an op does not accept the types: it reads what is dequantized,
and constants as they are. Constants of other kernels need no type, such as the 0 of a
rectifier: they get that of what they are compared with, or of the result if they exceed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
    ShapedType,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue, TypeAttribute
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    RegionOp,
    ScaledQuantizedType,
    StatisticsOp,
    StatisticsRefOp,
    uniform_type,
)
from xdsl_quant.dialects.quant.traits import (
    Adds,
    CastsQuantization,
    Clamps,
    MovesElements,
    MultipliesAndAccumulates,
    OrdersElements,
    Reduces,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import (
    PerAxisType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.transforms.propagation.kernel_matching import is_constant
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class NoQuantizedForm(Exception):
    """Why a kernel stays in floating point."""


# Words of dialects


class Words:
    """How the casts of a dialect are written: here those of the quant dialect."""

    has_accumulators = False
    """Whether accumulators of 32 bits are values."""

    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        """Ops the last of which gives a float or quantized value another type."""
        if not _is_quantized(value.type):
            return (QuantizeCastOp(value, type_),)
        expressed = self.expressed(value)
        return expressed, QuantizeCastOp(expressed.results[0], type_)

    def expressed(self, value: SSAValue) -> Operation:
        """The op that gives the floats of a quantized value."""
        return DequantizeCastOp(value, _expressed_type(value))


class _TFLWords(Words):
    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        from xdsl_quant.dialects.tfl.elementwise import QuantizeOp

        op = QuantizeOp.create(
            operands=[value], result_types=[type_], properties={"qtype": type_}
        )
        return (op,)

    def expressed(self, value: SSAValue) -> Operation:
        from xdsl_quant.dialects.tfl.elementwise import DequantizeOp

        return DequantizeOp.create(
            operands=[value], result_types=[_expressed_type(value)]
        )


class _StableHLOWords(Words):
    has_accumulators = True

    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        from xdsl_quant.dialects.stablehlo.elementwise import UniformQuantizeOp

        return (UniformQuantizeOp.create(operands=[value], result_types=[type_]),)

    def expressed(self, value: SSAValue) -> Operation:
        from xdsl_quant.dialects.stablehlo.elementwise import UniformDequantizeOp

        return UniformDequantizeOp.create(
            operands=[value], result_types=[_expressed_type(value)]
        )


_ACCUMULATOR_BITS = 32

_F32_ROUNDING = 2.0**-23
"""By how much of itself a product of scales may differ from what a file has."""

_TAKES_ACCUMULATORS = Adds, MovesElements, MultipliesAndAccumulates
"""Ops that may take a scale for each channel. StableHLO's other ops do not."""

_QUANT_WORDS = Words()
_WORDS = {"tfl": _TFLWords(), "stablehlo": _StableHLOWords()}


_KEEPS_ORDER = Clamps, MovesElements, OrdersElements
"""Ops that may be clamped to the range of their result before or after they compute."""


def _words(region: RegionOp) -> Words:
    dialects = (op.name.partition(".")[0] for op in region.body.block.ops)
    return next((_WORDS[name] for name in dialects if name in _WORDS), _QUANT_WORDS)


def _is_quantized(type_: Attribute) -> bool:
    return isinstance(scalar_or_element_type(type_), QuantizedType)


def _expressed_type(value: SSAValue) -> TypeAttribute:
    type_ = QuantizedType.cast_to_expressed_type(value.type)
    assert type_ is not None
    return type_


# Kernels


def _is_accumulator(type_: Attribute) -> bool:
    return (
        isinstance(type_, ScaledQuantizedType)
        and type_.storage_type_integral_width == _ACCUMULATOR_BITS
    )


def _accumulator_type(
    op: Operation, operands: Sequence[SSAValue], specs: Iterable[Attribute]
) -> ScaledQuantizedType:
    """
    The type of a sum of products: 32 bits, and the product of the scales.

    Args:
        op: the product.
        operands: what it takes.
        specs: how the operands of the kernel are stored: that of a bias may have been
            rounded to `f32`. It is taken then, so that integers of one scale are added.
    """
    import numpy as np

    from xdsl_quant.numerics import QuantizationParameters

    trait = quantization_trait(op, MultipliesAndAccumulates)
    assert trait is not None
    lhs, rhs = (
        scalar_or_element_type(operands[i].type) for i in (trait.lhs, trait.rhs)
    )
    if not isinstance(lhs, ScaledQuantizedType) or not isinstance(
        rhs, ScaledQuantizedType
    ):
        raise NoQuantizedForm(f"a factor of '{op.name}' is not quantized")
    scales = lhs.get_scales() * rhs.get_scales()
    for spec in specs:
        if not isinstance(spec, ScaledQuantizedType) or not _is_accumulator(spec):
            continue
        bias = spec.get_scales()
        if bias.shape == scales.shape and np.allclose(bias, scales, _F32_ROUNDING, 0):
            scales = bias
    parameters = QuantizationParameters(
        scales,
        storage=f"i{_ACCUMULATOR_BITS}",
        quantized_dimension=rhs.axis,
    )
    return uniform_type(parameters, lhs.expressed_type)


def _along_each_axis(
    type_: ScaledQuantizedType, result: SSAValue
) -> Sequence[QuantizedType]:
    """
    The types with these scales that a result may have: a per-axis type belongs to another
    dimension in the result of an op than in its operand, and each op has a rule for it,
    but for a matrix product: there it is the last one.
    """
    from xdsl_quant.numerics import QuantizationParameters

    if type_.axis is None:
        return (type_,)
    parameters = QuantizationParameters.from_type(type_)
    return [
        uniform_type(replace(parameters, quantized_dimension=axis))
        for axis, size in reversed([*enumerate(_shape(result))])
        if size == len(type_.scale_array())
    ]


@dataclass
class _Kernel:
    """The quantized ops of a kernel, which are being made."""

    region: RegionOp
    words: Words
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """What stands for arguments and results of the ops within."""

    ops: list[Operation] = field(default_factory=list[Operation])

    def results(self) -> Sequence[SSAValue]:
        """
        Make all ops.

        Returns:
            what stands for the results of the kernel.

        Raises:
            NoQuantizedForm: if an op does not accept the types.
        """
        *ops, _ = self.region.body.block.ops
        for op in ops:
            self._add(op)
        return self._returned()

    def _as(self, value: SSAValue, element_type: QuantizedType) -> SSAValue:
        """A value with this quantized type."""
        if scalar_or_element_type(value.type) == element_type:
            return value
        type_ = with_element_type(value.type, element_type)
        new_ops = self.words.quantized(value, type_)
        self._insert(new_ops)
        return new_ops[-1].results[0]

    def expressed(self, value: SSAValue) -> SSAValue:
        """The floats of a quantized value."""
        new_op = self.words.expressed(value)
        self._insert((new_op,))
        return new_op.results[0]

    def float_results(self) -> Sequence[SSAValue]:
        """Copy the ops as they are, and return what stands for the results."""
        *ops, _ = self.region.body.block.ops
        for op in ops:
            operands = [self.values[operand] for operand in op.operands]
            self._append(op, _with_types(op, operands, op.result_types))
        return self._returned()

    def _returned(self) -> Sequence[SSAValue]:
        returned = [self.values[value] for value in self.region.returned]
        return [
            self._as(value, spec) if isinstance(spec, ScaledQuantizedType) else value
            for value, spec in zip(returned, self.region.output_specs, strict=True)
        ]

    def _append(self, op: Operation, new: Operation) -> None:
        """Append what stands for an op."""
        new.location = op.location
        self.ops.append(new)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            self.values[old] = result

    def _insert(self, new_ops: Sequence[Operation]) -> None:
        for op in new_ops:
            op.location = self.region.location
            self.ops.append(op)

    def _add(self, op: Operation) -> None:
        if isinstance(op, StatisticsOp | StatisticsRefOp):
            self.values[op.result] = self.values[op.input]
            return
        operands = [self.values[operand] for operand in op.operands]
        if not has_quantization_trait(op, *_TAKES_ACCUMULATORS):
            operands = [self._without_axis(operand) for operand in operands]
        quantized = next((x for x in operands if _is_quantized(x.type)), None)
        if quantized is not None:
            peer = cast(QuantizedType, scalar_or_element_type(quantized.type))
            # Floats in a kernel are constants, such as the 0 of a rectifier.
            constants = [x for x in operands if _has_floats(x)]
            converted = constants
            if not all([_fits(x, peer) for x in constants]):
                own = self._stored_as(op.results[0]) if _keeps_order(op) else None
                if own is None:
                    raise NoQuantizedForm(
                        f"a constant of '{op.name}' exceeds the range of '{peer}'"
                    )
                peer = own
                converted = [
                    x for x in operands if x in constants or _is_quantized(x.type)
                ]
            operands = [self._as(x, peer) if x in converted else x for x in operands]
        self._append(op, self._made(op, operands, is_quantized=quantized is not None))

    def _without_axis(self, value: SSAValue) -> SSAValue:
        """An accumulator with a scale for each channel as the result of the kernel."""
        element_type, specs = scalar_or_element_type(value.type), self._result_types
        if not isinstance(element_type, PerAxisType) or not specs:
            return value
        return self._as(value, specs[0])

    @property
    def _result_types(self) -> Sequence[ScaledQuantizedType]:
        specs = self.region.output_specs
        return [spec for spec in specs if isinstance(spec, ScaledQuantizedType)]

    def _made(
        self, op: Operation, operands: Sequence[SSAValue], *, is_quantized: bool
    ) -> Operation:
        if not is_quantized:
            return _with_types(op, operands, op.result_types)
        # The types of results that are no floats stay: there is one choice.
        has_floats = any(map(_has_floats, op.results))
        candidates = self._element_types(op, operands) if has_floats else (None,)
        reason: VerifyException | None = None
        for element_type in candidates:
            types = [
                with_element_type(result.type, element_type)
                if element_type is not None and _has_floats(result)
                else result.type
                for result in op.results
            ]
            new = _with_types(op, operands, types)
            if element_type is not None and _keeps_order(op):
                _set_element_types(new, element_type)
            try:
                new.verify()
            except VerifyException as e:
                reason = reason or e
                new.erase()
            else:
                return new
        raise NoQuantizedForm(f"'{op.name}' does not accept the types: {reason}")

    def _element_types(
        self, op: Operation, operands: Sequence[SSAValue]
    ) -> Sequence[QuantizedType]:
        """The types that the results of an op may have, of which the first fits."""
        if self.words.has_accumulators:
            if op.results[0] not in self.region.returned and (
                quantization_trait(op, MultipliesAndAccumulates) is not None
            ):
                specs = self.region.input_specs
                accumulator = _accumulator_type(op, operands, specs)
                return _along_each_axis(accumulator, op.results[0])
            for operand in operands:
                type_ = scalar_or_element_type(operand.type)
                if isinstance(type_, ScaledQuantizedType) and _is_accumulator(type_):
                    return _along_each_axis(type_, op.results[0])
        if (stored := self._stored_as(op.results[0])) is not None:
            return (stored,)
        if _keeps_order(op):
            types = (scalar_or_element_type(operand.type) for operand in operands)
            return [t for t in types if isinstance(t, QuantizedType)][:1]
        users = [use.operation for result in op.results for use in result.uses]
        if not users:
            return self._result_types[:1]
        computing = next((user for user in users if not _keeps_order(user)), users[0])
        raise NoQuantizedForm(
            f"no specification says how the result of '{op.name}' is stored, and "
            f"'{computing.name}' computes with it"
        )

    def _stored_as(self, value: SSAValue) -> ScaledQuantizedType | None:
        """The type of the result that a value is, or becomes without computation."""
        returned = self.region.returned
        if value in returned:
            spec = self.region.output_specs.data[[*returned].index(value)]
            return spec if isinstance(spec, ScaledQuantizedType) else None
        users = {use.operation for use in value.uses}
        types = {
            self._stored_as(user.results[0]) if _keeps_order(user) else None
            for user in users
        }
        return types.pop() if len(types) == 1 else None


def _keeps_order(op: Operation) -> bool:
    """Whether an op only moves, orders and clamps elements."""
    if isinstance(op, StatisticsOp | StatisticsRefOp):
        return True
    bodies = [[*block.ops][:-1] for region in op.regions for block in region.blocks]
    return has_quantization_trait(op, *_KEEPS_ORDER) or (
        has_quantization_trait(op, Reduces)
        and all(_keeps_order(inner) for body in bodies for inner in body)
    )


def _set_element_types(op: Operation, element_type: QuantizedType) -> None:
    """Give the floats in the regions of an op a quantized type."""
    blocks = [block for region in op.regions for block in region.blocks]
    values = [
        value
        for block in blocks
        for values in (block.args, *(inner.results for inner in block.ops))
        for value in values
        if _has_floats(value)
    ]
    for value in values:
        type_ = with_element_type(value.type, element_type)
        Rewriter.replace_value_with_new_type(value, type_)


def _fits(value: SSAValue, type_: QuantizedType) -> bool:
    """
    Whether a constant is in the range of a type, but for rounding.

    Raises:
        NoQuantizedForm: if it is no number, or not known.
    """
    if _has_nan(value):
        raise NoQuantizedForm("a constant that is no number")
    if not isinstance(type_, ScaledQuantizedType):
        return False
    numbers = _numbers(value)
    scales, points = type_.get_scales(), type_.get_zero_points()
    low, high = type_.storage_range
    return bool(
        (numbers >= ((low - 0.5 - points) * scales).max()).all()
        and (numbers <= ((high + 0.5 - points) * scales).min()).all()
    )


def _has_nan(value: SSAValue) -> bool:
    """Whether a value is a constant with an element that is no number."""
    import numpy as np

    try:
        return is_constant(value) and bool(np.isnan(_numbers(value)).any())
    except NoQuantizedForm:
        return False


def _numbers(value: SSAValue) -> NDArray[np.float64]:
    """
    The numbers of a constant, and of what moves it.

    Raises:
        NoQuantizedForm: if they are not known.
    """
    import numpy as np

    op = value.owner
    while isinstance(op, Operation):
        if op.has_trait(ConstantLike):
            try:
                numbers = float_numbers(op.properties.get("value"))
            except (ValueError, ImportError) as e:
                raise NoQuantizedForm(str(e)) from None
            if numbers is not None:
                return np.asarray(numbers, np.float64)
            break
        moves = quantization_trait(op, MovesElements)
        if moves is None or len(moved := moves.moved(op)) != 1:
            break
        op = moved[0].owner
    raise NoQuantizedForm("the content of a constant is not known")


# Modules


class FixedExport:
    """The export of the kernels of a module."""

    def __init__(self, module: ModuleOp):
        self.regions = [op for op in module.walk() if isinstance(op, RegionOp)]
        self.stored: dict[SSAValue, dict[Attribute, SSAValue]] = {}
        """What values of the module are quantized as, by element types."""

        self.words: dict[SSAValue, Words] = {}
        """In which words the results of kernels are quantized."""

        self.in_float: dict[RegionOp, str] = {}
        """The kernels that stayed in floating point, and why."""

        self.dequantizations: dict[Operation, None] = {}
        """The casts of values that kernels take as they are stored."""

    def run(self) -> None:
        for region in self.regions:
            self._export(region)
        # What uses the results of a kernel after all later kernels went is no kernel.
        for region in reversed(self.regions):
            for result in region.results:
                self._replace_casts(result)
                if result.first_use is not None:
                    result.replace_all_uses_with(self._expressed(result))
            Rewriter.erase_op(region)
        for op in self.dequantizations:
            if op.results[0].first_use is None:
                Rewriter.erase_op(op)

    def _export(self, region: RegionOp) -> None:
        try:
            kernel, results = self._quantized_kernel(region)
        except NoQuantizedForm as e:
            self.in_float[region] = str(e)
            kernel, results = self._float_kernel(region)
        Rewriter.insert_op(kernel.ops, InsertPoint.before(region))
        specs = region.output_specs
        for old, new, spec in zip(region.results, results, specs, strict=True):
            new.name_hint = new.name_hint or old.name_hint
            if isinstance(spec, ScaledQuantizedType):
                self.stored[old] = {spec: new}
                self.words[old] = kernel.words
            else:
                old.replace_all_uses_with(new)

    def _quantized_kernel(self, region: RegionOp) -> tuple[_Kernel, Sequence[SSAValue]]:
        words = _words(region)
        if words is _QUANT_WORDS:
            raise NoQuantizedForm("the dialect of its ops has no quantized ops")
        for value, spec in _ports(region):
            if (
                _has_floats(value)
                and not isinstance(spec, ScaledQuantizedType)
                and not is_constant(value)
            ):
                raise NoQuantizedForm(f"a port has the specification '{spec}'")
            if _has_nan(value):
                raise NoQuantizedForm("a constant that is no number")
        arguments = [
            self._quantized(value, spec, words)
            if isinstance(spec, ScaledQuantizedType)
            else value
            for value, spec in zip(region.inputs, region.input_specs, strict=True)
        ]
        kernel = _Kernel(region, words)
        kernel.values |= zip(region.body.block.args, arguments, strict=True)
        return kernel, kernel.results()

    def _float_kernel(self, region: RegionOp) -> tuple[_Kernel, Sequence[SSAValue]]:
        """Dequantize, compute, quantize. Constants are those of the float model."""
        kernel = _Kernel(region, _words(region))
        block = region.body.block
        for argument, value, spec in zip(
            block.args, region.inputs, region.input_specs, strict=True
        ):
            if isinstance(spec, ScaledQuantizedType) and (
                not is_constant(value) or _as_stored(value, spec) is not None
            ):
                value = kernel.expressed(self._quantized(value, spec, kernel.words))
            elif value in self.stored:
                value = self._expressed(value)
            kernel.values[argument] = value
        return kernel, kernel.float_results()

    # Values of the module

    def _quantized(
        self, value: SSAValue, spec: ScaledQuantizedType, words: Words
    ) -> SSAValue:
        """A value with this element type: all kernels that take it share a cast."""
        known = self.stored.setdefault(value, {})
        if (stored := _as_stored(value, spec)) is not None:
            self.dequantizations[cast(Operation, value.owner)] = None
            known[spec] = stored
        if spec not in known:
            is_result = value in self.words
            source = next(iter(known.values())) if is_result else value
            new_ops = words.quantized(source, with_element_type(value.type, spec))
            known[spec] = _inserted_after(source, new_ops)
        return known[spec]

    def _replace_casts(self, result: SSAValue) -> None:
        """Replace casts of a result of a kernel to a type that it is stored as."""
        known = {value.type: value for value in self.stored.get(result, {}).values()}
        for use in [*result.uses]:
            op = use.operation
            if has_quantization_trait(op, CastsQuantization) and (
                (value := known.get(op.results[0].type)) is not None
            ):
                Rewriter.replace_op(op, (), (value,))

    def _expressed(self, value: SSAValue) -> SSAValue:
        """The floats of a value."""
        if (words := self.words.get(value)) is None:
            return value
        known, expressed = self.stored[value], scalar_or_element_type(value.type)
        if expressed not in known:
            source = next(iter(known.values()))
            known[expressed] = _inserted_after(source, (words.expressed(source),))
        return known[expressed]


def _as_stored(value: SSAValue, spec: ScaledQuantizedType) -> SSAValue | None:
    """What a value is the dequantization of, if that has an element type."""
    op = value.owner
    if not isinstance(op, Operation) or not has_quantization_trait(
        op, CastsQuantization
    ):
        return None
    (source,) = op.operands
    return source if scalar_or_element_type(source.type) == spec else None


def _inserted_after(value: SSAValue, new_ops: Sequence[Operation]) -> SSAValue:
    """Insert ops where a value is there, and return the result of the last one."""
    if isinstance(value, BlockArgument):
        location, point = value.location, InsertPoint.at_start(value.block)
    else:
        owner = cast(Operation, value.owner)
        location, point = owner.location, InsertPoint.after(owner)
    for op in new_ops:
        op.location = location
    Rewriter.insert_op(new_ops, point)
    return new_ops[-1].results[0]


def _ports(region: RegionOp) -> Iterator[tuple[SSAValue, Attribute]]:
    return zip((*region.inputs, *region.results), region.specs, strict=True)


def _has_floats(value: SSAValue) -> bool:
    return isinstance(scalar_or_element_type(value.type), AnyFloat)


def _shape(value: SSAValue) -> Sequence[int]:
    type_ = value.type
    return type_.get_shape() if isinstance(type_, ShapedType) else ()


def _with_types(
    op: Operation, operands: Sequence[SSAValue], types: Sequence[Attribute]
) -> Operation:
    """The same op with other operands and results."""
    return type(op).create(
        operands=operands,
        result_types=types,
        properties=op.properties.copy(),
        attributes=op.attributes.copy(),
        regions=[region.clone() for region in op.regions],
    )
