"""Requantizations become `tosa.rescale`, and are read from it, bit for bit."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import tosa
from xdsl.dialects.builtin import (
    ModuleOp,
    TensorType,
    UnknownLoc,
    f32,
    i1,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, Block
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.lowering.tosa_execution import executable, validated
from tests.unit.frontends.tosa.rescale_programs import Program, storage_range
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.frontends.tosa.quant_requantize_to_tosa import (
    QuantRequantizeToTosaPass,
    RequantizationToTosa,
)
from xdsl_quant.frontends.tosa.rescale import (
    INEXACT_ROUND,
    Rescale,
    constant,
)
from xdsl_quant.frontends.tosa.tosa_rescale_to_quant import (
    RescaleToQuant,
    TosaRescaleToQuantPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.transforms.building.builder import LoweringBuilder, element_type_of
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass

ROUNDINGS: tuple[ScaleRounding, ...] = ("single", "double")
ROUNDING_MODES = {"single": "SINGLE_ROUND", "double": "DOUBLE_ROUND"}
TYPES = [(8, False), (8, True), (16, False), (16, True), (32, False)]
"""Widths of stored values, and whether they are unsigned, in TOSA."""


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as mlir:
        yield mlir


def _values(program: Program, rows: int, seed: int) -> NDArray[Any]:
    """Stored values, the ends among them, in rows with a column for each channel."""
    low, high = storage_range(program.input_width, program.input_unsigned)
    rng = np.random.default_rng(seed)
    values = rng.integers(low, high + 1, (rows, program.last))
    zero_point = min(max(program.input_zp, low), high)
    for row, value in enumerate((low, high, zero_point)):
        values[row] = value
    return values


def _expected(program: Program, values: NDArray[Any]) -> list[list[int]]:
    return [
        [program.value(int(stored), channel) for channel, stored in enumerate(row)]
        for row in values
    ]


def _signless(values: NDArray[Any], width: int) -> NDArray[Any]:
    return values.astype(f"u{width // 8}").view(f"i{width // 8}")


def _computed(module: ModuleOp, program: Program, values: NDArray[Any]) -> list[Any]:
    """What a module of quantized or of lowered casts computes."""
    stored = _signless(values, program.input_width)
    (result,) = run_function(module, "main", stored)
    kind = "u" if program.output_unsigned else "i"
    return np.asarray(result).view(f"{kind}{program.output_width // 8}").tolist()


# Read


@st.composite
def programs(draw: st.DrawFn) -> Program:
    input_width, input_unsigned = draw(st.sampled_from(TYPES))
    output_width, output_unsigned = draw(st.sampled_from(TYPES))
    scale32 = draw(st.booleans())
    mode = draw(st.sampled_from(["SINGLE_ROUND", "DOUBLE_ROUND"])) if scale32 else None
    bits = 31 if scale32 else 15
    multipliers = st.one_of(
        st.integers(1 << (bits - 1), (1 << bits) - 1), st.integers(1, (1 << bits) - 1)
    )
    pairs = draw(
        st.lists(st.tuples(multipliers, st.integers(2, 62)), min_size=1, max_size=4)
    )
    return Program(
        [multiplier for multiplier, _ in pairs],
        [shift for _, shift in pairs],
        draw(st.integers(*storage_range(input_width, input_unsigned))),
        draw(st.integers(*storage_range(output_width, output_unsigned))),
        mode or "SINGLE_ROUND",
        input_width,
        output_width,
        input_unsigned,
        output_unsigned,
        scale32,
        "4x",
    )


@settings(deadline=None)
@given(programs(), st.sampled_from(ROUNDINGS))
@example(Program([1 << 29], [62], rounding_mode="DOUBLE_ROUND", shape="4x"), "double")
@example(Program([1 << 30, 4], [2, 62], shape="4x"), "single")
@example(Program([16384], [15], scale32=False, shape="4x"), "double")
@example(Program([16384], [20], scale32=False, shape="4x"), "double")
def test_casts_compute_what_the_rescale_computes(
    program: Program, option: ScaleRounding
):
    module = parse_module(str(program))
    before = str(module)
    try:
        TosaRescaleToQuantPass(option).apply(Context(), module)
    except PassFailedException:
        assert str(module) == before
        mode = ROUNDING_MODES[option]
        scales = [
            Fraction(m, 1 << s)
            for m, s in zip(program.multipliers, program.shifts, strict=True)
        ]
        is_double = "DOUBLE_ROUND" in (mode, program.rounding_mode)
        # Rounded once, all but the smallest scales are taken.
        assert is_double or min(scales) < Fraction(1, 1 << 60)
        # Rounded twice, so are all multipliers of 31 bits.
        assert program.rounding_mode != mode or min(program.multipliers) < 1 << 30
        return
    module.verify()
    assert "tosa" not in str(module)
    assert str(module).count("!quant.fixed_point") == 4
    values = _values(program, 4, sum(program.shifts))
    expected = _expected(program, values)
    if option == "single":
        assert _computed(module, program, values) == expected
    LowerQuantOpsPass(scale_rounding=option).apply(Context(), module)
    assert "quant.qcast" not in str(module)
    assert _computed(module, program, values) == expected


@pytest.mark.parametrize("option", ROUNDINGS)
def test_inexact_rounding_is_that_of_the_option(option: ScaleRounding):
    program = Program([1717986918], [34], rounding_mode="INEXACT_ROUND")
    modules = [
        parse_module(str(replace(program, rounding_mode=mode)))
        for mode in ("INEXACT_ROUND", ROUNDING_MODES[option])
    ]
    for module in modules:
        TosaRescaleToQuantPass(option).apply(Context(), module)
    assert str(modules[0]) == str(modules[1])


def _reason(text: str, option: ScaleRounding = "single") -> str:
    module = parse_module(text, "a.mlir")
    before = str(module)
    with pytest.raises(PassFailedException) as failure:
        TosaRescaleToQuantPass(option).apply(Context(), module)
    assert str(module) == before
    line = next(
        i for i, line in enumerate(text.split("\n"), 1) if "tosa.rescale" in line
    )
    start = f"a.mlir:{line}:3: error: 'tosa.rescale' op cannot be converted: "
    message = str(failure.value)
    assert message.startswith(start)
    assert "\n" not in message
    return message.removeprefix(start)


HALF = Program([1 << 30], [31])


@pytest.mark.parametrize(
    ("program", "option", "reason"),
    [
        (
            Program([1 << 30], [34], rounding_mode="DOUBLE_ROUND"),
            "single",
            "rounding mode DOUBLE_ROUND differs from scale-rounding=single; "
            "use scale-rounding=double",
        ),
        (
            Program([1 << 30], [34]),
            "double",
            "rounding mode SINGLE_ROUND differs from scale-rounding=double; "
            "use scale-rounding=single",
        ),
        (
            Program([1 << 29], [34], rounding_mode="DOUBLE_ROUND"),
            "double",
            "DOUBLE_ROUND depends on the normalization of multiplier 536870912; expected "
            "at least 1073741824",
        ),
        (
            Program([0], [31]),
            "single",
            "multiplier 0 is out of the range 1 to 2147483647",
        ),
        (
            Program([-5], [31], scale32=False),
            "single",
            "multiplier -5 is out of the range 1 to 32767",
        ),
        (Program([1 << 30], [1]), "single", "shift 1 is out of the range 2 to 62"),
        (Program([1 << 30], [63]), "single", "shift 63 is out of the range 2 to 62"),
        (
            Program([3], [62]),
            "single",
            "scale 6.505213034913027e-19 is too small for a ratio of fixed-point scales; "
            "expected at least 2**-60",
        ),
        (
            Program([1 << 14], [15], input_width=48, scale32=False),
            "single",
            "unsupported element width 48; expected at most 32 bits",
        ),
        (
            Program([1 << 14], [15], scale32=False, rounding_mode="DOUBLE_ROUND"),
            "double",
            "DOUBLE_ROUND requires scale32 = true",
        ),
    ],
)
def test_rescales_that_are_refused(
    program: Program, option: ScaleRounding, reason: str
):
    assert _reason(str(program), option) == reason


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("per_channel = false", "per_channel = true", "multiplier has 1 elements; "),
        ("2xi8", "0xi8", "a tensor of type 'tensor<0xi8>' has no elements"),
        (
            "2xi8",
            "2xf32",
            "unsupported element type 'f32'; expected a signless integer",
        ),
        (
            "2xi8",
            "2xui8",
            "unsupported element type 'ui8'; expected a signless integer",
        ),
    ],
)
def test_other_ops_that_are_refused(old: str, new: str, reason: str):
    assert _reason(str(HALF).replace(old, new)).startswith(reason)


def test_shapes_that_differ():
    head, arrow, tail = str(HALF).rpartition("-> tensor<2xi8>")
    text = (
        head + arrow.replace("2", "3") + tail.replace("%y : tensor<2", "%y : tensor<3")
    )
    text = text.replace(") -> tensor<2xi8> {", ") -> tensor<3xi8> {")
    assert _reason(text) == "types 'tensor<2xi8>' and 'tensor<3xi8>' differ in shape"


@pytest.mark.parametrize(
    ("index", "name", "width"),
    [(0, "multiplier", 32), (1, "shift", 8), (2, "input_zp", 8), (3, "output_zp", 8)],
)
def test_operands_that_are_no_constants(index: int, name: str, width: int):
    text = str(HALF).replace("(%x:", f"(%v: tensor<1xi{width}>, %x:")
    head, op, tail = text.partition("%y = tosa.rescale")
    text = head + op + tail.replace(f"%c{index}", "%v")
    assert _reason(text) == f"{name} is not constant; expected a 'tosa.const'"


@pytest.mark.parametrize("shape", ["", "3x?x"])
def test_channels_of_no_known_dimension(shape: str):
    text = str(HALF).replace("tensor<2xi8>", f"tensor<{shape}i8>")
    text = text.replace("per_channel = false", "per_channel = true")
    assert _reason(text) == (
        f"per_channel requires a static last dimension, got 'tensor<{shape}i8>'"
    )


@pytest.mark.parametrize("shape", ["", "?x?x"])
def test_other_shapes(shape: str):
    module = parse_module(str(HALF).replace("tensor<2xi8>", f"tensor<{shape}i8>"))
    TosaRescaleToQuantPass().apply(Context(), module)
    module.verify()
    values = np.array(-7, np.int8).reshape([1] * shape.count("x"))
    assert np.asarray(run_function(module, "main", values)[0]).tolist() == (
        np.full(values.shape, -3).tolist()
    )


def test_a_chain_keeps_each_clamp():
    """The second rescale is from the type that the first one is to, with ratio 1."""
    first = Program([3 << 29], [29], output_zp=5, shape="128x")
    second = Program([1 << 30], [30], input_zp=5, output_zp=-100, shape="128x")
    _, op, tail = str(second).partition("  %c0 =")
    body = (op + tail).replace("%c", "%d").replace("%y", "%z").replace("%x", "%y")
    text = str(first).partition("  return")[0] + body
    module = parse_module(text)
    TosaRescaleToQuantPass().apply(Context(), module)
    types = _cast_types(module)
    assert types[1][1] == types[2][0]
    values = np.arange(-128, 128, dtype=np.int8).reshape(-1, 2)
    expected = [
        [second.value(first.value(int(stored), 0), 0) for stored in row]
        for row in values
    ]
    assert _computed(module, first, values) == expected
    for options in (LowerQuantOpsPass(), LowerQuantOpsPass("nearest-even")):
        lowered = module.clone()
        options.apply(Context(), lowered)
        assert _computed(lowered, first, values) == expected


def test_reading_keeps_constants_that_are_used():
    text = str(HALF).replace(
        "  return", '  "test.op"(%c1) : (tensor<1xi8>) -> ()\n  return'
    )
    module = parse_module(text)
    TosaRescaleToQuantPass().apply(Context(), module)
    module.verify()
    assert str(module).count("tosa.const") == 1


# Written, and read again


def _type(
    program: Program, *, is_source: bool, scales: list[str], narrow: str = ""
) -> str:
    width = program.input_width if is_source else program.output_width
    is_unsigned = program.input_unsigned if is_source else program.output_unsigned
    zero_point = program.input_zp if is_source else program.output_zp
    elements = [f"{scale}:{zero_point}" for scale in scales]
    storage = f"{'u' if is_unsigned else 'i'}{width}{narrow}"
    if len(scales) == 1:
        return f"!quant.fixed_point<{storage}:f32, {elements[0]}>"
    return f"!quant.fixed_point<{storage}:f32:1, {{{','.join(elements)}}}>"


def _requantization(source: str, target: str, shape: str = "4x2x") -> str:
    """A function from stored values to stored values."""
    before, after = (
        f"i{type_.removeprefix('!quant.fixed_point<')[1:].split(':')[0].split('<')[0]}"
        for type_ in (source, target)
    )
    return f"""
