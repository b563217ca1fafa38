"""Equivalence of two modules for all inputs, such as before and after a pass."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, NoneAttr
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from xdsl_quant.dialects.quant.block_scaled_type import BlockScaledQuantizedType
from xdsl_quant.dialects.quant.types import (
    AnyQuantizedType,
    QuantizedType,
    ScaledQuantizedType,
    StoredQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.numerics.arrays import Floats, Integers
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.quant.normalize_quant_types import uniform_counterpart

from .pipelines import lowering
from .scalars import Number
from .tensors import Numbers, as_elements, static_shape, tensor_elements
from .terms import Term, Terms, UnsupportedError, bit_count, float_sizes, stored_integer
from .theorems import Theorem, decode_bits, proved_or_unknown
from .translation import translate_function

LOWERING = lowering(Rounding())
"""Default pipeline, which lowers casts as compiled execution does."""

CLAIM = "results are the same for all inputs"


class _Element(NamedTuple):
    name: str
    type: Attribute
    number: Number

    @property
    def term(self) -> Term:
        return self.number.term


def equivalent(
    before: ModuleOp,
    after: ModuleOp,
    *,
    lowered_by: str | Sequence[ModulePass] = LOWERING,
    entry: str | None = None,
    seconds: float = 60.0,
    claim: str = CLAIM,
) -> Theorem:
    """
    Prove that two functions return bit-identical results for all arguments.

    Stored arguments are assumed to be in their storage ranges. Where a result of
    `before` is defined, that of `after` must be defined and equal; NaN equals any NaN.

    Args:
        before: module whose function has only scalars, and tensors of static size.
        after: second module. Its types may differ, but not their shapes and bit widths.
        lowered_by: passes or a pipeline that lower copies of both modules.
        entry: name of the function; by default the only public function, or `main`.
        seconds: time limit of the solver.
        claim: text of the claim.

    Raises:
        UnsupportedError: if an op is unsupported, or types are not comparable.
        IRError: if a pass fails.
        ValueError: if the function is missing.
    """
    terms = Terms()
    types = [entry_function(module, entry).function_type for module in (before, after)]
    inputs, outputs = types[0].inputs.data, types[0].outputs.data
    _check_same("arguments", inputs, types[1].inputs.data)
    _check_same("results", outputs, types[1].outputs.data)
    arguments = [
        [*_argument_elements(terms, type_, f"%{i}")] for i, type_ in enumerate(inputs)
    ]
    given = [*map(_argument_value, inputs, arguments)]
    expected, found = (
        [
            *_result_elements(
                outputs, _function_results(terms, module, lowered_by, entry, given)
            )
        ]
        for module in (before, after)
    )
    known = [*chain(*arguments)]
    shown = [*(e.term for e in known), *_shown(terms, expected), *_shown(terms, found)]
    condition = _are_same(terms, known, expected, found)
    answer = terms.counterexample(condition, shown, seconds)
    if (theorem := proved_or_unknown(claim, answer, seconds)) is not None:
        return theorem
    bits = iter(answer.values)
    values = [[decode_bits(e.type, next(bits)) for e in some] for some in arguments]
    pairs = zip(known, chain(*values), strict=True)
    numbers = ", ".join(f"{element.name} = {value}" for element, value in pairs)
    change = _first_changed_result(expected, found, bits)
    details = f"{numbers or 'without arguments'}: {change}"
    is_shown = all(map(_has_numbers, inputs))
    options = [*map(_input_option, inputs, values)] if is_shown else None
    return Theorem(claim, "refuted", "solver", answer.seconds, details, inputs=options)


def _argument_value(type_: Attribute, elements: Sequence[_Element]) -> Numbers:
    if shape := static_shape(type_):
        return tensor_elements(shape, (element.number for element in elements))
    return elements[0].number


def _are_same(
    terms: Terms,
    known: Sequence[_Element],
    expected: Sequence[_Element],
    found: Sequence[_Element],
) -> Term:
    """Return the condition that results are the same for all arguments in range."""
    in_range = terms.all(*(element.number.is_defined for element in known))
    pairs = zip(expected, found, strict=True)
    same = (_is_same(terms, first.number, second.number) for first, second in pairs)
    return terms.op("IMPLIES", in_range, terms.all(*same))


def _first_changed_result(
    expected: Sequence[_Element], found: Sequence[_Element], bits: Iterator[int]
) -> str:
    """Describe the first element that differs, given the bits of the `_shown` terms."""
    before, after = (
        [
            decode_bits(element.type, value) if is_defined else "undefined"
            for element, value, is_defined in zip(some, bits, bits, strict=False)
        ]
        for some in (expected, found)
    )
    place = next(
        i
        for i, (first, second) in enumerate(zip(before, after, strict=True))
        if first != "undefined" and repr(first) != repr(second)
    )
    name = expected[place].name
    return f"{name} = {before[place]} before, and {after[place]} after"


def _has_numbers(type_: Attribute) -> bool:
    """Return False if stored values are bit patterns of floats, not integers."""
    element = scalar_or_element_type(type_)
    return not isinstance(element, StoredQuantizedType) or element.has_integer_storage


def _input_option(type_: Attribute, values: Sequence[float | str]) -> str:
    if not static_shape(type_):
        return f"--input={values[0]}"
    array = np.array(values, object).reshape(static_shape(type_))
    return f"--input={json.dumps(array.tolist(), separators=(',', ':'))}"


def preserved(
    module: ModuleOp,
    passes: str | Sequence[ModulePass],
    *,
    lowered_by: str | Sequence[ModulePass] = LOWERING,
    entry: str | None = None,
    seconds: float = 60.0,
) -> Theorem:
    """
    Prove that passes do not change the results of a function: see `equivalent`.

    Args:
        module: module, which is not modified.
        passes: passes, or a pipeline.
        lowered_by: passes that lower both the module and the result of `passes`.
        entry: name of the function; by default the only public function, or `main`.
        seconds: time limit of the solver.
    """
    after = module.clone()
    apply_passes(after, passes)
    return equivalent(
        module, after, lowered_by=lowered_by, entry=entry, seconds=seconds
    )


def _check_same(
    noun: str, before: Sequence[Attribute], after: Sequence[Attribute]
) -> None:
    layouts = [[_type_layout(type_) for type_ in types] for types in (before, after)]
    texts = [", ".join(map(str, types)) or "none" for types in (before, after)]
    if layouts[0] != layouts[1]:
        raise UnsupportedError(
            f"{noun} differ in shape, width or float format: {texts[0]} before, "
            f"{texts[1]} after"
        )
    if not all(map(_express_the_same, before, after)):
        raise UnsupportedError(
            f"{noun} differ in storage range, scales or zero points: {texts[0]} "
            f"before, {texts[1]} after"
        )


def _type_layout(type_: Attribute) -> tuple[object, ...]:
    """Return the shape, then the integer width or the `float_sizes`."""
    stored = _bits_type(scalar_or_element_type(type_))
    return static_shape(type_), float_sizes(stored) or bit_count(stored)


def _express_the_same(before: Attribute, after: Attribute) -> bool:
    """
    Return True if equal stored values express equal real values in two types of the
    same layout, or if one of the types does not define expressed values.
    """
    shape = static_shape(before)
    first, second = (_uniform(type_) for type_ in (before, after))
    if not (
        isinstance(first, StoredQuantizedType)
        and isinstance(second, StoredQuantizedType)
    ):
        return True
    if first.common_parameters[1:] != second.common_parameters[1:]:
        return False
    expressed = {first.expressed_type, second.expressed_type}
    if AnyQuantizedType in (type(first), type(second)):
        return len(expressed - {NoneAttr()}) < 2
    if first == second:
        return True
    if len(expressed) == 2 or not (
        isinstance(first, ScaledQuantizedType)
        and isinstance(second, ScaledQuantizedType)
    ):
        return False
    pairs = zip(*(_element_parameters(t, shape) for t in (first, second)), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


def _uniform(type_: Attribute) -> Attribute:
    """Return the element type, converted to a `!quant.uniform` if possible."""
    element = scalar_or_element_type(type_)
    if not isinstance(element, BlockScaledQuantizedType):
        return element
    return uniform_counterpart(element, static_shape(type_)) or element


def _element_parameters(
    type_: ScaledQuantizedType, shape: Sequence[int]
) -> tuple[Floats, Integers]:
    """Return the scale (rounded to the expressed type) and zero point per element."""
    blocks, expressed = type_.get_blocks(), type_.expressed_type
    counts = [blocks[d][0] if d in blocks else 1 for d in range(len(shape))]
    places = np.ix_(
        *(
            np.arange(size) // blocks[d][1] if d in blocks else np.zeros(size, int)
            for d, size in enumerate(shape)
        )
    )
    scales = type_.get_scales()
    rounded = expressed.unpack(expressed.pack(scales.ravel().tolist()), scales.size)
    return (
        np.array(rounded).reshape(counts)[places],
        type_.get_zero_points().reshape(counts)[places],
    )


def _bits_type(type_: Attribute) -> Attribute:
    """
    Return the storage type with signedness, or the type itself if not quantized.

    Raises:
        UnsupportedError: if a quantized type has no storage type.
    """
    if not isinstance(type_, QuantizedType):
        return type_
    if not isinstance(type_, StoredQuantizedType):
        raise UnsupportedError(f"'{type_}' has no storage type")
    return stored_integer(type_)


def _argument_elements(terms: Terms, type_: Attribute, name: str) -> Iterator[_Element]:
    """Yield a symbol for each element; it is defined if it is in the storage range."""
    quantized = scalar_or_element_type(type_)
    stored = _bits_type(quantized)
    for index in np.ndindex(static_shape(type_)):
        place = f"{name}{[*index]}" if index else name
        term = terms.symbol(stored, place)
        condition = terms.true()
        if isinstance(quantized, StoredQuantizedType):
            sign = "S" if quantized.is_signed else "U"
            low, high = (
                terms.of_bits(stored, bound) for bound in quantized.storage_range
            )
            condition = terms.all(
                terms.op(f"BV_{sign}GE", term, low),
                terms.op(f"BV_{sign}LE", term, high),
            )
        yield _Element(place, stored, Number(term, condition))


def _result_elements(
    types: Sequence[Attribute], values: Sequence[Numbers]
) -> Iterator[_Element]:
    for i, (type_, value) in enumerate(zip(types, values, strict=True)):
        stored, array = _bits_type(scalar_or_element_type(type_)), as_elements(value)
        for index in np.ndindex(static_shape(type_)):
            name = f"result {i}{[*index]}" if index else f"result {i}"
            yield _Element(name, stored, cast(Number, array[index]))


def _function_results(
    terms: Terms,
    module: ModuleOp,
    lowered_by: str | Sequence[ModulePass],
    entry: str | None,
    arguments: Sequence[Numbers],
) -> Sequence[Numbers]:
    lowered = module.clone()
    apply_passes(lowered, lowered_by, is_routine=True)
    return translate_function(terms, entry_function(lowered, entry), arguments)


def _is_same(terms: Terms, before: Number, after: Number) -> Term:
    both = terms.all(after.is_defined, terms.equal(before.term, after.term))
    return terms.op("IMPLIES", before.is_defined, both)


def _shown(terms: Terms, some: Sequence[_Element]) -> Iterator[Term]:
    one, zero = (terms.of_bits(IntegerType(1), bit) for bit in (1, 0))
    for element in some:
        yield element.term
        yield terms.choice(element.number.is_defined, one, zero)
