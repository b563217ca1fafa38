"""Casts between types with fixed-point scales need integers only, however they are run."""

import re
from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Region
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.rewriter import InsertPoint
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from xdsl_quant.dialects.quant import Quant, QuantizedType
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import (
    QuantizationParameters,
    apply_scale,
    requantize_fixed_point,
)
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.transforms.building import fixed_point_arithmetic
from xdsl_quant.transforms.building.builder import LoweringBuilder, TensorwiseBuilder
from xdsl_quant.transforms.quant.lower_quant_ops import (
    LowerQuantCast,
    LowerQuantOpsPass,
)

STORAGES = ["i4", "u4", "i8", "u8", "i16", "i32", "u32", "i1"]
KINDS = [None, 0, 1]
"""The quantized dimension."""
SHAPE = (3, 4)
ROUNDINGS: tuple[ScaleRounding, ...] = ("single", "double")


def _parameters(text: str) -> QuantizationParameters:
    ctx = Context()
    ctx.load_dialect(Quant)
    quantized_type = Parser(ctx, text).parse_type()
    assert isinstance(quantized_type, QuantizedType)
    return QuantizationParameters.from_type(quantized_type)


def _storage(quantized_type: str) -> str:
    """The signless storage type."""
    match = re.match(r"!quant\.fixed_point<[iu]([0-9]+)", quantized_type)
    assert match
    return f"i{match[1]}"


def _range(storage: str) -> tuple[int, int]:
    width = int(storage[1:])
    if storage[0] == "u":
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _type(rng: np.random.Generator, storage: str, axis: int | None) -> str:
    """A random type. The wider it is, the smaller is its scale."""
    low, high = _range(storage)
    width = int(storage[1:])

    def element() -> str:
        multiplier = rng.integers(1 << 30, 1 << 31)
        shift = rng.integers(28, 32) + min(width, 24)
        return f"{multiplier}p-{shift}:{rng.integers(low, high + 1)}"

    if axis is None:
        return f"!quant.fixed_point<{storage}:f32, {element()}>"
    elements = ",".join(element() for _ in range(SHAPE[axis]))
    return f"!quant.fixed_point<{storage}:f32:{axis}, {{{elements}}}>"


def _pairs(seed: int) -> Iterator[tuple[str, str]]:
    """Types for all pairs of storages; all pairs of kinds are among them."""
    rng = np.random.default_rng(seed)
    kinds = cycle(product(KINDS, KINDS))
    for (source, target), (before, after) in zip(
        product(STORAGES, STORAGES), kinds, strict=False
    ):
        yield _type(rng, source, before), _type(rng, target, after)


def _some_pairs(seed: int, request: pytest.FixtureRequest) -> Sequence[tuple[str, str]]:
    """All pairs, or some that have each storage on both sides."""
    step = 1 if request.config.getoption("--all-cases") else 7
    return [*_pairs(seed)][::step]


def _requantization(index: int, source: str, target: str, shape: str) -> str:
    stored, quantized, expressed, result, restored = (
        f"tensor<{shape}{element}>"
        for element in (_storage(source), source, "f32", target, _storage(target))
    )
    return f"""
  %q{index} = quant.scast %x{index} : {stored} to {quantized}
  %e{index} = quant.dcast %q{index} : {quantized} to {expressed}
  %r{index} = quant.qcast %e{index} : {expressed} to {result}
  %y{index} = quant.scast %r{index} : {result} to {restored}"""


def _function(pairs: Sequence[tuple[str, str]], shape: str) -> str:
    """A function of stored values, with a requantization for each pair of types."""
    arguments = ", ".join(
        f"%x{i}: tensor<{shape}{_storage(source)}>"
        for i, (source, _) in enumerate(pairs)
    )
    results = ", ".join(f"tensor<{shape}{_storage(target)}>" for _, target in pairs)
    values = ", ".join(f"%y{i}" for i in range(len(pairs)))
    body = "".join(
        _requantization(i, source, target, shape)
        for i, (source, target) in enumerate(pairs)
    )
    return (
        f"func.func @f({arguments}) -> ({results}) {{{body}\n"
        f"  return {values} : {results}\n}}"
    )


