"""
Checks for kernels that must stay in floating point: unsupported parameters, and
constants that the type of a result would clamp. Values that reach a result only through
data movement, ordering and clamping are stored with the type of that result.
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

from xdsl_quant.diagnostics import error_summary
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
    """Raised if a kernel has parameters at its ports, but cannot use stored values."""


class ResultOutOfRange(Unsupported):
    """Raised if a result type would clamp elements; the kernel stays in float."""

    def __init__(self, message: str, number: float):
        super().__init__(message)
        self.number = number
        """An element outside of the range."""


def check_parameters(region: RegionOp) -> None:
    """
    Raise `UnsupportedParameters` unless all quantized ports store plain integers with
    scales and zero points.
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
    """Raise `Unsupported` if a float port has neither parameters nor a known value."""
    for value, spec in ports_of(region):
        is_scaled = isinstance(spec, ScaledQuantizedType)
        if is_float_value(value) and not is_scaled and not is_known(value):
            raise Unsupported(f"a port has no parameters, found specification '{spec}'")


def reason_of(error: Exception, name: str) -> str:
    """Return the message of an error without its location and op name."""
    sentence = error_summary(error)
    _, is_located, message = sentence.partition("error: ")
    return (message if is_located else sentence).removeprefix(f"'{name}' op ")


def in_names_of_kernel(reason: str, op: Operation) -> str:
    """Replace names of lowered ops in a message by the name of their StableHLO op."""
    location = op.location
    if isinstance(location, NameLoc) and location.desc.data.startswith("stablehlo."):
        for inner in op.walk():
            reason = reason.replace(f"'{inner.name}'", f"'{location.desc.data}'")
    return reason


def check_uses_own_values(op: Operation) -> None:
    """Raise `Unsupported` if the regions of an op use values defined outside the op."""
    if not op.regions:
        return
    own = {value for inner in op.walk() for value in defined_values(inner)}
    inside = (inner for inner in op.walk() if inner is not op)
    if not all(value in own for inner in inside for value in inner.operands):
        raise Unsupported(f"regions of '{op.name}' use values from outside")


# Constants


def is_in_range(value: SSAValue, type_: QuantizedType) -> bool:
    """
    Return True if a type does not clamp any element of a constant.

    Raises:
        Unsupported: if an element is NaN, or the elements are unknown.
    """
    if has_nan(value):
        raise Unsupported("a constant has NaN elements")
    if not isinstance(type_, ScaledQuantizedType):
        return False
    numbers = numbers_of(value)
    low, high = unclamped_range(type_)
    return bool((numbers >= low).all() and (numbers <= high).all())


def is_exact(value: SSAValue, type_: QuantizedType) -> bool:
    """
    Return True if a type stores a constant without rounding.

    Raises:
        Unsupported: if an element is NaN, or the elements are unknown.
    """
    if not is_in_range(value, type_) or not isinstance(type_, ScaledQuantizedType):
        return False
    units = numbers_of(value)[..., None] / type_.get_scales()
    return bool((units == units.round()).all())


def unclamped_range(type_: ScaledQuantizedType) -> tuple[float, float]:
    """Return the range of numbers that a type rounds but does not clamp."""
    scales, points = type_.get_scales(), type_.get_zero_points()
    low, high = type_.storage_range
    return (
        float(((low - 0.5 - points) * scales).max()),
        float(((high + 0.5 - points) * scales).min()),
    )


def has_nan(value: SSAValue) -> bool:
    """Return True if a value is a constant with NaN elements."""
    try:
        return is_constant(value) and bool(np.isnan(numbers_of(value)).any())
    except Unsupported:
        return False


