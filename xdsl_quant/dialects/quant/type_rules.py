"""
Rules for quantized types that are stricter than those of MLIR, and the rules common to all
rule sets.

C1 to C13 are the rules of `QuantizedTensorElementType` and `QuantizedTensorType` in the
StableHLO specification. C1 to C6 and C9 to C11 hold for every quantized type of this
dialect: verifiers enforce them, or types cannot express a violation.

See external [documentation](https://openxla.org/stablehlo/spec#types).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ShapedType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from .constructor_arguments import short_text
from .float_formats import FLOAT_FORMATS, range_text
from .types import QuantizedType, UniformType


class Finding(NamedTuple):
    """A finding: a violated rule and its explanation."""

    rule: str
    """Number or name of the rule."""

    message: str
    """One sentence with the invalid values and the expected ones."""


class TypeUse(NamedTuple):
    """A quantized type and the shaped type that has it as element type."""

    quantized_type: QuantizedType

    container: Attribute | None
    """The tensor type; `None` if the quantized type stands alone."""


OpFinding = tuple[str, Finding]
"""Position of a type or attribute on an op, e.g. `result #0`, and the finding about it."""


@dataclass(frozen=True)
class RuleSet:
    """Rules for the quantized types of a module."""

    title: str
    """Name of the tool that has these rules."""

    type_findings: Callable[[TypeUse], Iterable[Finding]]
    """Function that returns the findings about a type."""

    value_findings: Callable[[Operation], Callable[[SSAValue], Iterable[Finding]]] = (
        lambda _: lambda _: ()
    )
    """Function that takes a module, and returns a function from a value to its findings."""

    op_findings: Callable[[Operation], Iterable[OpFinding]] = lambda _: ()
    """Function that returns the findings about an op."""


def type_uses(attribute: Attribute) -> Iterator[TypeUse]:
    """Yield all quantized types in a type or attribute, in the order of the text."""
    stack = [attribute]
    while stack:
        current = stack.pop()
        match current:
            case QuantizedType():
                # Do not visit the parameters, which may be a million scales.
                yield TypeUse(current, None)
            case ArrayAttr():
                stack.extend(reversed(current.data))
            case DictionaryAttr():
                stack.extend(reversed(list(current.data.values())))
            case ParametrizedAttribute():
                parameters = current.parameters
                element_type: object = getattr(current, "element_type", None)
                if isinstance(element_type, QuantizedType):
                    yield TypeUse(element_type, current)
                    parameters = [p for p in parameters if p is not element_type]
                stack.extend(reversed(parameters))
            case _:
                pass


# Rules


def common_findings(use: TypeUse) -> Iterator[Finding]:
    """Yield the findings about a type from the rules common to all rule sets."""
    quantized_type = use.quantized_type
    is_uniform = isinstance(quantized_type, UniformType)
    if not is_uniform or quantized_type.granularity == "sub-channel":
        yield Finding(
            "QuantizedTensorElementType",
            f"{short_text(quantized_type)} is unsupported: expected a per-tensor or "
            "per-axis !quant.uniform type",
        )
    if not is_uniform:
        return
    yield from _zero_points(quantized_type)
    if isinstance(use.container, UnrankedTensorType):
        yield Finding(
            "QuantizedTensorType",
            f"tensor of {short_text(quantized_type)} is unranked: expected a ranked tensor",
        )
    elif quantized_type.axis is not None and isinstance(use.container, ShapedType):
        yield from _quantized_dimension(quantized_type, use.container.get_shape())


def zero_points_out_of_range(
    quantized_type: UniformType, low: int, high: int
) -> str | None:
    """
    Return the subject and verb of a message about zero points outside of `low` to `high`,
    or `None` if there are none. It names at most the smallest and the largest zero point.
    """
    zero_points = quantized_type.zero_point_array()
    outside: list[str] = []
    # A set, because both bounds are the same if all zero points are equal.
    for extreme in sorted({*quantized_type.zero_point_range}):
        if not low <= extreme <= high:
            index = zero_points.index(extreme)
            place = f" at index {index}" if len(zero_points) > 1 else ""
            outside.append(f"{extreme}{place}")
    if not outside:
        return None
    noun, verb = ("zero point", "is") if len(outside) == 1 else ("zero points", "are")
    return f"{noun} {' and '.join(outside)} of {short_text(quantized_type)} {verb}"


def _zero_points(quantized_type: UniformType) -> Iterator[Finding]:
    low, high = quantized_type.storage_range
    if (subject := zero_points_out_of_range(quantized_type, low, high)) is None:
        return
    yield Finding("C7", f"{subject} outside of the storage range {low} to {high}")
    low, high = quantized_type.full_storage_range
    if (subject := zero_points_out_of_range(quantized_type, low, high)) is not None:
        name = quantized_type.storage_type_name
        yield Finding(
            "C8", f"{subject} not representable in {name}: expected {low} to {high}"
        )


def _quantized_dimension(
    quantized_type: UniformType, shape: Sequence[int]
) -> Iterator[Finding]:
    text = short_text(quantized_type)
    ((dimension, (count, _)),) = quantized_type.get_blocks().items()
    if not quantized_type.has_axes_in(shape):
        rank = len(shape)
        problem = f"must be less than {rank}" if rank else "is out of range"
        yield Finding(
            "C12",
            f"quantized dimension {dimension} of {text} {problem} in a shape of rank "
            f"{rank}",
        )
    elif not quantized_type.has_matching_sizes(shape):
        yield Finding(
            "C13",
            f"{text} has {count} scales: expected {shape[dimension]}, the size of "
            f"dimension {dimension}",
        )


# Warnings


def subnormal_scales(use: TypeUse) -> Iterator[Finding]:
    """Yield a finding if the smallest scale is subnormal in the expressed type."""
    quantized_type = use.quantized_type
    if not isinstance(quantized_type, UniformType):
        return
    scales = quantized_type.scale_array()
    scale = min(scales)
    float_format = FLOAT_FORMATS[type(quantized_type.expressed_type)]
    smallest_normal = math.ldexp(1.0, float_format.min_exponent)
    if float_format.nearest(scale) >= smallest_normal:
        return
    place = f" at index {scales.index(scale)}" if len(scales) > 1 else ""
    yield Finding(
        "subnormal-scale",
        f"scale {range_text(scale)}{place} of {short_text(quantized_type)} is subnormal "
        "and may be flushed to 0: expected a normal number, at least "
        f"{smallest_normal:.8e} for {quantized_type.expressed_type}",
    )
