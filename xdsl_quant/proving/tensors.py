"""Tensor ops as terms: one term for each element."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects import linalg, tosa
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    ShapedType,
    UnrankedTensorType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.diagnostics import error_summary
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.expression import signed_bounds
from xdsl_quant.machines.numpy import register_implementations
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.fixed_point import MAX_SHIFT, MIN_SHIFT
from xdsl_quant.runtime.arrays import ElementsAttr, dense_elements

from .scalars import Number, bits_of
from .terms import (
    Term,
    Terms,
    UnsupportedError,
    WideIntegers,
    bit_count,
    bits_of_value,
    float_sizes,
)

Elements = Array
"""Array of `Number`s in the shape of a tensor."""

Numbers: TypeAlias = Number | Elements
"""A scalar, or the elements of a tensor."""

Values = dict[SSAValue, Numbers]

_TensorRule = Callable[[Terms, Operation, Sequence[Numbers]], Sequence[Numbers]]


def static_shape(type_: Attribute) -> tuple[int, ...]:
    """
    Return the sizes of a tensor type; `()` for a scalar.

    Raises:
        UnsupportedError: if a size is dynamic.
    """
    if isinstance(type_, UnrankedTensorType):
        raise UnsupportedError(f"'{type_}' has no rank, expected static sizes")
    shape = type_.get_shape() if isinstance(type_, ShapedType) else ()
    if DYNAMIC_INDEX in shape:
        raise UnsupportedError(f"'{type_}' has a dynamic size, expected static ones")
    return shape


def tensor_elements(shape: Sequence[int], numbers: Iterable[Number]) -> Elements:
    """Arrange numbers in row-major order as a tensor."""
    elements = np.empty(tuple(shape), object)
    for index, number in zip(np.ndindex(elements.shape), numbers, strict=True):
        elements[index] = number
    return elements


def as_elements(numbers: Numbers) -> Elements:
    """Return the elements of a tensor; a scalar becomes an array of rank 0."""
    return np.asarray(numbers, object)


def scalar(numbers: Numbers) -> Number:
    assert isinstance(numbers, Number)
    return numbers


def _repeated(type_: Attribute, number: Numbers) -> Elements:
    return np.full(static_shape(type_), number, object)


def _constant_terms(
    terms: Terms, op: Operation, _: Sequence[Numbers]
) -> Sequence[Numbers]:
    value = op.get_attr_or_prop("values" if isinstance(op, tosa.ConstOp) else "value")
    type_ = op.results[0].type
    element = scalar_or_element_type(type_)
    if isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        array = dense_elements(cast(ElementsAttr, value))
        bits = (int.from_bytes(n.tobytes(), "little") for n in array.ravel())
        numbers = (Number(terms.of_bits(element, b), terms.true()) for b in bits)
        return [tensor_elements(static_shape(type_), numbers)]
    return [Number(terms.of_bits(element, bits_of(value)), terms.true())]


def _empty(terms: Terms, op: Operation, _: Sequence[Numbers]) -> Sequence[Numbers]:
    type_ = op.results[0].type
    nothing = terms.of_bits(scalar_or_element_type(type_), 0)
    return [_repeated(type_, Number(nothing, terms.negation(terms.true())))]


def _splat(_: Terms, op: Operation, operands: Sequence[Numbers]) -> Sequence[Numbers]:
    return [_repeated(op.results[0].type, operands[0])]


def _from_elements(
    _: Terms, op: Operation, operands: Sequence[Numbers]
) -> Sequence[Numbers]:
    shape, numbers = static_shape(op.results[0].type), cast(Sequence[Number], operands)
    return [tensor_elements(shape, numbers)]


def _dim(terms: Terms, op: Operation, operands: Sequence[Numbers]) -> Sequence[Numbers]:
    shape, place = as_elements(operands[0]).shape, _known_number(operands[1])
    if place >= len(shape):
        raise UnsupportedError(
            f"'tensor.dim' op has index {place}, expected a dimension of a tensor of "
            f"rank {len(shape)}"
        )
    size = shape[place]
    return [Number(terms.of_bits(op.results[0].type, size), terms.true())]


def _known_number(number: Numbers, noun: str = "an index") -> int:
    """
    Return the value of a constant; `noun` names it in errors.

    Raises:
        UnsupportedError: if the number is not constant.
    """
    known = scalar(number)
    if not known.term.is_value() or not known.is_defined.is_value():
        raise UnsupportedError(f"{noun} depends on an argument, expected a constant")
    return bits_of_value(known.term)


def _extract(_: Terms, __: Operation, operands: Sequence[Numbers]) -> Sequence[Numbers]:
    source, place = as_elements(operands[0]), tuple(map(_known_number, operands[1:]))
    if any(i >= size for i, size in zip(place, source.shape, strict=True)):
        raise UnsupportedError(
            f"'tensor.extract' op has an index out of bounds of shape {source.shape}"
        )
    return [source[place]]


def _data_movement(
    _: Terms, op: Operation, operands: Sequence[Numbers]
) -> Sequence[Numbers]:
    """Run a data movement op with the NumPy interpreter, on arrays of `Number`s."""
    for value in (*op.operands, *op.results):
        static_shape(value.type)
    interpreter = Interpreter(cast(ModuleOp, op.get_toplevel_object()))
    register_implementations(interpreter)
    numbers = [_known_number(o) if isinstance(o, Number) else o for o in operands]
    try:
        return interpreter.run_op(op, tuple(numbers))
    except InterpretationError as error:
        # Drop the error's notes, which print enclosing ops.
        raise UnsupportedError(error_summary(error)) from None


def structured(
    terms: Terms,
    op: LinalgStructuredOperation,
    operands: Sequence[Numbers],
    known: Values,
    translate: Callable[[Terms, Block, Sequence[Numbers], Values], Sequence[Numbers]],
) -> Sequence[Numbers]:
    """
    Evaluate a `linalg` op on tensors.

    Args:
        terms: factory of terms.
        op: structured op.
        operands: arrays of numbers.
        known: values of ops outside the body.
        translate: translates a block, as `translate_block` does.
    """
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    body, inputs = op.body.block, len(op.inputs)
    arrays = [*map(as_elements, operands)]
    arrays[inputs:] = [array.copy() for array in arrays[inputs:]]
    for iteration in np.ndindex(_iteration_space(maps, arrays)):
        places = [tuple(map_.eval(iteration, [])) for map_ in maps]
        pairs = zip(arrays, places, strict=True)
        numbers: list[Number] = [array[place] for array, place in pairs]
        inner = {**known, **_iteration_indices(terms, body, iteration)}
        yielded = translate(terms, body, numbers, inner)
        outputs = zip(arrays[inputs:], places[inputs:], yielded, strict=True)
        for array, place, number in outputs:
            array[place] = number
    return arrays[inputs:]


def _iteration_space(
    maps: Sequence[AffineMap], arrays: Sequence[Elements]
) -> tuple[int, ...]:
    sizes = {
        expr.position: size
        for map_, array in zip(maps, arrays, strict=True)
        for expr, size in zip(map_.results, array.shape, strict=True)
        if isinstance(expr, AffineDimExpr)
    }
    return tuple(sizes[i] for i in range(maps[0].num_dims))


def _iteration_indices(terms: Terms, body: Block, iteration: Sequence[int]) -> Values:
    return {
        op.result: Number(
            terms.of_bits(op.result.type, iteration[op.dim.value.data]), terms.true()
        )
        for op in body.ops
        if isinstance(op, linalg.ops.IndexOp)
    }


# TOSA, by its specification


def _rescale(
    terms: Terms, op: Operation, operands: Sequence[Numbers]
) -> Sequence[Numbers]:
    """
    Scale values as TOSA does, add the zero point, and saturate. Results are defined if
    corrected values fit in `shift` bits (`scale32`), or scaled values in 32 bits (else).
    """
    assert isinstance(op, tosa.RescaleOp)
    values, has_32_bits = as_elements(operands[0]), bool(op.scale32.value.data)
    is_double = _is_double(op)
    from_unsigned, to_unsigned = (
        bool(flag.value.data) for flag in (op.input_unsigned, op.output_unsigned)
    )
    source_width, target_width = (
        bit_count(scalar_or_element_type(value.type)) for value in (op.input, op.output)
    )
    multipliers, shifts, (input_zp,), (output_zp,) = _rescale_constants(op, operands)
    if from_unsigned:
        input_zp %= 1 << source_width
    if to_unsigned:
        output_zp %= 1 << target_width
    wide = WideIntegers(terms, _WIDTH)
    elements = np.empty(values.shape, object)
    for index in np.ndindex(values.shape):
        channel = index[-1] if len(multipliers) > 1 else 0
        multiplier, shift = multipliers[channel], shifts[channel]
        number = cast(Number, values[index])
        value = wide.extend(number.term, source_width, is_unsigned=from_unsigned)
        value = terms.op("BV_SUB", value, wide.constant(input_zp))
        scaled = _scaled(wide, value, multiplier, shift, is_double)
        limit = 1 << shift - 1
        in_range = wide.lies_in(value, -limit, limit - 1)
        if not has_32_bits:
            in_range = wide.lies_in(scaled, *signed_bounds(32))
        value = terms.op("BV_ADD", scaled, wide.constant(output_zp))
        elements[index] = Number(
            _saturated_bits(wide, value, target_width, to_unsigned),
            terms.all(number.is_defined, in_range),
        )
    return [elements]


def _rescale_constants(
    op: tosa.RescaleOp, operands: Sequence[Numbers]
) -> Sequence[Sequence[int]]:
    nouns = ("a multiplier", "a shift", "a zero point", "a zero point")
    triples = zip(operands[1:], op.operands[1:], nouns, strict=True)
    constants = [
        [_signed(number, operand.type, noun) for number in as_elements(value).ravel()]
        for value, operand, noun in triples
    ]
    _check_rescale_constants(*constants[:2])
    return constants


def _scaled(
    wide: WideIntegers, value: Term, multiplier: int, shift: int, is_double: bool
) -> Term:
    """Return `value * multiplier / 2**shift`, rounded once, or twice if `is_double`."""
    terms, limit = wide.terms, 1 << shift - 1
    half = wide.constant(limit)
    if is_double and shift > 31:
        half = terms.choice(
            terms.op("BV_SGE", value, wide.constant(0)),
            wide.constant(limit + (1 << 30)),
            wide.constant(limit - (1 << 30)),
        )
    product = terms.op("BV_MUL", value, wide.constant(multiplier))
    total = terms.op("BV_ADD", product, half)
    return terms.op("BV_ASHR", total, wide.constant(shift))


def _saturated_bits(
    wide: WideIntegers, value: Term, width: int, is_unsigned: bool
) -> Term:
    bounds = (0, (1 << width) - 1) if is_unsigned else signed_bounds(width)
    clamped = _clamped(wide.terms, value, *map(wide.constant, bounds))
    return wide.terms.op("BV_EXTRACT", clamped, indices=[width - 1, 0])


def _is_double(op: tosa.RescaleOp) -> bool:
    """
    Return True if the op rounds twice.

    Raises:
        UnsupportedError: if the specification does not define the rounding.
    """
    mode = op.rounding_mode.data
    is_double = mode == tosa.RoundingMode.DOUBLE_ROUND
    if mode == tosa.RoundingMode.SINGLE_ROUND or (is_double and op.scale32.value.data):
        return is_double
    raise UnsupportedError(
        f"'tosa.rescale' op with {mode.value} is unsupported in proofs, expected "
        "SINGLE_ROUND, or DOUBLE_ROUND with scale32 = true"
    )


def _check_rescale_constants(multipliers: Sequence[int], shifts: Sequence[int]) -> None:
    for multiplier, shift in zip(multipliers, shifts, strict=True):
        if multiplier < 0 or not MIN_SHIFT <= shift <= MAX_SHIFT:
            raise UnsupportedError(
                f"'tosa.rescale' op has multiplier {multiplier} and shift {shift}, "
                f"expected a multiplier of at least 0 and a shift from {MIN_SHIFT} to "
                f"{MAX_SHIFT}"
            )


_WIDTH = 128
"""Bit width in which computations on 64-bit integers never overflow."""


def _signed(number: Number, type_: Attribute, noun: str) -> int:
    """Return a constant element as a signed integer; `noun` names it in errors."""
    width = bit_count(scalar_or_element_type(type_))
    value = _known_number(number, noun)
    return value - (1 << width) if value >> width - 1 else value


def _clamped(terms: Terms, value: Term, low: Term, high: Term) -> Term:
    value = terms.choice(terms.op("BV_SLT", value, low), low, value)
    return terms.choice(terms.op("BV_SGT", value, high), high, value)


def _clamp_op(
    terms: Terms, op: Operation, operands: Sequence[Numbers]
) -> Sequence[Numbers]:
    assert isinstance(op, tosa.ClampOp)
    type_: Attribute = scalar_or_element_type(op.input.type)
    if float_sizes(type_) is not None:
        raise UnsupportedError(f"'tosa.clamp' op of '{type_}' is unsupported in proofs")
    low, high = (
        terms.of_bits(type_, bits_of(bound)) for bound in (op.min_val, op.max_val)
    )
    (values,) = map(as_elements, operands)
    numbers = (
        Number(_clamped(terms, n.term, low, high), n.is_defined) for n in values.ravel()
    )
    return [tensor_elements(values.shape, numbers)]


TENSOR_RULES: Mapping[str, _TensorRule] = {
    "arith.constant": _constant_terms,
    "tensor.cast": _data_movement,
    "tensor.collapse_shape": _data_movement,
    "tensor.concat": _data_movement,
    "tensor.dim": _dim,
    "tensor.empty": _empty,
    "tensor.expand_shape": _data_movement,
    "tensor.extract": _extract,
    "tensor.extract_slice": _data_movement,
    "tensor.from_elements": _from_elements,
    "tensor.splat": _splat,
    "tosa.clamp": _clamp_op,
    "tosa.const": _constant_terms,
    "tosa.rescale": _rescale,
}
"""Translation rules by op name, for ops that are not elementwise."""
