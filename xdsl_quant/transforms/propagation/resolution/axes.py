"""Map the axes of per-axis ranges and scales between the ports of a kernel."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    TensorType,
)
from xdsl.ir import Attribute, BlockArgument, Operation
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import UniformQuantizedSubChannelType, traits
from xdsl_quant.dialects.quant.moved_blocks import reshaped_blocks, transposed_blocks
from xdsl_quant.dialects.quant.traits import has_quantization_trait, quantization_trait
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.numerics.arrays import Array

from .kernels import Kernel, PortValue, compute_ops
from .parameters import with_axis


def coefficient_axis(kernel: Kernel, port: int) -> int | None:
    """Return the dimension of a weight's per-axis scales; `None` if there is none."""
    axis = kernel.constraints.coefficients.get(port)
    type_ = kernel.op.inputs[port].type
    if axis is None or not isinstance(type_, TensorType):
        return None
    rank = type_.get_num_dims()
    return axis % rank if -rank <= axis < rank else None


def channel_axis(kernel: Kernel, type_: Attribute) -> int:
    """Return the output channel dimension of a bias or result, the last one by default."""
    rank = type_.get_num_dims() if isinstance(type_, TensorType) else 1
    for op in kernel.op.body.block.ops:
        trait = quantization_trait(op, traits.AffineOpCoefficient)
        is_product = has_quantization_trait(op, traits.MultipliesAndAccumulates)
        if trait is None or not is_product:
            continue
        product = op.results[0].type
        if isinstance(product, TensorType) and product.get_num_dims() == rank:
            return trait.result_dimension_of(op) % rank
    return max(rank - 1, 0)


def ports_without_axis(kernels: Iterable[Kernel]) -> Sequence[tuple[Kernel, int]]:
    """Return kernel and port of each constant weight that lacks the per-axis dimension."""
    return [
        (kernel, port)
        for kernel in kernels
        for port, axis in kernel.constraints.coefficients.items()
        if axis is not None
        and (value := kernel.values[port]) is not None
        and value.is_constant
        and coefficient_axis(kernel, port) is None
    ]


def coefficient_ranges(value: PortValue) -> tuple[int, Array] | None:
    """
    Return the axis and the per-axis ranges, of shape `(n, 2)`, of a weight. Return
    `None` if the value has no such ranges, if a kernel computes it, or if a user does
    not use it as a weight with this axis.
    """
    type_ = value.ssa.type
    if value.ranges is None or value.producer is not None:
        return None
    _, axis, pairs = value.ranges
    if axis is None or pairs is None or not isinstance(type_, TensorType):
        return None
    is_dynamic = type_.get_shape()[axis] != len(pairs)
    if is_dynamic or any(coefficient_axis(*use) != axis for use in value.users):
        return None
    return axis, pairs


def mapped_parameters(kernel: Kernel, source: int, port: int) -> UniformType | None:
    """
    Return the parameters at `source`, with the axis or the blocks mapped to `port` of a
    same-scale kernel. Return `None` for these parameters if the mapping is unknown: the
    ops are neither elementwise nor a single transpose, broadcast or reshape.
    """
    parameters = kernel.parameters(source)
    assert parameters is not None
    if source == port or parameters.is_per_tensor:
        return parameters
    ops = compute_ops(kernel.op)
    values = [value for value in kernel.values if value is not None]
    if all(value.ssa.type == values[0].ssa.type for value in values) and all(
        has_quantization_trait(op, traits.ComputesElementwise) for op in ops
    ):
        return parameters
    if len(ops) != 1:
        return None
    if isinstance(parameters, UniformQuantizedSubChannelType):
        return _moved_blocks(kernel, ops[0], parameters, source, port)
    if (axis := parameters.axis) is None:
        return None
    moved = _moved_dimensions(ops[0])
    if port < kernel.input_count:
        target = moved[axis] if axis < len(moved) else None
    else:
        target = moved.index(axis) if axis in moved else None
    return None if target is None else with_axis(parameters, target)


def _moved_blocks(
    kernel: Kernel,
    op: Operation,
    parameters: UniformQuantizedSubChannelType,
    source: int,
    port: int,
) -> UniformType | None:
    """Return the parameters of a transposed or reshaped operand or result, or `None`."""
    values = (*kernel.op.inputs, *kernel.op.results)
    types = values[source].type, values[port].type
    is_moved = has_quantization_trait(op, traits.MovesElements)
    if not is_moved or not isa(types, tuple[TensorType, TensorType]):
        return None
    shape, moved_shape = (type_.get_shape() for type_ in types)
    if DYNAMIC_INDEX in (*shape, *moved_shape):
        return None
    if op_name(op).endswith(".reshape"):
        return reshaped_blocks(parameters, shape, moved_shape)
    if (permutation := _permutation(kernel, op)) is None:
        return None
    if source >= kernel.input_count:
        permutation = [permutation.index(axis) for axis in range(len(permutation))]
    return transposed_blocks(parameters, permutation)


def _permutation(kernel: Kernel, op: Operation) -> Sequence[int] | None:
    """Return the permutation of a transpose: an attribute, or a constant operand."""
    numbers = _attribute_numbers(op, "permutation")
    if numbers is not None or not op_name(op).endswith(".transpose"):
        return numbers
    operand = op.operands[-1]
    if not isinstance(operand, BlockArgument) or len(op.operands) != 2:
        return None
    constant = kernel.op.inputs[operand.index].owner
    value = (
        constant.properties.get("value") if isinstance(constant, Operation) else None
    )
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return None
    numbers = [int(number) for number in value.get_values()]
    return [number % len(numbers) for number in numbers]


def _moved_dimensions(op: Operation) -> Sequence[int | None]:
    """
    Return the operand dimension of each result dimension, with `None` for repeated and
    changed dimensions. Return an empty sequence if the mapping is unknown.
    """
    if not has_quantization_trait(op, traits.MovesElements):
        return ()
    if (permutation := _attribute_numbers(op, "permutation")) is not None:
        return permutation
    types = op.operands[0].type, op.results[0].type
    if not isa(types, tuple[TensorType, TensorType]):
        return ()
    before, after = (type_.get_shape() for type_ in types)
    dimensions = _attribute_numbers(op, "broadcast_dimensions")
    if dimensions is not None:
        sources = {to: i for i, to in enumerate(dimensions)}
    elif op_name(op).endswith(".reshape"):
        # Reshaping preserves a dimension if the product of sizes before or after it is
        # the same.
        known = {
            count: i
            for i, size in enumerate(before)
            if size > 1
            for count in _counts(before, i)
        }
        sources = {
            to: known[count]
            for to in range(len(after))
            for count in _counts(after, to)
            if count in known
        }
    else:
        return ()
    return [
        i if (i := sources.get(to)) is not None and before[i] == size else None
        for to, size in enumerate(after)
    ]


def _counts(shape: Sequence[int], dimension: int) -> Iterator[tuple[str, int]]:
    """Yield the products of the sizes `before` and `after` a dimension, if static."""
    for side, sizes in (
        ("before", shape[:dimension]),
        ("after", shape[dimension + 1 :]),
    ):
        if DYNAMIC_INDEX not in sizes:
            yield side, prod(sizes)


def _attribute_numbers(op: Operation, name: str) -> Sequence[int] | None:
    """Return the integers of a property, or of an attribute of an unregistered op."""
    numbers = op.properties.get(name, op.attributes.get(name))
    if not isinstance(numbers, DenseArrayBase):
        return None
    return [int(number) for number in numbers.get_values()]