def _values(
    rng: np.random.Generator, parameters: QuantizationParameters
) -> NDArray[Any]:
    low, high = _range(parameters.storage)
    values = rng.integers(low, high + 1, SHAPE)
    values.flat[:3] = (low, high, (low + high) // 2)
    return values.astype(parameters.storage_dtype)


def _signless(stored: NDArray[Any], storage: str) -> NDArray[Any]:
    """Stored values as arrays of the signless type have them: sign extended."""
    if storage in ("i1", "u1"):
        return stored.astype(np.bool_)
    width = int(storage[1:])
    signed = stored.view(f"i{stored.itemsize}")
    unused = 8 * stored.itemsize - width
    return signed << unused >> unused


def _lowered(text: str, lower: LowerQuantOpsPass) -> ModuleOp:
    module = parse_module(text)
    lower.apply(Context(), module)
    module.verify()
    CanonicalizePass().apply(multiverse_context(), module)
    module.verify()
    return module


# Results


def _results(
    pairs: Sequence[tuple[str, str]], seed: int, rounding: ScaleRounding
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Arguments for a function and its results, by the NumPy function."""
    rng = np.random.default_rng(seed)
    arguments: list[NDArray[Any]] = []
    results: list[NDArray[Any]] = []
    for source, target in pairs:
        before, after = _parameters(source), _parameters(target)
        values = _values(rng, before)
        result = requantize_fixed_point(values, before, after, rounding=rounding)
        arguments.append(_signless(values, before.storage))
        results.append(_signless(result, after.storage))
    return arguments, results


def _check(actual: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> None:
    for array, other in zip(actual, expected, strict=True):
        assert array.dtype == other.dtype
        assert array.tolist() == other.tolist()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", ["3x4x", "?x4x", "?x?x", "*x"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_interpreted(shape: str, rounding: ScaleRounding):
    pairs = [*_pairs(1)]
    arguments, expected = _results(pairs, 2, rounding)
    # Some, but not all of the results must be saturated.
    edges = [np.isin(array, [array.min(), array.max()]).mean() for array in expected]
    assert 0.1 < np.mean(edges) < 0.9
    text = _function(pairs, shape)
    lowered = _lowered(text, LowerQuantOpsPass(scale_rounding=rounding))
    _check(run_function(lowered, "f", *arguments), expected)
    if rounding == "single":
        _check(run_function(text, "f", *arguments), expected)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("shape", "rounding"), [("?x?x", "single"), ("3x4x", "double")]
)
def test_compiled(shape: str, rounding: ScaleRounding, request: pytest.FixtureRequest):
    pairs = _some_pairs(3, request)
    arguments, expected = _results(pairs, 4, rounding)
    module = parse_module(_function(pairs, shape))
    if rounding == "double":
        LowerQuantOpsPass(scale_rounding=rounding).apply(Context(), module)
    function = compile(module, "f")
    _check(function(*arguments), expected)


@pytest.mark.parametrize("storage", STORAGES)
def test_scalars(storage: str):
    rng = np.random.default_rng(5)
    source, target = _type(rng, storage, None), _type(rng, "i8", None)
    before, after = _parameters(source), _parameters(target)
    text = f"""
func.func @f(%q: {source}) -> {target} {{
  %e = quant.dcast %q : {source} to f32
  %r = quant.qcast %e : f32 to {target}
  return %r : {target}
}}"""
    lowered = _lowered(text, LowerQuantOpsPass())
    for value in _values(rng, before).ravel()[:5]:
        expected = requantize_fixed_point(value, before, after)
        for module in (text, lowered):
            (result,) = run_function(module, "f", value)
            assert result == expected


# No floats


def _has_floats(module: ModuleOp) -> bool:
    return re.search(r"\bb?f[0-9]|float|[0-9]\.[0-9]", str(module)) is not None


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("shape", "mode", "fuse", "rounding"),
    [
        ("3x4x", "truncate", False, "single"),
        ("?x?x", "nearest-even", True, "double"),
        ("*x", "nearest-away", False, "single"),
    ],
)
def test_no_float_is_left(
    shape: str,
    mode: Any,
    fuse: bool,
    rounding: ScaleRounding,
    request: pytest.FixtureRequest,
):
    text = _function(_some_pairs(6, request), shape)
    lowered = _lowered(text, LowerQuantOpsPass(mode, fuse, True, True, rounding))
    assert not _has_floats(lowered)
    assert "quant." not in str(lowered)
    # With floating-point scales there are floats.
    for name in ("quant.qcast", "quant.dcast"):
        assert name not in str(lowered)
    uniform = re.sub(
        r"!quant\.fixed_point<([^,]*),[^>]*>",
        lambda match: f"!quant.uniform<{match[1].split(':')[0]}:f32, 0.5>",
        text,
    )
    assert _has_floats(_lowered(uniform, LowerQuantOpsPass(mode, fuse, True, True)))


def test_a_chain_of_requantizations():
    types = [
        f"!quant.fixed_point<i8:f32, {(1 << 30) + i}p-{shift}:{i}>"
        for i, shift in enumerate((33, 31, 34, 33))
    ]
    lines = [f"  %q0 = quant.scast %x : tensor<4xi8> to tensor<4x{types[0]}>"]
    for i, (source, target) in enumerate(pairwise(types)):
        lines += [
            f"  %e{i} = quant.dcast %q{i} : tensor<4x{source}> to tensor<4xf32>",
            f"  %q{i + 1} = quant.qcast %e{i} : tensor<4xf32> to tensor<4x{target}>",
        ]
    lines.append(f"  %y = quant.scast %q3 : tensor<4x{types[3]}> to tensor<4xi8>")
    text = (
        "func.func @f(%x: tensor<4xi8>) -> tensor<4xi8> {\n"
        + "\n".join(lines)
        + "\n  return %y : tensor<4xi8>\n}"
    )
    values = np.array([-128, -3, 5, 127], np.int8)
    expected = values
    for source, target in pairwise(types):
        expected = requantize_fixed_point(
            expected, _parameters(source), _parameters(target)
        )
    direct = requantize_fixed_point(
        values, _parameters(types[0]), _parameters(types[3])
    )
    assert direct.tolist() != expected.tolist()
    kept = _lowered(text, LowerQuantOpsPass(keep_qdq=True))
    folded = _lowered(text, LowerQuantOpsPass())
    assert run_function(text, "f", values)[0].tolist() == expected.tolist()
    assert run_function(kept, "f", values)[0].tolist() == expected.tolist()
    assert not _has_floats(kept)
    # As for other types, a quantization that is undone at once is left out by default.
    assert run_function(folded, "f", values)[0].tolist() == direct.tolist()
    assert not _has_floats(folded)


# What else uses the casts

A = "!quant.fixed_point<i8:f32, 1717986918p-34:10>"
B = "!quant.fixed_point<i8:f32, 1073741824p-32:-5>"


def test_an_expressed_value_that_is_used_stays():
    text = f"""
func.func @f(%q: {A}) -> ({B}, f32, {B}) {{
  %e = quant.dcast %q : {A} to f32
  %r = quant.qcast %e : f32 to {B}
  %s = quant.qcast %e : f32 to {B}
  return %r, %e, %s : {B}, f32, {B}
}}"""
    lowered = _lowered(text, LowerQuantOpsPass("nearest-even"))
    assert str(lowered).count("arith.mulf") == 1
    assert str(lowered).count("arith.muli") == 2
    for module in (text, lowered):
        results = run_function(module, "f", np.int8(33))
        expected = requantize_fixed_point(33, _parameters(A), _parameters(B))
        assert results[0] == results[2] == expected
        assert results[1] == np.float32(1717986918 * 2.0**-34) * 23


def test_casts_at_the_border_are_those_of_the_same_floating_point_scale():
    text = f"""
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %q = quant.qcast %x : tensor<?xf32> to tensor<?x{A}>
  %y = quant.dcast %q : tensor<?x{A}> to tensor<?xf32>
  return %y : tensor<?xf32>
}}"""
    uniform = f"!quant.uniform<i8:f32, {1717986918 * 2.0**-34!r}:10>"
    for mode in ("truncate", "nearest-even", "nearest-away"):
        lower = LowerQuantOpsPass(mode, keep_qdq=True)
        lowered = _lowered(text, lower)
        assert str(lowered) == str(_lowered(text.replace(A, uniform), lower))
        assert "arith.divf" in str(lowered)
    values = np.linspace(-20, 20, 100).astype(np.float32)
    lowered = _lowered(text, LowerQuantOpsPass("nearest-even", keep_qdq=True))
    results = [
        run_function(module, "f", values)[0].tolist() for module in (text, lowered)
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("is_source", [False, True])
def test_mixed_casts_are_computed_with_floats(is_source: bool):
    uniform = "!quant.uniform<i8:f32, 0.25:-5>"
    source, target = (uniform, A) if is_source else (A, uniform)
    text = f"""
