"""
Run-time assertions on sizes and indices of tensor ops.

MLIR has no runtime verification for these ops; wrong sizes cause invalid accesses.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import cast

from . import mlir_bindings as mlir
from .building import index, is_dynamic, size_values
from .mlir_bindings import Values, arith, cf, ir, tensor


def check_sizes(module: ir.Module) -> None:
    """Insert assertions on dynamic sizes and indices of tensor ops."""
    for op in mlir.ops_in(module, *_CHECKS):
        with ir.InsertionPoint(op), op.location:
            for condition, problem in _CHECKS[op.name](op):
                cf.AssertOp(
                    condition,
                    f"invalid sizes or indices: '{op.name}' op {problem}",
                )


_Checks = list[tuple[ir.Value, str]]
"""Conditions, each with a failure message."""

_OTHER_COUNT = "has a result with a different element count"


# Values


def _mixed(op: ir.Operation, name: str, dynamic: Iterable[ir.Value]) -> Values:
    """Return the integers of an attribute, with dynamic ones replaced by operands."""
    rest = iter(dynamic)
    static = mlir.attribute_of(op, name, ir.DenseI64ArrayAttr)
    return [next(rest) if is_dynamic(value) else index(value) for value in static]


def _index_comparison(predicate: str, left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate[predicate], left, right)


def _equal(pairs: Iterable[tuple[ir.Value, ir.Value]], problem: str) -> _Checks:
    return [(_index_comparison("eq", *pair), problem) for pair in pairs]


def _all(conditions: Values) -> ir.Value:
    return reduce(arith.andi, conditions)


def _are_counts(values: Values) -> ir.Value:
    """Build the condition that no value is negative; `values` must not be empty."""
    return _all([_index_comparison("sge", value, index(0)) for value in values])


def _have_product(sizes: Values, count: ir.Value) -> ir.Value:
    """Build the condition that the product of sizes is `count`; overflow is handled."""
    zero, one = index(0), index(1)
    rest, is_exact = count, _index_comparison("eq", zero, zero)
    has_zero = _index_comparison("ne", zero, zero)
    for size in sizes:
        divisor = arith.maxui(size, one)
        remainder = arith.remui(rest, divisor)
        is_exact = arith.andi(is_exact, _index_comparison("eq", remainder, zero))
        has_zero = arith.ori(has_zero, _index_comparison("eq", size, zero))
        rest = arith.divui(rest, divisor)
    is_product = arith.andi(is_exact, _index_comparison("eq", rest, one))
    return arith.select(has_zero, _index_comparison("eq", count, zero), is_product)


# Ops


def _slice_checks(op: ir.Operation, of: int) -> _Checks:
    """Build the conditions that a slice of operand number `of` is in bounds."""
    dynamic = iter([*op.operands][of + 1 :])
    names = ("static_offsets", "static_sizes", "static_strides")
    parts = [_mixed(op, name, dynamic) for name in names]
    return [
        (_is_inside(*part), f"has a slice out of bounds of dimension {i}")
        for i, part in enumerate(zip(size_values(op.operands[of]), *parts, strict=True))
    ]


def _is_inside(
    extent: ir.Value, offset: ir.Value, size: ir.Value, stride: ir.Value
) -> ir.Value:
    zero, one = index(0), index(1)
    # Avoid sums and products, which may overflow.
    last = arith.subi(arith.subi(extent, one), offset)
    room = arith.divui(last, arith.maxui(stride, one))
    reaches = arith.andi(
        _index_comparison("slt", offset, extent),
        _index_comparison("ule", arith.subi(size, one), room),
    )
    is_valid = arith.ori(_index_comparison("eq", size, zero), reaches)
    return _all(
        [_are_counts([offset]), _index_comparison("sgt", stride, zero), is_valid]
    )


def _insert_slice_checks(op: ir.Operation) -> _Checks:
    source, _, *dynamic = op.operands
    segments = mlir.attribute_of(op, "operandSegmentSizes", ir.DenseI32ArrayAttr)
    _, _, offset_count, size_count, _ = segments
    sizes = dynamic[offset_count : offset_count + size_count]
    # The source may omit dimensions, but only those of static size 1.
    actual = [
        size
        for size, static in zip(size_values(source), mlir.shape(source), strict=True)
        if is_dynamic(static)
    ]
    pairs = zip(actual, sizes, strict=True)
    return _slice_checks(op, of=1) + _equal(
        pairs, "has a source whose size differs from the slice"
    )


def _pad_checks(op: ir.Operation) -> _Checks:
    dynamic = iter([*op.operands][1:])
    names = ("static_low", "static_high")
    amounts = [a for name in names for a in _mixed(op, name, dynamic)]
    return [(_are_counts(amounts), "has negative padding")] if amounts else []


def _reshape_checks(op: ir.Operation) -> _Checks:
    source, shape = op.operands
    shape_type = mlir.shaped_type(shape)
    # Unranked tensors have no list of sizes.
    if not mlir.shaped_type(source).has_rank or not shape_type.has_static_shape:
        return []
    index_type = ir.IndexType.get()
    sizes = [tensor.extract(shape, [index(i)]) for i in range(shape_type.shape[0])]
    if shape_type.element_type != index_type:
        sizes = [arith.index_cast(index_type, size) for size in sizes]
    checks = _equal(_expected_sizes(op, sizes), _OTHER_COUNT)
    if sizes:
        checks.append((_are_counts(sizes), "has a negative size"))
    count = reduce(arith.muli, size_values(source), index(1))
    return [*checks, (_have_product(sizes, count), _OTHER_COUNT)]


def _expected_sizes(
    op: ir.Operation, sizes: Values
) -> Sequence[tuple[ir.Value, ir.Value]]:
    """Return pairs of computed and static sizes of the result."""
    return [
        (size, index(static))
        for size, static in zip(sizes, mlir.shape(op.results[0]), strict=True)
        if not is_dynamic(static)
    ]


def _expand_shape_checks(op: ir.Operation) -> _Checks:
    source, *dynamic = op.operands
    sizes = _mixed(op, "static_output_shape", dynamic)
    checks = [(_are_counts(sizes), "has a negative size")] if sizes else []
    indices = cast("Iterable[Iterable[ir.IntegerAttr]]", op.attributes["reassociation"])
    groups = [[sizes[index.value] for index in group] for group in indices]
    pairs = zip(groups, size_values(source), strict=True)
    return checks + [(_have_product(*pair), _OTHER_COUNT) for pair in pairs]


def _concat_checks(op: ir.Operation) -> _Checks:
    axis = mlir.attribute_of(op, "dim", ir.IntegerAttr).value
    first, *others = shapes = [size_values(operand) for operand in op.operands]
    problem = f"has operands with different sizes outside of dimension {axis}"
    pairs = [
        pair
        for other in others
        for i, pair in enumerate(zip(first, other, strict=True))
        if i != axis
    ]
    total = reduce(arith.addi, [shape[axis] for shape in shapes])
    result = [total if i == axis else size for i, size in enumerate(first)]
    size_checks = _equal(
        _expected_sizes(op, result), "has a result of a different size"
    )
    return _equal(pairs, problem) + size_checks


_CHECKS: dict[str, Callable[[ir.Operation], _Checks]] = {
    "tensor.concat": _concat_checks,
    "tensor.expand_shape": _expand_shape_checks,
    "tensor.extract_slice": lambda op: _slice_checks(op, of=0),
    "tensor.insert_slice": _insert_slice_checks,
    "tensor.pad": _pad_checks,
    "tensor.reshape": _reshape_checks,
}