func.func @main(%x: tensor<{shape}{before}>) -> tensor<{shape}{after}> {{
  %q = quant.scast %x : tensor<{shape}{before}> to tensor<{shape}{source}>
  %e = quant.dcast %q : tensor<{shape}{source}> to tensor<{shape}f32>
  %r = quant.qcast %e : tensor<{shape}f32> to tensor<{shape}{target}>
  %y = quant.scast %r : tensor<{shape}{target}> to tensor<{shape}{after}>
  return %y : tensor<{shape}{after}>
}}"""


@st.composite
def requantizations(draw: st.DrawFn) -> tuple[str, Program]:
    """Types that TOSA can requantize, but for the size of values, and what is computed."""
    (input_width, input_unsigned), (output_width, output_unsigned) = draw(
        st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)).filter(
            lambda pair: (
                not (pair[0][1] and pair[1][1])
                and not (pair[0][0] == 32 and pair[1][1])
                and not (pair[0][1] and pair[1][0] == 32)
            )
        )
    )

    def zero_point(width: int, is_unsigned: bool) -> int:
        if width == 8:
            return draw(st.integers(*storage_range(8, is_unsigned)))
        return draw(st.sampled_from([0, 32768])) if is_unsigned else 0

    # Values of 16 bits need shifts of 17, those of 32 bits 32.
    low = {8: 24, 16: 24, 32: 34}[input_width]
    scale = st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(low, 45))
    count = draw(st.sampled_from([1, 2]))
    sources = draw(st.lists(scale, min_size=count, max_size=count))
    count = draw(st.sampled_from([1, 2]))
    targets = draw(
        st.lists(
            st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(25, 32)),
            min_size=count,
            max_size=count,
        )
    )
    program = Program(
        [1, 1],
        [2, 2],
        zero_point(input_width, input_unsigned),
        zero_point(output_width, output_unsigned),
        "SINGLE_ROUND",
        input_width,
        output_width,
        input_unsigned,
        output_unsigned,
        shape="4x",
    )
    types = [
        _type(program, is_source=is_source, scales=[f"{m}p-{s}" for m, s in scales])
        for is_source, scales in ((True, sources), (False, targets))
    ]
    ratios = [
        _pair(Fraction(*_power(source)) / Fraction(*_power(target)))
        for source, target in zip(
            sources * (3 - len(sources)), targets * (3 - len(targets)), strict=True
        )
    ]
    multipliers, shifts = zip(*ratios, strict=True)
    program = replace(program, multipliers=multipliers, shifts=shifts)
    return _requantization(types[0], types[1]), program


def _power(scale: tuple[int, int]) -> tuple[int, int]:
    return scale[0], 1 << scale[1]


def _pair(ratio: Fraction) -> tuple[int, int]:
    """The multiplier of 31 bits and shift that are nearest to a number."""
    shift = 0
    while ratio * (1 << shift) < 1 << 30:
        shift += 1
    multiplier = int(ratio * (1 << shift) + Fraction(1, 2))
    return (multiplier, shift) if multiplier < 1 << 31 else (1 << 30, shift - 1)


def _cast_types(module: ModuleOp) -> list[tuple[Attribute, Attribute]]:
    """What values are dequantized from and to, and quantized from and to."""
    return [
        (op.input.type, op.result.type)
        for op in module.walk()
        if isinstance(op, DequantizeCastOp | QuantizeCastOp)
    ]


@settings(deadline=None)
@given(requantizations(), st.sampled_from(ROUNDINGS))
def test_types_go_to_tosa_and_back(
    requantization: tuple[str, Program], option: ScaleRounding
):
    text, program = requantization
    limits = [1 << (shift - 1) for shift in program.shifts]
    low, high = storage_range(program.input_width, program.input_unsigned)
    assume(min(limits) > max(high - program.input_zp, program.input_zp - low))
    module = parse_module(text)
    before = _cast_types(module)
    assert len(before) == 2
    QuantRequantizeToTosaPass(option).apply(Context(), module)
    module.verify()
    (op,) = [op for op in module.walk() if isinstance(op, tosa.RescaleOp)]
    assert op.rounding_mode.data == ROUNDING_MODES[option]
    assert "quant.qcast" not in str(module)
    assert "quant.dcast" not in str(module)
    multipliers, shifts = (
        [*constant.owner.values.get_values()]
        for constant in (op.multiplier, op.shift)
        if isinstance(constant.owner, tosa.ConstOp)
    )
    pairs = [*zip(program.multipliers, program.shifts, strict=True)]
    assert [*zip(multipliers, shifts, strict=True)] == (
        pairs if len({*pairs}) > 1 else pairs[:1]
    )
    # The types of the storage casts are the types again.
    TosaRescaleToQuantPass(option).apply(Context(), module)
    module.verify()
    assert _cast_types(module) == before
    values = _values(program, 4, sum(program.shifts))
    double = replace(program, rounding_mode=ROUNDING_MODES[option])
    LowerQuantOpsPass(scale_rounding=option).apply(Context(), module)
    assert _computed(module, double, values) == _expected(double, values)


def test_what_is_read_is_written_again():
    rng = np.random.default_rng(5)
    for index in range(20):
        count = 1 + index % 3
        option = ROUNDINGS[index % 2]
        input_zp, output_zp = rng.integers(-128, 128, 2).tolist()
        program = Program(
            rng.integers(1 << 30, 1 << 31, count).tolist(),
            rng.integers(10, 63, count).tolist(),
            input_zp,
            output_zp,
            ROUNDING_MODES[option],
            shape="4x",
        )
        module = parse_module(str(program))
        apply_passes(module, "canonicalize")
        before = str(module)
        TosaRescaleToQuantPass(option).apply(Context(), module)
        QuantRequantizeToTosaPass(option).apply(Context(), module)
        apply_passes(module, "canonicalize")
        assert _without_names(str(module)) == _without_names(before)


def _without_names(text: str) -> str:
    for index in range(4):
        text = text.replace(f"%c{index}", f"%{index}")
    return text


# Executed by MLIR


@pytest.mark.sampled(3)
@pytest.mark.parametrize("option", ROUNDINGS)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((8, False, 3), (8, False, -128)),
        ((8, True, 200), (8, False, 7)),
        ((16, False, 0), (8, True, 128)),
        ((16, True, 32768), (16, False, 0)),
        ((32, False, 0), (8, False, -1)),
        ((32, False, 0), (32, False, 0)),
        ((8, False, -128), (32, False, 0)),
    ],
)
def test_mlir_computes_the_same(
    mlir: Mlir,
    source: tuple[int, bool, int],
    target: tuple[int, bool, int],
    option: ScaleRounding,
):
    rng = np.random.default_rng(source[0])
    for count in (1, 5):
        program = Program(
            [1] * count,
            [2] * count,
            source[2],
            target[2],
            ROUNDING_MODES[option],
            *(source[0], target[0], source[1], target[1]),
            shape="400x",
        )
        multipliers = rng.integers(1 << 30, 1 << 31, count).tolist()
        shifts = rng.integers(32, 37, count).tolist()
        scales = [f"{m}p-{s}" for m, s in zip(multipliers, shifts, strict=True)]
        text = _requantization(
            _type(program, is_source=True, scales=scales),
            _type(program, is_source=False, scales=["1073741824p-30"]),
            f"400x{program.last}x",
        )
        program = replace(program, multipliers=multipliers, shifts=shifts)
        module = parse_module(text)
        apply_passes(module, [QuantRequantizeToTosaPass(option)])
        apply_passes(module, "canonicalize")
        assert isinstance(answer := validated(mlir, module), Accepted), answer
        values = _values(program, 400, count)
        stored = _signless(values, program.input_width)
        result: Any = executable(module)(stored)
        kind = "u" if program.output_unsigned else "i"
        computed = np.asarray(result).view(f"{kind}{program.output_width // 8}")
        assert computed.tolist() == _expected(program, values)


def test_mlir_clamps_to_a_narrower_range(mlir: Mlir):
    text = _requantization(
        "!quant.fixed_point<i8:f32, 1073741824p-30:3>",
        "!quant.fixed_point<i8<-127:100>:f32, 1073741824p-30:-5>",
    )
    module = parse_module(text)
    values = np.array([[-128, -119], [0, 107], [108, 109], [127, 3]], np.int8)
    (expected,) = run_function(module, "main", values)
    assert np.asarray(expected).tolist() == [
        [-127, -127],
        [-8, 99],
        [100, 100],
        [100, -5],
    ]
    apply_passes(module, "quant-requantize-to-tosa,canonicalize")
    assert isinstance(answer := validated(mlir, module), Accepted), answer
    result: Any = executable(module)(values)
    assert result.tolist() == np.asarray(expected).tolist()
    # What has been clamped is read as it is written.
    apply_passes(module, "tosa-rescale-to-quant")
    assert "tosa.clamp" in str(module)
    assert "i8:f32" in str(module)


@pytest.mark.sampled(0)
def test_pairs_that_mlir_rejects_are_refused(mlir: Mlir):
    """The rules of zero points and unsigned values are those that MLIR has."""
    for before in TYPES:
        for after in TYPES:
            for zero_points in ((0, 0), (1, 0), (0, 1), (32768, 0), (0, 32768)):
                bounds = zip(zero_points, (before, after), strict=True)
                if any(
                    not storage_range(*type_)[0] <= zp <= storage_range(*type_)[1]
                    for zp, type_ in bounds
                ):
                    continue
                program = Program(
                    [1 << 30],
                    [33],
                    *zero_points,
                    "SINGLE_ROUND",
                    *(before[0], after[0], before[1], after[1]),
                )
                is_valid = isinstance(validated_text(mlir, str(program)), Accepted)
                text = _requantization(
                    _type(program, is_source=True, scales=["1073741824p-33"]),
                    _type(program, is_source=False, scales=["1073741824p-30"]),
                )
                module = parse_module(text)
                try:
                    QuantRequantizeToTosaPass().apply(Context(), module)
                except PassFailedException:
                    assert not is_valid, text
                else:
                    assert is_valid, text


def validated_text(mlir: Mlir, text: str) -> Any:
    return validated(mlir, parse_module(text))


# What TOSA cannot express

A = "!quant.fixed_point<i8:f32, 1717986918p-34:10>"
B = "!quant.fixed_point<i8:f32, 1073741824p-32:-5>"


@pytest.mark.parametrize(
    ("source", "target", "shape", "reason"),
    [
        (
            A,
            B,
            "*x",
            "expected a ranked tensor, found type 'tensor<*x!quant.fixed_point<i8:f32, "
            "1073741824p-32:-5>>'",
        ),
        (A, B, "0x", "a tensor of type 'tensor<0x"),
        (
            A.replace("i8", "i4").replace(":10", ""),
            B,
            "2x",
            "unsupported storage type 'i4'; expected 8, 16 or 32 bits",
        ),
        (
            A.replace("i8", "u8"),
            B.replace("i8", "u8").replace("-5", "5"),
            "2x",
            "unsupported storage types 'u8' and 'u8'; tosa.rescale converts unsigned "
            "values of 8 or 16 bits only from or to signed values of 8 or 16 bits",
        ),
        (
            A.replace("i8", "u32"),
            B,
            "2x",
            "unsupported storage types 'u32' and 'i8'; tosa.rescale converts unsigned "
            "values of 8 or 16 bits only from or to signed values of 8 or 16 bits",
        ),
        (
            A,
            B.replace("i8:", "i32<-100:100>:"),
            "2x",
            "storage range -100 to 100 needs a tosa.clamp of 'i32', which is unsupported",
        ),
        (
            A,
            B.replace("i8", "u8<0:100>").replace("-5", "5"),
            "2x",
            "storage range 0 to 100 needs a tosa.clamp of 'u8', which is unsupported",
        ),
        (
            A.replace("i8", "i16"),
            B,
            "2x",
            "unsupported zero point 10 of 'i16'; expected 0",
        ),
        (
            A,
            B.replace("i8", "u16").replace("-5", "5"),
            "2x",
            "unsupported zero point 5 of 'u16'; expected 0 or 32768",
        ),
        (
            "!quant.fixed_point<i32:f32, 1073741824p-33>",
            B,
            "2x",
            "zero-point-corrected values from -2147483648 to 2147483647 are out of range "
            "for a shift of 31; expected -1073741824 to 1073741823, use a narrower storage "
            "range",
        ),
        (
            "!quant.fixed_point<i8:f32:0, {1073741824p-33,1073741824p-34}>",
            B,
            "2x3x",
            "scales vary along dimension 0; expected the last of 2 dimensions",
        ),
        (
            "!quant.fixed_point<i8:f32:1, {1073741824p-33:1,1073741824p-33:2}>",
            B,
            "3x2x",
            "zero points differ; expected a single zero point for all channels",
        ),
        (
            "!quant.fixed_point<i8:f32:1, {1073741824p-33,1073741824p-34}>",
            B,
            "3x?x",
            "the quantized dimension is dynamic; expected a static size",
        ),
        (
            "!quant.fixed_point<i8:f32, 1717986918p-30>",
            "!quant.fixed_point<i8:f32, 1073741824p-62>",
            "2x",
            "ratio of scales 1.599999999627471 / 2.3283064365386963e-10 is too large; "
            "expected less than 2**29",
        ),
    ],
)
def test_requantizations_that_are_refused(
    source: str, target: str, shape: str, reason: str
):
    text = f"""
