"""
Casts whose scales and zero points are operands: interpreted, lowered and compiled they give
the same numbers, which for f32 are those of the formula, and for constants those of types.
"""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from xdsl.parser import Parser
from xdsl.utils.exceptions import InterpretationError

from tests.unit.machines.numpy.running import FLOAT_DTYPES, same_bits
from xdsl_quant import execution
from xdsl_quant.execution.compilation_error import CompilationError
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.parameters import storage_range
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
)

Array = NDArray[Any]

SCALES = (0.1, -0.5, 0.0, -0.0, np.nan, np.inf, 2.0**-5, 1e-7, 3.0, -np.inf)
VALUES = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-7, -3.75, 6e4, -6e4, 0.5, 1.0, 12.7)

TYPES = (
    ("f32", "i8"),
    ("f32", "u8<1:200>"),
    ("f32", "i4"),
    ("f32", "u4"),
    ("f32", "i16"),
    ("f32", "u16"),
    ("f32", "i32"),
    ("f32", "u32"),
    ("f32", "i1"),
    ("f16", "i8"),
    ("f16", "u8"),
    ("f16", "i16"),
    ("bf16", "i8<-8:7>"),
    ("bf16", "u4"),
    ("f64", "i24"),
)

LAYOUTS = (
    # Tensor, scales, blocks.
    (None, None, ""),
    ((4, 10), None, ""),
    ((4, 10), (), ""),
    ((4, 10), (1, 1), ""),
    ((4, 10), (4,), "{0:1}"),
    ((4, 10), (4, 1), "{0:1}"),
    ((4, 10), (10,), "{1:1}"),
    ((4, 10), (4, 3), "{0:1, 1:4}"),
    ((4, 10), (3,), "{1:4}"),
    ((4, 10), (1, 2), "{1:5}"),
    ((2, 3, 8), (2, 2), "{0:1, 2:4}"),
)


def type_of(shape: tuple[int, ...] | None, element: str, dynamic: bool = False) -> str:
    if shape is None:
        return element
    sizes = "?x" * len(shape) if dynamic else "".join(f"{size}x" for size in shape)
    return f"tensor<{sizes}{element}>"


def text_of(
    expressed: str,
    storage: str,
    shape: tuple[int, ...] | None,
    scale_shape: tuple[int, ...] | None,
    blocks: str,
    has_zero_point: bool,
    dynamic: bool = False,
) -> str:
    """Functions `quantize` and `dequantize`."""
    stored = f"i{storage.partition('<')[0][1:]}"
    x, i = (type_of(shape, e, dynamic) for e in (expressed, stored))
    is_dynamic = dynamic and 1 not in (scale_shape or ())
    s, z = (type_of(scale_shape, e, is_dynamic) for e in (expressed, stored))
    zero_point, argument = (f", {z}", f", %z: {z}") if has_zero_point else ("", "")
    operands = f"%v, %s{', %z' if has_zero_point else ''} {blocks} as <{storage}>"
    types = f"{s}{zero_point}"
    return f"""
func.func @quantize(%v: {x}, %s: {s}{argument}) -> {i} {{
  %r = quant.dynamic_qcast {operands} : {x}, {types} to {i}
  return %r : {i}
}}
func.func @dequantize(%v: {i}, %s: {s}{argument}) -> {x} {{
  %r = quant.dynamic_dcast {operands} : {i}, {types} to {x}
  return %r : {x}
}}"""


def stored_dtype(storage: str) -> Any:
    width = int(storage.partition("<")[0][1:])
    if width == 1:
        return np.bool_
    return np.dtype(f"int{next(n for n in (8, 16, 32) if width <= n)}")


