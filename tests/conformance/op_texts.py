"""Random modules with one of the casts, on types that fit it or that do not."""

from random import Random

from xdsl.dialects.builtin import Float80Type, Float128Type, IntegerType, NoneAttr
from xdsl.utils.exceptions import DiagnosticException, ParseError

from xdsl_quant.dialects.quant import (
    QuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
)
from xdsl_quant.dialects.quant.constructor_arguments import int_array
from xdsl_quant.dialects.quant.storage_types import default_storage_max

from .this_package import parse_type
from .type_texts import (
    ALL_FLOATS,
    COMMON_FLOATS,
    StorageGenerator,
    integer_storage,
    main_storage,
    one_in,
    valid_tokens,
)

DYNAMIC = -1

Shape = list[int] | None
"""Dimensions of a ranked tensor, or `None` for an unranked one."""


def _aborts_mlir(type_: QuantizedType) -> bool:
    """Whether MLIR with assertions cannot stand a type, or wraps its zero points."""
    if isinstance(type_.expressed_type, Float80Type | Float128Type):
        return True
    if not isinstance(type_, UniformQuantizedSubChannelType):
        return False
    if not isinstance(type_.storage_type, IntegerType):
        return True
    largest = default_storage_max(type_.storage_type_integral_width, True)
    return any(not 0 <= z <= largest for z in int_array(type_.zero_points))


def quantized_type(
    rng: Random, storage: StorageGenerator = integer_storage
) -> QuantizedType:
    """A type that is valid, also for MLIR with assertions."""
    while True:
        try:
            parsed = parse_type("".join(valid_tokens(rng, storage)))
        except (ParseError, DiagnosticException):
            continue
        assert isinstance(parsed, QuantizedType)
        if not _aborts_mlir(parsed):
            return parsed


def fitting_shape(rng: Random, type_: QuantizedType) -> Shape:
    """The shape of a tensor that may have elements of this type."""
    if isinstance(type_, UniformQuantizedPerAxisType):
        if one_in(rng, 6):
            return None
        axis = type_.quantized_dimension.data
        rank = axis + 1 + rng.randrange(2) if axis < 6 else 1
        shape = [rng.choice((DYNAMIC, 1, 2, 3)) for _ in range(rank)]
        if axis < rank:
            shape[axis] = rng.choice((DYNAMIC, *[len(type_.scales)] * 3))
        return shape
    if isinstance(type_, UniformQuantizedSubChannelType):
        blocks = dict(type_.block_size_info)
        shape: list[int] = []
        for axis, count in enumerate(type_.scales_shape.get_values()):
            size = blocks[axis] * count if axis in blocks else rng.randint(1, 3)
            is_static = size < 1 << 31 and not one_in(rng, 6)
            shape.append(size if is_static else DYNAMIC)
        return shape
    if one_in(rng, 5):
        return None
    return [rng.choice((DYNAMIC, 0, 1, 2, 3)) for _ in range(rng.randrange(4))]


def container(element: str, shape: Shape, encoding: str = "") -> str:
    """The text of a tensor type; `encoding` is text for the end of a ranked one."""
    if shape is None:
        return f"tensor<*x{element}>"
    dimensions = "".join("?x" if d == DYNAMIC else f"{d}x" for d in shape)
    return f"tensor<{dimensions}{element}{encoding}>"


def encoding(rng: Random) -> str:
    """An encoding for `container`: seldom, there is one."""
    return ', "encoded"' if one_in(rng, 24) else ""


_OTHER_ELEMENTS = ("i8", "i8", "i4", "i32", "ui8", "si8", "i1", "index", *COMMON_FLOATS)
_OTHER_TYPES = (
    "none",
    "vector<2xf32>",
    "vector<2xi8>",
    "complex<f32>",
    "memref<2xf32>",
)


def _partner(
    rng: Random, op: str, type_: QuantizedType, storage: StorageGenerator
) -> str:
    """The element type on the other side of a cast; mostly the one that fits."""
    match rng.randrange(10):
        case 9:
            return rng.choice(_OTHER_ELEMENTS)
        case 8:
            return rng.choice(ALL_FLOATS)
        case 7 if one_in(rng, 3):
            return str(quantized_type(rng, storage))
        case _ if op == "scast" and isinstance(type_, StoredQuantizedType):
            return str(type_.signless_storage_type)
        case _ if isinstance(type_.expressed_type, NoneAttr):
            return "f32"
        case _:
            return str(type_.expressed_type)


def _misshapen(rng: Random, shape: Shape) -> Shape:
    if shape is None or one_in(rng, 5):
        return [2] if shape is None else None
    shape = shape.copy()
    at = rng.randrange(len(shape) + 1)
    match rng.randrange(3):
        case 0:
            shape.insert(at, rng.choice((DYNAMIC, 0, 1, 2)))
        case 1 if at < len(shape):
            del shape[at]
        case _ if at < len(shape):
            shape[at] = rng.choice((DYNAMIC, 0, 1, 2, 4, 6))
        case _:
            shape.append(1)
    return shape


def cast_types(rng: Random, op: str, storage: StorageGenerator) -> tuple[str, str]:
    """Operand and result type of a cast; mostly such that they fit."""
    type_ = quantized_type(rng, storage)
    partner = _partner(rng, op, type_, storage)
    shape = fitting_shape(rng, type_)
    if one_in(rng, 5):
        shape = _misshapen(rng, shape)
    other = shape if not one_in(rng, 8) else _misshapen(rng, shape)
    has_axes = isinstance(
        type_, UniformQuantizedPerAxisType | UniformQuantizedSubChannelType
    )
    is_scalar = one_in(rng, 12 if has_axes else 3)
    types = [str(type_), partner]
    if not is_scalar or one_in(rng, 12):
        types[0] = container(types[0], shape, encoding(rng))
    if not is_scalar or one_in(rng, 12):
        types[1] = container(types[1], other, encoding(rng))
    if one_in(rng, 24):
        types[1] = rng.choice(_OTHER_TYPES)
    is_from_quantized = op == "dcast" or (op == "scast" and one_in(rng, 2))
    if is_from_quantized != one_in(rng, 16):
        return types[0], types[1]
    return types[1], types[0]


def _module(rng: Random, storage: StorageGenerator) -> str:
    op = rng.choice(("qcast", "dcast", "scast"))
    source, result = cast_types(rng, op, storage)
    attributes = " {note = 1 : i32}" if one_in(rng, 8) else ""
    if not one_in(rng, 2):
        cast = f"quant.{op} %x{attributes} : {source} to {result}"
    else:
        cast = f'"quant.{op}"(%x){attributes} : ({source}) -> {result}'
    return (
        f"func.func @f(%x: {source}) -> {result} {{\n"
        f"  %y = {cast}\n"
        f"  return %y : {result}\n"
        "}\n"
    )


def op_text(rng: Random) -> str:
    """A module with one cast, in its own or in the generic form."""
    return _module(rng, integer_storage)


def main_op_text(rng: Random) -> str:
    """The same with float or quantile storage, which MLIR has since version 23."""
    return _module(rng, main_storage)