func.func @main(%q: tensor<{shape}{source}>, %p: tensor<2x{A}>) {{
  %f = quant.dcast %p : tensor<2x{A}> to tensor<2xf32>
  %s = quant.qcast %f : tensor<2xf32> to tensor<2x{B}>
  %e = quant.dcast %q : tensor<{shape}{source}> to tensor<{shape}f32>
  %r = quant.qcast %e : tensor<{shape}f32> to tensor<{shape}{target}>
  return
}}"""
    module = parse_module(text, "a.mlir")
    before = str(module)
    with pytest.raises(PassFailedException) as failure:
        QuantRequantizeToTosaPass().apply(Context(), module)
    start = (
        "a.mlir:6:3: error: 'quant.qcast' op cannot be converted to 'tosa.rescale': "
    )
    assert str(failure.value).startswith(start + reason)
    assert str(module) == before


def test_a_scalar_is_refused():
    text = f"""func.func @main(%q: {A}) -> {B} {{
  %e = quant.dcast %q : {A} to f32
  %r = quant.qcast %e : f32 to {B}
  return %r : {B}
}}"""
    with pytest.raises(IRError, match=f"expected a ranked tensor, found type '{B}'"):
        apply_passes(parse_module(text), "quant-requantize-to-tosa")


@pytest.mark.parametrize(
    ("storage", "zero_point", "refused"),
    [
        ("i8", 0, None),
        ("u8", 128, None),
        ("i8", -1, "-127 to 128"),
        ("i8", 1, "-129 to 126"),
        ("u8", 127, "-127 to 128"),
        ("u8", 129, "-129 to 126"),
    ],
)
def test_values_that_a_shift_takes(storage: str, zero_point: int, refused: str | None):
    source = f"!quant.fixed_point<{storage}:f32, 1073741824p-10:{zero_point}>"
    module = parse_module(_requantization(source, B))
    if refused is None:
        apply_passes(module, "quant-requantize-to-tosa")
        assert "dense<8> : tensor<1xi8>" in str(module)
        return
    with pytest.raises(
        IRError,
        match=f"zero-point-corrected values from {refused} are out of range for a shift of "
        "8; expected -128 to 127,",
    ):
        apply_passes(module, "quant-requantize-to-tosa")


@pytest.mark.parametrize(("shape", "axis"), [("2x", 0), ("3x?x2x", 2)])
def test_channels_along_the_last_dimension(shape: str, axis: int):
    source = f"!quant.fixed_point<i8:f32:{axis}, {{1073741824p-33,1073741824p-34}}>"
    module = parse_module(_requantization(source, B, shape))
    apply_passes(module, "quant-requantize-to-tosa")
    assert "dense<[31, 32]> : tensor<2xi8>" in str(module)


def test_a_narrow_source_is_within_what_tosa_defines():
    text = _requantization(
        "!quant.fixed_point<i32<-1073741824:1073741823>:f32, 1073741824p-33>", B
    )
    module = parse_module(text)
    apply_passes(module, "quant-requantize-to-tosa")
    assert "tosa.rescale" in str(module)


def test_equal_scales_along_another_dimension_are_one():
    source = "!quant.fixed_point<i8:f32:0, {1073741824p-33:3,1073741824p-33:3}>"
    text = _requantization(source, B, "2x3x")
    module = parse_module(text)
    apply_passes(module, "quant-requantize-to-tosa")
    assert "per_channel = false" in str(module)


# What else uses the casts


def test_casts_that_are_no_requantization_stay():
    text = f"""