func.func @f(%q: {source}) -> {target} {{
  %e = quant.dcast %q : {source} to f32
  %r = quant.qcast %e : f32 to {target}
  return %r : {target}
}}"""
    lowered = _lowered(text, LowerQuantOpsPass("nearest-even"))
    assert "arith.divf" in str(lowered)
    results = [run_function(module, "f", np.int8(33)) for module in (text, lowered)]
    assert results[0] == results[1]


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_nothing_overflows(rounding: ScaleRounding):
    # The product is just below 2**63, and half of the divisor is added to it.
    low = -(1 << 31)
    pair = (
        f"!quant.fixed_point<i32:f32, 2147483647p-31:{low}>",
        "!quant.fixed_point<i32:f32, 1073741824p-2>",
    )
    before, after = map(_parameters, pair)
    values = np.array([low, -1, 0, (1 << 31) - 1], np.int32)
    expected = requantize_fixed_point(values, before, after, rounding=rounding)
    assert expected.tolist() == [0, 8, 8, 16]
    module = _lowered(
        _function([pair], "4x"), LowerQuantOpsPass(scale_rounding=rounding)
    )
    assert run_function(module, "f", values)[0].tolist() == expected.tolist()
    assert compile(module, "f")(values).tolist() == expected.tolist()


def test_a_pattern_of_its_own():
    module = parse_module(_function([*_pairs(7)][:9], "3x4x"))
    walker = PatternRewriteWalker(LowerQuantCast("nearest-even"))
    assert walker.rewrite_module(module)
    module.verify()
    CanonicalizePass().apply(multiverse_context(), module)
    assert not _has_floats(module)


@pytest.mark.parametrize("count", [2, 4, 6])
@pytest.mark.parametrize("keep_qdq", [False, True])
def test_casts_in_a_ring(count: int, keep_qdq: bool):
    """In a graph region casts may be each other's operands."""
    lines = [
        f"%{i} = quant.qcast %{(i + 1) % count} : f32 to {A}"
        if i % 2 == 0
        else f"%{i} = quant.dcast %{(i + 1) % count} : {A} to f32"
        for i in range(count)
    ]
    module = parse_module("\n".join(lines))
    LowerQuantOpsPass(keep_qdq=keep_qdq).apply(Context(), module)
    module.verify()
    assert "quant.dcast" not in str(module)
    assert "quant.qcast" not in str(module)


