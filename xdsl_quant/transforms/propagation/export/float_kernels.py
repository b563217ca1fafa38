"""
Why kernels stay in floating point, and what is checked for that: parameters, and constants
beside ops that move, order and clamp elements. Values before the result of such ops are
stored like it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import isinf
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike

from xdsl_quant.diagnostics import sentence_of
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    QuantizedType,
    RegionOp,
    ScaledQuantizedType,
    StatisticsOp,
    StatisticsRefOp,
    traits,
)
from xdsl_quant.dialects.quant.traits import has_quantization_trait, quantization_trait
from xdsl_quant.transforms.building.builder import LoweringBuilder, Values
from xdsl_quant.transforms.building.type_replacement import defined_values
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers
from xdsl_quant.unsupported import Unsupported

from ..kernel_matching import is_constant
from ..module_kernels import is_float_value, kernels_of, operands_of, ports_of


class UnsupportedParameters(Unsupported):
    """Why a kernel whose ports have parameters is not computed with stored values."""


class ResultOutOfRange(Unsupported):
    """
    Why a kernel and its results stay in floating point: they have numbers that the type of
    a result would cut off.
    """

    def __init__(self, message: str, number: float):
        super().__init__(message)
        self.number = number
        """One of these numbers."""


def check_parameters(region: RegionOp) -> None:
    """
    Raises:
        UnsupportedParameters: if stored values of a port are not integers with scales and
            zero points alone.
    """
    for spec in region.specs:
        if isinstance(spec, BlockScaledQuantizedType):
            raise UnsupportedParameters(
                "unsupported type '!quant.block_scaled', expected '!quant.uniform'"
            )
        if isinstance(spec, ScaledQuantizedType) and (
            (reason := spec.unsupported_storage) is not None
        ):
            raise UnsupportedParameters(reason)


def check_ports(region: RegionOp, is_known: Callable[[SSAValue], bool]) -> None:
    """
    Raises:
        Unsupported: if a port has no parameters, and its value is not known.
    """
    for value, spec in ports_of(region):
        is_scaled = isinstance(spec, ScaledQuantizedType)
        if is_float_value(value) and not is_scaled and not is_known(value):
            raise Unsupported(f"a port has the specification '{spec}'")


def reason_of(error: Exception, name: str) -> str:
    """
    What an error says about an op, as a part of a sentence that has the location of the
    kernel and the name of the op already.
    """
    sentence = sentence_of(error)
    _, is_located, message = sentence.partition("error: ")
    return (message if is_located else sentence).removeprefix(f"'{name}' op ")


def in_names_of_kernel(reason: str, op: Operation) -> str:
    """
    Return a reason about an op, or an op in it, with the name of the op of StableHLO
    that it was made of, if that is its location.
    """
    location = op.location
    if isinstance(location, NameLoc) and location.desc.data.startswith("stablehlo."):
        for inner in op.walk():
            reason = reason.replace(f"'{inner.name}'", f"'{location.desc.data}'")
    return reason


def check_uses_own_values(op: Operation) -> None:
    """
    Raises:
        Unsupported: if an op uses, in its regions, values from outside of it.
    """
    if not op.regions:
        return
    own = {value for inner in op.walk() for value in defined_values(inner)}
    inside = (inner for inner in op.walk() if inner is not op)
    if not all(value in own for inner in inside for value in inner.operands):
        raise Unsupported(f"'{op.name}' uses values from outside of its regions")


# Constants


def fits(value: SSAValue, type_: QuantizedType) -> bool:
    """
    Return whether a constant is in the range of a type, but for rounding.

    Raises:
        Unsupported: if it is no number, or not known.
    """
    if has_nan(value):
        raise Unsupported("a constant that is no number")
    if not isinstance(type_, ScaledQuantizedType):
        return False
    numbers = numbers_of(value)
    low, high = ends_of(type_)
    return bool((numbers >= low).all() and (numbers <= high).all())


def is_exact(value: SSAValue, type_: QuantizedType) -> bool:
    """
    Return whether a type stores the numbers of a constant without rounding.

    Raises:
        Unsupported: if it is no number, or not known.
    """
    if not fits(value, type_) or not isinstance(type_, ScaledQuantizedType):
        return False
    units = numbers_of(value)[..., None] / type_.get_scales()
    return bool((units == units.round()).all())


def ends_of(type_: ScaledQuantizedType) -> tuple[float, float]:
    """
    Return the least and the largest number that a type does not cut off but for
    rounding.
    """
    scales, points = type_.get_scales(), type_.get_zero_points()
    low, high = type_.storage_range
    return (
        float(((low - 0.5 - points) * scales).max()),
        float(((high + 0.5 - points) * scales).min()),
    )


def has_nan(value: SSAValue) -> bool:
    """Return whether a value is a constant with an element that is no number."""
    try:
        return is_constant(value) and bool(np.isnan(numbers_of(value)).any())
    except Unsupported:
        return False


def numbers_of(value: SSAValue) -> NDArray[np.float64]:
    """
    Return the numbers of a constant, and of what moves it.

    Raises:
        Unsupported: if they are not known.
    """
    op = value.owner
    while isinstance(op, Operation):
        if op.has_trait(ConstantLike):
            try:
                numbers = float_numbers(op.properties.get("value"))
            except (ValueError, ImportError) as e:
                raise Unsupported(str(e)) from None
            if numbers is not None:
                return np.asarray(numbers, np.float64)
            break
        moves = quantization_trait(op, traits.MovesElements)
        if moves is None or len(moved := moves.moved(op)) != 1:
            break
        op = moved[0].owner
    raise Unsupported("the content of a constant is not known")


# Ops that keep the order of elements

_KEEPS_ORDER = traits.Clamps, traits.MovesElements, traits.OrdersElements
"""Ops that may be clamped to the range of their result before or after they compute."""

_MAXIMA = {"maximum", "maximumf", "maxnumf"}
_MINIMA = {"minimum", "minimumf", "minnumf"}


def stored_as(region: RegionOp, value: SSAValue) -> ScaledQuantizedType | None:
    """Return the type of the result that a value is, or becomes without computation."""
    returned = region.returned
    if value in returned:
        spec = region.output_specs.data[[*returned].index(value)]
        return spec if isinstance(spec, ScaledQuantizedType) else None
    users = {use.operation for use in value.uses}
    types = {
        stored_as(region, user.results[0]) if keeps_order(user) else None
        for user in users
    }
    return types.pop() if len(types) == 1 else None


def keeps_order(op: Operation) -> bool:
    """Return whether an op only moves, orders and clamps elements."""
    if isinstance(op, StatisticsOp | StatisticsRefOp):
        return True
    bodies = [[*block.ops][:-1] for region in op.regions for block in region.blocks]
    return has_quantization_trait(op, *_KEEPS_ORDER) or (
        has_quantization_trait(op, traits.Reduces)
        and all(keeps_order(inner) for body in bodies for inner in body)
    )


def op_or_reducing_op(op: Operation) -> Operation:
    """Return the op itself, or the only one that a reduction applies."""
    bodies = [[*block.ops][:-1] for region in op.regions for block in region.blocks]
    return bodies[0][0] if len(bodies) == 1 and len(bodies[0]) == 1 else op


def out_of_range(op: Operation, type_: QuantizedType) -> str:
    return f"a constant of '{op.name}' exceeds the range of '{type_}'"


def check_not_cut_off(
    op: Operation, index: int, constant: SSAValue, type_: ScaledQuantizedType
) -> None:
    """
    Raises:
        ResultOutOfRange: if the type of the result cuts a constant operand off, though the
            result has the numbers of it. An infinity is the end of any range.
    """
    numbers = numbers_of(constant)
    if not numbers.size:
        return
    least, largest = float(numbers.min()), float(numbers.max())
    low, high = ends_of(type_)
    is_below = least < low and not isinf(least)
    is_above = largest > high and not isinf(largest)
    name = op_or_reducing_op(op).name.partition(".")[2]
    if name in _MAXIMA or (name == "clamp" and index == 0):
        is_below = False
    if name in _MINIMA or (name == "clamp" and index == 2):
        is_above = False
    if is_below or is_above:
        number = largest if is_above else least
        raise ResultOutOfRange(out_of_range(op, type_), number)


def check_constants(region: RegionOp) -> None:
    """
    Raises:
        ResultOutOfRange: if the type of a result cuts a constant without a type off.
        Unsupported: if the content of such a constant is not known.
    """
    for op in region.body.block.ops:
        if (
            not op.results
            or not keeps_order(op)
            or (type_ := stored_as(region, op.results[0])) is None
        ):
            continue
        for index, operand in enumerate(op.operands):
            value = _outside(region, operand) if is_float_value(operand) else None
            if value is not None and is_constant(value):
                check_not_cut_off(op, index, value, type_)


def check_operands(region: RegionOp, numbers: Mapping[SSAValue, float]) -> None:
    """
    Check that ports cut off no results that stayed in floating point.

    Args:
        region: the kernel.
        numbers: what results of other kernels have, which their types would cut off.

    Raises:
        ResultOutOfRange: if a port cuts a number off, and the kernel moves and orders
            elements, so that its results may have this number.
        Unsupported: if another kernel has such a port.
    """
    for index, (_, value, spec) in enumerate(operands_of(region)):
        if value not in numbers or not cuts_off(spec, number := numbers[value]):
            continue
        *ops, _ = region.body.block.ops
        message = f"operand {index} has numbers that exceed the range of '{spec}'"
        if all(op.has_trait(ConstantLike) or keeps_order(op) for op in ops):
            raise ResultOutOfRange(message, number)
        raise Unsupported(message)


def cuts_off(spec: Attribute, number: float) -> bool:
    """Return whether a number exceeds the range of a specification, if this is a type."""
    if not isinstance(spec, ScaledQuantizedType):
        return False
    low, high = ends_of(spec)
    return not low <= number <= high


def _outside(region: RegionOp, value: SSAValue) -> SSAValue | None:
    """
    Return the value that ops of a kernel move, unless it has a type with parameters.
    """
    while isinstance(op := value.owner, Operation):
        moves = quantization_trait(op, traits.MovesElements)
        if moves is None or len(moved := moves.moved(op)) != 1:
            return value
        value = moved[0]
    assert isinstance(value, BlockArgument)
    spec = region.input_specs.data[value.index]
    return None if isinstance(spec, ScaledQuantizedType) else region.inputs[value.index]


def builder_after(value: SSAValue) -> LoweringBuilder:
    """Return a builder of ops where a value is there, such as casts between kernels."""
    if isinstance(value, BlockArgument):
        point = InsertPoint.at_start(value.block)
        return LoweringBuilder(point, location=value.location)
    owner = cast(Operation, value.owner)
    return LoweringBuilder(InsertPoint.after(owner), location=owner.location)


# Kernels of a module


class KernelExport(ABC):
    """The export of the kernels of a module."""

    def __init__(self, module: ModuleOp):
        self.regions = kernels_of(module)
        self.in_float: dict[RegionOp, Unsupported] = {}
        """The kernels that stayed in floating point, and why."""

        self.out_of_range: dict[SSAValue, float] = {}
        """Results in floats that their types would cut off, with such a number."""

    def export_kernels(self) -> None:
        """Build ops for all kernels, before them."""
        for index, region in enumerate(self.regions):
            try:
                self.export(index, region)
            except Unsupported as e:
                self.in_float[region] = e
                is_cut_off = isinstance(e, ResultOutOfRange)
                results = self.export_floats(region, are_stored=not is_cut_off)
                if is_cut_off:
                    self.out_of_range |= dict.fromkeys(results, e.number)

    def erase_kernels(self) -> None:
        """Replace what uses the results of kernels, and erase these."""
        # What uses the results of a kernel after all later kernels went is no kernel.
        for region in reversed(self.regions):
            for result in region.results:
                if result.first_use is not None:
                    result.replace_all_uses_with(self.floats(result))
            Rewriter.erase_op(region)

    @abstractmethod
    def export(self, index: int, region: RegionOp) -> None:
        """
        Build ops on stored values for a kernel.

        Raises:
            Unsupported: if it has to stay in floating point.
        """

    @abstractmethod
    def export_floats(self, region: RegionOp, *, are_stored: bool) -> Values:
        """
        Dequantize, compute, and quantize unless results stay in floats.

        Returns:
            the results.
        """

    @abstractmethod
    def floats(self, value: SSAValue) -> SSAValue:
        """Return the floats of a value."""

    def is_cut_off(self, value: SSAValue, spec: Attribute) -> bool:
        """Return whether a port would cut off numbers of a value, which stays in floats."""
        return value in self.out_of_range and cuts_off(spec, self.out_of_range[value])
