"""
Rules for quantized types that are stricter than those of MLIR, and the rules that all rule
sets share.

The rules C1 to C13 are those of `QuantizedTensorElementType` and `QuantizedTensorType` in
the StableHLO specification. C1 to C6 and C9 to C11 hold for every type that can be made
here, because its own verifier refuses all others, or because it has no place for what the
rule forbids.

See external [documentation](https://openxla.org/stablehlo/spec#types).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ShapedType,
    UnrankedMemRefType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from .constructor_arguments import short_text
from .types import QuantizedType, UniformType


class Finding(NamedTuple):
    """What is wrong."""

    rule: str
    """The number or the name of the rule."""

    message: str
    """The offending values and what would be legal, in one sentence."""


class TypeUse(NamedTuple):
    """A quantized type and what it is the element type of."""

    quantized_type: QuantizedType

    container: Attribute | None
    """The tensor, memref or vector, if there is one."""


OpFinding = tuple[str, Finding]
"""The place of a type or an attribute on an op, e.g. `result #0`, and the finding."""


def _no_findings(_: object) -> Iterable[Finding]:
    return ()


def _no_op_findings(op: Operation) -> Iterable[OpFinding]:
    return ()


@dataclass(frozen=True)
class RuleSet:
    """Rules for the quantized types of a module."""

    title: str
    """Name of the tool whose rules they are."""

    type_findings: Callable[[TypeUse], Iterable[Finding]]
    """Returns the findings about a type by itself."""

    value_findings: Callable[[Operation], Callable[[SSAValue], Iterable[Finding]]] = (
        lambda _: _no_findings
    )
    """Returns, for a module, a function that returns the findings about a value in it."""

    op_findings: Callable[[Operation], Iterable[OpFinding]] = _no_op_findings
    """Returns the findings about an op."""


def type_uses(attribute: Attribute) -> Iterator[TypeUse]:
    """Yield all quantized types in a type or an attribute, in the order of its text."""
    stack = [attribute]
    while stack:
        current = stack.pop()
        match current:
            case QuantizedType():
                # Its parameters may be a million scales.
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
    """What is wrong with a type in any rule set."""
    quantized_type = use.quantized_type
    is_uniform = isinstance(quantized_type, UniformType)
    if not is_uniform or quantized_type.granularity == "sub-channel":
        yield Finding(
            "QuantizedTensorElementType",
            f"{short_text(quantized_type)} is neither a per-tensor nor a per-axis "
            "!quant.uniform: there are rules for no other type",
        )
    if not is_uniform:
        return
    yield from _zero_points(quantized_type)
    if isinstance(use.container, UnrankedTensorType | UnrankedMemRefType):
        yield Finding(
            "QuantizedTensorType",
            f"a tensor of {short_text(quantized_type)} has no rank: it must have one",
        )
    elif quantized_type.axis is not None and isinstance(use.container, ShapedType):
        yield from _quantized_dimension(quantized_type, use.container.get_shape())


def zero_points_outside(quantized_type: UniformType, low: int, high: int) -> str | None:
    """
    Return the zero points that lie farthest outside of a range, as the beginning of a
    sentence with its verb; `None` if all lie in the range.
    """
    zero_points = quantized_type.zero_point_array()
    outside: list[str] = []
    # They are the same if all zero points are.
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
    if (subject := zero_points_outside(quantized_type, low, high)) is None:
        return
    yield Finding("C7", f"{subject} outside of the storage range {low} to {high}")
    low, high = quantized_type.full_storage_range
    if (subject := zero_points_outside(quantized_type, low, high)) is not None:
        name = quantized_type.storage_type_name
        yield Finding(
            "C8", f"{subject} not representable in {name}, which has {low} to {high}"
        )


def _quantized_dimension(
    quantized_type: UniformType, shape: Sequence[int]
) -> Iterator[Finding]:
    text = short_text(quantized_type)
    ((dimension, (count, _)),) = quantized_type.get_blocks().items()
    if not quantized_type.has_axes_in(shape):
        rank = len(shape)
        legal = f"must be less than {rank}" if rank else "needs a dimension"
        yield Finding(
            "C12",
            f"quantized dimension {dimension} of {text} {legal} in a shape of rank {rank}",
        )
    elif not quantized_type.has_matching_sizes(shape):
        yield Finding(
            "C13",
            f"{text} has {count} scales: it must have {shape[dimension]}, the size of "
            f"dimension {dimension}",
        )