@pytest.mark.parametrize("keep_qdq", [False, True])
def test_a_cast_before_its_operand(keep_qdq: bool):
    """In a graph region it is lowered first."""
    module = parse_module(
        f"""
%r = quant.qcast %e : f32 to {B}
%e = quant.dcast %q : {A} to f32
%q = "test.op"() : () -> {A}"""
    )
    LowerQuantOpsPass(keep_qdq=keep_qdq).apply(Context(), module)
    assert "arith.muli" in str(module)
    assert not re.search(r"arith\.\w+f\b", str(module))


@pytest.mark.parametrize("expressed", ["f80", "f128", "bf16", "f8E5M2", "f64"])
def test_the_expressed_type_does_not_matter(expressed: str):
    text = _function([(A, B)], "2x").replace("f32", expressed)
    values = np.array([-7, 33], np.int8)
    expected = requantize_fixed_point(values, _parameters(A), _parameters(B)).tolist()
    lowered = _lowered(text, LowerQuantOpsPass())
    assert run_function(lowered, "f", values)[0].tolist() == expected


def test_encodings():
    source, target = f'tensor<2x{A}, "a">', f'tensor<2x{B}, "b">'
    text = f"""
func.func @f(%q: {source}) -> {target} {{
  %e = quant.dcast %q : {source} to tensor<2xf32, "c">
  %r = quant.qcast %e : tensor<2xf32, "c"> to {target}
  return %r : {target}
}}"""
    lowered = str(_lowered(text, LowerQuantOpsPass()))
    assert '-> tensor<2xi8, "b">' in lowered
    assert '"c"' not in lowered


