"""
Random modules with one StableHLO op: valid ones, and what becomes of them by a small
mistake in a type or in a number.

Types are quantized more often than not: per tensor, per axis, and with parameters that
StableHLO refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from typing_extensions import TypeIs

from .op_texts import DYNAMIC
from .type_texts import one_in

Shape = list[int]


@dataclass(frozen=True)
class PerAxis:
    """A per-axis quantized element type."""

    storage: str
    expressed: str
    axis: int
    scales: tuple[str, ...]

    def __str__(self) -> str:
        scales = ",".join(self.scales)
        return (
            f"!quant.uniform<{self.storage}:{self.expressed}:{self.axis}, {{{scales}}}>"
        )


@dataclass(frozen=True)
class Tensor:
    """A tensor type."""

    shape: Shape
    element: str | PerAxis

    def __str__(self) -> str:
        sizes = "".join("?x" if size == DYNAMIC else f"{size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element}>"


_STORAGE = ("i8", "i8", "i8", "u8", "i16", "i4", "i32", "i8<-127:127>", "i2", "ui8")
_EXPRESSED = ("f32", "f32", "f32", "f16", "bf16", "f64")
_SCALES = ("0.5", "0.25", "1.0", "0.125")
_ZERO_POINTS = ("", "", ":0", ":1", ":-1", ":3", ":127", ":-128", ":300")
_FLOATS = ("f32", "f32", "f16", "bf16", "f64", "f8E4M3FN")
_OTHERS = ("i8", "i32", "i1", "i64", "ui8", "complex<f32>", "complex<f64>")
_REFUSED = (
    *("i3", "si8", "index", "f80", "tf32", "ui1", "complex<f16>", "!quant.any<i8:f32>"),
    *("!quant.uniform<i3:f32, 0.5>", "!quant.uniform<si8:f32, 0.5>"),
    *("!quant.calibrated<f32<-1.0:1.0>>", "!quant.uniform<i1:f32, 0.5>"),
    "!quant.uniform<i8:f32:{0:1}, {{0.5}}>",
)


def _per_tensor(rng: Random) -> str:
    storage, expressed = rng.choice(_STORAGE), rng.choice(_EXPRESSED)
    zero_point = rng.choice(_ZERO_POINTS) if one_in(rng, 3) else ""
    return f"!quant.uniform<{storage}:{expressed}, {rng.choice(_SCALES)}{zero_point}>"


def _per_axis(rng: Random, shape: Shape) -> PerAxis:
    axis = rng.randrange(len(shape)) if shape and not one_in(rng, 12) else 0
    size = shape[axis] if axis < len(shape) else 1
    count = size if size > 0 else 2
    if one_in(rng, 16):
        count += 1
    zero_points = _ZERO_POINTS if one_in(rng, 6) else ("",)
    scales = tuple(rng.choice(_SCALES) + rng.choice(zero_points) for _ in range(count))
    return PerAxis(rng.choice(_STORAGE), rng.choice(_EXPRESSED), axis, scales)


def _element(rng: Random, shape: Shape) -> str | PerAxis:
    match rng.randrange(12):
        case 0 | 1:
            return rng.choice(_FLOATS)
        case 2:
            return rng.choice(_OTHERS)
        case 3 if one_in(rng, 2):
            return rng.choice(_REFUSED)
        case 4 | 5 | 6:
            return _per_axis(rng, shape)
        case _:
            return _per_tensor(rng)


def _shape(rng: Random, ranks: Sequence[int] = (0, 1, 1, 2, 2, 3)) -> Shape:
    sizes = (1, 2, 3, 3, 4, DYNAMIC, 0)
    return [
        rng.choice(sizes if one_in(rng, 3) else sizes[:5])
        for _ in range(rng.choice(ranks))
    ]


def _tensor(rng: Random, ranks: Sequence[int] = (0, 1, 1, 2, 2, 3)) -> Tensor:
    shape = _shape(rng, ranks)
    return Tensor(shape, _element(rng, shape))


def _is_per_tensor(element: str | PerAxis) -> TypeIs[str]:
    is_text = isinstance(element, str)
    return is_text and "uniform" in element and not element.endswith("}>")


def _rescaled(rng: Random, tensor: Tensor) -> Tensor:
    """The same tensor, perhaps with other scales or with a size that is not known."""
    element = tensor.element
    if isinstance(element, PerAxis) and one_in(rng, 3):
        scales = tuple(rng.choice(_SCALES) for _ in element.scales)
        element = replace(element, scales=scales)
    elif _is_per_tensor(element) and one_in(rng, 3):
        head, _, _ = element.rpartition(", ")
        element = f"{head}, {rng.choice(_SCALES)}>"
    shape = [DYNAMIC if one_in(rng, 10) else size for size in tensor.shape]
    return Tensor(shape, element)


def _mistaken(rng: Random, tensor: Tensor) -> Tensor:
    """A tensor that differs in its shape or in its elements."""
    shape = tensor.shape.copy()
    match rng.randrange(6):
        case 0 if shape:
            shape[rng.randrange(len(shape))] = rng.choice((1, 2, 3, 4, 5, DYNAMIC))
        case 1:
            shape.insert(rng.randrange(len(shape) + 1), rng.choice((1, 2)))
        case 2 if shape:
            del shape[rng.randrange(len(shape))]
        case 3 if isinstance(tensor.element, PerAxis):
            axis = rng.randrange(max(len(shape), 1) + 1)
            return Tensor(shape, replace(tensor.element, axis=axis))
        case _:
            return Tensor(shape, _element(rng, shape))
    return Tensor(shape, tensor.element)


def _numbers(rng: Random, values: Sequence[int]) -> list[int]:
    """Numbers, seldom with a mistake."""
    values = list(values)
    if not one_in(rng, 10):
        return values
    match rng.randrange(3):
        case 0 if values:
            values[rng.randrange(len(values))] += rng.choice((-2, -1, 1, 5))
        case 1:
            values.append(rng.randrange(3))
        case _ if values:
            del values[-1]
        case _:
            pass
    return values


@dataclass
class Op:
    """An op, before it is text."""

    name: str
    operands: list[Tensor]
    results: list[Tensor]
    properties: dict[str, str]
    region: str = ""
    captured: list[Tensor] = field(default_factory=list[Tensor])
    """Types of further arguments of the function, `%k0`, `%k1`, ..., for regions."""

    constants: dict[int, list[int] | list[list[int]]] = field(
        default_factory=dict[int, "list[int] | list[list[int]]"]
    )
    """Elements of the operands that are constants and not arguments."""


def _array(values: Sequence[int]) -> str:
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"


def _unary(rng: Random) -> Op:
    functions = ("exponential", "logistic", "tanh", "sqrt", "rsqrt")
    others = ("negate", "abs", "convert", "reshape", "round_nearest_even", "not")
    name = rng.choice((*functions, *others))
    operand = _tensor(rng)
    if name == "not" and one_in(rng, 2):
        operand = Tensor(operand.shape, rng.choice(("i1", "i32", "ui8")))
    return Op(name, [operand], [_rescaled(rng, operand)], {})


def _binary(rng: Random) -> Op:
    arithmetic = ("add", "add", "subtract", "multiply", "divide")
    name = rng.choice((*arithmetic, "maximum", "minimum", "and", "or"))
    first = _tensor(rng)
    if name in ("and", "or") and one_in(rng, 2):
        first = Tensor(first.shape, rng.choice(("i1", "i32", "ui8")))
    lhs, rhs, result = (_rescaled(rng, first) for _ in range(3))
    if name == "add" and isinstance(first.element, PerAxis) and one_in(rng, 3):
        element = first.element
        per_tensor = f"!quant.uniform<{element.storage}:{element.expressed}, 0.5>"
        operands = [lhs, Tensor(rhs.shape, per_tensor)]
        rng.shuffle(operands)
        lhs, rhs = operands
    return Op(name, [lhs, rhs], [result], {})


_FLOAT_FUNCTIONS = (
    *("cbrt", "cosine", "exponential_minus_one", "log", "log_plus_one", "sine", "tan"),
    *("ceil", "floor", "round_nearest_afz", "sign"),
)
_INTEGER_FUNCTIONS = (
    *("count_leading_zeros", "popcnt"),
    *("shift_left", "shift_right_arithmetic", "shift_right_logical", "xor"),
)
_INTEGERS = ("i1", "i8", "i32", "ui8", "i64")


def _function(rng: Random) -> Op:
    """A function of numbers with results of the same type."""
    functions = (*_FLOAT_FUNCTIONS, "atan2", "power", "remainder")
    if one_in(rng, 3):
        functions = _INTEGER_FUNCTIONS
    name = rng.choice(functions)
    operand = _tensor(rng)
    if name in _INTEGER_FUNCTIONS and not one_in(rng, 4):
        operand = Tensor(operand.shape, rng.choice(_INTEGERS))
    is_binary = name.startswith(("atan2", "power", "remainder", "shift", "xor"))
    operands = [_rescaled(rng, operand) for _ in range(1 + is_binary)]
    return Op(name, operands, [_rescaled(rng, operand)], {})


def _component(rng: Random) -> Op:
    """A function of numbers with results of another type."""
    name = rng.choice(("real", "imag", "is_finite", "complex"))
    shape = _shape(rng)
    float_ = rng.choice(("f32", "f64"))
    number, part = Tensor(shape, f"complex<{float_}>"), Tensor(shape, float_)
    match name:
        case "complex":
            return Op(name, [part, _rescaled(rng, part)], [number], {})
        case "is_finite":
            return Op(name, [_tensor(rng, [len(shape)])], [Tensor(shape, "i1")], {})
        case _:
            operand = number if one_in(rng, 2) else part
            return Op(name, [operand], [_rescaled(rng, part)], {})


def _reduce_precision(rng: Random) -> Op:
    operand = _tensor(rng)
    bits = {"exponent_bits": rng.randint(0, 8), "mantissa_bits": rng.randint(-1, 23)}
    properties = {name: f"{value} : i32" for name, value in bits.items()}
    result = _rescaled(rng, operand)
    return Op("reduce_precision", [operand], [result], properties)


_WIDTHS = {
    "i4": 4,
    "i8": 8,
    "ui8": 8,
    "i16": 16,
    "f16": 16,
    "i32": 32,
    "f32": 32,
    "f64": 64,
}


def _bitcast_convert(rng: Random) -> Op:
    operand = _tensor(rng)
    if not one_in(rng, 3):
        operand = Tensor(operand.shape, rng.choice([*_WIDTHS]))
    storage = _storage(operand.element).partition("<")[0]
    width = _WIDTHS.get(
        storage.replace("u", "i") if storage[1:].isdigit() else storage, 8
    )
    element = (
        rng.choice([*_WIDTHS]) if not one_in(rng, 6) else _element(rng, operand.shape)
    )
    shape, other = [*operand.shape], _WIDTHS.get(str(element), width)
    if other < width:
        shape.append(width // other)
    elif other > width and shape:
        if not one_in(rng, 6):
            operand.shape[-1] = other // width
        del shape[-1]
    return Op("bitcast_convert", [operand], [Tensor(shape, element)], {})


def _cast(rng: Random) -> Op:
    shape = _shape(rng)
    quantized = Tensor(
        shape, _per_axis(rng, shape) if one_in(rng, 2) else _per_tensor(rng)
    )
    expressed = Tensor(shape, _expressed(quantized.element))
    if one_in(rng, 2):
        return Op("uniform_dequantize", [quantized], [_rescaled(rng, expressed)], {})
    operand = _rescaled(rng, quantized if one_in(rng, 3) else expressed)
    return Op("uniform_quantize", [operand], [quantized], {})


def _expressed(element: str | PerAxis) -> str:
    if isinstance(element, PerAxis):
        return element.expressed
    return element.partition(", ")[0].rpartition(":")[2]


def _storage(element: str | PerAxis) -> str:
    """The storage type of a quantized type, and any other type itself."""
    if isinstance(element, PerAxis):
        return element.storage
    if not _is_per_tensor(element):
        return element
    parameters, _, _ = element.removeprefix("!quant.uniform<").partition(", ")
    return parameters.rpartition(":")[0]


def _compare(rng: Random) -> Op:
    first = _tensor(rng)
    direction = rng.choice(("EQ", "NE", "GE", "GT", "LE", "LT"))
    properties = {
        "comparison_direction": f"#stablehlo<comparison_direction {direction}>"
    }
    if one_in(rng, 2):
        kind = rng.choice(("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", "NOTYPE"))
        properties["compare_type"] = f"#stablehlo<comparison_type {kind}>"
    result = _rescaled(rng, Tensor(first.shape, "i1"))
    operands = [_rescaled(rng, first), _rescaled(rng, first)]
    return Op("compare", operands, [result], properties)


def _select(rng: Random) -> Op:
    first = _tensor(rng)
    pred = Tensor([] if one_in(rng, 3) else first.shape, "i1")
    others = [_rescaled(rng, first), first, first][: rng.choice((2, 3, 3))]
    operands = [pred, first, others[0] if one_in(rng, 3) else first]
    return Op("select", operands, [_rescaled(rng, first)], {})


def _clamp(rng: Random) -> Op:
    first = _tensor(rng)
    bounds = [
        _rescaled(rng, Tensor([] if one_in(rng, 2) else first.shape, first.element))
        for _ in range(2)
    ]
    return Op("clamp", [bounds[0], first, bounds[1]], [_rescaled(rng, first)], {})


def _reshape(rng: Random) -> Op:
    operand = _tensor(rng, (1, 2, 2, 3))
    shape = operand.shape.copy()
    if one_in(rng, 2):
        at = rng.randrange(len(shape) + 1)
        shape.insert(at, 1)
        shift = 1
    elif len(shape) > 1:
        at = rng.randrange(len(shape) - 1)
        both = shape[at : at + 2]
        shape[at : at + 2] = [DYNAMIC if DYNAMIC in both else both[0] * both[1]]
        shift = -1
    else:
        at, shift = len(shape), 0
    element = operand.element
    if isinstance(element, PerAxis) and at <= element.axis:
        element = replace(element, axis=max(element.axis + shift, 0))
    return Op("reshape", [operand], [_rescaled_seldom(rng, Tensor(shape, element))], {})


def _rescaled_seldom(rng: Random, tensor: Tensor) -> Tensor:
    return _rescaled(rng, tensor) if one_in(rng, 4) else tensor


def _transpose(rng: Random) -> Op:
    operand = _tensor(rng, (0, 1, 2, 2, 3))
    permutation = list(range(len(operand.shape)))
    rng.shuffle(permutation)
    element = operand.element
    if isinstance(element, PerAxis) and element.axis in permutation:
        element = replace(element, axis=permutation.index(element.axis))
    result = Tensor([operand.shape[index] for index in permutation], element)
    properties = {"permutation": _array(_numbers(rng, permutation))}
    return Op("transpose", [operand], [_rescaled_seldom(rng, result)], properties)


def _broadcast(rng: Random) -> Op:
    result = _tensor(rng, (1, 2, 2, 3))
    rank = len(result.shape)
    dimensions = sorted(rng.sample(range(rank), rng.randint(0, rank)))
    if one_in(rng, 3):
        rng.shuffle(dimensions)
    shape = [1 if one_in(rng, 4) else result.shape[index] for index in dimensions]
    element = repeated = result.element
    if isinstance(repeated, PerAxis) and repeated.axis in dimensions:
        element = repeated
        axis = dimensions.index(element.axis)
        scales = element.scales[:1] if shape[axis] == 1 else element.scales
        element = replace(element, axis=axis, scales=scales)
        if shape[axis] == 1 and one_in(rng, 2):
            same = replace(repeated, scales=scales * len(repeated.scales))
            result = Tensor(result.shape, same)
    properties = {"broadcast_dimensions": _array(_numbers(rng, dimensions))}
    operand = _rescaled_seldom(rng, Tensor(shape, element))
    return Op("broadcast_in_dim", [operand], [result], properties)


def _concatenate(rng: Random) -> Op:
    first = _tensor(rng, (1, 2, 2, 3))
    dimension = rng.randrange(len(first.shape))
    operands: list[Tensor] = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        operand = Tensor(first.shape.copy(), first.element)
        operand.shape[dimension] = rng.choice((0, 1, 2, 3))
        operands.append(_rescaled_seldom(rng, operand))
    sizes = [operand.shape[dimension] for operand in operands]
    shape = first.shape.copy()
    shape[dimension] = DYNAMIC if DYNAMIC in sizes else sum(sizes)
    (dimension,) = (_numbers(rng, [dimension]) or [7])[:1]
    properties = {"dimension": f"{dimension} : i64"}
    return Op("concatenate", operands, [Tensor(shape, first.element)], properties)


def _slice(rng: Random) -> Op:
    operand = _tensor(rng)
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    sizes: list[int] = []
    for size in operand.shape:
        start, limit = sorted(
            rng.randint(0, 5 if size == DYNAMIC else size) for _ in "ab"
        )
        stride = rng.choice((1, 1, 2, 3))
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
        sizes.append(-(-(limit - start) // stride))
    properties = {
        "start_indices": _array(_numbers(rng, starts)),
        "limit_indices": _array(_numbers(rng, limits)),
        "strides": _array(_numbers(rng, strides)),
    }
    result = _rescaled_seldom(rng, Tensor(sizes, operand.element))
    return Op("slice", [operand], [result], properties)


def _pad(rng: Random) -> Op:
    operand = _tensor(rng)
    paddings = [
        (rng.choice((0, 1, 2, -1)), rng.choice((0, 1, 2, -1)), rng.choice((0, 0, 1, 2)))
        for _ in operand.shape
    ]
    sizes = [
        DYNAMIC if size == DYNAMIC else size + low + high + max(size - 1, 0) * interior
        for size, (low, high, interior) in zip(operand.shape, paddings, strict=True)
    ]
    # A negative size is no text of a type.
    sizes = [size if size >= DYNAMIC else 0 for size in sizes]
    properties = {
        name: _array(_numbers(rng, [padding[index] for padding in paddings]))
        for index, name in enumerate(
            ("edge_padding_low", "edge_padding_high", "interior_padding")
        )
    }
    value = _rescaled_seldom(rng, Tensor([], operand.element))
    result = _rescaled_seldom(rng, Tensor(sizes, operand.element))
    return Op("pad", [operand, value], [result], properties)


def _reverse(rng: Random) -> Op:
    operand = _tensor(rng, (0, 1, 2, 2, 3))
    rank = len(operand.shape)
    dimensions = rng.sample(range(rank), rng.randint(0, rank))
    properties = {"dimensions": _array(_numbers(rng, dimensions))}
    return Op("reverse", [operand], [_rescaled_seldom(rng, operand)], properties)


def _dynamic_slice(rng: Random) -> Op:
    """A slice, or an update of one, at indices that are operands."""
    # Real StableHLO does not read what it prints for rank 0.
    operand = _tensor(rng, (1, 1, 2, 2, 3))
    sizes = [
        max(size, 0) if one_in(rng, 2) else min(1, max(size, 0))
        for size in operand.shape
    ]
    sizes = _numbers(rng, sizes)
    element = rng.choice(("i32", "i64", "ui8", "i32", "f32"))
    indices = [Tensor([], element) for _ in _numbers(rng, operand.shape)]
    indices = indices or [Tensor([], element)]
    if indices and one_in(rng, 12):
        indices[0] = Tensor([], "i16")
    part = _rescaled_seldom(
        rng, Tensor([max(size, 0) for size in sizes], operand.element)
    )
    if one_in(rng, 2):
        result = _rescaled_seldom(rng, operand)
        return Op("dynamic_update_slice", [operand, part, *indices], [result], {})
    properties = {"slice_sizes": _array(sizes)}
    return Op("dynamic_slice", [operand, *indices], [part], properties)


def _reduce(rng: Random) -> Op:
    operand = _tensor(rng, (1, 2, 2, 3))
    rank = len(operand.shape)
    dimensions = rng.sample(range(rank), rng.randint(0, rank))
    shape = [
        size for index, size in enumerate(operand.shape) if index not in dimensions
    ]
    properties = {"dimensions": _array(_numbers(rng, dimensions))}
    return _reduction(rng, "reduce", operand, shape, properties)


def _reduction(
    rng: Random, name: str, operand: Tensor, shape: Shape, properties: dict[str, str]
) -> Op:
    inner = rng.choice(("add", "maximum", "minimum", "multiply", "subtract"))
    scalar = Tensor([], operand.element)
    arguments = [_rescaled_seldom(rng, scalar) for _ in range(2)]
    returned = _rescaled_seldom(rng, scalar)
    applied = rng.choice(("%p, %q", "%p, %q", "%p, %q", "%q, %p"))
    types = [arguments["%p, %q".index(name) // 4] for name in applied.split(", ")]
    region = (
        f" ({{^bb0(%p: {arguments[0]}, %q: {arguments[1]}): "
        f'%s = "stablehlo.{inner}"({applied}) : ({types[0]}, {types[1]}) -> {returned} '
        f'"stablehlo.return"(%s) : ({returned}) -> ()}})'
    )
    operands = [operand, _rescaled_seldom(rng, scalar)]
    result = _rescaled_seldom(rng, Tensor(shape, returned.element))
    return Op(name, operands, [result], properties, region)


def _reduce_window(rng: Random) -> Op:
    operand = _tensor(rng, (1, 2, 2, 3))
    rank = len(operand.shape)

    def numbers(*choices: int) -> list[int]:
        return [rng.choice(choices) for _ in range(rank)]

    window, strides, dilations = numbers(1, 2), numbers(1, 1, 2), numbers(1, 1, 2)
    base, paddings = numbers(1, 1, 2), [(rng.randrange(2), 0) for _ in range(rank)]
    given = [name for name in ("strides", "base", "dilations", "pad") if one_in(rng, 2)]
    shape: Shape = []
    for index, size in enumerate(operand.shape):
        spread = (size - 1) * (base[index] if "base" in given else 1) + 1 if size else 0
        spread += sum(paddings[index]) if "pad" in given else 0
        extent = (window[index] - 1) * (dilations[index] if "dilations" in given else 1)
        stride = strides[index] if "strides" in given else 1
        fits = size != DYNAMIC and 0 < spread and extent < spread
        count = (spread - extent - 1) // stride + 1 if fits else 0
        shape.append(DYNAMIC if size == DYNAMIC else count)
    properties = {"window_dimensions": _array(_numbers(rng, window))}
    if "strides" in given:
        properties["window_strides"] = _array(_numbers(rng, strides))
    if "base" in given:
        properties["base_dilations"] = _array(_numbers(rng, base))
    if "dilations" in given:
        properties["window_dilations"] = _array(_numbers(rng, dilations))
    if "pad" in given:
        properties["padding"] = _padding(paddings[: rng.choice((rank, rank, 1))])
    # MLIR sorts them.
    properties = dict(sorted(properties.items()))
    return _reduction(rng, "reduce_window", operand, shape, properties)


def _iota(rng: Random) -> Op:
    result = _tensor(rng, (1, 2, 2, 3))
    if one_in(rng, 2):
        result = Tensor(result.shape, rng.choice(("i32", "f32", "ui8", "i64")))
    (dimension,) = _numbers(rng, [rng.randrange(len(result.shape))])[:1] or [0]
    return Op("iota", [], [result], {"iota_dimension": f"{dimension} : i64"})


def _get_dimension_size(rng: Random) -> Op:
    operand = _tensor(rng, (1, 2, 2, 3))
    (dimension,) = _numbers(rng, [rng.randrange(len(operand.shape))])[:1] or [0]
    result = Tensor([], rng.choice(("i32", "i32", "i32", "i64", "ui32")))
    properties = {"dimension": f"{dimension} : i64"}
    return Op("get_dimension_size", [operand], [result], properties)


def _gather(rng: Random) -> Op:
    operand = _tensor(rng, (1, 2, 2, 3))
    if isinstance(operand.element, PerAxis) and not one_in(rng, 8):
        operand = Tensor(operand.shape, _per_tensor(rng))
    rank = len(operand.shape)
    dimensions = [*range(rank)]
    batching = rng.sample(dimensions, 1) if one_in(rng, 3) else []
    indexed = [dimension for dimension in dimensions if dimension not in batching]
    indexed = rng.sample(indexed, rng.randint(0, len(indexed)))
    collapsed = sorted(dimension for dimension in indexed if one_in(rng, 2))
    dropped = {*batching, *collapsed}
    sizes = [
        1 if dimension in dropped or one_in(rng, 2) else max(size, 0)
        for dimension, size in enumerate(operand.shape)
    ]
    batches = [operand.shape[dimension] for dimension in batching]
    batches += [rng.choice((2, 3, DYNAMIC)) for _ in range(rng.randrange(2))]
    index_vector = rng.randint(0, len(batches))
    indices = [*batches[:index_vector], len(indexed), *batches[index_vector:]]
    if len(indexed) == 1 and one_in(rng, 3):
        index_vector, indices = len(batches), batches
    kept = [size for dimension, size in enumerate(sizes) if dimension not in dropped]
    result_rank = len(batches) + len(kept)
    offset = sorted(rng.sample(range(result_rank), len(kept)))
    remaining, slices = iter(batches), iter(kept)
    shape = [next(slices if i in offset else remaining) for i in range(result_rank)]
    indices_batching = [0 if index_vector else 1] if batching else []
    numbers = ", ".join(
        f"{name} = {_numbers(rng, values)}"
        for name, values in (
            ("offset_dims", offset),
            ("collapsed_slice_dims", collapsed),
            ("operand_batching_dims", batching),
            ("start_indices_batching_dims", indices_batching),
            ("start_index_map", indexed),
        )
    )
    vector = index_vector + (rng.choice((-1, 1)) if one_in(rng, 16) else 0)
    properties = {
        "dimension_numbers": f"#stablehlo.gather<{numbers}, index_vector_dim = {vector}>",
        "slice_sizes": _array(_numbers(rng, sizes)),
    }
    element = rng.choice(("i32", "i64", "ui8", "i32", "f32"))
    operands = [operand, Tensor(indices, element)]
    result = _rescaled_seldom(rng, Tensor(shape, operand.element))
    return Op("gather", operands, [result], properties)


_SCATTER_NAMES = {
    "#stablehlo.gather": "#stablehlo.scatter",
    "offset_dims": "update_window_dims",
    "collapsed_slice_dims": "inserted_window_dims",
    "start_indices_batching_dims": "scatter_indices_batching_dims",
    "operand_batching_dims": "input_batching_dims",
    "start_index_map": "scatter_dims_to_operand_dims",
}


def _scatter(rng: Random) -> Op:
    """The inverse of a gather: its result are the updates."""
    gather = _gather(rng)
    numbers = gather.properties["dimension_numbers"]
    for name, other in _SCATTER_NAMES.items():
        numbers = numbers.replace(name, other)
    operand, indices = gather.operands
    scalar = Tensor([], operand.element)
    arguments = [scalar, scalar]
    if one_in(rng, 16):
        arguments[rng.randrange(2)] = _mistaken(rng, scalar)
    region = _region(arguments[: 2 - one_in(rng, 16)], arguments[:1], "%x")
    result = _rescaled_seldom(rng, operand)
    operands = [operand, indices, gather.results[0]]
    properties = {
        "indices_are_sorted": "false",
        "scatter_dimension_numbers": numbers,
        "unique_indices": "true",
    }
    return Op("scatter", operands, [result], properties, f" ({region})")


def _product_elements(rng: Random) -> tuple[str, str, str]:
    """Element types of two factors and of a product, where per tensor is good enough."""
    storage, expressed = rng.choice(_STORAGE), rng.choice(_EXPRESSED)
    rhs = f"!quant.uniform<{storage}:{expressed}, {rng.choice(_SCALES)}>"
    match rng.randrange(6):
        case 0:
            return expressed, rhs, expressed
        case 1:
            element = rng.choice(_FLOATS)
            return element, element, element
        case 2:
            return _per_tensor(rng), _per_tensor(rng), _per_tensor(rng)
        case _:
            lhs = f"!quant.uniform<{storage}:{expressed}, {rng.choice(_SCALES)}:3>"
            wide = rng.choice((storage, "i32", "i16"))
            return lhs, rhs, f"!quant.uniform<{wide}:{expressed}, 0.5>"


def _along(rng: Random, element: str, tensor: Tensor, axis: int) -> Tensor:
    """The tensor with a per-axis type in place of a per-tensor one."""
    if not _is_per_tensor(element):
        return Tensor(tensor.shape, element)
    storage = _storage(element)
    expressed = _expressed(element)
    size = tensor.shape[axis] if axis < len(tensor.shape) else 1
    scales = tuple(rng.choice(_SCALES) for _ in range(size if size > 0 else 2))
    return Tensor(tensor.shape, PerAxis(storage, expressed, axis, scales))


def _dot_general(rng: Random) -> Op:
    batch = _shape(rng, (0, 0, 1))
    contracted = _shape(rng, (0, 1, 1, 1, 2))
    lhs_free, rhs_free = _shape(rng, (0, 1, 1)), _shape(rng, (0, 1, 1))
    lhs_order = list(range(len(batch) + len(lhs_free) + len(contracted)))
    rhs_order = list(range(len(batch) + len(rhs_free) + len(contracted)))
    if one_in(rng, 3):
        rng.shuffle(lhs_order)
        rng.shuffle(rhs_order)
    lhs_sizes = [*batch, *contracted, *lhs_free]
    rhs_sizes = [*batch, *contracted, *rhs_free]
    lhs_shape = [lhs_sizes[lhs_order.index(index)] for index in range(len(lhs_order))]
    rhs_shape = [rhs_sizes[rhs_order.index(index)] for index in range(len(rhs_order))]
    lhs_free = [lhs_shape[i] for i in sorted(lhs_order[len(batch) + len(contracted) :])]
    rhs_rest = sorted(rhs_order[len(batch) + len(contracted) :])
    rhs_free = [rhs_shape[i] for i in rhs_rest]
    lhs_element, rhs_element, result_element = _product_elements(rng)
    lhs, rhs = Tensor(lhs_shape, lhs_element), Tensor(rhs_shape, rhs_element)
    result = Tensor([*batch, *lhs_free, *rhs_free], result_element)
    if rhs_shape and one_in(rng, 2):
        axis = rng.choice(rhs_rest or range(len(rhs_shape)))
        if one_in(rng, 6):
            axis = rng.randrange(len(rhs_shape))
        rhs = _along(rng, rhs_element, rhs, axis)
        if result.shape and one_in(rng, 2):
            result = _along(rng, result_element, result, len(result.shape) - 1)
    split = len(batch), len(batch) + len(contracted)
    numbers = {
        "lhs_batching_dimensions": lhs_order[: split[0]],
        "rhs_batching_dimensions": rhs_order[: split[0]],
        "lhs_contracting_dimensions": lhs_order[split[0] : split[1]],
        "rhs_contracting_dimensions": rhs_order[split[0] : split[1]],
    }
    fields = ", ".join(f"{name} = {_numbers(rng, n)}" for name, n in numbers.items())
    properties = {"dot_dimension_numbers": f"#stablehlo.dot<{fields}>"}
    if one_in(rng, 3):
        properties["precision_config"] = _precisions(rng)
    return Op("dot_general", [lhs, rhs], [result], properties)


def _precisions(rng: Random) -> str:
    count = rng.choice((0, 1, 2, 2, 2, 3))
    names = [rng.choice(("DEFAULT", "HIGH", "HIGHEST")) for _ in range(count)]
    return f"[{', '.join(f'#stablehlo<precision {name}>' for name in names)}]"


def _ordered(rng: Random, letters: Iterable[str], spatial: int) -> list[str]:
    """Names of dimensions: two letters, and the numbers of the spatial ones."""
    first, second = letters
    names = [first, *map(str, range(spatial)), second]
    if one_in(rng, 3):
        rng.shuffle(names)
    return names


def _convolution(rng: Random) -> Op:
    spatial = rng.choice((0, 1, 1, 2, 2))
    feature_groups, batch_groups = rng.choice(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2)))
    batch, kernel_features = rng.choice((2, 4)), rng.choice((1, 2))
    features, output_features = kernel_features * feature_groups, rng.choice((2, 4))
    sizes = [rng.choice((3, 4, 5)) for _ in range(spatial)]
    kernel = [rng.choice((1, 2, 3)) for _ in range(spatial)]
    strides = [rng.choice((1, 2)) for _ in range(spatial)]
    paddings = [(rng.choice((0, 1)), rng.choice((0, 1))) for _ in range(spatial)]
    lhs_dilation = [rng.choice((1, 1, 2)) for _ in range(spatial)]
    rhs_dilation = [rng.choice((1, 1, 2)) for _ in range(spatial)]
    given = {name: one_in(rng, 2) for name in ("strides", "padding", "lhs", "rhs")}
    output: list[int] = []
    for index in range(spatial):
        stride = strides[index] if given["strides"] else 1
        padding = sum(paddings[index]) if given["padding"] else 0
        base = (sizes[index] - 1) * (lhs_dilation[index] if given["lhs"] else 1) + 1
        window = (kernel[index] - 1) * (rhs_dilation[index] if given["rhs"] else 1) + 1
        output.append(max((base + padding - window) // stride + 1, 0))
    tensors = {
        "input": ({"b": batch, "f": features}, sizes),
        "kernel": ({"i": kernel_features, "o": output_features}, kernel),
        "output": ({"b": batch // batch_groups, "f": output_features}, output),
    }
    orders: list[list[str]] = []
    types: list[Tensor] = []
    for (letters, spatial_sizes), element in zip(
        tensors.values(), _product_elements(rng), strict=True
    ):
        order = _ordered(rng, letters, spatial)
        named = letters | {str(index): size for index, size in enumerate(spatial_sizes)}
        orders.append(order)
        shape = [DYNAMIC if one_in(rng, 20) else named[name] for name in order]
        types.append(Tensor(shape, element))
    lhs, rhs, result = types
    if one_in(rng, 2):
        axis = orders[1].index("o") if not one_in(rng, 6) else 0
        rhs = _along(rng, str(rhs.element), rhs, axis)
        if one_in(rng, 2):
            axis = orders[2].index("f") if not one_in(rng, 6) else 0
            result = _along(rng, str(result.element), result, axis)
    texts = [f"[{', '.join(order)}]" for order in orders]
    properties = {
        "dimension_numbers": f"#stablehlo.conv<{texts[0]}x{texts[1]}->{texts[2]}>",
        "batch_group_count": f"{(_numbers(rng, [batch_groups]) or [0])[0]} : i64",
        "feature_group_count": f"{(_numbers(rng, [feature_groups]) or [0])[0]} : i64",
    }
    if given["strides"]:
        properties["window_strides"] = _array(_numbers(rng, strides))
    if given["padding"]:
        properties["padding"] = _padding(paddings)
    if given["lhs"]:
        properties["lhs_dilation"] = _array(_numbers(rng, lhs_dilation))
    if given["rhs"]:
        properties["rhs_dilation"] = _array(_numbers(rng, rhs_dilation))
    if one_in(rng, 4):
        reversal = ["true" if one_in(rng, 2) else "false" for _ in range(spatial)]
        separator = ": " if reversal else ""
        properties["window_reversal"] = f"array<i1{separator}{', '.join(reversal)}>"
    if one_in(rng, 4):
        properties["precision_config"] = _precisions(rng)
    return Op("convolution", [lhs, rhs], [result], properties)


def _padding(paddings: Sequence[tuple[int, int]]) -> str:
    if not paddings:
        return "dense<> : tensor<0x2xi64>"
    values = ", ".join(f"[{low}, {high}]" for low, high in paddings)
    return f"dense<[{values}]> : tensor<{len(paddings)}x2xi64>"


def _region(arguments: Sequence[Tensor], returned: Sequence[Tensor], value: str) -> str:
    """A region that returns constants, or its own arguments as `%x0`, `%x1`, ..."""
    names = ", ".join(f"{value}{i}" for i in range(len(returned)))
    types = ", ".join(map(str, returned))
    parameters = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate(arguments))
    head = f"^bb0({parameters}): " if arguments else ""
    return f'{{{head}"stablehlo.return"({names}) : ({types}) -> ()}}'


def _map(rng: Random) -> Op:
    first = _tensor(rng)
    operands = [_rescaled_seldom(rng, first) for _ in range(rng.randint(1, 2))]
    arguments = [Tensor([], operand.element) for operand in operands]
    arguments = [_rescaled_seldom(rng, argument) for argument in arguments]
    returned = Tensor([1] if one_in(rng, 16) else [], _element(rng, []))
    if one_in(rng, 16):
        arguments[0] = _mistaken(rng, arguments[0])
    if one_in(rng, 16):
        arguments.append(arguments[0])
    region = _region(arguments, [returned] * (1 + one_in(rng, 16)), "%k")
    properties = {"dimensions": _array(_numbers(rng, range(len(first.shape))))}
    result = Tensor(first.shape, returned.element)
    return Op("map", operands, [result], properties, f" ({region})", [returned] * 2)


def _sort(rng: Random) -> Op:
    first = _tensor(rng, (0, 1, 2, 2, 3))
    operands = [
        Tensor(first.shape, _element(rng, first.shape))
        for _ in range(rng.randint(1, 2))
    ]
    arguments = [Tensor([], o.element) for o in operands for _ in "ab"]
    if one_in(rng, 16):
        arguments[0] = _mistaken(rng, arguments[0])
    if one_in(rng, 16):
        del arguments[-1]
    condition = Tensor([1] if one_in(rng, 16) else [], "i1")
    region = _region(arguments, [condition] * (1 + one_in(rng, 16)), "%k")
    rank = len(first.shape)
    properties = {
        "dimension": f"{rng.randint(-rank - 1, rank)} : i64",
        "is_stable": rng.choice(("true", "false")),
    }
    results = [_rescaled_seldom(rng, operand) for operand in operands]
    return Op("sort", operands, results, properties, f" ({region})", [condition] * 2)


def _barrier(rng: Random) -> Op:
    operands = [_tensor(rng) for _ in range(rng.randint(1, 3))]
    results = [_rescaled_seldom(rng, operand) for operand in operands]
    return Op("optimization_barrier", operands, results, {})


def _branches(rng: Random) -> Op:
    """`if` or `case`, whose regions return other arguments of the function."""
    name = rng.choice(("if", "case"))
    results = [_tensor(rng) for _ in range(rng.randint(0, 2))]
    selector = Tensor([1] if one_in(rng, 12) else [], "i1" if name == "if" else "i32")
    if one_in(rng, 12):
        selector = Tensor([], rng.choice(("i1", "i32", "i64")))
    regions: list[str] = []
    for _ in range(2 if name == "if" else rng.randint(1, 3)):
        returned = results[: len(results) - one_in(rng, 12)]
        arguments = [_tensor(rng)] if one_in(rng, 16) else []
        regions.append(_region(arguments, returned, "%k"))
    typed = [_rescaled_seldom(rng, result) for result in results]
    region = f" ({', '.join(regions)})"
    return Op(name, [selector], typed, {}, region, captured=results)


def _while(rng: Random) -> Op:
    operands = [_tensor(rng) for _ in range(rng.randint(0, 2))]
    condition = Tensor([1], "i1") if one_in(rng, 16) else Tensor([], "i1")
    if one_in(rng, 16):
        condition = Tensor([], "i32")
    carried, returned = (operands[: len(operands) - one_in(rng, 16)] for _ in "ab")
    conditions = [condition] * (1 + one_in(rng, 16))
    cond = _region(carried, conditions, "%k")
    body = _region(operands, returned, "%x")
    region = f" ({cond}, {body})"
    return Op("while", operands, [*operands], {}, region, captured=conditions)


def _dynamic(rng: Random, op: Op, numbers: Sequence[Sequence[int]]) -> Op:
    """The op with more operands: vectors of numbers, which may be constants."""
    is_constant = one_in(rng, 3)
    element = rng.choice(("i32", "i64") if is_constant else ("i32", "index", "i64"))
    if one_in(rng, 12):
        element = rng.choice(("f32", "i1", "ui8", "i4"))
    for values in numbers:
        values = _numbers(rng, values) if one_in(rng, 3) else [*values]
        if is_constant or one_in(rng, 6):
            op.constants[len(op.operands)] = values
        op.operands.append(Tensor([len(values)], element))
    if one_in(rng, 16):
        op.operands[-1] = Tensor([DYNAMIC], element)
    result = op.results[0]
    sizes = [DYNAMIC if one_in(rng, 3) else size for size in result.shape]
    op.results = [Tensor(sizes, result.element)]
    return op


def _known(shape: Shape) -> Shape:
    return [2 if size == DYNAMIC else size for size in shape]


def _taken(op: Op, *names: str) -> list[list[int]]:
    """The numbers of properties, which the op loses."""
    return [_numbers_in(op.properties.pop(name)) for name in names]


def _numbers_in(array: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", array.partition(":")[2])]


def _dynamic_shape(rng: Random) -> Op:
    op = rng.choice((_reshape, _broadcast, _iota))(rng)
    op.name = f"dynamic_{op.name}"
    if op.name == "dynamic_broadcast_in_dim" and one_in(rng, 2):
        rank = len(op.operands[0].shape)
        hints: tuple[list[int], list[int]] = [], []
        for dimension in range(rank):
            hints[rng.randrange(2)].append(dimension)
        names = ("known_expanding_dimensions", "known_nonexpanding_dimensions")
        for name, hint in zip(names, hints, strict=True):
            if one_in(rng, 2):
                op.properties[name] = _array(_numbers(rng, hint))
    return _dynamic(rng, op, [_known(op.results[0].shape)])


def _real_dynamic_slice(rng: Random) -> Op:
    op = _slice(rng)
    op.name = "real_dynamic_slice"
    return _dynamic(rng, op, _taken(op, "start_indices", "limit_indices", "strides"))


def _dynamic_pad(rng: Random) -> Op:
    op = _pad(rng)
    op.name = "dynamic_pad"
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return _dynamic(rng, op, _taken(op, *names))


def _dynamic_gather(rng: Random) -> Op:
    op = _gather(rng)
    op.name = "dynamic_gather"
    return _dynamic(rng, op, _taken(op, "slice_sizes"))


def _dynamic_conv(rng: Random) -> Op:
    op = _convolution(rng)
    op.name = "dynamic_conv"
    op.properties.pop("padding", None)
    op.properties = dict(sorted(op.properties.items()))
    count = len(op.operands[0].shape) - 2
    for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
        # Real StableHLO does not count them.
        if name in op.properties and len(_numbers_in(op.properties[name])) != count:
            del op.properties[name]
    pairs = [[rng.randrange(2), rng.randrange(2)] for _ in range(count)]
    if one_in(rng, 3):
        op.constants[2] = pairs
    shape = [count, 1 if one_in(rng, 16) else 2]
    op.operands.append(Tensor(shape, rng.choice(("i32", "i64"))))
    return op


def _constant(rng: Random) -> Op:
    result = _tensor(rng)
    element = result.element
    stored = _storage(element).partition("<")[0]
    stored = stored if stored.startswith("ui") else stored.replace("u", "i")
    if not stored.startswith(("i", "u")) or one_in(rng, 12):
        stored = "i8"
    value = "true" if stored == "i1" else "1"
    shape = [max(size, 0) for size in result.shape]
    splat = f"dense<{value if 0 not in shape else ''}>"
    return Op("constant", [], [result], {"value": f"{splat} : {Tensor(shape, stored)}"})


_GENERATORS: dict[str, Callable[[Random], Op]] = {
    "unary": _unary,
    "binary": _binary,
    "function": _function,
    "component": _component,
    "cast": _cast,
    "reduce_precision": _reduce_precision,
    "bitcast_convert": _bitcast_convert,
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "slice": _slice,
    "pad": _pad,
    "reverse": _reverse,
    "dynamic_slice": _dynamic_slice,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "gather": _gather,
    "scatter": _scatter,
    "iota": _iota,
    "get_dimension_size": _get_dimension_size,
    "dot_general": _dot_general,
    "convolution": _convolution,
    "constant": _constant,
    "map": _map,
    "sort": _sort,
    "optimization_barrier": _barrier,
    "branches": _branches,
    "while": _while,
    "dynamic_shape": _dynamic_shape,
    "real_dynamic_slice": _real_dynamic_slice,
    "dynamic_pad": _dynamic_pad,
    "dynamic_gather": _dynamic_gather,
    "dynamic_conv": _dynamic_conv,
}

KINDS = tuple(_GENERATORS)
"""What `stablehlo_text` can make a module with."""


def stablehlo_text(rng: Random, kind: str, *, returns: bool = False) -> str:
    """A module with one op of a kind, in the generic form, perhaps with its results."""
    op = _GENERATORS[kind](rng)
    sides = [types for types in (op.operands, op.results) if types]
    if one_in(rng, 3) and sides:
        types = rng.choice(sides)
        at = rng.randrange(len(types))
        types[at] = _mistaken(rng, types[at])
    # The mistake may be in the type of a constant.
    given = {
        i: values
        for i, values in op.constants.items()
        if op.operands[i].element in ("i32", "i64")
    }
    constants = "".join(
        f'  %a{i} = "stablehlo.constant"() <{{value = dense<{values}> : '
        f"{op.operands[i]}}}> : () -> {op.operands[i]}\n"
        for i, values in given.items()
    )
    arguments = ", ".join(
        f"%{prefix}{i}: {type_}"
        for prefix, types in (("a", op.operands), ("k", op.captured))
        for i, type_ in enumerate(types)
        if prefix == "k" or i not in given
    )
    operands = ", ".join(f"%a{i}" for i in range(len(op.operands)))
    properties = ", ".join(f"{name} = {value}" for name, value in op.properties.items())
    properties = f" <{{{properties}}}>" if properties else ""
    names = ", ".join(f"%r{i}" for i in range(len(op.results)))
    types = ", ".join(map(str, op.results))
    signature, returned = (
        (f" -> ({types})", f" {names} : {types}") if returns else ("", "")
    )
    return (
        f"func.func @f({arguments}){signature} {{\n{constants}"
        f'  {names}{" = " if names else ""}"stablehlo.{op.name}"({operands}){properties}'
        f"{op.region} : ({', '.join(map(str, op.operands))}) -> ({types})\n"
        f"  return{returned}\n}}\n"
    )