func.func @main(%q: tensor<2x{A}>, %x: tensor<2xf32>) -> tensor<2xf32> {{
  %e = quant.dcast %q : tensor<2x{A}> to tensor<2xf32>
  %r = quant.qcast %e : tensor<2xf32> to tensor<2x{B}>
  %s = quant.qcast %e : tensor<2xf32> to tensor<2x{B}>
  %t = quant.qcast %x : tensor<2xf32> to tensor<2x{B}>
  "test.op"(%r, %s, %t) : (tensor<2x{B}>, tensor<2x{B}>, tensor<2x{B}>) -> ()
  return %e : tensor<2xf32>
}}"""
    module = parse_module(text)
    apply_passes(module, "quant-requantize-to-tosa")
    assert str(module).count("tosa.rescale") == 2
    assert str(module).count("quant.dcast") == 1
    assert str(module).count("quant.qcast") == 1


def test_patterns_of_their_own():
    module = parse_module(_requantization(A, B))
    assert PatternRewriteWalker(RequantizationToTosa()).rewrite_module(module)
    assert "quant.dcast" not in str(module)
    module.verify()
    assert PatternRewriteWalker(RescaleToQuant()).rewrite_module(module)
    assert "tosa" not in str(module)
    module.verify()


@pytest.mark.parametrize(
    ("source", "storage", "shift", "zero_point"),
    [
        (A, "i8<-127:127>", 32, 5),
        (A, "u8", 32, 5),
        (A, "i8", 32, 7),
        # No rescale has so large a ratio of scales.
        ("!quant.fixed_point<i8:f32, 1073741824p-2:10>", "i8", 62, 5),
    ],
)
def test_types_around_a_rescale_that_have_another_meaning(
    source: str, storage: str, shift: int, zero_point: int
):
    """A type with other parameters or another range is not that of the result."""
    target = f"!quant.fixed_point<{storage}:f32, 1073741824p-{shift}:{zero_point}>"
    text = _requantization(A, B.replace("-5", "5"))
    module = parse_module(text)
    apply_passes(module, "quant-requantize-to-tosa")
    changed = str(module).replace(B.replace("-5", "5"), target).replace(A, source)
    module = parse_module(changed)
    apply_passes(module, "tosa-rescale-to-quant")
    assert "qcast" in str(module)
    assert f"-> tensor<4x2x{target}>" not in str(module)
    qcast = next(line for line in str(module).split("\n") if "quant.qcast" in line)
    assert "!quant.fixed_point<i8:f32, 1073741824p-30:5>" in qcast


def test_constants():
    builder = LoweringBuilder(InsertPoint.at_end(Block()), location=UnknownLoc())
    for values, element_type, expected in (
        ([[-128, 127]], i8, "dense<[[-128, 127]]> : tensor<1x2xi8>"),
        ([1.5, -2], f32, "dense<[1.5, -2.0]> : tensor<2xf32>"),
        ([False, True], i1, "dense<[false, true]> : tensor<2xi1>"),
    ):
        op = constant(builder, values, element_type).owner
        assert isinstance(op, tosa.ConstOp)
        assert op.values == Parser(Context(), expected).parse_attribute()
        op.verify()


@pytest.mark.parametrize("scale32", [True, False])
def test_what_is_built_is_read(scale32: bool):
    rescale = Rescale(
        np.array([1 << 14, 3]),
        np.array([20, 30]),
        input_zp=200,
        output_zp=-7,
        rounding_mode=INEXACT_ROUND,
        scale32=scale32,
        input_unsigned=True,
    )
    block = Block(arg_types=[TensorType(i8, [4, 2])])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    result_type = TensorType(i16, [4, 2])
    op = rescale.build(builder, block.args[0], result_type).owner
    assert isinstance(op, tosa.RescaleOp)
    op.verify()
    assert op.output.type == result_type
    assert element_type_of(op.multiplier) == (i32 if scale32 else i16)
    read = Rescale.of(op)
    assert {name: np.array(value).tolist() for name, value in vars(read).items()} == {
        name: np.array(value).tolist() for name, value in vars(rescale).items()
    }


def test_rescales_with_the_same_results():
    def rescale(*pairs: tuple[int, int], mode: str = "DOUBLE_ROUND") -> Rescale:
        multipliers, shifts = np.array(pairs).T
        return Rescale(multipliers, shifts, rounding_mode=tosa.RoundingMode(mode))

    whole, half = (1 << 30, 40), (1 << 29, 39)
    assert rescale(whole).has_results_of(rescale(whole))
    # The same scale, but rounded twice at other places.
    assert not rescale(whole).has_results_of(rescale(half))
    assert not rescale(whole).has_results_of(rescale((1 << 30, 39)))
    assert not rescale(whole).has_results_of(rescale((1 << 29, 40)))
    assert not rescale(whole, half).has_results_of(rescale(whole, whole))
    once = rescale(whole, mode="SINGLE_ROUND")
    assert once.has_results_of(rescale(half, mode="SINGLE_ROUND"))
    assert not once.has_results_of(rescale(whole))
    # A shift of up to 31 is rounded once in either mode.
    assert rescale((1 << 30, 31)).has_results_of(rescale((1 << 29, 30)))
    assert not rescale((1 << 30, 31)).has_results_of(rescale((1 << 29, 31)))