def test_quantized_signatures():
    text = f"""
func.func @f(%q: tensor<2x{A}>) -> tensor<2x{B}> {{
  %e = quant.dcast %q : tensor<2x{A}> to tensor<2xf32>
  %r = quant.qcast %e : tensor<2xf32> to tensor<2x{B}>
  return %r : tensor<2x{B}>
}}"""
    values = np.array([-7, 33], np.int8)
    expected = requantize_fixed_point(values, _parameters(A), _parameters(B)).tolist()
    assert run_function(text, "f", values)[0].tolist() == expected
    assert compile(text, "f")(values).tolist() == expected


def test_assertions():
    source = "!quant.fixed_point<i8:f32:0, {1073741824p-30,1073741824p-31}>"
    target = (
        "!quant.fixed_point<i8:f32:1, {1073741824p-30,1073741824p-31,1073741824p-29}>"
    )
    lower = LowerQuantOpsPass(runtime_checks=True)
    messages = re.compile(r'cf\.assert %\w+, "(.*)"')
    sizes = [
        "size of dimension 0 must be 2: the number of scales",
        "size of dimension 1 must be 3: the number of scales",
    ]
    ranked = _lowered(_function([(source, target)], "?x?x"), lower)
    assert messages.findall(str(ranked)) == sizes
    unranked = _lowered(_function([(source, target)], "*x"), lower)
    assert messages.findall(str(unranked)) == [
        "rank must be greater than 1: the last quantized dimension",
        *sizes,
    ]


# What cannot be lowered

SMALL = "!quant.fixed_point<i8:f32, 1073741824p-62>"
LARGE = "!quant.fixed_point<i8:f32, 1717986918p-30>"


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (
            LARGE,
            SMALL,
            "ratio of scales 1.599999999627471 / 2.3283064365386963e-10 is too large; "
            "expected less than 2**29",
        ),
        (
            "!quant.fixed_point<i8:f32:0, {1073741824p-30,1073741824p-30}>",
            "!quant.fixed_point<i8:f32:0, {1073741824p-30}>",
            "dimension 0 has 2 scales in the source type and 1 in the target type",
        ),
    ],
)
def test_types_that_do_not_fit(source: str, target: str, reason: str):
    text = "\n" + _function([(A, B), (source, target)], "?x?x")
    module = parse_module(text, "a.mlir")
    before = str(module)
    with pytest.raises(PassFailedException) as failure:
        LowerQuantOpsPass().apply(Context(), module)
    line = next(i for i, line in enumerate(text.split("\n"), 1) if "%r1" in line)
    assert str(failure.value) == (
        f"a.mlir:{line}:3: error: 'quant.qcast' op cannot be lowered: {reason}"
    )
    assert str(module) == before