def example(
    expressed: str,
    storage: str,
    shape: tuple[int, ...] | None,
    scale_shape: tuple[int, ...] | None,
) -> tuple[Array, Array, Array]:
    """Values, scales and zero points, and among them what is special."""
    random = np.random.default_rng(0)
    dtype = FLOAT_DTYPES[expressed]
    count = int(np.prod(shape or ()))
    with np.errstate(over="ignore"):
        values = np.concatenate((VALUES, random.normal(0, 50, max(count, 1))))
        values = random.permutation(values)[:count].astype(dtype).reshape(shape or ())
        scales = random.choice(SCALES, scale_shape or ()).astype(dtype)
    low, high = storage_range(storage.partition("<")[0])
    zero_points = random.integers(low, high, scale_shape or (), endpoint=True)
    if low == 0:
        # The signless integers with the same bits.
        zero_points -= np.where(zero_points > high // 2, high + 1, 0)
    return values, scales, zero_points.astype(stored_dtype(storage))


def check_lowering(
    expressed: str,
    storage: str,
    layout: tuple[Any, ...],
    rounding: Rounding,
    has_zero_point: bool = True,
) -> None:
    """Check lowered casts against interpreted ones."""
    shape, scale_shape, blocks = layout
    values, *operands = example(expressed, storage, shape, scale_shape)
    operands = operands[: 1 + has_zero_point]
    mode, order, nan = rounding
    for dynamic in (False, True):
        text = text_of(
            expressed, storage, shape, scale_shape, blocks, has_zero_point, dynamic
        )
        (stored,) = run_function(
            text,
            "quantize",
            values,
            *operands,
            rounding_mode=mode,
            zero_point_order=order,
            nan=nan,
        )
        (back,) = run_function(
            text, "dequantize", stored, *operands, rounding_mode=mode
        )
        fuse = "true" if dynamic else "false"
        module = parse_module(text)
        options = (
            f"rounding-mode={mode} zero-point-order={order} nan={nan} "
            f"fuse={fuse} runtime-checks=true"
        )
        apply_passes(module, f"lower-quant-ops{{{options}}}")
        module.verify()
        (result,) = run_function(module, "quantize", values, *operands)
        assert same_bits(result, stored), (layout, options)
        (result,) = run_function(module, "dequantize", stored, *operands)
        assert same_bits(result, back), (layout, options)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("has_zero_point", [False, True])
@pytest.mark.parametrize("mode", get_args(RoundingMode))
@pytest.mark.parametrize(("expressed", "storage"), TYPES)
def test_types(expressed: str, storage: str, mode: RoundingMode, has_zero_point: bool):
    for layout in (((4, 10), None, ""), ((4, 10), (4, 3), "{0:1, 1:4}")):
        check_lowering(expressed, storage, layout, Rounding(mode), has_zero_point)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: tuple[Any, ...]):
    check_lowering("f32", "u8<1:200>", layout, Rounding("nearest-even"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("nan", get_args(NanResult))
@pytest.mark.parametrize("order", get_args(ZeroPointOrder))
@pytest.mark.parametrize("mode", get_args(RoundingMode))
def test_rounding(mode: RoundingMode, order: ZeroPointOrder, nan: NanResult):
    rounding = Rounding(mode, order, nan)
    if rounding.error_message() is None:
        for expressed in ("f32", "bf16"):
            check_lowering(expressed, "i8<-127:127>", LAYOUTS[4], rounding)


COMPILED = (
    ("f32", "i8", (4, 10), (4,), "{0:1}"),
    ("f32", "u8<1:200>", (4, 10), None, ""),
    ("f32", "i4", (4, 10), (4, 3), "{0:1, 1:4}"),
    ("f32", "i32", (4, 10), (1, 1), ""),
    ("f16", "u16", (4, 10), (4,), "{0:1}"),
    ("bf16", "i8", (4, 10), (3,), "{1:4}"),
)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("mode", get_args(RoundingMode))
@pytest.mark.parametrize(
    ("expressed", "storage", "shape", "scale_shape", "blocks"), COMPILED
)
def test_compiled_as_interpreted(
    expressed: str,
    storage: str,
    shape: tuple[int, ...],
    scale_shape: tuple[int, ...] | None,
    blocks: str,
    mode: RoundingMode,
):
    values, *operands = example(expressed, storage, shape, scale_shape)
    for dynamic in (False, True):
        text = text_of(expressed, storage, shape, scale_shape, blocks, True, dynamic)
        (stored,) = run_function(
            text, "quantize", values, *operands, rounding_mode=mode
        )
        (back,) = run_function(
            text, "dequantize", stored, *operands, rounding_mode=mode
        )
        for fuse in (False, True):
            compiled = execution.compile(
                text, "quantize", rounding_mode=mode, fuse=fuse
            )
            assert same_bits(compiled(values, *operands), stored)
            compiled = execution.compile(
                text, "dequantize", rounding_mode=mode, fuse=fuse
            )
            assert same_bits(compiled(stored, *operands), back)


FLOATS = st.floats(width=32)


@settings(deadline=None)
@given(
    arrays.arrays(np.float32, (3, 4), elements=FLOATS),
    arrays.arrays(np.float32, (3, 1), elements=FLOATS),
    arrays.arrays(np.int8, (3, 1)),
)
def test_formula(x: Array, scale: Array, zero_point: Array):
    text = text_of("f32", "i8<-127:127>", (3, 4), (3, 1), "{0:1}", True)
    with np.errstate(all="ignore"):
        scaled = np.fmin(np.fmax(x / scale + zero_point.astype(np.float32), -127), 127)
        (stored,) = run_function(text, "quantize", x, scale, zero_point)
        assert same_bits(stored, np.rint(scaled).astype(np.int8))
        difference = stored.astype(np.float32) - zero_point.astype(np.float32)
        (back,) = run_function(text, "dequantize", stored, scale, zero_point)
        assert same_bits(back, difference * scale)


# Types and operands

TYPED = """
!t = !quant.uniform<i8:f32, 0.1:3>
!a = !quant.uniform<u8<1:254>:f32:1, {0.1:200, 0.2, 1.0e-38:5}>
!s = !quant.uniform<i4<-7:7>:f16:{0:2, 1:3}, {{0.1:2}, {0.3:-1}}>
!b = !quant.uniform<i8:bf16, 0.1>
!f = tensor<4x3xf32>
!h = tensor<4x3xf16>
func.func @f(%x: !f, %h: !h, %b: tensor<*xbf16>)
    -> (tensor<4x3x!t>, tensor<4x3x!a>, tensor<4x3x!s>, tensor<*x!b>) {
  %0 = quant.qcast %x {quant.nan = "stored-zero"} : !f to tensor<4x3x!t>
  %1 = quant.qcast %x : !f to tensor<4x3x!a>
  %2 = quant.qcast %h : !h to tensor<4x3x!s>
  %3 = quant.qcast %b : tensor<*xbf16> to tensor<*x!b>
  return %0, %1, %2, %3 : tensor<4x3x!t>, tensor<4x3x!a>, tensor<4x3x!s>, tensor<*x!b>
}
func.func @g(%t: tensor<4x3x!t>, %a: tensor<4x3x!a>, %s: tensor<4x3x!s>, %c: tensor<*x!b>)
    -> (!f, !f, !h, tensor<*xbf16>) {
  %0 = quant.dcast %t : tensor<4x3x!t> to !f
  %1 = quant.dcast %a : tensor<4x3x!a> to !f
  %2 = quant.dcast %s : tensor<4x3x!s> to !h
  %3 = quant.dcast %c : tensor<*x!b> to tensor<*xbf16>
  return %0, %1, %2, %3 : !f, !f, !h, tensor<*xbf16>
}"""


def test_to_dynamic_and_back():
    before = str(parse_module(TYPED))
    module = parse_module(TYPED)
    apply_passes(module, "quant-casts-to-dynamic")
    text = str(module)
    assert text.count("quant.dynamic_qcast") == text.count("quant.dynamic_dcast") == 4
    assert " quant.qcast" not in text
    values = [
        np.array(VALUES, FLOAT_DTYPES[dtype]).reshape(4, 3)
        for dtype in ("f32", "f16", "bf16")
    ]
    for mode in get_args(RoundingMode)[1:]:
        first, second = (
            run_function(m, "f", *values, rounding_mode=mode) for m in (before, module)
        )
        assert all(map(same_bits, first, second))
        back, again = (
            run_function(m, "g", *first, rounding_mode=mode) for m in (before, module)
        )
        assert all(map(same_bits, back, again))
    for passes in ("canonicalize", "quant-casts-from-dynamic,canonicalize"):
        module = parse_module(text)
        apply_passes(module, passes)
        assert str(module) == before


CODECS = """
!t = !quant.uniform<f8E4M3FN:f32, 0.1>
!a = !quant.uniform<f8E5M2<-100:100>:f32:1, {0.1, 0.2, 1.0e-38}>
!l = !quant.quantile<ui3:f16, {-1.0,-0.7,-0.5,-0.2,0.0,0.1,0.5,1.0}>
!n = !quant.uniform<!l:f32:{0:2, 1:3}, {{0.1}, {0.3}}>
!b = !quant.uniform<f4E2M1FN:bf16, 0.5>
func.func @f(%x: tensor<4x3xf32>, %b: tensor<*xbf16>)
    -> (tensor<4x3x!t>, tensor<4x3x!a>, tensor<4x3x!n>, tensor<*x!b>) {
  %0 = quant.qcast %x {quant.nan = "stored-zero"} : tensor<4x3xf32> to tensor<4x3x!t>
  %1 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!a>
  %2 = quant.qcast %x : tensor<4x3xf32> to tensor<4x3x!n>
  %3 = quant.qcast %b : tensor<*xbf16> to tensor<*x!b>
  return %0, %1, %2, %3 : tensor<4x3x!t>, tensor<4x3x!a>, tensor<4x3x!n>, tensor<*x!b>
}
func.func @g(%t: tensor<4x3x!t>, %a: tensor<4x3x!a>, %n: tensor<4x3x!n>, %c: tensor<*x!b>)
    -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<*xbf16>) {
  %0 = quant.dcast %t : tensor<4x3x!t> to tensor<4x3xf32>
  %1 = quant.dcast %a : tensor<4x3x!a> to tensor<4x3xf32>
  %2 = quant.dcast %n : tensor<4x3x!n> to tensor<4x3xf32>
  %3 = quant.dcast %c : tensor<*x!b> to tensor<*xbf16>
  return %0, %1, %2, %3 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<*xbf16>
}"""


def test_floats_and_tables_to_dynamic_and_back():
    before = str(parse_module(CODECS))
    module = parse_module(CODECS)
    apply_passes(module, "quant-casts-to-dynamic")
    text = str(module)
    assert text.count("quant.dynamic_qcast") == text.count("quant.dynamic_dcast") == 4
    x, b = (np.array(VALUES, FLOAT_DTYPES[t]).reshape(4, 3) for t in ("f32", "bf16"))
    first = run_function(before, "f", x, b)
    back = run_function(before, "g", *first)
    lowered = parse_module(text)
    apply_passes(lowered, "lower-quant-ops")
    for m in (text, lowered):
        results = run_function(m, "f", x, b)
        assert all(map(same_bits, results, first))
        assert all(map(same_bits, run_function(m, "g", *results), back))
    apply_passes(module, "canonicalize")
    assert str(module) == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_floats_and_tables_of_all_scales(layout: tuple[Any, ...]):
    """Negative, zero, infinite and NaN scales, interpreted, lowered and compiled."""
    shape, scale_shape, blocks = layout
    values, scales, _ = example("f32", "i8", shape, scale_shape)
    for storage, stored in (
        ("f8E4M3FN", "f8E4M3FN"),
        ("f4E2M1FN<-2:6>", "f4E2M1FN"),
        ("!quant.quantile<i2:f32, {0.5,-1.0,3.0,0.0}>", "i2"),
    ):
        x, i = (type_of(shape, e) for e in ("f32", stored))
        s = type_of(scale_shape, "f32")
        cast_text = f"{blocks} as <{storage}>"
        text = f"""
func.func @f(%x: {x}, %s: {s}) -> ({i}, {x}) {{
  %q = quant.dynamic_qcast %x, %s {cast_text} : {x}, {s} to {i}
  %y = quant.dynamic_dcast %q, %s {cast_text} : {i}, {s} to {x}
  return %q, %y : {i}, {x}
}}"""
        expected = run_function(text, "f", values, scales)
        lowered = parse_module(text)
        apply_passes(lowered, "lower-quant-ops")
        for results in (
            run_function(lowered, "f", values, scales),
            execution.compile(text)(values, scales),
        ):
            assert all(map(same_bits, map(np.asarray, results), expected))


@pytest.mark.parametrize("expressed", ["f16", "bf16", "f32", "f64"])
def test_scales_have_the_fewest_digits(expressed: str):
    """Of numbers with large exponents, too, for which a quotient has no exact divisor."""
    rng = np.random.default_rng(0)
    powers = (
        rng.integers(-4, 2, 50) if expressed == "f16" else rng.integers(-37, 30, 50)
    )
    digits = rng.integers(1, 4 if expressed in ("f16", "bf16") else 1000, 50)
    scales = [float(f"{d}e{p}") for d, p in zip(digits, powers, strict=True)]
    texts = ", ".join(f"{scale:e}" for scale in scales)
    type_ = f"tensor<50x!quant.uniform<i8:{expressed}:0, {{{texts}}}>>"
    module = parse_module(f"""
        func.func @f(%q: {type_}) -> tensor<50x{expressed}> {{
          %x = quant.dcast %q : {type_} to tensor<50x{expressed}>
          return %x : tensor<50x{expressed}>
        }}""")
    expected = str(module)
    apply_passes(module, "quant-casts-to-dynamic")
    assert "quant.dynamic_dcast" in str(module)
    apply_passes(module, "quant-casts-from-dynamic,canonicalize")
    assert str(module) == expected


def test_a_scale_that_f32_does_not_have():
    module = parse_module("""
        func.func @f(%x: tensor<2xf64>) -> tensor<2xi8> {
          %s = arith.constant 1.0e-300 : f64
          %q = quant.dynamic_qcast %x, %s as <i8> : tensor<2xf64>, f64 to tensor<2xi8>
          return %q : tensor<2xi8>
        }""")
    apply_passes(module, "quant-casts-from-dynamic")
    assert "!quant.uniform<i8:f64, 1.000000e-300>" in str(module)


def test_scales_with_nine_digits():
    type_ = "!quant.uniform<i8:f32, 1.07818046e-07>"
    module = parse_module(f"""
        func.func @f(%q: tensor<2x{type_}>) -> tensor<2xf32> {{
          %x = quant.dcast %q : tensor<2x{type_}> to tensor<2xf32>
          return %x : tensor<2xf32>
        }}""")
    before = str(module)
    apply_passes(module, "quant-casts-to-dynamic,quant-casts-from-dynamic,canonicalize")
    assert str(module) == before


@pytest.mark.parametrize(
    ("shape", "scales", "blocks", "expected"),
    [
        ("4x8", (2,), "{1:4}", "i8:f32:{1:4}, {{0.5:1, 0.25:2}}"),
        ("4x8", (1, 2), "{1:4}", "i8:f32:{1:4}, {{0.5:1, 0.25:2}}"),
        ("2x8", (2,), "{0:1}", "i8:f32:0, {0.5:1, 0.25:2}"),
        ("2x8", (2, 1), "{0:1}", "i8:f32:{0:1}, {{0.5:1}, {0.25:2}}"),
        ("?x8", (2, 1), "{0:1}", "i8:f32:{0:1}, {{0.5:1}, {0.25:2}}"),
        ("4x?x2x8", (2,), "{2:1}", "i8:f32:2, {0.5:1, 0.25:2}"),
        ("3x8", (1, 1), "", "i8:f32, 0.5:1"),
        ("3x8", (), "", "i8:f32, 0.5:1"),
        # The last block may be shorter.
        ("?x8", (2, 1), "{0:2}", None),
        ("?x8", (2, 1), "{0:3}", None),
    ],
)
def test_types_of_constants(
    shape: str, scales: tuple[int, ...], blocks: str, expected: str | None
):
    size = int(np.prod(scales, dtype=np.int64))
    numbers = np.array([0.5, 0.25])[:size].reshape(scales)
    zero_points = np.arange(1, size + 1).reshape(scales)
    element_types = "f32", "i8"
    tensors = [
        f"tensor<{'x'.join([*map(str, scales), each])}>" for each in element_types
    ]
    module = parse_module(f"""
        func.func @f(%x: tensor<{shape}xf32>) -> tensor<{shape}xi8> {{
          %s = arith.constant dense<{numbers.tolist()}> : {tensors[0]}
          %z = arith.constant dense<{zero_points.tolist()}> : {tensors[1]}
          %q = quant.dynamic_qcast %x, %s, %z {blocks} as <i8>
            : tensor<{shape}xf32>, {", ".join(tensors)} to tensor<{shape}xi8>
          return %q : tensor<{shape}xi8>
        }}""")
    apply_passes(module, "quant-casts-from-dynamic")
    if expected is None:
        assert "quant.dynamic_qcast" in str(module)
        return
    (cast,) = [op for op in module.walk() if op.name == "quant.qcast"]
    context = multiverse_context()
    type_ = f"tensor<{shape}x!quant.uniform<{expected}>>"
    assert cast.results[0].type == Parser(context, type_).parse_type()


@pytest.mark.parametrize(
    ("quantized", "container", "reason"),
    [
        (
            "fixed_point<i8:f32, 1610612736p-31>",
            "tensor<2x{}>",
            "has no floating-point scales",
        ),
        ("any<i8:f32>", "tensor<2x{}>", "has no scale"),
        (
            "uniform<i8:f32:0, {0.5, 0.25}>",
            "tensor<*x{}>",
            "is unranked, expected a ranked tensor",
        ),
        (
            "uniform<i8<-8:7>:bf16, 0.5:1>",
            "{}",
            "a wider float type, which holds all zero points",
        ),
        (
            "uniform<f8E5M2:f32, 0.5:1>",
            "tensor<2x{}>",
            "zero points of storage type 'f8E5M2' cannot be operands",
        ),
    ],
)
def test_types_that_stay(quantized: str, container: str, reason: str):
    type_ = f"!quant.{quantized}"
    expressed = "bf16" if "bf16" in quantized else "f32"
    text = f"""
func.func @f(%q: {container.format(type_)}) {{
  %x = quant.dcast %q : {container.format(type_)} to {container.format(expressed)}
  return
}}"""
    with pytest.raises(IRError) as error:
        apply_passes(parse_module(text), "quant-casts-to-dynamic")
    assert "'quant.dcast' op cannot be converted to a dynamic cast: " in str(
        error.value
    )
    assert f"{reason} (in the pass" in str(error.value)


@pytest.mark.parametrize(
    ("constants", "cast_text"),
    [
        ("%s = arith.constant -0.5 : f32", "%x, %s as <i8> : {x}, f32 to {i}"),
        ("%s = arith.constant 0.0 : f32", "%x, %s as <i8> : {x}, f32 to {i}"),
        ("%s = arith.constant 0x7FC00000 : f32", "%x, %s as <i8> : {x}, f32 to {i}"),
        (
            "%s = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>",
            "%x, %s {{0:4}} as <i8> : {x}, tensor<2xf32> to {i}",
        ),
        ("%z = arith.constant 1 : i8", "%x, %v, %z as <i8> : {x}, f32, i8 to {i}"),
    ],
)
def test_casts_that_stay(constants: str, cast_text: str):
    cast_text = cast_text.format(x="tensor<7xf32>", i="tensor<7xi8>")
    text = f"""
func.func @f(%x: tensor<7xf32>, %v: f32) -> tensor<7xi8> {{
  {constants}
  %q = quant.dynamic_qcast {cast_text}
  return %q : tensor<7xi8>
}}"""
    module = parse_module(text)
    before = str(module)
    apply_passes(module, "canonicalize")
    assert str(module) == before


def test_zeros_of_another_float_type_stay():
    text = """
func.func @f(%x: tensor<7x{e}>) -> tensor<7xi8> {{
  %s = arith.constant 0.5 : {e}
  %z = arith.constant 0 : i8
  %q = quant.dynamic_qcast %x, %s, %z as <i8> : tensor<7x{e}>, {e}, i8 to tensor<7xi8>
  return %q : tensor<7xi8>
}}"""
    for expressed, count in (("f32", 0), ("bf16", 1)):
        module = parse_module(text.format(e=expressed))
        apply_passes(module, "canonicalize")
        assert str(module).count("quant.dynamic_qcast") == count


# Errors and sizes


def test_sizes_at_run_time():
    text = text_of("f32", "i8", (4, 10), (3,), "{1:4}", True, dynamic=True)
    x = np.zeros((4, 10), np.float32)
    s, z = np.ones(2, np.float32), np.zeros(2, np.int8)
    with pytest.raises(
        InterpretationError, match=r"expected 3 scales for blocks of size 4 .* found 2"
    ):
        run_function(text, "quantize", x, s, z)
    module = parse_module(text)
    apply_passes(module, "lower-quant-ops{runtime-checks=true}")
    message = (
        "number of scales must be the size of dimension 1 divided by 4, rounded up"
    )
    with pytest.raises(InterpretationError, match=message):
        run_function(module, "quantize", x, s, z)
    s = np.ones(3, np.float32)
    message = "number of zero points must be"
    with pytest.raises(InterpretationError, match=message):
        run_function(module, "quantize", x, s, z)


def test_no_elements():
    text = text_of("f32", "i8", (4, 10), (4,), "{0:1}", True, dynamic=True)
    x = np.zeros((0, 10), np.float32)
    s, z = np.ones(0, np.float32), np.zeros(0, np.int8)
    (stored,) = run_function(text, "quantize", x, s, z)
    assert same_bits(stored, np.zeros((0, 10), np.int8))
    (back,) = run_function(text, "dequantize", stored, s, z)
    assert same_bits(back, x)


def test_unranked():
    text = """
func.func @f(%x: tensor<*xf32>, %s: f32) -> tensor<*xi8> {
  %q = quant.dynamic_qcast %x, %s as <i8> : tensor<*xf32>, f32 to tensor<*xi8>
  return %q : tensor<*xi8>
}"""
    x = np.array([[1, 2, 300]], np.float32)
    expected = np.array([[2, 4, 127]], np.int8)
    for fuse in ("false", "true"):
        module = parse_module(text)
        apply_passes(module, f"lower-quant-ops{{fuse={fuse}}}")
        for m in (text, module):
            (result,) = run_function(m, "f", x, np.float32(0.5))
            assert same_bits(result, expected)


def test_errors_of_lowering():
    text = text_of("f128", "i8", (), None, "", False)
    with pytest.raises(IRError, match="no constants of expressed type 'f128'"):
        apply_passes(parse_module(text), "lower-quant-ops")
    text = text_of("f32", "i8", (), None, "", False)
    text = text.replace("as <i8>", 'as <i8> {quant.nan = "none"}')
    with pytest.raises(CompilationError, match="unknown nan 'none'"):
        execution.compile(text, "quantize")


def test_locations():
    module = parse_module("""func.func @f(
        %q: tensor<?xi8>, %s: tensor<?xf32>, %z: tensor<?xi8>
    ) -> tensor<?xf32> {
      %y = quant.dynamic_dcast %q, %s, %z {0:1} as <i8>
        : tensor<?xi8>, tensor<?xf32>, tensor<?xi8> to tensor<?xf32>
      return %y : tensor<?xf32>
    }""")
    apply_passes(
        module, "lower-quant-ops{rounding-mode=nearest-even runtime-checks=true}"
    )
    *ops, _ = list(module.walk())[2:]
    assert {str(op.location) for op in ops} == {'loc("module":4:7)'}