def numbers_of(value: SSAValue) -> NDArray[np.float64]:
    """
    Return the elements of a constant, looking through data movement ops.

    Raises:
        Unsupported: if the value is not constant, or the elements are unavailable.
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
        if moves is None or len(moved := moves.moved_operands(op)) != 1:
            break
        op = moved[0].owner
    raise Unsupported("the elements of a constant are unavailable")


# Ops that keep the order of elements

_KEEPS_ORDER = traits.Clamps, traits.MovesElements, traits.OrdersElements
"""Traits of ops that commute with clamping to the range of their result."""

_MAXIMA = {"maximum", "maximumf", "maxnumf"}
_MINIMA = {"minimum", "minimumf", "minnumf"}


def stored_as(region: RegionOp, value: SSAValue) -> ScaledQuantizedType | None:
    """
    Return the type of the kernel results that a value reaches only by data movement,
    ordering or clamping; `None` unless there is exactly one such type.
    """
    returned = region.returned_values
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
    """Return True if an op only moves, orders or clamps elements."""
    if isinstance(op, StatisticsOp | StatisticsRefOp):
        return True
    bodies = [[*block.ops][:-1] for region in op.regions for block in region.blocks]
    return has_quantization_trait(op, *_KEEPS_ORDER) or (
        has_quantization_trait(op, traits.Reduces)
        and all(keeps_order(inner) for body in bodies for inner in body)
    )


def op_or_reducing_op(op: Operation) -> Operation:
    """Return the op, or the single op in the body of a reduction."""
    bodies = [[*block.ops][:-1] for region in op.regions for block in region.blocks]
    return bodies[0][0] if len(bodies) == 1 and len(bodies[0]) == 1 else op


def out_of_range(op: Operation, type_: QuantizedType) -> str:
    return f"a constant of '{op.name}' exceeds the range of '{type_}'"


def check_not_clamped(
    op: Operation, index: int, constant: SSAValue, type_: ScaledQuantizedType
) -> None:
    """
    Raise `ResultOutOfRange` if the result may contain finite elements of a constant operand
    that the type of the result clamps.
    """
    numbers = numbers_of(constant)
    if not numbers.size:
        return
    least, largest = float(numbers.min()), float(numbers.max())
    low, high = unclamped_range(type_)
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
    Raise `ResultOutOfRange` if a result's type clamps elements of a constant without
    parameters, or `Unsupported` if these elements are unknown.
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
                check_not_clamped(op, index, value, type_)


def check_operands(region: RegionOp, numbers: Mapping[SSAValue, float]) -> None:
    """
    Raise if an operand port would clamp a float result of another kernel.

    Args:
        region: the kernel.
        numbers: results of other kernels in floating point, each mapped to an element
            that its type would clamp.

    Raises:
        ResultOutOfRange: if `region` only moves, orders and clamps elements.
        Unsupported: if `region` computes anything else.
    """
    for index, (_, value, spec) in enumerate(operands_of(region)):
        if value not in numbers or not clamps_number(spec, number := numbers[value]):
            continue
        *ops, _ = region.body.block.ops
        message = f"operand {index} exceeds the range of '{spec}'"
        if all(op.has_trait(ConstantLike) or keeps_order(op) for op in ops):
            raise ResultOutOfRange(message, number)
        raise Unsupported(message)


def clamps_number(spec: Attribute, number: float) -> bool:
    """Return True if a specification has parameters that clamp a number."""
    if not isinstance(spec, ScaledQuantizedType):
        return False
    low, high = unclamped_range(spec)
    return not low <= number <= high


def _outside(region: RegionOp, value: SSAValue) -> SSAValue | None:
    """Trace a value back through data movement; return `None` for quantized operands."""
    while isinstance(op := value.owner, Operation):
        moves = quantization_trait(op, traits.MovesElements)
        if moves is None or len(moved := moves.moved_operands(op)) != 1:
            return value
        value = moved[0]
    assert isinstance(value, BlockArgument)
    spec = region.input_specs.data[value.index]
    return None if isinstance(spec, ScaledQuantizedType) else region.inputs[value.index]


def builder_after(value: SSAValue) -> LoweringBuilder:
    """Return a builder that inserts after the definition of a value."""
    if isinstance(value, BlockArgument):
        point = InsertPoint.at_start(value.block)
        return LoweringBuilder(point, location=value.location)
    owner = cast(Operation, value.owner)
    return LoweringBuilder(InsertPoint.after(owner), location=owner.location)


# Export


class KernelExport(ABC):
    """Export of the kernels of a module."""

    def __init__(self, module: ModuleOp):
        self.regions = kernels_of(module)
        self.in_float: dict[RegionOp, Unsupported] = {}
        """Kernels that stay in floating point, with reasons."""

        self.out_of_range: dict[SSAValue, float] = {}
        """Results that their types clamp, each mapped to a clamped element."""

    def export_kernels(self) -> None:
        """Export all kernels; insert the new ops of each kernel before the kernel."""
        for index, region in enumerate(self.regions):
            try:
                self.export(index, region)
            except Unsupported as e:
                self.in_float[region] = e
                is_clamped = isinstance(e, ResultOutOfRange)
                results = self.export_floats(region, are_stored=not is_clamped)
                if is_clamped:
                    self.out_of_range |= dict.fromkeys(results, e.number)

    def erase_kernels(self) -> None:
        """Replace the remaining uses of kernel results, and erase the kernels."""
        # Erasing backwards leaves only uses outside of kernels.
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
            Unsupported: if the kernel has to stay in floating point.
        """

    @abstractmethod
    def export_floats(self, region: RegionOp, *, are_stored: bool) -> Values:
        """
        Build float ops on dequantized operands and return results, quantized if
        `are_stored`.
        """

    @abstractmethod
    def floats(self, value: SSAValue) -> SSAValue:
        """Return a value, dequantized if necessary."""

    def is_clamped(self, value: SSAValue, spec: Attribute) -> bool:
        """Return True if a port would clamp a value that stays in floating point."""
        return value in self.out_of_range and clamps_number(
            spec, self.out_of_range[value]
        )