def test_what_is_left_once_casts_are_folded_is_checked():
    """Only then is it a requantization."""
    uniform = "!quant.uniform<i8:f32, 1.0>"
    module = parse_module(
        f"""func.func @f(%q: {LARGE}) -> {SMALL} {{
  %e = quant.dcast %q : {LARGE} to f32
  %u = quant.qcast %e : f32 to {uniform}
  %d = quant.dcast %u : {uniform} to f32
  %r = quant.qcast %d : f32 to {SMALL}
  return %r : {SMALL}
}}""",
        "a.mlir",
    )
    before = str(module)
    with pytest.raises(PassFailedException, match=r"ratio of scales .* is too large"):
        LowerQuantOpsPass().apply(Context(), module)
    assert str(module) == before


def test_a_ratio_that_is_too_large_is_not_interpreted_either():
    text = _function([(LARGE, SMALL)], "1x")
    with pytest.raises(
        InterpretationError, match=r"^module:.*: error: 'quant.qcast' op "
    ):
        run_function(text, "f", np.array([1], np.int8))


# Arithmetic


def _arithmetic(
    rounding: ScaleRounding,
    shape: Sequence[int] | None,
    shifts: Sequence[int] | None = None,
) -> ModuleOp:
    """
    A function that applies scales, to scalars or with ops on whole tensors; `shifts` are
    those of a constant tensor.
    """
    type_: Attribute = i64 if shape is None else TensorType(i64, shape)
    block = Block(arg_types=[type_] * 3)
    module = ModuleOp([])
    end = InsertPoint.at_end(block)
    builder = (
        LoweringBuilder(end, location=module.location)
        if shape is None
        else TensorwiseBuilder(
            end,
            location=module.location,
            container=TensorType(i64, shape),
            dynamic_sizes=(),
        )
    )
    value, multiplier, shift = block.args
    if shifts is not None:
        dense = DenseIntOrFPElementsAttr.from_list(TensorType(i64, shape or ()), shifts)
        shift = builder.constant(dense, dense.type)
    scaled = fixed_point_arithmetic.apply_scale(
        builder, value, multiplier, shift, rounding
    )
    result = fixed_point_arithmetic.clamp_and_truncate(
        builder, scaled, -(1 << 31), (1 << 31) - 1, IntegerType(32)
    )
    block.add_op(func.ReturnOp(result))
    function = func.FuncOp("f", ([type_] * 3, [result.type]), Region(block))
    module.body.block.add_op(function)
    module.verify()
    return module


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_apply_scale(rounding: ScaleRounding):
    rng = np.random.default_rng(8)
    shifts = np.arange(2, 63).repeat(20)
    bounds = np.minimum(np.left_shift(1, shifts - 1), 1 << 31)
    values = rng.integers(-bounds, bounds)
    multipliers = rng.integers(0, 1 << 31, values.size)
    expected = apply_scale(values.astype(np.int32), multipliers, shifts, rounding)
    arguments = (values, multipliers, shifts)
    tensors = _arithmetic(rounding, [values.size])
    assert run_function(tensors, "f", *arguments)[0].tolist() == expected.tolist()
    assert compile(tensors, "f")(*arguments).tolist() == expected.tolist()
    scalars = _arithmetic(rounding, None)
    for i in range(0, values.size, 50):
        (result,) = run_function(scalars, "f", *(array[i] for array in arguments))
        assert result == expected[i]
    constant = _arithmetic(rounding, [values.size], shifts.tolist())
    assert run_function(constant, "f", *arguments)[0].tolist() == expected.tolist()
